/* SPDX-License-Identifier: MIT */
/*
 * loader: threads read shards ahead of a device that computes.
 *
 * DESIGN
 * Three passes run over all epochs.  The first pass only reads, the second one only computes, and
 * the third one does both.  The limit is the longer of the first two times.  A pass before these
 * warms up the page cache and all memory.  With --cold there is no warm-up, and each pass starts
 * with an empty page cache.  Without --rounds the computing takes as long as the reading, because
 * then the limit is hardest to reach.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/timeline.h"
#include "loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>

#define ROUNDS_MAX (1 << 20)
#define DRAWN 64u		/* batches in the picture at most */

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Reads the shards in each DIR, in an order that is new in each epoch, ahead of a device that "
	"computes.  Checks every record, and compares the time of reading and computing together "
	"with the slower of the two.  --make writes shards.  The exit status is 130 after Ctrl-C.";

static void parse_options(struct loader *l, struct program_operands *dirs, int argc, char **argv)
{
	const struct program_option table[] = {
		{ "make", 0, "DIR", "write shards to DIR, and exit", OPTION_TEXT(&l->make) },
		{ "shards", 0, "N", "--make's shards; 4", OPTION_NUMBER(&l->make_shards, 1, 9999) },
		{ "records", 0, "N", "records per shard for --make; 128",
		  OPTION_NUMBER(&l->make_records, 1, 1 << 24) },
		{ "record", 0, "KB", "size of a record for --make; 128",
		  OPTION_NUMBER(&l->make_kb, 1, 65536) },
		{ "seed", 0, "N", "seed of --make's data, and of the records' order; 1",
		  OPTION_NUMBER(&l->seed, 0, UINT32_MAX) },
		{ "epochs", 0, "N", "times that each record is read; 12",
		  OPTION_NUMBER(&l->epochs, 1, 1 << 20) },
		{ "batch", 0, "N", "records per batch; 64",
		  OPTION_NUMBER(&l->batch, 1, 65536) },
		{ "ahead", 0, "N", "batches that are read ahead, 1 to 64; 16",
		  OPTION_NUMBER(&l->ahead, 1, AHEAD_MAX) },
		{ "readers", 0, "N", "threads that read, 1 to 64; 4",
		  OPTION_NUMBER(&l->nr_readers, 1, READERS_MAX) },
		{ "rounds", 0, "N", "rounds of computing; chosen to last as long as reading",
		  OPTION_NUMBER(&l->rounds, 1, ROUNDS_MAX) },
		{ "stall", 0, "SECONDS", "fail if a reader gets no data for this time; 10",
		  OPTION_NUMBER(&l->stall, 1, 3600) },
		{ "cold", 0, NULL, "read from the disk: each pass starts without the page cache",
		  OPTION_FLAG(&l->cold) },
		OPTION_DEVICE(&l->device),
		{ "svg", 0, "FILE", "write a timeline of readers, copies and computing to FILE",
		  OPTION_TEXT(&l->svg) },
		{ .name = NULL }
	};

	*l = (struct loader){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.epochs = 12,
		.batch = 64,
		.ahead = 16,
		.nr_readers = 4,
		.stall = 10,
		.seed = 1,
		.make_shards = 4,
		.make_records = 128,
		.make_kb = 128,
	};
	program_options(argc, argv, doc, table, dirs);
	if (!l->make && !dirs->nr)
		program_misuse("name a directory of shards; --make=DIR writes some");
}

/* ---- passes -------------------------------------------------------------- */

static void run(const struct loader *l, struct pass *pass)
{
	if (l->cold)
		shards_drop_cache(&l->shards);
	ring_run(l, pass);
}

/* Finds the number of rounds that makes computing take as long as reading. */
static void calibrate(struct loader *l, const struct pass *reading, struct pass *computing)
{
	l->rounds = 1;
	for (int i = 0; i < 12; i++) {
		double factor, rounds;

		run(l, computing);
		factor = reading->ms / computing->ms;
		if (factor > 0.95 && factor < 1.05)
			break;
		/* Grow in steps: while the kernel is memory-bound, more rounds cost no time. */
		rounds = l->rounds * (factor < 8 ? factor : 8) + 0.5;
		l->rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : (uint32_t)rounds;
	}
}

/* ---- the picture --------------------------------------------------------- */

enum { READ, COPY, COMPUTE, IDLE, NR_COLOURS };

struct picture {
	struct timeline_bar *bars;
	size_t nr;
	int64_t offset;			/* the device's clock minus the host's */
};

static void add(struct picture *p, unsigned row, unsigned colour, struct span span,
		const char *what, uint64_t number)
{
	struct timeline_bar *bar = &p->bars[p->nr++];

	*bar = (struct timeline_bar){ row, colour, span.begin, span.end, "" };
	if (colour != READ) {
		bar->begin -= (uint64_t)p->offset;
		bar->end -= (uint64_t)p->offset;
	}
	snprintf(bar->title, sizeof(bar->title), "%s, batch %llu", what,
		 (unsigned long long)number + 1);
}

static void draw(const struct loader *l, const struct pass *pass, const char *verdict)
{
	static const struct timeline_colour colours[NR_COLOURS] = {
		{ "#5b9bd5", "reading a record" }, { "#e08e2b", "copying a batch" },
		{ "#4c9f70", "computing" }, { "#e9b4b0", "idle" },
	};
	const uint64_t nr = l->nr_batches < DRAWN ? l->nr_batches : DRAWN;
	struct timeline_row rows[READERS_MAX + 2] = { 0 };
	struct picture p = { .offset = ring_clock_offset() };
	char names[READERS_MAX][24], title[128];
	struct span idle;

	p.bars = calloc(nr * (l->batch + 3), sizeof(*p.bars));
	if (!p.bars)
		program_die("out of memory");
	idle.begin = pass->begin + (uint64_t)p.offset;
	for (uint64_t b = 0; b < nr; b++) {
		for (uint64_t i = b * l->batch; i < b * l->batch + batch_size(l, b); i++)
			add(&p, l->reads[i].reader, READ, l->reads[i].span, "reading", b);
		add(&p, l->nr_readers, COPY, l->copies[b], "copying", b);
		idle.end = l->computes[b].begin;
		if (idle.end > idle.begin)
			add(&p, l->nr_readers + 1, IDLE, idle, "idle before", b);
		add(&p, l->nr_readers + 1, COMPUTE, l->computes[b], "computing", b);
		idle.begin = l->computes[b].end;
	}
	for (unsigned i = 0; i < l->nr_readers; i++) {
		snprintf(names[i], sizeof(names[i]), "reader %u", i + 1);
		rows[i].name = names[i];
	}
	rows[l->nr_readers].name = "copies";
	rows[l->nr_readers + 1].name = "computing";
	snprintf(title, sizeof(title), "%llu batches, read ahead of %.64s%s",
		 (unsigned long long)l->nr_batches, program_device_name(&l->info),
		 nr < l->nr_batches ? ": the first 64" : "");
	program_must(timeline_write(l->svg, &(struct timeline){
		title, verdict, colours, rows, p.bars, NR_COLOURS, l->nr_readers + 2, p.nr
	}), l->svg);
	printf("The timeline is in %s.\n", l->svg);
	free(p.bars);
}

/* ---- the report ---------------------------------------------------------- */

static void print_data(const struct loader *l)
{
	printf("device:  %s\n", program_device_name(&l->info));
	printf("data:    %llu records of %u KB in %u shards, %u times: %.1f MB\n",
	       (unsigned long long)l->shards.nr_records, l->shards.bytes >> 10, l->shards.nr,
	       l->epochs, (double)l->shards.nr_records * l->shards.bytes * l->epochs / 1e6);
	printf("work:    %u readers%s, batches of %u, %u ahead; ", l->nr_readers,
	       l->cold ? " from the disk" : "", l->batch, l->ahead);
	program_flush();
}

static void report(const struct loader *l, const struct pass *reading, const struct pass *both,
		   const struct pass *computing)
{
	const double mb = (double)l->shards.nr_records * l->shards.bytes * l->epochs / 1e6;
	const double slower = reading->ms > computing->ms ? reading->ms : computing->ms;
	const struct pass *passes[] = { reading, computing, both };
	double idle = both->ms;
	char verdict[128];

	for (uint64_t b = 0; b < l->nr_batches; b++)
		idle -= (double)(l->computes[b].end - l->computes[b].begin) / 1e6;
	printf("%u rounds of computing\n", l->rounds);
	for (unsigned i = 0; i < 3; i++)
		printf("%-10s %9.2f ms %9.0f MB/s\n", passes[i]->name, passes[i]->ms,
		       mb / passes[i]->ms * 1e3);
	snprintf(verdict, sizeof(verdict), "together %.2f ms: %.0f %% of the slower one, %s; "
		 "the consumer was idle for %.2f ms, %.0f %%", both->ms, 100 * slower / both->ms,
		 slower > computing->ms ? reading->name : computing->name, idle,
		 100 * idle / both->ms);
	puts(verdict);
	printf("Every record was read %u time%s, and every sum is right.\n", l->epochs,
	       l->epochs == 1 ? "" : "s");
	if (l->svg)
		draw(l, both, verdict);
}

/* ---- the program --------------------------------------------------------- */

static void load(struct loader *l)
{
	struct pass reading = { .name = "reading", .what = READING };
	struct pass both = { .name = "warming up", .what = READING | COMPUTING };
	struct pass computing = { .name = "computing", .what = COMPUTING };

	ring_begin(l);
	print_data(l);
	if (!l->cold)
		run(l, &both);
	both.name = "together";
	run(l, &reading);
	if (!l->rounds)
		calibrate(l, &reading, &computing);
	run(l, &computing);
	run(l, &both);
	report(l, &reading, &both, &computing);
	ring_end();
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct program_operands dirs = { 0 };
	struct loader l;

	program_begin();
	parse_options(&l, &dirs, argc, argv);
	if (l.make) {
		shards_make(l.make, l.make_shards, l.make_records, l.make_kb << 10, l.seed);
		printf("%u shards of %u records of %u KB are in %s.\n", l.make_shards, l.make_records,
		       l.make_kb, l.make);
		return EXIT_SUCCESS;
	}
	shards_open(&l.shards, dirs.names, dirs.nr);
	l.batches_of_epoch = (l.shards.nr_records + l.batch - 1) / l.batch;
	l.nr_batches = l.batches_of_epoch * l.epochs;
	program_device(l.device, &l.info);
	attr.device = l.device;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.nr_workers = 2;		/* one for copies, one for computing */
	l.pool = program_pool(&attr);
	load(&l);
	rnl_pool_destroy(l.pool);
	shards_close(&l.shards);
	return EXIT_SUCCESS;
}
