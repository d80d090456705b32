/* SPDX-License-Identifier: MIT */
/* Small programs, run many thousand times each; weak.c has the design. */
#ifndef RNL_TESTS_WEAK_H
#define RNL_TESTS_WEAK_H

#include <stddef.h>
#include <stdint.h>

#define WEAK_THREADS 3

struct weak {
	void (*begin)(void);			/* runs before the threads */
	void (*thread[WEAK_THREADS])(void);	/* NULL: fewer threads */
	void (*end)(void);			/* runs when all threads have returned */
	void *memory;				/* shared by the threads; zero at the start */
	size_t bytes;
};

/* Runs a program @times, each in another order.  Returns the first error, or NULL. */
const char *weak_run(const struct weak *weak, unsigned times, uint64_t seed);

/* Reports that this run is wrong; does not return. */
_Noreturn void weak_wrong(const char *why);

#endif
