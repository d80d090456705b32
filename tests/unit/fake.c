/* SPDX-License-Identifier: MIT */
/*
 * The double of the CUDA runtime: its streams, events and errors behave like CUDA's, as far as
 * src/device/cuda.c depends on them.
 */
#include <string.h>

#include <runnel/kernel.h>

#include "fake.h"

/* ---- streams --------------------------------------------------------------- */

TEST(a_stream_does_later_and_in_order_what_it_was_given, .loops = 3)
{
	const cudaStream_t streams[] = { own, cudaStreamLegacy, stream_of(cudaStreamNonBlocking) };
	char *pinned = pinned_of(64), *device = device_of(pool_of_device(true), 64, streams[_i]);
	struct gate gate = GATE_INIT;

	memset(pinned, 0, 64);
	ck_cuda(hold(streams[_i], &gate, NULL, 0));
	ck_cuda(cudaMemsetAsync(pinned, 1, 64, streams[_i]));
	ck_cuda(cudaMemsetAsync(pinned, 2, 32, streams[_i]));
	ck_cuda(cudaMemcpyAsync(device, pinned, 64, cudaMemcpyDefault, streams[_i]));
	ck_cuda(cudaMemcpyAsync(pinned + 48, device, 16, cudaMemcpyDefault, streams[_i]));
	ck_not_ready(cudaStreamQuery(streams[_i]));
	ck_assert_bytes((unsigned char *)pinned, 64, 0);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(streams[_i]));
	ck_cuda(cudaStreamQuery(streams[_i]));
	ck_assert_bytes((unsigned char *)pinned, 32, 2);
	ck_assert_bytes((unsigned char *)pinned + 32, 16, 1);
	ck_assert_bytes((unsigned char *)pinned + 48, 16, 2);
}

TEST(streams_that_share_a_hardware_queue_go_in_the_order_of_issue)
{
	static struct gate gate = GATE_INIT;
	cudaStream_t streams[3];
	int words[3] = { 0 };

	ck_assert_int_eq(fake_plan("queues=2"), 0);
	for (int i = 0; i < 3; i++) {
		streams[i] = stream_of(cudaStreamNonBlocking);
		ck_cuda(hold(streams[i], i ? NULL : &gate, &words[i], 1 + i));
	}
	ck_cuda(cudaStreamSynchronize(streams[1]));	/* the other hardware queue */
	ck_assert_int_eq(words[1], 2);
	ck_not_ready(cudaStreamQuery(streams[2]));
	ck_assert_int_eq(words[2], 0);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(streams[2]));
	ck_assert_int_eq(words[0], 1);
	ck_assert_int_eq(words[2], 3);
}

static struct gate leaving = GATE_INIT;
static int left_words[2];

static void *leave(void *id)
{
	static int nr;

	*(uint64_t *)id = fake_stream_id(own);
	ck_cuda(hold(own, &leaving, &left_words[nr++], 5));
	return NULL;
}

TEST(each_thread_has_its_stream_and_leaves_its_work_behind)
{
	uint64_t ids[3];
	pthread_t thread;

	ids[2] = fake_stream_id(own);
	ck_assert_uint_eq(ids[2], fake_stream_id(own));
	for (int i = 0; i < 2; i++) {
		must(pthread_create(&thread, NULL, leave, &ids[i]));
		pthread_join(thread, NULL);
	}
	ck_assert(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
	ck_assert_uint_eq(alive().thread_streams, 1);
	ck_assert_int_eq(left_words[0] + left_words[1], 0);
	ck_cuda(cudaStreamSynchronize(own));	/* does not wait for the other threads' streams */
	gate_await(&leaving, 2);
	gate_open(&leaving);
	ck_eventually(!alive().executors);
	ck_assert_int_eq(left_words[0] + left_words[1], 10);
}

TEST(the_legacy_stream_and_blocking_ones_wait_for_each_other, .loops = 2)
{
	const cudaStream_t blocking[] = { own, stream_of(cudaStreamDefault) };
	const cudaStream_t stream = blocking[_i];
	struct gate gate = GATE_INIT;
	int word = 0;

	ck_cuda(hold(stream, &gate, NULL, 0));
	ck_cuda(hold(0, NULL, &word, 1));	/* 0 is the legacy stream in this file */
	ck_cuda(hold(stream, NULL, &word, 2));
	ck_not_ready(cudaStreamQuery(cudaStreamLegacy));
	gate_await(&gate, 1);
	ck_assert_int_eq(word, 0);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(stream));
	ck_assert_int_eq(word, 2);
	/* Work on only the legacy stream holds the other streams, too. */
	gate = (struct gate)GATE_INIT;
	ck_cuda(hold(cudaStreamLegacy, &gate, NULL, 0));
	ck_cuda(hold(blocking[!_i], NULL, &word, 3));
	gate_await(&gate, 1);
	ck_not_ready(cudaStreamQuery(blocking[!_i]));
	ck_assert_int_eq(word, 2);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(blocking[!_i]));
	ck_assert_int_eq(word, 3);
}

TEST(a_non_blocking_stream_and_the_legacy_one_do_not_wait)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	struct gate gate = GATE_INIT;
	int word = 0;

	ck_cuda(hold(cudaStreamLegacy, &gate, NULL, 0));
	ck_cuda(hold(stream, NULL, &word, 1));
	ck_cuda(cudaStreamSynchronize(stream));
	ck_assert_int_eq(word, 1);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(cudaStreamLegacy));
	gate = (struct gate)GATE_INIT;
	ck_cuda(hold(stream, &gate, NULL, 0));
	ck_cuda(hold(cudaStreamLegacy, NULL, &word, 2));
	ck_cuda(cudaStreamSynchronize(cudaStreamLegacy));
	ck_assert_int_eq(word, 2);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(stream));
}

TEST(a_stream_keeps_its_priority)
{
	cudaStreamAttrValue value = { .priority = -3 };
	int least, greatest;
	cudaStream_t stream;

	ck_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	ck_assert_int_lt(greatest, least);
	ck_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 10));
	ck_assert_int_eq(fake_stream_priority(stream), greatest);
	ck_assert_int_eq(fake_stream_priority(own), least);
	ck_cuda(cudaStreamSetAttribute(own, cudaStreamAttributePriority, &value));
	ck_assert_int_eq(fake_stream_priority(own), -3);
	ck_refused(cudaStreamCreateWithFlags(&stream, 7), cudaErrorInvalidValue);
}

TEST(a_destroyed_stream_finishes_its_work_and_is_no_stream)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	struct gate gate = GATE_INIT;
	int word = 0;

	ck_cuda(hold(stream, &gate, &word, 1));
	ck_cuda(cudaStreamDestroy(stream));
	ck_misused(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
	ck_misused(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
	ck_misused(hold(stream, NULL, NULL, 0), cudaErrorInvalidResourceHandle);
	ck_assert_uint_eq(alive().streams, 0);
	gate_open(&gate);
	ck_eventually(!alive().executors);
	ck_assert_int_eq(word, 1);
}

static int launch_on_legacy(void *arg)
{
	return arg ? -1 : (int)hold(cudaStreamLegacy, NULL, NULL, 0);
}

TEST(a_full_stream_holds_its_caller_until_there_is_room)
{
	enum { DEPTH = 1021 };
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	struct gate gate = GATE_INIT;
	struct call call;

	ck_cuda(hold(cudaStreamLegacy, &gate, NULL, 0));
	gate_await(&gate, 1);
	for (int i = 0; i < DEPTH; i++) {
		ck_cuda(hold(cudaStreamLegacy, NULL, NULL, 0));
		/* Records and waits use no slot of the stream. */
		ck_cuda(cudaEventRecord(event, cudaStreamLegacy));
		ck_cuda(cudaStreamWaitEvent(cudaStreamLegacy, event, 0));
	}
	call_start(&call, launch_on_legacy, NULL);
	ck_waits(call.tid);
	ck_not_ready(cudaStreamQuery(cudaStreamLegacy));
	ck_assert(!call.returned);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_cuda(cudaStreamSynchronize(cudaStreamLegacy));
}

/* ---- events ---------------------------------------------------------------- */

TEST(an_event_is_its_last_record)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	int word = 0;

	ck_cuda(cudaEventQuery(event));		/* never recorded */
	ck_cuda(cudaStreamWaitEvent(own, event, 0));
	ck_cuda(cudaStreamSynchronize(own));
	ck_cuda(hold(stream, &gates[0], NULL, 0));
	ck_cuda(cudaEventRecord(event, stream));
	ck_not_ready(cudaEventQuery(event));
	/* This waits for that record, even if the event is recorded again. */
	ck_cuda(cudaStreamWaitEvent(own, event, 0));
	ck_cuda(hold(own, NULL, &word, 1));
	ck_cuda(hold(stream, &gates[1], NULL, 0));
	ck_cuda(cudaEventRecord(event, stream));
	ck_not_ready(cudaStreamQuery(own));
	ck_assert_int_eq(word, 0);
	gate_open(&gates[0]);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_int_eq(word, 1);
	ck_not_ready(cudaEventQuery(event));
	ck_cuda(cudaEventDestroy(event));
	ck_misused(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
	ck_misused(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
	ck_assert_uint_eq(alive().events, 0);
	gate_open(&gates[1]);
	ck_cuda(cudaStreamSynchronize(stream));
}

TEST(an_event_and_its_stream_may_go_before_who_waits)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	struct gate gate = GATE_INIT;
	int words[2] = { 0, 0 };

	ck_cuda(hold(stream, &gate, &words[0], 1));
	ck_cuda(cudaEventRecord(event, stream));
	ck_cuda(cudaStreamWaitEvent(own, event, 0));
	ck_cuda(hold(own, NULL, &words[1], 2));
	ck_cuda(cudaEventDestroy(event));
	ck_cuda(cudaStreamDestroy(stream));
	ck_not_ready(cudaStreamQuery(own));
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_int_eq(words[0] + words[1], 3);
	ck_eventually(alive().executors == 1);
}

TEST(only_timed_events_that_were_reached_tell_the_time)
{
	cudaEvent_t from = event_of(cudaEventDefault), to = event_of(cudaEventDefault);
	cudaEvent_t untimed = event_of(cudaEventDisableTiming);
	struct gate gate = GATE_INIT;
	float ms = -1;

	ck_refused(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
	ck_cuda(cudaEventRecord(from, own));
	ck_cuda(hold(own, &gate, NULL, 0));
	ck_cuda(cudaEventRecord(to, own));
	ck_cuda(cudaEventRecord(untimed, own));
	ck_not_ready(cudaEventElapsedTime(&ms, from, to));
	gate_await(&gate, 1);
	usleep(2000);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));
	ck_cuda(cudaEventElapsedTime(&ms, from, to));
	ck_assert(ms >= 1.9f);
	ck_refused(cudaEventElapsedTime(&ms, from, untimed), cudaErrorInvalidResourceHandle);
}

/* ---- errors ------------------------------------------------------------------ */

static int cause_error(void *arg)
{
	ck_assert_int_eq(cudaSetDevice(arg ? 2 : 1), cudaErrorInvalidDevice);
	return (int)cudaGetLastError();
}

TEST(the_last_error_is_the_threads_and_is_taken_off)
{
	struct call call;

	ck_assert_int_eq(cudaStreamCreateWithFlags(NULL, 0), cudaErrorInvalidValue);
	call_start(&call, cause_error, NULL);
	ck_assert_int_eq(call_end(&call), cudaErrorInvalidDevice);
	ck_cuda(cudaStreamQuery(own));		/* a success does not clear the error */
	ck_assert_int_eq(cudaGetLastError(), cudaErrorInvalidValue);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}

static int sync_legacy(void *arg)
{
	(void)arg;
	return (int)cudaStreamSynchronize(cudaStreamLegacy);
}

TEST(after_an_error_that_stays_nothing_goes_on)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	struct cudaPointerAttributes attributes;
	struct gate gate = GATE_INIT;
	struct call call;
	int word = 0;

	ck_cuda(hold(cudaStreamLegacy, &gate, NULL, 0));
	ck_cuda(hold(cudaStreamLegacy, NULL, &word, 1));
	ck_cuda(cudaEventRecord(event, cudaStreamLegacy));
	ck_cuda(cudaStreamWaitEvent(stream, event, 0));
	ck_cuda(hold(stream, NULL, &word, 1));
	call_start(&call, sync_legacy, NULL);
	ck_waits(call.tid);
	fake_fail_sticky(cudaErrorIllegalAddress);
	/* Every call returns the error, each time. */
	ck_assert_int_eq(call_end(&call), cudaErrorIllegalAddress);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
		ck_assert_int_eq(cudaStreamQuery(own), cudaErrorIllegalAddress);
		ck_assert_int_eq(cudaEventQuery(event), cudaErrorIllegalAddress);
		ck_assert_int_eq(hold(own, NULL, &word, 1), cudaErrorIllegalAddress);
		ck_assert_int_eq(cudaGetLastError(), cudaErrorIllegalAddress);
		/* Calls that use no context still work. */
		ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
		ck_cuda(cudaSetDevice(0));
		ck_cuda(cudaPointerGetAttributes(&attributes, &word));
	}
	fake_fail_sticky(cudaErrorLaunchFailure);	/* the first error stays */
	ck_assert_int_eq(cudaStreamQuery(own), cudaErrorIllegalAddress);
	gate_open(&gate);
	ck_eventually(!alive().executors);
	ck_assert_int_eq(word, 0);
}

TEST(who_waits_for_room_is_told_that_the_device_has_failed)
{
	enum { DEPTH = 1021 };
	struct gate gate = GATE_INIT;
	struct call calls[2];

	for (int i = 0; i <= DEPTH; i++)
		ck_cuda(hold(cudaStreamLegacy, i ? NULL : &gate, NULL, 0));
	call_start(&calls[0], sync_legacy, NULL);
	ck_waits(calls[0].tid);
	call_start(&calls[1], launch_on_legacy, NULL);
	ck_waits(calls[1].tid);
	fake_fail_sticky(cudaErrorUnknown);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(call_end(&calls[i]), cudaErrorUnknown);
	gate_open(&gate);
	ck_eventually(!alive().executors);
}

TEST(a_forked_child_has_no_device)
{
	pid_t pid;
	int status;

	ck_cuda(hold(own, NULL, NULL, 0));
	ck_cuda(cudaStreamSynchronize(own));
	pid = fork();
	if (!pid) {
		int nr, bad = cudaGetDeviceCount(&nr) != cudaErrorInitializationError;

		bad |= cudaStreamSynchronize(own) != cudaErrorInitializationError;
		bad |= cudaGetLastError() != cudaErrorInitializationError;
		_exit(bad);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_cuda(cudaStreamQuery(own));
}

TEST(a_thread_has_its_capture_mode)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

	ck_cuda(cudaThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, cudaStreamCaptureModeGlobal);
	ck_cuda(cudaThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, cudaStreamCaptureModeRelaxed);
	ck_refused(cudaThreadExchangeStreamCaptureMode(NULL), cudaErrorInvalidValue);
}

TEST(a_kernel_has_the_limits_of_a_gpu)
{
	const struct gated_store args = { NULL, NULL, 0 };
	const struct rnl_dim wrong[][2] = {
		{ { 1, 1, 1 }, { 1025, 1, 1 } }, { { 1, 1, 1 }, { 32, 33, 1 } },
		{ { 1, 1, 1 }, { 1, 1, 65 } }, { { 1, 65536, 1 }, { 1, 1, 1 } },
		{ { 0, 1, 1 }, { 1, 1, 1 } }, { { 1, 1, 1 }, { 1, 1, 0 } },
	};

	for (unsigned i = 0; i < COUNT(wrong); i++)
		ck_refused(fake_launch(gated_store_host, wrong[i][0], wrong[i][1], &args,
				       sizeof(args), own), cudaErrorInvalidConfiguration);
}

/* ---- the plan ---------------------------------------------------------------- */

TEST(the_nth_call_fails_as_planned_and_does_nothing)
{
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	uint64_t calls = fake_calls("cudaEventRecord");
	struct gate gate = GATE_INIT;

	ck_assert_int_eq(fake_plan("seed=7,fail=cudaEventRecord:3:2,fail=any:9:719:sticky"), 0);
	ck_cuda(hold(own, &gate, NULL, 0));				/* 1 */
	ck_cuda(cudaEventRecord(event, own));				/* 2 */
	ck_not_ready(cudaEventQuery(event));		/* 3 */
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));				/* 4 */
	ck_cuda(cudaEventRecord(event, own));				/* 5 */
	ck_cuda(cudaStreamSynchronize(own));				/* 6 */
	ck_refused(cudaEventRecord(event, own), cudaErrorMemoryAllocation);	/* 7 */
	ck_cuda(cudaEventQuery(event));					/* 8 */
	ck_assert_uint_eq(fake_calls("cudaEventRecord"), calls + 3);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(cudaEventQuery(event), cudaErrorLaunchFailure);
}

TEST(a_plan_that_makes_no_sense_is_refused)
{
	static const char *const wrong[] = {
		"fail=cudaMallocManaged:1:2", "fail=any:0:2", "fail=any:1", "fail=any:1:2:twice",
		"memory=12Q", "memory=", "queues=33", "tomorrow", "seed",
	};

	for (unsigned i = 0; i < COUNT(wrong); i++)
		ck_assert_msg(fake_plan(wrong[i]) == -1, "%s", wrong[i]);
	ck_assert_int_eq(fake_fail("cudaMallocManaged", 1, 2, false), -1);
}

TEST(what_is_left_of_a_plan_can_be_printed_and_given_again)
{
	char text[2][400] = { "", "" };

	ck_assert_int_eq(fake_plan("seed=5,delay_calls=3,memory=2M,nowrite,fail=any:100:2"), 0);
	for (int i = 0; i < 2; i++) {
		FILE *to = fmemopen(text[i], sizeof(text[i]), "w");

		ck_assert_ptr_nonnull(to);
		fake_plan_print(to);
		fclose(to);
		text[i][strcspn(text[i], "\n")] = 0;
		ck_assert_int_eq(fake_plan("nofail"), 0);
		ck_assert_int_eq(fake_plan(text[0]), 0);
	}
	ck_assert_ptr_nonnull(strstr(text[0], "seed=5,delay_calls=3"));
	ck_assert_ptr_nonnull(strstr(text[0], "fail=any:100:2"));
	ck_assert_str_eq(text[0], text[1]);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	unsetenv(FAKE_ENV);	/* these tests make misuses and count them */
	return SUITE_GOES_ON;
}

/* ---- many copies in one call --------------------------------------------------- */

#if CUDART_VERSION >= 13000
static cudaError_t batch(void *const *to, const void *const *from, size_t bytes, size_t nr)
{
	struct cudaMemcpyAttributes order = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	size_t sizes[2] = { bytes, bytes }, first = 0;

	return cudaMemcpyBatchAsync(to, from, sizes, nr, &order, &first, 1, own);
}

TEST(a_batch_copies_all_or_is_refused)
{
	char *pinned = pinned_of(64), *device = device_of(pool_of_device(true), 64, own);
	void *to[] = { device, pinned + 32 };
	const void *from[] = { pinned, pinned };

	memset(pinned, 7, 32);
	memset(pinned + 32, 0, 32);
	ck_cuda(batch(to, from, 32, 2));
	ck_cuda(cudaMemcpyAsync(pinned, device, 32, cudaMemcpyDefault, own));
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_bytes((unsigned char *)pinned, 64, 7);
	ck_refused(batch(to, from, 32, 0), cudaErrorInvalidValue);
	ck_refused(batch(to, from, 0, 2), cudaErrorInvalidValue);
	from[1] = NULL;
	ck_refused(batch(to, from, 32, 2), cudaErrorInvalidValue);
}

static cudaError_t launch_mover(void *dst, const void *src, size_t bytes)
{
	uint64_t moves[32 * 3] = { (uintptr_t)dst, (uintptr_t)src, bytes };
	void *args[] = { moves };
	cudaLibrary_t library;
	cudaKernel_t kernel;

	ck_cuda(cudaLibraryLoadData(&library, ".version, and so on: rnl_move", NULL, NULL, 0, NULL,
				    NULL, 0));
	ck_refused(cudaLibraryGetKernel(&kernel, library, "other"), cudaErrorSymbolNotFound);
	ck_cuda(cudaLibraryGetKernel(&kernel, library, "rnl_move"));
	return cudaLaunchKernel((const void *)kernel, (dim3){ 1, 1, 1 }, (dim3){ 512, 1, 1 }, args,
				0, own);
}

TEST(a_mover_reaches_memory_of_the_device_and_pinned_memory)
{
	char *pinned = pinned_of(64), *device = device_of(pool_of_device(true), 64, own);

	memset(pinned, 7, 64);
	ck_cuda(launch_mover(device, pinned, 33));
	memset(pinned + 33, 0, 31);
	ck_cuda(launch_mover(pinned + 31, device, 33));
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_bytes((unsigned char *)pinned, 64, 7);
}

/* _i 1: from pageable memory; 0: to pageable memory. */
TEST(pageable_memory_is_the_end_of_a_mover, .loops = 2)
{
	char *pinned = pinned_of(64);
	static char pageable[64];

	ck_cuda(launch_mover(_i ? pinned : pageable, _i ? pageable : pinned, 64));
	ck_assert_int_eq(cudaStreamSynchronize(own), cudaErrorIllegalAddress);
}
#endif
