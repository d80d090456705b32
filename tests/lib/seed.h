/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that a seed reproduces: RNL_TEST_SEED, the simulated machine's seed, or a seed from the
 * clock.
 */
#ifndef SEED_H
#define SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns the seed that was given, or one from the clock. */
static inline uint64_t seed_choose(void)
{
	const char *given = getenv("RNL_TEST_SEED") ? getenv("RNL_TEST_SEED") : getenv("SIM_SEED");
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return given ? strtoull(given, NULL, 0) : (uint64_t)ts.tv_nsec * 2654435761u + 1;
}

/* Prints the seed, so a run can be repeated. */
static inline uint64_t test_seed(void)
{
	const uint64_t value = seed_choose();

	printf("RNL_TEST_SEED=%llu\n", (unsigned long long)value);
	fflush(stdout);
	return value;
}

/* Returns the initial state of generator @number for a seed. */
static inline uint64_t draws_of(uint64_t seed, uint64_t number)
{
	/* splitmix64's last step (Steele 2014): states of successive numbers are unrelated */
	uint64_t z = seed + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) | 1;
}

/* 0 to n - 1, by xorshift64 (Marsaglia 2003). */
static inline unsigned draw(uint64_t *state, unsigned n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned)(*state >> 33) % n;
}

#endif /* SEED_H */
