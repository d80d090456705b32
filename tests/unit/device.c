/* SPDX-License-Identifier: MIT */
/*
 * Device conformance: the promises of src/device/device.h, on the backend of RNL_TEST_DEVICE, for
 * both kinds of stream, of the highest priority or the lowest; and for streams on kept SMs and on
 * the rest.
 *
 * devices: host fake cuda
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "sys/clock.h"
#include "device/devices.h"
#include "host_kernel.h"
#include "sanitizers.h"
#include "sys/thread_state.h"
#include "stream/stream.h"
#include "suite.h"

SANITIZER_OPTIONS("allocator_may_return_null=1");

#define BIG (32u << 20)
#define BUSY 24			/* large copies: some ten milliseconds on any device */

static struct rnl__device *device;
static const struct rnl__device_ops *ops;
static struct rnl__sms *sms;
static unsigned char *pinned, *on_device;
static uint32_t *word;

enum { REST = 4, KEPT = 5 };

/* The host device has no SMs. */
static int nr_kinds(void)
{
	return strcmp(test_device(), "host") ? 6 : 4;
}

/* @kind: the kind of stream; + 2 for the highest priority; REST, KEPT: a private one on a set of SMs. */
static int attach_stream(int kind)
{
	const struct rnl__stream_wish wish = {
		.kind = kind >= REST ? RNL_STREAM_PRIVATE : (enum rnl_stream_kind)(kind % 2),
		.level = kind >= 2 && kind != REST ? 0 : RNL__LEVEL_LOWEST,
		.sms = kind >= REST ? sms : NULL, .kept = kind == KEPT,
	};

	return rnl__stream_attach(device, &wish);
}

static void attach(int kind)
{
	struct rnl__devices devices;
	char why[RNL__WHY_BYTES];

	must(rnl__devices_open(test_device(), &devices, why));
	device = devices.list[0];
	ops = device->ops;
	if (kind >= REST && !device->info.sm_group)
		test_skip("this device keeps no SMs");
	if (kind >= REST)
		must(ops->sms_create(device, device->info.sm_group, why, &sms));
	must(attach_stream(kind));
	must(ops->alloc(device, RNL__PINNED, BIG, (void **)&pinned));
	must(ops->alloc(device, RNL__DEVICE, BIG, (void **)&on_device));
	must(ops->alloc(device, RNL__PINNED, 64, (void **)&word));
	memset(pinned, 1, BIG);
	*word = 0;
}

static void detach(void)
{
	rnl__stream_detach();
	if (sms)
		ops->sms_destroy(sms);
	sms = NULL;
	ops->free(device, RNL__PINNED, word);
	ops->free(device, RNL__DEVICE, on_device);
	ops->free(device, RNL__PINNED, pinned);
}

/* A test on each kind of stream, which is _i. */
#define ON_STREAMS(name) \
	static void name##_on(int _i); \
	TEST(name, .loops = nr_kinds()) \
	{ \
		attach(_i); \
		name##_on(_i); \
		detach(); \
	} \
	static void name##_on(int _i CK_ATTRIBUTE_UNUSED)

static void plan(const char *text)
{
	const uintptr_t fn = (uintptr_t)dlsym(RTLD_DEFAULT, "fake_plan");

	must(((int (*)(const char *))fn)(text));
}

static int copy(void *dst, const void *src, size_t bytes)
{
	return ops->copy(&(struct rnl__copy){ .dst = dst, .src = src, .width = bytes, .rows = 1 });
}

/* Issues work that keeps the stream busy for a while. */
static void keep_busy(void)
{
	for (int i = 0; i < BUSY; i++)
		must(copy(on_device, pinned, BIG));
}

static struct gate held;

/* Keeps the stream busy until let_go(); on a GPU, for a while. */
static void hold(void)
{
	held = (struct gate)GATE_INIT;
	if (!hold_stream(&held))
		keep_busy();
}

static void let_go(void)
{
	gate_open(&held);
}

static uint32_t read_word(void)
{
	return atomic_load_explicit((_Atomic uint32_t *)word, memory_order_acquire);
}

ON_STREAMS(operations_run_in_order)
{
	for (unsigned i = 0; i < 4096; i++)
		pinned[i] = (unsigned char)(i * 7);
	must(ops->fill(on_device, 0xee, BIG));
	must(copy(on_device, pinned, 2048));
	must(copy(on_device + 2048, on_device + 1, 1024));
	must(copy(pinned + 8192, on_device, 4096));
	must(ops->wait(RNL__NEVER));
	for (unsigned i = 0; i < 4096; i++) {
		unsigned char want = i < 2048 ? (unsigned char)(i * 7) :
				     i < 3072 ? (unsigned char)((i - 2047) * 7) : 0xee;

		ck_assert_msg(pinned[8192 + i] == want, "byte %u is %u, not %u", i,
			      pinned[8192 + i], want);
	}
}

ON_STREAMS(operations_return_before_they_are_done)
{
	/* An attach may itself issue work. */
	must(ops->wait(RNL__NEVER));
	ck_assert_int_eq(ops->idle(), 1);
	hold();
	ck_assert_int_eq(ops->idle(), 0);
	ck_assert_int_eq(ops->wait(rnl__now()), -ETIMEDOUT);
	let_go();
	must(ops->wait(RNL__NEVER));
	ck_assert_int_eq(ops->idle(), 1);
	must(ops->wait(0));
}

ON_STREAMS(a_wait_with_a_deadline_ends_when_the_stream_is_idle)
{
	keep_busy();
	must(ops->wait(rnl__now() + (uint64_t)patience_ns()));
	ck_assert_int_eq(ops->idle(), 1);
}

ON_STREAMS(a_written_word_comes_after_what_was_issued_before_it)
{
	if (!device->info.stream_writes) {
		ck_assert_int_eq(ops->write(word, 1), -ENOTSUP);
		test_skip("%s cannot write words", device->info.name);
	}
	for (uint32_t round = 1; round <= 20; round++) {
		memset(pinned + 65536, 0, 65536);
		memset(pinned, (int)round, 65536);
		must(copy(on_device, pinned, 65536));
		must(copy(pinned + 65536, on_device, 65536));
		must(ops->write(word, round));
		while (read_word() != round)
			rnl__pause();
		ck_assert_uint_eq(pinned[65536], round);
		ck_assert_uint_eq(pinned[2 * 65536 - 1], round);
	}
	hold();
	must(ops->write(word, 1000));
	ck_assert_uint_eq(read_word(), 20);
	let_go();
	must(ops->wait(RNL__NEVER));
	ck_assert_uint_eq(read_word(), 1000);
}

ON_STREAMS(an_event_is_reached_after_what_was_issued_before_its_last_record)
{
	struct rnl__event *event;

	must(ops->event_create(device, false, &event));
	/* An event that was never recorded counts as reached, as in CUDA. */
	ck_assert_int_eq(ops->event_reached(event), 1);
	must(ops->event_record(event));
	must(ops->wait(RNL__NEVER));
	ck_assert_int_eq(ops->event_reached(event), 1);
	hold();
	/* Later work does not change an event that was reached. */
	ck_assert_int_eq(ops->event_reached(event), 1);
	must(ops->event_record(event));
	ck_assert_int_eq(ops->event_reached(event), 0);
	let_go();
	must(ops->wait(RNL__NEVER));
	ck_assert_int_eq(ops->event_reached(event), 1);
	ops->event_destroy(event);
	ops->event_destroy(NULL);
}

struct other {
	struct rnl__event *event;
	unsigned char *target;
	int kind;
	pthread_barrier_t recorded, joined;
};

/* Issues work on its own stream, which lasts until let_go(); the last part fills the target. */
static void *other_thread(void *arg)
{
	struct other *other = arg;

	must(attach_stream(other->kind >= REST ? REST + KEPT - other->kind : (other->kind + 2) % 4));
	hold();
	must(ops->fill(other->target, 0x5c, 4096));
	must(ops->event_record(other->event));
	pthread_barrier_wait(&other->recorded);
	pthread_barrier_wait(&other->joined);
	rnl__stream_detach();
	return NULL;
}

ON_STREAMS(a_stream_waits_for_the_event_of_another_thread)
{
	struct other other = { .kind = _i };
	pthread_t thread;

	must(ops->alloc(device, RNL__DEVICE, 4096, (void **)&other.target));
	must(ops->fill(other.target, 0, 4096));
	must(ops->wait(RNL__NEVER));
	must(ops->event_create(device, false, &other.event));
	pthread_barrier_init(&other.recorded, NULL, 2);
	pthread_barrier_init(&other.joined, NULL, 2);
	must(pthread_create(&thread, NULL, other_thread, &other));
	pthread_barrier_wait(&other.recorded);

	must(ops->event_wait(other.event));
	must(copy(pinned, other.target, 4096));
	/* The host did not wait: the other stream is still busy. */
	ck_assert_int_eq(ops->event_reached(other.event), 0);
	ck_assert_int_eq(ops->idle(), 0);
	let_go();
	must(ops->wait(RNL__NEVER));
	ck_assert_int_eq(ops->event_reached(other.event), 1);
	ck_assert_uint_eq(pinned[0], 0x5c);
	ck_assert_uint_eq(pinned[4095], 0x5c);

	pthread_barrier_wait(&other.joined);
	must(pthread_join(thread, NULL));
	/* The thread has ended; its event is still valid. */
	must(ops->event_wait(other.event));
	must(ops->wait(RNL__NEVER));
	ops->event_destroy(other.event);
	ops->free(device, RNL__DEVICE, other.target);
}

/* Returns event_reached(), called by a thread without a stream. */
static void *look_at_event(void *event)
{
	return (void *)(intptr_t)ops->event_reached(event);
}

static int seen_from_outside(struct rnl__event *event)
{
	pthread_t thread;
	void *ret;

	must(pthread_create(&thread, NULL, look_at_event, event));
	must(pthread_join(thread, &ret));
	return (int)(intptr_t)ret;
}

ON_STREAMS(any_thread_sees_whether_an_event_is_reached)
{
	struct rnl__event *event;

	must(ops->event_create(device, false, &event));
	hold();
	must(ops->event_record(event));
	ck_assert_int_eq(seen_from_outside(event), 0);
	let_go();
	must(ops->wait(RNL__NEVER));
	if (test_fake()) {
		/* cudaErrorDeviceUninitialized: the device's context cannot be made current. */
		plan("fail=cuCtxPushCurrent:1:201");
		ck_assert_int_eq(seen_from_outside(event), -EIO);
		ck_assert(!rnl__device_failed(device));
	}
	ck_assert_int_eq(seen_from_outside(event), 1);
	ops->event_destroy(event);
}

ON_STREAMS(waiting_for_an_event_never_recorded_waits_for_nothing)
{
	struct rnl__event *event;

	must(ops->event_create(device, false, &event));
	must(ops->event_wait(event));
	must(ops->wait(RNL__NEVER));
	ops->event_destroy(event);
}

ON_STREAMS(a_copy_may_have_rows_that_lie_apart)
{
	enum { ROWS = 37, WIDTH = 100, WIDE = 256, CLOSE = 128 };
	const struct rnl__copy in = { .dst = on_device, .src = pinned, .dst_pitch = WIDE,
				      .src_pitch = CLOSE, .width = WIDTH, .rows = ROWS };
	const struct rnl__copy out = { .dst = pinned + 65536, .src = on_device, .dst_pitch = CLOSE,
				       .src_pitch = WIDE, .width = WIDTH, .rows = ROWS };

	for (unsigned i = 0; i < ROWS * CLOSE; i++)
		pinned[i] = (unsigned char)(i * 11 + i / CLOSE);
	memset(pinned + 65536, 0xee, ROWS * CLOSE);
	must(ops->fill(on_device, 0x11, ROWS * WIDE));
	must(ops->copy(&in));
	must(ops->copy(&out));
	/* The bytes between the rows do not change. */
	must(copy(pinned + 131072, on_device, ROWS * WIDE));
	must(ops->wait(RNL__NEVER));
	for (unsigned row = 0; row < ROWS; row++) {
		for (unsigned i = 0; i < WIDE; i++) {
			unsigned char want = i < WIDTH ? pinned[row * CLOSE + i] : 0x11;

			ck_assert_uint_eq(pinned[131072 + row * WIDE + i], want);
			if (i < CLOSE)
				ck_assert_uint_eq(pinned[65536 + row * CLOSE + i],
						  i < WIDTH ? want : 0xee);
		}
	}
}

ON_STREAMS(scratch_is_used_between_its_alloc_and_its_free)
{
	enum { BYTES = 1 << 20, ROUNDS = 20 };
	void *mem[ROUNDS];

	/* All copies are issued together, after other work. */
	keep_busy();
	for (int i = 0; i < ROUNDS; i++) {
		must(ops->alloc(device, RNL__SCRATCH, BYTES, &mem[i]));
		ck_assert_uint_eq((uintptr_t)mem[i] % 256, 0);
		must(ops->fill(mem[i], (uint8_t)(i + 1), BYTES));
		must(copy(pinned + i * BYTES, mem[i], BYTES));
		/* Two are allocated at a time. */
		if (i)
			ops->free(device, RNL__SCRATCH, mem[i - 1]);
	}
	ops->free(device, RNL__SCRATCH, mem[ROUNDS - 1]);
	must(ops->wait(RNL__NEVER));
	for (int i = 0; i < ROUNDS; i++) {
		ck_assert_uint_eq(pinned[i * BYTES], i + 1);
		ck_assert_uint_eq(pinned[(i + 1) * BYTES - 1], i + 1);
	}
}

ON_STREAMS(the_kind_of_memory_is_found_by_address)
{
	static unsigned char own[64];
	unsigned char stack, *heap = malloc(64), *freed;
	void *scratch;

	ck_assert_int_eq(ops->kind_of(device, pinned), RNL__PINNED);
	ck_assert_int_eq(ops->kind_of(device, pinned + BIG - 1), RNL__PINNED);
	ck_assert_int_eq(ops->kind_of(device, on_device), RNL__DEVICE);
	ck_assert_int_eq(ops->kind_of(device, on_device + BIG / 2 + 1), RNL__DEVICE);
	ck_assert_int_eq(ops->kind_of(device, on_device + BIG - 1), RNL__DEVICE);
	ck_assert_int_eq(ops->kind_of(device, own), RNL__PAGEABLE);
	ck_assert_int_eq(ops->kind_of(device, &stack), RNL__PAGEABLE);
	ck_assert_int_eq(ops->kind_of(device, heap), RNL__PAGEABLE);
	must(ops->alloc(device, RNL__SCRATCH, 100, &scratch));
	ck_assert_int_eq(ops->kind_of(device, scratch), RNL__DEVICE);
	ops->free(device, RNL__SCRATCH, scratch);
	/* On the host device the address may be in use again. */
	must(ops->alloc(device, RNL__PINNED, 64, (void **)&freed));
	ops->free(device, RNL__PINNED, freed);
	if (!device->info.cuda)
		ck_assert_int_eq(ops->kind_of(device, freed), RNL__PAGEABLE);
	ck_assert(!rnl__device_failed(device));
	free(heap);
	ops->trim(device);
}

ON_STREAMS(timed_events_tell_how_long_the_work_between_them_took)
{
	struct rnl__event *from, *to;
	int64_t idle_ns, busy_ns, back_ns;

	must(ops->event_create(device, true, &from));
	must(ops->event_create(device, true, &to));
	must(ops->event_record(from));
	must(ops->event_record(to));
	must(ops->wait(RNL__NEVER));
	must(ops->event_elapsed(from, to, &idle_ns));
	ck_assert_int_ge(idle_ns, 0);
	must(ops->event_record(from));
	keep_busy();
	must(ops->event_record(to));
	must(ops->wait(RNL__NEVER));
	must(ops->event_elapsed(from, to, &busy_ns));
	must(ops->event_elapsed(to, from, &back_ns));
	/* 768 MB: no device copies 1 TB in a second, so this takes more than 0.7 ms. */
	ck_assert_int_gt(busy_ns, 700000);
	ck_assert_int_lt(back_ns, 0);
	ops->event_destroy(from);
	ops->event_destroy(to);
}

ON_STREAMS(a_stream_takes_thousands_of_operations)
{
	for (uint32_t i = 0; i < 5000; i++) {
		memcpy(pinned + 8192 + i * 4, &i, 4);
		must(copy(on_device, pinned + 8192 + i * 4, 4));
		must(copy(pinned + 65536 + i * 4, on_device, 4));
	}
	must(ops->wait(RNL__NEVER));
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t value;

		memcpy(&value, pinned + 65536 + i * 4, 4);
		ck_assert_uint_eq(value, i);
	}
}

ON_STREAMS(too_much_memory_is_an_error_that_the_device_survives)
{
	void *mem = &mem;

	ck_assert_int_eq(ops->alloc(device, RNL__DEVICE, (size_t)1 << 50, &mem), -ENOMEM);
	ck_assert_int_eq(ops->alloc(device, RNL__DEVICE, SIZE_MAX - 8, &mem), -ENOMEM);
	ck_assert_int_eq(ops->alloc(device, RNL__SCRATCH, (size_t)1 << 50, &mem), -ENOMEM);
	ck_assert_int_eq(ops->alloc(device, RNL__SCRATCH, 2 * device->info.memory_bytes, &mem),
			 -ENOMEM);
	ck_assert_ptr_eq(mem, &mem);
	ck_assert(!rnl__device_failed(device));
	must(ops->fill(on_device, 1, 64));
	must(ops->wait(RNL__NEVER));
}

TEST(a_thread_may_attach_again_after_it_detached, .loops = nr_kinds())
{
	for (int round = 0; round < 3; round++) {
		attach(_i);
		keep_busy();
		detach();	/* waits for the stream, which uses the memory */
		ck_assert_ptr_null(rnl__thread.stream);
	}
}

ON_STREAMS(no_error_is_no_errno)
{
	ck_assert_int_eq(ops->errno_of(device, 0), 0);
	ck_assert(!rnl__device_failed(device));
	ck_assert_uint_gt(strlen(device->info.name), 0);
	ck_assert_uint_gt(device->info.memory_bytes, 0);
}

/* cudaError_t by number, which is CUDA's ABI.  No code here means a failed device. */
TEST(codes_of_cuda_have_their_errno)
{
	static const struct {
		int code, errno_;
	} codes[] = {
		{ 1, -EINVAL },		/* cudaErrorInvalidValue */
		{ 2, -ENOMEM },		/* cudaErrorMemoryAllocation */
		{ 9, -EINVAL },		/* cudaErrorInvalidConfiguration */
		{ 100, -ENODEV },	/* cudaErrorNoDevice */
		{ 101, -ENODEV },	/* cudaErrorInvalidDevice */
		{ 209, -ENOTSUP },	/* cudaErrorNoKernelImageForDevice */
		{ 701, -EINVAL },	/* cudaErrorLaunchOutOfResources */
		{ 801, -ENOTSUP },	/* cudaErrorNotSupported */
		{ 900, -ENOTSUP },	/* cudaErrorStreamCaptureUnsupported */
		{ 999999, -EIO },	/* an unknown code */
	};

	attach(0);
	if (!device->info.cuda) {
		detach();
		test_skip("codes_of_cuda_have_their_errno: the host device has no codes");
	}
	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		ck_assert_msg(ops->errno_of(device, codes[i].code) == codes[i].errno_, "of %d",
			      codes[i].code);
	ck_assert(!rnl__device_failed(device));
	detach();
}

TEST(a_device_without_words_says_so)
{
	if (!test_fake())
		test_skip("a_device_without_words_says_so: the double can be one");
	plan("nowrite");
	attach(0);
	ck_assert_uint_eq(device->info.stream_writes, 0);
	ck_assert_int_eq(ops->write(word, 7), -ENOTSUP);
	must(ops->wait(RNL__NEVER));
	ck_assert_uint_eq(*word, 0);
	detach();
}
