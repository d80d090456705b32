/* SPDX-License-Identifier: MIT */
/*
 * What must be compiled into the application's own CUDA code.
 *
 * An application usually has a copy of the CUDA runtime of its own: nvcc links
 * it statically.  A kernel can only be launched by the copy that it is
 * registered in, and a failed launch is only seen by the copy that tried it.
 * So the launcher of a kernel and the check of a job's own CUDA calls are made
 * here, in the unit that holds the kernel or the job.  Streams and events are
 * the driver's and work across copies.
 *
 * Works in .cu units and in C and C++ units that call the CUDA runtime.
 */
#ifndef RUNNEL_CUDA_H
#define RUNNEL_CUDA_H

#include <cuda_runtime_api.h>
#include <runnel.h>

/*
 * Without per-thread default streams, stream 0 is the legacy default stream,
 * and one call on it joins the streams of all workers.  The runtime's header
 * has decided by now, so a #define in the unit would come too late.
 */
#ifndef __CUDART_API_PER_THREAD_DEFAULT_STREAM
#error "runnel needs per-thread default streams: compile this unit with\
 nvcc --default-stream per-thread, or, if the C or C++ compiler compiles it,\
 with -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1"
#endif

/* The last CUDA error of the calling thread in this unit's runtime; clears it. */
static inline int rnl_cuda_check(void)
{
	return (int)cudaGetLastError();
}

/*
 * As rnl_job_init(), which it replaces in this unit: a job whose function made
 * a CUDA call or a <<<...>>> that failed also fails, though it returned 0.
 * The result is the errno of the CUDA code, which rnl_job_device_error() has.
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
 * As rnl_map(), which it replaces in this unit, in the same way: a CUDA call or a
 * <<<...>>> of the map's function that failed ends the map.
 * Since: 0.1
 */
static inline int rnl_cuda_map(struct rnl_pool *pool, const struct rnl_map *map,
			       struct rnl_barrier *barrier)
{
	struct rnl_map checked;

	if (!map || map->size != sizeof(checked))
		return rnl_map(pool, map, barrier);
	checked = *map;
	checked.check = rnl_cuda_check;
	return rnl_map(pool, &checked, barrier);
}
#define rnl_map(pool, map, barrier) rnl_cuda_map(pool, map, barrier)

/*
 * As rnl_batcher_create(), which it replaces in this unit, in the same way: a CUDA call
 * or a <<<...>>> of the batcher's function that failed is its requests' result.
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
#ifdef __cplusplus
#define RNL__C_LINKAGE extern "C"
#else
#define RNL__C_LINKAGE extern
#endif

/*
 * Defines `const struct rnl_kernel NAME` for every device, with C linkage.
 * @host_fn: void (*)(struct rnl_dim grid, struct rnl_dim block, const void *
 *	args), does the whole grid's work on the host device; may be NULL.
 * @cuda_fn: a __global__ function that takes one args_type by value.
 * Since: 0.1
 */
#define RNL_KERNEL(kernel_name, host_fn, cuda_fn, args_type) \
	static int kernel_name##__launch(struct rnl_dim grid, struct rnl_dim block, \
					 const void *args, void *stream) \
	{ \
		void (*const typed)(args_type) = cuda_fn; \
		void *argv[] = { const_cast<void *>(args) }; \
		return (int)cudaLaunchKernel((const void *)typed, \
					     dim3(grid.x, grid.y, grid.z), \
					     dim3(block.x, block.y, block.z), \
					     argv, 0, (cudaStream_t)stream); \
	} \
	RNL__C_LINKAGE const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##__launch \
	}
#endif /* __CUDACC__ */

#endif /* RUNNEL_CUDA_H */
