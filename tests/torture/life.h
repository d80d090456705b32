/* SPDX-License-Identifier: MIT */
/*
 * Lives: jobs with a record of their calls and ends, for makers of jobs that begin each other.
 *
 * DESIGN
 *	A job has one life after the other. A thread that finds the job FREE begins a life; the
 *	submit is accepted or refused; the function runs at most once. One thread is notified that
 *	the job is done. This thread checks that the record allows this end, and makes the job FREE.
 *	The state has the number of the life, so a second end is noticed. The maker chooses the
 *	notification. Then notified() is called: by the job's callback, by the reaper, or by
 *	life_wait().
 *	A round prints the records of jobs that have not ended.
 */
#ifndef TORTURE_LIFE_H
#define TORTURE_LIFE_H

#include "slots.h"

struct life {
	struct rnl_job job;	/* job.user is the life */
	struct round *round;
	const char *what;	/* a name for messages, like the number */
	unsigned number;
	enum end end;
	int (*run)(struct life *life);		/* returns the result */
	void (*notified)(struct life *life, int result); /* may be NULL, may begin the next life */
	void *arg;		/* the maker's */
	_Atomic uint64_t state;	/* like a slot's */
	_Atomic unsigned nr_run, nr_cancelled; /* in this life */
	_Atomic unsigned pins, nr_telling;
	_Atomic uint64_t begun;	/* ns, before the submit */
	bool waits;		/* for a water mark: no drain waits for the job */
	int64_t deadline;	/* negative: none */
	enum classing classing;
	struct classed classed;	/* its class in this life */
	bool waits_for_jobs;	/* its function waits for jobs, so it does not gather */
	bool gathers;		/* in this life */
	int place;		/* a device, in this life; -1: not placed */
	const int *same_place;	/* of a maker that checks the order; NULL: drawn */
	bool goes_along;	/* runs where the job before it runs, despite its place */
	bool may_end_unrun;	/* set before the maker may cancel the job */
	int gives;		/* return value of its function */
	bool (*may_end)(const struct life *life, int result); /* set before a life; may be NULL */
	uint64_t random;	/* used by the thread that has the job */
	struct life *next;	/* of the round's list */
};

/* No notification: the thread that is notified of a later job calls life_over(). */
#define BY_ANOTHER NR_ENDS

/* Makes a job; the round's end frees it. Without @run the job is for rnl_barrier_notify(). */
struct life *life_new(struct round *r, const char *what, enum end end,
		      int (*run)(struct life *life),
		      void (*notified)(struct life *life, int result), void *arg);

enum { HAS_KEY = 1 };
/*
 * Submits a job that is FREE. Returns like rnl_submit(), or -EBUSY if the job was not FREE. Counts
 * an undocumented error.
 */
int life_submit(struct life *life, unsigned how, uint64_t key);
/* A submit in two steps, for other calls: life_begin() before, life_submitted() after the call. */
uint64_t life_begin(struct life *life);	/* the state; 0: was not FREE */
int life_submitted(struct life *life, uint64_t state, int ret, unsigned may, bool closed);

/* Ends a job that is done and has no notification. */
void life_over(struct life *life);
/*
 * The job is done: overwrites its memory, until life_renew() makes the job again. Only the caller,
 * or the thread that begins the next life, may still use the last life.
 */
void life_scrap(struct life *life);
void life_renew(struct life *life);

int life_cancel(struct life *life);
/* Waits for a job that ends by a wait.  Returns true if it has ended. */
bool life_wait(struct life *life, int64_t timeout_ns);
/* Returns its deadline, which may be its class's; negative: none. */
static inline int64_t life_deadline(const struct life *life)
{
	return class_deadline(&life->classed, life->deadline);
}
static inline bool life_is_late(const struct life *life)
{
	const int64_t deadline = life_deadline(life);

	return deadline >= 0 && now_ns() - life->begun > (uint64_t)deadline;
}
/* Returns true if the job has ended, and notified() has returned. */
static inline bool life_is_free(const struct life *life)
{
	return phase_of(life->state) == FREE && !life->nr_telling;
}

/* Ends a reaped job that is not a slot's. */
void life_reaped(struct rnl_job *job);

void lives_print(const struct round *r);
void lives_check_drained(struct round *r);
void lives_await(struct round *r);	/* the pool is closed and drained: lives end soon */
void lives_end(struct round *r);	/* the pool is destroyed: all lives have ended */

#endif /* TORTURE_LIFE_H */
