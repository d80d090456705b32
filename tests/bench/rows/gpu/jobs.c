/* SPDX-License-Identifier: MIT */
/*
 * The row jobs: J per second, each completed one by one, with 1 to 16 threads or workers.
 *
 * DESIGN
 *	A part of the table has one number of threads and one kind of streams. A short run of each
 *	variant selects some for several long runs, which take turns. Hand-written threads issue
 *	their own work; a pool's workers get it from producers, whose cost is in the figure. There is
 *	one pool at a time, so no idle stream shares a hardware queue.
 *	The variants (marks by hand; of a pool producers P, requests q for each worker, kind of
 *	completion, jobs in flight d) are those that can win. In 60 parts on an H200, of 46 by hand
 *	and 34 of a pool, the best of these 12 by hand and 11 of a pool was at least 98 % of the best.
 *	J is the user's own calls of CUDA. A pool only calls the function, and can change none of
 *	them, so by hand is the best loop of the same three calls: the difference is what the pool
 *	costs. Whoever may change J does better, with fewer calls: one kernel on pinned memory, or a
 *	graph for each J. Both sides may: these have other calls, so they are shown, and no
 *	goal refers to them. If a pool may choose the calls, the rows gather and replay measure it.
 */
#include "gpu/work.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 32
#define REQUESTS_MAX 128	/* for each worker */
#define KEPT 3			/* selected variants of a side */

struct bench {
	const struct bench_options *opt;
	struct gpu_team *team;
	struct gpu_mutex *mutex;
	struct gpu_request *requests;
	unsigned threads;
	enum rnl_stream_kind kind;
	struct rnl_pool *pool;
	unsigned in_flight;	/* limit of that pool */
};

struct candidate {
	enum bench_side side;
	gpu_issue_fn *issue;	/* by hand, else NULL */
	struct gpu_hand_variant hand;
	enum gpu_done done;
	unsigned producers, requests;	/* requests: for each worker */
	unsigned in_flight;	/* for each worker; 0: the library's default */
	bool always;		/* measured, without a screening */
	double screened;
	bool kept;
	char name[40];
};

struct candidates {
	struct candidate all[CANDIDATES_MAX];
	unsigned nr;
	struct bench *b;
};

static void use_pool(struct bench *b, unsigned in_flight)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	if (b->pool && b->in_flight == in_flight)
		return;
	rnl_pool_destroy(b->pool);
	attr.max_in_flight = in_flight;
	b->pool = gpu_pool(b->opt->device, b->kind, b->threads, &attr);
	b->in_flight = in_flight;
}

static double measure_by_hand(struct bench *b, const struct candidate *c, unsigned ms)
{
	gpu_team_kernel(b->team, c->issue == gpu_issue_reach ? GPU_ROUND : 0);
	gpu_team_issue(b->team, c->issue, true);
	return gpu_team_rate(b->team, &c->hand, ms);
}

/* Returns thousands of J per second. */
static double measure(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr = c->requests * b->threads;
	double rate;

	/* A request that this variant does not get to has another variant's output. */
	for (unsigned i = 0; i < nr; i++) {
		b->requests[i].slot.kernel = c->done == GPU_CQ_REACH ? GPU_ROUND : 0;
		b->requests[i].slot.seq = 0;
	}
	if (c->issue)
		rate = measure_by_hand(b, c, ms);
	else if (c->side == BENCH_PEER)
		rate = gpu_mutex_rate(b->mutex, b->requests, nr, c->producers, ms);
	else {
		use_pool(b, c->in_flight);
		rate = gpu_pool_rate(b->pool, b->requests, nr, c->done, c->producers, ms);
	}
	return rate * 1e-3;
}

/* ---- the variants -------------------------------------------------------- */

static struct candidate *add(struct candidates *list, enum bench_side side)
{
	struct candidate *c = &list->all[list->nr];

	bench_must(list->nr < CANDIDATES_MAX, "room for one more variant");
	list->nr++;
	c->side = side;
	return c;
}

static void add_hand(struct candidates *list, const struct gpu_hand_variant *hand)
{
	struct candidate *c = add(list, BENCH_HAND);

	c->issue = gpu_issue_j;
	c->hand = *hand;
	/* Always measured, to compare them with other machines. */
	c->always = hand->mark == GPU_SYNC ||
		    (hand->mark == GPU_EVENT && hand->jobs == 8 && hand->depth == 64);
	gpu_hand_name(&c->hand, c->name, sizeof(c->name));
}

/* Adds other calls for J. */
static void add_expert(struct candidates *list, gpu_issue_fn *issue, const char *name)
{
	struct candidate *c = add(list, BENCH_OTHER);

	c->issue = issue;
	c->hand = (struct gpu_hand_variant){ GPU_EVENT, 8, 64, 0 };
	c->always = true;
	snprintf(c->name, sizeof(c->name), "%s", name);
}

static void add_pool(struct candidates *list, enum bench_side side, enum gpu_done done,
		     unsigned producers, unsigned requests, unsigned in_flight)
{
	static const char *const names[] = {
		[GPU_WAIT] = "wait", [GPU_CQ] = "cq", [GPU_CQ_MANY] = "cq, submit_many",
		[GPU_CQ_COPY] = "cq, rnl_copy", [GPU_CQ_REACH] = "cq, on pinned memory"
	};
	struct candidate *c = add(list, side);
	int nr;

	c->done = done;
	c->producers = producers;
	c->requests = requests;
	c->in_flight = in_flight;
	c->always = done >= GPU_CQ_COPY;
	nr = snprintf(c->name, sizeof(c->name), "%s P%u q%u",
		      side == BENCH_PEER ? "mutex pool, sync" : names[done], producers, requests);
	if (in_flight)
		snprintf(c->name + nr, sizeof(c->name) - (size_t)nr, " d%u", in_flight);
}

static void list_by_hand(struct candidates *list)
{
	static const struct gpu_hand_variant variants[] = {
		{ GPU_EVENT, 8, 16, 0 }, { GPU_EVENT, 8, 64, 0 }, { GPU_EVENT, 8, 128, 0 },
		{ GPU_EVENT, 32, 64, 0 }, { GPU_EVENT, 32, 128, 0 },
		{ GPU_EVENT_SYNC, 8, 16, 0 }, { GPU_EVENT_SYNC, 8, 64, 0 },
		{ GPU_EVENT_SYNC, 32, 64, 0 }, { GPU_EVENT_SYNC, 32, 128, 0 },
		{ GPU_FLAG, 1, 32, 0 }, { GPU_FLAG, 8, 16, 0 }, { GPU_FLAG, 32, 64, 0 },
		{ GPU_SYNC, 1, 1, 0 },
	};

	for (unsigned i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		add_hand(list, &variants[i]);
	add_expert(list, gpu_issue_reach, "kernel on pinned memory");
	add_expert(list, gpu_issue_graph, "a graph each");
}

static void list_pools(struct candidates *list, unsigned threads)
{
	static const struct {
		enum gpu_done done;
		unsigned producers, requests, in_flight;
	} variants[] = {
		{ GPU_WAIT, 1, 64, 0 }, { GPU_CQ, 1, 64, 0 }, { GPU_CQ, 1, 128, 0 },
		{ GPU_CQ_MANY, 1, 64, 0 }, { GPU_CQ_MANY, 1, 128, 0 }, { GPU_CQ_MANY, 2, 128, 0 },
		{ GPU_CQ, 4, 128, 0 }, { GPU_CQ_MANY, 4, 64, 0 },
		/* Another pool. */
		{ GPU_CQ, 1, 64, 8 }, { GPU_CQ, 2, 64, 8 },
	};
	const unsigned producers = threads < 4 ? 1 : 4;

	for (unsigned i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		if (variants[i].producers <= threads)
			add_pool(list, BENCH_RUNNEL, variants[i].done, variants[i].producers,
				 variants[i].requests, variants[i].in_flight);
	for (unsigned i = 1; i <= threads && i <= 4; i *= 2)
		add_pool(list, BENCH_PEER, GPU_WAIT, i, 64, 0);
	add_pool(list, BENCH_RUNNEL, GPU_CQ_COPY, producers, REQUESTS_MAX, 0);
	add_pool(list, BENCH_OTHER, GPU_CQ_REACH, producers, REQUESTS_MAX, 0);
}

/* ---- screening ----------------------------------------------------------- */

static void keep_best(struct candidates *list, enum bench_side side, unsigned nr)
{
	for (; nr; nr--) {
		struct candidate *best = NULL;

		for (unsigned i = 0; i < list->nr; i++) {
			struct candidate *c = &list->all[i];

			if (c->side == side && !c->kept && (!best || c->screened > best->screened))
				best = c;
		}
		if (best)
			best->kept = true;
	}
}

static void screen(struct bench *b, struct candidates *list)
{
	/* A warm-up: the clock rises, and memory is touched. */
	for (unsigned i = 0; i < list->nr; i++)
		if (list->all[i].always)
			(void)measure(b, &list->all[i], b->opt->screen_ms);
	for (unsigned i = 0; i < list->nr; i++) {
		struct candidate *c = &list->all[i];

		c->kept = c->always;
		if (!c->always)
			c->screened = measure(b, c, b->opt->screen_ms);
	}
	keep_best(list, BENCH_HAND, KEPT);
	keep_best(list, BENCH_PEER, 1);
	keep_best(list, BENCH_RUNNEL, KEPT);
}

/* ---- the row ------------------------------------------------------------- */

static void measure_one(void *arg, unsigned which, double *values)
{
	const struct candidates *list = arg;

	values[0] = measure(list->b, &list->all[which], list->b->opt->run_ms);
}

/* Prints a line's runs again: runnel compared with the mutex pool. */
static void tell_ahead(const struct bench_run *run, const struct bench_line *line)
{
	static const enum bench_side sides[] = { BENCH_PEER, BENCH_RUNNEL };
	struct bench_line *ahead = bench_line(run, 1, "; a mutex pool");

	for (unsigned i = 0; i < 2; i++) {
		const struct bench_figure *best = bench_best(line, sides[i]);

		if (best)
			*bench_figure(ahead, sides[i], best->variant) = *best;
	}
	bench_line_tell(run, ahead);
}

static void run_row(struct bench_run *run)
{
	const int ordinal = run->opt->info.ordinal;
	struct candidates *list = bench_alloc(sizeof(*list));
	struct bench b = { .opt = run->opt, .threads = run->threads, .kind = run->kind };
	struct bench_way ways[CANDIDATES_MAX];
	struct bench_line *line, *copy = bench_alloc(sizeof(*copy));

	b.team = gpu_team_start(ordinal, b.kind, b.threads, gpu_issue_j, true);
	b.mutex = gpu_mutex_start(ordinal, b.kind, b.threads);
	b.requests = gpu_requests(REQUESTS_MAX * b.threads);
	list->b = &b;
	list_by_hand(list);
	list_pools(list, b.threads);
	screen(&b, list);
	line = bench_line(run, 0, "%s", "");
	for (unsigned i = 0; i < list->nr; i++) {
		const struct candidate *c = &list->all[i];
		struct bench_figure *figure = bench_figure(line, c->side, c->name);

		figure->screened = !c->kept;
		if (!c->kept)
			bench_add(figure, c->screened);
		ways[i] = (struct bench_way){ measure_one, i, { figure }, !c->kept };
	}
	bench_turns(run, ways, list->nr, list);
	rnl_pool_destroy(b.pool);
	*copy = *line;
	bench_line_tell(run, line);
	if (run->kind == RNL_STREAM_PRIVATE)
		tell_ahead(run, copy);
	free(copy);
	free(list);
}

const struct bench_work bench_jobs = { .run = run_row };
