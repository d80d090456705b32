/* SPDX-License-Identifier: MIT */
/* The tests of unit/litmus.c on a GPU, whose side is litmus.cu. */
#define LITMUS_ON_GPU 1

#include "../unit/litmus.c"
