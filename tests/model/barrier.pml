/* SPDX-License-Identifier: MIT */
/*
 * Model of a barrier: rnl__barrier_count(), _defer(), _issued(), _done(),
 * release_waiting() and push_waiting() of src/job/barrier.c ([barrier.A1], A2, A3), the
 * latch `unissued` with its mark ([latch.D1], W2), and from src/worker/run.c and
 * src/worker/complete.c what updates a barrier, and when: complete(), mark_event(),
 * rnl__owed_tell().
 *
 * A user adds jobs 0 and 1 to the barrier, submits job 3 after it, and adds job 2, which
 * begins a new round if 0 and 1 are issued by then. Another thread submits job 4 after it at
 * any time, or waits until all jobs are issued, as a join does. When the barrier and jobs 3
 * and 4 are done, and the join is over, the user frees the barrier. Two workers run all jobs.
 * A job either leaves work on the stream, then it is marked at once and done later; or it
 * leaves none, then its worker owes the barrier both updates, and makes them when it has no
 * more of the barrier's jobs.
 *
 * Left out: store buffers. Drop and watch change one word. The order of a push before a watch
 * is an order of that word, too: BREAK_WATCH, which has no such order, loads before the push.
 * `waiting` is a set, not a list. The wait for the latch `undone` is one step; cancel.pml has
 * its steps. Drains, results, events.
 *
 * Asserted: a job after the barrier starts once, and not before all jobs are issued that were
 * counted when its submit began; no thread touches the barrier after it is freed. No thread is
 * stuck: a job left on `waiting` is an invalid end state.
 *
 * Broken: BREAK_WATCH a deferring submit loads the word instead of changing it; BREAK_LOOK
 * release_waiting() starts the jobs that it took without a look; BREAK_AGAIN it puts jobs back
 * and does not look again; BREAK_RELEASE the end of a round does not look for waiting jobs;
 * BREAK_HOLD a deferring submit does not hold the barrier; BREAK_DONE a worker tells that jobs
 * are done before it tells that they are issued; BREAK_OWED it falls idle before it tells;
 * BREAK_UNWATCH the mark is taken off by a store of 0.
 */
byte unissued, undone;		/* counts */
bool sleeper, in_futex;		/* of `unissued` */
byte waiting;			/* bits of jobs */
byte counted, issued, started, over;	/* bits of jobs */
byte before[5];			/* for 3 and 4: the jobs counted at the submit */
bool join_over, freed;
chan queue[2] = [5] of { byte };

#define touch() assert(!freed)
#define bit(j) (1 << (j))

/* ---- src/job/barrier.c ---- */

inline place_deferred(j)
{
	d_step {
		assert(!(started & bit(j)) && (before[j] & ~issued) == 0);
		started = started | bit(j)
	};
	queue[j - 3]!j
}

inline release_waiting()
{
	do
	::	d_step { touch(); jobs = waiting; waiting = 0 };	/* [barrier.A2] */
		if
		:: jobs == 0 -> break
		:: else
		fi;
#ifdef BREAK_LOOK
		n = 0;
#else
		d_step { touch(); n = unissued };
#endif
		if
		:: n == 0 ->				/* queue_all() */
			if
			:: jobs & bit(3) -> place_deferred(3)
			:: else
			fi;
			if
			:: jobs & bit(4) -> place_deferred(4)
			:: else
			fi;
			break
		:: else ->
			d_step { touch(); waiting = waiting | jobs; jobs = 0 };
#ifdef BREAK_AGAIN
			break
#else
			d_step { touch(); n = unissued; sleeper = true };	/* [latch.W2] */
			if
			:: n != 0 -> break
			:: else
			fi
#endif
		fi
	od;
	jobs = 0; n = 0
}

inline barrier_count(j)
{
	d_step { touch(); undone++; unissued++; counted = counted | bit(j) }	/* in either order */
}

inline barrier_issued(nr)
{
	d_step {					/* [latch.D1] */
		touch(); assert(unissued >= nr);
		unissued = unissued - nr;
		n = (unissued == 0 -> 1 + sleeper : 0)
	};
	if
	:: n == 2 -> in_futex = false			/* rnl__futex_wake() */
	:: else
	fi;
#ifndef BREAK_RELEASE
	if
	:: n ->
#ifdef BREAK_UNWATCH
		d_step { touch(); n = (unissued == 0 && sleeper) };
		if
		:: n -> d_step { sleeper = false; unissued = 0 }
		:: else
		fi;
#else
		d_step {				/* rnl__latch_unwatch() */
			touch();
			if
			:: unissued == 0 -> sleeper = false
			:: else
			fi
		};
#endif
		release_waiting()
	:: else
	fi;
#endif
	n = 0
}

inline barrier_done(nr)
{
	d_step { touch(); assert(undone >= nr); undone = undone - nr }
}

inline submit_after(j)
{
	d_step { touch(); before[j] = counted; n = unissued };	/* rnl__barrier_ready() */
	if
	:: n == 0 -> place_deferred(j)			/* not deferred: placed like other jobs */
	:: else ->					/* rnl__barrier_defer() */
#ifndef BREAK_HOLD
		d_step { touch(); undone++ };
#endif
		d_step { touch(); n = unissued };
		if
		:: n == 0 ->
#ifndef BREAK_HOLD
			barrier_done(1);
#endif
			place_deferred(j)
		:: else ->
#ifdef BREAK_WATCH
			d_step { touch(); n = unissued };
			d_step { touch(); waiting = waiting | bit(j) };
#else
			d_step { touch(); waiting = waiting | bit(j) };	/* [barrier.A1] */
			d_step { touch(); n = unissued; sleeper = true };	/* [barrier.A3] */
#endif
			if
			:: n == 0 -> release_waiting()
			:: else
			fi;
#ifdef BREAK_HOLD
			skip
#else
			barrier_done(1)
#endif
		fi
	fi;
	n = 0
}

/* ---- src/worker/run.c, src/worker/complete.c, src/worker/loop.c ---- */

inline tell_barrier()
{
#ifdef BREAK_DONE
	if
	:: owed_done -> barrier_done(owed_done)
	:: else
	fi;
	if
	:: owed_issued -> barrier_issued(owed_issued)
	:: else
	fi;
#else
	if
	:: owed_issued -> barrier_issued(owed_issued)
	:: else
	fi;
	if
	:: owed_done -> barrier_done(owed_done)
	:: else
	fi;
#endif
	d_step { owed_issued = 0; owed_done = 0 }
}

proctype worker(byte w)
{
	byte j, n, jobs, owed_issued, owed_done;
	byte on_stream;

end:	do
	:: len(queue[w]) ->
		queue[w]?j;
		if
		:: j >= 3 ->
			tell_barrier();			/* not in this barrier */
			touch();			/* rnl__barrier_follow() */
			over = over | bit(j)		/* rnl__job_drop() */
		:: else ->
			if
			:: issued = issued | bit(j); barrier_issued(1);	/* mark_event() */
				on_stream++
			:: d_step { issued = issued | bit(j); owed_issued++; owed_done++ }	/* complete_now() */
			fi
		fi;
		j = 0
	:: len(queue[w]) == 0 && (owed_issued || owed_done || on_stream) ->
#ifdef BREAK_OWED
		if
		:: owed_done -> goto end2
		:: else
		fi;
#endif
		tell_barrier();
		d_step { owed_done = on_stream; on_stream = 0 }	/* rnl__complete_passed() */
	od;
#ifdef BREAK_OWED
end2:	false
#endif
}

/* ---- the users ---- */

active proctype user()
{
	byte n, jobs;

	barrier_count(0);
	queue[0]!0;
	barrier_count(1);
	queue[0]!1;
	submit_after(3);
	barrier_count(2);
	queue[1]!2;
	undone == 0;					/* rnl_barrier_wait() */
	assert((issued & 7) == 7);
	(over == (bit(3) | bit(4)) && join_over);
	freed = true
}

proctype other()
{
	byte n, jobs;

	submit_after(4)
}

proctype join()
{
	byte n;

	do						/* rnl__latch_wait() */
	:: unissued == 0 -> break
	:: else ->
		d_step { touch(); n = unissued; sleeper = true };
		if
		:: n == 0 -> break
		:: else
		fi;
		atomic { n = unissued; in_futex = (n && sleeper) };	/* the kernel compares */
		!in_futex
	od;
	atomic {
		touch();
		if
		:: unissued == 0 -> sleeper = false
		:: else
		fi
	};
	join_over = true
}

init
{
	atomic {
		run worker(0);
		run worker(1);
		if
		:: run other(); join_over = true
		:: run join(); over = bit(4)
		fi
	}
}
