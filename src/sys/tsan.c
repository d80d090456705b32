/* SPDX-License-Identifier: MIT */
/* Calls ThreadSanitizer if it is in the process; tsan.h has the design. */
#include "config.h"

#include <stdint.h>

#include "sys/tsan.h"

#ifndef RNL__TSAN_BUILD

/* Defined in a program that is built with ThreadSanitizer; otherwise NULL. */
__attribute__((weak, visibility("default"))) void __tsan_acquire(void *addr);
__attribute__((weak, visibility("default"))) void __tsan_release(void *addr);

bool rnl__tsan_runs;

/* Runs before the constructors of a program that links the static library. */
__attribute__((constructor(101))) static void look(void)
{
	rnl__tsan_runs = __tsan_acquire && __tsan_release;
}

void rnl__tsan_tell_release(const volatile void *at)
{
	if (at)
		__tsan_release((void *)(uintptr_t)at);
}

void rnl__tsan_tell_acquire(const volatile void *at)
{
	if (at)
		__tsan_acquire((void *)(uintptr_t)at);
}

#endif
