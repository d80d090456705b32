/* SPDX-License-Identifier: MIT */
/* Timed events, kept for the next use. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "memory/event_cache.h"
#include "sys/array.h"

void rnl__event_cache_init(struct rnl__event_cache *c, struct rnl__device *device)
{
	*c = (struct rnl__event_cache){ .device = device };
	pthread_mutex_init(&c->lock, NULL);
}

void rnl__event_cache_fini(struct rnl__event_cache *c)
{
	while (c->nr_free)
		c->device->ops->event_destroy(c->free[--c->nr_free]);
	free(c->free);
	pthread_mutex_destroy(&c->lock);
}

/* Creates an event, and makes space for it in the list of free ones. */
static int make_event(struct rnl__event_cache *c, struct rnl__event **eventp)
{
	struct rnl__event **free = rnl__array_extend(c->free, c->nr, &c->space, sizeof(*free));
	int ret;

	if (!free)
		return -ENOMEM;
	c->free = free;
	ret = rnl__device_event(c->device, true, eventp);
	c->nr += !ret;
	return ret;
}

int rnl__event_cache_get(struct rnl__event_cache *c, struct rnl__event **eventp)
{
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	if (c->nr_free)
		*eventp = c->free[--c->nr_free];
	else
		ret = make_event(c, eventp);
	pthread_mutex_unlock(&c->lock);
	return ret;
}

void rnl__event_cache_put(struct rnl__event_cache *c, struct rnl__event *event)
{
	if (!event)
		return;
	pthread_mutex_lock(&c->lock);
	c->free[c->nr_free++] = event;
	pthread_mutex_unlock(&c->lock);
}
