/* SPDX-License-Identifier: MIT */
/*
 * Timed events that are at hand: made when first needed, used again after.
 * Any thread; for what is done now and then, so under a mutex.
 */
#ifndef RNL_TIMERS_H
#define RNL_TIMERS_H

#include <pthread.h>

#include "device.h"

struct rnl__timers {
	struct rnl__device *device;
	pthread_mutex_t lock;
	struct rnl__event **free;
	unsigned nr_free;
	unsigned nr, room;		/* there is room to put all back that were made */
};

void rnl__timers_init(struct rnl__timers *t, struct rnl__device *device);

/* All were put back. */
void rnl__timers_fini(struct rnl__timers *t);

/* 0, or the device's error. */
int rnl__timers_get(struct rnl__timers *t, struct rnl__event **eventp);
void rnl__timers_put(struct rnl__timers *t, struct rnl__event *event);

#endif
