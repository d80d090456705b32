/* SPDX-License-Identifier: MIT */
/* What programs call that blocks, waits, or looks at a clock; sim.h has the design. */
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
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim/memory.h"
#include "sim/sim.h"
#include "sys/simulation.h"

/* Only the linker calls these: tests/sim/wrapped names them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)
#define NS 1000000000ull
/* CLOCK_REALTIME is ahead of CLOCK_MONOTONIC by that: so a deadline tells which clock it is of. */
#define REAL_NS (1700000000ull * NS)
#define CPUS 4

/* The real one, which the wrapper stands for. */
#define REAL(result, name, ...) result __real_##name(__VA_ARGS__); result __wrap_##name(__VA_ARGS__)

static uint64_t ns_of(const struct timespec *ts)
{
	return ts->tv_sec < 0 ? 0 : (uint64_t)ts->tv_sec * NS + (uint64_t)ts->tv_nsec;
}

/* A point in time, of either clock. */
static uint64_t until(const struct timespec *ts)
{
	uint64_t ns = ns_of(ts);

	return ns >= REAL_NS / 2 ? (ns > REAL_NS ? ns - REAL_NS : 0) : ns;
}

static uint64_t after(uint64_t ns)
{
	return ns < SIM_NEVER - 1 - sim_now() ? sim_now() + ns : SIM_NEVER - 1;
}

static uint64_t after_ms(int ms)
{
	return ms < 0 ? SIM_NEVER : after((uint64_t)ms * 1000000);
}

/* ---- time --------------------------------------------------------------------- */

REAL(int, clock_gettime, clockid_t id, struct timespec *ts)
{
	uint64_t ns;

	if (!sim_runs() || id == CLOCK_PROCESS_CPUTIME_ID || id < 0 || sim_is_check(HERE))
		return __real_clock_gettime(id, ts);
	ns = sim_now();
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		ns += REAL_NS;
	ts->tv_sec = (time_t)(ns / NS);
	ts->tv_nsec = (long)(ns % NS);
	sim_step(SIM_LOAD, NULL, HERE);
	return 0;
}

REAL(int, gettimeofday, struct timeval *tv, void *zone)
{
	if (!sim_runs())
		return __real_gettimeofday(tv, zone);
	tv->tv_sec = (time_t)((sim_now() + REAL_NS) / NS);
	tv->tv_usec = (long)(sim_now() % NS / 1000);
	return 0;
}

REAL(time_t, time, time_t *to)
{
	time_t now;

	if (!sim_runs())
		return __real_time(to);
	now = (time_t)((sim_now() + REAL_NS) / NS);
	if (to)
		*to = now;
	return now;
}

static void nap(uint64_t time, const void *pc)
{
	while (sim_now() < time)
		(void)sim_sleep(SIM_SLEEP, NULL, time, pc);
}

REAL(int, nanosleep, const struct timespec *ts, struct timespec *left)
{
	if (!sim_runs())
		return __real_nanosleep(ts, left);
	nap(after(ns_of(ts)), HERE);
	return 0;
}

REAL(int, clock_nanosleep, clockid_t id, int flags, const struct timespec *ts, struct timespec *left)
{
	if (!sim_runs())
		return __real_clock_nanosleep(id, flags, ts, left);
	nap(flags & TIMER_ABSTIME ? until(ts) : after(ns_of(ts)), HERE);
	return 0;
}

REAL(int, usleep, useconds_t us)
{
	if (!sim_runs())
		return __real_usleep(us);
	nap(after(us * 1000ull), HERE);
	return 0;
}

REAL(unsigned, sleep, unsigned s)
{
	if (!sim_runs())
		return __real_sleep(s);
	nap(after(s * NS), HERE);
	return 0;
}

/* No signal ends it. */
REAL(int, pause, void)
{
	while (sim_runs())
		(void)sim_sleep(SIM_SLEEP, NULL, SIM_NEVER, HERE);
	return __real_pause();
}

REAL(int, sched_yield, void)
{
	if (!sim_runs())
		return __real_sched_yield();
	sim_pause(HERE);
	return 0;
}

void rnl__sim_pause(void)
{
	sim_pause(HERE);
}

/* ---- the machine ---------------------------------------------------------------- */

REAL(int, sched_getaffinity, pid_t pid, size_t size, cpu_set_t *set)
{
	if (!sim_runs())
		return __real_sched_getaffinity(pid, size, set);
	memset(set, 0, size);
	for (int i = 0; i < CPUS; i++)
		CPU_SET_S(i, size, set);
	return 0;
}

REAL(int, sched_setaffinity, pid_t pid, size_t size, const cpu_set_t *set)
{
	return sim_runs() ? 0 : __real_sched_setaffinity(pid, size, set);
}

REAL(int, pthread_setaffinity_np, pthread_t thread, size_t size, const cpu_set_t *set)
{
	return sim_runs() ? 0 : __real_pthread_setaffinity_np(thread, size, set);
}

REAL(int, sched_getcpu, void)
{
	return sim_runs() ? (int)(sim_thread() % CPUS) : __real_sched_getcpu();
}

/* It goes into files and their names, so it has as many digits in each run. */
REAL(pid_t, getpid, void)
{
	return sim_runs() ? 10000000 + __real_getpid() : __real_getpid();
}

/* ---- system calls by number ------------------------------------------------------ */

static long futex(const volatile uint32_t *word, int operation, uint32_t value,
		  const struct timespec *ts, const void *pc)
{
	uint64_t time = SIM_NEVER;
	uint32_t is;

	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (ts)
			time = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT ? after(ns_of(ts)) :
									    until(ts);
		sim_step(SIM_FUTEX_WAIT, word, pc);
		/* The kernel, behind a lock of the word's, sees the last value. */
		is = __atomic_load_n(word, __ATOMIC_SEQ_CST);
		memory_look(word, sizeof(is), is, __ATOMIC_RELAXED);
		if (is != value) {
			errno = EAGAIN;
			return -1;
		}
		if (sim_spurious()) {
			errno = EINTR;
			return sim_any(2) ? 0 : -1;
		}
		if (sim_sleep(SIM_FUTEX_WAIT, word, time, pc))
			return 0;
		errno = ETIMEDOUT;
		return -1;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
		return sim_wake(SIM_FUTEX_WAKE, word, value, pc);
	default:
		abort();
	}
}

REAL(long, syscall, long number, long a, long b, long c, long d, long e, long f)
{
	if (!sim_runs())
		return __real_syscall(number, a, b, c, d, e, f);
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

/* In the C library's place, for all that call it; a test may have its own. */
#define INTERPOSED __attribute__((weak, visibility("default")))

INTERPOSED void free(void *mem)
{
	if (mem && sim_runs())
		memory_forget(mem, malloc_usable_size(mem));
	__libc_free(mem);
}

INTERPOSED void *realloc(void *mem, size_t bytes)
{
	if (mem && sim_runs())
		memory_forget(mem, malloc_usable_size(mem));
	return __libc_realloc(mem, bytes);
}

REAL(int, munmap, void *mem, size_t bytes)
{
	if (sim_runs())
		memory_forget(mem, bytes);
	return __real_munmap(mem, bytes);
}

/* ---- threads --------------------------------------------------------------------- */

#define STARTED_MAX 8192

static struct { pthread_t id; struct sim_thread *thread; } started[STARTED_MAX];
static unsigned nr_started;

REAL(int, pthread_create, pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	struct sim_thread *t;
	int error;

	if (!sim_runs())
		return __real_pthread_create(id, attr, fn, arg);
	t = sim_thread_new(fn, arg);
	/* A test's own calloc() makes steps; the new thread cannot go on yet. */
	sim_turn(false);
	error = __real_pthread_create(id, attr, sim_thread_main, t);
	sim_turn(true);
	if (error) {
		sim_thread_forget(t);
		return error;
	}
	started[nr_started].id = *id;
	started[nr_started++].thread = t;
	sim_step(SIM_CREATE, NULL, HERE);
	return 0;
}

static struct sim_thread *thread_of(pthread_t id)
{
	for (unsigned i = nr_started; i--;)
		if (pthread_equal(started[i].id, id))
			return started[i].thread;
	return NULL;
}

static int join(pthread_t id, uint64_t time, const void *pc)
{
	struct sim_thread *t = thread_of(id);

	while (t && !sim_thread_over(t))
		if (!sim_sleep(SIM_JOIN, (const volatile void *)t, time, pc))
			return ETIMEDOUT;
	if (t)
		memory_meet(t);
	return 0;
}

REAL(int, pthread_join, pthread_t id, void **result)
{
	if (sim_runs())
		(void)join(id, SIM_NEVER, HERE);
	return __real_pthread_join(id, result);
}

REAL(int, pthread_timedjoin_np, pthread_t id, void **result, const struct timespec *ts)
{
	if (sim_runs() && join(id, until(ts), HERE))
		return ETIMEDOUT;
	return sim_runs() ? __real_pthread_join(id, result) :
			    __real_pthread_timedjoin_np(id, result, ts);
}

REAL(int, pthread_once, pthread_once_t *once, void (*fn)(void))
{
	static const char running, done;	/* addresses */
	static struct { pthread_once_t *once; const char *state; } known[64];
	unsigned i;

	if (!sim_runs())
		return __real_pthread_once(once, fn);
	sim_step(SIM_LOCK, once, HERE);
	for (i = 0; known[i].once && known[i].once != once; i++)
		if (i == 62)
			abort();
	if (!known[i].once) {
		known[i].once = once;
		known[i].state = &running;
		/* The C library's own state: done before the machine began, or done here. */
		(void)__real_pthread_once(once, fn);
		known[i].state = &done;
		(void)sim_wake(SIM_UNLOCK, once, UINT_MAX, HERE);
	}
	while (known[i].state == &running)
		(void)sim_sleep(SIM_LOCK, once, SIM_NEVER, HERE);
	return 0;
}

/* ---- locks ------------------------------------------------------------------------ */

static int lock(pthread_mutex_t *mutex, uint64_t time, const void *pc)
{
	int error;

	sim_step(SIM_LOCK, mutex, pc);
	while ((error = pthread_mutex_trylock(mutex)) == EBUSY)
		if (!sim_sleep(SIM_LOCK, mutex, time, pc))
			return ETIMEDOUT;
	return error;
}

REAL(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	return sim_runs() ? lock(mutex, SIM_NEVER, HERE) : __real_pthread_mutex_lock(mutex);
}

REAL(int, pthread_mutex_timedlock, pthread_mutex_t *mutex, const struct timespec *ts)
{
	return sim_runs() ? lock(mutex, until(ts), HERE) : __real_pthread_mutex_timedlock(mutex, ts);
}

REAL(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	int error = __real_pthread_mutex_unlock(mutex);

	if (!error)
		(void)sim_wake(SIM_UNLOCK, mutex, UINT_MAX, HERE);
	return error;
}

static int lock_by(int (*try)(pthread_rwlock_t *l), pthread_rwlock_t *l, const void *pc)
{
	int error;

	sim_step(SIM_LOCK, l, pc);
	while ((error = try(l)) == EBUSY)
		(void)sim_sleep(SIM_LOCK, l, SIM_NEVER, pc);
	return error;
}

REAL(int, pthread_rwlock_rdlock, pthread_rwlock_t *l)
{
	return sim_runs() ? lock_by(pthread_rwlock_tryrdlock, l, HERE) :
			    __real_pthread_rwlock_rdlock(l);
}

REAL(int, pthread_rwlock_wrlock, pthread_rwlock_t *l)
{
	return sim_runs() ? lock_by(pthread_rwlock_trywrlock, l, HERE) :
			    __real_pthread_rwlock_wrlock(l);
}

REAL(int, pthread_rwlock_unlock, pthread_rwlock_t *l)
{
	int error = __real_pthread_rwlock_unlock(l);

	(void)sim_wake(SIM_UNLOCK, l, UINT_MAX, HERE);
	return error;
}

/* ---- conditions, semaphores, barriers --------------------------------------------- */

static int wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t time, const void *pc)
{
	bool woken;
	int error = __real_pthread_mutex_unlock(mutex);

	if (error)
		return error;
	/* In one step: a signal from here on is not missed. */
	(void)sim_rouse(SIM_UNLOCK, mutex, UINT_MAX);
	woken = sim_spurious() || sim_sleep(SIM_COND_WAIT, cond, time, pc);
	error = lock(mutex, SIM_NEVER, pc);
	return error ? error : woken ? 0 : ETIMEDOUT;
}

REAL(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return sim_runs() ? wait(cond, mutex, SIM_NEVER, HERE) : __real_pthread_cond_wait(cond, mutex);
}

REAL(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex,
     const struct timespec *ts)
{
	return sim_runs() ? wait(cond, mutex, until(ts), HERE) :
			    __real_pthread_cond_timedwait(cond, mutex, ts);
}

REAL(int, pthread_cond_signal, pthread_cond_t *cond)
{
	if (!sim_runs())
		return __real_pthread_cond_signal(cond);
	(void)sim_wake(SIM_COND_WAKE, cond, 1, HERE);
	return 0;
}

REAL(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	if (!sim_runs())
		return __real_pthread_cond_broadcast(cond);
	(void)sim_wake(SIM_COND_WAKE, cond, UINT_MAX, HERE);
	return 0;
}

/* The C library's would wait for sleepers that it does not have. */
REAL(int, pthread_cond_destroy, pthread_cond_t *cond)
{
	return sim_runs() ? 0 : __real_pthread_cond_destroy(cond);
}

static int take(sem_t *sem, uint64_t time, const void *pc)
{
	sim_step(SIM_SEM, sem, pc);
	while (sem_trywait(sem)) {
		if (!sim_sleep(SIM_SEM, sem, time, pc)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
	return 0;
}

REAL(int, sem_wait, sem_t *sem)
{
	return sim_runs() ? take(sem, SIM_NEVER, HERE) : __real_sem_wait(sem);
}

REAL(int, sem_timedwait, sem_t *sem, const struct timespec *ts)
{
	return sim_runs() ? take(sem, until(ts), HERE) : __real_sem_timedwait(sem, ts);
}

REAL(int, sem_post, sem_t *sem)
{
	int ret = __real_sem_post(sem);

	(void)sim_wake(SIM_SEM, sem, UINT_MAX, HERE);
	return ret;
}

/* A barrier's memory is ours: how many it is for, how many came, which round. */
struct barrier {
	unsigned nr, came, round;
};

REAL(int, pthread_barrier_init, pthread_barrier_t *b, const pthread_barrierattr_t *attr, unsigned nr)
{
	if (!sim_runs())
		return __real_pthread_barrier_init(b, attr, nr);
	*(struct barrier *)b = (struct barrier){ .nr = nr };
	return nr ? 0 : EINVAL;
}

REAL(int, pthread_barrier_destroy, pthread_barrier_t *b)
{
	return sim_runs() ? 0 : __real_pthread_barrier_destroy(b);
}

REAL(int, pthread_barrier_wait, pthread_barrier_t *barrier)
{
	struct barrier *b = (struct barrier *)barrier;
	unsigned round;

	if (!sim_runs())
		return __real_pthread_barrier_wait(barrier);
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

/* What all threads sleep on that wait for a file: each write has them look again. */
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

REAL(int, poll, struct pollfd *fds, nfds_t nr, int ms)
{
	return sim_runs() ? poll_until(fds, nr, after_ms(ms), HERE) : __real_poll(fds, nr, ms);
}

REAL(int, ppoll, struct pollfd *fds, nfds_t nr, const struct timespec *ts, const sigset_t *signals)
{
	return sim_runs() ? poll_until(fds, nr, ts ? after(ns_of(ts)) : SIM_NEVER, HERE) :
			    __real_ppoll(fds, nr, ts, signals);
}

REAL(int, epoll_wait, int fd, struct epoll_event *events, int nr, int ms)
{
	uint64_t time;
	int ret;

	if (!sim_runs())
		return __real_epoll_wait(fd, events, nr, ms);
	time = after_ms(ms);
	sim_step(SIM_FD, &files, HERE);
	while (!(ret = __real_epoll_wait(fd, events, nr, 0)) && sim_sleep(SIM_FD, &files, time, HERE))
		;
	return ret;
}

static void await_file(int fd, short events, const void *pc)
{
	struct pollfd p = { .fd = fd, .events = events };
	int flags;

	if (!sim_runs())
		return;
	flags = fcntl(fd, F_GETFL);
	sim_step(SIM_FD, &files, pc);
	while (flags >= 0 && !(flags & O_NONBLOCK) && !__real_poll(&p, 1, 0))
		(void)sim_sleep(SIM_FD, &files, SIM_NEVER, pc);
}

/* The result of a call that changes what others wait for. */
static ssize_t moved(ssize_t result, const void *pc)
{
	(void)sim_wake(SIM_FD, &files, UINT_MAX, pc);
	return result;
}

REAL(ssize_t, read, int fd, void *to, size_t size)
{
	await_file(fd, POLLIN, HERE);
	return moved(__real_read(fd, to, size), HERE);
}

REAL(ssize_t, write, int fd, const void *from, size_t size)
{
	await_file(fd, POLLOUT, HERE);
	return moved(__real_write(fd, from, size), HERE);
}

REAL(ssize_t, recv, int fd, void *to, size_t size, int flags)
{
	if (!(flags & MSG_DONTWAIT))
		await_file(fd, POLLIN, HERE);
	return moved(__real_recv(fd, to, size, flags), HERE);
}

REAL(ssize_t, send, int fd, const void *from, size_t size, int flags)
{
	if (!(flags & MSG_DONTWAIT))
		await_file(fd, POLLOUT, HERE);
	return moved(__real_send(fd, from, size, flags), HERE);
}

REAL(int, accept4, int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	await_file(fd, POLLIN, HERE);
	return __real_accept4(fd, address, size, flags);
}

REAL(int, connect, int fd, const struct sockaddr *address, socklen_t size)
{
	return (int)moved(__real_connect(fd, address, size), HERE);
}

REAL(int, close, int fd)
{
	return (int)moved(__real_close(fd), HERE);
}

/* ---- the end ---------------------------------------------------------------------- */

/* What fails tells how it came to that. */
REAL(_Noreturn void, abort, void)
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
