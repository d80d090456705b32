/* SPDX-License-Identifier: MIT */
/*
 * The figures of a pool's classes.
 *
 * DESIGN
 *	Submits and takers count in the class, in atomic words that order nothing.  The table's lock
 *	keeps a creation from clearing these words, and from writing another name, during a read.
 *	A class's share is its part of the device time of all classes since its creation.  When a
 *	class takes the place of one that has ended, the old one's device time goes to `ended_ns`,
 *	so the sum does not fall.
 */
#include "config.h"

#include "pool/classes.h"
#include "sys/abi.h"
#include "sys/text.h"

uint64_t rnl__classes_device_ns(struct rnl__classes *classes)
{
	uint64_t ns = classes->ended_ns;

	for (unsigned i = 0; i < RNL__CLASSES_NR; i++) {
		struct rnl_class *c = rnl__class_at(classes, i);

		ns += c ? rnl__figure_read(&c->device_ns) : 0;
	}
	return ns;
}

/* Reads a class, under the lock. */
static void read_figures(struct rnl__classes *classes, struct rnl_class *c,
			 struct rnl__class_figures *f)
{
	struct rnl_class_stats *now = &f->stats;

	*f = (struct rnl__class_figures){ .index = c->index };
	rnl__text_copy(f->name, sizeof(f->name), c->name);
	for (unsigned i = 0; c->index && i < c->nr_queues; i++)
		now->queued += rnl__figure_read(&rnl__class_queue(c, i)->nr);
	now->started = rnl__figure_read(&c->under_way);
	now->accepted = rnl__figure_read(&c->accepted);
	now->refused = rnl__figure_read(&c->refused);
	now->unadmitted = rnl__figure_read(&c->unadmitted);
	now->error_permille = (uint64_t)(1000 * rnl__figure_read(&c->error) + 0.5f);
	now->done = rnl__figure_read(&c->done);
	now->expired = rnl__figure_read(&c->expired);
	now->late = rnl__figure_read(&c->late);
	now->device_ns = rnl__figure_read(&c->device_ns);
	now->all_device_ns = rnl__classes_device_ns(classes) - c->all_before_ns;
	if (now->all_device_ns)
		now->share_permille = (uint32_t)(1000.0 * (double)now->device_ns /
						 (double)now->all_device_ns + 0.5);
	rnl__hist_add(&f->queue_wait, &c->queue_wait);
}

unsigned rnl__classes_figures(struct rnl_pool *pool, struct rnl__class_figures *list)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	unsigned nr = 0;

	if (!rnl__classes_any(pool))
		return 0;
	pthread_mutex_lock(&classes->lock);
	for (uint64_t bits = rnl__classes_used(classes); bits; bits &= bits - 1)
		read_figures(classes, rnl__class_at(classes, (unsigned)__builtin_ctzll(bits)), &list[nr++]);
	pthread_mutex_unlock(&classes->lock);
	return nr;
}

bool rnl__classes_name(struct rnl_pool *pool, uint32_t id, char name[RNL__CLASS_NAME])
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	struct rnl_class *c = rnl__class_at(classes, id % (1 << RNL__CLASS_ID_BITS));
	bool same;

	pthread_mutex_lock(&classes->lock);
	same = rnl__class_id(c) == id;
	if (same)
		rnl__text_copy(name, RNL__CLASS_NAME, c->name);
	pthread_mutex_unlock(&classes->lock);
	return same;
}

bool rnl__classes_crowded(struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	uint64_t bits = classes ? rnl__classes_used(classes) & ~UINT64_C(1) : 0;

	for (; bits; bits &= bits - 1) {
		struct rnl_class *c = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));
		const uint32_t most = rnl__figure_read(&c->max_queued);

		for (unsigned i = 0; i < c->nr_queues; i++)
			if (rnl__figure_read(&rnl__class_queue(c, i)->nr) >= most - most / 4)
				return true;
	}
	return false;
}

int rnl_class_read_stats(struct rnl_class *c, struct rnl_class_stats *stats)
{
	struct rnl__classes *classes;
	struct rnl__class_figures now;
	struct rnl_latency wait;
	int ret = c && stats ? rnl__pool_check(c->pool) :
			       rnl__invalid(NULL, "rnl_class_read_stats(): %s is NULL", c ? "stats" : "cls");

	if (ret)
		return ret;
	ret = rnl__check_out(stats, RNL__FIRST_CLASS_STATS);
	if (ret)
		return rnl__bad_struct(&c->pool->log, "rnl_class_read_stats()", "stats", stats, ret);
	classes = rnl__classes_of(c->pool);
	pthread_mutex_lock(&classes->lock);
	read_figures(classes, c, &now);
	pthread_mutex_unlock(&classes->lock);
	rnl__hist_latency(&now.queue_wait, &wait);
	now.stats.queue_timed = wait.nr;
	now.stats.queue_ns_p50 = wait.p50_ns;
	now.stats.queue_ns_p99 = wait.p99_ns;
	rnl__copy_out(stats, &now.stats, sizeof(now.stats));
	return 0;
}
