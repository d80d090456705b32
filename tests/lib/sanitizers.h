/* SPDX-License-Identifier: MIT */
/* Options of the sanitizers for tests that do unusual things. */
#ifndef SANITIZERS_H
#define SANITIZERS_H

/*
 * Sets options that a test needs:
 * - malloc() returns NULL when it fails: allocator_may_return_null=1;
 * - a thread ends and is never joined: report_thread_leaks=0;
 * - a child of a process with threads starts threads: die_after_fork=0;
 * - such a child exits, and memory of the parent's threads looks like a leak: detect_leaks=0.
 * Without a sanitizer these functions are not called.
 */
#define SANITIZER_OPTIONS(options) \
	__attribute__((visibility("default"), used)) const char *__asan_default_options(void); \
	__attribute__((visibility("default"), used)) const char *__tsan_default_options(void); \
	const char *__asan_default_options(void) \
	{ \
		return options; \
	} \
	const char *__tsan_default_options(void) \
	{ \
		return options; \
	} \
	_Static_assert(1, "takes the semicolon")

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#endif
#endif
#ifndef THREAD_SANITIZED
#define THREAD_SANITIZED 0
#endif

/* GCC's ThreadSanitizer mistakes a thread of a forked child for a thread of the parent. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define NO_THREADS_AFTER_FORK 1
#else
#define NO_THREADS_AFTER_FORK 0
#endif

#endif /* SANITIZERS_H */
