/* SPDX-License-Identifier: MIT */
/* Threads with a stream of a pool: workers, and callers' threads; attach.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>

#include <runnel/thread.h>

#include "device/gather.h"
#include "pool/attach.h"
#include "pool/pool.h"
#include "stream/stream.h"
#include "sys/thread.h"
#include "sys/thread_state.h"

/* Detaches a thread that ends while it is attached; workers detach themselves. */
static pthread_key_t at_exit;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_result;

static void detach_at_exit(void *unused)
{
	(void)unused;
	rnl__stream_detach();
}

static void make_key(void)
{
	key_result = -pthread_key_create(&at_exit, detach_at_exit);
}

int rnl__attach_to(const struct rnl_pool *pool, struct rnl__device *device,
		   const struct rnl__stream_wish *wish, const char *what)
{
	const bool failed = rnl__device_failed(device);
	const int ret = rnl__stream_attach(device, wish);
	char name[RNL__DEVICE_NAME_BYTES], reason[RNL__WHY_BYTES];

	if (ret == -ENOTSUP && wish->sms) {
		rnl__pool_log(pool, RNL_LOG_ERROR, "%s: CUDA makes no stream that is limited to some "
			      "multiprocessors: leave the attribute kept_sms 0", what);
	} else if (ret && device->info.cuda && !failed) {
		rnl__device_name(device, name);
		rnl__pool_log(pool, RNL_LOG_ERROR, "%s: CUDA makes no stream on %s (%s)%s", what, name,
			      rnl_strerror(ret), rnl__device_reason(device, 0, reason));
	}
	/* Only a stream of the host device has a thread. */
	return ret && !device->info.cuda ? rnl__pool_no_thread(pool, what, ret) : ret;
}

void rnl__attach_end(void)
{
	rnl__stream_detach();
}

int rnl__attach_keep_sms(struct rnl_pool *pool, uint32_t nr, const char *call)
{
	char why[RNL__WHY_BYTES] = "the host device has no multiprocessors";
	int ret = 0;

	for (unsigned i = 0; i < pool->devices.nr && !ret; i++) {
		struct rnl__device *device = pool->devices.list[i];

		ret = device->ops->sms_create ?
			device->ops->sms_create(device, nr, why, &pool->sms[i]) : -ENOTSUP;
		if (!ret)
			rnl__pool_log(pool, RNL_LOG_INFO, "%s: %s are kept for classes; other pools "
				      "and the program's own streams still use all", call, why);
		else if (why[0])
			rnl__pool_log(pool, RNL_LOG_ERROR, "%s: kept_sms is %u: %s", call, nr, why);
	}
	return ret;
}

void rnl__attach_free_sms(struct rnl_pool *pool)
{
	for (unsigned i = 0; i < pool->devices.nr; i++) {
		if (pool->sms[i])
			pool->devices.list[i]->ops->sms_destroy(pool->sms[i]);
	}
}

/* Checks that the calling thread's stream is on a device of the pool. */
static int attach_stay(const struct rnl_pool *pool, const char *call, int refused)
{
	const struct rnl__device *device = rnl__thread.stream->device;
	char name[RNL__DEVICE_NAME_BYTES];

	if (rnl__pool_has(pool, device))
		return 0;
	rnl__device_name(device, name);
	return rnl__refused(&pool->log, refused, "%s: this thread is attached to %s, which the pool "
			    "does not have: call rnl_thread_attach(NULL) first, or use another thread", call,
			    name);
}

int rnl__attach_caller(struct rnl_pool *pool, const char *call, int refused)
{
	int ret;

	if (rnl__thread.stream && rnl__thread.generation == rnl__generation)
		return attach_stay(pool, call, refused);
	if (rnl__thread.worker)
		return rnl__refused(&pool->log, -ENODEV, "%s: a pool's timer thread, which calls "
				    "this callback, has no stream", call);
	pthread_once(&key_once, make_key);
	if (key_result)
		return -ENOMEM;
	ret = rnl__attach_to(pool, rnl__pool_any_device(pool),
			     &(struct rnl__stream_wish){ pool->stream, RNL__LEVEL_LOWEST, NULL, false }, call);
	if (ret)
		return ret;
	/* The destructor runs for any value but NULL. */
	if (pthread_setspecific(at_exit, &at_exit)) {
		rnl__stream_detach();
		return -ENOMEM;
	}
	return 0;
}

int rnl_thread_attach(struct rnl_pool *pool)
{
	RNL__UNCANCELLED();
	int ret;

	if (!pool) {
		if (!rnl__thread.worker)
			rnl__stream_detach();
		return 0;
	}
	ret = rnl__pool_check(pool);
	return ret ? ret : rnl__attach_caller(pool, "rnl_thread_attach()", -EBUSY);
}

void *rnl_stream(void)
{
	const struct rnl__stream *stream = rnl__thread.stream;

	if (!stream || rnl__thread.generation != rnl__generation)
		return NULL;
	/* The caller's own work must come after the work that was issued through the library. */
	rnl__gather_stop();
	rnl__notes_spoil("calls rnl_stream(), so it may call CUDA directly, which needs "
			 "RNL_REPLAY_CAPTURE");
	return stream->native;
}

struct rnl_worker_info rnl_worker(void)
{
	const struct rnl__worker *w = rnl__thread.worker;

	if (!w || w->index == RNL__TIMER)
		return (struct rnl_worker_info){ -1, -1, NULL };
	return (struct rnl_worker_info){ (int)w->index, (int)w->device_index, w->data };
}
