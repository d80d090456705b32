/* SPDX-License-Identifier: MIT */
/* Records which jobs ran, and their order. */
#ifndef RECORD_H
#define RECORD_H

#include "pool.h"

/* A job that counts its runs. */
struct notified {
	struct rnl_job job;
	_Atomic int runs;
};

static inline int notified_fn(struct rnl_job *job)
{
	rnl_container_of(job, struct notified, job)->runs++;
	return 0;
}

static inline void notified_of(struct notified *t)
{
	t->runs = 0;
	job_of(&t->job, notified_fn, NULL);
}

struct record {
	_Atomic unsigned nr;
	int ids[1024];
};

struct noted {
	struct rnl_job job;
	struct record *record;
	int id;
};

/* Records a job's run; each job calls it once.  Entries that do not fit are only counted. */
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

/* Returns the position of a job in the order, from 0; -1: it did not run. */
static inline int place_of(const struct record *record, int id)
{
	for (unsigned i = 0; i < record->nr && i < COUNT(record->ids); i++) {
		if (record->ids[i] == id)
			return (int)i;
	}
	return -1;
}

#endif /* RECORD_H */
