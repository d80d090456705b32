/* SPDX-License-Identifier: MIT */
/*
 * The device's clock: a kernel writes the time to pinned memory, in the order of its stream.
 *
 * A CUDA device reads its register globaltimer, which counts nanoseconds and is shared by all
 * multiprocessors.  The host device reads CLOCK_MONOTONIC.  An example defines the kernel with
 * CLOCK_KERNEL, in its device.cu and device.c.
 */
#ifndef EXAMPLES_CLOCK_H
#define EXAMPLES_CLOCK_H

#include <stdint.h>

#include <runnel.h>
#include <runnel/kernel.h>

#include "shared.h"

struct clock_args {
	uint64_t *ns;
};

SHARED_BEGIN
extern const struct rnl_kernel clock_kernel;
SHARED_END

/* Writes the device's time to pinned memory.  Called in a job.  Returns like rnl_launch(). */
static inline int clock_write(uint64_t *ns)
{
	const struct rnl_dim one = { 1, 1, 1 };
	const struct clock_args args = { ns };

	return rnl_launch(&clock_kernel, one, one, &args);
}

static inline void clock_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	*((const struct clock_args *)args)->ns = (uint64_t)rnl_clock();
}

#ifdef __CUDACC__
static __device__ __forceinline__ uint64_t clock_now(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

#define CLOCK_KERNEL \
	static __global__ void clock_on_cuda(const struct clock_args args) \
	{ \
		*args.ns = clock_now(); \
	} \
	RNL_KERNEL(clock_kernel, clock_on_host, clock_on_cuda, struct clock_args)
#else
#define CLOCK_KERNEL RNL_HOST_KERNEL(clock_kernel, clock_on_host, struct clock_args)
#endif

#endif /* EXAMPLES_CLOCK_H */
