/* SPDX-License-Identifier: MIT */
/*
 * Time, in absolute nanoseconds of CLOCK_MONOTONIC.  A public function converts its timeout to a
 * deadline once.
 */
#ifndef RNL_CLOCK_H
#define RNL_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "sys/simulation.h"
#include "sys/thread.h"

#define RNL__NEVER UINT64_MAX

static inline uint64_t rnl__now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline struct timespec rnl__timespec(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u),
	};
}

static inline void rnl__nap(uint64_t ns)
{
	RNL__UNCANCELLED();
	const struct timespec ts = rnl__timespec(ns);

	nanosleep(&ts, NULL);
}

/* Returns the time of the kernel's last tick, some ms ago, at a quarter of rnl__now()'s cost. */
static inline uint64_t rnl__now_coarse(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t rnl__deadline(int64_t timeout_ns)
{
	uint64_t now;

	if (timeout_ns < 0)
		return RNL__NEVER;
	now = rnl__now();
	return (uint64_t)timeout_ns < RNL__NEVER - now ? now + (uint64_t)timeout_ns : RNL__NEVER;
}

/* Hints to the CPU that this thread spins. */
static inline void rnl__pause(void)
{
#if defined(RNL__SIMULATION)
	rnl__sim_pause();
#elif defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" ::: "memory");
#endif
}

#endif
