/* SPDX-License-Identifier: MIT */
/*
 * The parts that all calls of the double share: the lock, the thread's last error, the device's
 * failure, forks, misuses.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define LISTENERS_MAX 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool forked;		/* after CUDA had started: it does not survive a fork */
static _Atomic int sticky;		/* the error with which the device has failed; 0: none */
static bool fails;			/* no move begins; after the last one sticky is set */
static unsigned nr_moving;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static _Thread_local cudaError_t last;

static _Thread_local enum fake_function function_now;

static uint64_t nr_misuses;
static char last_misuse[200];

void fake__lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake__unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fake__wait(pthread_cond_t *cond)
{
	pthread_cond_wait(cond, &lock);
}

uint64_t fake__now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- errors -------------------------------------------------------------- */

cudaError_t fake__failed(void)
{
	return (cudaError_t)sticky;
}

bool fake__fails(void)
{
	return fails;
}

bool fake__move(void)
{
	nr_moving += !fails;
	return !fails;
}

void fake__moved(void)
{
	nr_moving--;
	pthread_cond_broadcast(&moved);
}

void fake__fail(cudaError_t code)
{
	fails = true;
	while (nr_moving)
		fake__wait(&moved);
	if (sticky)
		return;
	sticky = (int)code;
	fake__wake_all();
}

void fake_fail_sticky(int code)
{
	fake__lock();
	fake__fail((cudaError_t)code);
	fake__unlock();
}

/* ---- the driver's log ---------------------------------------------------- */

#if CUDART_VERSION < 12090
typedef int cudaLogLevel;
#define cudaLogLevelError 0
typedef void (*cudaLogsCallback_t)(void *data, cudaLogLevel level, char *message, size_t length);
typedef struct CUlogsCallbackEntry_st *cudaLogsCallbackHandle;

cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t fn, void *data, cudaLogsCallbackHandle *handle);
cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle);
#endif

static struct listener {
	cudaLogsCallback_t fn;		/* NULL: unused */
	void *data;
} listeners[LISTENERS_MAX];

/* Held while listeners are called (seen): a call in a listener would wait for ever. */
static pthread_mutex_t listening = PTHREAD_MUTEX_INITIALIZER;

cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t fn, void *data, cudaLogsCallbackHandle *handle)
{
	cudaError_t code = cudaErrorInvalidValue;

	CALL(cudaLogsRegisterCallback);
	pthread_mutex_lock(&listening);
	for (struct listener *l = listeners; fn && l < listeners + LISTENERS_MAX; l++) {
		if (l->fn)
			continue;
		*l = (struct listener){ fn, data };
		if (handle)
			*handle = (cudaLogsCallbackHandle)(void *)l;
		code = cudaSuccess;
		break;
	}
	pthread_mutex_unlock(&listening);
	return fake__said(code);
}

cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle)
{
	struct listener *l = (struct listener *)(void *)handle;

	CALL(cudaLogsUnregisterCallback);
	if (!l || !l->fn) {
		fake__misuse("a log callback that is not registered is unregistered");
		return cudaErrorInvalidValue;
	}
	pthread_mutex_lock(&listening);
	l->fn = NULL;
	pthread_mutex_unlock(&listening);
	return cudaSuccess;
}

unsigned fake_listeners(void)
{
	unsigned nr = 0;

	pthread_mutex_lock(&listening);
	for (unsigned i = 0; i < LISTENERS_MAX; i++)
		nr += listeners[i].fn != NULL;
	pthread_mutex_unlock(&listening);
	return nr;
}

/* The driver's functions, which return the same codes. */
void *fake__log_function(const char *name)
{
	if (!fake__settings.logs)
		return NULL;
	return !strcmp(name, "cuLogsRegisterCallback") ? (void *)cudaLogsRegisterCallback :
	       !strcmp(name, "cuLogsUnregisterCallback") ? (void *)cudaLogsUnregisterCallback : NULL;
}

__attribute__((format(printf, 1, 2)))
static void call_listeners(const char *format, ...)
{
	char message[128];
	va_list args;
	size_t length;

	va_start(args, format);
	length = (size_t)vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	for (unsigned i = 0; i < LISTENERS_MAX; i++) {
		if (listeners[i].fn)
			listeners[i].fn(listeners[i].data, cudaLogLevelError, message, length);
	}
}

/* As seen: no reason for a lack of memory. */
static void log_failed(cudaError_t code)
{
	pthread_mutex_lock(&listening);
	if (code != cudaErrorMemoryAllocation)
		call_listeners("the double does not like this call");
	call_listeners("Returning %d (CUDA_ERROR_%d) from %s", (int)code, (int)code,
		       fake__names[function_now]);
	pthread_mutex_unlock(&listening);
}

/* "Not ready" is not an error (measured). */
cudaError_t fake__said(cudaError_t code)
{
	if (code == cudaSuccess || code == cudaErrorNotReady)
		return code;
	last = code;
	if (fake__settings.logs && !forked)
		log_failed(code);
	return code;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t code = last;

	fake__init();
	/* Seen: without a driver the call returns this error, whatever call came before. */
	if (fake__settings.absent)
		return (cudaError_t)fake__settings.absent;
	last = cudaSuccess;
	return code;
}

const char *cudaGetErrorString(cudaError_t code)
{
	return code == cudaSuccess ? "no error" : "an error of the double";
}

/* ---- misuses ------------------------------------------------------------- */

void fake__misuse(const char *format, ...)
{
	va_list args;

	nr_misuses++;
	va_start(args, format);
	vsnprintf(last_misuse, sizeof(last_misuse), format, args);
	va_end(args);
	if (!fake__settings.abort_on_misuse)
		return;
	fprintf(stderr, "fake_cudart: %s\n", last_misuse);
	abort();
}

uint64_t fake_misuses(void)
{
	uint64_t nr;

	fake__lock();
	nr = nr_misuses;
	fake__unlock();
	return nr;
}

const char *fake_last_misuse(void)
{
	return last_misuse;
}

/* ---- a call -------------------------------------------------------------- */

static void in_child(void)
{
	forked = true;
}

/* Calls that use no context work after the device has failed (measured). */
static bool survives(enum fake_function function)
{
	switch (function) {
	case FAKE_cuCtxPopCurrent:
	case FAKE_cuCtxPushCurrent:
	case FAKE_cuDevResourceGenerateDesc:
	case FAKE_cuDevSmResourceSplitByCount:
	case FAKE_cuDeviceGet:
	case FAKE_cuDeviceGetDevResource:
	case FAKE_cuDevicePrimaryCtxRetain:
	case FAKE_cudaDeviceGetAttribute:
	case FAKE_cudaDriverGetVersion:
	case FAKE_cudaGetDevice:
	case FAKE_cudaGetDeviceCount:
	case FAKE_cudaGetDeviceProperties:
	case FAKE_cudaGetDriverEntryPointByVersion:
	case FAKE_cudaMemPoolDestroy:
	case FAKE_cudaDeviceCanAccessPeer:
	case FAKE_cudaMemPoolSetAccess:
	case FAKE_cudaMemPoolSetAttribute:
	case FAKE_cudaMemPoolTrimTo:
	case FAKE_cudaPointerGetAttributes:
	case FAKE_cudaSetDevice:
	case FAKE_cudaThreadExchangeStreamCaptureMode:
		return true;
	default:
		return false;
	}
}

/* Returns false for runtime calls that make no context (documented), and for all driver calls. */
static bool needs_context(enum fake_function function)
{
	switch (function) {
	case FAKE_cudaDeviceGetAttribute:
	case FAKE_cudaDriverGetVersion:
	case FAKE_cudaGetDevice:
	case FAKE_cudaGetDeviceCount:
	case FAKE_cudaGetDeviceProperties:
	case FAKE_cudaGetDriverEntryPointByVersion:
	case FAKE_cudaRuntimeGetVersion:
	case FAKE_cudaDeviceCanAccessPeer:
	case FAKE_cudaSetDevice:
	case FAKE_cudaThreadExchangeStreamCaptureMode:
		return false;
	default:
		return fake__names[function][2] == 'd';
	}
}

static void init(void)
{
	fake__streams_init();
	pthread_atfork(NULL, NULL, in_child);
	fake__plan_init();
}

void fake__init(void)
{
	pthread_once(&once, init);
}

cudaError_t fake__call(enum fake_function function)
{
	bool lasting = false;
	cudaError_t code;

	/* Before the lock is taken: a thread of the parent may have held it at the fork. */
	if (forked)
		return cudaErrorInitializationError;
	function_now = function;
	fake__init();
	if (fake__settings.absent)
		return (cudaError_t)fake__settings.absent;
	fake__delay(fake__settings.delay_calls_us);
	fake__lock();
	code = fake__planned(function, &lasting);
	if (code != cudaSuccess && lasting)
		fake__fail(code);
	if (sticky && !survives(function))
		code = fake__failed();
	fake__unlock();
	if (code == cudaSuccess && needs_context(function))
		fake__need_context();
	return code;
}

void fake_alive(struct fake_alive *alive)
{
	const struct fake_stream *s;

	fake__lock();
	*alive = (struct fake_alive){
		.device_bytes = fake__bytes(FAKE_DEVICE),
		.kept_bytes = fake__kept_bytes(),
		.pinned_bytes = fake__bytes(FAKE_PINNED) + fake__bytes(FAKE_REGISTERED),
		.streams = fake__nr(FAKE_STREAM),
		.events = fake__nr(FAKE_EVENT),
		.pools = fake__nr(FAKE_POOL),
		.graphs = fake__nr(FAKE_GRAPH) + fake__nr(FAKE_GRAPH_EXEC) +
			  fake__nr(FAKE_KERNEL_GRAPH) + fake__nr(FAKE_KERNEL_EXEC),
		.greens = fake__nr(FAKE_GREEN),
	};
	for (s = fake__streams; s; s = s->next) {
		alive->executors += s->running;
		alive->thread_streams += s->of_thread && !s->ending;
	}
	fake__unlock();
}
