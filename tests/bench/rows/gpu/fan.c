/* SPDX-License-Identifier: MIT */
/*
 * The row fan: items of 4 + 3 + 1 kernels, 64 in flight: three come after all four, one after all
 * three; and items with the same kernels one after the other.
 *
 * DESIGN
 *	A kernel takes 3 us.  By hand: threads, each with four streams and events between them, or
 *	with a stream for each of its items, to which it issues kernels or the item's graph; an
 *	item's memory is reused after its last event.
 *	runnel: barriers, or chains; one thread that waits for a completion queue, or the callback
 *	of the item's last job, reuses an item's memory.
 */
#include "gpu/work.h"

#define KERNEL_NS 3000
#define ITEMS_OF_SAMPLE 10

enum { AT_ONCE = 64, PARTS = 4, MIXES = 3, JOBS = PARTS + MIXES + 1, CREWS = 3, WORKERS = 8 };

static const unsigned crew_sizes[CREWS] = { 1, 4, 8 };

struct bench;

/* By hand: an item that a thread has in flight. */
struct hand_item {
	cudaEvent_t events[JOBS];
	struct gpu_graph graphs[2];	/* fanned out; one behind the other */
	bool busy;
};

struct hand_crew {
	struct gpu_crew crew;
	struct bench *bench;
	unsigned nr;
	cudaStream_t (*streams)[AT_ONCE]; /* of each thread: four, or one per item */
};

struct pool_item {
	struct rnl_job jobs[JOBS];
	struct rnl_barrier made, mixed;
	struct bench *bench;
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* items */
	bool chained, by_callback, by_graph;
	atomic_uint started, done;	/* items started, done by callbacks */
	struct hand_crew crews[CREWS];
	struct hand_item hand[AT_ONCE];
	struct pool_item *items;
	struct rnl_cq *cq;
};

static void issue(cudaStream_t stream)
{
	gpu_ok(gpu_issue_spin(1, 1, KERNEL_NS, NULL, stream), "a kernel");
}

/* ---- by hand ------------------------------------------------------------- */

static void wait_on(cudaStream_t stream, cudaEvent_t event)
{
	gpu_ok(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

static void mark(cudaEvent_t event, cudaStream_t stream)
{
	gpu_ok(cudaEventRecord(event, stream), "cudaEventRecord");
}

static void fan_out(struct hand_item *item, cudaStream_t *streams)
{
	for (unsigned i = 0; i < PARTS; i++) {
		issue(streams[i]);
		mark(item->events[i], streams[i]);
	}
	for (unsigned i = 0; i < MIXES; i++) {
		for (unsigned k = 0; k < PARTS; k++) {
			if (k != i)
				wait_on(streams[i], item->events[k]);
		}
		issue(streams[i]);
		mark(item->events[PARTS + i], streams[i]);
	}
	for (unsigned i = 0; i < MIXES; i++)
		wait_on(streams[PARTS - 1], item->events[PARTS + i]);
	issue(streams[PARTS - 1]);
	mark(item->events[JOBS - 1], streams[PARTS - 1]);
}

static void one_behind_the_other(struct hand_item *item, cudaStream_t stream)
{
	for (unsigned i = 0; i < JOBS; i++)
		issue(stream);
	mark(item->events[JOBS - 1], stream);
}

static void by_graph(struct hand_item *item, bool chained, cudaStream_t stream)
{
	struct gpu_graph *g = &item->graphs[chained];
	struct gpu_spin args = { KERNEL_NS, NULL };

	for (unsigned i = 0; i < JOBS; i++) {
		if (chained)
			gpu_graph_set(g, i, gpu_spinner, 1, 1, &args, i ? i - 1 : 0, i ? 1 : 0);
		else if (i < PARTS)
			gpu_graph_set(g, i, gpu_spinner, 1, 1, &args, 0, 0);
		else
			gpu_graph_set(g, i, gpu_spinner, 1, 1, &args, i < JOBS - 1 ? 0 : PARTS,
				      i < JOBS - 1 ? PARTS : MIXES);
	}
	gpu_graph_launch(g, stream);
	mark(item->events[JOBS - 1], stream);
}

static void by_thread(void *arg, unsigned index, cudaStream_t own)
{
	struct hand_crew *crew = arg;
	struct bench *b = crew->bench;
	const unsigned share = AT_ONCE / crew->nr;
	cudaStream_t *streams = crew->streams[index];

	(void)own;
	for (unsigned n = 0; n < b->nr / crew->nr + share; n++) {
		struct hand_item *item = &b->hand[index * share + n % share];

		if (item->busy)
			gpu_ok(gpu_event_sync(item->events[JOBS - 1]), "cudaEventSynchronize");
		item->busy = n < b->nr / crew->nr;
		if (!item->busy)
			continue;
		if (b->by_graph)
			by_graph(item, b->chained, streams[n % share]);
		else if (b->chained)
			one_behind_the_other(item, streams[n % share]);
		else
			fan_out(item, streams);
	}
}

/* ---- by the pool ----------------------------------------------------------- */

static int run_job(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, KERNEL_NS, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static void end_item(struct rnl_job *job);

static void start(struct bench *b, struct pool_item *item)
{
	if (!b->chained) {
		bench_rnl(rnl_barrier_init(&item->made, b->pool), "rnl_barrier_init");
		bench_rnl(rnl_barrier_init(&item->mixed, b->pool), "rnl_barrier_init");
	}
	for (unsigned i = 0; i < JOBS; i++) {
		struct rnl_job *job = &item->jobs[i];

		bench_rnl(gpu_job_init(job, run_job), "rnl_job_init");
		job->user = item;
		if (i == JOBS - 1)
			bench_rnl(b->by_callback ? rnl_job_set_on_done(job, end_item) :
						   rnl_job_set_cq(job, b->cq), "the end of an item");
		if (b->chained && i) {
			bench_rnl(rnl_job_set_then(job - 1, job), "rnl_job_set_then");
		} else if (!b->chained) {
			if (i < JOBS - 1)
				bench_rnl(rnl_barrier_add(i < PARTS ? &item->made : &item->mixed,
							  job), "rnl_barrier_add");
			if (i >= PARTS)
				bench_rnl(rnl_job_set_after(job, i < JOBS - 1 ? &item->made :
								       &item->mixed), "rnl_job_set_after");
			bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
		}
	}
	if (b->chained)
		bench_rnl(rnl_submit(b->pool, &item->jobs[0]), "rnl_submit");
}

static void end_item(struct rnl_job *job)
{
	struct pool_item *item = job->user;
	struct bench *b = item->bench;

	bench_rnl(job->result, "an item");
	if (atomic_fetch_add(&b->started, 1) < b->nr)
		start(b, item);
	atomic_fetch_add(&b->done, 1);
}

static void by_callbacks(struct bench *b)
{
	atomic_store(&b->started, AT_ONCE);
	atomic_store(&b->done, 0);
	for (unsigned i = 0; i < AT_ONCE; i++)
		start(b, &b->items[i]);
	while (atomic_load(&b->done) < b->nr)
		bench_relax();
}

static void by_queue(struct bench *b)
{
	struct rnl_job *jobs[AT_ONCE];
	unsigned started, done = 0;

	for (started = 0; started < AT_ONCE && started < b->nr; started++)
		start(b, &b->items[started]);
	while (done < b->nr) {
		int nr = rnl_cq_reap(b->cq, jobs, AT_ONCE, RNL_FOREVER);

		bench_rnl(nr < 0 ? nr : 0, "rnl_cq_reap");
		for (int i = 0; i < nr; i++, done++) {
			bench_rnl(jobs[i]->result, "an item");
			if (started < b->nr) {
				start(b, jobs[i]->user);
				started++;
			}
		}
	}
}

/* ---- the row --------------------------------------------------------------- */

/* The order of the table. */
static const struct {
	unsigned crew;			/* CREWS: the pool */
	bool chained, by_callback, by_graph;
} ways[] = {
	{ 0, false, false, false }, { 1, false, false, false }, { 2, false, false, false },
	{ 1, false, false, true }, { 2, false, false, true },
	{ CREWS, false, false, false }, { CREWS, false, true, false },
	{ 1, true, false, false }, { 2, true, false, false },
	{ 1, true, false, true }, { 2, true, false, true },
	{ CREWS, true, false, false }, { CREWS, true, true, false },
};

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const unsigned crew = ways[way].crew;
	const uint64_t start_ns = bench_now();

	b->chained = ways[way].chained;
	b->by_callback = ways[way].by_callback;
	b->by_graph = ways[way].by_graph;
	if (crew < CREWS) {
		gpu_crew_begin(&b->crews[crew].crew);
		gpu_crew_end(&b->crews[crew].crew);
	} else if (b->by_callback) {
		by_callbacks(b);
	} else {
		by_queue(b);
	}
	values[0] = (double)b->nr * 1e6 / (double)(bench_now() - start_ns);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	double values[BENCH_VALUES];

	b->nr = run->opt->samples * ITEMS_OF_SAMPLE / AT_ONCE * AT_ONCE + AT_ONCE;
	for (unsigned i = 0; i < AT_ONCE; i++) {
		for (unsigned k = 0; k < JOBS; k++)
			b->hand[i].events[k] = gpu_event(cudaEventDisableTiming);
	}
	for (unsigned c = 0; c < CREWS; c++) {
		struct hand_crew *crew = &b->crews[c];
		const unsigned share = AT_ONCE / crew_sizes[c];

		crew->bench = b;
		crew->nr = crew_sizes[c];
		crew->streams = bench_alloc(crew->nr * sizeof(*crew->streams));
		for (unsigned t = 0; t < crew->nr; t++) {
			for (unsigned i = 0; i < (share < PARTS ? PARTS : share); i++)
				crew->streams[t][i] = gpu_stream(RNL_STREAM_PRIVATE, false);
		}
		gpu_crew_start(&crew->crew, run->opt->info.ordinal, RNL_STREAM_PRIVATE, crew->nr,
			       by_thread, crew);
	}
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, NULL);
	bench_rnl(rnl_cq_create(&b->cq), "rnl_cq_create");
	b->items = bench_alloc(AT_ONCE * sizeof(*b->items));
	for (unsigned i = 0; i < AT_ONCE; i++)
		b->items[i].bench = b;
	for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
		measure(b, way, values);
	return b;
}

const struct bench_work bench_fan = { begin_row, measure, gpu_row_end, NULL };
