/* SPDX-License-Identifier: MIT */
/* What the calling thread is to runnel: its implicit stream, its worker, its job. */
#ifndef RNL_SELF_H
#define RNL_SELF_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct rnl__stream;
struct rnl__worker;
struct rnl_job;
struct rnl__guarded;

struct rnl__self {
	struct rnl__stream *stream;
	struct rnl__worker *worker;	/* NULL: not a worker */
	struct rnl_job *job;		/* whose function runs */
	int error;			/* of the first call in it that failed */
	struct rnl__guarded *guard;	/* a function of it is under guard; else NULL */
	unsigned generation;		/* rnl__generation when the stream was made */
	uint32_t tid;			/* the kernel's number of the thread, 0: not asked yet ... */
	unsigned tid_generation;	/* ... in this process */
};

/* initial-exec: every operation of every job reads it. */
extern _Thread_local struct rnl__self rnl__self __attribute__((tls_model("initial-exec")));

/*
 * How many forks lie between this process and the first that used the library.
 * What was made under another number belongs to a parent: its threads are not
 * here.
 */
extern unsigned rnl__generation;

/* 0; -EOWNERDEAD what was made under that number belongs to a parent. */
static inline int rnl__generation_check(unsigned generation)
{
	return generation == rnl__generation ? 0 : -EOWNERDEAD;
}

/* The kernel's number of the calling thread. */
static inline uint32_t rnl__self_tid(void)
{
	if (!rnl__self.tid || rnl__self.tid_generation != rnl__generation) {
		rnl__self.tid = (uint32_t)syscall(SYS_gettid);
		rnl__self.tid_generation = rnl__generation;
	}
	return rnl__self.tid;
}

/* Starts counting; 0 or -ENOMEM. */
int rnl__generation_start(void);

#endif
