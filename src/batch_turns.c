/* SPDX-License-Identifier: MIT */
/* Who takes what is committed, and when: the batcher's word; batcher.h has the design. */
#include "config.h"

#include "batcher.h"
#include "fence.h"
#include "latch.h"
#include "pool.h"
#include "submit.h"

#define ASKED RNL__BATCHER_ASKED
#define TAKER RNL__BATCHER_TAKER

static uint64_t bit_of(unsigned batch)
{
	return UINT64_C(1) << (RNL__BATCHER_IDLE_SHIFT + batch);
}

/* An idle batch, of a word; NULL: there is none. */
static struct rnl__batch *idle_of(struct rnl_batcher *b, uint64_t word)
{
	uint32_t idle = (uint32_t)(word >> RNL__BATCHER_IDLE_SHIFT);

	return idle ? &b->batches[__builtin_ctz(idle)] : NULL;
}

/* Full or closed, and even if the device has failed: then it is refused there, which ends it. */
static void submit(struct rnl__batch *batch)
{
	rnl__submit_surely(batch->batcher->pool, &batch->job, batch->index);
}

void rnl__batch_ask(struct rnl_batcher *b)
{
	/*
	 * [batch.A1] relaxed, behind the caller's full barrier: if we see ASKED, who
	 * takes it off sees our commit; pairs with [batch.A2].
	 */
	uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed), next;
	struct rnl_pool *pool = b->pool;
	struct rnl__batch *batch;

	if (word & ASKED)
		return;
	/*
	 * Who sees ASKED relies on us: so a drain waits from before that until the job
	 * counts.  And before the batch can end: a destroy waits for this latch.
	 */
	rnl__pool_hold(pool);
	rnl__latch_add(&b->busy, 1);
	do {
		batch = NULL;
		next = word | ASKED;
		if (!(word & (ASKED | TAKER)))
			batch = idle_of(b, word);
		if (batch)
			next = (next & ~bit_of(batch->index)) | TAKER;
		/*
		 * [batch.W1] acquire: the batch as its last run left it; pairs with [batch.W2].
		 * release: who sees ASKED drains behind our hold; pairs with [batch.A1].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	if (batch)
		submit(batch);
	else
		(void)rnl__latch_drop(&b->busy, 1);
	rnl__pool_unhold(pool);
}

void rnl__batch_heed(struct rnl_batcher *b)
{
	/*
	 * [batch.A2] acquire and a full barrier: of those who saw ASKED before this, the
	 * commits are seen behind it; pairs with [batch.A1].
	 */
	atomic_fetch_and_explicit(&b->word, ~ASKED, memory_order_acq_rel);
	rnl__mb_after_rmw();
}

bool rnl__batch_asked(struct rnl_batcher *b)
{
	/* relaxed: a look; who takes it off orders it */
	return atomic_load_explicit(&b->word, memory_order_relaxed) & ASKED;
}

void rnl__batch_took(struct rnl_batcher *b, bool more)
{
	/* relaxed: the exchange decides */
	uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed), next;
	struct rnl__batch *batch;

	rnl__latch_add(&b->busy, 1);
	do {
		next = more ? word | ASKED : word;
		batch = next & ASKED ? idle_of(b, word) : NULL;
		/* Without an idle one, the next that ends takes. */
		next = batch ? next & ~bit_of(batch->index) : next & ~TAKER;
		/*
		 * [batch.W2] release: where the taking has come to, to the next taker;
		 * acquire: an idle batch; pairs with [batch.W1], [batch.W2], [batch.W3].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	if (batch)
		submit(batch);
	else
		(void)rnl__latch_drop(&b->busy, 1);
}

void rnl__batch_ended(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	/* relaxed: the exchange decides */
	uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed), next;
	bool again;

	do {
		again = (word & (ASKED | TAKER)) == ASKED;
		next = again ? word | TAKER : word | bit_of(batch->index);
		/*
		 * [batch.W3] release: the batch, to who has it next; acquire: what was
		 * taken up to now; pairs with [batch.W1], [batch.W2].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	if (again)
		submit(batch);
	else
		(void)rnl__latch_drop(&b->busy, 1);
}
