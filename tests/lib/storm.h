/* SPDX-License-Identifier: MIT */
/*
 * A storm's slots: each has one job after the other, and checks how each ends.
 *
 * DESIGN
 *	A slot's owner, a submitter, begins a round; the thread that learns that the job
 *	is done ends it: the owner after a wait, the reader of the completion
 *	queue, or the callback, which may begin the next round itself.  The
 *	slot's state carries the round's number, so an end too many is noticed.
 *	Cancellers pin the slot, and an end waits for the pins: so each cancel
 *	that returned 0 is known to be of this round.
 *	What functions and kernels write is plain memory, and a job's own memory
 *	is freed at most ends: so that the sanitizers look at what is promised.
 *
 *		begin	cancel	end
 *	begin	X	-	X	X: the slot is one's own: FREE, or ENDING by oneself
 *	cancel	-	-	-
 *	end	X	-	-
 */
#ifndef STORM_H
#define STORM_H

#include <stdarg.h>

#include "host_kernel.h"
#include "seed.h"
#include "skip.h"

#define NR_SUBMITTERS 4
#define NR_SLOTS 128		/* of each submitter */
#define NR_KEYS 8
#define NR_GROUPS 4
#define NR_MANY 8
#define IN_GROUP 4		/* jobs of a group's barrier, and as many after it, at most */
#define WORKERS 16		/* resizes are from 1 to that */
#define LONG_NS ((int64_t)(20e9 * test_scale())) /* nothing takes so long */

/* A state is its round * 16, MINE if the owner is to wait for the job, and this. */
enum phase { FREE, SUBMITTING, ACCEPTED, ENDING, ENDED, PHASES = 7, MINE, ROUND = 16 };
enum end { BY_WAIT, BY_CQ, BY_CALLBACK, NR_ENDS };
enum work { NOTHING, FAILS, COPIES, LAUNCHES, NR_WORKS };
enum way { PLAIN, KEYED, WAITS, KEYED_WAITS, MANY, AT_LOW, AT_HIGH };

struct key {
	uint64_t submitted;
	uint64_t ran, passed;	/* the last one, on the host and on the device */
};

/* Some jobs, and some that come after them; each half has its barrier. */
struct group {
	struct rnl_barrier barrier, tail;
	unsigned nr_in, nr_after;
	struct slot *in[IN_GROUP], *after[IN_GROUP];
};

struct slot {
	struct storm *storm;
	uint64_t random;	/* whose round it is draws */
	_Atomic uint64_t state;
	_Atomic unsigned pins;
	_Atomic unsigned nr_cancelled, nr_busy;	/* cancels of this round that returned 0, -EBUSY */
	struct shot *shot;

	/* This round's, set before its submit. */
	enum end end;
	enum work work;
	enum way way;
	int64_t deadline;	/* negative: none */
	uint64_t begun;		/* ns, before the submit */
	struct group *group, *after;
	struct key *key;	/* whose order is looked at; NULL: none */
	struct key own_key;	/* of rounds that the callback begins */
	uint64_t number, from, to; /* what is copied, and where it arrives */
	unsigned runs;
	int result;		/* once it has ended */
};

/* The job itself, on the heap: freed when it is done, so that AddressSanitizer looks. */
struct shot {
	struct rnl_job job;
	struct slot *slot;
};

struct submitter {
	pthread_t thread;
	struct storm *storm;
	uint64_t random;
	unsigned nr_many;
	struct slot *many[NR_MANY];	/* begun, to be submitted together */
	struct key keys[NR_KEYS];
	struct group groups[NR_GROUPS];
	struct slot slots[NR_SLOTS];
};

struct storm {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	uint64_t seed;
	_Atomic bool stop, shut, over;	/* no new rounds; closed; all rounds have ended */
	_Atomic unsigned nr_stopped;
	_Atomic uint64_t accepted, ended, cancelled, timed_out, failed, ran, resizes;
	struct submitter submitters[NR_SUBMITTERS];
};

/* ---- what is wrong: the first that is found ------------------------------- */

static _Atomic bool something_wrong;
static char what[320];
static _Atomic bool told;

__attribute__((format(printf, 1, 2)))
static void wrong(const char *format, ...)
{
	va_list ap;

	if (atomic_exchange(&something_wrong, true))
		return;
	va_start(ap, format);
	vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	told = true;
}

static void check_nothing_wrong(void)
{
	if (something_wrong)
		ck_eventually(told);
	ck_assert_msg(!something_wrong, "%s", what);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Of a wait since then for LONG_NS: at its end it looks again, so it may return 0 all the same. */
static void check_woken(uint64_t since, const char *wait)
{
	if (now_ns() - since >= (uint64_t)LONG_NS)
		wrong("a %s was not woken", wait);
}

static enum phase phase_of(uint64_t state)
{
	return (enum phase)(state & PHASES);
}

static uint64_t in_phase(uint64_t state, enum phase phase)
{
	return (state & ~(uint64_t)PHASES) | phase;
}

/* ---- what a job does ------------------------------------------------------ */

struct arrive_args {
	struct slot *slot;
	uint64_t number;
};

/* All of the barrier that it came after: on the host their functions, on the device their work. */
static void check_before(struct slot *slot, bool device)
{
	for (unsigned i = 0; slot->after && i < slot->after->nr_in; i++) {
		struct slot *in = slot->after->in[i];

		if (device ? in->work >= COPIES && in->to != in->number : in->runs != 1)
			wrong("a job came before one of its barrier, on the %s",
			      device ? "device" : "host");
	}
}

static void check_order(uint64_t *last, uint64_t number, const char *where)
{
	if (*last >= number)
		wrong("a key's jobs came out of order on the %s", where);
	*last = number;
}

static void arrive_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct arrive_args *a = args;

	(void)grid;
	(void)block;
	check_before(a->slot, true);
	if (a->slot->key)
		check_order(&a->slot->key->passed, a->number, "device");
	a->slot->to = a->number;
}
RNL_HOST_KERNEL(arrive, arrive_host, struct arrive_args);

static int result_of_run(const struct slot *slot)
{
	return slot->work == FAILS ? -EPROTO : (int)(slot->number & 0x7fff);
}

static int run(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct shot, job)->slot;
	const struct arrive_args args = { slot, slot->number };
	const struct rnl_dim one = { 1, 1, 1 };

	slot->runs++;
	check_before(slot, false);
	if (slot->key)
		check_order(&slot->key->ran, slot->number, "host");
	if (slot->number % 16 == 0 && rnl_job_cancel(job) != -EBUSY)
		wrong("a job that runs was cancelled");
	if (slot->work == COPIES)
		(void)rnl_copy(&slot->to, &slot->from, sizeof(slot->to));
	if (slot->work == LAUNCHES)
		(void)rnl_launch(&arrive, one, one, &args);
	return result_of_run(slot);
}

/* ---- cancelling ----------------------------------------------------------- */

static void cancel(struct slot *slot)
{
	uint64_t state;
	int ret;

	atomic_fetch_add(&slot->pins, 1);
	state = slot->state;
	if (phase_of(state) == SUBMITTING || phase_of(state) == ACCEPTED) {
		ret = rnl_job_cancel(&slot->shot->job);
		if (!ret)
			slot->nr_cancelled++;
		else if (ret == -EBUSY)
			slot->nr_busy++;
		else if (ret != -EALREADY && !(ret == -EINVAL && phase_of(state) == SUBMITTING))
			wrong("a cancel returned %d", ret);
	}
	atomic_fetch_sub(&slot->pins, 1);
}

static void cancel_some(struct storm *storm, uint64_t *random)
{
	struct submitter *s = &storm->submitters[draw(random, NR_SUBMITTERS)];

	cancel(&s->slots[draw(random, NR_SLOTS)]);
}

/* ---- a round's end -------------------------------------------------------- */

/* What may have become of it, all cancels known. */
static void check_end(struct slot *slot, uint64_t now)
{
	bool ran = slot->runs, cancelled = slot->nr_cancelled, allowed;
	int result = slot->result;

	if (ran)
		allowed = result == result_of_run(slot) && !cancelled;
	else if (result == -ECANCELED)
		allowed = cancelled || slot->after || (slot->way >= AT_LOW && slot->storm->shut);
	else
		allowed = result == -ETIMEDOUT && !cancelled && slot->deadline >= 0 &&
			  now - slot->begun > (uint64_t)slot->deadline;
	if (!allowed || slot->runs > 1 || (cancelled && slot->nr_busy))
		wrong("a job ran %u times, its result is %d; %u cancels returned 0, %u -EBUSY; "
		      "deadline %lld ns, ended after %llu; way %d, end %d, work %d, %s a barrier",
		      slot->runs, result, slot->nr_cancelled, slot->nr_busy,
		      (long long)slot->deadline, (unsigned long long)(now - slot->begun),
		      slot->way, slot->end, slot->work, slot->after ? "after" : "not after");
	if (slot->to != (ran && slot->work >= COPIES ? slot->number : 0))
		wrong("a job is done, and its device work is not");
}

/* Whoever learns that the job is done ends the round; the slot is his then. */
static bool end(struct slot *slot)
{
	struct storm *storm = slot->storm;
	uint64_t state = slot->state, now = now_ns();
	struct rnl_job *job = &slot->shot->job;

	do {
		if (phase_of(state) != SUBMITTING && phase_of(state) != ACCEPTED) {
			wrong("a job ended twice");
			return false;
		}
	} while (!atomic_compare_exchange_weak(&slot->state, &state, in_phase(state, ENDING)));
	while (slot->pins)
		sched_yield();
	slot->result = rnl_job_result(job);
	if (rnl_job_test(job) != 1 || rnl_job_cancel(job) != -EALREADY)
		wrong("a job has ended and is not done: test %d, cancel %d, result %d; way %d, "
		      "end %d, %s a barrier", rnl_job_test(job), rnl_job_cancel(job), slot->result,
		      slot->way, slot->end, slot->after ? "after" : "not after");
	check_end(slot, now);
	storm->ran += slot->runs;
	storm->cancelled += slot->result == -ECANCELED;
	storm->timed_out += slot->result == -ETIMEDOUT;
	storm->failed += slot->result < 0;
	storm->ended++;
	if (slot->group || slot->after || draw(&slot->random, 2)) {
		free(slot->shot);
		slot->shot = NULL;
	}
	return true;
}

/* The same, and gives the slot back to its owner. */
static void end_for_good(struct slot *slot)
{
	if (end(slot))
		slot->state = in_phase(slot->state, ENDED);
}

static void callback(struct rnl_job *job);

/* ---- a round's begin ------------------------------------------------------ */

/* Draws what the job will be, and makes it that. */
static void begin(struct slot *slot, struct key *keys, struct group *group, struct group *after)
{
	const int64_t deadlines[] = { -1, -1, -1, -1, -1, 0, 50000, LONG_NS };
	uint64_t *random = &slot->random;
	bool urgent = !draw(random, 8);
	struct rnl_job *job;
	uint64_t state;

	if (!slot->shot) {
		slot->shot = malloc(sizeof(*slot->shot));
		if (!slot->shot)
			abort();
		rnl_job_init(&slot->shot->job, run);
		slot->shot->slot = slot;
	}
	job = &slot->shot->job;
	slot->end = (enum end)draw(random, NR_ENDS);
	slot->work = (enum work)draw(random, on_host() ? NR_WORKS : LAUNCHES);
	/* Notices come after no barrier, and one that waits for them would wait for long. */
	slot->way = (enum way)draw(random, group || after || draw(random, 4) ? AT_LOW :
									       AT_HIGH + 1);
	if (urgent && (slot->way == KEYED || slot->way == KEYED_WAITS))
		slot->way = PLAIN;
	slot->deadline = deadlines[draw(random, COUNT(deadlines))];
	slot->group = group;
	slot->after = after;
	slot->key = !after ? &keys[draw(random, keys == &slot->own_key ? 1 : NR_KEYS)] : NULL;
	slot->key = slot->way == KEYED || slot->way == KEYED_WAITS ? slot->key : NULL;
	slot->number = slot->key ? ++slot->key->submitted : 1 + draw(random, 1000);
	slot->from = slot->number;
	slot->to = slot->runs = 0;
	slot->nr_cancelled = slot->nr_busy = 0;
	if (rnl_job_on_done(job, NULL) ||
	    rnl_job_cq(job, slot->end == BY_CQ ? slot->storm->cq : NULL) ||
	    rnl_job_on_done(job, slot->end == BY_CALLBACK ? callback : NULL) ||
	    rnl_job_deadline(job, slot->deadline) || rnl_job_urgent(job, urgent) ||
	    rnl_job_after(job, after ? &after->barrier : NULL) ||
	    (group && rnl_barrier_add(&group->barrier, job)) ||
	    (after && rnl_barrier_add(&after->tail, job)))
		wrong("a job that is done could not be changed");
	slot->begun = now_ns();
	state = (slot->state / ROUND + 1) * ROUND | (slot->end == BY_WAIT ? MINE : 0);
	slot->state = in_phase(state, SUBMITTING);
}

static int submit(struct slot *slot)
{
	struct rnl_pool *pool = slot->storm->pool;
	struct rnl_job *job = &slot->shot->job;
	uint64_t key = slot->key ? (uintptr_t)slot->key : slot->number;
	int64_t timeout = draw(&slot->random, 2) ? 100000 : 0;

	switch (slot->way) {
	case KEYED:
		return rnl_submit_keyed(pool, job, key);
	case KEYED_WAITS:
		return rnl_submit_keyed_wait(pool, job, key, timeout);
	case WAITS:
		return rnl_submit_wait(pool, job, timeout);
	case AT_LOW:
	case AT_HIGH:
		return rnl_submit_when(pool, job,
				       slot->way == AT_LOW ? RNL_LOW_WATER : RNL_HIGH_WATER);
	default:
		return rnl_submit(pool, job);
	}
}

/* What the submit returned, the slot being in @state before; true if the job was accepted. */
static bool after_submit(struct slot *slot, uint64_t state, int ret)
{
	if (!ret) {
		slot->storm->accepted++;
		/* Unless it has ended since, or was begun anew even. */
		atomic_compare_exchange_strong(&slot->state, &state, in_phase(state, ACCEPTED));
		return true;
	}
	if (ret != -EAGAIN && !(ret == -ESHUTDOWN && slot->storm->shut) &&
	    !(ret == -ETIMEDOUT && (slot->way == WAITS || slot->way == KEYED_WAITS)))
		wrong("a submit returned %d", ret);
	if (!atomic_compare_exchange_strong(&slot->state, &state, in_phase(state, ENDING))) {
		wrong("a job that was refused has ended");
		return false;
	}
	while (slot->pins)
		sched_yield();
	if (slot->runs || slot->nr_cancelled || slot->nr_busy)
		wrong("a job that was refused ran, or was cancelled");
	free(slot->shot);
	slot->shot = NULL;
	slot->group = slot->after = NULL;
	slot->state = in_phase(state, FREE);
	return false;
}

static bool submit_one(struct slot *slot)
{
	uint64_t state = slot->state;

	return after_submit(slot, state, submit(slot));
}

static void callback(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct shot, job)->slot;
	struct storm *storm = slot->storm;
	bool again = !slot->group && !slot->after && !storm->stop && draw(&slot->random, 2);

	if (rnl_worker_index() < 0)
		wrong("a callback was called by a thread that is no worker");
	if (!draw(&slot->random, 4))
		cancel_some(storm, &slot->random);
	if (!again) {
		end_for_good(slot);
	} else if (end(slot)) {
		begin(slot, &slot->own_key, NULL, NULL);
		(void)submit_one(slot);
	}
}

#endif /* STORM_H */
