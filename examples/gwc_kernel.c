/* SPDX-License-Identifier: MIT */
/*
 * The counting kernel where there is no CUDA: its host function alone.
 *
 * DESIGN
 * gwc_kernel.cu defines the same kernel for the host device and for CUDA; a
 * build links one of the two.
 */
#include "gwc_count.h"

RNL_HOST_KERNEL(gwc_kernel, gwc_count_grid, struct gwc_args);
