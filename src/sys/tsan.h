/* SPDX-License-Identifier: MIT */
/*
 * Reports the library's ordering to ThreadSanitizer.
 *
 * DESIGN
 *	If a user builds a program with -fsanitize=thread and links the ordinary library,
 *	ThreadSanitizer does not see the library's atomics.  It would report a race between a thread
 *	that submits a job and the job's worker.  So the library annotates each point where one
 *	thread passes something to another one: the first calls a release at an address, then the
 *	second an acquire at that address.
 *	Only an order that a user may rely on is annotated, at the address of the object: a job, a
 *	latch, a barrier, a slot.  So races in the user's program are still reported.
 *	Without ThreadSanitizer an annotation costs the read of one byte.
 *	In a library built with -fsanitize=thread the calls do nothing: they would hide a missing
 *	atomic.  docs/memory-order.md lists the calls.
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

/* True if ThreadSanitizer is in the process. */
extern bool rnl__tsan_runs __attribute__((visibility("hidden")));

__attribute__((cold)) void rnl__tsan_tell_release(const volatile void *at);
__attribute__((cold)) void rnl__tsan_tell_acquire(const volatile void *at);

/* Orders this thread's earlier accesses before a later acquire at @at; NULL: does nothing. */
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
