/* SPDX-License-Identifier: MIT */
/*
 * Model of sleeping and waking: src/pool/park.[ch] ([park.S1], W1, B1..B3), rnl__idle(),
 * rnl__loop(), rnl__share_occupied() and rnl__share_queue() of src/worker/share.[ch], choose_open()
 * and choose_wake() of src/pool/choose.c, and of src/pool/lane.h the order of a put ([queue.E1])
 * and rnl__lane_holds().
 *
 * Two workers and two submitters.  Job 0's function returns after job 1 is done, so the other
 * worker must run job 1.  Plans: (0) To sleeping workers: a row of 2 and 3, then 0, then 1.  (1) A
 * row of 0 and 1.  (2) 0 and 1 by two submitters.  (3) 1 by one submitter; by the other a keyed
 * job, which only worker 1 may run.  (4) A row of 0 and 1 to worker 0, while a resize or the pool's
 * creation brings in worker 1, which was away and goes to sleep at any time.
 *
 * Promela is sequentially consistent, and the protocol is Dekker's.  So stores that may be delayed
 * go through a store buffer, which memory() empties in order.  A worker's buffer holds its plain
 * stores of `word` and `occupied`, and the fetch_or of its bit.  The fetch_or is only a release, so
 * a later load may overtake it, though not on x86.  A submitter's buffer holds the store of a job's
 * link, after the tail's exchange.  A full barrier waits until the buffer is empty.
 *
 * The idle set has one word here: a worker has one bit, in one word, and a waker reads each word
 * that has workers after its full barrier.  A word is counted before the thread of its first worker
 * starts.  So the barriers order a waker that reads an older count before that worker's last look.
 * Not modelled: a thief skips a worker whose bit is set (share_next(), over 64 workers).
 *
 * Nor modelled: work in flight and naps, which end without a wake; two takers at one head, because
 * a take is one step (docs/models.md: a wake may then be spent on a worker that leaves its sleep
 * anyway); eventcounts; closing; the rest of resizing.
 *
 * Asserted: a job runs once; no worker sleeps while a queue holds a job that it may run.  No
 * thread is stuck: if a job is left and no thread moves, spin reports an invalid end state.
 *
 * Broken variants:
 * BREAK_LOOK: no second look before a sleep.  BREAK_S1: no full barrier before that look.  Found:
 * stuck: neither side sees a job that is put in between.
 * BREAK_E1: the put is no full barrier.  Found: stuck, the same from the other side.
 * BREAK_LINK: the second look reads the link, not the tail.  Found: stuck: the waker looked before
 * its link was visible.
 * BREAK_BIT: the waker clears the bit after the wake.  Found: stuck: the bit was that of the next
 * sleep, and no thread finds the sleeper.
 * BREAK_SHARE: a worker with more jobs in its queue wakes no other.  Found: stuck: one job of a
 * row waits after another.
 * BREAK_OCCUPY: a worker is occupied only after its look for more jobs ([run.O1]).  BREAK_ATTEND:
 * the submitter does not check whether a worker is occupied.  Found: stuck: the job waits after
 * the worker's running job.
 * BREAK_P1: a job's start is no full barrier before that look ([job.P1]).  Found: stuck: a
 * submitter "woke" a worker that was leaving its sleep for another job, and the look missed the
 * new job.
 * BREAK_AWAY: a worker that was away, and so sets no bit, does not check again.  BREAK_BROUGHT: a
 * worker brought in is not woken.  Found: stuck: the worker sleeps without its bit, and no search
 * for an idle worker finds it.
 */
#define NONE 255
#define NJ 4

mtype = { awake, asleep, set_bit, occupy, attend };

mtype word[2] = awake;
bool bits[2];			/* the idle set */
bool occupied[2];
chan open_lane[2] = [NJ] of { byte };
chan keyed_lane = [1] of { byte };	/* worker 1's */
bool linked[NJ];		/* the job's link is stored */
byte ran[NJ];
bool done[NJ];

chan buffer[2] = [4] of { mtype };	/* a worker's stores */
bool unput, unlinked;		/* a submitter's stores for job 1 */
byte put_to;
bool away;			/* worker 1 is away */
byte plan;			/* selects the submits */

#define all_done ((plan == 0 && done[0] && done[1] && done[2] && done[3]) || \
		  ((plan == 1 || plan == 2 || plan == 4) && done[0] && done[1]) || (plan == 3 && done[1] && done[2]))
#define drained(w) (len(buffer[w]) == 0)

inline apply(w, m)
{
	d_step {
		buffer[w]?m;
		if
		:: m == set_bit -> bits[w] = true
		:: m == occupy -> occupied[w] = true
		:: m == attend -> occupied[w] = false
		:: else -> word[w] = m
		fi;
		m = awake
	}
}

active proctype memory()
{
	mtype m = awake;
end:	do
	:: len(buffer[0]) -> apply(0, m)
	:: len(buffer[1]) -> apply(1, m)
	:: d_step { unlinked -> unlinked = false; linked[1] = true }
#ifdef BREAK_E1
	:: d_step { unput -> unput = false; open_lane[put_to]!1; unlinked = true }
#endif
	od
}

/* ---- the wakers ---- */

/* rnl__park_wake(): reads the word, then rnl__park_wake_asleep(). */
inline park_wake(i, woke)
{
	if
	:: word[i] == asleep ->
#ifndef BREAK_BIT
		bits[i] = false;			/* clear_bit() */
#endif
		atomic {				/* [park.W1], and the futex call */
			if
			:: word[i] == asleep -> word[i] = awake; woke = true
			:: else
			fi
		}
#ifdef BREAK_BIT
		bits[i] = false
#endif
	:: else
	fi
}

/* rnl__idle_set_wake_one(): copies the set once, then tries the bits one by one */
inline idle_set_wake_one(seen, woke)
{
	seen = bits[0] + 2 * bits[1];			/* [park.B2] */
	if
	:: seen & 1 -> park_wake(0, woke)
	:: else
	fi;
	if
	:: seen & 2 && !woke -> park_wake(1, woke)
	:: else
	fi;
	seen = 0
}

/* choose_open(): rnl__idle_set_claim(), or the usual worker; here, any result. */
inline pick(w)
{
	if
	:: d_step { bits[0] -> bits[0] = false; w = 0 }
	:: d_step { bits[1] -> bits[1] = false; w = 1 }
	:: !bits[0] || !bits[1] -> w = 0
	:: word[1] == awake -> w = 1
	fi
}

/* choose_wake() */
inline wake(w, keyed)
{
	park_wake(w, woke);
	if
#ifdef BREAK_ATTEND
	:: true
#else
	:: woke || keyed || !occupied[w]			/* attends(): [choose.W1] */
#endif
	:: else -> idle_set_wake_one(seen, woke)
	fi;
	d_step { woke = false; w = 0 }
}

inline put(a)
{
	d_step { open_lane[w]!a; linked[a] = true }	/* [queue.E1] */
}

inline put_row(a, b)
{
	d_step { open_lane[w]!a; open_lane[w]!b; linked[a] = true; linked[b] = true }	/* [queue.E2] */
}

/* Stores the link later. */
inline put_late(a)
{
#ifdef BREAK_E1
	d_step { put_to = w; unput = true }
#else
	d_step { open_lane[w]!a; unlinked = true }
#endif
}

proctype submitter_0()
{
	byte w, seen;
	bool woke;

	if
	:: plan == 2 -> pick(w); put(0); wake(w, false)
	:: plan == 3 -> d_step { keyed_lane!2; linked[2] = true; w = 1 }; wake(w, true)
	:: else
	fi
}

proctype submitter_1()
{
	byte w, seen;
	bool woke;

	if
	:: plan == 4					/* a reservation at worker 1 was refused */
	:: else -> pick(w)
	fi;
	if
	:: plan == 0 -> put_row(2, 3); wake(w, false); pick(w); put(0); wake(w, false); pick(w); put(1)
	:: plan == 1 || plan == 4 -> put_row(0, 1)
	:: else -> put_late(1)
	fi;
	wake(w, false);
	all_done
}

/* change_staff() or rnl__staff_start(), then serve_generation(), for worker 1 */
proctype resizer()
{
	bool woke;

	away = false;					/* rnl__queue_serve(); [staff.S1] */
#ifndef BREAK_BROUGHT
	park_wake(1, woke)
#endif
}

/* ---- the workers ---- */

/* __cds_wfcq_dequeue_nonblocking(): does not see a job without its link */
inline take(lane)
{
	if
	:: len(lane) > 0 ->
		lane?<j>;
		if
		:: linked[j] -> lane?j
		:: else -> j = NONE
		fi
	:: else
	fi
}

#ifdef BREAK_LINK
#define holds(lane) (len(lane) > 0 && !(lane?[1] && !linked[1]))
#else
#define holds(lane) (len(lane) > 0)			/* rnl__lane_holds() */
#endif

/* rnl__park_leave() */
inline leave()
{
	buffer[w]!awake;
	bits[w] = false
}

proctype worker(byte w)
{
	byte j = NONE;
	byte seen;
	bool woke, was_away;

	if
	:: word[w] == asleep -> goto end
	:: else
	fi;
next:	atomic {					/* loop_take(), steal() */
		take(open_lane[w]);
		if
		:: j == NONE && w == 1 -> take(keyed_lane)
		:: else
		fi;
		if
		:: j == NONE -> take(open_lane[1 - w])
		:: else
		fi
	};
	if
	:: j == NONE -> goto idle
	:: else
	fi;

	/* rnl__run() */
#ifndef BREAK_OCCUPY
	buffer[w]!occupy;				/* [run.O1] */
#endif
#ifndef BREAK_P1
	drained(w);					/* [job.P1] a full barrier */
#endif
#ifndef BREAK_SHARE
	if						/* share() */
	:: (bits[0] || bits[1]) && holds(open_lane[w]) -> idle_set_wake_one(seen, woke);
		woke = false
	:: else
	fi;
#endif
#ifdef BREAK_OCCUPY
	buffer[w]!occupy;
#endif
	if
	:: j == 0 -> done[1]
	:: else
	fi;
	d_step { ran[j]++; assert(ran[j] == 1); done[j] = true; j = NONE };
	buffer[w]!attend;
	goto next;

idle:	atomic {					/* rnl__park_prepare(), [park.B1] */
		was_away = (w == 1 && away);		/* rnl__queue_away() */
		buffer[w]!asleep;
		if
		:: !was_away -> buffer[w]!set_bit
		:: else
		fi
	};
#ifndef BREAK_S1
	drained(w);					/* [park.S1] */
#endif
#ifndef BREAK_LOOK
	if						/* idle_busy() */
	:: holds(open_lane[w]) || (w == 1 && holds(keyed_lane)) -> leave(); goto next
	:: else
	fi;
	if
	:: holds(open_lane[1 - w]) -> leave(); goto next
	:: else
	fi;
#endif
	if
#ifndef BREAK_AWAY
	:: was_away && !away -> leave(); was_away = false; goto next
#endif
	:: else -> was_away = false
	fi;
	drained(w);					/* rnl__park_sleep(): a system call */
end:	word[w] == awake;				/* [park.S2] */
	leave();
	goto next
}

init
{
	atomic {
		if
#if !defined(BREAK_AWAY) && !defined(BREAK_BROUGHT)	/* the last plan finds these errors */
		:: plan = 0 -> bits[0] = true; bits[1] = true; word[0] = asleep; word[1] = asleep
		:: plan = 1
		:: plan = 2 -> bits[0] = true; word[0] = asleep
		:: plan = 3 -> bits[0] = true; word[0] = asleep
#endif
		:: plan = 4 -> away = true; run resizer()
		fi;
		run submitter_0();
		run submitter_1();
		run worker(0);
		run worker(1)
	}
}
