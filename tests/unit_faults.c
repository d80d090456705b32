/* SPDX-License-Identifier: MIT */
/* Makes the n-th allocation or thread fail, for n = 1, 2, ..., until the operation succeeds. */
#include <dirent.h>

#include "faults.h"
#include "gate.h"

/* Ends a pool; what it took must be given back. */
static void destroy(struct rnl_pool *pool, long living_before)
{
	begin(0, false);
	rnl_pool_destroy(pool);
	end();
	ck_assert_int_eq(living, living_before);
}

static unsigned nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned nr = 0;

	ck_assert_ptr_nonnull(tasks);
	while ((entry = readdir(tasks)) != NULL)
		nr += entry->d_name[0] != '.';
	closedir(tasks);
	return nr;
}

/* ---- what may fail ------------------------------------------------------- */

static struct rnl_pool *const untouched = (struct rnl_pool *)&(char){ 0 };

static struct rnl_pool *host_pool(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.nr_workers = 1;
	attr.max_in_flight = 8;
	attr.device = "host";
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), 0);
	return pool;
}

static void create_until_it_succeeds(const struct rnl_pool_attr *attr, bool from_then_on)
{
	unsigned threads;
	long n, nr_memory = 0, nr_threads_refused = 0;

	/* The first pool may leave what is the process's: a sanitizer's thread, say. */
	rnl_pool_destroy(host_pool());
	threads = nr_threads();
	for (n = 1;; n++) {
		struct rnl_pool *pool = untouched;
		long before = living;
		int ret;

		begin(n, from_then_on);
		ret = rnl_pool_create(&pool, attr);
		end();
		if (!failed) {
			ck_assert_int_eq(ret, 0);
			ck_assert_int_gt(living, before);
			destroy(pool, before);
			break;
		}
		ck_assert_msg(ret == -ENOMEM || ret == -EAGAIN, "fault %ld gave %d", n, ret);
		ck_assert_ptr_eq(pool, untouched);
		ck_assert_msg(living == before, "fault %ld left %ld behind", n, living - before);
		nr_memory += ret == -ENOMEM;
		nr_threads_refused += ret == -EAGAIN;
		/* The kernel takes a moment to forget a thread that was joined. */
		ck_eventually(nr_threads() == threads);
	}
	printf("create, %u workers, %s: %ld faults tried, %ld x ENOMEM, %ld x EAGAIN\n",
	       attr->nr_workers, from_then_on ? "all from the n-th on" : "the n-th alone", n - 1,
	       nr_memory, nr_threads_refused);
	/* Which call is the n-th differs from run to run; both kinds were met. */
	ck_assert_int_gt(nr_memory, 0);
	ck_assert_int_gt(nr_threads_refused, 0);
}

START_TEST(a_pool_that_cannot_be_created_leaves_nothing_behind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = "host";
	attr.max_in_flight = 4;
	for (attr.nr_workers = 1; attr.nr_workers <= 5; attr.nr_workers += 2) {
		create_until_it_succeeds(&attr, false);
		create_until_it_succeeds(&attr, true);
	}
}
END_TEST

START_TEST(a_pool_of_defaults_that_cannot_be_created_leaves_nothing_behind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = "host";
	attr.nr_workers = 1;
	attr.max_in_flight = 0;
	create_until_it_succeeds(&attr, false);
}
END_TEST

START_TEST(a_thread_that_cannot_be_attached_stays_as_it_was)
{
	struct rnl_pool *pool = host_pool();
	struct rnl_barrier barrier;
	long n, before = living;

	ck_assert_int_eq(rnl_barrier_init(&barrier, pool), 0);
	for (n = 1;; n++) {
		int ret;

		begin(n, true);
		ret = n % 2 ? rnl_thread_attach(pool) : rnl_barrier_join(&barrier);
		end();
		if (!failed) {
			ck_assert_int_eq(ret, 0);
			break;
		}
		ck_assert_msg(ret == -ENOMEM || ret == -EAGAIN, "fault %ld gave %d", n, ret);
		ck_assert_int_eq(living, before);
		ck_assert_int_eq(rnl_stream_wait(0), -ENODEV);
	}
	printf("attach: %ld faults tried\n", n - 1);
	ck_assert_int_ge(n, 3);
	begin(0, false);
	rnl_thread_detach();
	end();
	ck_assert_int_eq(living, before);
	rnl_pool_destroy(pool);
}
END_TEST

START_TEST(a_launch_or_memory_that_fails_can_be_asked_for_again)
{
	struct rnl_pool *pool = host_pool();
	int word = 0, refused, later;
	void *mem = pool;
	long before = living;

	ck_assert_int_eq(rnl_thread_attach(pool), 0);
	for (int which = 0; which < 2; which++) {
		begin(1, true);
		refused = which ? rnl_pinned_get(pool, 64, &mem) :
				  rnl_device_alloc(pool, 64, &mem);
		end();
		ck_assert_int_eq(refused, -ENOMEM);
		ck_assert_ptr_eq(mem, pool);
	}
	begin(1, false);
	refused = launch_store(NULL, &word, 1);
	(void)rnl_stream_wait(RNL_FOREVER);
	end();
	ck_assert_int_eq(refused, -ENOMEM);
	ck_assert_int_eq(word, 0);
	begin(0, false);
	later = launch_store(NULL, &word, 1);
	(void)rnl_stream_wait(RNL_FOREVER);
	end();
	ck_assert_int_eq(later, 0);
	ck_assert_int_eq(word, 1);
	ck_assert_int_eq(living, before);
	rnl_thread_detach();
	rnl_pool_destroy(pool);
}
END_TEST

START_TEST(a_pool_that_cannot_grow_is_as_it_was)
{
	struct rnl_pool *pool = host_pool();
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	unsigned threads = nr_threads();
	long n, nr_memory = 0, nr_threads_refused = 0;

	for (n = 1;; n++) {
		struct rnl_job job;
		int ret;

		begin(n, n % 2);
		ret = rnl_pool_resize(pool, 4);
		end();
		job_of(&job, noop_fn, NULL);
		ck_assert_int_eq(rnl_submit(pool, &job), 0);
		ck_assert_int_eq(result_of(&job), 0);
		ck_assert_int_eq(rnl_pool_stats(pool, &stats), 0);
		if (!failed) {
			ck_assert_int_eq(ret, 0);
			ck_assert_uint_eq(stats.nr_workers, 4);
			break;
		}
		ck_assert_msg(ret == -ENOMEM || ret == -EAGAIN, "fault %ld gave %d", n, ret);
		ck_assert_uint_eq(stats.nr_workers, 1);
		nr_memory += ret == -ENOMEM;
		nr_threads_refused += ret == -EAGAIN;
		ck_eventually(nr_threads() == threads);
	}
	printf("grow: %ld faults tried, %ld x ENOMEM, %ld x EAGAIN\n", n - 1, nr_memory,
	       nr_threads_refused);
	ck_assert_int_gt(nr_memory, 0);
	ck_assert_int_gt(nr_threads_refused, 0);
	rnl_pool_destroy(pool);
}
END_TEST

START_TEST(a_completion_queue_or_a_text_that_cannot_be_made_says_so)
{
	struct rnl_pool *pool = host_pool();
	struct rnl_cq *cq = (struct rnl_cq *)pool;
	long before = living, n;
	int ret;

	begin(1, false);
	ret = rnl_cq_create(&cq);
	end();
	ck_assert_int_eq(ret, -ENOMEM);
	ck_assert_ptr_eq(cq, pool);
	for (n = 1;; n++) {
		char text[20000];

		begin(n, true);
		ret = rnl_pool_stats_text(pool, NULL, text, sizeof(text));
		end();
		if (!failed)
			break;
		ck_assert_int_eq(ret, -ENOMEM);
		ck_assert_int_eq(living, before);
	}
	ck_assert_int_gt(n, 2);
	ck_assert_int_gt(ret, 1000);
	rnl_pool_destroy(pool);
}
END_TEST

static int launch_fn(struct rnl_job *job)
{
	return launch_store(NULL, job->user, 1);
}

START_TEST(a_pool_at_work_has_all_that_it_needs)
{
	enum { NR = 500 };
	struct rnl_pool *pool = host_pool();
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs));
	struct rnl_barrier barrier;
	int word = 0, nr_accepted = 0, joined, waited;

	/* No submit, wait or join fails for want of memory; a launch is its job's affair. */
	ck_assert_int_eq(rnl_thread_attach(pool), 0);
	ck_assert_int_eq(rnl_barrier_init(&barrier, pool), 0);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], i % 2 ? noop_fn : launch_fn, &word);
		ck_assert_int_eq(rnl_barrier_add(&barrier, &jobs[i]), 0);
	}
	begin(1, true);
	for (int i = 0; i < NR; i++)
		nr_accepted += !rnl_submit(pool, &jobs[i]);
	joined = rnl_barrier_join(&barrier);
	waited = rnl_barrier_wait(&barrier, RNL_FOREVER);
	end();
	ck_assert_int_eq(nr_accepted, NR);
	ck_assert_int_eq(joined, 0);
	ck_assert_int_eq(waited, 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(rnl_job_result(&jobs[i]), i % 2 ? 0 : -ENOMEM);
	ck_assert_int_eq(word, 0);
	rnl_thread_detach();
	rnl_pool_destroy(pool);
	free(jobs);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("faults");
	TCase *tc = tcase_create("memory and threads");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_pool_that_cannot_be_created_leaves_nothing_behind);
	tcase_add_test(tc, a_pool_of_defaults_that_cannot_be_created_leaves_nothing_behind);
	tcase_add_test(tc, a_thread_that_cannot_be_attached_stays_as_it_was);
	tcase_add_test(tc, a_launch_or_memory_that_fails_can_be_asked_for_again);
	tcase_add_test(tc, a_pool_that_cannot_grow_is_as_it_was);
	tcase_add_test(tc, a_completion_queue_or_a_text_that_cannot_be_made_says_so);
	tcase_add_test(tc, a_pool_at_work_has_all_that_it_needs);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
