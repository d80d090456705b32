/* SPDX-License-Identifier: MIT */
/*
 * Hashing in examples/batch_sha256: the arithmetic that its host function and its CUDA kernel
 * share, compared with the standard's own algorithm.
 */
#include <runnel/batch.h>
#include <runnel/kernel.h>

#include "examples/batch_sha256/hash.h"

#include "seed.h"
#include "suite.h"

#define LONGEST 1000

/* A request, followed by space for its bytes. */
struct request {
	struct sha256_part part;
	unsigned char bytes[LONGEST + SHA256_BLOCK];
} __attribute__((aligned(16)));

/* ---- FIPS 180-4, 5.1.1 and 6.2.2 ------------------------------------------- */

static uint32_t rotr(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void plain_block(uint32_t hash[8], const unsigned char m[64])
{
	uint32_t w[64], v[8];

	for (int t = 0; t < 16; t++)
		w[t] = (uint32_t)m[4 * t] << 24 | (uint32_t)m[4 * t + 1] << 16 |
		       (uint32_t)m[4 * t + 2] << 8 | m[4 * t + 3];
	for (int t = 16; t < 64; t++)
		w[t] = (rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10) + w[t - 7] +
		       (rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3) + w[t - 16];
	memcpy(v, hash, sizeof(v));
	for (int t = 0; t < 64; t++) {
		const uint32_t a = v[0], e = v[4];
		const uint32_t t1 = v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
				    ((e & v[5]) ^ (~e & v[6])) + sha256_host_constants[t] + w[t];
		const uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
				    ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		hash[i] += v[i];
}

/* @before: number of bytes that @hash already contains. */
static void plain_hash(uint32_t hash[8], const unsigned char *m, size_t bytes, uint64_t before)
{
	unsigned char padded[LONGEST + 2 * 64] = { 0 };
	const size_t all = (bytes + 9 + 63) / 64 * 64;
	const uint64_t bits = (before + bytes) * 8;

	memcpy(padded, m, bytes);
	padded[bytes] = 0x80;
	for (int i = 0; i < 8; i++)
		padded[all - 1 - (size_t)i] = (unsigned char)(bits >> 8 * i);
	for (size_t at = 0; at < all; at += 64)
		plain_block(hash, padded + at);
}

/* ---- the example's hash ------------------------------------------------------ */

/* The bytes after the last one do not matter: all their bits are set. */
static struct sha256_state hash(struct request *r, struct sha256_state state,
				const unsigned char *m, size_t bytes, uint64_t before, int last)
{
	memset(r, 0xff, sizeof(*r));
	memcpy(r->bytes, m, bytes);
	r->part.state = state;
	r->part.before = before;
	r->part.bytes = (uint32_t)bytes;
	r->part.last = (uint32_t)last;
	return sha256_part_hash(&r->part);
}

static void make_message(unsigned char m[LONGEST], uint64_t *draws)
{
	for (int i = 0; i < LONGEST; i++)
		m[i] = (unsigned char)draw(draws, 256);
}

/* Like ck_assert(); Check records every assertion, which takes longer than hashing. */
static void assert_same(const struct sha256_state *got, const uint32_t want[8], size_t bytes)
{
	if (memcmp(got->word, want, sizeof(got->word)))
		ck_abort_msg("wrong hash of %zu bytes", bytes);
}

static const struct sha256_state begin = SHA256_BEGIN;

/* Checks the hash of a whole message, or of its end; @before: bytes that come before it. */
static void check(const unsigned char *m, size_t bytes, uint64_t before)
{
	struct request r;
	const struct sha256_state got = hash(&r, begin, m, bytes, before, 1);
	struct sha256_state want = begin;

	plain_hash(want.word, m, bytes, before);
	assert_same(&got, want.word, bytes);
}

TEST(nist_s_examples_have_their_hashes)
{
	static const struct {
		const char *message;
		uint32_t hash[8];
	} vectors[] = {
		{ "", { 0xe3b0c442, 0x98fc1c14, 0x9afbf4c8, 0x996fb924,
			0x27ae41e4, 0x649b934c, 0xa495991b, 0x7852b855 } },
		{ "abc", { 0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223,
			   0xb00361a3, 0x96177a9c, 0xb410ff61, 0xf20015ad } },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  { 0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039,
		    0xa33ce459, 0x64ff2167, 0xf6ecedd4, 0x19db06c1 } },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  { 0xcf5b16a7, 0x78af8380, 0x036ce59e, 0x7b049237,
		    0x0b249b11, 0xe8f07a51, 0xafac4503, 0x7afee9d1 } },
	};
	struct request r;

	for (size_t i = 0; i < COUNT(vectors); i++) {
		const char *m = vectors[i].message;
		const struct sha256_state got = hash(&r, begin, (const unsigned char *)m, strlen(m),
						     0, 1);

		assert_same(&got, vectors[i].hash, strlen(m));
	}
}

TEST(messages_of_every_length_are_hashed_whatever_follows_them)
{
	uint64_t draws = draws_of(test_seed(), 0);
	unsigned char m[LONGEST];

	make_message(m, &draws);
	for (size_t bytes = 0; bytes <= LONGEST; bytes++)
		check(m, bytes, 0);
}

TEST(messages_may_be_cut_between_any_blocks)
{
	uint64_t draws = draws_of(test_seed(), 0);
	unsigned char m[LONGEST];
	struct request r;

	make_message(m, &draws);
	for (int n = 0; n < 2000; n++) {
		const size_t bytes = draw(&draws, LONGEST + 1);
		struct sha256_state got = begin, want = begin;
		size_t at = 0;

		plain_hash(want.word, m, bytes, 0);
		while (draw(&draws, 4)) {	/* some parts are empty */
			const size_t part = draw(&draws, (unsigned)((bytes - at) / 64) + 1) * 64;

			got = hash(&r, got, m + at, part, at, 0);
			at += part;
		}
		got = hash(&r, got, m + at, bytes - at, at, 1);
		assert_same(&got, want.word, bytes);
	}
}

TEST(lengths_have_64_bits)
{
	static const uint64_t before[] = { 1 << 20, UINT64_C(1) << 29, (UINT64_C(1) << 32) - 64,
					   UINT64_C(1) << 32, UINT64_C(0x1fedcba987654300) };
	uint64_t draws = draws_of(test_seed(), 0);
	unsigned char m[LONGEST];

	make_message(m, &draws);
	for (size_t i = 0; i < COUNT(before); i++)
		for (size_t bytes = 0; bytes < 200; bytes++)
			check(m, bytes, before[i]);
}

TEST(a_grid_hashes_each_of_its_parts)
{
	enum { NR = 100 };
	static struct request requests[NR];
	const struct rnl_dim grid = { 4, 1, 1 }, block = { SHA256_THREADS, 1, 1 };
	uint64_t draws = draws_of(test_seed(), 0);
	struct sha256_state got[NR + 1], want;
	struct rnl_span spans[NR];
	unsigned char m[LONGEST];
	struct sha256_args args = { (const unsigned char *)requests, got, spans, NR, 0 };

	make_message(m, &draws);
	memset(got, 0, sizeof(got));
	for (uint32_t i = 0; i < NR; i++) {
		const uint32_t place = i * 37 % NR;

		spans[i].offset = place * (uint32_t)sizeof(requests[0]);
		spans[i].bytes = sizeof(requests[0]);
		hash(&requests[place], begin, m, i * 10, 0, 1);
	}
	sha256_grid(grid, block, &args);
	for (uint32_t i = 0; i < NR; i++) {
		want = begin;
		plain_hash(want.word, m, i * 10, 0);
		assert_same(&got[i], want.word, i * 10);
	}
	ck_assert_uint_eq(got[NR].word[0], 0);

	/* Without spans, there is one part, at the start. */
	args = (struct sha256_args){ (const unsigned char *)&requests[37], got, NULL, 1, 0 };
	sha256_grid(grid, block, &args);
	want = begin;
	plain_hash(want.word, m, 10, 0);
	assert_same(&got[0], want.word, 10);
}
