/* SPDX-License-Identifier: MIT */
/*
 * futex(2), process-private.  A wake knows an address alone, so it may come after the memory was
 * freed or used again: then it wakes another sleeper for no reason.  Every sleeper of runnel looks
 * again when it wakes.
 */
#ifndef RNL_FUTEX_H
#define RNL_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/clock.h"

/* Sleeps while *word == value; 0, perhaps for no reason, or -ETIMEDOUT. */
static inline int rnl__futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline)
{
	const struct timespec ts = rnl__timespec(deadline);
	int saved = errno;
	long ret;

	/* WAIT_BITSET is the form that takes an absolute, monotonic deadline. */
	ret = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
		      deadline == RNL__NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
	ret = ret < 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
	errno = saved;
	return (int)ret;
}

/* Wakes up to @nr sleepers; how many it woke. */
static inline long rnl__futex_wake(_Atomic uint32_t *word, int nr)
{
	int saved = errno;
	long woken = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, nr, NULL, NULL, 0);

	errno = saved;
	return woken > 0 ? woken : 0;
}

#endif
