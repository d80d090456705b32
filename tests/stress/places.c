/* SPDX-License-Identifier: MIT */
/*
 * Jobs that are placed on devices, and jobs that are not: no job is left in a queue while a worker
 * that may take it sleeps. Workers park immediately, so each job depends on a wake.
 *
 * In the first tests each job of a round returns when all have begun, so each job needs its own
 * worker, and a placed job needs a worker of its device. The last test has many submitters, and
 * resizes.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <errno.h>
#include <semaphore.h>

#include "asks.h"
#include "classed.h"
#include "halts.h"
#include "places.h"

enum { NR_DEVICES = 2, EACH = 2, NR = NR_DEVICES * EACH, NR_ROUNDS = 6000 };

/* ---- a round in which jobs meet ------------------------------------------------- */

struct item {
	struct rnl_job job;
	int place;			/* -1: not placed */
	bool meets;			/* waits for the other jobs of the round */
	int ran_on;
};

static struct rnl_pool *pool;
static struct item items[NR];
static pthread_barrier_t both;		/* begin and end of a round */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static unsigned nr_came, nr_to_come;

static struct timespec with_patience(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)PATIENCE_S;
	return until;
}

/* Waits for all jobs of the round.  Returns 0 or -ETIME. */
static int meet(void)
{
	const struct timespec until = with_patience();
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (++nr_came == nr_to_come)
		pthread_cond_broadcast(&came);
	while (nr_came < nr_to_come && !ret)
		ret = -pthread_cond_timedwait(&came, &lock, &until);
	pthread_mutex_unlock(&lock);
	return ret ? -ETIME : 0;
}

static int meeting_fn(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);

	item->ran_on = rnl_worker().device;
	return item->meets ? meet() : 0;
}

static void let_pass(uint64_t *random)
{
	for (uint64_t i = draw(random, 400); i; i--)
		__asm__ volatile("" ::: "memory");
}

static void take_part(unsigned i, uint64_t *random)
{
	pthread_barrier_wait(&both);
	let_pass(random);
	must(rnl_submit(pool, &items[i].job));
	pthread_barrier_wait(&both);
}

static int submit_all(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint64_t random = draws_of(test_seed(), i);

	for (unsigned round = 0; round < rounds_of(NR_ROUNDS); round++)
		take_part(i, &random);
	return 0;
}

/*
 * Either all jobs are placed and meet, or no job is placed and all meet, or the jobs of one device
 * meet and the others are open and return immediately. Otherwise an open job could take a worker
 * that a placed job needs.
 */
static void draw_places(uint64_t *random, struct rnl_class *cls)
{
	const unsigned how = draw(random, 4), device = draw(random, NR_DEVICES);
	const unsigned shift = draw(random, NR);

	nr_came = 0;
	nr_to_come = how < 2 ? NR : EACH;
	for (unsigned k = 0; k < NR; k++) {
		struct item *item = &items[(k + shift) % NR];
		const unsigned of = k / EACH;

		item->meets = how < 2 || of == device;
		item->place = how && item->meets ? (int)of : -1;
		must(rnl_job_init(&item->job, meeting_fn));
		must(rnl_job_set_device(&item->job, item->place));
		must(rnl_job_set_class(&item->job, cls && draw(random, 2) ? cls : NULL));
	}
}

static void end_round(unsigned round)
{
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < NR; i++) {
		ck_assert_msg(!items[i].job.result,
			      "round %u: job %u, placed on %d, did not meet the others", round, i,
			      items[i].place);
		ck_assert_msg(items[i].place < 0 || items[i].ran_on == items[i].place,
			      "round %u: job %u ran on device %d, and was placed on %d", round, i,
			      items[i].ran_on, items[i].place);
	}
}

static void jobs_meet(bool classed)
{
	struct call others[NR - 1];
	uint64_t random = draws_of(test_seed(), 0), places = draws_of(test_seed(), 1000);
	struct rnl_class *cls;

	pool = pool_over_of(NR_DEVICES, EACH, .spin_us = -1);
	skip_if_alone(pool);
	if (nr_devices_of(pool) != NR_DEVICES)
		test_skip("there are more than two GPUs");
	cls = classed ? first_class(pool) : NULL;
	pthread_barrier_init(&both, NULL, NR);
	for (unsigned i = 1; i < NR; i++)
		call_start(&others[i - 1], submit_all, (void *)(uintptr_t)i);
	for (unsigned round = 0; round < rounds_of(NR_ROUNDS); round++) {
		draw_places(&places, cls);
		take_part(0, &random);
		end_round(round);
	}
	for (unsigned i = 1; i < NR; i++)
		ck_assert_int_eq(call_end(&others[i - 1]), 0);
	pthread_barrier_destroy(&both);
	rnl_pool_destroy(pool);
}

/* _i: some are of a class that goes first. */
TEST(placed_jobs_and_others_meet, .timeout_s = 120, .loops = 2)
{
	jobs_meet(_i);
}

/*
 * One worker of each device is busy, the other is free. Placed jobs and open jobs are submitted one
 * after another. Some get into the queue of a busy worker, from which a free worker must take them.
 */
TEST(free_workers_of_a_device_take_placed_jobs_from_its_busy_worker, .timeout_s = 120)
{
	uint64_t random = draws_of(test_seed(), 7);
	struct rnl_job holders[NR_DEVICES], jobs[8];

	pool = pool_over_of(NR_DEVICES, EACH, .spin_us = -1);
	skip_if_alone(pool);
	for (unsigned round = 0; round < rounds_of(NR_ROUNDS) / 6; round++) {
		struct gate gate = GATE_INIT;
		const unsigned nr = 2 + draw(&random, COUNT(jobs) - 1);

		for (int d = 0; d < NR_DEVICES; d++) {
			job_of(&holders[d], gated_fn, &gate);
			must(rnl_job_set_device(&holders[d], d));
			must(rnl_submit(pool, &holders[d]));
		}
		gate_await(&gate, NR_DEVICES);
		for (unsigned i = 0; i < nr; i++) {
			job_of(&jobs[i], noop_fn, NULL);
			must(rnl_job_set_device(&jobs[i], (int)draw(&random, NR_DEVICES + 1) - 1));
			must(rnl_submit(pool, &jobs[i]));
			let_pass(&random);
		}
		for (unsigned i = 0; i < nr; i++)
			ck_assert_msg(!rnl_job_wait(&jobs[i], patience_ns()), "round %u: a job is left "
				      "in a queue, and workers sleep", round);
		gate_open(&gate);
		for (int d = 0; d < NR_DEVICES; d++)
			ck_assert_int_eq(result_of(&holders[d]), 0);
	}
	rnl_pool_destroy(pool);
}

/* ---- after a job that keeps its worker busy -------------------------------------------- */

/*
 * A placed job goes to the queue of a worker that is awake, so its submit wakes no worker. That
 * worker first takes a keyed job, which returns when the placed job is done. So the worker has to
 * wake another worker of its device.
 */
static struct rnl_job start, placed_one;
static sem_t over;
static int started_on;

static int start_fn(struct rnl_job *job)
{
	(void)job;
	started_on = rnl_worker().index;
	return 0;
}

static int done_fn(struct rnl_job *job)
{
	(void)job;
	return sem_post(&over);
}

static int await_fn(struct rnl_job *job)
{
	const struct timespec until = with_patience();

	(void)job;
	while (sem_timedwait(&over, &until))
		if (errno != EINTR)
			return -ETIME;
	return 0;
}

TEST(a_worker_that_starts_a_long_job_wakes_another_for_a_placed_job, .timeout_s = 120)
{
	uint64_t random = draws_of(test_seed(), 8);
	struct rnl_job blocker;

	pool = pool_over_of(NR_DEVICES, EACH);
	skip_if_alone(pool);
	must(sem_init(&over, 0, 0));
	job_of(&start, start_fn, NULL);
	job_of(&placed_one, done_fn, NULL);
	job_of(&blocker, await_fn, NULL);
	for (unsigned round = 0; round < rounds_of(NR_ROUNDS); round++) {
		const int device = (int)draw(&random, NR_DEVICES);

		must(rnl_job_set_device(&start, device));
		must(rnl_job_set_device(&placed_one, device));
		/* Run a job first: its worker is then awake, and the submitter's usual one. */
		must(rnl_submit(pool, &start));
		must(rnl_job_wait(&start, RNL_FOREVER));
		let_pass(&random);
		must(rnl_submit(pool, &placed_one));
		must(submit_by_key(pool, &blocker, RNL_KEY_WORKER((unsigned)started_on)));
		ck_assert_msg(!result_of(&blocker), "round %u: a job of device %d is left in the "
			      "queue of a busy worker", round, device);
		ck_assert_int_eq(result_of(&placed_one), 0);
	}
	rnl_pool_destroy(pool);
}

/* ---- many submitters, and resizes --------------------------------------------------- */

#define NR_SUBMITTERS 3
#define NR_KEYS 16
#define WINDOW 24
#define NR_RESIZES 400
#define MAX_WORKERS 12

struct key {
	uint64_t submitted, ran;
	int place;
	unsigned ran_on;		/* 1 + the device of its last job */
};

struct placed {
	struct rnl_job job;
	struct key *key;
	uint64_t number;
	int place;
	const char *wrong;
};

struct submitter {
	pthread_t thread;
	uint64_t random, nr;
	const char *wrong;
	struct key keys[NR_KEYS];
	struct placed jobs[WINDOW];
};

static _Atomic bool stop;
static struct rnl_class *some;		/* of some jobs that have no key */

static int placed_fn(struct rnl_job *job)
{
	struct placed *p = rnl_container_of(job, struct placed, job);
	const int device = rnl_worker().device;

	if (p->place >= 0 && device != p->place)
		p->wrong = "a job ran on a device that is not its own";
	if (!p->key)
		return 0;
	if (p->key->ran + 1 != p->number)
		p->wrong = "a key's jobs ran out of order";
	if (p->key->ran_on && p->key->ran_on != 1u + (unsigned)device)
		p->wrong = "a key has two devices";
	p->key->ran = p->number;
	p->key->ran_on = 1 + (unsigned)device;
	return 0;
}

static int submit(struct submitter *s, struct placed *p)
{
	struct key *key = draw(&s->random, 3) ? NULL : &s->keys[draw(&s->random, NR_KEYS)];
	int ret;

	must(rnl_job_init(&p->job, placed_fn));
	p->key = key;
	p->place = key ? key->place : (int)draw(&s->random, 1 + NR_DEVICES) - 1;
	p->number = key ? ++key->submitted : 0;
	must(rnl_job_set_device(&p->job, p->place));
	must(rnl_job_set_class(&p->job, !key && !draw(&s->random, 4) ? some : NULL));
	do {
		ret = key ? submit_by_key(pool, &p->job, (uintptr_t)key) :
			    rnl_submit(pool, &p->job);
	} while (ret == -EAGAIN && !sched_yield());
	return ret;
}

static void collect(struct submitter *s, struct placed *p)
{
	const double patience = PATIENCE_S, since = seconds_now();

	if (rnl_job_wait(&p->job, (int64_t)(patience * 1e9)) || seconds_now() - since >= patience)
		s->wrong = "a job was left in a queue";
	else if (p->job.result)
		s->wrong = "a job failed";
	else
		s->wrong = p->wrong;
}

/* Sometimes no job is in flight, so all workers sleep. */
static void *submit_often(void *arg)
{
	struct submitter *s = arg;

	halts_come();
	while (!stop && !s->wrong) {
		const unsigned nr = 1 + draw(&s->random, draw(&s->random, 3) ? 3 : WINDOW);

		for (unsigned i = 0; i < nr && !s->wrong; i++)
			s->wrong = submit(s, &s->jobs[i]) ? "a submit failed" : NULL;
		for (unsigned i = 0; i < nr && !s->wrong; i++)
			collect(s, &s->jobs[i]);
		s->nr += nr;
	}
	return NULL;
}

static void through_resizes(uint32_t nr_own)
{
	static struct submitter submitters[NR_SUBMITTERS];
	uint64_t seed = test_seed(), random = draws_of(seed, 99), nr = 0;
	unsigned nr_devices, nr_resizes = rounds_of(NR_RESIZES);

	pool = pool_over_of(NR_DEVICES, EACH, .spin_us = -1, .nr_class_workers = nr_own,
			    .max_queued = 64);
	skip_if_alone(pool);
	nr_devices = nr_devices_of(pool);
	some = nr_own ? own_class(pool, nr_own) : first_class(pool);
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		struct submitter *s = &submitters[i];

		s->random = draws_of(seed, i);
		for (unsigned k = 0; k < NR_KEYS; k++)
			s->keys[k].place = (int)draw(&s->random, 1 + NR_DEVICES) - 1;
		must(pthread_create(&s->thread, NULL, submit_often, s));
	}
	halts_begin(NR_SUBMITTERS, seed);
	for (unsigned i = 0; i < nr_resizes; i++) {
		must(rnl_pool_resize(pool, nr_devices + draw(&random, MAX_WORKERS - nr_devices)));
		let_pass(&random);
	}
	halts_end();
	stop = true;
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		must(pthread_join(submitters[i].thread, NULL));
		nr += submitters[i].nr;
	}
	for (unsigned i = 0; i < NR_SUBMITTERS; i++)
		ck_assert_msg(!submitters[i].wrong, "%s", submitters[i].wrong);
	printf("%llu jobs through %u resizes\n", (unsigned long long)nr, nr_resizes);
	rnl_pool_destroy(pool);
}

/*
 * _i: a class has NR_DEVICES + 1 workers, so the first one of the others does not have device 0.
 */
TEST(no_placed_job_is_left_in_a_queue_by_resizes, .timeout_s = 120, .loops = 2)
{
	through_resizes(_i ? NR_DEVICES + 1 : 0);
}
