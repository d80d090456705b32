/* SPDX-License-Identifier: MIT */
/*
 * What a job's function issues, noted call by call, so that it can be issued once more.
 *
 * DESIGN
 *	While a thread's stream has notes, each operation is issued as ever, and noted.  So a run
 *	that is noted is an ordinary run, and no other thread notices.  Only calls of this library
 *	are seen.  What a function does beside that spoils the notes, with a reason: then they are no
 *	record of what it issued.
 *	Two runs have issued the same if their notes have the same operations, one after the other,
 *	with each byte of the kernels' arguments, but not the bytes of rnl_job_args().
 *	The thread that has the stream uses this, and no other.
 */
#ifndef RNL_NOTES_H
#define RNL_NOTES_H

#include <runnel/kernel.h>

#include "device/device.h"

enum rnl__noted_kind {
	RNL__NOTED_COPY,
	RNL__NOTED_FILL,
	RNL__NOTED_LAUNCH,
	RNL__NOTED_NONE,	/* one that failed, or came behind it in its job */
};

/* An operation of a job, of notes or of a gather.  Notes have no job and no step. */
struct rnl__noted {
	struct rnl_job *job;
	uint16_t step, kind;
	union {
		struct rnl__copy copy;
		struct {
			void *dst;
			size_t bytes;
			uint8_t value;
		} fill;
		struct {
			const struct rnl_kernel *kernel;
			struct rnl_dim grid, block;
			uint32_t args;	/* where, in the arguments of all */
		} launch;
	};
};

struct rnl__notes {
	struct rnl__noted *list;
	unsigned char *args;		/* of the launches */
	size_t nr, room, args_bytes, args_room;
	const char *spoilt;		/* why they are no record; NULL: they are one so far */
};

/* Empties the notes, and has the calling thread's operations noted there until the end. */
void rnl__notes_begin(struct rnl__notes *notes);
void rnl__notes_end(void);

/* Whether the operations of the calling thread are noted. */
static inline bool rnl__notes_taken(void)
{
	return rnl__thread.stream && rnl__thread.stream->notes;
}

/* The function that runs does something that notes do not have: "it " and @why say what. */
static inline void rnl__notes_spoil(const char *why)
{
	if (rnl__notes_taken() && !rnl__thread.stream->notes->spoilt)
		rnl__thread.stream->notes->spoilt = why;
}

/* An operation was issued; @args: of a launch. */
void rnl__notes_add(const struct rnl__noted *noted, const void *args);

/* Whether both have the same operations. */
bool rnl__notes_same(const struct rnl__notes *a, const struct rnl__notes *b);

/* Issues the operations one by one, with arguments from @user.  Returns 0 or the first error. */
int rnl__notes_issue(const struct rnl__notes *notes, const void *user);

/* Whether a launch writes the arguments of rnl_job_args(). */
bool rnl__notes_writes_args(const struct rnl__noted *noted);

void rnl__notes_fini(struct rnl__notes *notes);

#endif
