/* SPDX-License-Identifier: MIT */
/*
 * Slots: each has one job after the other, draws what it is, and checks how it ends.
 *
 * DESIGN
 *	A slot's owner, a producer, begins a life; who learns that the job is done ends
 *	it: the owner after a wait, the reaper of the completion queue, or the callback,
 *	which may begin the next life itself.  The slot's state carries the life's number,
 *	so an end too many is noticed.  Cancellers pin the slot, and an end waits for the
 *	pins: so each cancel that returned 0 is known to be of this life.
 *	A job's own memory is freed at most ends: so AddressSanitizer looks at what the
 *	library still touches.
 *
 *		begin	cancel	end
 *	begin	X	-	X	X: the slot is one's own: FREE, or ENDING by oneself
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
#define IN_GROUP 4		/* jobs of a group's barrier, and as many after it, at most */

/* A state is its life's number * LIFE, MINE if the owner is to wait for the job, and this. */
enum phase { FREE, SUBMITTING, ACCEPTED, ENDING, ENDED, PHASES = 7, MINE, LIFE = 16 };
enum end { BY_WAIT, BY_CQ, BY_CALLBACK, NR_ENDS };
enum way { PLAIN, KEYED, WAITS, KEYED_WAITS, MANY, AT_LOW, AT_HIGH, NR_WAYS };

struct key {
	uint64_t submitted;
	uint64_t ran, passed;	/* the last one, on the host and on the host device */
};

/* The job itself, on the heap. */
struct shot {
	struct rnl_job job;
	struct slot *slot;
};

struct slot {
	struct round *round;
	uint64_t random;	/* whose life it is draws */
	_Atomic uint64_t state;
	_Atomic unsigned pins;
	_Atomic unsigned nr_cancelled, nr_busy;	/* cancels of this life that returned 0, -EBUSY */
	struct shot *shot;

	/* This life's, set before its submit. */
	enum end end;
	enum way way;
	bool urgent;
	int64_t deadline;	/* negative: none */
	uint64_t begun;		/* ns, before the submit */
	struct group *group, *after;
	unsigned place;		/* in the one or the other */
	struct key *key;	/* whose order is looked at; NULL: none */
	struct key own_key;	/* of lives that the callback begins */
	uint64_t number;
	struct work work;
	unsigned runs;
	int result;		/* once it has ended */
};

/*
 * Some jobs, and some that come after them; each half has its barrier.  Those write
 * this turn's byte into words of the device, and these copy all words away.
 */
struct group {
	struct rnl_barrier barrier, tail;
	unsigned nr_in, nr_after;
	struct slot *in[IN_GROUP], *after[IN_GROUP];
	uint8_t turn;
	bool joined;
	uint64_t *words;			/* the device's; NULL: there are none */
	uint64_t (*seen)[IN_GROUP];		/* pinned: of each job after, and of a join */
};

struct producer {
	struct round *round;
	struct seat *seat;
	uint64_t *random;
	unsigned nr_many;
	struct slot *many[NR_MANY];	/* begun, to be submitted together */
	struct key keys[NR_KEYS];
	struct group groups[NR_GROUPS];
	void *words, *seen;		/* of all groups */
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

/* Draws what the job will be, and makes it that: SUBMITTING from here on. */
void slot_begin(struct slot *slot, struct key *keys, struct group *group, struct group *after,
		unsigned place);
/* What the submit returned, the slot being in @state before; true if the job was accepted. */
bool slot_submitted(struct slot *slot, uint64_t state, int ret);
bool slot_submit(struct slot *slot);
/* Whoever learns that the job is done ends its life, and gives the slot back to its owner. */
void slot_end(struct slot *slot);
void slot_cancel(struct slot *slot);

/* In a job of the group, or after it: issues what tells that it was there, or what it saw. */
int group_issue(const struct slot *slot);
void group_check_before(const struct slot *slot);

void groups_begin(struct producer *p);
void groups_free(struct producer *p);
void group_open(struct producer *p, struct group *g);
/* Once all of them have ended: did the one half end as the other half demands? */
void group_close(struct producer *p, struct group *g);
struct slot *producer_free_slot(struct producer *p);
void producer_wait_for(struct producer *p, struct slot *slot, int64_t timeout_ns);

#endif /* TORTURE_SLOTS_H */
