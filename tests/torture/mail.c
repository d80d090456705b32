/* SPDX-License-Identifier: MIT */
/*
 * Lone requests to batchers with a resident kernel. Each is executed once, by a lease or in a batch,
 * and its answer is right.
 *
 * DESIGN
 *	A mailer has a few letters: requests that it reserves, commits, waits for and releases in any
 *	order. All mailers share a batcher; now and then one makes a batcher of its own, and destroys
 *	it while letters are under way. Naps let leases end, and bursts let them begin. The first
 *	byte of a letter is its number, by which the function counts its executions (kernel.h).
 */
#include "asks.h"
#include "torture.h"

#include <runnel/batch.h>
#include <runnel/memory.h>

#define NR_MAILERS_MAX 3
#define NR_LETTERS 6

enum stage { FREE, RESERVED, COMMITTED, DONE };

struct letter {
	struct rnl_request request;
	enum stage stage;
	bool calls;		/* its end is reported by a callback */
	unsigned char number;
	uint64_t seed;
	struct office *office;
	_Atomic unsigned nr_ends;	/* callbacks since this commit */
};

/* A batcher, and what its users have done. */
struct office {
	struct rnl_batcher *batcher;
	struct rnl_batcher_attr attr;
	struct answer_counts *counts;	/* NULL: no memory for them, and no batcher */
	_Atomic uint64_t nr_committed;
};

struct mailer {
	struct round *round;
	struct seat *seat;
	struct mail *mail;
	struct office own;
	uint64_t nr_sent;
	struct letter letters[2][NR_LETTERS]; /* of the common batcher, and of its own */
};

struct mail {
	struct office office;
	unsigned nr_mailers;
	struct mailer mailers[NR_MAILERS_MAX];
};

/* ---- a batcher ------------------------------------------------------------- */

/* Returns the counts that the function increments, in memory that the device can access. */
static struct answer_counts *counts_get(struct round *r)
{
	/* The double's kernels still run after the device has failed. */
	return on_host() || options.fake ? round_alloc(r, sizeof(struct answer_counts)) :
	       memory_get(r, RNL_PINNED, sizeof(struct answer_counts));
}

static void counts_put(struct round *r, struct answer_counts *counts)
{
	if (counts && !on_host() && !options.fake)
		rnl_memory_put(r->pool, counts);
}

static void draw_attr(struct office *o, struct round *r, uint64_t *random)
{
	static const size_t sizes[] = { 1, 4, 12, 13, 60, 500, 4096, 12288, 12289, 20000 };
	struct rnl_batcher_attr *attr = &o->attr;

	*attr = (struct rnl_batcher_attr)RNL_BATCHER_ATTR_INIT;
	/* Also with VARIABLE, STATUS, ALWAYS_COPY and SHARED. */
	attr->flags = RNL_BATCHER_RESIDENT | draw(random, 8) |
		      (draw(random, 4) ? RNL_BATCHER_SHARED : 0);
	attr->kernel = on_host() || options.fake ? &answer : &answer_gpu;
	attr->arg = o->counts;
	attr->devices = places_draw_some(r, random);
	attr->in_bytes = sizes[draw(random, COUNT(sizes))];
	attr->out_bytes = draw(random, 5) ? sizes[draw(random, COUNT(sizes))] : 0;
	attr->max_batch = 1 + draw(random, 16);
	attr->max_in_flight = 1 + draw(random, 6);
	attr->slab_bytes = attr->in_bytes * (1 + draw(random, 20));
	attr->nr_slabs = 1 + draw(random, 4);
	attr->max_slabs = attr->nr_slabs + NR_MAILERS_MAX + 1;
	attr->nr_mailboxes = draw(random, 17);
}

/* Returns false if there is no batcher. */
static bool office_open(struct office *o, struct round *r, uint64_t *random, unsigned may)
{
	o->nr_committed = 0;
	draw_attr(o, r, random);
	return o->counts && !said(r, rnl_batcher_create(&o->batcher, r->pool, &o->attr),
				  may | MAY_LACK, "rnl_batcher_create");
}

/* @all_done: no request is under way. */
static void office_close(struct office *o, struct round *r, bool all_done)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;

	(void)said(r, rnl_batcher_read_stats(o->batcher, &stats), 0, "rnl_batcher_read_stats");
	if (stats.requests > o->nr_committed || (all_done && stats.requests != o->nr_committed) ||
	    stats.resident > stats.requests)
		tally_wrong(COUNTS, "%llu requests were committed, %llu are done, %llu of them by leases",
			    (unsigned long long)o->nr_committed,
			    (unsigned long long)stats.requests, (unsigned long long)stats.resident);
	tally_add(NR_RESIDENT, stats.resident);
	tally_add(NR_TAKEN_BACK, stats.taken_back);
	tally_add(NR_LEASES, stats.leases);
	rnl_batcher_destroy(o->batcher);
}

/* ---- a letter -------------------------------------------------------------- */

static _Atomic uint32_t *executions(const struct letter *l)
{
	return (_Atomic uint32_t *)&l->office->counts->nr[l->number];
}

static unsigned char byte_in(const struct letter *l, size_t i)
{
	return i ? byte_of(l->seed, i) : l->number;
}

static void check_result(const struct letter *l, struct round *r)
{
	const struct rnl_request *request = &l->request;
	const size_t bytes = request->in_bytes;
	const unsigned nr = *executions(l);
	const int result = request->job.result;
	const bool is_answer = result == ANSWER(byte_in(l, bytes - 1), bytes);

	if (!is_answer && !may_end_so(r, result))
		tally_wrong(REQUEST_WRONG, "result %d of a letter of %zu bytes", result, bytes);
	if (nr > 1)
		tally_wrong(RAN_TWICE, "a letter, %u times", nr);
	if (is_answer && !nr)
		tally_wrong(REQUEST_WRONG, "an answer to a letter that was not read");
}

static void check_output(const struct letter *l)
{
	const struct rnl_request *request = &l->request;
	const size_t out_bytes = l->office->attr.out_bytes;
	const unsigned char *out = request->out;

	if (!out != !out_bytes)
		tally_wrong(REQUEST_WRONG, "a letter's output is %s", out ? "there" : "not there");
	for (size_t i = 0; out && i < out_bytes; i++) {
		const unsigned char right = i < request->in_bytes ? byte_in(l, i) : FILLER;

		if (out[i] == (unsigned char)(right + options.wrong))
			continue;
		tally_wrong(REQUEST_WRONG, "byte %zu of %zu of an answer", i, out_bytes);
		return;
	}
	tally_add(NR_BYTES, out_bytes);
}

/* Runs on a worker; the mailer checks the letter later. */
static void on_done(struct rnl_job *job)
{
	rnl_container_of(job, struct letter, request.job)->nr_ends++;
}

static void reserve(struct mailer *m, struct office *o, struct letter *l)
{
	uint64_t *random = &m->seat->random;
	const size_t most = o->attr.in_bytes, bytes = o->attr.flags & RNL_BATCHER_VARIABLE ?
		1 + draw(random, (unsigned)most) : most;
	const bool waits = !draw(random, 32);
	unsigned char *in;

	l->calls = !draw(random, 12);
	l->nr_ends = 0;
	l->office = o;
	if (rnl_job_init(&l->request.job, NULL) ||
	    (l->calls && rnl_job_set_on_done(&l->request.job, on_done)))
		tally_wrong(UNDOCUMENTED, "a letter could not be made");
	at(m->seat, "rnl_batcher_reserve");
	if (said(m->round, rnl_batcher_reserve(o->batcher, &l->request, bytes, waits ? MS : 0),
		 MAY_SHUT | (waits ? MAY_TIME_OUT : MAY_AGAIN), "rnl_batcher_reserve"))
		return;
	l->seed = (uint64_t)l->number << 32 | m->nr_sent++;
	in = l->request.in;
	for (size_t i = 0; i < bytes; i++)
		in[i] = byte_in(l, i);
	*executions(l) = 0;
	l->stage = RESERVED;
}

static void release(struct mailer *m, struct letter *l)
{
	at(m->seat, "rnl_request_release");
	l->stage = FREE;
	(void)said(m->round, rnl_request_release(&l->request), 0, "rnl_request_release");
}

static void commit(struct mailer *m, struct letter *l)
{
	at(m->seat, "rnl_request_commit");
	l->stage = COMMITTED;
	if (said(m->round, rnl_request_commit(&l->request), MAY_SHUT, "rnl_request_commit")) {
		release(m, l);
		return;
	}
	l->office->nr_committed++;
	tally_add(NR_REQUESTS, 1);
}

/* Returns true if the letter is done.  @timeout_ns: of a wait, if it has one. */
static bool await(struct mailer *m, struct letter *l, int64_t timeout_ns)
{
	int ret = 0;

	at(m->seat, "waiting for a letter");
	if (!l->calls)
		ret = said(m->round, rnl_job_wait(&l->request.job, timeout_ns), MAY_TIME_OUT,
			   "rnl_job_wait");
	else if (!l->nr_ends)
		ret = -EAGAIN;
	if (ret)
		return false;
	if (l->calls && l->nr_ends != 1)
		tally_wrong(REQUEST_ENDS, "called %u times", l->nr_ends);
	if (!is_done(&l->request.job))
		tally_wrong(REQUEST_ENDS, "a letter that has ended is not done");
	l->stage = DONE;
	check_result(l, m->round);
	if (l->request.job.result >= 0)
		check_output(l);
	return true;
}

static int64_t draw_timeout(uint64_t *random)
{
	switch (draw(random, 4)) {
	case 0:
		return 0;
	case 1:
		return 1 + draw(random, 300000);
	default:
		return long_ns();
	}
}

/* A request that is under way is not cancelled. */
static void try_cancel(struct mailer *m, struct letter *l)
{
	int ret;

	at(m->seat, "rnl_job_cancel");
	ret = rnl_job_cancel(&l->request.job);
	if (ret != -EBUSY && ret != -EALREADY)
		tally_wrong(UNDOCUMENTED, "a cancel of a committed letter returned %d", ret);
}

/* Takes the letter's next step. */
static void handle(struct mailer *m, struct office *o, struct letter *l)
{
	uint64_t *random = &m->seat->random;

	if (l->stage == FREE)
		reserve(m, o, l);
	if (l->stage == RESERVED && draw(random, 8))
		commit(m, l);
	else if (l->stage == RESERVED && !draw(random, 4))
		release(m, l);
	if (l->stage == COMMITTED && !draw(random, 16))
		try_cancel(m, l);
	if (l->stage == COMMITTED && draw(random, 4))
		(void)await(m, l, draw_timeout(random));
	if (l->stage == DONE && draw(random, 8))
		release(m, l);
}

static void burst(struct mailer *m, struct office *o, struct letter *letters)
{
	for (unsigned left = 1 + draw(&m->seat->random, 30); left && !m->round->stop; left--)
		handle(m, o, &letters[draw(&m->seat->random, NR_LETTERS)]);
}

/* ---- ends ------------------------------------------------------------------ */

/* Waits for all committed letters; others stay as they are. */
static void await_all(struct mailer *m, struct letter *letters)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();

	for (unsigned i = 0; i < NR_LETTERS; i++) {
		while (letters[i].stage == COMMITTED && !await(m, &letters[i], long_ns())) {
			if (now_ns() > until) {
				tally_wrong(REQUEST_ENDS, "a letter has not ended");
				give_up(m->round, "letters have not ended");
			}
			nap_us(100);
		}
		if (letters[i].stage == DONE && i % 2)
			release(m, &letters[i]);
	}
}

/* The batcher is destroyed: all committed letters are done, and their memory is gone. */
static void check_destroyed(struct mailer *m, struct letter *letters)
{
	for (unsigned i = 0; i < NR_LETTERS; i++) {
		struct letter *l = &letters[i];

		if (l->stage == COMMITTED) {
			if (!is_done(&l->request.job) || (l->calls && l->nr_ends != 1))
				tally_wrong(REQUEST_ENDS, "a batcher is destroyed, and a letter to it is "
					    "not done");
			check_result(l, m->round);
		}
		l->stage = FREE;
	}
}

/* Makes a batcher, and destroys it while letters are under way. */
static void use_own(struct mailer *m)
{
	struct letter *letters = m->letters[1];

	at(m->seat, "rnl_batcher_create");
	if (!office_open(&m->own, m->round, &m->seat->random, MAY_SHUT))
		return;
	for (unsigned left = 1 + draw(&m->seat->random, 4); left; left--)
		burst(m, &m->own, letters);
	at(m->seat, "rnl_batcher_destroy");
	office_close(&m->own, m->round, false);
	check_destroyed(m, letters);
}

static void send_all(struct seat *seat)
{
	struct mailer *m = seat->arg;
	struct round *r = seat->round;

	m->seat = seat;
	while (!r->stop) {
		if (!draw(&seat->random, 24))
			use_own(m);
		burst(m, &m->mail->office, m->letters[0]);
		if (!draw(&seat->random, 4))
			nap_us(draw(&seat->random, 1000));
	}
	await_all(m, m->letters[0]);
	r->nr_stopped++;
}

void mail_begin(struct round *r)
{
	struct mail *mail = round_alloc(r, sizeof(*mail));

	mail->office.counts = counts_get(r);
	if (!office_open(&mail->office, r, &r->random, 0)) {
		counts_put(r, mail->office.counts);
		return;
	}
	r->mail = mail;
	r->others = true;
	mail->nr_mailers = 1 + draw(&r->random, NR_MAILERS_MAX);
	for (unsigned i = 0; i < mail->nr_mailers; i++) {
		struct mailer *m = &mail->mailers[i];

		m->round = r;
		m->mail = mail;
		m->own.counts = counts_get(r);
		for (unsigned k = 0; k < 2 * NR_LETTERS; k++)
			m->letters[k / NR_LETTERS][k % NR_LETTERS].number =
				(unsigned char)(i * NR_LETTERS + k % NR_LETTERS);
		seat_take(r, "mailer", MAKES, send_all, m);
	}
}

void mail_end(struct round *r)
{
	if (!r->mail)
		return;
	office_close(&r->mail->office, r, true);
	counts_put(r, r->mail->office.counts);
	for (unsigned i = 0; i < r->mail->nr_mailers; i++)
		counts_put(r, r->mail->mailers[i].own.counts);
}
