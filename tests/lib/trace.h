/* SPDX-License-Identifier: MIT */
/* A trace's file: its path and its text. */
#ifndef TRACE_H
#define TRACE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "suite.h"

/* set_path() and remove_file() are a test's .setup and .teardown. */
static char path[64];

static inline void set_path(void)
{
	snprintf(path, sizeof(path), "/tmp/trace.%d.json", (int)getpid());
}

static inline void remove_file(void)
{
	unlink(path);
}

/* Returns the whole file's text.  The caller frees it. */
static inline char *text_of(const char *name)
{
	struct stat st;
	int fd = open(name, O_RDONLY);
	char *text;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	text = calloc(1, (size_t)st.st_size + 1);
	ck_assert_int_eq(read(fd, text, (size_t)st.st_size), st.st_size);
	close(fd);
	return text;
}

static inline unsigned count(const char *text, const char *what)
{
	unsigned nr = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		nr++;
	return nr;
}

#endif /* TRACE_H */
