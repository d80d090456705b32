/* SPDX-License-Identifier: MIT */
/* Makes the n-th allocation of a batcher fail, for n = 1, 2, ..., until it succeeds. */
#include "faults.h"
#include "batch.h"

#define FAULTS_MOST 100
#define NR 64

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

static void end_pool(struct rnl_pool *pool)
{
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	begin(0, false);
	rnl_pool_destroy(pool);
	end();
	ck_assert_int_eq(living, 0);
}

START_TEST(a_batcher_that_lacks_memory_is_not_made)
{
	const bool from_then_on = _i;
	struct rnl_pool *pool = make_pool();
	long n, nr_failed = 1;
	int nr_refused = 0;

	for (n = 1; nr_failed && n < FAULTS_MOST; n++) {
		struct kind kind = kind_of(RNL_BATCHER_VARIABLE | RNL_BATCHER_STATUS, 100, 100);
		struct rnl_batcher *batcher = NULL;
		int ret;

		kind.attr.fn = kind_fn;
		kind.attr.arg = &kind;
		begin(n, from_then_on);
		ret = rnl_batcher_create(&batcher, pool, &kind.attr);
		nr_failed = failed;
		rnl_batcher_destroy(batcher);
		end();
		/* Of pinned memory it may have been an attempt that failed, and not the last. */
		ck_assert(!ret || (nr_failed && ret == -ENOMEM));
		ck_assert_int_eq(!batcher, ret != 0);
		nr_refused += ret != 0;
		ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	}
	printf("%ld faults%s, %d refused\n", n - 2, from_then_on ? ", all from the n-th on" : "",
	       nr_refused);
	ck_assert_int_gt(nr_refused, 8);
	ck_assert_int_lt(n, FAULTS_MOST);
	end_pool(pool);
}
END_TEST

/* A slab that cannot be made is done without, and tried again when it is wanted again. */
START_TEST(a_slab_that_lacks_memory_is_made_later)
{
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_pool *pool = make_pool();
	struct rnl_request requests[NR];
	struct rnl_batcher *batcher;
	int ret, refused;

	kind.attr.slab_bytes = NR / 2 * 64;
	kind.attr.nr_slabs = 1;
	kind.attr.max_slabs = 2;
	kind.attr.fn = kind_fn;
	kind.attr.arg = &kind;
	begin(0, false);
	ret = rnl_batcher_create(&batcher, pool, &kind.attr);
	end();
	ck_assert_int_eq(ret, 0);
	for (unsigned i = 0; i < NR / 2; i++) {
		request_of(&requests[i], NULL);
		reserve(batcher, &requests[i], 64);
	}
	request_of(&requests[NR / 2], NULL);
	begin(1, true);
	refused = rnl_batcher_reserve(batcher, &requests[NR / 2], 64);
	ret = rnl_pool_drain(pool, RNL_FOREVER);
	end();
	ck_assert_int_eq(refused, -EAGAIN);
	ck_assert_int_eq(ret, 0);
	ck_assert_int_gt(failed, 0);
	ck_assert_uint_eq(counts_of(batcher).nr_slabs, 1);
	begin(0, false);
	ret = rnl_batcher_reserve_wait(batcher, &requests[NR / 2], 64, RNL_FOREVER);
	rnl_batcher_destroy(batcher);
	end();
	ck_assert_int_eq(ret, 0);
	end_pool(pool);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("batch faults");
	TCase *tc = tcase_create("memory");

	tcase_add_loop_test(tc, a_batcher_that_lacks_memory_is_not_made, 0, 2);
	tcase_add_test(tc, a_slab_that_lacks_memory_is_made_later);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
