/* SPDX-License-Identifier: MIT */
/*
 * Sequences of public calls, checked by an oracle: the declarations that the program's files share.
 *
 *	calls.c		an input: its pool, its calls, its end
 *	calls_jobs.c	submits of all kinds, chains, holds, cancels
 *	calls_oracle.c	a job's allowed actions and results
 *	calls_many.c	maps and batchers, each with its own part of the oracle
 *	calls_classes.c	classes, and their part of the oracle
 *	calls_faults.c	failing calls of CUDA, lost devices, leaks
 */
#ifndef CALLS_H
#define CALLS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <runnel.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/more.h>

#include "tests/lib/submits.h"

#include "tests/fuzz/fuzz.h"

#if FUZZ_DOUBLE
#include "tests/lib/double_kernel.h"
#else
#define DOUBLE_KERNEL(name, host, on_double, type) RNL_HOST_KERNEL(name, host, type)
#endif

#define JOBS 24
#define KEYS 4
#define ORDERS 2
#define DEVICES 3
#define MAPS 2
#define BARRIERS (2 + MAPS)	/* two for jobs, and one for each map */
#define WORDS 64
#define END_NS 20000000000	/* no call takes this long */
#define MS 1000000

/* How a job is submitted, in the order of calls.c's calls. */
enum way {
	PLAIN, KEYED, ORDERED, DELAYED, KEYED_DELAYED, FOR_SPACE, AT_EMPTY, TELLS_BARRIER
};
enum act { ACT_NOTHING, ACT_FAIL, ACT_COPY, ACT_KERNEL, ACT_HOLD, ACT_POSITIVE };
enum notified { BY_WAIT, BY_QUEUE, BY_CALLBACK };
#define NOT_RELEASED INT32_MIN

struct work {
	struct rnl_job job;
	bool owned;			/* accepted, and not known to be done */
	uint64_t number;		/* of its submit; 0: not accepted */
	enum way way;
	enum act act;
	enum notified notified;
	bool late;
	bool cancelled;			/* a cancel has returned 0 */
	bool may_cancel;		/* a call for several jobs may have cancelled it */
	int in, after;			/* barriers, or -1 */
	int place;			/* a device, or -1 */
	struct class_state *class;	/* NULL: none */
	int64_t start_ns;		/* of a delayed job */
	struct work *before;		/* the job before it in its chain */
	bool waits[JOBS];		/* waits for these jobs, which are done before it */
	uint64_t map;			/* running map that it comes after; 0: none */
	_Atomic uint64_t *last;		/* number of the last job of its order that ran */
	uint32_t *from, *to;		/* WORDS each */
	struct rnl_hold hold;
	_Atomic bool held;
	_Atomic int released_with;
	/* written by its function and callback: */
	_Atomic unsigned nr_run, nr_notified;
	_Atomic unsigned again;		/* number of submits left for its callback */
	int worker, error;		/* @error: error of a call in it */
};

enum ending { DRAINS, CLOSES, STOPS, NR_ENDINGS };

extern struct calls_state {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	unsigned nr_devices, nr_class_workers;
	struct rnl_barrier barriers[BARRIERS];
	struct rnl_order orders[ORDERS];
	struct work works[JOBS + 1];	/* the last one is for submits to a closed pool */
	uint32_t *pinned, pageable[JOBS + 1][2][WORDS];
	_Atomic uint64_t last_of_key[KEYS][DEVICES + 1], last_of_order[ORDERS];
	uint64_t last_number;
	_Atomic uint64_t nr_accepted;
	/* results of jobs; a notice's cancel may be counted or not */
	uint64_t nr_failed, nr_cancelled, nr_notices_cancelled, nr_timed_out;
	bool notified_failed[BARRIERS], notified_first[BARRIERS];
	_Atomic bool closed;
	bool stopped, traced;
	bool others;			/* jobs of maps or batchers count, too */
	_Atomic bool faulty, lost;	/* a call may fail, the device may be lost, from now on */
} s;

static inline struct rnl_barrier *barrier(int i)
{
	return &s.barriers[i];
}

/* ---- the oracle ------------------------------------------------------------------ */

int work_fn(struct rnl_job *job);
void work_notified(struct rnl_job *job);	/* a callback */
void work_ended(struct work *w);	/* checks a job that is done */
void barriers_check(void);		/* checks barriers when all jobs are done */
/* Returns true if a planned fault may cause the error. */
bool is_fault(int error);
/* Returns false if a job should have copied its words, and has not. */
bool words_are_there(const struct work *w);
bool work_is_done(const struct work *w);

/* ---- calls ------------------------------------------------------------------------ */

void jobs_submit(enum way way, unsigned which, unsigned how, unsigned extra);
void jobs_submit_many(unsigned which, unsigned how, unsigned nr);
void jobs_cancel(struct work *w);
void jobs_cancel_all(void);
void jobs_release(struct work *w, int result);
void jobs_look(struct work *w);
void jobs_reap(void);
void jobs_wait(struct work *w, int64_t ns);
bool jobs_any(bool (*is)(const struct work *w)); /* NULL: any owned job */
bool job_waits_for_caller(const struct work *w);
void pool_close(void);

void map_start(unsigned which, unsigned how);
void map_look(unsigned which);
bool maps_busy(void);
uint64_t map_now(int barrier);		/* number of its running map, or 0 */
void map_check_output(int barrier);
void batch_call(unsigned which, unsigned how);
void batch_end(void);

void class_call(unsigned which, unsigned how);
void class_set(struct work *w);			/* the class of its next submit */
bool class_may_run_on(const struct work *w, int worker);
bool class_may_be_full(const struct work *w);	/* its class, by the jobs that are not done */
bool class_may_refuse(const struct work *w);	/* as late */
bool class_ends(const struct work *w);		/* and refuses jobs */
void class_accepted(const struct work *w);
void class_comes_again(const struct work *w, int nr); /* it has run, and is submitted again */
void class_done(const struct work *w, bool called, int result);
void classes_begin(void);
void classes_end(bool destroys);		/* all jobs are done */

/* ---- faults ----------------------------------------------------------------------- */

/* Runs an input in a separate process: a lost device stays lost in its process. */
void faults_run_apart(const uint8_t *data, size_t bytes);
bool faults_apart(void);		/* true in such a process */
void faults_begin(bool slow);		/* @slow: random delays in streams */
void faults_plan(unsigned how);
void faults_end(bool last);		/* no more faults; @last: checks for leaks */

#endif
