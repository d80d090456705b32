/* SPDX-License-Identifier: MIT */
/* Code that the backends share; device.h has the design. */
#include "config.h"

#include <stdio.h>

#include "device/device.h"
#include "sys/atomic.h"
#include "sys/thread.h"

void rnl__device_fail(struct rnl__device *device, int code)
{
	int well = 0;

	/* relaxed: see rnl__device_failed() */
	atomic_compare_exchange_strong_explicit(device->failed, &well, code, memory_order_relaxed,
						memory_order_relaxed);
}

/* Counts a call that is slow in the driver, so that a test can check that no job makes one. */
static void device_note_slow(struct rnl__device *device, enum rnl__memory kind)
{
	rnl__figure_add_any(&device->nr_slow, 1);
	if (rnl__thread.guard && (kind == RNL__PINNED || kind == RNL__PRELOAD))
		rnl__thread.guard->found |= RNL__MADE_MEMORY;
}

int rnl__device_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp)
{
	RNL__UNCANCELLED();

	device_note_slow(device, kind);
	return device->ops->alloc(device, kind, bytes, memp);
}

void rnl__device_free(struct rnl__device *device, enum rnl__memory kind, void *mem)
{
	RNL__UNCANCELLED();

	if (!mem)
		return;
	device_note_slow(device, kind);
	device->ops->free(device, kind, mem);
}

int rnl__device_event(struct rnl__device *device, bool timed, struct rnl__event **eventp)
{
	RNL__UNCANCELLED();

	rnl__figure_add_any(&device->nr_slow, 1);
	return device->ops->event_create(device, timed, eventp);
}

const char *rnl__device_reason(const struct rnl__device *device, int code, char text[RNL__WHY_BYTES])
{
	text[0] = '\0';
	if (device->ops->reason)
		device->ops->reason(code, text);
	return text;
}

void rnl__device_name(const struct rnl__device *device, char name[RNL__DEVICE_NAME_BYTES])
{
	snprintf(name, RNL__DEVICE_NAME_BYTES, "%s:%d", device->info.cuda ? "cuda" : "host",
		 (int)device->info.ordinal);
}
