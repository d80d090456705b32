/* SPDX-License-Identifier: MIT */
/*
 * Model of a batcher: rnl__slab_ready(), rnl__slab_reserve(), open_next(), close_slab(), recycle()
 * and rnl__slab_release() of src/batch/slab.c ([batch.S2], S3, S4, O1, H1, H2), src/batch/cells.c
 * ([batch.P1], P2, F1, F2, B5), reserve, commit and cancel of src/batch/request.c ([batch.C1], L1),
 * taking in src/batch/take.c ([batch.O3], C2, C3, L2), and the choice of the taker in
 * src/batch/schedule.c ([batch.A1], A2, W1, W2, W3).
 *
 * Two producers, two requests and one, two slabs. A producer reserves, and waits while there is
 * no space; then it commits, and releases when the request is done, or it cancels. There are
 * three plans: slabs of one slot, and one cell; slabs of two slots, two cells and two batches;
 * slabs of one slot, where the first request is done when it likes, and no request is cancelled.
 *
 * Left out: store buffers. The word of a slab, of a slot, of the batcher is read and changed at
 * once, and one of them publishes all other data. Making slabs, sizes, drains, destroy, the
 * pool: a submitted batch runs. Rounds do not overflow. The list of late requests is a set. The
 * bits of the cells are a number, because it does not matter which of them is picked. The bell is a
 * flag for each listener; park.pml has its barriers.
 *
 * Asserted: a committed request is taken once, a cancelled one is not; a slab that is free or
 * opened is not in use; a batch finds a cell for each request. No thread is stuck: a request that is not taken, or a producer that
 * waits while there is space, is an invalid end state.
 *
 * Broken: BREAK_ROUND a free slab opens for any round, not only for later ones; BREAK_OPEN a
 * reservation does not compare the round; BREAK_SLOT a taker does not compare a slot's round;
 * BREAK_LATE a request that was passed over is not put on the list; BREAK_HEED a taker clears
 * ASKED after its look; BREAK_ENDED the end of a batch does not look at ASKED; BREAK_HELD a slab
 * is free before its last release; BREAK_CLOSED the close of a slab that was released already
 * does not free it; BREAK_BELL the end of a slab rings no bell; BREAK_SEEN a taker reads the
 * open round after it looked at the slab ([batch.O3]); BREAK_GIVE it does not give back a
 * cancelled slot; BREAK_BIT a release counts the cell before it sets the bit ([batch.P1]);
 * BREAK_SPARE a cell that is spare rings no bell ([batch.B5]); BREAK_PROMISE a cancel keeps
 * the promise.
 */
#define NONE 255
#define NS 2				/* slabs */
#define NR 4				/* requests */
#define slab_of(round) ((round) % NS)
#define slot(s, i) (2 * (s) + (i))

mtype = { free, opened, closed, nothing, passed, committed, cancelled };

/* A slab: its word, and its slots in use. */
mtype state[NS] = free;
byte round_of[NS], given[NS];
short held[NS];
byte open_round;				/* batcher: open */
byte nr_slots;
byte spare, bits;			/* cells: to promise, to pick */
bool cancels;				/* some may */

/* A slot. */
mtype what[4] = nothing;
byte what_round[4], whose[4];

byte late;				/* bits of requests */
bool asked, taker, idle[2], runs[2];
byte at, seen, late_first;		/* the taker's */

bool listens[2];
byte used[NS];				/* ghost: requests with a slot there */
byte slot_at[NR];			/* a request's place */
bool taken[NR], done[NR];

#define bit(r) (1 << (r))

/* ---- slab.c ---- */

inline ring()
{
#ifndef BREAK_BELL
	d_step { listens[0] = false; listens[1] = false }
#else
	skip
#endif
}

inline recycle(s)
{
	t = open_round;					/* free_word() */
	d_step { assert(used[s] == 0); state[s] = free; round_of[s] = t; given[s] = 0; t = 0 };	/* [batch.S3] */
	ring()
}

inline slab_release(s, n)
{
	d_step {					/* [batch.H1] */
		assert(used[s] >= n);
		used[s] = used[s] - n; held[s] = held[s] - n; last = (held[s] == 0)
	};
	if
	:: last -> last = false; recycle(s)
	:: else
	fi
}

/* open_next(): leaves 0 in res, or NONE for -EAGAIN */
inline open_next()
{
	res = NONE;
	next = round + 1;
	do
	:: next <= round + NS && res == NONE ->
		s = slab_of(next);
		atomic {				/* [batch.S2] */
			if
#ifdef BREAK_ROUND
			:: state[s] == free ->
#else
			:: state[s] == free && next > round_of[s] ->
#endif
				assert(used[s] == 0);
				state[s] = opened; round_of[s] = next; given[s] = 0; res = 0
			:: else
			fi
		};
		if
		:: res == 0 ->
			atomic {			/* [batch.O1] */
				if
				:: open_round == round -> open_round = next
				:: else -> res = 1
				fi
			};
			if
			:: res == 1 ->			/* [batch.S4] */
				t = open_round;
				d_step { assert(used[s] == 0); state[s] = free; round_of[s] = t; t = 0 }
			:: else
			fi;
			res = 0;
			ring()
		:: else -> next++
		fi
	:: else -> break
	od;
	if
	:: res == NONE && open_round != round -> res = 0
	:: else
	fi;
	next = 0
}

#ifdef BREAK_OPEN
#define is_open(s) (state[s] == opened)
#else
#define is_open(s) (state[s] == opened && round_of[s] == round)
#endif

/* ---- cells.c ---- */

inline cells_spare()
{
	d_step { last = (spare == 0); spare++ };	/* [batch.P1] */
	if
	:: last -> last = false;			/* [batch.B5] */
#ifndef BREAK_SPARE
		ring()
#endif
	:: else
	fi
}

inline cell_release()
{
#ifdef BREAK_BIT
	cells_spare();
	bits++
#else
	bits++;						/* [batch.F1] */
	cells_spare()
#endif
}

/*
 * request_reserve_in(): leaves the request's slot in mine, or NONE. Without a promise the loop is
 * rnl__slab_ready(), with it rnl__slab_reserve().
 */
inline slab_reserve()
{
	do
	::
try:		round = open_round;			/* [batch.O2] */
		s = slab_of(round);
		nr = NONE;
		atomic {				/* [batch.R1] */
			if
			:: is_open(s) && given[s] < nr_slots && !promised -> ready = true
			:: is_open(s) && given[s] < nr_slots && promised ->
				mine = slot(s, given[s]);
				given[s]++; used[s]++
			:: is_open(s) && given[s] == nr_slots ->
				nr = given[s];		/* the word that closes it */
			:: else
			fi
		};
		if
		:: mine != NONE -> break
		:: ready ->
			atomic {			/* [batch.P2] */
				ready = false;
				if
				:: spare > 0 -> spare--; promised = true
				:: else -> res = NONE
				fi
			};
			if
			:: promised -> goto try
			:: else -> break
			fi
		:: else
		fi;
		res = 1;
		if
		:: nr != NONE ->			/* close_slab() */
			atomic {
				if
				:: is_open(s) -> state[s] = closed
				:: else -> res = 0	/* another thread changed its word first */
				fi
			};
			if
			:: res ->
				d_step {		/* [batch.H2] */
					held[s] = held[s] + nr;
#ifdef BREAK_HELD
					last = (held[s] <= 1)
#else
					last = (held[s] == 0)
#endif
				};
				if
				:: last -> last = false;
#ifndef BREAK_CLOSED
					recycle(s)
#endif
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		if
		:: res -> open_next()
		:: else
		fi;
		if
		:: res == NONE -> break
		:: else
		fi
	od;
	if
	:: mine == NONE && promised -> cells_spare()
	:: else
	fi;
	atomic { s = 0; nr = 0; res = 0; promised = false }
}

/* ---- schedule.c ---- */

inline submit_idle()
{
	if
	:: idle[0] -> idle[0] = false; runs[0] = true; taker = true
	:: !idle[0] && idle[1] -> idle[1] = false; runs[1] = true; taker = true
	:: else
	fi
}

inline ask()
{
	if
	:: asked					/* [batch.A1] */
	:: else ->
		atomic {				/* [batch.W1] */
			if
			:: !asked && !taker -> submit_idle()
			:: else
			fi;
			asked = true
		}
	fi
}

/* ---- request.c ---- */

/* set_slot(): true in last if a taker passed it over before. */
inline set_slot(w)
{
	d_step {					/* [batch.C1] */
		last = (what[mine] == passed && what_round[mine] == round);
		what[mine] = w;
		what_round[mine] = round
	}
}

/* Of requests [r, end). */
proctype producer(byte p, r, end)
{
	byte round, s, nr, next, t, res, mine = NONE;
	bool last, heard, ready, promised;

	do
	:: r < end ->
again:		slab_reserve();
		if
		:: mine == NONE && heard -> !listens[p]; listens[p] = true; goto again	/* rnl__bell_wait() */
		:: mine == NONE && !heard -> heard = true; listens[p] = true; goto again
		:: else -> heard = false; listens[p] = false
		fi;
		d_step { whose[mine] = r; slot_at[r] = mine };	/* hand_out() */
		if
		:: set_slot(committed);			/* rnl_request_commit() */
			if
			:: last -> last = false;
#ifndef BREAK_LATE
				late = late | bit(r)	/* [batch.L1] */
#endif
			:: else
			fi;
			ask();
			done[r];			/* rnl_job_wait() */
			cell_release()			/* rnl_request_release() */
		:: cancels -> set_slot(cancelled);	/* rnl_request_cancel() */
			if
			:: last -> last = false; slab_release(mine / 2, 1)
			:: else -> ask()
			fi;
#ifndef BREAK_PROMISE
			cells_spare()
#endif
		fi;
		d_step { mine = NONE; round = 0; r++ }
	:: else -> break
	od
}

/* A batch that began before. The slot of the first slab is kept as long as it likes. */
proctype holder()
{
	byte t;
	bool last;

	slab_release(0, 1)
}

/* ---- take.c, batch_job.c ---- */

inline add(r, i)
{
	d_step {
		assert(slot_at[r] == i && !taken[r] && what[i] == committed);
		taken[r] = true;
		batch = batch | bit(r); of_slab = i / 2
	}
}

/* look_at(), then take_slot(): if the first look finds nothing, the exchange looks again. */
inline take_slot(i)
{
	d_step {					/* [batch.C2], [batch.C3] */
#ifdef BREAK_SLOT
		if
		:: what[i] == nothing -> what[i] = passed; what_round[i] = round
		:: else
		fi;
#else
		if
		:: what[i] == nothing || what_round[i] != round -> what[i] = passed; what_round[i] = round
		:: else
		fi;
#endif
		w = what[i]
	};
	if
	:: w == committed -> add(whose[i], i)
	:: w == cancelled ->
#ifndef BREAK_GIVE
		slab_release(i / 2, 1)
#endif
	:: else
	fi;
	w = nothing
}

inline take_late()
{
	d_step { late_first = late_first | late; late = 0 };	/* [batch.L2] */
	d_step {
		r = 0;
		do
		:: r < NR ->
			if
			:: late_first & bit(r) && (of_slab == NONE || of_slab == slot_at[r] / 2) ->
				late_first = late_first & ~bit(r);
				assert(!taken[r]);
				taken[r] = true;
				batch = batch | bit(r); of_slab = slot_at[r] / 2
			:: else
			fi;
			r++
		:: else -> break
		od;
		r = 0
	}
}

/* Leaves in more whether there are more requests. */
inline take_in_order()
{
	more = false;
	do
	::
#ifndef BREAK_SEEN
		o = open_round;				/* [batch.O3] */
#endif
		d_step {
			round = at; s = slab_of(round); nr = 0;
			if
			:: state[s] != free && round_of[s] == round -> nr = given[s]
			:: else
			fi
		};
#ifdef BREAK_SEEN
		o = open_round;
#endif
		if
		:: seen < nr && of_slab != NONE && of_slab != s -> more = true; break
		:: else
		fi;
		do
		:: seen < nr -> take_slot(slot(s, seen)); seen++
		:: else -> break
		od;
		if
		:: round == o -> break
		:: else -> d_step { at = round + 1; seen = 0 }
		fi
	od;
	atomic { s = 0; nr = 0; o = 0; round = 0 }
}

inline heed_and_take()
{
#ifndef BREAK_HEED
	asked = false;					/* [batch.A2] */
#endif
	take_late();
	take_in_order();
	more = more || late_first;
#ifdef BREAK_HEED
	asked = false;
#endif
}

proctype batch_job(byte b)
{
	byte r, round, s, nr, o, t, batch, of_slab = NONE;	/* nr: also of the batch */
	bool more, last, twice;
	mtype w = nothing;

end:	do
	:: runs[b] ->
		do
		:: heed_and_take();
			if
			:: !more && asked && !twice -> twice = true
			:: else -> break
			fi
		od;
		twice = false;
		d_step {				/* rnl__cells_pick(), [batch.F2] */
			do
			:: r < NR ->
				if
				:: batch & bit(r) ->
					assert(bits > 0);
					bits--; nr++
				:: else
				fi;
				r++
			:: else -> break
			od;
			r = 0
		};
		atomic {				/* rnl__schedule_taken(), [batch.W2] */
			taker = false;
			asked = asked || more;
			if
			:: asked -> submit_idle()
			:: else
			fi;
			more = false
		};
		if					/* complete_all() */
		:: nr -> slab_release(of_slab, nr); nr = 0
		:: else
		fi;
		d_step {				/* their ends */
			do
			:: r < NR ->
				if
				:: batch & bit(r) -> done[r] = true
				:: else
				fi;
				r++
			:: else -> break
			od;
			r = 0; batch = 0; of_slab = NONE
		};
		atomic {				/* rnl__schedule_ended(), [batch.W3] */
			if
#ifndef BREAK_ENDED
			:: asked && !taker -> taker = true
#endif
			:: else -> runs[b] = false; idle[b] = true
			fi
		}
	od
}

init
{
	atomic {
		state[0] = opened;			/* rnl_batcher_create() */
		idle[0] = true;
		if
#if !defined(BREAK_OPEN) && !defined(BREAK_ROUND)	/* they are found in the last plan */
		:: nr_slots = 1; spare = 1; cancels = true
		:: nr_slots = 2; spare = 2; cancels = true; idle[1] = true; run batch_job(1)
#endif
		:: nr_slots = 1; spare = 2; run holder();
			given[0] = 1; used[0] = 1; seen = 1; taken[3] = true; done[3] = true
		fi;
		bits = spare;
		run batch_job(0);
		run producer(0, 0, 2);
		run producer(1, 2, 3)
	}
}
