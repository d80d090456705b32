/* SPDX-License-Identifier: MIT */
/*
 * Requests that a resident kernel answers, without a driver call or a worker.
 *
 * DESIGN
 *	A part of a batcher has mailboxes (mailbox.h), and a thread, the keeper, that launches the
 *	leases of the resident kernel on a private stream: one that serves, and the next one queued
 *	behind it.  It begins when two requests follow each other closely, and goes on while
 *	requests come.
 *	A lone request is reserved in a mailbox if that is `open`, that is, if leases follow each
 *	other.  Its commit sends it.  The thread in rnl_job_wait() looks at the answer itself, and
 *	ends the request.  The keeper ends what no thread waits for.
 *	A reported request, that is, one with a queue, a callback or a barrier, is ended by a worker: a
 *	spinner (pool/spinner.h) looks at the answers.  Without a spinner such a request goes in a
 *	batch, and asks for one.  If a spinner leaves before an answer comes, the keeper asks for a
 *	batch, and the batch's worker ends the answered requests.
 *	A request is taken back if no block has served its mailbox for a while, say because other
 *	kernels occupy the device, and goes in a batch like a late one.  So its input and output are
 *	those of a slab: the last one, which is never opened, and whose slots and cells are the
 *	mailboxes.  A mailbox is free again at the release of its request.
 *	A request that is sent counts as an operation of the pool, and keeps the batcher's class.
 *
 *	The keeper sleeps when no lease is left and no mailbox has a request.  A commit sends, then
 *	looks whether the keeper sleeps; the keeper announces its sleep, then looks at the mailboxes.
 */
#ifndef RNL_RESIDENT_H
#define RNL_RESIDENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel/batch.h>

#include "batch/batcher.h"
#include "batch/mailbox.h"
#include "pool/spinner.h"
#include "sys/eventcount.h"

#define RNL__MAILBOXES_MAX 16u
#define RNL__MAILBOXES_DEFAULT 4u
#define RNL__LEASE_NS 200000u	/* a lease takes this long */
#define RNL__SPIN_US_MAX 10000u
#define RNL__BACK_NS 20000u	/* without a block for this long, a request is taken back */

struct rnl__resident {
	/* Constant after the start. */
	struct rnl_batcher *b;
	struct rnl__device *device;
	unsigned device_index, nr;	/* nr: mailboxes */
	uint32_t max_in;		/* most bytes of a request */
	const char *name;		/* of the request kernel */
	struct rnl_kernel kernel;
	struct rnl_dim block;
	bool shared;			/* RNL_BATCHER_SHARED */
	uint64_t spin_ns;		/* of a spinner, after a reported request; 0: there is none */
	struct rnl__lease_args args;
	pthread_t thread;
	bool started;			/* the thread must be joined */
	_Atomic uint32_t starting;	/* latch: 0 once the keeper has started, or failed to */
	int start_error;

	/* Read by each request. */
	_Alignas(RNL__CACHE_LINE) _Atomic bool open; /* leases follow each other */
	_Atomic bool ends;		/* the keeper must end */
	struct rnl__eventcount eventcount; /* the keeper waits only here */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t last; /* when the last request came */
	_Atomic uint64_t wanted;	/* when it last followed another one closely */
	_Atomic uint32_t free;		/* a bit for each mailbox without a request */
	_Atomic uint32_t worn;		/* a bit for each that must be cleared before its next one */
	struct rnl__spinner spinner;

	/* Used by the keeper only. */
	_Alignas(RNL__CACHE_LINE) uint64_t launched, ended; /* leases */
	uint64_t launched_at;		/* when the last one was launched */
	uint64_t running_since;		/* when a lease was first seen to serve; 0: none does */
	bool failed_to_launch;		/* the last launch failed, which was logged */
	bool reported;			/* that its function does not return */
	bool hung;			/* the pool's health has it: its lease does not end */
	bool sliced;			/* it was reported that other processes have the device, too */
	uint64_t off_until;		/* no lease follows before this time */

	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t answered, taken_back, failed, leases; /* figures */
	struct rnl__mailbox boxes[RNL__MAILBOXES_MAX];
};

/* keeper.c: makes the mailboxes of a part, and starts its keeper.  Returns 0 or the error, which is logged. */
int rnl__resident_start(struct rnl_batcher *b, const struct rnl_batcher_attr *attr);

/* Ends or takes back all requests, and ends the keeper. */
void rnl__resident_end(struct rnl_batcher *b);

/* Frees the mailboxes: all batches have ended. */
void rnl__resident_free(struct rnl_batcher *b);

/* Reserves a mailbox for a request.  Returns false if it must go in a batch. */
bool rnl__resident_reserve(struct rnl_batcher *b, struct rnl_request *request, size_t bytes);

/*
 * Commits a request with a mailbox: its job is accepted.  Returns false if it must go in a batch.
 * Otherwise the class that the caller has entered is left when the request ends.
 */
bool rnl__resident_commit(struct rnl_batcher *b, struct rnl_request *request);

/* A lone request is committed that goes in a batch. */
void rnl__resident_note(struct rnl_batcher *b, const struct rnl_job *job);

/* Frees the mailbox of a request that is released. */
void rnl__resident_release(struct rnl_batcher *b, uint32_t mailbox);

/* Of struct rnl__answers: ends the request of a mailbox if its answer comes soon. */
void rnl__resident_await(struct rnl__answers *answers, struct rnl_job *job, uint64_t deadline);

/* Ends the reported requests that are answered.  On a worker of the pool. */
void rnl__resident_look(struct rnl__resident *r);

/* Of struct rnl__spinner: the same. */
void rnl__resident_spin(struct rnl__spinner *s);

/* For the keeper: end a request.  Return true if this thread has ended it. */
bool rnl__resident_try_end(struct rnl__resident *r, struct rnl__mail *mail);	/* if it is answered */
bool rnl__resident_try_take_back(struct rnl__resident *r, struct rnl__mail *mail); /* if no block serves it */

/* Gives back a free mailbox. */
void rnl__resident_give(struct rnl__resident *r, uint32_t index);

/* Adds the figures of a part. */
void rnl__resident_add_figures(struct rnl_batcher_stats *s, struct rnl__resident *r);

/* A batch for the request kernel. */
struct rnl__each_call {
	const struct rnl_batcher *b;
	const struct rnl_batch *view;
};

/* Launches the request kernel for a batch (struct rnl__each_call), a block for each request. */
int rnl__each_call(void (*fn)(void), const void *arg);

/* The host functions of both kernels: they call the request kernel's host function. */
void rnl__lease_host(struct rnl_dim grid, struct rnl_dim block, const void *args);
void rnl__each_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

#endif
