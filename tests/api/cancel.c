/* SPDX-License-Identifier: MIT */
/* rnl_job_cancel(): either the cancel or the start comes first, and its return value says which. */
#include "classed.h"
#include "cq.h"
#include "host_kernel.h"
#include "record.h"

static void check_cancelled(struct notified *t)
{
	ck_assert_int_eq(result_of(&t->job), -ECANCELED);
	ck_assert_int_eq(t->job.device_error, 0);
	ck_assert_int_eq(t->runs, 0);
	ck_assert_int_eq(rnl_job_cancel(&t->job), -EALREADY);
}

/* ---- by the job's state -------------------------------------------------- */

TEST(a_job_that_was_never_submitted_is_not_cancelled)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job zero = { 0 };
	struct notified notified;

	notified_of(&notified);
	ck_assert_int_eq(rnl_job_cancel(&zero), -EINVAL);
	ck_assert_int_eq(rnl_job_cancel(&notified.job), -EINVAL);
	/* The refused cancels have no effect later. */
	ck_assert_int_eq(submit_and_wait(pool, &notified.job), 0);
	ck_assert_int_eq(notified.runs, 1);
	rnl_pool_destroy(pool);
}

TEST(a_queued_job_is_cancelled_and_can_be_submitted_again)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_barrier empty;
	struct rnl_job held;
	struct notified notified[3];

	hold_workers(pool, &gate, &held, 1);
	must(rnl_barrier_init(&empty, pool));
	for (int i = 0; i < 3; i++) {
		notified_of(&notified[i]);
		/* Only the worker, which is held, completes a job after a barrier. */
		must(rnl_job_set_after(&notified[i].job, i == 1 ? &empty : NULL));
		must(rnl_submit(pool, &notified[i].job));
	}
	for (int i = 0; i < 3; i++) {	/* a cancel may be repeated */
		must(rnl_job_cancel(&notified[1].job));
		/* The job still belongs to the pool. */
		ck_assert_int_eq(rnl_job_wait(&notified[1].job, 0), -ETIMEDOUT);
		ck_assert_int_eq(rnl_submit(pool, &notified[1].job), -EBUSY);
	}
	ck_assert_uint_eq(figures_of(pool).cancelled, 0);
	gate_open(&gate);
	check_cancelled(&notified[1]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(notified[0].runs, 1);
	ck_assert_int_eq(notified[2].runs, 1);
	ck_assert_uint_eq(figures_of(pool).cancelled, 1);
	ck_assert_uint_eq(figures_of(pool).failed, 1);
	ck_assert_uint_eq(figures_of(pool).timed_out, 0);
	ck_assert_uint_eq(figures_of(pool).done, 4);

	ck_assert_int_eq(submit_and_wait(pool, &notified[1].job), 0);
	ck_assert_int_eq(notified[1].runs, 1);
	ck_assert_uint_eq(figures_of(pool).cancelled, 1);
	rnl_pool_destroy(pool);
}

static int cancel_itself_fn(struct rnl_job *job)
{
	return rnl_job_cancel(job);
}

TEST(a_running_job_goes_on)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, itself;

	hold_workers(pool, &gate, &held, 1);
	ck_assert_int_eq(rnl_job_cancel(&held), -EBUSY);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&held), 0);
	ck_assert_int_eq(rnl_job_cancel(&held), -EALREADY);

	submit_job(pool, &itself, cancel_itself_fn, NULL);
	ck_assert_int_eq(result_of(&itself), -EBUSY);
	ck_assert_uint_eq(figures_of(pool).cancelled, 0);
	rnl_pool_destroy(pool);
}

/* Waits at the gate `user`. Returns 1 if the job was cancelled after that, plus 10 if before. */
static int asking_fn(struct rnl_job *job)
{
	int before = rnl_job_is_cancelled(job);

	gate_wait(job->user);
	return 10 * before + rnl_job_is_cancelled(job);
}

TEST(a_running_job_sees_its_cancel)
{
	struct rnl_pool *pool = pool_of(1);

	for (int cancel = 1; cancel >= 0; cancel--) {
		struct gate gate = GATE_INIT;
		struct rnl_job zero = { 0 }, job, queued;

		ck_assert_int_eq(rnl_job_is_cancelled(&zero), -EINVAL);
		submit_job(pool, &job, asking_fn, &gate);
		gate_await(&gate, 1);
		submit_job(pool, &queued, noop_fn, NULL);
		ck_assert_int_eq(rnl_job_is_cancelled(&queued), 0);
		/* A cancel may be repeated, and still returns that the job is under way. */
		for (int i = 0; i < 2 * cancel; i++)
			ck_assert_int_eq(rnl_job_cancel(&job), -EBUSY);
		ck_assert_int_eq(rnl_job_is_cancelled(&job), cancel);
		gate_open(&gate);
		ck_assert_int_eq(result_of(&job), cancel);
		ck_assert_int_eq(rnl_job_is_cancelled(&job), 0);
		ck_assert_int_eq(rnl_job_cancel(&job), -EALREADY);
		/* The cancel does not affect the job's next submit. */
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	rnl_pool_destroy(pool);
}

TEST(a_job_that_the_device_has_goes_on)
{
	struct rnl_pool *pool;
	struct gate kernel = GATE_INIT;
	struct rnl_job job;

	skip_unless_host();
	pool = pool_of(1);
	submit_job(pool, &job, gated_kernel_fn, &kernel);
	gate_await(&kernel, 1);
	ck_eventually(figures_of(pool).in_flight == 1);
	ck_assert_int_eq(rnl_job_cancel(&job), -EBUSY);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_eq(rnl_job_cancel(&job), -EALREADY);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_is_deferred_is_cancelled)
{
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct notified notified[4];

	hold_barrier(pool, &barrier, &gate, &held);
	for (int i = 0; i < 4; i++) {
		notified_of(&notified[i]);
		must(rnl_job_set_after(&notified[i].job, &barrier));
		ck_assert_int_eq(i < 2 ? rnl_submit(pool, &notified[i].job) :
					 submit_by_key(pool, &notified[i].job, 1), 0);
	}
	must(rnl_job_cancel(&notified[0].job));
	must(rnl_job_cancel(&notified[2].job));
	gate_open(&gate);
	for (int i = 0; i < 4; i++) {
		if (i % 2)
			ck_assert_int_eq(result_of(&notified[i].job), 0);
		else
			check_cancelled(&notified[i]);
		ck_assert_int_eq(notified[i].runs, i % 2);
	}
	ck_assert_int_eq(barrier.result, 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/* ---- by the job's kind --------------------------------------------------- */

/* Of three jobs, one is cancelled, and one is late. */
TEST(a_key_keeps_its_order_without_the_jobs_that_do_not_run)
{
	static const int results[] = { -ECANCELED, 0, -ETIMEDOUT };
	enum { NR = 30 };
	struct rnl_pool *pool = pool_of(2);
	struct gate gate = GATE_INIT;
	struct record record = { 0 };
	struct rnl_job held[2];
	struct noted noted[NR];

	hold_workers(pool, &gate, held, 2);
	for (int i = 0; i < NR; i++) {
		noted_of(&noted[i], &record, i);
		must(rnl_job_set_deadline(&noted[i].job, i % 3 == 2 ? 0 : RNL_FOREVER));
		must(submit_by_key(pool, &noted[i].job, 7));
	}
	for (int i = 0; i < NR; i += 3)
		must(rnl_job_cancel(&noted[i].job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(record.nr, NR / 3);
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(noted[i].job.result, results[i % 3]);
		ck_assert_int_eq(place_of(&record, i), i % 3 == 1 ? i / 3 : -1);
	}
	rnl_pool_destroy(pool);
}

/* Loop 1: the job is late instead. */
TEST(a_barrier_of_which_a_job_was_cancelled_has_failed, .loops = 2)
{
	const int result = _i ? -ETIMEDOUT : -ECANCELED;
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held;
	struct notified in[3], after;

	must(rnl_barrier_init(&barrier, pool));
	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < 3; i++) {
		notified_of(&in[i]);
		must(rnl_job_set_deadline(&in[i].job, _i && i == 1 ? 0 : RNL_FOREVER));
		must(rnl_barrier_add(&barrier, &in[i].job));
		must(rnl_submit(pool, &in[i].job));
	}
	notified_of(&after);
	must(rnl_job_set_after(&after.job, &barrier));
	must(rnl_submit(pool, &after.job));
	if (!_i)
		must(rnl_job_cancel(&in[1].job));
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&barrier), result);
	check_cancelled(&after);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(in[i].runs, i != 1);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(figures_of(pool).timed_out, (uint64_t)_i);
	ck_assert_uint_eq(figures_of(pool).cancelled, 2 - (uint64_t)_i);
	ck_assert_uint_eq(figures_of(pool).failed, 2);
	rnl_pool_destroy(pool);
}

static _Atomic int calls, result_in_call;

static void callback(struct rnl_job *job)
{
	result_in_call = job->result;
	calls++;
}

TEST(a_cancelled_job_has_its_callback_called_once)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified;

	hold_workers(pool, &gate, &held, 1);
	notified_of(&notified);
	must(rnl_job_set_on_done(&notified.job, callback));
	must(rnl_submit(pool, &notified.job));
	must(rnl_job_cancel(&notified.job));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(calls, 1);
	ck_assert_int_eq(result_in_call, -ECANCELED);
	check_cancelled(&notified);
	rnl_pool_destroy(pool);
}

TEST(a_cancelled_job_comes_out_of_its_completion_queue)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_cq *cq = cq_of();
	struct gate gate = GATE_INIT;
	struct rnl_job held, *list[2];
	struct rnl_barrier empty;
	struct notified notified;

	hold_workers(pool, &gate, &held, 1);
	notified_of(&notified);
	/* A job after a barrier: the worker, not the timer thread, puts it into the queue. */
	must(rnl_barrier_init(&empty, pool));
	must(rnl_job_set_after(&notified.job, &empty));
	must(rnl_job_set_cq(&notified.job, cq));
	must(rnl_submit(pool, &notified.job));
	must(rnl_job_cancel(&notified.job));
	ck_assert_int_eq(rnl_cq_reap(cq, list, 2, 0), 0);
	gate_open(&gate);
	fence(pool);
	ck_assert_int_eq(rnl_job_cancel(&notified.job), -EALREADY);	/* it is in the queue */
	ck_assert_int_eq(rnl_cq_reap(cq, list, 2, 0), 1);
	ck_assert_ptr_eq(list[0], &notified.job);
	check_cancelled(&notified);
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

/* nr: workers of the class's own. */
TEST(a_job_of_a_class_is_cancelled_as_any_other)
{
	for (unsigned nr = 0; nr < 2; nr++) {
		struct rnl_pool *pool = pool_of(1, .nr_class_workers = nr);
		struct rnl_class *cls = nr ? own_class(pool, nr) : first_class(pool);
		struct gate gate = GATE_INIT;
		struct rnl_job held[2];
		struct notified notified;

		for (unsigned i = 0; i <= nr; i++) {
			submit_classed(pool, &held[i], i ? cls : NULL, gated_fn, &gate);
			gate_await(&gate, i + 1);
		}
		notified_of(&notified);
		must(rnl_job_set_class(&notified.job, cls));
		must(rnl_submit(pool, &notified.job));
		must(rnl_job_cancel(&notified.job));
		gate_open(&gate);
		check_cancelled(&notified);
		rnl_pool_destroy(pool);
	}
}

TEST(a_closed_pool_has_its_jobs_cancelled_as_any_other)
{
	struct rnl_pool *pool = pool_of(1);
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	struct notified notified;

	hold_workers(pool, &gate, &held, 1);
	notified_of(&notified);
	must(rnl_submit(pool, &notified.job));
	must(rnl_pool_close(pool));
	must(rnl_job_cancel(&notified.job));
	gate_open(&gate);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(notified.job.result, -ECANCELED);
	ck_assert_int_eq(notified.runs, 0);
}

/* ---- concurrent cancels -------------------------------------------------- */

enum { CANCELLERS = 3, RACE = 20000 };

struct race {
	struct notified *notified;
	int nr;
	_Atomic int submitted;	/* number of jobs submitted so far */
};

struct canceller {
	struct race *race;
	int8_t *rets;		/* of each job: 0, -EBUSY or -EALREADY */
	int bad;
};

static int cancel_all(void *arg)
{
	struct canceller *c = arg;

	for (int i = 0; i < c->race->nr; i++) {
		int ret;

		while (c->race->submitted <= i)
			sched_yield();
		ret = rnl_job_cancel(&c->race->notified[i].job);
		c->bad += ret && ret != -EBUSY && ret != -EALREADY;
		c->rets[i] = (int8_t)ret;
	}
	return 0;
}

TEST(during_concurrent_cancels_each_job_ran_or_was_cancelled_as_the_calls_said)
{
	struct race race = { .nr = (int)(RACE / test_scale()) };
	struct canceller cancellers[CANCELLERS];
	struct call threads[CANCELLERS];
	struct rnl_pool *pool = pool_of(2);
	int nr_cancelled = 0;

	race.notified = calloc((size_t)race.nr, sizeof(*race.notified));
	for (int c = 0; c < CANCELLERS; c++) {
		cancellers[c] = (struct canceller){ &race, calloc((size_t)race.nr, 1), 0 };
		call_start(&threads[c], cancel_all, &cancellers[c]);
	}
	for (int i = 0; i < race.nr; i++) {
		notified_of(&race.notified[i]);
		must(i % 2 ? rnl_submit(pool, &race.notified[i].job) :
			     submit_by_key(pool, &race.notified[i].job, (uint64_t)i));
		race.submitted = i + 1;
	}
	for (int c = 0; c < CANCELLERS; c++) {
		call_end(&threads[c]);
		ck_assert_int_eq(cancellers[c].bad, 0);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < race.nr; i++) {
		bool said = false;
		int result = race.notified[i].job.result;

		for (int c = 0; c < CANCELLERS; c++)
			said = said || !cancellers[c].rets[i];
		ck_assert_msg(result == (said ? -ECANCELED : 0) && race.notified[i].runs == !said,
			      "job %d: result %d, ran %d times, was%s cancelled", i, result,
			      race.notified[i].runs, said ? "" : " not");
		nr_cancelled += said;
	}
	printf("%d of %d jobs were cancelled\n", nr_cancelled, race.nr);
	ck_assert_uint_eq(figures_of(pool).cancelled, (uint64_t)nr_cancelled);
	ck_assert_uint_eq(figures_of(pool).done, (uint64_t)race.nr);
	for (int c = 0; c < CANCELLERS; c++)
		free(cancellers[c].rets);
	rnl_pool_destroy(pool);
	free(race.notified);
}
