/* SPDX-License-Identifier: MIT */
/*
 * Slots: each has one job after the other, draws what it is, and checks how it ends.
 *
 * DESIGN
 *	A slot's owner, a producer, begins a life. The thread that learns that the job is
 *	done ends it: the owner after a wait, the reaper of the completion queue, or the
 *	callback, which may begin the next life itself. The slot's state has the number
 *	of the life, so a second end is noticed. A canceller pins the slot, and an end
 *	waits for the pins. So each cancel that returned 0 belongs to this life.
 *	Most ends free the job's memory, so AddressSanitizer notices later accesses of the
 *	library.
 *
 *		begin	cancel	end
 *	begin	X	-	X	X: only one thread, as the slot is FREE or ENDING
 *	cancel	-	-	-
 *	end	X	-	-
 */
#ifndef TORTURE_SLOTS_H
#define TORTURE_SLOTS_H

#include "torture.h"

#define NR_PRODUCERS_MAX 4
#define NR_SLOTS 96		/* of each producer */
#define NR_KEYS 8
#define NR_GROUPS 4
#define NR_MANY 8
#define IN_GROUP 4		/* at most, of a group's barrier, and after it */

/* A state: number of the life * LIFE, MINE if the owner waits for the job, and the phase. */
enum phase { FREE, SUBMITTING, ACCEPTED, ENDING, ENDED, PHASES = 7, MINE, LIFE = 16 };
enum end { BY_WAIT, BY_CQ, BY_CALLBACK, NR_ENDS };
enum way { PLAIN, KEYED, WAITS, KEYED_WAITS, MANY, AT_SPACE, NR_WAYS };

struct key {
	bool known;		/* where its jobs are placed is drawn */
	int place;		/* -1: they are not */
	uint64_t submitted;
	unsigned ran_on;	/* 1 + the device of the last one; 0: none has run */
	uint64_t ran, passed;	/* the last one, on the host and on the host device */
};

/* The job, on the heap. */
struct shot {
	struct rnl_job job;
	struct slot *slot;
};

struct slot {
	struct round *round;
	uint64_t random;	/* used by the thread that has the slot */
	_Atomic uint64_t state;
	_Atomic unsigned pins;
	_Atomic unsigned nr_cancelled, nr_busy;	/* cancels of this life that returned 0, -EBUSY */
	struct shot *shot;

	/* of this life, set before its submit */
	enum end end;
	enum way way;
	bool urgent, gathers;
	int device;		/* that it is placed on; -1: none */
	int64_t deadline;	/* negative: none */
	uint64_t begun;		/* ns, before the submit */
	struct group *group, *after;
	unsigned place;		/* its place in the group */
	struct key *key;	/* whose order is checked; NULL: none */
	struct key own_key;	/* for lives that the callback begins */
	uint64_t number;
	struct work work;
	unsigned runs;
	int result;		/* after its end */
};

/*
 * Some jobs of a barrier, and some jobs after them, which have a barrier of their own. The
 * first write the group's byte into words on the device; the second copy all words.
 */
struct group {
	struct rnl_barrier barrier, tail;
	unsigned nr_in, nr_after;
	struct slot *in[IN_GROUP], *after[IN_GROUP];
	uint8_t turn;
	bool joined;
	uint64_t *words;			/* on the device; NULL: none */
	uint64_t (*seen)[IN_GROUP];		/* pinned: what each job after, and a join, saw */
};

struct producer {
	struct round *round;
	struct seat *seat;
	uint64_t *random;
	unsigned nr_many;
	struct slot *many[NR_MANY];	/* begun, for one rnl_submit_many() */
	struct key keys[NR_KEYS];
	struct group groups[NR_GROUPS];
	void *words, *seen;		/* for all groups */
	struct slot slots[NR_SLOTS];
};

struct jobs {
	unsigned nr;
	struct producer producers[NR_PRODUCERS_MAX];
};

static inline enum phase phase_of(uint64_t state)
{
	return (enum phase)(state & PHASES);
}

static inline uint64_t in_phase(uint64_t state, enum phase phase)
{
	return (state & ~(uint64_t)PHASES) | phase;
}

static inline bool is_waited_for(uint64_t state)
{
	return phase_of(state) == ACCEPTED && state & MINE;
}

/* Draws a job and prepares it. The slot is SUBMITTING afterwards. */
void slot_begin(struct slot *slot, struct key *keys, struct group *group, struct group *after,
		unsigned place);
/* Handles the return value of a submit; @state, @closed: before it. True: it was accepted. */
bool slot_submitted(struct slot *slot, uint64_t state, int ret, bool closed);
bool slot_submit(struct slot *slot);
/* Ends the life of a job that is done, and gives the slot back to its owner. */
void slot_end(struct slot *slot);
void slot_cancel(struct slot *slot);
void slot_print(const struct slot *slot);

/* Issues the group's part of a job: sets a word, or copies all words. */
int group_issue(const struct slot *slot);
void group_check_before(const struct slot *slot);
/* The thread that learns that a job is done checks that all jobs of the barrier are, too. */
void group_check_told(const struct slot *slot);

void groups_begin(struct producer *p);
void groups_free(struct producer *p);
void group_open(struct producer *p, struct group *g);
/* When all of a group's jobs have ended: checks that the two halves agree. */
void group_close(struct producer *p, struct group *g);
struct slot *producer_free_slot(struct producer *p);
void producer_wait_for(struct producer *p, struct slot *slot, int64_t timeout_ns);

#endif /* TORTURE_SLOTS_H */
