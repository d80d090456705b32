/* SPDX-License-Identifier: MIT */
/* A thread's stream on CUDA; cuda_stream.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "device/cuda_graphs.h"
#include "device/cuda_green.h"
#include "device/cuda_kernels.h"
#include "device/cuda_log.h"
#include "device/cuda_memory.h"
#include "device/cuda_stream.h"
#include "sys/clock.h"
#include "sys/thread_state.h"

struct cuda_stream {
	struct rnl__stream base;
	cudaStream_t own;		/* private stream, destroyed at detach; NULL: none */
	struct rnl__sms *sms;		/* the private stream is limited to some; NULL: it is not */
	cudaEvent_t joins;		/* joins the private and the default stream */
	struct rnl__graphs *graphs;	/* NULL: none */
	enum cudaStreamCaptureMode capture_mode; /* the thread's mode before the attach */
};

static struct cuda_stream *cuda_own_stream(void)
{
	return (struct cuda_stream *)rnl__thread.stream;
}

/* ---- attach, detach ------------------------------------------------------ */

/* Returns the current device's priority of a level: struct rnl__stream_wish. */
static cudaError_t priority_of(unsigned level, int *priority)
{
	int least = 0, greatest = 0;
	cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);

	/* A smaller number is a higher priority. */
	*priority = level < (unsigned)(least - greatest) ? greatest + (int)level : least;
	return code;
}

/* Creates a non-blocking stream for the thread. */
static cudaError_t make_private(struct cuda_stream *stream, const struct rnl__stream_wish *wish)
{
	int priority = 0;
	cudaError_t code = priority_of(wish->level, &priority);

	if (code == cudaSuccess)
		code = cudaEventCreateWithFlags(&stream->joins, cudaEventDisableTiming);
	if (code != cudaSuccess)
		return code;
	code = stream->sms ?
		rnl__cuda_green_stream(stream->sms, wish->kept, priority, &stream->own) :
		cudaStreamCreateWithPriority(&stream->own, cudaStreamNonBlocking, priority);
	if (code != cudaSuccess)
		(void)cudaEventDestroy(stream->joins);
	return code;
}

/* Makes CUDA create the thread's default stream now, not at the first job. */
static cudaError_t ready_stream(cudaStream_t handle, unsigned level)
{
	cudaStreamAttrValue value = { 0 };
	cudaError_t code = cudaStreamQuery(handle);

	if (code == cudaErrorNotReady)
		code = cudaSuccess;	/* the stream has work already */
	if (code != cudaSuccess || level == RNL__LEVEL_LOWEST)
		return code;
	code = priority_of(level, &value.priority);
	if (code != cudaSuccess)
		return code;
	return cudaStreamSetAttribute(handle, cudaStreamAttributePriority, &value);
}

int rnl__cuda_stream_attach(struct rnl__device *base, const struct rnl__stream_wish *wish,
			    struct rnl__stream **streamp)
{
	struct rnl__cuda_device *device = (struct rnl__cuda_device *)base;
	struct cuda_stream *stream = calloc(1, sizeof(*stream));
	cudaStream_t handle = cudaStreamPerThread;
	cudaError_t code;

	if (!stream)
		return -ENOMEM;
	stream->sms = wish->sms;
	rnl__cuda_log_begin();
	code = cudaSetDevice(base->info.ordinal);
	if (code == cudaSuccess)
		code = rnl__cuda_memory_ready(device);
	if (code == cudaSuccess)
		code = ready_stream(handle, wish->level);
	if (code == cudaSuccess && wish->kind == RNL_STREAM_PRIVATE) {
		code = make_private(stream, wish);
		handle = stream->own;
	}
	if (code != cudaSuccess) {
		free(stream);
		rnl__cuda_log_end();
		return rnl__cuda_failed(base, code);
	}
	/* In this mode, another thread's capture does not make our events and waits fail. */
	stream->capture_mode = cudaStreamCaptureModeRelaxed;
	rnl__cuda_forget(cudaThreadExchangeStreamCaptureMode(&stream->capture_mode));
	/* CUDA loads a kernel when it first runs on a device: run the library's own kernels now. */
	pthread_mutex_lock(&device->lock);
	if (!device->has_kernels)
		rnl__cuda_kernels_init(handle);
	device->has_kernels = true;
	pthread_mutex_unlock(&device->lock);
	stream->graphs = wish->sms ? NULL : rnl__cuda_graphs_create();
	stream->base.device = base;
	stream->base.some_sms = wish->sms != NULL;
	stream->base.native = handle;
	*streamp = &stream->base;
	return 0;
}

void rnl__cuda_stream_detach(struct rnl__stream *base)
{
	struct cuda_stream *stream = (struct cuda_stream *)base;

	(void)rnl__cuda_result(base->device, cudaStreamSynchronize(base->native));
	rnl__cuda_graphs_destroy(stream->graphs);
	if (stream->own) {
		if (!rnl__cuda_result(base->device, cudaStreamDestroy(stream->own)) && stream->sms)
			rnl__cuda_green_stream_gone(stream->sms);
		(void)rnl__cuda_result(base->device, cudaEventDestroy(stream->joins));
	}
	(void)rnl__cuda_result(base->device,
			       cudaThreadExchangeStreamCaptureMode(&stream->capture_mode));
	rnl__cuda_log_end();
	free(stream);
}

/* ---- work and waits ------------------------------------------------------- */

unsigned rnl__cuda_stream_replay(const struct rnl__gather *gather, unsigned step)
{
	struct cuda_stream *stream = cuda_own_stream();

	if (!stream->graphs)
		return step;
	return rnl__cuda_graphs_replay(stream->graphs, gather, step, rnl__cuda_own_stream());
}

int rnl__cuda_stream_idle(void)
{
	return rnl__cuda_reached(rnl__cuda_own_device(), cudaStreamQuery(rnl__cuda_own_stream()));
}

int rnl__cuda_stream_wait(uint64_t deadline)
{
	uint64_t nap_ns = 2000;
	int ret;

	if (deadline == RNL__NEVER)
		return rnl__cuda_own_result(cudaStreamSynchronize(rnl__cuda_own_stream()));
	/* CUDA has no wait with a timeout: poll, less and less often. */
	while ((ret = rnl__cuda_stream_idle()) == 0) {
		if (rnl__now() >= deadline)
			return -ETIMEDOUT;
		rnl__nap(nap_ns);
		if (nap_ns < 500000)
			nap_ns += nap_ns / 4;
	}
	return ret < 0 ? ret : 0;
}

/* ---- work outside the private stream --------------------------------------- */

/* Makes @waits wait, on the device, for the current work of @for_this. */
static cudaError_t cuda_stream_join(struct cuda_stream *stream, cudaStream_t waits,
				    cudaStream_t for_this)
{
	cudaError_t code = cudaEventRecord(stream->joins, for_this);

	return code == cudaSuccess ? cudaStreamWaitEvent(waits, stream->joins, 0) : code;
}

int rnl__cuda_stream_stray(void)
{
	struct cuda_stream *stream = cuda_own_stream();
	int ret = rnl__cuda_reached(rnl__cuda_own_device(), cudaStreamQuery(cudaStreamPerThread));

	if (ret)
		return ret < 0 ? ret : 0;
	ret = rnl__cuda_own_result(cuda_stream_join(stream, stream->own, cudaStreamPerThread));
	return ret ? ret : 1;
}

int rnl__cuda_stream_divert(bool on)
{
	struct cuda_stream *stream = cuda_own_stream();
	const cudaStream_t to = on ? cudaStreamPerThread : stream->own;

	stream->base.native = to;
	return rnl__cuda_own_result(
		cuda_stream_join(stream, to, on ? stream->own : cudaStreamPerThread));
}
