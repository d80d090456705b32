/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256, which prints hashes as sha256sum(1) does:
 *
 *	batch_sha256.c	options, the loop, the output
 *	input.c		messages: files, or lines
 *	slots.c		parts of messages: to the workers, and back
 *	hash.h		hashing a part, on the CPU and on the GPU
 *	device.cu	the kernel; device.c: without nvcc
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

/* Carries one part after the other: a request of a batcher, or a job of its own. */
struct sha256_slot {
	union {
		struct rnl_job job;
		struct rnl_request request;	/* it begins with a job */
	};
	struct sha256_part *part;	/* pinned, to be filled */
	size_t bytes;			/* of the part with its bytes of the message */
};

struct sha256_slots {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;	/* NULL: one by one */
	struct rnl_cq *cq;
	unsigned under_way;
	uint64_t nr_parts;		/* done */
};

/* Each function ends the program on an error. */
void sha256_slots_open(struct sha256_slots *slots, const struct sha256_options *opt);
void sha256_slots_close(struct sha256_slots *slots);

void sha256_slot_init(struct sha256_slots *slots, struct sha256_slot *slot);

/* Gets memory for a part of @bytes.  Return: false if parts that are under way have all of it. */
bool sha256_slot_get(struct sha256_slots *slots, struct sha256_slot *slot, size_t bytes);

/* Sends the filled part. */
void sha256_slot_send(struct sha256_slots *slots, struct sha256_slot *slot);

#define SHA256_REAP_MAX 256	/* at a time */

/* Takes slots that have their answers.  @wait: until there is one.  Return: their number. */
unsigned sha256_slots_reap(struct sha256_slots *slots, struct sha256_slot *done[SHA256_REAP_MAX],
			   bool wait);

/* Gives the slot's memory back.  Return: the state after the part. */
struct sha256_state sha256_slot_take(struct sha256_slots *slots, struct sha256_slot *slot);

/* ---- input.c ------------------------------------------------------------- */

struct sha256_message {
	struct sha256_slot slot;
	struct sha256_message *next;	/* that waits for a slot */
	bool over;			/* it has its hash, or err */
	int err;			/* an errno: it could not be opened, or read in full */

	const char *name;		/* of the file */
	uint64_t line;			/* its number; 0: the message is the whole file */
	int fd;				/* of the file; -1: there is no more to read */
	const char *text;		/* the rest of the line */
	uint64_t left;			/* bytes of the line, or of the file by its size */

	struct sha256_state state;	/* after `before` bytes; the part comes next */
	uint64_t before;
	uint32_t bytes;			/* of the part */
	bool last;
};

struct sha256_input {
	char **names;
	unsigned nr_names;
	bool lines;
	size_t part;			/* as in the options */
	unsigned nr_taken;		/* names */
	unsigned nr_open;		/* files of messages */
	FILE *file;			/* the one that lines are read from; NULL: none */
	bool is_stream;			/* the file that was opened last */
	uint64_t nr_lines;		/* of that file, so far */
	char *line;
	size_t line_size;
	bool in_line;			/* the line's message is not read in full yet */
};

void sha256_input_close(struct sha256_input *in);

/*
 * Begins the next message.
 * @alone: all messages before it are printed, so it may wait for input.
 * Return: 1; 0 there are no more; -EAGAIN not before other messages are over.
 */
int sha256_input_next(struct sha256_input *in, struct sha256_message *m, bool alone);

/* Return: the bytes that the next part of a message wants. */
size_t sha256_input_wants(const struct sha256_input *in, const struct sha256_message *m);

/*
 * Reads the next part of a message, and sets its `bytes` and `last`.
 * @to: @space bytes: what the part wants, in whole blocks.
 * Return: 0; an errno, and the part is the last one.
 */
int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t space);

#endif /* BATCH_SHA256_H */
