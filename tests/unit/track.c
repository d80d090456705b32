/* SPDX-License-Identifier: MIT */
/*
 * A worker's part of a trace: its ring, its events, and its clock.
 *
 * devices: host fake cuda
 */
#include <dlfcn.h>
#include <sys/resource.h>
#include <time.h>

#include <runnel/trace.h>

#include "device/devices.h"
#include "sys/clock.h"
#include "sys/thread_state.h"
#include "stream/stream.h"
#include "sanitizers.h"
#include "suite.h"
#include "watch/track.h"

#define NR_RECORDS 4096u

static struct rnl__device *device;
static struct rnl__track track;
static struct rnl__track_record records[NR_RECORDS];
static _Atomic uint64_t dropped_ever;

static int some_fn(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static void begin(uint64_t nr_records, unsigned limit, enum rnl_trace_timing timing)
{
	struct rnl__devices devices;
	char why[RNL__WHY_BYTES];

	ck_assert_int_eq(rnl__devices_open(test_device(), &devices, why), 0);
	device = devices.list[0];
	must(rnl__stream_attach(device, &(struct rnl__stream_wish){ .level = RNL__LEVEL_LOWEST }));
	dropped_ever = 0;
	track = (struct rnl__track){
		.device = device, .limit = limit, .timing = timing, .records = records,
		.nr_records = nr_records, .dropped_ever = &dropped_ever,
	};
	rnl__track_start(&track);
	ck_assert_int_eq(track.error, 0);
}

static void end(void)
{
	must(device->ops->wait(RNL__NEVER));
	rnl__track_free(&track);
	rnl__stream_detach();
}

TEST(without_memory_for_its_jobs_a_track_says_so, .left_out = SANITIZED)
{
	struct rlimit limit, none;
	bool started;

	track = (struct rnl__track){ .limit = 1 << 24, .timing = RNL_TRACE_HOST };
	must(getrlimit(RLIMIT_AS, &limit));
	none = (struct rlimit){ 0, limit.rlim_max };
	must(setrlimit(RLIMIT_AS, &none));
	started = rnl__track_start(&track);
	must(setrlimit(RLIMIT_AS, &limit));
	ck_assert(!started);
	ck_assert_int_eq(track.error, -ENOMEM);
}

/* ---- the ring ------------------------------------------------------------ */

static void found(unsigned from, unsigned nr)
{
	for (unsigned i = from; i < from + nr; i++)
		rnl__track_found(&track, NULL, i);
}

/* Takes @nr entries as the reader does; they must be the next in order. */
static void take(unsigned from, uint64_t nr)
{
	uint64_t row;
	const struct rnl__track_record *r = rnl__track_peek(&track, &row);

	ck_assert_uint_eq(row, nr);
	for (uint64_t i = 0; i < nr; i++) {
		ck_assert_uint_eq(r[i].kind, RNL__TRACK_FOUND);
		ck_assert_uint_eq(r[i].found.what, from + i);
	}
	rnl__track_skip(&track, nr);
}

TEST(a_ring_keeps_its_order_and_counts_what_it_drops)
{
	begin(8, 1, RNL_TRACE_HOST);
	take(0, 0);
	found(0, 5);
	take(0, 5);
	/* Eight entries fit, and wrap around the ring's end. */
	found(5, 10);
	ck_assert_uint_eq(track.dropped, 2);
	ck_assert_uint_eq(dropped_ever, 2);
	take(5, 3);
	take(8, 5);
	take(0, 0);
	found(20, 1);
	take(20, 1);
	ck_assert_uint_eq(track.dropped, 2);
	end();
}

/* ---- events -------------------------------------------------------------- */

/* Runs job @number, with @nr_ops copies; the previous job may be in flight. */
static void run(uint64_t number, unsigned nr_ops)
{
	struct rnl_job job = { .fn = some_fn };

	rnl__track_begin(&track, &job, number, 0, number > 1);
	for (unsigned i = 0; i < nr_ops; i++) {
		rnl__track_issue(&track);
		rnl__track_op(&track, RNL__TRACK_IN);
	}
	rnl__track_called(&track, &job, 0, number, 0, 0);
}

/* Ends jobs @first to @last on the device. */
static void end_jobs(uint64_t first, uint64_t last)
{
	must(device->ops->wait(RNL__NEVER));
	for (uint64_t number = first; number <= last; number++)
		rnl__track_done(&track, number, true);
}

static uint64_t count(enum rnl__track_kind kind, bool timed)
{
	uint64_t nr, nr_such = 0;
	const struct rnl__track_record *r = rnl__track_peek(&track, &nr);

	for (uint64_t i = 0; i < nr; i++) {
		if (r[i].kind == kind)
			nr_such += !timed || r[i].done.end;
		if (r[i].kind == RNL__TRACK_DONE && r[i].done.end)
			ck_assert(r[i].done.begin <= r[i].done.end && r[i].done.end <= r[i].done.done);
	}
	return nr_such;
}

/* Empties the ring. */
static void skip_all_records(void)
{
	uint64_t nr;

	do {
		(void)rnl__track_peek(&track, &nr);
		rnl__track_skip(&track, nr);
	} while (nr);
}

/* At most 500 events are created. */
TEST(jobs_for_which_no_event_is_left_are_noted_without_times)
{
	enum { NR = 1000 };
	unsigned nr_free, nr_jobs;

	begin(NR_RECORDS, NR, RNL_TRACE_EVERY);
	nr_free = track.nr_free;
	nr_jobs = nr_free - 1;
	ck_assert_uint_lt(nr_jobs, NR);
	for (uint64_t number = 1; number <= NR; number++)
		run(number, 0);
	/* The first job has its own begin event; each other job uses the previous end. */
	ck_assert_uint_eq(track.nr_free, 0);
	end_jobs(1, NR);
	ck_assert_uint_eq(count(RNL__TRACK_CALL, false), NR);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, false), NR);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), nr_jobs);
	ck_assert_uint_eq(track.nr_free, nr_free);
	ck_assert_uint_eq(dropped_ever, 0);
	end();
}

TEST(operations_leave_the_events_that_jobs_need)
{
	enum { NR = 4 };
	unsigned nr_free;

	begin(NR_RECORDS, NR, RNL_TRACE_EVERY);
	nr_free = track.nr_free;
	/* The first twelve copies have spans, the later copies have none. */
	run(1, RNL__TRACK_OPS + 3);
	ck_assert_uint_eq(nr_free - track.nr_free, RNL__TRACK_OPS + 2);
	for (uint64_t number = 2; number <= NR; number++)
		run(number, RNL__TRACK_OPS);
	ck_assert_uint_lt(track.nr_free, 4);
	end_jobs(1, NR);
	ck_assert_uint_ge(count(RNL__TRACK_DONE, true), 2);
	ck_assert_uint_ge(count(RNL__TRACK_IN, false), RNL__TRACK_OPS);
	ck_assert_uint_eq(track.nr_free, nr_free);
	end();
}

TEST(by_default_the_first_jobs_are_all_timed_and_later_ones_if_they_cost_little)
{
	enum { NR = 4 };
	uint64_t nr_timed = 0, number = 1;

	begin(NR_RECORDS, NR, RNL_TRACE_SOME);
	for (; number <= RNL__TRACK_FIRST; number += NR) {
		track.next_timed = UINT64_MAX / 2;
		for (unsigned i = 0; i < NR; i++)
			run(number + i, 0);
		end_jobs(number, number + NR - 1);
		nr_timed += count(RNL__TRACK_DONE, true);
		skip_all_records();
	}
	ck_assert_uint_eq(nr_timed, RNL__TRACK_FIRST);
	run(number, 0);
	end_jobs(number, number);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), 0);
	track.next_timed = 0;
	number++;
	run(number, 0);
	end_jobs(number, number);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), 1);
	ck_assert_uint_gt(track.next_timed, 0);
	end();
}

static uint64_t begin_of_first_job(void)
{
	uint64_t nr;
	const struct rnl__track_record *r = rnl__track_peek(&track, &nr);

	for (uint64_t i = 0; i < nr; i++) {
		if (r[i].kind == RNL__TRACK_DONE)
			return r[i].done.begin;
	}
	return 0;
}

/* The begin that was recorded at the call would be too early. */
TEST(a_job_whose_begin_is_not_recorded_anew_begins_no_earlier_than_it_issues)
{
	int (*plan)(const char *text) = (int (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "fake_plan");
	struct rnl_job job = { .fn = some_fn };
	uint64_t called;
	unsigned nr_free;

	if (!test_fake())
		test_skip("a_job_whose_begin...: the double alone refuses calls");
	begin(NR_RECORDS, 4, RNL_TRACE_EVERY);
	nr_free = track.nr_free;
	rnl__track_begin(&track, &job, 1, 0, false);
	must(device->ops->wait(RNL__NEVER));
	called = rnl__now();
	ck_assert_int_eq(plan("fail=cudaEventRecord:1:2"), 0);
	rnl__track_issue(&track);
	ck_assert_uint_eq(track.nr_free, nr_free);
	rnl__track_called(&track, &job, 0, 1, 0, 0);
	end_jobs(1, 1);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), 1);
	ck_assert_uint_ge(begin_of_first_job(), called);
	ck_assert_uint_eq(track.nr_free, nr_free);
	end();
}

TEST(what_is_in_flight_at_the_end_is_cut_and_what_was_before_is_not_known)
{
	struct rnl_job before = { .seq = 1 }, known = { .seq = 2 };

	before.link = &known;
	begin(NR_RECORDS, 4, RNL_TRACE_EVERY);
	run(2, 1);
	rnl__track_stop(&track, &before);
	ck_assert_uint_eq(count(RNL__TRACK_CUT, false), 1);
	/* A second end is ignored. */
	rnl__track_done(&track, 2, true);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, false), 0);
	end();
}

/* ---- the clock ----------------------------------------------------------- */

TEST(an_idle_worker_asks_the_clock_anew_once_in_a_second)
{
	uint64_t based, nr_free;

	begin(NR_RECORDS, 2, RNL_TRACE_EVERY);
	based = track.based;
	rnl__track_idle(&track, based + 999999999);
	ck_assert_uint_eq(track.based, based);
	nr_free = track.nr_free;
	track.nr_free = 0;
	rnl__track_idle(&track, based + 1000000000);
	ck_assert_uint_eq(track.based, based);
	track.nr_free = (unsigned)nr_free;
	rnl__track_idle(&track, based + 1000000000);
	/* The host device uses the host's clock. */
	if (track.exact)
		ck_assert_uint_eq(track.based, based);
	else
		ck_assert_uint_gt(track.based, based);
	ck_assert_uint_eq(track.nr_free, nr_free);
	run(1, 2);
	end_jobs(1, 1);
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), 1);
	end();
}

TEST(a_busy_workers_clock_is_moved_on_after_a_second)
{
	const struct timespec second = { .tv_sec = 1, .tv_nsec = 10000000 };
	struct rnl__event *base;
	uint64_t first_ns, base_ns, from;

	begin(NR_RECORDS, 2, RNL_TRACE_EVERY);
	base = track.base;
	first_ns = base_ns = track.base_ns;
	nanosleep(&second, NULL);
	for (uint64_t number = 1; number <= 3; number++) {
		from = rnl__now();
		run(number, 1);
		end_jobs(number, number);
		if (track.exact)
			continue;
		/* The first job's end sets the base; on a busy machine a later end may, too. */
		if (number == 1)
			ck_assert_ptr_ne(track.base, base);
		else
			ck_assert(track.base == base || rnl__now() > base_ns + 1000000000);
		base = track.base;
		base_ns = track.base_ns;
		ck_assert_uint_gt(track.base_ns, first_ns + 1000000000);
		ck_assert_uint_le(track.base_ns, rnl__now());
		ck_assert_uint_ge(track.last_end, from);
	}
	ck_assert_uint_eq(count(RNL__TRACK_DONE, true), 3);
	end();
}
