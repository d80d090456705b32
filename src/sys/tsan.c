/* SPDX-License-Identifier: MIT */
/* Calls of ThreadSanitizer, where it is in the process; tsan.h has the design. */
#include "config.h"

#include <stdint.h>

#include "sys/tsan.h"

#ifndef RNL__TSAN_BUILD

/* Its own, of a program that is built with it; else they are NULL. */
__attribute__((weak, visibility("default"))) void __tsan_acquire(void *addr);
__attribute__((weak, visibility("default"))) void __tsan_release(void *addr);

bool rnl__tsan_runs;

/* Before the constructors of a program that has the library's archive. */
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
