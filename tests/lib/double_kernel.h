/* SPDX-License-Identifier: MIT */
/* Kernels of programs that are linked with the double of the CUDA runtime. */
#ifndef DOUBLE_KERNEL_H
#define DOUBLE_KERNEL_H

#include <runnel/kernel.h>

#include "fake_cudart/fake_cudart.h"

/* Like RNL_KERNEL(), but the double's streams call a host function instead of the kernel. */
#define DOUBLE_KERNEL(kernel_name, host_fn, double_fn, args_type) \
	static int kernel_name##_launch(struct rnl_dim grid, struct rnl_dim block, \
					const void *args, void *stream) \
	{ \
		return fake_launch(double_fn, grid, block, args, sizeof(args_type), stream); \
	} \
	static int kernel_name##_function(void **functionp) \
	{ \
		static const struct fake_kernel kernel = { \
			FAKE_KERNEL_MAGIC, double_fn, sizeof(args_type) \
		}; \
		*functionp = (void *)(uintptr_t)&kernel; \
		return 0; \
	} \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##_launch, \
		kernel_name##_function \
	}

#endif /* DOUBLE_KERNEL_H */
