/* SPDX-License-Identifier: MIT */
/* Jobs with a record of their calls and ends. life.h has the DESIGN. */
#include "life.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/replay.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>

#include <runnel/replay.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* ---- its function ------------------------------------------------------------- */

static int run(struct rnl_job *job)
{
	struct life *life = job->user;
	const enum phase phase = phase_of(life->state);

	if (life->nr_run++ >= (life->round->guarded ? 2u : 1u))
		tally_wrong(RAN_TWICE, "%s", life->what);
	if (phase != SUBMITTING && phase != ACCEPTED)
		tally_wrong(RAN_REFUSED, "%s, phase %d", life->what, phase);
	place_check(life->round, life->goes_along ? -1 : life->place, life->what);
	class_runs(&life->classed);
	life->gives = life->run(life);
	class_ran(&life->classed);
	return life->gives;
}

/* ---- its end ------------------------------------------------------------------ */

static void print(const struct life *life)
{
	const enum phase phase = phase_of(life->state);

	fprintf(stderr, "torture:   %s %u: %s for %.3f s, told by %s, life %llu, ran %u times, %u "
		"cancels in time, deadline %lld ns%s, place %d, class %d\n", life->what, life->number,
		phase == FREE ? "free" : phase == SUBMITTING ? "submitting" :
		phase == ACCEPTED ? "accepted" : "ending",
		(double)(now_ns() - life->begun) * 1e-9,
		life->end == BY_WAIT ? "a wait" : life->end == BY_CQ ? "the queue" :
		life->end == BY_ANOTHER ? "another job" : "a callback",
		(unsigned long long)(life->state / LIFE), life->nr_run, life->nr_cancelled,
		(long long)life->deadline, life->gathers ? ", gathers" : "", life->place,
		class_number(&life->classed));
}

static bool is_allowed(const struct life *life, int result)
{
	if (may_end_so(life->round, result))
		return true;
	if (life->nr_run && life->nr_cancelled)
		return false;
	if (life->may_end && life->may_end(life, result))
		return true;
	if (life->nr_run)
		return result == life->gives;
	if (result == -ETIMEDOUT)
		return !life->nr_cancelled &&
		       (life_is_late(life) ||
			(life_deadline(life) >= 0 && class_is_hasty(&life->classed)));
	return result == -ECANCELED && (life->nr_cancelled || life->may_end_unrun ||
					(life->waits && life->round->shut));
}

static void count(const struct life *life, int result)
{
	struct round *r = life->round;

	r->failed += result < 0;
	/* A notice of a barrier (no `run`) may have the result of another job. */
	r->cancelled += result == -ECANCELED && !life->nr_run && life->run;
	r->timed_out += result == -ETIMEDOUT && !life->nr_run;
	tally_add(NR_RAN, life->nr_run != 0);
	tally_add(NR_CANCELLED, result == -ECANCELED);
	tally_add(NR_TIMED_OUT, result == -ETIMEDOUT);
	tally_add(NR_FAILED, result < 0);
	tally_add(NR_PLACED, life->place >= 0 && !life->goes_along);
	r->gathered += life->gathers && life->nr_run;
	class_ended(&life->classed, life->nr_run != 0, result);
	r->ended++;
}

static void end(struct life *life)
{
	uint64_t state = life->state;
	int result;

	do {
		if (phase_of(state) != SUBMITTING && phase_of(state) != ACCEPTED) {
			tally_wrong(ENDED_TWICE, "%s, phase %d", life->what, phase_of(state));
			return;
		}
	} while (!atomic_compare_exchange_weak(&life->state, &state, in_phase(state, ENDING)));
	while (life->pins)
		sched_yield();
	result = life->job.result;
	if (!is_allowed(life, result) &&
	    tally_wrong(WRONG_END, "%s has result %d, its function's is %d", life->what, result,
			life->gives))
		print(life);
	count(life, result);
	life->nr_telling++;
	life->state = in_phase(life->state, FREE);
	if (life->notified)
		life->notified(life, result);
	life->nr_telling--;
}

static void callback(struct rnl_job *job)
{
	struct life *life = job->user;

	if (rnl_worker().index < 0 && life->nr_run)
		tally_wrong(UNDOCUMENTED, "a callback was called by a thread that is no worker");
	end(life);
}

void life_reaped(struct rnl_job *job)
{
	end(job->user);
}

void life_over(struct life *life)
{
	end(life);
}

bool life_wait(struct life *life, int64_t timeout_ns)
{
	const uint64_t since = now_ns();
	int ret;

	if (life_is_free(life))
		return true;
	ret = rnl_job_wait(&life->job, timeout_ns);
	if (timeout_ns == long_ns() && now_ns() - since >= (uint64_t)timeout_ns &&
	    tally_wrong(TOO_LATE, "a wait for %s was not woken, and returned %d", life->what, ret))
		print(life);
	if (said(life->round, ret, MAY_TIME_OUT, "rnl_job_wait"))
		return false;
	end(life);
	return true;
}

/* ---- its begin ----------------------------------------------------------------- */

void life_scrap(struct life *life)
{
	memset(&life->job, 0x5a, sizeof(life->job));
	ASAN_POISON_MEMORY_REGION(&life->job, sizeof(life->job));
}

void life_renew(struct life *life)
{
	ASAN_UNPOISON_MEMORY_REGION(&life->job, sizeof(life->job));
	if (rnl_job_init(&life->job, life->run ? run : NULL) ||
	    (life->end == BY_CQ && rnl_job_set_cq(&life->job, life->round->cq)) ||
	    (life->end == BY_CALLBACK && rnl_job_set_on_done(&life->job, callback)))
		tally_wrong(UNDOCUMENTED, "a job could not be made");
	life->job.user = life;
}

struct life *life_new(struct round *r, const char *what, enum end end_by,
		      int (*fn)(struct life *life), void (*notified)(struct life *life, int result),
		      void *arg)
{
	struct life *life = must_alloc(sizeof(*life));

	*life = (struct life){ .round = r, .what = what, .end = end_by, .run = fn, .notified = notified,
			       .arg = arg, .deadline = -1,
			       .random = draws_of(r->random, 20000 + r->nr_lives++) };
	life_renew(life);
	life->next = r->lives;
	while (!atomic_compare_exchange_weak(&r->lives, &life->next, life))
		;
	return life;
}

static void set_place(struct life *life)
{
	life->place = life->same_place ? *life->same_place :
					 place_draw(life->round, &life->random);
	place_set(&life->job, life->place);
}

/* Draws whether the job gathers. Every job may, because all functions issue by rnl_ calls. */
static void set_gather(struct life *life)
{
	if (!life->run || life->waits_for_jobs)
		return;
	life->gathers = draw_gather(life->round, &life->random);
	if (rnl_job_set_flags(&life->job, life->gathers ? RNL_GATHER : 0))
		tally_wrong(UNDOCUMENTED, "a job that is done could not be changed");
}

uint64_t life_begin(struct life *life)
{
	uint64_t state = life->state;

	if (phase_of(state) != FREE ||
	    !atomic_compare_exchange_strong(&life->state, &state,
					    in_phase(state + LIFE, ENDING)))
		return 0;
	life->nr_run = life->nr_cancelled = 0;
	life->begun = now_ns();
	set_gather(life);
	set_place(life);
	class_draw(life->round, &life->classed, &life->job, life->run ? life->classing : NO_CLASS,
		   &life->random);
	life->classed.timed = life_deadline(life) >= 0;
	state = in_phase(state + LIFE, SUBMITTING);
	life->state = state;
	return state;
}

int life_submitted(struct life *life, uint64_t state, int ret, unsigned may, bool closed)
{
	struct round *r = life->round;

	if (!ret) {
		if (closed)
			tally_wrong(NOT_REFUSED, "%s, after a close had returned", life->what);
		/* Fails if the life has ended by now, or the next one has begun. */
		atomic_compare_exchange_strong(&life->state, &state, in_phase(state, ACCEPTED));
		r->accepted++;
		tally_add(NR_JOBS, 1);
		return 0;
	}
	if (!class_refused(&life->classed, ret, !(may & MAY_AGAIN)))
		(void)said(r, ret, may, "a submit");
	tally_add(NR_REFUSED, 1);
	if (!atomic_compare_exchange_strong(&life->state, &state, in_phase(state, ENDING))) {
		tally_wrong(RAN_REFUSED, "%s: a submit returned %d, and it has ended", life->what,
			    ret);
		return ret;
	}
	while (life->pins)
		sched_yield();
	if (life->nr_run || life->nr_cancelled)
		tally_wrong(RAN_REFUSED, "%s: a submit returned %d; it ran %u times, %u cancels "
			    "returned 0", life->what, ret, life->nr_run, life->nr_cancelled);
	life->state = in_phase(state, FREE);
	return ret;
}

int life_submit(struct life *life, unsigned how, uint64_t key)
{
	struct rnl_pool *pool = life->round->pool;
	const bool closed = life->round->closed;
	const uint64_t state = life_begin(life);
	int ret;

	if (!state)
		return -EBUSY;
	life->classed.queued = !(how & HAS_KEY);
	submit_anew(&life->job);
	if (how & HAS_KEY)
		ret = submit_by_key(pool, &life->job, key);
	else
		ret = rnl_submit(pool, &life->job);
	return life_submitted(life, state, ret, MAY_SHUT | MAY_AGAIN, closed);
}

int life_cancel(struct life *life)
{
	enum phase phase;
	int ret = -EALREADY;

	atomic_fetch_add(&life->pins, 1);
	phase = phase_of(life->state);
	if (phase == SUBMITTING || phase == ACCEPTED) {
		ret = rnl_job_cancel(&life->job);
		if (!ret)
			life->nr_cancelled++;
		else if (ret != -EBUSY && ret != -EALREADY &&
			 !(ret == -EINVAL && phase == SUBMITTING))
			tally_wrong(UNDOCUMENTED, "a cancel returned %d", ret);
	}
	atomic_fetch_sub(&life->pins, 1);
	return ret;
}

/* ---- all lives ------------------------------------------------------------------ */

void lives_print(const struct round *r)
{
	for (const struct life *life = r->lives; life; life = life->next) {
		if (!life_is_free(life))
			print(life);
	}
}

void lives_check_drained(struct round *r)
{
	for (struct life *life = r->lives; life; life = life->next) {
		if (!life_is_free(life) && life->end == BY_CALLBACK && !life->waits &&
		    tally_wrong(DRAINED_EARLY, "%s", life->what))
			print(life);
	}
}

/* Ends lives that no maker waits for any more, and waits for jobs that must still be reaped. */
void lives_await(struct round *r)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();

	for (struct life *life = r->lives; life; life = life->next) {
		while (!life_is_free(life) && now_ns() < until) {
			if (life->end == BY_WAIT)
				(void)life_wait(life, 0);
			else
				nap_us(100);
		}
	}
}

void lives_end(struct round *r)
{
	/* The end of one life may end others. */
	for (struct life *life = r->lives; life; life = life->next) {
		if (life->end == BY_WAIT && !life_is_free(life) && !rnl_job_wait(&life->job, 0))
			end(life);
	}
	for (struct life *life = r->lives, *next; life; life = next) {
		next = life->next;
		if (!life_is_free(life) && tally_wrong(NEVER_ENDED, "%s", life->what))
			print(life);
		free(life);
	}
}
