/* SPDX-License-Identifier: MIT */
/* The resident kernel of a batcher; resident.h has the design. */
#include "config.h"

#include <sched.h>

#include "batch/resident.h"
#include "job/job.h"
#include "job/waits.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "sys/sizes.h"
#include "sys/text.h"
#include "sys/thread.h"
#include "sys/thread_state.h"
#include "worker/complete.h"

#define CLOSE_NS 200000u	/* requests within this time follow each other closely */
#define SPIN_NS 200000u		/* a waiting thread spins for this long, ... */
#define YIELD_NS 20000u		/* ... and yields its CPU from here on */

/* ---- the ends of requests -------------------------------------------------- */

static struct rnl_request *request_in(const struct rnl__resident *r, uint32_t index)
{
	return r->b->slabs[RNL__BOX_SLAB].slots[index].request;
}

/* A request is over, for the class, the pool and the batcher, which may be gone on return. */
static void leave(struct rnl_batcher *b)
{
	if (b->class)
		rnl__class_leave(b->class);
	rnl__outside_leave(b->pool, RNL__OPERATION);
	(void)rnl__latch_drop(rnl__batcher_busy(b), 1);
}

/* Returns true if a queue, a callback or a barrier reports the request's end. */
static bool is_reported(const struct rnl_job *job)
{
	return job->barrier || rnl__job_cq_of(job) || rnl__job_callback_of(job);
}

/* Records an answered request in the pool's trace. */
static void trace_request(struct rnl__resident *r, const struct rnl__mail *mail)
{
	struct rnl__wait answered = {
		.begin = rnl__figure_read(&mail->m->sent_at), .end = rnl__now(), .tid = rnl__thread_tid(),
		.class = r->b->class_id,
	};

	rnl__text_copy(answered.kernel, sizeof(answered.kernel), r->name);
	rnl__waits_add(r->b->pool, &answered);
}

/* Sets the result of a request, and reports it, which a worker does. */
static void report(struct rnl_job *job, int result)
{
	if (is_reported(job)) {
		rnl__complete_request(rnl__thread.worker, job, result);
		rnl__owed_tell(rnl__thread.worker);
		return;
	}
	rnl__job_set_result(job, result);
	rnl__job_drop(job);
}

/*
 * Asks for a batch, whose worker calls rnl__resident_look().  If that is before the request is put back,
 * the keeper finds the request again, and asks again.  The request is taken here, so the batcher stays.
 */
static void leave_to_worker(struct rnl__resident *r, const struct rnl__mail *mail)
{
	rnl__spinner_set(&r->spinner, false);
	rnl__schedule_ask(r->b);
	rnl__mailbox_put_back(mail);
}

/*
 * Ends a request whose answer this thread has taken.  Only a worker calls callbacks, so another thread
 * leaves a reported request to one, and returns false.
 */
static bool end_answered(struct rnl__resident *r, const struct rnl__mail *mail)
{
	struct rnl_batcher *b = r->b;
	const uint32_t index = mail->m->index;
	struct rnl_request *request = request_in(r, index);
	unsigned char *out = b->slabs[RNL__BOX_SLAB].out + index * b->out_bytes;
	int result;

	if (is_reported(&request->job) && !rnl__pool_worker(b->pool)) {
		leave_to_worker(r, mail);
		return false;
	}
	rnl__tsan_acquire(&b->slabs[RNL__BOX_SLAB].slots[index]);
	result = rnl__mailbox_read(mail, out, (uint32_t)b->out_bytes);
	if (rnl__pool_traced(b->pool))
		trace_request(r, mail);
	rnl__mailbox_end(mail);
	rnl__figure_add_any(&r->answered, 1);
	if (result < 0)
		rnl__figure_add_any(&r->failed, 1);
	request->in = NULL;
	request->out = b->out_bytes ? out : NULL;
	request->job.device_error = 0;
	report(&request->job, result);
	leave(b);
	return true;
}

/* Puts a request on the list of late requests: it goes in a batch. */
static void put_late(struct rnl_batcher *b, struct rnl_request *request)
{
	(void)rnl__inbox_put(&b->late, request, &request->job.link);
	rnl__mb_after_rmw();
	rnl__schedule_ask(b);
}

static void end_taken_back(struct rnl__resident *r, const struct rnl__mail *mail)
{
	struct rnl_request *request = request_in(r, mail->m->index);

	rnl__mailbox_end(mail);
	rnl__figure_add_any(&r->taken_back, 1);
	/* relaxed: a hint: the keeper opens the mailboxes again when it sees that a block serves */
	atomic_store_explicit(&r->open, false, memory_order_relaxed);
	put_late(r->b, request);
	leave(r->b);
}

/* Ends the request if it is answered.  Returns true if this thread has ended it. */
bool rnl__resident_try_end(struct rnl__resident *r, struct rnl__mail *mail)
{
	return rnl__mailbox_answered(mail) && rnl__mailbox_take(mail) && end_answered(r, mail);
}

/* Takes the request back if no block serves its mailbox.  Returns true if this thread has ended it. */
bool rnl__resident_try_take_back(struct rnl__resident *r, struct rnl__mail *mail)
{
	const bool failed = rnl__device_failed(r->device);

	if (!failed && rnl__mailbox_served(mail->m))
		return false;
	switch (rnl__mailbox_take_back(mail, failed)) {
	case RNL__BACK_ANSWERED:
		return end_answered(r, mail);
	case RNL__BACK_TAKEN:
		end_taken_back(r, mail);
		return true;
	default:
		return false;
	}
}

void rnl__resident_look(struct rnl__resident *r)
{
	struct rnl__mail mail;

	for (unsigned i = 0; i < r->nr; i++)
		if (rnl__figure_read(&r->boxes[i].reported) && rnl__mailbox_look(&r->boxes[i], &mail))
			(void)rnl__resident_try_end(r, &mail);
}

void rnl__resident_spin(struct rnl__spinner *s)
{
	rnl__resident_look(rnl_container_of(s, struct rnl__resident, spinner));
}

/* ---- producers ------------------------------------------------------------- */

/* Returns true if a thread looks for the answer of such a request. */
static bool is_awaited(struct rnl__resident *r, const struct rnl_job *job)
{
	return !is_reported(job) || rnl__spinner_spins(&r->spinner);
}

static bool resident_open(struct rnl__resident *r)
{
	/* relaxed: a hint; a request that no block reads is taken back */
	return atomic_load_explicit(&r->open, memory_order_relaxed);
}

/* Takes the first free mailbox.  Returns RNL__MAILBOXES_MAX if there is none. */
static unsigned take_free(struct rnl__resident *r)
{
	uint32_t free = rnl__peek(&r->free);

	while (free) {
		/* [resident.F2] acquire: the last user's accesses; pairs with [resident.F1] */
		if (atomic_compare_exchange_weak_explicit(&r->free, &free, free & (free - 1),
							  memory_order_acquire, memory_order_relaxed)) {
			rnl__tsan_acquire(&r->free);
			return (unsigned)__builtin_ctz(free);
		}
	}
	return RNL__MAILBOXES_MAX;
}

void rnl__resident_give(struct rnl__resident *r, uint32_t index)
{
	rnl__tsan_release(&r->free);
	/* [resident.F1] release: our accesses to the mailbox; pairs with [resident.F2] */
	atomic_fetch_or_explicit(&r->free, 1u << index, memory_order_release);
}

bool rnl__resident_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes)
{
	struct rnl__resident *r = b->resident;
	struct rnl__slot *slot;
	unsigned i;

	if (!resident_open(r) || bytes > r->max_in || !is_awaited(r, &request->job))
		return false;
	i = take_free(r);
	if (i == RNL__MAILBOXES_MAX)
		return false;
	slot = &b->slabs[RNL__BOX_SLAB].slots[i];
	slot->request = request;
	slot->bytes = (uint32_t)bytes;
	request->in = b->slabs[RNL__BOX_SLAB].in + slot->offset;
	request->in_bytes = bytes;
	request->slab = RNL__BOX_SLAB;
	request->slot = i;
	return true;
}

/* Notes that a lone request came now.  Returns true if it follows another one closely. */
static bool came(struct rnl__resident *r, const struct rnl_job *job, uint64_t now)
{
	uint64_t last;

	if (is_reported(job)) {
		if (!r->spin_ns)
			return false;
		rnl__spinner_ask(r->b->pool, &r->spinner, now + r->spin_ns);
	}
	/* relaxed: times that order nothing */
	last = atomic_exchange_explicit(&r->last, now, memory_order_relaxed);
	if ((int64_t)(now - last) >= (int64_t)CLOSE_NS)
		return false;
	rnl__figure_write(&r->wanted, now);
	return true;
}

void rnl__resident_note(struct rnl_batcher *b, const struct rnl_job *job)
{
	struct rnl__resident *r = b->resident;

	if (!came(r, job, rnl__now()))
		return;
	/* [resident.K1] full barrier: `wanted`, then the look for a sleeper; pairs with [eventcount.L2] */
	rnl__full_barrier();
	rnl__eventcount_wake(&r->eventcount);
}

bool rnl__resident_commit(struct rnl_batcher *b, struct rnl_request *request)
{
	struct rnl__resident *r = b->resident;
	struct rnl__mailbox *m = &r->boxes[request->slot];
	const bool reported = is_reported(&request->job);
	const uint64_t now = rnl__now();

	rnl__tsan_release(&b->slabs[RNL__BOX_SLAB].slots[request->slot]);
	(void)came(r, &request->job, now);
	if (!resident_open(r) || !is_awaited(r, &request->job)) {
		put_late(b, request);
		return false;
	}
	(void)rnl__outside_enter(b->pool, RNL__OPERATION, 1);
	rnl__latch_add(rnl__batcher_busy(b), 1);
	rnl__figure_write(&m->reported, reported);
	if (!reported)
		/* relaxed: a waiter that finds no mailbox sleeps, and the keeper ends the request */
		atomic_store_explicit(rnl__atomic(&request->answers), (void *)&m->answers,
				      memory_order_relaxed);
	rnl__mailbox_send(m, request->in, (uint32_t)request->in_bytes, now);
	/* [resident.K2] full barrier: SENT, then the look for a sleeper; pairs with [eventcount.L2] */
	rnl__full_barrier();
	rnl__eventcount_wake(&r->eventcount);
	return true;
}

void rnl__resident_release(struct rnl_batcher *b, uint32_t index)
{
	struct rnl__resident *r = b->resident;

	if (!rnl__mailbox_is_worn(&r->boxes[index]))
		rnl__resident_give(r, index);
	else
		/* [resident.F3] release: like F1, to the keeper; pairs with [resident.F4] */
		atomic_fetch_or_explicit(&r->worn, 1u << index, memory_order_release);
}

/* Ends the request of a mailbox if its answer comes soon; called by rnl_job_wait(). */
void rnl__resident_await(struct rnl__answers *answers, struct rnl_job *job, uint64_t deadline)
{
	struct rnl__mailbox *m = rnl_container_of(answers, struct rnl__mailbox, answers);
	const uint64_t begin = rnl__now(), until = rnl__smaller(begin + SPIN_NS, deadline);
	uint64_t now = begin;
	struct rnl__mail mail;

	if (!rnl__mailbox_look(m, &mail))
		return;
	do {
		for (int i = 0; i < 16; i++) {
			if (rnl__latch_open(rnl__job_latch(job)) || rnl__resident_try_end(m->resident, &mail))
				return;
			rnl__pause();
		}
		now = rnl__now();
		if ((int64_t)(now - rnl__figure_read(&m->sent_at)) > (int64_t)RNL__BACK_NS &&
		    rnl__resident_try_take_back(m->resident, &mail))
			return;
		if (now - begin > YIELD_NS)
			sched_yield();
	} while (now < until && rnl__mailbox_has(&mail));
}
