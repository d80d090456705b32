/* SPDX-License-Identifier: MIT */
/* Request kernels of programs that may be linked with the double of the CUDA runtime. */
#ifndef REQUEST_KERNEL_H
#define REQUEST_KERNEL_H

#include <runnel/mailbox.h>

#include "fake_cudart/fake_cudart.h"

#pragma weak fake_launch
#pragma weak fake_plan
#pragma weak fake_fail_sticky

/* The double's streams call the host function that a kernel's arguments name. */
#define REQUEST_KERNEL_PART(part_name, args_type) \
	static int part_name##_launch(struct rnl_dim grid, struct rnl_dim block, \
				      const void *args, void *stream) \
	{ \
		return !fake_launch ? 801 : /* cudaErrorNotSupported */ \
		       fake_launch(((const args_type *)args)->run, grid, block, args, \
				   sizeof(args_type), stream); \
	} \
	static const struct rnl_kernel part_name = { \
		#part_name, sizeof(args_type), NULL, part_name##_launch, NULL \
	}

/* Like RNL_REQUEST_KERNEL(), with @fn for the host device and for the double. */
#define HOST_REQUEST_KERNEL(kernel_name, fn) \
	REQUEST_KERNEL_PART(kernel_name##_batch, struct rnl__each_args); \
	REQUEST_KERNEL_PART(kernel_name##_lease, struct rnl__lease_args); \
	extern __attribute__((visibility("hidden"))) const struct rnl_request_kernel kernel_name; \
	const struct rnl_request_kernel kernel_name = { \
		#kernel_name, fn, &kernel_name##_batch, &kernel_name##_lease \
	}

#endif /* REQUEST_KERNEL_H */
