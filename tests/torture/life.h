/* SPDX-License-Identifier: MIT */
/*
 * Lives: jobs with a record of what was done to them, for makers of jobs that begin each other.
 *
 * DESIGN
 *	A job has one life after the other. A thread that finds it FREE begins a life; the
 *	submit is accepted or refused; the function runs at most once; one thread is told
 *	that the job is done, checks that this end is one that the record allows, and frees
 *	the job. The state has the number of the life, so a second end is noticed.
 *	The maker says how the job is told, and what comes next: told() is called when the
 *	job is FREE, by its callback, by the reaper, or by life_wait().
 *	A round prints the records of jobs that have not ended.
 */
#ifndef TORTURE_LIFE_H
#define TORTURE_LIFE_H

#include "slots.h"

struct life {
	struct rnl_job job;	/* job.user is the life */
	struct round *round;
	const char *what;	/* for people, as is the number */
	unsigned number;
	enum end end;
	int (*run)(struct life *life);		/* returns the result */
	void (*notified)(struct life *life, int result); /* may be NULL, may begin the next life */
	void *arg;		/* the maker's */
	_Atomic uint64_t state;	/* as a slot's */
	_Atomic unsigned nr_run, nr_cancelled; /* in this life */
	_Atomic unsigned pins, nr_telling;
	_Atomic uint64_t begun;	/* ns, before the submit */
	bool waits;		/* for a mark: no drain waits for it */
	int64_t deadline;	/* negative: none */
	bool waits_for_jobs;	/* its function does, so it does not gather */
	bool gathers;		/* in this life */
	int place;		/* a device, in this life; -1: it is not placed */
	const int *same_place;	/* the maker's, for jobs whose order is checked; NULL: it is drawn */
	bool goes_along;	/* runs where the job before it does, wherever it is placed */
	bool may_end_unrun;	/* a call of the maker's may cancel it; set before */
	int gives;		/* what its function returned */
	bool (*may_end)(const struct life *life, int result); /* so, too; may be NULL */
	uint64_t random;	/* used by the thread that has the job */
	struct life *next;	/* of the round's list */
};

/* Told by nobody: who is told of another job knows that this one is done, and calls life_over(). */
#define BY_ANOTHER NR_ENDS

/* A job for this round, which frees it at its end. Without @run it is for rnl_barrier_notify(). */
struct life *life_new(struct round *r, const char *what, enum end end,
		      int (*run)(struct life *life),
		      void (*notified)(struct life *life, int result), void *arg);

enum { HAS_KEY = 1 };
/*
 * Submits a job that is FREE. Return: as rnl_submit(), or -EBUSY: it was not FREE. An error that
 * the header does not have is counted.
 */
int life_submit(struct life *life, unsigned how, uint64_t key);
/* The same in two steps, for other calls: what life_begin() has begun, life_submitted() ends. */
uint64_t life_begin(struct life *life);	/* the state; 0: it was not FREE */
int life_submitted(struct life *life, uint64_t state, int ret, unsigned may, bool closed);

/* The job is done, and is told by nobody. */
void life_over(struct life *life);
/*
 * Its job is done: the memory is used for other things, until life_renew() makes the job again. Its
 * last life has no thread but the caller, or the one that begins the next life.
 */
void life_scrap(struct life *life);
void life_renew(struct life *life);

int life_cancel(struct life *life);
/* Waits for a job that is told by a wait; whether it has ended. */
bool life_wait(struct life *life, int64_t timeout_ns);
static inline bool life_is_late(const struct life *life)
{
	return life->deadline >= 0 && now_ns() - life->begun > (uint64_t)life->deadline;
}
/* Whether the job has ended, and told() has returned. */
static inline bool life_is_free(const struct life *life)
{
	return phase_of(life->state) == FREE && !life->nr_telling;
}

/* The reaper has a job that is no slot's. */
void life_reaped(struct rnl_job *job);

void lives_print(const struct round *r);
void lives_check_drained(struct round *r);
void lives_await(struct round *r);	/* the pool is closed and drained: they end soon */
void lives_end(struct round *r);	/* the pool is gone: all have ended */

#endif /* TORTURE_LIFE_H */
