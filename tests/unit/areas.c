/* SPDX-License-Identifier: MIT */
/* Lookups of device memory by address, during changes. */
#include <pthread.h>
#include <stdlib.h>

#include "device/areas.h"
#include "seed.h"
#include "suite.h"

enum { AREAS = 200, BYTES = 64, STEP = 100 };

static struct rnl__areas areas;
static char memory[AREAS * STEP];

static char *area(unsigned i)
{
	return memory + i * STEP;
}

static void begin(void)
{
	memset(&areas, 0, sizeof(areas));
	pthread_mutex_init(&areas.lock, NULL);
}

TEST(an_address_is_known_from_add_to_drop)
{
	uint64_t random = draws_of(test_seed(), 0);
	bool there[AREAS] = { false };

	begin();
	for (int round = 0; round < 20000; round++) {
		unsigned i = draw(&random, AREAS), at = draw(&random, STEP), bytes = 1 + draw(&random, BYTES);

		if (there[i])
			rnl__areas_drop(&areas, area(i));
		else
			rnl__areas_add(&areas, area(i), BYTES);
		there[i] = !there[i];
		i = draw(&random, AREAS);
		ck_assert_int_eq(rnl__areas_hold(&areas, area(i) + at, bytes),
				 there[i] && at + bytes <= BYTES);
	}
	ck_assert(!rnl__areas_hold(&areas, &areas, 1));
	rnl__areas_drop(&areas, memory + 1);
	rnl__areas_drop(&areas, &areas);
}

TEST(no_size_is_too_large_to_be_refused)
{
	begin();
	rnl__areas_add(&areas, area(0), BYTES);
	ck_assert(!rnl__areas_hold(&areas, area(0), SIZE_MAX));
	ck_assert(!rnl__areas_hold(&areas, area(0) + 1, SIZE_MAX));
	ck_assert(!rnl__areas_hold(&areas, area(0) + 1, SIZE_MAX - 1));
}

TEST(more_than_there_is_room_for_are_not_known)
{
	char *many = malloc((size_t)(RNL__AREAS_MAX + 1) * 2);

	ck_assert_ptr_nonnull(many);
	begin();
	for (unsigned i = 0; i <= RNL__AREAS_MAX; i++)
		rnl__areas_add(&areas, many + 2 * i, 1);
	ck_assert(rnl__areas_hold(&areas, many + 2 * (RNL__AREAS_MAX - 1), 1));
	ck_assert(!rnl__areas_hold(&areas, many + 2 * RNL__AREAS_MAX, 1));
	/* It was never added. */
	rnl__areas_drop(&areas, many + 2 * RNL__AREAS_MAX);
	rnl__areas_drop(&areas, many);
	rnl__areas_add(&areas, many + 2 * RNL__AREAS_MAX, 1);
	ck_assert(rnl__areas_hold(&areas, many + 2 * RNL__AREAS_MAX, 1));
	free(many);
}

/* ---- during changes ------------------------------------------------------------ */

static _Atomic bool over;

enum { SMALL = 10 };

/* The even areas are small and stay; the odd areas are added and dropped. */
static void *come_and_go(void *unused)
{
	uint64_t random = draws_of(1, 1);
	bool there[AREAS] = { false };

	while (!over) {
		unsigned i = draw(&random, AREAS / 2) * 2 + 1;

		if (there[i])
			rnl__areas_drop(&areas, area(i));
		else
			rnl__areas_add(&areas, area(i), BYTES);
		there[i] = !there[i];
	}
	return unused;
}

/* Runs until many lookups met a change, however rarely both threads have a CPU. */
TEST(a_reader_beside_a_change_knows_nothing_that_is_not_there, .timeout_s = 60)
{
	const unsigned enough = rounds_of(200000), most = 20000000;
	uint64_t random = draws_of(test_seed(), 2), before;
	unsigned known = 0, meanwhile = 0;
	pthread_t thread;

	begin();
	over = false;
	for (unsigned i = 0; i < AREAS; i += 2)
		rnl__areas_add(&areas, area(i), SMALL);
	ck_assert_int_eq(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	for (unsigned look = 0; look < most && meanwhile < enough; look++) {
		unsigned i = draw(&random, AREAS);

		before = areas.round;
		ck_assert(!rnl__areas_hold(&areas, area(i) + BYTES, 1));
		ck_assert(!rnl__areas_hold(&areas, area(i & ~1u) + SMALL, 1));
		known += rnl__areas_hold(&areas, area(i & ~1u), SMALL);
		meanwhile += areas.round != before;
	}
	over = true;
	pthread_join(thread, NULL);
	ck_assert_uint_gt(known, 0);
	for (unsigned i = 0; i < AREAS; i += 2)
		ck_assert(rnl__areas_hold(&areas, area(i), SMALL));
}
