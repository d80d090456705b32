/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256 prints hashes like sha256sum(1):
 *
 *	batch_sha256.c	options, the loop, the output
 *	input.c		messages: files, or lines
 *	slots.c		parts of messages: sent to the workers, and reaped
 *	hash.h		hashing a part, on the CPU and on the GPU
 *	device.cu	the kernel; device.c: replaces it without nvcc
 */
#ifndef BATCH_SHA256_H
#define BATCH_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <runnel.h>
#include <runnel/batch.h>

#include "hash.h"

struct sha256_options {
	bool lines;
	bool one_by_one;
	size_t part;		/* bytes of a message in one request, a multiple of SHA256_BLOCK */
	const char *device;
	unsigned workers;	/* 0: the library's choice */
	bool stats;
};

/* ---- slots.c ------------------------------------------------------------- */

/* Carries one part at a time, as a request of a batcher or as a job. */
struct sha256_slot {
	union {
		struct rnl_job job;
		struct rnl_request request;	/* it begins with a job */
	};
	struct sha256_part *part;	/* pinned; the caller fills it */
	size_t bytes;			/* of the struct and the message bytes that follow it */
};

struct sha256_slots {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;	/* NULL: --one-by-one */
	struct rnl_cq *cq;
	unsigned under_way;
	uint64_t nr_parts;		/* finished */
};

/* Each function ends the program on an error. */
void sha256_slots_open(struct sha256_slots *slots, const struct sha256_options *opt);
void sha256_slots_close(struct sha256_slots *slots);

void sha256_slot_init(struct sha256_slots *slots, struct sha256_slot *slot);

/* Gets memory for a part of @bytes.  Returns false if parts in flight use all of it. */
bool sha256_slot_get(struct sha256_slots *slots, struct sha256_slot *slot, size_t bytes);

/* Sends the filled part. */
void sha256_slot_send(struct sha256_slots *slots, struct sha256_slot *slot);

#define SHA256_REAP_MAX 256	/* slots per call */

/* Reaps slots with answers; returns their number.  @wait: wait for at least one. */
unsigned sha256_slots_reap(struct sha256_slots *slots, struct sha256_slot *done[SHA256_REAP_MAX],
			   bool wait);

/* Frees the slot's memory.  Returns the hash state after the part. */
struct sha256_state sha256_slot_take(struct sha256_slots *slots, struct sha256_slot *slot);

/* ---- input.c ------------------------------------------------------------- */

struct sha256_message {
	struct sha256_slot slot;
	struct sha256_message *next;	/* the next message that waits for a slot */
	bool over;			/* its hash or `err` is set */
	int err;			/* an errno if it could not be opened or read */

	const char *name;		/* of the file */
	uint64_t line;			/* line number; 0: the message is a whole file */
	int fd;				/* the file's */
	const char *text;		/* the rest of the line */
	uint64_t left;			/* bytes left in the line, or in the file by its size */

	struct sha256_state state;	/* after the first `before` bytes; the part follows */
	uint64_t before;
	uint32_t bytes;			/* bytes of the part */
	bool last;			/* the message ends with the part */
};

struct sha256_input {
	char **names;
	unsigned nr_names;
	bool lines;
	size_t part;			/* as in the options */
	unsigned nr_taken;		/* names that were opened */
	unsigned nr_open;		/* open files of unfinished messages */
	FILE *file;			/* the file that lines are read from; NULL: none */
	bool is_stream;			/* the last opened file is a stream */
	uint64_t nr_lines;		/* lines read from that file */
	char *line;
	size_t line_size;
	bool in_line;			/* the line is not copied completely yet */
};

void sha256_input_close(struct sha256_input *in);

/*
 * Begins the next message.
 * @alone: all earlier messages are printed, so this call may wait for input.
 * Returns 1; 0 at the end of the input; -EAGAIN: call again when other messages are finished.
 */
int sha256_input_next(struct sha256_input *in, struct sha256_message *m, bool alone);

/* Returns the size of the buffer that the message's next part needs. */
size_t sha256_input_wants(const struct sha256_input *in, const struct sha256_message *m);

/*
 * Reads the next part of a message, and sets the message's `bytes` and `last`.
 * @to: has @space bytes: sha256_input_wants(), rounded up to whole blocks.
 * Returns 0, or an errno; after an error the part is the last one.
 */
int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t space);

#endif /* BATCH_SHA256_H */
