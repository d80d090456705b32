/* SPDX-License-Identifier: MIT */
/*
 * The directory: names for pools that stay valid after the pool's end.
 *
 * DESIGN
 *	A pool has an entry from its creation to its end.  A name is an entry and its epoch.  Each
 *	enter and each leave adds 1 to the epoch, so it is odd while a pool has the entry.  A thread
 *	with a name pins the entry, then compares the epochs.  If they are equal, the pool stays
 *	until the unpin.
 *	A pool's end changes the epoch, then waits for pins.  A full barrier is between the two
 *	steps on both sides, so the thread sees the new epoch, or the end waits for the thread.
 *	Entries are reused, never freed.  More are made only if more pools exist at once than ever
 *	before.
 *	Model: tests/model/hold.pml.
 *
 *			enter	leave	pin	unpin
 *	enter		-	-	-	-
 *	leave		-	X	-	-	X: only of different pools
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

/* At the pool's end: removes its name, and waits until no thread has the entry pinned. */
void rnl__directory_leave(struct rnl__name name);

/*
 * Finds the pool of a name.  Returns 0, and the pool stays until rnl__directory_unpin(); -ESTALE if
 * the pool has ended; -EINVAL if no pool ever had this name.
 */
int rnl__directory_pin(struct rnl__name name, struct rnl_pool **pool);
void rnl__directory_unpin(struct rnl__name name);

#endif
