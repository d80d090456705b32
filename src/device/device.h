/* SPDX-License-Identifier: MIT */
/*
 * The device seam: what a backend does for the rest of the library.
 *
 * DESIGN
 *	A backend is one table of operations.  None takes a stream: an operation always
 *	means the implicit stream of the calling thread, rnl__thread.stream, which attach
 *	made.  An operation returns 0 or a negative errno; the backend alone translates
 *	CUDA's codes, and leaves the code in rnl__thread.job if a job runs.
 *	When an operation meets an error that the device does not survive (CUDA calls it
 *	sticky), device->failed is set, for good.  A process is one fault domain: what one CUDA
 *	device does not survive, none of the process does, so they share that word.
 *	Backends know nothing of pools, workers, the states of jobs, and barriers.
 *
 *	op		called by	may block	notes
 *	attach		the thread	yes		owner of the stream from now on; an
 *							urgent one has the highest priority
 *	detach		the thread	yes		waits for the stream
 *	copy_all	attached	as the device	copies, in any order; false: none was issued, or
 *							some, and each is to be issued by copy
 *	replay		attached	as the device	steps of a gather, from one on, as a graph; the
 *							first step that is left.  NULL: no graphs
 *	copy, fill,
 *	launch		attached	as the device	arguments are copied at once; a copy from or
 *							to pageable memory may hold the caller
 *	write		attached	as the device	word: from alloc(PINNED), device
 *							word := value, in stream order, when all
 *							before it is visible to the host
 *	event_create	any		yes		a timed event can tell when it was reached
 *	event_destroy	any		yes		records and waits that were issued go on
 *	event_record	attached	no		an event belongs to one stream for good
 *	event_wait	attached	no		the stream waits for the event's last
 *							record; any thread's event
 *	event_reached	any		no		1, 0, -EIO
 *	event_elapsed	any		no		nanoseconds between two timed events, both
 *							reached; from NULL: by the host's clock,
 *							-ENOTSUP if the device has another
 *	idle		attached	no		1: the stream has nothing to do; 0; -EIO.
 *							On CUDA it takes the driver's lock
 *	wait		attached	yes		until idle or the deadline
 *	alloc, free	any		yes		called by rnl__device_alloc(), _free()
 *			attached	no		SCRATCH: in stream order
 *	kind_of		any		no		the kind of memory an address is in
 *	owns		any		no		whether an address is in this device's memory
 *	meet		any		yes		devices of one pool: from now on each one's memory
 *							is reached by the others, where the system can
 *	trim		any		yes		gives back memory that is kept for allocs
 *	guard_begin	attached	no		from here on, what the thread issues is kept
 *	guard_end	attached	as the device	1: that is issued now; 0: it was thrown away
 *	record_create	attached	as the device	a record of notes; NULL: there is none
 *	record_launch	attached	as the device	issues once more what a record has, with
 *							arguments from `user`
 *	record_drop	any		no		what was issued goes on
 *							(NULL, all three: notes are issued one by one)
 *	args		attached	no		the kernel that writes struct rnl__args; NULL:
 *							there is none
 *	stray		attached	no		1: the thread's default stream has work; the
 *							attached stream waits for that now; 0
 *	divert		attached	no		on: the thread's default stream is the
 *							attached one, and comes after what that has;
 *							off: the other way round
 *	errno_of	any		no		of a code that rnl__units_error() gave
 *	(stray and divert: on CUDA, with RNL_STREAM_PRIVATE)
 *
 *	Memory.  PINNED and DEVICE memory is ready when alloc returns; the caller frees it when no
 *	stream uses it any more.  No alloc or free waits for the whole device, but CUDA does to free
 *	PINNED memory.  SCRATCH is device memory for the calling thread's stream alone: what is
 *	issued after the alloc may use it, and it is freed behind what was issued before the free.
 *
 *	Guard.  Between begin and end, rnl__thread.guard is set, and operations that are in
 *	no stream's order work as ever.  The library issues no waits, events and words
 *	meanwhile.  SCRATCH that is allocated meanwhile is ready at once.
 */
#ifndef RNL_DEVICE_H
#define RNL_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>
#include <runnel/replay.h>

#include "device/areas.h"
#include "sys/atomic.h"
#include "sys/thread.h"
#include "sys/thread_state.h"

struct rnl__device;
struct rnl__gather;
struct rnl__notes;

/* What a function has issued, ready to be issued once more.  A backend defines it. */
struct rnl__record;

#define RNL__WHY_BYTES 256

/* What the events of both backends begin with.  Only one thread records an event. */
struct rnl__event {
	struct rnl__device *device;
};

struct rnl__stream {
	struct rnl__device *device;
	void *native;		/* for rnl_stream() */
	uint64_t issued;	/* operations, if device->counts */
	struct rnl__gather *gather; /* operations that wait to be issued together; NULL: none does */
	struct rnl__notes *notes; /* operations that are issued are noted there, too; NULL: they are not */
	struct rnl__stream *next, *before; /* stream/stream.c's list of all */
};

enum rnl__memory {
	RNL__PINNED,
	RNL__DEVICE,
	RNL__SCRATCH,		/* for alloc and free; kind_of says DEVICE */
	RNL__PRELOAD,		/* much PINNED memory, for alloc and free; alloc may refuse it */
	RNL__PAGEABLE,		/* from kind_of alone: any other memory of the host */
};

/* Rows of bytes, each `pitch` after the one before. */
struct rnl__copy {
	void *dst;
	const void *src;
	size_t dst_pitch, src_pitch;	/* not used if there is one row */
	size_t width, rows;
	bool ours;		/* both sides are known to be memory of the library's, alive */
};

/* Bytes from the first to the last one of a side with that pitch. */
static inline size_t rnl__copy_extent(size_t pitch, const struct rnl__copy *copy)
{
	return (copy->rows - 1) * pitch + copy->width;
}

/* What a job's function did that it should not; bits. */
enum {
	RNL__LEGACY_STREAM = 1,		/* used the legacy default stream */
	RNL__WAITED = 2,		/* waited for a stream, or the device */
	RNL__MADE_MEMORY = 4,		/* made or freed memory, other than in stream order */
	RNL__WAITED_OR_MADE = 8,	/* WAITED or MADE_MEMORY: CUDA has one code for both */
	RNL__PAGEABLE_COPY = 16,	/* copied pageable memory */
	RNL__UNCLEAR = 32,		/* one of the above, or another thread's legacy call */
	RNL__STRAY = 64,		/* used stream 0, which is not the job's stream */
	RNL__NR_FINDINGS = 7,
};

/* A function under guard. */
struct rnl__guarded {
	bool records;			/* a record is wanted, if nothing is found */
	const void *user;		/* where the arguments of rnl_job_args() come from */
	struct rnl__record *last;	/* of the run before; NULL: none */
	bool same;			/* that one has the same work, and was issued in its place */
	struct rnl__record *record;	/* else: of this run; NULL: it cannot be issued once more */
	bool strict;			/* its work is thrown away if anything is found */
	bool again;			/* its work is thrown away, and it is called again */
	bool disturbed;			/* another thread came in: nothing is known */
	bool joins;			/* it called rnl_barrier_join(): that is no part of a record */
	unsigned found;			/* bits, see above */
	int code, unit_code;		/* the first error: of the library's calls, the units' */
	char call[48];			/* the call that the driver refused first; "": not known */
};

/* Arguments of a job, and where they go on the device. */
struct rnl__args {
	uint64_t dst, bytes;
	unsigned char data[RNL_JOB_ARGS_MAX];
};

struct rnl__device_ops {
	int (*attach)(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent,
		      struct rnl__stream **streamp);
	void (*detach)(struct rnl__stream *stream);
	int (*copy)(const struct rnl__copy *copy);
	bool (*copy_all)(const struct rnl__copy *const *copies, unsigned nr);
	unsigned (*replay)(const struct rnl__gather *gather, unsigned step);
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
	bool (*owns)(struct rnl__device *device, const void *mem);
	void (*meet)(struct rnl__device *const *devices, unsigned nr);
	void (*trim)(struct rnl__device *device);
	int (*guard_begin)(struct rnl__guarded *guarded);
	int (*guard_end)(struct rnl__guarded *guarded);
	struct rnl__record *(*record_create)(const struct rnl__notes *notes);
	int (*record_launch)(struct rnl__record *record, const void *user);
	void (*record_drop)(struct rnl__record *record);
	const struct rnl_kernel *(*args)(void);
	int (*stray)(void);
	int (*divert)(bool on);
	int (*errno_of)(struct rnl__device *device, int code);
};

struct rnl__device {
	const struct rnl__device_ops *ops;
	struct rnl__areas *areas; /* of DEVICE and SCRATCH memory; NULL: kind_of is as good */
	struct rnl_device_info info;
	bool counts;		/* stream->issued tells whether a job issued work; not on a GPU */
	bool priorities;	/* an urgent stream's kernels go before others */
	_Atomic int *failed;	/* the code of the sticky error, 0: there was none */
	_Atomic uint64_t nr_slow; /* figure: calls that allocated, freed, or made an event */
};

static inline bool rnl__device_failed(struct rnl__device *device)
{
	/* relaxed: the code is set once, and a thread that sees it late meets the error itself */
	return atomic_load_explicit(device->failed, memory_order_relaxed) != 0;
}

/* The device has failed with that code; the first code stays. */
void rnl__device_fail(struct rnl__device *device, int code);

/* Whether these bytes are known to be DEVICE or SCRATCH memory of the library's, alive. */
static inline bool rnl__device_has(const struct rnl__device *device, const void *mem, size_t bytes)
{
	return device->areas && rnl__areas_hold(device->areas, mem, bytes);
}

/* The table's alloc, free (of NULL, too) and event_create.  They take the driver long, and are counted. */
int rnl__device_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp);
void rnl__device_free(struct rnl__device *device, enum rnl__memory kind, void *mem);
int rnl__device_event(struct rnl__device *device, bool timed, struct rnl__event **eventp);

/* "cuda:1": for labels and logs. */
#define RNL__DEVICE_NAME_BYTES 24
void rnl__device_name(const struct rnl__device *device, char name[RNL__DEVICE_NAME_BYTES]);

#endif
