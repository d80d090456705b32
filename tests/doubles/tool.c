/* SPDX-License-Identifier: MIT */
/*
 * src/tool/kernels.cu for the double of the CUDA runtime: its streams call host functions.
 */
#include <cuda_runtime_api.h>

#include "src/tool/kernels.h"
#include "double_kernel.h"

DOUBLE_KERNEL(tool_hold, tool_hold_host, tool_hold_host, struct tool_hold_args);
DOUBLE_KERNEL(tool_meet, tool_meet_host, tool_meet_host, struct tool_meet_args);
DOUBLE_KERNEL(tool_stamp, tool_stamp_host, tool_stamp_host, struct tool_stamp_args);
DOUBLE_KERNEL(tool_turns, tool_turns_host, tool_turns_host, struct tool_turns_args);
DOUBLE_KERNEL(tool_fill, tool_fill_host, tool_fill_host, struct tool_fill_args);
DOUBLE_KERNEL(tool_words, tool_words_host, tool_words_host, struct tool_words_args);

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
