/* SPDX-License-Identifier: MIT */
/* What the litmus tests of mailboxes run on a device, for C and CUDA C; unit/litmus.c has the tests. */
#ifndef LITMUS_H
#define LITMUS_H

#include <runnel/kernel.h>
#include <runnel/mailbox.h>

/* Host and device repeat these steps at the same time, without waiting for each other. */
enum litmus_shape {
	LITMUS_DOWN,		/* the host writes pieces, the device reads them */
	LITMUS_UP,		/* the device writes pieces, the host reads them */
	LITMUS_DEKKER,		/* each writes a word, then reads the other's */
	LITMUS_ANSWERS,		/* the device writes pieces, then the status */
	LITMUS_PASSED,		/* a block writes pieces, and passes the mailbox on; the next one writes the status */
	LITMUS_GATE,		/* the host writes pieces, then the gate */
};

/* 64 bits, like unsigned long long, of which CUDA has atomic additions. */
struct litmus_found {
	uint64_t observed, changed, wrong;
};

/* A block for each box, with PASSED two; a thread for each piece, with DEKKER one. */
struct litmus_args {
	uint32_t shape, broken;		/* broken: the writer does it wrong */
	uint32_t nr_boxes, nr_pieces, steps;
	uint32_t first;			/* the tag of all pieces at the begin */
	struct rnl__mail_piece *pieces;	/* of box i: from i * nr_pieces on */
	struct rnl__mailbox_words *words;
	uint64_t *gates;		/* DEKKER: what step k of box i has read: i * steps + k */
	struct litmus_found *found;	/* by the device */
};

/* Returns a word of the payload that belongs to a tag. */
RNL__BOTH_SIDES static inline uint32_t litmus_word(uint32_t tag, uint32_t piece, uint32_t i)
{
	return (tag * 0x9e3779b9u + piece) * (2 * i + 3);
}

RNL__BOTH_SIDES static inline bool litmus_whole(const struct rnl__mail_piece *piece, uint32_t index)
{
	for (uint32_t i = 0; i < 3; i++)
		if (piece->payload[i] != litmus_word(piece->tag, index, i))
			return false;
	return true;
}

#endif /* LITMUS_H */
