/* SPDX-License-Identifier: MIT */
/*
 * Makes the n-th call of the CUDA runtime fail, for n = 1, 2, ..., until all goes
 * well: once, or for good.  What the library then says, and what it leaves behind.
 */
#include <string.h>

#include "fake.h"

enum { WORKERS = 2, NR = 4, BYTES = (1 << 20) + 4096 };

/* What may fail.  Of a call that frees, what it should have freed stays, of course. */
static const char *const functions[] = {
	"cuStreamWriteValue32", "cudaDeviceGetStreamPriorityRange", "cudaEventCreateWithFlags",
	"cudaEventQuery", "cudaEventRecord", "cudaGetDevice", "cudaHostAlloc",
	"cudaLaunchKernel", "cudaMallocFromPoolAsync", "cudaMemPoolCreate",
	"cudaMemPoolSetAttribute", "cudaMemPoolTrimTo", "cudaMemcpy2DAsync", "cudaMemcpyAsync",
	"cudaMemsetAsync",
	"cudaPointerGetAttributes", "cudaSetDevice", "cudaStreamCreateWithFlags",
	"cudaStreamCreateWithPriority", "cudaStreamQuery", "cudaStreamSetAttribute",
	"cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaThreadExchangeStreamCaptureMode",
	/* these free */
	"cudaEventDestroy", "cudaFreeAsync", "cudaFreeHost", "cudaStreamDestroy",
};
enum { NR_FREEING = 4 };

/* ---- what is done ------------------------------------------------------------ */

struct mixed {
	struct rnl_job job;
	char *from, *to;	/* pageable */
	int word;
	_Atomic int blamed;	/* a last error that a call of the library's left behind */
};

/* Everything that a job can do. */
static int mixed_fn(struct rnl_job *job)
{
	struct mixed *m = rnl_container_of(job, struct mixed, job);
	void *mem = NULL;
	int ret = rnl_scratch(BYTES, &mem);

	if (!ret)
		ret = rnl_copy(mem, m->from, BYTES);
	if (!ret)
		ret = rnl_fill(mem, 7, BYTES / 2);
	if (!ret)
		ret = launch_store(NULL, &m->word, 31);
	if (!ret)
		ret = rnl_copy_2d(m->to, BYTES / 4, mem, BYTES / 4, BYTES / 4, 4);
	m->blamed |= (int)cudaGetLastError();
	return ret;
}

static void mixed_of(struct mixed *m, char *from, char *to)
{
	*m = (struct mixed){ .from = from, .to = to };
	job_of(&m->job, mixed_fn, NULL);
	memset(from, 3, BYTES);
	memset(to, 0, BYTES);
}

static bool is_errno(int ret)
{
	return ret == -ENOMEM || ret == -EIO || ret == -EINVAL || ret == -ENODEV ||
	       ret == -ENOTSUP || ret == -EAGAIN;
}

static void check_mixed(struct mixed *m, int ret)
{
	if (ret) {
		ck_assert_msg(is_errno(ret), "result %d", ret);
		return;
	}
	ck_assert_int_eq(m->word, 31);
	ck_assert_bytes((unsigned char *)m->to, BYTES / 2, 7);
	ck_assert_bytes((unsigned char *)m->to + BYTES / 2, BYTES / 2, 3);
}

static char *memory[2 * NR + 2];
static bool for_good;		/* then that is every thread's last error */

/* Jobs, some after others, joined by this thread, and memory of its own. */
static void use(struct rnl_pool *pool)
{
	struct rnl_barrier barriers[2];
	struct mixed jobs[NR];
	void *device = NULL;
	int ret;

	memset(jobs, 0, sizeof(jobs));	/* those that nothing came of are no jobs */
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(rnl_barrier_init(&barriers[i], pool), 0);
	for (int i = 0; i < NR; i++) {
		struct rnl_barrier *barrier = &barriers[i >= NR / 2];

		mixed_of(&jobs[i], memory[2 * i], memory[2 * i + 1]);
		ck_assert_int_eq(rnl_barrier_add(barrier, &jobs[i].job), 0);
		if (i >= NR / 2)
			ck_assert_int_eq(rnl_job_after(&jobs[i].job, &barriers[0]), 0);
		ret = rnl_submit(pool, &jobs[i].job);
		ck_assert(!ret || ret == -EIO);
		if (ret)
			break;
	}
	ret = rnl_barrier_join(&barriers[1]);
	ck_assert(!ret || is_errno(ret));
	ret = rnl_device_alloc(pool, BYTES, &device);
	ck_assert(!ret || is_errno(ret));
	ck_assert(!ret == (device != NULL));
	if (device) {
		ret = rnl_copy(device, memory[2 * NR], BYTES);
		ret = ret ? ret : rnl_copy(memory[2 * NR + 1], device, BYTES);
		ret = ret ? ret : rnl_stream_wait(RNL_FOREVER);
		ck_assert(!ret || is_errno(ret));
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(rnl_barrier_wait(&barriers[i], RNL_FOREVER), 0);
	for (int i = 0; i < NR; i++) {
		if (rnl_job_test(&jobs[i].job) != 1)
			continue;
		ret = rnl_job_result(&jobs[i].job);
		if (ret != -ECANCELED)		/* after one that failed */
			check_mixed(&jobs[i], ret);
		ck_assert_int_eq(for_good ? 0 : jobs[i].blamed, 0);
	}
	rnl_thread_detach();
	rnl_device_free(pool, device);
}

/* Creates, uses and destroys a pool: 0, or what creating it returned. */
static int whole_life(int kind)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	int ret;

	attr.nr_workers = WORKERS;
	attr.nr_urgent = 1;
	attr.device = test_device();
	attr.stream = (enum rnl_stream_kind)kind;
	ret = rnl_pool_create(&pool, &attr);
	if (ret) {
		ck_assert_msg(is_errno(ret), "%d", ret);
		return ret;
	}
	use(pool);
	rnl_pool_destroy(pool);
	return 0;
}

/* ---- once ---------------------------------------------------------------------- */

static void check_nothing_left(const struct fake_alive *before)
{
	struct fake_alive now = alive();

	ck_assert_uint_eq(now.device_bytes, before->device_bytes);
	ck_assert_uint_eq(now.pinned_bytes, before->pinned_bytes);
	ck_assert_uint_eq(now.streams, before->streams);
	ck_assert_uint_eq(now.events, before->events);
	ck_assert_uint_eq(now.pools, before->pools);
}

static void make_memory(void)
{
	for (unsigned i = 0; i < COUNT(memory); i++)
		ck_assert_ptr_nonnull(memory[i] = malloc(BYTES));
	memset(memory[2 * NR], 0, BYTES);
}

static void fail_once(const char *function, int code, int kind, bool leaves)
{
	struct fake_alive before;
	unsigned nth = 1;

	ck_assert_int_eq(whole_life(kind), 0);
	before = alive();
	for (;; nth++) {
		uint64_t calls = fake_calls(function);

		ck_assert_int_eq(fake_fail(function, nth, code, false), 0);
		(void)whole_life(kind);
		ck_assert_msg(!fake_misuses(), "%s %u: %s", function, nth, fake_last_misuse());
		ck_assert_int_eq(cudaGetLastError(), 0);
		if (!leaves)
			check_nothing_left(&before);
		/* It has failed, and is a device as before. */
		if (fake_calls(function) - calls < nth)
			break;
		ck_assert_int_eq(whole_life(kind), 0);
		nth += nth / 8;
	}
	ck_assert_int_eq(fake_plan("nofail"), 0);
	printf("%s: %u calls\n", function, nth - 1);
}

START_TEST(a_call_that_fails_once_harms_only_what_needed_it)
{
	const unsigned which = (unsigned)_i % COUNT(functions);
	const int kind = (unsigned)_i >= COUNT(functions);

	make_memory();
	/* Without words there are more events. */
	if (kind)
		ck_assert_int_eq(fake_plan("nowrite"), 0);
	fail_once(functions[which], cudaErrorMemoryAllocation, kind,
		  which >= COUNT(functions) - NR_FREEING);
}
END_TEST

START_TEST(the_first_pool_of_all_may_be_refused)
{
	make_memory();
	ck_assert_int_eq(fake_fail(functions[_i], 1, cudaErrorMemoryAllocation, false), 0);
	if (whole_life(0) && (unsigned)_i < COUNT(functions) - NR_FREEING) {
		struct fake_alive now = alive();

		/* The device keeps a memory pool and a stream, or has neither. */
		ck_assert_uint_eq(now.device_bytes + now.pinned_bytes + now.events, 0);
		ck_assert_uint_eq(now.streams, now.pools);
	}
	ck_assert_int_eq(whole_life(0), 0);
	ck_assert_msg(!fake_misuses(), "%s: %s", functions[_i], fake_last_misuse());
}
END_TEST

static _Atomic int left = -1;	/* CUDA's last error, after a job */

static int filling_fn(struct rnl_job *job)
{
	void *mem = NULL;
	int ret = rnl_scratch(BYTES, &mem);

	(void)job;
	return ret ? ret : rnl_fill(mem, 1, BYTES);
}

static void note_left(struct rnl_job *job)
{
	(void)job;
	left = (int)cudaGetLastError();
}

START_TEST(what_the_guard_cannot_destroy_is_nobodys_error)
{
	const char *const ends[] = { "cudaGraphDestroy", "cudaGraphExecDestroy" };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;

	attr.guard = RNL_GUARD_REPORT;
	pool = pool_with(&attr, 1);
	job_of(&job, filling_fn, NULL);
	ck_assert_int_eq(rnl_job_on_done(&job, note_left), 0);
	ck_assert_int_eq(fake_fail(ends[_i], 1, cudaErrorMemoryAllocation, false), 0);
	ck_assert_int_eq(rnl_submit(pool, &job), 0);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_eq(rnl_pool_drain(pool, RNL_FOREVER), 0);
	ck_assert_uint_eq(fake_calls(ends[_i]), 1);
	ck_assert_int_eq(left, 0);
	rnl_pool_destroy(pool);
}
END_TEST

/* Has more page-locked, and does without. */
static int optional_fn(struct rnl_job *job)
{
	void *mem = NULL;
	int ret = rnl_pinned_get(job->pool, BYTES, &mem);

	rnl_pinned_put(job->pool, mem);
	return job->user ? ret : 0;
}

START_TEST(a_code_of_cudas_stands_behind_a_failure_alone)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	job_of(&job, optional_fn, _i ? pool : NULL);
	ck_assert_int_eq(fake_fail("cudaHostAlloc", 1, cudaErrorNotSupported, false), 0);
	ck_assert_int_eq(rnl_submit(pool, &job), 0);
	ck_assert_int_eq(result_of(&job), _i ? -ENOTSUP : 0);
	ck_assert_int_eq(rnl_job_device_error(&job), _i ? cudaErrorNotSupported : 0);
	rnl_pool_destroy(pool);
}
END_TEST

/* ---- for good ------------------------------------------------------------------- */

START_TEST(a_device_that_fails_fails_every_job_and_holds_nobody)
{
	const int codes[] = { cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorUnknown };
	const unsigned nth = (unsigned)_i * 7 + 1;
	double start = seconds_now();

	make_memory();
	for_good = true;
	ck_assert_int_eq(fake_fail(NULL, nth, codes[_i % 3], true), 0);
	(void)whole_life(_i % 2);
	ck_assert_double_lt(seconds_now() - start, 5 * test_scale());
}
END_TEST

START_TEST(a_device_that_fails_later_does_so_too)
{
	struct rnl_pool *pool = pool_of(WORKERS);
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[NR];

	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], _i ? noop_fn : gated_fn, &gate);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i]), 0);
	}
	gate_await(&gate, _i ? 0 : WORKERS);
	fake_fail_sticky(cudaErrorIllegalAddress);
	gate_open(&gate);
	for (int i = 0; i < NR; i++) {
		int ret = result_of(&jobs[i]);

		ck_assert(ret == -EIO || (_i && !ret));
	}
	ck_eventually(rnl_submit(pool, &jobs[0]) == -EIO);
	rnl_pool_destroy(pool);
}
END_TEST

struct busy {
	struct rnl_job job;
	struct gate *in_function, *in_kernel;	/* NULL: none */
	int word;
};

static int busy_fn(struct rnl_job *job)
{
	struct busy *b = rnl_container_of(job, struct busy, job);

	if (b->in_function)
		gate_wait(b->in_function);
	return launch_store(b->in_kernel, &b->word, 1);
}

/* What tests/cuda_failure.cu sees on a GPU. */
START_TEST(eight_busy_workers_and_what_is_queued_end_within_200_ms)
{
	enum { BUSY = 8, QUEUED = 1000 };
	static struct busy jobs[BUSY + QUEUED];
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct gate in_functions = GATE_INIT, kernels = GATE_INIT;
	struct rnl_pool *pool;
	struct rnl_job late;
	double start, took;

	attr.stream = (enum rnl_stream_kind)_i;
	attr.watchdog_ms = 25;	/* of 100: the rest is for machines that are busy */
	pool = pool_with(&attr, BUSY);
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		jobs[i].in_function = i < BUSY ? &in_functions : NULL;
		jobs[i].in_kernel = i < BUSY ? &kernels : NULL;
		job_of(&jobs[i].job, busy_fn, NULL);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i].job), 0);
		if (i != BUSY - 1)
			continue;
		/* Each has one: its kernel runs, and all that comes now is behind it. */
		gate_await(&in_functions, BUSY);
		gate_open(&in_functions);
		gate_await(&kernels, BUSY);
	}
	start = seconds_now();
	fake_fail_sticky(cudaErrorIllegalAddress);
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		ck_assert_int_eq(result_of(&jobs[i].job), -EIO);
		ck_assert_int_eq(jobs[i].word, 0);
	}
	took = seconds_now() - start;
	printf("the last of %zu jobs ended after %.0f ms\n", COUNT(jobs), took * 1e3);
	ck_assert_double_lt(took, 0.2 * test_scale());
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &late), -EIO);
	/* A GPU's kernels are gone by now; those of the double are functions. */
	gate_open(&kernels);
	rnl_pool_destroy(pool);
}
END_TEST

static int drain(void *pool)
{
	return rnl_pool_drain(pool, RNL_FOREVER);
}

START_TEST(a_drain_ends_when_the_mark_of_a_full_stream_meets_the_failure)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_job jobs[NR];
	struct rnl_pool *pool;
	struct call call;

	/* Full with the last job, and no mark yet. */
	attr.max_in_flight = NR;
	pool = pool_with(&attr, 1);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], gated_fn, &gate);
		ck_assert_int_eq(rnl_submit(pool, &jobs[i]), 0);
	}
	call_start(&call, drain, pool);
	ck_waits(call.tid);
	ck_assert_int_eq(fake_fail("cuStreamWriteValue32", 1, cudaErrorIllegalAddress, true), 0);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -EIO);
	rnl_pool_destroy(pool);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("fake faults");
	TCase *tc = tcase_create("once");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_call_that_fails_once_harms_only_what_needed_it, 0,
			    2 * (int)COUNT(functions));
	tcase_add_loop_test(tc, the_first_pool_of_all_may_be_refused, 0, COUNT(functions));
	tcase_add_loop_test(tc, what_the_guard_cannot_destroy_is_nobodys_error, 0, 2);
	tcase_add_loop_test(tc, a_code_of_cudas_stands_behind_a_failure_alone, 0, 2);
	suite_add_tcase(suite, tc);
	tc = tcase_create("for good");
	tcase_add_loop_test(tc, a_device_that_fails_fails_every_job_and_holds_nobody, 0, 60);
	tcase_add_loop_test(tc, a_device_that_fails_later_does_so_too, 0, 2);
	tcase_add_loop_test(tc, eight_busy_workers_and_what_is_queued_end_within_200_ms, 0, 2);
	tcase_add_test(tc, a_drain_ends_when_the_mark_of_a_full_stream_meets_the_failure);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
