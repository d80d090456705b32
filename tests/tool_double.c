/* SPDX-License-Identifier: MIT */
/*
 * src/tool/kernels.cu for the double of the CUDA runtime: kernels are host functions,
 * which its streams call.
 */
#include <cuda_runtime_api.h>

#include "../src/tool/kernels.h"
#include "fake_cudart/fake_cudart.h"

#define DOUBLE_KERNEL(kernel_name, args_type) \
	static int kernel_name##_launch(struct rnl_dim grid, struct rnl_dim block, \
					const void *args, void *stream) \
	{ \
		return fake_launch(kernel_name##_host, grid, block, args, sizeof(args_type), \
				   stream); \
	} \
	const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), kernel_name##_host, kernel_name##_launch \
	}

DOUBLE_KERNEL(tool_hold, struct tool_hold_args);
DOUBLE_KERNEL(tool_meet, struct tool_meet_args);
DOUBLE_KERNEL(tool_stamp, struct tool_stamp_args);
DOUBLE_KERNEL(tool_fill, struct tool_fill_args);
DOUBLE_KERNEL(tool_words, struct tool_words_args);

const bool tool_has_cuda_kernels = true;

int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0)
{
	*id = fake_stream_id(stream);
	*id_of_0 = fake_stream_id(cudaStreamPerThread);
	return 0;
}

int tool_page_locked(const void *mem)
{
	struct cudaPointerAttributes attributes;

	if (cudaPointerGetAttributes(&attributes, mem) != cudaSuccess)
		return -1;
	return attributes.type == cudaMemoryTypeHost;
}
