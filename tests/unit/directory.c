/* SPDX-License-Identifier: MIT */
/* Names that outlive their pools. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "await.h"
#include "pool/directory.h"
#include "seed.h"

/* To the directory, a pool is only an address. */
struct stand_in {
	_Atomic bool there;
};

static struct rnl_pool *as_pool(struct stand_in *stand_in)
{
	return (struct rnl_pool *)stand_in;
}

static bool is_there(struct rnl_pool *pool)
{
	return ((struct stand_in *)pool)->there;
}

TEST(a_name_leads_to_its_pool_until_that_has_ended)
{
	struct stand_in one = { true }, two = { true };
	struct rnl__name first, second;
	struct rnl_pool *pool;

	must(rnl__directory_enter(as_pool(&one), &first));
	must(rnl__directory_pin(first, &pool));
	ck_assert_ptr_eq(pool, as_pool(&one));
	rnl__directory_unpin(first);
	rnl__directory_leave(first);
	must(rnl__directory_enter(as_pool(&two), &second));
	ck_assert_int_eq(rnl__directory_pin(first, &pool), -ESTALE);
	must(rnl__directory_pin(second, &pool));
	ck_assert_ptr_eq(pool, as_pool(&two));
	rnl__directory_unpin(second);
	rnl__directory_leave(second);
}

TEST(there_may_be_many_and_a_name_that_never_was_leads_nowhere)
{
	enum { NR = 1000 };
	static struct stand_in pools[NR];
	static struct rnl__name names[NR];
	struct rnl__name wrong[] = { { 0, 0 }, { 0, 2 }, { NR + 100, 1 }, { UINT32_MAX, 1 }, { 3, UINT32_MAX } };
	struct rnl_pool *pool;

	for (int i = 0; i < NR; i++)
		must(rnl__directory_enter(as_pool(&pools[i]), &names[i]));
	for (int i = 0; i < NR; i++) {
		must(rnl__directory_pin(names[i], &pool));
		ck_assert_ptr_eq(pool, as_pool(&pools[i]));
		rnl__directory_unpin(names[i]);
	}
	for (size_t i = 0; i < COUNT(wrong); i++)
		ck_assert_int_eq(rnl__directory_pin(wrong[i], &pool), -EINVAL);
	for (int i = 0; i < NR; i++)
		rnl__directory_leave(names[i]);
}

struct late {
	_Atomic uint64_t name;		/* the last name */
	_Atomic bool over;
	_Atomic unsigned found;
};

static struct rnl__name name_of(uint64_t word)
{
	return (struct rnl__name){ (uint32_t)word, (uint32_t)(word >> 32) };
}

static int pin_again_and_again(void *arg)
{
	struct late *late = arg;

	while (!late->over) {
		struct rnl__name name = name_of(late->name);
		struct rnl_pool *pool;

		if (rnl__directory_pin(name, &pool))
			continue;
		ck_assert(is_there(pool));
		late->found++;
		rnl__directory_unpin(name);
	}
	return 0;
}

TEST(no_pool_ends_while_a_thread_has_it, .timeout_s = 60)
{
	enum { THREADS = 3 };
	struct call calls[THREADS];
	struct late late = { 0 };

	for (int i = 0; i < THREADS; i++)
		call_start(&calls[i], pin_again_and_again, &late);
	for (unsigned round = rounds_of(200000); round; round--) {
		struct stand_in *pool = malloc(sizeof(*pool));
		struct rnl__name name;

		pool->there = true;
		must(rnl__directory_enter(as_pool(pool), &name));
		late.name = (uint64_t)name.epoch << 32 | name.entry;
		if (round % 4 == 0)
			sched_yield();
		rnl__directory_leave(name);
		pool->there = false;
		free(pool);
	}
	late.over = true;
	for (int i = 0; i < THREADS; i++)
		must(call_end(&calls[i]));
}
