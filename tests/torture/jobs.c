/* SPDX-License-Identifier: MIT */
/* Producers of jobs of every kind, the reaper of the completion queue, and cancellers. */
#include "asks.h"
#include "life.h"

#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <runnel/thread.h>

/* ---- producers --------------------------------------------------------------- */

struct slot *producer_free_slot(struct producer *p)
{
	for (unsigned i = 0; i < 8; i++) {
		struct slot *slot = &p->slots[draw(p->random, NR_SLOTS)];

		if (phase_of(slot->state) == FREE)
			return slot;
	}
	return NULL;
}

void producer_wait_for(struct producer *p, struct slot *slot, int64_t timeout_ns)
{
	const uint64_t since = now_ns();
	int ret;

	at(p->seat, "rnl_job_wait");
	ret = rnl_job_wait(&slot->shot->job, timeout_ns);
	/* At its timeout a wait checks again, so even a wait that was not woken may return 0. */
	if (timeout_ns == long_ns() && now_ns() - since >= (uint64_t)timeout_ns)
		tally_wrong(TOO_LATE, "a wait for a job was not woken, and returned %d", ret);
	if (!said(p->round, ret, MAY_TIME_OUT, "rnl_job_wait"))
		slot_end(slot);
}

/* A notice may wait for a long time, so the owner of a notice does not wait that long. */
static int64_t draw_patience(struct producer *p, const struct slot *slot)
{
	const int64_t patience[] = { 0, 0, 0, 50000, slot->way < AT_SPACE ? long_ns() : 0 };

	return patience[draw(p->random, COUNT(patience))];
}

/* Submits, by one rnl_submit_many(), the jobs that were begun for this call. */
static void flush(struct producer *p)
{
	struct rnl_job *jobs[NR_MANY];
	uint64_t states[NR_MANY];
	const bool closed = p->round->closed;
	int ret;

	at(p->seat, "rnl_submit_many");
	for (unsigned i = 0; i < p->nr_many; i++) {
		jobs[i] = &p->many[i]->shot->job;
		submit_anew(jobs[i]);
		states[i] = p->many[i]->state;
	}
	ret = rnl_submit_many(p->round->pool, jobs, p->nr_many);
	if (ret > (int)p->nr_many)
		tally_wrong(UNDOCUMENTED, "of %u jobs, %d were accepted", p->nr_many, ret);
	/* The call reports only the error of the first job. */
	for (int i = 0; i < (int)p->nr_many; i++)
		(void)slot_submitted(p->many[i], states[i], i < ret ? 0 : i || !ret ? -EAGAIN : ret,
				     closed);
	p->nr_many = 0;
}

/* Ends a slot's life if possible, and begins the next one unless @anew is false. */
static void tend(struct producer *p, struct slot *slot, bool anew)
{
	uint64_t state = slot->state;

	if (is_waited_for(state))
		producer_wait_for(p, slot, draw_patience(p, slot));
	if (phase_of(state) == ENDED && !slot->group && !slot->after)
		slot->state = in_phase(state, FREE);
	if (phase_of(state) != FREE || !anew)
		return;
	at(p->seat, "a submit");
	slot_begin(slot, p->keys, NULL, NULL, 0);
	if (slot->way != MANY) {
		/* In calm rounds this may be the only job: its worker sleeps and must be woken. */
		if (slot_submit(slot) && p->round->calm && is_waited_for(slot->state) &&
		    slot->way < AT_SPACE && draw(p->random, 2))
			producer_wait_for(p, slot, long_ns());
		return;
	}
	p->many[p->nr_many++] = slot;
	if (p->nr_many == NR_MANY)
		flush(p);
}

/* Reports a slot whose job must have ended by now. */
static void tell_lost(struct slot *slot)
{
	if (phase_of(slot->state) == FREE || phase_of(slot->state) == ENDED)
		return;
	if (tally_wrong(slot->end == BY_CQ ? CQ_WRONG : NEVER_ENDED, "its test is %d",
			is_done(&slot->shot->job)))
		slot_print(slot);
}

static void finish(struct producer *p)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();
	bool left;

	at(p->seat, "finishing");
	do {
		left = false;
		for (unsigned i = 0; i < NR_GROUPS; i++)
			group_close(p, &p->groups[i]);
		for (unsigned i = 0; i < NR_SLOTS; i++) {
			tend(p, &p->slots[i], false);
			left = left || phase_of(p->slots[i].state) != FREE;
		}
		if (now_ns() > until) {
			for (unsigned i = 0; i < NR_SLOTS; i++)
				tell_lost(&p->slots[i]);
			give_up(p->round, "jobs have not ended");
		}
		nap_us(100);
	} while (left);
	groups_free(p);
}

static void produce(struct seat *seat)
{
	struct producer *p = seat->arg;
	struct round *r = seat->round;

	p->seat = seat;
	p->random = &seat->random;
	groups_begin(p);
	while (!r->stop) {
		struct group *g = &p->groups[draw(p->random, NR_GROUPS)];

		tend(p, &p->slots[draw(p->random, NR_SLOTS)], true);
		if (r->calm)
			nap_us(draw(p->random, 60));
		else if (!draw(p->random, 32))
			sched_yield();
		if (!draw(p->random, 16))
			flush(p);
		if (!draw(p->random, 16) && !g->nr_in && !g->nr_after)
			group_open(p, g);
		else if (!draw(p->random, 4))
			group_close(p, g);
	}
	flush(p);
	r->nr_stopped++;
	if (!r->leaves)
		finish(p);
	/* A join of a barrier gave this thread a stream. */
	rnl_thread_attach(NULL);
}

/* ---- the reaper ---------------------------------------------------------------- */

static int reap(struct seat *seat, int epoll)
{
	struct round *r = seat->round;
	struct rnl_job *jobs[16];
	const unsigned max = 1 + draw(&seat->random, 16);
	struct epoll_event event;
	int ret = 0;

	if (epoll < 0) {
		at(seat, "rnl_cq_reap");
		ret = said(r, rnl_cq_reap(r->cq, jobs, max, 20 * MS), 0, "rnl_cq_reap");
	} else {
		at(seat, "epoll_wait");
		if (epoll_wait(epoll, &event, 1, 20) > 0)
			ret = said(r, rnl_cq_reap(r->cq, jobs, max, 0), 0, "rnl_cq_reap");
	}
	for (int i = 0; i < ret; i++) {
		if (jobs[i]->user)
			life_reaped(jobs[i]);
		else
			slot_end(rnl_container_of(jobs[i], struct shot, job)->slot);
	}
	return ret;
}

/* Reaps until the end; with a descriptor, reaps once each time it is readable. */
static void reap_all(struct seat *seat)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = draw(&seat->random, 2) ? epoll_create1(EPOLL_CLOEXEC) : -1;

	if (epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, rnl_cq_fd(seat->round->cq), &event))
		tally_wrong(CQ_WRONG, "its descriptor cannot be polled");
	while (!seat->round->reaped)
		(void)reap(seat, epoll);
	while (reap(seat, epoll) > 0)
		;
	if (epoll >= 0)
		close(epoll);
}

/* ---- cancellers ------------------------------------------------------------------ */

void jobs_cancel_some(struct round *r, uint64_t *random)
{
	struct producer *p = &r->jobs->producers[draw(random, r->jobs->nr)];

	slot_cancel(&p->slots[draw(random, NR_SLOTS)]);
}

static void cancel(struct seat *seat)
{
	at(seat, "cancelling");
	while (!seat->round->over) {
		jobs_cancel_some(seat->round, &seat->random);
		if (!draw(&seat->random, 32))
			nap_us(draw(&seat->random, 100));
	}
}

/* ---- checks of all slots ------------------------------------------------------ */

#define EACH_SLOT(r, slot) \
	for (struct producer *p = (r)->jobs->producers; \
	     p < (r)->jobs->producers + (r)->jobs->nr; p++) \
		for (struct slot *slot = p->slots; slot < p->slots + NR_SLOTS; slot++)

void jobs_print(const struct round *r)
{
	if (!r->jobs)
		return;
	EACH_SLOT(r, slot) {
		if (phase_of(slot->state) != FREE && phase_of(slot->state) != ENDED)
			slot_print(slot);
	}
}

/* Checks a drained pool without submits: only notices, and jobs to be reaped, may be left. */
void jobs_check_drained(struct round *r)
{
	EACH_SLOT(r, slot) {
		const enum phase phase = phase_of(slot->state);

		if (phase == FREE || phase == ENDED || slot->end != BY_CALLBACK ||
		    slot->way >= AT_SPACE)
			continue;
		if (tally_wrong(DRAINED_EARLY, "its callback has not returned"))
			slot_print(slot);
	}
}

/* ---- begin, end ----------------------------------------------------------------- */

void jobs_begin(struct round *r)
{
	r->jobs = must_alloc(sizeof(*r->jobs));
	r->jobs->nr = 1 + draw(&r->random, r->calm ? 2 : NR_PRODUCERS_MAX);
	for (unsigned i = 0; i < r->jobs->nr; i++) {
		struct producer *p = &r->jobs->producers[i];

		p->round = r;
		for (unsigned k = 0; k < NR_SLOTS; k++) {
			p->slots[k].round = r;
			p->slots[k].random = draws_of(r->random, (i + 1) * 10000 + k);
		}
	}
	seat_take(r, "reaper", REAPS, reap_all, NULL);
	for (unsigned i = 0; i < r->jobs->nr; i++)
		seat_take(r, "producer", MAKES, produce, &r->jobs->producers[i]);
	for (unsigned i = draw(&r->random, 3); i; i--)
		seat_take(r, "canceller", MEDDLES, cancel, NULL);
}

/* Frees the slots; the pool and the reaper have ended, so every job must have ended. */
void jobs_end(struct round *r)
{
	EACH_SLOT(r, slot) {
		if (is_waited_for(slot->state) && !rnl_job_wait(&slot->shot->job, 0))
			slot_end(slot);
		tell_lost(slot);
		work_forget(&slot->work);
		free(slot->shot);
	}
	free(r->jobs);
}
