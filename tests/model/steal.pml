/* SPDX-License-Identifier: MIT */
/*
 * Model of thieves and their wakes: rnl__lane_try_take() of src/pool/lane.h ([queue.T1], T2),
 * steal() of src/worker/loop.c, rnl__idle(), rnl__share_occupied() and rnl__share_queue() of
 * src/worker/share.[ch], choose_open() and choose_wake() of src/pool/choose.c, and
 * src/pool/park.[ch], whose barriers are in park.pml.
 *
 * Three jobs are submitted one by one.  Each is put, with a wake, in the queue of a busy worker,
 * which is not modelled; or in the queue of a sleeper that the submitter claims; or without a wake
 * in the queue of a worker that is awake and attends.  Three idle workers steal.  A job's function
 * returns when all three jobs have begun, so each job needs a worker of its own.
 *
 * A worker that was woken for a job may find `busy` held, set ASLEEP again, and see the job in its
 * second look.  A wake that changes the worker's word now is wasted on an awake worker.  Or the
 * worker may first take another job.  So before a woken worker runs a job, it looks for more jobs
 * in all queues, and passes the wake on.
 *
 * Not modelled: store buffers; spinning, which makes lost wakes rarer; the owner of the queue.
 *
 * Asserted: no job is queued while a worker sleeps, whichever worker was woken for the job.  No
 * thread is stuck.
 *
 * Broken variants:
 * BREAK_LEAVE: a worker that stays awake misses a wake.  BREAK_WOKEN: a woken worker does not look
 * for more jobs.  Found: stuck: a job is queued, and a worker sleeps.
 * BREAK_SHARE: a worker with more jobs in its queue wakes no worker.  BREAK_OCCUPIED: the
 * submitter does not check whether the worker attends.  Found: stuck: a job waits after the
 * worker's running job.
 */
#define NONE 255
#define NJ 3

mtype = { awake, asleep };

mtype word[3] = asleep;
bool bits[3] = true;
bool occupied[3];
chan lane = [NJ] of { byte };		/* of the busy worker */
chan own[3] = [NJ] of { byte };
bool busy;
byte begun;
bool gpu;				/* on a GPU an idle worker's only job is not stolen */

#define has(i) (len(own[i]) && (!gpu || occupied[i] || len(own[i]) > 1))	/* comes_for_it() */

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

inline idle_set_wake_one()
{
	seen = bits[0] + 2 * bits[1] + 4 * bits[2];
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
	byte j, i, seen;
	bool woke;

	do
	:: j < NJ ->
		if
		:: lane!j; idle_set_wake_one()			/* the busy worker is awake */
		:: atomic { bits[0] -> bits[0] = false; i = 0 }; goto claimed	/* rnl__idle_set_claim() */
		:: atomic { bits[1] -> bits[1] = false; i = 1 }; goto claimed
		:: word[0] == awake -> i = 0; goto attends	/* attends(): a hint */
		:: word[1] == awake -> i = 1; goto attends
		:: word[2] == awake -> i = 2;
attends:		own[i]!j;
			park_wake(i);
			if
			:: woke -> woke = false
#ifdef BREAK_OCCUPIED
			:: else
#else
			:: !woke && occupied[i] -> idle_set_wake_one()
			:: !woke && !occupied[i]
#endif
			fi
		:: atomic { bits[2] -> bits[2] = false; i = 2 };
claimed:		own[i]!j;
			park_wake(i);
			if
			:: woke -> woke = false
			:: !woke && occupied[i] -> idle_set_wake_one()
			:: !woke && !occupied[i]
			fi
		fi;
		j++
	:: else -> break
	od;
	begun == NJ
}

proctype worker(byte w; bool sleeps)
{
	byte j = NONE, seen;
	bool woke, held, woken;

	if
	:: sleeps -> goto end
	:: else
	fi;
next:	if
	:: atomic { len(own[w]) -> own[w]?j }			/* loop_take() */
	:: atomic { !len(own[w]) && has((w + 1) % 3) -> own[(w + 1) % 3]?j }	/* steal() */
	:: atomic { !len(own[w]) && !has((w + 1) % 3) && has((w + 2) % 3) -> own[(w + 2) % 3]?j }
	:: !len(own[w]) && !has((w + 1) % 3) && !has((w + 2) % 3) && !len(lane)
	:: !len(own[w]) && !has((w + 1) % 3) && !has((w + 2) % 3) && len(lane) ->	/* rnl__lane_try_take() */
		atomic { held = busy; busy = true };		/* [queue.T1] */
		if
		:: held -> held = false
		:: else ->
			if
			:: atomic { len(lane) -> lane?j }
			:: else
			fi;
			busy = false				/* [queue.T2] */
		fi
	fi;
	if
	:: j != NONE ->
		occupied[w] = true;				/* [run.O1] */
		if						/* share() */
#ifndef BREAK_SHARE
		:: len(own[w]) -> idle_set_wake_one()
#endif
#ifndef BREAK_WOKEN
		:: !len(own[w]) && woken && (len(lane) || has((w + 1) % 3) || has((w + 2) % 3)) ->
			idle_set_wake_one()
#endif
		:: else
		fi;
		woken = false;
		begun++;
		begun == NJ;
		occupied[w] = false;
		j = NONE
	:: else ->						/* rnl__idle() */
		word[w] = asleep;
		bits[w] = true;
		if
		:: len(lane) || len(own[w]) || has((w + 1) % 3) || has((w + 2) % 3) ->
#ifdef BREAK_LEAVE
			word[w] = awake;
			bits[w] = false
#else
			atomic { woken = woken || (word[w] == awake); word[w] = awake };	/* [park.S3] */
			bits[w] = false
#endif
		:: else ->
end:			word[w] == awake;
			bits[w] = false;
			woken = true
		fi
	fi;
	goto next
}

init
{
	atomic {
		if
		:: gpu = true
		:: true
		fi;
		if				/* all are asleep, or one is awake without jobs */
		:: true
		:: word[0] = awake; bits[0] = false
		fi;
		run submitter();
		run worker(0, word[0] == asleep);
		run worker(1, word[1] == asleep);
		run worker(2, word[2] == asleep)
	}
}
