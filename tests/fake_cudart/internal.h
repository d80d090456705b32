/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the parts of the double share. The caller holds fake__lock() unless a comment
 * says otherwise.
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include <runnel/kernel.h>

#include "fake_cudart.h"

/* ---- calls (call.c) ------------------------------------------------------ */

#define FAKE_FUNCTIONS(X) \
	X(cuCtxPopCurrent) \
	X(cuCtxPushCurrent) \
	X(cuDevResourceGenerateDesc) \
	X(cuDevSmResourceSplitByCount) \
	X(cuDeviceGet) \
	X(cuDeviceGetDevResource) \
	X(cuDevicePrimaryCtxRetain) \
	X(cuFuncGetAttribute) \
	X(cuFuncGetParamInfo) \
	X(cuGraphAddKernelNode) \
	X(cuGraphCreate) \
	X(cuGraphDestroy) \
	X(cuGraphExecDestroy) \
	X(cuGraphExecKernelNodeSetParams) \
	X(cuGraphInstantiateWithFlags) \
	X(cuGraphKernelNodeGetParams) \
	X(cuGraphLaunch) \
	X(cuGraphNodeSetEnabled) \
	X(cuGreenCtxCreate) \
	X(cuGreenCtxDestroy) \
	X(cuGreenCtxStreamCreate) \
	X(cuKernelGetFunction) \
	X(cuStreamWriteValue32) \
	X(cudaDeviceCanAccessPeer) \
	X(cudaDeviceGetAttribute) \
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
	X(cudaGraphAddMemcpyNode) \
	X(cudaGraphAddMemcpyNode1D) \
	X(cudaGraphAddMemsetNode) \
	X(cudaGraphDestroy) \
	X(cudaGraphExecDestroy) \
	X(cudaGraphGetNodes) \
	X(cudaGraphInstantiate) \
	X(cudaGraphLaunch) \
	X(cudaGraphMemcpyNodeGetParams) \
	X(cudaGraphMemsetNodeGetParams) \
	X(cudaGraphNodeGetType) \
	X(cudaHostAlloc) \
	X(cudaHostRegister) \
	X(cudaHostUnregister) \
	X(cudaLaunchKernel) \
	X(cudaLibraryGetKernel) \
	X(cudaLibraryLoadData) \
	X(cudaLibraryUnload) \
	X(cudaLogsRegisterCallback) \
	X(cudaLogsUnregisterCallback) \
	X(cudaMalloc) \
	X(cudaMallocFromPoolAsync) \
	X(cudaMemPoolCreate) \
	X(cudaMemPoolDestroy) \
	X(cudaMemPoolSetAccess) \
	X(cudaMemPoolSetAttribute) \
	X(cudaMemPoolTrimTo) \
	X(cudaMemcpy2DAsync) \
	X(cudaMemcpy3DPeerAsync) \
	X(cudaMemcpyAsync) \
	X(cudaMemcpyBatchAsync) \
	X(cudaMemcpyPeerAsync) \
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

/* Starts CUDA if it has not started; fake__call() calls this. */
void fake__init(void);

/* Begins a call, without the lock.  Returns its error by the plan and the device's state. */
cudaError_t fake__call(enum fake_function function);

/* Ends a runtime call, without the lock; keeps the thread's last error. */
cudaError_t fake__said(cudaError_t code);

/* Returns a log function of the driver by name, or NULL. */
void *fake__log_function(const char *name);

#define CALL(name) \
	do { \
		cudaError_t code_ = fake__call(FAKE_##name); \
		if (code_ != cudaSuccess) \
			return fake__said(code_); \
	} while (0)

/* Returns the value of @expression, computed under the lock. */
#define SAID(expression) \
	do { \
		cudaError_t code_; \
		fake__lock(); \
		code_ = (expression); \
		fake__unlock(); \
		return fake__said(code_); \
	} while (0)

/* Returns from a call of the driver, which does not change the runtime's last error. */
#define FAKE_DRIVER(name, expression) \
	do { \
		CUresult result_ = (CUresult)fake__call(FAKE_##name); \
		if (result_ != CUDA_SUCCESS) \
			return result_; \
		fake__lock(); \
		result_ = (expression); \
		fake__unlock(); \
		return result_; \
	} while (0)

void fake__lock(void);
void fake__unlock(void);
void fake__wait(pthread_cond_t *cond);	/* releases the lock meanwhile */

/* Returns the error that the device has failed with, or cudaSuccess. */
cudaError_t fake__failed(void);
void fake__fail(cudaError_t code);

/*
 * Enclose accesses to memory, because a caller that sees the device's failure may reuse memory.
 * fake__move() returns false if the device is about to fail.
 */
bool fake__move(void);
/* Returns true if the device has failed, or will when fake__fail() has waited for all moves. */
bool fake__fails(void);
void fake__moved(void);

__attribute__((format(printf, 1, 2))) void fake__misuse(const char *format, ...);
uint64_t fake__now(void);		/* ns */

/* ---- the plan (plan.c) --------------------------------------------------- */

#define FAKE_QUEUES_MAX 32u
#define FAKE_DEVICES_MAX 16
#define FAKE_SM_GROUP 8u		/* as on an H200 */

struct fake_settings {
	uint64_t seed;
	unsigned delay_calls_us, delay_ops_us, slice_us, nr_sms;
	uint64_t memory_bytes, pinned_bytes, nr_queues;
	int nr_devices, absent, compute_mode;
	bool no_writes, no_greens, mps, mig, logs, junk, stay, strangers, abort_on_misuse;
};
extern struct fake_settings fake__settings;
extern const char *const fake__names[FAKE_NR_FUNCTIONS];

/* Counts a call.  Returns its planned error; sets @sticky if the device fails with it. */
cudaError_t fake__planned(enum fake_function function, bool *sticky);
void fake__plan_init(void);
void fake__delay(unsigned up_to_us);	/* without the lock */
void fake__slice(void);			/* without the lock */

/* ---- live objects, by address (registry.c) ------------------------------- */

enum fake_kind { FAKE_DEVICE, FAKE_PINNED, FAKE_REGISTERED, FAKE_STREAM, FAKE_EVENT, FAKE_POOL, FAKE_GRAPH, FAKE_GRAPH_EXEC,
		 FAKE_KERNEL_GRAPH, FAKE_KERNEL_EXEC, FAKE_GREEN, FAKE_NR_KINDS };

struct fake_thing {
	uintptr_t begin;
	size_t bytes;
	enum fake_kind kind;
	void *what;
};

int fake__enter(void *begin, size_t bytes, enum fake_kind kind, void *what); /* 0 or -ENOMEM */
void fake__remove(const void *begin);
const struct fake_thing *fake__find(const void *address);	/* NULL: no object */
void *fake__handle(const void *handle, enum fake_kind kind);	/* NULL: a misuse */
unsigned fake__nr(enum fake_kind kind);
uint64_t fake__bytes(enum fake_kind kind);

/* ---- streams (stream.c, queue.c) ------------------------------------------ */

/*
 * Operations that a stream queues after the current one. One more operation blocks its caller.
 * Records, waits, allocations and frees do not count (measured).
 */
#define FAKE_DEPTH 1021u

struct fake_capture;
struct fake_green;
struct fake_stream;
struct fake_record;

/* A point in a stream, reached when the stream has done @nr operations. */
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
	FAKE_OP_WAIT,		/* only waits for its points */
	FAKE_OP_WRITE,
};

struct fake_area {
	const char *begin;
	size_t bytes;
};

struct fake_op {
	enum fake_op_kind kind;
	uint64_t serial;		/* counts the operations of all streams */
	unsigned nr_points;
	struct fake_point *points;	/* waited for, then freed, by the operation */
	struct fake_area uses[2];
	int to, from;			/* a copy's devices when it was issued */
	union {
		struct {
			char *dst;
			const char *src;
			size_t dst_pitch, src_pitch, width, rows;
			void *staged;	/* a copy of the source; NULL: none */
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
	struct fake_stream *next;	/* list of all streams */
	uint64_t id;
	int device;
	bool blocking;			/* the stream and the legacy stream wait for each other */
	bool ending;			/* no thread can issue operations any more */
	bool of_thread;			/* a per-thread default stream */
	bool running;			/* has an executor */
	int priority;
	struct fake_green *green;	/* its green context; NULL: the primary context */
	struct fake_sms sms;		/* the SMs of the green context */
	unsigned users;			/* its handle, its executor, points, waiters */
	uint64_t issued, done;
	uint64_t in_places;		/* unfinished operations that FAKE_DEPTH counts */
	pthread_cond_t more, progress;
	struct fake_capture *capture;	/* NULL: not being captured */
	struct fake_op *ops;		/* a ring */
	uint64_t nr_slots;
};
extern struct fake_stream *fake__streams;

cudaError_t fake__stream_of(cudaStream_t handle, struct fake_stream **streamp);
void fake__streams_init(void);		/* once, before all else; without the lock */
struct fake_stream *fake__legacy(void);		/* NULL: never used */
/* Creates a non-blocking stream of a green context. */
cudaError_t fake__stream_create(cudaStream_t *handle, int device, int priority,
				struct fake_green *green, struct fake_sms sms);
struct fake_stream *fake__stream_get(struct fake_stream *stream);
void fake__stream_put(struct fake_stream *stream);

/* Waits until the stream has space for an operation. Calls do this before they look anything up. */
cudaError_t fake__room(cudaStream_t handle, struct fake_stream **streamp);
/* Issues an operation; there must be space. Takes over the points only, also if it fails. */
cudaError_t fake__issue(struct fake_stream *stream, const struct fake_op *op);
/* Frees a stream's ring and the operations in it. */
void fake__drop_ops(struct fake_stream *stream);
uint64_t fake__last_serial(void);	/* last one issued to any stream */
/* Wait until the stream, or all streams, have done the operations issued before the call. */
cudaError_t fake__sync(struct fake_stream *stream);
cudaError_t fake__sync_all(void);
void fake__wake_all(void);

static inline bool fake__reached(const struct fake_point *point)
{
	return point->stream->done >= point->nr;
}

/* Execute an operation without the lock, and finish it with the lock. */
void fake__execute(struct fake_op *op);
void fake__finish(struct fake_op *op);
/* Returns true if an unfinished operation that was issued before @before uses the memory. */
bool fake__in_use(struct fake_area area, uint64_t before);

/* ---- captures (capture.c) --------------------------------------------------- */

/*
 * Return the error, during captures, of a use of the legacy stream, a wait for a stream, a wait for
 * the device, and an unsafe call (an allocation, for example).
 */
cudaError_t fake__capture_legacy(void);
cudaError_t fake__capture_wait(struct fake_stream *stream);
cudaError_t fake__capture_wait_all(void);
cudaError_t fake__capture_unsafe(void);
/* Capture an operation, a record, a wait for an event (@id: the event's capture, 0: none). */
cudaError_t fake__capture_op(struct fake_capture *capture, const struct fake_op *op);
cudaError_t fake__capture_record(struct fake_capture *capture);
cudaError_t fake__capture_wait_event(struct fake_stream *stream, uint64_t id);
uint64_t fake__capture_id(const struct fake_capture *capture);
enum cudaStreamCaptureMode fake__exchange_mode(enum cudaStreamCaptureMode mode);

/* ---- graphs of kernels (graph.c), the library's kernel (mover.c) ------------- */

/* Returns a graph function of the driver by name, or NULL. */
void *fake__graph_function(const char *name);
bool fake__fits(struct rnl_dim grid, struct rnl_dim block);	/* device.c; no lock needed */
const struct fake_kernel *fake__mover(void);
/* Returns the CUfunction of a captured kernel: always the same one for a host function. */
const struct fake_kernel *fake__kernel_of(void (*fn)(struct rnl_dim grid, struct rnl_dim block,
						     const void *args),
					  size_t bytes);
/* Returns the kernel of a cudaKernel_t, or NULL if @kernel is not one. */
const struct fake_kernel *fake__library_kernel(const void *kernel);
/* The runtime's calls for a graph that was built node by node, and for its executable graph. */
cudaError_t fake__built_instantiate(cudaGraphExec_t *exec, cudaGraph_t graph);
cudaError_t fake__built_launch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t fake__built_destroy(void *handle, enum fake_kind kind);
bool fake__is_kind(const void *handle, enum fake_kind kind);	/* false is not a misuse */
/* Returns @exec's operation of a captured node (capture.c), or NULL if it is not of its graph. */
struct fake_op *fake__captured(const void *exec, const void *node);
/* Returns the arguments of one launch of the mover, on the heap, or NULL if there is no memory. */
void *fake__mover_args(uint32_t nr, const void *moves, size_t *bytes);

/* ---- green contexts (green.c) ------------------------------------------------ */

void *fake__green_function(const char *name);	/* a function of the driver, or NULL */
void fake__green_stream_gone(struct fake_green *green);

/* ---- events (event.c) ------------------------------------------------------ */

void fake__record_reached(struct fake_record *record);
void fake__record_put(struct fake_record *record);

/* ---- memory (memory.c, pool.c) --------------------------------------------- */

int fake__device(void);				/* of the current context, or the thread's */
void fake__need_context(void);			/* enters a context; called without the lock */
void *fake__context_function(const char *name);	/* a driver's function, or NULL */
int fake__owner(const void *address);		/* the device of device memory; -1: none */
bool fake__reaches(int device, const void *address);	/* its own memory, and pools open to it */
/* Finds the type of memory.  The area must lie in one object. */
cudaError_t fake__memory_of(struct fake_area area, enum cudaMemoryType *type);
bool fake__is_device(const void *address);	/* allocated or free */
/* Counts a misuse if the memory is not allocated when the operation @serial uses it. */
void fake__check_use(struct fake_area area, uint64_t serial);
void fake__pools_release(void);			/* releases memory kept until a synchronisation */
uint64_t fake__kept_bytes(void);

#endif
