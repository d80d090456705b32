/* SPDX-License-Identifier: MIT */
/*
 * runnel info: lists the devices of this machine, and the features that runnel can use.
 *
 * DESIGN
 * The command prints attributes as reported by CUDA and by the library.  It runs no test:
 * runnel check tests, for example, whether kernels run at the same time.
 */
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel.h>
#include <runnel/device.h>

#include "facts.h"
#include "json.h"
#include "kernels.h"
#include "options.h"
#include "sharing.h"

static const char doc[] =
"Lists the devices of this machine, their attributes, and the features that runnel can use.\v"
"This command tests nothing: runnel check does.";

struct device {
	struct rnl_device_info info;
	struct tool_gpu gpu;		/* set if info.cuda is true */
};

struct machine {
	struct tool_cuda cuda;
	const char *setting;		/* CUDA_DEVICE_MAX_CONNECTIONS, NULL if it is not set */
	unsigned connections;
	struct tool_limits limits;
};

/* ---- what works ---------------------------------------------------------- */

enum { KERNELS, QUEUES, COPIES, COPIES_BOTH, PRIORITIES, KEPT_SMS, WRITES, POOLS, ADDRESSING,
       NR_FEATURES };

static const struct {
	const char *name, *text, *without;
} features[NR_FEATURES] = {
	[KERNELS] = { "concurrent_kernels", "kernels of several streams at the same time",
		      "kernels run one after the other" },
	[QUEUES] = { "hardware_queues", "a hardware queue for each of 8 workers",
		     "workers share queues, and wait for each other: unset " TOOL_CONNECTIONS
		     ", or raise it" },
	[COPIES] = { "copies_beside_kernels", "copies during kernels", "copies wait for kernels" },
	[COPIES_BOTH] = { "copies_both_ways", "copies in and out at the same time",
			  "copies in and out take turns" },
	[PRIORITIES] = { "priorities", "kernels of a class with workers of its own go before others",
			 "a class goes first in the queues only" },
	[KEPT_SMS] = { "kept_sms", "multiprocessors kept for a class",
		       "a kernel that should go first waits until others' blocks end; this takes a driver for CUDA "
		       "12.5 or newer, and more than one group of multiprocessors" },
	[WRITES] = { "stream_writes", "streams report completion by a word in memory",
		     "events are queried instead: slower, and under the driver's lock" },
	[POOLS] = { "memory_pools", "device memory in stream order (rnl_scratch())",
		    "no pool can be made on this device" },
	[ADDRESSING] = { "unified_addressing", "one address space, so copies know their direction",
			 "no pool can be made on this device" },
};

static void find_features(const struct machine *m, const struct device *d, bool has[NR_FEATURES])
{
	has[KERNELS] = d->gpu.concurrent_kernels;
	has[QUEUES] = m->connections >= TOOL_CONNECTIONS_DEFAULT;
	has[COPIES] = d->info.nr_copy_engines >= 1;
	has[COPIES_BOTH] = d->info.nr_copy_engines >= 2;
	has[PRIORITIES] = d->gpu.greatest_priority < d->gpu.least_priority;
	has[KEPT_SMS] = d->info.sm_group != 0;
	has[WRITES] = d->info.stream_writes;
	has[POOLS] = d->gpu.memory_pools;
	has[ADDRESSING] = d->gpu.unified_addressing;
}

/* Returns the largest attribute kept_sms: some multiprocessor must be left. */
static uint32_t most_kept(const struct rnl_device_info *info)
{
	return info->sm_group ? (info->nr_multiprocessors - 1) / info->sm_group * info->sm_group : 0;
}

/* ---- printing ------------------------------------------------------------ */

static const char *version_text(int version, char text[16])
{
	snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10);
	return text;
}

static void info_print_machine(const struct machine *m)
{
	const uint32_t v = rnl_version();
	char text[16];

	printf("runnel        %u.%u.%u, ", v >> 16, v >> 8 & 255, v & 255);
	if (!m->cuda.built)
		puts("without CUDA");
	else
		printf("with CUDA %s%s\n", version_text(m->cuda.toolkit, text),
		       tool_has_cuda_kernels ? "" : ", but without kernels for it (no nvcc)");
	if (m->cuda.built) {
		printf("CUDA driver   %s\n",
		       m->cuda.driver ? version_text(m->cuda.driver, text) : "none");
		printf("CUDA runtime  %s\n", version_text(m->cuda.runtime, text));
	}
	if (m->setting)
		printf("queues        %u, as " TOOL_CONNECTIONS "=%s says\n", m->connections,
		       m->setting);
	else if (m->limits.mps)
		printf("queues        %u; rnl_setup() does not change this, because MPS listens in %s\n",
		       m->connections, m->limits.mps);
	else
		printf("queues        %u; %u in a program that calls rnl_setup() or sets "
		       TOOL_CONNECTIONS "\n", m->connections, TOOL_CONNECTIONS_MAX);
	printf("CPUs          %ld; this process may use %u\n",
	       sysconf(_SC_NPROCESSORS_ONLN), m->limits.cpus);
	tool_limits_print(&m->limits, &(struct tool_labels){ "", "", 14 });
}

/* Prints the GPUs whose memory this GPU accesses directly. */
static void print_peers(const struct machine *m, int ordinal)
{
	unsigned nr = 0;

	for (int i = 0; i < m->cuda.nr_devices; i++)
		if (i != ordinal && tool_gpu_reaches(ordinal, i))
			printf(nr++ ? ", cuda:%d" : "  reaches the memory of cuda:%d", i);
	if (nr)
		putchar('\n');
	else if (m->cuda.nr_devices > 1)
		puts("  reaches no other GPU's memory: copies between them go through the host");
}

static void print_gpu(const struct machine *m, const struct device *d)
{
	const struct tool_gpu *g = &d->gpu;
	bool has[NR_FEATURES];

	printf("\ncuda:%" PRId32 "        %s\n", d->info.ordinal, d->info.name);
	printf("  compute capability %d.%d, %" PRIu32 " multiprocessors, %.1f GiB of memory%s\n",
	       g->major, g->minor, d->info.nr_multiprocessors,
	       (double)d->info.memory_bytes / (1 << 30), g->ecc ? " with ECC" : "");
	printf("  PCI %04x:%02x:%02x, %" PRIu32 " copy engines, priorities of streams %d to %d\n",
	       g->pci_domain, g->pci_bus, g->pci_device, d->info.nr_copy_engines,
	       g->least_priority, g->greatest_priority);
	if (d->info.sm_group)
		printf("  multiprocessors are kept in groups of %" PRIu32 ", at most %" PRIu32 "\n",
		       d->info.sm_group, most_kept(&d->info));
	tool_gpu_print_sharing(g, &m->limits, &(struct tool_labels){ "  ", ":", 6 });
	if (g->numa_node >= 0)
		printf("  near NUMA node %d of the host\n", g->numa_node);
	print_peers(m, d->info.ordinal);
	find_features(m, d, has);
	for (unsigned i = 0; i < NR_FEATURES; i++)
		printf("  %-4s %s%s%s\n", has[i] ? "yes" : "no", features[i].text,
		       has[i] ? "" : ": ", has[i] ? "" : features[i].without);
}

static void print_host(const struct device *d)
{
	printf("\nhost          the host device: streams are threads, memory is the host's\n"
	       "  %" PRIu32 " CPUs online, %.1f GiB of memory\n",
	       d->info.nr_multiprocessors, (double)d->info.memory_bytes / (1 << 30));
}

static void json_machine(const struct machine *m)
{
	const uint32_t v = rnl_version();
	char text[32];

	snprintf(text, sizeof(text), "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
	tool_json_text("runnel", text);
	tool_json_object("cuda");
	tool_json_bool("built_in", m->cuda.built);
	tool_json_bool("kernels", tool_has_cuda_kernels);
	tool_json_text("toolkit", m->cuda.built ? version_text(m->cuda.toolkit, text) : NULL);
	tool_json_text("runtime", m->cuda.built ? version_text(m->cuda.runtime, text) : NULL);
	tool_json_text("driver", m->cuda.driver ? version_text(m->cuda.driver, text) : NULL);
	tool_json_text("no_gpu", m->cuda.nr_devices ? NULL : m->cuda.why_none);
	tool_json_close();
	tool_json_object("queues");
	tool_json_integer("now", m->connections);
	tool_json_text("setting", m->setting);
	tool_json_close();
	tool_json_object("cpus");
	tool_json_integer("online", sysconf(_SC_NPROCESSORS_ONLN));
	tool_json_integer("usable", m->limits.cpus);
	tool_json_close();
	tool_limits_json(&m->limits);
}

static void json_device(const struct machine *m, const struct device *d)
{
	const struct tool_gpu *g = &d->gpu;
	bool has[NR_FEATURES];
	char text[32];

	snprintf(text, sizeof(text), d->info.cuda ? "cuda:%" PRId32 : "host", d->info.ordinal);
	tool_json_object(NULL);
	tool_json_text("device", text);
	tool_json_text("name", d->info.name);
	tool_json_integer("memory_bytes", (int64_t)d->info.memory_bytes);
	tool_json_integer(d->info.cuda ? "multiprocessors" : "cpus", d->info.nr_multiprocessors);
	if (d->info.cuda) {
		snprintf(text, sizeof(text), "%d.%d", g->major, g->minor);
		tool_json_text("compute_capability", text);
		snprintf(text, sizeof(text), "%04x:%02x:%02x", g->pci_domain, g->pci_bus,
			 g->pci_device);
		tool_json_text("pci", text);
		tool_json_integer("numa_node", g->numa_node);
		tool_gpu_json_sharing(g);
		tool_json_array("reaches");
		for (int i = 0; i < m->cuda.nr_devices; i++)
			if (i != d->info.ordinal && tool_gpu_reaches(d->info.ordinal, i))
				tool_json_integer(NULL, i);
		tool_json_close();
		tool_json_integer("sm_group", d->info.sm_group);
		tool_json_integer("kept_sms_max", most_kept(&d->info));
		tool_json_integer("copy_engines", d->info.nr_copy_engines);
		tool_json_integer("least_priority", g->least_priority);
		tool_json_integer("greatest_priority", g->greatest_priority);
		tool_json_object("works");
		find_features(m, d, has);
		for (unsigned i = 0; i < NR_FEATURES; i++)
			tool_json_bool(features[i].name, has[i]);
		tool_json_close();
	}
	tool_json_close();
}

/* ---- the command --------------------------------------------------------- */

static int info_look(struct device *d, const char *name)
{
	int ret;

	d->info = (struct rnl_device_info)RNL_DEVICE_INFO_INIT;
	ret = rnl_device_describe(NULL, name, 0, &d->info);
	if (ret)
		return tool_trouble("device %s: %s", name, rnl_strerror(ret));
	ret = d->info.cuda ? tool_gpu_look(d->info.ordinal, &d->gpu) : 0;
	if (ret)
		return tool_trouble("device %s does not answer: CUDA error %d", name, ret);
	return TOOL_YES;
}

static int print_all(const struct machine *m, bool json)
{
	if (json) {
		tool_json_object(NULL);
		json_machine(m);
		tool_json_array("devices");
	} else {
		info_print_machine(m);
		if (!m->cuda.nr_devices)
			printf("\nno GPU        %s\n", m->cuda.why_none);
	}
	for (int i = 0; i <= m->cuda.nr_devices; i++) {
		struct device d;
		char name[24];

		snprintf(name, sizeof(name), i < m->cuda.nr_devices ? "cuda:%d" : "host", i);
		if (info_look(&d, name))
			return TOOL_TROUBLE;
		if (json)
			json_device(m, &d);
		else if (d.info.cuda)
			print_gpu(m, &d);
		else
			print_host(&d);
	}
	if (json) {
		tool_json_close();
		tool_json_close();
	}
	return TOOL_YES;
}

int tool_info(int argc, char **argv)
{
	struct machine m = { .setting = getenv(TOOL_CONNECTIONS) };
	bool json = false;
	const struct tool_usage usage = {
		.doc = doc, .too_many = "give only options", .nr_options = 1,
		.options = { TOOL_FLAG("json", &json, "print the devices as JSON") },
	};
	int status = tool_options(&usage, argc, argv, NULL);

	if (status != TOOL_GO_ON)
		return status;
	m.connections = tool_connections(m.setting);
	tool_cuda_look(&m.cuda);
	tool_limits_look(&m.limits);
	return print_all(&m, json);
}
