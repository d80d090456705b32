/* SPDX-License-Identifier: MIT */
/*
 * A device for tests of pinned buffers: it counts its memory, has a limit, and fails on demand.
 * The helpers that these tests share are below.
 */
#ifndef PINNED_DEVICE_H
#define PINNED_DEVICE_H

#include <sys/mman.h>

#include "halts.h"

#include "sys/clock.h"
#include "device/device.h"
#include "memory/pinned.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* ---- the device ------------------------------------------------------------ */

#define NR_PIECES 256

static struct {
	struct rnl__device base;
	pthread_mutex_t lock;
	struct piece {
		char *mem;
		size_t bytes;
	} pieces[NR_PIECES];
	size_t offset;		/* of each region in its first page */
	char *arena;		/* where regions go, small ones at the start; NULL: anywhere */
	uint64_t max, locked;
	unsigned nr_calls, nr_living;
	unsigned fail_at;	/* the number of the alloc that fails, from 1; 0: none */
	bool persistent;	/* all later allocs fail, too */
	int error;
} device = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Maps a region, which may be huge: only a few bytes are ever written. */
static inline char *map(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert(mem != MAP_FAILED);
	return mem;
}

#define ARENA_SMALL (8 * MIB)	/* largest region at the arena's start */
#define ARENA_LARGE (32 * MIB)	/* place of the larger regions */
#define ARENA (64 * MIB)

static inline char *make_piece(size_t bytes)
{
	void *mem;

	if (device.arena)
		return device.arena + (bytes <= ARENA_SMALL ? 0 : ARENA_LARGE);
	if (bytes >= GIB)
		return map(bytes);
	must(posix_memalign(&mem, 4096, bytes));
	return mem;
}

static inline void free_piece(char *mem, size_t bytes)
{
	if (device.arena && mem >= device.arena && mem < device.arena + ARENA)
		return;
	if (bytes < GIB)
		free(mem);
	else
		munmap(mem, bytes);
}

static inline int device_alloc(struct rnl__device *of, enum rnl__memory kind, size_t bytes,
			       void **memp)
{
	struct piece *piece = device.pieces;

	ck_assert_ptr_eq(of, &device.base);
	ck_assert_int_eq(kind, RNL__PINNED);
	ck_assert_uint_eq(bytes % 64, 0);
	pthread_mutex_lock(&device.lock);
	device.nr_calls++;
	if (device.fail_at && !--device.fail_at) {
		device.fail_at = device.persistent;
		pthread_mutex_unlock(&device.lock);
		return device.error;
	}
	device.nr_living++;
	device.locked += bytes;
	if (device.locked > device.max)
		ck_abort_msg("%llu bytes locked", (unsigned long long)device.locked);
	while (piece->mem)
		piece++;
	piece->bytes = bytes;
	piece->mem = make_piece(device.offset + bytes);
	*memp = piece->mem + device.offset;
	pthread_mutex_unlock(&device.lock);
	return 0;
}

static inline void device_free(struct rnl__device *of, enum rnl__memory kind, void *mem)
{
	struct piece *piece = device.pieces;

	ck_assert_ptr_eq(of, &device.base);
	ck_assert_int_eq(kind, RNL__PINNED);
	pthread_mutex_lock(&device.lock);
	device.nr_calls++;
	while (!piece->mem || piece->mem + device.offset != (char *)mem) {
		piece++;
		ck_assert(piece < device.pieces + NR_PIECES);
	}
	free_piece(piece->mem, device.offset + piece->bytes);
	piece->mem = NULL;
	device.nr_living--;
	device.locked -= piece->bytes;
	pthread_mutex_unlock(&device.lock);
}

#define OFFSETS { 0, 64, 1024, 4032 }

static const struct rnl__device_ops device_ops = { .alloc = device_alloc, .free = device_free };

/* Creates buffers of at most @max bytes in total, on the device above. */
static inline struct rnl__pinned *pinned_of(uint64_t max, uint64_t preload)
{
	struct rnl__pinned *p = NULL;

	device.base.ops = &device_ops;
	device.max = max;
	ck_assert_int_eq(rnl__pinned_create(&p, &device.base, max, preload), 0);
	ck_assert_ptr_nonnull(p);
	return p;
}

static inline void destroy(struct rnl__pinned *p)
{
	rnl__pinned_destroy(p);
	ck_assert_uint_eq(device.nr_living, 0);
	ck_assert_uint_eq(device.locked, 0);
}

static inline void *get(struct rnl__pinned *p, size_t bytes)
{
	void *buf = NULL;
	int ret = rnl__pinned_get(p, bytes, &buf);

	ck_assert_msg(!ret, "%zu bytes: %d", bytes, ret);
	ck_assert_ptr_nonnull(buf);
	return buf;
}

static inline int try_get(struct rnl__pinned *p, size_t bytes)
{
	void *buf;

	return rnl__pinned_get(p, bytes, &buf);
}

static inline void put(struct rnl__pinned *p, void *buf)
{
	ck_assert_int_eq(rnl__pinned_put(p, buf), 0);
}

static inline struct rnl__pinned_figures figures(struct rnl__pinned *p)
{
	struct rnl__pinned_figures f;

	rnl__pinned_figures(p, &f);
	ck_assert_uint_eq(f.locked, device.locked);
	ck_assert_uint_eq(f.max, device.max);
	return f;
}

/* Gets all buffers of a size.  Returns their number. */
static inline unsigned get_all(struct rnl__pinned *p, size_t bytes, void **bufs, unsigned most)
{
	unsigned nr = 0;

	while (nr < most && !rnl__pinned_get(p, bytes, &bufs[nr]))
		nr++;
	ck_assert_uint_lt(nr, most);
	return nr;
}

static inline void put_all(struct rnl__pinned *p, void **bufs, unsigned nr)
{
	while (nr--)
		put(p, bufs[nr]);
}

/* ---- times ----------------------------------------------------------------- */

static inline uint64_t in_ms(unsigned ms)
{
	return rnl__now() + ms * 1000000ull;
}

/* A deadline so late that a waiter reaches it only if a wake was lost. */
static inline uint64_t too_late(void)
{
	return rnl__now() + (uint64_t)patience_ns();
}

#endif /* PINNED_DEVICE_H */
