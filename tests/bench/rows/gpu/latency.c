/* SPDX-License-Identifier: MIT */
/*
 * The row latency: one J in an idle pool, from its submit until the waiter has returned.
 *
 * DESIGN
 *	Hand-written code without a hand-over is one thread that issues J and waits for its end: in
 *	a flag that the stream writes, in an event, in a sync. An expert issues less: a graph, or one
 *	kernel that accesses pinned memory, and then writes the flag itself. A job's kernel may
 *	access pinned memory, too; the line with the mutex pool compares J as it is. A resident
 *	kernel answers without a launch: see the row lone.
 *	With a hand-over, another thread issues J: a thread that always polls a word, which no pool
 *	can beat, but which costs a CPU, or a thread of a mutex pool. The next J follows immediately,
 *	or a millisecond later, when threads and CPUs sleep.
 */
#include "gpu/work.h"

#include <string.h>

#define WARM_UPS 50
#define LATER_PART 4		/* divides the number of samples after a pause */

struct spinner {			/* a polling thread that issues J */
	int ordinal;
	enum rnl_stream_kind kind;
	struct gpu_slot *slot;
	uint32_t *flag;			/* page-locked */
	atomic_uint wanted;		/* the number of the J to issue */
	atomic_bool asleep;
};

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	bool later;
	unsigned nr;			/* samples */
	double *us;
	cudaStream_t stream;
	cudaEvent_t event;
	struct gpu_slot slot, reached;	/* of `reached`, the kernel accesses the pinned memory */
	uint32_t *flag, written;
	struct spinner spinner;
	uint32_t asked;
	struct gpu_mutex *mutex;
	struct gpu_producer producer;
	struct gpu_request *request;	/* request of the pools */
	struct gpu_request *reaching;	/* request whose kernel accesses the pinned memory */
};

static void await_flag(const uint32_t *flag, uint32_t value)
{
	/* acquire: the stream's work before it wrote the word */
	while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
		bench_relax();
}

static void by_flag(struct bench *b)
{
	gpu_ok(gpu_issue_j(&b->slot, b->stream), "J");
	gpu_stream_write(b->stream, b->flag, ++b->written);
	await_flag(b->flag, b->written);
}

static void by_graph(struct bench *b)
{
	gpu_ok(gpu_issue_graph(&b->slot, b->stream), "J");
	gpu_stream_write(b->stream, b->flag, ++b->written);
	await_flag(b->flag, b->written);
}

static void by_kernel(struct bench *b)
{
	gpu_ok(gpu_issue_flagged(&b->reached, b->flag, ++b->written, b->stream), "J");
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
	(void)cudaGetLastError();	/* "not ready" must not count as a launch's error */
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
		/* acquire: the other thread's writes to J's memory */
		const uint32_t wanted = atomic_load_explicit(&s->wanted, memory_order_acquire);

		if (wanted == issued) {
			/* While other ways are measured, the spinner takes no CPU time. */
			if (atomic_load_explicit(&s->asleep, memory_order_relaxed))
				bench_sleep_ms(1);
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

static void submit_and_wait(struct bench *b, struct rnl_job *job)
{
	bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
	bench_rnl(rnl_job_wait(job, RNL_FOREVER), "rnl_job_wait");
	bench_rnl(job->result, "J");
}

static void by_pool(struct bench *b)
{
	submit_and_wait(b, &b->request->job);
}

static void by_reaching(struct bench *b)
{
	submit_and_wait(b, &b->reaching->job);
}

/* ---- the row ------------------------------------------------------------- */

static void (*const ways[])(struct bench *b) = {
	by_flag, by_event, by_sync, by_graph, by_kernel, by_spinner, by_mutex, by_pool, by_reaching
};
enum { BY_KERNEL = 4, BY_SPINNER, BY_MUTEX, BY_POOL, BY_REACHING };

static struct gpu_slot *slot_of(struct bench *b, unsigned way)
{
	switch (way) {
	case BY_KERNEL:
		return &b->reached;
	case BY_MUTEX:
	case BY_POOL:
		return &b->request->slot;
	case BY_REACHING:
		return &b->reaching->slot;
	default:
		return &b->slot;
	}
}

static double sample(struct bench *b, unsigned way, bool later)
{
	struct gpu_slot *slot = slot_of(b, way);
	uint64_t start, ns;

	if (later)
		bench_sleep_ms(1);
	gpu_prepare(slot);
	start = bench_now();
	ways[way](b);
	ns = bench_now() - start;
	gpu_check(slot);
	return (double)ns * 1e-3;
}

static void measure(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	atomic_store(&b->spinner.asleep, way != BY_SPINNER);
	for (int i = 0; i < WARM_UPS; i++)
		(void)sample(b, way, false);
	for (unsigned i = 0; i < b->nr; i++)
		b->us[i] = sample(b, way, b->later);
	values[0] = values[2] = bench_percentile(b->us, b->nr, 50);
	values[1] = bench_percentile(b->us, b->nr, 99);
	atomic_store(&b->spinner.asleep, true);
}

static void *begin_row(struct bench_run *run)
{
	const int ordinal = run->opt->info.ordinal;
	const enum rnl_stream_kind kind = run->kind;
	struct bench *b = bench_alloc(sizeof(*b));
	pthread_t thread;

	b->later = run->paused;
	b->nr = run->opt->samples / (b->later ? LATER_PART : 1) + 1;
	b->us = bench_alloc(b->nr * sizeof(*b->us));
	b->stream = gpu_stream(kind, false);
	b->event = gpu_event(cudaEventDisableTiming);
	b->flag = gpu_pinned(128);
	gpu_slots(&b->slot, 1, sizeof(b->slot));
	gpu_slots(&b->reached, 1, sizeof(b->reached));
	b->spinner.ordinal = ordinal;
	b->spinner.kind = kind;
	b->spinner.slot = &b->slot;
	b->spinner.flag = gpu_pinned(128);
	b->spinner.asleep = true;
	bench_must(!pthread_create(&thread, NULL, spin_and_issue, &b->spinner), "pthread_create");
	b->mutex = gpu_mutex_start(ordinal, kind, 8);
	gpu_mutex_producer(&b->producer);
	b->pool = gpu_pool(run->opt->device, kind, 8, NULL);
	b->request = gpu_requests(1);
	b->reaching = gpu_requests(1);
	b->reached.kernel = b->reaching->slot.kernel = GPU_ROUND;
	bench_rnl(gpu_job_init(&b->request->job, gpu_run_j), "rnl_job_init");
	bench_rnl(gpu_job_init(&b->reaching->job, gpu_run_reach), "rnl_job_init");
	return b;
}

const struct bench_work bench_latency = { begin_row, measure, gpu_row_end, NULL };
