/* SPDX-License-Identifier: MIT */
/*
 * Slots: each has one job after the other, draws its kind, and checks its end.
 *
 * DESIGN
 *	A slot's owner, a producer, begins a life. The thread that is notified of the job's end ends
 *	the life: the owner after a wait, the reaper of the completion queue, or the callback, which
 *	may begin the next life. The slot's state has the number of the life, so a second end is
 *	noticed. A canceller pins the slot, and an end waits for all pins. So each cancel that
 *	returned 0 belongs to this life.
 *	Most ends free the job's memory, so AddressSanitizer reports later accesses of the library.
 *
 *		begin	cancel	end
 *	begin	X	-	X	X: only one thread: the slot is FREE or ENDING
 *	cancel	-	-	-
 *	end	X	-	-
 */
#ifndef TORTURE_SLOTS_H
#define TORTURE_SLOTS_H

#include "classes.h"

#define NR_PRODUCERS_MAX 4
#define NR_SLOTS 96		/* of each producer */
#define NR_KEYS 8
#define NR_GROUPS 4
#define NR_MANY 8
#define IN_GROUP 4		/* most jobs in a group's barrier, and most jobs after it */

/* A state: number of the life * LIFE, MINE if the owner waits for the job, and the phase. */
enum phase { FREE, SUBMITTING, ACCEPTED, ENDING, ENDED, PHASES = 7, MINE, LIFE = 16 };
enum end { BY_WAIT, BY_CQ, BY_CALLBACK, NR_ENDS };
enum way { PLAIN, KEYED, WAITS, KEYED_WAITS, MANY, AT_SPACE, NR_WAYS };

struct key {
	bool known;		/* the place of its jobs is drawn */
	int place;		/* -1: not placed */
	uint64_t submitted;
	unsigned ran_on;	/* 1 + the device of the last one; 0: none has run */
	uint64_t ran, passed;	/* number of the last job on the host; on the host device */
};

/* A job, on the heap. */
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
	bool gathers;
	struct classed classed;
	int device;		/* the job's place; -1: none */
	int64_t deadline;	/* negative: none */
	uint64_t begun;		/* ns, before the submit */
	struct group *group, *after;
	unsigned place;		/* the job's place in the group */
	struct key *key;	/* the key whose order is checked; NULL: none */
	struct key own_key;	/* for lives that the callback begins */
	uint64_t number;
	struct work work;
	unsigned runs;
	int result;		/* after its end */
};

/*
 * Some jobs of a barrier, and some jobs after it, which are in a second barrier. The jobs of the
 * first barrier write the group's byte into words on the device; the jobs after it copy all words.
 */
struct group {
	struct rnl_barrier barrier, tail;
	unsigned nr_in, nr_after;
	struct slot *in[IN_GROUP], *after[IN_GROUP];
	uint8_t turn;
	bool joined;
	uint64_t *words;			/* on the device; NULL: none */
	uint64_t (*seen)[IN_GROUP];		/* pinned: copies by each job after, and a join */
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
/* Handles a submit's result; @state, @closed: before the submit. Returns true if accepted. */
bool slot_submitted(struct slot *slot, uint64_t state, int ret, bool closed);
bool slot_submit(struct slot *slot);
/* Ends the life of a job that is done, and gives the slot back to its owner. */
void slot_end(struct slot *slot);
void slot_cancel(struct slot *slot);
void slot_print(const struct slot *slot);

/* Issues the group's part of a job: sets a word, or copies all words. */
int group_issue(const struct slot *slot);
void group_check_before(const struct slot *slot);
/* Called when notified of a job's end: checks that all jobs of its barrier are done, too. */
void group_check_notified(const struct slot *slot);

void groups_begin(struct producer *p);
void groups_free(struct producer *p);
void group_open(struct producer *p, struct group *g);
/* Called when all jobs of a group have ended: checks that the two halves agree. */
void group_close(struct producer *p, struct group *g);
struct slot *producer_free_slot(struct producer *p);
void producer_wait_for(struct producer *p, struct slot *slot, int64_t timeout_ns);

#endif /* TORTURE_SLOTS_H */
