/* SPDX-License-Identifier: MIT */
/* Pools of up to RNL_WORKERS_MAX workers: each worker gets jobs, and each is counted. */
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "classed.h"
#include "crowd.h"
#include "heard.h"
#include "trace.h"

enum { MOST = RNL_WORKERS_MAX };

static struct rnl_job jobs[MOST], more[MOST];

/* A gate without a wake for each arrival: the jobs wait for a lock that the test holds. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned nr_held;

static int held_fn(struct rnl_job *job)
{
	(void)job;
	nr_held++;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return 0;
}

static void hold(struct rnl_pool *pool, struct rnl_job *held, unsigned nr,
		 struct rnl_class *cls)
{
	const unsigned before = nr_held;

	for (unsigned i = 0; i < nr; i++) {
		classed_of(&held[i], cls, held_fn, NULL);
		must(rnl_submit(pool, &held[i]));
	}
	ck_eventually(nr_held == before + nr);
}

/* Holds @nr workers at the gate, queues a keyed job for each, and checks that each runs its job. */
static void check_all_work(struct rnl_pool *pool, unsigned nr)
{
	ck_assert_uint_eq(figures_of(pool).nr_workers, nr);
	pthread_mutex_lock(&gate);
	hold(pool, jobs, nr, NULL);
	for (unsigned i = 0; i < nr; i++) {
		job_of(&more[i], index_fn, NULL);
		must(submit_by_key(pool, &more[i], RNL_KEY_WORKER(i)));
	}
	pthread_mutex_unlock(&gate);
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&jobs[i]), 0);
		ck_assert_int_eq(result_of(&more[i]), (int)i);
	}
}

TEST(each_worker_of_the_largest_pool_is_found_by_jobs, .timeout_s = 60)
{
	struct rnl_pool *pool = crowd_of(0);

	skip_without(pool);
	for (int round = 0; round < 2; round++)
		check_all_work(pool, MOST);
	rnl_pool_destroy(pool);
}

TEST(each_worker_of_a_class_of_the_largest_pool_is_found_by_jobs, .timeout_s = 60)
{
	enum { OWN = RNL_CLASS_WORKERS_MAX };
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = OWN };
	struct rnl_pool *pool = crowd_of(OWN);
	struct rnl_class *cls;
	int ret;

	skip_without(pool);
	ck_assert_uint_eq(figures_of(pool).nr_workers, MOST - OWN);
	ret = rnl_class_create(&cls, pool, &attr);
	if (ret == -EAGAIN || ret == -ENOMEM) {
		rnl_pool_destroy(pool);
		pool = NULL;
	}
	skip_without(pool);
	must(ret);
	ck_assert_uint_eq(figures_of(pool).nr_workers, MOST);
	pthread_mutex_lock(&gate);
	hold(pool, more, OWN, cls);
	hold(pool, jobs, MOST - OWN, NULL);
	pthread_mutex_unlock(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_pool_grows_to_the_most_workers_and_shrinks_to_one, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(4);
	int ret;

	check_all_work(pool, 4);
	ret = rnl_pool_resize(pool, MOST);
	if (ret == -EAGAIN || ret == -ENOMEM) {
		rnl_pool_destroy(pool);
		pool = NULL;
	}
	skip_without(pool);
	must(ret);
	check_all_work(pool, MOST);
	must(rnl_pool_resize(pool, 1));
	check_all_work(pool, 1);
	must(rnl_pool_resize(pool, 130));
	check_all_work(pool, 130);
	rnl_pool_destroy(pool);
}

TEST(one_free_worker_takes_what_is_queued_at_many_held_ones, .timeout_s = 60)
{
	enum { NR = 200, QUEUED = 300 };
	struct rnl_pool *pool = pool_of(NR, .max_queued = 2 * NR);
	struct gate own = GATE_INIT;
	struct rnl_job last;

	pthread_mutex_lock(&gate);
	hold(pool, jobs, NR - 1, NULL);
	submit_job(pool, &last, gated_fn, &own);
	gate_await(&own, 1);
	/* Each queue has space for two jobs. */
	for (unsigned i = 0; i < QUEUED; i++)
		submit_job(pool, &more[i], index_fn, NULL);
	gate_open(&own);
	for (unsigned i = 0; i < QUEUED; i++)
		ck_assert_int_eq(result_of(&more[i]), result_of(&more[0]));
	pthread_mutex_unlock(&gate);
	rnl_pool_destroy(pool);
}

TEST(one_worker_more_is_refused_with_the_bound)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct heard heard;

	hear(&heard, &attr);
	attr.device = test_device();
	attr.nr_workers = MOST + 1;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
	ck_assert_msg(has_heard(&heard, "nr_workers is 1025; it must be 1 to 1024"), "%s", heard.text);
	attr.nr_workers = 1;
	must(rnl_pool_create(&pool, &attr));
	ck_assert_int_eq(rnl_pool_resize(pool, MOST + 1), -EINVAL);
	ck_assert_msg(has_heard(&heard, "nr_workers is 1025; it must be 1 to 1024"), "%s", heard.text);
	rnl_pool_destroy(pool);
}

static int fill_fn(struct rnl_job *job)
{
	return rnl_fill((char *)job->user + (job - more), 1, 1);
}

TEST(a_barrier_joins_jobs_on_more_workers_than_it_has_places_or_bits_for, .timeout_s = 60)
{
	enum { NR = 200 };
	struct rnl_pool *pool = pool_of(NR);
	struct rnl_barrier barrier;
	unsigned char copy[NR];
	void *memory;

	must(rnl_memory_get(pool, 0, NR, &memory, 0));
	must(rnl_thread_attach(pool));
	for (int round = 0; round < 3; round++) {
		must(rnl_fill(memory, 0, NR));
		must(rnl_stream_wait(RNL_FOREVER));
		must(rnl_barrier_init(&barrier, pool));
		for (unsigned i = 0; i < NR; i++) {
			job_in(&barrier, &more[i], fill_fn, memory);
			must(submit_by_key(pool, &more[i], RNL_KEY_WORKER(i)));
		}
		must(rnl_barrier_join(&barrier));
		memset(copy, 0, sizeof(copy));
		must(rnl_copy(copy, memory, NR));
		must(rnl_stream_wait(RNL_FOREVER));
		for (unsigned i = 0; i < NR; i++)
			ck_assert_msg(copy[i] == 1, "round %d, worker %u", round, i);
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	}
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, memory);
	rnl_pool_destroy(pool);
}

TEST(a_trace_and_the_metrics_have_each_of_many_workers, .setup = set_path, .teardown = remove_file,
     .timeout_s = 60)
{
	enum { NR = 150 };
	struct rnl_pool *pool = pool_of(2, .name = "crowd");
	char *text, name[64];
	int bytes;

	must(rnl_trace_start(pool, path, NULL));
	must(rnl_pool_resize(pool, NR));
	check_all_work(pool, NR);
	must(rnl_trace_stop(pool));
	text = text_of(path);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "\"crowd-%u\"", i);
		ck_assert_msg(count(text, name) == 1, "%s", name);
	}
	free(text);
	bytes = rnl_pool_stats_text(pool, NULL, NULL, 0) + 4096;	/* the figures grow */
	text = malloc((size_t)bytes);
	ck_assert_int_lt(rnl_pool_stats_text(pool, NULL, text, (size_t)bytes), bytes);
	for (unsigned i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), ",worker=\"%u\",", i);
		ck_assert_msg(count(text, name), "%s", name);
	}
	free(text);
	rnl_pool_destroy(pool);
}

/* Closes the pool in a worker that starts; the pool does not count the worker yet. */
static int close_fn(void *arg, unsigned worker, void **data)
{
	struct rnl_pool **poolp = arg;

	(void)data;
	return worker ? rnl_pool_close(*poolp) : 0;
}

TEST(a_worker_that_starts_while_its_pool_is_closed_takes_no_job)
{
	struct rnl_pool *pool = NULL;

	pool = pool_of(1, .on_start = close_fn, .hook_arg = &pool);
	(void)rnl_pool_resize(pool, 3);
	for (unsigned i = 0; i < 3; i++) {
		job_of(&jobs[i], noop_fn, NULL);
		ck_assert_int_eq(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(i)), -ESHUTDOWN);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i]), -ESHUTDOWN);
	}
	rnl_pool_destroy(pool);
}
