/* SPDX-License-Identifier: MIT */
/* Batchers: sizes of requests, size of batches, slow producers and back-pressure. */
#include <runnel/batch.h>

#include "batch.h"

#define NR 300

static void commit(struct rnl_request *request, uint64_t seed)
{
	request_fill(request, seed);
	must(rnl_request_commit(request));
}

/* Initialises a request of 64 bytes and reserves its space. */
static void reserve_new(struct rnl_batcher *batcher, struct rnl_request *request)
{
	request_of(request, NULL);
	reserve(batcher, request, 64);
}

static void send_new(struct rnl_batcher *batcher, struct rnl_request *request, uint64_t seed)
{
	reserve_new(batcher, request);
	commit(request, seed);
}

/* Receives requests of 64 bytes with the seeds 0, 1, ... */
static void receive_each(struct rnl_request *requests, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		receive(&requests[i], i, 64);
}

static void end(struct rnl_pool *pool, struct rnl_batcher *batcher)
{
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* ---- sizes --------------------------------------------------------------- */

/* Checks that @at is aligned to the power of two that divides @bytes, at most 64. */
static void is_aligned(const void *at, size_t bytes)
{
	const size_t unit = bytes & -bytes;

	ck_assert_uint_eq((uintptr_t)at % (unit > 64 ? 64 : unit), 0);
}

static void send_and_receive(struct rnl_pool *pool, struct kind *kind, unsigned nr)
{
	struct rnl_batcher *batcher = batcher_of(pool, kind);
	struct rnl_request requests[NR];
	const size_t in = kind->attr.in_bytes;
	const bool variable = kind->attr.flags & RNL_BATCHER_VARIABLE;

	for (unsigned i = 0; i < nr; i++) {
		request_of(&requests[i], NULL);
		reserve(batcher, &requests[i], variable ? 1 + i * 37 % in : in);
		is_aligned(requests[i].in, variable ? 16 : in);
		commit(&requests[i], i);
	}
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&requests[i].job), 0);
		if (kind->attr.out_bytes)
			is_aligned(requests[i].out, kind->attr.out_bytes);
		receive(&requests[i], i, kind->attr.out_bytes);
	}
	ck_assert_uint_eq(counts_of(batcher).requests, nr);
	ck_assert_uint_eq(counts_of(batcher).failed, 0);
	rnl_batcher_destroy(batcher);
}

TEST(requests_of_every_size_come_out_right)
{
	static const size_t sizes[][2] = {
		{ 1, 1 }, { 4, 4 }, { 3, 5 }, { 7, 0 }, { 64, 1 }, { 16, 100 }, { 4096, 4096 },
		{ 5000, 4 },
	};
	static const uint32_t largest[] = { 1, 2, 7, 64, 0 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < COUNT(sizes) * COUNT(largest); i++) {
		struct kind kind = kind_of(i % 2 ? RNL_BATCHER_ALWAYS_COPY : 0,
					   sizes[i / COUNT(largest)][0],
					   sizes[i / COUNT(largest)][1]);

		kind.attr.max_batch = largest[i % COUNT(largest)];
		/* The slabs have space for all requests. */
		kind.attr.nr_slabs = 32;
		kind.attr.slab_bytes = kind.attr.in_bytes * (NR / 30 + 1);
		send_and_receive(pool, &kind, NR);
		if (kind.attr.max_batch)
			ck_assert_uint_le(kind.largest, kind.attr.max_batch);
	}
	rnl_pool_destroy(pool);
}

TEST(requests_may_be_of_any_size_up_to_one)
{
	static const size_t sizes[][2] = {
		{ 1, 1 }, { 15, 20 }, { 16, 0 }, { 17, 17 }, { 4096, 4096 },
	};
	struct rnl_pool *pool;

	skip_unless_kernels();
	pool = pool_of(2);
	for (unsigned i = 0; i < COUNT(sizes); i++) {
		struct kind kind = kind_of(RNL_BATCHER_VARIABLE, sizes[i][0], sizes[i][1]);

		kind.attr.nr_slabs = 8;
		send_and_receive(pool, &kind, NR);
		kind.attr.flags |= RNL_BATCHER_ALWAYS_COPY;
		send_and_receive(pool, &kind, NR);
		/* A slab has space for one large request or several small ones. */
		kind.attr.slab_bytes = sizes[i][0];
		kind.attr.nr_slabs = 32;
		send_and_receive(pool, &kind, 32);
	}
	rnl_pool_destroy(pool);
}

TEST(a_single_request_may_be_large)
{
	struct rnl_pool *pool = pool_of(1);
	struct kind kind = kind_of(0, 20 << 20, OUT_MAX);
	struct rnl_batcher *batcher;
	struct rnl_request request;

	kind.attr.nr_slabs = 1;
	batcher = batcher_of(pool, &kind);
	request_of(&request, NULL);
	send(batcher, &request, 20 << 20, 1);
	receive(&request, 1, OUT_MAX);
	end(pool, batcher);
}

TEST(slabs_are_used_again_and_again)
{
	struct rnl_pool *pool = pool_of(2);
	struct kind kind = kind_of(0, 100, 100);
	struct rnl_batcher *batcher;
	struct rnl_request request;

	kind.attr.slab_bytes = 300;
	kind.attr.nr_slabs = 2;
	batcher = batcher_of(pool, &kind);
	request_of(&request, NULL);
	for (unsigned i = 0; i < 1000; i++) {
		send(batcher, &request, 100, i);
		receive(&request, i, 100);
	}
	ck_assert_uint_eq(counts_of(batcher).requests, 1000);
	ck_assert_uint_eq(counts_of(batcher).nr_slabs, 2);
	end(pool, batcher);
}

/* ---- size of batches ----------------------------------------------------- */

TEST(a_lone_request_goes_at_once)
{
	struct rnl_pool *pool = pool_of(2);
	struct kind kind = kind_of(RNL_BATCHER_ALWAYS_COPY, 64, 64);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request request;

	request_of(&request, NULL);
	for (unsigned i = 0; i < 20; i++) {
		send(batcher, &request, 64, i);
		receive(&request, i, 64);
		ck_assert_uint_eq(counts_of(batcher).batches, i + 1);
	}
	ck_assert_uint_eq(counts_of(batcher).copies, 20);
	ck_assert_uint_eq(counts_of(batcher).largest, 1);
	end(pool, batcher);
}

/* Commits @nr requests while the only worker is held. Returns the figures after all are done. */
static struct rnl_batcher_stats commit_while_busy(struct kind *kind, unsigned nr)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *batcher = batcher_of(pool, kind);
	struct rnl_request requests[NR];
	struct rnl_batcher_stats stats;
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	hold_workers(pool, &gate, &job, 1);
	for (unsigned i = 0; i < nr; i++) {
		send_new(batcher, &requests[i], i);
	}
	gate_open(&gate);
	receive_each(requests, nr);
	stats = counts_of(batcher);
	end(pool, batcher);
	return stats;
}

/* Loop 1: max_batch is 8. */
TEST(requests_while_the_workers_are_busy_go_in_as_few_batches_as_may_be, .loops = 2)
{
	struct kind kind = kind_of(RNL_BATCHER_ALWAYS_COPY, 64, 64);
	struct rnl_batcher_stats stats;

	kind.attr.max_batch = _i ? 8 : 0;
	kind.attr.nr_slabs = _i ? 7 : 0;
	stats = commit_while_busy(&kind, 200);
	ck_assert_uint_eq(stats.requests, 200);
	ck_assert_uint_eq(stats.batches, _i ? 25 : 1);
	ck_assert_uint_eq(stats.copies, _i ? 25 : 1);
	ck_assert_uint_eq(stats.largest, _i ? 8 : 200);
}

TEST(no_more_batches_are_under_way_than_may_be)
{
	struct rnl_pool *pool = pool_of(4);
	struct gate gate = GATE_INIT;
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_request requests[20];
	struct rnl_batcher *batcher;

	kind.gate = &gate;
	kind.attr.max_in_flight = 2;
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < COUNT(requests); i++) {
		send_new(batcher, &requests[i], i);
		gate_await(&gate, i < 2 ? i + 1 : 2);
	}
	ck_assert_uint_eq(kind.nr_calls, 2);
	gate_open(&gate);
	receive_each(requests, COUNT(requests));
	/* Two batches had one request each. When one ended, a third batch took the rest. */
	ck_assert_uint_eq(counts_of(batcher).batches, 3);
	ck_assert_uint_eq(counts_of(batcher).largest, 18);
	end(pool, batcher);
}

/* ---- slow producers ------------------------------------------------------ */

TEST(no_request_waits_for_a_slow_producer)
{
	struct rnl_pool *pool = pool_of(2);
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request slow[3], requests[10];

	for (unsigned i = 0; i < COUNT(requests); i++) {
		if (i < COUNT(slow)) {
			reserve_new(batcher, &slow[i]);
		}
		send_new(batcher, &requests[i], i);
	}
	receive_each(requests, COUNT(requests));
	for (unsigned i = COUNT(slow); i--; ) {
		commit(&slow[i], 100 + i);
	}
	for (unsigned i = 0; i < COUNT(slow); i++)
		receive(&slow[i], 100 + i, 64);
	/* On a busy machine, more requests miss their batch. */
	ck_assert_uint_ge(counts_of(batcher).late, COUNT(slow));
	ck_assert_uint_eq(counts_of(batcher).requests, COUNT(slow) + COUNT(requests));
	end(pool, batcher);
}

TEST(late_requests_of_several_slabs_go_in_batches_of_their_slab)
{
	struct rnl_pool *pool = pool_of(1);
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_request late[12], request;
	struct gate gate = GATE_INIT;
	struct rnl_batcher *batcher;
	struct rnl_job job;

	kind.attr.slab_bytes = 4 * 64;
	kind.attr.nr_slabs = 5;
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < COUNT(late); i++) {
		reserve_new(batcher, &late[i]);
	}
	/* A worker takes this request; its batch skips the requests that are not committed. */
	send_new(batcher, &request, 1);
	receive(&request, 1, 64);
	hold_workers(pool, &gate, &job, 1);
	for (unsigned i = 0; i < COUNT(late); i++) {
		commit(&late[(i * 5) % 12], (i * 5) % 12);
	}
	gate_open(&gate);
	receive_each(late, COUNT(late));
	ck_assert_uint_eq(counts_of(batcher).late, 12);
	ck_assert_uint_eq(counts_of(batcher).batches, 1 + 3);
	end(pool, batcher);
}

TEST(a_dead_producer_costs_one_slab)
{
	struct rnl_pool *pool = pool_of(2);
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_request dead[2], request;
	struct rnl_batcher *batcher;

	kind.attr.slab_bytes = 4 * 64;
	kind.attr.nr_slabs = 1;
	kind.attr.max_slabs = 3;
	batcher = batcher_of(pool, &kind);
	request_of(&request, NULL);
	for (unsigned i = 0; i < COUNT(dead); i++) {
		request_of(&dead[i], NULL);
		must(rnl_batcher_reserve(batcher, &dead[i], 64, RNL_FOREVER));
		for (unsigned k = 0; k < 100; k++) {
			must(rnl_batcher_reserve(batcher, &request, 64, RNL_FOREVER));
			commit(&request, k);
			receive(&request, k, 64);
		}
	}
	ck_assert_uint_eq(counts_of(batcher).nr_slabs, 3);
	/* One of the two requests is committed after all. */
	commit(&dead[0], 7);
	receive(&dead[0], 7, 64);
	end(pool, batcher);
}

TEST(slots_that_are_cancelled_after_they_were_passed_over_are_used_again)
{
	enum { SLOTS = 4, SLABS = 2 };
	struct rnl_pool *pool = pool_of(1);
	struct kind kind = kind_of(0, 64, 64);
	struct rnl_request slow, request;
	struct rnl_batcher *batcher;

	kind.attr.slab_bytes = SLOTS * 64;
	kind.attr.nr_slabs = kind.attr.max_slabs = SLABS;
	batcher = batcher_of(pool, &kind);
	request_of(&slow, NULL);
	request_of(&request, NULL);
	for (unsigned i = 0; i < 2 * SLABS * SLOTS; i++) {
		must(rnl_batcher_reserve(batcher, &slow, 64, patience_ns()));
		must(rnl_batcher_reserve(batcher, &request, 64, patience_ns()));
		commit(&request, i);
		/* A worker takes this request; its batch skips the slow one before it. */
		receive(&request, i, 64);
		must(rnl_request_release(&slow));
	}
	end(pool, batcher);
}

/* ---- back-pressure ------------------------------------------------------- */

#define FULL 8

/* Creates a batcher with two slabs, and reserves every slot. */
static struct rnl_batcher *full_batcher(struct rnl_pool *pool, struct kind *kind,
					struct rnl_request *requests)
{
	struct rnl_batcher *batcher;

	*kind = kind_of(0, 64, 64);
	kind->attr.slab_bytes = FULL / 2 * 64;
	kind->attr.nr_slabs = kind->attr.max_slabs = 2;
	batcher = batcher_of(pool, kind);
	for (unsigned i = 0; i < FULL; i++) {
		reserve_new(batcher, &requests[i]);
	}
	return batcher;
}

static void send_full(struct rnl_request *requests)
{
	for (unsigned i = 0; i < FULL; i++) {
		commit(&requests[i], i);
	}
}

TEST(without_room_a_reservation_is_refused)
{
	struct rnl_request requests[FULL], another;
	struct rnl_pool *pool = pool_of(2);
	struct kind kind;
	struct rnl_batcher *batcher = full_batcher(pool, &kind, requests);

	request_of(&another, NULL);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &another, 64, 0), -EAGAIN);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &another, 64, 2 * MS), -ETIMEDOUT);
	send_full(requests);
	for (unsigned i = 0; i < FULL; i++)
		ck_assert_int_eq(result_of(&requests[i].job), 0);
	/* A completed request holds its output until it is released. */
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &another, 64, 0), -EAGAIN);
	ck_assert_uint_ge(counts_of(batcher).refused, 4);
	for (unsigned i = 0; i < FULL / 2; i++)
		receive(&requests[i], i, 64);
	send(batcher, &another, 64, 9);
	receive(&another, 9, 64);
	end(pool, batcher);
}

struct reserving {
	struct rnl_batcher *batcher;
	struct rnl_request request;
};

static int reserve_waiting(void *arg)
{
	struct reserving *r = arg;

	return rnl_batcher_reserve(r->batcher, &r->request, 64, RNL_FOREVER);
}

/* Starts a reservation that must wait. */
static void start_reserving(struct call *call, struct reserving *r, struct rnl_batcher *batcher)
{
	r->batcher = batcher;
	request_of(&r->request, NULL);
	call_start(call, reserve_waiting, r);
	ck_waits(call->tid);
}

TEST(a_waiting_reservation_gets_released_slots)
{
	struct rnl_request requests[FULL];
	struct rnl_pool *pool = pool_of(2);
	struct reserving r[2];
	struct call calls[2];
	struct kind kind;
	struct rnl_batcher *batcher = full_batcher(pool, &kind, requests);

	for (unsigned i = 0; i < COUNT(r); i++)
		start_reserving(&calls[i], &r[i], batcher);
	send_full(requests);
	receive_each(requests, FULL);
	for (unsigned i = 0; i < COUNT(r); i++) {
		must(call_end(&calls[i]));
		commit(&r[i].request, 20 + i);
		receive(&r[i].request, 20 + i, 64);
	}
	end(pool, batcher);
}

static void count_held(void *arg, enum rnl_log_level level, const char *msg)
{
	_Atomic unsigned *nr = arg;

	*nr += level == RNL_LOG_WARNING && strstr(msg, "and no request is under way") != NULL;
}

TEST(a_wait_for_outputs_that_only_a_release_can_free_is_logged_once)
{
	struct rnl_request requests[FULL];
	_Atomic unsigned nr_warnings = 0;
	struct rnl_pool *pool = pool_of(1, .log = count_held, .log_arg = (void *)&nr_warnings,
					.stuck_ms = 5);
	struct gate gate = GATE_INIT;
	struct rnl_request late;
	struct reserving r;
	struct call call;
	struct kind kind;
	struct rnl_batcher *batcher = full_batcher(pool, &kind, requests);

	kind.gate = &gate;
	send_full(requests);
	gate_await(&gate, 1);
	/* While a batch is under way, a wait is no mistake. */
	start_reserving(&call, &r, batcher);
	request_of(&late, NULL);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &late, 64, 20 * MS), -ETIMEDOUT);
	ck_assert_uint_eq(nr_warnings, 0);
	gate_open(&gate);
	for (unsigned i = 0; i < FULL; i++)
		ck_assert_int_eq(result_of(&requests[i].job), 0);
	ck_eventually(nr_warnings);
	must(rnl_request_release(&requests[0]));
	must(call_end(&call));
	ck_assert_uint_eq(nr_warnings, 1);
	must(rnl_request_release(&r.request));
	for (unsigned i = 1; i < FULL; i++)
		must(rnl_request_release(&requests[i]));
	end(pool, batcher);
}

TEST(a_waiting_reservation_gets_cancelled_slots)
{
	struct rnl_request requests[FULL];
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct reserving r;
	struct rnl_job job;
	struct call call;
	struct kind kind;
	struct rnl_batcher *batcher = full_batcher(pool, &kind, requests);

	start_reserving(&call, &r, batcher);
	/* The worker is held, so no batch skips a request. */
	hold_workers(pool, &gate, &job, 1);
	for (unsigned i = 0; i < FULL; i++)
		must(rnl_request_release(&requests[i]));
	gate_open(&gate);
	must(call_end(&call));
	for (unsigned i = 1; i < FULL; i++)
		must(rnl_batcher_reserve(batcher, &requests[i], 64, RNL_FOREVER));
	must(rnl_request_release(&r.request));
	ck_assert_uint_eq(counts_of(batcher).cancelled, FULL + 1);
	ck_assert_uint_eq(counts_of(batcher).requests, 0);
	ck_assert_uint_eq(kind.nr_calls, 0);
	end(pool, batcher);
}

TEST(a_waiting_reservation_ends_at_a_close)
{
	struct rnl_request requests[FULL];
	struct rnl_pool *pool = pool_of(2);
	struct reserving r;
	struct call call;
	struct kind kind;
	struct rnl_batcher *batcher = full_batcher(pool, &kind, requests);

	start_reserving(&call, &r, batcher);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(call_end(&call), -ESHUTDOWN);
	end(pool, batcher);
}

TEST(slabs_are_made_up_to_the_most)
{
	struct rnl_pool *pool = pool_of(2);
	struct kind kind = kind_of(0, 64, 0);
	struct rnl_request requests[9];
	struct rnl_batcher *batcher;

	kind.attr.slab_bytes = 2 * 64;
	kind.attr.nr_slabs = 1;
	kind.attr.max_slabs = 4;
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < 8; i++) {
		request_of(&requests[i], NULL);
		must(rnl_batcher_reserve(batcher, &requests[i], 64, RNL_FOREVER));
	}
	ck_assert_uint_eq(counts_of(batcher).nr_slabs, 4);
	request_of(&requests[8], NULL);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &requests[8], 64, MS), -ETIMEDOUT);
	end(pool, batcher);
}
