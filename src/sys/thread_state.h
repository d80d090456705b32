/* SPDX-License-Identifier: MIT */
/* What runnel knows of the calling thread: its implicit stream, its worker, its job. */
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
	struct rnl_job *job;		/* its function runs on this thread */
	int error;			/* of the first call of that function that failed */
	struct rnl__guarded *guard;	/* NULL: no function is under guard */
	unsigned generation;		/* rnl__generation when the stream was made */
	uint32_t tid;			/* the kernel's number of the thread; 0: not known yet */
	unsigned tid_generation;	/* rnl__generation when that was asked */
};

/* initial-exec: every operation of every job reads it. */
extern _Thread_local struct rnl__thread_state rnl__thread
	__attribute__((tls_model("initial-exec")));

/*
 * A number that grows by one for each fork between the first process that used the library and this
 * one.  An object that has a parent's number belongs to it: its threads are not in this process.
 */
extern unsigned rnl__generation;

#define RNL__FORKS_MAX 0xffffu	/* parents that are told from memory that is no object */

/* 0; -EOWNERDEAD an object with that number belongs to a parent; -EINVAL it is no number of one. */
static inline int rnl__generation_check(unsigned generation)
{
	if (generation == rnl__generation)
		return 0;
	return rnl__generation - generation <= RNL__FORKS_MAX ? -EOWNERDEAD : -EINVAL;
}

/* The kernel's number of the calling thread. */
static inline uint32_t rnl__thread_tid(void)
{
	if (!rnl__thread.tid || rnl__thread.tid_generation != rnl__generation) {
		rnl__thread.tid = (uint32_t)syscall(SYS_gettid);
		rnl__thread.tid_generation = rnl__generation;
	}
	return rnl__thread.tid;
}

/* Counts forks from now on; 0 or -ENOMEM. */
int rnl__generation_start(void);

#endif
