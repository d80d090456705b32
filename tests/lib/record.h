/* SPDX-License-Identifier: MIT */
/* The order in which jobs ran. */
#ifndef RECORD_H
#define RECORD_H

#include "pool.h"

struct record {
	_Atomic unsigned nr;
	int ids[1024];
};

struct noted {
	struct rnl_job job;
	struct record *record;
	int id;
};

/* To be called once by each job; more than fit are counted, not kept. */
static inline void note(struct record *record, int id)
{
	unsigned i = atomic_fetch_add(&record->nr, 1);

	if (i < COUNT(record->ids))
		record->ids[i] = id;
}

static inline int note_fn(struct rnl_job *job)
{
	struct noted *n = rnl_container_of(job, struct noted, job);

	note(n->record, n->id);
	return 0;
}

static inline void noted_of(struct noted *n, struct record *record, int id)
{
	n->record = record;
	n->id = id;
	job_of(&n->job, note_fn, NULL);
}

/* Its place in the order, from 0; -1 it did not run. */
static inline int place_of(const struct record *record, int id)
{
	for (unsigned i = 0; i < record->nr && i < COUNT(record->ids); i++) {
		if (record->ids[i] == id)
			return (int)i;
	}
	return -1;
}

#endif /* RECORD_H */
