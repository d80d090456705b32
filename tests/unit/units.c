/* SPDX-License-Identifier: MIT */
/* Registered units that call CUDA are asked and found, while others are added and removed. */
#define _GNU_SOURCE		/* MAP_ANONYMOUS */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include <runnel/unit.h>

#include "device/units.h"
#include "gate.h"
#include "suite.h"

static struct gate gate = GATE_INIT;
static _Atomic unsigned nr_calls;
static _Atomic bool removed;
static const char text[64];

static int waits_at_the_gate(void)
{
	/* A thread's first call is not part of its sequence. */
	if (atomic_fetch_add(&nr_calls, 1) >= 2)
		gate_wait(&gate);
	return 0;
}

static int error_7(void)
{
	return 7;
}

static int no_error(void)
{
	atomic_fetch_add(&nr_calls, 1);
	return 0;
}

/* Returns the number of calls of no_error() while a thread asks all runtimes. */
static unsigned nr_asked(int error)
{
	nr_calls = 0;
	ck_assert_int_eq(rnl__units_error(), error);
	return nr_calls;
}

static struct rnl__cuda_unit unit_of(int (*last_error)(void), unsigned from, unsigned to)
{
	return (struct rnl__cuda_unit){
		.size = sizeof(struct rnl__cuda_unit), .last_error = last_error,
		.runtime = &text[from], .text = text + from, .text_end = text + to,
	};
}

static void *ask_twice(void *unused)
{
	(void)unused;
	must(rnl__units_join());
	must(rnl__units_error());
	must(rnl__units_error());
	rnl__units_leave();
	return NULL;
}

static void *remove_unit(void *unit)
{
	rnl__cuda_unit_remove(unit);
	removed = true;
	return NULL;
}

TEST(a_removal_waits_for_a_thread_that_asks)
{
	const struct timespec moment = { .tv_nsec = 20000000 };
	struct rnl__cuda_unit unit = unit_of(waits_at_the_gate, 0, 1);
	pthread_t asks, removes;

	must(rnl__cuda_unit_add(&unit));
	must(pthread_create(&asks, NULL, ask_twice, NULL));
	gate_await(&gate, 1);
	must(pthread_create(&removes, NULL, remove_unit, &unit));
	nanosleep(&moment, NULL);	/* time for the wrong event to happen */
	ck_assert(!removed);
	gate_open(&gate);
	pthread_join(removes, NULL);
	pthread_join(asks, NULL);
	ck_assert(removed);
}

TEST(each_runtime_is_asked_once_though_units_come_and_go)
{
	struct rnl__cuda_unit units[3];

	for (unsigned i = 0; i < 3; i++) {
		units[i] = unit_of(no_error, i, i + 1);
		units[i].runtime = &units;
		must(rnl__cuda_unit_add(&units[i]));
	}
	must(rnl__units_join());
	must(rnl__units_error());
	ck_assert_uint_eq(nr_asked(0), 1);
	/* Another unit of the runtime replaces the unit that was asked. */
	rnl__cuda_unit_remove(&units[0]);
	must(rnl__units_error());
	ck_assert_uint_eq(nr_asked(0), 1);
	rnl__cuda_unit_remove(&units[1]);
	rnl__cuda_unit_remove(&units[2]);
	ck_assert_uint_eq(nr_asked(0), 0);
	rnl__units_leave();
}

TEST(the_first_error_is_returned_and_all_are_asked)
{
	struct rnl__cuda_unit first = unit_of(error_7, 0, 1), second = unit_of(no_error, 1, 2);

	must(rnl__cuda_unit_add(&first));
	must(rnl__cuda_unit_add(&second));
	must(rnl__units_join());
	ck_assert_int_eq(rnl__units_error(), 7);
	ck_assert_uint_eq(nr_asked(7), 1);
	rnl__units_leave();
	rnl__cuda_unit_remove(&second);
	rnl__cuda_unit_remove(&first);
}

TEST(a_thread_that_has_not_joined_asks_no_runtime)
{
	struct rnl__cuda_unit unit = unit_of(no_error, 0, 1);

	must(rnl__cuda_unit_add(&unit));
	ck_assert_uint_eq(nr_asked(0), 0);
	must(rnl__units_join());
	ck_assert_uint_gt(nr_asked(0), 0);
	rnl__units_leave();
	ck_assert_uint_eq(nr_asked(0), 0);
	rnl__cuda_unit_remove(&unit);
}

/* Like code from a run-time compiler: there is no module to hold during the call. */
TEST(a_runtime_whose_function_is_in_no_file_is_asked)
{
#ifdef __x86_64__
	/* mov $7, %eax; ret */
	static const unsigned char code[] = { 0xb8, 7, 0, 0, 0, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rnl__cuda_unit unit = unit_of((int (*)(void))(uintptr_t)page, 0, 1);

	ck_assert(page != MAP_FAILED);
	memcpy(page, code, sizeof(code));
	ck_assert_int_eq(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	must(rnl__cuda_unit_add(&unit));
	must(rnl__units_join());
	ck_assert_int_eq(rnl__units_error(), 7);
	ck_assert_int_eq(rnl__units_error(), 7);
	rnl__cuda_unit_remove(&unit);
	must(rnl__units_error());
	rnl__units_leave();
	munmap(page, 4096);
#else
	test_skip("a_runtime_whose_function_is_in_no_file_is_asked: it is of x86-64's code");
#endif
}

TEST(a_function_is_found_by_its_units_text)
{
	struct rnl__cuda_unit a = unit_of(no_error, 0, 16), b = unit_of(no_error, 16, 32);
	struct rnl__cuda_unit unknown = unit_of(no_error, 0, 0);

	a.flags = RNL__CUDA_UNIT_NEEDS_CUDA;
	b.flags = RNL__CUDA_UNIT_NAMES_STREAM;
	must(rnl__cuda_unit_add(&a));
	must(rnl__cuda_unit_add(&b));
	ck_assert_uint_eq(rnl__units_find(text + 15), RNL__UNIT_KNOWN | RNL__CUDA_UNIT_NEEDS_CUDA);
	ck_assert_uint_eq(rnl__units_find(text + 16),
			  RNL__UNIT_KNOWN | RNL__CUDA_UNIT_NAMES_STREAM);
	ck_assert_uint_eq(rnl__units_find(text + 32), 0);
	ck_assert_uint_eq(rnl__units_find((const void *)(uintptr_t)error_7), 0);
	/* A unit with unknown text covers all functions of its module. */
	must(rnl__cuda_unit_add(&unknown));
	ck_assert_uint_eq(rnl__units_find((const void *)(uintptr_t)error_7),
			  RNL__UNIT_KNOWN | RNL__UNIT_MODULE);
	ck_assert_uint_eq(rnl__units_find(&a), 0);
	ck_assert(rnl__units_have(RNL__UNITS_NEED_CUDA));
	rnl__cuda_unit_remove(&a);
	rnl__cuda_unit_remove(&b);
	rnl__cuda_unit_remove(&unknown);
	ck_assert_uint_eq(rnl__units_find(text + 15), 0);
	ck_assert_uint_eq(rnl__units_have(~0u), 0);
}

TEST(what_has_no_place_is_refused)
{
	static struct rnl__cuda_unit units[65];

	for (unsigned i = 0; i < 65; i++) {
		units[i] = unit_of(no_error, 0, 1);
		units[i].runtime = &units[i];
		ck_assert_int_eq(rnl__cuda_unit_add(&units[i]), i < 64 ? 0 : -EAGAIN);
	}
	rnl__cuda_unit_remove(&units[3]);
	must(rnl__cuda_unit_add(&units[64]));
}

static void *come_and_go(void *seen)
{
	for (int i = 0; i < 2000; i++) {
		struct rnl__cuda_unit unit = unit_of(no_error, 0, 16);

		unit.flags = RNL__CUDA_UNIT_NAMES_STREAM;
		must(rnl__cuda_unit_add(&unit));
		rnl__cuda_unit_remove(&unit);
	}
	*(_Atomic bool *)seen = true;
	return NULL;
}

TEST(units_come_and_go_while_threads_ask_and_find)
{
	_Atomic bool ended = false;
	pthread_t thread;

	must(rnl__units_join());
	must(pthread_create(&thread, NULL, come_and_go, (void *)&ended));
	while (!ended) {
		const uint32_t found = rnl__units_find(text + 8);

		ck_assert(!found || found == (RNL__UNIT_KNOWN | RNL__CUDA_UNIT_NAMES_STREAM));
		must(rnl__units_error());
	}
	pthread_join(thread, NULL);
	rnl__units_leave();
}
