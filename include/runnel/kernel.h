/* SPDX-License-Identifier: MIT */
/* Kernels for every device, and their launch. */
#ifndef RUNNEL_KERNEL_H
#define RUNNEL_KERNEL_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNL_KERNEL_ARGS_MAX 4096 /* bytes of arguments of one kernel */

struct rnl_dim {
	uint32_t x, y, z;
};

/*
 * A kernel for every device: a host function, and a function that launches the CUDA kernel. Both
 * get the kernel's arguments as one struct. RNL_HOST_KERNEL(), and RNL_KERNEL() of runnel/cuda.h,
 * define a kernel.
 */
struct rnl_kernel {
	const char *name;
	size_t args_bytes;	/* size of the argument struct */
	/* Does the whole grid's work. NULL: the kernel cannot run on the host device. */
	void (*host)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	/*
	 * Launches the kernel on a cudaStream_t and returns a cudaError_t. NULL: the kernel cannot
	 * run on CUDA.
	 */
	int (*cuda)(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream);
	/*
	 * Stores the CUfunction that cuda() launches, with args as its only parameter, and returns
	 * a cudaError_t. NULL: the library cannot use the kernel in graphs.
	 */
	int (*cuda_function)(void **functionp);
};

/*
 * Defines `const struct rnl_kernel NAME` for the host device only. The name has hidden visibility,
 * so two modules of one process may each have a kernel of that name.
 */
#define RNL_HOST_KERNEL(kernel_name, host_fn, args_type) \
	extern __attribute__((visibility("hidden"))) const struct rnl_kernel kernel_name; \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, NULL, NULL \
	}

/*
 * Launches a kernel.
 * @kernel: valid until the device has completed the launch.
 * @grid, @block: CUDA's dimensions, not 0.
 * @args: the kernel's argument struct; copied before the call returns.
 * Return: 0; -EINVAL an argument is NULL, a dimension is 0, the argument struct is larger than
 *	RNL_KERNEL_ARGS_MAX, or CUDA refused the launch; -ENOTSUP the kernel has no function for
 *	this device; -ENODEV the thread is attached to no device; -EIO; -ENOMEM; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid,
		       struct rnl_dim block, const void *args);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_KERNEL_H */
