/* SPDX-License-Identifier: MIT */
/*
 * The line latency: one J in an idle pool, from its submit until the waiter has returned.
 *
 * DESIGN
 *	Hand-written code without a hand-over is one thread that issues J and looks
 *	for its end: in a flag that the stream writes, in an event, in a sync.  With
 *	one, another thread issues it: one that looks at a word all the time, which
 *	no pool can beat and none would pay for, or that of a mutex pool.
 *	J follows J, or comes a millisecond after the last one, when threads and
 *	CPUs sleep.
 */
#include "gpu.h"
#include "gpu_work.h"

#include <stdlib.h>
#include <string.h>

#define WARM_UPS 50
#define LATER_PART 4		/* samples that come later are fewer */

struct spinner {			/* a thread that J is handed over to */
	int ordinal;
	enum rnl_stream_kind kind;
	struct gpu_slot *slot;
	uint32_t *flag;			/* page-locked */
	atomic_uint wanted;		/* the number of the J to issue */
	atomic_bool asleep;
};

struct bench {
	const struct gpu_options *opt;
	cudaStream_t stream;
	cudaEvent_t event;
	struct gpu_slot slot;
	uint32_t *flag, written;
	struct spinner spinner;
	uint32_t asked;
	struct gpu_mutex *mutex;
	struct gpu_producer producer;
	struct rnl_pool *pool;
	struct gpu_request *request;	/* of the pools */
};

typedef void one_fn(struct bench *b);

static void await_flag(const uint32_t *flag, uint32_t value)
{
	/* acquire: what the stream did before it wrote the word */
	while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
		bench_relax();
}

static void by_flag(struct bench *b)
{
	gpu_ok(gpu_issue_j(&b->slot, b->stream), "J");
	gpu_stream_write(b->stream, b->flag, ++b->written);
	await_flag(b->flag, b->written);
}

static void by_event(struct bench *b)
{
	cudaError_t code;

	gpu_ok(gpu_issue_j(&b->slot, b->stream), "J");
	gpu_ok(cudaEventRecord(b->event, b->stream), "cudaEventRecord");
	while ((code = cudaEventQuery(b->event)) == cudaErrorNotReady)
		bench_relax();
	gpu_ok(code, "cudaEventQuery");
	(void)cudaGetLastError();	/* "not ready" is no launch's error */
}

static void by_sync(struct bench *b)
{
	gpu_ok(gpu_issue_j(&b->slot, b->stream), "J");
	gpu_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize");
}

/* ---- with a hand-over ---------------------------------------------------- */

static void *spin_and_issue(void *arg)
{
	struct spinner *s = arg;
	cudaStream_t stream;
	uint32_t issued = 0;

	gpu_enter(s->ordinal);
	stream = gpu_stream(s->kind, false);
	for (;;) {
		/* acquire: J's memory, as the other thread left it */
		const uint32_t wanted = atomic_load_explicit(&s->wanted, memory_order_acquire);

		if (wanted == issued) {
			/* Between its turns it takes no CPU from the others. */
			if (atomic_load_explicit(&s->asleep, memory_order_relaxed))
				gpu_sleep_ms(1);
			else
				bench_relax();
			continue;
		}
		gpu_ok(gpu_issue_j(s->slot, stream), "J");
		gpu_stream_write(stream, s->flag, wanted);
		issued = wanted;
	}
	return NULL;
}

static void by_spinner(struct bench *b)
{
	b->asked++;
	/* release: J's memory; pairs with the spinner's acquire */
	atomic_store_explicit(&b->spinner.wanted, b->asked, memory_order_release);
	await_flag(b->spinner.flag, b->asked);
}

static void by_mutex(struct bench *b)
{
	gpu_mutex_one(b->mutex, &b->producer, b->request);
}

static void by_pool(struct bench *b)
{
	gpu_rnl(rnl_submit(b->pool, &b->request->job), "rnl_submit");
	gpu_rnl(rnl_job_wait(&b->request->job, RNL_FOREVER), "rnl_job_wait");
	gpu_rnl(rnl_job_result(&b->request->job), "J");
}

/* ---- samples ------------------------------------------------------------- */

static const struct way {
	const char *name;
	enum gpu_side side;
	one_fn *one;
} ways[] = {
	{ "one thread, flag", GPU_HAND, by_flag },
	{ "one thread, event", GPU_HAND, by_event },
	{ "one thread, stream sync", GPU_HAND, by_sync },
	{ "spinning thread, flag", GPU_PEER, by_spinner },
	{ "mutex pool, sync", GPU_PEER, by_mutex },
	{ "rnl_job_wait()", GPU_RUNNEL, by_pool },
};
#define BY_MUTEX 4
#define BY_POOL 5
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static double sample(struct bench *b, const struct way *way, bool later)
{
	const bool pooled = way->one == by_mutex || way->one == by_pool;
	struct gpu_slot *slot = pooled ? &b->request->slot : &b->slot;
	uint64_t start, ns;

	if (later)
		gpu_sleep_ms(1);
	gpu_prepare(slot);
	start = bench_now();
	way->one(b);
	ns = bench_now() - start;
	gpu_check(slot);
	return (double)ns * 1e-3;
}

static void measure(struct bench *b, const struct way *way, bool later, double *us, unsigned nr,
		    struct gpu_figure *p50, struct gpu_figure *p99)
{
	atomic_store(&b->spinner.asleep, way->one != by_spinner);
	for (int i = 0; i < WARM_UPS; i++)
		(void)sample(b, way, false);
	for (unsigned i = 0; i < nr; i++)
		us[i] = sample(b, way, later);
	gpu_figure_add(p50, bench_percentile(us, nr, 50));
	gpu_figure_add(p99, bench_percentile(us, nr, 99));
	atomic_store(&b->spinner.asleep, true);
}

static void rows(const struct gpu_run *run, struct bench *b, enum rnl_stream_kind kind, bool later)
{
	const char *when = later ? "1 ms later" : "one by one";
	const unsigned nr = b->opt->samples / (later ? LATER_PART : 1) + 1;
	struct gpu_row *p50, *p99, *ahead;
	struct gpu_figure *figures[2][WAYS];
	double *us = bench_alloc(nr * sizeof(*us));

	p50 = gpu_row_new("latency", "us", false, GPU_HAND_PLUS, 3, "J, %s, p50, %s", when,
			  gpu_kind_name(kind));
	p99 = gpu_row_new("latency", "us", false, GPU_HAND_PLUS, 3, "J, %s, p99, %s", when,
			  gpu_kind_name(kind));
	for (unsigned i = 0; i < WAYS; i++) {
		figures[0][i] = gpu_row_figure(p50, ways[i].side, ways[i].name);
		figures[1][i] = gpu_row_figure(p99, ways[i].side, ways[i].name);
	}
	for (unsigned turn = 0; turn < b->opt->runs; turn++) {
		for (unsigned i = 0; i < WAYS; i++) {
			const unsigned way = (i + turn) % WAYS;

			measure(b, &ways[way], later, us, nr, figures[0][way], figures[1][way]);
		}
	}
	free(us);
	ahead = gpu_row_new("latency", "us", false, GPU_OF_PEER, 1, "J, %s, p50, %s; a mutex pool",
			    when, gpu_kind_name(kind));
	*gpu_row_figure(ahead, GPU_PEER, "") = *figures[0][BY_MUTEX];
	*gpu_row_figure(ahead, GPU_RUNNEL, "") = *figures[0][BY_POOL];
	gpu_row_tell(run, p50);
	gpu_row_tell(run, p99);
	gpu_row_tell(run, ahead);
}

static unsigned parts(const struct gpu_options *opt)
{
	(void)opt;
	return 2;
}

static void line(const struct gpu_run *run)
{
	const struct gpu_options *opt = run->opt;
	const enum rnl_stream_kind kind = run->part ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	struct bench *b = bench_alloc(sizeof(*b));	/* its threads stay */
	pthread_t thread;

	b->opt = opt;
	gpu_setup();
	gpu_begin(opt->ordinal);
	b->stream = gpu_stream(kind, false);
	b->event = gpu_event(cudaEventDisableTiming);
	b->flag = gpu_pinned(128);
	gpu_slots(&b->slot, 1, sizeof(b->slot));
	b->spinner.ordinal = opt->ordinal;
	b->spinner.kind = kind;
	b->spinner.slot = &b->slot;
	b->spinner.flag = gpu_pinned(128);
	b->spinner.asleep = true;
	bench_must(!pthread_create(&thread, NULL, spin_and_issue, &b->spinner), "pthread_create");
	b->mutex = gpu_mutex_start(opt->ordinal, kind, 8);
	gpu_mutex_producer(&b->producer);
	b->pool = gpu_pool(opt->device, kind, 8, NULL);
	b->request = gpu_requests(1);
	gpu_rnl(gpu_job_init(&b->request->job, gpu_run_j), "rnl_job_init");
	rows(run, b, kind, false);
	rows(run, b, kind, true);
	rnl_pool_destroy(b->pool);
}

const struct gpu_line gpu_latency = {
	.name = "latency", .patience_s = 60, .parts = parts, .measure = line
};
