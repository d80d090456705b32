/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256: the SHA-256 of each file, or of each line, as sha256sum(1) prints it,
 * through a batcher of a runnel pool.  What its parts know of each other:
 *
 *	batch_sha256.c		main(): the loop
 *	batch_sha256_options.c	the command line
 *	batch_sha256_input.c	files are messages
 *	batch_sha256_lines.c	lines are messages
 *	batch_sha256_slots.c	parts of messages: to the workers, and back
 *	batch_sha256_hash.h	hashing a part, on the CPU and in the kernel
 *	batch_sha256_report.c	everything that is printed
 */
#ifndef BATCH_SHA256_H
#define BATCH_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#include "batch_sha256_hash.h"

/* ---- batch_sha256_options.c ---------------------------------------------- */

struct sha256_options {
	char **names;		/* there is one: "-" if none was given */
	unsigned nr_names;
	bool lines;
	bool one_by_one;
	size_t part;		/* bytes of a message in one request, a multiple of SHA256_BLOCK */
	const char *device;
	unsigned workers;	/* 0: as many as the library thinks right */
	bool stats;
};

/* Exits after --help and --version, and when something is wrong. */
void sha256_options_parse(struct sha256_options *opt, int argc, char **argv);

/* ---- batch_sha256_slots.c ------------------------------------------------ */

/* Carries one part after the other: a request of a batcher, or a job of its own. */
struct sha256_slot {
	union {
		struct rnl_job job;
		struct rnl_request request;	/* whose job is the same */
	};
	struct sha256_part *part;	/* pinned, to be filled; NULL: there is none */
	size_t bytes;			/* of the part and its message's behind it */
};

struct sha256_slots {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;	/* NULL: one by one */
	struct rnl_cq *cq;
	unsigned under_way;
	uint64_t nr_parts;		/* done */
};

/* Exits if there can be no such thing; as do all of these on errors but want of room. */
void sha256_slots_open(struct sha256_slots *slots, struct sha256_options *opt);
void sha256_slots_close(struct sha256_slots *slots);

/* Once in its life. */
void sha256_slot_init(struct sha256_slots *slots, struct sha256_slot *slot);

/*
 * Gets memory for a part of up to @bytes bytes.
 * Return: false if there is none before others that are under way are done; if none
 *	are, it waits.
 */
bool sha256_slot_get(struct sha256_slots *slots, struct sha256_slot *slot, size_t bytes);

/* Sends it, filled.  Return: as sha256_slot_get(). */
bool sha256_slot_send(struct sha256_slots *slots, struct sha256_slot *slot);

/* Gives memory back that was not sent. */
void sha256_slot_drop(struct sha256_slots *slots, struct sha256_slot *slot);

#define SHA256_REAP_MAX 256	/* at a time */

/*
 * Takes slots that have their answers.
 * @wait: until there is one.
 * Return: how many.
 */
unsigned sha256_slots_reap(struct sha256_slots *slots,
			   struct sha256_slot *done[SHA256_REAP_MAX], bool wait);

/* The state after the part; its memory is given back. */
struct sha256_state sha256_slot_take(struct sha256_slots *slots, struct sha256_slot *slot);

/* ---- messages ------------------------------------------------------------ */

struct sha256_message {
	struct sha256_slot slot;
	struct sha256_message *next;	/* that waits for room */
	bool filled;			/* the slot; but there was no room to send it */
	bool over;			/* it has its hash, or err */
	int err;			/* an errno: it could not be read */

	/* The input's. */
	const char *name;		/* of the file */
	uint64_t number;		/* of the line; 0: it is the whole file */
	int fd;				/* -1: there is no more to read */
	uint64_t left;			/* of a regular file, when it was looked at */

	struct sha256_state state;	/* after ... */
	uint64_t before;		/* ... so many bytes; then the part comes: */
	uint32_t bytes;
	bool last;
};

/* ---- batch_sha256_lines.c ------------------------------------------------ */

struct sha256_lines {
	int fd;				/* -1: none is open */
	bool stream;			/* reading it may block */
	unsigned char *text;
	size_t begin, end;		/* of what is there and was not given out */
	size_t looked;			/* there is no newline up to there */
	bool inside;			/* a line, of which parts were given out */
	bool at_end;			/* of the file, or ... */
	int err;			/* ... there it cannot be read, or 0 */
};

void sha256_lines_init(struct sha256_lines *lines);
void sha256_lines_free(struct sha256_lines *lines);

/* Begins with a file that is open. */
void sha256_lines_begin(struct sha256_lines *lines, int fd, bool stream);

/*
 * Reads on until there is a whole line, or @most bytes of it.
 * @bytes: receives how many they are; @last: whether they end the line.
 * Return: 1; 0 the file has no more lines, and is closed; -EIO the same, as it could
 *	not be read, for which `err` says why; -EAGAIN reading on would block, and @may_block
 *	is false.
 */
int sha256_lines_look(struct sha256_lines *lines, size_t most, bool may_block, size_t *bytes,
		      bool *last);

/* Takes what was last seen. */
void sha256_lines_take(struct sha256_lines *lines, unsigned char *to, size_t bytes, bool last);

/* ---- batch_sha256_input.c ------------------------------------------------ */

struct sha256_input {
	const struct sha256_options *opt;
	unsigned nr_taken;		/* names */
	unsigned nr_open, max_open;	/* files of messages */
	const struct sha256_message *reader; /* of what only one at a time may read; NULL: none */
	bool no_stdin;			/* it was closed when we began */
	bool read_stdin;
	struct sha256_lines lines;	/* of the last name that was taken, */
	uint64_t number;		/* of which so many are taken */
};

void sha256_input_open(struct sha256_input *in, const struct sha256_options *opt, bool no_stdin);
void sha256_input_close(struct sha256_input *in);

/*
 * The next message.
 * @alone: all before it are done and printed, so it is no harm to wait for input.
 * Return: 1; 0 that was all; -EAGAIN not while others are under way.
 */
int sha256_input_next(struct sha256_input *in, struct sha256_message *m, bool alone);

/*
 * How much room the next part of a message wants.
 * @alone: there is no other message.
 * Return: 0; -EAGAIN not while there are others; a positive errno, and it is over.
 */
int sha256_input_look(struct sha256_input *in, struct sha256_message *m, bool alone,
		      size_t *bytes);

/*
 * Reads the next part of a message, as it was last looked at; sets its `bytes` and `last`.
 * @to: @room bytes: as many as the look said, in whole blocks.
 * Return: 0; a positive errno, and it is over.
 */
int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t room);

/* ---- batch_sha256_report.c ----------------------------------------------- */

/* @no_stdout: standard output was closed when we began. */
void sha256_report_begin(bool no_stdout);

/* A message that is over: its line, or what is wrong with it. */
void sha256_report_message(const struct sha256_message *m);

/* "batch_sha256: message: what @err means"; without the last part if @err is 0. */
__attribute__((format(printf, 2, 3))) void sha256_report_error(int err, const char *format, ...);

/* Ends the process, as the work cannot be done. */
_Noreturn void sha256_report_die(int err, const char *what);

/* Before something is waited for that may take its time. */
void sha256_report_flush(void);

void sha256_report_stats(const struct sha256_slots *slots, uint64_t messages, uint64_t bytes,
			 uint64_t ns);

/* Writes what is left.  Return: the exit status. */
int sha256_report_end(bool failed);

#endif /* BATCH_SHA256_H */
