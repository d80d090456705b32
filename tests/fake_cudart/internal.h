/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the double share.  Everything in here is under fake__lock()
 * unless it says otherwise.
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fake_cudart.h"

/* ---- calls (call.c) ------------------------------------------------------ */

#define FAKE_FUNCTIONS(X) \
	X(cuStreamWriteValue32) \
	X(cudaDeviceGetStreamPriorityRange) \
	X(cudaDeviceSynchronize) \
	X(cudaDriverGetVersion) \
	X(cudaEventCreateWithFlags) \
	X(cudaEventDestroy) \
	X(cudaEventElapsedTime) \
	X(cudaEventQuery) \
	X(cudaEventRecord) \
	X(cudaFree) \
	X(cudaFreeAsync) \
	X(cudaFreeHost) \
	X(cudaGetDevice) \
	X(cudaGetDeviceCount) \
	X(cudaGetDeviceProperties) \
	X(cudaGetDriverEntryPointByVersion) \
	X(cudaGraphDestroy) \
	X(cudaGraphExecDestroy) \
	X(cudaGraphGetNodes) \
	X(cudaGraphInstantiate) \
	X(cudaGraphLaunch) \
	X(cudaGraphMemcpyNodeGetParams) \
	X(cudaGraphNodeGetType) \
	X(cudaHostAlloc) \
	X(cudaLaunchKernel) \
	X(cudaMalloc) \
	X(cudaMallocFromPoolAsync) \
	X(cudaMemPoolCreate) \
	X(cudaMemPoolDestroy) \
	X(cudaMemPoolSetAttribute) \
	X(cudaMemPoolTrimTo) \
	X(cudaMemcpy2DAsync) \
	X(cudaMemcpyAsync) \
	X(cudaMemsetAsync) \
	X(cudaPointerGetAttributes) \
	X(cudaRuntimeGetVersion) \
	X(cudaSetDevice) \
	X(cudaStreamBeginCapture) \
	X(cudaStreamCreateWithFlags) \
	X(cudaStreamCreateWithPriority) \
	X(cudaStreamDestroy) \
	X(cudaStreamEndCapture) \
	X(cudaStreamQuery) \
	X(cudaStreamSetAttribute) \
	X(cudaStreamSynchronize) \
	X(cudaStreamWaitEvent) \
	X(cudaThreadExchangeStreamCaptureMode)

#define FAKE_ENUM(name) FAKE_##name,
enum fake_function { FAKE_FUNCTIONS(FAKE_ENUM) FAKE_NR_FUNCTIONS };

/* CUDA starts, if it has not yet; fake__call() does it. */
void fake__init(void);

/* What a call begins with, without the lock: what the plan and the device's state say. */
cudaError_t fake__call(enum fake_function function);

/* Every return of a runtime call, without the lock: keeps the thread's last error. */
cudaError_t fake__said(cudaError_t code);

#define CALL(name) \
	do { \
		cudaError_t code_ = fake__call(FAKE_##name); \
		if (code_ != cudaSuccess) \
			return fake__said(code_); \
	} while (0)

/* Returns what @expression, under the lock, comes to. */
#define SAID(expression) \
	do { \
		cudaError_t code_; \
		fake__lock(); \
		code_ = (expression); \
		fake__unlock(); \
		return fake__said(code_); \
	} while (0)

void fake__lock(void);
void fake__unlock(void);
void fake__wait(pthread_cond_t *cond);	/* gives the lock away meanwhile */

/* cudaSuccess, or the error that the device did not survive. */
cudaError_t fake__failed(void);
void fake__fail(cudaError_t code);

/*
 * Around what reads or changes memory: who hears that the device has failed may use that again.
 * False: it is about to fail.
 */
bool fake__move(void);
void fake__moved(void);

__attribute__((format(printf, 1, 2))) void fake__misuse(const char *format, ...);
uint64_t fake__now(void);		/* ns */

/* ---- the plan (plan.c) --------------------------------------------------- */

#define FAKE_QUEUES_MAX 32u

struct fake_settings {
	uint64_t seed;
	unsigned delay_calls_us, delay_ops_us;
	uint64_t memory_bytes, pinned_bytes, nr_queues;
	bool no_writes, logs, junk, stay, abort_on_misuse;
};
extern struct fake_settings fake__settings;
extern const char *const fake__names[FAKE_NR_FUNCTIONS];

/* That call is made now: what it fails with, and whether the device does. */
cudaError_t fake__planned(enum fake_function function, bool *sticky);
void fake__plan_init(void);
void fake__delay(unsigned up_to_us);	/* without the lock */

/* ---- what is alive, by address (registry.c) ------------------------------- */

enum fake_kind { FAKE_DEVICE, FAKE_PINNED, FAKE_STREAM, FAKE_EVENT, FAKE_POOL, FAKE_GRAPH, FAKE_GRAPH_EXEC,
		 FAKE_NR_KINDS };

struct fake_thing {
	uintptr_t begin;
	size_t bytes;
	enum fake_kind kind;
	void *what;
};

int fake__enter(void *begin, size_t bytes, enum fake_kind kind, void *what); /* 0, -ENOMEM */
void fake__remove(const void *begin);
const struct fake_thing *fake__find(const void *address);	/* NULL: nothing is there */
void *fake__handle(const void *handle, enum fake_kind kind);	/* NULL, and a misuse */
unsigned fake__nr(enum fake_kind kind);
uint64_t fake__bytes(enum fake_kind kind);

/* ---- streams (stream.c, queue.c) ------------------------------------------ */

/*
 * What a stream takes behind the operation that it is at; the next one holds its caller.
 * Records, waits, allocations and frees take no place (measured).
 */
#define FAKE_DEPTH 1021u

struct fake_capture;
struct fake_stream;
struct fake_record;

/* A point in a stream: reached when it has done that many operations. */
struct fake_point {
	struct fake_stream *stream;
	uint64_t nr;
};

enum fake_op_kind {
	FAKE_OP_ALLOC,
	FAKE_OP_COPY,
	FAKE_OP_FILL,
	FAKE_OP_FREE,
	FAKE_OP_LAUNCH,
	FAKE_OP_RECORD,
	FAKE_OP_WAIT,		/* only for its points */
	FAKE_OP_WRITE,
};

struct fake_area {
	const char *begin;
	size_t bytes;
};

struct fake_op {
	enum fake_op_kind kind;
	uint64_t serial;		/* among the operations of all streams */
	unsigned nr_points;
	struct fake_point *points;	/* to be waited for; the operation's own */
	struct fake_area uses[2];
	union {
		struct {
			char *dst;
			const char *src;
			size_t dst_pitch, src_pitch, width, rows;
			void *staged;	/* holds the source; NULL: it is its own */
		} copy;
		struct {
			char *dst;
			int value;
			size_t bytes;
		} fill;
		struct {
			void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args);
			struct rnl_dim grid, block;
			void *args;
			size_t bytes;	/* of args */
		} launch;
		struct {
			_Atomic uint32_t *word;
			uint32_t value;
		} write;
		struct fake_record *record;
		struct fake_area freed;
	};
};

struct fake_stream {
	struct fake_stream *next;	/* of all */
	uint64_t id;
	bool blocking;			/* waits for the legacy stream, as that for it */
	bool ending;			/* nobody can issue any more */
	bool of_thread;			/* a per-thread default stream */
	bool running;			/* has an executor */
	int priority;
	unsigned users;			/* its handle, its executor, points, who waits */
	uint64_t issued, done;
	uint64_t in_places;		/* of these, operations that take one */
	pthread_cond_t more, progress;
	struct fake_capture *capture;	/* NULL: it does what it is given */
	struct fake_op *ops;		/* a ring */
	uint64_t nr_slots;
};
extern struct fake_stream *fake__streams;

cudaError_t fake__stream_of(cudaStream_t handle, struct fake_stream **streamp);
void fake__streams_init(void);		/* once, before all else; without the lock */
struct fake_stream *fake__legacy(void);		/* NULL: never used */
struct fake_stream *fake__stream_get(struct fake_stream *stream);
void fake__stream_put(struct fake_stream *stream);

/* Waits until the stream takes an operation; comes before the lookups of a call. */
cudaError_t fake__room(cudaStream_t handle, struct fake_stream **streamp);
/* Issues it; there is room.  The points are taken over, after an error too; nothing else is. */
cudaError_t fake__issue(struct fake_stream *stream, const struct fake_op *op);
/* Frees a stream's queue, and what was not done of it. */
void fake__drop_ops(struct fake_stream *stream);
uint64_t fake__last_serial(void);	/* of what was issued last, by anybody */
/* Waits until the stream, or all of them, have done what was issued until now. */
cudaError_t fake__sync(struct fake_stream *stream);
cudaError_t fake__sync_all(void);
void fake__wake_all(void);

static inline bool fake__reached(const struct fake_point *point)
{
	return point->stream->done >= point->nr;
}

/* What an executor does, without the lock; and what is left to do, with it. */
void fake__execute(struct fake_op *op);
void fake__finish(struct fake_op *op);
/* Whether an operation issued before that one, and not done yet, uses that memory. */
bool fake__in_use(struct fake_area area, uint64_t before);

/* ---- captures (capture.c) --------------------------------------------------- */

/* What a call gets that uses the legacy stream; waits for a stream, or, NULL, for all; allocates. */
cudaError_t fake__capture_legacy(void);
cudaError_t fake__capture_wait(struct fake_stream *stream);
cudaError_t fake__capture_unsafe(void);
/* An operation, an event's record, a wait for an event (@id: of its capture, 0: none). */
cudaError_t fake__capture_op(struct fake_capture *capture, const struct fake_op *op);
cudaError_t fake__capture_record(struct fake_capture *capture);
cudaError_t fake__capture_wait_event(struct fake_stream *stream, uint64_t id);
uint64_t fake__capture_id(const struct fake_capture *capture);
/* The driver's functions for its log, by name; NULL: it has none. */
void *fake__log_function(const char *name);
/* The function that the thread calls now, for the log. */
extern _Thread_local enum fake_function fake__function;
enum cudaStreamCaptureMode fake__exchange_mode(enum cudaStreamCaptureMode mode);

/* ---- events (event.c) ------------------------------------------------------ */

void fake__record_reached(struct fake_record *record);
void fake__record_put(struct fake_record *record);

/* ---- memory (memory.c, pool.c) --------------------------------------------- */

/* Whose memory that is; all of an area must be of one thing. */
cudaError_t fake__memory_of(struct fake_area area, enum cudaMemoryType *type);
bool fake__is_device(const void *address);	/* whether it is allocated or not */
/* An operation is about to use it: has it been allocated by now? */
void fake__check_use(struct fake_area area, uint64_t serial);
void fake__pools_release(void);			/* what they keep no longer than to a sync */
uint64_t fake__kept_bytes(void);

#endif
