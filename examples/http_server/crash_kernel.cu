/* SPDX-License-Identifier: MIT */
/*
 * The kernel of crash.c for CUDA, and beside it, in the same object, its host function.
 */
#include <runnel/cuda.h>

#include "crash.h"

static __global__ void crash_write_to(const struct crash_args args)
{
	*(volatile uint32_t *)args.where = 1;
}

RNL_KERNEL(crash_kernel, crash_grid, crash_write_to, struct crash_args);
