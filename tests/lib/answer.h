/* SPDX-License-Identifier: MIT */
/* What a request kernel answers in tests, on every device. */
#ifndef ANSWER_H
#define ANSWER_H

#define FILLER 0xee

/* `arg` of the batcher, in page-locked memory. */
struct answering {
	int result;		/* of all requests */
	unsigned takes_ms;	/* a request takes this long; not on a GPU */
};

#ifdef __cplusplus
extern "C"
#endif
unsigned answering_nr(void);	/* requests that the function was called for, by this process */

#endif /* ANSWER_H */
