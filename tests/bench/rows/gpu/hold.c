/* SPDX-License-Identifier: MIT */
/*
 * The row hold: a job with a hold that another thread releases, from the release until the waiter
 * has returned; compared with a thread that waits for a condition variable, by hand.
 *
 * DESIGN
 *	By hand a thread issues the kernel, and waits for its event and for the other thread's signal.
 *	A plain job of runnel's is shown, too, from its submit until the waiter has returned.
 *	All issue an empty kernel; in separate lines they issue no work. The other thread
 *	spins, and releases the hold 0.2 ms after the function has returned: then the job has
 *	completed on the device, and its worker and the waiter sleep. The plain job is submitted to
 *	a sleeping worker after the same pause; and also without pauses, like in the row latency.
 */
#include <runnel/hold.h>

#include "gpu/work.h"

#define WARM_UPS 50
#define QUIET_NS 200000

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned nr;			/* samples */
	double *us;
	bool issues;			/* the jobs issue a kernel */
	struct rnl_job plain, held;
	struct rnl_hold hold;
	atomic_uint taken, released;	/* holds, or signals */
	uint64_t release_ns;
	/* By hand. */
	bool by_hand, signalled;
	pthread_mutex_t lock;
	pthread_cond_t signal;
	cudaStream_t stream;
	cudaEvent_t event;
};

static int work(const struct bench *b)
{
	return b->issues && gpu_issue_empty(NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

static int run_plain(struct rnl_job *job)
{
	return work(rnl_container_of(job, struct bench, plain));
}

static int run_held(struct rnl_job *job)
{
	struct bench *b = rnl_container_of(job, struct bench, held);
	int ret = rnl_job_hold(job, &b->hold);

	if (ret)
		return ret;
	ret = work(b);
	/* release: the hold; pairs with the other thread's acquire */
	atomic_fetch_add_explicit(&b->taken, 1, memory_order_release);
	return ret;
}

static void be_quiet(void)
{
	for (uint64_t until = bench_now() + QUIET_NS; bench_now() < until;)
		bench_relax();
}

static void let_go(struct bench *b)
{
	if (!b->by_hand) {
		bench_rnl(rnl_hold_release(&b->hold, 0), "rnl_hold_release");
		return;
	}
	pthread_mutex_lock(&b->lock);
	b->signalled = true;
	pthread_cond_signal(&b->signal);
	pthread_mutex_unlock(&b->lock);
}

static void run_by_hand(struct bench *b)
{
	if (b->issues) {
		gpu_ok(gpu_issue_empty(NULL, b->stream), "a kernel");
		gpu_ok(cudaEventRecord(b->event, b->stream), "cudaEventRecord");
	}
	/* release: by_hand; pairs with the other thread's acquire */
	atomic_fetch_add_explicit(&b->taken, 1, memory_order_release);
	if (b->issues)
		gpu_ok(gpu_event_sync(b->event), "cudaEventSynchronize");
	pthread_mutex_lock(&b->lock);
	while (!b->signalled)
		pthread_cond_wait(&b->signal, &b->lock);
	b->signalled = false;
	pthread_mutex_unlock(&b->lock);
}

static void *release_holds(void *arg)
{
	struct bench *b = arg;

	for (unsigned nr = 1;; nr++) {
		/* acquire: the hold */
		while (atomic_load_explicit(&b->taken, memory_order_acquire) != nr)
			bench_relax();
		be_quiet();
		b->release_ns = bench_now();
		let_go(b);
		atomic_fetch_add(&b->released, 1);
	}
	return NULL;
}

/* The order of the table: ways of jobs with a kernel, then ways of jobs without. */
enum { BY_HAND, ONE_BY_ONE, LATER, HELD, WAYS };

static void run_by_pool(struct bench *b, struct rnl_job *job)
{
	bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
	bench_rnl(rnl_job_wait(job, RNL_FOREVER), "rnl_job_wait");
	bench_rnl(job->result, "a job");
}

static double sample(struct bench *b, unsigned way)
{
	uint64_t start, end;

	b->by_hand = way == BY_HAND;
	if (way == LATER)
		be_quiet();
	start = bench_now();
	if (b->by_hand)
		run_by_hand(b);
	else
		run_by_pool(b, way == HELD ? &b->held : &b->plain);
	end = bench_now();
	if (way == HELD || b->by_hand) {
		start = b->release_ns;
		/* Waits until the other thread's call has returned. */
		while (atomic_load(&b->released) != atomic_load(&b->taken))
			bench_relax();
	}
	return (double)(end - start) * 1e-3;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	b->issues = way < WAYS;
	for (int i = 0; i < WARM_UPS; i++)
		(void)sample(b, way % WAYS);
	for (unsigned i = 0; i < b->nr; i++)
		b->us[i] = sample(b, way % WAYS);
	values[0] = bench_percentile(b->us, b->nr, 50);
	values[1] = bench_percentile(b->us, b->nr, 99);
}

static void *begin_row(struct bench_run *run)
{
	struct bench *b = bench_alloc(sizeof(*b));
	pthread_t thread;

	b->nr = run->opt->samples;
	b->us = bench_alloc(b->nr * sizeof(*b->us));
	b->pool = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, 4, NULL);
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->signal, NULL);
	b->stream = gpu_stream(RNL_STREAM_PRIVATE, false);
	b->event = gpu_event(cudaEventDisableTiming);
	bench_rnl(gpu_job_init(&b->plain, run_plain), "rnl_job_init");
	bench_rnl(gpu_job_init(&b->held, run_held), "rnl_job_init");
	bench_must(!pthread_create(&thread, NULL, release_holds, b), "pthread_create");
	return b;
}

const struct bench_work bench_hold = { begin_row, measure, gpu_row_end, NULL };
