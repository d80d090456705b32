/* SPDX-License-Identifier: MIT */
/*
 * Fault countdown: of every public operation the n-th call that may fail does, for
 * n = 1, 2, ..., until it succeeds.
 *
 * DESIGN
 *	An operation is a row of a table: what it is called, the functions of runnel.h
 *	that it is about, what is done before, what is done while calls fail, and what
 *	must hold afterwards.  driver.c goes through the kinds of calls, and for each
 *	through n.  Each try is a process of its own, that another one waits for: a CUDA
 *	device that has failed stays so, a hang or a crash is that try's, and what
 *	an operation needs may be static.  So operations assert nothing: expect().
 *	After each try: no memory, mapping, descriptor, thread or object of CUDA's is
 *	left; every job that was accepted has ended once, with a result that the failed call
 *	explains; what was returned is what runnel.h has for it; and unless the device
 *	has failed, a pool works.
 */
#ifndef COUNTDOWN_H
#define COUNTDOWN_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <runnel.h>

#define NR_ERRNOS 8

struct operation {
	const char *name;
	const char *functions;		/* of runnel.h */
	/* The pool's, where the default is not it; NULL. */
	void (*attr)(struct rnl_pool_attr *attr);
	bool first;			/* in a process that has not used the library yet */
	bool bare;			/* no pool is made for it */
	bool closes;			/* nothing is to be submitted to its pool afterwards */
	/* Before, during and after the time in which calls fail; NULL: nothing. */
	void (*before)(struct rnl_pool *pool);
	int (*run)(struct rnl_pool **pool);
	void (*after)(struct rnl_pool *pool, int ret);
	/* What the functions' Return has for calls that fail; ended by 0. */
	int errnos[NR_ERRNOS];
	/* Of these, what is right whatever the failed call said. */
	int instead[NR_ERRNOS];
};

/* Each ended by one without a name. */
extern const struct operation batch_operations[], job_operations[], join_operations[],
	map_operations[], memory_operations[], pool_operations[], trace_operations[],
	work_operations[];

/* ---- driver.c ---------------------------------------------------------------- */

struct counts {
	unsigned operations;
	unsigned libc, cuda, sticky;	/* calls that failed */
};

/* Tries all calls of one operation; what was tried is printed, and added. */
void count_down(const struct operation *operation, struct counts *counts);

/* What the call that fails means: -ENOMEM, ...; 0: none fails. */
int fault(void);
/* The device does not survive it. */
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
	enum watched_end end;
	bool accepted;
	bool twice;			/* by a guard: it may run twice */
	bool late;			/* it comes after others, or may be cancelled */
	_Atomic unsigned ran, ended;	/* times */
	_Atomic int left;		/* a last error of CUDA's that is none of the job's */
	int word;
	char from[WATCHED_BYTES], to[WATCHED_BYTES];	/* pageable */
};

/* The next one; it copies, fills, launches, has scratch. */
struct watched *watched_next(enum watched_end end);
/* The same, with another function; NULL: nothing is done. */
struct watched *watched_with(enum watched_end end, int (*fn)(struct rnl_job *job));
/* Notes what a submit returned, and returns it. */
int watched_submitted(struct watched *w, int ret);
/* A submit has no reason to fail but the device's failure. */
void expect_accepted(int ret);
void watched_reaped(struct rnl_job *job);
void watched_all_reaped(void);
/* The guard of their pool looks at their functions. */
void watched_twice(void);
/* All of them have ended as they should. */
void watched_verify(void);
/* A pool that works. */
void expect_works(struct rnl_pool *pool);
/* A pool whose device has failed, and says so. */
void expect_fails(struct rnl_pool *pool);
int launch_word(int *word, int value);

#endif
