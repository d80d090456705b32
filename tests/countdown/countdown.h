/* SPDX-License-Identifier: MIT */
/*
 * Fault countdown: in every public operation the n-th call that may fail does fail, for n = 1, 2,
 * ..., until the operation succeeds.
 *
 * DESIGN
 *	An operation is a row of a table: its name, the tested functions of runnel.h, the actions
 *	before, while and after calls fail.  driver.c tries each kind of call, and each n.  Each try
 *	is a process of its own, and the test waits for it.  So a failed CUDA device stays failed, a
 *	hang or a crash ends only one try, and an operation's data may be static.  Operations do not
 *	assert, but use expect().
 *	After each try, these must hold.  No memory, mapping, descriptor, thread or CUDA object is
 *	left.  Every accepted job has ended once, with a result that the failed call explains.  The
 *	return value is listed in runnel.h.  Unless the device has failed, a pool works.
 */
#ifndef COUNTDOWN_H
#define COUNTDOWN_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <runnel.h>
#include <runnel/more.h>

#include "submits.h"

#define NR_ERRNOS 8

struct operation {
	const char *name;		/* begins with the tested functions of runnel.h */
	const char *functions;		/* others that are tested */
	struct rnl_pool_attr attr;	/* of its pool; zero: the driver's default */
	const char *plan;		/* of the double, before its first use */
	bool first;			/* in a process that has not used the library before */
	bool bare;			/* without a pool */
	bool several;			/* its pool has two devices, if the machine has two */
	bool closes;			/* afterwards its pool accepts no jobs */
	unsigned keeps;			/* pieces of memory that the process may keep */
	/* before, while and after calls fail; NULL: no action */
	void (*before)(struct rnl_pool *pool);
	int (*run)(struct rnl_pool **pool);
	void (*after)(struct rnl_pool *pool, int ret);
	/* the errors under the functions' Return: for failing calls; ends with 0 */
	int errnos[NR_ERRNOS];
	/* those errors that are right for every failing call */
	int instead[NR_ERRNOS];
};

/* Tables; each ends with a row without a name. */
extern const struct operation batch_operations[], class_operations[], hold_operations[],
	job_operations[], join_operations[], map_operations[], memory_operations[], place_operations[],
	pool_operations[], top_operations[], trace_operations[], work_operations[];

/* ---- driver.c ---------------------------------------------------------------- */

struct counts {
	unsigned operations;
	unsigned libc, cuda, sticky;	/* calls that failed */
	double began_s;
	bool in_steps;			/* some calls were not tried */
};

/* Tries all calls of one operation, and prints and counts the tries. */
void count_down(const struct operation *operation, struct counts *counts);

/* Makes a test's own call that is a cancellation point, while a cancel may be pending. */
#define own_call(call) \
	do { \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); \
		call; \
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL); \
	} while (0)

/* Returns the name of two devices, or of one if the machine has a GPU and no double. */
const char *two_devices(void);
/* Returns the failing call's error: -ENOMEM, ...; 0: no call fails. */
int fault(void);
/* Returns true if the device has failed with that call. */
bool fault_lasts(void);

noreturn __attribute__((format(printf, 1, 2))) void unexpected(const char *format, ...);
#define expect(condition) \
	do { \
		if (!(condition)) \
			unexpected("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
	} while (0)
#define expect_msg(condition, ...) \
	do { \
		if (!(condition)) \
			unexpected(__VA_ARGS__); \
	} while (0)

/* ---- watched.c: jobs whose ends are checked --------------------------------------- */

#define NR_WATCHED 6
#define WATCHED_BYTES (80u << 10)

enum watched_end { BY_WAIT, BY_CALLBACK, BY_QUEUE };

struct watched {
	struct rnl_job job;
	struct rnl_job_more more;
	enum watched_end end;
	bool accepted;
	bool twice;			/* with a guard its function may run twice */
	bool late;			/* it runs after others, or may be cancelled */
	_Atomic unsigned ran, ended;	/* numbers of runs and ends */
	_Atomic int left;		/* CUDA's last error after the job */
	int word;
	char from[WATCHED_BYTES], to[WATCHED_BYTES];	/* pageable */
};

/* Gives the job its struct of rarely used fields, in its initial state. */
static inline struct rnl_job_more *watched_more(struct watched *w)
{
	w->more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	if (rnl_job_set_more(&w->job, &w->more))
		abort();
	return &w->more;
}

/* Returns the next watched job, which copies, fills, launches, and has scratch. */
struct watched *watched_next(enum watched_end end);
/* Like watched_next(), with another function; NULL: no function. */
struct watched *watched_with(enum watched_end end, int (*fn)(struct rnl_job *job));
/* Records a submit's result and returns it. */
int watched_submitted(struct watched *w, int ret);
/* Checks a submit: only a failed device may refuse it. */
void expect_accepted(int ret);
void watched_reaped(struct rnl_job *job);
void watched_all_reaped(void);
/* The pool has a guard, so functions may run twice. */
void watched_twice(void);
/* Checks that all watched jobs have ended correctly. */
void watched_verify(void);
/* Makes the process's first slots of holds, which it keeps. */
void hold_once(struct rnl_pool *pool);
/* Checks that the pool works. */
void expect_works(struct rnl_pool *pool);
/* Checks that the pool's device has failed, and that calls return its error. */
void expect_fails(struct rnl_pool *pool);
int launch_word(int *word, int value);

/* An operation's .attr. */
#define TWO_WORKERS { .nr_workers = 2 }
#define TWO_SMALL_WORKERS { .nr_workers = 2, .max_in_flight = 2 }

#endif
