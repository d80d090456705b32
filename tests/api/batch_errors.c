/* SPDX-License-Identifier: MIT */
/* Errors of a batcher's function, of its kernel and of the device, and misuse. */
#include <runnel/batch.h>

#include "batch.h"

SUITE_FORKS

/* Defined by the double of the CUDA runtime. */
__attribute__((weak)) void fake_fail_sticky(int code);

/* ---- errors ---------------------------------------------------------------- */

TEST(an_error_of_the_function_is_every_requests)
{
	struct rnl_barrier barrier;
	struct all all;

	all_begin(&all, 2, 0);
	all.kind.error = -ENOSPC;
	must(rnl_barrier_init(&barrier, all.pool));
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_barrier_add(&barrier, &all.requests[i].job));
	send_all(&all);
	ck_assert_int_eq(result_of_barrier(&barrier), -ENOSPC);
	for (unsigned i = 0; i < NR_ALL; i++) {
		ck_assert_int_eq(all.requests[i].job.result, -ENOSPC);
		ck_assert_ptr_null(all.requests[i].out);
		must(rnl_request_release(&all.requests[i]));
	}
	ck_assert_uint_eq(counts_of(all.batcher).failed, NR_ALL);
	/* Later requests succeed. */
	all.kind.error = 0;
	must(rnl_barrier_init(&barrier, all.pool));
	send_all(&all);
	receive_all(&all);
	ck_assert_uint_eq(counts_of(all.batcher).failed, NR_ALL);
	all_end(&all);
}

TEST(a_positive_result_of_the_function_is_an_error)
{
	struct all all;

	all_begin(&all, 1, 0);
	all.kind.error = 3;
	send(all.batcher, &all.requests[0], ALL_BYTES, 0);
	ck_assert_int_eq(result_of(&all.requests[0].job), -EINVAL);
	all_end(&all);
}

static int32_t own_result(unsigned i)
{
	static const int32_t results[] = { 0, -EILSEQ, 7, -ENOSPC, INT32_MAX };

	return results[i % COUNT(results)];
}

static void check_own_results(uint32_t flags)
{
	struct all all;
	unsigned nr_failed = 0;

	all_begin(&all, 2, RNL_BATCHER_STATUS | flags);
	for (unsigned i = 0; i < NR_ALL; i++) {
		const int32_t result = own_result(i);

		nr_failed += result < 0;
		reserve(all.batcher, &all.requests[i], ALL_BYTES);
		request_fill(&all.requests[i], i);
		memcpy(all.requests[i].in, &result, sizeof(result));
		must(rnl_request_commit(&all.requests[i]));
	}
	for (unsigned i = 0; i < NR_ALL; i++) {
		struct rnl_request *request = &all.requests[i];
		const unsigned char *out;

		ck_assert_int_eq(result_of(&request->job), own_result(i));
		out = request->out;
		for (unsigned k = sizeof(int32_t); k < ALL_BYTES; k++)
			ck_assert_uint_eq(out[k], byte_of(i, k));
		must(rnl_request_release(request));
	}
	ck_assert_uint_eq(counts_of(all.batcher).failed, nr_failed);
	all_end(&all);
}

TEST(the_kernel_gives_requests_results_of_their_own)
{
	check_own_results(0);
	check_own_results(RNL_BATCHER_ALWAYS_COPY);
}

TEST(results_of_their_own_need_no_output)
{
	struct rnl_pool *pool = pool_of(1);
	struct kind kind = kind_of(RNL_BATCHER_STATUS, 4, 0);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request request;
	const int32_t result = -EDOM;

	request_of(&request, NULL);
	reserve(batcher, &request, 4);
	memcpy(request.in, &result, sizeof(result));
	must(rnl_request_commit(&request));
	ck_assert_int_eq(result_of(&request.job), -EDOM);
	ck_assert_ptr_null(request.out);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_device_that_fails_fails_all_committed_requests)
{
	struct rnl_job job;
	struct gate gate = GATE_INIT;
	struct all all;

	if (!test_fake())
		test_skip("a_device_that_fails...: the double of the CUDA runtime fails on demand");
	all_begin(&all, 1, 0);
	all.kind.attr.max_batch = 7;
	rnl_batcher_destroy(all.batcher);
	all.batcher = batcher_of(all.pool, &all.kind);
	reserve(all.batcher, &all.requests[0], ALL_BYTES);
	hold_workers(all.pool, &gate, &job, 1);
	for (unsigned i = 1; i < NR_ALL; i++)
		send(all.batcher, &all.requests[i], ALL_BYTES, i);
	fake_fail_sticky(700);
	gate_open(&gate);
	for (unsigned i = 1; i < NR_ALL; i++) {
		ck_assert_int_eq(result_of(&all.requests[i].job), -EIO);
		must(rnl_request_release(&all.requests[i]));
	}
	/* A worker has noticed the failure. */
	ck_assert_int_eq(rnl_request_commit(&all.requests[0]), -EIO);
	must(rnl_request_release(&all.requests[0]));
	ck_assert_int_eq(rnl_batcher_reserve(all.batcher, &all.requests[0], ALL_BYTES, 0), -EIO);
	all_end(&all);
}

struct reserving {
	struct rnl_batcher *batcher;
	struct rnl_request request;
};

static int reserve_waiting(void *arg)
{
	struct reserving *r = arg;

	return rnl_batcher_reserve(r->batcher, &r->request, ALL_BYTES, RNL_FOREVER);
}

TEST(a_waiting_reservation_ends_when_the_device_fails)
{
	struct gate gate = GATE_INIT;
	struct reserving r;
	struct rnl_job job;
	struct call call;
	struct all all;

	if (!test_fake())
		test_skip("a_waiting_reservation...: the double of CUDA fails on demand");
	all_begin(&all, 1, 0);
	rnl_batcher_destroy(all.batcher);
	all.kind.attr.slab_bytes = NR_ALL * ALL_BYTES;
	all.kind.attr.nr_slabs = all.kind.attr.max_slabs = 1;
	all.batcher = batcher_of(all.pool, &all.kind);
	for (unsigned i = 0; i < NR_ALL; i++)
		reserve(all.batcher, &all.requests[i], ALL_BYTES);
	r.batcher = all.batcher;
	request_of(&r.request, NULL);
	call_start(&call, reserve_waiting, &r);
	ck_waits(call.tid);
	hold_workers(all.pool, &gate, &job, 1);
	must(rnl_request_commit(&all.requests[0]));
	fake_fail_sticky(700);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), -EIO);
	ck_assert_int_eq(result_of(&all.requests[0].job), -EIO);
	all_end(&all);
}

/* ---- misuse ---------------------------------------------------------------- */

TEST(wrong_attributes_are_named)
{
	static const struct {
		size_t at, bytes;
		uint64_t value;
		int ret;
	} wrongs[] = {
#define WRONG(field, value, ret) \
	{ offsetof(struct rnl_batcher_attr, field), \
	  sizeof(((struct rnl_batcher_attr *)0)->field), value, ret }
		WRONG(size, 0, -EINVAL), WRONG(size, 79, -EINVAL), WRONG(size, 5000, -EINVAL),
		WRONG(flags, 8, -EINVAL), WRONG(fn, 0, -EINVAL), WRONG(in_bytes, 0, -EINVAL),
		WRONG(in_bytes, UINT64_C(1) << 30, -EINVAL), WRONG(in_bytes, UINT64_MAX, -EINVAL),
		WRONG(out_bytes, UINT64_C(1) << 30, -EINVAL), WRONG(out_bytes, UINT64_MAX, -EINVAL),
		WRONG(max_batch, 32769, -EINVAL), WRONG(max_in_flight, 33, -EINVAL),
		WRONG(slab_bytes, ALL_BYTES - 1, -EINVAL), WRONG(slab_bytes, UINT64_MAX, -EINVAL),
		WRONG(nr_slabs, 33, -EINVAL), WRONG(max_slabs, 33, -EINVAL),
		WRONG(max_slabs, 1, -EINVAL), WRONG(devices, 2, -EINVAL),
#undef WRONG
	};
	struct rnl_batcher *batcher = NULL;
	struct rnl_batcher_stats stats = { .size = 8 };
	struct all all;

	all_begin(&all, 1, 0);
	all.kind.attr.nr_slabs = 2;
	for (unsigned i = 0; i < COUNT(wrongs); i++) {
		struct rnl_batcher_attr attr = all.kind.attr;

		memcpy((char *)&attr + wrongs[i].at, &wrongs[i].value, wrongs[i].bytes);
		ck_assert_int_eq(rnl_batcher_create(&batcher, all.pool, &attr), wrongs[i].ret);
		ck_assert_ptr_null(batcher);
	}
	ck_assert_int_eq(rnl_batcher_create(NULL, all.pool, &all.kind.attr), -EINVAL);
	ck_assert_int_eq(rnl_batcher_create(&batcher, NULL, &all.kind.attr), -EINVAL);
	ck_assert_int_eq(rnl_batcher_create(&batcher, all.pool, NULL), -EINVAL);
	ck_assert_int_eq(rnl_batcher_read_stats(NULL, &stats), -EINVAL);
	ck_assert_int_eq(rnl_batcher_read_stats(all.batcher, NULL), -EINVAL);
	ck_assert_int_eq(rnl_batcher_read_stats(all.batcher, &stats), -EINVAL);
	rnl_batcher_destroy(NULL);
	all_end(&all);
}

TEST(a_batcher_without_memory_is_refused)
{
	struct kind kind = kind_of(0, 64 << 10, 64 << 10);
	struct rnl_batcher *batcher = NULL;
	struct rnl_pool *pool = pool_of(1, .pinned_max = 4 << 20);

	kind.attr.fn = kind_fn;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &kind.attr), -ENOMEM);
	ck_assert_ptr_null(batcher);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
}
