/* SPDX-License-Identifier: MIT */
/*
 * What the programs of make bench and make bench-gpu have in common: messages, a
 * process for each measurement, medians, options, JSON.
 *
 * For C and C++.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_EXIT_USAGE 2

#if defined(__SANITIZE_THREAD__)
#define BENCH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BENCH_TSAN 1
#endif
#endif

/* The program's, in front of what it has to say. */
extern const char *const bench_name;

static inline uint64_t bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* For who looks at a word again and again. */
static inline void bench_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

/* ---- bench_child.c ------------------------------------------------------- */

/* Ends the process when a call did not do what it was to do. */
void bench_must(int good, const char *what);

/* Zeroed memory that begins on a cache line; for free(). */
void *bench_alloc(size_t bytes);

/*
 * Runs fn() in a process of its own, which writes what it finds to @out, a pipe.  The
 * parent makes no thread, so fork() is enough.
 * @taken: gets what comes through the pipe, piece by piece, @bytes each.
 * @patience_s: then the child hangs, and is ended.
 * Return: NULL it came to a good end; else what it did instead, and @nr.
 */
const char *bench_child(void (*fn)(void *arg, int out), void (*taken)(void *arg, void *piece),
			void *arg, size_t bytes, unsigned patience_s, int *nr);

/* In the child: a piece for the parent. */
void bench_tell(int out, const void *piece, size_t bytes);

/* ---- bench_values.c ------------------------------------------------------ */

struct bench_summary {
	double median, min, max;
};

/* Sorts them. */
struct bench_summary bench_summary(double *values, size_t nr);

/* The smallest that so many of a hundred are not above; sorts them. */
double bench_percentile(double *values, size_t nr, unsigned percent);

/* ---- bench_options.c ----------------------------------------------------- */

/* Tells what is wrong with the command line; BENCH_EXIT_USAGE. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_usage(const char *format, ...);
__attribute__((noreturn)) void bench_try_help(void);

/* Prints the help; exits. */
__attribute__((noreturn)) void bench_help(const char *text);

/* Return: the number that arg begins with, from 1 to max, or 0; *end is behind it. */
unsigned long bench_number_at(const char *arg, unsigned long max, char **end);
unsigned long bench_number(const char *option, const char *arg, unsigned long max);

/* Sets those of the names that the list has; @name: NULL behind the last one. */
void bench_names(const char *option, const char *arg, bool *set, const char *(*name)(unsigned));

#ifdef __cplusplus
}
#endif
#endif
