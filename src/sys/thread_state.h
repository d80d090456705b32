/* SPDX-License-Identifier: MIT */
/* State of the calling thread: its implicit stream, its worker, its job. */
#ifndef RNL_THREAD_STATE_H
#define RNL_THREAD_STATE_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rnl__stream;
struct rnl__worker;
struct rnl_job;
struct rnl__guarded;

struct rnl__thread_state {
	struct rnl__stream *stream;
	struct rnl__worker *worker;	/* NULL: not a worker */
	struct rnl_job *job;		/* the job whose function runs on this thread */
	int error;			/* of the function's first failed call */
	unsigned claimed;		/* where it claimed a slot last: class/prioq.c */
	struct rnl__guarded *guard;	/* NULL: no function is guarded */
	uint8_t trace_id[16];		/* of the job whose callback runs on this thread */
	unsigned generation;		/* rnl__generation when the stream was made */
	uint32_t tid;			/* the kernel's thread ID; 0: not known yet */
	unsigned tid_generation;	/* rnl__generation when tid was read */
	unsigned missed;		/* takes that found no job: class/prioq.c */
};

/* initial-exec, because every operation of every job reads it */
extern _Thread_local struct rnl__thread_state rnl__thread
	__attribute__((tls_model("initial-exec")));

/*
 * Starts at a constant and grows by one with each fork since the library's first use.  An object
 * with an earlier number belongs to a parent, and its threads do not exist in this process.
 */
extern unsigned rnl__generation;

#define RNL__FORKS_MAX 0xffffu	/* ancestors whose objects are recognised */

/* Returns 0; -EOWNERDEAD: the number of a parent's object; -EINVAL: not an object's number. */
static inline int rnl__generation_check(unsigned generation)
{
	if (generation == rnl__generation)
		return 0;
	return rnl__generation - generation <= RNL__FORKS_MAX ? -EOWNERDEAD : -EINVAL;
}

/* Returns the kernel's ID of the calling thread. */
static inline uint32_t rnl__thread_tid(void)
{
	if (!rnl__thread.tid || rnl__thread.tid_generation != rnl__generation) {
		rnl__thread.tid = (uint32_t)syscall(SYS_gettid);
		rnl__thread.tid_generation = rnl__generation;
	}
	return rnl__thread.tid;
}

/* Counts forks from now on.  Returns 0 or -ENOMEM. */
int rnl__generation_start(void);

#endif
