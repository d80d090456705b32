/* SPDX-License-Identifier: MIT */
/*
 * Producers send small requests; they cancel some, delay some, and never commit some. Each
 * committed request completes once, with the notification that it asked for and the right output.
 *
 * DESIGN
 *	kernel.h defines a request's output. The functions of some batchers fail now and then.
 */
#include "asks.h"
#include "torture.h"

#include <stdlib.h>

#include <runnel/batch.h>
#include <runnel/kernel.h>

#define NR_SENDERS_MAX 3
#define NR_EACH 24		/* requests of a sender */
#define FAILURE (-EPROTO)

enum means { WAIT, CALL, QUEUE, BARRIER, NR_MEANS };
enum stage { FREE, RESERVED, COMMITTED };

struct item {
	struct rnl_request request;
	struct sender *sender;
	enum means means;
	enum stage stage;
	uint64_t seed;
	_Atomic unsigned nr_ends;	/* callbacks since this commit */
};

struct sender {
	struct round *round;
	struct seat *seat;
	struct batch *batch;
	uint64_t number, nr_sent;
	struct rnl_cq *cq;
	struct rnl_barrier barrier;
	struct item items[NR_EACH];
};

struct batch {
	struct rnl_batcher *batcher;
	struct rnl_batcher_attr attr;
	bool fails;
	_Atomic uint64_t nr_calls, nr_committed, nr_done;
	unsigned nr_senders;
	struct sender senders[NR_SENDERS_MAX];
};

/* ---- its function ------------------------------------------------------------- */

static int run(const struct rnl_batch *batch)
{
	struct batch *b = batch->arg;
	const struct unpack_args args = { *batch, b->attr.in_bytes, b->attr.out_bytes };
	const struct rnl_dim grid = { batch->nr, 1, 1 }, block = { 64, 1, 1 };

	places_check(b->senders[0].round, b->attr.devices, "a batch");
	if (!batch->nr || batch->nr > b->attr.max_batch || !batch->in || !batch->in_bytes ||
	    !batch->out != !b->attr.out_bytes ||
	    !batch->spans != !(b->attr.flags & RNL_BATCHER_VARIABLE) ||
	    !batch->status != !(b->attr.flags & RNL_BATCHER_STATUS))
		tally_wrong(REQUEST_WRONG, "a batch of %u is not as the header has it", batch->nr);
	if (b->fails && b->nr_calls++ % 8 == 0)
		return FAILURE;
	return rnl_launch(&unpack, grid, block, &args);
}

/* ---- an item --------------------------------------------------------------------- */

static bool result_allowed(const struct item *item, int result)
{
	const struct batch *b = item->sender->batch;

	if (result < 0)
		return (b->fails && result == FAILURE) ||
		       may_end_so(item->sender->round, result);
	return result == (b->attr.flags & RNL_BATCHER_STATUS ? byte_of(item->seed, 0) : 0);
}

static bool output_right(const struct item *item)
{
	const struct rnl_request *request = &item->request;
	const size_t out_bytes = item->sender->batch->attr.out_bytes;
	const unsigned char *out = request->out;

	for (size_t i = 0; i < out_bytes; i++) {
		if (out[i] != (unsigned char)((i < request->in_bytes ? byte_of(item->seed, i) :
						FILLER) + options.wrong))
			return false;
	}
	tally_add(NR_BYTES, out_bytes);
	return true;
}

static void verify(struct item *item)
{
	struct rnl_request *request = &item->request;
	struct sender *s = item->sender;
	const int result = request->job.result;

	if (rnl_job_wait(&request->job, 0) || item->stage != COMMITTED)
		tally_wrong(REQUEST_ENDS, "an end, stage %d, test %d", item->stage,
			    is_done(&request->job));
	if (!result_allowed(item, result))
		tally_wrong(REQUEST_WRONG, "result %d", result);
	else if (result >= 0 && s->batch->attr.out_bytes && !request->out)
		tally_wrong(REQUEST_WRONG, "there is no output");
	else if (result >= 0 && !output_right(item))
		tally_wrong(REQUEST_WRONG, "its output is another's");
	(void)said(s->round, rnl_request_release(request), 0, "rnl_request_release");
	item->stage = FREE;
	s->batch->nr_done++;
}

/* Runs on a worker, so the sender checks the request later. */
static void on_done(struct rnl_job *job)
{
	rnl_container_of(job, struct item, request.job)->nr_ends++;
}

static void set_means(struct item *item, enum means means)
{
	struct rnl_job *job = &item->request.job;
	struct sender *s = item->sender;

	item->means = means;
	item->nr_ends = 0;
	if (rnl_job_init(&item->request.job, NULL) ||
	    (means == CALL && rnl_job_set_on_done(job, on_done)) ||
	    (means == QUEUE && rnl_job_set_cq(job, s->cq)) ||
	    (means == BARRIER && rnl_barrier_add(&s->barrier, job)))
		tally_wrong(UNDOCUMENTED, "a request could not be made");
}

static void reserve(struct sender *s, struct item *item)
{
	struct rnl_batcher *batcher = s->batch->batcher;
	const size_t most = s->batch->attr.in_bytes;
	uint64_t *random = &s->seat->random;
	const size_t bytes = s->batch->attr.flags & RNL_BATCHER_VARIABLE ?
			     1 + draw(random, (unsigned)most) : most;
	unsigned char *in;
	bool waits;
	int ret;

	set_means(item, (enum means)draw(random, NR_MEANS));
	at(s->seat, "rnl_batcher_reserve");
	waits = !draw(random, 32);
	ret = said(s->round, rnl_batcher_reserve(batcher, &item->request, bytes, waits ? MS : 0),
		   MAY_SHUT | (waits ? MAY_TIME_OUT : MAY_AGAIN), "rnl_batcher_reserve");
	if (ret)
		return;
	item->seed = s->number << 32 | s->nr_sent++;
	in = item->request.in;
	for (size_t i = 0; i < bytes; i++)
		in[i] = byte_of(item->seed, i);
	item->stage = RESERVED;
}

static void commit(struct sender *s, struct item *item)
{
	int ret;

	at(s->seat, "rnl_request_commit");
	if (draw(&s->seat->random, 10)) {
		item->stage = COMMITTED;
		ret = said(s->round, rnl_request_commit(&item->request), MAY_SHUT,
			   "rnl_request_commit");
		s->batch->nr_committed += !ret;
		tally_add(NR_REQUESTS, !ret);
		if (!ret)
			return;
	}
	item->stage = FREE;
	(void)said(s->round, rnl_request_release(&item->request), 0, "rnl_request_release");
}

/* ---- completions ------------------------------------------------------------------------- */

static void reap(struct sender *s)
{
	struct rnl_job *jobs[NR_EACH];
	int nr = said(s->round, rnl_cq_reap(s->cq, jobs, NR_EACH, 0), 0, "rnl_cq_reap");

	for (int i = 0; i < nr; i++) {
		struct item *item = rnl_container_of(jobs[i], struct item, request.job);

		if (item->means != QUEUE || item->stage != COMMITTED)
			tally_wrong(CQ_WRONG, "a request, means %d, stage %d", item->means,
				    item->stage);
		else
			verify(item);
	}
}

/* Returns true if the request has ended.  @wait: first waits for its end, if it has a wait. */
static bool has_ended(struct sender *s, struct item *item, bool wait)
{
	at(s->seat, "waiting for a request");
	if (item->means == WAIT && wait)
		(void)said(s->round, rnl_job_wait(&item->request.job, RNL_FOREVER), 0,
			   "rnl_job_wait");
	if (item->means == BARRIER && wait)
		(void)said(s->round, rnl_barrier_wait(&s->barrier, RNL_FOREVER), 0,
			   "rnl_barrier_wait");
	if (item->means == BARRIER && wait && rnl_job_wait(&item->request.job, 0))
		tally_wrong(BARRIER_EARLY, "a wait for it ended before a request of it");
	if (item->means != CALL)
		return is_done(&item->request.job) != 0;
	if (item->nr_ends > 1)
		tally_wrong(REQUEST_ENDS, "called %u times", item->nr_ends);
	return item->nr_ends;
}

static void look_at(struct sender *s, struct item *item, bool wait)
{
	if (item->means == QUEUE)
		reap(s);
	else if (has_ended(s, item, wait))
		verify(item);
}

static void finish(struct sender *s)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();
	unsigned left;

	do {
		left = 0;
		for (unsigned i = 0; i < NR_EACH; i++) {
			if (s->items[i].stage != COMMITTED)
				continue;
			look_at(s, &s->items[i], true);
			left++;
		}
		if (left && now_ns() > until) {
			tally_wrong(REQUEST_ENDS, "%u have not ended", left);
			give_up(s->round, "requests have not ended");
		}
		nap_us(left ? 100 : 0);
	} while (left);
}

static void send_all(struct seat *seat)
{
	struct sender *s = seat->arg;
	struct round *r = seat->round;

	s->seat = seat;
	while (!r->stop) {
		struct item *item = &s->items[draw(&seat->random, NR_EACH)];

		/* The last item's request is never committed; other requests are, if not now. */
		if (item->stage == FREE)
			reserve(s, item);
		if (item->stage == RESERVED && item != &s->items[NR_EACH - 1] &&
		    draw(&seat->random, 4))
			commit(s, item);
		else if (item->stage == COMMITTED)
			look_at(s, item, draw(&seat->random, 2));
		if (!draw(&seat->random, 64))
			nap_us(draw(&seat->random, 50));
	}
	finish(s);
	r->nr_stopped++;
}

/* ---- a batcher ---------------------------------------------------------------------- */

static void draw_attr(struct batch *b, struct round *r, uint64_t *random)
{
	static const size_t sizes[] = { 1, 4, 60, 64, 500, 4096 };
	struct rnl_batcher_attr *attr = &b->attr;

	*attr = (struct rnl_batcher_attr)RNL_BATCHER_ATTR_INIT;
	attr->flags = draw(random, 8);
	attr->fn = run;
	attr->arg = b;
	attr->devices = places_draw_some(r, random);
	attr->in_bytes = sizes[draw(random, COUNT(sizes))];
	attr->out_bytes = draw(random, 5) ? sizes[draw(random, COUNT(sizes))] : 0;
	attr->max_batch = 1 + draw(random, draw(random, 2) ? 64 : 5);
	attr->max_in_flight = 1 + draw(random, 6);
	attr->slab_bytes = attr->in_bytes * (1 + draw(random, 40));
	attr->nr_slabs = 1 + draw(random, 6);
	/* One slab for each request that is never committed, plus one. */
	attr->max_slabs = attr->nr_slabs + NR_SENDERS_MAX + 1;
	b->fails = !draw(random, 4);
}

void batch_begin(struct round *r)
{
	struct batch *b = must_alloc(sizeof(*b));

	draw_attr(b, r, &r->random);
	if (said(r, rnl_batcher_create(&b->batcher, r->pool, &b->attr), MAY_LACK,
		 "rnl_batcher_create")) {
		free(b);
		return;
	}
	r->batch = b;
	r->others = true;
	b->nr_senders = 1 + draw(&r->random, NR_SENDERS_MAX);
	for (unsigned i = 0; i < b->nr_senders; i++) {
		struct sender *s = &b->senders[i];

		s->round = r;
		s->batch = b;
		s->number = i;
		for (unsigned k = 0; k < NR_EACH; k++)
			s->items[k].sender = s;
		s->cq = cq_make(r);
		barrier_make(r, &s->barrier);
		seat_take(r, "sender", MAKES, send_all, s);
	}
}

void batch_end(struct round *r)
{
	struct batch *b = r->batch;

	if (!b)
		return;
	rnl_batcher_destroy(b->batcher);
	/* All callbacks have returned, so a second call would have been counted. */
	for (unsigned i = 0; i < b->nr_senders; i++) {
		for (unsigned k = 0; k < NR_EACH; k++) {
			if (b->senders[i].items[k].nr_ends > 1)
				tally_wrong(REQUEST_ENDS, "called %u times",
					    b->senders[i].items[k].nr_ends);
		}
		rnl_cq_destroy(b->senders[i].cq);
	}
	if (b->nr_committed != b->nr_done)
		tally_wrong(REQUEST_ENDS, "%llu were committed, %llu have ended",
			    (unsigned long long)b->nr_committed, (unsigned long long)b->nr_done);
	free(b);
}
