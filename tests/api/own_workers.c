/* SPDX-License-Identifier: MIT */
/*
 * Workers of a class's own: its jobs run on them and on no others. Classes get them, give them back
 * and get them again, whatever else the pool does.
 */
#include <runnel/class.h>
#include <runnel/hold.h>
#include <runnel/stats.h>
#include <runnel/trace.h>

#include "classed.h"
#include "fake_cudart/fake_cudart.h"
#include "heard.h"
#include "host_kernel.h"
#include "places.h"
#include "record.h"
#include "seed.h"
#include "trace.h"

/* Defined by the double. */
#pragma weak fake_fail_sticky
#pragma weak fake_stream_priority

static struct heard heard;

#define ck_heard(what) ck_assert_msg(has_heard(&heard, what), "%s", heard.text)

/* A job that looks at its worker, and holds it at the gate. */
struct look {
	struct rnl_job job;
	struct gate *gate;
	int worker, device, priority;
	pid_t tid;
};

enum { NO_PRIORITY = 1, LOOKS = 8 };

static int look_fn(struct rnl_job *job)
{
	struct look *look = rnl_container_of(job, struct look, job);

	look->worker = rnl_worker().index;
	look->device = rnl_worker().device;
	look->tid = own_tid();
	look->priority = test_fake() ? fake_stream_priority(rnl_stream()) : NO_PRIORITY;
	gate_wait(look->gate);
	return 0;
}

static uint64_t bit_of(int worker)
{
	ck_assert_int_ge(worker, 0);
	ck_assert_int_lt(worker, RNL_CLASS_WORKERS_MAX);
	return UINT64_C(1) << worker;
}

/* Holds all @nr workers of a class at one time.  Returns a bit for each of them. */
static uint64_t look_at(struct rnl_pool *pool, struct rnl_class *cls, struct look *looks, unsigned nr)
{
	struct gate gate = GATE_INIT;
	uint64_t bits = 0;

	for (unsigned i = 0; i < nr; i++) {
		looks[i].gate = &gate;
		submit_classed(pool, &looks[i].job, cls, look_fn, NULL);
	}
	gate_await(&gate, nr);
	gate_open(&gate);
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&looks[i].job), 0);
		bits |= bit_of(looks[i].worker);
	}
	ck_assert_int_eq(__builtin_popcountll(bits), (int)nr);
	return bits;
}

static uint64_t workers_of(struct rnl_pool *pool, struct rnl_class *cls, unsigned nr)
{
	struct look looks[LOOKS];

	ck_assert_uint_le(nr, LOOKS);
	return look_at(pool, cls, looks, nr);
}

/* Runs many jobs of a class; each must run on one of @workers. */
static void keeps_to(struct rnl_pool *pool, struct rnl_class *cls, uint64_t workers)
{
	enum { NR = 200 };
	struct rnl_job jobs[NR];

	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, index_fn, NULL);
	for (int i = 0; i < NR; i++)
		ck_assert(bit_of(result_of(&jobs[i])) & workers);
}

/* The creation returns @ret, sets nothing, and logs a line that has @wanted. */
static void refused(struct rnl_pool *pool, unsigned nr, int ret, const char *wanted)
{
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = nr };
	struct rnl_class *cls = NULL;

	heard.bytes = 0;
	heard.text[0] = '\0';
	ck_assert_int_eq(rnl_class_create(&cls, pool, &attr), ret);
	ck_assert_ptr_null(cls);
	ck_heard(wanted);
}

/* Holds the workers of a class at the gate, each by one job. */
static void hold_own(struct rnl_pool *pool, struct rnl_class *cls, struct gate *gate,
		     struct rnl_job *jobs, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		submit_classed(pool, &jobs[i], cls, gated_fn, gate);
	gate_await(gate, nr);
}

/* ---- classes without workers of their own: their jobs go before queued ones --------------- */

TEST(jobs_of_the_first_class_go_before_queued_jobs)
{
	enum { OTHERS = 20 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = first_class(pool);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held;
	struct noted noted[OTHERS], first[2];

	for (int round = 0; round < 2; round++) {
		gate = (struct gate)GATE_INIT;
		record.nr = 0;
		hold_workers(pool, &gate, &held, 1);
		for (int i = 0; i < OTHERS; i++) {
			noted_of(&noted[i], &record, i);
			must(i % 2 ? rnl_submit(pool, &noted[i].job) :
				     submit_by_key(pool, &noted[i].job, 1));
		}
		for (int i = 0; i < 2; i++) {
			/* The job keeps its class in later runs. */
			if (!round) {
				noted_of(&first[i], &record, 100 + i);
				must(rnl_job_set_class(&first[i].job, cls));
			}
			must(rnl_submit(pool, &first[i].job));
		}
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		ck_assert_uint_eq(record.nr, OTHERS + 2);
		/* By its floor of 1 %, one of the other jobs may be first. */
		ck_assert_int_le(place_of(&record, 100), 1);
		ck_assert_int_le(place_of(&record, 101), 2);
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_that_has_left_its_class_waits_for_its_turn)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = first_class(pool);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held;
	struct noted first, second;

	hold_workers(pool, &gate, &held, 1);
	noted_of(&first, &record, 1);
	noted_of(&second, &record, 2);
	must(rnl_job_set_class(&second.job, cls));
	must(rnl_job_set_class(&second.job, NULL));
	must(rnl_submit(pool, &first.job));
	must(rnl_submit(pool, &second.job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(place_of(&record, 2), 1);
	rnl_pool_destroy(pool);
}

TEST(a_job_of_the_first_class_that_was_deferred_goes_before_others_once_it_may)
{
	enum { OTHERS = 10 };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_class *cls = first_class(pool);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct noted noted[OTHERS], first;

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < OTHERS; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_submit(pool, &noted[i].job));
	}
	noted_of(&first, &record, 100);
	must(rnl_job_set_class(&first.job, cls));
	must(rnl_job_set_after(&first.job, &barrier));
	must(rnl_submit(pool, &first.job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_le(place_of(&record, 100), 1);
	rnl_pool_destroy(pool);
}

/* ---- whose jobs run where -------------------------------------------------------------------- */

enum { OWN = 2, WORKERS = 2 };

TEST(a_class_runs_on_its_own_workers_while_all_others_are_held)
{
	enum { NR = 200 };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_class_workers = OWN);
	struct rnl_class *cls = own_class(pool, OWN);
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS], queued[3], jobs[NR], *list[4];

	hold_workers(pool, &gate, held, WORKERS);
	for (int i = 0; i < 3; i++)
		job_of(&queued[i], noop_fn, NULL);
	must(rnl_submit(pool, &queued[0]));
	for (int i = 0; i < NR - 2; i++)
		submit_classed(pool, &jobs[i], cls, index_fn, NULL);
	/* Jobs of the class in a list with other jobs, too. */
	list[0] = &queued[1];
	list[1] = &jobs[NR - 2];
	list[2] = &queued[2];
	list[3] = &jobs[NR - 1];
	classed_of(list[1], cls, index_fn, NULL);
	classed_of(list[3], cls, index_fn, NULL);
	ck_assert_int_eq(rnl_submit_many(pool, list, 4), 4);
	for (int i = 0; i < NR; i++) {
		int worker = result_of(&jobs[i]);

		ck_assert_int_ge(worker, 0);
		ck_assert_int_lt(worker, OWN);
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_ne(rnl_job_wait(&queued[i], 0), 0);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(own_workers_run_no_other_jobs)
{
	enum { NR = 3000, PART = NR / 4 };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_class_workers = OWN);
	struct rnl_class *cls = own_class(pool, OWN), *other = class_of(pool, .priority = -4);
	struct rnl_job *jobs = calloc(NR, sizeof(*jobs)), *list[PART];
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS], own;

	/* The other workers have a backlog; the class's workers are idle and awake. */
	hold_workers(pool, &gate, held, WORKERS);
	for (int i = 0; i < NR; i++)
		job_of(&jobs[i], index_fn, NULL);
	for (int i = 0; i < PART; i++) {
		must(rnl_submit(pool, &jobs[i]));
		must(submit_by_key(pool, &jobs[PART + i], (uint64_t)i));
		must(rnl_job_set_class(&jobs[2 * PART + i], other));
		must(rnl_submit(pool, &jobs[2 * PART + i]));
		list[i] = &jobs[3 * PART + i];
	}
	ck_assert_int_eq(rnl_submit_many(pool, list, PART), PART);
	for (int i = 0; i < 100; i++) {
		submit_classed(pool, &own, cls, index_fn, NULL);
		ck_assert_int_lt(result_of(&own), OWN);
	}
	gate_open(&gate);
	for (int i = 0; i < NR; i++) {
		int worker = result_of(&jobs[i]);

		ck_assert_int_ge(worker, OWN);
		ck_assert_int_lt(worker, OWN + WORKERS);
	}
	rnl_pool_destroy(pool);
	free(jobs);
}

TEST(a_free_worker_of_the_pool_takes_no_job_of_a_held_own_worker)
{
	struct rnl_pool *pool = pool_of(2, .nr_class_workers = 1);
	struct rnl_class *cls = own_class(pool, 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, own[2], other;

	hold_own(pool, cls, &gate, &held, 1);
	/* The other workers look for jobs after each of their own. */
	for (unsigned i = 0; i < 100; i++) {
		if (i % 50 == 0)
			submit_classed(pool, &own[i / 50], cls, index_fn, NULL);
		submit_job(pool, &other, index_fn, NULL);
		ck_assert_int_ge(result_of(&other), 1);
	}
	ck_assert_uint_eq(stats_of(cls).queued, 2);
	ck_assert_int_eq(rnl_job_wait(&own[0], MS), -ETIMEDOUT);
	gate_open(&gate);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&own[i]), 0);
	rnl_pool_destroy(pool);
}

TEST(two_classes_have_workers_of_their_own_at_once, .loops = 2)
{
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 4);
	struct rnl_class *cls[2] = { own_class(pool, _i ? 1 : 2), own_class(pool, _i ? 3 : 2) };
	const unsigned nr[2] = { _i ? 1 : 2, _i ? 3 : 2 };
	uint64_t workers[2];

	for (unsigned i = 0; i < 2; i++)
		workers[i] = workers_of(pool, cls[i], nr[i]);
	ck_assert_uint_eq(workers[0] & workers[1], 0);
	ck_assert_uint_eq(workers[0] | workers[1], 0xf);
	for (unsigned held = 0; held < 2; held++) {
		struct gate gate = GATE_INIT;
		struct rnl_job holding[3], queued;

		hold_own(pool, cls[held], &gate, holding, nr[held]);
		submit_classed(pool, &queued, cls[held], noop_fn, NULL);
		keeps_to(pool, cls[!held], workers[!held]);
		ck_assert_int_ne(rnl_job_wait(&queued, 0), 0);
		gate_open(&gate);
		ck_assert_int_eq(result_of(&queued), 0);
		for (unsigned i = 0; i < nr[held]; i++)
			ck_assert_int_eq(result_of(&holding[i]), 0);
	}
	rnl_pool_destroy(pool);
}

/* A key's order is worth more than the class's workers; later jobs of a chain stay where it is. */
TEST(jobs_with_keys_run_where_their_key_leads_and_chains_on_own_workers)
{
	struct rnl_pool *pool = pool_of(2, .nr_class_workers = 1);
	struct rnl_class *cls = own_class(pool, 1);
	struct rnl_job keyed, first, then;

	for (unsigned i = 0; i < 10; i++) {
		classed_of(&keyed, cls, index_fn, NULL);
		must(submit_by_key(pool, &keyed, RNL_KEY_WORKER(i)));
		ck_assert_int_eq(result_of(&keyed), (int)(1 + i % 2));
		classed_of(&first, cls, index_fn, NULL);
		job_of(&then, index_fn, NULL);
		must(rnl_job_set_then(&first, &then));
		must(rnl_submit(pool, &first));
		ck_assert_int_eq(result_of(&then), 0);
		ck_assert_int_eq(result_of(&first), 0);
	}
	ck_assert_uint_eq(stats_of(cls).done, 30);
	rnl_pool_destroy(pool);
}

TEST(limits_hold_back_jobs_of_own_workers, .loops = 2)
{
	enum { NR = 100 };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 3, .spin_us = -1);
	struct rnl_class *cls = class_of(pool, .nr_workers = 3, .max_jobs = _i ? 0 : 1,
					 .per_second = _i ? 2000 : 0, .burst = _i);
	struct record record = { 0 };
	static struct noted noted[NR];
	const int64_t begin = rnl_clock();

	for (int i = 0; i < NR; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_job_set_class(&noted[i].job, cls));
		must(rnl_submit(pool, &noted[i].job));
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, NR);
	for (int i = 0; !_i && i < NR; i++)
		ck_assert_int_eq(record.ids[i], i);
	/* 0.5 ms for each, but for those of the first two ms. */
	ck_assert(!_i || rnl_clock() - begin > (NR - 10) * MS / 2);
	rnl_pool_destroy(pool);
}

/* Worker @may may start; worker @fails may not, once the gate is open. */
struct starts {
	unsigned may, fails;
	_Atomic pid_t tid;		/* of worker @may */
	struct gate gate;
};

static int start_or_fail(void *arg, unsigned worker, void **datap)
{
	struct starts *s = arg;

	(void)datap;
	if (worker == s->may)
		s->tid = own_tid();
	if (worker != s->fails)
		return 0;
	gate_wait(&s->gate);
	return -EPROTO;
}

TEST(a_worker_takes_no_job_of_a_class_in_a_growth_that_fails)
{
	struct starts starts = { .may = 1, .fails = 2, .gate = GATE_INIT };
	struct rnl_pool *pool = pool_of(1, .on_start = start_or_fail, .hook_arg = &starts);
	struct rnl_class *cls = first_class(pool);
	struct gate gate = GATE_INIT;
	struct rnl_job held, job;
	struct call call;

	hold_workers(pool, &gate, &held, 1);
	submit_classed(pool, &job, cls, index_fn, NULL);
	call_start(&call, resize_fn, &(struct resize){ pool, 3 });
	gate_await(&starts.gate, 1);
	ck_waits(starts.tid);
	gate_open(&starts.gate);
	ck_assert_int_eq(call_end(&call), -EPROTO);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).accepted, 2);
	ck_assert_uint_eq(figures_of(pool).done, 2);
	rnl_pool_destroy(pool);
}

/* A creation of a class; create_fn() is the function of a struct call. */
struct creation {
	struct rnl_pool *pool;
	struct rnl_class_attr attr;
	struct rnl_class *cls;
};

static int create_fn(void *arg)
{
	struct creation *c = arg;

	c->attr.size = sizeof(c->attr);
	return rnl_class_create(&c->cls, c->pool, &c->attr);
}

/* The workers that start for a class that is not created do nothing, and are there for the next. */
TEST(a_class_one_of_whose_workers_does_not_start_is_not_created)
{
	struct starts starts = { .may = 1, .fails = 2, .gate = GATE_INIT };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_class *cls, *again;
	struct gate gate = GATE_INIT;
	struct rnl_job held[2], job[2];
	struct creation creation;
	struct call call;

	hear(&heard, &attr);
	attr.nr_class_workers = 3;
	attr.on_start = start_or_fail;
	attr.hook_arg = &starts;
	pool = pool_with(&attr, 1);
	cls = own_class(pool, 1);
	hold_own(pool, cls, &gate, &held[0], 1);
	submit_job(pool, &held[1], gated_fn, &gate);
	gate_await(&gate, 2);
	submit_classed(pool, &job[0], cls, index_fn, NULL);
	submit_job(pool, &job[1], index_fn, NULL);
	creation = (struct creation){ pool, { .nr_workers = 2 }, NULL };
	call_start(&call, create_fn, &creation);
	gate_await(&starts.gate, 1);
	ck_waits(starts.tid);
	gate_open(&starts.gate);
	ck_assert_int_eq(call_end(&call), -EPROTO);
	ck_assert_ptr_null(creation.cls);
	ck_heard("worker 2: on_start returned");
	ck_assert_uint_eq(figures_of(pool).nr_workers, 2);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job[0]), 0);
	ck_assert_int_eq(result_of(&job[1]), 3);
	starts.fails = 99;
	again = own_class(pool, 2);
	ck_assert_uint_eq(workers_of(pool, again, 2), 6);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 4);
	rnl_pool_destroy(pool);
}

/* ---- got, given back, got again --------------------------------------------------------------- */

TEST(own_workers_are_counted_first_and_with_the_others_while_a_class_has_them)
{
	enum { CLASSES = 3, NR = CLASSES + WORKERS };
	struct rnl_pool *pool = pool_of(WORKERS, .nr_class_workers = CLASSES);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_job held[WORKERS];
	struct rnl_class *cls;

	ck_assert_uint_eq(figures_of(pool).nr_workers, WORKERS);
	must(rnl_pool_read_stats(pool, 0, &stats));
	ck_assert_uint_eq(stats.nr_workers, 0);
	cls = own_class(pool, OWN);
	ck_assert_uint_eq(figures_of(pool).nr_workers, OWN + WORKERS);
	ck_assert_uint_eq(workers_of(pool, cls, OWN), 3);
	hold_workers(pool, &gate, held, WORKERS);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < NR; i++) {
		must(rnl_pool_read_stats(pool, i, &stats));
		ck_assert_uint_eq(stats.nr_workers, i != OWN);
		ck_assert_uint_eq(stats.done, i != OWN);
	}
	ck_assert_int_eq(rnl_pool_read_stats(pool, NR, &stats), -EINVAL);
	ck_assert_int_eq(rnl_pool_read_stats(pool, -2, &stats), -EINVAL);
	rnl_class_destroy(cls);
	ck_assert_uint_eq(figures_of(pool).nr_workers, WORKERS);
	ck_assert_uint_eq(figures_of(pool).done, OWN + WORKERS);
	must(rnl_pool_read_stats(pool, 0, &stats));
	ck_assert_uint_eq(stats.nr_workers, 0);
	rnl_pool_destroy(pool);
}

/*
 * A class that has the priority of the one before it gets the same threads, because CUDA does not
 * free the memory of a per-thread stream. One of another priority gets others.
 */
TEST(own_workers_are_given_back_and_lent_with_another_priority, .loops = 2)
{
	static const uint32_t levels[] = { 0, 0, 1, 4, 5, 9, UINT32_MAX, 0, 3, 3 };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = OWN,
					.stream = _i ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD);
	pid_t tids[OWN] = { 0, 0 };

	for (unsigned i = 0; i < COUNT(levels); i++) {
		const bool same = i && levels[i] == levels[i - 1];
		struct rnl_class *cls = class_of(pool, .nr_workers = OWN, .stream_priority = levels[i]);
		struct look looks[OWN], other;

		ck_assert_uint_eq(look_at(pool, cls, looks, OWN), 3);
		for (unsigned k = 0; k < OWN; k++) {
			pid_t *tid = &tids[looks[k].worker];

			ck_assert(same ? looks[k].tid == *tid : looks[k].tid != *tid);
			*tid = looks[k].tid;
			/* The double has priorities from -5 to 0. */
			ck_assert(!test_fake() ||
				  looks[k].priority == (levels[i] < 5 ? (int)levels[i] - 5 : 0));
		}
		ck_assert_uint_eq(look_at(pool, NULL, &other, 1), bit_of(OWN));
		ck_assert(!test_fake() || other.priority == 0);
		rnl_class_destroy(cls);
		ck_assert_uint_eq(figures_of(pool).nr_workers, 1);
	}
	rnl_pool_destroy(pool);
}

TEST(a_row_of_free_workers_is_found)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_class *cls[3], *other;

	hear(&heard, &attr);
	attr.nr_class_workers = 6;
	pool = pool_with(&attr, 1);
	refused(pool, 7, -EINVAL, "rnl_class_create(): nr_workers is 7; it must be 0 to 6");
	for (unsigned i = 0; i < 3; i++) {
		cls[i] = own_class(pool, 2);
		ck_assert_uint_eq(workers_of(pool, cls[i], 2), UINT64_C(3) << 2 * i);
	}
	refused(pool, 1, -EAGAIN, "rnl_class_create(): nr_workers is 1, and classes have 6 of the 6");
	rnl_class_destroy(cls[1]);
	refused(pool, 3, -EAGAIN, "rnl_class_create(): nr_workers is 3, and classes have 4 of the 6");
	other = own_class(pool, 1);
	ck_assert_uint_eq(workers_of(pool, other, 1), 4);
	rnl_class_destroy(cls[2]);
	cls[2] = own_class(pool, 3);
	ck_assert_uint_eq(workers_of(pool, cls[2], 3), 0x38);
	rnl_class_destroy(cls[0]);
	cls[0] = own_class(pool, 2);
	ck_assert_uint_eq(workers_of(pool, cls[0], 2), 3);
	keeps_to(pool, cls[2], 0x38);
	keeps_to(pool, other, 4);
	rnl_pool_destroy(pool);
}

TEST(a_pool_has_the_most_workers_for_classes, .timeout_s = 60)
{
	enum { MOST = RNL_CLASS_WORKERS_MAX };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = MOST);
	struct rnl_class *cls = own_class(pool, MOST);
	static struct look looks[MOST];
	struct rnl_class *half[2];

	ck_assert_uint_eq(look_at(pool, cls, looks, MOST), UINT64_MAX);
	rnl_class_destroy(cls);
	half[0] = own_class(pool, MOST - 1);
	half[1] = own_class(pool, 1);
	ck_assert_uint_eq(workers_of(pool, half[1], 1), UINT64_C(1) << (MOST - 1));
	ck_assert_uint_eq(look_at(pool, half[0], looks, MOST - 1), UINT64_MAX >> 1);
	rnl_pool_destroy(pool);
}

TEST(more_workers_than_a_pool_has_room_for_are_refused)
{
	static const struct {
		uint32_t nr_class_workers, nr_workers;
	} rows[] = {
		{ RNL_CLASS_WORKERS_MAX + 1, 1 },
		{ 1, RNL_WORKERS_MAX },
		{ RNL_CLASS_WORKERS_MAX, RNL_WORKERS_MAX - RNL_CLASS_WORKERS_MAX + 1 },
		{ RNL_WORKERS_MAX, 0 },
		{ UINT32_MAX, 1 },
		{ UINT32_MAX, UINT32_MAX },
	};

	for (unsigned i = 0; i < COUNT(rows); i++) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
		struct rnl_pool *pool = NULL;

		attr.device = test_device();
		attr.nr_class_workers = rows[i].nr_class_workers;
		attr.nr_workers = rows[i].nr_workers;
		ck_assert_msg(rnl_pool_create(&pool, &attr) == -EINVAL, "row %u", i);
	}
}

/* Places of classes are short, too: then the workers are given back. */
TEST(a_class_without_a_place_in_the_pool_gives_its_workers_back)
{
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = 1 };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 1);
	struct rnl_class *all[RNL_CLASSES_MAX], *cls = NULL;

	for (unsigned i = 0; i < RNL_CLASSES_MAX; i++)
		all[i] = class_of(pool);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(rnl_class_create(&cls, pool, &attr), -EAGAIN);
	ck_assert_ptr_null(cls);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 1);
	rnl_class_destroy(all[7]);
	cls = own_class(pool, 1);
	ck_assert_uint_eq(workers_of(pool, cls, 1), 1);
	rnl_pool_destroy(pool);
}

/* ---- on workers -------------------------------------------------------------------------------- */

static int create_on_worker_fn(struct rnl_job *job)
{
	struct creation *c = job->user;

	return create_fn(c);
}

static int destroy_fn(struct rnl_job *job)
{
	rnl_class_destroy(job->user);
	return 0;
}

TEST(a_worker_of_the_pool_creates_no_class_with_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool, *other = pool_of(1, .nr_class_workers = 1);
	struct creation creation;
	struct rnl_class *cls;
	struct rnl_job job;

	hear(&heard, &attr);
	attr.nr_class_workers = 2;
	pool = pool_with(&attr, 1);
	cls = own_class(pool, 1);
	for (unsigned i = 0; i < 2; i++) {
		creation = (struct creation){ pool, { .nr_workers = 1 }, NULL };
		classed_of(&job, i ? cls : NULL, create_on_worker_fn, &creation);
		heard.bytes = 0;
		ck_assert_int_eq(submit_and_wait(pool, &job), -EBUSY);
		ck_assert_ptr_null(creation.cls);
		ck_heard("rnl_class_create(), for workers of the class's own");
		/* Without workers of its own, and in another pool, it may. */
		creation.attr.nr_workers = 0;
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		rnl_class_destroy(creation.cls);
		creation.pool = other;
		creation.attr.nr_workers = 1;
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
		rnl_class_destroy(creation.cls);
	}
	/* A class that a worker ends keeps its workers until the pool's end. */
	classed_of(&job, cls, destroy_fn, cls);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	refused(pool, 2, -EAGAIN, "nr_workers is 2, and classes have 1 of the 2");
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

static int create_at_start(void *arg, unsigned worker, void **datap)
{
	struct creation *c = arg;

	(void)datap;
	return worker == 0 ? create_fn(c) : 0;
}

static struct creation at_start;

TEST(a_start_hook_creates_no_class_with_workers)
{
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = 1 };
	struct rnl_class *cls = NULL;
	struct rnl_pool *pool;
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	at_start = (struct creation){ NULL, { .nr_workers = 1 }, NULL };
	pool = pool_of(1, .nr_class_workers = 2, .on_start = create_at_start, .hook_arg = &at_start);
	at_start.pool = pool;
	ck_assert_int_eq(rnl_class_create(&cls, pool, &attr), -EBUSY);
	ck_assert_ptr_null(cls);
	ck_assert_ptr_null(at_start.cls);
	hold_workers(pool, &gate, &job, 1);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

/* ---- hooks -------------------------------------------------------------------------------------- */

enum { HOOKED = 8 };

struct hooks {
	_Atomic unsigned starts[HOOKED], stops[HOOKED];
	_Atomic unsigned fails;		/* this worker's start fails */
};

static int count_start(void *arg, unsigned worker, void **datap)
{
	struct hooks *h = arg;

	*datap = h;
	if (worker == h->fails)
		return -EPROTO;
	h->starts[worker]++;
	return 0;
}

static void count_stop(void *arg, unsigned worker, void *data)
{
	struct hooks *h = arg;

	ck_assert_ptr_eq(data, arg);
	h->stops[worker]++;
}

TEST(hooks_are_called_each_time_that_a_class_gets_workers)
{
	enum { ROUNDS = 6 };
	struct hooks hooks = { .fails = HOOKED };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = OWN, .on_start = count_start,
					.on_stop = count_stop, .hook_arg = &hooks);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct rnl_class *cls;

		for (unsigned k = 0; k < OWN; k++)
			ck_assert_uint_eq(hooks.starts[k], i);
		cls = class_of(pool, .nr_workers = OWN, .stream_priority = i / 2);
		for (unsigned k = 0; k < OWN; k++) {
			ck_assert_uint_eq(hooks.starts[k], i + 1);
			ck_assert_uint_eq(hooks.stops[k], i);
		}
		(void)workers_of(pool, cls, OWN);
		if (i < ROUNDS - 1)
			rnl_class_destroy(cls);
	}
	ck_assert_uint_eq(hooks.starts[OWN], 1);
	rnl_pool_destroy(pool);
	for (unsigned k = 0; k <= OWN; k++)
		ck_assert_uint_eq(hooks.stops[k], hooks.starts[k]);
}

/* _i: the number of times that a class had the workers before. */
TEST(a_start_that_fails_leaves_no_class_and_no_worker, .loops = 2)
{
	enum { NR = 3 };
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = NR };
	struct hooks hooks = { .fails = HOOKED };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = NR, .on_start = count_start,
					.on_stop = count_stop, .hook_arg = &hooks);
	struct rnl_class *cls = NULL;

	if (_i)
		rnl_class_destroy(own_class(pool, NR));
	for (unsigned i = 0; i < NR; i++) {
		hooks.fails = i;
		ck_assert_int_eq(rnl_class_create(&cls, pool, &attr), -EPROTO);
		ck_assert_ptr_null(cls);
		for (unsigned k = 0; k < NR; k++)
			ck_assert_uint_eq(hooks.starts[k], hooks.stops[k]);
		ck_assert_uint_eq(figures_of(pool).nr_workers, 1);
	}
	hooks.fails = HOOKED;
	cls = own_class(pool, NR);
	ck_assert_uint_eq(workers_of(pool, cls, NR), 7);
	rnl_pool_destroy(pool);
	for (unsigned k = 0; k < NR; k++)
		ck_assert_uint_eq(hooks.starts[k], hooks.stops[k]);
}

/* ---- what else happens to the pool -------------------------------------------------------------- */

TEST(a_resize_leaves_own_workers_as_they_are)
{
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = OWN);
	struct rnl_class *cls = own_class(pool, OWN);
	struct gate gate = GATE_INIT;
	struct look looks[OWN], after[OWN];
	pid_t tids[OWN];

	for (unsigned i = 0; i < OWN; i++) {
		looks[i].gate = &gate;
		submit_classed(pool, &looks[i].job, cls, look_fn, NULL);
	}
	gate_await(&gate, OWN);
	/* It does not wait for them. */
	must(rnl_pool_resize(pool, 4));
	must(rnl_pool_resize(pool, 1));
	ck_assert_uint_eq(figures_of(pool).nr_workers, OWN + 1);
	gate_open(&gate);
	for (unsigned i = 0; i < OWN; i++) {
		ck_assert_int_eq(result_of(&looks[i].job), 0);
		tids[looks[i].worker] = looks[i].tid;
	}
	must(rnl_pool_resize(pool, 3));
	ck_assert_uint_eq(look_at(pool, cls, after, OWN), 3);
	for (unsigned i = 0; i < OWN; i++)
		ck_assert_int_eq(after[i].tid, tids[after[i].worker]);
	rnl_pool_destroy(pool);
}

static int end_class(void *cls)
{
	rnl_class_destroy(cls);
	return 0;
}

/* Workers are given back when the class's last job is done, with what it has on the device. */
TEST(a_destroy_of_a_class_waits_for_its_jobs_and_no_others)
{
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held, own, queued;
	struct rnl_class *cls, *other;
	struct rnl_pool *pool;
	struct call call;

	skip_unless_host();
	pool = pool_of(1, .nr_class_workers = OWN);
	cls = own_class(pool, 1);
	other = own_class(pool, 1);
	hold_workers(pool, &gates[0], &held, 1);
	submit_classed(pool, &own, cls, gated_kernel_fn, &gates[1]);
	gate_await(&gates[1], 1);
	submit_classed(pool, &queued, cls, index_fn, NULL);
	call_start(&call, end_class, cls);
	ck_waits(call.tid);
	keeps_to(pool, other, 2);
	ck_assert(!call.returned);
	gate_open(&gates[1]);
	must(call_end(&call));
	ck_assert_int_eq(rnl_job_wait(&own, 0), 0);
	ck_assert_int_eq(rnl_job_wait(&queued, 0), 0);
	ck_assert_int_eq(queued.result, 0);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 2);
	gate_open(&gates[0]);
	rnl_pool_destroy(pool);
}

static int stop_fn(void *pool)
{
	return rnl_pool_stop(pool, RNL_FOREVER);
}

/* 0: the pool is drained; 1: closed and drained; 2: destroyed; 3: stopped. */
TEST(an_end_of_the_pool_counts_the_jobs_of_own_workers, .loops = 4)
{
	enum { NR = 20 };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = OWN);
	struct rnl_class *cls = own_class(pool, 1), *none = NULL;
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = 1 };
	struct gate gate = GATE_INIT;
	struct rnl_job held, jobs[NR];
	struct call call;

	hold_own(pool, cls, &gate, &held, 1);
	for (int i = 0; i < NR; i++)
		submit_classed(pool, &jobs[i], cls, result_fn, (void *)5);
	if (_i == 1)
		must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_class_create(&none, pool, &attr), _i == 1 ? -ESHUTDOWN : 0);
	if (_i == 2) {
		gate_open(&gate);
		rnl_pool_destroy(pool);
	} else {
		call_start(&call, _i == 3 ? stop_fn : drain_fn, pool);
		ck_waits(call.tid);
		ck_assert(!call.returned);
		gate_open(&gate);
		must(call_end(&call));
	}
	ck_assert_int_eq(result_of(&held), 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), _i == 3 ? -ECANCELED : 5);
	if (_i == 2)
		return;
	if (_i != 1)
		rnl_class_destroy(none);
	rnl_class_destroy(cls);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 1);
	ck_assert_int_eq(rnl_class_create(&none, pool, &attr), _i ? -ESHUTDOWN : 0);
	rnl_pool_destroy(pool);
}

TEST(a_worker_that_spins_for_long_ends_and_begins_at_once, .timeout_s = 30)
{
	enum { ROUNDS = 300 };		/* of a second each, if it spun to its end */
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 1);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct rnl_class *cls = class_of(pool, .nr_workers = 1, .spin_us = 1000000);

		if (i % 3)
			ck_assert_uint_eq(workers_of(pool, cls, 1), 1);
		if (i % 2)
			must(rnl_pool_resize(pool, 1 + i / 2 % 2));
		rnl_class_destroy(cls);
	}
	rnl_pool_destroy(pool);
}

TEST(a_trace_has_the_jobs_of_classes_that_come_meanwhile, .setup = set_path, .teardown = remove_file)
{
	static const uint32_t levels[] = { 0, 0, 3 };
	struct rnl_pool *pool = pool_of(1, .nr_class_workers = 3);
	struct rnl_class *before = own_class(pool, 1), *cls;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	(void)workers_of(pool, before, 1);
	for (unsigned i = 0; i < COUNT(levels); i++) {
		cls = class_of(pool, .nr_workers = 2, .stream_priority = levels[i]);
		(void)workers_of(pool, cls, 2);
		rnl_class_destroy(cls);
	}
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(count(text, "\"name\":\"look_fn\",\"cat\":\"job\""), 7);
	ck_assert_uint_ge(count(text, "-0 (of a class)\""), 1);
	ck_assert_uint_ge(count(text, "-2 (of a class)\""), 1);
	ck_assert_uint_eq(count(text, "-3 (of a class)\""), 0);
	free(text);
	/* A trace that begins while a class has workers, and ends when it has none. */
	cls = own_class(pool, 2);
	must(rnl_trace_start(pool, path, NULL));
	(void)workers_of(pool, cls, 2);
	rnl_class_destroy(cls);
	rnl_class_destroy(before);
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(count(text, "\"name\":\"look_fn\",\"cat\":\"job\""), 2);
	free(text);
	rnl_pool_destroy(pool);
}

/* ---- several devices ----------------------------------------------------------------------------- */

TEST(each_device_has_workers_of_a_class)
{
	const struct rnl_class_attr one = { .size = sizeof(one), .nr_workers = 1 };
	struct rnl_pool *pool = pool_over_of(2, 1, .nr_class_workers = 5);
	struct rnl_class *cls[2], *none = NULL;
	struct gate gate = GATE_INIT;
	struct rnl_job held[2];

	skip_if_alone(pool);
	ck_assert_int_eq(rnl_class_create(&none, pool, &one), -EINVAL);
	ck_assert_ptr_null(none);
	/* The first worker of the second class has device 1. */
	cls[0] = own_class(pool, 3);
	cls[1] = own_class(pool, 2);
	hold_workers(pool, &gate, held, 2);
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t workers = i ? 0x18 : 7;
		struct gate open = GATE_INIT;
		struct look looks[40];

		gate_open(&open);
		ck_assert_uint_eq(workers_of(pool, cls[i], i ? 2 : 3), workers);
		for (unsigned k = 0; k < COUNT(looks); k++) {
			looks[k].gate = &open;
			classed_of(&looks[k].job, cls[i], look_fn, NULL);
			must(rnl_job_set_device(&looks[k].job, (int)(k % 3) - 1));
			must(rnl_submit(pool, &looks[k].job));
		}
		for (unsigned k = 0; k < COUNT(looks); k++) {
			ck_assert_int_eq(result_of(&looks[k].job), 0);
			ck_assert(bit_of(looks[k].worker) & workers);
			ck_assert(k % 3 == 0 || looks[k].device == (int)(k % 3) - 1);
			ck_assert_int_eq(looks[k].device, looks[k].worker % 2);
		}
	}
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

/* ---- a device that fails ------------------------------------------------------------------------- */

TEST(a_device_that_fails_takes_own_workers_along, .loops = 2)
{
	enum { ILLEGAL_ADDRESS = 700 };
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = 2 };
	struct rnl_class *cls, *none = NULL;
	struct rnl_pool *pool;
	struct rnl_job job;

	if (!test_fake())
		test_skip("the double of the CUDA runtime fails on demand");
	pool = pool_of(1, .nr_class_workers = 3);
	cls = own_class(pool, 1);
	/* One that has served, and one that never did. */
	rnl_class_destroy(own_class(pool, 1));
	fake_fail_sticky(ILLEGAL_ADDRESS);
	classed_of(&job, cls, fill_own_fn, &job);
	ck_assert(rnl_submit(pool, &job) == -EIO || result_of(&job) == -EIO);
	ck_eventually(rnl_submit(pool, &job) == -EIO || result_of(&job) != -EIO);
	ck_assert_int_eq(rnl_class_create(&none, pool, &attr), -EIO);
	ck_assert_ptr_null(none);
	if (_i)
		rnl_class_destroy(cls);
	rnl_pool_destroy(pool);
}

/* ---- many at once --------------------------------------------------------------------------------- */

enum { CREATORS = 3, EACH = 150, OF_CLASSES = 5 };

static _Atomic unsigned has[OF_CLASSES];	/* by worker: the creator whose class has it */

struct creator {
	struct call call;
	struct rnl_pool *pool;
	unsigned number;
	uint64_t random;
	unsigned nr_made, nr_short;
};

/* A job that stays on its worker until all of its class's have come. */
struct meeting {
	struct rnl_job job;
	_Atomic unsigned *came;
	unsigned nr, number;
	bool wrong;
	int worker;
};

static int meet_fn(struct rnl_job *job)
{
	struct meeting *m = rnl_container_of(job, struct meeting, job);
	unsigned none = 0;

	m->worker = rnl_worker().index;
	m->wrong = m->worker >= OF_CLASSES ||
		   (!atomic_compare_exchange_strong(&has[m->worker], &none, m->number) &&
		    none != m->number);
	++*m->came;
	spin_until(*m->came >= m->nr);
	return 0;
}

/* Returns the bits of the workers that ran @nr jobs which need all workers of the class. */
static uint64_t meet(struct creator *c, struct rnl_class *cls, unsigned nr)
{
	_Atomic unsigned came = 0;
	struct meeting meetings[2];
	uint64_t bits = 0;

	for (unsigned i = 0; i < nr; i++) {
		meetings[i].came = &came;
		meetings[i].nr = nr;
		meetings[i].number = c->number;
		submit_classed(c->pool, &meetings[i].job, cls, meet_fn, NULL);
	}
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&meetings[i].job), 0);
		ck_assert_msg(!meetings[i].wrong, "a job of creator %u ran on worker %d", c->number,
			      meetings[i].worker);
		bits |= bit_of(meetings[i].worker);
	}
	ck_assert_int_eq(__builtin_popcountll(bits), (int)nr);
	return bits;
}

static int create_often(void *arg)
{
	struct creator *c = arg;

	for (unsigned i = 0; i < EACH; i++) {
		const unsigned nr = 1 + draw(&c->random, 2);
		const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = nr,
						     .stream_priority = draw(&c->random, 8) / 7 };
		struct rnl_class *cls;
		int ret = rnl_class_create(&cls, c->pool, &attr);
		uint64_t workers;

		ck_assert(!ret || ret == -EAGAIN);
		c->nr_made += !ret;
		c->nr_short += ret == -EAGAIN;
		if (ret)
			continue;
		workers = meet(c, cls, nr);
		for (unsigned k = draw(&c->random, 3); k; k--)
			ck_assert_uint_eq(meet(c, cls, nr), workers);
		for (uint64_t bits = workers; bits; bits &= bits - 1)
			has[__builtin_ctzll(bits)] = 0;
		rnl_class_destroy(cls);
	}
	return 0;
}

static void hear_nothing(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

TEST(classes_that_come_and_go_in_several_threads_never_share_a_worker, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_of(2, .nr_class_workers = OF_CLASSES, .log = hear_nothing);
	static struct creator creators[CREATORS];
	const uint64_t seed = test_seed();
	unsigned made = 0, tried = 0;
	struct rnl_job job;

	for (unsigned i = 0; i < CREATORS; i++) {
		creators[i] = (struct creator){ .pool = pool, .number = i + 1,
						.random = draws_of(seed, i) };
		call_start(&creators[i].call, create_often, &creators[i]);
	}
	/* Meanwhile the pool is resized, and its other jobs run on the other workers. */
	for (unsigned i = 0; i < 40; i++) {
		must(rnl_pool_resize(pool, 1 + i % 3));
		submit_job(pool, &job, index_fn, NULL);
		ck_assert_int_ge(result_of(&job), OF_CLASSES);
	}
	for (unsigned i = 0; i < CREATORS; i++) {
		must(call_end(&creators[i].call));
		made += creators[i].nr_made;
		tried += creators[i].nr_made + creators[i].nr_short;
	}
	ck_assert_uint_eq(tried, CREATORS * EACH);
	ck_assert_uint_gt(made, 0);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 1);
	rnl_pool_destroy(pool);
}
