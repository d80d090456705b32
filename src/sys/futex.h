/* SPDX-License-Identifier: MIT */
/*
 * futex(2), process-private.  A wake uses only an address, so it may happen after the memory was
 * freed or reused.  Then it wakes an unrelated sleeper, which is harmless: every sleeper of runnel
 * checks its condition again.
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

/*
 * Sleeps while *word == value.  Returns 0, perhaps for no reason, or -ETIMEDOUT.  The kernel gets a
 * relative timeout because its clock may differ from the process's (libfaketime).
 */
static inline int rnl__futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline)
{
	const uint64_t now = deadline == RNL__NEVER ? 0 : rnl__now();
	const struct timespec ts = rnl__timespec(deadline > now ? deadline - now : 0);
	int saved = errno;
	long ret;

	ret = syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value,
		      deadline == RNL__NEVER ? NULL : &ts, NULL, 0);
	ret = ret < 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
	errno = saved;
	return (int)ret;
}

/* Wakes up to @nr sleepers.  Returns the number of sleepers woken. */
static inline long rnl__futex_wake(_Atomic uint32_t *word, int nr)
{
	int saved = errno;
	long woken = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, nr, NULL, NULL, 0);

	errno = saved;
	return woken > 0 ? woken : 0;
}

#endif
