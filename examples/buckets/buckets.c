/* SPDX-License-Identifier: MIT */
/*
 * buckets: data-parallel training: all-reduces gradient buckets while the next ones are computed.
 *
 * DESIGN
 * Every rank computes its buckets one after another, and each bucket is summed over all ranks.  The
 * program alternates between these ways: only computing; only all-reduces; all-reduces at the end
 * (naive); each all-reduce as soon as its bucket is computed (overlapped); the same without runnel
 * (by hand).  A run takes as long as its slowest process; medians are shown.  The limit is a lower
 * bound for any overlap: the first bucket must be computed before its all-reduce, and the last
 * all-reduce starts when everything is computed.
 */
#include "config.h"

#include "buckets.h"
#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#define ROUNDS_MAX (1u << 20)
#define MIB (1 << 20)

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Computes gradient buckets on every rank, sums each over all ranks as soon as it is "
	"computed, and prints the times: naive, with all sums at the end; overlapped; and the "
	"lower limit. A rank is a device of this process, or of one that mpirun starts.  Every sum "
	"is checked against a serial reference."
	"\vBy default each GPU is a rank; without GPUs there are two ranks, on host devices; under "
	"mpirun each process is a rank, and the processes of a host take its GPUs in turn.  GPUs "
	"sum by NCCL, processes on host devices by MPI_Iallreduce, one process's by a loop.";

static void parse_options(struct buckets *b, int argc, char **argv)
{
	struct settings *set = &b->set;
	const struct program_option table[] = {
		{ "buckets", 0, "N", "buckets per rank, 1 to 256; 16",
		  OPTION_NUMBER(&set->nr, 1, BUCKETS_MAX) },
		{ "bucket", 0, "SIZE", "bytes of a bucket, up to 50M; 25M",
		  OPTION_SIZE(&set->bytes, 4096, 50 * MIB) },
		{ "compute", 0, "US", "time to compute a bucket; 200",
		  OPTION_NUMBER(&set->us, 1, 1000000) },
		{ "rounds", 0, "N", "rounds of computing, instead of --compute",
		  OPTION_NUMBER(&set->rounds, 1, ROUNDS_MAX) },
		{ "naive", 0, NULL, "skip the overlapped runs",
		  OPTION_FLAG(&set->naive) },
		{ "by-hand", 0, NULL, "also measure the same program without runnel, on GPUs",
		  OPTION_FLAG(&set->by_hand) },
		{ "repeat", 0, "N", "timed runs of each way; the median is shown; 9",
		  OPTION_NUMBER(&set->repeat, 1, REPEAT_MAX) },
		{ "start", 0, "SECONDS", "fail if a rank has not started after this time; 60",
		  OPTION_NUMBER(&b->start, 1, 3600) },
		{ "timeout", 0, "SECONDS", "fail if a rank makes no progress for this time; 10",
		  OPTION_NUMBER(&b->timeout, 1, 3600) },
		{ "mpi", 0, NULL, "start MPI even if mpirun was not detected",
		  OPTION_FLAG(&b->mpi) },
		OPTION_DEVICES(&b->device),
		{ "svg", 0, "FILE", "write rank 0's timeline to FILE", OPTION_TEXT(&b->svg) },
		{ .name = NULL }
	};

	*b = (struct buckets){
		.set = { .nr = 16, .bytes = 25 * MIB, .us = 200, .repeat = 9 },
		.device = "auto",
		.start = 60,
		.timeout = 10,
		.info = RNL_DEVICE_INFO_INIT,
	};
	program_options(argc, argv, doc, table, NULL);
	if (b->svg && set->naive)
		program_misuse("--svg draws naive and overlapped runs: leave --naive out");
	b->nr_words = set->bytes / (uint32_t)sizeof(float);
}

/* ---- devices -------------------------------------------------------------- */

static bool answers(const char *device)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	return !rnl_device_describe(NULL, device, 0, &info);
}

static void choose_device(struct buckets *b)
{
	static char text[16];

	if (b->nr_processes > 1)
		b->device = processes_device(b->device, text);
	if (strcmp(b->device, "auto"))
		return;
	if (nccl_transport && answers("cuda"))
		b->device = b->nr_processes > 1 ? "cuda" : "cuda:all";
	else
		b->device = b->nr_processes > 1 ? "host" : "host:2";
}

static unsigned count_devices(const char *device)
{
	unsigned nr = 0;
	char name[16];

	if (!strncmp(device, "host:", 5)) {
		nr = (unsigned)strtoul(device + 5, NULL, 10);
	} else if (!strcmp(device, "cuda:all")) {
		do
			snprintf(name, sizeof(name), "cuda:%u", nr);
		while (answers(name) && ++nr < RNL_DEVICES_MAX);
	} else {
		for (nr = 1; *device; device++)
			nr += *device == ',';
	}
	return nr;
}

static const struct transport *choose_transport(const struct buckets *b)
{
	if (b->set.by_hand && !(b->set.cuda && nccl_transport))
		program_misuse("--by-hand is for GPUs, with NCCL");
	if (b->set.cuda && !nccl_transport)
		program_die("GPUs need NCCL, which configure did not find: use --device=host:2");
	if (b->set.cuda)
		return nccl_transport;
	if (b->nr_processes > 1 && b->set.nr_devices > 1)
		program_die("%s: under mpirun a process has one host device", b->device);
	return b->nr_processes > 1 ? mpi_transport : &adds_transport;
}

static void begin(struct buckets *b)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	watch_begin();
	watch_limit("start", b->start);
	processes_begin(b);
	watch_limit("timeout", b->timeout);
	choose_device(b);
	program_device(b->device, &b->info);
	b->set.nr_devices = count_devices(b->device);
	b->set.cuda = b->info.cuda;
	b->nr_ranks = b->nr_processes * b->set.nr_devices;
	b->transport = choose_transport(b);
	if (b->nr_ranks > RANKS_MAX)
		program_die("%u ranks are too many for exact sums", b->nr_ranks);
	processes_agree(&b->set, sizeof(b->set), "options or devices");
	attr.device = b->device;
	attr.nr_workers = attr.nr_class_workers = b->set.nr_devices;
	b->pool = program_pool(&attr);
	for (unsigned d = 0; d < b->set.nr_devices; d++) {
		void *mem;

		program_must(rnl_memory_get(b->pool, d, (size_t)b->set.nr * b->set.bytes, &mem, 0),
			     "memory for the buckets (try fewer, or smaller ones)");
		b->memory[d] = mem;
	}
	if (b->transport->begin)
		b->transport->begin(b);
	watch_transport(b->transport);
	runs_begin(b);
	if (b->set.by_hand)
		by_hand_begin(b);
}

static void end(struct buckets *b)
{
	if (b->set.by_hand)
		by_hand_end();
	values_end(b);
	runs_end();
	watch_transport(NULL);
	if (b->transport->end)
		b->transport->end();
	for (unsigned d = 0; d < b->set.nr_devices; d++)
		rnl_memory_put(b->pool, b->memory[d]);
	rnl_pool_destroy(b->pool);
	processes_end();
}

/* ---- runs ------------------------------------------------------------------ */

static double go(struct buckets *b, enum way way)
{
	return way == BY_HAND ? by_hand_go(b) : runs_go(b, way, NULL);
}

static bool wanted(const struct buckets *b, enum way way)
{
	return way == OVERLAPPED ? !b->set.naive : way == BY_HAND ? b->set.by_hand : true;
}

/* Finds the number of rounds for the time of --compute.  All processes find the same number. */
static void calibrate(struct buckets *b)
{
	const double want = b->set.us * b->set.nr / 1e3;

	b->set.rounds = 1;
	for (unsigned i = 0; i < 12; i++) {
		double ms = runs_go(b, COMPUTING, NULL), factor, rounds;

		processes_max(&ms, 1);
		factor = want / ms;
		if ((factor > 0.98 && factor < 1.02) || (factor < 1 && b->set.rounds == 1))
			break;
		/* Grow in steps: while the kernel is memory-bound, more rounds cost no time. */
		rounds = b->set.rounds * (factor < 8 ? factor : 8) + 0.5;
		b->set.rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : (uint32_t)rounds;
	}
}

/* Alternates between the ways, so that a temporary slowdown of the machine affects all of them. */
static void measure(struct buckets *b, double medians[NR_WAYS])
{
	static double ms[NR_WAYS][REPEAT_MAX];

	for (unsigned way = 0; way < NR_WAYS; way++)	/* warm up: NCCL, memory */
		if (wanted(b, way))
			go(b, way);
	progress_begin("measuring", (uint64_t)b->set.repeat * NR_WAYS, 1, "runs");
	for (unsigned i = 0; i < b->set.repeat; i++)
		for (unsigned way = 0; way < NR_WAYS; way++) {
			if (wanted(b, way))
				ms[way][i] = go(b, way);
			if (!b->process)
				progress_show((uint64_t)i * NR_WAYS + way + 1);
		}
	for (unsigned way = 0; way < NR_WAYS; way++) {
		processes_max(ms[way], b->set.repeat);
		medians[way] = program_median(ms[way], b->set.repeat);
	}
}

/* ---- the report ------------------------------------------------------------ */

static void print_work(const struct buckets *b)
{
	printf("ranks:      %u, %u in each of %u process%s: %s\n", b->nr_ranks, b->set.nr_devices,
	       b->nr_processes, b->nr_processes == 1 ? "" : "es", program_device_name(&b->info));
	printf("buckets:    %u of %.3g MiB, %u round%s of computing, added up by %s\n", b->set.nr,
	       b->set.bytes / (double)MIB, b->set.rounds, b->set.rounds == 1 ? "" : "s",
	       b->transport->name);
	program_flush();
}

static void print_ways(const struct buckets *b, const double medians[NR_WAYS])
{
	for (unsigned way = 0; way < NR_WAYS; way++) {
		if (!wanted(b, way))
			continue;
		printf("%-10s %9.3f ms", way_names[way], medians[way]);
		if (way == OVERLAPPED)
			printf(", %.2f times as fast as naive", medians[NAIVE] / medians[way]);
		if (way == BY_HAND && wanted(b, OVERLAPPED))
			printf(", of which overlapped takes %.1f %%",
			       100 * medians[OVERLAPPED] / medians[way]);
		putchar('\n');
	}
}

static void report(const struct buckets *b, const double medians[NR_WAYS], char verdict[TEXT])
{
	const double c = medians[COMPUTING], r = medians[REDUCING];
	const bool computes = c + r / b->set.nr > r + c / b->set.nr;
	const double limit = computes ? c + r / b->set.nr : r + c / b->set.nr;

	print_ways(b, medians);
	printf("%-10s %9.3f ms, %s\n", "limit", limit, computes ?
	       "all computing and the last all-reduce" : "the first computing and all all-reduces");
	snprintf(verdict, TEXT, "naive %.3f ms, overlapped %.3f ms, limit %.3f ms: %.0f %% of it",
		 medians[NAIVE], medians[OVERLAPPED], limit, 100 * limit / medians[OVERLAPPED]);
	printf("Every sum of %u ranks is right: %u buckets, of each run.\n", b->nr_ranks, b->set.nr);
	program_flush();
}

static void draw(struct buckets *b, const char *verdict)
{
	struct spans spans[2];

	for (unsigned i = 0; i < 2; i++) {
		picture_spans(b, &spans[i]);
		runs_go(b, i ? OVERLAPPED : NAIVE, &spans[i]);
	}
	if (!b->process)
		picture_draw(b, spans, verdict);
}

int main(int argc, char **argv)
{
	double medians[NR_WAYS];
	char verdict[TEXT];
	struct buckets b;

	program_begin();
	parse_options(&b, argc, argv);
	begin(&b);
	if (!b.set.rounds)
		calibrate(&b);
	values_begin(&b);
	if (!b.process)
		print_work(&b);
	measure(&b, medians);
	if (!b.process)
		report(&b, medians, verdict);
	if (b.svg)
		draw(&b, verdict);
	end(&b);
	return EXIT_SUCCESS;
}
