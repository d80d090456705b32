/* SPDX-License-Identifier: MIT */
/*
 * The library's own code between threads, on a machine that keeps no order but what it asks for:
 * what x86 hides, and ThreadSanitizer does not see where both sides are atomic.  weak/weak.c is it.
 */
#include "seed.h"
#include "suite.h"

#include "weak/weak.h"

#include "clock.h"
#include "job.h"
#include "latch.h"
#include "park.h"
#include "place.h"
#include "queue.h"
#include "run.h"
#include "worker.h"

/* In the same file, for note_running() and busy_for(). */
#include "run.c"
#include "stats.c"
/* And for defer(); what it starts is started here. */
static void start_it(struct rnl_job *job);
#define rnl__place_deferred start_it
#include "barrier.c"
#undef rnl__place_deferred

#define TIMES 20000
#define right(what) ((what) ? (void)0 : weak_wrong(#what))

/* What a job's submitter wrote, and nobody else. */
struct work {
	struct rnl_job job;
	int written;
	bool taken;
};

static struct {
	struct rnl__lot lot;
	struct rnl__worker worker;
	struct rnl__queue other;
	struct work work[3];
	_Atomic uint32_t latch;
	int parts[2];
	struct rnl__mark marks[4];
	uint32_t word;
	int effect, recorded;
	_Atomic uint32_t table;		/* its generation */
	struct rnl_barrier barrier;
} all;

static void check_runs(const struct weak *weak)
{
	const char *wrong;

	wrong = weak_run(weak, (unsigned)(TIMES * test_scale()), test_seed());
	ck_assert_msg(!wrong, "%s", wrong);
}

#define check(first, last, ...) check_runs(&(struct weak){ \
		.begin = first, .thread = { __VA_ARGS__ }, .end = last, \
		.memory = &all, .bytes = sizeof(all) })

static void nothing(void)
{
}

/* ---- sleeping and waking ----------------------------------------------------- */

static void begin_worker(void)
{
	rnl__park_init(&all.worker.park, &all.lot, 0);
	rnl__queue_init(&all.worker.queue);
	rnl__queue_init(&all.other);
	all.worker.inflight.marks = all.marks;
	all.worker.inflight.limit = 4;
}

static void put(unsigned i)
{
	all.work[i].written = 1;
	rnl__queue_put(&all.worker.queue, &all.work[i].job);
}

static void put_and_wake(void)
{
	put(0);
	(void)rnl__park_wake(&all.worker.park);
}

static void put_and_wake_one(void)
{
	put(0);
	(void)rnl__lot_wake_one(&all.lot);
}

static void run_it(struct rnl_job *job)
{
	struct work *work = rnl_container_of(job, struct work, job);

	right(work->written == 1);
	right(!work->taken);
	work->taken = true;
}

/* As idle() of loop.c. */
static void sleep_or_take(bool idle)
{
	struct rnl_job *job;

	while (!(job = rnl__queue_take(&all.worker.queue, 0))) {
		rnl__park_prepare(&all.worker.park, idle);
		if (rnl__queue_holds(&all.worker.queue, 0))
			(void)rnl__park_leave(&all.worker.park);
		else
			(void)rnl__park_sleep(&all.worker.park, RNL__NEVER);
	}
	run_it(job);
}

static void sleep_idle(void)
{
	sleep_or_take(true);
}

static void sleep_with_work_in_flight(void)
{
	sleep_or_take(false);
}

START_TEST(a_job_that_is_put_wakes_its_worker_which_sees_all_of_it)
{
	check(begin_worker, nothing, put_and_wake, sleep_with_work_in_flight);
}
END_TEST

START_TEST(a_job_that_is_put_wakes_a_worker_of_the_lot)
{
	check(begin_worker, nothing, put_and_wake_one, sleep_idle);
}
END_TEST

static void wake_for_a_word(void)
{
	all.work[0].written = 1;
	rnl__full_barrier();
	(void)rnl__park_wake(&all.worker.park);
}

static void sleep_for_a_word(void)
{
	right(rnl__park_sleep(&all.worker.park, RNL__NEVER));
	right(all.work[0].written == 1);
}

static void begin_asleep(void)
{
	begin_worker();
	rnl__park_prepare(&all.worker.park, false);
}

START_TEST(who_was_woken_sees_what_the_waker_did)
{
	check(begin_asleep, nothing, wake_for_a_word, sleep_for_a_word);
}
END_TEST

static void stay_awake(void)
{
	rnl__park_prepare(&all.worker.park, false);
	if (rnl__park_leave(&all.worker.park))
		right(all.work[0].written == 1);
}

START_TEST(who_stays_awake_and_was_woken_sees_what_the_waker_did)
{
	check(begin_worker, nothing, wake_for_a_word, stay_awake);
}
END_TEST

/* ---- queues ------------------------------------------------------------------ */

static void begin_three_jobs(void)
{
	begin_worker();
	for (unsigned i = 0; i < 3; i++)
		put(i);
}

static void steal_two(void)
{
	for (int i = 0; i < 2; i++) {
		struct rnl_job *job = rnl__queue_steal(&all.worker.queue);

		if (job)
			run_it(job);
	}
}

START_TEST(takers_have_a_lane_one_after_the_other)
{
	check(begin_three_jobs, nothing, steal_two, steal_two);
}
END_TEST

static void put_two(void)
{
	put(0);
	put(1);
}

START_TEST(a_taker_sees_what_the_submitter_wrote)
{
	check(begin_worker, nothing, put_two, steal_two, steal_two);
}
END_TEST

static void move(void)
{
	right(rnl__queue_move_in(&all.other));
	rnl__queue_move_out(&all.worker.queue);
}

static void count_moved(void)
{
	if (rnl__queue_taken(&all.worker.queue))
		right(rnl__queue_accepted(&all.other) == 1);
}

static void begin_moving(void)
{
	begin_worker();
	rnl__queue_serve(&all.other);
}

START_TEST(a_job_that_moves_is_counted_in_one_queue_at_least)
{
	check(begin_moving, nothing, move, count_moved);
}
END_TEST

/* As change_table() of resize.c, twice: a lane is shut, and opened again two generations later. */
static void begin_keyed(void)
{
	begin_worker();
	rnl__queue_open_lane(&all.worker.queue, 0);
}

static void resize_twice(void)
{
	atomic_store_explicit(&all.table, 1, memory_order_release);
	rnl__queue_shut_lane(&all.worker.queue, 0);
	all.parts[0] = rnl__queue_lane_done(&all.worker.queue, 0);
	if (all.parts[0])
		rnl__queue_open_lane(&all.worker.queue, 2);
}

/* As reserve_keyed() of place.c. */
static void promise(void)
{
	all.parts[1] = rnl__queue_promise(&all.worker.queue, 0) &&
		       !atomic_load_explicit(&all.table, memory_order_acquire);
}

static void promised_to_what_was_done(void)
{
	right(!all.parts[0] || !all.parts[1]);
}

START_TEST(a_keyed_job_is_waited_for_or_sees_the_new_table)
{
	check(begin_keyed, promised_to_what_was_done, resize_twice, promise);
}
END_TEST

/* ---- latches and jobs -------------------------------------------------------- */

static void begin_latch(void)
{
	rnl__latch_add(&all.latch, 2);
}

static void drop(unsigned part)
{
	all.parts[part] = 1;
	if (rnl__latch_drop(&all.latch, 1))
		right(all.parts[0] + all.parts[1] == 2);
}

static void drop_first(void)
{
	drop(0);
}

static void drop_second(void)
{
	drop(1);
}

static void wait_for_both(void)
{
	right(!rnl__latch_wait(&all.latch, 0, RNL__NEVER));
	right(all.parts[0] + all.parts[1] == 2);
}

START_TEST(who_waited_and_who_was_last_see_what_all_did)
{
	check(begin_latch, nothing, drop_first, drop_second, wait_for_both);
}
END_TEST

static int never(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static void begin_claimed(void)
{
	(void)rnl_job_init(&all.work[0].job, never);
	right(!rnl__job_claim(&all.work[0].job));
	rnl__job_accepted(&all.work[0].job, RNL__JOB_STARTED);
}

static void end_it(void)
{
	rnl__job_finish(&all.work[0].job, 0);
	rnl__job_drop(&all.work[0].job);
}

static void claim(void)
{
	if (!rnl__job_claim(&all.work[0].job))
		all.work[0].job.result = 1;
}

START_TEST(who_claims_a_job_again_may_overwrite_it)
{
	check(begin_claimed, nothing, end_it, claim, claim);
}
END_TEST

/* ---- barriers ---------------------------------------------------------------- */

static void start_it(struct rnl_job *job)
{
	run_it(job);
}

static void begin_round(void)
{
	rnl__barrier_count(&all.barrier);
}

static void come_after(void)
{
	all.work[0].written = 1;
	defer(&all.barrier, &all.work[0].job);
}

static void issue(void)
{
	rnl__barrier_issued(&all.barrier, 1);
}

static void it_was_started(void)
{
	right(all.work[0].taken);
}

START_TEST(a_job_after_a_barrier_is_started_and_seen)
{
	check(begin_round, it_was_started, come_after, issue);
}
END_TEST

/* ---- who is seen occupied ---------------------------------------------------- */

static void begin_attending(void)
{
	begin_worker();
	(void)rnl_job_init(&all.work[1].job, never);
	rnl__job_accepted(&all.work[1].job, RNL__JOB_QUEUED);
}

/* As rnl__run(): occupied, started, and then a look at what share() looks at. */
static void start_and_look(void)
{
	atomic_store_explicit(&all.worker.occupied, true, memory_order_relaxed);
	right(rnl__job_start(&all.work[1].job));
	all.parts[0] = rnl__queue_stealable(&all.worker.queue);
}

static void put_and_look(void)
{
	put(0);
	all.parts[1] = !rnl__worker_attends(&all.worker);
}

static void one_saw_the_other(void)
{
	right(all.parts[0] || all.parts[1]);
}

START_TEST(a_worker_sees_the_job_or_its_submitter_sees_it_occupied)
{
	check(begin_attending, one_saw_the_other, start_and_look, put_and_look);
}
END_TEST

static void begin_occupied(void)
{
	begin_worker();
	atomic_store_explicit(&all.worker.occupied, true, memory_order_relaxed);
}

static void leave_on_stream(void)
{
	rnl__inflight_push(&all.worker.inflight, &all.work[0].job);
	rnl__run_attend(&all.worker, false);
}

static void look_whether_it_attends(void)
{
	right(!rnl__worker_attends(&all.worker));
}

START_TEST(a_worker_with_work_on_its_stream_is_not_seen_without)
{
	check(begin_occupied, nothing, leave_on_stream, look_whether_it_attends);
}
END_TEST

/* ---- what is in flight ------------------------------------------------------- */

static int record(struct rnl__event *event)
{
	*(int *)event = 1;
	return 0;
}

static int wait_for(struct rnl__event *event)
{
	right(*(int *)event == 1);
	return 0;
}

static const struct rnl__device_ops ops = { .event_record = record, .event_wait = wait_for };
static struct rnl__device device = { .ops = &ops };

static void begin_in_flight(void)
{
	begin_worker();
	all.worker.inflight.device = &device;
	all.worker.inflight.word = &all.word;
	all.marks[0].event = (struct rnl__event *)&all.recorded;
}

static void mark(void)
{
	rnl__inflight_push(&all.worker.inflight, &all.work[0].job);
	right(!rnl__inflight_mark(&all.worker.inflight, true, false));
}

static void join(void)
{
	right(!rnl__inflight_join(&all.worker.inflight, 1));
}

START_TEST(an_event_that_a_join_finds_was_recorded)
{
	check(begin_in_flight, nothing, mark, join);
}
END_TEST

static void begin_marked(void)
{
	struct rnl__inflight *f = &all.worker.inflight;

	begin_in_flight();
	rnl__inflight_push(f, &all.work[0].job);
	f->writes = true;
	f->marked = f->written = f->nr_marks = 1;
	f->marks[0].seq = 1;
	atomic_store_explicit(&f->joinable, f->marks[0].event, memory_order_relaxed);
	all.recorded = 1;
}

/* The device: a job's effect, then the word, as host_stream.c writes it. */
static void pass(void)
{
	all.effect = 1;
	atomic_store_explicit(rnl__atomic(&all.word), 1, memory_order_release);
}

static void retire(void)
{
	right(!rnl__inflight_poll(&all.worker.inflight, false));
	if (rnl__inflight_pop(&all.worker.inflight))
		right(all.effect == 1);
}

static int join_late(struct rnl__event *event)
{
	(void)event;
	return 1;			/* the stream waits, not we */
}

static void join_what_passed(void)
{
	static const struct rnl__device_ops waits = { .event_wait = join_late };
	static struct rnl__device late = { .ops = &waits };

	all.worker.inflight.device = &late;
	if (!rnl__inflight_join(&all.worker.inflight, 1))
		right(all.effect == 1);
}

START_TEST(who_sees_a_job_passed_sees_what_it_did)
{
	check(begin_marked, nothing, pass, retire, join_what_passed);
}
END_TEST

static void push_oldest(void)
{
	rnl__inflight_push(&all.worker.inflight, &all.work[0].job);
}

static void ask_since_when(void)
{
	const struct rnl_job *job;
	bool on_device;
	uint64_t busy_ns = busy_for(&all.worker, UINT64_MAX, &job, &on_device);

	/* Without the time it would have been since the clock began. */
	right(!job || busy_ns < UINT64_MAX);
}

static void begin_to_run(void)
{
	note_running(&all.worker, &all.work[0].job);
}

START_TEST(who_sees_a_job_run_sees_since_when_it_does)
{
	check(begin_worker, nothing, begin_to_run, ask_since_when);
}
END_TEST

START_TEST(who_sees_the_oldest_job_sees_since_when_it_is)
{
	check(begin_worker, nothing, push_oldest, ask_since_when);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("orders");
	TCase *tc = tcase_create("orders");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_job_that_is_put_wakes_its_worker_which_sees_all_of_it);
	tcase_add_test(tc, a_job_that_is_put_wakes_a_worker_of_the_lot);
	tcase_add_test(tc, who_was_woken_sees_what_the_waker_did);
	tcase_add_test(tc, who_stays_awake_and_was_woken_sees_what_the_waker_did);
	tcase_add_test(tc, takers_have_a_lane_one_after_the_other);
	tcase_add_test(tc, a_taker_sees_what_the_submitter_wrote);
	tcase_add_test(tc, a_job_that_moves_is_counted_in_one_queue_at_least);
	tcase_add_test(tc, a_keyed_job_is_waited_for_or_sees_the_new_table);
	tcase_add_test(tc, who_waited_and_who_was_last_see_what_all_did);
	tcase_add_test(tc, who_claims_a_job_again_may_overwrite_it);
	tcase_add_test(tc, a_job_after_a_barrier_is_started_and_seen);
	tcase_add_test(tc, a_worker_sees_the_job_or_its_submitter_sees_it_occupied);
	tcase_add_test(tc, a_worker_with_work_on_its_stream_is_not_seen_without);
	tcase_add_test(tc, an_event_that_a_join_finds_was_recorded);
	tcase_add_test(tc, who_sees_a_job_passed_sees_what_it_did);
	tcase_add_test(tc, who_sees_a_job_run_sees_since_when_it_does);
	tcase_add_test(tc, who_sees_the_oldest_job_sees_since_when_it_is);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
