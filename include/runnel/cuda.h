/* SPDX-License-Identifier: MIT */
/*
 * CUDA code: the part of the library that is compiled into the program's own CUDA units.
 *
 * A program usually has a CUDA runtime of its own, because nvcc links the runtime statically. Only
 * the runtime that a kernel is registered in can launch the kernel, and only the runtime that tried
 * a launch knows whether it failed. So this header defines the function that launches a kernel in
 * the kernel's unit, and registers the unit's runtime while the unit's module is loaded. Streams
 * and events belong to the driver and work with every runtime.
 *
 * Include it in .cu units, and in C and C++ units that call the CUDA runtime. It changes no
 * function of runnel.h, so the order of includes and the unit that makes a job do not matter. If
 * a CUDA call or a <<<...>>> in a function of a job, map or batcher fails, the job or request
 * fails, or the map ends, even if the function returns 0. The result is the errno for CUDA's code,
 * and device_error is the code. Modules may be loaded and unloaded while workers run; but CUDA's
 * shared runtime crashes if a module with kernels is unloaded before CUDA has started, and loaded
 * again: link such a module with -Wl,-z,nodelete.
 */
#ifndef RUNNEL_CUDA_H
#define RUNNEL_CUDA_H

#include <cuda_runtime_api.h>
#include <runnel/kernel.h>
#include <runnel/unit.h>

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
 * uses only rnl_copy() and its siblings. 0: some use stream 0. In a pool of per-thread streams,
 * stream 0 is rnl_stream(). A pool of private streams refuses the jobs, maps and batchers of a unit
 * that does not define it as 1, because no worker waits for work on stream 0. Define it before you
 * include the header:
 *
 *	#define RNL_NAMES_STREAM 1
 *	#include <runnel/cuda.h>
 *
 * Since: 0.1
 */
#ifndef RNL_NAMES_STREAM
#define RNL_NAMES_STREAM 0	/* 1: each CUDA call of this unit names rnl_stream() */
#endif

/*
 * 1: the unit's functions need a GPU: a pool on the host device refuses its jobs, maps and batchers
 * with -ENODEV. 0: the functions call CUDA only on a GPU, and are not checked on the host device.
 * Not defined: the functions may run on the host device, and a CUDA call that fails there fails the
 * job. Without a driver, the runtime has the same error whether CUDA was called or not, so every
 * function of the unit fails, unless the unit has an RNL_KERNEL(), which makes it portable. So
 * separate portable functions from functions that call CUDA directly, in units of their own. Define
 * it before you include the header, like RNL_NAMES_STREAM.
 *
 * Since: 0.3
 */
#ifndef RNL_NEEDS_CUDA
#define RNL_NEEDS_CUDA (-1)	/* 1: functions need a GPU; 0: they call CUDA only on a GPU */
#endif

/* ---- the unit, registered while its module is loaded ----------------------------- */

#ifdef __cplusplus
#define RNL__CUDA_AS(type, value) reinterpret_cast<type>(value)
#else
#define RNL__CUDA_AS(type, value) ((type)(size_t)(value))
#endif

/* Returns and clears the last CUDA error of the calling thread in this unit's runtime. */
static int rnl__cuda_last_error(void)
{
#ifdef __cplusplus
	return static_cast<int>(cudaGetLastError());
#else
	return (int)cudaGetLastError();
#endif
}

static struct rnl__cuda_unit rnl__cuda_this_unit = {
	sizeof(struct rnl__cuda_unit),
	RNL__CUDA_UNIT_NAMES_STREAM * (RNL_NAMES_STREAM != 0) |
	RNL__CUDA_UNIT_NEEDS_CUDA * (RNL_NEEDS_CUDA > 0) |
	RNL__CUDA_UNIT_RUNS_WITHOUT * (RNL_NEEDS_CUDA == 0),
	rnl__cuda_last_error, 0, 0, 0
};

/*
 * Finds the unit's part of .text: the assembler's section is that part, and the section's last
 * subsection is its end. Other machines, and units with -ffunction-sections, leave it unknown.
 */
static void rnl__cuda_find_text(struct rnl__cuda_unit *unit)
{
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
	__asm__("leaq .text(%%rip), %0" : "=r"(unit->text));
	__asm__(".pushsection .text, 8191\n771:\n\t.popsection\n\tleaq 771b(%%rip), %0"
		: "=r"(unit->text_end));
#elif defined(__aarch64__) && !defined(__CUDA_ARCH__)
	__asm__("adrp %0, .text\n\tadd %0, %0, :lo12:.text" : "=r"(unit->text));
	__asm__(".pushsection .text, 8191\n771:\n\t.popsection\n\t"
		"adrp %0, 771b\n\tadd %0, %0, :lo12:771b" : "=r"(unit->text_end));
#else
	(void)unit;
#endif
}

__attribute__((constructor)) static void rnl__cuda_register(void)
{
	rnl__cuda_this_unit.runtime = RNL__CUDA_AS(const void *, &cudaGetLastError);
	rnl__cuda_find_text(&rnl__cuda_this_unit);
	(void)rnl__cuda_unit_add(&rnl__cuda_this_unit);
}

__attribute__((destructor)) static void rnl__cuda_unregister(void)
{
	rnl__cuda_unit_remove(&rnl__cuda_this_unit);
}

#ifdef __CUDACC__
#include <runnel/lease.cuh>
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
	/* Runs before the unit is registered. */ \
	__attribute__((constructor(1000))) static void kernel_name##__note(void) \
	{ \
		rnl__cuda_this_unit.flags |= RNL__CUDA_UNIT_KERNELS; \
	} \
	extern "C" __attribute__((visibility("hidden"))) const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##__launch, \
		kernel_name##__function \
	}

#if RNL__HAS_LEASES
/* Launches a lease, which may start before the last one ends: see runnel/mailbox.h. */
static inline int rnl__lease_launch(void (*kernel)(struct rnl__lease_args), struct rnl_dim grid,
				    struct rnl_dim block, const void *args, void *stream)
{
	static int ptx;			/* version of the kernel's code */
	cudaFuncAttributes attributes;
	cudaLaunchAttribute early = {};
	cudaLaunchConfig_t config = {};
	void *argv[] = { const_cast<void *>(args) };

	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = dim3(grid.x, grid.y, grid.z);
	config.blockDim = dim3(block.x, block.y, block.z);
	config.stream = static_cast<cudaStream_t>(stream);
	config.attrs = &early;
	/* Code for earlier devices, even compiled for this one, does not wait for the last lease. */
	if (!ptx && cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)) == cudaSuccess)
		ptx = attributes.ptxVersion;
	config.numAttrs = ptx >= 90;
	if (ptx && ptx < 70)
		return static_cast<int>(cudaErrorNotSupported);
	return static_cast<int>(cudaLaunchKernelExC(
		&config, reinterpret_cast<const void *>(kernel), argv));
}

#define RNL__LEASE_KERNEL(kernel_name, device_fn) \
	static __global__ void __launch_bounds__(RNL__LEASE_THREADS) \
	kernel_name##__serve(const struct rnl__lease_args args) \
	{ \
		rnl__lease_run<device_fn>(args); \
	} \
	static int kernel_name##__lease_launch(struct rnl_dim grid, struct rnl_dim block, \
					       const void *args, void *stream) \
	{ \
		return rnl__lease_launch(kernel_name##__serve, grid, block, args, stream); \
	} \
	static const struct rnl_kernel kernel_name##__lease = { \
		#kernel_name, sizeof(struct rnl__lease_args), NULL, kernel_name##__lease_launch, NULL \
	};
#define RNL__LEASE_OF(kernel_name) &kernel_name##__lease
#else
#define RNL__LEASE_KERNEL(kernel_name, device_fn)
#define RNL__LEASE_OF(kernel_name) NULL
#endif

/*
 * Defines `const struct rnl_request_kernel NAME` for every device, with C linkage and hidden
 * visibility. Before CUDA 12.3 the kernel cannot be resident.
 * @host_fn: the field host of struct rnl_request_kernel; may be NULL.
 * @device_fn: a __device__ function of the same type; see struct rnl_request_kernel.
 * Since: 0.3
 */
#define RNL_REQUEST_KERNEL(kernel_name, host_fn, device_fn) \
	static __global__ void __launch_bounds__(RNL__LEASE_THREADS) \
	kernel_name##__each(const struct rnl__each_args args) \
	{ \
		rnl__each_run<device_fn>(args); \
	} \
	RNL_KERNEL(kernel_name##__batch, NULL, kernel_name##__each, struct rnl__each_args); \
	RNL__LEASE_KERNEL(kernel_name, device_fn) \
	extern "C" __attribute__((visibility("hidden"))) const struct rnl_request_kernel kernel_name; \
	const struct rnl_request_kernel kernel_name = { \
		#kernel_name, host_fn, &kernel_name##__batch, RNL__LEASE_OF(kernel_name) \
	}
#endif /* __CUDACC__ */

#endif /* RUNNEL_CUDA_H */
