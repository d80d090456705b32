/* SPDX-License-Identifier: MIT */
/*
 * A lease of the resident kernel on the host device.  It does what runnel/lease.cuh has for a GPU.
 */
#include "config.h"

#include <sched.h>
#include <string.h>

#include "batch/mail_piece.h"
#include "batch/resident.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"

#define PAYLOAD RNL__PIECE_PAYLOAD

/* A mailbox, as a lease serves it. */
struct served {
	const struct rnl__lease_args *args;
	const struct rnl__mail_piece *request;
	struct rnl__mail_piece *answer;
	struct rnl__mailbox_words *words;
	struct rnl__lease_turn *turn;
	uint64_t expected;
	bool begun, closed;
};

static uint32_t lease_load(const uint32_t *word, memory_order order)
{
	return atomic_load_explicit(rnl__atomic((uint32_t *)(uintptr_t)word), order);
}

static void lease_come(struct served *s, const struct rnl__lease_args *args, uint32_t i)
{
	const uint32_t lease = (uint32_t)args->lease;

	*s = (struct served){
		.args = args, .request = args->requests + i * args->request_pieces,
		.answer = args->answers + i * args->answer_pieces, .words = args->words + i,
		.turn = args->turns + i,
	};
	/* relaxed: a mailbox is not passed on if the host has closed the gate, perhaps to clear the pieces */
	if (!(atomic_load_explicit(rnl__atomic(&s->words->gate), memory_order_relaxed) & 1))
		/* relaxed: the last lease passes the mailbox on, or does not */
		atomic_store_explicit(rnl__atomic(&s->turn->came[lease & 1]), lease, memory_order_relaxed);
}

/* Begins to serve the mailbox if the last lease has ended.  Returns true once it has begun. */
static bool lease_begin(struct served *s)
{
	const uint64_t lease = s->args->lease;
	const struct rnl__mail_piece *ended = &s->turn->ended[(lease - 1) & 1];
	uint32_t words[3];
	uint64_t gate;

	if (s->begun || !rnl__mail_piece_has(ended, (uint32_t)(lease - 1)))
		return s->begun;
	s->begun = true;
	rnl__mail_piece_get(ended, words, sizeof(words));
	s->expected = words[0] | (uint64_t)words[1] << 32;
	/* relaxed: the barrier orders it; a mailbox that is passed on shows a block already */
	atomic_store_explicit(rnl__atomic(&s->words->status), lease << 1 | 1, memory_order_relaxed);
	if (words[2])
		return true;
	/* [mailbox.L1] full barrier: the status, then the gate (Dekker); pairs with [mailbox.G1] */
	rnl__full_barrier();
	/* [mailbox.L2] acquire: cleared pieces; pairs with [mailbox.G2] */
	gate = atomic_load_explicit(rnl__atomic(&s->words->gate), memory_order_acquire);
	s->closed = gate & 1;
	if (!s->closed)
		s->expected = rnl__larger(s->expected, gate >> 1);
	return true;
}

static void lease_end(struct served *s)
{
	const uint32_t lease = (uint32_t)s->args->lease, next = lease + 1;
	uint32_t words[3] = { (uint32_t)s->expected, (uint32_t)(s->expected >> 32), 0 };

	/* relaxed: no data comes with it */
	words[2] = !s->closed && next && lease_load(&s->turn->came[next & 1], memory_order_relaxed) == next;
	if (!words[2])
		/* [mailbox.S2] release: the answers; pairs with [mailbox.S1] */
		atomic_store_explicit(rnl__atomic(&s->words->status), s->args->lease << 1,
				      memory_order_release);
	/* After the status: the next block's comes later. */
	rnl__mail_piece_put(&s->turn->ended[lease & 1], words, sizeof(words), lease);
}

/* Returns the bytes of the request that is expected, or UINT32_MAX if it has not come. */
static uint32_t lease_poll(const struct served *s, unsigned char *in)
{
	const uint32_t tag = (uint32_t)s->expected;
	uint32_t bytes, nr;

	/* acquire: like the other pieces' below */
	if (lease_load(&s->request->tag, memory_order_acquire) != tag)
		return UINT32_MAX;
	/* relaxed: the tag orders it */
	bytes = lease_load(&s->request->payload[0], memory_order_relaxed);
	nr = rnl__pieces_of(bytes);
	for (uint32_t i = 1; i < nr; i++) {
		const struct rnl__mail_piece *piece = &s->request[i];
		uint32_t words[3];

		/* [mailbox.P3] acquire: the payload; pairs with [mailbox.P1] */
		if (lease_load(&piece->tag, memory_order_acquire) != tag)
			return UINT32_MAX;
		for (unsigned j = 0; j < 3; j++)
			/* relaxed: the tag orders it */
			words[j] = lease_load(&piece->payload[j], memory_order_relaxed);
		memcpy(in + (i - 1) * PAYLOAD, words, sizeof(words));
	}
	return bytes;
}

static void lease_answer_piece(struct rnl__mail_piece *piece, const void *payload, uint32_t tag)
{
	uint32_t words[3];

	memcpy(words, payload, sizeof(words));
	for (unsigned j = 0; j < 3; j++)
		/* relaxed: the tag orders it */
		atomic_store_explicit(rnl__atomic(&piece->payload[j]), words[j],
				      memory_order_relaxed);
	/* [mailbox.P4] release: the payload; pairs with [mailbox.P2] */
	atomic_store_explicit(rnl__atomic(&piece->tag), tag, memory_order_release);
}

/* Serves a request, if it has come.  Returns true then. */
static bool lease_serve(struct served *s)
{
	/* Whole pieces are copied. */
	_Alignas(16) unsigned char in[RNL__MAILBOX_BYTES + PAYLOAD], out[RNL__MAILBOX_BYTES + PAYLOAD];
	const uint32_t bytes = lease_begin(s) && !s->closed ? lease_poll(s, in) : UINT32_MAX;
	const uint32_t tag = (uint32_t)s->expected;
	const struct rnl_request_view view = {
		.arg = s->args->arg, .in = in, .out = s->args->out_bytes ? out : NULL,
		.in_bytes = bytes, .out_bytes = s->args->out_bytes,
	};
	int32_t head[3] = { 0 };

	if (bytes == UINT32_MAX)
		return false;
	head[0] = s->args->fn(&view);
	for (uint32_t at = 0; at < s->args->out_bytes; at += PAYLOAD)
		lease_answer_piece(&s->answer[1 + at / PAYLOAD], out + at, tag);
	lease_answer_piece(s->answer, head, tag);
	s->expected = rnl__request_after(s->expected);
	return true;
}

void rnl__lease_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rnl__lease_args *a = args;
	const uint64_t end = rnl__now() + a->lease_ns;
	struct served all[RNL__MAILBOXES_MAX];

	(void)block;
	for (uint32_t i = 0; i < grid.x; i++)
		lease_come(&all[i], a, i);
	do {
		bool any = false;

		for (uint32_t i = 0; i < grid.x; i++)
			any |= lease_serve(&all[i]);
		if (any)
			continue;
		rnl__pause();
		sched_yield();
	} while (rnl__now() < end);
	for (uint32_t i = 0; i < grid.x; i++) {
		while (!lease_begin(&all[i]))
			sched_yield();
		lease_end(&all[i]);
	}
}
