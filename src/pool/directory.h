/* SPDX-License-Identifier: MIT */
/*
 * The directory: names for pools that stay valid after the pool's end.
 *
 * DESIGN
 *	A pool has an entry from its creation to its end.  A name is an entry and its epoch, which
 *	is odd while the entry has a pool, and grows at both ends.  A thread with a name pins the
 *	entry, then compares the epoch.  If it is equal, the pool stays until the thread unpins it.
 *	A pool's end changes the epoch, then waits for pins.  A full barrier is between the two
 *	steps on both sides, so the thread sees the new epoch, or the end waits for the thread.
 *	Entries are never freed: there are as many as the process had pools at one time.
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

/* The name of a pool. */
struct rnl__name {
	uint32_t entry, epoch;
};

/* Enters a pool, and sets its name.  Returns 0 or -ENOMEM. */
int rnl__directory_enter(struct rnl_pool *pool, struct rnl__name *name);

/* At the pool's end: removes its name, and waits until no thread has it pinned. */
void rnl__directory_leave(struct rnl__name name);

/*
 * Finds the pool of a name.  Returns 0, then it stays until rnl__directory_unpin(); -ESTALE if it
 * has ended; -EINVAL if there never was such a pool.
 */
int rnl__directory_pin(struct rnl__name name, struct rnl_pool **pool);
void rnl__directory_unpin(struct rnl__name name);

#endif
