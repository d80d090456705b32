/* SPDX-License-Identifier: MIT */
/*
 * Streams: their handles, their creation and their end.
 *
 * DESIGN
 *	cudaStreamPerThread is a stream of the calling thread, created by its first use. The
 *	stream's operations go on when the thread ends. 0 and cudaStreamLegacy are the legacy
 *	stream. Any other handle is the address of its stream. A stream lives as long as a handle,
 *	an executor or a point refers to it.
 */
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

#define GREATEST_PRIORITY (-5)		/* as on an H200 */
#define LEAST_PRIORITY 0

struct fake_stream *fake__streams;
static struct fake_stream *legacy;
static uint64_t last_id;

static pthread_key_t of_thread[FAKE_DEVICES_MAX]; /* destructors end the threads' streams */

/* ---- a stream's life ----------------------------------------------------- */

struct fake_stream *fake__stream_get(struct fake_stream *stream)
{
	stream->users++;
	return stream;
}

void fake__stream_put(struct fake_stream *stream)
{
	struct fake_stream **at = &fake__streams;

	if (--stream->users)
		return;
	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	pthread_cond_destroy(&stream->more);
	pthread_cond_destroy(&stream->progress);
	fake__drop_ops(stream);
	free(stream);
}

static int in_range(int priority)
{
	return priority < GREATEST_PRIORITY ? GREATEST_PRIORITY :
	       priority > LEAST_PRIORITY ? LEAST_PRIORITY : priority;
}

static struct fake_stream *make(bool blocking, int priority)
{
	struct fake_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	pthread_cond_init(&stream->more, NULL);
	pthread_cond_init(&stream->progress, NULL);
	stream->id = ++last_id;
	stream->device = fake__device();
	stream->blocking = blocking;
	stream->priority = in_range(priority);
	stream->users = 1;
	stream->next = fake__streams;
	fake__streams = stream;
	return stream;
}

/* Ends a stream: no thread issues to it any more, but its operations go on. */
static void end(struct fake_stream *stream)
{
	stream->ending = true;
	pthread_cond_signal(&stream->more);
	fake__stream_put(stream);
}

/* ---- handles ------------------------------------------------------------- */

static void thread_ends(void *stream)
{
	bool stays;

	fake__lock();
	stays = fake__settings.stay && fake__failed() != cudaSuccess;
	end(stream);
	fake__unlock();
	while (stays)
		pause();
}

/*
 * Like CUDA: the destructor of a key that was created before CUDA's first call finds the thread's
 * stream; the destructor of a later key finds another, empty stream (measured).
 */
void fake__streams_init(void)
{
	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		pthread_key_create(&of_thread[i], thread_ends);
}

static struct fake_stream *per_thread(void)
{
	const pthread_key_t key = of_thread[fake__device()];
	struct fake_stream *stream = pthread_getspecific(key);

	if (stream)
		return stream;
	stream = make(true, LEAST_PRIORITY);
	if (!stream)
		return NULL;
	stream->of_thread = true;
	if (pthread_setspecific(key, stream)) {
		fake__stream_put(stream);
		return NULL;
	}
	return stream;
}

struct fake_stream *fake__legacy(void)
{
	return legacy;
}

cudaError_t fake__stream_of(cudaStream_t handle, struct fake_stream **streamp)
{
	if (handle == cudaStreamPerThread) {
		*streamp = per_thread();
	} else if (!handle || handle == cudaStreamLegacy) {
		cudaError_t code = fake__capture_legacy();

		if (code != cudaSuccess)
			return code;
		if (!legacy)
			legacy = make(true, LEAST_PRIORITY);
		*streamp = legacy;
	} else {
		*streamp = fake__handle(handle, FAKE_STREAM);
		return *streamp ? cudaSuccess : cudaErrorInvalidResourceHandle;
	}
	return *streamp ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* ---- calls --------------------------------------------------------------- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	CALL(cudaDeviceGetStreamPriorityRange);
	if (least)
		*least = LEAST_PRIORITY;
	if (greatest)
		*greatest = GREATEST_PRIORITY;
	return cudaSuccess;
}

/* Gives the stream, which may be NULL, its handle. */
static cudaError_t enter(cudaStream_t *handle, struct fake_stream *stream)
{
	if (!stream)
		return cudaErrorMemoryAllocation;
	if (fake__enter(stream, sizeof(*stream), FAKE_STREAM, stream)) {
		fake__stream_put(stream);
		return cudaErrorMemoryAllocation;
	}
	*handle = (cudaStream_t)stream;
	return cudaSuccess;
}

static cudaError_t create(cudaStream_t *handle, unsigned flags, int priority)
{
	if (!handle || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking))
		return cudaErrorInvalidValue;
	return enter(handle, make(flags == cudaStreamDefault, priority));
}

cudaError_t fake__stream_create(cudaStream_t *handle, int device, int priority,
				struct fake_green *green, struct fake_sms sms)
{
	struct fake_stream *stream = make(false, priority);

	if (stream) {
		stream->device = device;
		stream->green = green;
		stream->sms = sms;
	}
	return enter(handle, stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags)
{
	CALL(cudaStreamCreateWithFlags);
	SAID(create(handle, flags, LEAST_PRIORITY));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority)
{
	CALL(cudaStreamCreateWithPriority);
	SAID(create(handle, flags, priority));
}

static cudaError_t destroy(cudaStream_t handle)
{
	struct fake_stream *stream = fake__handle(handle, FAKE_STREAM);

	if (!stream)
		return cudaErrorInvalidResourceHandle;
	fake__remove(stream);
	if (stream->green)
		fake__green_stream_gone(stream->green);
	end(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
	CALL(cudaStreamDestroy);
	SAID(destroy(handle));
}

/* Makes the legacy stream wait for other streams, like each operation on it does. */
static cudaError_t joined(cudaStream_t handle, struct fake_stream **streamp)
{
	const struct fake_op op = { .kind = FAKE_OP_WAIT };
	cudaError_t code = fake__stream_of(handle, streamp);

	if (code != cudaSuccess || *streamp != legacy)
		return code;
	return fake__issue(legacy, &op);
}

static cudaError_t query(cudaStream_t handle)
{
	struct fake_stream *stream, *s;
	cudaError_t code = fake__stream_of(handle, &stream);

	if (code == cudaSuccess)
		code = fake__capture_wait(stream);
	if (code != cudaSuccess)
		return code;
	if (stream->done != stream->issued)
		return cudaErrorNotReady;
	for (s = stream == legacy ? fake__streams : NULL; s; s = s->next) {
		if (s->blocking && s->done != s->issued)
			return cudaErrorNotReady;
	}
	return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	CALL(cudaStreamQuery);
	SAID(query(handle));
}

static cudaError_t synchronize(cudaStream_t handle)
{
	struct fake_stream *stream;
	cudaError_t code = joined(handle, &stream);

	if (code == cudaSuccess)
		code = fake__capture_wait(stream);
	if (code == cudaSuccess)
		code = fake__sync(stream);
	if (code == cudaSuccess)
		fake__pools_release();
	return code;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	CALL(cudaStreamSynchronize);
	SAID(synchronize(handle));
}

static cudaError_t set_attribute(cudaStream_t handle, cudaStreamAttrID attribute,
				 const cudaStreamAttrValue *value)
{
	struct fake_stream *stream;
	cudaError_t code = fake__stream_of(handle, &stream);

	if (code != cudaSuccess)
		return code;
	if (!value || attribute != cudaStreamAttributePriority)
		return cudaErrorInvalidValue;
	stream->priority = in_range(value->priority);
	return cudaSuccess;
}

cudaError_t cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID attribute,
				   const cudaStreamAttrValue *value)
{
	CALL(cudaStreamSetAttribute);
	SAID(set_attribute(handle, attribute, value));
}

int fake_stream_priority(void *handle)
{
	struct fake_stream *stream;
	int priority = 1;

	fake__init();
	fake__lock();
	if (fake__stream_of(handle, &stream) == cudaSuccess)
		priority = stream->priority;
	fake__unlock();
	return priority;
}

uint64_t fake_stream_id(void *handle)
{
	struct fake_stream *stream;
	uint64_t id = 0;

	fake__init();
	fake__lock();
	if (fake__stream_of(handle, &stream) == cudaSuccess)
		id = stream->id;
	fake__unlock();
	return id;
}

struct fake_sms fake_stream_sms(void *handle)
{
	struct fake_sms sms = { 0, 0 };
	struct fake_stream *stream;

	fake__init();
	fake__lock();
	if (fake__stream_of(handle, &stream) == cudaSuccess)
		sms = stream->green ? stream->sms : (struct fake_sms){ 0, fake__settings.nr_sms };
	fake__unlock();
	return sms;
}
