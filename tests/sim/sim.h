/* SPDX-License-Identifier: MIT */
/*
 * A simulated machine: the schedule and the time of a run are a function of its seed.
 * docs/simulation.md is its page.
 *
 * DESIGN
 *	The program is compiled with -fsanitize=thread and linked with these files in place of
 *	ThreadSanitizer, so each atomic access and each fence calls a function (atomics.c).  Calls
 *	that block, wait or look at a clock are wrapped by the linker (wraps.c).  Each of them is a
 *	step (schedule.c): there another thread may go on.  A load may return a value that was
 *	overwritten (memory.c), in every other run, while there are few threads.
 *	Threads are the system's, so thread-local memory, debuggers and the C library work as ever,
 *	but one runs at a time: it passes the turn on.  Time stands still while no step is made; when
 *	all threads sleep, it jumps to the first of their timers.
 *	What blocks is done by trying the real call until it does not block.  So the objects are the
 *	C library's, and only the sleep is ours.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

/*
 * What a step does; schedule.c has the words.  From SIM_MEETS on, one thread's accesses before it come
 * before another's after it, at the same object: POSIX says so of locks and threads, the kernel orders
 * reads and writes of a file.  A futex orders nothing: it may wake for no reason, or not sleep, and the
 * thread has to acquire when it looks again.
 */
enum sim_what {
	SIM_LOAD, SIM_OLD, SIM_STORE, SIM_MODIFY, SIM_FENCE, SIM_PAUSE, SIM_CREATE, SIM_FUTEX_WAIT,
	SIM_FUTEX_WAKE, SIM_SLEEP, SIM_JOIN, SIM_LOCK, SIM_UNLOCK, SIM_COND_WAIT, SIM_COND_WAKE, SIM_FD,
	SIM_SEM, SIM_END,
	SIM_MEETS = SIM_JOIN,
};

/* Begins a simulation: the calling thread is its first.  SIM_SEED and SIM_HOW say which. */
void sim_begin(void);

/* True: the calling thread is one of a simulation's. */
bool sim_runs(void);

/* A step of the calling thread: another one may go on before the caller does what it says. */
void sim_step(enum sim_what what, const volatile void *object, const void *pc);

/* A step of a thread that waits for another one's store, or yields: it takes 1 us. */
void sim_pause(const void *pc);

/*
 * Sleeps until the object is woken, or that time has come; without an object, until that time.
 * False: the time has come.
 */
bool sim_sleep(enum sim_what what, const volatile void *object, uint64_t until, const void *pc);

/* Wakes up to @nr threads that sleep on the object, drawn by chance.  Returns how many. */
unsigned sim_wake(enum sim_what what, const volatile void *object, unsigned nr, const void *pc);

/* The same, and no step. */
unsigned sim_rouse(enum sim_what what, const volatile void *object, unsigned nr);

/* Nanoseconds since the machine was started. */
uint64_t sim_now(void);

/* Whether that is Check's code, whose clock is the real one. */
bool sim_is_check(const void *pc);

/* Of the calling thread, as threads were created: 0, 1, ... */
unsigned sim_thread(void);

/* Its slot in memory.c, while it reorders. */
unsigned sim_slot(void);

/* The calling thread loads a value that was overwritten. */
void sim_old_value(void);

/* Its plain access and one of the thread in that slot race: the run is wrong. */
void sim_race(const char *how, unsigned beside, const void *at, const void *pc);

/* What the kernel says of the thread with that number: 'S' it sleeps, 'R' it runs, 0 it has ended. */
#define SIM_FIRST_TID 1000
char sim_state(unsigned tid);
unsigned sim_nr_alive(void);

/* A number below @nr, from the seed. */
uint64_t sim_any(uint64_t nr);

/* Whether SIM_FAULTS asks for it: "slow", "stall", ... */
bool sim_fault(const char *name);

/* Whether an allocation of the library fails, and whether a signal interrupts a call; faults.h asks. */
bool rnl__sim_lacks(void);
bool rnl__sim_interrupts(void);

/* Whether a wait ends for no reason, or by a signal: one in 2 to 64 does, by the seed. */
bool sim_spurious(void);

/* A thread's life: a join sleeps until its end, and leaves the C library's own part to the caller. */
void sim_thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
void sim_thread_join(pthread_t id, const void *pc);

/* Prints the last switches and what each thread waits for. */
void sim_report(const char *why);

#endif
