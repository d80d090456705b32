/* SPDX-License-Identifier: MIT */
/*
 * Each job returns when all jobs of its round have begun. So each job needs its own worker,
 * whichever queue it was put in, and no job may be left in a queue.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include "pool.h"
#include "seed.h"

enum { NR = 3, NR_ROUNDS = 20000 };	/* workers, and jobs in a round */

/* ---- a round -------------------------------------------------------------- */

static struct rnl_pool *pool;
static struct rnl_job jobs[NR], starts;
static pthread_barrier_t both;		/* begin and end of a round */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static unsigned nr_came;
static bool in_callbacks;

/* Waits for all jobs of the round.  Returns 0 or -ETIME. */
static int meet(void)
{
	struct timespec until;
	unsigned all;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)PATIENCE_S;
	pthread_mutex_lock(&lock);
	all = nr_came / NR * NR + NR;
	if (++nr_came == all)
		pthread_cond_broadcast(&came);
	while (nr_came < all && !ret)
		ret = -pthread_cond_timedwait(&came, &lock, &until);
	pthread_mutex_unlock(&lock);
	return ret ? -ETIME : 0;
}

static int meeting_fn(struct rnl_job *job)
{
	(void)job;
	return in_callbacks ? 0 : meet();
}

static void meeting_done(struct rnl_job *job)
{
	if (meet())
		job->user = job;
}

static void let_pass(uint64_t *random)
{
	for (uint64_t i = draw(random, 400); i; i--)
		__asm__ volatile("" ::: "memory");
}

static void take_part(unsigned i, uint64_t *random)
{
	pthread_barrier_wait(&both);
	let_pass(random);
	must(rnl_submit(pool, &jobs[i]));
	pthread_barrier_wait(&both);
}

static unsigned nr_rounds(void)
{
	return (unsigned)(NR_ROUNDS / test_scale());
}

/* Submits the second or the third job of each round. */
static int submit_all(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint64_t random = draws_of(test_seed(), i);

	for (unsigned round = 0; round < nr_rounds(); round++)
		take_part(i, &random);
	return 0;
}

static void end_round(unsigned round)
{
	/* Callbacks may be waiting, too. */
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < NR; i++)
		ck_assert_msg(!jobs[i].result && !jobs[i].user,
			      "round %u: job %u did not meet the others", round, i);
}

static void make(bool callbacks)
{
	pool = pool_of(NR);
	in_callbacks = callbacks;
	nr_came = 0;
	for (unsigned i = 0; i < NR; i++) {
		job_of(&jobs[i], meeting_fn, NULL);
		if (callbacks)
			must(rnl_job_set_on_done(&jobs[i], meeting_done));
	}
	job_of(&starts, noop_fn, NULL);
}

static void by_threads(bool callbacks)
{
	struct call others[NR - 1];
	uint64_t random = draws_of(test_seed(), 0);

	make(callbacks);
	pthread_barrier_init(&both, NULL, NR);
	for (unsigned i = 1; i < NR; i++)
		call_start(&others[i - 1], submit_all, (void *)(uintptr_t)i);
	for (unsigned round = 0; round < nr_rounds(); round++) {
		take_part(0, &random);
		end_round(round);
		ck_assert_uint_eq(nr_came, (round + 1) * NR);
	}
	for (unsigned i = 1; i < NR; i++)
		ck_assert_int_eq(call_end(&others[i - 1]), 0);
	pthread_barrier_destroy(&both);
	rnl_pool_destroy(pool);
}

/* ---- the tests ------------------------------------------------------------ */

TEST(jobs_of_several_threads_meet, .timeout_s = 120)
{
	by_threads(false);
}

TEST(callbacks_do_not_keep_jobs_that_came_to_their_worker, .timeout_s = 120)
{
	/* With a device's stream, one worker may have two jobs in flight. */
	skip_unless_done_on_return();
	by_threads(true);
}

TEST(jobs_of_one_thread_meet_just_after_its_last_job_is_done, .timeout_s = 120)
{
	struct rnl_job *list[NR] = { &jobs[0], &jobs[1], &jobs[2] };
	uint64_t random = draws_of(test_seed(), 0);

	make(false);
	for (unsigned round = 0; round < nr_rounds(); round++) {
		/* Run a job first: its worker is then awake, and the submitter's usual one. */
		must(rnl_submit(pool, &starts));
		must(rnl_job_wait(&starts, RNL_FOREVER));
		let_pass(&random);
		if (round % 2)
			ck_assert_int_eq(rnl_submit_many(pool, list, NR), NR);
		for (unsigned i = 0; i < NR && !(round % 2); i++)
			must(rnl_submit(pool, &jobs[i]));
		end_round(round);
	}
	rnl_pool_destroy(pool);
}
