/* SPDX-License-Identifier: MIT */
/*
 * A flood: classes that always have work, which fills the GPU; and what each of them got.
 *
 * DESIGN
 *	A job's callback submits it again. A job is a kernel that fills the GPU, or the SMs of its
 *	stream: two blocks of 1,024 threads for each SM, which spin for the class's time, or until the
 *	flood ends. By hand a class has a stream for each unit of its weight, and each stream has a
 *	thread, which keeps two kernels on it.
 *	The figures are of the device's clock: a kernel's first block stores its start and its end,
 *	and its class has used that time, cut into seconds. A run of less than a second is one
 *	"second". Before the first one, the pool learns what its functions take. As all kernels fill
 *	the GPU, it is busy for the sum of their times.
 */
#ifndef GPU_FLOOD_H
#define GPU_FLOOD_H

#include <runnel/class.h>

#include "gpu/work.h"

#define GPU_FLOOD_QUEUED 64	/* jobs of a class */
#define GPU_FLOOD_CLASSES 16
#define GPU_FLOOD_KINDS 3	/* of classes, in a flood */
#define GPU_FLOOD_SECONDS 100
#define GPU_FLOOD_ENDLESS UINT64_C(30000000000) /* a kernel that runs until the flood ends, or so long */

/* Class i has weight and time i % GPU_FLOOD_KINDS. */
struct gpu_flood_of {
	unsigned nr;			/* classes */
	unsigned weights[GPU_FLOOD_KINDS];
	uint64_t ns[GPU_FLOOD_KINDS];
};

typedef uint64_t gpu_stamps[2];		/* a kernel's start and end */

struct gpu_flood {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	unsigned blocks, ramp_ms, run_ms;
	bool green;			/* by hand, on `rest` */
	cudaStream_t rest[GPU_FLOOD_CLASSES]; /* in a green context */
	const struct gpu_flood_of *of;
	bool by_hand;
	atomic_bool stop;
	uint32_t *over;			/* page-locked: endless kernels end */
	gpu_stamps *stamps;		/* of each item; by hand two of each stream */
	uint64_t begin_ns, second_ns;	/* of the device's clock */
	unsigned nr_seconds;
	uint64_t used[GPU_FLOOD_SECONDS][GPU_FLOOD_CLASSES];
	double sums[GPU_FLOOD_CLASSES], sum; /* of all seconds */
	cudaStream_t stream;
	struct gpu_crew crew;
	cudaEvent_t events[GPU_FLOOD_CLASSES][2];
	struct rnl_class *classes[GPU_FLOOD_CLASSES];
	bool classed;			/* its jobs have classes */
	struct gpu_flood_item {
		struct rnl_job job;
		unsigned class;
		gpu_stamps *stamps;
	} items[GPU_FLOOD_CLASSES * GPU_FLOOD_QUEUED];
};

/* Sets up a flood, but for its pool.  Its time in ms is that of @run times @part, unless quick. */
void gpu_flood_open(struct gpu_flood *f, const struct bench_run *run, unsigned part);

/* Begins a flood, and waits until the first second begins.  @attr: of its classes; NULL: it has none. */
void gpu_flood_begin(struct gpu_flood *f, const struct gpu_flood_of *of, bool by_hand,
		     const struct rnl_class_attr *attr);
void gpu_flood_end(struct gpu_flood *f);

/* Returns how many percent of the time the GPU, or the flood's SMs, worked for the flood. */
double gpu_flood_busy(const struct gpu_flood *f);

/* Creates a class of the flood's pool. */
struct rnl_class *gpu_flood_class(struct gpu_flood *f, const struct rnl_class_attr *attr);

#endif
