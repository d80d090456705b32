/* SPDX-License-Identifier: MIT */
/*
 * The timeline of this process's devices, computing and all-reduces: first naive, then overlapped.
 *
 * The clocks of two devices have no common zero.  So each device's time 0 is the start of its first
 * computing in the run, as if all devices had started together.  A reducer that serves all devices
 * uses the first device's clock.
 */
#include "config.h"

#include "buckets.h"
#include "common/program.h"
#include "common/timeline.h"

#include <stdio.h>
#include <stdlib.h>

#include <runnel/memory.h>

enum { COMPUTE, REDUCE, NR_COLOURS };

void picture_spans(struct buckets *b, struct spans *spans)
{
	const size_t bytes = b->set.nr_devices * sizeof(*spans->computes);
	void *mem;

	program_must(rnl_memory_get(b->pool, RNL_PINNED, bytes, &mem, 0), "memory for times");
	spans->computes = mem;
	program_must(rnl_memory_get(b->pool, RNL_PINNED, bytes, &mem, 0), "memory for times");
	spans->reduces = mem;
}

struct picture {
	const struct buckets *b;
	struct timeline_bar *bars;
	size_t nr;
};

static void add(struct picture *p, unsigned row, unsigned colour, const struct span *span,
		uint64_t zero, unsigned bucket)
{
	struct timeline_bar *bar = &p->bars[p->nr++];

	*bar = (struct timeline_bar){ row, colour, span->begin - zero, span->end - zero, "" };
	snprintf(bar->title, sizeof(bar->title), "%s bucket %u",
		 colour == COMPUTE ? "computing" : "all-reduce of", bucket);
}

static void add_panel(struct picture *p, const struct spans *spans, unsigned row)
{
	const unsigned nr_reducers = p->b->transport->one_reducer ? 1 : p->b->set.nr_devices;

	for (unsigned d = 0; d < p->b->set.nr_devices; d++) {
		const uint64_t zero = spans->computes[d][0].begin;

		for (unsigned i = 0; i < p->b->set.nr; i++)
			add(p, row, COMPUTE, &spans->computes[d][i], zero, i);
		row++;
		if (d < nr_reducers) {
			for (unsigned i = 0; i < p->b->set.nr; i++)
				add(p, row, REDUCE, &spans->reduces[d][i], zero, i);
			row++;
		}
	}
}

/* Returns the number of rows in a panel. */
static unsigned name_rows(const struct buckets *b, struct timeline_row *rows, char (*names)[32])
{
	const unsigned nr_reducers = b->transport->one_reducer ? 1 : b->set.nr_devices;
	unsigned nr = 0;

	for (unsigned d = 0; d < b->set.nr_devices; d++) {
		snprintf(names[nr], sizeof(*names), "rank %u", rank_of(b, d));
		rows[nr].name = names[nr];
		nr++;
		if (d < nr_reducers) {
			rows[nr].name = nr_reducers > 1 ? "its reducer" : "the reducer";
			nr++;
		}
	}
	return nr;
}

void picture_draw(const struct buckets *b, const struct spans spans[2], const char *verdict)
{
	static const struct timeline_colour colours[NR_COLOURS] = {
		{ "#4c9f70", "computing a bucket" }, { "#e08e2b", "its all-reduce" },
	};
	struct timeline_row rows[4 * RNL_DEVICES_MAX] = { 0 };
	char names[4 * RNL_DEVICES_MAX][32], title[128];
	struct picture p = { .b = b };
	const unsigned nr = name_rows(b, rows, names);

	name_rows(b, rows + nr, names + nr);
	p.bars = calloc(4 * (size_t)b->set.nr_devices * b->set.nr, sizeof(*p.bars));
	if (!p.bars)
		program_die("out of memory");
	rows[0].heading = way_names[NAIVE];
	rows[0].means = "all-reduces at the end";
	rows[nr].heading = way_names[OVERLAPPED];
	rows[nr].means = "a bucket's all-reduce as soon as it is computed, on a worker of its own";
	add_panel(&p, &spans[0], 0);
	add_panel(&p, &spans[1], nr);
	snprintf(title, sizeof(title), "%u buckets of %.1f MB on each of %u ranks, by %s, on %.64s",
		 b->set.nr, b->set.bytes / 1e6, b->nr_ranks, b->transport->name,
		 program_device_name(&b->info));
	program_must(timeline_write(b->svg, &(struct timeline){
		title, verdict, colours, rows, p.bars, NR_COLOURS, 2 * nr, p.nr
	}), b->svg);
	printf("The timeline is in %s.\n", b->svg);
	free(p.bars);
}
