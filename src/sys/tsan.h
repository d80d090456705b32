/* SPDX-License-Identifier: MIT */
/*
 * What ThreadSanitizer is told of the library's ordering.
 *
 * DESIGN
 *	A user builds a program with -fsanitize=thread, and links the ordinary library.
 *	ThreadSanitizer sees the program's accesses then, and not the library's atomics: it would
 *	report a race between a thread that submits a job and the worker that runs the job.  So the
 *	library tells it where one thread hands something to another one.  The first thread calls
 *	a release at an address, and then the second one an acquire at that address.
 *	Only an order that a user may rely on is told, at the address of the thing itself: a job, a
 *	latch, a barrier, a slot.  So a race of the user's own is reported as ever.
 *	Without ThreadSanitizer a call is a look at one byte.
 *	A library that is itself built with -fsanitize=thread shows its atomics, and must not hide
 *	that one is missing: there the calls do nothing.
 *	docs/memory-order.md lists the calls.
 */
#ifndef RNL_TSAN_H
#define RNL_TSAN_H

#include <stdbool.h>

#if defined(__SANITIZE_THREAD__)
#define RNL__TSAN_BUILD 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RNL__TSAN_BUILD 1
#endif
#endif

#ifdef RNL__TSAN_BUILD
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define rnl__tsan_runs false
#define rnl__tsan_release(at) ((void)(at))
#define rnl__tsan_acquire(at) ((void)(at))
#else

/* Whether ThreadSanitizer is in the process. */
extern bool rnl__tsan_runs __attribute__((visibility("hidden")));

__attribute__((cold)) void rnl__tsan_tell_release(const volatile void *at);
__attribute__((cold)) void rnl__tsan_tell_acquire(const volatile void *at);

/* What this thread did comes before what a thread does after its acquire at this address; NULL: nothing. */
static inline void rnl__tsan_release(const volatile void *at)
{
	if (__builtin_expect(rnl__tsan_runs, false))
		rnl__tsan_tell_release(at);
}

static inline void rnl__tsan_acquire(const volatile void *at)
{
	if (__builtin_expect(rnl__tsan_runs, false))
		rnl__tsan_tell_acquire(at);
}

#endif
#endif
