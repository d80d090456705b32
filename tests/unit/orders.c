/* SPDX-License-Identifier: MIT */
/*
 * The library's code between threads, on a machine that keeps only the orders that the code
 * requests (sim/memory.c).  It finds errors that x86 hides, and errors that ThreadSanitizer does
 * not see, because both accesses are atomic.
 */
#include "seed.h"
#include "suite.h"

#include "sim/weak.h"

#include "sys/clock.h"
#include "job/job.h"
#include "sys/inbox.h"
#include "sys/latch.h"
#include "pool/park.h"
#include "pool/choose.h"
#include "pool/queue.h"
#include "pool/tally.h"
#include "worker/share.h"
#include "pool/worker.h"

/* for busy_for() */
#include "stats/stats.c"
#include "job/rounds.c"
#include "job/rounds_await.c"

#define TIMES 20000
#define right(what) ((what) ? (void)0 : weak_wrong(#what))

/* The submitter writes `written` before the submit. */
struct work {
	struct rnl_job job;
	int written;
	bool taken;
};

static struct {
	struct rnl__idle_set idle_set;
	struct rnl__park *parks[RNL_WORKERS_MAX];
	struct rnl__worker worker;
	struct rnl__tally deferred, delayed;
	struct rnl__inbox inbox;
	struct work work[3];
	_Atomic uint32_t latch;
	int parts[2];
	struct rnl__mark marks[4];
	struct rnl__recorded recorded[4];
	struct rnl__place places[4];
	struct rnl__pace_job paced[4];
	uint32_t word;
	int effect, event;
	_Atomic uint32_t table;		/* the table's generation */
	struct rnl_barrier barrier;
} all;

static void check_runs(const struct weak *weak)
{
	const char *wrong;

	wrong = weak_run(weak, (unsigned)(TIMES * test_scale()), test_seed());
	ck_assert_msg(!wrong, "%s", wrong);
}

/* A test: @first is called, then the threads run, then @last is called. */
#define ORDERS(name, first, last, ...) \
	TEST(name, .timeout_s = 60) \
	{ \
		check_runs(&(struct weak){ \
			.begin = first, .thread = { __VA_ARGS__ }, .end = last, \
			.memory = &all, .bytes = sizeof(all) }); \
	}
/* A thread, or the part before or after the threads, that is one call. */
#define CALL(name, call) static void name(void) { call; }

static void nothing(void)
{
}

/* ---- sleeping and waking ----------------------------------------------------- */

static void begin_worker(void)
{
	rnl__idle_set_init(&all.idle_set, all.parks);
	rnl__park_init(&all.worker.park, &all.idle_set, 0);
	rnl__queue_init(&all.worker.queue, false);
	all.worker.inflight.marks = all.marks;
	all.worker.inflight.recorded = all.recorded;
	all.worker.inflight.places = all.places;
	all.worker.inflight.limit = 4;
	all.worker.inflight.pace.jobs = all.paced;
	all.worker.inflight.pace.limit = 4;
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
	(void)rnl__idle_set_wake_one(&all.idle_set, RNL__ANY_WORKER);
}

static void run_it(struct rnl_job *job)
{
	struct work *work = rnl_container_of(job, struct work, job);

	right(work->written == 1);
	right(!work->taken);
	work->taken = true;
}

/* Like rnl__idle(). */
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

CALL(sleep_idle, sleep_or_take(true))

CALL(sleep_with_work_in_flight, sleep_or_take(false))

ORDERS(a_job_that_is_put_wakes_its_worker_which_sees_all_of_it,
       begin_worker, nothing, put_and_wake, sleep_with_work_in_flight)

ORDERS(a_job_that_is_put_wakes_a_worker_of_the_idle_set,
       begin_worker, nothing, put_and_wake_one, sleep_idle)

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

ORDERS(who_was_woken_sees_what_the_waker_did,
       begin_asleep, nothing, wake_for_a_word, sleep_for_a_word)

static void stay_awake(void)
{
	rnl__park_prepare(&all.worker.park, false);
	if (rnl__park_leave(&all.worker.park))
		right(all.work[0].written == 1);
}

ORDERS(who_stays_awake_and_was_woken_sees_what_the_waker_did,
       begin_worker, nothing, wake_for_a_word, stay_awake)

/* ---- queues ------------------------------------------------------------------ */

static void put_three(void)
{
	for (unsigned i = 0; i < 3; i++)
		put(i);
}

static void begin_three_jobs(void)
{
	begin_worker();
	put_three();
}

static void steal_two(void)
{
	for (int i = 0; i < 2; i++) {
		struct rnl_job *job = rnl__queue_steal(&all.worker.queue, false);

		if (job)
			run_it(job);
	}
}

ORDERS(takers_have_a_lane_one_after_the_other, begin_three_jobs, nothing, steal_two, steal_two)

ORDERS(a_taker_sees_what_the_submitter_wrote,
       begin_worker, nothing, put_three, steal_two, steal_two)

static void move(void)
{
	right(rnl__queue_reserve_accepted(&all.worker.queue));
	rnl__tally_leave(&all.deferred);
}

static void count_moved(void)
{
	if (rnl__tally_left(&all.deferred))
		right(rnl__queue_accepted(&all.worker.queue) == 1);
}

static void begin_moving(void)
{
	begin_worker();
	rnl__tally_init(&all.deferred, 1);
	(void)rnl__tally_enter(&all.deferred, 1);
	rnl__queue_serve(&all.worker.queue);
}

ORDERS(a_job_that_moves_from_a_tally_to_a_queue_is_counted_in_one_at_least,
       begin_moving, nothing, move, count_moved)

static void begin_open(void)
{
	rnl__tally_init(&all.deferred, 1);
	rnl__tally_init(&all.delayed, 1);
}

/* Like life_close() of life.c, and has_ended() of delayed.c. */
static void close_two(void)
{
	rnl__tally_close(&all.delayed);
	rnl__tally_close(&all.deferred);
}

static void see_closed(void)
{
	if (rnl__tally_closed(&all.deferred))
		right(rnl__tally_closed(&all.delayed));
}

ORDERS(who_sees_the_last_way_in_closed_sees_the_others_closed,
       begin_open, nothing, close_two, see_closed)

/* Like change_staff() of staff.c, twice: shuts a lane, and opens it two generations later. */
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

/* Like reserve_keyed() of choose.c. */
static void promise(void)
{
	all.parts[1] = rnl__queue_promise(&all.worker.queue, 0) &&
		       !atomic_load_explicit(&all.table, memory_order_acquire);
}

CALL(not_promised_to_a_done_lane, right(!all.parts[0] || !all.parts[1]))

ORDERS(a_keyed_job_is_waited_for_or_sees_the_new_table,
       begin_keyed, not_promised_to_a_done_lane, resize_twice, promise)

/* ---- latches and jobs -------------------------------------------------------- */

CALL(begin_latch, rnl__latch_add(&all.latch, 2))

static void drop(unsigned part)
{
	all.parts[part] = 1;
	if (rnl__latch_drop(&all.latch, 1))
		right(all.parts[0] + all.parts[1] == 2);
}

CALL(drop_first, drop(0))

CALL(drop_second, drop(1))

static void wait_for_both(void)
{
	right(!rnl__latch_wait(&all.latch, 0, RNL__NEVER));
	right(all.parts[0] + all.parts[1] == 2);
}

ORDERS(who_waited_and_who_was_last_see_what_all_did,
       begin_latch, nothing, drop_first, drop_second, wait_for_both)

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
	rnl__job_set_result(&all.work[0].job, 0);
	rnl__job_drop(&all.work[0].job);
}

static void claim(void)
{
	if (!rnl__job_claim(&all.work[0].job))
		all.work[0].job.result = 1;
}

ORDERS(who_claims_a_job_again_may_overwrite_it, begin_claimed, nothing, end_it, claim, claim)

/* ---- inboxes ----------------------------------------------------------------- */

/* Returns true if the inbox was armed. */
static bool put_in_inbox(unsigned i)
{
	all.work[i].written = 1;
	return rnl__inbox_put(&all.inbox, &all.work[i].job, &all.work[i].job.link);
}

CALL(put_one, put_in_inbox(0))

static void put_two_more(void)
{
	(void)put_in_inbox(1);
	(void)put_in_inbox(2);
}

static void take_inbox(void)
{
	struct rnl_job *job = rnl__job_in_order(rnl__inbox_take_all(&all.inbox)), *next;

	for (; job; job = next) {
		next = job->link;
		right(job != &all.work[2].job || all.work[1].taken);
		run_it(job);
	}
}

static void take_the_rest(void)
{
	take_inbox();
	right(all.work[0].taken && all.work[1].taken && all.work[2].taken);
}

ORDERS(who_takes_an_inbox_sees_what_was_put_in_order,
       nothing, take_the_rest, put_one, put_two_more, take_inbox)

static void begin_armed(void)
{
	right(rnl__inbox_arm(&all.inbox, true));
}

/* Like an order's gate: a thread that finds the inbox armed takes until it is empty; others put. */
static void take_or_put(unsigned i)
{
	if (rnl__inbox_arm(&all.inbox, false)) {
		all.work[i].written = 1;
		run_it(&all.work[i].job);
	} else if (!put_in_inbox(i)) {
		return;
	}
	do {
		all.effect++;
		take_inbox();
	} while (!rnl__inbox_arm(&all.inbox, true));
}

CALL(take_or_put_first, take_or_put(0))

static void take_or_put_two(void)
{
	take_or_put(1);
	take_or_put(2);
}

ORDERS(who_finds_an_inbox_armed_sees_what_was_done_before,
       begin_armed, take_the_rest, take_or_put_first, take_or_put_two)

/* ---- barriers ---------------------------------------------------------------- */

static struct rnl_pool barriers_pool;

/* Runs the jobs that were deferred or held back. */
static void go_on(const struct rnl__let_go *let_go)
{
	const struct rnl_job *const lists[] = { let_go->issued.first, let_go->ended.first };

	for (int i = 0; i < 2; i++)
		for (const struct rnl_job *job = lists[i], *next; job; job = next) {
			next = job->link;
			run_it((struct rnl_job *)(uintptr_t)job);
		}
}

static unsigned count_job(void)
{
	struct rnl__let_go let_go = { .issued.first = NULL };
	unsigned round = rnl__rounds_count(&all.barrier, &let_go);

	go_on(&let_go);
	return round;
}

static void drop_jobs(unsigned round, uint32_t nr_issued, uint32_t nr_done)
{
	struct rnl__let_go let_go = { .issued.first = NULL };

	rnl__rounds_drop(&all.barrier, round, nr_issued, nr_done, &let_go);
	go_on(&let_go);
}

static int seal_round(void)
{
	struct rnl__let_go let_go = { .issued.first = NULL };
	int round = rnl__rounds_seal(&all.barrier, &let_go);

	go_on(&let_go);
	return round;
}

/* Begins a round with two jobs. */
static void begin_round(void)
{
	rnl__rounds_init(&all.barrier);
	all.barrier.pool = &barriers_pool;
	all.work[0].job.pool = &barriers_pool;
	(void)count_job();
	(void)count_job();
}

/* Begins a round with two jobs; both are issued, and the round is sealed. */
static void begin_issued(void)
{
	begin_round();
	drop_jobs(0, 2, 0);
	right(seal_round() == 0);
}

static void come_after(void)
{
	int round = seal_round();

	all.work[0].written = 1;
	if (round == RNL__NO_ROUND ||
	    !rnl__rounds_defer(&all.barrier, (unsigned)round, &all.work[0].job)) {
		right(all.parts[0] == 1 && all.parts[1] == 1);
		run_it(&all.work[0].job);
	}
	if (round != RNL__NO_ROUND)
		rnl__rounds_leave(&all.barrier, (unsigned)round);
}

static void hold_it(void)
{
	all.work[0].written = 1;
	if (!rnl__rounds_hold(&all.barrier, 0, &all.work[0].job)) {
		right(all.parts[0] == 1 && all.parts[1] == 1);
		run_it(&all.work[0].job);
	}
}

static void drop_part(unsigned part, uint32_t nr_issued, uint32_t nr_done)
{
	all.parts[part] = 1;
	drop_jobs(0, nr_issued, nr_done);
}

CALL(issue_one, drop_part(0, 1, 0))
CALL(issue_other, drop_part(1, 1, 0))
CALL(end_one, drop_part(0, 0, 1))
CALL(end_other, drop_part(1, 0, 1))

static void end_both(void)
{
	all.parts[0] = 1;
	drop_part(1, 2, 2);
}

CALL(it_was_run, right(all.work[0].taken))

/* Begins the next round while the previous one ends. */
static void count_next(void)
{
	unsigned round = count_job();

	right(round != 0);
	drop_jobs(round, 1, 1);
}

static void wait_for_it(void)
{
	(void)rnl__rounds_await_done(&all.barrier, 0, RNL__NEVER);
	right(all.parts[0] == 1 && all.parts[1] == 1);
}

ORDERS(a_job_after_a_barrier_is_started_and_seen,
       begin_round, it_was_run, come_after, issue_one, issue_other)

ORDERS(a_job_after_meets_the_end_of_all_jobs, begin_round, it_was_run, come_after, end_both)

ORDERS(a_job_that_is_held_back_is_returned, begin_issued, it_was_run, hold_it, end_one, end_other)

static void hold_it_and_end_one(void)
{
	hold_it();
	end_one();
}

ORDERS(a_round_ends_while_the_next_begins,
       begin_issued, it_was_run, count_next, hold_it_and_end_one, end_other)

ORDERS(a_host_sees_what_all_jobs_did, begin_issued, nothing, wait_for_it, end_one, end_other)

/* A sealed round without waiters: its slot is free when the next round opens. */
static void begin_left(void)
{
	begin_issued();
	rnl__rounds_leave(&all.barrier, 0);
}

static void end_both_and_count_next(void)
{
	all.parts[0] = 1;
	drop_part(1, 0, 2);
	count_next();
}

ORDERS(a_host_is_not_left_on_a_slot_that_is_free,
       begin_left, nothing, wait_for_it, end_both_and_count_next)

/* ---- occupied workers -------------------------------------------------------- */

static void begin_attending(void)
{
	begin_worker();
	(void)rnl_job_init(&all.work[1].job, never);
	rnl__job_accepted(&all.work[1].job, RNL__JOB_QUEUED);
}

/* Like rnl__run(): sets occupied, starts, then looks, which rnl__share_queue() relies on. */
static void start_and_look(void)
{
	atomic_store_explicit(&all.worker.occupied, true, memory_order_relaxed);
	right(rnl__job_start(&all.work[1].job));
	all.parts[0] = rnl__queue_stealable(&all.worker.queue, false);
}

static void put_and_look(void)
{
	put(0);
	all.parts[1] = !rnl__worker_attends(&all.worker);
}

CALL(one_saw_the_other, right(all.parts[0] || all.parts[1]))

ORDERS(a_worker_sees_the_job_or_its_submitter_sees_it_occupied,
       begin_attending, one_saw_the_other, start_and_look, put_and_look)

static void begin_occupied(void)
{
	begin_worker();
	atomic_store_explicit(&all.worker.occupied, true, memory_order_relaxed);
}

static void leave_on_stream(void)
{
	rnl__inflight_push(&all.worker.inflight, &all.work[0].job);
	rnl__share_attend(&all.worker, false);
}

CALL(look_whether_it_attends, right(!rnl__worker_attends(&all.worker)))

ORDERS(a_worker_with_work_on_its_stream_is_not_seen_without,
       begin_occupied, nothing, leave_on_stream, look_whether_it_attends)

/* ---- jobs in flight ---------------------------------------------------------- */

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
static _Atomic int well;
static struct rnl__device device = { .ops = &ops, .failed = &well };
static struct rnl__stream stream;	/* nothing is recorded for it */

static void begin_in_flight(void)
{
	begin_worker();
	rnl__thread.stream = &stream;
	all.worker.inflight.device = &device;
	all.worker.inflight.word = &all.word;
	all.recorded[1].event = (struct rnl__event *)&all.event;
}

static void mark(void)
{
	rnl__inflight_push(&all.worker.inflight, &all.work[0].job);
	right(!rnl__inflight_mark(&all.worker.inflight, true, false));
}

CALL(join, right(!rnl__inflight_join(&all.worker.inflight, 1, &(uint64_t){ 0 }, NULL)))

ORDERS(an_event_that_a_join_finds_was_recorded, begin_in_flight, nothing, mark, join)

static void begin_marked(void)
{
	struct rnl__inflight *f = &all.worker.inflight;

	begin_in_flight();
	rnl__inflight_push(f, &all.work[0].job);
	f->writes = true;
	f->marked = f->written = f->nr_marks = 1;
	f->marks[0].seq = 1;
	f->marks[0].event = all.recorded[1].event;
	atomic_store_explicit(&f->nr_recorded, 1, memory_order_relaxed);
	all.event = 1;
}

/* The device: stores a job's effect, then the word, like host_stream.c. */
static void pass(void)
{
	all.effect = 1;
	atomic_store_explicit(rnl__atomic(&all.word), 1, memory_order_release);
}

static void complete_passed(void)
{
	right(!rnl__inflight_poll(&all.worker.inflight, false));
	if (rnl__inflight_pop(&all.worker.inflight))
		right(all.effect == 1);
}

static int join_late(struct rnl__event *event)
{
	(void)event;
	return 1;			/* the stream waits, the thread does not */
}

static void join_what_passed(void)
{
	static const struct rnl__device_ops waits = { .event_wait = join_late };
	static struct rnl__device late = { .ops = &waits, .failed = &well };

	all.worker.inflight.device = &late;
	if (!rnl__inflight_join(&all.worker.inflight, 1, &(uint64_t){ 0 }, NULL))
		right(all.effect == 1);
}

ORDERS(who_sees_a_job_passed_sees_what_it_did,
       begin_marked, nothing, pass, complete_passed, join_what_passed)

CALL(push_oldest, rnl__inflight_push(&all.worker.inflight, &all.work[0].job))

static void ask_since_when(void)
{
	const struct rnl_job *job;
	bool on_device;
	uint64_t busy_ns = busy_for(&all.worker, UINT64_MAX, &job, &on_device);

	/* Without the start time, busy_ns would count from the clock's zero. */
	right(!job || busy_ns < UINT64_MAX);
}

CALL(begin_to_run, rnl__share_running(&all.worker, &all.work[0].job))

ORDERS(who_sees_a_job_run_sees_since_when_it_does,
       begin_worker, nothing, begin_to_run, ask_since_when)

ORDERS(who_sees_the_oldest_job_sees_since_when_it_is,
       begin_worker, nothing, push_oldest, ask_since_when)
