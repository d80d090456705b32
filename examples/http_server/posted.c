/* SPDX-License-Identifier: MIT */
/*
 * A text in shared memory: a process posts it again and again, others read the last one.
 *
 * DESIGN
 * There are two texts: the last one, and the one that is written.  The writer may be stopped, or
 * lost, at any time: the last text stays whole, and no one waits.  A reader copies the last one,
 * and copies again if another was posted meanwhile, for then the writer may have been in its text.
 *
 * ORDERING
 * The writer stores nr, passes a fence, and writes the text that was the last one before.  The
 * reader copies a text, passes a fence, and loads nr.  So if it copied any byte of a newer text, it
 * sees that nr has changed.
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

/* Return: what the text is now, though the writer may be in it; NULL: no memory. */
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
