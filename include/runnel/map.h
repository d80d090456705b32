/* SPDX-License-Identifier: MIT */
/* Maps: a large array streamed through the workers, chunk by chunk. */
#ifndef RUNNEL_MAP_H
#define RUNNEL_MAP_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One chunk of a map, on the device: the argument of the map's function. */
struct rnl_chunk {
	uint64_t index;		/* of the chunk, from 0 */
	uint64_t first;		/* index of its first element in the array */
	uint64_t nr;		/* number of elements; only the last chunk may have fewer */
	uint64_t before, after;	/* elements in the halos; at the array's ends there are fewer */
	const void *in;		/* element `first`, aligned to 256 bytes; the halos are before it
				 * and after the last element */
	void *out;		/* space for nr elements, aligned to 256 bytes; equal to `in` if the
				 * map is in place and has no halo */
	void *arg;		/* of struct rnl_map */
};

enum rnl_map_flags {
	/*
	 * A job takes two chunks. It issues both copies in, then both kernels, then both copies
	 * out. Without this flag, a job issues copy in, kernel and copy out of one chunk.
	 */
	RNL_MAP_COPIES_FIRST = 1,
	/*
	 * read() gets the chunks in order, one at a time, and so does write(), for example for
	 * pipes. Jobs wait for their turn; workers do not.
	 */
	RNL_MAP_IN_ORDER = 2,
	/* The report has the times of the stages. The measurement costs some 6 % (H200). */
	RNL_MAP_TIMED = 4
};

#define RNL_MAP_AUTO UINT64_MAX	/* field chunk: the library chooses the size */

/* Figures of a map that has ended. */
struct rnl_map_report {
	uint32_t size;		/* sizeof(struct rnl_map_report) */
	uint32_t nr_jobs;	/* jobs that the map used */
	uint64_t chunks;	/* chunks that are done */
	uint64_t bytes_in, bytes_out; /* bytes copied to the device, and from it */
	uint64_t wall_ns;	/* from the call to the end */
	uint64_t read_ns;	/* CPU time of all threads in read(), or staging input */
	uint64_t write_ns;	/* CPU time of all threads in write(), or staging output */
	/* With RNL_MAP_TIMED, the time in which the device had at least one chunk in a stage: */
	uint64_t in_ns, kernel_ns, out_ns;
	uint32_t overlap_percent; /* sum of the stages / wall_ns; 100: no overlap; 300: the best */
	uint32_t limit_percent;	/* longest stage / wall_ns; 100: no map can be faster */
};
#define RNL_MAP_REPORT_INIT { sizeof(struct rnl_map_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

struct rnl_map {
	uint32_t size;		/* sizeof(struct rnl_map) */
	uint32_t flags;		/* enum rnl_map_flags */
	/* Issues the work for a chunk, like a job's function; returns 0 or a negative errno. */
	int (*fn)(const struct rnl_chunk *chunk);
	void *arg;		/* argument of the three callbacks */
	uint64_t nr;		/* elements of the array; 0: the map is done immediately */
	uint64_t chunk;		/* elements of a chunk, or RNL_MAP_AUTO */
	uint64_t halo_before, halo_after; /* elements of the neighbours that a chunk gets; at most
					   * as many as a chunk has */
	size_t in_bytes, out_bytes; /* size of an element; out_bytes 0: no output */
	const void *in;		/* the array, in host memory; NULL: read() supplies it */
	void *out;		/* the output: equal to `in` (in place), or not overlapping it;
				 * NULL: write() takes it */
	/* Writes elements first to first + nr - 1, halos included, to the pinned memory buf. */
	int (*read)(void *arg, void *buf, uint64_t first, uint64_t nr);
	/* Takes elements first to first + nr - 1 of the output. */
	int (*write)(void *arg, const void *buf, uint64_t first, uint64_t nr);
	struct rnl_map_report *report; /* filled in at the end; NULL: no report */
	void *reserved;
	uint64_t devices;	/* devices of the pool to use, a bit each; 0: all */
	struct rnl_class *cls;	/* class of the map's jobs (runnel/class.h); NULL: the pool's own */
};
#define RNL_MAP_INIT \
	{ sizeof(struct rnl_map), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, \
	  NULL, 0, NULL }

/*
 * Starts a map: it copies the chunks of a large array to the device, calls a function for each
 * chunk, and copies the results back. The three stages of different chunks run concurrently. A few
 * jobs, at most two for each worker, take one chunk after another; other jobs run in between. The
 * map uses device memory (scratch) for one chunk of each worker, or for two with
 * RNL_MAP_COPIES_FIRST.
 * Arrays should be page-locked. Otherwise the workers copy them through page-locked memory, at most
 * two chunks for each worker, past the CPU's caches.
 * An array that is not in memory comes from read() and goes to write(). Unless RNL_MAP_IN_ORDER is
 * set, workers call them concurrently and in any order. A worker in a callback does nothing else.
 * The jobs of a map with a class (cls) start by that class's rules, and rnl_class_destroy() waits for
 * the map. Each of them keeps one of the class's max_queued places until the map ends; if fewer are
 * left, the map has fewer jobs. The class's deadline_ns and admission are not for them: with
 * RNL_CLASS_DEADLINE they start after jobs that have deadlines.
 * The first error of fn(), read(), write() or the device ends the map: no further chunk starts, the
 * error is the barrier's result, and the output is undefined.
 * @map: copied. Everything that it points to, the report included, stays valid until the barrier
 *	reports that the map is done.
 * @barrier: of the pool. It counts the map as one job, from this call until the last chunk is
 *	copied out. Jobs that come after the barrier start then.
 * Context: allocates, and issues the first chunks. After it has returned 0, a close does not stop
 *	the map, and a drain waits for it.
 * Ordering: chunks have no order among them.
 * Return: 0; -E2BIG map is newer than the library and sets a field that the library does not know;
 *	-EINVAL an argument is NULL; map has a wrong size, unknown flags, or no fn; in_bytes or
 *	chunk is 0; a halo is larger than a chunk; not exactly one of in and read is set; not
 *	exactly one of out and write is set, or one is set although out_bytes is 0; in and out
 *	overlap and are not equal; a map in place changes the size of its elements; an array is in
 *	device memory; a size overflows; the barrier or cls is of another pool, or cls has ended;
 *	-EAGAIN the pool or the class is full, or the barrier counts too many jobs, see rnl_submit();
 *	-ESHUTDOWN the pool is closed; -ENOMEM; -EIO; -EOWNERDEAD. On failure nothing was started.
 * Since: 0.1
 */
RNL_API int rnl_map_start(struct rnl_pool *pool, const struct rnl_map *map,
			  struct rnl_barrier *barrier);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_MAP_H */
