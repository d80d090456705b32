/* SPDX-License-Identifier: MIT */
/*
 * Echoes: jobs that are replayed. Each makes the device write a word that its arguments name.
 *
 * DESIGN
 *	All echoes have one function, so a worker records it, and the written word shows which job's
 *	arguments a replay used. Now and then a job with another function asks for more scratch, or
 *	fails. Such a job is no echo, but it changes the worker's scratch and records.
 */
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/replay.h>

#include "classes.h"
#include "kernel.h"

#define NR_ECHOES 24

struct echo {
	struct rnl_job job;
	struct classed classed;
	struct echo_facts facts;	/* job.user */
	bool accepted;
};

struct echoes {
	struct seat *seat;
	uint64_t *words;		/* page-locked */
	struct echo all[NR_ECHOES];
	struct rnl_job other;
	struct classed other_classed;
	uint64_t last;
};

static int run(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 };
	struct echo_args args = { NULL };
	void *facts;
	int ret = rnl_job_args(sizeof(struct echo_facts), &facts);

	(void)job;
	args.facts = facts;
	return ret ? ret : rnl_launch(&echo_kernel, one, one, &args);
}

static int run_other(struct rnl_job *job)
{
	const size_t bytes = (size_t)(uintptr_t)job->user;
	void *mem;
	int ret = rnl_scratch(bytes, &mem);

	return ret ? ret : rnl_fill(mem, 0x55, bytes);
}

static bool submit(struct echoes *e, struct rnl_job *job, struct classed *classed,
		   int (*fn)(struct rnl_job *job), void *user)
{
	struct round *r = e->seat->round;
	int ret;

	if (rnl_job_init(job, fn) || rnl_job_set_flags(job, draw(&e->seat->random, 16) ? RNL_REPLAY : 0)) {
		tally_wrong(UNDOCUMENTED, "an echo could not be made");
		return false;
	}
	job->user = user;
	place_set(job, place_draw(r, &e->seat->random));
	class_draw(r, classed, job, ANY_CLASS, &e->seat->random);
	classed->queued = true;
	ret = rnl_submit(r->pool, job);
	if (ret && !class_refused(classed, ret, true))
		(void)said(r, ret, MAY_AGAIN | MAY_SHUT, "rnl_submit");
	return !ret;
}

/* A replay counts as a call of the function. */
static void end(const struct classed *classed, int result)
{
	class_ended(classed, result != -ECANCELED && result != -ETIMEDOUT, result);
}

static void check(struct echoes *e, struct echo *echo)
{
	struct round *r = e->seat->round;
	int result;

	if (said(r, rnl_job_wait(&echo->job, long_ns()), 0, "rnl_job_wait"))
		give_up(r, "an echo was not done");
	result = echo->job.result;
	end(&echo->classed, result);
	if (!result && *echo->facts.to != echo->facts.value)
		tally_wrong(WRONG_DATA, "an echo has %llu for %llu",
			    (unsigned long long)*echo->facts.to,
			    (unsigned long long)echo->facts.value);
	if (result == -ETIMEDOUT && class_deadline(&echo->classed, -1) >= 0)
		return;
	if (result && result != -ECANCELED && !may_end_so(r, result))
		tally_wrong(WRONG_END, "an echo has result %d, the device's error is %d", result,
			    echo->job.device_error);
}

static void come(struct echoes *e)
{
	uint64_t *random = &e->seat->random;
	const unsigned nr = 1 + draw(random, NR_ECHOES);
	bool other = !draw(random, 16);

	if (other)
		other = submit(e, &e->other, &e->other_classed, run_other,
			       (void *)(uintptr_t)(1 + draw(random, 400000)));
	for (unsigned i = 0; i < nr; i++) {
		struct echo *echo = &e->all[i];

		e->words[i] = 0;
		echo->facts = (struct echo_facts){ &e->words[i], ++e->last, 0 };
		echo->facts.mark = ECHO_MARK(&echo->facts);
		echo->accepted = submit(e, &echo->job, &echo->classed, run, &echo->facts);
	}
	for (unsigned i = 0; i < nr; i++) {
		if (e->all[i].accepted)
			check(e, &e->all[i]);
	}
	if (other && said(e->seat->round, rnl_job_wait(&e->other, long_ns()), 0, "rnl_job_wait"))
		give_up(e->seat->round, "a job beside echoes was not done");
	if (other)
		end(&e->other_classed, e->other.result);
}

static void sit(struct seat *seat)
{
	struct echoes *e = seat->arg;
	struct round *r = seat->round;

	e->seat = seat;
	at(seat, "echoes");
	e->words = memory_get(r, RNL_PINNED, NR_ECHOES * sizeof(*e->words));
	while (e->words && !r->stop) {
		come(e);
		nap_us(draw(&seat->random, 100));
	}
	rnl_memory_put(r->pool, e->words);
	r->nr_stopped++;
}

void echoes_begin(struct round *r)
{
	r->others = true;
	seat_take(r, "echoer", MAKES, sit, round_alloc(r, sizeof(struct echoes)));
}
