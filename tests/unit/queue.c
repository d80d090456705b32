/* SPDX-License-Identifier: MIT */
/* A worker's queue: order, limit, closing, stealing, several putters and takers. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "stream/job_flags.h"
#include "pool/queue.h"
#include "pool/scan.h"
#include "suite.h"

static struct rnl__queue q;
static struct rnl_job jobs[64];

static void queue_in(bool places, uint64_t limit)
{
	rnl__queue_init(&q, places);
	rnl__queue_bound(&q, limit);
	rnl__queue_open_lane(&q, 0);
	rnl__queue_serve(&q);
}

/* Makes a serving worker's queue that holds @limit jobs. */
static void queue_of(uint64_t limit)
{
	queue_in(false, limit);
}

/* Puts a job like a submit does. */
static void put_flagged(struct rnl_job *job, uint32_t flags)
{
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), 1);
	job->flags = flags;
	rnl__queue_put(&q, job);
}

static void put(struct rnl_job *job, bool keyed)
{
	put_flagged(job, keyed ? RNL__JOB_KEYED : 0);
}

#define ck_takes(job) ck_assert_ptr_eq(rnl__queue_take(&q, 0), job)

TEST(each_lane_is_first_in_first_out, .timeout_s = 60)
{
	queue_of(64);
	ck_takes(NULL);
	for (unsigned i = 0; i < 32; i++)
		put(&jobs[i], i & 1);
	ck_assert(rnl__queue_holds(&q, 0));
	ck_assert_uint_eq(rnl__queue_length(&q), 32);
	for (unsigned next[2] = { 0, 1 }, i = 0; i < 32; i++) {
		struct rnl_job *job = rnl__queue_take(&q, 0);
		unsigned lane;

		ck_assert_ptr_nonnull(job);
		lane = (unsigned)(job - jobs) & 1;
		ck_assert_ptr_eq(job, &jobs[next[lane]]);
		next[lane] += 2;
	}
	ck_assert(!rnl__queue_holds(&q, 0));
	ck_takes(NULL);
	ck_assert_uint_eq(rnl__queue_length(&q), 0);
}

TEST(no_lane_starves_the_other, .timeout_s = 60)
{
	unsigned keyed = 0;

	queue_of(64);
	for (unsigned i = 0; i < 40; i++)
		put(&jobs[i], i < 20);
	for (unsigned i = 0; i < 20; i++)
		keyed += rnl__queue_take(&q, 0) < &jobs[20];
	ck_assert_uint_eq(keyed, 10);
}

TEST(a_barriers_next_job_is_taken_if_nothing_goes_before_it, .timeout_s = 60)
{
	struct rnl_barrier ours, other;

	queue_of(64);
	ck_assert_ptr_null(rnl__queue_take_of(&q, &ours, 0, 0));
	for (unsigned i = 0; i < 3; i++) {
		jobs[i].barrier = i == 2 ? &other : &ours;
		put(&jobs[i], false);
	}
	ck_assert_ptr_null(rnl__queue_take_of(&q, &other, 0, 0));
	ck_assert_ptr_eq(rnl__queue_take_of(&q, &ours, 0, 0), &jobs[0]);
	/* The next job is of the barrier's next round. */
	rnl__job_set_round(&jobs[1], 1);
	ck_assert_ptr_null(rnl__queue_take_of(&q, &ours, 0, 0));
	rnl__job_set_round(&jobs[1], 0);
	/* A keyed job keeps its place, even if it is one of the barrier. */
	jobs[3].barrier = &ours;
	put(&jobs[3], true);
	ck_assert_ptr_null(rnl__queue_take_of(&q, &ours, 0, 0));
	while (rnl__queue_holds(&q, 0))
		ck_assert_ptr_nonnull(rnl__queue_take(&q, 0));
	/* A notice is taken first. */
	put(&jobs[0], false);
	jobs[4].barrier = &ours;
	put_flagged(&jobs[4], RNL__JOB_FIRST);
	ck_assert_ptr_null(rnl__queue_take_of(&q, &ours, 0, 0));
	ck_takes(&jobs[4]);
	ck_assert_ptr_eq(rnl__queue_take_of(&q, &ours, 0, 0), &jobs[0]);
	ck_assert_uint_eq(rnl__queue_length(&q), 0);
}

TEST(only_the_open_lane_is_stolen_from, .timeout_s = 60)
{
	queue_of(64);
	put(&jobs[0], true);
	ck_assert(rnl__queue_holds(&q, 0));
	ck_assert(!rnl__queue_stealable(&q, false));
	ck_assert_ptr_null(rnl__queue_steal(&q, false));
	put(&jobs[1], false);
	ck_assert(rnl__queue_stealable(&q, false));
	ck_assert_ptr_eq(rnl__queue_steal(&q, false), &jobs[1]);
	ck_assert_ptr_null(rnl__queue_steal(&q, false));
	ck_takes(&jobs[0]);
}

/* ---- several devices -------------------------------------------------------- */

TEST(only_workers_of_the_device_take_jobs_placed_on_it, .timeout_s = 60)
{
	/* A notice may be placed or not. */
	static const uint32_t flags[] = { RNL__JOB_PLACED, RNL__JOB_PLACED | RNL__JOB_FIRST,
					  RNL__JOB_FIRST };

	for (unsigned i = 0; i < COUNT(flags); i++) {
		queue_in(true, 64);
		put_flagged(&jobs[0], flags[i]);
		ck_assert(rnl__queue_holds(&q, 0));
		ck_assert(rnl__queue_holds_placed(&q));
		ck_assert(!rnl__queue_stealable(&q, false));
		ck_assert_ptr_null(rnl__queue_steal(&q, false));
		ck_assert(rnl__queue_stealable(&q, true));
		ck_assert_ptr_eq(rnl__queue_steal(&q, true), &jobs[0]);
		ck_assert(!rnl__queue_holds_placed(&q));
		ck_assert_uint_eq(rnl__queue_length(&q), 0);
		/* The queue's owner is on the device. */
		put_flagged(&jobs[0], flags[i]);
		ck_takes(&jobs[0]);
		ck_assert_uint_eq(rnl__queue_taken(&q), 2);
	}
}

/* In a pool of one device there is no lane for placed jobs. */
TEST(a_queue_without_places_takes_a_placed_job_for_an_open_one, .timeout_s = 60)
{
	queue_of(64);
	put_flagged(&jobs[0], RNL__JOB_PLACED);
	ck_assert(!rnl__queue_holds_placed(&q));
	ck_assert_ptr_eq(rnl__queue_steal(&q, false), &jobs[0]);
}

static struct rnl_job *take_next(void)
{
	return rnl__queue_take(&q, 0);
}

static struct rnl_job *steal_next(void)
{
	return rnl__queue_steal(&q, true);
}

/* Of 40 jobs, half are placed; of the first 20 taken jobs, half are placed, too. */
static void no_lane_starves(struct rnl_job *(*take)(void))
{
	unsigned placed = 0;

	queue_in(true, 64);
	for (unsigned i = 0; i < 40; i++)
		put_flagged(&jobs[i], i < 20 ? RNL__JOB_PLACED : 0);
	for (unsigned i = 0; i < 20; i++)
		placed += take() < &jobs[20];
	ck_assert_uint_eq(placed, 10);
}

TEST(placed_jobs_and_others_do_not_starve_each_other, .timeout_s = 60)
{
	no_lane_starves(take_next);
	no_lane_starves(steal_next);
}

TEST(a_placed_job_goes_before_a_barriers_next_one, .timeout_s = 60)
{
	struct rnl_barrier ours;

	queue_in(true, 64);
	jobs[0].barrier = jobs[1].barrier = &ours;
	put_flagged(&jobs[0], 0);
	put_flagged(&jobs[1], RNL__JOB_PLACED);
	ck_assert_ptr_null(rnl__queue_take_of(&q, &ours, 0, 0));
	while (rnl__queue_holds_placed(&q))
		ck_assert_ptr_nonnull(rnl__queue_take(&q, 0));
	jobs[0].barrier = jobs[1].barrier = NULL;
}

TEST(the_bound_is_exact_and_moves_with_what_is_taken, .timeout_s = 60)
{
	queue_of(8);
	for (unsigned i = 0; i < 8; i++)
		put(&jobs[i], i & 1);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(rnl__queue_reserve(&q, 1), -EAGAIN);
	ck_assert_ptr_nonnull(rnl__queue_take(&q, 0));
	ck_assert_ptr_nonnull(rnl__queue_take(&q, 0));
	put(&jobs[8], false);
	put(&jobs[9], false);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -EAGAIN);
	ck_assert_uint_eq(rnl__queue_accepted(&q), 10);
}

TEST(a_row_takes_the_room_there_is_and_keeps_its_order, .timeout_s = 60)
{
	struct rnl_job *row[16];

	for (unsigned i = 0; i < 16; i++)
		row[i] = &jobs[i];
	queue_of(10);
	put(&jobs[20], false);
	ck_assert_int_eq(rnl__queue_reserve(&q, 16), 9);
	rnl__queue_put_row(&q, row, 9);
	ck_assert_int_eq(rnl__queue_reserve(&q, 4), -EAGAIN);
	ck_takes(&jobs[20]);
	for (unsigned i = 0; i < 9; i++)
		ck_takes(&jobs[i]);
	ck_assert(!rnl__queue_holds(&q, 0));
}

TEST(a_closed_queue_refuses_and_gives_what_it_has, .timeout_s = 60)
{
	queue_of(8);
	put(&jobs[0], false);
	rnl__queue_close(&q);
	rnl__queue_close(&q);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -ESHUTDOWN);
	ck_assert_int_eq(rnl__queue_reserve(&q, 5), -ESHUTDOWN);
	ck_assert_uint_eq(rnl__queue_accepted(&q), 1);
	ck_takes(&jobs[0]);
}

TEST(the_first_lane_goes_first_and_is_stolen_from, .timeout_s = 60)
{
	queue_of(8);
	put(&jobs[0], false);
	put(&jobs[1], true);
	for (unsigned i = 2; i < 6; i++)
		put_flagged(&jobs[i], RNL__JOB_FIRST);
	ck_assert(rnl__queue_stealable(&q, false));
	ck_takes(&jobs[2]);
	ck_assert_ptr_eq(rnl__queue_steal(&q, false), &jobs[3]);
	ck_assert_ptr_eq(rnl__queue_steal(&q, false), &jobs[4]);
	ck_takes(&jobs[5]);
	ck_assert_ptr_eq(rnl__queue_steal(&q, false), &jobs[0]);
	ck_assert(!rnl__queue_stealable(&q, false));
	ck_takes(&jobs[1]);
}

TEST(a_worker_that_is_away_refuses_but_gives_what_it_has, .timeout_s = 60)
{
	queue_of(8);
	put(&jobs[0], false);
	rnl__queue_leave(&q);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -ESTALE);
	ck_assert(!rnl__queue_reserve_accepted(&q));
	ck_assert_uint_eq(rnl__queue_length(&q), 1);
	ck_takes(&jobs[0]);
	ck_assert_uint_eq(rnl__queue_length(&q), 0);
	rnl__queue_serve(&q);
	put(&jobs[1], false);
	rnl__queue_leave(&q);
	rnl__queue_close(&q);
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), -ESHUTDOWN);
	ck_assert_uint_eq(rnl__queue_accepted(&q), 2);
}

TEST(an_accepted_job_has_space_in_a_full_or_closed_queue, .timeout_s = 60)
{
	queue_of(1);
	put(&jobs[0], false);
	for (unsigned i = 1; i < 4; i++) {
		ck_assert(rnl__queue_reserve_accepted(&q));
		rnl__queue_put(&q, &jobs[i]);
		if (i == 2)
			rnl__queue_close(&q);
	}
	ck_assert_uint_eq(rnl__queue_length(&q), 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_ptr_nonnull(rnl__queue_take(&q, 0));
	ck_assert_uint_eq(rnl__queue_length(&q), 0);
}

static int put_keyed(struct rnl_job *job, unsigned lane)
{
	ck_assert_int_eq(rnl__queue_reserve(&q, 1), 1);
	if (!rnl__queue_promise(&q, lane)) {
		rnl__queue_unreserve(&q, 1);
		return -ESTALE;
	}
	job->flags = RNL__JOB_KEYED;
	job->staff = lane;
	rnl__queue_put(&q, job);
	return 0;
}

TEST(a_keyed_lane_is_done_when_all_that_was_promised_is, .timeout_s = 60)
{
	queue_of(8);
	ck_assert_int_eq(put_keyed(&jobs[9], 1), -ESTALE);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(put_keyed(&jobs[i], 0), 0);
	rnl__queue_open_lane(&q, 1);
	ck_assert_int_eq(put_keyed(&jobs[3], 1), 0);
	rnl__queue_shut_lane(&q, 0);
	ck_assert_int_eq(put_keyed(&jobs[4], 0), -ESTALE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(!rnl__queue_lane_done(&q, 0));
		ck_takes(&jobs[i]);
		/* A taken job is not done. */
		ck_assert(!rnl__queue_lane_done(&q, 0));
		rnl__queue_keyed_done(&q, 0);
	}
	ck_assert(rnl__queue_lane_done(&q, 0));
	/* A take from this lane does not see the other lane's job. */
	ck_assert(!rnl__queue_holds(&q, 0));
	ck_takes(NULL);
	ck_assert_uint_eq(rnl__queue_length(&q), 1);
	ck_assert_ptr_eq(rnl__queue_take(&q, 1), &jobs[3]);
	rnl__queue_keyed_done(&q, 1);
	/* The lane is used again.  A thief that is two generations behind takes nothing. */
	rnl__queue_open_lane(&q, 2);
	ck_assert_int_eq(put_keyed(&jobs[5], 2), 0);
	rnl__queue_shut_lane(&q, 1);
	ck_assert(rnl__queue_lane_done(&q, 1));
	ck_takes(NULL);
	ck_takes(NULL);
	ck_assert_ptr_eq(rnl__queue_take(&q, 2), &jobs[5]);
}

/* ---- scans --------------------------------------------------------------- */

#define MANY 1000		/* more jobs than a scan visits in one piece */

static struct rnl_job many[MANY];

static bool pick_none(struct rnl__scan *scan, const struct rnl_job *job)
{
	(void)scan;
	(void)job;
	return false;
}

/* Picks jobs with a nonzero `key`. */
static bool pick_marked(struct rnl__scan *scan, const struct rnl_job *job)
{
	(void)scan;
	return job->key;
}

/* Scans the whole queue.  Returns the jobs that the scan took off. */
static struct rnl_job *scan_all(rnl__pick *pick)
{
	struct rnl__scan scan = { .queue = &q, .pick = pick };

	while (rnl__scan_on(&scan))
		;
	ck_assert(!scan.missed);
	return scan.picked;
}

TEST(a_scan_takes_out_what_it_picks_and_the_rest_keeps_its_order, .timeout_s = 60)
{
	/* Each subset of five jobs is picked: one bit for each. */
	for (unsigned picks = 0; picks < 32; picks++) {
		struct rnl_job *picked;

		queue_of(8);
		for (unsigned i = 0; i < 5; i++) {
			jobs[i].key = picks >> i & 1;
			put(&jobs[i], picks & 1);
		}
		ck_assert_ptr_null(scan_all(pick_none));
		picked = scan_all(pick_marked);
		ck_assert_uint_eq(rnl__queue_length(&q),
				  5 - (unsigned)__builtin_popcount(picks));
		put(&jobs[5], picks & 1);
		for (unsigned i = 0; i < 5; i++) {
			if (jobs[i].key) {
				ck_assert_ptr_eq(picked, &jobs[i]);
				picked = picked->link;
			} else {
				ck_takes(&jobs[i]);
			}
		}
		ck_assert_ptr_null(picked);
		ck_takes(&jobs[5]);
		ck_assert(!rnl__queue_holds(&q, 0));
		jobs[5].key = 0;
	}
}

TEST(a_scan_looks_at_placed_jobs, .timeout_s = 60)
{
	/* A notice may be placed or not. */
	static const uint32_t flags[] = { RNL__JOB_PLACED, RNL__JOB_PLACED | RNL__JOB_FIRST,
					  RNL__JOB_FIRST };

	for (unsigned i = 0; i < COUNT(flags); i++) {
		queue_in(true, 8);
		for (unsigned k = 0; k < 3; k++) {
			jobs[k].key = k == 1;
			put_flagged(&jobs[k], flags[i]);
		}
		ck_assert_ptr_eq(scan_all(pick_marked), &jobs[1]);
		ck_assert_uint_eq(rnl__queue_length(&q), 2);
		ck_takes(&jobs[0]);
		ck_takes(&jobs[2]);
		jobs[1].key = 0;
	}
}

TEST(a_scan_goes_on_where_it_was_while_jobs_are_taken, .timeout_s = 60)
{
	struct rnl__scan scan = { .queue = &q, .pick = pick_marked };
	unsigned taken = 0;

	queue_of(MANY);
	for (unsigned i = 0; i < MANY; i++) {
		many[i].key = i % 10 == 9;
		put(&many[i], false);
	}
	/* Takes fewer jobs than the scan has seen, then more.  A taker may reuse a job's memory. */
	while (rnl__scan_on(&scan)) {
		/* The scan passes lanes that are already empty. */
		for (unsigned i = 0; scan.nr && i < (taken ? 400 : 200); i++) {
			struct rnl_job *job = rnl__queue_take(&q, 0);

			if (!job)
				continue;
			memset(job, 0, sizeof(*job));
			taken++;
		}
	}
	ck_assert(!scan.missed);
	for (; scan.picked; scan.picked = scan.picked->link)
		taken += scan.picked->key == 1;
	while (rnl__queue_holds(&q, 0))
		taken += rnl__queue_take(&q, 0)->key == 0;
	ck_assert_uint_eq(taken, MANY);
}

TEST(a_lane_is_done_with_the_jobs_that_a_scan_took, .timeout_s = 60)
{
	queue_of(8);
	for (unsigned i = 0; i < 2; i++) {
		jobs[i].key = i;
		ck_assert_int_eq(put_keyed(&jobs[i], 0), 0);
	}
	rnl__queue_shut_lane(&q, 0);
	ck_assert_ptr_eq(scan_all(pick_marked), &jobs[1]);
	ck_takes(&jobs[0]);
	rnl__queue_keyed_done(&q, 0);
	ck_assert(!rnl__queue_lane_done(&q, 0));
	rnl__queue_keyed_removed(&q, 0);
	ck_assert(rnl__queue_lane_done(&q, 0));
}

TEST(the_earliest_time_is_kept, .timeout_s = 60)
{
	queue_of(8);
	ck_assert_uint_eq(rnl__queue_due(&q), UINT64_MAX);
	ck_assert(!rnl__queue_expect(&q, UINT64_MAX));
	ck_assert(rnl__queue_expect(&q, 7));
	ck_assert(!rnl__queue_expect(&q, 8));
	ck_assert(!rnl__queue_expect(&q, 7));
	ck_assert(rnl__queue_expect(&q, 3));
	ck_assert_uint_eq(rnl__queue_due(&q), 3);
	rnl__queue_forget_due(&q);
	ck_assert_uint_eq(rnl__queue_due(&q), UINT64_MAX);
}

/* ---- many threads -------------------------------------------------------- */

#define NR_PUTTERS 3
#define NR_TAKERS 3		/* takers: the owner, and thieves */

struct item {
	struct rnl_job job;
	unsigned putter, number;
	unsigned taken;		/* plain: ThreadSanitizer detects two takers */
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
		item->job.key = i % 8 > 5;	/* a scan takes it out, or a taker before */
		rnl__queue_put(&q, &item->job);
		nr_put++;
	}
	return NULL;
}

static void *taker_main(void *arg)
{
	bool owner = !arg;
	unsigned last[NR_PUTTERS] = { 0 };

	/* Closed and counted: all accepted jobs must arrive. */
	while (!closed || nr_taken < rnl__queue_accepted(&q)) {
		struct rnl_job *job = owner ? rnl__queue_take(&q, 0) : rnl__queue_steal(&q, false);
		struct item *item;

		if (!job) {
			sched_yield();
			continue;
		}
		item = rnl_container_of(job, struct item, job);
		item->taken++;
		if (item->number % 4 == 0) {
			/* Keyed jobs are taken by the owner, in order. */
			ck_assert(owner);
			ck_assert(item->number == 0 || item->number > last[item->putter]);
			last[item->putter] = item->number;
		}
		nr_taken++;
	}
	return NULL;
}

static void *scanner_main(void *arg)
{
	(void)arg;
	while (!closed || nr_taken < rnl__queue_accepted(&q)) {
		struct rnl__scan scan = { .queue = &q, .pick = pick_marked };
		struct rnl_job *job, *next;

		while (rnl__scan_on(&scan))
			;
		for (job = scan.picked; job; job = next) {
			next = job->link;
			rnl_container_of(job, struct item, job)->taken++;
			nr_taken++;
		}
		sched_yield();
	}
	return NULL;
}

static void many_threads(unsigned nr, bool close_early)
{
	pthread_t putters[NR_PUTTERS], takers[NR_TAKERS], walker;
	unsigned total = 0;

	queue_of(256);
	nr_items = nr;
	nr_taken = nr_put = 0;
	closed = false;
	for (uintptr_t i = 0; i < NR_PUTTERS; i++) {
		items[i] = calloc(nr, sizeof(struct item));
		ck_assert_ptr_nonnull(items[i]);
		must(pthread_create(&putters[i], NULL, putter_main, (void *)i));
	}
	for (uintptr_t i = 0; i < NR_TAKERS; i++)
		must(pthread_create(&takers[i], NULL, taker_main, (void *)i));
	must(pthread_create(&walker, NULL, scanner_main, NULL));
	if (close_early) {
		while (nr_taken < nr / 4)
			sched_yield();
		rnl__queue_close(&q);
	}
	for (unsigned i = 0; i < NR_PUTTERS; i++)
		must(pthread_join(putters[i], NULL));
	closed = true;
	for (unsigned i = 0; i < NR_TAKERS; i++)
		must(pthread_join(takers[i], NULL));
	must(pthread_join(walker, NULL));
	ck_assert_uint_eq(nr_put, rnl__queue_accepted(&q));
	ck_assert_uint_eq(nr_taken, nr_put);
	for (unsigned p = 0; p < NR_PUTTERS; p++) {
		for (unsigned i = 0; i < nr; i++) {
			ck_assert_uint_le(items[p][i].taken, 1);
			total += items[p][i].taken;
		}
		free(items[p]);
	}
	ck_assert_uint_eq(total, nr_taken);
	if (!close_early)
		ck_assert_uint_eq(total, NR_PUTTERS * nr);
}

TEST(each_job_that_many_put_is_taken_once, .timeout_s = 60)
{
	many_threads(100000, false);
}

TEST(jobs_accepted_during_a_close_are_taken, .timeout_s = 60)
{
	for (unsigned i = 0; i < 20; i++)
		many_threads(4000, true);
}
