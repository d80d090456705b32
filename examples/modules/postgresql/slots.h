/* SPDX-License-Identifier: MIT */
/* The requests of backends to the background worker: slots in PostgreSQL's shared memory. */
#ifndef RUNNEL_POSTGRESQL_H
#define RUNNEL_POSTGRESQL_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/latch.h"

enum { NR_SLOTS = 128, TEXT_MAX = 65536 };

/*
 * FREE -backend-> TAKEN -backend-> FULL -worker-> RUNNING -worker-> DONE -backend-> FREE
 * A backend that leaves frees its slot, or abandons it if it is RUNNING: the worker frees it then.
 */
enum slot_state { FREE, TAKEN, FULL, RUNNING, DONE, ABANDONED };

struct shared {
	Latch *worker;			/* NULL until the first one runs */
	struct slot {
		pg_atomic_uint32 state;	/* decides who may use the other fields and the text */
		Latch *backend;
		uint32 bytes, sum;
		int result;		/* 0, or of runnel */
	} slots[NR_SLOTS];
	char texts[NR_SLOTS][TEXT_MAX];
};

extern struct shared *shared;
extern char *runnel_device;

/* Returns whether the slot was in the state `from`. It is a full barrier. */
static inline bool turn(struct slot *slot, uint32 from, uint32 to)
{
	return pg_atomic_compare_exchange_u32(&slot->state, &from, to);
}

#endif /* RUNNEL_POSTGRESQL_H */
