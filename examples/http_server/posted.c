/* SPDX-License-Identifier: MIT */
/*
 * A text in shared memory: one process posts texts, other processes read the last text.
 *
 * DESIGN
 * There are two texts: the last text, and the text being written.  Even if the writer is stopped or
 * lost, the last text stays complete, and no reader waits.  A reader copies the last text.  If the
 * writer posted another text meanwhile, it may have overwritten the copied one: the reader retries.
 *
 * ORDERING
 * The writer stores nr, executes a fence, and overwrites the text before the last one.  The reader
 * copies a text, executes a fence, and loads nr.  So if it copied any byte of a newer text, it sees
 * that nr has changed.
 */
#include "config.h"

#include "posted.h"

#include <stdlib.h>
#include <string.h>

void posted_write(struct posted *posted, const void *text, size_t bytes)
{
	const unsigned nr = atomic_load(&posted->nr) + 1;
	struct posted_text *next = &posted->texts[nr % 2];

	if (bytes > sizeof(next->text))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store(&next->bytes, (uint32_t)bytes);
	memcpy(next->text, text, bytes);
	atomic_store(&posted->nr, nr);
}

/* Returns a copy, which may be inconsistent if the writer is active; NULL: out of memory. */
static char *copy_of(const struct posted_text *posted)
{
	const uint32_t bytes = atomic_load(&posted->bytes);
	char *copy = malloc((size_t)bytes + 1);

	if (copy) {
		memcpy(copy, posted->text, bytes);
		copy[bytes] = '\0';
	}
	return copy;
}

char *posted_read(const struct posted *posted)
{
	unsigned nr = atomic_load(&posted->nr);

	while (nr) {
		char *copy = copy_of(&posted->texts[nr % 2]);
		unsigned now;

		atomic_thread_fence(memory_order_seq_cst);
		now = atomic_load(&posted->nr);
		if (now == nr || !copy)
			return copy;
		free(copy);
		nr = now;
	}
	return NULL;
}
