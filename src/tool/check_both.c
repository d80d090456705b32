/* SPDX-License-Identifier: MIT */
/*
 * Measures copies in and out at the same time, and compares them with each direction alone.
 *
 * DESIGN
 * Each of two workers launches a kernel that blocks its stream, then issues a stamp of the
 * device's clock, the copies, and another stamp.  Then the host releases both kernels.  No host
 * thread works between the stamps, so the measured time is the device's.  One direction alone
 * is measured with one of the workers.  Copies that take turns last as long as the sum of both
 * directions.  Overlapping copies take less, but more than half: they share bus and memory.
 */
#include "check.h"

#include <stdio.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#define COPY_BYTES (16u << 20)
#define COPIES 4
#define GAIN 1.25		/* the least gain of overlap; 1.7 on an H200 */

enum { IN, OUT, WAYS };

struct both_way {
	struct rnl_job job;
	struct both *both;
	uint32_t *words;		/* indexed by enum tool_hold_word */
	uint64_t *stamps;		/* begin and end */
	void *to;
	const void *from;
	uint32_t issued;
};

struct both {
	const struct check_machine *m;
	struct check_party party;
	struct both_way ways[WAYS];
};

static const struct rnl_dim one = { 1, 1, 1 };

static int both_stamp(uint64_t *at)
{
	const struct tool_stamp_args args = { at };

	return rnl_launch(&tool_stamp, one, one, &args);
}

static int both_issue(struct rnl_job *job)
{
	struct both_way *way = rnl_container_of(job, struct both_way, job);
	const struct tool_hold_args args = { way->words, way->both->m->patience_ns };
	int ret = check_party(&way->both->party);

	if (!ret)
		ret = rnl_launch(&tool_hold, one, one, &args);
	if (!ret)
		ret = both_stamp(&way->stamps[0]);
	for (unsigned i = 0; i < COPIES && !ret; i++)
		ret = rnl_copy(way->to, way->from, COPY_BYTES);
	if (!ret)
		ret = both_stamp(&way->stamps[1]);
	check_set(&way->issued, 1);
	return ret;
}

/* Copies in the directions @ways, a bit mask.  Returns ms from the first stamp to the last. */
static double both_run(struct both *both, unsigned ways)
{
	uint64_t begin = UINT64_MAX, end = 0;

	both->party = (struct check_party){ 0, ways == (1 << IN | 1 << OUT) ? 2 : 1 };
	for (unsigned i = 0; i < WAYS; i++) {
		struct both_way *way = &both->ways[i];

		way->issued = 0;
		way->words[TOOL_HOLD_LET_GO] = 0;
		if (ways & 1 << i)
			check_submit(both->m->pool, &way->job, both_issue);
	}
	for (unsigned i = 0; i < WAYS; i++)
		if (ways & 1 << i)
			(void)check_await(&both->ways[i].issued, TOOL_WAIT_NS);
	for (unsigned i = 0; i < WAYS; i++)
		check_set(&both->ways[i].words[TOOL_HOLD_LET_GO], 1);
	for (unsigned i = 0; i < WAYS; i++) {
		const struct both_way *way = &both->ways[i];

		if (!(ways & 1 << i))
			continue;
		tool_wait(&both->ways[i].job, "copies");
		begin = way->stamps[0] < begin ? way->stamps[0] : begin;
		end = way->stamps[1] > end ? way->stamps[1] : end;
	}
	return (double)(end - begin) / 1e6;
}

static void both_tell(const struct check_machine *m, struct check *check, double in, double out,
		      double both)
{
	const double gb = (double)COPIES * COPY_BYTES / 1e6;	/* divided by ms: GB/s */
	const double gain = both > 0 ? (in + out) / both : 0;

	check_figure(check, "in_gb_per_s", gb / in);
	check_figure(check, "out_gb_per_s", gb / out);
	check_figure(check, "both_gb_per_s", 2 * gb / both);
	check_figure(check, "times_as_fast_as_one_after_the_other", gain);
	check_says(check, gain >= GAIN ? CHECK_YES : CHECK_NO,
		   "in %.1f GB/s, out %.1f, both together %.1f: %.2f times as fast as one after the "
		   "other", gb / in, gb / out, 2 * gb / both, gain);
	if (check->answer == CHECK_NO)
		check_blame(check, m, 2, m->info.nr_copy_engines < 2 ?
			    "this GPU has only one copy engine" :
			    "another process that copies, or a shared bus");
}

void check_both(const struct check_machine *m, struct check *check)
{
	static struct both both;
	double ms[1 << WAYS][CHECK_RUNS];

	if (!m->info.cuda)
		return check_says(check, CHECK_NOT_HERE, "copies are CPUs' work on the host device; "
				  "this process may use %u", tool_cpus());
	both.m = m;
	for (unsigned i = 0; i < WAYS; i++) {
		struct both_way *way = &both.ways[i];
		void *host = tool_pinned(m->pool, COPY_BYTES), *device = tool_device_memory(m->pool, 0, COPY_BYTES);

		way->both = &both;
		way->words = tool_pinned(m->pool, sizeof(uint32_t) * TOOL_HOLD_WORDS);
		way->stamps = tool_pinned(m->pool, sizeof(uint64_t) * 2);
		way->to = i == IN ? device : host;
		way->from = i == IN ? host : device;
	}
	both_run(&both, 1 << IN | 1 << OUT);		/* warms up */
	for (unsigned i = 0; i < CHECK_RUNS; i++)
		for (unsigned ways = 1; ways < 1 << WAYS; ways++)
			ms[ways][i] = both_run(&both, ways);
	both_tell(m, check, check_median(ms[1 << IN], CHECK_RUNS),
		  check_median(ms[1 << OUT], CHECK_RUNS),
		  check_median(ms[1 << IN | 1 << OUT], CHECK_RUNS));
	for (unsigned i = 0; i < WAYS; i++) {
		const struct both_way *way = &both.ways[i];

		rnl_memory_put(m->pool, i == IN ? (void *)way->from : way->to);
		rnl_memory_put(m->pool, i == IN ? way->to : (void *)way->from);
		rnl_memory_put(m->pool, way->words);
		rnl_memory_put(m->pool, way->stamps);
	}
}
