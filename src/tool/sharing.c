/* SPDX-License-Identifier: MIT */
/* Prints how this process shares GPUs, and what limits it. */
#include "sharing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

/* By cudaComputeMode. */
static const struct {
	const char *name, *text;
} modes[] = {
	{ "default", "any number of processes" },
	{ "exclusive", "one thread; others get an error" },
	{ "prohibited", "no process" },
	{ "exclusive_process", "one process, or MPS's server and its clients; others get an error" },
};

static const char *mode_name(int mode)
{
	return mode >= 0 && mode < (int)(sizeof(modes) / sizeof(modes[0])) ? modes[mode].name : NULL;
}

/* Prints the begin of a line: a name and a colon in a column. */
static void print_label(const char *name, const struct tool_labels *labels)
{
	printf("%s%s%-*s", labels->indent, name, labels->width - (int)strlen(name), labels->end);
}

void tool_gpu_print_sharing(const struct tool_gpu *gpu, const struct tool_limits *limits,
			    const struct tool_labels *labels)
{
	const char *mode = mode_name(gpu->compute_mode);

	if (gpu->mig) {
		print_label("MIG", labels);
		puts("this is a slice of a GPU");
	}
	print_label("MPS", labels);
	if (!gpu->mps)
		puts("no; processes take turns");
	else if (limits->mps_percentage)
		printf("yes, with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s\n", limits->mps_percentage);
	else
		puts("yes; processes run at the same time");
	print_label("mode", labels);
	printf("%s: %s\n", mode ? mode : "unknown", mode ? modes[gpu->compute_mode].text : "CUDA does not say");
}

void tool_limits_print(const struct tool_limits *limits, const struct tool_labels *labels)
{
	if (limits->quota) {
		print_label("quota", labels);
		printf("the time of %u CPU%s, by control groups\n", limits->quota,
		       limits->quota == 1 ? "" : "s");
	}
	print_label("memlock", labels);
	if (limits->memlock_bytes < 0)
		puts("unlimited");
	else
		printf("%" PRId64 " KiB, which CUDA's page-locked memory may exceed\n",
		       limits->memlock_bytes / 1024);
}

void tool_gpu_json_sharing(const struct tool_gpu *gpu)
{
	tool_json_bool("mps", gpu->mps);
	tool_json_bool("mig", gpu->mig);
	tool_json_text("compute_mode", mode_name(gpu->compute_mode));
}

void tool_limits_json(const struct tool_limits *limits)
{
	tool_json_object("limits");
	if (limits->quota)
		tool_json_integer("quota_cpus", limits->quota);
	else
		tool_json_text("quota_cpus", NULL);
	if (limits->memlock_bytes >= 0)
		tool_json_integer("memlock_bytes", limits->memlock_bytes);
	else
		tool_json_text("memlock_bytes", NULL);
	tool_json_text("mps_directory", limits->mps);
	tool_json_text("mps_active_thread_percentage", limits->mps_percentage);
	tool_json_close();
}
