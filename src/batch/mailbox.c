/* SPDX-License-Identifier: MIT */
/* The host's side of mailboxes; mailbox.h has the design. */
#include "config.h"

#include "batch/mail_piece.h"
#include "batch/mailbox.h"
#include "sys/counter.h"
#include "sys/fence.h"
#include "sys/sizes.h"

#define PAYLOAD RNL__PIECE_PAYLOAD

bool rnl__mailbox_is_atomic(void)
{
#if RNL__PIECE_WIDE
	/* With AVX, aligned accesses of 16 bytes are atomic (Intel SDM 3A, 9.1.1; AMD APM 2, 7.3.2). */
	return __builtin_cpu_supports("avx");
#elif defined(RNL__TSAN_BUILD) || defined(RNL__SIMULATION)
	/* Builds for tests on the host device and the double, which read the tag first. */
	return true;
#else
	return false;
#endif
}

/* ---- pieces ---------------------------------------------------------------- */

/* Writes the pieces that are followed by more of the request. */
static uint32_t put_full_pieces(struct rnl__mail_piece *at, const unsigned char *in, uint32_t bytes,
				uint32_t tag)
{
	uint32_t nr = 0;

#if RNL__PIECE_WIDE
	const __m128i mask = _mm_set_epi32(0, -1, -1, -1), tags = _mm_set_epi32((int)tag, 0, 0, 0);

	/* Reads 16 bytes, of which the last 4 are the next piece's. */
	for (; bytes >= nr * PAYLOAD + 16; nr++) {
		const __m128i all =
			_mm_loadu_si128((const __m128i *)(const void *)(in + nr * PAYLOAD));

		rnl__mail_piece_store(&at[nr], _mm_or_si128(_mm_and_si128(all, mask), tags));
	}
#else
	for (; bytes >= nr * PAYLOAD + 16; nr++)
		rnl__mail_piece_put(&at[nr], in + nr * PAYLOAD, PAYLOAD, tag);
#endif
	return nr;
}

/* ---- the word -------------------------------------------------------------- */

static uint64_t word_of(uint64_t number, enum rnl__mailbox_state state)
{
	return number << 2 | state;
}

/* Opens the gate for a request and all later ones. */
static void open_gate(struct rnl__mailbox *m, uint64_t number)
{
	/* [mailbox.G2] release: the cleared pieces, to a block; pairs with [mailbox.L2] */
	atomic_store_explicit(rnl__atomic(&m->words->gate), number << 1, memory_order_release);
}

/* Closes the gate.  Returns true if no block serves the mailbox: then none will. */
static bool close_gate(struct rnl__mailbox *m, uint64_t number)
{
	/* relaxed: the barrier orders it */
	atomic_store_explicit(rnl__atomic(&m->words->gate), number << 1 | 1, memory_order_relaxed);
	/* [mailbox.G1] full barrier: the gate, then the status (Dekker); pairs with [mailbox.L1] */
	rnl__full_barrier();
	/* [mailbox.S1] acquire: the answers of blocks that ended; pairs with [mailbox.S2] */
	return !(atomic_load_explicit(rnl__atomic(&m->words->status), memory_order_acquire) & 1);
}

void rnl__mailbox_init(struct rnl__mailbox *m)
{
	/* The low 32 bits are the tag. */
	const uint64_t first = RNL__START(32, 8);

	atomic_init(&m->word, word_of(first, RNL__MAIL_ENDED));
	open_gate(m, rnl__request_after(first));
}

void rnl__mailbox_send(struct rnl__mailbox *m, const void *in, uint32_t bytes, uint64_t now)
{
	const uint64_t number = rnl__request_after(rnl__own_read(&m->word) >> 2);
	const uint32_t tag = (uint32_t)number, head[3] = { bytes };
	const unsigned char *from = in;
	const uint32_t nr = put_full_pieces(m->request + 1, from, bytes, tag);

	for (uint32_t at = nr * PAYLOAD; at < bytes; at += PAYLOAD)
		rnl__mail_piece_put(m->request + 1 + at / PAYLOAD, from + at,
			  rnl__smaller(bytes - at, PAYLOAD), tag);
	rnl__mail_piece_put(m->request, head, sizeof(head), tag);
	/* relaxed: W2 orders it */
	atomic_store_explicit(&m->sent_at, now, memory_order_relaxed);
	/* [mailbox.W2] release: all pieces are written; pairs with [mailbox.W1], [mailbox.W3] */
	atomic_store_explicit(&m->word, word_of(number, RNL__MAIL_SENT), memory_order_release);
}

bool rnl__mailbox_answered(struct rnl__mail *mail)
{
	const struct rnl__mailbox *m = mail->m;
	const uint32_t tag = (uint32_t)mail->number;

	/* The last piece is usually the last to arrive; a look at another one would delay its writer. */
	if (!mail->seen && !rnl__mail_piece_has(&m->answer[m->nr_answer - 1], tag))
		return false;
	while (mail->seen < m->nr_answer && rnl__mail_piece_has(&m->answer[mail->seen], tag))
		mail->seen++;
	return mail->seen == m->nr_answer;
}

bool rnl__mailbox_take(const struct rnl__mail *mail)
{
	uint64_t word = word_of(mail->number, RNL__MAIL_SENT);

	/* [mailbox.W3] acquire: the request; pairs with [mailbox.W2] */
	return atomic_compare_exchange_strong_explicit(&mail->m->word, &word,
						       word_of(mail->number, RNL__MAIL_ENDING),
						       memory_order_acquire, memory_order_relaxed);
}

/* Copies the pieces that are followed by more of the answer.  Returns their number. */
static uint32_t get_full_pieces(const struct rnl__mail_piece *from, unsigned char *out, uint32_t bytes)
{
	uint32_t nr = 0;

	for (; bytes >= nr * PAYLOAD + 16; nr++)
#if RNL__PIECE_WIDE
		/* Writes 16 bytes: the next piece's payload replaces the last 4. */
		_mm_storeu_si128((__m128i *)(void *)(out + nr * PAYLOAD),
				 _mm_load_si128((const __m128i *)(const void *)&from[nr]));
#else
		rnl__mail_piece_get(&from[nr], out + nr * PAYLOAD, PAYLOAD);
#endif
	return nr;
}

int rnl__mailbox_read(const struct rnl__mail *mail, void *out, uint32_t bytes)
{
	const struct rnl__mail_piece *from = mail->m->answer + 1;
	unsigned char *to = out;
	const uint32_t nr = get_full_pieces(from, to, bytes);
	int32_t result;

	for (uint32_t at = nr * PAYLOAD; at < bytes; at += PAYLOAD)
		rnl__mail_piece_get(&from[at / PAYLOAD], to + at, rnl__smaller(bytes - at, PAYLOAD));
	rnl__mail_piece_get(mail->m->answer, &result, sizeof(result));
	return result;
}

void rnl__mailbox_end(const struct rnl__mail *mail)
{
	/* relaxed: the release of the request passes the mailbox on, [resident.F1] */
	atomic_store_explicit(&mail->m->word, word_of(mail->number, RNL__MAIL_ENDED),
			      memory_order_relaxed);
}

void rnl__mailbox_put_back(const struct rnl__mail *mail)
{
	/* [mailbox.W4] release: the gate is open again; pairs with [mailbox.W3] */
	atomic_store_explicit(&mail->m->word, word_of(mail->number, RNL__MAIL_SENT),
			      memory_order_release);
}

enum rnl__mailbox_back rnl__mailbox_take_back(struct rnl__mail *mail, bool failed)
{
	struct rnl__mailbox *m = mail->m;
	bool over, answered;

	if (!rnl__mailbox_take(mail))
		return RNL__BACK_NOT;
	over = close_gate(m, mail->number) || failed;
	answered = rnl__mailbox_answered(mail);
	if (over || answered) {
		open_gate(m, rnl__request_after(mail->number));
		return answered ? RNL__BACK_ANSWERED : RNL__BACK_TAKEN;
	}
	open_gate(m, mail->number);
	rnl__mailbox_put_back(mail);
	return RNL__BACK_NOT;
}

/* ---- tags ------------------------------------------------------------------ */

bool rnl__mailbox_is_worn(struct rnl__mailbox *m)
{
	return (uint32_t)((rnl__own_read(&m->word) >> 2) + 1) == 0;
}

bool rnl__mailbox_clear(struct rnl__mailbox *m)
{
	const uint64_t number = rnl__own_read(&m->word) >> 2, next = rnl__request_after(number);
	static const uint32_t nothing[3];

	if (!close_gate(m, number))
		return false;
	for (uint32_t i = 0; i < m->nr_request; i++)
		rnl__mail_piece_put(&m->request[i], nothing, sizeof(nothing), 0);
	for (uint32_t i = 0; i < m->nr_answer; i++)
		rnl__mail_piece_put(&m->answer[i], nothing, sizeof(nothing), 0);
	/* relaxed: `free` passes the mailbox on, [resident.F1] */
	atomic_store_explicit(&m->word, word_of(next - 1, RNL__MAIL_ENDED), memory_order_relaxed);
	open_gate(m, next);
	return true;
}
