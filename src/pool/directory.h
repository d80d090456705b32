/* SPDX-License-Identifier: MIT */
/*
 * The directory: names for pools that stay valid after the pool's end.
 *
 * DESIGN
 *	A pool has an entry from its creation to its end.  A name is an entry and its epoch, which is
 *	odd while the entry has a pool, and counts on at both ends.  A thread that has a name pins the
 *	entry, then compares the epoch: if it is the same, the pool stays until the thread unpins it.
 *	The end of a pool changes the epoch, then waits until nothing is pinned.  A full barrier stands
 *	between the two steps on both sides: so the thread finds the epoch changed, or is waited for.
 *	Entries are never freed: there are as many as the process had pools at once.
 *	Model: tests/model/hold.pml.
 *
 *			enter	leave	pin	unpin
 *	enter		-	-	-	-
 *	leave		-	X	-	-	X: of one pool
 *	pin, unpin	-	-	-	-
 */
#ifndef RNL_DIRECTORY_H
#define RNL_DIRECTORY_H

#include <stdint.h>

struct rnl_pool;

/* A pool, by name. */
struct rnl__name {
	uint32_t entry, epoch;
};

/* Enters a pool, which gets a name: 0, or -ENOMEM. */
int rnl__directory_enter(struct rnl_pool *pool, struct rnl__name *name);

/* The pool's end: takes its name away, and waits until no thread has it pinned. */
void rnl__directory_leave(struct rnl__name name);

/*
 * Finds the pool of a name: 0, and it stays until rnl__directory_unpin(); -ESTALE it has ended; -EINVAL
 * there never was such a pool.
 */
int rnl__directory_pin(struct rnl__name name, struct rnl_pool **pool);
void rnl__directory_unpin(struct rnl__name name);

#endif
