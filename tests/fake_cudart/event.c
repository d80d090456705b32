/* SPDX-License-Identifier: MIT */
/*
 * Events.
 *
 * DESIGN
 *	An event is its last record: a point in a stream, and the time when it was reached.
 *	Recording again replaces it; a wait for the earlier record keeps that record's point. So an
 *	event may be destroyed while a stream waits for it.
 */
#include <stdlib.h>

#include "internal.h"

struct fake_record {
	struct fake_point point;
	uint64_t reached_at;
	unsigned users;			/* the event, the operation */
};

struct event {
	struct fake_record *last;	/* NULL: never recorded */
	int device;
	bool timed;
	uint64_t captured;		/* capture that recorded the event; 0: none */
};

void fake__record_put(struct fake_record *record)
{
	if (!record || --record->users)
		return;
	fake__stream_put(record->point.stream);
	free(record);
}

void fake__record_reached(struct fake_record *record)
{
	record->reached_at = fake__now();
	fake__record_put(record);
}

static bool reached(const struct event *event)
{
	return !event->last || fake__reached(&event->last->point);
}

/* ---- calls --------------------------------------------------------------- */

static cudaError_t create(cudaEvent_t *handle, unsigned flags)
{
	const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
	struct event *event;

	if (!handle || flags & ~known)
		return cudaErrorInvalidValue;
	event = calloc(1, sizeof(*event));
	if (!event || fake__enter(event, sizeof(*event), FAKE_EVENT, event)) {
		free(event);
		return cudaErrorMemoryAllocation;
	}
	event->timed = !(flags & cudaEventDisableTiming);
	event->device = fake__device();
	*handle = (cudaEvent_t)event;
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags)
{
	CALL(cudaEventCreateWithFlags);
	SAID(create(handle, flags));
}

static cudaError_t destroy(cudaEvent_t handle)
{
	struct event *event = fake__handle(handle, FAKE_EVENT);

	if (!event)
		return cudaErrorInvalidResourceHandle;
	fake__remove(event);
	fake__record_put(event->last);
	free(event);
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
	CALL(cudaEventDestroy);
	SAID(destroy(handle));
}

static cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle)
{
	struct fake_op op = { .kind = FAKE_OP_RECORD };
	struct fake_stream *stream;
	struct fake_record *new;
	struct event *event;
	cudaError_t code;

	code = fake__stream_of(stream_handle, &stream);
	if (code != cudaSuccess)
		return code;
	event = fake__handle(handle, FAKE_EVENT);
	if (!event || event->device != stream->device)
		return cudaErrorInvalidResourceHandle;
	event->captured = stream->capture ? fake__capture_id(stream->capture) : 0;
	if (stream->capture)
		return fake__capture_record(stream->capture);
	new = calloc(1, sizeof(*new));
	if (!new)
		return cudaErrorMemoryAllocation;
	op.record = new;
	new->users = 2;
	new->point = (struct fake_point){ fake__stream_get(stream), stream->issued + 1 };
	code = fake__issue(stream, &op);
	if (code != cudaSuccess) {
		new->users = 1;
		fake__record_put(new);
		return code;
	}
	fake__record_put(event->last);
	event->last = new;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
	CALL(cudaEventRecord);
	SAID(record(handle, stream));
}

static cudaError_t query(cudaEvent_t handle)
{
	struct event *event = fake__handle(handle, FAKE_EVENT);
	cudaError_t code = fake__capture_unsafe();

	if (code != cudaSuccess)
		return code;
	if (!event)
		return cudaErrorInvalidResourceHandle;
	if (event->captured)
		return cudaErrorCapturedEvent;
	return reached(event) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
	CALL(cudaEventQuery);
	SAID(query(handle));
}

static cudaError_t elapsed(float *ms, cudaEvent_t from_handle, cudaEvent_t to_handle)
{
	struct event *from = fake__handle(from_handle, FAKE_EVENT);
	struct event *to = fake__handle(to_handle, FAKE_EVENT);

	if (!ms)
		return cudaErrorInvalidValue;
	if (!from || !to || from->device != to->device || !from->timed || !to->timed || !from->last || !to->last)
		return cudaErrorInvalidResourceHandle;
	if (!reached(from) || !reached(to))
		return cudaErrorNotReady;
	*ms = (float)((double)(int64_t)(to->last->reached_at - from->last->reached_at) / 1e6);
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	CALL(cudaEventElapsedTime);
	SAID(elapsed(ms, from, to));
}

static cudaError_t wait_event(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags)
{
	struct fake_op op = { .kind = FAKE_OP_WAIT };
	struct fake_stream *stream;
	struct event *event;
	cudaError_t code;

	if (flags)
		return cudaErrorInvalidValue;
	code = fake__stream_of(stream_handle, &stream);
	if (code != cudaSuccess)
		return code;
	event = fake__handle(handle, FAKE_EVENT);
	if (!event)
		return cudaErrorInvalidResourceHandle;
	if (event->captured || stream->capture)
		return fake__capture_wait_event(stream, event->captured);
	if (!reached(event)) {
		op.points = malloc(sizeof(*op.points));
		if (!op.points)
			return cudaErrorMemoryAllocation;
		*op.points = event->last->point;
		fake__stream_get(op.points->stream);
		op.nr_points = 1;
	}
	return fake__issue(stream, &op);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags)
{
	CALL(cudaStreamWaitEvent);
	SAID(wait_event(stream, handle, flags));
}
