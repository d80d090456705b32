/* SPDX-License-Identifier: MIT */
/*
 * Model of a scan through a lane during puts and takes: cds_wfcq_enqueue() and
 * __cds_wfcq_dequeue_nonblocking() of liburcu, rnl__lane_remove(), scan_lane(), rnl__scan_on() and
 * rnl__queue_expect() of src/pool/lane.h and scan.c, search_queue() of src/worker/timer_thread.c,
 * and the wake of the timer thread in rnl__choose_put().
 *
 * Two threads put three jobs.  A taker takes jobs from the head.  A scanner removes any jobs from
 * the middle, in pieces of any length; between the pieces the taker may take.  The last job has a
 * deadline: its submitter sets `due` after the put.  The scanner clears `due` before it begins, and
 * sets `due` again for a job that stays, or if a half-done put hid the rest of the lane.
 *
 * Not modelled: store buffers, because all exchanges are full barriers; lanes that are held for
 * long; attempts to take a first job that is half put, which find no job.
 *
 * Asserted: a job is taken or removed once, and not touched afterwards; after a scan `due` is set
 * if the job with the deadline was put and stays, unless the taker has the job.  If a job is lost,
 * spin reports an invalid end state.
 *
 * Broken variants:
 * BREAK_BUSY: the scanner does not exclude the taker.  BREAK_COUNT: it does not check that the job
 * from which it continues is still there.  BREAK_NULL: the link is not cut.  Found: a removed job
 * is touched.
 * BREAK_CUT: the link is cut after the tail moves back.  BREAK_TAIL: the tail moves without an
 * exchange.  Found: stuck: a job's link is lost; a removed job is touched.
 * BREAK_FORGET: `due` is cleared after the scan.  BREAK_MISSED: jobs that a put hid are
 * forgotten.  Found: an expired job waits, but the queue has no time for the timer thread.
 */
#define NJ 3
#define HEAD NJ
#define NIL 255
#define DEADLINE 2			/* the job with the deadline */

byte next[4] = NIL;
byte tail = HEAD;
bool busy, due, was_put;
byte taken;
bool gone[4];
byte picks;				/* bits of jobs that the scanner removes */

#define all_gone (gone[0] && gone[1] && gone[2])

inline put(j)
{
	d_step { old = tail; tail = j };			/* [queue.E1] */
	assert(!gone[old]);
	next[old] = j;
	if
	:: j == DEADLINE -> atomic { due = true; was_put = true }
	:: else
	fi
}

/* Takes the job after @prev; sets `n` to that job, or to NIL if it cannot be taken now. */
inline take_behind(prev)
{
	n = next[prev];
	if
	:: n == NIL
	:: n != NIL ->
		m = next[n];
		last = false;
		if
		:: m == NIL ->
#ifndef BREAK_NULL
#ifndef BREAK_CUT
			next[prev] = NIL;
#endif
#endif
#ifdef BREAK_TAIL
			tail = prev; last = true;
#else
			atomic {				/* [queue.W1] */
				if
				:: tail == n -> tail = prev; last = true
				:: else
				fi
			}
#endif
			if
#ifdef BREAK_CUT
			:: last -> next[prev] = NIL
#else
			:: last
#endif
			:: !last -> m = next[n]
			fi
		:: else
		fi;
		if
		:: !last && m == NIL -> next[prev] = n; n = NIL
		:: !last && m != NIL -> next[prev] = m
		:: last
		fi;
		if
		:: n != NIL ->
			d_step { assert(!gone[n]); gone[n] = true; taken++ }
		:: else
		fi
	fi
}

proctype putter(byte j, k)
{
	byte old;

	put(j);
	if
	:: k != NIL -> put(k)
	:: else
	fi
}

proctype taker()
{
	byte n, m;
	bool last;

	do
	:: all_gone -> break
	:: atomic { !busy && next[HEAD] != NIL -> busy = true };	/* [queue.T1] */
		take_behind(HEAD);
		busy = false					/* [queue.T2] */
	od
}

proctype walker()
{
	byte n, m, at, nr, seen, passes;
	bool last, stays, over;

next_scan:
	at = HEAD;
	nr = 0;
	over = false;
	stays = false;
#ifndef BREAK_FORGET
	due = false;						/* [queue.W2] */
#endif
	do
	:: over -> break
	:: !over && all_gone -> goto end
	:: !over && tail == HEAD -> over = true		/* rnl__lane_holds() */
	:: else ->
#ifdef BREAK_BUSY
		skip;
#else
		if
		:: all_gone -> goto end
		:: atomic { !busy -> busy = true }
		fi;
#endif
#ifndef BREAK_COUNT
		if						/* scan_from() */
		:: nr > taken - seen -> nr = nr - (taken - seen)
		:: else -> nr = 0; at = HEAD
		fi;
#endif
		do						/* scan_lane() */
		:: break					/* the end of a piece */
		:: n = next[at];
			assert(!gone[at]);
			if
			:: n == NIL ->
				over = true;
#ifndef BREAK_MISSED
				stays = stays || (tail != at);
#endif
				break
			:: n != NIL && (picks >> n & 1) ->
				take_behind(at);
				if
				:: n == NIL -> stays = true; at = next[at]; nr++
				:: else
				fi
			:: else -> stays = stays || (n == DEADLINE); at = n; nr++
			fi
		od;
		n = 0; m = 0; last = false;
		seen = taken;
#ifndef BREAK_BUSY
		busy = false
#endif
	od;
#ifdef BREAK_FORGET
	due = false;
#endif
	if
	:: stays -> due = true
	:: else
	fi;
	atomic {
		assert(busy || due || !was_put || gone[DEADLINE]);
		passes++
	};
	if
	:: passes < 2 -> goto next_scan
	:: else
	fi;
end:	skip
}

init
{
	atomic {
		if
		:: picks = 0
		:: picks = 2
		:: picks = 4
		:: picks = 6
		:: picks = 7
		fi;
		run putter(0, 1);
		run putter(2, NIL);
		run taker();
		run walker()
	}
}
