/* SPDX-License-Identifier: MIT */
/* A worker's queue: order, bound, closing, stealing, many putters and takers. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "queue.h"
#include "suite.h"

static struct rnl__queue q;
static struct rnl_job jobs[64];

/* As a submit does it. */
static int put(struct rnl_job *job, bool keyed)
{
	int ret = rnl__queue_reserve(&q, 1);

	job->flags = keyed ? RNL__JOB_KEYED : 0;
	if (ret == 1)
		rnl__queue_put(&q, job);
	return ret;
}

START_TEST(each_lane_is_first_in_first_out)
{
	rnl__queue_init(&q, 64);
	ck_assert_ptr_null(rnl__queue_take(&q));
	for (unsigned i = 0; i < 32; i++)
		ck_assert_int_eq(put(&jobs[i], i & 1), 1);
	ck_assert(rnl__queue_holds(&q));
	ck_assert_uint_eq(rnl__queue_length(&q), 32);
	for (unsigned next[2] = { 0, 1 }, i = 0; i < 32; i++) {
		struct rnl_job *job = rnl__queue_take(&q);
		unsigned lane;

		ck_assert_ptr_nonnull(job);
		lane = (unsigned)(job - jobs) & 1;
		ck_assert_ptr_eq(job, &jobs[next[lane]]);
		next[lane] += 2;
	}
	ck_assert(!rnl__queue_holds(&q));
	ck_assert_ptr_null(rnl__queue_take(&q));
	ck_assert_uint_eq(rnl__queue_length(&q), 0);
}
END_TEST

START_TEST(neither_lane_starves_the_other)
{
	unsigned keyed = 0;

	rnl__queue_init(&q, 64);
	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(put(&jobs[i], i < 20), 1);
	for (unsigned i = 0; i < 20; i++)
		keyed += rnl__queue_take(&q) < &jobs[20];
	ck_assert_uint_eq(keyed, 10);
}
END_TEST

START_TEST(only_the_open_lane_is_stolen_from)
{
	rnl__queue_init(&q, 64);
	ck_assert_int_eq(put(&jobs[0], true), 1);
	ck_assert(rnl__queue_holds(&q));
	ck_assert(!rnl__queue_stealable(&q));
	ck_assert_ptr_null(rnl__queue_steal(&q));
	ck_assert_int_eq(put(&jobs[1], false), 1);
	ck_assert(rnl__queue_stealable(&q));
	ck_assert_ptr_eq(rnl__queue_steal(&q), &jobs[1]);
	ck_assert_ptr_null(rnl__queue_steal(&q));
	ck_assert_ptr_eq(rnl__queue_take(&q), &jobs[0]);
}
END_TEST

START_TEST(the_bound_is_exact_and_moves_with_what_is_taken)
{
	rnl__queue_init(&q, 8);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(put(&jobs[i], i & 1), 1);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(rnl__queue_reserve(&q, 1), -EAGAIN);
	ck_assert_ptr_nonnull(rnl__queue_take(&q));
	ck_assert_ptr_nonnull(rnl__queue_take(&q));
	ck_assert_int_eq(put(&jobs[8], false), 1);
	ck_assert_int_eq(put(&jobs[9], false), 1);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -EAGAIN);
	ck_assert_uint_eq(rnl__queue_accepted(&q), 10);
}
END_TEST

START_TEST(a_chain_takes_the_room_there_is_and_keeps_its_order)
{
	struct rnl_job *chain[16];

	for (unsigned i = 0; i < 16; i++)
		chain[i] = &jobs[i];
	rnl__queue_init(&q, 10);
	ck_assert_int_eq(put(&jobs[20], false), 1);
	ck_assert_int_eq(rnl__queue_reserve(&q, 16), 9);
	rnl__queue_put_chain(&q, chain, 9);
	ck_assert_int_eq(rnl__queue_reserve(&q, 4), -EAGAIN);
	ck_assert_ptr_eq(rnl__queue_take(&q), &jobs[20]);
	for (unsigned i = 0; i < 9; i++)
		ck_assert_ptr_eq(rnl__queue_take(&q), &jobs[i]);
	ck_assert(!rnl__queue_holds(&q));
}
END_TEST

START_TEST(a_closed_queue_refuses_and_gives_what_it_has)
{
	rnl__queue_init(&q, 8);
	ck_assert_int_eq(put(&jobs[0], false), 1);
	rnl__queue_close(&q);
	rnl__queue_close(&q);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -ESHUTDOWN);
	ck_assert_int_eq(rnl__queue_reserve(&q, 5), -ESHUTDOWN);
	ck_assert_uint_eq(rnl__queue_accepted(&q), 1);
	ck_assert_ptr_eq(rnl__queue_take(&q), &jobs[0]);
}
END_TEST

/* ---- many threads -------------------------------------------------------- */

#define NR_PUTTERS 3
#define NR_TAKERS 3		/* the owner, who takes, and thieves */

struct item {
	struct rnl_job job;
	unsigned putter, number;
	unsigned taken;		/* plain: TSan sees two takers */
};

static struct item *items[NR_PUTTERS];
static unsigned nr_items;
static _Atomic unsigned nr_taken, nr_put;
static _Atomic bool closed;

static void *putter_main(void *arg)
{
	unsigned putter = (unsigned)(uintptr_t)arg, i;

	for (i = 0; i < nr_items; i++) {
		struct item *item = &items[putter][i];
		int ret;

		item->putter = putter;
		item->number = i;
		while ((ret = rnl__queue_reserve(&q, 1)) == -EAGAIN)
			sched_yield();
		if (ret != 1)
			break;
		item->job.flags = i % 4 == 0 ? RNL__JOB_KEYED : 0;
		rnl__queue_put(&q, &item->job);
		atomic_fetch_add(&nr_put, 1);
	}
	return NULL;
}

static void *taker_main(void *arg)
{
	bool owner = !arg;
	unsigned last[NR_PUTTERS] = { 0 };

	/* Closed and counted: what was accepted must come, to the last one. */
	while (!atomic_load(&closed) || atomic_load(&nr_taken) < rnl__queue_accepted(&q)) {
		struct rnl_job *job = owner ? rnl__queue_take(&q) : rnl__queue_steal(&q);
		struct item *item;

		if (!job) {
			sched_yield();
			continue;
		}
		item = rnl_container_of(job, struct item, job);
		item->taken++;
		if (item->number % 4 == 0) {
			/* Keyed: the owner's, in order. */
			ck_assert(owner);
			ck_assert(item->number == 0 || item->number > last[item->putter]);
			last[item->putter] = item->number;
		}
		atomic_fetch_add(&nr_taken, 1);
	}
	return NULL;
}

static void many_threads(unsigned nr, bool close_early)
{
	pthread_t putters[NR_PUTTERS], takers[NR_TAKERS];
	unsigned total = 0;

	rnl__queue_init(&q, 256);
	nr_items = nr;
	atomic_store(&nr_taken, 0);
	atomic_store(&nr_put, 0);
	atomic_store(&closed, false);
	for (uintptr_t i = 0; i < NR_PUTTERS; i++) {
		items[i] = calloc(nr, sizeof(struct item));
		ck_assert_ptr_nonnull(items[i]);
		ck_assert_int_eq(pthread_create(&putters[i], NULL, putter_main, (void *)i), 0);
	}
	for (uintptr_t i = 0; i < NR_TAKERS; i++)
		ck_assert_int_eq(pthread_create(&takers[i], NULL, taker_main, (void *)i), 0);
	if (close_early) {
		while (atomic_load(&nr_taken) < nr / 4)
			sched_yield();
		rnl__queue_close(&q);
	}
	for (unsigned i = 0; i < NR_PUTTERS; i++)
		ck_assert_int_eq(pthread_join(putters[i], NULL), 0);
	atomic_store(&closed, true);
	for (unsigned i = 0; i < NR_TAKERS; i++)
		ck_assert_int_eq(pthread_join(takers[i], NULL), 0);
	ck_assert_uint_eq(atomic_load(&nr_put), rnl__queue_accepted(&q));
	ck_assert_uint_eq(atomic_load(&nr_taken), atomic_load(&nr_put));
	for (unsigned p = 0; p < NR_PUTTERS; p++) {
		for (unsigned i = 0; i < nr; i++) {
			ck_assert_uint_le(items[p][i].taken, 1);
			total += items[p][i].taken;
		}
		free(items[p]);
	}
	ck_assert_uint_eq(total, atomic_load(&nr_taken));
	if (!close_early)
		ck_assert_uint_eq(total, NR_PUTTERS * nr);
}

START_TEST(what_many_put_many_take_once)
{
	many_threads(100000, false);
}
END_TEST

START_TEST(what_is_accepted_beside_a_close_is_taken)
{
	for (unsigned i = 0; i < 20; i++)
		many_threads(4000, true);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("unit_queue");
	TCase *tc = tcase_create("queue");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, each_lane_is_first_in_first_out);
	tcase_add_test(tc, neither_lane_starves_the_other);
	tcase_add_test(tc, only_the_open_lane_is_stolen_from);
	tcase_add_test(tc, the_bound_is_exact_and_moves_with_what_is_taken);
	tcase_add_test(tc, a_chain_takes_the_room_there_is_and_keeps_its_order);
	tcase_add_test(tc, a_closed_queue_refuses_and_gives_what_it_has);
	tcase_add_test(tc, what_many_put_many_take_once);
	tcase_add_test(tc, what_is_accepted_beside_a_close_is_taken);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
