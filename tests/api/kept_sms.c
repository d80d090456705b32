/* SPDX-License-Identifier: MIT */
/*
 * Pools that keep multiprocessors (SMs) for their classes. The double of CUDA says which SMs a stream
 * may use; tests/cuda/kept_sms.cu asks the kernels of a GPU.
 */
#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/thread.h>

#include "classed.h"
#include "heard.h"
#include "host_kernel.h"
#include "places.h"

/* Defined by the double: tests/fake_cudart/fake_cudart.h. */
#pragma weak fake_alive
#pragma weak fake_calls
#pragma weak fake_fail_sticky
#pragma weak fake_last_misuse
#pragma weak fake_misuses
#pragma weak fake_stream_sms

enum { SMS = 20, GROUP = 8 };		/* of the double */
enum { OWN = 2 };			/* workers of the class that has the kept SMs */

static struct heard heard;

#define skip_unless_fake() \
	do { \
		if (!test_fake()) \
			test_skip("%.*s: the double says what a stream may use", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* Returns the group of the first device; 0: the device keeps no SMs. */
static uint32_t group(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	must(rnl_device_describe(NULL, test_device(), 0, &info));
	return info.sm_group;
}

#define skip_without_groups() \
	do { \
		if (!group()) \
			test_skip("%.*s: this device keeps no SMs", (int)strlen(__func__) - 3, \
				  __func__); \
	} while (0)

static struct rnl_pool_attr attr_of(uint32_t kept)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	attr.device = test_device();
	attr.nr_workers = 2;
	attr.nr_class_workers = OWN;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.kept_sms = kept;
	return attr;
}

static struct rnl_pool *keeping_pool(void)
{
	const struct rnl_pool_attr attr = attr_of(group());
	struct rnl_pool *pool;

	must(rnl_pool_create(&pool, &attr));
	return pool;
}

/* A class whose workers have the kept SMs. */
static struct rnl_class *kept_class(struct rnl_pool *pool)
{
	return class_of(pool, .nr_workers = OWN, .flags = RNL_CLASS_KEPT_SMS);
}

/* The creation returns @ret, leaves nothing, and logs one line, which has @wanted. */
static void refused(const struct rnl_pool_attr *attr, int ret, const char *wanted)
{
	struct rnl_pool *pool = NULL;

	heard.bytes = 0;
	heard.text[0] = '\0';
	ck_assert_int_eq(rnl_pool_create(&pool, attr), ret);
	ck_assert_ptr_null(pool);
	ck_assert_msg(strstr(heard.text, wanted), "not \"%s\": \"%s\"", wanted, heard.text);
	ck_assert_ptr_eq(strchr(heard.text, '\n') + 1, heard.text + heard.bytes);
}

static unsigned nr_greens(void)
{
	struct fake_alive alive;

	fake_alive(&alive);
	return alive.greens;
}

static void no_misuse(void)
{
	if (test_fake())
		ck_assert_msg(!fake_misuses(), "%s", fake_last_misuse());
}

/* ---- refused ---------------------------------------------------------------------- */

TEST(kept_sms_need_private_streams_and_workers_for_classes)
{
	struct rnl_pool_attr attr = attr_of(GROUP);

	attr.stream = RNL_STREAM_PER_THREAD;
	refused(&attr, -EINVAL, "rnl_pool_create(): kept_sms is 8, and stream is 0; it must be "
				"RNL_STREAM_PRIVATE (1)");
	attr.stream = RNL_STREAM_PRIVATE;
	attr.nr_class_workers = 0;
	refused(&attr, -EINVAL, "rnl_pool_create(): kept_sms is 8, and nr_class_workers is 0");
}

TEST(the_host_device_keeps_no_sms)
{
	struct rnl_pool_attr attr = attr_of(GROUP);

	attr.device = "host";
	refused(&attr, -ENOTSUP, "rnl_pool_create(): kept_sms is 8: the host device has no");
}

TEST(a_number_that_cannot_be_kept_is_refused)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_attr attr;
	uint32_t most;
	char says[100];

	skip_without_groups();
	must(rnl_device_describe(NULL, test_device(), 0, &info));
	most = (info.nr_multiprocessors - 1) / group() * group();
	snprintf(says, sizeof(says), "of its %u multiprocessors cuda:0 can keep multiples of %u, at "
		 "most %u", info.nr_multiprocessors, group(), most);
	for (unsigned i = 0; i < 5; i++) {
		const uint32_t wrong[] = { 1, group() + 1, most + group(),
					   info.nr_multiprocessors, UINT32_MAX };

		if (wrong[i] % group() == 0 && wrong[i] <= most)
			continue;
		attr = attr_of(wrong[i]);
		refused(&attr, -EINVAL, says);
	}
	no_misuse();
}

TEST(a_device_that_cannot_keep_sms_says_why, .loops = 4)
{
	static const struct {
		const char *plan, *says;
		int ret;
	} rows[] = {
		{ "nogreen", "kept_sms is 8: the driver cannot divide", -ENOTSUP },
		/* One group, so nothing would be left for the rest: a part of a GPU (MIG). */
		{ "sms=8", "kept_sms is 8: the driver refuses to divide the multiprocessors of "
			   "cuda:0: CUDA error 801", -ENOTSUP },
		{ "sms=1", "CUDA error 801", -ENOTSUP },
		/* The description of the device fails in silence, the creation does not. */
		{ "fail=cuDevSmResourceSplitByCount:1:999,fail=cuDevSmResourceSplitByCount:2:801",
		  "CUDA error 801", -ENOTSUP },
	};
	struct rnl_pool_attr attr = attr_of(GROUP);

	skip_unless_fake();
	must(ask_double(rows[_i].plan));
	ck_assert_uint_eq(group(), 0);
	refused(&attr, rows[_i].ret, rows[_i].says);
	ck_assert_uint_eq(nr_greens(), 0);
	no_misuse();
}

TEST(a_driver_that_refuses_leaves_nothing, .loops = 6)
{
	static const struct {
		const char *call, *says;
		unsigned nr;		/* calls of a creation */
	} rows[] = {
		{ "cuDeviceGetDevResource", "CUDA error 800", 1 },
		{ "cuDevSmResourceSplitByCount", "CUDA error 800", 2 },
		{ "cuDevResourceGenerateDesc", "CUDA error 800", 2 },
		{ "cuGreenCtxCreate", "CUDA error 800", 2 },
		{ "cuCtxPushCurrent", "CUDA error 800", 1 },
		{ "cuGreenCtxStreamCreate", "leave the attribute kept_sms 0", 2 },
	};
	struct rnl_pool_attr attr = attr_of(GROUP);
	char plan[80];

	skip_unless_fake();
	rnl_pool_destroy(keeping_pool());
	for (unsigned nth = 1; nth <= rows[_i].nr; nth++) {
		struct rnl_pool *pool = NULL;

		/* Under MPS, for example: cudaErrorNotPermitted. */
		snprintf(plan, sizeof(plan), "fail=%s:%u:800", rows[_i].call, nth);
		must(ask_double(plan));
		heard.bytes = 0;
		ck_assert_int_eq(rnl_pool_create(&pool, &attr), -ENOTSUP);
		must(ask_double("nofail"));
		ck_assert(has_heard(&heard, rows[_i].says));
		ck_assert_uint_eq(nr_greens(), 0);
	}
	no_misuse();
}

TEST(a_class_whose_streams_are_refused_is_not_created)
{
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = OWN,
					     .flags = RNL_CLASS_KEPT_SMS };
	struct rnl_pool *pool;

	skip_unless_fake();
	pool = keeping_pool();
	for (unsigned nth = 1; nth <= OWN; nth++) {
		struct rnl_class *cls = NULL;
		char plan[80];

		snprintf(plan, sizeof(plan), "fail=cuGreenCtxStreamCreate:%u:800", nth);
		must(ask_double(plan));
		heard.bytes = 0;
		ck_assert_int_eq(rnl_class_create(&cls, pool, &attr), -ENOTSUP);
		must(ask_double("nofail"));
		ck_assert_ptr_null(cls);
		ck_assert(has_heard(&heard, "leave the attribute kept_sms 0"));
		ck_assert_uint_eq(figures_of(pool).nr_workers, 2);
	}
	(void)kept_class(pool);
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(nr_greens(), 0);
	no_misuse();
}

/* ---- streams ---------------------------------------------------------------------- */

static bool may_use(struct fake_sms sms, unsigned first, unsigned nr)
{
	return sms.first == first && sms.nr == nr;
}

static bool is_of(struct fake_sms sms, bool kept)
{
	return may_use(sms, kept ? 0 : GROUP, kept ? GROUP : SMS - GROUP);
}

struct look {
	struct rnl_job job;
	struct gate *gate;
	struct fake_sms sms;
};

static int look_fn(struct rnl_job *job)
{
	struct look *look = rnl_container_of(job, struct look, job);

	if (test_fake())
		look->sms = fake_stream_sms(rnl_stream());
	gate_wait(look->gate);
	return 0;
}

/* Holds all workers of the pool or of a class, each by a job that looks at its stream. */
static void look_for(struct rnl_pool *pool, unsigned nr, struct rnl_class *cls, bool kept)
{
	struct gate gate = GATE_INIT;
	struct look looks[8];

	for (unsigned i = 0; i < nr; i++) {
		looks[i].gate = &gate;
		submit_classed(pool, &looks[i].job, cls, look_fn, NULL);
	}
	gate_await(&gate, nr);
	gate_open(&gate);
	for (unsigned i = 0; i < nr; i++) {
		ck_assert_int_eq(result_of(&looks[i].job), 0);
		ck_assert(!test_fake() || is_of(looks[i].sms, kept));
	}
}

static void look_at(struct rnl_pool *pool, unsigned nr, struct rnl_class *kept)
{
	look_for(pool, nr, kept, kept != NULL);
}

TEST(a_class_has_the_kept_sms_and_others_the_rest)
{
	struct rnl_class *cls;
	struct rnl_pool *pool;

	skip_without_groups();
	pool = keeping_pool();
	ck_assert(has_heard(&heard, "are kept for classes"));
	ck_assert(!test_fake() || has_heard(&heard, "8 of the 20 multiprocessors of cuda:0"));
	cls = kept_class(pool);
	look_at(pool, OWN, cls);
	look_at(pool, 2, NULL);
	must(rnl_pool_resize(pool, 5));
	look_at(pool, 5, NULL);
	must(rnl_pool_resize(pool, 1));
	must(rnl_pool_resize(pool, 3));
	look_at(pool, 3, NULL);
	look_at(pool, OWN, cls);
	rnl_pool_destroy(pool);
	ck_assert(!test_fake() || !nr_greens());
	no_misuse();
}

/* The same workers have the kept SMs, and then the rest. */
TEST(workers_that_are_lent_again_have_the_sms_of_their_class)
{
	struct rnl_class *kept, *other;
	struct rnl_pool *pool;

	skip_without_groups();
	pool = keeping_pool();
	for (unsigned i = 0; i < 3; i++) {
		kept = kept_class(pool);
		look_at(pool, OWN, kept);
		rnl_class_destroy(kept);
		other = own_class(pool, OWN);
		look_for(pool, OWN, other, false);
		rnl_class_destroy(other);
		kept = class_of(pool, .nr_workers = 1, .flags = RNL_CLASS_KEPT_SMS);
		other = own_class(pool, 1);
		look_at(pool, 1, kept);
		look_for(pool, 1, other, false);
		rnl_class_destroy(kept);
		rnl_class_destroy(other);
	}
	rnl_pool_destroy(pool);
	ck_assert(!test_fake() || !nr_greens());
	no_misuse();
}

TEST(other_pools_and_threads_use_every_sm)
{
	struct rnl_pool *pool, *other;
	struct gate gate = GATE_INIT;
	struct look look = { .gate = &gate };

	skip_unless_fake();
	gate_open(&gate);
	pool = keeping_pool();
	other = pool_of(1, .stream = RNL_STREAM_PRIVATE);
	job_of(&look.job, look_fn, NULL);
	ck_assert_int_eq(submit_and_wait(other, &look.job), 0);
	ck_assert(may_use(look.sms, 0, SMS));
	must(rnl_thread_attach(pool));
	ck_assert(may_use(fake_stream_sms(rnl_stream()), 0, SMS));
	/* The thread's stream outlives the pool. */
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(nr_greens(), 0);
	ck_assert(may_use(fake_stream_sms(rnl_stream()), 0, SMS));
	must(rnl_thread_attach(NULL));
	rnl_pool_destroy(other);
	no_misuse();
}

TEST(two_pools_keep_sms, .loops = 2)
{
	struct rnl_class *cls[2];
	struct rnl_pool *pools[2];

	skip_without_groups();
	pools[0] = keeping_pool();
	pools[1] = keeping_pool();
	for (unsigned i = 0; i < 2; i++) {
		cls[i] = kept_class(pools[i]);
		look_at(pools[i], OWN, cls[i]);
		look_at(pools[i], 2, NULL);
	}
	rnl_pool_destroy(pools[_i]);
	look_at(pools[!_i], OWN, cls[!_i]);
	rnl_pool_destroy(pools[!_i]);
	ck_assert(!test_fake() || !nr_greens());
	no_misuse();
}

TEST(each_device_keeps_sms)
{
	struct rnl_pool *pool;

	skip_without_groups();
	pool = pool_over(2, 1, attr_of(group()));
	skip_if_alone(pool);
	ck_assert(!test_fake() || nr_greens() == 4);
	ck_assert(!test_fake() || has_heard(&heard, "8 of the 20 multiprocessors of cuda:1"));
	look_at(pool, OWN, kept_class(pool));
	look_at(pool, 2, NULL);
	rnl_pool_destroy(pool);
	ck_assert(!test_fake() || !nr_greens());
	no_misuse();
}

/* ---- work ------------------------------------------------------------------------- */

enum { BYTES = 5000, ROUNDS = 20 };

static unsigned char from[BYTES], to[BYTES];
static void *mem;

/* Jobs of both kinds, and copies of all kinds of memory: @user is what the byte becomes. */
static int in_fn(struct rnl_job *job)
{
	void *scratch;
	int ret = rnl_scratch(BYTES, &scratch);

	memset(from, (int)(intptr_t)job->user, BYTES);
	if (!ret)
		ret = rnl_copy(scratch, from, BYTES);
	if (!ret)
		ret = rnl_fill(scratch, 0x5a, 1);
	return ret ? ret : rnl_copy(mem, scratch, BYTES);
}

static int out_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_copy(to, mem, BYTES);
}

TEST(jobs_of_a_class_and_others_come_after_each_other, .loops = 2)
{
	struct rnl_class *cls;
	struct rnl_pool *pool;

	skip_without_groups();
	pool = keeping_pool();
	cls = kept_class(pool);
	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct rnl_barrier barrier;
		struct rnl_job in, out;

		must(rnl_barrier_init(&barrier, pool));
		job_of(&in, in_fn, (void *)(uintptr_t)i);
		job_of(&out, out_fn, NULL);
		must(rnl_job_set_class((i + (unsigned)_i) % 2 ? &in : &out, cls));
		must(rnl_barrier_add(&barrier, &in));
		must(rnl_submit(pool, &in));
		must(rnl_job_set_after(&out, &barrier));
		must(rnl_submit(pool, &out));
		ck_assert_int_eq(result_of(&out), 0);
		ck_assert_int_eq(result_of(&in), 0);
		ck_assert_uint_eq(to[0], 0x5a);
		for (unsigned k = 1; k < BYTES; k++)
			ck_assert_uint_eq(to[k], i);
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	no_misuse();
}

struct add {
	unsigned *word;
	unsigned value;
};

static void add_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct add *a = args;

	(void)grid;
	(void)block;
	*a->word += a->value;
}
RNL_HOST_KERNEL(add, add_host, struct add);

static unsigned words[64];

/* Launches the kernel three times, which is enough for a graph. */
static int add_fn(struct rnl_job *job)
{
	const struct add args = { job->user, 1 };
	const struct rnl_dim one = { 1, 1, 1 };
	int ret = 0;

	for (unsigned i = 0; i < 3 && !ret; i++)
		ret = rnl_launch(&add, one, one, &args);
	return ret;
}

/* The double counts it as a misuse if a graph runs beyond the SMs of its stream. */
TEST(gathered_jobs_keep_to_their_sms)
{
	struct rnl_pool *pool;
	struct rnl_job held[2], jobs[64];

	skip_unless_fake();
	pool = keeping_pool();
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct gate gate = GATE_INIT;

		hold_workers(pool, &gate, held, 2);
		for (unsigned i = 0; i < COUNT(jobs); i++) {
			job_of(&jobs[i], add_fn, &words[i]);
			must(rnl_job_set_flags(&jobs[i], RNL_GATHER));
			must(rnl_submit(pool, &jobs[i]));
		}
		gate_open(&gate);
		must(rnl_pool_drain(pool, RNL_FOREVER));
	}
	for (unsigned i = 0; i < COUNT(words); i++)
		ck_assert_uint_eq(words[i], 3 * ROUNDS);
	ck_assert_uint_gt(figures_of(pool).gathered, 0);
	ck_assert_uint_eq(figures_of(pool).graphs, 0);
	rnl_pool_destroy(pool);
	no_misuse();
}

TEST(replayed_jobs_keep_to_their_sms, .loops = 4)
{
	const uint32_t how = _i % 2 ? RNL_REPLAY_CAPTURE : RNL_REPLAY;
	struct rnl_class *cls;
	struct rnl_pool *pool;
	struct rnl_job job;

	skip_unless_fake();
	pool = keeping_pool();
	cls = kept_class(pool);
	words[0] = 0;
	for (unsigned i = 0; i < 100; i++) {
		job_of(&job, add_fn, &words[0]);
		must(rnl_job_set_flags(&job, how));
		must(rnl_job_set_class(&job, _i < 2 ? cls : NULL));
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	ck_assert_uint_eq(words[0], 300);
	/* The function is not called, but each of its operations is a call. */
	ck_assert_uint_gt(figures_of(pool).replayed, 90 - 20);
	ck_assert_int_eq((int)fake_calls("cudaGraphInstantiate"), 0);
	rnl_pool_destroy(pool);
	no_misuse();
}

TEST(guarded_functions_keep_to_their_sms, .loops = 2)
{
	struct rnl_pool_attr attr;
	struct rnl_class *cls;
	struct rnl_pool *pool;
	struct rnl_job job;

	skip_unless_fake();
	attr = attr_of(group());
	attr.guard = RNL_GUARD_STRICT;
	must(rnl_pool_create(&pool, &attr));
	cls = kept_class(pool);
	words[0] = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		job_of(&job, add_fn, &words[0]);
		must(rnl_job_set_class(&job, _i ? cls : NULL));
		ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	}
	ck_assert_uint_eq(words[0], 3 * ROUNDS);
	rnl_pool_destroy(pool);
	no_misuse();
}

/* ---- failures --------------------------------------------------------------------- */

TEST(a_stream_that_cannot_be_destroyed_keeps_its_context)
{
	struct rnl_pool *pool;

	skip_unless_fake();
	pool = keeping_pool();
	(void)kept_class(pool);
	must(ask_double("fail=cudaStreamDestroy:2:2"));
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(nr_greens(), 2);
	must(ask_double("nofail"));
	rnl_pool_destroy(keeping_pool());
	ck_assert_uint_eq(nr_greens(), 2);
	no_misuse();
}

TEST(a_failed_device_keeps_the_contexts)
{
	enum { ILLEGAL_ADDRESS = 700 };
	struct rnl_pool_attr attr;
	struct rnl_pool *pool, *other = NULL;
	struct rnl_job job;

	skip_unless_fake();
	pool = keeping_pool();
	(void)kept_class(pool);
	fake_fail_sticky(ILLEGAL_ADDRESS);
	job_of(&job, in_fn, NULL);
	must(rnl_submit(pool, &job));
	ck_assert_int_eq(result_of(&job), -EIO);
	attr = attr_of(GROUP);
	ck_assert_int_eq(rnl_pool_create(&other, &attr), -EIO);
	rnl_pool_destroy(pool);
	no_misuse();
}
