/* SPDX-License-Identifier: MIT */
/*
 * The kernel of crash.c where there is no CUDA: its host function alone.
 *
 * DESIGN
 * crash_kernel.cu defines the same kernel for the host device and for CUDA; a
 * build links one of the two.
 */
#include "crash.h"

RNL_HOST_KERNEL(crash_kernel, crash_grid, struct crash_args);
