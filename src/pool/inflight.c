/* SPDX-License-Identifier: MIT */
/* Jobs on a stream and how far it has come; inflight.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/clock.h"
#include "pool/inflight.h"

int rnl__inflight_init(struct rnl__inflight *f, struct rnl__device *device, unsigned limit)
{
	void *word = NULL;
	int ret;

	f->device = device;
	f->limit = limit;
	f->marks = calloc(limit, sizeof(*f->marks));
	if (!f->marks)
		return -ENOMEM;
	/* Events are made here, and none while jobs run. */
	for (unsigned i = 0; i < limit; i++) {
		ret = rnl__device_event(device, false, &f->marks[i].event);
		if (ret)
			return ret;
	}
	if (!device->info.stream_writes)
		return 0;
	ret = rnl__device_alloc(device, RNL__PINNED, RNL__CACHE_LINE, &word);
	if (ret)
		return ret;
	f->word = word;
	*f->word = 0;
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
	for (unsigned i = 0; f->marks && i < f->limit; i++)
		ops->event_destroy(f->marks[i].event);
	free(f->marks);
	*f = (struct rnl__inflight){ 0 };
}

/* Notes the oldest job for health, which looks whether the device gets on. */
static void note_oldest(struct rnl__inflight *f)
{
	if (f->first)
		/* relaxed: the store below publishes it */
		atomic_store_explicit(&f->oldest_since, rnl__now_coarse(), memory_order_relaxed);
	/*
	 * [inflight.H1] release: a thread that sees the job sees since when; pairs with [stats.H2]
	 */
	atomic_store_explicit(&f->oldest, f->first, memory_order_release);
}

void rnl__inflight_push(struct rnl__inflight *f, struct rnl_job *job)
{
	job->seq = ++f->issued;
	job->link = NULL;
	if (f->last)
		f->last->link = job;
	else
		f->first = job;
	f->last = job;
	rnl__figure_add(&f->nr, 1);
	if (f->first == job)
		note_oldest(f);
}

static void reached(struct rnl__inflight *f, uint64_t seq)
{
	while (f->nr_marks && f->marks[f->first_mark].seq <= seq) {
		f->first_mark = (f->first_mark + 1) % f->limit;
		f->nr_marks--;
	}
	/*
	 * [inflight.R1] release: a join that skips its wait sees the jobs' effects;
	 * pairs with [inflight.R2]
	 */
	atomic_store_explicit(&f->reached, seq, memory_order_release);
}

/*
 * Waits for the stream, since a mark failed.  Whatever the error was, no job may be completed
 * while the device could still work on it.
 */
static int wait_for_stream(struct rnl__inflight *f)
{
	if (f->device->ops->wait(RNL__NEVER)) {
		rnl__device_fail(f->device, -1);
		return -EIO;
	}
	reached(f, f->marked);
	return 0;
}

static int write_word(struct rnl__inflight *f)
{
	int ret = f->device->ops->write(f->word, (uint32_t)f->issued);

	if (!ret)
		f->written = f->issued;
	return ret;
}

int rnl__inflight_mark(struct rnl__inflight *f, bool event, bool write)
{
	bool more = f->marked != f->issued;
	/* With nothing more to mark, the ring may be full, and this mark the oldest. */
	struct rnl__mark *mark = &f->marks[(f->first_mark + f->nr_marks) % f->limit];
	int ret = 0;

	/* The word has the low half of a number: it must not fall behind by more than that. */
	write = write || f->issued - f->written > INT32_MAX;

	if (more) {
		mark->recorded = event || !write || !f->writes;
		if (mark->recorded)
			ret = f->device->ops->event_record(mark->event);
	}
	/* A write may follow a mark that was an event alone. */
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
	f->nr_marks++;
	if (mark->recorded)
		/*
		 * [inflight.J1] release: the event is recorded before a join can find
		 * it; pairs with [inflight.J2].
		 */
		atomic_store_explicit(&f->joinable, mark->event, memory_order_release);
	return 0;
}

/* The sequence number in the word, which has the low half of one that is not above `marked`. */
static uint64_t written(struct rnl__inflight *f)
{
	/*
	 * [inflight.F1] acquire: what the device did before its write is visible; pairs
	 * with [host_stream.X1], or with the GPU's write, which CUDA orders after all
	 * earlier work of the stream.
	 */
	uint32_t low = atomic_load_explicit(rnl__atomic(f->word), memory_order_acquire);

	return f->marked - (uint32_t)((uint32_t)f->marked - low);
}

bool rnl__inflight_passed(struct rnl__inflight *f)
{
	return f->writes && f->nr_marks && written(f) >= f->marks[f->first_mark].seq;
}

int rnl__inflight_poll(struct rnl__inflight *f, bool query)
{
	struct rnl__mark *mark;
	int ret;

	if (rnl__inflight_passed(f))
		reached(f, written(f));
	if (!query || !f->nr_marks)
		return 0;
	mark = &f->marks[f->first_mark];
	if (!mark->recorded)
		return 0;
	ret = f->device->ops->event_reached(mark->event);
	if (ret < 0)
		return wait_for_stream(f);
	if (ret)
		reached(f, mark->seq);
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
	note_oldest(f);
	rnl__figure_write(&f->nr, rnl__inflight_nr(f) - 1);
	return job;
}

struct rnl_job *rnl__inflight_pop(struct rnl__inflight *f)
{
	uint64_t seq = rnl__own_read(&f->reached);

	return f->first && f->first->seq <= seq ? rnl__inflight_drop(f) : NULL;
}

int rnl__inflight_join(struct rnl__inflight *f, uint64_t seq)
{
	struct rnl__event *event;

	/*
	 * [inflight.R2] acquire: the device has passed the job, and we see that;
	 * pairs with [inflight.R1]
	 */
	if (atomic_load_explicit(&f->reached, memory_order_acquire) >= seq)
		return 0;
	/*
	 * [inflight.J2] acquire: the event is recorded behind all that the caller waits
	 * for; pairs with [inflight.J1].
	 */
	event = atomic_load_explicit(&f->joinable, memory_order_acquire);
	if (event && rnl__thread.guard) {
		/* A capture cannot wait for an event that was recorded outside of it. */
		rnl__thread.guard->again = true;
		return 0;
	}
	if (event)
		return f->device->ops->event_wait(event);
	/*
	 * No event was ever recorded: the host has waited for the caller's jobs, and @seq
	 * is a later one; or the device has failed.
	 */
	return rnl__device_failed(f->device) ? -EIO : 0;
}
