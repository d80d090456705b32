/* SPDX-License-Identifier: MIT */
/*
 * The classes of a pool: which job a worker starts next.
 *
 * DESIGN
 *	A job of a class is in no worker's queue: it waits in its class's queue, and the pool's tally
 *	CLASSED counts it.  A worker that may start a job looks at all classes, chooses one by the
 *	rules of runnel/class.h, and takes its first job.  The pool's own class is the workers'
 *	queues: if it is chosen, the worker goes on as in a pool without classes.
 *	A submit claims a slot in the class's queue before the job is accepted; a deferred job keeps
 *	its slot.  So an accepted job always has a place, and a cancel knows where it will be.
 *	A job of a map or a batch keeps its slot from run to run: its resubmit cannot be refused.
 *	A put wakes an idle worker.  A worker that goes to sleep sets its idle bit, then looks at the
 *	classes: with a full barrier between the two steps on both sides, one of them sees the other.
 *	So does the end of a job whose class was at a limit.  If only a rate keeps jobs back, the
 *	timer thread wakes a worker at the time.
 *	The timer thread completes jobs that were cancelled or have expired: worker/timer_thread.c.
 *	A job is charged while it is on a worker: worker/charge.h.
 *	The table, and a class in it, are freed with the pool, because a taker may read them.
 */
#ifndef RNL_CLASSES_H
#define RNL_CLASSES_H

#include <pthread.h>

#include "class/class.h"
#include "class/share_clock.h"
#include "memory/cut.h"
#include "pool/pool.h"

#define RNL__CLASSES_NR (RNL_CLASSES_MAX + 1) /* [0]: the pool's own */

/* Of a job's `class_index`: its class's place in the table; and flags. */
#define RNL__CLASS_INDEX 63u
#define RNL__CLASS_NO_SLOT 64u	/* the job is not queued in its class */
#define RNL__CLASS_CHARGED 128u	/* its class has been charged */

#define RNL__CLASS_ID_BITS 6u	/* of a class's id: its place in the table */

/*
 * Keys of a class's queue: a deadline by 1024 ns, from KEY_DEADLINE on; or from the half on the number
 * of a submit.  A raised job's key is the tier << KEY_TIER_SHIFT, and what fits of the job's own
 * key, also in two halves: deadlines by 64 times as much.
 */
#define RNL__CLASS_KEY_HALF (UINT64_C(1) << (RNL__PRIOQ_KEY_BITS - 1))
#define RNL__CLASS_KEY_TIER_SHIFT 42
#define RNL__CLASS_KEY_RAISED_SHIFT 6
#define RNL__CLASS_KEY_DEADLINE ((uint64_t)RNL__TIERS << RNL__CLASS_KEY_TIER_SHIFT)
#define RNL__CLASS_DEADLINE_SHIFT 10

struct rnl__classes {
	_Atomic uint64_t used;		/* a bit for each class that a worker may choose */
	_Atomic uint32_t raises;	/* of rounds, so far: inherit.h */
	_Atomic(struct rnl_class *) list[RNL__CLASSES_NR]; /* NULL: never used */
	/* Times at which the timer thread must search for jobs, or wake a worker for a rate. */
	_Alignas(RNL__CACHE_LINE) _Atomic uint64_t due, wake_at;
	_Atomic uint32_t lost_marks;	/* cancels whose job was not in the slot that it named */
	_Atomic uint64_t tags[RNL__PRIOQ_TAGS / 64]; /* of jobs that may have to be raised */
	struct rnl__share_clock clocks[RNL_DEVICES_MAX];
	struct rnl__cut cuts[RNL_DEVICES_MAX]; /* large copies of lower classes, by device */
	struct rnl__eventcount ended;	/* for the destroy of a class */
	pthread_mutex_t lock;		/* of creations, destroys, reads of figures */
	uint64_t ended_ns;		/* device time of replaced classes; under `lock` */
	struct rnl__old_queues *old;	/* replaced, but a taker may read them; under `lock` */
};

/* Returns the class in a place of the table, or NULL. */
static inline struct rnl_class *rnl__class_at(struct rnl__classes *classes, unsigned index)
{
	/* [classes.L1] acquire: the class and its queues; pairs with [classes.L2] */
	return atomic_load_explicit(&classes->list[index], memory_order_acquire);
}

/* Returns the classes, or NULL if the pool never had any but its own. */
static inline struct rnl__classes *rnl__classes_of(const struct rnl_pool *pool)
{
	/* [classes.C1] acquire: the table; pairs with [classes.C2] */
	return atomic_load_explicit(&((struct rnl_pool *)(uintptr_t)pool)->classes,
				    memory_order_acquire);
}

/* Returns a bit for each class that a worker may choose. */
static inline uint64_t rnl__classes_used(struct rnl__classes *classes)
{
	/* [classes.U1] acquire: the classes as they were created; pairs with [classes.U2] */
	return atomic_load_explicit(&classes->used, memory_order_acquire);
}

/* Returns true if the class has a job queued. */
static inline bool rnl__class_has_queued(struct rnl_class *c)
{
	for (unsigned i = 0; i < c->nr_queues; i++)
		if (rnl__prioq_holds(rnl__class_queue(c, i)))
			return true;
	return false;
}

/* Returns true if the pool has a class besides its own. */
static inline bool rnl__classes_any(const struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	/* relaxed: a job of a class that ends now, or begins, is found by the next look */
	return classes && atomic_load_explicit(&classes->used, memory_order_relaxed) != 1;
}

/* Returns what a trace knows the class of an accepted job by; 0: none. */
static inline uint32_t rnl__classes_id(const struct rnl_pool *pool, const struct rnl_job *job)
{
	const unsigned index = job->class_index & RNL__CLASS_INDEX;

	return job->flags & RNL__JOB_CLASSED ?
		       rnl__class_id(rnl__class_at(rnl__classes_of(pool), index)) : 0;
}

/* Frees the classes with their pool. */
void rnl__classes_free(struct rnl_pool *pool);

/* ---- for submits --------------------------------------------------------------- */

/*
 * Enters a claimed job that names a class: claims a slot, and counts the job.  Returns 0; -EAGAIN
 * full; -ETIME the class admits jobs that would be in time only; -EINVAL the class is of another pool
 * or has ended, which is logged.
 */
int rnl__classes_enter(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Returns true if a job that is submitted now would end in @deadline_ns, and makes no other one late;
 * otherwise counts a refusal.
 */
bool rnl__classes_admit(struct rnl_class *c, const struct rnl_job *job, uint64_t deadline_ns);

/* Takes that back. */
void rnl__classes_leave(struct rnl_pool *pool, struct rnl_job *job);

/*
 * Raises a round, which a job of the tier waits for, and the jobs of the round that are queued.  The
 * round stays until the return.
 */
void rnl__classes_raise(struct rnl_barrier *b, unsigned round, unsigned tier);

/* Puts an entered and accepted job, and wakes a worker. */
void rnl__classes_put(struct rnl_job *job);

/* A cancel of a queued job: marks its slot.  @job: only compared; @at: rnl__classes_slot(). */
uint32_t rnl__classes_slot(const struct rnl_job *job);
void rnl__classes_mark(struct rnl_pool *pool, uint32_t at, const struct rnl_job *job);

/* Returns where submits of such a job wait for space; NULL: it is not queued in a class. */
struct rnl__eventcount *rnl__classes_space(struct rnl_pool *pool, const struct rnl_job *job);

/* Wakes all submits that wait for space in a class.  A full barrier must precede. */
static inline void rnl__classes_wake_spaces(struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	for (unsigned i = 1; classes && i < RNL__CLASSES_NR; i++)
		if (rnl__class_at(classes, i))
			rnl__eventcount_wake(&rnl__class_at(classes, i)->space);
}

/* ---- for maps and batchers ------------------------------------------------------- */

/*
 * Their jobs keep their slots from run to run, in `staff`, so a class that is full does not stop them.
 * The submitter of such a job is inside the class: a call of the map or batcher, or another of its jobs.
 */

/* Enters a class: its destroy waits until the leave.  Returns false if the class of @id has ended. */
bool rnl__class_enter(struct rnl_class *c, uint32_t id);
void rnl__class_leave(struct rnl_class *c);

/* Enters a class that a user names.  Returns 0, or -EINVAL, which is logged. */
int rnl__class_enter_given(struct rnl_pool *pool, const char *call, struct rnl_class *c);

/* Returns true if the class of @id has ended, or ends. */
static inline bool rnl__class_has_ended(struct rnl_class *c, uint32_t id)
{
	return rnl__figure_read(&c->inside) & RNL__CLASS_CLOSED || rnl__class_id(c) != id;
}

/*
 * Gives the class, and a slot of its queue, to a job of a map or a batcher.  The caller is inside.
 * Returns 0; -EAGAIN the class is full.
 */
int rnl__class_keep(struct rnl_class *c, struct rnl_job *job);

/* Gives the slot back, if the job has one.  The caller is inside. */
void rnl__class_unkeep(struct rnl_class *c, const struct rnl_job *job);

/* ---- for workers --------------------------------------------------------------- */

/*
 * Takes the job to start next.  @from: the worker whose queue has one of the pool's own class; NULL:
 * none has.  Returns NULL if it is the turn of the own class, or if there is no job.
 */
struct rnl_job *rnl__classes_take(struct rnl__worker *w, struct rnl__worker *from);

/* Wakes an idle worker, among these, that serves the class.  A full barrier must precede. */
bool rnl__classes_wake_idle(struct rnl_pool *pool, struct rnl_class *c, const uint64_t *among);

/* Returns true if the worker could take a job. */
bool rnl__classes_have(struct rnl__worker *w);

/*
 * Returns where large copies of the worker's job take turns, and their @rank; NULL: no class goes before
 * its class.
 */
struct rnl__cut *rnl__classes_cut(const struct rnl__worker *w, const struct rnl_job *job, unsigned *rank);

/* A job of the class has ended: wakes an idle worker for a job that a limit kept back. */
void rnl__classes_freed(struct rnl_pool *pool, struct rnl_class *c);

/* Wakes an idle worker for each class that may start a job.  A full barrier must precede. */
void rnl__classes_wake(struct rnl_pool *pool);

/* A later job of a chain enters the class of the job before it, which is still there. */
void rnl__classes_follow(struct rnl_pool *pool, struct rnl_job *job, unsigned index);

/* Counts a job of a class as done, or as taken out of its queue unrun. */
void rnl__classes_done(struct rnl_pool *pool, unsigned index);

/* A class had no job, or was at a limit: it is owed nothing of what others of its priority used. */
void rnl__classes_owe_nothing(struct rnl__classes *classes, struct rnl_class *c);

/* ---- for the timer thread -------------------------------------------------------- */

/* Lowers the time at which the timer thread looks at the classes.  A full barrier must precede. */
void rnl__classes_expect(struct rnl_pool *pool, uint64_t at);

/* Lowers a time at which the timer thread acts, and wakes that.  A full barrier must precede. */
void rnl__classes_lower(struct rnl_pool *pool, _Atomic uint64_t *due, uint64_t at);

/* Returns that time. */
uint64_t rnl__classes_due(struct rnl_pool *pool);

/* A search for jobs that were cancelled or have expired; it raises jobs that inherit a tier. */
struct rnl__class_search {
	bool (*cancelled)(const struct rnl_job *job);
	uint64_t now;
	bool all;			/* jobs may have been cancelled together */
	uint64_t tags[RNL__PRIOQ_TAGS / 64]; /* of jobs to look at; set by the search */
	bool marked;			/* a job may have been cancelled */
	unsigned class, queue, slot;	/* where it goes on */
	uint64_t due;
};

/*
 * Wakes workers that a rate allows to start jobs.  Begins a search whose first fields are set; false:
 * there is nothing to find.
 */
bool rnl__classes_search_begin(struct rnl_pool *pool, struct rnl__class_search *s);

/* Returns the search's next job, or NULL at the end. */
struct rnl_job *rnl__classes_search(struct rnl_pool *pool, struct rnl__class_search *s);

/* ---- for figures ------------------------------------------------------------------ */

struct rnl__class_figures {
	char name[RNL__CLASS_NAME];
	unsigned index;			/* 0: the pool's own, with `done` and `device_ns` only */
	struct rnl_class_stats stats;	/* without the times in the queue */
	struct rnl__hist_sum queue_wait;
};

/*
 * Reads the classes into @list, which has RNL__CLASSES_NR places; the pool's own is the first.
 * Returns their number; 0: the pool has only its own.
 */
unsigned rnl__classes_figures(struct rnl_pool *pool, struct rnl__class_figures *list);

/* Returns the device time of all classes, also of those that have ended.  Under the lock. */
uint64_t rnl__classes_device_ns(struct rnl__classes *classes);

/* Copies the name of a class.  Returns false if another one has replaced it. */
bool rnl__classes_name(struct rnl_pool *pool, uint32_t id, char name[RNL__CLASS_NAME]);

/* Returns true if a class has at least 3/4 of its max_queued jobs queued. */
bool rnl__classes_crowded(struct rnl_pool *pool);

#endif
