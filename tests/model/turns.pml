/* SPDX-License-Identifier: MIT */
/*
 * Model of the notices for a water mark: queue_ready(), look(), look_again(), queue_cancelled(),
 * leave() and rnl__watermark_wait() of src/job/watermark.c.
 *
 * The mark is reached. A thread submits a notice that was started in this turn; another submits one
 * that was not, makes the queues leave the mark and reach it again, and looks behind each step; the
 * keeper looks for cancelled notices, of which there are none, and puts back what it took.
 *
 * Left out: store buffers: a full barrier stands between a step, or a push, and the look behind
 * it; cancels, closes, guess(). A second look of look_again() behind one that has queued.
 *
 * Asserted: no notice starts twice in a turn. When nobody moves and the mark is reached, each
 * notice that waits was started in this turn.
 *
 * Broken: BREAK_TURN a notice starts whatever its turn; BREAK_LOOK a submit does not look behind
 * its push; BREAK_WAIT it does not compare the turns; BREAK_KEEPER the keeper does not look,
 * BREAK_SINCE nor compare them; BREAK_LATER who
 * puts back a notice that was started in this turn does not compare them; BREAK_BEGIN the list is
 * taken before the turn begins.
 */
#define NR 2
#define STEPS 4

bool reached = true;		/* the mark is */
bool listed[NR];
byte staff[NR], turn = 1;	/* odd: the mark was not left since the turn began */
bool in_queue[NR];

inline push(i)				/* in one step */
{
	assert(!listed[i] && !in_queue[i]);
	listed[i] = true
}

#define waits (listed[0] || listed[1])	/* one word: the list's head */

inline start_or_push(i)
{
	d_step {
		if
#ifndef BREAK_TURN
		:: mine[i] && staff[i] == mark -> push(i); back = true
#endif
		:: mine[i] && staff[i] != mark -> assert(!in_queue[i]); staff[i] = mark; in_queue[i] = true
#ifdef BREAK_TURN
		:: mine[i] && staff[i] == mark -> assert(false)
#endif
		:: else
		fi;
		mine[i] = false
	}
}

inline take_all()
{
	d_step {
		mine[0] = listed[0]; mine[1] = listed[1];
		listed[0] = false; listed[1] = false
	}
}

inline begin()				/* move_on() */
{
	d_step {
		if
		:: !(turn & 1) -> turn++
		:: else
		fi
	}
}

/* queue_ready(), as far as it does not look again; back: it put a notice back. */
inline queue_ready()
{
#ifdef BREAK_BEGIN
	take_all();
	begin();
#else
	begin();
	take_all();
#endif
	mark = turn;
	start_or_push(0);
	start_or_push(1)
}

/* look(), or look_again() behind turn since, with the calls that they make of each other. */
inline look(again, compare, later)
{
	compares = again && compare;
	do
	:: true ->
		if
		:: waits ->
			if
			:: !reached ->
				d_step {		/* leave() */
					if
					:: turn & 1 -> turn++
					:: else
					fi
				}
			:: else -> ready = !(turn & 1)
			fi
		:: else
		fi;
		if
		:: !ready && compares && turn != since ->
			if
			:: waits -> ready = reached
			:: else
			fi
		:: else
		fi;
		if
		:: ready -> queue_ready()
		:: else -> break
		fi;
		if
		:: back -> atomic { since = mark; compares = later; back = false; ready = false; mark = 0 }
		:: else -> break
		fi
	od;
	atomic { mark = 0; since = 0; ready = false; back = false; compares = false }
}

#ifdef BREAK_LATER
#define LATER false
#else
#define LATER true
#endif

#define VARIABLES bool mine[NR], back, ready, compares; byte mark, since

active proctype passes()
{
	VARIABLES;
	byte step;

	d_step { push(0) };
	look(true, true, LATER);
	do
	:: step < STEPS ->
		reached = !reached;
		step++;
		look(false, false, LATER)
	:: else -> break
	od
}

active proctype submits()
{
	VARIABLES;

	d_step { staff[1] = 1; push(1) };
	since = staff[1];
#ifndef BREAK_LOOK
#ifdef BREAK_WAIT
	look(true, false, LATER)
#else
	look(true, true, LATER)
#endif
#endif
}

inline put_back(i)
{
	d_step {
		if
		:: mine[i] -> mine[i] = false; push(i)
		:: else
		fi
	}
}

active proctype keeper()
{
	VARIABLES;

#ifdef BREAK_SINCE
	since = turn;
#else
	since = 255;					/* no turn */
#endif
	take_all();
	put_back(0);
	put_back(1);
#ifndef BREAK_KEEPER
	look(true, true, LATER)
#endif
}

active proctype nobody_moves()
{
	timeout ->
		assert(!reached || !listed[0] || staff[0] == turn);
		assert(!reached || !listed[1] || staff[1] == turn)
}
