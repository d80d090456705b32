/* SPDX-License-Identifier: MIT */
/*
 * The operations of a job's function, noted call by call, so that they can be issued again.
 *
 * DESIGN
 *	While a thread's stream has notes, each operation is issued as usual, and also noted.  So a
 *	noted run is an ordinary run, and no other thread notices it.  Only calls of this library
 *	are noted.  Any other action of a function spoils the notes, with a reason: spoilt notes
 *	cannot become a record.
 *	Two runs have issued the same work if their notes have the same operations in the same
 *	order, with equal bytes of the kernels' arguments, except the bytes of rnl_job_args().
 *	Only the thread that owns the stream uses its notes.
 */
#ifndef RNL_NOTES_H
#define RNL_NOTES_H

#include <runnel/kernel.h>

#include "device/device.h"

enum rnl__noted_kind {
	RNL__NOTED_COPY,
	RNL__NOTED_FILL,
	RNL__NOTED_LAUNCH,
	RNL__NOTED_NONE,	/* failed, or came after a failed one of its job */
};

/* An operation in notes or in a gather.  In notes, `job` and `step` are not used. */
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
			uint32_t args;	/* offset in the arguments of all launches */
		} launch;
	};
};

struct rnl__notes {
	struct rnl__noted *list;
	unsigned char *args;		/* arguments of the launches */
	size_t nr, room, args_bytes, args_room;
	const char *spoilt;		/* why the notes are not a record; NULL: they are, so far */
};

/* Empties the notes, and notes the calling thread's operations until rnl__notes_end(). */
void rnl__notes_begin(struct rnl__notes *notes);
void rnl__notes_end(void);

/* Returns true if the calling thread's operations are noted. */
static inline bool rnl__notes_taken(void)
{
	return rnl__thread.stream && rnl__thread.stream->notes;
}

/* Spoils the notes, which cannot hold an action of the function.  @why: completes "it ...". */
static inline void rnl__notes_spoil(const char *why)
{
	if (rnl__notes_taken() && !rnl__thread.stream->notes->spoilt)
		rnl__thread.stream->notes->spoilt = why;
}

/* Adds an issued operation; @args: a launch's arguments. */
void rnl__notes_add(const struct rnl__noted *noted, const void *args);

/* Returns true if both have the same operations. */
bool rnl__notes_same(const struct rnl__notes *a, const struct rnl__notes *b);

/* Issues the operations one by one, with arguments from @user.  Returns 0 or the first error. */
int rnl__notes_issue(const struct rnl__notes *notes, const void *user);

/* Returns true if the operation is a launch that writes the arguments of rnl_job_args(). */
bool rnl__notes_writes_args(const struct rnl__noted *noted);

void rnl__notes_fini(struct rnl__notes *notes);

#endif
