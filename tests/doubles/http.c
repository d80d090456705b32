/* SPDX-License-Identifier: MIT */
/*
 * The kernels of examples/http_server for the double of the CUDA runtime: its streams call host
 * functions; the kernel with the illegal address makes the device fail.
 */
#include <cuda_runtime_api.h>

#include <runnel/kernel.h>

#include "examples/gwc/count.h"
#include "examples/http_server/kernels.h"
#include "double_kernel.h"

static void crash_on_double(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	(void)args;
	fake_fail_sticky(cudaErrorIllegalAddress);
}

DOUBLE_KERNEL(crash_kernel, crash_grid, crash_on_double, struct crash_args);
DOUBLE_KERNEL(gwc_kernel, gwc_count_grid, gwc_count_grid, struct gwc_args);
DOUBLE_KERNEL(pictures_kernel, pictures_grid, pictures_grid, struct pictures_args);
DOUBLE_KERNEL(sobel_kernel, sobel_grid, sobel_grid, struct sobel_args);
