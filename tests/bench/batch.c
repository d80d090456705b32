/* SPDX-License-Identifier: MIT */
/*
 * Small requests through a batcher.
 *
 *	tests/bench/batch DEVICE PRODUCERS...
 *
 * For each number of producers: requests of 4 KB in, a kernel, 4 KB out, per second,
 * each producer with 64 under way, which it gets back by a completion queue.  It writes
 * the input whole, and looks at a word of each 64 bytes of the output.  Then, on the idle
 * pool, how long a lone request takes from its reserve until its waiter has it, beside a
 * plain job that does the same with pinned buffers.
 *
 * env: BENCH_SECONDS (2), BENCH_WORKERS (4), BENCH_UNDER_WAY (64), BENCH_MAX_BATCH (256),
 * BENCH_IN_FLIGHT (4), BENCH_TOUCH (1: as said; 0: one word of each request, so that what
 * is measured is the way alone).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batch.h"

#define PRODUCERS_MAX 64
#define UNDER_WAY_MAX 1024
#define LONE 20000

static struct rnl_pool *pool;
static struct rnl_batcher *batcher;
static unsigned under_way;
static bool touch;
static atomic_bool over;

struct producer {
	pthread_t thread;
	struct rnl_cq *cq;
	uint64_t nr_done, nr_refused;
	struct rnl_request requests[UNDER_WAY_MAX];
};

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "batch: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static unsigned setting(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);

	return value ? (unsigned)atoi(value) : otherwise;
}

static int launch(const void *in, void *out, uint32_t nr)
{
	const struct batch_args args = { in, out };

	return rnl_launch(&batch_kernel, (struct rnl_dim){ nr, 1, 1 },
			  (struct rnl_dim){ BATCH_THREADS, 1, 1 }, &args);
}

static int run_batch(const struct rnl_batch *batch)
{
	return launch(batch->in, batch->out, batch->nr);
}

/* ---- a request ------------------------------------------------------------- */

static void fill(void *in, uint32_t value)
{
	uint32_t *words = in;

	for (unsigned i = 0; i < (touch ? BATCH_WORDS : 1); i++)
		words[i] = value + i;
}

static void verify(const void *out, uint32_t value)
{
	const uint32_t *words = out;

	for (unsigned i = 0; i < (touch ? BATCH_WORDS : 1); i += 16) {
		if (words[i] != value + i + 1) {
			fprintf(stderr, "batch: word %u is %u, not %u\n", i, words[i],
				value + i + 1);
			exit(EXIT_FAILURE);
		}
	}
}

static void send(struct producer *p, struct rnl_request *request)
{
	int ret = rnl_batcher_reserve(batcher, request, BATCH_BYTES);

	if (ret == -EAGAIN) {
		p->nr_refused++;
		ret = rnl_batcher_reserve_wait(batcher, request, BATCH_BYTES, RNL_FOREVER);
	}
	must(ret, "rnl_batcher_reserve");
	fill(request->in, (uint32_t)(uintptr_t)request);
	must(rnl_request_commit(request), "rnl_request_commit");
}

static void take_back(struct producer *p, struct rnl_request *request)
{
	must(rnl_job_result(&request->job), "a request");
	verify(request->out, (uint32_t)(uintptr_t)request);
	must(rnl_request_release(request), "rnl_request_release");
	p->nr_done++;
}

/* ---- many ------------------------------------------------------------------ */

static void *produce(void *arg)
{
	struct producer *p = arg;
	struct rnl_job *jobs[64];
	unsigned left = under_way;

	for (unsigned i = 0; i < under_way; i++)
		send(p, &p->requests[i]);
	while (left) {
		int nr = rnl_cq_wait(p->cq, jobs, 64, RNL_FOREVER);

		must(nr, "rnl_cq_wait");
		for (int i = 0; i < nr; i++) {
			struct rnl_request *request =
				rnl_container_of(jobs[i], struct rnl_request, job);

			take_back(p, request);
			if (atomic_load_explicit(&over, memory_order_relaxed))
				left--;
			else
				send(p, request);
		}
	}
	return NULL;
}

static struct rnl_batcher_stats stats_now(void)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;

	must(rnl_batcher_stats(batcher, &stats), "rnl_batcher_stats");
	return stats;
}

static void measure(unsigned nr, double seconds)
{
	static struct producer producers[PRODUCERS_MAX];
	struct rnl_batcher_stats before = stats_now(), after;
	uint64_t done = 0, refused = 0;
	struct timespec ts = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	double start = now(), batches;

	atomic_store(&over, false);
	for (unsigned i = 0; i < nr; i++) {
		struct producer *p = &producers[i];

		p->nr_done = p->nr_refused = 0;
		must(rnl_cq_create(&p->cq), "rnl_cq_create");
		for (unsigned k = 0; k < under_way; k++) {
			must(rnl_request_init(&p->requests[k]), "rnl_request_init");
			must(rnl_job_cq(&p->requests[k].job, p->cq), "rnl_job_cq");
		}
		must(-pthread_create(&p->thread, NULL, produce, p), "a thread");
	}
	nanosleep(&ts, NULL);
	atomic_store(&over, true);
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(producers[i].thread, NULL);
		rnl_cq_destroy(producers[i].cq);
		done += producers[i].nr_done;
		refused += producers[i].nr_refused;
	}
	after = stats_now();
	batches = (double)(after.batches - before.batches);
	printf("%2u producers: %8.0f k/s, %6.1f requests and %5.2f copies in a batch, %llu late, "
	       "%llu refused\n", nr, (double)done / (now() - start) / 1e3,
	       (double)(after.requests - before.requests) / batches,
	       (double)(after.copies - before.copies) / batches,
	       (unsigned long long)(after.late - before.late), (unsigned long long)refused);
}

/* ---- one ------------------------------------------------------------------- */

struct plain {
	struct rnl_job job;
	void *in, *out;
};

static int run_plain(struct rnl_job *job)
{
	struct plain *plain = rnl_container_of(job, struct plain, job);
	void *in, *out;
	int ret = rnl_scratch(BATCH_BYTES, &in);

	ret = ret ? ret : rnl_scratch(BATCH_BYTES, &out);
	ret = ret ? ret : rnl_copy(in, plain->in, BATCH_BYTES);
	ret = ret ? ret : launch(in, out, 1);
	return ret ? ret : rnl_copy(plain->out, out, BATCH_BYTES);
}

static double by_plain_job(struct plain *plain, uint32_t value)
{
	double start = now();

	fill(plain->in, value);
	must(rnl_submit(pool, &plain->job), "rnl_submit");
	must(rnl_job_wait(&plain->job, RNL_FOREVER), "rnl_job_wait");
	start = now() - start;
	must(rnl_job_result(&plain->job), "a job");
	verify(plain->out, value);
	return start;
}

static double by_request(struct rnl_request *request, uint32_t value)
{
	double start = now();

	must(rnl_batcher_reserve_wait(batcher, request, BATCH_BYTES, RNL_FOREVER),
	     "rnl_batcher_reserve_wait");
	fill(request->in, value);
	must(rnl_request_commit(request), "rnl_request_commit");
	must(rnl_job_wait(&request->job, RNL_FOREVER), "rnl_job_wait");
	start = now() - start;
	must(rnl_job_result(&request->job), "a request");
	verify(request->out, value);
	must(rnl_request_release(request), "rnl_request_release");
	return start;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void print_times(const char *what, double *times)
{
	qsort(times, LONE, sizeof(*times), by_value);
	printf("%s: p50 %.1f us, p99 %.1f us\n", what, times[LONE / 2] * 1e6,
	       times[LONE / 100 * 99] * 1e6);
}

/* By turns, so that both meet the same machine. */
static void measure_lone(void)
{
	static double plain_times[LONE], times[LONE];
	struct rnl_request request;
	struct plain plain;

	must(rnl_job_init(&plain.job, run_plain), "rnl_job_init");
	must(rnl_pinned_get(pool, BATCH_BYTES, &plain.in), "a pinned buffer");
	must(rnl_pinned_get(pool, BATCH_BYTES, &plain.out), "a pinned buffer");
	must(rnl_request_init(&request), "rnl_request_init");
	for (int i = -1000; i < LONE; i++) {
		double one = by_plain_job(&plain, (uint32_t)i);
		double other = by_request(&request, (uint32_t)i);

		if (i < 0)
			continue;
		plain_times[i] = one;
		times[i] = other;
	}
	print_times("a plain job", plain_times);
	print_times("a lone request", times);
	rnl_pinned_put(pool, plain.in);
	rnl_pinned_put(pool, plain.out);
}

/* Return: how many, or 0 if it is no number from 1 to PRODUCERS_MAX. */
static unsigned producers(const char *arg)
{
	char *end;
	const unsigned long nr = strtoul(arg, &end, 10);

	return *arg >= '0' && *arg <= '9' && !*end && nr <= PRODUCERS_MAX ? (unsigned)nr : 0;
}

int main(int argc, char **argv)
{
	int wrong = argc < 3;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_batcher_attr kind = RNL_BATCHER_ATTR_INIT;
	const double seconds = getenv("BENCH_SECONDS") ? atof(getenv("BENCH_SECONDS")) : 2;

	for (int i = 2; i < argc; i++)
		wrong |= !producers(argv[i]);
	if (wrong) {
		fprintf(stderr, "usage: batch DEVICE PRODUCERS..., 1 to %d each\n", PRODUCERS_MAX);
		return 2;
	}
	under_way = setting("BENCH_UNDER_WAY", 64);
	under_way = under_way && under_way <= UNDER_WAY_MAX ? under_way : UNDER_WAY_MAX;
	touch = setting("BENCH_TOUCH", 1);
	attr.device = argv[1];
	attr.nr_workers = setting("BENCH_WORKERS", 4);
	kind.fn = run_batch;
	kind.in_bytes = kind.out_bytes = BATCH_BYTES;
	kind.max_batch = setting("BENCH_MAX_BATCH", 256);
	kind.max_in_flight = setting("BENCH_IN_FLIGHT", 4);
	must(rnl_setup(), "rnl_setup");
	must(rnl_pool_create(&pool, &attr), argv[1]);
	must(rnl_batcher_create(&batcher, pool, &kind), "rnl_batcher_create");
	for (int i = 2; i < argc; i++)
		measure(producers(argv[i]), seconds);
	measure_lone();
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
	return EXIT_SUCCESS;
}
