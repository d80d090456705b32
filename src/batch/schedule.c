/* SPDX-License-Identifier: MIT */
/*
 * Decides which batch takes the committed requests, and when; batcher.h has the design.
 *
 * DESIGN
 *	The batcher's word has two flags.  A: ASKED, a request was committed, and no taker has begun
 *	since.  T: TAKER, one batch is queued to take, or is taking.
 *
 *	word	event						next
 *	- -	ask; a batch is idle: submits that batch	A T
 *	- -	ask; no batch is idle				A -
 *	A -	a batch ends: it submits itself			A T
 *	A T	the taker begins				- T
 *	- T	ask						A T
 *	- T	taken; not asked, and no request is left	- -
 *	- T	taken; asked, or requests are left:
 *		a batch is idle: submits that batch		A T
 *		no batch is idle				A -
 *
 *	`taken` may also find A T.  TAKER is a lock that no thread waits for: before its owner
 *	releases it, the owner checks whether it was asked again.
 */
#include "config.h"

#include "batch/batcher.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "job/submit.h"

#define ASKED RNL__BATCHER_ASKED
#define TAKER RNL__BATCHER_TAKER

static uint64_t bit_of(unsigned batch)
{
	return UINT64_C(1) << (RNL__BATCHER_IDLE_SHIFT + batch);
}

/* Returns an idle batch according to the word, or NULL. */
static struct rnl__batch *idle_of(struct rnl_batcher *b, uint64_t word)
{
	uint32_t idle = (uint32_t)(word >> RNL__BATCHER_IDLE_SHIFT);

	return idle ? &b->batches[__builtin_ctz(idle)] : NULL;
}

/*
 * Submits a batch, which `busy` counts.  If @batch is NULL, only drops the count.  The pool accepts
 * the job even if it is full or closed.  If the device has failed, the job fails.
 */
static void schedule_submit(struct rnl_batcher *b, struct rnl__batch *batch)
{
	if (batch)
		rnl__submit_surely(b->pool, &batch->job, batch->home);
	else
		(void)rnl__latch_drop(rnl__batcher_busy(b), 1);
}

void rnl__schedule_ask(struct rnl_batcher *b)
{
	/*
	 * [batch.A1] relaxed, after the caller's full barrier: if we see ASKED, the taker that
	 * clears it sees our commit; pairs with [batch.A2].
	 */
	uint64_t word = atomic_load_explicit(&b->word, memory_order_relaxed), next;
	struct rnl_pool *pool = b->pool;
	struct rnl__batch *batch;

	if (word & ASKED)
		return;
	/*
	 * Both precede ASKED, because other commits rely on this call once ASKED is set: a drain
	 * must wait until the job counts, and a destroy until the batch has ended.
	 */
	(void)rnl__outside_enter(pool, RNL__OPERATION, 1);
	rnl__latch_add(rnl__batcher_busy(b), 1);
	do {
		batch = NULL;
		next = word | ASKED;
		if (!(word & (ASKED | TAKER)))
			batch = idle_of(b, word);
		if (batch)
			next = (next & ~bit_of(batch->index)) | TAKER;
		/*
		 * [batch.W1] acquire: the batch as its last run left it; pairs with [batch.W2].
		 * release: if a commit sees ASKED, a drain after this commit sees the operation
		 * that we began; pairs with [batch.A1].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	schedule_submit(b, batch);
	rnl__outside_leave(pool, RNL__OPERATION);
}

void rnl__schedule_begin(struct rnl_batcher *b)
{
	/*
	 * [batch.A2] acquire and a full barrier: the commits that saw ASKED before this operation
	 * are seen after it; pairs with [batch.A1].
	 */
	atomic_fetch_and_explicit(&b->word, ~ASKED, memory_order_acq_rel);
	rnl__mb_after_rmw();
}

bool rnl__schedule_asked(struct rnl_batcher *b)
{
	/* relaxed: a hint; [batch.A2] orders it */
	return atomic_load_explicit(&b->word, memory_order_relaxed) & ASKED;
}

void rnl__schedule_taken(struct rnl_batcher *b, bool more)
{
	uint64_t word = rnl__peek(&b->word), next;
	struct rnl__batch *batch;

	rnl__latch_add(rnl__batcher_busy(b), 1);
	do {
		next = more ? word | ASKED : word;
		batch = next & ASKED ? idle_of(b, word) : NULL;
		/* If no batch is idle, the next batch that ends takes. */
		next = batch ? next & ~bit_of(batch->index) : next & ~TAKER;
		/*
		 * [batch.W2] release: the progress of the taking, to the next taker; acquire: an
		 * idle batch; pairs with [batch.W1], [batch.W2], [batch.W3].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	schedule_submit(b, batch);
}

void rnl__schedule_ended(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	uint64_t word = rnl__peek(&b->word), next;
	bool again;

	do {
		again = (word & (ASKED | TAKER)) == ASKED;
		next = again ? word | TAKER : word | bit_of(batch->index);
		/*
		 * [batch.W3] release: the batch, to its next run; acquire: the progress of the
		 * taking; pairs with [batch.W1], [batch.W2].
		 */
	} while (!atomic_compare_exchange_weak_explicit(&b->word, &word, next, memory_order_acq_rel,
							memory_order_relaxed));
	schedule_submit(b, again ? batch : NULL);
}
