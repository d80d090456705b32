/* SPDX-License-Identifier: MIT */
/* The double of the CUDA runtime: a device's multiprocessors (SMs) in sets, and green contexts. */
#include <cudaTypedefs.h>

#include <runnel/kernel.h>

#include "fake.h"

enum { SMS = 20, GROUP = 8 };

static PFN_cuDeviceGetDevResource_v12040 get;
static PFN_cuDevSmResourceSplitByCount_v12040 split;
static PFN_cuDevResourceGenerateDesc_v12040 describe;
static PFN_cuGreenCtxCreate_v12040 create;
static PFN_cuGreenCtxDestroy_v12040 destroy;
static PFN_cuGreenCtxStreamCreate_v12050 create_stream;

static void *found(const char *name)
{
	enum cudaDriverEntryPointQueryResult status;
	void *fn = NULL;

	ck_cuda(cudaGetDriverEntryPointByVersion(name, &fn, 12050, cudaEnableDefault, &status));
	return fn;
}

static void find(void)
{
	get = found("cuDeviceGetDevResource");
	split = found("cuDevSmResourceSplitByCount");
	describe = found("cuDevResourceGenerateDesc");
	create = found("cuGreenCtxCreate");
	destroy = found("cuGreenCtxDestroy");
	create_stream = found("cuGreenCtxStreamCreate");
}

/* Divides device 0's SMs.  Returns the number of sets: 1, or 0. */
static unsigned divide(unsigned wanted, CUdevResource *set, CUdevResource *rest)
{
	CUdevResource all;
	unsigned nr = 1;

	ck_cuda(get(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_uint_eq(all.sm.smCount, SMS);
	ck_cuda(split(set, &nr, &all, rest, 0, wanted));
	return nr;
}

static CUgreenCtx context_of(CUdevResource *set)
{
	CUdevResourceDesc description;
	CUgreenCtx green;

	ck_cuda(cudaSetDevice(0));
	ck_cuda(describe(&description, set, 1));
	ck_cuda(create(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static cudaStream_t stream_in(CUgreenCtx green, int priority)
{
	cudaStream_t stream;

	ck_cuda(create_stream(&stream, green, CU_STREAM_NON_BLOCKING, priority));
	return stream;
}

static void ck_sms(cudaStream_t stream, unsigned first, unsigned nr)
{
	const struct fake_sms sms = fake_stream_sms(stream);

	ck_assert_uint_eq(sms.first, first);
	ck_assert_uint_eq(sms.nr, nr);
}

TEST(a_driver_may_have_no_green_contexts)
{
	ck_assert_int_eq(fake_plan("nogreen"), 0);
	find();
	ck_assert(!get && !split && !describe && !create && !destroy && !create_stream);
}

TEST(a_set_has_whole_groups_of_sms, .setup = find)
{
	static const struct {
		unsigned wanted, nr;
	} rows[] = { { 0, 8 }, { 1, 8 }, { 8, 8 }, { 9, 16 }, { 16, 16 }, { 17, 0 }, { 20, 0 } };
	CUdevResource all, set, rest;
	unsigned nr = 1;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ck_assert_uint_eq(divide(rows[i].wanted, &set, &rest), rows[i].nr != 0);
		ck_assert_uint_eq(set.sm.smCount, rows[i].nr);
		ck_assert_uint_eq(rest.sm.smCount, SMS - rows[i].nr);
	}
	ck_cuda(get(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	ck_assert_int_eq(split(&set, &nr, &all, NULL, 0, SMS + 1), CUDA_ERROR_INVALID_VALUE);
	divide(8, &set, &rest);
	ck_assert_int_eq(split(&set, &nr, &rest, NULL, 0, 8),
			 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	ck_assert_int_eq(get(1, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
	ck_assert_uint_eq(fake_misuses(), 0);
}

TEST(a_stream_of_a_green_context_works_like_others, .setup = find)
{
	CUdevResource set, rest;
	CUgreenCtx greens[2];
	cudaStream_t a, b;
	cudaEvent_t event;
	struct gate gate = GATE_INIT;
	int word = 0;

	divide(GROUP, &set, &rest);
	greens[0] = context_of(&set);
	greens[1] = context_of(&rest);
	ck_assert_uint_eq(alive().greens, 2);
	a = stream_in(greens[0], -5);
	b = stream_in(greens[1], 0);
	ck_sms(a, 0, GROUP);
	ck_sms(b, GROUP, SMS - GROUP);
	ck_sms(own, 0, SMS);
	ck_assert_int_eq(fake_stream_priority(a), -5);
	event = event_of(cudaEventDisableTiming);
	ck_cuda(hold(a, &gate, &word, 1));
	ck_cuda(cudaEventRecord(event, a));
	ck_cuda(cudaStreamWaitEvent(b, event, 0));
	ck_cuda(hold(b, NULL, &word, 2));
	ck_not_ready(cudaStreamQuery(b));
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(b));
	ck_assert_int_eq(word, 2);
	ck_cuda(cudaEventDestroy(event));
	ck_cuda(cudaStreamDestroy(a));
	ck_cuda(cudaStreamDestroy(b));
	ck_cuda(destroy(greens[0]));
	ck_cuda(destroy(greens[1]));
	ck_assert_uint_eq(alive().greens, 0);
	ck_assert_uint_eq(fake_misuses(), 0);
}

TEST(wrong_uses_of_green_contexts_are_counted, .setup = find)
{
	CUdevResource set, rest;
	CUdevResourceDesc description;
	CUgreenCtx green;
	cudaStream_t stream;

	/* A set with more SMs than were asked for. */
	divide(GROUP + 1, &set, &rest);
	green = context_of(&set);
	ck_assert_uint_eq(fake_misuses(), 1);
	/* A stream that outlives its context. */
	stream = stream_in(green, 0);
	ck_cuda(destroy(green));
	ck_assert_uint_eq(fake_misuses(), 2);
	ck_cuda(cudaStreamDestroy(stream));
	ck_assert_int_eq(destroy(green), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(fake_misuses(), 3);
	/* An empty set, and a blocking stream, are refused. */
	divide(SMS, &set, &rest);
	ck_assert_int_eq(describe(&description, &set, 1),
			 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
	divide(GROUP, &set, &rest);
	green = context_of(&set);
	ck_assert_int_eq(create_stream(&stream, green, CU_STREAM_DEFAULT, 0),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(destroy(green));
	ck_assert_uint_eq(fake_misuses(), 3);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	unsetenv(FAKE_ENV);	/* these tests make misuses and count them */
	return SUITE_GOES_ON;
}
