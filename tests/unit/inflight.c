/* SPDX-License-Identifier: MIT */
/*
 * Jobs on a stream: marks of both kinds complete jobs in order and never early, also on a device
 * that cannot write words.
 *
 * devices: host fake cuda
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "sys/clock.h"
#include "stream/inflight.h"
#include "sys/thread_state.h"
#include "stream/stream.h"
#include "device/devices.h"
#include "host_kernel.h"
#include "suite.h"

#define LIMIT 6
#define BIG (32u << 20)

static struct rnl__device *device;
static int can_write = -1;	/* -1: unknown */
static struct rnl__inflight inflight;
static struct rnl_job jobs[64];
static unsigned char *pinned, *on_device;

/* @writes: let streams write words if the device can. */
static void begin(bool writes)
{
	struct rnl__devices devices;
	char why[RNL__WHY_BYTES];

	must(rnl__devices_open(test_device(), &devices, why));
	device = devices.list[0];
	if (can_write < 0)
		can_write = device->info.stream_writes;
	device->info.stream_writes = writes && can_write;
	must(rnl__stream_attach(device, &(struct rnl__stream_wish){ .level = RNL__LEVEL_LOWEST }));
	memset(&inflight, 0, sizeof(inflight));
	must(rnl__inflight_init(&inflight, device, LIMIT, UINT64_MAX));
	must(rnl__inflight_begin(&inflight));
	must(device->ops->wait(RNL__NEVER));	/* before a test writes the word */
	must(device->ops->alloc(device, RNL__PINNED, BIG, (void **)&pinned));
	must(device->ops->alloc(device, RNL__DEVICE, BIG, (void **)&on_device));
}

static void idle(void)
{
	must(device->ops->wait(RNL__NEVER));
}

static void end(void)
{
	idle();
	rnl__inflight_fini(&inflight);
	rnl__stream_detach();
	device->ops->free(device, RNL__DEVICE, on_device);
	device->ops->free(device, RNL__PINNED, pinned);
}

/* A test with words if _i, else with events. */
#define WITH_BOTH(name) \
	static void name##_with(int _i); \
	TEST(name, .loops = 2) \
	{ \
		begin(_i); \
		name##_with(_i); \
		end(); \
	} \
	static void name##_with(int _i CK_ATTRIBUTE_UNUSED)

#define push(job) rnl__inflight_push(&inflight, job)
#define mark(event, write) must(rnl__inflight_mark(&inflight, event, write))
#define ck_pop(job) ck_assert_ptr_eq(rnl__inflight_pop(&inflight), job)
#define ck_passed(job, queries) \
	do { \
		must(rnl__inflight_poll(&inflight, queries)); \
		ck_pop(job); \
	} while (0)

static void keep_busy(void)
{
	const struct rnl__copy copy = {
		.dst = on_device, .src = pinned, .width = BIG, .rows = 1,
	};

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(device->ops->copy(&copy), 0);
}

WITH_BOTH(an_unmarked_job_is_never_passed)
{
	push(&jobs[0]);
	idle();
	ck_passed(NULL, true);
	ck_assert_uint_eq(rnl__inflight_nr(&inflight), 1);
	mark(false, true);
	idle();
	ck_passed(&jobs[0], true);
	ck_pop(NULL);
	ck_assert_uint_eq(rnl__inflight_nr(&inflight), 0);
}

WITH_BOTH(a_job_is_passed_when_the_device_is_there_and_not_before)
{
	struct gate held = GATE_INIT;

	if (!hold_stream(&held))
		keep_busy();
	push(&jobs[0]);
	mark(false, true);
	ck_assert(!rnl__inflight_reached(&inflight));
	ck_passed(NULL, true);
	gate_open(&held);
	idle();
	ck_assert_int_eq(rnl__inflight_reached(&inflight), _i);
	ck_passed(&jobs[0], !_i);
}

WITH_BOTH(an_event_alone_is_seen_only_by_a_query)
{
	push(&jobs[0]);
	push(&jobs[1]);
	mark(true, false);
	idle();
	ck_passed(NULL, false);
	ck_passed(&jobs[0], true);
	ck_pop(&jobs[1]);
}

TEST(a_word_completes_a_job_that_had_only_an_event)
{
	begin(true);
	if (!inflight.writes) {
		end();
		test_skip("%s cannot write words", device->info.name);
	}
	push(&jobs[0]);
	mark(true, false);
	/* The queue became empty: no new job needs a mark, but a waiter needs one. */
	mark(false, true);
	idle();
	ck_passed(&jobs[0], false);
	end();
}

WITH_BOTH(a_full_ring_of_marks_keeps_what_they_say)
{
	keep_busy();
	for (unsigned i = 0; i < LIMIT; i++) {
		push(&jobs[i]);
		mark(true, false);
	}
	/* The queue became empty: no job is left to mark, so no mark is added. */
	mark(false, true);
	ck_assert_uint_eq(inflight.nr_marks, LIMIT);
	idle();
	for (unsigned i = 0; i < LIMIT; i++)
		ck_passed(&jobs[i], true);
}

WITH_BOTH(jobs_leave_in_issue_order_over_many_rounds)
{
	unsigned issued = 0, left = 0;

	while (left < 6000) {
		/* All combinations of marks and lengths, with many wraparounds of the ring. */
		while (issued < 6000 && rnl__inflight_nr(&inflight) < LIMIT) {
			push(&jobs[issued++ % 64]);
			if (issued % 3 == 0 || rnl__inflight_nr(&inflight) == LIMIT ||
			    issued == 6000)
				mark(issued % 5 < 2, issued % 7 < 3);
			if (issued % 11 == 0)
				break;
		}
		must(rnl__inflight_poll(&inflight, true));
		for (struct rnl_job *job; (job = rnl__inflight_pop(&inflight)) != NULL; left++)
			ck_assert_ptr_eq(job, &jobs[left % 64]);
	}
	ck_assert_uint_eq(left, issued);
	ck_assert_uint_eq(inflight.nr_marks, 0);
}

WITH_BOTH(a_number_beyond_32_bits_is_known_by_its_low_half)
{
	inflight.issued = inflight.marked = inflight.written = UINT32_MAX - 2;
	atomic_store(&inflight.reached, UINT32_MAX - 2);
	if (inflight.word)
		*inflight.word = UINT32_MAX - 2;
	for (unsigned i = 0; i < 5; i++) {
		push(&jobs[i]);
		mark(false, true);
	}
	idle();
	for (unsigned i = 0; i < 5; i++)
		ck_passed(&jobs[i], true);
	ck_assert_uint_eq(jobs[4].seq, UINT64_C(0x100000002));
}

WITH_BOTH(a_join_of_what_was_passed_waits_for_nothing)
{
	push(&jobs[0]);
	mark(true, true);
	idle();
	must(rnl__inflight_join(&inflight, 1, &(uint64_t){ 0 }, NULL));
	must(rnl__inflight_poll(&inflight, true));
	must(rnl__inflight_join(&inflight, 1, &(uint64_t){ 0 }, NULL));
}

WITH_BOTH(a_join_with_no_event_waits_for_nothing_on_a_well_device)
{
	struct rnl__inflight fresh = { .device = NULL };
	struct rnl__device fails;
	_Atomic int code = 0;

	fails = *device;
	fails.failed = &code;
	fresh.device = &fails;
	must(rnl__inflight_join(&fresh, 1, &(uint64_t){ 0 }, NULL));
	rnl__device_fail(&fails, 1);
	ck_assert_int_eq(rnl__inflight_join(&fresh, 1, &(uint64_t){ 0 }, NULL), -EIO);
}

/* ---- the event that a join takes, on a device that only records the choice -- */

static struct rnl__event *joined;

static int create_noted(struct rnl__device *on, bool timed, struct rnl__event **eventp)
{
	static char events[LIMIT];
	static unsigned nr;

	(void)on;
	(void)timed;
	*eventp = (struct rnl__event *)&events[nr++ % LIMIT];
	return 0;
}

static void destroy_noted(struct rnl__event *event)
{
	(void)event;
}

static int succeed(struct rnl__event *event)
{
	(void)event;
	return 0;
}

static int reach(struct rnl__event *event)
{
	(void)event;
	return 1;
}

static int join_result;

static int note_join(struct rnl__event *event)
{
	joined = event;
	return join_result;
}

/* Skips a number before each job, so there are numbers between two marks. */
static void push_and_mark(void)
{
	inflight.issued++;
	push(&jobs[inflight.issued % 64]);
	mark(true, false);
}

/* Joins job @seq after earlier joins up to @before. Returns the event waited for, or NULL. */
static struct rnl__event *event_joined_after(uint64_t seq, uint64_t *before)
{
	joined = NULL;
	ck_assert_int_eq(rnl__inflight_join(&inflight, seq, before, NULL), join_result);
	return joined;
}

static struct rnl__event *event_joined(uint64_t seq)
{
	return event_joined_after(seq, &(uint64_t){ 0 });
}

static void begin_noting(void)
{
	static const struct rnl__device_ops ops = {
		.event_create = create_noted, .event_destroy = destroy_noted,
		.event_record = succeed, .event_reached = reach, .event_wait = note_join,
	};
	static _Atomic int well;
	static struct rnl__device noting = { .ops = &ops, .failed = &well };
	static struct rnl__stream stream;

	rnl__thread.stream = &stream;
	memset(&inflight, 0, sizeof(inflight));
	must(rnl__inflight_init(&inflight, &noting, LIMIT, UINT64_MAX));
}

TEST(a_join_takes_the_earliest_event_after_its_job)
{
	struct rnl__event *of[256] = { NULL };
	uint64_t first = 1;

	begin_noting();
	while (inflight.issued < 200) {
		while (rnl__inflight_nr(&inflight) < LIMIT) {
			uint64_t nr = inflight.issued + 2;

			push_and_mark();
			of[nr] = of[nr - 1] = inflight.marks[(inflight.first_mark +
							      inflight.nr_marks - 1) % LIMIT].event;
		}
		for (uint64_t seq = first; seq <= inflight.issued; seq++)
			ck_assert_ptr_eq(event_joined(seq), of[seq]);
		/* The latest event for a job without one yet; no event for completed jobs. */
		ck_assert_ptr_eq(event_joined(inflight.issued + 1), of[inflight.issued]);
		for (int i = 0; i < 4; i++) {
			first = inflight.first->seq + 1;
			must(rnl__inflight_poll(&inflight, true));
			ck_assert_ptr_nonnull(rnl__inflight_pop(&inflight));
		}
		ck_assert_ptr_null(event_joined(first - 1));
	}
	rnl__inflight_fini(&inflight);
}

TEST(a_stream_waits_once_for_what_it_has_waited_for)
{
	uint64_t start, before = 0;

	begin_noting();
	start = inflight.issued;
	for (int i = 0; i < 3; i++)
		push_and_mark();	/* start + 2, + 4, + 6 */
	/* A failed wait does not count. */
	join_result = -EIO;
	ck_assert_ptr_nonnull(event_joined_after(start + 1, &before));
	join_result = 0;
	ck_assert_ptr_nonnull(event_joined_after(start + 1, &before));
	/* The event covers the next job as well. */
	ck_assert_ptr_null(event_joined_after(start + 1, &before));
	ck_assert_ptr_null(event_joined_after(start + 2, &before));
	ck_assert_ptr_nonnull(event_joined_after(start + 5, &before));
	for (uint64_t seq = start + 1; seq <= start + 6; seq++)
		ck_assert_ptr_null(event_joined_after(seq, &before));
	push_and_mark();
	ck_assert_ptr_nonnull(event_joined_after(start + 7, &before));
	rnl__inflight_fini(&inflight);
}

#define BITS 21

static uint64_t whole_of(uint64_t seq)
{
	return rnl__inflight_whole(&inflight, seq % (1u << BITS), BITS);
}

TEST(the_end_of_a_sequence_tells_which_it_is)
{
	const uint64_t reached[] = { 0, 5, (UINT64_C(1) << BITS) - 3, (UINT64_C(9) << BITS) - 1,
				     (UINT64_C(1) << 40) + 7 };

	begin(true);
	for (size_t i = 0; i < sizeof(reached) / sizeof(reached[0]); i++) {
		atomic_store(&inflight.reached, reached[i]);
		for (uint64_t ahead = 0; ahead <= LIMIT; ahead++)
			ck_assert_uint_eq(whole_of(reached[i] + ahead), reached[i] + ahead);
		/* A number reached long ago is not mistaken for one ahead. */
		for (uint64_t back = 1; back <= reached[i] && back < (1u << BITS) - 2 * LIMIT; back += 7)
			ck_assert_uint_eq(whole_of(reached[i] - back), reached[i] - back);
	}
	end();
}

WITH_BOTH(what_is_dropped_is_gone_marked_or_not)
{
	for (unsigned i = 0; i < 4; i++)
		push(&jobs[i]);
	mark(false, true);
	push(&jobs[4]);
	rnl__inflight_forget(&inflight);
	idle();
	ck_assert(!rnl__inflight_reached(&inflight));
	for (unsigned i = 0; i < 5; i++)
		ck_assert_ptr_eq(rnl__inflight_drop(&inflight), &jobs[i]);
	ck_assert_ptr_null(rnl__inflight_drop(&inflight));
	ck_assert_uint_eq(rnl__inflight_nr(&inflight), 0);
}

/* The device promises to write words but does not.  Events and queries give the same results. */
TEST(a_device_that_turns_out_to_write_no_words_gets_events, .loops = 2)
{
	const uintptr_t plan = (uintptr_t)dlsym(RTLD_DEFAULT, "fake_plan");
	const bool event = _i;

	if (!test_fake())
		test_skip("a_device_that_turns_out...: the double can be made to");
	must(((int (*)(const char *))plan)("fail=cuStreamWriteValue32:1:801"));
	begin(true);
	ck_assert(!inflight.writes);
	push(&jobs[0]);
	mark(event, true);
	push(&jobs[1]);
	mark(event, true);
	idle();
	ck_assert(!rnl__inflight_reached(&inflight));
	ck_passed(&jobs[0], true);
	ck_passed(&jobs[1], true);
	ck_pop(NULL);
	end();
}
