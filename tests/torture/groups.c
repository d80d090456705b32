/* SPDX-License-Identifier: MIT */
/*
 * Groups: jobs of a barrier, jobs after it, and a stream that joins it.
 *
 * DESIGN
 *	Each job of the barrier sets a word on the device, and each job after it copies
 *	all words of the barrier's jobs. So a job that runs early, on the host or on the device, is
 *	noticed. The byte in a word identifies the group's round, so words need not be cleared
 *	between rounds.
 */
#include "slots.h"

#include <string.h>

#include <runnel/memory.h>
#include <runnel/thread.h>

#define WORDS_BYTES (IN_GROUP * sizeof(uint64_t))
#define SEEN_BYTES ((IN_GROUP + 1) * WORDS_BYTES)	/* the last row is the join's */

/* ---- on workers ------------------------------------------------------------- */

int group_issue(const struct slot *slot)
{
	struct group *g = slot->group ? slot->group : slot->after;

	if (!g || !g->words)
		return 0;
	if (slot->group)
		return rnl_fill(&g->words[slot->place], g->turn, sizeof(uint64_t));
	return rnl_copy(g->seen[slot->place], g->words, WORDS_BYTES);
}

/* Checks that the functions of all jobs of the barrier have run. */
void group_check_before(const struct slot *slot)
{
	const struct group *g = slot->after;

	for (unsigned i = 0; i < g->nr_in; i++) {
		if (!g->in[i]->runs)
			tally_wrong(AFTER_EARLY, "its function ran before one of its barrier's");
	}
}

/*
 * Returns true if the job is known to be done. @teller: the notification of the job that comes
 * after it. A completion queue returns jobs in the order of their ends.
 */
static bool is_notified(struct slot *slot, enum end teller)
{
	uint64_t state;
	bool notified;

	atomic_fetch_add(&slot->pins, 1);
	state = slot->state;
	switch (slot->end) {
	case BY_WAIT:
		notified = phase_of(state) >= ENDING || !rnl_job_wait(&slot->shot->job, 0);
		break;
	case BY_CQ:
		notified = phase_of(state) == ENDED || teller != BY_CQ;
		break;
	default:
		notified = phase_of(state) == ENDED;
	}
	atomic_fetch_sub(&slot->pins, 1);
	return notified;
}

void group_check_notified(const struct slot *slot)
{
	const struct group *g = slot->after;

	for (unsigned i = 0; i < g->nr_in; i++) {
		if (!is_notified(g->in[i], slot->end) &&
		    tally_wrong(NOTIFIED_EARLY, "it has result %d, and ran %u times; before",
				slot->result, slot->runs))
			slot_print(g->in[i]);
	}
}

/* Checks the words that a job or a join copied, if all jobs of the barrier succeeded. */
static void check_seen(const struct group *g, unsigned place, enum wrong wrong, const char *who)
{
	const unsigned char *seen = (const unsigned char *)g->seen[place];

	for (unsigned i = 0; i < g->nr_in * sizeof(uint64_t); i++) {
		if (seen[i] != (uint8_t)(g->turn + options.wrong)) {
			tally_wrong(wrong, "%s saw %d in word %zu of %u, not %d", who, seen[i],
				    i / sizeof(uint64_t), g->nr_in, g->turn);
			return;
		}
	}
}

/* ---- a producer's memory ------------------------------------------------------ */

/* Clears the words, because compute-sanitizer reports reads of words that were never written. */
static int clear(struct round *r, void *words)
{
	int ret = said(r, rnl_thread_attach(r->pool), MAY_LACK, "rnl_thread_attach");

	if (!ret)
		ret = said(r, rnl_fill(words, 0, NR_GROUPS * WORDS_BYTES), MAY_LACK, "rnl_fill");
	return ret ? ret : said(r, rnl_stream_wait(RNL_FOREVER), 0, "rnl_stream_wait");
}

/* Allocates the groups' words.  If that fails, only the order of the functions is checked. */
void groups_begin(struct producer *p)
{
	struct round *r = p->round;

	if (!r->leaves)
		p->words = memory_get(r, draw(p->random, r->nr_devices), NR_GROUPS * WORDS_BYTES);
	if (!p->words || clear(r, p->words))
		return;
	p->seen = memory_get(r, RNL_PINNED, NR_GROUPS * SEEN_BYTES);
	if (!p->seen)
		return;
	for (unsigned i = 0; i < NR_GROUPS; i++) {
		p->groups[i].words = (uint64_t *)p->words + (size_t)i * IN_GROUP;
		p->groups[i].seen = (uint64_t (*)[IN_GROUP])((char *)p->seen + i * SEEN_BYTES);
	}
}

void groups_free(struct producer *p)
{
	rnl_memory_put(p->round->pool, p->words);
	rnl_memory_put(p->round->pool, p->seen);
}

/* ---- a group's life ------------------------------------------------------------ */

/* Makes this thread's stream wait for the jobs, then copy their words. */
static void join(struct producer *p, struct group *g)
{
	struct round *r = p->round;
	int ret;

	at(p->seat, "rnl_barrier_join");
	ret = said(r, rnl_barrier_join(&g->barrier), MAY_LACK, "rnl_barrier_join");
	if (ret)
		return;
	tally_add(NR_JOINS, 1);
	ret = said(r, rnl_copy(g->seen[IN_GROUP], g->words, WORDS_BYTES), MAY_LACK, "rnl_copy");
	at(p->seat, "rnl_stream_wait");
	if (!said(r, rnl_stream_wait(RNL_FOREVER), 0, "rnl_stream_wait") && !ret)
		g->joined = true;
}

void group_open(struct producer *p, struct group *g)
{
	struct round *r = p->round;
	unsigned nr_in = 1 + draw(p->random, IN_GROUP), nr_after = 1 + draw(p->random, IN_GROUP);
	struct slot *slot;

	at(p->seat, "submitting to a barrier");
	barrier_make(r, &g->barrier);
	barrier_make(r, &g->tail);
	g->turn = g->turn == 255 ? 1 : g->turn + 1;
	g->joined = false;
	if (g->seen)
		memset(g->seen, 0, SEEN_BYTES);
	tally_add(NR_BARRIERS, 2);
	for (; nr_in && (slot = producer_free_slot(p)); nr_in--) {
		slot_begin(slot, p->keys, g, NULL, g->nr_in);
		if (slot_submit(slot))
			g->in[g->nr_in++] = slot;
	}
	for (; nr_after && (slot = producer_free_slot(p)); nr_after--) {
		slot_begin(slot, p->keys, NULL, g, g->nr_after);
		if (slot_submit(slot))
			g->after[g->nr_after++] = slot;
	}
	if (g->words && !draw(p->random, 4))
		join(p, g);
}

/* Waits for a barrier, or only polls. When the barrier is done, all its jobs must be done. */
static void wait_for_barrier(struct producer *p, struct rnl_barrier *barrier,
			     struct slot *const *slots, unsigned nr, int64_t timeout_ns)
{
	const uint64_t since = now_ns();
	int ret;

	at(p->seat, "rnl_barrier_wait");
	ret = rnl_barrier_wait(barrier, timeout_ns);
	if (said(p->round, ret, timeout_ns ? 0 : MAY_TIME_OUT, "rnl_barrier_wait"))
		return;
	if (timeout_ns && now_ns() - since >= (uint64_t)timeout_ns)
		tally_wrong(TOO_LATE, "a wait for a barrier was not woken");
	for (unsigned i = 0; i < nr; i++) {
		if (is_waited_for(slots[i]->state) && rnl_job_wait(&slots[i]->shot->job, 0))
			tally_wrong(BARRIER_EARLY, "a wait for it ended before a job of it");
	}
}

/* Checks and returns the result of a barrier whose jobs have all ended. */
static int check_result(struct producer *p, struct rnl_barrier *barrier,
			struct slot *const *slots, unsigned nr)
{
	int result, failed = 0;

	wait_for_barrier(p, barrier, slots, nr, long_ns());
	result = barrier->result;
	for (unsigned i = 0; i < nr; i++) {
		if (slots[i]->result < 0 && (!failed || slots[i]->result == result))
			failed = slots[i]->result;
	}
	if (failed != result)
		tally_wrong(BARRIER_RESULT, "the result of a barrier is %d, that of a job of it %d",
			    result, failed);
	return result;
}

static bool all_ended(struct producer *p, struct slot *const *slots, unsigned nr)
{
	bool all = true;

	for (unsigned i = 0; i < nr; i++) {
		if (is_waited_for(slots[i]->state))
			producer_wait_for(p, slots[i], 0);
		all = all && phase_of(slots[i]->state) == ENDED;
	}
	return all;
}

static void free_all(struct slot **slots, unsigned *nr)
{
	for (; *nr; --*nr) {
		struct slot *slot = slots[*nr - 1];

		slot->group = slot->after = NULL;
		slot->state = in_phase(slot->state, FREE);
	}
}

/* A job after a failed barrier may have run only if calls or the device fail. */
static void check_after(const struct group *g, const struct slot *slot, int result)
{
	const bool faulty = slot->round->faults != NO_FAULTS;

	if (result ? slot->runs && !faulty : slot->result == -ECANCELED && !slot->nr_cancelled)
		tally_wrong(WRONG_END, "a job after a barrier with result %d has result %d, and "
			    "ran %u times", result, slot->result, slot->runs);
	if (!result && g->words && slot->runs && slot->result >= 0)
		check_seen(g, slot->place, AFTER_EARLY, "a job after it");
}

void group_close(struct producer *p, struct group *g)
{
	int64_t timeout_ns = draw(p->random, 2) ? 0 : long_ns();
	int result;

	if (!g->nr_in && !g->nr_after)
		return;
	if (!draw(p->random, 8))
		wait_for_barrier(p, &g->tail, g->after, g->nr_after, timeout_ns);
	else if (!draw(p->random, 4))
		wait_for_barrier(p, &g->barrier, g->in, g->nr_in, timeout_ns);
	if (!all_ended(p, g->in, g->nr_in) || !all_ended(p, g->after, g->nr_after))
		return;
	(void)check_result(p, &g->tail, g->after, g->nr_after);
	result = check_result(p, &g->barrier, g->in, g->nr_in);
	for (unsigned i = 0; i < g->nr_after; i++)
		check_after(g, g->after[i], result);
	if (g->joined && !result)
		check_seen(g, IN_GROUP, BARRIER_EARLY, "a stream that joined it");
	free_all(g->in, &g->nr_in);
	free_all(g->after, &g->nr_after);
}
