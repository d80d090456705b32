/* SPDX-License-Identifier: MIT */
/*
 * Many producers, keyed and unkeyed jobs, stealing and parking: every accepted job runs once, keys
 * keep their order, and a close loses no job.
 *
 * env: RNL_TEST_SEED repeats a run; RNL_STRESS_JOBS is the number of jobs.
 */
#include "pool.h"
#include "seed.h"

#define NR_PRODUCERS 8
#define NR_WORKERS 4
#define NR_KEYS 16		/* of each producer */
#define WINDOW 512		/* limit of a producer's jobs in flight */

struct item {
	struct rnl_job job;
	struct producer *producer;
	unsigned runs;		/* since the last submit; plain, for ThreadSanitizer */
	int key;		/* -1: none */
	uint64_t number;	/* within its key, from 1 */
};

struct producer {
	pthread_t thread;
	struct rnl_pool *pool;
	uint64_t random;
	uint64_t nr;		/* jobs to submit; UINT64_MAX: until refused */
	uint64_t accepted;
	_Atomic uint64_t ran;
	uint64_t submitted[NR_KEYS];
	uint64_t seen[NR_KEYS];	/* plain: a key's jobs run one after the other */
	int worker[NR_KEYS];
	const char *wrong;
	struct item items[WINDOW];
};

static uint64_t nr_jobs(void)
{
	const char *given = getenv("RNL_STRESS_JOBS");

	return given ? strtoull(given, NULL, 0) : rounds_of(2000000);
}

static int run(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);
	struct producer *p = item->producer;

	item->runs++;
	if (item->key >= 0) {
		if (p->seen[item->key] + 1 != item->number)
			p->wrong = "a key's jobs ran out of order";
		p->seen[item->key] = item->number;
		if (p->worker[item->key] >= 0 && p->worker[item->key] != rnl_worker().index)
			p->wrong = "a key's jobs ran on two workers";
		p->worker[item->key] = rnl_worker().index;
	}
	atomic_fetch_add_explicit(&p->ran, 1, memory_order_relaxed);
	return (int)(item->number & 0x7fff);
}

/* Sleeps now and then, so workers park at any moment. */
static void dawdle(struct producer *p)
{
	if (!draw(&p->random, 1021))
		usleep(draw(&p->random, 100));
}

static int submit(struct producer *p, struct item *item)
{
	int ret;

	item->runs = 0;
	item->key = draw(&p->random, 2) ? (int)draw(&p->random, NR_KEYS) : -1;
	item->number = item->key < 0 ? draw(&p->random, 256) : p->submitted[item->key] + 1;
	do {
		if (item->key < 0)
			ret = rnl_submit(p->pool, &item->job);
		else
			ret = submit_by_key(p->pool, &item->job,
					       (uintptr_t)p + (unsigned)item->key);
	} while (ret == -EAGAIN);
	if (!ret && item->key >= 0)
		p->submitted[item->key]++;
	return ret;
}

static void collect(struct producer *p, struct item *item)
{
	int ret = rnl_job_wait(&item->job, patience_ns());

	if (ret)
		p->wrong = ret == -ETIMEDOUT ? "a job was lost" : "a wait failed";
	else if (item->runs != 1)
		p->wrong = item->runs ? "a job ran twice" : "a job did not run";
	else if (item->job.result != (int)(item->number & 0x7fff))
		p->wrong = "a job has another's result";
}

static void *produce(void *arg)
{
	struct producer *p = arg;
	uint64_t nr = 0;
	int ret = 0;

	for (unsigned i = 0; i < WINDOW; i++) {
		rnl_job_init(&p->items[i].job, run);
		p->items[i].producer = p;
	}
	for (unsigned k = 0; k < NR_KEYS; k++)
		p->worker[k] = -1;
	for (; nr < p->nr && !p->wrong; nr++) {
		struct item *item = &p->items[nr % WINDOW];

		if (nr >= WINDOW)
			collect(p, item);
		ret = submit(p, item);
		if (ret)
			break;
		dawdle(p);
	}
	p->accepted = nr;
	if (ret && ret != -ESHUTDOWN)
		p->wrong = "a submit failed";
	/* The slot of a refused submit was collected before the submit. */
	for (uint64_t i = nr < WINDOW ? 0 : nr - WINDOW + (ret != 0); i < nr && !p->wrong; i++)
		collect(p, &p->items[i % WINDOW]);
	return NULL;
}

static struct producer *start_producers(struct rnl_pool *pool, uint64_t nr)
{
	struct producer *all = calloc(NR_PRODUCERS, sizeof(*all));
	uint64_t seed = test_seed();

	ck_assert_ptr_nonnull(all);
	for (unsigned i = 0; i < NR_PRODUCERS; i++) {
		all[i].pool = pool;
		all[i].nr = nr;
		all[i].random = draws_of(seed, i);
		must(pthread_create(&all[i].thread, NULL, produce, &all[i]));
	}
	return all;
}

static uint64_t join_producers(struct producer *all)
{
	uint64_t accepted = 0;

	for (unsigned i = 0; i < NR_PRODUCERS; i++)
		must(pthread_join(all[i].thread, NULL));
	for (unsigned i = 0; i < NR_PRODUCERS; i++) {
		ck_assert_msg(!all[i].wrong, "producer %u: %s", i, all[i].wrong);
		ck_assert_uint_eq(all[i].ran, all[i].accepted);
		accepted += all[i].accepted;
	}
	free(all);
	return accepted;
}

/* _i: workers park immediately. */
TEST(every_job_runs_once_and_keys_keep_their_order, .timeout_s = 120, .loops = 2)
{
	struct rnl_pool *pool = pool_of(NR_WORKERS, .spin_us = _i ? -1 : 0);
	struct producer *all = start_producers(pool, nr_jobs() / NR_PRODUCERS);
	uint64_t accepted = join_producers(all);
	struct rnl_pool_stats stats;

	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	ck_assert_uint_eq(accepted, nr_jobs() / NR_PRODUCERS * NR_PRODUCERS);
	ck_assert_uint_eq(stats.accepted, accepted);
	ck_assert_uint_eq(stats.done, accepted);
	ck_assert_uint_eq(stats.failed, 0);
	printf("%llu jobs, %llu stolen, %llu sleeps\n", (unsigned long long)stats.done,
	       (unsigned long long)stats.stolen, (unsigned long long)stats.slept);
	rnl_pool_destroy(pool);
}

TEST(nothing_accepted_is_lost_when_the_pool_is_closed_mid_stream, .timeout_s = 120)
{
	unsigned rounds = test_scale() > 1 ? 10 : 50;
	uint64_t accepted = 0, random = draws_of(test_seed(), NR_PRODUCERS);

	for (unsigned i = 0; i < rounds; i++) {
		struct rnl_pool *pool = pool_of(NR_WORKERS, .spin_us = i & 1 ? -1 : 0);
		struct producer *all = start_producers(pool, UINT64_MAX);

		usleep(draw(&random, 3000));
		must(rnl_pool_close(pool));
		/* Meanwhile producers are refused. */
		must(rnl_pool_drain(pool, RNL_FOREVER));
		accepted += join_producers(all);
		rnl_pool_destroy(pool);
	}
	printf("%llu jobs over %u closes\n", (unsigned long long)accepted, rounds);
	ck_assert_uint_gt(accepted, 0);
}

/* ---- a job that is submitted again as soon as it runs ---------------------------- */

/* Plain: each run happens after the one before. */
static int count_run(struct rnl_job *job)
{
	++*(unsigned *)job->user;
	return 0;
}

TEST(a_job_may_be_submitted_again_without_a_wait_between, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_of(NR_WORKERS);
	unsigned nr = rounds_of(200000), nr_ran = 0;
	struct rnl_job job;

	job_of(&job, count_run, &nr_ran);
	for (unsigned i = 0; i < nr; i++) {
		int ret;

		/*
		 * A submit returns -EBUSY until the last run is done. Then the job's memory may
		 * change.
		 */
		while ((ret = rnl_submit(pool, &job)) == -EBUSY)
			sched_yield();
		ck_assert_int_eq(ret, 0);
	}
	must(rnl_job_wait(&job, RNL_FOREVER));
	ck_assert_uint_eq(nr_ran, nr);
	rnl_pool_destroy(pool);
}

static _Atomic bool refused_enough;

static void *be_refused(void *arg)
{
	struct rnl_job job;

	rnl_job_init(&job, noop_fn);
	while (!refused_enough) {
		if (rnl_submit((struct rnl_pool *)arg, &job) != -ESHUTDOWN)
			abort();
	}
	return NULL;
}

/* A refused submit is counted for a moment. A drain that saw it must be woken. */
TEST(no_drain_is_left_waiting_for_a_submit_that_was_refused, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_of(NR_WORKERS, .spin_us = -1);
	unsigned nr = rounds_of(500000);
	pthread_t thread;

	must(rnl_pool_close(pool));
	must(pthread_create(&thread, NULL, be_refused, pool));
	for (unsigned i = 0; i < nr; i++)
		must(rnl_pool_drain(pool, patience_ns()));
	refused_enough = true;
	must(pthread_join(thread, NULL));
	rnl_pool_destroy(pool);
}
