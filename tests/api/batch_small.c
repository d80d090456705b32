/* SPDX-License-Identifier: MIT */
/* A small batch is processed in place, a larger one is copied: both give the correct output. */
#include <runnel/batch.h>

#include "batch.h"

#define SMALL 65536u		/* most bytes of a small batch's inputs, and of its outputs */

/* The addresses of the function's last batch. */
struct seen {
	struct kind kind;
	const void *in;
	void *out;
};

static int note(const struct rnl_batch *batch)
{
	struct seen *seen = rnl_container_of(batch->arg, struct seen, kind);

	seen->in = batch->in;
	seen->out = batch->out;
	return kind_fn(batch);
}

/* @slots: slots in a slab; 0: the default. */
static struct rnl_batcher *batcher_with_slabs(struct rnl_pool *pool, struct seen *seen,
					      uint32_t flags, size_t in_bytes, size_t out_bytes,
					      unsigned slots)
{
	struct rnl_batcher *batcher = NULL;

	seen->kind = kind_of(flags, in_bytes, out_bytes);
	seen->kind.attr.slab_bytes = slots * in_bytes;
	seen->kind.attr.fn = note;
	seen->kind.attr.arg = &seen->kind;
	must(rnl_batcher_create(&batcher, pool, &seen->kind.attr));
	return batcher;
}

static struct rnl_batcher *batcher_with(struct rnl_pool *pool, struct seen *seen, uint32_t flags,
					size_t in_bytes, size_t out_bytes)
{
	return batcher_with_slabs(pool, seen, flags, in_bytes, out_bytes, 0);
}

static void end(struct rnl_pool *pool, struct rnl_batcher *batcher)
{
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* Sends one request. Returns true if nothing was copied: aligned memory is then used in place. */
static bool lies_in_place(struct rnl_batcher *batcher, const struct seen *seen, size_t bytes)
{
	const uint64_t copies = counts_of(batcher).copies;
	struct rnl_request request;
	const void *in;
	bool in_place;

	request_of(&request, NULL);
	reserve(batcher, &request, bytes);
	in = request.in;
	request_fill(&request, bytes);
	must(rnl_request_commit(&request));
	ck_assert_int_eq(result_of(&request.job), 0);
	ck_assert_ptr_null(request.in);
	in_place = counts_of(batcher).copies == copies;
	ck_assert_uint_eq(counts_of(batcher).copies, copies + !in_place);
	ck_assert_int_eq(seen->in == in, in_place && !((uintptr_t)in % 256));
	ck_assert_int_eq(seen->out == request.out, in_place && !((uintptr_t)request.out % 256));
	receive(&request, bytes, seen->kind.attr.out_bytes);
	return in_place;
}

TEST(one_request_is_copied_if_it_is_large)
{
	static const struct {
		size_t in, out;
		bool small;
	} sizes[] = {
		{ 4096, 4096, true }, { SMALL, SMALL, true }, { SMALL, 1, true },
		{ SMALL + 1, 1, false }, { 1, SMALL + 1, false },
		{ SMALL + 256, SMALL + 256, false },
	};
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct rnl_batcher *batcher;
		struct seen seen;

		batcher = batcher_with(pool, &seen, 0, sizes[i].in, sizes[i].out);
		ck_assert_int_eq(lies_in_place(batcher, &seen, sizes[i].in), sizes[i].small);
		rnl_batcher_destroy(batcher);
	}
	rnl_pool_destroy(pool);
}

TEST(input_that_is_aligned_stays_in_its_slot)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct seen seen;

	batcher = batcher_with(pool, &seen, 0, 4096, 4096);
	request_of(&request, NULL);
	for (unsigned i = 0; i < 20; i++) {
		const void *in;

		reserve(batcher, &request, 4096);
		in = request.in;
		request_fill(&request, i);
		must(rnl_request_commit(&request));
		ck_assert_int_eq(result_of(&request.job), 0);
		ck_assert_ptr_eq(seen.in, in);
		ck_assert_ptr_eq(seen.out, request.out);
		receive(&request, i, 4096);
	}
	end(pool, batcher);
}

TEST(small_and_large_requests_share_a_batcher)
{
	static const size_t sizes[] = { 1, SMALL, SMALL + 1, 100, SMALL - 1, 2 * SMALL, SMALL };
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	struct seen seen;

	skip_unless_kernels();
	pool = pool_of(2);
	batcher = batcher_with(pool, &seen, RNL_BATCHER_VARIABLE, 2 * SMALL, 100);
	for (unsigned i = 0; i < COUNT(sizes); i++)
		ck_assert_int_eq(lies_in_place(batcher, &seen, sizes[i]), sizes[i] <= SMALL);
	end(pool, batcher);
}

/* Small and large batches, several under way at a time, with holes and without. */
TEST(batches_of_any_size_come_out_right)
{
	enum { NR = 200 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_request requests[NR];
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[3];
	struct rnl_batcher *batcher;
	struct seen seen;

	batcher = batcher_with(pool, &seen, 0, 4096, 4000);
	for (unsigned i = 0; i < NR; i++)
		request_of(&requests[i], NULL);
	for (unsigned round = 0, at = 0; round < 8; round++) {
		const unsigned nr = 1u << round;

		hold_workers(pool, &gate, jobs, 3);
		for (at = 0; at < nr; at++) {
			reserve(batcher, &requests[at], 4096);
			request_fill(&requests[at], at);
		}
		for (at = 0; at < nr; at++)
			must(at % 5 == 3 ? rnl_request_release(&requests[at]) :
					   rnl_request_commit(&requests[at]));
		gate_open(&gate);
		for (at = 0; at < nr; at++) {
			if (at % 5 != 3)
				receive(&requests[at], at, 4000);
		}
		for (unsigned i = 0; i < 3; i++)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
		gate = (struct gate)GATE_INIT;
	}
	end(pool, batcher);
}

/* ---- size and placement ----------------------------------------------------- */

/* Commits the 4 KB requests with a '1' in @takes as one batch. Returns the number of copies. */
static uint64_t copies_of(struct seen *seen, uint32_t flags, const char *takes)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *batcher = batcher_with(pool, seen, flags, 4096, 4096);
	struct rnl_request requests[32];
	struct gate gate = GATE_INIT;
	struct rnl_job job;
	uint64_t copies;

	hold_workers(pool, &gate, &job, 1);
	for (unsigned i = 0; takes[i]; i++) {
		request_of(&requests[i], NULL);
		reserve(batcher, &requests[i], 4096);
		request_fill(&requests[i], i);
	}
	for (unsigned i = 0; takes[i]; i++)
		must(takes[i] == '1' ? rnl_request_commit(&requests[i]) :
				       rnl_request_release(&requests[i]));
	gate_open(&gate);
	for (unsigned i = 0; takes[i]; i++) {
		if (takes[i] == '1')
			receive(&requests[i], i, 4096);
	}
	ck_assert_uint_eq(counts_of(batcher).batches, 1);
	copies = counts_of(batcher).copies;
	end(pool, batcher);
	return copies;
}

TEST(the_size_of_the_batch_counts_and_its_requests_are_adjacent)
{
	struct seen seen;

	ck_assert_uint_eq(copies_of(&seen, 0, "1111111111111111"), 0);	/* 64 KB */
	ck_assert_uint_eq(copies_of(&seen, 0, "11111111111111111"), 1);
	ck_assert_uint_eq(copies_of(&seen, 0, "1111111101111111101"), 3);
	ck_assert_uint_eq(copies_of(&seen, 0, "1011001"), 0);
	ck_assert_uint_eq(copies_of(&seen, 0, "0000001"), 0);
	ck_assert_uint_eq(copies_of(&seen, RNL_BATCHER_ALWAYS_COPY, "1011001"), 3);
}

/* kind_fn() checks the alignment. */
TEST(a_small_batch_is_aligned_wherever_its_slots_are)
{
	static const size_t sizes[] = { 1, 16, 100, 1000, 4000 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < 2 * COUNT(sizes); i++) {
		const size_t bytes = sizes[i / 2];
		struct rnl_batcher *batcher;
		struct seen seen;

		batcher = batcher_with_slabs(pool, &seen, 0, bytes, bytes, i % 2 ? 3 : 0);
		for (unsigned k = 0; k < 50; k++)
			ck_assert(lies_in_place(batcher, &seen, bytes));
		rnl_batcher_destroy(batcher);
	}
	rnl_pool_destroy(pool);
}

TEST(a_flag_keeps_the_copies)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *batcher;
	struct seen seen;

	batcher = batcher_with(pool, &seen, RNL_BATCHER_ALWAYS_COPY, 64, 64);
	for (unsigned i = 0; i < 10; i++)
		ck_assert(!lies_in_place(batcher, &seen, 64));
	end(pool, batcher);
}

/* ---- status ------------------------------------------------------------------ */

/* Fills the output with ones, and if kind->error is set, the status, too. */
static int fill_or_not(const struct rnl_batch *batch)
{
	const struct kind *kind = batch->arg;
	const int ret = kind->error ? rnl_fill(batch->status, 1, batch->nr * sizeof(int32_t)) : 0;

	return ret ? ret : rnl_fill(batch->out, 1, batch->nr * kind->attr.out_bytes);
}

TEST(status_is_0_at_first_in_memory_that_was_used)
{
	enum { BYTES = 20 };	/* there is a gap before the status */
	struct rnl_pool *pool = pool_of(1);

	for (uint32_t copy = 0; copy <= RNL_BATCHER_ALWAYS_COPY; copy += RNL_BATCHER_ALWAYS_COPY) {
		struct kind kind = kind_of(RNL_BATCHER_STATUS | copy, BYTES, BYTES);
		struct rnl_batcher *batcher = NULL;
		struct rnl_request request;

		kind.attr.fn = fill_or_not;
		kind.attr.arg = &kind;
		kind.attr.slab_bytes = BYTES;
		must(rnl_batcher_create(&batcher, pool, &kind.attr));
		request_of(&request, NULL);
		for (unsigned i = 0; i < 40; i++) {
			kind.error = i < 20;
			send(batcher, &request, BYTES, i);
			ck_assert_int_eq(result_of(&request.job), i < 20 ? 0x01010101 : 0);
			must(rnl_request_release(&request));
		}
		rnl_batcher_destroy(batcher);
	}
	rnl_pool_destroy(pool);
}

/* ---- errors ------------------------------------------------------------------- */

static struct gate writing = GATE_INIT;

/* Launches a kernel that writes later, and fails. */
static int write_and_fail(const struct rnl_batch *batch)
{
	const int ret = launch_store(&writing, batch->out, 1);

	return ret ? ret : -ENOSPC;
}

TEST(a_request_that_fails_is_done_when_no_kernel_writes_to_it_any_more)
{
	struct kind kind = kind_of(0, sizeof(int), sizeof(int));
	struct rnl_batcher *batcher = NULL;
	struct rnl_request request;
	struct rnl_pool *pool;

	skip_unless_kernels();
	pool = pool_of(1);
	kind.attr.fn = write_and_fail;
	must(rnl_batcher_create(&batcher, pool, &kind.attr));
	request_of(&request, NULL);
	send(batcher, &request, sizeof(int), 1);
	gate_await(&writing, 1);
	ck_assert_int_eq(rnl_job_wait(&request.job, 5 * MS), -ETIMEDOUT);
	gate_open(&writing);
	ck_assert_int_eq(result_of(&request.job), -ENOSPC);
	ck_assert_ptr_null(request.out);
	end(pool, batcher);
}
