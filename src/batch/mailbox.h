/* SPDX-License-Identifier: MIT */
/*
 * The host's side of the mailboxes of a resident kernel; resident.h has the design.
 *
 * DESIGN
 *	A mailbox has one request at a time.  Its word is the request's number and a state:
 *
 *	         send               answered: end
 *	  ENDED -----> SENT -----> ENDING ------> ENDED
 *	                ^  |          ^
 *	       a block  |  | take     | take back; the second look finds the answer, or no block
 *	       serves   |  v back     | serves: the request goes in a batch
 *	                ENDING -------+
 *
 *	Any thread may end a request or take it back; the exchange from SENT decides which one, and
 *	compares the number, too, so that no thread ends a later request.
 *	To take a request back, the host closes the gate, then reads the status.  If no block serves
 *	the mailbox, none can begin to: it would see the closed gate.  The last block may have
 *	answered before it ended, so the host looks for the answer again.  Otherwise the gate opens
 *	for the next number, so later blocks do not expect this request.  The gate opens
 *	before the word changes, because another thread may close it for the next request.
 *	A thread that may not end an answered request puts it back: it is SENT again.
 *	When the tags are used up, the pieces are cleared while no block serves the mailbox: an old
 *	piece would have a tag of the new ones.
 *	Model: tests/model/mailbox.pml.
 */
#ifndef RNL_BATCH_MAILBOX_H
#define RNL_BATCH_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel/mailbox.h>

#include "job/job.h"
#include "sys/atomic.h"

struct rnl__resident;

enum rnl__mailbox_state { RNL__MAIL_ENDED, RNL__MAIL_SENT, RNL__MAIL_ENDING };

struct rnl__mailbox {
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t word; /* number << 2 | state */
	_Atomic uint64_t sent_at;	/* written before SENT, like `reported` */
	_Atomic bool reported;		/* its end is reported: only a worker ends it: a hint */
	/* Constant.  The pieces and words are page-locked memory. */
	struct rnl__answers answers;
	struct rnl__resident *resident;
	uint32_t index;
	uint32_t nr_request, nr_answer;	/* pieces; nr_request: of the largest request */
	struct rnl__mail_piece *request, *answer;
	struct rnl__mailbox_words *words;
};

/* What a thread knows of a request that is under way. */
struct rnl__mail {
	struct rnl__mailbox *m;
	uint64_t number;
	uint32_t seen;			/* pieces of the answer that have arrived */
};

/* Returns true if the mailbox has a request that is not ended, which @mail then names. */
static inline bool rnl__mailbox_look(struct rnl__mailbox *m, struct rnl__mail *mail)
{
	/* [mailbox.W1] acquire: when it was sent; pairs with [mailbox.W2] */
	const uint64_t word = atomic_load_explicit(&m->word, memory_order_acquire);

	*mail = (struct rnl__mail){ .m = m, .number = word >> 2 };
	return (word & 3) == RNL__MAIL_SENT;
}

/* Returns true if the request is not ended yet. */
static inline bool rnl__mailbox_has(const struct rnl__mail *mail)
{
	const uint64_t word = rnl__peek(&mail->m->word);

	return word >> 2 == mail->number && (word & 3) != RNL__MAIL_ENDED;
}

/* Returns the status: a hint. */
static inline uint64_t rnl__mailbox_status(const struct rnl__mailbox *m)
{
	/* relaxed: a hint; a take-back orders it, [mailbox.G1] */
	return atomic_load_explicit(rnl__atomic(&m->words->status), memory_order_relaxed);
}

/* Returns true if a block serves the mailbox: a hint. */
static inline bool rnl__mailbox_served(const struct rnl__mailbox *m)
{
	return rnl__mailbox_status(m) & 1;
}

/* Makes a mailbox of zeroed memory. */
void rnl__mailbox_init(struct rnl__mailbox *m);

/* Sends a request; the mailbox is the caller's, and has no request. */
void rnl__mailbox_send(struct rnl__mailbox *m, const void *in, uint32_t bytes, uint64_t now);

/* Returns true if the answer is complete. */
bool rnl__mailbox_answered(struct rnl__mail *mail);

/* Takes the answer.  Returns false if another thread ends the request. */
bool rnl__mailbox_take(const struct rnl__mail *mail);

/* Copies the answer to @out.  Called between take and end.  Returns the request's result. */
int rnl__mailbox_read(const struct rnl__mail *mail, void *out, uint32_t bytes);

/* Leaves an answered request that was taken, or taken back, to another thread. */
void rnl__mailbox_put_back(const struct rnl__mail *mail);

/* Ends a request that was taken or taken back: the mailbox has no request any more. */
void rnl__mailbox_end(const struct rnl__mail *mail);

enum rnl__mailbox_back {
	RNL__BACK_NOT,			/* a block serves it, or another thread ends it */
	RNL__BACK_ANSWERED,		/* as after rnl__mailbox_take() */
	RNL__BACK_TAKEN,		/* no block has read it, and none will */
};

/*
 * Tries to take the request back.  @failed: the device has failed, and reads nothing any more.
 * After ANSWERED and TAKEN the caller must end the request.
 */
enum rnl__mailbox_back rnl__mailbox_take_back(struct rnl__mail *mail, bool failed);

/* Returns true if the tags are used up: the mailbox must be cleared before the next request. */
bool rnl__mailbox_is_worn(struct rnl__mailbox *m);

/*
 * Clears a mailbox without a request, which the caller has.  Returns false if a block serves it: then
 * the gate is closed, so that the next block does not, and the caller tries again later.
 */
bool rnl__mailbox_clear(struct rnl__mailbox *m);

/* Returns true if requests and answers can be written and read by accesses of 16 bytes. */
bool rnl__mailbox_is_atomic(void);

#endif
