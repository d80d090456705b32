/* SPDX-License-Identifier: MIT */
/* Makes the n-th allocation in a map fail, for n = 1, 2, ..., until it succeeds. */
#include "faults.h"
#include "map.h"

#define KINDS 24
#define FAULTS_MOST 400

static struct rnl_pool *make_pool(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	int ret;

	attr.device = "host";
	attr.nr_workers = 2;
	begin(0, false);
	ret = rnl_pool_create(&pool, &attr);
	end();
	ck_assert_int_eq(ret, 0);
	return pool;
}

/* Memory, halos, callbacks, order and report of all sorts. */
static struct task task_of(unsigned kind)
{
	struct task t = {
		.in = (enum where)(kind % 3), .out = (enum where)(kind / 3 % 4),
		.nr = 300, .chunk = 10, .before = kind % 5, .after = kind % 2 * 3,
		.in_bytes = 8, .out_bytes = 8, .flags = kind % 4, .reports = kind / 2 % 2,
	};

	if (t.in == CALLED && t.out == IN_PLACE)
		t.out = PINNED;
	return t;
}

/* What the call and the barrier said of a map whose @nth allocation failed. */
static void run(struct task *t, long nth, bool from_then_on, int *ret, int *result)
{
	struct rnl_barrier barrier;

	ck_assert_int_eq(rnl_barrier_init(&barrier, t->pool), 0);
	begin(nth, from_then_on);
	*ret = rnl_map(t->pool, &t->map, &barrier);
	(void)rnl_barrier_wait(&barrier, RNL_FOREVER);
	end();
	*result = rnl_barrier_result(&barrier);
}

static void begin_again(struct task *t)
{
	memset(t->seen, 0, t->nr);
	memset(t->written, 0, t->nr);
	memset((void *)t->read, 0, t->nr);
	t->next_read = t->next_write = 0;
	t->in_read = t->in_write = false;
	if (t->from)
		memcpy(t->from, t->original, t->nr * t->in_bytes);
}

/* One fault; how many calls failed. */
static long try_fault(unsigned kind, long nth, bool from_then_on, int *nr_refused, int *nr_failed)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct task t = task_of(kind);
	int ret, result;
	long nr;

	task_prepare(&t, make_pool());
	run(&t, nth, from_then_on, &ret, &result);
	nr = failed;
	ck_assert_msg(!ret || ret == -ENOMEM, "rnl_map() gave %d", ret);
	ck_assert_msg(!result || (!ret && result == -ENOMEM), "the barrier has %d", result);
	*nr_refused += ret != 0;
	*nr_failed += result != 0;
	if (ret || result) {
		/* The pool is as before, and memory can be asked for again. */
		begin_again(&t);
		run(&t, 0, false, &ret, &result);
		ck_assert_int_eq(ret, 0);
		ck_assert_int_eq(result, 0);
	}
	task_verify(&t);
	task_end(&t);
	ck_assert_int_eq(rnl_pool_drain(t.pool, RNL_FOREVER), 0);
	ck_assert_int_eq(rnl_pool_stats(t.pool, &stats), 0);
	ck_assert_uint_eq(stats.pinned_used, 0);
	ck_assert_uint_eq(stats.accepted, stats.done);
	begin(0, false);
	rnl_pool_destroy(t.pool);
	end();
	return nr;
}

START_TEST(a_map_that_lacks_memory_says_so_and_leaves_nothing_behind)
{
	const unsigned kind = (unsigned)_i % KINDS;
	const bool from_then_on = (unsigned)_i >= KINDS;
	int nr_refused = 0, nr_failed = 0;
	long n = 1;

	while (n < FAULTS_MOST && try_fault(kind, n, from_then_on, &nr_refused, &nr_failed))
		n++;
	printf("map %u%s: %ld faults, %d refused, %d failed\n", kind,
	       from_then_on ? ", all from the n-th on" : "", n - 1, nr_refused, nr_failed);
	ck_assert_int_gt(n, 1);
	ck_assert_int_lt(n, FAULTS_MOST);
	ck_assert_int_gt(nr_refused, 0);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("map faults");
	TCase *tc = tcase_create("memory");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_map_that_lacks_memory_says_so_and_leaves_nothing_behind, 0,
			    2 * KINDS);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
