/* SPDX-License-Identifier: MIT */
/* The random graphs of stress_dag.c, with kernels on the GPU. */
#include "stress_dag.c"
