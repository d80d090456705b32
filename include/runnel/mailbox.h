/* SPDX-License-Identifier: MIT */
/*
 * Private, for runnel/cuda.h and the library: mailboxes, and the arguments of the kernels that serve
 * requests. runnel/lease.cuh has the kernels.
 *
 * A mailbox holds one request at a time. Request and answer are arrays of pieces in page-locked
 * memory. A piece has 12 bytes of payload and the request's sequence number as its tag, and is
 * written by one store of 16 bytes. So a reader that finds the tag has the payload, too, and needs
 * no fence and no second word. Piece 0 is the head.
 *
 * A lease is one launch of the resident kernel: a block for each mailbox. It ends after lease_ns.
 * The next lease, behind it on the same stream, may start while it serves; each of its blocks waits
 * for its turn. A block that ends and sees the next one wait passes the mailbox on: `status` shows a
 * block all the time. Otherwise `status` shows none; the next block announces itself there, then
 * reads `gate`. The host closes the gate, then reads `status`. So either the host sees the block,
 * or the block sees that the gate is closed and leaves the mailbox alone (Dekker).
 */
#ifndef RUNNEL_MAILBOX_H
#define RUNNEL_MAILBOX_H

#include <stdint.h>

#include <runnel/batch.h>
#include <runnel/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RNL__PIECE_PAYLOAD 12u
#define RNL__MAILBOX_BYTES 12288u	/* most bytes of a request, and of an answer */
#define RNL__LEASE_THREADS 1024u		/* most threads of a block */

struct rnl__mail_piece {
	uint32_t payload[3];		/* of a request's head: its bytes; of an answer's: its result */
	uint32_t tag;			/* 0: no request has this number */
};

/* The words of a mailbox; each has one writer, and a line of its own. */
struct rnl__mailbox_words {
	uint64_t status;		/* by the device: lease << 1 | 1 while a block serves */
	uint64_t other[15];
	uint64_t gate;			/* by the host: next sequence number << 1 | closed */
	uint64_t others[15];
};

/* The turns of even and odd leases' blocks, in device memory; each word has one writer. */
struct rnl__lease_turn {
	/* Of a block that has ended: the next sequence number, 64 bits; 1: passed on. Tag: its lease. */
	struct rnl__mail_piece ended[2];
	uint32_t came[2];		/* the lease of a block that waits for its turn; 0: none has come */
	uint32_t others[6];
};

struct rnl__lease_args {
	/* For devices that run host functions. */
	void (*run)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	int (*fn)(const struct rnl_request_view *view);
	struct rnl__mail_piece *requests, *answers;	/* of mailbox i: from i * request_pieces on */
	struct rnl__mailbox_words *words;
	struct rnl__lease_turn *turns;
	void *arg;			/* of the batcher */
	uint64_t lease;			/* number of this lease, from 1 */
	uint64_t lease_ns;
	uint64_t hot_ns;		/* after this time without a request, only heads are polled */
	uint32_t request_pieces, answer_pieces;
	uint32_t out_bytes;
	uint32_t fixed_pieces;		/* of every request; 0: requests have different sizes */
};

/* A batch whose requests are served by a block each. */
struct rnl__each_args {
	void (*run)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	int (*fn)(const struct rnl_request_view *view);
	struct rnl_batch batch;
	uint64_t in_bytes;		/* of a request, without spans */
	uint32_t out_bytes, reserved;
};

#ifdef __CUDACC__
#define RNL__BOTH_SIDES __host__ __device__
#else
#define RNL__BOTH_SIDES
#endif

/* Returns the pieces of so many bytes, the head included. */
RNL__BOTH_SIDES static inline uint32_t rnl__pieces_of(uint32_t bytes)
{
	return 1 + (bytes + RNL__PIECE_PAYLOAD - 1) / RNL__PIECE_PAYLOAD;
}

/* Returns the number of the next request.  Its low 32 bits are its tag, which is never 0. */
RNL__BOTH_SIDES static inline uint64_t rnl__request_after(uint64_t number)
{
	return (number + 1) & UINT32_MAX ? number + 1 : number + 2;
}

#ifdef __cplusplus
}
#endif

#endif /* RUNNEL_MAILBOX_H */
