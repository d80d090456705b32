/* SPDX-License-Identifier: MIT */
/*
 * runnel info: what is here, and what of it runnel can use.
 *
 * DESIGN
 * Facts as CUDA and the library tell them.  Whether it is really so, that is, whether
 * kernels do run at the same time, runnel check finds out.
 */
#include "tool.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel.h>

#include "facts.h"
#include "json.h"
#include "kernels.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: runnel info [OPTION]...\n"
"Tells which devices are here, what they have, and what of it runnel can use.\n"
"\n"
"      --json  print it as JSON\n"
"      --help  print this and exit\n"
"\n"
"Nothing is tried: runnel check does that.\n";

struct device {
	struct rnl_device_info info;
	struct tool_gpu gpu;		/* info.cuda */
};

struct machine {
	struct tool_cuda cuda;
	const char *setting;		/* of CUDA_DEVICE_MAX_CONNECTIONS; NULL: not set */
	unsigned connections;
};

/* ---- what works ---------------------------------------------------------- */

static bool has_kernels(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->gpu.concurrent_kernels;
}

static bool has_queues(const struct machine *m, const struct device *d)
{
	(void)d;
	return m->connections >= TOOL_CONNECTIONS_DEFAULT;
}

static bool has_copies(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->info.nr_copy_engines >= 1;
}

static bool has_both_copies(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->info.nr_copy_engines >= 2;
}

static bool has_priorities(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->gpu.greatest_priority < d->gpu.least_priority;
}

static bool has_writes(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->info.stream_writes;
}

static bool has_pools(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->gpu.memory_pools;
}

static bool has_addressing(const struct machine *m, const struct device *d)
{
	(void)m;
	return d->gpu.unified_addressing;
}

static const struct feature {
	const char *name, *text, *without;
	bool (*has)(const struct machine *m, const struct device *d);
} features[] = {
	{ "concurrent_kernels", "kernels of several streams at the same time",
	  "kernels run one after the other", has_kernels },
	{ "hardware_queues", "a hardware queue for each of 8 workers",
	  "workers share queues, and wait for each other: unset " TOOL_CONNECTIONS ", or raise it",
	  has_queues },
	{ "copies_beside_kernels", "copies beside kernels", "copies wait for kernels", has_copies },
	{ "copies_both_ways", "copies in and out at the same time",
	  "copies in and out take turns", has_both_copies },
	{ "priorities", "urgent jobs go before others on the device",
	  "urgent jobs are first in the queues alone", has_priorities },
	{ "stream_writes", "streams say that they are done, by a word in memory",
	  "events are asked for instead: a later answer, and the driver's lock", has_writes },
	{ "memory_pools", "device memory in stream order (rnl_scratch())",
	  "no pool can be made on this device", has_pools },
	{ "unified_addressing", "one address space, so copies know their direction",
	  "no pool can be made on this device", has_addressing },
};

/* ---- printing ------------------------------------------------------------ */

static const char *version_text(int version, char text[16])
{
	snprintf(text, 16, "%d.%d", version / 1000, version % 1000 / 10);
	return text;
}

static void print_machine(const struct machine *m)
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
	else
		printf("queues        %u; %u in a program that calls rnl_setup() or sets "
		       TOOL_CONNECTIONS "\n", m->connections, TOOL_CONNECTIONS_MAX);
	printf("CPUs          %ld, of which this process may use %u\n",
	       sysconf(_SC_NPROCESSORS_ONLN), tool_cpus());
}

static void print_gpu(const struct machine *m, const struct device *d)
{
	const struct tool_gpu *g = &d->gpu;

	printf("\ncuda:%" PRId32 "        %s\n", d->info.ordinal, d->info.name);
	printf("  compute capability %d.%d, %" PRIu32 " multiprocessors, %.1f GiB of memory%s\n",
	       g->major, g->minor, d->info.nr_multiprocessors,
	       (double)d->info.memory_bytes / (1 << 30), g->ecc ? " with ECC" : "");
	printf("  PCI %04x:%02x:%02x, %" PRIu32 " copy engines, priorities of streams %d to %d\n",
	       g->pci_domain, g->pci_bus, g->pci_device, d->info.nr_copy_engines,
	       g->least_priority, g->greatest_priority);
	for (unsigned i = 0; i < COUNT(features); i++) {
		const bool has = features[i].has(m, d);

		printf("  %-4s %s%s%s\n", has ? "yes" : "no", features[i].text, has ? "" : ": ",
		       has ? "" : features[i].without);
	}
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
	tool_json_integer("usable", tool_cpus());
	tool_json_close();
}

static void json_device(const struct machine *m, const struct device *d)
{
	const struct tool_gpu *g = &d->gpu;
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
		tool_json_integer("copy_engines", d->info.nr_copy_engines);
		tool_json_integer("least_priority", g->least_priority);
		tool_json_integer("greatest_priority", g->greatest_priority);
		tool_json_object("works");
		for (unsigned i = 0; i < COUNT(features); i++)
			tool_json_bool(features[i].name, features[i].has(m, d));
		tool_json_close();
	}
	tool_json_close();
}

/* ---- the command --------------------------------------------------------- */

static int look(struct device *d, const char *name)
{
	int ret;

	d->info = (struct rnl_device_info)RNL_DEVICE_INFO_INIT;
	ret = rnl_device_info(name, &d->info);
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
		print_machine(m);
		if (!m->cuda.nr_devices)
			printf("\nno GPU        %s\n", m->cuda.why_none);
	}
	for (int i = 0; i <= m->cuda.nr_devices; i++) {
		struct device d;
		char name[24];

		snprintf(name, sizeof(name), i < m->cuda.nr_devices ? "cuda:%d" : "host", i);
		if (look(&d, name))
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
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TOOL_YES;
		default:
			return tool_misused_said();
		}
	}
	if (optind < argc)
		return tool_misused("'%s' is too much: all arguments are options", argv[optind]);
	m.connections = tool_connections(m.setting);
	tool_cuda_look(&m.cuda);
	return print_all(&m, json);
}
