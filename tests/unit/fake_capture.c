/* SPDX-License-Identifier: MIT */
/* The double of the CUDA runtime: captures, graphs, and the calls that both refuse. */
#include "fake.h"

static enum cudaStreamCaptureMode exchange(enum cudaStreamCaptureMode mode)
{
	ck_cuda(cudaThreadExchangeStreamCaptureMode(&mode));
	return mode;
}

static void begin(cudaStream_t stream)
{
	ck_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static cudaGraph_t end(cudaStream_t stream)
{
	cudaGraph_t graph = NULL;

	ck_cuda(cudaStreamEndCapture(stream, &graph));
	ck_assert_ptr_nonnull(graph);
	return graph;
}

/* Ends a capture that a refused call has invalidated. */
static void end_broken(cudaStream_t stream)
{
	cudaGraph_t graph = NULL;

	ck_refused(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
	ck_assert_ptr_null(graph);
}

/* A call that is refused while @stream is captured, and ends the capture. */
#define ck_breaks(stream, call, code) \
	do { \
		begin(stream); \
		ck_refused(call, code); \
		end_broken(stream); \
	} while (0)

static int in_another_thread(int (*fn)(void *arg), void *arg)
{
	struct call call;

	call_start(&call, fn, arg);
	return call_end(&call);
}

static void launch(cudaGraph_t graph, cudaStream_t stream)
{
	cudaGraphExec_t exec;

	ck_cuda(cudaGraphInstantiate(&exec, graph, 0));
	ck_cuda(cudaGraphLaunch(exec, stream));
	ck_cuda(cudaGraphExecDestroy(exec));
}

TEST(what_is_captured_happens_when_the_graph_is_launched_each_time)
{
	char *pinned = pinned_of(64);
	cudaGraph_t graph;
	int word = 0;

	memset(pinned, 0, 64);
	begin(own);
	ck_cuda(cudaMemsetAsync(pinned, 7, 32, own));
	ck_cuda(cudaMemcpyAsync(pinned + 32, pinned, 32, cudaMemcpyDefault, own));
	ck_cuda(hold(own, NULL, &word, 5));
	graph = end(own);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_bytes((unsigned char *)pinned, 64, 0);
	ck_assert_int_eq(word, 0);

	for (int i = 0; i < 2; i++) {
		memset(pinned, 0, 64);
		word = 0;
		launch(graph, own);
		ck_cuda(cudaStreamSynchronize(own));
		ck_assert_bytes((unsigned char *)pinned, 64, 7);
		ck_assert_int_eq(word, 5);
	}
	ck_cuda(cudaGraphDestroy(graph));
	ck_misused(cudaGraphDestroy(graph), cudaErrorInvalidValue);
	ck_cuda(cudaFreeHost(pinned));
}

TEST(nodes_say_what_they_are_and_copies_from_where_to_where)
{
	char *pinned = pinned_of(64), pageable[32];
	struct cudaMemcpy3DParms parms;
	cudaGraphNode_t nodes[4];
	enum cudaGraphNodeType type;
	size_t nr = 0;
	cudaGraph_t graph;

	begin(own);
	ck_cuda(cudaMemsetAsync(pinned, 7, 32, own));
	ck_cuda(cudaMemcpyAsync(pinned, pageable, 32, cudaMemcpyDefault, own));
	graph = end(own);
	ck_cuda(cudaGraphGetNodes(graph, NULL, &nr));
	ck_assert_uint_eq(nr, 2);
	nr = 4;
	ck_cuda(cudaGraphGetNodes(graph, nodes, &nr));
	ck_assert_uint_eq(nr, 2);
	ck_assert_ptr_null(nodes[2]);
	ck_cuda(cudaGraphNodeGetType(nodes[0], &type));
	ck_assert_int_eq(type, cudaGraphNodeTypeMemset);
	ck_refused(cudaGraphMemcpyNodeGetParams(nodes[0], &parms), cudaErrorInvalidValue);
	ck_cuda(cudaGraphNodeGetType(nodes[1], &type));
	ck_assert_int_eq(type, cudaGraphNodeTypeMemcpy);
	ck_cuda(cudaGraphMemcpyNodeGetParams(nodes[1], &parms));
	ck_assert_ptr_eq(parms.srcPtr.ptr, pageable);
	ck_assert_ptr_eq(parms.dstPtr.ptr, pinned);
	ck_cuda(cudaGraphDestroy(graph));
	ck_cuda(cudaFreeHost(pinned));
}

TEST(a_legacy_call_is_refused_in_every_thread_and_breaks_the_capture)
{
	char *pinned = pinned_of(64);

	exchange(cudaStreamCaptureModeThreadLocal);
	begin(own);
	ck_refused(cudaMemsetAsync(pinned, 1, 64, NULL), cudaErrorStreamCaptureImplicit);
	ck_refused(cudaMemsetAsync(pinned, 1, 64, own), cudaErrorStreamCaptureInvalidated);
	end_broken(own);
	ck_cuda(cudaMemsetAsync(pinned, 1, 64, NULL));
	ck_cuda(cudaStreamSynchronize(NULL));
	ck_cuda(cudaFreeHost(pinned));
}

static int legacy_call(void *pinned)
{
	return (int)cudaMemsetAsync(pinned, 1, 64, NULL);
}

TEST(so_it_is_in_another_thread_unless_the_stream_is_non_blocking)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	char *pinned = pinned_of(64);
	cudaGraph_t graph;

	begin(own);
	ck_assert_int_eq(in_another_thread(legacy_call, pinned), cudaErrorStreamCaptureImplicit);
	end_broken(own);

	begin(stream);
	ck_assert_int_eq(in_another_thread(legacy_call, pinned), cudaSuccess);
	graph = end(stream);
	ck_cuda(cudaGraphDestroy(graph));
	ck_cuda(cudaStreamDestroy(stream));
	ck_cuda(cudaFreeHost(pinned));
}

TEST(waits_and_allocations_are_refused_and_with_a_relaxed_mode_waits_alone)
{
	cudaEvent_t event = event_of(cudaEventDisableTiming);
	void *mem = NULL;

	exchange(cudaStreamCaptureModeThreadLocal);
	ck_breaks(own, cudaStreamSynchronize(own), cudaErrorStreamCaptureUnsupported);
	ck_breaks(own, cudaStreamQuery(own), cudaErrorStreamCaptureUnsupported);
	ck_breaks(own, cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
	ck_breaks(own, cudaMalloc(&mem, 64), cudaErrorStreamCaptureUnsupported);
	ck_breaks(own, cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);

	exchange(cudaStreamCaptureModeRelaxed);
	begin(own);
	ck_cuda(cudaEventQuery(event));
	ck_refused(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
	end_broken(own);
	ck_cuda(cudaEventDestroy(event));
}

static int wait_for_device(void *unused)
{
	(void)unused;
	return (int)cudaDeviceSynchronize();
}

TEST(a_wait_for_the_device_is_refused_in_every_thread_and_breaks_the_capture, .loops = 2)
{
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	const cudaStream_t captured = _i ? stream : own;

	exchange(cudaStreamCaptureModeThreadLocal);
	begin(captured);
	ck_assert_int_eq(in_another_thread(wait_for_device, NULL), cudaErrorStreamCaptureUnsupported);
	end_broken(captured);
	ck_assert_int_eq(in_another_thread(wait_for_device, NULL), cudaSuccess);
	ck_cuda(cudaStreamDestroy(stream));
}

static int allocate(void *unused)
{
	void *mem = NULL;
	int ret = (int)cudaMalloc(&mem, 64);

	(void)unused;
	return ret ? ret : (int)cudaFree(mem);
}

TEST(another_thread_may_allocate_during_a_thread_local_capture_not_during_a_global_one)
{
	cudaGraph_t graph;

	begin(own);
	ck_assert_int_eq(in_another_thread(allocate, NULL), cudaSuccess);
	ck_cuda(cudaGraphDestroy(end(own)));

	ck_cuda(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal));
	ck_assert_int_eq(in_another_thread(allocate, NULL), cudaErrorStreamCaptureUnsupported);
	ck_refused(cudaStreamEndCapture(own, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST(events_fork_and_join_inside_and_nothing_outside_is_waited_for)
{
	cudaEvent_t forks = event_of(cudaEventDisableTiming), other = event_of(cudaEventDisableTiming);
	cudaStream_t stream = stream_of(cudaStreamNonBlocking);
	char *pinned = pinned_of(64);
	cudaGraph_t graph;

	memset(pinned, 0, 64);
	begin(own);
	ck_cuda(cudaEventRecord(forks, own));
	ck_cuda(cudaStreamWaitEvent(stream, forks, 0));
	ck_cuda(cudaMemsetAsync(pinned, 3, 64, stream));
	ck_cuda(cudaEventRecord(other, stream));
	ck_cuda(cudaStreamWaitEvent(own, other, 0));
	graph = end(own);
	ck_assert_bytes((unsigned char *)pinned, 64, 0);
	launch(graph, own);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_bytes((unsigned char *)pinned, 64, 3);
	ck_cuda(cudaGraphDestroy(graph));
	/* After the capture its event cannot be used until it is recorded again. */
	ck_refused(cudaEventQuery(forks), cudaErrorCapturedEvent);
	ck_cuda(cudaEventRecord(forks, own));
	ck_cuda(cudaStreamSynchronize(own));
	ck_cuda(cudaEventQuery(forks));

	ck_breaks(own, cudaStreamWaitEvent(own, forks, 0), cudaErrorStreamCaptureIsolation);
	ck_cuda(cudaEventDestroy(forks));
	ck_cuda(cudaEventDestroy(other));
	ck_cuda(cudaStreamDestroy(stream));
	ck_cuda(cudaFreeHost(pinned));
}

TEST(what_makes_no_sense_is_refused)
{
	cudaStream_t stream = stream_of(cudaStreamDefault);
	cudaGraph_t graph;

	ck_refused(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed),
		   cudaErrorStreamCaptureUnsupported);
	ck_refused(cudaStreamEndCapture(own, &graph), cudaErrorIllegalState);
	begin(own);
	ck_refused(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
	ck_refused(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
	ck_cuda(cudaGraphDestroy(end(own)));
	ck_cuda(cudaStreamDestroy(stream));
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	unsetenv(FAKE_ENV);	/* these tests make misuses and count them */
	return SUITE_GOES_ON;
}
