/* SPDX-License-Identifier: MIT */
/*
 * Cancelled and expired jobs complete while every worker is busy: the gate that holds the workers
 * stays closed until then.
 */
#include <runnel/more.h>
#include <runnel/thread.h>

#include "classed.h"
#include "cq.h"
#include "full.h"
#include "timer.h"
#include "record.h"
#include "seed.h"

#define LONG (3600000 * MS)

static struct rnl_class *first;	/* of the jam: its jobs start before others */

/* A pool whose workers are all held. */
struct jam {
	struct rnl_pool *pool;
	struct gate gate;
	struct rnl_job held[4];
};

static void jam_of(struct jam *jam, unsigned nr_workers)
{
	jam->pool = pool_of(nr_workers);
	first = first_class(jam->pool);
	jam->gate = (struct gate)GATE_INIT;
	hold_workers(jam->pool, &jam->gate, jam->held, nr_workers);
}

static void jam_end(struct jam *jam)
{
	gate_open(&jam->gate);
	rnl_pool_destroy(jam->pool);
}

/* Ways to submit a job. */
enum way { OPEN, KEYED, CLASSED, MANY, WAITING, WAYS };

static void submit_by(struct rnl_pool *pool, struct rnl_job *job, enum way way)
{
	must(rnl_job_set_class(job, way == CLASSED ? first : NULL));
	if (way == MANY)
		ck_assert_int_eq(rnl_submit_many(pool, &job, 1), 1);
	else if (way == WAITING)
		must(rnl_submit_wait(pool, job, RNL_FOREVER));
	else
		must(way == KEYED ? submit_by_key(pool, job, 7) : rnl_submit(pool, job));
}

/* Why a queued job completes without a worker: a cancel or a deadline. */
struct why {
	bool cancel;
	int result;
};
static const struct why whys[] = { { true, -ECANCELED }, { false, -ETIMEDOUT } };

static void submit_for(struct rnl_pool *pool, struct rnl_job *job, enum way way,
		       const struct why *why)
{
	must(rnl_job_set_deadline(job, why->cancel ? RNL_FOREVER : 20 * MS));
	submit_by(pool, job, way);
	if (why->cancel)
		must(rnl_job_cancel(job));
}

#define for_each_way(way, why) \
	for (enum way way = 0; way < WAYS; way++) \
		for (const struct why *why = whys; why < whys + COUNT(whys); why++)

/* ---- completion ---------------------------------------------------------- */

TEST(a_wait_returns_while_the_workers_are_busy)
{
	struct jam jam;
	struct notified notified;

	jam_of(&jam, 2);
	for_each_way(way, why) {
		notified_of(&notified);
		submit_for(jam.pool, &notified.job, way, why);
		ck_assert_int_eq(result_of(&notified.job), why->result);
		ck_assert_int_eq(notified.runs, 0);
		/* The memory is the test's again. */
		memset(&notified, 0xff, sizeof(notified));
	}
	jam_end(&jam);
}

static _Atomic int nr_calls, result_in_call;

/* On the timer thread, which has no stream. */
static void callback(struct rnl_job *job)
{
	struct jam *jam = job->user;
	char from[8] = { 0 }, to[8];

	result_in_call = job->result;
	ck_assert_int_eq(rnl_job_wait(&jam->held[0], RNL_FOREVER), -EBUSY);
	ck_assert_int_eq(rnl_pool_drain(jam->pool, RNL_FOREVER), -EBUSY);
	ck_assert_int_eq(rnl_worker().index, -1);
	ck_assert_int_eq(rnl_copy(to, from, sizeof(to)), -ENODEV);
	ck_assert_int_eq(rnl_thread_attach(jam->pool), -ENODEV);
	nr_calls++;
}

TEST(a_callback_is_called_while_the_workers_are_busy_and_cannot_wait)
{
	struct jam jam;
	struct rnl_job job;
	int expected = 0;

	jam_of(&jam, 1);
	for_each_way(way, why) {
		job_of(&job, noop_fn, &jam);
		must(rnl_job_set_on_done(&job, callback));
		submit_for(jam.pool, &job, way, why);
		expected++;
		ck_eventually(nr_calls == expected);
		ck_assert_int_eq(result_in_call, why->result);
	}
	jam_end(&jam);
	ck_assert_int_eq(nr_calls, expected);
}

TEST(a_completion_queue_gets_jobs_while_the_workers_are_busy)
{
	struct rnl_cq *cq = cq_of();
	struct rnl_job job, *list[2];
	struct jam jam;

	jam_of(&jam, 1);
	for_each_way(way, why) {
		cq_job(&job, noop_fn, NULL, cq);
		submit_for(jam.pool, &job, way, why);
		reap_all(cq, list, 1);
		ck_assert_ptr_eq(list[0], &job);
		ck_assert_int_eq(job.result, why->result);
	}
	rnl_cq_destroy(cq);
	jam_end(&jam);
}

TEST(a_barrier_ends_while_the_workers_are_busy)
{
	struct jam jam;
	struct rnl_barrier barrier;
	struct rnl_job jobs[3];

	jam_of(&jam, 2);
	for_each_way(way, why) {
		must(rnl_barrier_init(&barrier, jam.pool));
		for (int i = 0; i < 3; i++) {
			job_in(&barrier, &jobs[i], noop_fn, NULL);
			submit_for(jam.pool, &jobs[i], way, why);
		}
		ck_assert_int_eq(result_of_barrier(&barrier), why->result);
	}
	jam_end(&jam);
}

TEST(a_cancelled_notice_is_done_while_the_workers_are_busy)
{
	struct rnl_job notice;
	struct full full;
	struct jam jam;

	full_start(&full, 1);
	jam_of(&jam, 1);
	job_of(&notice, noop_fn, NULL);
	for (int i = 0; i < 6; i++) {
		/* The notice waits for space, or is queued immediately. */
		must(submit_when(i % 2 ? full.pool : jam.pool, &notice, RNL_SPACE));
		must(rnl_job_cancel(&notice));
		ck_assert_int_eq(result_of(&notice), -ECANCELED);
	}
	must(submit_when(full.pool, &notice, RNL_SPACE));
	must(rnl_pool_close(full.pool));
	ck_assert_int_eq(result_of(&notice), -ECANCELED);
	full_end(&full);
	jam_end(&jam);
}

/* If each cancel searched all notices, this would take minutes. */
TEST(many_notices_are_cancelled_one_by_one, .timeout_s = 30)
{
	enum { NR = 100000 };
	struct rnl_job *notices = calloc(NR, sizeof(*notices));
	struct full full;

	full_start(&full, 1);
	for (int i = 0; i < NR; i++) {
		job_of(&notices[i], noop_fn, NULL);
		must(submit_when(full.pool, &notices[i], RNL_SPACE));
	}
	for (int i = 0; i < NR; i++)
		must(rnl_job_cancel(&notices[i]));
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&notices[i]), -ECANCELED);
	full_end(&full);
	free(notices);
}

static void cancel_this_thread(struct rnl_job *job)
{
	(void)job;
	pthread_cancel(pthread_self());
}

TEST(a_callback_cannot_cancel_the_thread_that_calls_it)
{
	struct rnl_job jobs[3];
	struct jam jam;

	jam_of(&jam, 1);
	for (int i = 0; i < 3; i++) {
		job_of(&jobs[i], noop_fn, NULL);
		must(rnl_job_set_on_done(&jobs[i], i ? NULL : cancel_this_thread));
		must(rnl_submit(jam.pool, &jobs[i]));
		must(rnl_job_cancel(&jobs[i]));
		ck_assert_int_eq(result_of(&jobs[i]), -ECANCELED);
	}
	jam_end(&jam);
}

/* ---- effects on other jobs ----------------------------------------------- */

TEST(the_jobs_that_stay_keep_their_order, .timeout_s = 60)
{
	enum { NR = 10000 };
	static const int64_t times[] = { 0, LONG, MS, RNL_FOREVER, 5 * MS, INT64_MAX, LONG, LONG };
	struct noted *noted = calloc(NR, sizeof(*noted));
	struct record record = { 0 };
	int last[4] = { -1, -1, -1, -1 };
	struct jam jam;

	jam_of(&jam, 2);
	for (int i = 0; i < NR; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_job_set_deadline(&noted[i].job, times[i % 8]));
		must(i & 8 ? submit_by_key(jam.pool, &noted[i].job, (uint64_t)(i & 3)) :
			     rnl_submit(jam.pool, &noted[i].job));
		/* Some of the jobs that would stay are cancelled. */
		if (i % 8 == 6)
			must(rnl_job_cancel(&noted[i].job));
	}
	for (int i = 0; i < NR; i += 2) {
		ck_assert_int_eq(result_of(&noted[i].job), i % 8 == 6 ? -ECANCELED : -ETIMEDOUT);
		ck_assert_int_ne(rnl_job_wait(&noted[i + 1].job, 0), 0);
	}
	ck_assert_uint_eq(figures_of(jam.pool).queued, NR / 2);
	ck_assert_uint_eq(figures_of(jam.pool).timed_out, NR / 2 - NR / 8);
	ck_assert_uint_eq(figures_of(jam.pool).cancelled, NR / 8);
	gate_open(&jam.gate);
	must(rnl_pool_drain(jam.pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, NR / 2);
	for (unsigned i = 0; i < COUNT(record.ids); i++) {
		const int id = record.ids[i];

		if (id & 8) {
			ck_assert_int_gt(id, last[id & 3]);
			last[id & 3] = id;
		}
	}
	rnl_pool_destroy(jam.pool);
	free(noted);
}

TEST(a_job_that_leaves_makes_space_while_the_workers_are_busy)
{
	struct rnl_pool *pool = pool_of(1, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued[2], more[2];

	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 2; i++) {
		job_of(&queued[i], noop_fn, NULL);
		submit_by(pool, &queued[i], i ? KEYED : OPEN);
	}
	for (int i = 0; i < 2; i++) {
		struct submitting submitting = { pool, &more[i], RNL_FOREVER, 7, i == 1 };
		struct call call;

		job_of(&more[i], noop_fn, NULL);
		ck_assert_int_eq(rnl_submit(pool, &more[i]), -EAGAIN);
		call_start(&call, submit_waiting, &submitting);
		ck_waits(call.tid);
		must(rnl_job_cancel(&queued[i]));
		must(call_end(&call));
		ck_assert_int_eq(result_of(&queued[i]), -ECANCELED);
	}
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(a_resize_does_not_wait_for_keyed_jobs_that_left)
{
	struct jam jam;
	struct rnl_job keyed[3], later;
	struct resize resize = { .nr = 3 };
	struct call call;

	jam_of(&jam, 2);
	resize.pool = jam.pool;
	for (int i = 0; i < 3; i++) {
		job_of(&keyed[i], noop_fn, NULL);
		must(submit_by_key(jam.pool, &keyed[i], (uint64_t)i));
	}
	call_start(&call, resize_fn, &resize);
	/* The resize waits only for these jobs: the held ones have no key. */
	ck_waits(call.tid);
	for (int i = 0; i < 3; i++)
		must(rnl_job_cancel(&keyed[i]));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(result_of(&keyed[i]), -ECANCELED);
	gate_open(&jam.gate);
	must(call_end(&call));
	job_of(&later, noop_fn, NULL);
	must(submit_by_key(jam.pool, &later, 1));
	ck_assert_int_eq(result_of(&later), 0);
	rnl_pool_destroy(jam.pool);
}

TEST(a_drain_ends_when_the_last_job_has_left)
{
	struct rnl_pool *pool = pool_of(1);

	for (int round = 0; round < (int)(200 / test_scale()); round++) {
		struct gate gate = GATE_INIT;
		struct rnl_job held, job;
		struct call call;

		hold_workers(pool, &gate, &held, 1);
		submit_job(pool, &job, noop_fn, NULL);
		call_start(&call, drain_fn, pool);
		must(rnl_job_cancel(&job));
		gate_open(&gate);
		ck_assert_int_eq(call_end(&call), 0);
		ck_assert_int_eq(rnl_job_wait(&job, 0), 0);
	}
	rnl_pool_destroy(pool);
}

/* ---- concurrency --------------------------------------------------------- */

enum { SUBMITTERS = 2, RING = 512, EACH = 30000 };

struct entry {
	struct rnl_job job;
	_Atomic int runs, notified;
	bool cancelled;
};

struct submitter {
	struct rnl_pool *pool;
	struct rnl_class *cls;
	struct entry *ring;
	uint64_t random;
	int nr, bad;
};

static int run_fn(struct rnl_job *job)
{
	rnl_container_of(job, struct entry, job)->runs++;
	return 0;
}

static void notified(struct rnl_job *job)
{
	rnl_container_of(job, struct entry, job)->notified++;
}

/* Waits for the last run of an entry, and checks its result. */
static void end_entry(struct submitter *s, struct entry *e)
{
	int result;

	if (!e->job.user)
		return;
	while (!e->notified)
		sched_yield();
	result = e->job.result;
	s->bad += e->notified != 1 || e->runs != !result ||
		  (e->cancelled && result != -ECANCELED) ||
		  (result && result != -ECANCELED && result != -ETIMEDOUT);
	memset(e, 0, sizeof(*e));
}

static int storm(void *arg)
{
	struct submitter *s = arg;

	for (int i = 0; i < s->nr; i++) {
		struct entry *e = &s->ring[i % RING];
		uint64_t r = s->random = s->random * 6364136223846793005u + 1442695040888963407u;
		int ret;

		end_entry(s, e);
		job_of(&e->job, run_fn, s);
		must(rnl_job_set_on_done(&e->job, notified));
		if (r >> 32 & 1)
			must(rnl_job_set_deadline(&e->job, (int64_t)(r >> 33 & 0xfffff)));
		must(rnl_job_set_class(&e->job, (r >> 58) == 1 ? s->cls : NULL));
		do {
			ret = r >> 58 != 1 && r >> 57 & 1 ?
			      submit_by_key(s->pool, &e->job, r >> 50 & 3) :
			      rnl_submit(s->pool, &e->job);
		} while (ret == -EAGAIN);
		if (ret == -ESHUTDOWN) {
			memset(e, 0, sizeof(*e));
			break;
		}
		s->bad += ret != 0;
		/* Cancels the newest job, or an older one. */
		if (r >> 60 & 1) {
			e = &s->ring[(i + RING - (r >> 40 & 63)) % RING];
			if (e->job.user)
				e->cancelled |= !rnl_job_cancel(&e->job);
		}
	}
	for (int i = 0; i < RING; i++)
		end_entry(s, &s->ring[i]);
	return 0;
}

TEST(each_job_ends_once_as_reported_during_steals_resizes_drains_and_a_close, .timeout_s = 120)
{
	struct submitter submitters[SUBMITTERS];
	struct call threads[SUBMITTERS];

	for (int round = 0; round < 2; round++) {
		struct rnl_pool *pool = pool_of(2, .max_queued = 2048);
		struct rnl_class *cls = class_of(pool, .priority = -4, .flags = RNL_CLASS_LATE);

		for (int i = 0; i < SUBMITTERS; i++) {
			submitters[i] = (struct submitter){
				.pool = pool, .cls = cls, .ring = calloc(RING, sizeof(struct entry)),
				.random = test_seed() + (uint64_t)(round * SUBMITTERS + i),
				.nr = (int)(EACH / test_scale()),
			};
			call_start(&threads[i], storm, &submitters[i]);
		}
		for (unsigned i = 0; i < 20; i++) {
			must(rnl_pool_resize(pool, 1 + i % 3));
			(void)rnl_pool_drain(pool, MS);
		}
		if (round)
			must(rnl_pool_close(pool));
		for (int i = 0; i < SUBMITTERS; i++) {
			call_end(&threads[i]);
			ck_assert_int_eq(submitters[i].bad, 0);
			free(submitters[i].ring);
		}
		must(rnl_pool_drain(pool, RNL_FOREVER));
		rnl_pool_destroy(pool);
	}
}

/* ---- priorities of the timer thread -------------------------------------------- */

/* Cancels a queued job while the timer thread is idle. Returns the time until the job was done. */
static int64_t cancel_took(struct rnl_pool *pool)
{
	struct rnl_job job;
	int64_t begin;

	submit_job(pool, &job, noop_fn, NULL);
	usleep(5000);
	begin = rnl_clock();
	must(rnl_job_cancel(&job));
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	return rnl_clock() - begin;
}

/* One quick cancel is enough: on a busy machine the timer thread gets no CPU for a while. */
TEST(the_timer_thread_does_not_rest_before_it_sees_a_cancelled_job)
{
	struct jam jam;

	jam_of(&jam, 1);
	ck_eventually(cancel_took(jam.pool) < MS / 4);
	jam_end(&jam);
}

static _Atomic uint64_t queued_then;
static _Atomic bool noted_then;

static void note_queued(struct rnl_job *job)
{
	queued_then = figures_of(job->user).queued;
	noted_then = true;
}

/*
 * The timer thread searches every 2 ms, and has just done so when it reaches the delayed jobs. To
 * queue half of them takes longer than 2 ms. On a busy machine, it may search first.
 */
TEST(a_cancelled_job_is_done_before_many_delayed_jobs_are_queued, .timeout_s = 120, .loops = 3,
     .not_simulated = "it is long")
{
	const unsigned nr = 200000;
	struct gate timer = GATE_INIT;
	struct rnl_job blocker, job, *delayed = calloc(nr, sizeof(*delayed));
	struct jam jam;
	bool all_delayed;
	int64_t at;

	noted_then = false;
	jam_of(&jam, 1);
	hold_timer(jam.pool, &timer, &blocker);
	at = rnl_clock() + (int64_t)(1500 * MS * test_scale());
	for (unsigned i = 0; i < nr; i++) {
		job_of(&delayed[i], noop_fn, NULL);
		must(submit_at(jam.pool, &delayed[i], at));
	}
	all_delayed = rnl_clock() < at;
	ck_eventually(rnl_clock() > at);
	job_of(&job, noop_fn, jam.pool);
	must(rnl_job_set_on_done(&job, note_queued));
	must(rnl_submit(jam.pool, &job));
	must(rnl_job_cancel(&job));
	gate_open(&timer);
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	ck_eventually(noted_then);
	if (all_delayed)
		ck_assert_uint_lt(queued_then, nr / 2);
	ck_eventually(figures_of(jam.pool).queued == nr);
	jam_end(&jam);
	free(delayed);
}
