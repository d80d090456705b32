/* SPDX-License-Identifier: MIT */
/* A batcher after many rounds: its slots were never used, or not for a long time. */
#include <runnel/batch.h>

#include "batch.h"

#include "batch/batcher.h"

/* Makes a new batcher continue at a round, as if the earlier rounds had used no slot. */
static void go_on_at(struct rnl_batcher *b, uint64_t round)
{
	for (unsigned i = 0; i < b->nr_slabs; i++)
		atomic_store(&b->slabs[i].word, rnl__slab_word(RNL__SLAB_FREE, round - 1));
	atomic_store(&rnl__slab_of(b, round)->word, rnl__slab_word(RNL__SLAB_OPEN, round));
	atomic_store(&rnl__slab_of(b, round)->limit, rnl__slab_limit(round, 0));
	b->at = round;
	atomic_store(&b->open, round);
}

/* Makes the taker pass over a slot, and then commits the request of that slot. */
static void check_round(struct rnl_pool *pool, uint64_t round)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_request requests[2];
	struct rnl_batcher *b;

	attr.fn = noop_batch;
	attr.max_batch = 4;
	attr.in_bytes = 8;
	attr.nr_slabs = 2;
	attr.max_slabs = 2;
	must(rnl_batcher_create(&b, pool, &attr));
	go_on_at(b, round);
	for (unsigned i = 0; i < 2; i++) {
		must(rnl_job_init(&requests[i].job, NULL));
		must(rnl_batcher_reserve(b, &requests[i], 8, 0));
	}
	for (unsigned i = 2; i--;) {
		must(rnl_request_commit(&requests[i]));
		ck_assert_int_eq(rnl_job_wait(&requests[i].job, patience_ns()), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		must(rnl_request_release(&requests[i]));
	rnl_batcher_destroy(b);
}

TEST(a_slot_that_was_never_used_is_of_no_round, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);

	/* The last round that fits in a number of that many bits. */
	for (unsigned bits = 16; bits < 62; bits++)
		check_round(pool, (UINT64_C(1) << bits) - 1);
	rnl_pool_destroy(pool);
}
