/* SPDX-License-Identifier: MIT */
/* A text in shared memory: one process posts texts, other processes read the last text. */
#ifndef HTTP_SERVER_POSTED_H
#define HTTP_SERVER_POSTED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define POSTED_MAX (256u << 10)

/* All zero: no text was posted. */
struct posted {
	atomic_uint nr;			/* number of posted texts; the last one is texts[nr % 2] */
	struct posted_text {
		_Atomic uint32_t bytes;
		char text[POSTED_MAX];
	} texts[2];
};

/* Posts a text.  A text longer than POSTED_MAX is ignored: the last one stays. */
void posted_write(struct posted *posted, const void *text, size_t bytes);

/* Returns a copy of the last text, with a NUL at its end; NULL: no text, or out of memory. */
char *posted_read(const struct posted *posted);

#endif
