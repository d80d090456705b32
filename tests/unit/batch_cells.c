/* SPDX-License-Identifier: MIT */
/* Promises of cells change the words that producers share once for a slab, not for a request. */
#include <runnel/batch.h>

#include "batch.h"

#include "batch/batcher.h"

#define SLOTS 16u		/* slots of a slab */
#define SLABS 2u
#define BYTES 64u

static struct rnl_batcher *batcher_of_slabs(struct rnl_pool *pool, uint32_t flags)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *b;

	attr.fn = noop_batch;
	attr.flags = flags;
	attr.max_batch = SLOTS;
	attr.in_bytes = attr.out_bytes = BYTES;
	attr.slab_bytes = SLOTS * BYTES;
	attr.nr_slabs = attr.max_slabs = SLABS;
	must(rnl_batcher_create(&b, pool, &attr));
	return b;
}

static uint64_t held_promises(struct rnl_batcher *b)
{
	return atomic_load(&b->promised) - atomic_load(&b->settled);
}

static void reserve_all(struct rnl_batcher *b, struct rnl_request requests[SLOTS], size_t bytes)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		must(rnl_job_init(&requests[i].job, NULL));
		must(rnl_batcher_reserve(b, &requests[i], bytes, 0));
		ck_assert_uint_eq(held_promises(b), SLOTS);
	}
}

TEST(reserves_and_releases_leave_the_count_of_promises_to_slabs_and_batches)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *b = batcher_of_slabs(pool, 0);
	struct rnl_request requests[SLOTS];

	for (unsigned round = 1; round <= 2 * SLABS; round++) {
		reserve_all(b, requests, BYTES);
		ck_assert_uint_eq(atomic_load(&b->promised), round * SLOTS);
		for (unsigned i = 0; i < SLOTS; i++)
			must(rnl_request_commit(&requests[i]));
		for (unsigned i = 0; i < SLOTS; i++)
			ck_assert_int_eq(result_of(&requests[i].job), 0);
		ck_assert_uint_eq(held_promises(b), 0);
		for (unsigned i = 0; i < SLOTS; i++)
			must(rnl_request_release(&requests[i]));
		ck_assert_uint_eq(atomic_load(&b->promised), round * SLOTS);
		ck_assert_uint_eq(held_promises(b), 0);
		ck_assert(!atomic_load(&b->lacks_cells));
	}
	rnl_batcher_destroy(b);
	rnl_pool_destroy(pool);
}

TEST(a_cancel_gives_its_promise_back)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *b = batcher_of_slabs(pool, 0);
	struct rnl_request requests[SLOTS];

	reserve_all(b, requests, BYTES);
	for (unsigned i = 0; i < SLOTS; i++) {
		must(rnl_request_release(&requests[i]));
		ck_assert_uint_eq(held_promises(b), SLOTS - 1 - i);
	}
	rnl_batcher_destroy(b);
	rnl_pool_destroy(pool);
}

/* Requests of different sizes have four times as many slots as requests of the largest size. */
TEST(a_slab_that_is_closed_gives_back_the_promises_for_its_other_slots)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_batcher *b = batcher_of_slabs(pool, RNL_BATCHER_VARIABLE);
	struct rnl_request requests[2 * SLOTS];
	unsigned nr = 0;

	do {
		must(rnl_job_init(&requests[nr].job, NULL));
		must(rnl_batcher_reserve(b, &requests[nr], BYTES - 1, 0));
		nr++;
	} while (requests[nr - 1].slab == requests[0].slab);
	ck_assert_uint_eq(held_promises(b), nr - 1 + b->nr_slots);
	while (nr--)
		must(rnl_request_release(&requests[nr]));
	rnl_batcher_destroy(b);
	rnl_pool_destroy(pool);
}
