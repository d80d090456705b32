/* SPDX-License-Identifier: MIT */
/*
 * The row devices, J: jobs of one pool over two GPUs, beside a pool of one GPU.
 *
 * DESIGN
 *	A part is a number of workers for each GPU, and a kind of streams.  Its lines are J, and J
 *	that is gathered.  By two GPUs, jobs either are placed, by turns on one and the other, or
 *	run on any: each J has memory on both, and its function takes that of its worker's device.
 *	A pool of two has twice the workers, and is fed by twice the producers.
 *	As in the row jobs, a short run of each variant (producers P for each GPU, requests q for
 *	each worker, how one submits) tells which is worth several long ones: the best of one GPU,
 *	of placed jobs, and of those that are not.  There is one pool at a time, so that no idle
 *	stream shares a hardware queue; a new one gets a short run that counts for nothing.
 *	All memory is the pool's, since a mover may copy that.
 */
#include "gpu/work.h"

#include <stdlib.h>

#define REQUESTS_MAX 128		/* for each worker */
#define PRODUCERS_MAX 8			/* for each GPU */
#define CANDIDATES_MAX 64

enum spread { ONE, ANYWHERE, PLACED, SPREADS };
static const char *const spreads[] = { "one GPU, ", "", "placed, " };

struct bench {
	const struct bench_options *opt;
	unsigned threads;
	enum rnl_stream_kind kind;
	struct gpu_request *requests;
	struct rnl_pool *pool;
	unsigned nr_gpus;		/* of that pool */
	void *pinned, *dev[2];
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
	rnl_pinned_put(b->pool, b->pinned);
	for (unsigned i = 0; i < b->nr_gpus; i++)
		rnl_device_free(b->pool, b->dev[i]);
	rnl_pool_destroy(b->pool);
	b->pool = NULL;
}

static void make_pool(struct bench *b, unsigned nr_gpus)
{
	const struct gpu_shape j = { 1, 1, { GPU_WORDS } };
	const size_t nr = (size_t)nr_gpus * b->threads * REQUESTS_MAX;
	const size_t bytes = nr * GPU_WORDS * sizeof(uint32_t);

	drop_pool(b);
	b->nr_gpus = nr_gpus;
	b->pool = gpu_pool(nr_gpus > 1 ? b->opt->both : b->opt->device, b->kind,
			   nr_gpus * b->threads, NULL);
	bench_rnl(rnl_pinned_get(b->pool, 2 * bytes, &b->pinned), "rnl_pinned_get");
	for (unsigned i = 0; i < nr_gpus; i++)
		bench_rnl(rnl_device_alloc(b->pool, i, bytes, &b->dev[i]), "rnl_device_alloc");
	gpu_slots_in(&b->requests->slot, nr, sizeof(*b->requests), &j, b->pinned, b->dev[0]);
	for (size_t i = 0; i < nr; i++)
		b->requests[i].other = nr_gpus > 1 ? (uint32_t *)b->dev[1] + i * GPU_WORDS : NULL;
}

static double rate(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr = c->requests * b->threads * b->nr_gpus;

	for (unsigned i = 0; i < nr; i++)
		b->requests[i].place = c->spread == PLACED ? i % 2 + 1 : 0;
	return 1e-3 * gpu_pool_rate(b->pool, b->requests, nr, c->done, c->producers * b->nr_gpus,
				    ms);
}

/* Return: thousands of J a second. */
static double measure(struct bench *b, const struct candidate *c, unsigned ms)
{
	const unsigned nr_gpus = c->spread == ONE ? 1 : 2;

	if (!b->pool || b->nr_gpus != nr_gpus) {
		make_pool(b, nr_gpus);
		(void)rate(b, c, b->opt->screen_ms);
	}
	return rate(b, c, ms);
}

/* ---- the variants -------------------------------------------------------- */

static void add(struct bench *b, enum spread spread, enum gpu_done done, unsigned producers,
		unsigned requests)
{
	bench_must(b->nr < CANDIDATES_MAX, "room for one more variant");
	b->all[b->nr++] = (struct candidate){ spread, done, producers, requests, 0 };
}

static void list_all(struct bench *b, bool gathered)
{
	b->nr = 0;
	for (unsigned spread = ONE; spread < SPREADS; spread++)
		for (unsigned p = 1; p <= b->threads && p <= PRODUCERS_MAX; p *= 2) {
			add(b, spread, gathered ? GPU_CQ_GATHER : GPU_CQ, p, REQUESTS_MAX);
			if (gathered)
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
	return bench_figure(line, c->spread == ONE ? BENCH_HAND : BENCH_RUNNEL, name);
}

/* ---- the row ------------------------------------------------------------- */

static void measure_one(void *arg, unsigned which, double *values)
{
	struct bench *b = arg;

	values[0] = measure(b, &b->all[which], b->opt->run_ms);
}

static void run_line(const struct bench_run *run, struct bench *b, unsigned quantity)
{
	struct bench_line *line = bench_line(run, quantity, "%s", "");
	struct bench_way ways[SPREADS];

	list_all(b, quantity);
	screen(b);
	for (unsigned i = 0; i < SPREADS; i++) {
		const unsigned best = best_of(b, i);

		ways[i] = (struct bench_way){
			measure_one, best, { add_figure(line, &b->all[best]) }, false
		};
	}
	bench_turns(run, ways, SPREADS, b);
	bench_line_tell(run, line);
}

static void run_row(struct bench_run *run)
{
	struct bench *b;

	if (2 * run->threads > RNL_WORKERS_MAX)
		return;		/* no pool of two has so many */
	b = bench_alloc(sizeof(*b));
	b->opt = run->opt;
	b->threads = run->threads;
	b->kind = run->kind;
	b->requests = bench_alloc(2 * REQUESTS_MAX * (size_t)b->threads * sizeof(*b->requests));
	for (unsigned quantity = 0; quantity < 2; quantity++)
		run_line(run, b, quantity);
	drop_pool(b);
	free(b->requests);
	free(b);
}

const struct bench_work bench_devices = { .run = run_row };
