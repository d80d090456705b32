/* SPDX-License-Identifier: MIT */
/*
 * The kernel of edges where there is no CUDA: its host function alone.
 *
 * DESIGN
 * sobel_kernel.cu defines the same kernel for the host device and for CUDA; a
 * build links one of the two.
 */
#include "sobel.h"

RNL_HOST_KERNEL(sobel_kernel, sobel_grid, struct sobel_args);
