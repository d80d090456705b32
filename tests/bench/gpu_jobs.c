/* SPDX-License-Identifier: MIT */
/*
 * The line jobs: J per second, each completed one by one, with 1 to 16 threads or workers.
 *
 * DESIGN
 *	A part is a number of threads and a kind of streams.  Hand-written code has
 *	some fifty variants, a pool up to 33 (producers P, requests q for each worker, how
 *	one learns that a job is done, jobs in flight d): one short run of each tells which
 *	are worth several long ones.  Those take turns.  Hand-written threads issue their work
 *	themselves; a pool's workers get it from others, whose cost is in the figure, too.
 *	There is one pool at a time, so that no idle stream shares a hardware queue.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX (GPU_FIGURES_MAX - 2)
#define REQUESTS_MAX 128	/* for each worker */
#define PRODUCERS_MAX 8

struct bench {
	const struct gpu_options *opt;
	struct gpu_team *team;
	struct gpu_mutex *mutex;
	struct gpu_request *requests;
	unsigned threads;
	enum rnl_stream_kind kind;
	struct rnl_pool *pool;
	unsigned in_flight;	/* of that pool */
};

struct candidate {
	enum gpu_side side;
	struct gpu_hand_variant hand;
	enum gpu_done done;
	unsigned producers, requests;	/* requests: for each worker */
	unsigned in_flight;	/* for each worker; 0: as the library has it */
	bool always;		/* whatever the screening says */
	double screened;
	bool kept;
	char name[40];
	struct gpu_figure *figure;
};

struct candidates {
	struct candidate all[CANDIDATES_MAX];
	unsigned nr;
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

/* Return: thousands of J a second. */
static double measure(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr = c->requests * b->threads;
	double rate;

	if (c->side == GPU_HAND)
		rate = gpu_team_rate(b->team, &c->hand, ms);
	else if (c->side == GPU_PEER)
		rate = gpu_mutex_rate(b->mutex, b->requests, nr, c->producers, ms);
	else {
		use_pool(b, c->in_flight);
		rate = gpu_pool_rate(b->pool, b->requests, nr, c->done, c->producers, ms);
	}
	return rate * 1e-3;
}

/* ---- who takes part ------------------------------------------------------ */

static struct candidate *add(struct candidates *list, enum gpu_side side)
{
	struct candidate *c = &list->all[list->nr];

	bench_must(list->nr < CANDIDATES_MAX, "room for one more variant");
	list->nr++;
	c->side = side;
	return c;
}

static void add_hand(struct candidates *list, enum gpu_mark mark, unsigned jobs, unsigned depth)
{
	struct candidate *c = add(list, GPU_HAND);

	c->hand = (struct gpu_hand_variant){ mark, jobs, depth };
	/* So that these can be compared with other machines' whatever is best here. */
	c->always = mark == GPU_SYNC || (mark == GPU_EVENT && jobs == 8 && depth == 64);
	gpu_hand_name(&c->hand, c->name, sizeof(c->name));
}

static void add_pool(struct candidates *list, enum gpu_side side, enum gpu_done done,
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
		      side == GPU_PEER ? "mutex pool, sync" : names[done], producers, requests);
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
				add_pool(list, GPU_RUNNEL, (enum gpu_done)done, producers, requests, 0);
		for (unsigned in_flight = 8; in_flight <= 16; in_flight *= 2)
			add_pool(list, GPU_RUNNEL, GPU_CQ, producers, 64, in_flight);
		if (producers <= 4)
			add_pool(list, GPU_PEER, GPU_WAIT, producers, 64, 0);
	}
	add_pool(list, GPU_RUNNEL, GPU_CQ_COPY, threads < 4 ? 1 : 4, REQUESTS_MAX, 0);
}

/* ---- screening ----------------------------------------------------------- */

static void keep_best(struct candidates *list, enum gpu_side side, unsigned nr)
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
	/* A clock that is to rise, and memory that is to be touched. */
	for (unsigned i = 0; i < list->nr; i++)
		if (list->all[i].always || list->all[i].producers == 1)
			(void)measure(b, &list->all[i], b->opt->screen_ms);
	for (unsigned i = 0; i < list->nr; i++) {
		struct candidate *c = &list->all[i];

		c->screened = measure(b, c, b->opt->screen_ms);
		c->kept = c->always;
	}
	keep_best(list, GPU_HAND, 4);
	keep_best(list, GPU_PEER, 1);
	keep_best(list, GPU_RUNNEL, 3);
}

static void run_kept(struct bench *b, struct candidates *list)
{
	for (unsigned run = 0; run < b->opt->runs; run++) {
		for (unsigned i = 0; i < list->nr; i++) {
			/* Another one begins each time. */
			struct candidate *c = &list->all[(i + run * 7) % list->nr];

			if (c->kept)
				gpu_figure_add(c->figure, measure(b, c, b->opt->run_ms));
		}
	}
}

/* ---- the line ------------------------------------------------------------ */

static void tell_ahead(const struct gpu_run *run, const struct gpu_row *row, unsigned threads)
{
	static const enum gpu_side sides[] = { GPU_PEER, GPU_RUNNEL };
	struct gpu_row *ahead = gpu_row_new("jobs", "kJ/s", true, GPU_OF_PEER, 1,
					    "J per second, %u, private; a mutex pool", threads);

	for (unsigned i = 0; i < 2; i++) {
		const struct gpu_figure *best = gpu_row_best(row, sides[i]);

		if (best)
			*gpu_row_figure(ahead, sides[i], best->variant) = *best;
	}
	gpu_row_tell(run, ahead);
}

static unsigned parts(const struct gpu_options *opt)
{
	return 2 * opt->nr_threads;
}

static void line(const struct gpu_run *run)
{
	const struct gpu_options *opt = run->opt;
	const enum rnl_stream_kind kind = run->part < opt->nr_threads ? RNL_STREAM_PER_THREAD :
									RNL_STREAM_PRIVATE;
	const unsigned threads = opt->threads[run->part % opt->nr_threads];
	struct candidates *list = bench_alloc(sizeof(*list));
	struct bench b = { .opt = opt, .threads = threads, .kind = kind };
	struct gpu_row *row;

	gpu_setup();
	gpu_begin(opt->ordinal);
	b.team = gpu_team_start(opt->ordinal, kind, threads, gpu_issue_j, true);
	b.mutex = gpu_mutex_start(opt->ordinal, kind, threads);
	b.requests = gpu_requests(REQUESTS_MAX * threads);
	list_all(list, threads);
	screen(&b, list);
	row = gpu_row_new("jobs", "kJ/s", true, GPU_OF_HAND, 0.97, "J per second, %u, %s", threads,
			  gpu_kind_name(kind));
	for (unsigned i = 0; i < list->nr; i++) {
		struct candidate *c = &list->all[i];

		c->figure = gpu_row_figure(row, c->side, c->name);
		c->figure->screened = !c->kept;
		if (!c->kept)
			gpu_figure_add(c->figure, c->screened);
	}
	run_kept(&b, list);
	rnl_pool_destroy(b.pool);
	if (kind == RNL_STREAM_PRIVATE) {
		struct gpu_row *copy = bench_alloc(sizeof(*copy));

		*copy = *row;
		gpu_row_tell(run, row);
		tell_ahead(run, copy, threads);
		free(copy);
	} else {
		gpu_row_tell(run, row);
	}
	free(list);
}

const struct gpu_line gpu_jobs = {
	.name = "jobs", .patience_s = 90, .parts = parts, .measure = line
};
