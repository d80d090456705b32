/* SPDX-License-Identifier: MIT */
/* Prints how this process shares GPUs, and what limits it, for info and check. */
#ifndef TOOL_SHARING_H
#define TOOL_SHARING_H

#include "facts.h"

/* How lines begin: an indent, and a label with its end, in a column. */
struct tool_labels {
	const char *indent, *end;
	int width;
};

/* Prints lines for a GPU: MIG, MPS, the compute mode. */
void tool_gpu_print_sharing(const struct tool_gpu *gpu, const struct tool_limits *limits,
			    const struct tool_labels *labels);

/* Prints a line for each limit. */
void tool_limits_print(const struct tool_limits *limits, const struct tool_labels *labels);

/* Print the same as members of the current object. */
void tool_gpu_json_sharing(const struct tool_gpu *gpu);
void tool_limits_json(const struct tool_limits *limits);

#endif /* TOOL_SHARING_H */
