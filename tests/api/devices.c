/* SPDX-License-Identifier: MIT */
/*
 * One pool over several devices: host devices, devices of the double, or all GPUs.
 * tests/cuda/peers.cu has more tests, for machines with two GPUs.
 */
#include <runnel/batch.h>
#include <runnel/device.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "asks.h"
#include "classed.h"
#include "heard.h"
#include "host_kernel.h"
#include "move.h"
#include "places.h"
#include "trace.h"

#define BYTES ((size_t)16 << 10)

static int device_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_worker().device;
}

static void placed_job(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user, int device)
{
	job_of(job, fn, user);
	must(rnl_job_set_device(job, device));
}

static void submit_placed(struct rnl_pool *pool, struct rnl_job *job,
			  int (*fn)(struct rnl_job *job), void *user, int device)
{
	placed_job(job, fn, user, device);
	must(rnl_submit(pool, job));
}

/* Returns the device of a job with that key. */
static int device_of_key(struct rnl_pool *pool, uint64_t key)
{
	struct rnl_job job;

	job_of(&job, device_fn, NULL);
	must(submit_by_key(pool, &job, key));
	return result_of(&job);
}

static struct heard heard;

/* Like pool_over(); its log is heard. */
static struct rnl_pool *heard_pool_over(unsigned nr, unsigned each)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	return pool_over(nr, each, attr);
}

/* Tries to create a pool; its log is heard.  Returns the error. */
static int try_create(struct rnl_pool **poolp, const char *device, unsigned nr_workers,
		      unsigned nr_class_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	attr.device = device;
	attr.nr_workers = nr_workers;
	attr.nr_class_workers = nr_class_workers;
	return rnl_pool_create(poolp, &attr);
}

#define ck_heard(what) ck_assert_msg(has_heard(&heard, what), "%s", heard.text)

#define skip_unless_two(pool) \
	do { \
		skip_if_alone(pool); \
		if (nr_devices_of(pool) != 2) \
			test_skip("for two devices"); \
	} while (0)

/* ---- names --------------------------------------------------------------- */

static const struct {
	const char *name;
	int host, fake;		/* result of a create without GPUs, and with two of the double */
	const char *says;	/* text of the log line, if the library itself refuses the name */
} names[] = {
	{ "host:1", 0, 0, NULL }, { "host:3", 0, 0, NULL }, { "host:16", 0, 0, NULL },
	{ "host:0", -EINVAL, -EINVAL, "host:N has 1 to 16 devices" },
	{ "host:17", -EINVAL, -EINVAL, "host:N has 1 to 16 devices" },
	{ "host:4294967297", -EINVAL, -EINVAL, "no name of a device" },
	{ "host:", -EINVAL, -EINVAL, "no name of a device" },
	{ "host:2x", -EINVAL, -EINVAL, "no name of a device" },
	{ "host:1,2", -EINVAL, -EINVAL, "devices of one kind" },
	{ "cuda:0", -ENODEV, 0, NULL }, { "cuda:1,0", -ENODEV, 0, NULL },
	{ "cuda:all", -ENODEV, 0, NULL },
	{ "cuda:0,0", -ENODEV, -EINVAL, "cuda:0 is named twice" },
	{ "cuda:0,2", -ENODEV, -ENODEV, "there is no cuda:2: CUDA has 2 devices here" },
	{ "cuda:0,", -EINVAL, -EINVAL, "no name of a device" },
	{ "cuda:,0", -EINVAL, -EINVAL, "no name of a device" },
	{ "cuda:0;1", -EINVAL, -EINVAL, "no name of a device" },
	{ "cuda:0,host", -EINVAL, -EINVAL, "devices of one kind" },
	{ "cuda:0,cuda:1", -EINVAL, -EINVAL, "the kind is named once" },
	{ "gpus", -EINVAL, -EINVAL, "no name of a device" },
};

TEST(a_name_is_of_devices_or_a_line_says_why_not)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	if (!on_host() && !test_fake())
		test_skip("the double has as many devices as a test wants");
	if (test_fake())
		must(ask_double("devices=2"));
	setenv("CUDA_VISIBLE_DEVICES", "", on_host());
	for (unsigned i = 0; i < COUNT(names); i++) {
		const int expected = on_host() ? names[i].host : names[i].fake;
		struct rnl_pool *pool = NULL;
		int ret = try_create(&pool, names[i].name, 16, 0);
		const char *says = ret == -ENODEV && on_host() ? "CUDA_VISIBLE_DEVICES is \"\"" :
								 names[i].says;

		ck_assert_msg(ret == expected, "%s: %d, not %d", names[i].name, ret, expected);
		ck_assert_msg(!ret || has_heard(&heard, says), "%s: %s", names[i].name, heard.text);
		rnl_pool_destroy(pool);
		ck_assert_int_eq(rnl_device_describe(NULL, names[i].name, 0, &info), expected);
	}
}

TEST(each_device_needs_a_worker)
{
	static const struct {
		unsigned nr_workers, nr_class_workers;
		const char *says;
	} wrongs[] = {
		{ 1, 0, "nr_workers is 1; " },
		{ RNL_WORKERS_MAX - 1, 2, "nr_workers is 1023; it must be" },
	};
	const struct rnl_class_attr one = { .size = sizeof(one), .nr_workers = 1 };
	struct rnl_pool *pool = pool_over_of(2, 2, .nr_class_workers = 2, .log = hear_line,
					     .log_arg = &heard);
	struct rnl_class *cls = NULL;

	skip_if_alone(pool);
	ck_assert_int_eq(rnl_class_create(&cls, pool, &one), -EINVAL);
	ck_heard("rnl_class_create(): nr_workers is 1, the pool has");
	ck_assert_ptr_null(cls);
	ck_assert_int_eq(rnl_pool_resize(pool, 1), -EINVAL);
	must(rnl_pool_resize(pool, nr_devices_of(pool)));
	rnl_pool_destroy(pool);
	for (unsigned i = 0; i < COUNT(wrongs); i++) {
		ck_assert_int_eq(try_create(&pool, first_devices(2), wrongs[i].nr_workers,
					    wrongs[i].nr_class_workers), -EINVAL);
		ck_heard(wrongs[i].says);
	}
}

static int start_hook(void *arg, unsigned worker, void **datap)
{
	_Atomic int *devices = arg;

	*datap = NULL;
	devices[worker] = rnl_worker().device;
	return 0;
}

TEST(workers_have_the_devices_in_turn)
{
	_Atomic int devices[RNL_WORKERS_MAX] = { 0 };
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool *pool = pool_over_of(3, 2, .on_start = start_hook, .hook_arg = devices);
	int nr;

	ck_assert_int_eq(rnl_worker().device, -1);
	skip_if_alone(pool);
	nr = (int)nr_devices_of(pool);
	for (int i = 0; i < nr; i++) {
		must(rnl_device_describe(pool, NULL, (unsigned)i, &info));
		ck_assert_int_eq(info.ordinal, i);
		ck_assert_uint_eq(info.cuda, !on_host());
	}
	ck_assert_int_eq(rnl_device_describe(pool, NULL, (unsigned)nr, &info), -EINVAL);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(devices[i], i % nr);
	rnl_pool_destroy(pool);
}

/* A job that copies bytes to its device and back. */
struct trip {
	struct rnl_job job;
	char in[64], out[64];
};

static int trip_fn(struct rnl_job *job)
{
	struct trip *t = rnl_container_of(job, struct trip, job);
	void *mem;
	int ret = rnl_scratch(sizeof(t->in), &mem);

	ret = ret ? ret : rnl_copy(mem, t->in, sizeof(t->in));
	ret = ret ? ret : rnl_copy(t->out, mem, sizeof(t->out));
	return ret ? ret : rnl_worker().device;
}

TEST(a_pool_has_as_many_devices_as_a_pool_may)
{
	struct rnl_pool *pool = pool_over_of(RNL_DEVICES_MAX, 1);
	struct trip trips[RNL_DEVICES_MAX] = { 0 };
	int nr;

	skip_if_alone(pool);
	nr = (int)nr_devices_of(pool);
	ck_assert(nr == RNL_DEVICES_MAX || (!on_host() && !test_fake()));
	for (int i = 0; i < nr; i++) {
		memset(trips[i].in, i + 1, sizeof(trips[i].in));
		submit_placed(pool, &trips[i].job, trip_fn, NULL, i);
	}
	for (int i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&trips[i].job), i);
		ck_assert_bytes((unsigned char *)trips[i].out, sizeof(trips[i].out), i + 1);
	}
	rnl_pool_destroy(pool);
}

/* ---- placing ------------------------------------------------------------- */

TEST(a_placed_job_runs_on_its_device, .loops = 3)
{
	struct rnl_pool *pool = pool_over_of(3, 2, .nr_class_workers = _i == 2 ? 3 : 0);
	struct rnl_class *cls = NULL;
	struct rnl_job jobs[60];
	int nr;

	skip_if_alone(pool);
	if (_i == 2)
		cls = own_class(pool, 3);
	nr = (int)nr_devices_of(pool);
	for (int i = 0; i < (int)COUNT(jobs); i++) {
		placed_job(&jobs[i], device_fn, NULL, i % nr);
		must(rnl_job_set_class(&jobs[i], cls));
		if (_i == 1)
			must(submit_by_key(pool, &jobs[i], (uint64_t)i));
		else
			must(rnl_submit(pool, &jobs[i]));
	}
	for (int i = 0; i < (int)COUNT(jobs); i++)
		ck_assert_int_eq(result_of(&jobs[i]), i % nr);
	rnl_pool_destroy(pool);
}

TEST(a_placed_job_may_be_one_of_many)
{
	struct rnl_pool *pool = pool_over_of(2, 2);
	struct rnl_job jobs[40], *list[40];

	skip_if_alone(pool);
	for (int i = 0; i < 40; i++) {
		list[i] = &jobs[i];
		placed_job(&jobs[i], device_fn, NULL, i % 3 == 1 ? -1 : i % 2);
	}
	for (int i = 0; i < 40;) {
		int ret = rnl_submit_many(pool, list + i, (unsigned)(40 - i));

		ck_assert_int_gt(ret, 0);
		i += ret;
	}
	for (int i = 0; i < 40; i++)
		ck_assert(i % 3 == 1 ? result_of(&jobs[i]) >= 0 : result_of(&jobs[i]) == i % 2);
	rnl_pool_destroy(pool);
}

/*
 * All workers are held while jobs are queued for each. Then one worker goes on. It must run all
 * unplaced jobs and those placed on its device, but no job of another device.
 */
TEST(a_worker_steals_jobs_that_are_not_placed_elsewhere, .loops = 2)
{
	struct rnl_pool *pool = pool_over_of(2, 2, .nr_class_workers = _i ? 2 : 0);
	struct rnl_class *cls = NULL;
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job holding[6], jobs[40];

	skip_unless_two(pool);
	if (_i)
		cls = own_class(pool, 2);
	/* Device 1's first worker waits at a gate of its own; the other workers share a gate. */
	for (unsigned i = 0; i < 4; i++) {
		job_of(&holding[i], gated_fn, &gates[i == 1]);
		must(submit_by_key(pool, &holding[i], RNL_KEY_WORKER(i)));
	}
	gate_await(&gates[0], 3);
	gate_await(&gates[1], 1);
	for (int i = 0; _i && i < 2; i++) {
		placed_job(&holding[4 + i], gated_fn, &gates[0], i);
		must(rnl_job_set_class(&holding[4 + i], cls));
		must(rnl_submit(pool, &holding[4 + i]));
		gate_await(&gates[0], 4 + (unsigned)i);
	}
	for (int i = 0; i < (int)COUNT(jobs); i++)
		submit_placed(pool, &jobs[i], device_fn, NULL, i % 4 < 2 ? i % 4 : -1);
	gate_open(&gates[1]);
	for (int i = 0; i < (int)COUNT(jobs); i++)
		if (i % 4)
			ck_assert_int_eq(result_of(&jobs[i]), 1);
	for (int i = 0; i < (int)COUNT(jobs); i += 4)
		ck_assert_int_ne(rnl_job_wait(&jobs[i], 0), 0);
	gate_open(&gates[0]);
	for (int i = 0; i < (int)COUNT(jobs); i += 4)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	rnl_pool_destroy(pool);
}

/* The notice is queued before the others at a held worker, and the other device's worker is free. */
TEST(a_notice_for_space_runs_on_its_device)
{
	struct rnl_pool *pool = pool_over_of(2, 1, .max_queued = 8);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job holding[2], jobs[8], notice, others[20];

	skip_unless_two(pool);
	for (int i = 0; i < 2; i++)
		submit_placed(pool, &holding[i], gated_fn, &gates[i], i);
	for (unsigned i = 0; i < 2; i++)
		gate_await(&gates[i], 1);
	for (int i = 0; i < 8; i++)
		submit_placed(pool, &jobs[i], device_fn, NULL, i % 2);
	placed_job(&notice, device_fn, NULL, 0);
	must(submit_when(pool, &notice, RNL_SPACE));
	/* The timer thread ends this job, so it has the notice, too. */
	must(rnl_job_cancel(&jobs[6]));
	ck_assert_int_eq(result_of(&jobs[6]), -ECANCELED);
	gate_open(&gates[1]);
	for (int i = 1; i < 8; i += 2)
		ck_assert_int_eq(result_of(&jobs[i]), 1);
	ck_eventually(figures_of(pool).queued == 4 || !rnl_job_wait(&notice, 0));
	for (unsigned i = 0; i < COUNT(others); i++) {
		submit_placed(pool, &others[i], device_fn, NULL, 1);
		ck_assert_int_eq(result_of(&others[i]), 1);
	}
	ck_assert_int_eq(rnl_job_wait(&notice, 0), -ETIMEDOUT);
	gate_open(&gates[0]);
	ck_assert_int_eq(result_of(&notice), 0);
	rnl_pool_destroy(pool);
}

/* No job stays queued while a worker that may run it sleeps. */
TEST(placed_jobs_wake_the_workers_of_their_device, .loops = 4)
{
	struct rnl_pool *pool = pool_over_of(2, 4, .spin_us = -1);
	struct rnl_job jobs[RNL_WORKERS_MAX];
	struct gate gate = GATE_INIT;

	skip_if_alone(pool);
	/* One job for each worker of the device: each worker must wake. */
	for (unsigned round = 0; round < 20; round++) {
		struct gate here = GATE_INIT;
		const unsigned nr = 8 / nr_devices_of(pool);

		for (unsigned i = 0; i < nr; i++)
			submit_placed(pool, &jobs[i], gated_fn, &here, (int)round % 2);
		gate_await(&here, nr);
		gate_open(&here);
		for (unsigned i = 0; i < nr; i++)
			ck_assert_int_eq(result_of(&jobs[i]), 0);
	}
	hold_workers(pool, &gate, jobs, 8);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(a_job_on_an_unknown_device_is_refused)
{
	struct rnl_pool *pool = heard_pool_over(2, 1);
	struct rnl_job job;

	skip_if_alone(pool);
	job_of(&job, device_fn, NULL);
	ck_assert_int_eq(rnl_job_set_device(&job, -2), -EINVAL);
	ck_assert_int_eq(rnl_job_set_device(&job, RNL_DEVICES_MAX), -EINVAL);
	must(rnl_job_set_device(&job, RNL_DEVICES_MAX - 1));
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	ck_heard("submit: device is 15; the pool has devices 0 to ");
	must(rnl_job_set_device(&job, 1));
	ck_assert_int_eq(submit_and_wait(pool, &job), 1);
	must(rnl_job_set_device(&job, -1));
	ck_assert_int_ge(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}

TEST(in_a_pool_of_one_device_that_is_0)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_job job;

	placed_job(&job, device_fn, NULL, 0);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	must(rnl_job_set_device(&job, 1));
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	rnl_pool_destroy(pool);
}

/* ---- space --------------------------------------------------------------- */

/* The worker of device 0 is held, so unplaced jobs must run on another device. */
TEST(open_jobs_go_where_there_is_room)
{
	struct rnl_pool *pool = pool_over_of(2, 1, .spin_us = -1);
	struct gate gate = GATE_INIT;
	struct rnl_job first, second;

	skip_if_alone(pool);
	submit_placed(pool, &first, gated_fn, &gate, 0);
	gate_await(&gate, 1);
	for (unsigned i = 0; i < 10; i++) {
		job_of(&second, device_fn, NULL);
		ck_assert_int_ne(submit_and_wait(pool, &second), 0);
	}
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(a_placed_submit_waits_for_room_on_its_device)
{
	struct rnl_pool *pool = pool_over_of(2, 1, .max_queued = 2);
	struct gate gate = GATE_INIT;
	struct rnl_job holding[RNL_WORKERS_MAX], queued[2], waits;
	struct submitting s = { .pool = pool, .job = &waits, .timeout_ns = RNL_FOREVER };
	struct call call;

	skip_unless_two(pool);
	hold_workers(pool, &gate, holding, 2);
	submit_placed(pool, &queued[0], device_fn, NULL, 1);
	placed_job(&waits, device_fn, NULL, 1);
	ck_assert_int_eq(rnl_submit(pool, &waits), -EAGAIN);
	submit_placed(pool, &queued[1], device_fn, NULL, 0);
	call_start(&call, submit_waiting, &s);
	ck_waits(call.tid);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_assert_int_eq(result_of(&waits), 1);
	rnl_pool_destroy(pool);
}

/* ---- keys ---------------------------------------------------------------- */

enum { KEYS = 64, RUNS = 20 };

struct in_order {
	struct rnl_job job;
	_Atomic int *last;	/* number of the key's last job */
	int nr;
};

static int in_order_fn(struct rnl_job *job)
{
	struct in_order *o = rnl_container_of(job, struct in_order, job);

	if (atomic_exchange(o->last, o->nr) != o->nr - 1)
		return -EPROTO;
	return rnl_worker().device;
}

/* Keys are spread over all devices. The pool's size and resizes do not change a key's device. */
TEST(a_key_has_a_device_and_an_order, .timeout_s = 60)
{
	static struct in_order jobs[RUNS][KEYS];
	static _Atomic int last[KEYS];
	struct rnl_pool *pool = pool_over_of(3, 2), *other;
	unsigned nr_on[RNL_DEVICES_MAX] = { 0 };
	int devices[KEYS], nr;

	skip_if_alone(pool);
	nr = (int)nr_devices_of(pool);
	other = pool_over_of(3, 1);
	for (int key = 0; key < KEYS; key++) {
		devices[key] = device_of_key(other, (uint64_t)key);
		nr_on[devices[key]]++;
	}
	for (int i = 0; i < nr; i++)
		ck_assert_uint_gt(nr_on[i], KEYS / 16);
	for (int i = 0; i < RUNS; i++) {
		for (int key = 0; key < KEYS; key++) {
			struct in_order *o = &jobs[i][key];

			o->last = &last[key];
			o->nr = i + 1;
			job_of(&o->job, in_order_fn, NULL);
			must(submit_by_key(pool, &o->job, (uint64_t)key));
		}
		if (i % 5 == 4)
			must(rnl_pool_resize(pool, (unsigned)(i % 2 ? nr : 3 * nr)));
	}
	for (int i = 0; i < RUNS; i++)
		for (int key = 0; key < KEYS; key++)
			ck_assert_int_eq(result_of(&jobs[i][key].job), devices[key]);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

static int ordinal_of(struct rnl_pool *pool, int device)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	must(rnl_device_describe(pool, NULL, (unsigned)device, &info));
	return info.ordinal;
}

/* Stores the ordinal of each key's device. Returns the pool's ordinals as a bit mask. */
static unsigned note_keys(struct rnl_pool *pool, int *ordinals)
{
	unsigned all = 0;

	for (int i = 0; i < (int)nr_devices_of(pool); i++)
		all |= 1u << ordinal_of(pool, i);
	for (int key = 0; key < KEYS; key++)
		ordinals[key] = ordinal_of(pool, device_of_key(pool, (uint64_t)key));
	return all;
}

/* Returns a name for @nr devices less @left_out: of GPUs, without the first, in reverse order. */
static const char *name_of_others(int nr, int left_out)
{
	static char name[64];
	int length = snprintf(name, sizeof(name), on_host() ? "host:%d" : "cuda:%d",
			      nr - (on_host() ? left_out : 1));

	for (int i = nr - 2; i >= left_out && !on_host(); i--)
		length += snprintf(name + length, sizeof(name) - (size_t)length, ",%d", i);
	return name;
}

TEST(a_key_has_its_device_in_each_pool_that_has_the_device)
{
	struct rnl_pool *pool = pool_over_of(4, 1);
	int nr, in_all[KEYS], in_other[KEYS], nr_same = 0;

	skip_if_alone(pool);
	nr = (int)nr_devices_of(pool);
	(void)note_keys(pool, in_all);
	rnl_pool_destroy(pool);
	for (int left_out = 0; left_out < nr; left_out++) {
		const char *name = name_of_others(nr, left_out);
		unsigned others;

		must(try_create(&pool, name, 2 * (unsigned)nr, 0));
		others = note_keys(pool, in_other);
		rnl_pool_destroy(pool);
		for (int key = 0; key < KEYS; key++) {
			if (!(others & 1u << in_all[key]))
				continue;
			ck_assert_msg(in_other[key] == in_all[key], "key %d: %d, and %d of \"%s\"",
				      key, in_all[key], in_other[key], name);
			nr_same++;
		}
	}
	ck_assert_int_gt(nr_same, KEYS);
}

TEST(a_key_that_names_a_worker_leads_to_as_many)
{
	struct rnl_pool *pool = pool_over_of(2, 3);
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[6];

	skip_if_alone(pool);
	/* For a placed job, the key counts the workers of the job's device. */
	for (unsigned i = 0; i < 6 / nr_devices_of(pool); i++) {
		placed_job(&jobs[i], gated_fn, &gate, 1);
		must(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(i)));
		gate_await(&gate, i + 1);
	}
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < 6; i++) {
		job_of(&jobs[i], index_fn, NULL);
		must(submit_by_key(pool, &jobs[i], RNL_KEY_WORKER(i)));
		ck_assert_int_eq(result_of(&jobs[i]), (int)i);
	}
	rnl_pool_destroy(pool);
}

/* ---- memory and copies ---------------------------------------------------- */

static void move(struct rnl_pool *pool, void *dst, const void *src, size_t pitch, int device,
		 bool gathers)
{
	struct move m = { .dst = dst, .src = src, .bytes = BYTES, .pitch = pitch };

	placed_job(&m.job, move_fn, NULL, device);
	must(rnl_job_set_flags(&m.job, gathers ? RNL_GATHER : 0));
	ck_assert_int_eq(submit_and_wait(pool, &m.job), 0);
}

/*
 * Checks the bytes: both directions, by a worker of each device, in one row and in many, with peer
 * access and without.
 */
TEST(copies_between_devices_arrive, .loops = 4)
{
	struct rnl_pool *pool;
	void *mem[2], *mem_pinned;
	unsigned char *pinned;

	if (_i % 2 && !test_fake())
		test_skip("the double can have devices that are no peers");
	if (_i % 2)
		must(ask_double("strangers"));
	pool = pool_over_of(2, 1, .stream = _i / 2 ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD);
	skip_if_alone(pool);
	must(rnl_memory_get(pool, 0, BYTES, &mem[0], 0));
	must(rnl_memory_get(pool, 1, BYTES, &mem[1], 0));
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem_pinned, 0));
	pinned = mem_pinned;
	for (unsigned i = 0; i < 16; i++) {
		const int from = i % 2, to = !from, by = i / 2 % 2;
		const size_t pitch = i / 4 % 2 ? 512 : 0;

		memset(pinned, 0xee, BYTES);
		move(pool, mem[to], pinned, 0, to, false);
		for (unsigned b = 0; b < BYTES; b++)
			pinned[b] = (unsigned char)(b * 7 + b / 256 + i);
		move(pool, mem[from], pinned, 0, from, i / 8);
		memset(pinned, 0, BYTES);
		move(pool, mem[to], mem[from], pitch, by, i / 8);
		move(pool, pinned, mem[to], 0, to, i / 8);
		for (unsigned b = 0; b < BYTES; b++) {
			const bool moved = !pitch || b % pitch < pitch / 2;

			ck_assert_msg(pinned[b] == (moved ? (unsigned char)(b * 7 + b / 256 + i) :
							    0xee),
				      "turn %u, byte %u is %u", i, b, pinned[b]);
		}
	}
	rnl_memory_put(pool, mem[1]);
	rnl_memory_put(pool, mem[0]);
	rnl_memory_put(pool, mem_pinned);
	rnl_pool_destroy(pool);
}

TEST(memory_is_of_a_device_that_the_pool_has)
{
	struct rnl_pool *pool = heard_pool_over(2, 1);
	void *mem = &heard;

	skip_if_alone(pool);
	ck_assert_int_eq(rnl_memory_get(pool, RNL_DEVICES_MAX, 64, &mem, 0), -EINVAL);
	ck_assert_ptr_eq(mem, &heard);
	ck_heard("rnl_memory_get(): device is 16; the pool has devices");
	for (unsigned i = 0; i < 100; i++) {
		must(rnl_memory_get(pool, i % 2, 64 * (i + 1), &mem, 0));
		rnl_memory_put(pool, mem);
	}
	rnl_pool_destroy(pool);
}

TEST(memory_of_another_device_is_not_freed)
{
	struct rnl_pool *pool = pool_over_of(2, 1), *first;
	void *mem;

	skip_if_alone(pool);
	must(try_create(&first, on_host() ? "host" : "cuda:0", 1, 0));
	must(rnl_memory_get(pool, 1, 64, &mem, 0));
	rnl_memory_put(first, mem);
	ck_heard("no memory of this pool, or put back already");
	rnl_memory_put(pool, mem);
	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	heard.text[0] = 0;
	rnl_memory_put(first, mem);
	ck_assert_str_eq(heard.text, "");
	rnl_pool_destroy(first);
	rnl_pool_destroy(pool);
}

/* ---- joins --------------------------------------------------------------- */

/* A job of a stage on all devices. A job that comes after the stage sees all its writes. */
struct stage {
	struct rnl_job job;
	unsigned char *mem;	/* on the job's device */
	uint8_t value;
};

static int stage_fn(struct rnl_job *job)
{
	struct stage *s = rnl_container_of(job, struct stage, job);

	for (unsigned i = 0; i < 20; i++) {
		int ret = rnl_fill(s->mem, (uint8_t)(s->value + i), BYTES);

		if (ret)
			return ret;
	}
	return rnl_fill(s->mem, s->value, BYTES);
}

struct gathers {
	struct rnl_job job;
	unsigned char **mems;
	unsigned char *pinned;
	unsigned nr;
};

static int gathers_fn(struct rnl_job *job)
{
	struct gathers *g = rnl_container_of(job, struct gathers, job);
	int ret = 0;

	for (unsigned i = 0; !ret && i < g->nr; i++)
		ret = rnl_copy(g->pinned + i * BYTES, g->mems[i], BYTES);
	return ret;
}

/* @_i: 0: a job after the barrier reads the stages; 1: this thread does, after a join. */
TEST(barriers_join_devices, .loops = 2)
{
	struct rnl_pool *pool = pool_over_of(3, 2);
	struct stage stages[12];
	struct gathers after = { .nr = 12 };
	unsigned char *mems[12];
	struct rnl_barrier barrier;
	void *pinned;
	int nr;

	skip_if_alone(pool);
	nr = (int)nr_devices_of(pool);
	must(rnl_memory_get(pool, RNL_PINNED, 12 * BYTES, &pinned, 0));
	after.pinned = pinned;
	after.mems = mems;
	for (int i = 0; i < 12; i++) {
		void *mem;

		must(rnl_memory_get(pool, (unsigned)(i % nr), BYTES, &mem, 0));
		mems[i] = stages[i].mem = mem;
	}
	for (int round = 0; round < 10; round++) {
		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < 12; i++) {
			stages[i].value = (uint8_t)(16 * i + round);
			job_in(&barrier, &stages[i].job, stage_fn, NULL);
			must(rnl_job_set_device(&stages[i].job, i % nr));
			must(rnl_submit(pool, &stages[i].job));
		}
		if (_i) {
			must(rnl_barrier_join(&barrier));
			for (int i = 0; i < 12; i++)
				must(rnl_copy(after.pinned + (size_t)i * BYTES, mems[i], BYTES));
			must(rnl_stream_wait(RNL_FOREVER));
		} else {
			placed_job(&after.job, gathers_fn, NULL, round % nr);
			must(rnl_job_set_after(&after.job, &barrier));
			ck_assert_int_eq(submit_and_wait(pool, &after.job), 0);
		}
		for (int i = 0; i < 12; i++)
			ck_assert_bytes(after.pinned + (size_t)i * BYTES, BYTES,
					(uint8_t)(16 * i + round));
		must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	}
	rnl_thread_attach(NULL);
	for (int i = 0; i < 12; i++)
		rnl_memory_put(pool, mems[i]);
	rnl_memory_put(pool, pinned);
	rnl_pool_destroy(pool);
}

TEST(a_chain_runs_where_its_first_job_does)
{
	struct rnl_pool *pool = pool_over_of(2, 2);
	struct rnl_job first, second;

	skip_if_alone(pool);
	for (int i = 0; i < 10; i++) {
		placed_job(&first, device_fn, NULL, i % 2);
		placed_job(&second, device_fn, NULL, !(i % 2));
		must(rnl_job_set_then(&first, &second));
		must(rnl_submit(pool, &first));
		ck_assert_int_eq(result_of(&first), i % 2);
		ck_assert_int_eq(result_of(&second), i % 2);
	}
	rnl_pool_destroy(pool);
}

/* ---- cancels, deadlines, ends --------------------------------------------- */

TEST(queued_placed_jobs_are_cancelled_and_late_in_time)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct rnl_job holding[RNL_WORKERS_MAX], jobs[8];
	struct gate gate = GATE_INIT;
	struct rnl_class *first;
	unsigned nr;

	skip_if_alone(pool);
	nr = nr_devices_of(pool);
	first = first_class(pool);
	hold_workers(pool, &gate, holding, nr);
	for (int i = 0; i < 8; i++) {
		placed_job(&jobs[i], device_fn, NULL, i % 2);
		must(rnl_job_set_class(&jobs[i], i % 4 >= 2 ? first : NULL));
		if (i < 4)
			must(rnl_job_set_deadline(&jobs[i], MS));
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int i = 4; i < 8; i++)
		must(rnl_job_cancel(&jobs[i]));
	/* The workers are still held: the timer thread completes the jobs. */
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(result_of(&jobs[i]), i < 4 ? -ETIMEDOUT : -ECANCELED);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

TEST(an_end_waits_for_placed_jobs, .loops = 2)
{
	struct rnl_pool *pool = pool_over_of(3, 2);
	static struct rnl_job jobs[600];
	_Atomic int runs = 0;

	skip_if_alone(pool);
	for (int i = 0; i < 600; i++)
		submit_placed(pool, &jobs[i], count_fn, &runs, i % 3 - 1);
	if (_i)
		must(rnl_pool_drain(pool, RNL_FOREVER));
	else
		rnl_pool_destroy(pool);
	ck_assert_int_eq(runs, 600);
	if (_i)
		rnl_pool_destroy(pool);
}

TEST(a_device_that_fails_takes_the_others_along)
{
	struct rnl_health health = RNL_HEALTH_INIT;
	struct stage s = { .value = 1 };
	struct rnl_pool *pool;
	struct rnl_job job;
	void *mem;

	if (!test_fake())
		test_skip("the double of the CUDA runtime fails on demand");
	pool = heard_pool_over(2, 1);
	placed_job(&job, noop_fn, NULL, 1);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	must(ask_double("fail=cudaMemsetAsync:1:700:sticky"));
	must(rnl_memory_get(pool, 1, BYTES, &mem, 0));
	s.mem = mem;
	placed_job(&s.job, stage_fn, NULL, 1);
	ck_assert_int_eq(submit_and_wait(pool, &s.job), -EIO);
	must(rnl_job_set_device(&job, 0));
	ck_eventually(rnl_submit(pool, &job) == -EIO);
	ck_assert_int_eq(submit_by_key(pool, &job, 7), -EIO);
	must(rnl_pool_health(pool, &health));
	ck_assert_int_eq(health.state, RNL_HEALTH_FAILED);
	ck_eventually(has_heard(&heard, "device cuda:1 ("));
	rnl_pool_destroy(pool);
}

/* ---- maps and batchers ---------------------------------------------------- */

static _Atomic unsigned on[RNL_DEVICES_MAX];

static int chunk_fn(const struct rnl_chunk *chunk)
{
	on[rnl_worker().device]++;
	return rnl_copy(chunk->out, chunk->in, chunk->nr);
}

static bool is_chosen(const struct rnl_map *map, struct rnl_pool *pool, unsigned device)
{
	return map->devices ? map->devices >> device & 1 : device < nr_devices_of(pool);
}

/* Returns true if each device ran chunks. One map may miss a device: its workers may get no CPU. */
static bool all_took_part(const struct rnl_map *map, struct rnl_pool *pool)
{
	for (unsigned i = 0; i < RNL_DEVICES_MAX; i++) {
		if (is_chosen(map, pool, i) && !on[i])
			return false;
	}
	return true;
}

/* @_i: bit 0: only on the second device, not on all; bit 1: timed. */
TEST(a_map_uses_all_devices_or_the_chosen_ones, .loops = 4)
{
	struct rnl_pool *pool = pool_over_of(2, 2);
	static unsigned char in[1 << 20], out[1 << 20];
	struct rnl_map_report report = RNL_MAP_REPORT_INIT;
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;
	const double until = seconds_now() + PATIENCE_S;
	unsigned nr_chunks = 0, nr_maps = 0;

	skip_if_alone(pool);
	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 13 + i / 1000);
	memset((void *)on, 0, sizeof(on));
	must(rnl_barrier_init(&barrier, pool));
	map.fn = chunk_fn;
	map.nr = sizeof(in);
	map.in_bytes = map.out_bytes = 1;
	map.in = in;
	map.out = out;
	map.chunk = 4096;
	map.devices = _i % 2 ? 2 : 0;
	map.report = &report;
	map.flags = _i / 2 ? RNL_MAP_TIMED : 0;
	do {
		memset(out, 0, sizeof(out));
		must(rnl_map_start(pool, &map, &barrier));
		ck_assert_int_eq(result_of_barrier(&barrier), 0);
		ck_assert_mem_eq(in, out, sizeof(in));
		nr_maps++;
	} while (!all_took_part(&map, pool) && seconds_now() < until);
	for (unsigned i = 0; i < RNL_DEVICES_MAX; i++) {
		ck_assert_msg((on[i] != 0) == is_chosen(&map, pool, i), "%u chunks on device %u",
			      on[i], i);
		nr_chunks += on[i];
	}
	ck_assert_uint_eq(nr_chunks, nr_maps * sizeof(in) / 4096);
	if (_i / 2) {
		ck_assert_uint_gt(report.kernel_ns, 0);
		/* On two devices, each of three stages takes at most the map's time. */
		ck_assert_uint_le(report.overlap_percent, 100u * 3 * 2);
	}
	map.devices = UINT64_C(1) << 40;
	ck_assert_int_eq(rnl_map_start(pool, &map, &barrier), -EINVAL);
	rnl_pool_destroy(pool);
}

static int echo_fn(const struct rnl_batch *batch)
{
	on[rnl_worker().device]++;
	if (batch->arg)
		gate_wait(batch->arg);
	return rnl_copy(batch->out, batch->in, batch->nr * sizeof(uint32_t));
}

TEST(a_batcher_uses_all_devices_or_the_chosen_ones, .loops = 3)
{
	struct rnl_pool *pool = pool_over_of(2, 2);
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;
	struct gate gate = GATE_INIT;
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;
	struct rnl_request echoes[8];
	const bool one_device = _i == 1;

	skip_if_alone(pool);
	memset((void *)on, 0, sizeof(on));
	attr.fn = echo_fn;
	attr.arg = &gate;
	attr.in_bytes = attr.out_bytes = sizeof(uint32_t);
	attr.max_batch = 1;
	attr.devices = one_device ? 2 : 0;
	/* With one slab, no device has a slab of its own. */
	attr.nr_slabs = attr.max_slabs = _i == 2 ? 1 : 0;
	attr.slab_bytes = COUNT(echoes) * sizeof(uint32_t);
	must(rnl_batcher_create(&batcher, pool, &attr));
	for (uint32_t i = 0; i < 8; i++) {
		must(rnl_job_init(&echoes[i].job, NULL));
		must(rnl_batcher_reserve(batcher, &echoes[i], sizeof(uint32_t), 0));
		*(uint32_t *)echoes[i].in = 77 * i;
		must(rnl_request_commit(&echoes[i]));
	}
	/* Both workers of each used device are in the function. */
	gate_await(&gate, one_device ? 2 : 4);
	gate_open(&gate);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_int_eq(result_of(&echoes[i].job), 0);
		ck_assert_uint_eq(*(uint32_t *)echoes[i].out, 77 * i);
		rnl_request_release(&echoes[i]);
	}
	ck_assert((on[0] != 0) == !one_device);
	ck_assert(on[1] != 0);
	must(rnl_batcher_read_stats(batcher, &stats));
	ck_assert_uint_eq(stats.requests, 8);
	ck_assert_uint_eq(stats.batches, 8);
	ck_assert_uint_eq(stats.nr_slabs, _i == 2 ? 1 : one_device ? 4 : 8);
	rnl_batcher_destroy(batcher);
	attr.devices = UINT64_C(1) << RNL_DEVICES_MAX;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, &attr), -EINVAL);
	rnl_pool_destroy(pool);
}

/* ---- labels and tracks ---------------------------------------------------- */

TEST(labels_name_the_device)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	static char text[1 << 16];
	char label[64];

	skip_if_alone(pool);
	ck_assert_int_gt(rnl_pool_stats_text(pool, "p", text, sizeof(text)), 0);
	for (int i = 0; i < (int)nr_devices_of(pool); i++) {
		snprintf(label, sizeof(label), "{pool=\"p\",worker=\"%d\",device=\"%s:%d\"} ", i,
			 on_host() ? "host" : "cuda", i);
		ck_assert_msg(strstr(text, label) != NULL, "no %s in %s", label, text);
	}
	ck_assert_ptr_nonnull(strstr(text, "{pool=\"p\",worker=\"timer\"} "));
	rnl_pool_destroy(pool);
}

TEST(tracks_name_the_device, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct stage stages[2];
	void *mem;
	char *text;

	skip_if_alone(pool);
	attr.timing = RNL_TRACE_EVERY;
	must(rnl_trace_start(pool, path, &attr));
	for (int i = 0; i < 2; i++) {
		must(rnl_memory_get(pool, (unsigned)i, BYTES, &mem, 0));
		stages[i].mem = mem;
		stages[i].value = 1;
		placed_job(&stages[i].job, stage_fn, NULL, i);
		ck_assert_int_eq(submit_and_wait(pool, &stages[i].job), 0);
		rnl_memory_put(pool, mem);
	}
	must(rnl_trace_stop(pool));
	text = text_of(path);
	ck_assert_uint_eq(count(text, on_host() ? " device host:0\"" : " device cuda:0\""), 1);
	ck_assert_uint_eq(count(text, on_host() ? " device host:1\"" : " device cuda:1\""), 1);
	free(text);
	rnl_pool_destroy(pool);
}
