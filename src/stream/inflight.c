/* SPDX-License-Identifier: MIT */
/* Jobs on a stream, and its progress; inflight.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/clock.h"
#include "sys/counter.h"
#include "sys/tsan.h"
#include "device/gather.h"
#include "stream/inflight.h"
#include "stream/job_flags.h"

int rnl__inflight_init(struct rnl__inflight *f, struct rnl__device *device, unsigned limit,
		       uint64_t enough_ns)
{
	void *word = NULL;
	int ret;

	f->device = device;
	f->limit = limit;
	f->issued = f->marked = f->written = f->asked = RNL__START(32, limit);
	atomic_init(&f->reached, f->issued);
	f->marks = calloc(limit, sizeof(*f->marks));
	f->recorded = calloc(limit, sizeof(*f->recorded));
	f->places = calloc(limit, sizeof(*f->places));
	if (!f->marks || !f->recorded || !f->places || rnl__pace_init(&f->pace, limit, enough_ns))
		return -ENOMEM;
	/* All events are made here, not while jobs run. */
	for (unsigned i = 0; i < limit; i++) {
		ret = rnl__device_event(device, false, &f->recorded[i].event);
		if (ret)
			return ret;
	}
	if (!device->info.stream_writes)
		return 0;
	ret = rnl__device_alloc(device, RNL__PINNED, RNL__CACHE_LINE, &word);
	if (ret)
		return ret;
	f->word = word;
	*f->word = (uint32_t)f->written;
	f->writes = true;
	return 0;
}

int rnl__inflight_begin(struct rnl__inflight *f)
{
	int ret = f->writes ? f->device->ops->write(f->word, (uint32_t)f->written) : 0;

	if (ret != -ENOTSUP)
		return ret;
	f->writes = false;
	return 0;
}

void rnl__inflight_fini(struct rnl__inflight *f)
{
	const struct rnl__device_ops *ops;

	if (!f->device)
		return;
	ops = f->device->ops;
	rnl__device_free(f->device, RNL__PINNED, f->word);
	for (unsigned i = 0; f->recorded && i < f->limit; i++)
		ops->event_destroy(f->recorded[i].event);
	rnl__pace_fini(&f->pace);
	free(f->places);
	free(f->recorded);
	free(f->marks);
	*f = (struct rnl__inflight){ 0 };
}

/* Notes the oldest job for the health check, which looks whether the device progresses. */
static void note_oldest(struct rnl__inflight *f)
{
	if (f->first)
		/* relaxed: the store below publishes it */
		atomic_store_explicit(&f->oldest_since, rnl__now_coarse(), memory_order_relaxed);
	/*
	 * [inflight.H1] release: a thread that sees the job sees its time; pairs with [stats.H2]
	 */
	atomic_store_explicit(&f->oldest, f->first, memory_order_release);
}

/* Notes that the job with this sequence is on the stream; NULL: that it has left. */
static void note_place(struct rnl__inflight *f, uint64_t seq, struct rnl_job *job)
{
	struct rnl__place *place = &f->places[seq % f->limit];

	if (job) {
		/* [inflight.B1] release: the earlier job is completed; pairs with [inflight.B2] */
		atomic_store_explicit(&place->barrier, job->barrier, memory_order_release);
		/* relaxed: the store below publishes it */
		atomic_store_explicit(&place->since, job->flags & RNL__JOB_TIMED ? rnl__now() :
				      rnl__now_coarse(), memory_order_relaxed);
	}
	/* [inflight.H3] release: like [inflight.H1]; pairs with [stats.H3] */
	atomic_store_explicit(&place->job, job, memory_order_release);
}

void rnl__inflight_push(struct rnl__inflight *f, struct rnl_job *job)
{
	if (f->marked == f->issued) {
		f->unmarked_since = f->now;
		f->unmarked_ns = 0;
	}
	job->seq = ++f->issued;
	note_place(f, job->seq, job);
	rnl__pace_add(&f->pace, job, job->seq);
	f->unmarked_ns += rnl__pace_of(&f->pace, job->seq);
	job->link = NULL;
	if (f->last)
		f->last->link = job;
	else
		f->first = job;
	f->last = job;
	rnl__figure_add(&f->nr, 1);
	if (f->first != job)
		return;
	note_oldest(f);
	f->looked = f->now;
}

/*
 * Learns from the oldest mark, which is reached, perhaps with later ones.  The jobs up to @seq took
 * at most the time since the previous mark was reached, or since the first of them was issued.
 */
static void learn_reached(struct rnl__inflight *f, uint64_t seq)
{
	uint64_t since = f->marks[f->first_mark].since;

	since = since > f->reached_at ? since : f->reached_at;
	f->reached_at = rnl__inflight_clock(f);
	rnl__pace_took_at_most(&f->pace, f->first->seq, seq, f->reached_at - since);
}

/* The oldest mark was not reached at the last reading of the clock: a lower bound for its jobs. */
static void learn_unreached(struct rnl__inflight *f)
{
	const struct rnl__mark *mark = &f->marks[f->first_mark];
	uint64_t since = mark->placed > f->reached_at ? mark->placed : f->reached_at;

	if (f->now > since)
		rnl__pace_took_at_least(&f->pace, f->first->seq, mark->seq, f->now - since);
}

static void inflight_reached(struct rnl__inflight *f, uint64_t seq)
{
	if (f->nr_marks && f->marks[f->first_mark].seq <= seq)
		learn_reached(f, seq);
	while (f->nr_marks && f->marks[f->first_mark].seq <= seq) {
		f->first_mark = (f->first_mark + 1) % f->limit;
		f->nr_marks--;
	}
	rnl__tsan_release(&f->reached);
	/*
	 * [inflight.R1] release: a join that skips its wait sees the jobs' effects;
	 * pairs with [inflight.R2]
	 */
	atomic_store_explicit(&f->reached, seq, memory_order_release);
}

/*
 * Waits for the stream, because a mark failed.  Whatever the error, no job may be completed while
 * the device could still work on it.
 */
static int wait_for_stream(struct rnl__inflight *f)
{
	if (f->device->ops->wait(RNL__NEVER)) {
		rnl__device_fail(f->device, -1);
		return -EIO;
	}
	inflight_reached(f, f->marked);
	return 0;
}

static int write_word(struct rnl__inflight *f)
{
	int ret = f->device->ops->write(f->word, (uint32_t)f->issued);

	if (!ret)
		f->written = f->issued;
	return ret;
}

/* Returns the entry of the event that is recorded @nr-th. */
static struct rnl__recorded *nth_recorded(struct rnl__inflight *f, uint64_t nr)
{
	return &f->recorded[nr % f->limit];
}

/* Records the next event of the ring, for the mark that is being placed. */
static int inflight_record(struct rnl__inflight *f, struct rnl__mark *mark)
{
	uint64_t nr = rnl__own_read(&f->nr_recorded) + 1;
	struct rnl__recorded *next = nth_recorded(f, nr);
	int ret = f->device->ops->event_record(next->event);

	if (ret)
		return ret;
	mark->event = next->event;
	/* relaxed: the store below publishes it */
	atomic_store_explicit(&next->seq, f->issued, memory_order_relaxed);
	/*
	 * [inflight.J1] release: the event is recorded, and names its job, before a join can find
	 * it; pairs with [inflight.J2].
	 */
	atomic_store_explicit(&f->nr_recorded, nr, memory_order_release);
	return 0;
}

int rnl__inflight_mark(struct rnl__inflight *f, bool event, bool write)
{
	bool more = f->marked != f->issued;
	/* If no job is left to mark, the ring may be full, and this entry the oldest mark's. */
	struct rnl__mark *mark = &f->marks[(f->first_mark + f->nr_marks) % f->limit];
	int ret = 0;

	rnl__gather_flush();
	/* The word has only the low half of a number, so it must not lag by 2^31 jobs. */
	write = write || f->issued - f->written > INT32_MAX;

	if (more) {
		mark->event = NULL;
		if (event || !write || !f->writes)
			ret = inflight_record(f, mark);
	}
	/* A write may follow a mark that was only an event. */
	if (!ret && write && f->writes && f->written != f->issued)
		ret = write_word(f);
	if (ret && rnl__device_failed(f->device))
		return -EIO;
	f->marked = f->issued;
	if (ret)
		return wait_for_stream(f);
	if (!more)
		return 0;
	mark->seq = f->issued;
	mark->since = f->unmarked_since;
	mark->placed = rnl__inflight_clock(f);
	f->nr_marks++;
	return 0;
}

/* Returns the sequence number whose low half is in the word; it is not above `marked`. */
static uint64_t written(struct rnl__inflight *f)
{
	/*
	 * [inflight.F1] acquire: the device's work before its write is visible;
	 * pairs with [host_stream.X1], or with the GPU's write, which CUDA orders after all earlier
	 * work of the stream.
	 */
	uint32_t low = atomic_load_explicit(rnl__atomic(f->word), memory_order_acquire);

	rnl__tsan_acquire(f->word);
	return f->marked - (uint32_t)((uint32_t)f->marked - low);
}

bool rnl__inflight_reached(struct rnl__inflight *f)
{
	return f->writes && f->nr_marks && written(f) >= f->marks[f->first_mark].seq;
}

int rnl__inflight_poll(struct rnl__inflight *f, unsigned query)
{
	struct rnl__mark *mark;
	int ret;

	if (query)
		f->looked = f->now;
	if (rnl__inflight_reached(f))
		inflight_reached(f, written(f));
	else if (f->writes && f->nr_marks && !rnl__inflight_silent(f))
		learn_unreached(f);
	if (!query || query > f->nr_marks)
		return 0;
	mark = &f->marks[(f->first_mark + query - 1) % f->limit];
	if (!mark->event)
		return 0;
	ret = f->device->ops->event_reached(mark->event);
	if (ret < 0)
		return wait_for_stream(f);
	if (ret)
		inflight_reached(f, mark->seq);
	else if (query == 1)
		learn_unreached(f);
	return 0;
}

void rnl__inflight_forget(struct rnl__inflight *f)
{
	f->nr_marks = 0;
	f->marked = f->issued;
}

struct rnl_job *rnl__inflight_drop(struct rnl__inflight *f)
{
	struct rnl_job *job = f->first;

	if (!job)
		return NULL;
	f->first = job->link;
	if (!f->first)
		f->last = NULL;
	rnl__pace_drop(&f->pace, job->seq);
	note_place(f, job->seq, NULL);
	note_oldest(f);
	rnl__figure_write(&f->nr, rnl__inflight_nr(f) - 1);
	return job;
}

struct rnl_job *rnl__inflight_pop(struct rnl__inflight *f)
{
	uint64_t seq = rnl__own_read(&f->reached);

	return f->first && f->first->seq <= seq ? rnl__inflight_drop(f) : NULL;
}

/*
 * Returns the event of the earliest mark at or after @seq, else the latest one; NULL if none was
 * recorded yet.  @covers: the job that the event was recorded for, or an earlier one.
 */
static struct rnl__event *find_event(struct rnl__inflight *f, uint64_t seq, uint64_t *covers)
{
	/*
	 * [inflight.J2] acquire: the events are recorded after all work that the caller waits for,
	 * and name their jobs; pairs with [inflight.J1].
	 */
	uint64_t nr = atomic_load_explicit(&f->nr_recorded, memory_order_acquire);
	uint64_t before = UINT64_MAX;
	struct rnl__event *found = NULL;

	for (uint64_t i = nr; i && nr - i < f->limit; i--) {
		struct rnl__recorded *it = nth_recorded(f, i);
		/* relaxed: an event that was recorded anew names a later job than before */
		uint64_t at = atomic_load_explicit(&it->seq, memory_order_relaxed);

		if (found && (at < seq || at > before))
			break;
		found = it->event;
		before = at;
	}
	*covers = before;
	return found;
}

static uint64_t reached_now(struct rnl__inflight *f)
{
	/*
	 * [inflight.R2] acquire: the device has completed the jobs, and we see their effects;
	 * pairs with [inflight.R1]
	 */
	return atomic_load_explicit(&f->reached, memory_order_acquire);
}

uint64_t rnl__inflight_whole(struct rnl__inflight *f, uint64_t low, unsigned bits)
{
	/* A job on the stream is at most @limit ahead; if it seems more, it completed long ago. */
	const uint64_t reached = reached_now(f), round = UINT64_C(1) << bits;
	const uint64_t ahead = (low - reached) % round;

	return reached + ahead - (ahead > 2 * (uint64_t)f->limit ? round : 0);
}

uint64_t rnl__inflight_last_of(struct rnl__inflight *f, const struct rnl_barrier *barrier)
{
	/* [inflight.J2] acquire: see find_event(); pairs with [inflight.J1] */
	const uint64_t nr = atomic_load_explicit(&f->nr_recorded, memory_order_acquire);
	/* relaxed: later events name later jobs */
	uint64_t seq = nr ? atomic_load_explicit(&nth_recorded(f, nr)->seq, memory_order_relaxed) : 0;

	for (unsigned i = 0; i < f->limit && seq > reached_now(f); i++, seq--)
		/*
		 * [inflight.B2] acquire: if a later job has the place, the device has completed the
		 * earlier one, and we see that; pairs with [inflight.B1]
		 */
		if (atomic_load_explicit(&f->places[seq % f->limit].barrier, memory_order_acquire) ==
		    barrier)
			return seq;
	return 0;
}

int rnl__inflight_join(struct rnl__inflight *f, uint64_t seq, uint64_t *joined,
		       struct rnl__inflight *own)
{
	struct rnl__event *event;
	uint64_t covers;
	int ret;

	if (reached_now(f) >= seq) {
		rnl__tsan_acquire(&f->reached);
		return 0;
	}
	if (f == own || *joined >= seq) {
		/* The stream waits already, or has the job.  The wait is an operation of this job, too. */
		rnl__thread.stream->issued++;
		return 0;
	}
	event = find_event(f, seq, &covers);
	if (event && rnl__thread.guard) {
		/* A capture cannot wait for an event that was recorded outside of the capture. */
		rnl__thread.guard->again = true;
		return 0;
	}
	if (event) {
		rnl__gather_flush();
		/* The caller's earlier jobs must be seen done while the stream waits. */
		if (own && own->marked != own->issued)
			(void)rnl__inflight_mark(own, true, false);
		ret = f->device->ops->event_wait(event);
		if (!ret && *joined < covers)
			*joined = covers;
		return ret;
	}
	/*
	 * No event was recorded yet: the host has waited for the caller's jobs, and @seq is a later
	 * job; or the device has failed.
	 */
	return rnl__device_failed(f->device) ? -EIO : 0;
}
