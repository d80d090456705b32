/* SPDX-License-Identifier: MIT */
/*
 * Steps: a call is stopped after its n-th instruction while another thread makes the other call,
 * for n = 1, 2, ...  All n take minutes where traps are slow, so by default only one n in
 * STEPS_STRIDE is tried, different ones in each run.
 *
 * DESIGN
 *	While its trap flag is set, the CPU traps after each instruction, and the signal's handler
 *	counts the traps.  So all n together always find a race that needs a preemption between two
 *	certain instructions.  The other call begins when the stepped call stops.  The stepped call
 *	continues when the other call has returned, or seems to wait for it.  If the stepped call
 *	waits for the other call before the stop, the other call begins early.
 *	Steps need x86-64.  They are off with ThreadSanitizer, whose own instructions hold locks.  A
 *	simulated machine stops threads itself.
 *
 * env: RNL_STEP_STRIDE=1 stops after each instruction.
 */
#ifndef STEPS_H
#define STEPS_H

#include <signal.h>
#include <ucontext.h>

#include "pool.h"
#include "sanitizers.h"
#include "seed.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(RNL__SIMULATION)
#define STEPS_HERE 1
#else
#define STEPS_HERE 0
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef STEPS_HERE
#define STEPS_HERE 0
#endif
#endif

#define STEPS_STRIDE (SANITIZED ? 127 : 31) /* sanitizers add many instructions */
#define STEPS_BLOCKED_MS 30	/* a call not stopped by then waits for the other call */
#define STEPS_OTHER_MS 20	/* the other call, if it still runs, waits for the stepped one */
#define STEPS_SHORTER 4		/* the test ends after so many calls without a stop */

static struct {
	void (*other)(void);
	_Atomic unsigned round, go, done; /* rounds: begun, other may run, other has returned */
	_Atomic bool over;
	unsigned nr, left;	/* instructions until the stop */
	bool stopped;
} steps;

static inline void steps_let_other(void)
{
	const struct timespec ts = { .tv_nsec = 20000 };
	double until = seconds_now() + STEPS_OTHER_MS * 1e-3;

	steps.go = steps.round;
	while (steps.done != steps.round && seconds_now() < until)
		nanosleep(&ts, NULL);
}

#if STEPS_HERE
#define TRAP_FLAG 0x100ll

static inline void steps_trap(int signo, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	int saved = errno;

	(void)signo;
	(void)info;
	if (--steps.left)
		return;
	context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	/* before this instruction the stepped call waited for the other call */
	if (steps.done == steps.round)
		return;
	steps.stopped = true;
	steps_let_other();
	errno = saved;
}

/* the pushed flags must be below the red zone of the stepped function */
#define STEPS_FLAG(change) \
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " change ", (%%rsp); popfq; " \
			 "lea 128(%%rsp), %%rsp" ::: "memory", "cc")
#define steps_begin() STEPS_FLAG("orq $0x100")
#define steps_end() STEPS_FLAG("andq $~0x100")

static inline void steps_init(void)
{
	struct sigaction action = { .sa_sigaction = steps_trap, .sa_flags = SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	must(sigaction(SIGTRAP, &action, NULL));
}
#else
#define steps_begin() ((void)steps_let_other)
#define steps_end() ((void)0)
#define steps_init() ((void)0)
#endif

static inline int steps_main(void *arg)
{
	(void)arg;
	while (!steps.over) {
		unsigned round = steps.round;
		double until = seconds_now() + STEPS_BLOCKED_MS * 1e-3 * test_scale();

		while (steps.go != round && !steps.over && seconds_now() < until)
			sched_yield();
		if (steps.done != round && !steps.over) {
			steps.other();
			steps.done = round;
		}
		while (steps.round == round && !steps.over)
			sched_yield();
	}
	return 0;
}

/*
 * Stops @call after one instruction a round, every @stride-th.  @other runs at the stop.  @prepare
 * runs before both calls, @check after both have returned.
 */
static inline void steps_through_some(unsigned stride, void (*prepare)(void), void (*call)(void),
				      void (*other)(void), void (*check)(void))
{
	static uint64_t random;
	const char *given = getenv("RNL_STEP_STRIDE");
	struct call thread;

	if (given && atoi(given) > 0)
		stride = (unsigned)atoi(given);
	if (!random)
		random = draws_of(test_seed(), 0);
	steps.nr = 1 + draw(&random, stride);
	steps_init();
	steps.other = other;
	steps.over = false;
	steps.round = steps.go = steps.done = 0;
	call_start(&thread, steps_main, NULL);
	for (unsigned shorter = 0; shorter < STEPS_SHORTER; steps.nr += stride) {
		prepare();
		steps.left = steps.nr;
		steps.stopped = false;
		steps.round++;
		steps_begin();
		call();
		steps_end();
		steps.go = steps.round;
		while (steps.done != steps.round)
			sched_yield();
		shorter = steps.stopped ? 0 : shorter + 1;
		check();
	}
	steps.over = true;
	call_end(&thread);
	printf("%u instructions\n", steps.nr - STEPS_SHORTER * stride);
}

static inline void steps_through(void (*prepare)(void), void (*call)(void), void (*other)(void),
				 void (*check)(void))
{
	steps_through_some(STEPS_STRIDE, prepare, call, other, check);
}

/* ---- the tested jobs, of a pool that sleeps when it can -------------------- */

static struct rnl_pool *pool;
static struct gate gate;		/* `first` waits here */
static struct rnl_barrier barrier;
static struct rnl_job first;		/* in the barrier */
static unsigned round_nr;
static int ret;			/* result of the stepped call */

struct notified {
	struct rnl_job job;
	_Atomic int runs, place;	/* place: in the order of all jobs' runs */
};
static struct notified a, b;
static _Atomic int nr_ran;

static int notified_fn(struct rnl_job *job)
{
	struct notified *t = rnl_container_of(job, struct notified, job);

	t->runs++;
	t->place = ++nr_ran;
	return 0;
}

static inline void notified_of(struct notified *t)
{
	t->runs = t->place = 0;
	job_of(&t->job, notified_fn, NULL);
}

static inline struct rnl_pool *sleepy_pool(unsigned nr_workers, unsigned max_queued)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.spin_us = -1;	/* else a wait would add many instructions */
	attr.max_queued = max_queued;
	return pool_with(&attr, nr_workers);
}

/* Checks a job that must end without further calls. */
static inline void ck_done(struct notified *t, int result)
{
	ck_assert_msg(!rnl_job_wait(&t->job, patience_ns()),
		      "round %u: a job was lost (instruction %u)", round_nr, steps.nr);
	ck_assert_int_eq(t->job.result, result);
	ck_assert_int_eq(t->runs, !result);
}

/* Makes a barrier with one job that waits at the gate. */
static inline void make_barrier(void)
{
	must(rnl_barrier_init(&barrier, pool));
	job_of(&first, gated_fn, &gate);
	must(rnl_barrier_add(&barrier, &first));
	gate = (struct gate)GATE_INIT;
	must(rnl_submit(pool, &first));
}

#define skip_without_steps() \
	do { \
		if (!STEPS_HERE || !on_host()) \
			test_skip("%.*s: no steps here", (int)strlen(__func__) - 3, __func__); \
	} while (0)

#endif /* STEPS_H */
