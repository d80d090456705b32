/* SPDX-License-Identifier: MIT */
/*
 * The row devices, J: jobs of one pool over several GPUs, compared with a pool of one GPU.
 *
 * DESIGN
 *	A part of the table has one number of GPUs and one kind of streams. Its lines are J, and
 *	gathered J. On several GPUs, jobs either are placed, in turn on each GPU, or run on any GPU:
 *	each J has memory on all GPUs, and its function uses the memory of its worker's device. A
 *	pool has the same number of workers and producers per GPU.
 *	Like in the row jobs, a short run of each variant (producers P for each GPU, requests q for
 *	each worker, kind of submits) selects variants for several long runs: the best of one GPU,
 *	of placed jobs, and of other jobs. There is one pool at a time, so no idle stream shares a
 *	hardware queue; a new pool first does a short run that is not measured.
 *	By hand, on one GPU and on all, one thread per worker shows the possible scaling: the
 *	threads issue J one by one or, to compare with gathered J, graphs of many J. All memory is
 *	the pool's, because a mover can copy it.
 */
#include "gpu/work.h"

#include <stdlib.h>

#include <runnel/memory.h>

#define REQUESTS_MAX 128		/* for each worker */
#define PRODUCERS_MAX 8			/* for each GPU */
#define CANDIDATES_MAX 64

enum spread { ONE, ANYWHERE, PLACED, SPREADS };
static const char *const spreads[] = { "one GPU, ", "", "placed, " };

enum { HAND_ONE = CANDIDATES_MAX, HAND_ALL };	/* numbered after the candidates */
#define WAYS (SPREADS + 2)

struct bench {
	const struct bench_options *opt;
	unsigned threads, nr_gpus;	/* threads: per GPU */
	enum rnl_stream_kind kind;
	struct gpu_request *requests;
	struct rnl_pool *pool;
	unsigned nr_of_pool;		/* number of its GPUs */
	void *pinned, *devs[BENCH_GPUS_MAX];
	struct gpu_team *teams[BENCH_GPUS_MAX];
	bool gathered;
	struct candidate {
		enum spread spread;
		enum gpu_done done;
		unsigned producers, requests;
		double screened;
	} all[CANDIDATES_MAX];
	unsigned nr;
};

/* ---- a pool -------------------------------------------------------------- */

static void drop_pool(struct bench *b)
{
	if (!b->pool)
		return;
	rnl_memory_put(b->pool, b->pinned);
	for (unsigned i = 0; i < b->nr_of_pool; i++)
		rnl_memory_put(b->pool, b->devs[i]);
	rnl_pool_destroy(b->pool);
	b->pool = NULL;
}

static void make_pool(struct bench *b, unsigned nr_gpus)
{
	const struct gpu_shape j = { 1, 1, { GPU_WORDS } };
	const size_t nr = (size_t)nr_gpus * b->threads * REQUESTS_MAX;
	const size_t bytes = nr * GPU_WORDS * sizeof(uint32_t);

	drop_pool(b);
	b->nr_of_pool = nr_gpus;
	b->pool = gpu_pool(gpu_names(b->opt, 0, nr_gpus), b->kind, nr_gpus * b->threads, NULL);
	bench_rnl(rnl_memory_get(b->pool, RNL_PINNED, 2 * bytes, &b->pinned, 0), "rnl_memory_get");
	for (unsigned i = 0; i < nr_gpus; i++)
		bench_rnl(rnl_memory_get(b->pool, i, bytes, &b->devs[i], 0), "rnl_memory_get");
	gpu_slots_in(&b->requests->slot, nr, sizeof(*b->requests), &j, b->pinned, b->devs[0]);
	for (size_t i = 0; i < nr; i++)
		b->requests[i].devs = b->devs;
}

static double rate(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr = c->requests * b->threads * b->nr_of_pool;

	for (unsigned i = 0; i < nr; i++)
		b->requests[i].place = c->spread == PLACED ? i % b->nr_of_pool + 1 : 0;
	return 1e-3 * gpu_pool_rate(b->pool, b->requests, nr, c->done,
				    c->producers * b->nr_of_pool, ms);
}

/* Returns thousands of J per second. */
static double measure(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr_gpus = c->spread == ONE ? 1 : b->nr_gpus;

	if (!b->pool || b->nr_of_pool != nr_gpus) {
		make_pool(b, nr_gpus);
		(void)rate(b, c, b->opt->screen_ms);
	}
	return rate(b, c, ms);
}

/* ---- by hand ------------------------------------------------------------- */

static const struct gpu_hand_variant one_by_one = { GPU_EVENT, 8, 64, 0 };

static double measure_by_hand(const struct bench *b, unsigned nr_gpus, unsigned ms)
{
	return 1e-3 * gpu_teams_rate(b->teams, nr_gpus, b->gathered ? &gpu_groups : &one_by_one, ms);
}

static void begin_by_hand(struct bench *b)
{
	const int *gpus = b->opt->gpus;

	for (unsigned i = b->nr_gpus; i--;) {
		gpu_enter(gpus[i]);
		b->teams[i] = gpu_team_start(gpus[i], b->kind, b->threads, gpu_issue_j, true);
	}
}

/* ---- the variants -------------------------------------------------------- */

static void add(struct bench *b, enum spread spread, enum gpu_done done, unsigned producers,
		unsigned requests)
{
	bench_must(b->nr < CANDIDATES_MAX, "room for one more variant");
	b->all[b->nr++] = (struct candidate){ spread, done, producers, requests, 0 };
}

static void list_all(struct bench *b)
{
	b->nr = 0;
	for (unsigned spread = ONE; spread < SPREADS; spread++)
		for (unsigned p = 1; p <= b->threads && p <= PRODUCERS_MAX; p *= 2) {
			add(b, spread, b->gathered ? GPU_CQ_GATHER : GPU_CQ, p, REQUESTS_MAX);
			if (b->gathered)
				continue;
			add(b, spread, GPU_CQ, p, REQUESTS_MAX / 2);
			add(b, spread, GPU_CQ_MANY, p, REQUESTS_MAX);
		}
}

static void screen(struct bench *b)
{
	for (unsigned i = 0; i < b->nr; i++)
		b->all[i].screened = measure(b, &b->all[i], b->opt->screen_ms);
}

static unsigned best_of(const struct bench *b, enum spread spread)
{
	unsigned best = b->nr;

	for (unsigned i = 0; i < b->nr; i++)
		if (b->all[i].spread == spread &&
		    (best == b->nr || b->all[i].screened > b->all[best].screened))
			best = i;
	return best;
}

static struct bench_figure *add_figure(struct bench_line *line, const struct candidate *c)
{
	static const char *const how[] = {
		[GPU_CQ] = "cq", [GPU_CQ_MANY] = "submit_many", [GPU_CQ_GATHER] = "cq"
	};
	char name[40];

	snprintf(name, sizeof(name), "%s%s P%u q%u", spreads[c->spread], how[c->done], c->producers,
		 c->requests);
	return bench_figure(line, c->spread == ONE ? BENCH_OTHER : BENCH_RUNNEL, name);
}

/* ---- the row ------------------------------------------------------------- */

static void measure_one(void *arg, unsigned which, double *values)
{
	struct bench *b = arg;

	values[0] = which < CANDIDATES_MAX ? measure(b, &b->all[which], b->opt->run_ms) :
		    measure_by_hand(b, which == HAND_ONE ? 1 : b->nr_gpus, b->opt->run_ms);
}

static void run_line(const struct bench_run *run, struct bench *b, unsigned quantity)
{
	struct bench_line *line = bench_line(run, quantity, ", %u workers each", b->threads);
	struct bench_figure *one, *all;
	struct bench_way ways[WAYS];

	b->gathered = quantity;
	for (unsigned i = 0; i < b->nr_gpus; i++)
		gpu_team_issue(b->teams[i], b->gathered ? gpu_issue_graphs : gpu_issue_j, true);
	(void)measure_by_hand(b, b->nr_gpus, b->opt->screen_ms);
	list_all(b);
	screen(b);
	for (unsigned i = 0; i < SPREADS; i++) {
		const unsigned best = best_of(b, i);

		ways[i] = (struct bench_way){
			measure_one, best, { add_figure(line, &b->all[best]) }, false
		};
	}
	one = bench_figure(line, BENCH_OTHER, b->gathered ? "graphs, one GPU" : "loops, one GPU");
	all = bench_figure(line, BENCH_HAND, b->gathered ? "graphs" : "loops");
	ways[SPREADS] = (struct bench_way){ measure_one, HAND_ONE, { one }, false };
	ways[SPREADS + 1] = (struct bench_way){ measure_one, HAND_ALL, { all }, false };
	bench_turns(run, ways, WAYS, b);
	gpu_scales(line, b->nr_gpus, ways[ONE].figures[0]->variant, BENCH_HAND, one->variant);
	bench_line_tell(run, line);
}

static void run_row(struct bench_run *run)
{
	const unsigned nr = run->nr_gpus * run->opt->workers;
	struct bench *b;

	b = bench_alloc(sizeof(*b));
	b->opt = run->opt;
	b->threads = run->opt->workers;
	b->nr_gpus = run->nr_gpus;
	b->kind = run->kind;
	b->requests = bench_alloc(REQUESTS_MAX * (size_t)nr * sizeof(*b->requests));
	begin_by_hand(b);
	for (unsigned quantity = 0; quantity < 2; quantity++)
		run_line(run, b, quantity);
	drop_pool(b);
	free(b->requests);
	free(b);
}

const struct bench_work bench_devices = { .run = run_row };
