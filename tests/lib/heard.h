/* SPDX-License-Identifier: MIT */
/* Collects the library's log: all lines of a pool, one after the other. */
#ifndef HEARD_H
#define HEARD_H

#include <pthread.h>

#include "pool.h"

struct heard {
	pthread_mutex_t lock;
	size_t bytes;
	char text[4096];
};

static inline void hear_line(void *arg, enum rnl_log_level level, const char *msg)
{
	struct heard *heard = arg;
	int nr;

	(void)level;
	pthread_mutex_lock(&heard->lock);
	nr = snprintf(heard->text + heard->bytes, sizeof(heard->text) - heard->bytes, "%s\n", msg);
	if (nr > 0 && (size_t)nr < sizeof(heard->text) - heard->bytes)
		heard->bytes += (size_t)nr;
	pthread_mutex_unlock(&heard->lock);
}

static inline void hear(struct heard *heard, struct rnl_pool_attr *attr)
{
	*heard = (struct heard){ .lock = PTHREAD_MUTEX_INITIALIZER };
	attr->log = hear_line;
	attr->log_arg = heard;
}

static inline bool has_heard(struct heard *heard, const char *what)
{
	bool has;

	pthread_mutex_lock(&heard->lock);
	has = strstr(heard->text, what) != NULL;
	pthread_mutex_unlock(&heard->lock);
	return has;
}

#endif /* HEARD_H */
