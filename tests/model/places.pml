/* SPDX-License-Identifier: MIT */
/*
 * Model of wakes in a pool of two devices: rnl__share_queue() and wake_for_placed() of
 * src/worker/share.c, steal() of src/worker/loop.c, rnl__idle(), rnl__choose_put() and
 * choose_wake() of src/pool/choose.c.  It is steal.pml with jobs that only one device's workers
 * take.
 *
 * Workers 1 and 2 have one device, worker 0 the other.  Each of three jobs is open, or placed on
 * the first device.  A job goes to the queue of a busy worker of that device, which is not
 * modelled, or to a claimed sleeper, or without a wake to a worker that is awake and attends.  A
 * worker runs the job that it takes forever, so it can pass wakes on only at the job's start.
 *
 * Not modelled: store buffers, which park.pml has; from steal.pml, two takers at one lane, and
 * comes_for_it(); spinning.
 *
 * Asserted: when no thread can move, no queue holds a job that a sleeping worker may take.
 *
 * Broken variants:
 * BREAK_PLACED: a worker that takes a job wakes no worker for placed jobs.  BREAK_OTHERS: such a
 * worker looks for placed jobs only in its own queue.  BREAK_TAKERS: a submit wakes any worker for
 * a placed job.  BREAK_LANES: no worker looks for placed jobs in other queues.  Found: a placed
 * job is queued, and a worker of its device sleeps.
 */
#define NJ 3
#define OPEN 0
#define PLACED 1

mtype = { awake, asleep };

mtype word[3] = asleep;
bool bits[3] = true;
bool occupied[3];
byte nr[8];	/* worker i's open jobs at 2 i, placed jobs at 2 i + 1; worker 3 is the busy one */

#define queued(i) (nr[2 * (i)] + nr[2 * (i) + 1])
/* may_have(): worker 0 takes no placed jobs */
#define has_open(w, i) ((i) != (w) && nr[2 * (i)])
#define has_placed(w, i) ((i) != (w) && (w) && nr[2 * (i) + 1])
#define any_open(w) (has_open(w, 0) || has_open(w, 1) || has_open(w, 2) || has_open(w, 3))
#ifdef BREAK_LANES
#define any_placed(w) false
#else
#define any_placed(w) (has_placed(w, 1) || has_placed(w, 2) || has_placed(w, 3))
#endif
#define holds_placed(w, i) ((i) != (w) && nr[2 * (i) + 1])

inline park_wake(i)
{
	if
	:: word[i] == asleep ->
		bits[i] = false;				/* [park.B3] */
		atomic {					/* [park.W1] */
			if
			:: word[i] == asleep -> word[i] = awake; woke = true
			:: else
			fi
		}
	:: else
	fi
}

/* rnl__idle_set_wake_one(): @among has a bit for each worker */
inline idle_set_wake_one(among)
{
	seen = (bits[0] + 2 * bits[1] + 4 * bits[2]) & (among);
	if
	:: seen & 1 -> park_wake(0)
	:: else
	fi;
	if
	:: (seen & 2) && !woke -> park_wake(1)
	:: else
	fi;
	if
	:: (seen & 4) && !woke -> park_wake(2)
	:: else
	fi;
	seen = 0;
	woke = false
}

proctype submitter()
{
	byte j, i, kind, seen, takers;
	bool woke;

	do
	:: j < NJ ->
		if
		:: kind = OPEN; takers = 7
#ifdef BREAK_TAKERS
		:: kind = PLACED; takers = 7
#else
		:: kind = PLACED; takers = 6
#endif
		fi;
		if
		:: i = 3
		:: atomic { kind == OPEN && bits[0] -> bits[0] = false; i = 0 }	/* rnl__idle_set_claim() */
		:: atomic { bits[1] -> bits[1] = false; i = 1 }
		:: atomic { bits[2] -> bits[2] = false; i = 2 }
		:: kind == OPEN && word[0] == awake -> i = 0	/* attends(): a hint */
		:: word[1] == awake -> i = 1
		:: word[2] == awake -> i = 2
		fi;
		nr[2 * i + kind]++;
		if						/* choose_wake() */
		:: i == 3 -> idle_set_wake_one(takers)
		:: else ->
			park_wake(i);
			if
			:: woke -> woke = false
			:: !woke && occupied[i] -> idle_set_wake_one(takers)
			:: !woke && !occupied[i]
			fi
		fi;
		i = 0;
		kind = 0;
		takers = 0;
		j++
	:: else -> break
	od
}

proctype worker(byte w; bool sleeps)
{
	byte seen;
	bool woke, woken, has;

	if
	:: sleeps -> goto end
	:: else
	fi;
next:	if
	:: atomic { nr[2 * w] -> nr[2 * w]--; has = true }			/* loop_take() */
	:: atomic { nr[2 * w + 1] -> nr[2 * w + 1]--; has = true }
	:: atomic { !queued(w) && has_open(w, 0) -> nr[0]--; has = true }	/* steal() */
	:: atomic { !queued(w) && has_open(w, 1) -> nr[2]--; has = true }
	:: atomic { !queued(w) && has_open(w, 2) -> nr[4]--; has = true }
	:: atomic { !queued(w) && has_open(w, 3) -> nr[6]--; has = true }
	:: atomic { !queued(w) && has_placed(w, 1) -> nr[3]--; has = true }
	:: atomic { !queued(w) && has_placed(w, 2) -> nr[5]--; has = true }
	:: atomic { !queued(w) && has_placed(w, 3) -> nr[7]--; has = true }
	:: !queued(w) && !any_open(w) && !any_placed(w)
	fi;
	if
	:: has ->
		occupied[w] = true;				/* [run.O1] */
		if						/* rnl__share_queue() */
		:: nr[2 * w] || (woken && any_open(w)) -> idle_set_wake_one(7)
		:: else
		fi;
		if						/* wake_for_placed() */
#ifndef BREAK_PLACED
#ifdef BREAK_OTHERS
		:: nr[2 * w + 1] -> idle_set_wake_one(6)
#else
		:: nr[2 * w + 1] || (woken && (holds_placed(w, 1) || holds_placed(w, 2) ||
					       holds_placed(w, 3))) -> idle_set_wake_one(6)
#endif
#endif
		:: else
		fi;
		woken = false;
end_runs:	false
	:: else ->						/* rnl__idle() */
		word[w] = asleep;
		bits[w] = true;
		if
		:: queued(w) || any_open(w) || any_placed(w) ->
			atomic { woken = woken || (word[w] == awake); word[w] = awake };	/* [park.S3] */
			bits[w] = false
		:: else ->
end:			word[w] == awake;
			bits[w] = false;
			woken = true
		fi
	fi;
	goto next
}

#define sleeps(w) (word[w] == asleep)

init
{
	atomic {
		if				/* all are asleep, or one is awake without jobs */
		:: true
		:: word[0] = awake; bits[0] = false
		:: word[2] = awake; bits[2] = false
		fi;
		run submitter();
		run worker(0, word[0] == asleep);
		run worker(1, word[1] == asleep);
		run worker(2, word[2] == asleep)
	}
	timeout;
	/* Jobs are in queues of running workers or of the busy one; a sleeper's queue is empty. */
	assert(!((nr[0] || nr[2] || nr[4] || nr[6]) && (sleeps(0) || sleeps(1) || sleeps(2))));
	assert(!((nr[3] || nr[5] || nr[7]) && (sleeps(1) || sleeps(2))))
}
