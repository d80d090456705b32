/* SPDX-License-Identifier: MIT */
/* Timed events, kept for the next use. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "timers.h"

void rnl__timers_init(struct rnl__timers *t, struct rnl__device *device)
{
	*t = (struct rnl__timers){ .device = device };
	pthread_mutex_init(&t->lock, NULL);
}

void rnl__timers_fini(struct rnl__timers *t)
{
	while (t->nr_free)
		t->device->ops->event_destroy(t->free[--t->nr_free]);
	free(t->free);
	pthread_mutex_destroy(&t->lock);
}

static int make_room(struct rnl__timers *t)
{
	unsigned room = t->room ? 2 * t->room : 32;
	struct rnl__event **all;

	if (t->nr < t->room)
		return 0;
	all = realloc(t->free, room * sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->free = all;
	t->room = room;
	return 0;
}

int rnl__timers_get(struct rnl__timers *t, struct rnl__event **eventp)
{
	int ret = 0;

	pthread_mutex_lock(&t->lock);
	if (t->nr_free) {
		*eventp = t->free[--t->nr_free];
	} else {
		ret = make_room(t);
		if (!ret)
			ret = rnl__device_event(t->device, true, eventp);
		t->nr += !ret;
	}
	pthread_mutex_unlock(&t->lock);
	return ret;
}

void rnl__timers_put(struct rnl__timers *t, struct rnl__event *event)
{
	if (!event)
		return;
	pthread_mutex_lock(&t->lock);
	t->free[t->nr_free++] = event;
	pthread_mutex_unlock(&t->lock);
}
