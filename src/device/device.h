/* SPDX-License-Identifier: MIT */
/*
 * The device seam: what a backend does for the rest of the library.
 *
 * DESIGN
 *	A backend is one table of operations.  No operation takes a stream: it always uses the
 *	implicit stream of the calling thread, rnl__thread.stream, which attach created.  An
 *	operation returns 0 or a negative errno.  Only the backend translates CUDA's codes; it
 *	leaves the code in rnl__thread.job if a job runs.
 *	An error that the device does not survive (CUDA calls it sticky) sets device->failed
 *	permanently.  A process is one fault domain: an error that is fatal to one CUDA device is
 *	fatal to all of them, so they share that word.
 *	Backends know nothing of pools, workers, job states and barriers.
 *
 *	op		called by	may block	notes
 *	attach		the thread	yes		the thread owns the stream from now on
 *	detach		the thread	yes		waits for the stream
 *	copy_all	attached	as the device	copies, in any order; false: the caller must
 *							issue each by copy, even if some were issued
 *	replay		attached	as the device	issues steps of a gather from `step` on, as
 *							a graph; returns the first step left
 *							(NULL: no graphs)
 *	copy, fill,
 *	launch		attached	as the device	copies arguments immediately; a copy from
 *							or to pageable memory may block the caller
 *	write		attached	as the device	the device writes value to a word from
 *							alloc(PINNED), in stream order, after all
 *							earlier work is visible to the host
 *	event_create	any		yes		a timed event records when it was reached
 *	event_destroy	any		yes		issued records and waits go on
 *	event_record	attached	no		an event belongs to one stream permanently
 *	event_wait	attached	no		the stream waits for the last record of the
 *							event, which may be another thread's
 *	event_reached	any		no		1, 0, -EIO
 *	event_elapsed	any		no		nanoseconds between reached timed events;
 *							from NULL: on the host's clock, -ENOTSUP if
 *							the device has another clock
 *	idle		attached	no		1: the stream has no work left; 0; -EIO.
 *							On CUDA it takes the driver's lock
 *	wait		attached	yes		until idle or the deadline
 *	alloc, free	any		yes		called by rnl__device_alloc(), _free()
 *			attached	no		SCRATCH: in stream order
 *	kind_of		any		no		the kind of memory an address is in
 *	owns		any		no		true if this device owns an address's memory
 *	meet		any		yes		devices of one pool: makes each one's memory
 *							accessible to the others, where possible
 *	trim		any		yes		returns memory that is kept for later allocs
 *	guard_begin	attached	no		keeps what the thread issues from now on
 *	guard_end	attached	as the device	1: issued the kept work; 0: discarded it
 *	record_create	attached	as the device	makes a record of notes; NULL: not possible
 *	record_launch	attached	as the device	replays a record, with arguments from `user`
 *	record_drop	any		no		issued work goes on
 *							(all three NULL: notes are issued singly)
 *	args		attached	no		kernel that writes struct rnl__args, or NULL
 *	stray		attached	no		1: the thread's default stream has work, and
 *							the attached stream now waits for it; 0
 *	divert		attached	no		on: attaches the default stream, which
 *							waits for the private one; off: the reverse
 *	errno_of	any		no		errno of a code of rnl__units_error()
 *	reason		any		no		the driver's reason for the failure of the
 *							thread's last call; see rnl__device_reason()
 *	sms_create	any		yes		keeps SMs for some streams; `why` receives
 *							the reason of an error but -ENOMEM, or what
 *							is kept; -EINVAL: the number cannot be kept
 *							(NULL: the device has no SMs)
 *	sms_destroy	any		yes		after the detach of all its streams
 *	(as the device: if the device's call blocks; stray, divert: CUDA, with RNL_STREAM_PRIVATE)
 *
 *	Memory.  PINNED and DEVICE memory is ready when alloc returns; the caller frees it when no
 *	stream uses it any more.  No alloc or free waits for the whole device, except that CUDA
 *	waits when it frees PINNED memory.  SCRATCH is device memory for the calling thread's stream
 *	only.  Work that is issued after the alloc and before the free may use it.
 *
 *	Guard.  Between begin and end, rnl__thread.guard is set.  Operations outside stream order
 *	work as usual.  The library issues no waits, events and words meanwhile.  SCRATCH that is
 *	allocated meanwhile is ready immediately.
 */
#ifndef RNL_DEVICE_H
#define RNL_DEVICE_H

#include <limits.h>
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

/* The issued work of a function, which can be issued again.  Each backend defines it. */
struct rnl__record;

/* A device's multiprocessors (SMs) in two sets: kept for some streams, and the rest. */
struct rnl__sms;

#define RNL__WHY_BYTES 384

/* The base of both backends' events.  Only one thread records an event. */
struct rnl__event {
	struct rnl__device *device;
};

struct rnl__stream {
	struct rnl__device *device;
	void *native;		/* for rnl_stream() */
	bool some_sms;		/* limited to some SMs: a graph's nodes would use all of them */
	uint64_t issued;	/* operations, if device->counts */
	struct rnl__gather *gather; /* operations to be issued together; NULL: there are none */
	struct rnl__notes *notes; /* issued operations are noted here, too; NULL: they are not */
	struct rnl__stream *next, *before; /* the list of all streams (stream/stream.c) */
};

enum rnl__memory {
	RNL__PINNED,
	RNL__DEVICE,
	RNL__SCRATCH,		/* only for alloc and free; kind_of returns DEVICE */
	RNL__PRELOAD,		/* large PINNED memory, for alloc and free; alloc may refuse */
	RNL__PAGEABLE,		/* only from kind_of: any other memory of the host */
};

/* Rows of bytes; each begins `pitch` bytes after the previous row. */
struct rnl__copy {
	void *dst;
	const void *src;
	size_t dst_pitch, src_pitch;	/* unused if there is one row */
	size_t width, rows;
	bool ours;		/* both sides are known to be live memory of the library */
};

/* Returns the size of a side with that pitch, from its first to its last byte. */
static inline size_t rnl__copy_extent(size_t pitch, const struct rnl__copy *copy)
{
	return (copy->rows - 1) * pitch + copy->width;
}

/* Findings: forbidden actions of a job's function; bits. */
enum {
	RNL__LEGACY_STREAM = 1,		/* used the legacy default stream */
	RNL__WAITED = 2,		/* waited for a stream, or the device */
	RNL__MADE_MEMORY = 4,		/* allocated or freed memory outside stream order */
	RNL__WAITED_OR_MADE = 8,	/* WAITED or MADE_MEMORY: CUDA has one code for both */
	RNL__PAGEABLE_COPY = 16,	/* copied pageable memory */
	RNL__UNCLEAR = 32,		/* one of the above, or another thread's legacy call */
	RNL__STRAY = 64,		/* used stream 0, which is not the job's stream */
	RNL__NR_FINDINGS = 7,
};

/* A function under guard. */
struct rnl__guarded {
	bool records;			/* a record is wanted if there are no findings */
	const void *user;		/* source of the arguments of rnl_job_args() */
	struct rnl__record *last;	/* record of the previous run; NULL: none */
	bool same;			/* `last` has the same work, and was replayed instead */
	struct rnl__record *record;	/* else: record of this run; NULL: it cannot be replayed */
	bool strict;			/* the work is discarded if there are findings */
	bool again;			/* the work is discarded, and the function called again */
	bool disturbed;			/* another thread interfered: no finding is certain */
	bool joins;			/* called rnl_barrier_join(), which no record can hold */
	unsigned found;			/* findings, see above */
	int code, unit_code;		/* first error: of the library's calls, of the units' */
	char call[48];			/* the call that the driver refused first; "": unknown */
};

/* A job's arguments, and where they go on the device. */
struct rnl__args {
	uint64_t dst, bytes;
	unsigned char data[RNL_JOB_ARGS_MAX];
};

/* The stream that a thread is to have. */
struct rnl__stream_wish {
	enum rnl_stream_kind kind;
	unsigned level;			/* of priority, 0 is the highest; beyond the last: the lowest */
	struct rnl__sms *sms;		/* a private stream runs on these SMs only; NULL: on all */
	bool kept;			/* on the kept ones, or on the rest */
};

#define RNL__LEVEL_LOWEST UINT_MAX

struct rnl__device_ops {
	int (*attach)(struct rnl__device *device, const struct rnl__stream_wish *wish,
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
	void (*reason)(int code, char text[RNL__WHY_BYTES]);
	int (*sms_create)(struct rnl__device *device, uint32_t nr_kept, char why[RNL__WHY_BYTES],
			  struct rnl__sms **smsp);
	void (*sms_destroy)(struct rnl__sms *sms);
};

struct rnl__device {
	const struct rnl__device_ops *ops;
	struct rnl__areas *areas; /* DEVICE and SCRATCH memory; NULL: kind_of is as fast */
	struct rnl_device_info info;
	bool shared;		/* MPS: kernels of other processes run at the same time */
	bool counts;		/* stream->issued shows if a job issued work; false on a GPU */
	_Atomic int *failed;	/* code of the sticky error; 0: there was none */
	_Atomic uint64_t nr_slow; /* figure: calls that allocated, freed, or made an event */
};

static inline bool rnl__device_failed(struct rnl__device *device)
{
	/* relaxed: set once; a thread that sees it late gets the error from its own call */
	return atomic_load_explicit(device->failed, memory_order_relaxed) != 0;
}

/* Marks the device as failed with that code; the first code stays. */
void rnl__device_fail(struct rnl__device *device, int code);

/* Returns true if these bytes are known to be live DEVICE or SCRATCH memory of the library. */
static inline bool rnl__device_has(const struct rnl__device *device, const void *mem, size_t bytes)
{
	return device->areas && rnl__areas_hold(device->areas, mem, bytes);
}

/* The table's alloc, free (of NULL, too) and event_create; counted, because they are slow. */
int rnl__device_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp);
void rnl__device_free(struct rnl__device *device, enum rnl__memory kind, void *mem);
int rnl__device_event(struct rnl__device *device, bool timed, struct rnl__event **eventp);

/*
 * Writes the driver's reason for the failure of the calling thread's last call, if it failed with
 * @code (0: any), to be added to a line of the log; else "".  Forgets the reason.  Returns @text.
 */
const char *rnl__device_reason(const struct rnl__device *device, int code, char text[RNL__WHY_BYTES]);

/* Writes the device's name, "cuda:1", for labels and logs. */
#define RNL__DEVICE_NAME_BYTES 24
void rnl__device_name(const struct rnl__device *device, char name[RNL__DEVICE_NAME_BYTES]);

#endif
