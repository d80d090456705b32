/* SPDX-License-Identifier: MIT */
/*
 * specialised's array: its input, its memory, and the serial reference.
 *
 * DESIGN
 * The input is the concatenated files, or made from a seed.  It is padded with zeros to an even
 * number of whole tiles and one more window, so no kernel has to handle an edge.  The reference
 * rolls from one fingerprint to the next, like backup programs: it removes the word that leaves the
 * window, and adds the word that enters it.  A kernel computes each fingerprint separately, so an
 * error in one method does not hide in the other.
 */
#include "config.h"

#include "common/program.h"
#include "specialised.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#define FIRST_BYTES (1 << 20)

/* Appends a file to s->source. */
static void read_file(struct specialised *s, const char *name, uint64_t *space)
{
	const int fd = open(name, O_RDONLY | O_CLOEXEC);
	uint64_t got;
	int err = 0;

	if (fd < 0)
		program_die("%s: %s", name, strerror(errno));
	do {
		if (s->bytes == *space) {
			*space = *space ? 2 * *space : FIRST_BYTES;
			s->source = realloc(s->source, *space);
			if (!s->source)
				program_die("%s: out of memory", name);
		}
		got = program_read(fd, s->source + s->bytes, *space - s->bytes, &err);
		s->bytes += got;
		if (err)
			program_die("%s: %s", name, strerror(err));
	} while (s->bytes == *space);
	close(fd);
}

void specialised_words_read(struct specialised *s)
{
	const uint64_t step = SPECIALISED_CLUSTER * SPECIALISED_TILE;
	uint64_t space = 0;

	s->bytes = s->nr_files ? 0 : s->bytes;
	for (unsigned i = 0; i < s->nr_files; i++)
		read_file(s, s->files[i], &space);
	if (!s->bytes)
		program_die("%s: the file is empty", s->files[0]);
	if (s->bytes > SPECIALISED_BYTES_MAX)
		program_die("%s: %" PRIu64 " bytes are too many", s->files[0], s->bytes);
	s->nr_words = (s->bytes / sizeof(uint32_t) / step + 1) * step;
	if (s->bytes % (step * sizeof(uint32_t)) == 0)
		s->nr_words -= step;
}

/* splitmix64 */
static uint32_t made(uint64_t seed, uint64_t i)
{
	uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint32_t)(x ^ x >> 31);
}

static void *get_pinned(const struct specialised *s, uint64_t bytes)
{
	void *mem = NULL;
	const int ret = rnl_memory_get(s->many, RNL_PINNED, bytes, &mem, 0);

	if (ret)
		program_die("%" PRIu64 " bytes, page-locked: %s", bytes, rnl_strerror(ret));
	return mem;
}

static void *get_device(const struct specialised *s, uint64_t bytes)
{
	void *mem = NULL;
	const int ret = rnl_memory_get(s->many, 0, bytes, &mem, 0);

	if (ret)
		program_die("%" PRIu64 " bytes on the device: %s", bytes, rnl_strerror(ret));
	return mem;
}

void specialised_words_get(struct specialised *s)
{
	const uint64_t bytes = s->nr_words * sizeof(uint32_t);
	const uint64_t in_bytes = bytes + SPECIALISED_WINDOW_MAX * sizeof(uint32_t);
	const uint64_t times = 2 * (uint64_t)s->nr_jobs * sizeof(uint64_t);

	s->host_in = get_pinned(s, in_bytes);
	s->host_out = get_pinned(s, bytes);
	s->host_times = get_pinned(s, times);
	s->in = get_device(s, in_bytes);
	s->out = get_device(s, bytes);
	s->times = get_device(s, times);
	s->want = malloc(bytes);
	if (!s->want)
		program_die("%" PRIu64 " bytes: out of memory", bytes);
	memset((char *)s->host_in + s->bytes, 0, in_bytes - s->bytes);
	if (s->source)
		memcpy(s->host_in, s->source, s->bytes);
	else
		for (uint64_t i = 0; i < s->bytes / sizeof(uint32_t); i++)
			s->host_in[i] = made(s->seed, i);
	free(s->source);
	program_must(rnl_copy(s->in, s->host_in, in_bytes), "copying the input");
	program_must(rnl_stream_wait(RNL_FOREVER), "copying the input");
}

void specialised_words_put(struct specialised *s)
{
	free(s->want);
	rnl_memory_put(s->many, s->times);
	rnl_memory_put(s->many, s->out);
	rnl_memory_put(s->many, s->in);
	rnl_memory_put(s->many, s->host_times);
	rnl_memory_put(s->many, s->host_out);
	rnl_memory_put(s->many, s->host_in);
}

void specialised_words_want(struct specialised *s)
{
	const uint32_t *in = s->host_in;
	uint32_t f = 0, highest = 1;	/* BASE to the power of window - 1 */

	for (uint32_t k = 0; k < s->window; k++) {
		f = f * SPECIALISED_BASE + in[k];
		highest *= k ? SPECIALISED_BASE : 1;
	}
	for (uint64_t i = 0; i < s->nr_words; i++) {
		s->want[i] = f;
		f = (f - in[i] * highest) * SPECIALISED_BASE + in[i + s->window];
	}
}

/* ---- the kernel on the host device --------------------------------------- */

#define AT_ONCE 64	/* sums that compilers keep in vector registers */

void specialised_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct specialised_args *a = args;
	const uint64_t begin = program_now_ns();

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < (uint64_t)a->nr_tiles * SPECIALISED_TILE; i += AT_ONCE) {
		const uint64_t tile = i / SPECIALISED_TILE & a->mask;
		const uint64_t at = tile * SPECIALISED_TILE + i % SPECIALISED_TILE;
		uint32_t f[AT_ONCE] = { 0 };

		for (uint32_t k = 0; k < a->window; k++)
			for (unsigned j = 0; j < AT_ONCE; j++)
				f[j] = f[j] * SPECIALISED_BASE + a->in[at + k + j];
		memcpy(a->out + at, f, sizeof(f));
	}
	if (a->begin) {
		*a->begin = begin;
		*a->end = program_now_ns();
	}
}
