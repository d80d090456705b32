/* SPDX-License-Identifier: MIT */
/* The calls of programs that block, wait, or read a clock; sim.h has the design. */
#define _GNU_SOURCE		/* cpu_set_t, ppoll() */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/memory.h"
#include "sim/sim.h"
#include "sys/simulation.h"

/* Only the linker calls these functions: tests/tests.mk reads their names here. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
/* Each function has all parameters of the function that it replaces. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define HERE __builtin_return_address(0)
#define NS 1000000000ull
/* CLOCK_REALTIME's lead over CLOCK_MONOTONIC; it identifies the clock of a deadline. */
#define REAL_NS (1700000000ull * NS)
#define CPUS 4

/*
 * Defines the simulated version of a function.  Outside a simulation, and in a thread that the
 * machine does not know, like one at its very end, the real function is called.
 */
#define WRAP(result, name, parameters, arguments) \
	result __real_##name parameters; \
	static inline __attribute__((always_inline)) result simulated_##name parameters; \
	result __wrap_##name parameters \
	{ \
		return sim_runs() ? simulated_##name arguments : __real_##name arguments; \
	} \
	static inline result simulated_##name parameters

/* Defines a function without effect in a simulation; it returns 0. */
#define WRAP_NO_EFFECT(result, name, parameters, arguments) \
	WRAP(result, name, parameters, arguments) { return 0; }

static uint64_t ns_of(const struct timespec *ts)
{
	return ts->tv_sec < 0 ? 0 : (uint64_t)ts->tv_sec * NS + (uint64_t)ts->tv_nsec;
}

/* Converts a deadline of either clock to the machine's time. */
static uint64_t until(const struct timespec *ts)
{
	uint64_t ns = ns_of(ts);

	if (ns < REAL_NS / 2)
		return ns;
	return ns > REAL_NS ? ns - REAL_NS : 0;
}

static uint64_t after(uint64_t ns)
{
	return ns < SIM_NEVER - 1 - sim_now() ? sim_now() + ns : SIM_NEVER - 1;
}

static uint64_t after_ms(int ms)
{
	return ms < 0 ? SIM_NEVER : after((uint64_t)ms * 1000000);
}

static int failed(int error)
{
	errno = error;
	return -1;
}

/* ---- time --------------------------------------------------------------------- */

WRAP(int, clock_gettime, (clockid_t id, struct timespec *ts), (id, ts))
{
	uint64_t ns;

	if (id == CLOCK_PROCESS_CPUTIME_ID || id < 0 || sim_is_check(HERE))
		return __real_clock_gettime(id, ts);
	ns = sim_now();
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ns += REAL_NS;
	ts->tv_sec = (time_t)(ns / NS);
	ts->tv_nsec = (long)(ns % NS);
	sim_step(SIM_LOAD, NULL, HERE);
	return 0;
}

WRAP(int, nanosleep, (const struct timespec *ts, struct timespec *left), (ts, left))
{
	(void)sim_sleep(SIM_SLEEP, NULL, after(ns_of(ts)), HERE);
	return 0;
}

WRAP(int, usleep, (useconds_t us), (us))
{
	(void)sim_sleep(SIM_SLEEP, NULL, after(us * 1000ull), HERE);
	return 0;
}

/* Sleeps forever: there are no signals. */
WRAP(int, pause, (void), ())
{
	(void)sim_sleep(SIM_SLEEP, NULL, SIM_NEVER, HERE);
	return -1;
}

WRAP(int, sched_yield, (void), ())
{
	sim_pause(HERE);
	return 0;
}

void rnl__sim_pause(void)
{
	sim_pause(HERE);
}

/* ---- the machine ---------------------------------------------------------------- */

WRAP(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set))
{
	memset(set, 0, size);
	for (int i = 0; i < CPUS; i++)
		CPU_SET_S(i, size, set);
	return 0;
}

WRAP_NO_EFFECT(int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (pid, size, set))
WRAP_NO_EFFECT(int, pthread_setaffinity_np, (pthread_t thread, size_t size, const cpu_set_t *set),
	       (thread, size, set))

WRAP(int, sched_getcpu, (void), ())
{
	return (int)(sim_thread() % CPUS);
}

/* The pid is part of files and their names, so it has the same number of digits in each run. */
WRAP(pid_t, getpid, (void), ())
{
	return 10000000 + __real_getpid();
}

/* ---- system calls by number ------------------------------------------------------ */

static long futex(const volatile uint32_t *word, int operation, uint32_t value,
		  const struct timespec *ts, const void *pc)
{
	const uint64_t time = ts ? after(ns_of(ts)) : SIM_NEVER;
	uint32_t is;

	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
		sim_step(SIM_FUTEX_WAIT, word, pc);
		/* The kernel looks with the word's lock held, so it sees the last value. */
		is = __atomic_load_n(word, __ATOMIC_SEQ_CST);
		memory_look(word, sizeof(is), is, __ATOMIC_RELAXED);
		if (is != value)
			return failed(EAGAIN);
		if (sim_spurious()) {
			errno = EINTR;
			return sim_any(2) ? 0 : -1;
		}
		return sim_sleep(SIM_FUTEX_WAIT, word, time, pc) ? 0 : failed(ETIMEDOUT);
	case FUTEX_WAKE:
		return sim_wake(SIM_FUTEX_WAKE, word, value, pc);
	default:
		abort();
	}
}

WRAP(long, syscall, (long number, long a, long b, long c, long d, long e, long f),
     (number, a, b, c, d, e, f))
{
	switch (number) {
	case SYS_futex:
		return futex((const uint32_t *)a, (int)b, (uint32_t)c, (const struct timespec *)d, HERE);
	case SYS_gettid:
		return SIM_FIRST_TID + (long)sim_thread();
	default:
		return __real_syscall(number, a, b, c, d, e, f);
	}
}

/* ---- memory ----------------------------------------------------------------------- */

void __libc_free(void *mem);
void *__libc_realloc(void *mem, size_t bytes);

/* Replaces the C library's function for all callers; a test may define its own. */
#define INTERPOSED __attribute__((weak, visibility("default")))

INTERPOSED void free(void *mem)
{
	memory_forget(mem, malloc_usable_size(mem));
	__libc_free(mem);
}

INTERPOSED void *realloc(void *mem, size_t bytes)
{
	memory_forget(mem, malloc_usable_size(mem));
	return __libc_realloc(mem, bytes);
}

WRAP(int, munmap, (void *mem, size_t bytes), (mem, bytes))
{
	memory_forget(mem, bytes);
	return __real_munmap(mem, bytes);
}

/* ---- threads --------------------------------------------------------------------- */

WRAP(int, pthread_create, (pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (id, attr, fn, arg))
{
	sim_thread_create(id, attr, fn, arg);
	sim_step(SIM_CREATE, NULL, HERE);
	return 0;
}

WRAP(int, pthread_join, (pthread_t id, void **result), (id, result))
{
	sim_thread_join(id, HERE);
	return __real_pthread_join(id, result);
}

WRAP(int, pthread_once, (pthread_once_t *once, void (*fn)(void)), (once, fn))
{
	static struct { pthread_once_t *once; bool done; } known[64];
	unsigned i;

	sim_step(SIM_LOCK, once, HERE);
	for (i = 0; known[i].once && known[i].once != once; i++)
		if (i == 62)
			abort();
	if (!known[i].once) {
		known[i].once = once;
		/* Sets the C library's own state, if it was not set before the machine began. */
		(void)__real_pthread_once(once, fn);
		known[i].done = true;
		(void)sim_wake(SIM_UNLOCK, once, UINT_MAX, HERE);
	}
	while (!known[i].done)
		(void)sim_sleep(SIM_LOCK, once, SIM_NEVER, HERE);
	return 0;
}

/* ---- locks ------------------------------------------------------------------------ */

static int lock(pthread_mutex_t *mutex, const void *pc)
{
	int error;

	sim_step(SIM_LOCK, mutex, pc);
	while ((error = pthread_mutex_trylock(mutex)) == EBUSY)
		(void)sim_sleep(SIM_LOCK, mutex, SIM_NEVER, pc);
	return error;
}

WRAP(int, pthread_mutex_lock, (pthread_mutex_t *mutex), (mutex))
{
	return lock(mutex, HERE);
}

WRAP(int, pthread_mutex_unlock, (pthread_mutex_t *mutex), (mutex))
{
	int error = __real_pthread_mutex_unlock(mutex);

	if (!error)
		(void)sim_wake(SIM_UNLOCK, mutex, UINT_MAX, HERE);
	return error;
}

/* ---- conditions, semaphores, barriers --------------------------------------------- */

static int wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t time, const void *pc)
{
	bool woken;
	int error = __real_pthread_mutex_unlock(mutex);

	if (error)
		return error;
	/* In one step, so a signal from now on is not missed. */
	(void)sim_rouse(SIM_UNLOCK, mutex, UINT_MAX);
	woken = sim_spurious() || sim_sleep(SIM_COND_WAIT, cond, time, pc);
	error = lock(mutex, pc);
	return error ? error : woken ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_wait, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex))
{
	return wait(cond, mutex, SIM_NEVER, HERE);
}

WRAP(int, pthread_cond_timedwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *ts),
     (cond, mutex, ts))
{
	return wait(cond, mutex, until(ts), HERE);
}

WRAP(int, pthread_cond_signal, (pthread_cond_t *cond), (cond))
{
	(void)sim_wake(SIM_COND_WAKE, cond, 1, HERE);
	return 0;
}

WRAP(int, pthread_cond_broadcast, (pthread_cond_t *cond), (cond))
{
	(void)sim_wake(SIM_COND_WAKE, cond, UINT_MAX, HERE);
	return 0;
}

/* The C library's function might wait for its sleepers, but threads sleep in the machine. */
WRAP_NO_EFFECT(int, pthread_cond_destroy, (pthread_cond_t *cond), (cond))

static int take(sem_t *sem, uint64_t time, const void *pc)
{
	sim_step(SIM_SEM, sem, pc);
	while (sem_trywait(sem))
		if (!sim_sleep(SIM_SEM, sem, time, pc))
			return failed(ETIMEDOUT);
	return 0;
}

WRAP(int, sem_wait, (sem_t *sem), (sem))
{
	return take(sem, SIM_NEVER, HERE);
}

WRAP(int, sem_timedwait, (sem_t *sem, const struct timespec *ts), (sem, ts))
{
	return take(sem, until(ts), HERE);
}

WRAP(int, sem_post, (sem_t *sem), (sem))
{
	int ret = __real_sem_post(sem);

	(void)sim_wake(SIM_SEM, sem, UINT_MAX, HERE);
	return ret;
}

/* A barrier's memory in a simulation: its size, the arrived threads, the round. */
struct barrier {
	unsigned nr, came, round;
};

WRAP(int, pthread_barrier_init, (pthread_barrier_t *b, const pthread_barrierattr_t *attr, unsigned nr),
     (b, attr, nr))
{
	*(struct barrier *)b = (struct barrier){ .nr = nr };
	return nr ? 0 : EINVAL;
}

WRAP_NO_EFFECT(int, pthread_barrier_destroy, (pthread_barrier_t *b), (b))

WRAP(int, pthread_barrier_wait, (pthread_barrier_t *barrier), (barrier))
{
	struct barrier *b = (struct barrier *)barrier;
	unsigned round;

	sim_step(SIM_LOCK, b, HERE);
	round = b->round;
	if (++b->came == b->nr) {
		b->came = 0;
		b->round++;
		(void)sim_wake(SIM_UNLOCK, b, UINT_MAX, HERE);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	while (b->round == round)
		(void)sim_sleep(SIM_LOCK, b, SIM_NEVER, HERE);
	return 0;
}

/* ---- files ------------------------------------------------------------------------ */

/* The object of all threads that wait for a file: each write wakes them to look again. */
static const char files;

int __real_poll(struct pollfd *fds, nfds_t nr, int ms);

static int poll_until(struct pollfd *fds, nfds_t nr, uint64_t time, const void *pc)
{
	int ret;

	sim_step(SIM_FD, &files, pc);
	while (!(ret = __real_poll(fds, nr, 0)) && sim_sleep(SIM_FD, &files, time, pc))
		;
	return ret;
}

WRAP(int, poll, (struct pollfd *fds, nfds_t nr, int ms), (fds, nr, ms))
{
	return poll_until(fds, nr, after_ms(ms), HERE);
}

WRAP(int, ppoll, (struct pollfd *fds, nfds_t nr, const struct timespec *ts, const sigset_t *signals),
     (fds, nr, ts, signals))
{
	return poll_until(fds, nr, ts ? after(ns_of(ts)) : SIM_NEVER, HERE);
}

/* Waits until a call on the file would not block; does not wait for a non-blocking file. */
static void await_file(int fd, short events, uint64_t time, const void *pc)
{
	struct pollfd p = { .fd = fd, .events = events };
	const int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & O_NONBLOCK))
		(void)poll_until(&p, 1, time, pc);
	else
		sim_step(SIM_FD, &files, pc);
}

WRAP(int, epoll_wait, (int fd, struct epoll_event *events, int nr, int ms), (fd, events, nr, ms))
{
	await_file(fd, POLLIN, after_ms(ms), HERE);
	return __real_epoll_wait(fd, events, nr, 0);
}

/* Returns @result of a call that changes files, after waking all threads that wait for files. */
static ssize_t moved(ssize_t result, const void *pc)
{
	(void)sim_wake(SIM_FD, &files, UINT_MAX, pc);
	return result;
}

WRAP(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
{
	await_file(fd, POLLIN, SIM_NEVER, HERE);
	return moved(__real_read(fd, to, size), HERE);
}

WRAP(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
{
	await_file(fd, POLLOUT, SIM_NEVER, HERE);
	return moved(__real_write(fd, from, size), HERE);
}

WRAP(int, close, (int fd), (fd))
{
	return (int)moved(__real_close(fd), HERE);
}

/* ---- the end ---------------------------------------------------------------------- */

/* A failure prints the schedule that led to it. */
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void)
{
	sim_report("it aborts");
	__real_abort();
}

_Noreturn void __real__ck_assert_failed(const char *file, int line, const char *expr, const char *text,
					...);
_Noreturn void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *text,
					...)
{
	char message[1024] = "";
	va_list ap;

	va_start(ap, text);
	if (text)
		(void)vsnprintf(message, sizeof(message), text, ap);
	va_end(ap);
	sim_report(expr);
	__real__ck_assert_failed(file, line, expr, text ? "%s" : NULL, message, NULL);
}

/* Without effect: Check writes each assertion's place to a file, but a failure names its own. */
void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}
