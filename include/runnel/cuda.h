/* SPDX-License-Identifier: MIT */
/*
 * CUDA code: what must be compiled into the program's own CUDA units.
 *
 * A program usually has a CUDA runtime of its own, because nvcc links the runtime statically. Only
 * the runtime that a kernel is registered in can launch the kernel, and only the runtime that tried
 * a launch knows that it failed. So this header defines two things in the unit that has the kernel
 * or the job: the function that launches the kernel, and the check of the job's CUDA calls. Streams
 * and events belong to the driver and work with every runtime.
 *
 * It is for .cu units, and for C and C++ units that call the CUDA runtime.
 */
#ifndef RUNNEL_CUDA_H
#define RUNNEL_CUDA_H

#include <cuda_runtime_api.h>
#include <runnel.h>

/*
 * Without per-thread default streams, stream 0 is the legacy default stream, and one call on it
 * joins the streams of all workers. The compiler must set the flag, because the runtime's header
 * may be included before this one.
 */
#ifndef __CUDART_API_PER_THREAD_DEFAULT_STREAM
#error "runnel needs per-thread default streams: compile this unit with\
 nvcc --default-stream per-thread, or, if the C or C++ compiler compiles it,\
 with -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"
#endif

/*
 * 1: each CUDA call and <<<...>>> of this unit that takes a stream names rnl_stream(), or the unit
 * uses only rnl_copy() and its siblings. 0: some use stream 0. Where the pool has per-thread
 * streams, both mean one stream. A pool of private streams refuses the jobs, maps and batchers of a
 * unit that does not say 1, because nobody would wait for work on stream 0. Say it before the
 * header is included:
 *
 *	#define RNL_NAMES_STREAM 1
 *	#include <runnel/cuda.h>
 *
 * Since: 0.1
 */
#ifndef RNL_NAMES_STREAM
#define RNL_NAMES_STREAM 0	/* 1: each CUDA call of this unit names rnl_stream() */
#endif

/* Returns and clears the last CUDA error of the calling thread in this unit's runtime. */
static inline int rnl_cuda_check(int ask)
{
	if (ask == RNL_UNIT_NAMES_STREAM)
		return RNL_NAMES_STREAM;
#ifdef __cplusplus
	return static_cast<int>(cudaGetLastError());
#else
	return (int)cudaGetLastError();
#endif
}

/*
 * Replaces rnl_job_init() in this unit. If a CUDA call or a <<<...>>> in the job's function fails,
 * the job fails, even if the function returns 0. The job's result is the errno for CUDA's code, and
 * rnl_job_device_error() has the code.
 * Since: 0.1
 */
static inline int rnl_cuda_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	int ret = rnl_job_init(job, fn);

	if (!ret)
		job->check = rnl_cuda_check;
	return ret;
}
#define rnl_job_init(job, fn) rnl_cuda_job_init(job, fn)

/*
 * Replaces rnl_map_start() in this unit. If a CUDA call or a <<<...>>> in the map's function fails,
 * the map ends.
 * Since: 0.1
 */
static inline int rnl_cuda_map_start(struct rnl_pool *pool, const struct rnl_map *map,
				     struct rnl_barrier *barrier)
{
	struct rnl_map checked;

	if (!map || map->size != sizeof(checked))
		return rnl_map_start(pool, map, barrier);
	checked = *map;
	checked.check = rnl_cuda_check;
	return rnl_map_start(pool, &checked, barrier);
}
#define rnl_map_start(pool, map, barrier) rnl_cuda_map_start(pool, map, barrier)

/*
 * Replaces rnl_batcher_create() in this unit. If a CUDA call or a <<<...>>> in the batcher's
 * function fails, the error is the result of the batch's requests.
 * Since: 0.1
 */
static inline int rnl_cuda_batcher_create(struct rnl_batcher **batcherp, struct rnl_pool *pool,
					  const struct rnl_batcher_attr *attr)
{
	struct rnl_batcher_attr checked;

	if (!attr || attr->size != sizeof(checked))
		return rnl_batcher_create(batcherp, pool, attr);
	checked = *attr;
	checked.check = rnl_cuda_check;
	return rnl_batcher_create(batcherp, pool, &checked);
}
#define rnl_batcher_create(batcherp, pool, attr) rnl_cuda_batcher_create(batcherp, pool, attr)

#ifdef __CUDACC__
/*
 * Defines `const struct rnl_kernel NAME` for every device, with C linkage and hidden visibility.
 * @host_fn: the field host of struct rnl_kernel; may be NULL.
 * @cuda_fn: a __global__ function that takes one args_type by value.
 * Since: 0.1
 */
#define RNL_KERNEL(kernel_name, host_fn, cuda_fn, args_type) \
	static int kernel_name##__launch(struct rnl_dim grid, struct rnl_dim block, \
					 const void *args, void *stream) \
	{ \
		void (*const typed)(args_type) = cuda_fn; \
		void *argv[] = { const_cast<void *>(args) }; \
		return static_cast<int>(cudaLaunchKernel( \
			reinterpret_cast<const void *>(typed), dim3(grid.x, grid.y, grid.z), \
			dim3(block.x, block.y, block.z), argv, 0, \
			static_cast<cudaStream_t>(stream))); \
	} \
	static int kernel_name##__function(void **functionp) \
	{ \
		void (*const typed)(args_type) = cuda_fn; \
		return static_cast<int>(cudaGetFuncBySymbol( \
			reinterpret_cast<cudaFunction_t *>(functionp), \
			reinterpret_cast<const void *>(typed))); \
	} \
	extern "C" __attribute__((visibility("hidden"))) const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##__launch, \
		kernel_name##__function \
	}
#endif /* __CUDACC__ */

#endif /* RUNNEL_CUDA_H */
