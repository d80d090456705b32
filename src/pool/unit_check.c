/* SPDX-License-Identifier: MIT */
/* Functions of units that include runnel/cuda.h; unit_check.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "device/backends.h"
#include "pool/unit_check.h"
#include "sys/symbol.h"
#include "sys/thread_state.h"

#define SYMBOL_BYTES 128

/* Messages that a pool has logged; each is logged once. */
enum { NOTIFIED_FAILED = 1, NOTIFIED_LEFT = 2, NOTIFIED_ABSENT = 4 };

void rnl__unit_check_init(struct rnl_pool *pool)
{
	pool->refuses = pool->stream == RNL_STREAM_PRIVATE ? RNL__UNITS_SILENT : 0;
	if (!rnl__pool_any_device(pool)->info.cuda)
		pool->refuses |= RNL__UNITS_NEED_CUDA;
}

bool rnl__unit_is_silent(rnl__function *fn)
{
	const uint32_t flags = rnl__units_find((const void *)(uintptr_t)fn);

	return flags & RNL__UNIT_KNOWN && !(flags & RNL__CUDA_UNIT_NAMES_STREAM);
}

static bool unit_is_refused(const struct rnl_pool *pool, uint32_t flags)
{
	return pool->refuses & RNL__UNITS_SILENT && flags & RNL__UNIT_KNOWN &&
	       !(flags & (RNL__CUDA_UNIT_NAMES_STREAM | RNL__UNIT_MODULE));
}

static bool unit_lacks_cuda(const struct rnl_pool *pool, uint32_t flags)
{
	return pool->refuses & RNL__UNITS_NEED_CUDA && flags & RNL__CUDA_UNIT_NEEDS_CUDA;
}

bool rnl__unit_looks_fit(const struct rnl_pool *pool, rnl__function *fn)
{
	const uint32_t flags = rnl__units_find((const void *)(uintptr_t)fn);

	return !unit_is_refused(pool, flags) && !unit_lacks_cuda(pool, flags);
}

int rnl__unit_refuse(struct rnl_pool *pool, const char *call, rnl__function *fn)
{
	if (!unit_lacks_cuda(pool, rnl__units_find((const void *)(uintptr_t)fn)))
		return rnl__invalid(&pool->log, "%s: the pool has private streams, and this unit does not "
				    "say that its CUDA calls name rnl_stream(). Pass rnl_stream() to each "
				    "CUDA call and <<<...>>>, and write #define RNL_NAMES_STREAM 1 before "
				    "#include <runnel/cuda.h>", call);
	rnl__pool_log(pool, RNL_LOG_ERROR, "%s: the pool is on the host device, and the function's unit "
		      "says that it needs CUDA (RNL_NEEDS_CUDA is 1). Create the pool with device "
		      "\"cuda\": if no GPU answers, the log says why", call);
	return -ENODEV;
}

/* Returns true if the pool has not logged this yet. */
static bool first_time(struct rnl_pool *pool, uint32_t what)
{
	/* relaxed: the bits order nothing */
	return !(atomic_fetch_or_explicit(&pool->unit_reported, what, memory_order_relaxed) & what);
}

static void unit_tell(struct rnl_pool *pool, uint32_t what, rnl__function *fn, int code)
{
	char name[SYMBOL_BYTES];

	if (!first_time(pool, what))
		return;
	rnl__symbol((const void *)(uintptr_t)fn, name, sizeof(name));
	switch (what) {
	case NOTIFIED_FAILED:
		rnl__pool_log(pool, RNL_LOG_ERROR, "%s() calls CUDA, which fails on this pool's host "
			      "device with CUDA error %d (%s): its job fails. Create the pool with device "
			      "\"cuda\"; for a function that works without a GPU, too, use rnl_copy() and "
			      "rnl_launch(); if it makes no CUDA calls there, write #define RNL_NEEDS_CUDA "
			      "0 before #include <runnel/cuda.h>", name, code, rnl__cuda_text(code));
		return;
	case NOTIFIED_LEFT:
		rnl__pool_log(pool, RNL_LOG_WARNING, "%s() leaves work on a GPU's stream, and its pool is "
			      "on the host device: the job waits for that work. Create the pool with "
			      "device \"cuda\"", name);
		return;
	default:
		rnl__pool_log(pool, RNL_LOG_WARNING, "CUDA does not answer (error %d, %s), and this process "
			      "has units that call it: such calls do nothing. %s() is in none of them, so "
			      "its job does not fail, even if it calls one of them. A pool with device "
			      "\"cuda\" is refused without a GPU", code, rnl__cuda_text(code), name);
	}
}

void rnl__unit_tell_failed(struct rnl__worker *w, rnl__function *fn, int code)
{
	static const char format[] = "%s: a CUDA call in it failed with CUDA error %d (%s), so its "
				     "job fails%s";
	char name[SYMBOL_BYTES + sizeof("()")] = "a function of a map or a batcher";
	char symbol[SYMBOL_BYTES], reason[RNL__WHY_BYTES];

	if (!rnl__log_admits(&w->pool->log, RNL_LOG_ERROR, format))
		return;
	if (fn) {
		rnl__symbol((const void *)(uintptr_t)fn, symbol, sizeof(symbol));
		snprintf(name, sizeof(name), "%s()", symbol);
	}
	rnl__pool_log(w->pool, RNL_LOG_ERROR, format, name, code, rnl__cuda_text(code),
		      rnl__device_reason(w->device, code, reason));
}

int rnl__unit_check_host(struct rnl__worker *w, rnl__function *fn, int ret)
{
	const uint32_t flags = rnl__units_find((const void *)(uintptr_t)fn);
	const bool raw = flags & RNL__UNIT_KNOWN && rnl__unit_is_raw(flags);
	bool lasting;
	int code;

	if (flags & RNL__CUDA_UNIT_RUNS_WITHOUT)
		return ret;
	code = rnl__units_error();
	lasting = code && rnl__units_error() == code;
	if (lasting && !raw) {
		if (!(flags & RNL__UNIT_KNOWN))
			unit_tell(w->pool, NOTIFIED_ABSENT, fn, code);
		return ret;
	}
	if (!code && raw && rnl__cuda_wait_thread(&code))
		unit_tell(w->pool, NOTIFIED_LEFT, fn, 0);
	if (!code)
		return ret;
	unit_tell(w->pool, NOTIFIED_FAILED, fn, code);
	rnl__thread.job->device_error = code;
	return ret < 0 ? ret : rnl__cuda_errno(code);
}
