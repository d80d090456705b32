/* SPDX-License-Identifier: MIT */
/*
 * Finds the default stream that an object uses, by the object's symbols.
 *
 * DESIGN
 * An object that was compiled for per-thread default streams imports the runtime's calls by
 * names with _ptsz or _ptds; any other object imports the plain names.  Symbols do not show
 * whether a plain call passes a stream of its own.  The library's calls do, by their plain names:
 * its objects, and what they are linked into, have the section .note.runnel.  If the runtime was
 * linked in statically, its names are not imports, and the symbols show nothing.
 */
#ifndef LINT_H
#define LINT_H

#include <stdbool.h>
#include <stddef.h>

enum lint_use {
	LINT_ALWAYS,		/* uses the legacy stream each time */
	LINT_STREAM_0,		/* uses the legacy stream if the call's stream is 0 */
	LINT_NO_FORM,		/* like LINT_STREAM_0, but the call has no per-thread form */
	LINT_PER_THREAD,
	LINT_OWN,		/* a plain name that the library imports, in an object with the library */
	LINT_OTHER,		/* uses no stream */
};
#define LINT_USES LINT_OTHER	/* number of uses for which names are kept */

/* Returns the use of streams that the import of a name shows; in lint_calls.c. */
enum lint_use lint_use_of(const char *name);

/* Returns true if the library imports the name; in lint_calls.c. */
bool lint_is_own(const char *name);

struct lint_names {
	char **names;		/* sorted, without duplicates */
	size_t nr, room;
};

/* An object, or a member of an archive. */
struct lint_object {
	char *file, *member;	/* member is NULL for a file that is no archive */
	struct lint_names uses[LINT_USES];
};

/*
 * Calls @take, which owns the object, for each object of a file; in lint_elf.c.  Prints on
 * standard error the files and members that cannot be read, and the reason.
 * Returns false if something cannot be read.
 */
bool lint_read(const char *path, void (*take)(struct lint_object *object, void *arg), void *arg);

void lint_object_free(struct lint_object *object);

#endif /* LINT_H */
