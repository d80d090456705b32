/* SPDX-License-Identifier: MIT */
/*
 * The host device's stream: a queue of operations.  A thread of the stream, the executor, performs
 * them in order, while the issuing thread goes on.
 *
 * DESIGN
 *	The stream behaves like a CUDA stream, so a program that forgets to join gets a wrong result
 *	here, too.  A full queue blocks the issuing thread, like CUDA's.
 *	A plain mutex and condition variables are fast enough: an operation moves kilobytes or more,
 *	and this is the reference for the CUDA device.
 *	An event counts its records.  A wait waits for the count that it found when it was issued.
 *
 *	Only the owner issues, waits and destroys.  Any thread may wait for events.
 */
#ifndef RNL_HOST_STREAM_H
#define RNL_HOST_STREAM_H

#include <runnel/kernel.h>

#include "device/device.h"

struct rnl__host_stream;

enum rnl__host_op_kind {
	RNL__HOST_COPY,
	RNL__HOST_FILL,
	RNL__HOST_LAUNCH,
	RNL__HOST_WRITE,
	RNL__HOST_RECORD,
	RNL__HOST_WAIT,
	RNL__HOST_FREE,
	RNL__HOST_STOP,
};

struct rnl__host_op {
	enum rnl__host_op_kind kind;
	union {
		struct rnl__copy copy;
		struct {
			void *dst;
			size_t bytes;
			uint8_t value;
		} fill;
		void *mem;		/* FREE: from rnl__host_memory_alloc() */
		struct {
			const struct rnl_kernel *kernel;
			struct rnl_dim grid, block;
			void *args;	/* a copy, freed by the executor */
		} launch;
		struct {
			_Atomic uint32_t *word;
			uint32_t value;
		} write;
		struct {
			struct rnl__event *event;
			uint64_t record;
		} event;		/* RECORD, WAIT */
	};
};

/* Returns 0, -ENOMEM, or -EAGAIN if no thread could be started. */
int rnl__host_stream_create(struct rnl__host_stream **streamp);

/* Waits for all operations, ends the executor and frees the stream. */
void rnl__host_stream_destroy(struct rnl__host_stream *stream);

/* Issues one operation. */
void rnl__host_stream_issue(struct rnl__host_stream *stream, const struct rnl__host_op *op);

bool rnl__host_stream_idle(struct rnl__host_stream *stream);

/* Returns 0 when idle, or -ETIMEDOUT. */
int rnl__host_stream_wait(struct rnl__host_stream *stream, uint64_t deadline);

int rnl__host_event_create(struct rnl__event **eventp);
int rnl__host_event_reached(struct rnl__event *event);

/* Returns the time when the last record was reached. */
uint64_t rnl__host_event_time(struct rnl__event *event);

/* Destroys an event; operations that were issued with it go on. */
void rnl__host_event_destroy(struct rnl__event *event);

/* Adds a use by the next operation.  Returns its record's number; for a wait, the last record's. */
uint64_t rnl__host_event_use(struct rnl__event *event, bool records);

#endif
