/* SPDX-License-Identifier: MIT */
/* A text in shared memory: a process posts it again and again, others read the last one. */
#ifndef HTTP_SERVER_POSTED_H
#define HTTP_SERVER_POSTED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define POSTED_MAX (256u << 10)

/* Zeros: none was posted. */
struct posted {
	atomic_uint nr;			/* how many were posted: texts[nr % 2] is the last one */
	struct posted_text {
		_Atomic uint32_t bytes;
		char text[POSTED_MAX];
	} texts[2];
};

/* Posts a text.  One that is longer than POSTED_MAX is left out, and the last one stays. */
void posted_write(struct posted *posted, const void *text, size_t bytes);

/* Return: a copy of the last text, which ends with a NUL; NULL: there is none, or no memory. */
char *posted_read(const struct posted *posted);

#endif
