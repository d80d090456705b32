/* SPDX-License-Identifier: MIT */
/*
 * The kernels of check and bench for builds without nvcc: only the host functions.
 *
 * DESIGN
 * kernels.cu defines the same symbols for the host device and for CUDA; a build links one
 * of the two files.
 */
#include <runnel/kernel.h>

#include "kernels.h"

RNL_HOST_KERNEL(tool_hold, tool_hold_host, struct tool_hold_args);
RNL_HOST_KERNEL(tool_meet, tool_meet_host, struct tool_meet_args);
RNL_HOST_KERNEL(tool_stamp, tool_stamp_host, struct tool_stamp_args);
RNL_HOST_KERNEL(tool_turns, tool_turns_host, struct tool_turns_args);
RNL_HOST_KERNEL(tool_fill, tool_fill_host, struct tool_fill_args);
RNL_HOST_KERNEL(tool_words, tool_words_host, struct tool_words_args);

const bool tool_has_cuda_kernels = false;

int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0)
{
	(void)stream;
	*id = *id_of_0 = 0;
	return -1;
}

int tool_page_locked(const void *mem)
{
	(void)mem;
	return -1;
}
