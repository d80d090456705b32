/* SPDX-License-Identifier: MIT */
/* Copies past the caches; nontemporal.h has the design. */
#include "config.h"

#include <stdint.h>
#include <string.h>

#include "sys/atomic.h"
#include "sys/nontemporal.h"

#define NONTEMPORAL_MIN (512u << 10)	/* bytes: more than fits in a CPU's own cache */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && !defined(SANITIZED)

#include <immintrin.h>

/* Copies @nr whole cache lines to a line-aligned address. */
typedef void copy_lines_fn(char *restrict dst, const char *restrict src, size_t nr);

static void copy_lines_sse2(char *restrict dst, const char *restrict src, size_t nr)
{
	for (; nr--; dst += 64, src += 64) {
		const __m128i a = _mm_loadu_si128((const void *)src);
		const __m128i b = _mm_loadu_si128((const void *)(src + 16));
		const __m128i c = _mm_loadu_si128((const void *)(src + 32));
		const __m128i d = _mm_loadu_si128((const void *)(src + 48));

		_mm_stream_si128((void *)dst, a);
		_mm_stream_si128((void *)(dst + 16), b);
		_mm_stream_si128((void *)(dst + 32), c);
		_mm_stream_si128((void *)(dst + 48), d);
	}
}

/* One store writes a whole line, so no write-combining buffer has to collect it. */
__attribute__((target("avx512f")))
static void copy_lines_avx512(char *restrict dst, const char *restrict src, size_t nr)
{
	for (; nr >= 4; nr -= 4, dst += 256, src += 256) {
		const __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64);
		const __m512i c = _mm512_loadu_si512(src + 128), d = _mm512_loadu_si512(src + 192);

		_mm512_stream_si512((void *)dst, a);
		_mm512_stream_si512((void *)(dst + 64), b);
		_mm512_stream_si512((void *)(dst + 128), c);
		_mm512_stream_si512((void *)(dst + 192), d);
	}
	for (; nr--; dst += 64, src += 64)
		_mm512_stream_si512((void *)dst, _mm512_loadu_si512(src));
}

static copy_lines_fn *copy_lines(void)
{
	return __builtin_cpu_supports("avx512f") ? copy_lines_avx512 : copy_lines_sse2;
}

void rnl__nontemporal_copy(void *restrict dst, const void *restrict src, size_t bytes)
{
	const size_t lead = -(uintptr_t)dst % RNL__CACHE_LINE;
	char *to = dst;
	const char *from = src;
	size_t lines;

	if (bytes < NONTEMPORAL_MIN) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, lead);
	to += lead;
	from += lead;
	lines = (bytes - lead) / RNL__CACHE_LINE;
	copy_lines()(to, from, lines);
	memcpy(to + lines * RNL__CACHE_LINE, from + lines * RNL__CACHE_LINE,
	       (bytes - lead) % RNL__CACHE_LINE);
	/* A release store does not order such stores, and a command to a device does not either. */
	_mm_sfence();
}

#else

void rnl__nontemporal_copy(void *restrict dst, const void *restrict src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

#endif
