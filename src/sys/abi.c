/* SPDX-License-Identifier: MIT */
/* Constants: the version, error texts, and reading and writing structs that grow. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/class.h>
#include <runnel/device.h>
#include <runnel/map.h>
#include <runnel/stats.h>
#include <runnel/trace.h>

#include "sys/abi.h"

#define GROWS(name, first) _Static_assert(sizeof(struct name) >= (first), #name " only grows")

GROWS(rnl_batcher_attr, RNL__FIRST_BATCHER_ATTR);
GROWS(rnl_batcher_stats, RNL__FIRST_BATCHER_STATS);
GROWS(rnl_class_attr, RNL__FIRST_CLASS_ATTR);
GROWS(rnl_class_stats, RNL__FIRST_CLASS_STATS);
GROWS(rnl_device_info, RNL__FIRST_DEVICE_INFO);
GROWS(rnl_health, RNL__FIRST_HEALTH);
GROWS(rnl_map, RNL__FIRST_MAP);
GROWS(rnl_map_report, RNL__FIRST_MAP_REPORT);
GROWS(rnl_pool_attr, RNL__FIRST_POOL_ATTR);
GROWS(rnl_pool_stats, RNL__FIRST_POOL_STATS);
GROWS(rnl_trace_attr, RNL__FIRST_TRACE_ATTR);

uint32_t rnl_version(void)
{
	return RNL_VERSION_MAJOR << 16 | RNL_VERSION_MINOR << 8 | RNL_VERSION_PATCH;
}

/* Returns the system's text for an errno, or NULL if the number is not an errno. */
static const char *system_text(int err)
{
#if HAVE_STRERRORDESC_NP
	return strerrordesc_np(err);
#elif defined(__GLIBC__)
	char unknown[64];
	const char *text = strerror_r(err, unknown, sizeof(unknown));

	return text == unknown ? NULL : text;
#else
	/* musl has one text for all numbers that are not an errno, such as INT_MAX. */
	const char *text = strerror(err);

	return !strcmp(text, strerror(INT_MAX)) ? NULL : text;
#endif
}

const char *rnl_strerror(int err)
{
	const char *text;

	/* -INT_MIN is not an int; no errno is near it. */
	switch (err > 0 ? -err : err) {
	case 0:			return "success";
	case -EINVAL:		return "invalid argument";
	case -ENOMEM:		return "out of memory";
	case -EAGAIN:		return "a limit is reached: try again later";
	case -EBUSY:		return "not possible while in use";
	case -ESTALE:		return "no longer valid";
	case -EALREADY:		return "already in that state";
	case -ESHUTDOWN:	return "closed for new work";
	case -ECANCELED:	return "cancelled";
	case -ETIMEDOUT:	return "timed out";
	case -ETIME:		return "would end after its deadline";
	case -ENODEV:		return "no such device";
	case -ENOTSUP:		return "not supported";
	case -EIO:		return "the device reported an error";
	case -E2BIG:		return "the program is newer than the library";
	case -EOWNERDEAD:	return "belongs to the parent of this forked process";
	}
	/* A job may return any errno; a number that is not an errno has no text. */
	text = err == INT_MIN ? NULL : system_text(err < 0 ? -err : err);
	return text ? text : "no known error";
}

int rnl__copy_in(void *dst, size_t size, const void *src, size_t min)
{
	const unsigned char *bytes = src;
	uint32_t have;

	memset(dst, 0, size);
	if (!src)
		return 0;
	memcpy(&have, src, sizeof(have));
	if (have < min || have > RNL__STRUCT_MAX)
		return -EINVAL;
	for (size_t i = size; i < have; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	memcpy(dst, src, have < size ? have : size);
	return 0;
}

int rnl__check_out(const void *dst, size_t min)
{
	uint32_t have;

	if (!dst)
		return -EINVAL;
	memcpy(&have, dst, sizeof(have));
	return have < min || have > RNL__STRUCT_MAX ? -EINVAL : 0;
}

void rnl__copy_out(void *dst, const void *src, size_t size)
{
	uint32_t have;

	memcpy(&have, dst, sizeof(have));
	if (have > size) {
		memset((char *)dst + size, 0, have - size);
	} else {
		size = have;
	}
	memcpy((char *)dst + sizeof(have), (const char *)src + sizeof(have), size - sizeof(have));
}
