/* SPDX-License-Identifier: MIT */
/*
 * The device seam: what a backend does for the rest of the library.
 *
 * DESIGN
 *	A backend is one table of operations.  None takes a stream: an
 *	operation always means the implicit stream of the calling thread,
 *	rnl__self.stream, which attach made.  Everything returns 0 or a
 *	negative errno; the backend alone translates CUDA's codes.  The code
 *	itself is left in rnl__self.job, if a job runs.
 *	After an operation has met an error that the device does not survive
 *	(CUDA calls it sticky), device->failed is set and stays so.
 *	Backends know nothing of pools, workers, jobs' states and barriers.
 *
 *	op		called by	may block	notes
 *	attach		the thread	yes		owner of the stream from now on; an
 *							urgent one has the highest priority
 *	detach		the thread	yes		waits for what was issued
 *	copy, fill,
 *	launch		attached	as the device	arguments are taken over at once; a copy from
 *							or to pageable memory may hold the caller
 *	write		attached	as the device	word: from alloc(PINNED), device
 *							word := value, in stream order, after
 *							all before it is visible to the host
 *	event_create	any		yes		a timed one can tell when it was reached
 *	event_destroy	any		yes		records and waits issued before go on
 *	event_record	attached	no		an event belongs to one stream for good
 *	event_wait	attached	no		the stream waits for the event's last
 *							record; any thread's event
 *	event_reached	any		no		1, 0, -EIO
 *	event_elapsed	any		no		nanoseconds between two timed ones, reached;
 *							from NULL: by the host's clock, or -ENOTSUP
 *							if the device has another
 *	idle		attached	no		1: all issued was reached; 0; -EIO.
 *							On CUDA it takes the driver's lock
 *	wait		attached	yes		until idle or the deadline
 *	alloc, free	any		yes		not called as such: rnl__device_alloc()
 *			attached	no		SCRATCH: in stream order
 *	kind_of		any		no		whose memory an address is in
 *	trim		any		yes		gives back what is kept to be allocated again
 *	guard_begin	attached	no		what the thread issues is kept from here on
 *	guard_end	attached	as the device	1: it is issued now; 0: it was thrown away
 *	errno_of	any		no		of a code that a unit's check() gave
 *
 *	Memory.  Of what alloc makes, PINNED and DEVICE memory is ready when it
 *	returns, and is freed when nothing on any stream uses it any more; nobody
 *	waits for the whole device, but that to free PINNED memory CUDA does.  SCRATCH is device memory for the stream of
 *	the calling thread alone: what is issued after its alloc may use it, and
 *	it is freed behind what was issued before its free.
 *
 *	Guard.  Between its begin and its end, rnl__self.guard is set, and operations
 *	that are in no stream's order work as ever; waits, events and words are not
 *	issued by the library meanwhile.  SCRATCH of that time is ready at once.
 */
#ifndef RNL_DEVICE_H
#define RNL_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#include "self.h"

struct rnl__device;

/* Backends extend it; an event is recorded by one thread only. */
struct rnl__event;

struct rnl__stream {
	struct rnl__device *device;
	void *native;		/* for rnl_stream() */
	uint64_t issued;	/* operations, if device->counts */
};

enum rnl__memory {
	RNL__PINNED,
	RNL__DEVICE,
	RNL__SCRATCH,		/* alloc and free; to kind_of it is DEVICE */
	RNL__PAGEABLE,		/* kind_of alone: any other memory of the host */
};

/* Rows of bytes, each `pitch` after the one before. */
struct rnl__copy {
	void *dst;
	const void *src;
	size_t dst_pitch, src_pitch;	/* for one row, anything */
	size_t width, rows;
};

/* What a job's function did that it should not; bits. */
enum {
	RNL__LEGACY_STREAM = 1,		/* used the legacy default stream */
	RNL__WAITED = 2,		/* for a stream, or the device */
	RNL__MADE_MEMORY = 4,		/* or freed it, other than in stream order */
	RNL__WAITED_OR_MADE = 8,	/* one of these two: CUDA has one code for both */
	RNL__PAGEABLE_COPY = 16,
	RNL__UNCLEAR = 32,		/* one of these, or another thread's use of the legacy stream */
	RNL__NR_FINDINGS = 6,
};

/* A function under guard. */
struct rnl__guarded {
	bool strict;			/* what it issued is to be thrown away if anything is found */
	bool again;			/* not all was issued: thrown away, to be called again */
	bool disturbed;			/* by another thread: nothing is known */
	bool checked;			/* its job has a check(): the unit's errors are in `unit_code` */
	unsigned found;
	int code, unit_code;		/* the first error of our calls, and, as far as it is known, of the unit's */
	char call[48];			/* of the driver, that was refused first; "": not known */
};

struct rnl__device_ops {
	int (*attach)(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent,
		      struct rnl__stream **streamp);
	void (*detach)(struct rnl__stream *stream);
	int (*copy)(const struct rnl__copy *copy);
	int (*fill)(void *dst, uint8_t value, size_t bytes);
	int (*launch)(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		      const void *args);
	int (*write)(uint32_t *word, uint32_t value);
	int (*event_create)(struct rnl__device *device, bool timed, struct rnl__event **eventp);
	void (*event_destroy)(struct rnl__event *event);
	int (*event_record)(struct rnl__event *event);
	int (*event_wait)(struct rnl__event *event);
	int (*event_reached)(struct rnl__event *event);
	int (*event_elapsed)(struct rnl__event *from, struct rnl__event *to, int64_t *ns);
	int (*idle)(void);
	int (*wait)(uint64_t deadline);
	int (*alloc)(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp);
	void (*free)(struct rnl__device *device, enum rnl__memory kind, void *mem);
	enum rnl__memory (*kind_of)(struct rnl__device *device, const void *mem);
	void (*trim)(struct rnl__device *device);
	int (*guard_begin)(struct rnl__guarded *guarded);
	int (*guard_end)(struct rnl__guarded *guarded);
	int (*errno_of)(struct rnl__device *device, int code);
};

struct rnl__device {
	const struct rnl__device_ops *ops;
	struct rnl_device_info info;
	bool counts;		/* stream->issued tells whether a job issued anything */
	bool priorities;	/* an urgent stream's kernels go before others */
	_Atomic int failed;	/* the code of the sticky error, 0 while well */
	_Atomic uint64_t nr_slow; /* calls that allocated, freed, or made an event; see below */
};

/*
 * Finds a device by name; it lives as long as the process.
 * 0, -EINVAL unknown name, -ENODEV.
 */
int rnl__device_open(const char *name, struct rnl__device **devicep);

static inline bool rnl__device_failed(struct rnl__device *device)
{
	/* relaxed: it is set once, and whoever sees it late meets the error itself */
	return atomic_load_explicit(&device->failed, memory_order_relaxed) != 0;
}

/* The device does not survive error @code; the first one stays. */
static inline void rnl__device_fail(struct rnl__device *device, int code)
{
	int well = 0;

	/* relaxed: see rnl__device_failed() */
	atomic_compare_exchange_strong_explicit(&device->failed, &well, code, memory_order_relaxed,
						memory_order_relaxed);
}

/*
 * What takes the driver long, and does not belong in the way of a job: counted, so
 * that it can be seen not to be there.
 */
static inline void rnl__device_count_slow(struct rnl__device *device)
{
	/* relaxed: a figure */
	atomic_fetch_add_explicit(&device->nr_slow, 1, memory_order_relaxed);
}

/* A guarded function has memory page-locked, or freed. */
static inline void rnl__device_note_slow(enum rnl__memory kind)
{
	if (rnl__self.guard && kind == RNL__PINNED)
		rnl__self.guard->found |= RNL__MADE_MEMORY;
}

static inline int rnl__device_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes,
				    void **memp)
{
	rnl__device_count_slow(device);
	rnl__device_note_slow(kind);
	return device->ops->alloc(device, kind, bytes, memp);
}

static inline void rnl__device_free(struct rnl__device *device, enum rnl__memory kind, void *mem)
{
	if (!mem)
		return;
	rnl__device_count_slow(device);
	rnl__device_note_slow(kind);
	device->ops->free(device, kind, mem);
}

static inline int rnl__device_event(struct rnl__device *device, bool timed,
				    struct rnl__event **eventp)
{
	rnl__device_count_slow(device);
	return device->ops->event_create(device, timed, eventp);
}

/* The backends' devices; of CUDA's, 0 or -ENODEV. */
struct rnl__device *rnl__device_host(void);
int rnl__device_cuda(int ordinal, struct rnl__device **devicep);

#endif
