/* SPDX-License-Identifier: MIT */
/*
 * What an object's symbols tell about the default stream that it uses.
 *
 * DESIGN
 * An object that was compiled for per-thread default streams imports the runtime's
 * calls by names with _ptsz or _ptds, any other by the plain names.  Symbols do not tell
 * whether a plain call is given a stream of its own.  They tell nothing where the runtime was
 * linked in statically, because its names are no imports then.
 */
#ifndef LINT_H
#define LINT_H

#include <stdbool.h>
#include <stddef.h>

enum lint_use {
	LINT_ALWAYS,		/* uses the legacy stream each time */
	LINT_STREAM_0,		/* uses it where the call's stream is 0 */
	LINT_NO_FORM,		/* as LINT_STREAM_0, and has no per-thread form */
	LINT_PER_THREAD,
	LINT_OTHER,		/* uses no stream */
};
#define LINT_USES LINT_OTHER	/* the uses whose names are kept */

/* lint_calls.c: what the import of a name means. */
enum lint_use lint_use_of(const char *name);

struct lint_names {
	char **names;		/* sorted, each once */
	size_t nr, room;
};

/* An object, or a member of an archive. */
struct lint_object {
	char *file, *member;	/* member: NULL: it is the file */
	struct lint_names uses[LINT_USES];
};

/*
 * lint_elf.c: gives each object of a file to @take, which owns it.  Prints on standard error
 * which files and members cannot be read, and why.
 * Return: false if something cannot be read.
 */
bool lint_read(const char *path, void (*take)(struct lint_object *object, void *arg), void *arg);

void lint_object_free(struct lint_object *object);

#endif /* LINT_H */
