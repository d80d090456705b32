/* SPDX-License-Identifier: MIT */
/* Producers that keep completed requests in a ring find space as long as there is any. */
#include <runnel/batch.h>

#include "batch.h"
#include "places.h"
#include "seed.h"

#define BYTES 64u

/* ---- rings ------------------------------------------------------------------ */

#define PRODUCERS 8u
#define RING 512u
#define TURNS 12u
#define RING_SLABS 10u		/* of RING slots each: two more than the rings fill */

struct ring {
	struct rnl_batcher *batcher;
	uint64_t first;			/* number of the ring's first request */
	struct rnl_request requests[RING];
};

/* Sends requests through a ring; releases each one only when its place in the ring is needed. */
static int go_round(void *arg)
{
	struct ring *ring = arg;
	int ret = 0;

	for (unsigned i = 0; !ret && i < (TURNS + 1) * RING; i++) {
		struct rnl_request *r = &ring->requests[i % RING];

		if (i >= RING) {
			ret = rnl_job_wait(&r->job, patience_ns());
			ret = ret ? ret : r->job.result;
			if (!ret && wrong_byte(r, ring->first + i - RING, BYTES) >= 0)
				ret = -EPROTO;
			ret = ret ? ret : rnl_request_release(r);
		}
		if (ret || i >= TURNS * RING)
			continue;
		ret = rnl_batcher_reserve(ring->batcher, r, BYTES, patience_ns());
		if (ret)
			break;
		request_fill(r, ring->first + i);
		ret = rnl_request_commit(r);
	}
	return ret;
}

static void all_go_round(struct rnl_pool *pool, uint32_t flags)
{
	static struct ring rings[PRODUCERS];
	struct kind kind = kind_of(flags, BYTES, BYTES);
	struct call calls[PRODUCERS];
	struct rnl_batcher *batcher;

	kind.attr.slab_bytes = RING * BYTES;
	kind.attr.nr_slabs = kind.attr.max_slabs = RING_SLABS;
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		rings[i].batcher = batcher;
		rings[i].first = (uint64_t)i << 32;
		for (unsigned k = 0; k < RING; k++)
			request_of(&rings[i].requests[k], NULL);
		call_start(&calls[i], go_round, &rings[i]);
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		must(call_end(&calls[i]));
	ck_assert_uint_eq(counts_of(batcher).requests, PRODUCERS * TURNS * RING);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* Loop 0: on one device; 1: on two; 2: on two, and all batches are copied. */
TEST(producers_in_rings_do_not_wait_for_each_other_for_ever, .timeout_s = 300, .loops = 3)
{
	struct rnl_pool *pool = _i ? pool_over_of(2, 1) : pool_of(2);

	skip_if_alone(pool);
	all_go_round(pool, _i == 2 ? RNL_BATCHER_ALWAYS_COPY : 0);
}

/* ---- held requests ------------------------------------------------------------ */

#define SLOTS 16u		/* in a slab */
#define SLABS 4u		/* over all devices */
#define ALL (SLOTS * SLABS)

static struct rnl_batcher *batcher_of_slabs(struct rnl_pool *pool, struct kind *kind,
					    uint32_t flags)
{
	*kind = kind_of(flags, BYTES, BYTES);
	kind->attr.slab_bytes = SLOTS * BYTES;
	/* With RNL_BATCHER_VARIABLE, a slab has outputs for four of the largest batches. */
	kind->attr.max_batch = flags & RNL_BATCHER_VARIABLE ? SLOTS / 4 : SLOTS;
	kind->attr.nr_slabs = kind->attr.max_slabs = SLABS;
	return batcher_of(pool, kind);
}

static size_t size_of(const struct kind *kind, uint64_t seed)
{
	return kind->attr.flags & RNL_BATCHER_VARIABLE ? 1 + seed * 7919 % BYTES : BYTES;
}

/* Sends and checks all requests that hold no output, which takes all the space that is left. */
static void send_the_rest(struct rnl_batcher *batcher, const struct kind *kind,
			  struct rnl_request *all, uint64_t *seeds, uint64_t *seed)
{
	struct rnl_request more;

	for (unsigned i = 0; i < ALL; i++) {
		if (all[i].out)
			continue;
		seeds[i] = ++*seed;
		must(rnl_batcher_reserve(batcher, &all[i], size_of(kind, seeds[i]), patience_ns()));
		request_fill(&all[i], seeds[i]);
		must(rnl_request_commit(&all[i]));
	}
	request_of(&more, NULL);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &more, BYTES, 0), -EAGAIN);
	for (unsigned i = 0; i < ALL; i++) {
		ck_assert_int_eq(result_of(&all[i].job), 0);
		ck_assert_int_eq(wrong_byte(&all[i], seeds[i], BYTES), -1);
	}
}

static void hold_at_random(struct rnl_pool *pool, uint32_t flags)
{
	struct rnl_request all[ALL];
	uint64_t seeds[ALL], seed = 0;
	struct kind kind;
	struct rnl_batcher *batcher = batcher_of_slabs(pool, &kind, flags);
	uint64_t draws = draws_of(test_seed(), 0);

	for (unsigned i = 0; i < ALL; i++)
		request_of(&all[i], NULL);
	for (unsigned round = 0; round < 200; round++) {
		/* The odds of a release, in 64ths: from 1 to 63. */
		const unsigned odds = 1 + round % 63;

		send_the_rest(batcher, &kind, all, seeds, &seed);
		for (unsigned i = 0; i < ALL; i++)
			if (draw(&draws, 64) < odds)
				must(rnl_request_release(&all[i]));
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(memory_of_released_requests_is_used_again, .timeout_s = 120, .loops = 4)
{
	static const uint32_t flags[] = {
		0, RNL_BATCHER_ALWAYS_COPY, RNL_BATCHER_VARIABLE,
		RNL_BATCHER_VARIABLE | RNL_BATCHER_ALWAYS_COPY,
	};

	if (flags[_i] & RNL_BATCHER_VARIABLE)
		skip_unless_kernels();
	hold_at_random(pool_of(2), flags[_i]);
}

TEST(memory_of_released_requests_on_two_devices_is_used_again, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_over_of(2, 1);

	skip_if_alone(pool);
	hold_at_random(pool, 0);
}

/* Sends requests for some rounds. Those for which @held returns true are never released. */
static void hold_some(bool (*held)(unsigned i))
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_request all[ALL];
	uint64_t seeds[ALL], seed = 0;
	struct kind kind;
	struct rnl_batcher *batcher = batcher_of_slabs(pool, &kind, 0);

	for (unsigned i = 0; i < ALL; i++)
		request_of(&all[i], NULL);
	for (unsigned round = 0; round < 20; round++) {
		send_the_rest(batcher, &kind, all, seeds, &seed);
		for (unsigned i = 0; i < ALL; i++)
			if (!held(i))
				must(rnl_request_release(&all[i]));
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

static bool first_of_each_slab(unsigned i)
{
	return i % SLOTS == 0;
}

static bool more_than_a_slab(unsigned i)
{
	return i < SLOTS + SLOTS / 2;
}

static bool all_but_one(unsigned i)
{
	return i != ALL / 2;
}

TEST(a_done_request_holds_only_its_own_memory, .timeout_s = 60)
{
	hold_some(first_of_each_slab);
	hold_some(more_than_a_slab);
	hold_some(all_but_one);
}

/* Each released output allows one reservation, and a reservation does not use up a slab. */
TEST(slots_are_reserved_one_by_one_as_outputs_are_released, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_request all[ALL], more[ALL];
	uint64_t seeds[ALL], seed = 0;
	struct kind kind;
	struct rnl_batcher *batcher = batcher_of_slabs(pool, &kind, 0);

	for (unsigned i = 0; i < ALL; i++) {
		request_of(&all[i], NULL);
		request_of(&more[i], NULL);
	}
	send_the_rest(batcher, &kind, all, seeds, &seed);
	for (unsigned i = 0; i < ALL; i++) {
		must(rnl_request_release(&all[i]));
		must(rnl_batcher_reserve(batcher, &more[i], BYTES, patience_ns()));
		ck_assert_int_eq(rnl_batcher_reserve(batcher, &all[i], BYTES, 0), -EAGAIN);
	}
	for (unsigned i = 0; i < ALL; i++) {
		request_fill(&more[i], i);
		must(rnl_request_commit(&more[i]));
	}
	for (unsigned i = 0; i < ALL; i++) {
		ck_assert_int_eq(result_of(&more[i].job), 0);
		ck_assert_int_eq(wrong_byte(&more[i], i, BYTES), -1);
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* ---- waiting ------------------------------------------------------------------ */

#define WAITERS 3u

struct waiter {
	struct rnl_batcher *batcher;
	struct rnl_request request;
};

static int wait_for_space(void *arg)
{
	struct waiter *w = arg;

	return rnl_batcher_reserve(w->batcher, &w->request, BYTES, RNL_FOREVER);
}

/* All requests have completed, so only a release can wake a waiter. */
TEST(each_release_wakes_a_thread_that_waits, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .stuck_ms = 1000000);	/* after it, who waits looks again */
	struct waiter waiters[WAITERS];
	struct rnl_request all[ALL];
	uint64_t seeds[ALL], seed = 0;
	struct call calls[WAITERS];
	struct kind kind;
	struct rnl_batcher *batcher = batcher_of_slabs(pool, &kind, 0);

	for (unsigned i = 0; i < ALL; i++)
		request_of(&all[i], NULL);
	send_the_rest(batcher, &kind, all, seeds, &seed);
	for (unsigned i = 0; i < WAITERS; i++) {
		waiters[i].batcher = batcher;
		request_of(&waiters[i].request, NULL);
		call_start(&calls[i], wait_for_space, &waiters[i]);
	}
	for (unsigned i = 0; i < WAITERS; i++)
		ck_waits(calls[i].tid);
	for (unsigned i = 0; i < WAITERS; i++)
		must(rnl_request_release(&all[i * SLOTS]));
	for (unsigned i = 0; i < WAITERS; i++) {
		ck_assert_int_eq(call_end(&calls[i]), 0);
		must(rnl_request_release(&waiters[i].request));
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}
