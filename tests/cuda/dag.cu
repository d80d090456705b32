/* SPDX-License-Identifier: MIT */
/* The random graphs of stress/dag.c, with kernels on the GPU. */
#include "../stress/dag.c"
