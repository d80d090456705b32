/* SPDX-License-Identifier: MIT */
/*
 * The calls of the C library that runnel makes and that may fail.
 *
 * DESIGN
 *	The program wraps these calls (-Wl,--wrap=...).  So the archive's calls arrive here; the
 *	calls of the double, a shared object, do not.  Check is linked statically and wrapped as
 *	well; it does nothing while calls fail.
 *	Not wrapped: calls that cannot fail on Linux (pthread_mutex_init(), ...); read() and write()
 *	of an eventfd, whose failures have a meaning; pthread_key_create() and
 *	pthread_setspecific(), which a sanitizer calls before the counts begin.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cudart/fake_cudart.h"
#include "calls.h"

const struct call_names call_names[NR_CALL_KINDS] = {
	[CALL_MEMORY] = { "memory", ENOMEM },
	[CALL_THREAD] = { "thread", EAGAIN },
	[CALL_DESCRIPTOR] = { "descriptor", EMFILE },
	[CALL_MAPPING] = { "mmap", ENOMEM },
	[CALL_DISK] = { "disk", ENOSPC },
};

static _Atomic int failing = NR_CALL_KINDS;
static _Atomic long left;		/* number of calls until one fails */
static _Atomic bool all_after;
static _Atomic long nr_failed, memory, mappings, threads, detached;

void calls_fail(enum call_kind kind, long nth, bool all)
{
	nr_failed = 0;
	left = nth;
	all_after = all;
	failing = (int)kind;
}

long calls_stop(void)
{
	failing = NR_CALL_KINDS;
	return nr_failed;
}

static bool fails(enum call_kind kind)
{
	long nth;

	if (failing != (int)kind)
		return false;
	nth = atomic_fetch_sub(&left, 1);
	if (nth != 1 && !(nth < 1 && all_after))
		return false;
	nr_failed++;
	errno = call_names[kind].error;
	return true;
}

/* ---- memory ------------------------------------------------------------------ */

#define WRAPPED(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* A call that fails with @bad, or makes the real call. */
#define FAILS(kind, bad, type, name, real, ...) \
	WRAPPED(type, name, __VA_ARGS__) \
	{ \
		return fails(CALL_##kind) ? bad : real; \
	}

static void *counted(void *mem)
{
	memory += mem != NULL;
	return mem;
}

FAILS(MEMORY, NULL, void *, malloc, counted(__real_malloc(bytes)), size_t bytes)
FAILS(MEMORY, NULL, void *, calloc, counted(__real_calloc(nr, bytes)), size_t nr, size_t bytes)
FAILS(MEMORY, NULL, void *, aligned_alloc, counted(__real_aligned_alloc(alignment, bytes)),
      size_t alignment, size_t bytes)

WRAPPED(void *, realloc, void *mem, size_t bytes)
{
	void *larger = fails(CALL_MEMORY) ? NULL : __real_realloc(mem, bytes);

	memory += larger && !mem;
	return larger;
}

WRAPPED(void, free, void *mem)
{
	memory -= mem != NULL;
	__real_free(mem);
}

FAILS(MEMORY, NULL, void *, tsearch, __real_tsearch(key, root, compare),
      const void *key, void **root, int (*compare)(const void *a, const void *b))

/* The text that it makes is freed with free(). */
WRAPPED(FILE *, open_memstream, char **text, size_t *bytes)
{
	FILE *file = fails(CALL_MEMORY) ? NULL : __real_open_memstream(text, bytes);

	memory += file != NULL;
	return file;
}

FAILS(MEMORY, -1, int, setenv, __real_setenv(name, value, overwrite),
      const char *name, const char *value, int overwrite)

/* ---- threads, descriptors, mappings, the disk ----------------------------------- */

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
	void *arg)
{
	int ret = fails(CALL_THREAD) ? EAGAIN : __real_pthread_create(thread, attr, fn, arg);

	threads += !ret;
	return ret;
}

WRAPPED(int, pthread_join, pthread_t thread, void **result)
{
	int ret = __real_pthread_join(thread, result);

	threads -= !ret;
	return ret;
}

/* Workers of a failed device are detached, because they may never end. */
WRAPPED(int, pthread_detach, pthread_t thread)
{
	int ret = __real_pthread_detach(thread);

	detached += !ret;
	threads -= !ret;
	return ret;
}

FAILS(DESCRIPTOR, -1, int, eventfd, __real_eventfd(initial, flags), unsigned initial, int flags)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & O_CREAT)
		mode = va_arg(args, mode_t);
	va_end(args);
	return fails(CALL_DESCRIPTOR) ? -1 : __real_open(path, flags, mode);
}

FAILS(DESCRIPTOR, -1, int, socket, __real_socket(domain, type, protocol),
      int domain, int type, int protocol)
FAILS(DISK, -1, int, bind, __real_bind(fd, name, bytes),
      int fd, const struct sockaddr *name, socklen_t bytes)
FAILS(DISK, -1, int, listen, __real_listen(fd, backlog), int fd, int backlog)
FAILS(DESCRIPTOR, NULL, FILE *, fopen, __real_fopen(path, mode), const char *path, const char *mode)
FAILS(DESCRIPTOR, NULL, DIR *, opendir, __real_opendir(path), const char *path)

WRAPPED(void *, mmap, void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *mem = fails(CALL_MAPPING) ? MAP_FAILED :
					  __real_mmap(at, bytes, protection, flags, fd, offset);

	mappings += mem != MAP_FAILED;
	return mem;
}

WRAPPED(int, munmap, void *mem, size_t bytes)
{
	mappings--;
	return __real_munmap(mem, bytes);
}

FAILS(DISK, -1, int, fstat, __real_fstat(fd, st), int fd, struct stat *st)
FAILS(DISK, -1, int, ftruncate, __real_ftruncate(fd, bytes), int fd, off_t bytes)
FAILS(DISK, -1, ssize_t, pwrite, __real_pwrite(fd, buf, bytes, at),
      int fd, const void *buf, size_t bytes, off_t at)

/* ---- living objects -------------------------------------------------------------- */

#define DESCRIPTORS_MOST 64	/* a process with few descriptors gets the lowest */

static long nr_descriptors(void)
{
	long nr = 0;

	for (int fd = 0; fd < DESCRIPTORS_MOST; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

#pragma weak fake_alive

void living_now(struct living *living)
{
	struct fake_alive alive = { 0 };

	if (getenv("RNL_TEST_FAKE"))
		fake_alive(&alive);
	*living = (struct living){
		.memory = memory, .mappings = mappings,
		.descriptors = nr_descriptors(), .threads = threads, .detached = detached,
		.streams = alive.streams, .events = alive.events, .pools = alive.pools,
		.graphs = alive.graphs, .greens = alive.greens,
		.device_bytes = alive.device_bytes, .pinned_bytes = alive.pinned_bytes,
	};
}
