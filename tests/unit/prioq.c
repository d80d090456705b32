/* SPDX-License-Identifier: MIT */
/* A priority queue of jobs: it is compared with a list, and several threads use it. */
#include <pthread.h>
#include <sched.h>

#include "class/prioq.h"
#include "seed.h"
#include "suite.h"
#include "sys/clock.h"

enum { NR = 300 };

static const uint64_t no_tags[4], all_tags[4] = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
static struct rnl_job jobs[NR];

/* ---- one thread ---------------------------------------------------------- */

struct entry {
	bool inside;
	unsigned slot;
	uint64_t key, expires_at;
};

static struct entry entries[NR];

static unsigned put(struct rnl__prioq *q, unsigned i, uint64_t key, uint64_t expires_at)
{
	int slot = rnl__prioq_claim(q, &jobs[i]);

	ck_assert_int_ge(slot, 0);
	ck_assert_int_ge(rnl__prioq_put(q, (unsigned)slot, &jobs[i], key, expires_at), 0);
	entries[i] = (struct entry){ true, (unsigned)slot, key, expires_at };
	return (unsigned)slot;
}

/* Takes a job, and frees its slot. */
static struct rnl_job *take(struct rnl__prioq *q)
{
	unsigned slot;
	struct rnl_job *job = rnl__prioq_take(q, &slot);

	if (job)
		rnl__prioq_free(q, slot);
	return job;
}

static uint64_t smallest(void)
{
	uint64_t key = RNL__PRIOQ_NONE;

	for (unsigned i = 0; i < NR; i++)
		if (entries[i].inside && entries[i].key < key)
			key = entries[i].key;
	return key;
}

/* Checks a job that was taken, which must have the smallest key. */
static void check_taken(const struct rnl_job *job)
{
	const uint64_t key = smallest();
	const ptrdiff_t i = job - jobs;

	if (key == RNL__PRIOQ_NONE) {
		ck_assert_ptr_null(job);
		return;
	}
	ck_assert_ptr_nonnull(job);
	ck_assert(entries[i].inside);
	ck_assert_uint_eq(entries[i].key, key);
	entries[i].inside = false;
}

TEST(the_smallest_key_is_first_whatever_was_put_and_taken, .loops = 3)
{
	static const unsigned sizes[] = { 1, 70, NR };
	uint64_t random = draws_of(test_seed(), (uint64_t)_i);
	const unsigned nr = sizes[_i];
	struct rnl__prioq q;

	must(rnl__prioq_init(&q, nr));
	for (unsigned round = 0; round < 20000; round++) {
		const unsigned i = (unsigned)draw(&random, nr);

		if (!entries[i].inside && draw(&random, 5))
			(void)put(&q, i, draw(&random, _i == 2 ? 1000000 : 10), RNL__NEVER);
		else
			check_taken(take(&q));
		ck_assert_uint_eq(rnl__prioq_first(&q), smallest());
		ck_assert_int_eq(rnl__prioq_holds(&q), smallest() != RNL__PRIOQ_NONE);
	}
	rnl__prioq_fini(&q);
}

TEST(a_read_finds_the_keys_and_estimates_of_all_queued_jobs)
{
	struct rnl__prioq q;
	uint64_t random = draws_of(test_seed(), 7), key;
	unsigned at = 0, nr = 0;
	uint16_t cost;

	must(rnl__prioq_init(&q, 1024));
	ck_assert(!rnl__prioq_read(&q, &at, &key, &cost));
	for (unsigned i = 0; i < NR; i++)
		rnl__prioq_set_cost(&q, put(&q, i, draw(&random, 1000), RNL__NEVER), (uint16_t)i);
	for (unsigned i = 0; i < NR / 2; i++)
		check_taken(take(&q));
	for (at = 0; rnl__prioq_read(&q, &at, &key, &cost); nr++) {
		ck_assert(entries[cost].inside);
		ck_assert_uint_eq(entries[cost].slot, at - 1);
		ck_assert_uint_eq(entries[cost].key, key);
	}
	ck_assert_uint_eq(nr, NR - NR / 2);
	rnl__prioq_fini(&q);
}

TEST(it_has_as_many_slots_as_it_was_given)
{
	static const unsigned sizes[] = { 1, 63, 64, 65, 1000, RNL__PRIOQ_MAX };
	struct rnl__prioq q;

	for (unsigned k = 0; k < COUNT(sizes); k++) {
		must(rnl__prioq_init(&q, sizes[k]));
		for (unsigned i = 0; i < sizes[k]; i++)
			ck_assert_int_ge(rnl__prioq_claim(&q, &jobs[0]), 0);
		ck_assert_int_eq(rnl__prioq_claim(&q, &jobs[0]), -1);
		rnl__prioq_free(&q, sizes[k] - 1);
		ck_assert_int_eq(rnl__prioq_claim(&q, &jobs[0]), (int)sizes[k] - 1);
		rnl__prioq_fini(&q);
	}
}

TEST(a_slot_that_its_taker_keeps_serves_the_next_put)
{
	struct rnl__prioq q;
	unsigned slot, taken;

	must(rnl__prioq_init(&q, 2));
	slot = put(&q, 0, 5, RNL__NEVER);
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_ptr_eq(rnl__prioq_take(&q, &taken), &jobs[0]);
		ck_assert_uint_eq(taken, slot);
		ck_assert_int_ge(rnl__prioq_claim(&q, &jobs[1]), 0);
		ck_assert_int_eq(rnl__prioq_claim(&q, &jobs[2]), -1);
		rnl__prioq_free(&q, !slot);
		ck_assert_int_eq(rnl__prioq_put(&q, slot, &jobs[0], i, RNL__NEVER), 0);
	}
	ck_assert_ptr_eq(take(&q), &jobs[0]);
	ck_assert_int_ge(rnl__prioq_claim(&q, &jobs[1]), 0);
	ck_assert_int_ge(rnl__prioq_claim(&q, &jobs[2]), 0);
	rnl__prioq_fini(&q);
}

TEST(a_smaller_bound_leaves_fewer_slots)
{
	struct rnl__prioq q;

	must(rnl__prioq_init(&q, 1024));
	rnl__prioq_bound(&q, 100);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_lt(rnl__prioq_claim(&q, &jobs[0]), 100);
	ck_assert_int_eq(rnl__prioq_claim(&q, &jobs[0]), -1);
	rnl__prioq_fini(&q);
}

TEST(a_scan_takes_what_has_expired_or_is_marked_and_finds_the_next_expiry)
{
	struct rnl__prioq q;
	struct rnl_job *job;
	unsigned at = 0, found = 0;
	uint64_t key, due = RNL__NEVER;

	must(rnl__prioq_init(&q, 100));
	for (unsigned i = 0; i < 100; i++)
		(void)put(&q, i, 1000 - i, i < 50 ? 100 + i : RNL__NEVER);
	ck_assert(rnl__prioq_mark(&q, entries[77].slot, &jobs[77]));
	ck_assert(!rnl__prioq_mark(&q, 4711, &jobs[0]));	/* not a slot */
	ck_assert(!rnl__prioq_mark(&q, entries[78].slot, &jobs[77]));
	while ((job = rnl__prioq_scan(&q, &at, 119, no_tags, &key, &due)) != NULL) {
		const ptrdiff_t i = job - jobs;

		ck_assert(i < 20 || i == 77);
		ck_assert_uint_eq(key, entries[i].key);
		ck_assert_uint_eq(at - 1, entries[i].slot);
		found++;
	}
	ck_assert_uint_eq(found, 21);
	ck_assert_uint_eq(due, 120);
	for (at = 0, found = 0; rnl__prioq_scan(&q, &at, 0, all_tags, &key, &due);)
		found++;
	ck_assert_uint_eq(found, 79);
	ck_assert(!rnl__prioq_holds(&q));
	/* The slots are still claimed. */
	ck_assert_int_eq(rnl__prioq_claim(&q, &jobs[0]), -1);
	rnl__prioq_fini(&q);
}

TEST(a_scan_takes_jobs_that_have_a_tag_of_the_set)
{
	const uint64_t tags[4] = { [0] = 1 << 7, [3] = UINT64_C(1) << 63 };
	const uint8_t each[] = { 0, 7, 8, 255, 71 };
	struct rnl__prioq q;
	unsigned at = 0;
	uint64_t key, due = RNL__NEVER;

	must(rnl__prioq_init(&q, 100));
	for (unsigned i = 0; i < COUNT(each); i++) {
		(void)put(&q, i, 10 + i, RNL__NEVER);
		rnl__prioq_set_tag(&q, entries[i].slot, each[i]);
	}
	ck_assert_ptr_eq(rnl__prioq_scan(&q, &at, 0, tags, &key, &due), &jobs[1]);
	ck_assert_ptr_eq(rnl__prioq_scan(&q, &at, 0, tags, &key, &due), &jobs[3]);
	ck_assert_ptr_null(rnl__prioq_scan(&q, &at, 0, tags, &key, &due));
	rnl__prioq_fini(&q);
}

TEST(a_mark_before_the_put_is_found_by_the_put)
{
	struct rnl__prioq q;
	unsigned at = 0;
	uint64_t key, due = RNL__NEVER;
	int slot;

	must(rnl__prioq_init(&q, 10));
	slot = rnl__prioq_claim(&q, &jobs[0]);
	ck_assert(rnl__prioq_mark(&q, (unsigned)slot, &jobs[0]));
	ck_assert_int_eq(rnl__prioq_put(&q, (unsigned)slot, &jobs[0], 5, 1000), -1);
	ck_assert_ptr_eq(rnl__prioq_scan(&q, &at, 0, no_tags, &key, &due), &jobs[0]);
	ck_assert_uint_eq(key, 5);
	/* It is put back, and stays. */
	ck_assert_int_eq(rnl__prioq_put(&q, (unsigned)slot, &jobs[0], key, 1000), 0);
	at = 0;
	ck_assert_ptr_null(rnl__prioq_scan(&q, &at, 0, no_tags, &key, &due));
	ck_assert_uint_eq(due, 1000);
	rnl__prioq_fini(&q);
}

/* ---- several threads ----------------------------------------------------- */

/* With the first thread at most 8, so that the simulated machine may reorder their memory. */
enum { THREADS = 3, OF_EACH = 2500 };

struct crowd {
	struct rnl__prioq q;
	struct rnl_job jobs[THREADS * OF_EACH];
	_Atomic uint8_t taken[THREADS * OF_EACH];
	_Atomic uint64_t ticket;
	_Atomic unsigned nr_taken, nr_back, next;
	unsigned each;
	bool scans;
};

static void *put_all(void *arg)
{
	struct crowd *crowd = arg;
	const unsigned first = atomic_fetch_add(&crowd->next, crowd->each);

	for (unsigned i = first; i < first + crowd->each; i++) {
		int slot;

		while ((slot = rnl__prioq_claim(&crowd->q, &crowd->jobs[i])) < 0)
			sched_yield();
		crowd->jobs[i].user = &crowd->jobs[i];
		(void)rnl__prioq_put(&crowd->q, (unsigned)slot, &crowd->jobs[i],
				     atomic_fetch_add(&crowd->ticket, 1), RNL__NEVER);
	}
	return NULL;
}

static void *take_all(void *arg)
{
	struct crowd *crowd = arg;

	while (atomic_load(&crowd->nr_taken) < THREADS * crowd->each) {
		struct rnl_job *job = take(&crowd->q);

		if (!job) {
			sched_yield();
			continue;
		}
		ck_assert_ptr_eq(job->user, job);
		ck_assert_uint_eq(atomic_fetch_add(&crowd->taken[job - crowd->jobs], 1), 0);
		atomic_fetch_add(&crowd->nr_taken, 1);
	}
	return NULL;
}

/* Takes jobs and puts them back, like a search for those that were cancelled. */
static void *scan_all(void *arg)
{
	struct crowd *crowd = arg;

	while (atomic_load(&crowd->nr_taken) < THREADS * crowd->each) {
		unsigned at = 0;
		uint64_t key, due = RNL__NEVER;
		struct rnl_job *job;

		for (unsigned i = 0; i < 64; i++)
			(void)rnl__prioq_mark(&crowd->q, i, atomic_load(&crowd->q.slots[i].job));
		while ((job = rnl__prioq_scan(&crowd->q, &at, 0, no_tags, &key, &due)) != NULL) {
			(void)rnl__prioq_put(&crowd->q, at - 1, job, key, RNL__NEVER);
			atomic_fetch_add(&crowd->nr_back, 1);
		}
		sched_yield();
	}
	return NULL;
}

static void crowd_runs(unsigned takers, bool scans)
{
	static struct crowd crowd;
	pthread_t threads[2 * THREADS + 1];
	unsigned nr = 0;

	crowd.each = (unsigned)(OF_EACH * (test_scale() < 1 ? test_scale() : 1));
	crowd.each = crowd.each > 20 ? crowd.each : 20;
	must(rnl__prioq_init(&crowd.q, 64));
	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_create(&threads[nr++], NULL, put_all, &crowd));
	for (unsigned i = 0; i < takers; i++)
		must(pthread_create(&threads[nr++], NULL, take_all, &crowd));
	if (scans)
		must(pthread_create(&threads[nr++], NULL, scan_all, &crowd));
	while (nr)
		must(pthread_join(threads[--nr], NULL));
	for (unsigned i = 0; i < THREADS * crowd.each; i++)
		ck_assert_uint_eq(crowd.taken[i], 1);
	ck_assert(!rnl__prioq_holds(&crowd.q));
	/* A late put may have left its key in the nodes. */
	ck_assert_ptr_null(take(&crowd.q));
	ck_assert_uint_eq(rnl__prioq_first(&crowd.q), RNL__PRIOQ_NONE);
	rnl__prioq_fini(&crowd.q);
}

TEST(of_many_threads_each_job_is_taken_once, .timeout_s = 60)
{
	crowd_runs(THREADS, false);
}

TEST(also_while_a_scan_puts_jobs_back, .timeout_s = 60)
{
	crowd_runs(2, true);
}

/* A put that has ended is seen by each take that begins later. */
struct pair {
	struct rnl__prioq q;
	struct rnl_job jobs[3];
	_Atomic int ended[2];
};

static void *put_one(void *arg)
{
	struct pair *pair = arg;
	const int i = !atomic_fetch_add(&pair->ended[1], 1);
	int slot = rnl__prioq_claim(&pair->q, &pair->jobs[i]);

	(void)rnl__prioq_put(&pair->q, (unsigned)slot, &pair->jobs[i], (uint64_t)(10 + i), RNL__NEVER);
	atomic_fetch_add(&pair->ended[0], 1);
	return NULL;
}

TEST(no_put_is_lost_beside_another_put_and_a_take, .loops = 200)
{
	static struct pair pair;
	pthread_t threads[2];
	struct rnl_job *first, *second, *third;
	int slot;

	memset(&pair, 0, sizeof(pair));
	must(rnl__prioq_init(&pair.q, 100));
	slot = rnl__prioq_claim(&pair.q, &pair.jobs[2]);
	(void)rnl__prioq_put(&pair.q, (unsigned)slot, &pair.jobs[2], 1, RNL__NEVER);
	for (int i = 0; i < 2; i++)
		must(pthread_create(&threads[i], NULL, put_one, &pair));
	first = take(&pair.q);
	ck_assert_ptr_eq(first, &pair.jobs[2]);
	for (int i = 0; i < 2; i++)
		must(pthread_join(threads[i], NULL));
	ck_assert_uint_eq(rnl__prioq_first(&pair.q), 10);
	second = take(&pair.q);
	third = take(&pair.q);
	ck_assert_ptr_eq(second, &pair.jobs[0]);
	ck_assert_ptr_eq(third, &pair.jobs[1]);
	rnl__prioq_fini(&pair.q);
}

/* A mark beside a put is found by the scan after it, or the put says so. */
struct beside {
	struct rnl__prioq q;
	struct rnl_job job;
	int slot;
};

static void *put_beside(void *arg)
{
	struct beside *b = arg;

	return rnl__prioq_put(&b->q, (unsigned)b->slot, &b->job, 5, RNL__NEVER) < 0 ? b : NULL;
}

TEST(no_mark_beside_a_put_is_lost, .loops = 100)
{
	static struct beside b;
	unsigned at = 0;
	uint64_t key, due = RNL__NEVER;
	struct rnl_job *found;
	void *told;
	pthread_t thread;

	must(rnl__prioq_init(&b.q, 64));
	b.slot = rnl__prioq_claim(&b.q, &b.job);
	must(pthread_create(&thread, NULL, put_beside, &b));
	ck_assert(rnl__prioq_mark(&b.q, (unsigned)b.slot, &b.job));
	found = rnl__prioq_scan(&b.q, &at, 0, no_tags, &key, &due);
	must(pthread_join(thread, &told));
	ck_assert_msg(found || told, "neither the scan nor the put has seen the mark");
	rnl__prioq_fini(&b.q);
}

/* Puts of three threads into two nodes; each slot has the number of its leaf. */
struct three {
	struct rnl__prioq q;
	struct rnl_job jobs[3];
	_Atomic unsigned next;
};

static const struct { unsigned slot, key; } three_puts[] = { { 0, 10 }, { 1, 12 }, { 16, 11 } };

static void *put_third(void *arg)
{
	struct three *three = arg;
	const unsigned i = atomic_fetch_add(&three->next, 1);

	(void)rnl__prioq_put(&three->q, three_puts[i].slot, &three->jobs[i], three_puts[i].key, RNL__NEVER);
	return NULL;
}

TEST(three_puts_in_two_nodes_are_taken_in_their_order, .loops = 100)
{
	static struct three three;
	static const unsigned order[] = { 0, 2, 1 };
	pthread_t threads[3];

	memset(&three, 0, sizeof(three));
	must(rnl__prioq_init(&three.q, 64));
	for (unsigned i = 0, claimed = 0; i < 64; i++) {
		struct rnl_job *job = NULL;

		if (claimed < 3 && i == three_puts[claimed].slot)
			job = &three.jobs[claimed++];
		ck_assert_int_eq(rnl__prioq_claim(&three.q, job), (int)i);
	}
	for (unsigned i = 0; i < 3; i++)
		must(pthread_create(&threads[i], NULL, put_third, &three));
	for (unsigned i = 0; i < 3; i++)
		must(pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_eq(take(&three.q), &three.jobs[order[i]]);
	rnl__prioq_fini(&three.q);
}

TEST(a_job_that_is_taken_during_its_put_leaves_no_key, .loops = 100)
{
	static struct beside b;
	struct rnl_job first;
	unsigned nr = 0;
	pthread_t thread;
	int slot;

	must(rnl__prioq_init(&b.q, 64));
	slot = rnl__prioq_claim(&b.q, &first);
	(void)rnl__prioq_put(&b.q, (unsigned)slot, &first, 1, RNL__NEVER);
	b.slot = rnl__prioq_claim(&b.q, &b.job);
	must(pthread_create(&thread, NULL, put_beside, &b));
	while (nr < 2) {
		if (take(&b.q))
			nr++;
		else
			sched_yield();
	}
	must(pthread_join(thread, NULL));
	ck_assert_ptr_null(take(&b.q));
	ck_assert_uint_eq(rnl__prioq_first(&b.q), RNL__PRIOQ_NONE);
	rnl__prioq_fini(&b.q);
}
