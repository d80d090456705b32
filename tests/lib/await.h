/* SPDX-License-Identifier: MIT */
/* Waiting in tests: for a condition, for a thread that sleeps, for a call that blocks. */
#ifndef AWAIT_H
#define AWAIT_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "suite.h"

static inline double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Waits for a condition that must become true, however slow the machine is. */
#define ck_eventually(condition) \
	do { \
		double until_ = seconds_now() + PATIENCE_S; \
		while (!(condition)) { \
			ck_assert_msg(seconds_now() < until_, "never came true: " #condition); \
			usleep(100); \
		} \
	} while (0)

/* Spins until another thread, soon, makes the condition true; yields, so that other threads run. */
#define spin_until(condition) \
	do { \
		for (unsigned spins_ = 1; !(condition); spins_++) { \
			if (spins_ % 64 == 0) \
				sched_yield(); \
		} \
	} while (0)

/* Waits for a round that another thread begins or ends. */
static inline void await_round(_Atomic unsigned *word, unsigned round)
{
	spin_until(*word == round);
}

static inline pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Defined only on a simulated machine, which has its own thread states. */
__attribute__((weak)) char sim_state(unsigned tid);

/* Asks the kernel for the state of a thread: 'S' it sleeps, 'R' it runs, 0 it has ended. */
static inline char thread_state(pid_t tid)
{
	char path[64], line[256], *end;
	FILE *stat;

	if (sim_state)
		return sim_state((unsigned)tid);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	stat = fopen(path, "r");
	if (!stat)
		return 0;
	/* "tid (name) state ...": a name may contain blanks and brackets */
	end = fgets(line, sizeof(line), stat) ? strrchr(line, ')') : NULL;
	fclose(stat);
	return end ? end[2] : 0;
}

/* Waits until a thread sleeps in a call.  The thread stores its tid right before that call. */
#define ck_waits(tid) \
	do { \
		char state_ = 'R'; \
		ck_eventually((tid) && ((state_ = thread_state(tid)) == 'S' || !state_)); \
		ck_assert_msg(state_ == 'S', "did not wait"); \
	} while (0)

/* A call that blocks, made by its own thread; ck_waits(call.tid) waits until the call blocks. */
struct call {
	int (*fn)(void *arg);
	void *arg;
	_Atomic pid_t tid;
	_Atomic bool returned;
	int ret;
	pthread_t thread;
};

static inline void *call_main(void *arg)
{
	struct call *call = arg;

	call->tid = own_tid();
	call->ret = call->fn(call->arg);
	call->returned = true;
	return NULL;
}

static inline void call_start(struct call *call, int (*fn)(void *arg), void *arg)
{
	*call = (struct call){ .fn = fn, .arg = arg };
	must(pthread_create(&call->thread, NULL, call_main, call));
}

/* Joins the thread.  Returns the result of its call. */
static inline int call_end(struct call *call)
{
	must(pthread_join(call->thread, NULL));
	return call->ret;
}

#endif /* AWAIT_H */
