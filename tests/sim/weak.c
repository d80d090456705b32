/* SPDX-License-Identifier: MIT */
/*
 * Runs small programs, many thousand times each, on the simulated machine's memory.
 *
 * DESIGN
 *	Replaces schedule.c and wraps.c: no calls are wrapped, and because threads are coroutines, a
 *	switch is a hundred times faster.  At each step another thread may continue, at random.
 *	memory.c decides which values a load may return, and which plain accesses race.  Threads
 *	sleep only in futexes.  A run is also wrong if all its remaining threads sleep.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "sim/memory.h"
#include "sim/sim.h"
#include "sim/weak.h"

/* Only futex.h calls syscall(). */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
/* A program's schedule is not shown, and its threads have no names. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MAIN WEAK_THREADS		/* number of main(), before and after the threads */
#define NT (WEAK_THREADS + 1)
#define STACK 65536
#define STEPS 20000			/* of one run; more mean an endless loop */

struct thread {
	ucontext_t context;
	const void *asleep_on;
	bool over;
	char *stack;
};

static const struct weak *now;
static struct thread threads[NT];
static unsigned me, steps, switches;
static const char *wrong;
static uint64_t random_state;
static ucontext_t home;

uint64_t sim_any(uint64_t nr)
{
	/* xorshift64 (Marsaglia 2003) */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 33) % nr;
}

uint64_t sim_now(void)
{
	return steps;
}

bool sim_runs(void)
{
	return now;
}

unsigned sim_slot(void)
{
	return me;
}

void sim_old_value(void)
{
}

void sim_race(const char *how, unsigned beside, const void *at, const void *pc)
{
	static char why[80];

	snprintf(why, sizeof(why), "a race: byte %td was %s",
		 (const char *)at - (const char *)now->memory, how);
	weak_wrong(why);
}

_Noreturn void weak_wrong(const char *why)
{
	wrong = why;
	setcontext(&home);
	abort();
}

/* Lets another thread continue, or stays; @must: does not stay. */
static void go_on(bool must)
{
	unsigned can[NT], nr = 0, was = me;

	if (me == MAIN)
		return;
	if (++steps > STEPS)
		weak_wrong("it does not end");
	if (!must && sim_any(switches))
		return;
	for (unsigned i = 0; i < WEAK_THREADS; i++)
		if (!threads[i].over && !threads[i].asleep_on)
			can[nr++] = i;
	if (!nr) {
		for (unsigned i = 0; i < WEAK_THREADS; i++)
			if (!threads[i].over)
				weak_wrong("all remaining threads sleep");
		setcontext(&home);
	}
	me = can[sim_any(nr)];
	if (me != was)
		swapcontext(&threads[was].context, &threads[me].context);
}

void sim_step(enum sim_what what, const volatile void *object, const void *pc)
{
	go_on(false);
}

static void thread_main(void)
{
	now->thread[me]();
	threads[me].over = true;
	go_on(true);
}

/* futex.h's futex.  A wake uses only the address. */
long syscall(long number, ...)
{
	const void *address;
	int operation;
	uint32_t value;
	long woken = 0;
	va_list args;

	va_start(args, number);
	address = va_arg(args, const void *);
	operation = va_arg(args, int) & FUTEX_CMD_MASK;
	value = va_arg(args, uint32_t);
	va_end(args);
	if (number != SYS_futex)
		abort();
	if (operation == FUTEX_WAIT) {
		go_on(false);
		if (*(const volatile uint32_t *)address != value) {
			errno = EAGAIN;
			return -1;
		}
		threads[me].asleep_on = address;
		go_on(true);
		return 0;
	}
	for (unsigned i = 0; i < WEAK_THREADS && woken < (int)value; i++)
		if (threads[i].asleep_on == address) {
			threads[i].asleep_on = NULL;
			woken++;
		}
	return woken;
}

/* ---- a run ------------------------------------------------------------------- */

static void run(void)
{
	static bool started;	/* static: setcontext() would restore a register */

	memset(now->memory, 0, now->bytes);
	memory_forget_all();
	steps = 0;
	switches = 1u << sim_any(4);
	wrong = NULL;
	for (unsigned i = 0; i < NT; i++) {
		struct thread *t = &threads[i];
		char *stack = t->stack ? t->stack : malloc(STACK);

		*t = (struct thread){ .stack = stack, .over = i == MAIN || !now->thread[i] };
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = stack;
		t->context.uc_stack.ss_size = STACK;
		makecontext(&t->context, thread_main, 0);
	}
	me = MAIN;
	now->begin();
	for (unsigned i = 0; i < WEAK_THREADS; i++)
		memory_thread_begins(i, MAIN);
	started = false;
	getcontext(&home);	/* returns again when all threads are over, or the run is wrong */
	if (!started) {
		started = true;
		do
			me = (unsigned)sim_any(WEAK_THREADS);
		while (threads[me].over);
		setcontext(&threads[me].context);
	}
	me = MAIN;
	if (wrong)
		return;
	for (unsigned i = 0; i < WEAK_THREADS; i++)
		memory_thread_ends(i);
	memory_thread_begins(MAIN, MAIN);
	now->end();
}

const char *weak_run(const struct weak *weak, unsigned times, uint64_t seed)
{
	random_state = seed | 1;
	now = weak;
	memory_watch(weak->memory, weak->bytes);
	memory_weak = true;
	for (wrong = NULL; times && !wrong; times--)
		run();
	memory_weak = false;
	now = NULL;
	return wrong;
}
