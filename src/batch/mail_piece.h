/* SPDX-License-Identifier: MIT */
/*
 * The host's accesses to the pieces of a mailbox (runnel/mailbox.h).  runnel/lease.cuh has a GPU's.
 */
#ifndef RNL_BATCH_MAIL_PIECE_H
#define RNL_BATCH_MAIL_PIECE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <runnel/mailbox.h>

#include "sys/atomic.h"
#include "sys/tsan.h"

/*
 * A GPU reads a piece by one access of 16 bytes, and the CPU must write it by one.  Streams of the
 * host device order tag and payload like any other thread; ThreadSanitizer and simulated memory
 * need to see that order.
 */
#if defined(__x86_64__) && !defined(RNL__TSAN_BUILD) && !defined(RNL__SIMULATION)
#include <emmintrin.h>
#define RNL__PIECE_WIDE 1

/* An instruction: clang divides even a volatile store, if the value has been written by words before. */
static inline void rnl__mail_piece_store(struct rnl__mail_piece *at, __m128i all)
{
	/* release: a compiler does not move the store up; a CPU with accesses of 16 bytes does not either */
	atomic_signal_fence(memory_order_release);
	__asm__ volatile("movaps %1, %0" : "=m"(*at) : "x"(all));
}
#else
#define RNL__PIECE_WIDE 0
#endif

/* Writes a piece with up to 12 bytes. */
static inline void rnl__mail_piece_put(struct rnl__mail_piece *at, const void *payload, size_t bytes,
				       uint32_t tag)
{
	struct rnl__mail_piece piece = { .tag = tag };

	memcpy(piece.payload, payload, bytes);
#if RNL__PIECE_WIDE
	rnl__mail_piece_store(at, _mm_loadu_si128((const __m128i *)(const void *)&piece));
#else
	for (unsigned i = 0; i < 3; i++)
		/* relaxed: the tag orders it */
		atomic_store_explicit(rnl__atomic(&at->payload[i]), piece.payload[i],
				      memory_order_relaxed);
	/* [mailbox.P1] release: the payload; pairs with [mailbox.P2] */
	atomic_store_explicit(rnl__atomic(&at->tag), tag, memory_order_release);
#endif
}

/* Returns true if the piece has the tag. */
static inline bool rnl__mail_piece_has(const struct rnl__mail_piece *at, uint32_t tag)
{
	/* [mailbox.P2] acquire: the payload; pairs with [mailbox.P1] */
	return atomic_load_explicit(rnl__atomic(&((struct rnl__mail_piece *)at)->tag),
				    memory_order_acquire) == tag;
}

/* Copies up to 12 bytes of a piece that has its tag. */
static inline void rnl__mail_piece_get(const struct rnl__mail_piece *at, void *payload, size_t bytes)
{
	uint32_t words[3];

	for (unsigned i = 0; i < 3; i++)
		/* relaxed: [mailbox.P2] has ordered it */
		words[i] = atomic_load_explicit(rnl__atomic(&((struct rnl__mail_piece *)at)->payload[i]),
						memory_order_relaxed);
	memcpy(payload, words, bytes);
}

#endif
