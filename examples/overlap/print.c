/* SPDX-License-Identifier: MIT */
/* overlap's output. */
#include "config.h"

#include "common/program.h"
#include "overlap.h"

#include <inttypes.h>
#include <stdio.h>

#include <runnel/map.h>
#include <runnel/trace.h>

void overlap_print_work(const struct overlap *o)
{
	const unsigned shift = o->chunk_bytes % (1 << 20) == 0 ? 20 :
			       o->chunk_bytes % (1 << 10) == 0 ? 10 : 0;

	printf("device:  %s, %u workers, %s streams\n",
	       program_device_name(&o->info), o->workers,
	       o->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread");
	printf("work:    %" PRIu64 " chunks of %zu %s, %s%s%s; kernel of %" PRIu32 " rounds\n",
	       o->nr_chunks, o->chunk_bytes >> shift,
	       shift == 20 ? "MB" : shift ? "KB" : "bytes", o->pageable ? "pageable" : "page-locked",
	       o->in_place ? ", in place" : "",
	       !o->callback_step ? "" :
	       o->callback_step > 1 ? ", by sparse callbacks" : ", by callbacks",
	       o->rounds);
	printf("times:   medians of %u runs, every result checked; GB/s in each direction\n\n",
	       o->repeat);
	program_flush();
}

static void print_row(const char *name, double ms, double bytes)
{
	printf("%-26s %10.2f %8.2f", name, ms, bytes / ms / 1e6);
}

static void print_report(const char *name, const struct rnl_map_report *r)
{
	printf("%s, timed: %.1f MB in, %.1f MB out, %" PRIu64 " chunks, %" PRIu32 " jobs;\n"
	       "    in %.2f ms, kernels %.2f ms, out %.2f ms: together %" PRIu32
	       " %% of the time, the longest %" PRIu32 " %%\n",
	       name, (double)r->bytes_in / 1e6, (double)r->bytes_out / 1e6, r->chunks, r->nr_jobs,
	       (double)r->in_ns / 1e6, (double)r->kernel_ns / 1e6, (double)r->out_ns / 1e6,
	       r->overlap_percent, r->limit_percent);
	if (r->read_ns || r->write_ns)
		printf("    CPUs took %.2f ms to fill page-locked memory, %.2f ms to empty it\n",
		       (double)r->read_ns / 1e6, (double)r->write_ns / 1e6);
}

void overlap_print_all(const struct overlap *o, const struct overlap_way *ways)
{
	const double bytes = (double)o->nr_chunks * (double)o->chunk_bytes;
	double limit = 0;

	printf("%-26s %10s %8s\n", "each stage alone", "ms", "GB/s");
	for (int i = COPIES_IN; i <= KERNELS; i++) {
		limit = ways[i].median > limit ? ways[i].median : limit;
		print_row(ways[i].name, ways[i].median, bytes);
		putchar('\n');
	}
	printf("\n%-26s %10s %8s %12s %10s\n", "all of the work", "ms", "GB/s", "of the limit",
	       "x serial");
	print_row("limit, the longest stage", limit, bytes);
	printf(" %10.1f %% %10.2f\n", 100.0, ways[SERIAL].median / limit);
	for (int i = SERIAL; i < NR_WAYS; i++) {
		if (!ways[i].run) {
			printf("%-26s %10s %8s %12s %10s\n", ways[i].name, "-", "-", "-", "-");
			continue;
		}
		print_row(ways[i].name, ways[i].median, bytes);
		printf(" %10.1f %% %10.2f\n", 100 * limit / ways[i].median,
		       ways[SERIAL].median / ways[i].median);
	}
	putchar('\n');
	for (int i = BY_CHUNK; i < NR_WAYS; i++)
		if (ways[i].run)
			print_report(ways[i].name, &ways[i].timed);
	if (!o->info.cuda)
		puts("\nThe host device's streams are threads: CPUs and caches decide what they\n"
		     "gain or lose, and several threads may exceed the limit, which is for one.");
}

void overlap_print_trace(const struct overlap *o, const struct overlap_way *way,
			 const struct rnl_map_report *own)
{
	printf("\n%s, traced to %s:\n    in %.2f ms, kernels %.2f ms, out %.2f ms: together %.1f %% of "
	       "the time; `runnel report %s` shows the overlap\n", way->name, o->trace,
	       (double)own->in_ns / 1e6, (double)own->kernel_ns / 1e6, (double)own->out_ns / 1e6,
	       100 * (double)(own->in_ns + own->kernel_ns + own->out_ns) / (double)own->wall_ns,
	       o->trace);
}
