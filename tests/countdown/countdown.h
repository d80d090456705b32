/* SPDX-License-Identifier: MIT */
/*
 * Fault countdown: in every public operation the n-th call that may fail does, for n = 1,
 * 2, ..., until the operation succeeds.
 *
 * DESIGN
 *	An operation is a row of a table: its name, the functions of runnel.h that it tests,
 *	what is done before, what is done while calls fail, and what must hold afterwards.
 *	driver.c tries each kind of call, and each n. Each try is a process of its own, which
 *	the test waits for: a failed CUDA device stays failed, a hang or a crash ends only one
 *	try, and an operation's data may be static. So operations do not assert: expect().
 *	After each try: no memory, mapping, descriptor, thread or CUDA object is left; every
 *	accepted job has ended once, with a result that the failed call explains; the return
 *	value is one that runnel.h lists; and unless the device has failed, a pool works.
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
	const char *name;
	const char *functions;		/* of runnel.h */
	/* changes the pool's attributes; NULL: nothing */
	void (*attr)(struct rnl_pool_attr *attr);
	bool first;			/* in a process that has not used the library before */
	bool bare;			/* without a pool */
	bool several;			/* its pool has two devices, if there are two */
	bool closes;			/* its pool accepts nothing afterwards */
	unsigned keeps;			/* pieces of memory that the process may keep from it */
	/* before, while and after calls fail; NULL: nothing */
	void (*before)(struct rnl_pool *pool);
	int (*run)(struct rnl_pool **pool);
	void (*after)(struct rnl_pool *pool, int ret);
	/* the errors that the functions' Return lists for failing calls; 0 ends them */
	int errnos[NR_ERRNOS];
	/* the ones among them that are right for every failing call */
	int instead[NR_ERRNOS];
};

/* Tables. A row without a name ends each. */
extern const struct operation batch_operations[], hold_operations[], job_operations[],
	join_operations[], map_operations[], memory_operations[], place_operations[],
	pool_operations[], top_operations[], trace_operations[], work_operations[];

/* ---- driver.c ---------------------------------------------------------------- */

struct counts {
	unsigned operations;
	unsigned libc, cuda, sticky;	/* calls that failed */
	double began_s;
	bool in_steps;			/* not each call was tried */
};

/* Tries all calls of one operation, prints and counts them. */
void count_down(const struct operation *operation, struct counts *counts);

/* Makes a call of the test's own that is a cancellation point: a cancel may be pending. */
#define own_call(call) \
	do { \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); \
		call; \
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL); \
	} while (0)

/* The name of two devices; of one, if the machine has a GPU and no double. */
const char *two_devices(void);
/* What the failing call means: -ENOMEM, ...; 0: none fails. */
int fault(void);
/* Whether the device has failed with that call. */
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

/* ---- watched.c: jobs that are watched -------------------------------------------- */

#define NR_WATCHED 6
#define WATCHED_BYTES (80u << 10)

enum watched_end { BY_WAIT, BY_CALLBACK, BY_QUEUE };

struct watched {
	struct rnl_job job;
	struct rnl_job_more more;
	enum watched_end end;
	bool accepted;
	bool twice;			/* with guard its function may run twice */
	bool late;			/* it comes after others, or may be cancelled */
	_Atomic unsigned ran, ended;	/* how often */
	_Atomic int left;		/* an error of CUDA that the job left behind */
	int word;
	char from[WATCHED_BYTES], to[WATCHED_BYTES];	/* pageable */
};

/* What the job has more, as it begins. */
static inline struct rnl_job_more *watched_more(struct watched *w)
{
	w->more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	if (rnl_job_set_more(&w->job, &w->more))
		abort();
	return &w->more;
}

/* The next watched job. It copies, fills, launches, and has scratch. */
struct watched *watched_next(enum watched_end end);
/* The same with another function; NULL: it does nothing. */
struct watched *watched_with(enum watched_end end, int (*fn)(struct rnl_job *job));
/* Notes what a submit returned; returns it. */
int watched_submitted(struct watched *w, int ret);
/* Only a failed device may refuse a submit. */
void expect_accepted(int ret);
void watched_reaped(struct rnl_job *job);
void watched_all_reaped(void);
/* The pool has a guard, so functions may run twice. */
void watched_twice(void);
/* All watched jobs have ended as they should. */
void watched_verify(void);
/* The process gets its first slots of holds, which it keeps. */
void hold_once(struct rnl_pool *pool);
/* The pool works. */
void expect_works(struct rnl_pool *pool);
/* The pool's device has failed, and calls return that. */
void expect_fails(struct rnl_pool *pool);
int launch_word(int *word, int value);

/* An operation's .attr. */
static inline void two_small_workers(struct rnl_pool_attr *attr)
{
	attr->nr_workers = 2;
	attr->max_in_flight = 2;
}

#endif
