/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 (FIPS 180-4) of a message in parts: the arithmetic that the host function and the CUDA
 * kernel share, and the format of their requests.
 */
#ifndef SHA256_HASH_H
#define SHA256_HASH_H

#include <stdint.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define SHA256_BLOCK 64		/* bytes */

/* Unrolls the next loop on the GPU, to keep arrays in registers. */
#ifdef __CUDA_ARCH__
#define SHA256_UNROLL _Pragma("unroll")
#else
#define SHA256_UNROLL
#endif

struct sha256_state {
	uint32_t word[8];
};
#define SHA256_BEGIN \
	{ { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, \
	    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } }

/*
 * A request: one part of a message, followed by the part's bytes in whole blocks.  Bytes after the
 * part's end are ignored.  The answer is the hash state after the part; after the last part it is
 * the message's hash.
 */
struct sha256_part {
	struct sha256_state state;	/* before the part */
	uint64_t before;		/* bytes of the message before the part */
	uint32_t bytes;			/* a multiple of SHA256_BLOCK, except in the last part */
	uint32_t last;			/* 1: the message ends with the part */
	uint32_t unused[4];
};

/* The unit of a load from memory. */
struct sha256_quad {
	uint32_t word[4];
} __attribute__((aligned(16)));

#define SHA256_CONSTANTS \
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, \
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, \
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, \
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, \
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, \
	0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, \
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, \
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, \
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, \
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, \
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, \
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, \
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, \
	0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, \
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, \
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2

static const uint32_t sha256_host_constants[64] = { SHA256_CONSTANTS };
#ifdef __CUDACC__
static __constant__ const uint32_t sha256_device_constants[64] = { SHA256_CONSTANTS };
#endif
#ifdef __CUDA_ARCH__
#define SHA256_CONSTANT(i) sha256_device_constants[i]
#else
#define SHA256_CONSTANT(i) sha256_host_constants[i]
#endif

/* ---- one block ----------------------------------------------------------- */

/* Converts a word from memory to host order: SHA-256 is big-endian. */
SHARED uint32_t sha256_swap(uint32_t x)
{
#if defined(__CUDA_ARCH__)
	return __byte_perm(x, 0, 0x0123);
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return x;
#else
	return __builtin_bswap32(x);
#endif
}

SHARED uint32_t sha256_rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

/* Replaces word i of the schedule with word i + 16. */
SHARED void sha256_schedule(uint32_t w[16], unsigned i)
{
	const uint32_t x = w[(i + 1) % 16], y = w[(i + 14) % 16];

	w[i] += (sha256_rotate(x, 7) ^ sha256_rotate(x, 18) ^ x >> 3) + w[(i + 9) % 16] +
		(sha256_rotate(y, 17) ^ sha256_rotate(y, 19) ^ y >> 10);
}

/* FIPS 180-4, 6.2.2.  @w: the words of the block, which are overwritten. */
SHARED void sha256_block(struct sha256_state *state, uint32_t w[16])
{
	uint32_t a = state->word[0], b = state->word[1], c = state->word[2], d = state->word[3];
	uint32_t e = state->word[4], f = state->word[5], g = state->word[6], h = state->word[7];

	for (unsigned at = 0; at < 64; at += 16) {
		SHA256_UNROLL
		for (unsigned i = 0; i < 16; i++) {
			uint32_t t1, t2;

			if (at)
				sha256_schedule(w, i);
			t1 = h + w[i] + SHA256_CONSTANT(at + i) + (g ^ (e & (f ^ g))) +
			     (sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25));
			t2 = ((a & b) | (c & (a | b))) +
			     (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22));
			h = g, g = f, f = e, e = d + t1;
			d = c, c = b, b = a, a = t1 + t2;
		}
	}
	state->word[0] += a, state->word[1] += b, state->word[2] += c, state->word[3] += d;
	state->word[4] += e, state->word[5] += f, state->word[6] += g, state->word[7] += h;
}

/* ---- a part -------------------------------------------------------------- */

SHARED void sha256_load(uint32_t w[16], const struct sha256_quad *from)
{
	SHA256_UNROLL
	for (int i = 0; i < 4; i++) {
		const struct sha256_quad quad = from[i];

		SHA256_UNROLL
		for (int j = 0; j < 4; j++)
			w[4 * i + j] = sha256_swap(quad.word[j]);
	}
}

/* Pads a word.  @bytes: bytes of the message from this word on; may be negative. */
SHARED uint32_t sha256_cut(uint32_t word, int bytes)
{
	if (bytes >= 4)
		return word;
	if (bytes < 0)
		return 0;
	/* A 1 bit follows the message's last bit. */
	return (word & ~(0xffffffffu >> 8 * bytes)) | 0x80000000u >> 8 * bytes;
}

/* Hashes the padded end.  @rest: message bytes in the last block; @bytes: in all parts. */
SHARED void sha256_end(struct sha256_state *state, const struct sha256_quad *from,
			      uint32_t rest, uint64_t bytes)
{
	uint32_t w[16] = { 0 };

	if (rest)
		sha256_load(w, from);
	SHA256_UNROLL
	for (int i = 0; i < 16; i++)
		w[i] = sha256_cut(w[i], (int)rest - 4 * i);
	if (rest >= SHA256_BLOCK - 8) {		/* no room for the length */
		sha256_block(state, w);
		SHA256_UNROLL
		for (int i = 0; i < 14; i++)
			w[i] = 0;
	}
	w[14] = (uint32_t)(bytes >> 29);	/* in bits */
	w[15] = (uint32_t)(bytes << 3);
	sha256_block(state, w);
}

SHARED struct sha256_state sha256_part_hash(const struct sha256_part *part)
{
	const struct sha256_quad *from = (const struct sha256_quad *)(const void *)(part + 1);
	const uint32_t bytes = part->bytes;
	struct sha256_state state = part->state;
	uint32_t w[16];

	for (uint32_t i = 0; i < bytes / SHA256_BLOCK; i++, from += 4) {
		sha256_load(w, from);
		sha256_block(&state, w);
	}
	if (part->last)
		sha256_end(&state, from, bytes % SHA256_BLOCK, part->before + bytes);
	return state;
}

/* ---- the kernel ---------------------------------------------------------- */

#define SHA256_THREADS 32	/* per block; each hashes one part */

struct sha256_args {
	const unsigned char *in;
	struct sha256_state *out;
	const struct rnl_span *spans;	/* the parts' places in `in`; NULL: one part, at `in` */
	uint32_t nr;
	uint32_t unused;
};

extern const struct rnl_kernel sha256_kernel;

SHARED void sha256_one(const struct sha256_args *args, uint32_t i)
{
	const unsigned char *part = args->in + (args->spans ? args->spans[i].offset : 0);

	args->out[i] = sha256_part_hash((const struct sha256_part *)(const void *)part);
}

/* The kernel's host function: hashes the parts one after another. */
static inline void sha256_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct sha256_args *a = (const struct sha256_args *)args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < a->nr; i++)
		sha256_one(a, i);
}

SHARED_END
#endif /* SHA256_HASH_H */
