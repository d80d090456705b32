/* SPDX-License-Identifier: MIT */
/*
 * The row jobs: J per second, each completed one by one, with 1 to 16 threads or workers.
 *
 * DESIGN
 *	A part of the table has one number of threads and one kind of streams. Hand-written code has
 *	some fifty variants, a pool up to 33 (producers P, requests q for each worker, kind of
 *	completion, jobs in flight d): a short run of each selects variants for several long runs,
 *	which take turns. Hand-written threads issue their own work; a pool's workers get it from
 *	producers, whose cost is in the figure. There is one pool at a time, so no idle stream
 *	shares a hardware queue.
 */
#include "gpu/work.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX (BENCH_FIGURES_MAX - 2)
#define REQUESTS_MAX 128	/* for each worker */
#define PRODUCERS_MAX 8

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
	struct gpu_hand_variant hand;
	enum gpu_done done;
	unsigned producers, requests;	/* requests: for each worker */
	unsigned in_flight;	/* for each worker; 0: the library's default */
	bool always;		/* measured, even if slow in the screening */
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

/* Returns thousands of J per second. */
static double measure(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr = c->requests * b->threads;
	double rate;

	if (c->side == BENCH_HAND)
		rate = gpu_team_rate(b->team, &c->hand, ms);
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

static void add_hand(struct candidates *list, enum gpu_mark mark, unsigned jobs, unsigned depth)
{
	struct candidate *c = add(list, BENCH_HAND);

	c->hand = (struct gpu_hand_variant){ mark, jobs, depth };
	/* Always measured, to compare them with other machines. */
	c->always = mark == GPU_SYNC || (mark == GPU_EVENT && jobs == 8 && depth == 64);
	gpu_hand_name(&c->hand, c->name, sizeof(c->name));
}

static void add_pool(struct candidates *list, enum bench_side side, enum gpu_done done,
		     unsigned producers, unsigned requests, unsigned in_flight)
{
	static const char *const names[] = {
		[GPU_WAIT] = "wait", [GPU_CQ] = "cq", [GPU_CQ_MANY] = "cq, submit_many",
		[GPU_CQ_COPY] = "cq, rnl_copy"
	};
	struct candidate *c = add(list, side);
	int nr;

	c->done = done;
	c->producers = producers;
	c->requests = requests;
	c->in_flight = in_flight;
	c->always = done == GPU_CQ_COPY;
	nr = snprintf(c->name, sizeof(c->name), "%s P%u q%u",
		      side == BENCH_PEER ? "mutex pool, sync" : names[done], producers, requests);
	if (in_flight)
		snprintf(c->name + nr, sizeof(c->name) - (size_t)nr, " d%u", in_flight);
}

static void list_all(struct candidates *list, unsigned threads)
{
	static const enum gpu_mark marks[] = { GPU_EVENT, GPU_EVENT_SYNC, GPU_FLAG };
	static const unsigned depths[] = { 1, 4, 16, 32, 64, 128, 256 };
	static const unsigned jobs[] = { 1, 8, 32 };

	for (unsigned mark = 0; mark < 3; mark++)
		for (unsigned j = 0; j < 3; j++)
			for (unsigned d = 0; d < 7; d++)
				if (jobs[j] == 1 || depths[d] >= 2 * jobs[j])
					add_hand(list, marks[mark], jobs[j], depths[d]);
	add_hand(list, GPU_SYNC, 1, 1);
	for (unsigned producers = 1; producers <= threads && producers <= PRODUCERS_MAX;
	     producers *= 2) {
		for (unsigned done = GPU_WAIT; done <= GPU_CQ_MANY; done++)
			for (unsigned requests = 64; requests <= REQUESTS_MAX; requests *= 2)
				add_pool(list, BENCH_RUNNEL, (enum gpu_done)done, producers, requests, 0);
		for (unsigned in_flight = 8; in_flight <= 16; in_flight *= 2)
			add_pool(list, BENCH_RUNNEL, GPU_CQ, producers, 64, in_flight);
		if (producers <= 4)
			add_pool(list, BENCH_PEER, GPU_WAIT, producers, 64, 0);
	}
	add_pool(list, BENCH_RUNNEL, GPU_CQ_COPY, threads < 4 ? 1 : 4, REQUESTS_MAX, 0);
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
		if (list->all[i].always || list->all[i].producers == 1)
			(void)measure(b, &list->all[i], b->opt->screen_ms);
	for (unsigned i = 0; i < list->nr; i++) {
		struct candidate *c = &list->all[i];

		c->screened = measure(b, c, b->opt->screen_ms);
		c->kept = c->always;
	}
	keep_best(list, BENCH_HAND, 4);
	keep_best(list, BENCH_PEER, 1);
	keep_best(list, BENCH_RUNNEL, 3);
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
	list_all(list, b.threads);
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
