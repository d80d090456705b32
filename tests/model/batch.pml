/* SPDX-License-Identifier: MIT */
/*
 * Model of a batcher: rnl__slab_reserve(), raise_limit(), open_next(), close_slab(), recycle() and
 * rnl__slab_release() of src/batch/slab.c ([batch.S2], S3, S4, O1, H1, H2, P1, P2),
 * src/batch/cells.c ([batch.P3], P4, F1, F2, B6), reserve, commit and cancel of src/batch/request.c
 * ([batch.C1]), takes of src/batch/take.c ([batch.O3], C2, C3), and the choice of the taker
 * in src/batch/schedule.c ([batch.A1], A2, W1, W2, W3).
 *
 * Two producers have two requests and one, and share two slabs.  A producer reserves, and waits
 * while there is no space.  Then it commits, and releases when the request is done; or it cancels.
 * Plans: (1) Slabs of two slots, and two cells.  Slots are left over, each producer's last request
 * keeps its cell, and the second producer commits when the first is done.  (2) Slabs of one slot,
 * and one cell.  The first request is cancelled, and the second may be.  (3) Slabs of two slots,
 * two cells, two batches.  (4) Slabs of one slot, where an earlier request ends at any time.
 *
 * Not modelled: store buffers, because the word of a slab, of a slot, of the batcher is read and
 * changed in one step, and publishes all other data; making slabs, sizes, drains, destroy, the pool
 * (a submitted batch runs); an overflow of rounds.  Promised and settled cells are read together:
 * if more are promised in between, the exchange fails.  The list of late requests is a set.  The
 * cells' bits are a number, because any free cell may be picked.  The eventcount is a flag for each
 * waiter; park.pml has its barriers.
 *
 * Asserted: a committed request is taken once, a cancelled one never; a free or newly opened slab
 * is unused; a batch finds a cell for each request.  No thread is stuck: if a request is never
 * taken, or a producer waits although there is space, spin reports an invalid end state.
 *
 * Broken variants:
 * BREAK_ROUND: a free slab opens for any round, not only for later ones.  Found: a slab in use is
 * opened, and freed: a late thread opened it again for an old round.
 * BREAK_OPEN: a reservation does not compare the round.  Found: stuck: the request belongs to a
 * round that no taker takes.
 * BREAK_SLOT: a taker does not compare a slot's round.  Found: the slot's request of the round
 * before is taken again.
 * BREAK_SEEN: a taker reads the open round after it looked at the slab ([batch.O3]).  Found:
 * stuck: the taker left a slab before its last slots were given out.
 * BREAK_LATE: a passed-over request is not put on the list.  BREAK_HEED: a taker clears ASKED
 * after it looked for requests ([batch.A2]).  BREAK_ENDED: a batch's end ignores ASKED.
 * BREAK_GIVE: a taker does not give back a cancelled slot.  BREAK_WAKE: a thread that frees a slab
 * or a cell wakes no producer.  BREAK_SPARE: a release wakes no producer ([pool.R2]).
 * BREAK_WANTED: a thread that announced that it found no cell does not look again ([batch.B6]).
 * BREAK_PROMISE: a cancel keeps the promise.  BREAK_UNUSED: a closed slab keeps the promises for
 * unused slots.  Found: stuck.
 * BREAK_HELD: a slab is free before its last release.  BREAK_CLOSED: closing a released slab does
 * not free it.  Found: the slab is used when free; stuck.
 * BREAK_CLEAR: a taker settles before it clears bits ([batch.P3]).  BREAK_SETTLED: bits are
 * counted before the settled promises are read ([batch.P4]).  Found: a batch finds no cell.
 * BREAK_RAISED: a raised limit wakes no producer.  BREAK_AGAIN: a thread that found no cell does
 * not check whether the limit was raised.  Found: stuck: slots are free, but the producer that has
 * one is slow.
 */
#define NONE 255
#define NS 2				/* slabs */
#define NR 4				/* requests */
#define slab_of(round) ((round) % NS)
#define slot(s, i) (2 * (s) + (i))
#define limit_of(round, n) (4 * (round + 1) + n)

mtype = { free, opened, closed, nothing, passed, committed, cancelled };

/* A slab: its word, and its slots in use. */
mtype state[NS] = free;
byte round_of[NS], given[NS];
short held[NS];
byte open_round;				/* batcher: open */
byte nr_slots;
byte limit[NS];				/* a round, and the number of usable slots */
byte bits, promised, settled;		/* free cells; all promises; ended promises */
bool wanted;				/* a reserve found no cell to promise */
bool cancels;				/* the first request is cancelled, the second may be */
bool keeps, sizes;			/* the last requests keep cells; slots are left over */

/* A slot. */
mtype what[4] = nothing;
byte what_round[4], whose[4];

byte late;				/* bits of requests */
bool asked, taker, idle[2], runs[2];
byte at, seen, late_first;		/* of the taker */

bool listens[2];
byte used[NS];				/* ghost: requests with a slot in the slab */
byte slot_at[NR];			/* a request's slot */
bool taken[NR], done[NR];

#define bit(r) (1 << (r))

/* ---- slab.c: opening ---- */

inline ring()
{
#ifndef BREAK_WAKE
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

/* open_next(): sets res to 0, or to NONE for -EAGAIN */
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
				state[s] = opened; round_of[s] = next; given[s] = 0; res = 0;
				limit[s] = limit_of(next, 0)
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

/* rnl__cells_wake() */
inline cells_wake()
{
	if
	:: wanted -> wanted = false; ring()		/* [pool.R2] */
	:: else
	fi
}

inline cells_settle(n)
{
	settled = settled + n;				/* [batch.P3] */
	cells_wake()
}

inline cell_release()
{
	bits++;						/* [batch.F1] */
#ifndef BREAK_SPARE
	cells_wake()
#endif
}

/* rnl__cells_promise(): sets got to the number of promises */
inline cells_promise(most)
{
	do
	::
#ifdef BREAK_SETTLED
		d_step { t = promised; got = bits };
		d_step {
			u = settled;
#else
		d_step { t = promised; u = settled };	/* [batch.P4] */
		d_step {
			got = bits;
#endif
			if
			:: u > t || got <= t - u -> got = 0
			:: else -> got = got - (t - u)
			fi;
			if
			:: got > most -> got = most
			:: else
			fi;
			u = 0;
			if
#ifndef BREAK_WANTED
			:: !got && !notified -> wanted = true; notified = true; u = 1	/* [batch.B6] */
#else
			:: !got && !notified -> wanted = true
#endif
			:: else
			fi
		};
		if
		:: u -> u = 0
		:: got ->
			atomic {
				if
				:: promised == t -> promised = t + got
				:: else -> got = NONE
				fi
			};
			if
			:: got == NONE -> got = 0
			:: else -> break
			fi
		:: !got && !u -> break
		fi
	od;
	atomic { t = 0; notified = false }
}

/* ---- slab.c: closing, reserving ---- */

/* raise_limit(): sets res like open_next() */
inline raise_limit()
{
	if
	:: lim == limit_of(round, nr) ->
		cells_promise(nr_slots - nr);
		if
		:: got ->
			atomic {			/* [batch.P1] */
				if
				:: limit[s] == lim -> limit[s] = lim + got; got = 0
				:: else
				fi
			};
			if
			:: got -> cells_settle(got); got = 0
			:: else ->
#ifndef BREAK_RAISED
				cells_wake()
#endif
			fi
		:: else ->
#ifdef BREAK_AGAIN
			res = NONE
#else
			res = (limit[s] == lim -> NONE : 0)
#endif
		fi
	:: else
	fi;
	lim = 0
}

/* close_slab(): sets res to 0 if another thread changed the word first */
inline close_slab()
{
	atomic {
		if
		:: is_open(s) && given[s] == nr -> state[s] = closed; res = 1
		:: else -> res = 0
		fi
	};
	if
	:: res ->
		d_step { got = limit[s] - limit_of(round, nr); limit[s] = 0 };
		if
		:: got ->
#ifndef BREAK_UNUSED
			cells_settle(got);
#endif
			got = 0
		:: else
		fi;
		d_step {				/* [batch.H2] */
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
}

/* rnl__slab_reserve(), make_room(): sets mine to the request's slot, or to NONE */
inline slab_reserve()
{
	do
	::
		d_step {				/* [batch.O2], [batch.P2] */
			round = open_round; s = slab_of(round); lim = limit[s]; todo = nothing
		};
		atomic {				/* [batch.R1] */
			if
			:: is_open(s) && given[s] < nr_slots && lim > limit_of(round, given[s]) ->
				mine = slot(s, given[s]);
				given[s]++; used[s]++
			:: is_open(s) && given[s] < nr_slots && lim <= limit_of(round, given[s]) ->
				nr = given[s]; todo = passed; lim = limit[s]
			:: is_open(s) && (given[s] == nr_slots || (sizes && given[s])) ->
				nr = given[s]; todo = closed
			:: !is_open(s) -> todo = opened
			fi;
			if
			:: todo != passed -> lim = 0
			:: else
			fi
		};
		if
		:: mine != NONE -> break
		:: todo == passed -> raise_limit()
		:: todo == closed -> close_slab();
			if
			:: res -> open_next()
			:: else
			fi
		:: todo == opened -> open_next()
		fi;
		if
		:: res == NONE -> break
		:: else
		fi
	od;
	atomic { s = 0; nr = 0; res = 0; lim = 0; todo = nothing }
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

/* set_slot(): sets last if a taker has passed the slot over */
inline set_slot(w)
{
	d_step {					/* [batch.C1] */
		last = (what[mine] == passed && what_round[mine] == round);
		what[mine] = w;
		what_round[mine] = round
	}
}

/* a producer of requests r to end - 1 */
proctype producer(byte p, r, end)
{
	byte round, s, nr, next, t, u, got, lim, res, mine = NONE;
	bool last, heard, notified;
	mtype todo = nothing;

	do
	:: r < end ->
		d_step { heard = p; listens[p] = p };	/* the second producer waits first */
again:		slab_reserve();
		if
		:: mine == NONE && heard -> !listens[p]; listens[p] = true; goto again	/* rnl__eventcount_wait() */
		:: mine == NONE && !heard -> heard = true; listens[p] = true; goto again
		:: else -> heard = false; listens[p] = false
		fi;
		d_step { whose[mine] = r; slot_at[r] = mine };	/* hand_out() */
		if
		:: keeps && p == 1 -> done[1]		/* commits late */
		:: else
		fi;
		if
		:: atomic { !cancels || r -> set_slot(committed) };	/* rnl_request_commit() */
			if
			:: last -> last = false;
#ifndef BREAK_LATE
				late = late | bit(r)	/* [inbox.P1] */
#endif
			:: else
			fi;
			ask();
			done[r];			/* rnl_job_wait() */
			if				/* rnl_request_release() */
			:: keeps && r == end - 1
			:: else -> cell_release()
			fi
		:: atomic { cancels && p == 0 -> set_slot(cancelled) };	/* or cancels */
			if
			:: last -> last = false; slab_release(mine / 2, 1)
			:: else -> ask()
			fi;
#ifndef BREAK_PROMISE
			cells_settle(1)
#endif
		fi;
		d_step { mine = NONE; round = 0; r++ }
	:: else -> break
	od
}

/* A batch that began earlier.  It keeps the slot of the first slab for any time. */
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

/* take_look_at(), then take_or_pass(): the exchange looks again if the first look finds nothing */
inline take_or_pass(i)
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
	d_step { late_first = late_first | late; late = 0 };	/* [inbox.T1] */
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

/* Sets more if there are more requests. */
inline take_new()
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
		:: seen < nr -> take_or_pass(slot(s, seen)); seen++
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
	take_new();
	more = more || late_first;
#ifdef BREAK_HEED
	asked = false;
#endif
}

proctype batch_job(byte b)
{
	byte r, round, s, nr, o, t, batch, of_slab = NONE;	/* nr: also the batch's size */
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
		d_step {				/* rnl__cells_pick() */
			do
			:: r < NR ->
				if
				:: batch & bit(r) -> nr++
				:: else
				fi;
				r++
			:: else -> break
			od;
			r = 0
		};
		if
		:: nr ->
#ifdef BREAK_CLEAR
			cells_settle(nr);
			d_step { assert(bits >= nr); bits = bits - nr }
#else
			d_step { assert(bits >= nr); bits = bits - nr };	/* [batch.F2] */
			cells_settle(nr)
#endif
		:: else
		fi;
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
		d_step {				/* the requests' ends */
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
#if !defined(BREAK_OPEN) && !defined(BREAK_ROUND)	/* the last plan finds these errors */
		:: nr_slots = 2; bits = 2; keeps = true; sizes = true
		:: nr_slots = 1; bits = 1; cancels = true
		:: nr_slots = 2; bits = 2; idle[1] = true; run batch_job(1)
#endif
		:: nr_slots = 1; bits = 2; run holder();
			given[0] = 1; used[0] = 1; seen = 1; taken[3] = true; done[3] = true
		fi;
		limit[0] = limit_of(0, given[0]);
		run batch_job(0);
		run producer(0, 0, 2);
		run producer(1, 2, 3)
	}
}
