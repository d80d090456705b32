/* SPDX-License-Identifier: MIT */
/*
 * A simulated machine: the schedule and the time of a run are a function of its seed.
 * docs/simulation.md is its page.
 *
 * DESIGN
 *	The program is compiled with -fsanitize=thread and linked with these files instead of
 *	ThreadSanitizer, so each atomic access and each fence calls a function (atomics.c).  The
 *	linker wraps calls that block, wait or read a clock (wraps.c).  Each of these calls is a
 *	step (schedule.c), at which another thread may continue.  In half of the runs, while there
 *	are few threads, a load may return an overwritten value (memory.c).
 *	The threads are the system's, so thread-local memory, debuggers and the C library work as
 *	usual.  But only one thread runs at a time, and passes the turn on to the next.  Time
 *	advances only with steps; when all threads sleep, it jumps to the first of their timers.
 *	A blocking call tries the real call, without blocking, until it succeeds.  So the objects
 *	are the C library's, and only the sleep is simulated.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

/*
 * The kinds of steps; schedule.c has their words.  From SIM_MEETS on, a step orders one thread's
 * earlier accesses before another thread's later accesses, at the same object: POSIX promises this
 * for locks and threads, and the kernel orders reads and writes of a file.  A futex orders nothing:
 * it may wake spuriously, or not sleep, and the thread must acquire when it looks again.
 */
enum sim_what {
	SIM_LOAD, SIM_OLD, SIM_STORE, SIM_MODIFY, SIM_FENCE, SIM_PAUSE, SIM_CREATE, SIM_FUTEX_WAIT,
	SIM_FUTEX_WAKE, SIM_SLEEP, SIM_JOIN, SIM_LOCK, SIM_UNLOCK, SIM_COND_WAIT, SIM_COND_WAKE, SIM_FD,
	SIM_SEM, SIM_END,
	SIM_MEETS = SIM_JOIN,
};

/* Begins a simulation; the calling thread is its first.  SIM_SEED and SIM_HOW select the run. */
void sim_begin(void);

/* Returns true if the calling thread is simulated. */
bool sim_runs(void);

/* Makes a step of the calling thread: another thread may run before the caller does @what. */
void sim_step(enum sim_what what, const volatile void *object, const void *pc);

/* Makes a step of 1 us, of a thread that yields, or that waits for another thread's store. */
void sim_pause(const void *pc);

/*
 * Sleeps until the object is woken or the time is reached; without an object, until the time.
 * Returns false if the time was reached.
 */
bool sim_sleep(enum sim_what what, const volatile void *object, uint64_t until, const void *pc);

/* Wakes up to @nr random threads that sleep on the object.  Returns their number. */
unsigned sim_wake(enum sim_what what, const volatile void *object, unsigned nr, const void *pc);

/* Like sim_wake(), but is not a step. */
unsigned sim_rouse(enum sim_what what, const volatile void *object, unsigned nr);

/* Returns nanoseconds since the machine's start. */
uint64_t sim_now(void);

/* Returns true for Check's code, whose clock is the real one. */
bool sim_is_check(const void *pc);

/* Returns the calling thread's number, in the order of creation: 0, 1, ... */
unsigned sim_thread(void);

/* Returns the calling thread's slot in memory.c, while memory is weak. */
unsigned sim_slot(void);

/* Records that the calling thread loads an overwritten value. */
void sim_old_value(void);

/* The caller's plain access races with one of the thread in slot @beside: the run fails. */
void sim_race(const char *how, unsigned beside, const void *at, const void *pc);

/* Returns the kernel's state of the thread with that number: 'S' sleeps, 'R' runs, 0 has ended. */
#define SIM_FIRST_TID 1000
char sim_state(unsigned tid);
unsigned sim_nr_alive(void);

/* Returns a number below @nr, from the seed. */
uint64_t sim_any(uint64_t nr);

/* Returns true if SIM_FAULTS contains the name: "slow", "stall", ... */
bool sim_fault(const char *name);

/* Return true if the library's allocation fails, or a signal interrupts its call; for faults.h. */
bool rnl__sim_lacks(void);
bool rnl__sim_interrupts(void);

/* Returns true if a wait ends spuriously or by a signal: one in 2 to 64 does, by the seed. */
bool sim_spurious(void);

/* Creates a thread; sleeps until it ends, and leaves the C library's own join to the caller. */
void sim_thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
void sim_thread_join(pthread_t id, const void *pc);

/* Prints the last switches, and the object that each thread waits for. */
void sim_report(const char *why);

#endif
