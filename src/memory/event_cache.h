/* SPDX-License-Identifier: MIT */
/*
 * Timed events for maps: an event is created when none is free, and reused.  Any thread may get and
 * put; a mutex is fast enough for rare calls.
 */
#ifndef RNL_EVENT_CACHE_H
#define RNL_EVENT_CACHE_H

#include <pthread.h>

#include "device/device.h"

struct rnl__event_cache {
	struct rnl__device *device;
	pthread_mutex_t lock;
	struct rnl__event **free;
	size_t nr_free, nr, space;	/* nr: created events; `free` has space for all of them */
};

void rnl__event_cache_init(struct rnl__event_cache *c, struct rnl__device *device);

/* All events must have been put. */
void rnl__event_cache_fini(struct rnl__event_cache *c);

/* Returns 0, -ENOMEM or the device's error. */
int rnl__event_cache_get(struct rnl__event_cache *c, struct rnl__event **eventp);
void rnl__event_cache_put(struct rnl__event_cache *c, struct rnl__event *event);

#endif
