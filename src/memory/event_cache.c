/* SPDX-License-Identifier: MIT */
/* Timed events, kept for the next use. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "memory/event_cache.h"

void rnl__event_cache_init(struct rnl__event_cache *t, struct rnl__device *device)
{
	*t = (struct rnl__event_cache){ .device = device };
	pthread_mutex_init(&t->lock, NULL);
}

void rnl__event_cache_fini(struct rnl__event_cache *t)
{
	while (t->nr_free)
		t->device->ops->event_destroy(t->free[--t->nr_free]);
	free(t->free);
	pthread_mutex_destroy(&t->lock);
}

static int make_space(struct rnl__event_cache *t)
{
	unsigned space = t->space ? 2 * t->space : 32;
	struct rnl__event **all;

	if (t->nr < t->space)
		return 0;
	all = realloc(t->free, space * sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->free = all;
	t->space = space;
	return 0;
}

int rnl__event_cache_get(struct rnl__event_cache *t, struct rnl__event **eventp)
{
	int ret = 0;

	pthread_mutex_lock(&t->lock);
	if (t->nr_free) {
		*eventp = t->free[--t->nr_free];
	} else {
		ret = make_space(t);
		if (!ret)
			ret = rnl__device_event(t->device, true, eventp);
		t->nr += !ret;
	}
	pthread_mutex_unlock(&t->lock);
	return ret;
}

void rnl__event_cache_put(struct rnl__event_cache *t, struct rnl__event *event)
{
	if (!event)
		return;
	pthread_mutex_lock(&t->lock);
	t->free[t->nr_free++] = event;
	pthread_mutex_unlock(&t->lock);
}
