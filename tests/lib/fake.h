/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of the double of the CUDA runtime. */
#ifndef FAKE_H
#define FAKE_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <runnel/kernel.h>

#include "fake_cudart/fake_cudart.h"
#include "host_kernel.h"

#define KB 1024u
#define ck_cuda(call) ck_assert_int_eq((int)(call), (int)cudaSuccess)
#define ck_refused(call, code) \
	do { \
		ck_assert_int_eq((int)(call), (int)(code)); \
		ck_assert_int_eq((int)cudaGetLastError(), (int)(code)); \
		ck_assert_int_eq((int)cudaGetLastError(), (int)cudaSuccess); \
	} while (0)
/* Checks that a call returns "not ready", and that this does not set the last error. */
#define ck_not_ready(call) \
	do { \
		ck_assert_int_eq((int)(call), (int)cudaErrorNotReady); \
		ck_assert_int_eq((int)cudaGetLastError(), (int)cudaSuccess); \
	} while (0)
/* Like ck_refused(); also checks that the call was counted as a misuse. */
#define ck_misused(call, code) \
	do { \
		uint64_t misuses_ = fake_misuses(); \
		ck_refused(call, code); \
		ck_assert_uint_eq(fake_misuses(), misuses_ + 1); \
	} while (0)

#define own cudaStreamPerThread

static inline cudaStream_t stream_of(unsigned flags)
{
	cudaStream_t stream;

	ck_cuda(cudaStreamCreateWithFlags(&stream, flags));
	return stream;
}

static inline cudaEvent_t event_of(unsigned flags)
{
	cudaEvent_t event;

	ck_cuda(cudaEventCreateWithFlags(&event, flags));
	return event;
}

/* Launches a kernel that waits at the gate, if any, then stores. */
static inline cudaError_t hold(cudaStream_t stream, struct gate *gate, int *word, int value)
{
	const struct rnl_dim one = { 1, 1, 1 };
	const struct gated_store args = { gate, word, value };

	return (cudaError_t)fake_launch(gated_store_host, one, one, &args, sizeof(args), stream);
}

static inline cudaMemPool_t pool_of_device(bool keeps)
{
	const struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice, .id = 0 },
	};
	cuuint64_t keep = UINT64_MAX;
	cudaMemPool_t pool;
	int no = 0;

	ck_cuda(cudaMemPoolCreate(&pool, &props));
	ck_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no));
	if (keeps)
		ck_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	return pool;
}

static inline char *device_of(cudaMemPool_t pool, size_t bytes, cudaStream_t stream)
{
	void *mem = NULL;

	ck_cuda(cudaMallocFromPoolAsync(&mem, bytes, pool, stream));
	ck_assert_ptr_nonnull(mem);
	return mem;
}

static inline char *pinned_of(size_t bytes)
{
	void *mem = NULL;

	ck_cuda(cudaHostAlloc(&mem, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
	ck_assert_ptr_nonnull(mem);
	return mem;
}

static inline struct fake_alive alive(void)
{
	struct fake_alive now;

	fake_alive(&now);
	return now;
}

#endif /* FAKE_H */
