/* SPDX-License-Identifier: MIT */
/*
 * Model of holds: take(), take_over() [holds.U1], drop() [holds.D1], rnl__holds_await()
 * [holds.D4], rnl__holds_end_late() and rnl__holds_fini() of src/pool/holds.c, and what
 * src/worker/complete.c does with a job that has them.
 *
 * A job runs twice, with two holds each time, in the same two slots. One thread releases each hold,
 * before or after the function returns; another one releases a copy of the first round's first hold,
 * at any time; the keeper ends a hold of the first slot once. When the job is done for the second time
 * the pool is destroyed.
 *
 * Left out: the stack of free slots, which is that of memory/pinned.c; store buffers: each step that
 * matters is an exchange, and the job's return has the full barrier of [worker.B3].
 *
 * Asserted: the job is done once in each round, when its function has returned and none of its holds
 * is left; each hold is ended by one thread, whose job is not done before; no thread touches the job
 * when it is done, or the pool when it is gone. No thread is stuck: a return that is missing is an
 * invalid end state.
 *
 * Broken: BREAK_USE a release does not compare the slot's use; BREAK_TAKEOVER its exchange is a load
 * and a store; BREAK_SHARE the worker has no share; BREAK_AWAIT the worker drops its share by a load
 * and a store; BREAK_DROP a release drops by a load and a store; BREAK_RELEASING the destroy does not
 * wait for the release that returns the job.
 */
#define ROUNDS 2

byte use[2];			/* odd: taken */
byte count, releasing, round, ended[2];
bool taken[2];			/* its hold was handed to the releasers */
byte given[2];			/* ... with this use */
bool runs, live, returned, gone;

#define touch_job() assert(live)
#define touch_pool() assert(!gone)

/* end(): the slot is this thread's. */
inline end_hold(i)
{
	d_step { touch_job(); ended[i]++; assert(ended[i] == 1) };
	nr = count;
	do
	:: nr > 1 ->
#ifdef BREAK_DROP
		touch_job();
		count = nr - 1; break
#else
		atomic {				/* [holds.D1] */
			touch_job();
			if
			:: count == nr -> count = nr - 1; break
			:: else -> nr = count
			fi
		}
#endif
	:: else ->
		d_step { touch_job(); touch_pool(); releasing++ };
		d_step { touch_pool(); assert(!runs && !returned); returned = true };	/* [worker.B1] */
		touch_pool();				/* rnl__park_wake() */
#ifndef BREAK_RELEASING
		d_step { touch_pool(); releasing-- };	/* [latch.D1] */
#endif
		break
	od;
	nr = 0
}

inline take_over(i, u, by)
{
#ifdef BREAK_USE
	won = (use[i] & 1);
	if
	:: won -> use[i] = use[i] + by
	:: else
	fi
#else
#ifdef BREAK_TAKEOVER
	won = (use[i] == u);
	if
	:: won -> use[i] = u + by
	:: else
	fi
#else
	atomic {					/* [holds.U1] */
		won = (use[i] == u);
		if
		:: won -> use[i] = u + by
		:: else
		fi
	}
#endif
#endif
}

proctype releaser(byte i)
{
	byte u, nr;
	bool won;

	/* If another thread has ended its hold, the next round's may come before it looks. */
end:	do
	:: atomic { taken[i] -> taken[i] = false; u = given[i] };
		take_over(i, u, 1);
		if
		:: won -> end_hold(i)
		:: else
		fi;
		won = false
	od
}

active proctype copy()
{
	byte nr;
	bool won;

	use[0] >= 1;
	take_over(0, 1, 1);
	if
	:: won -> end_hold(0)
	:: else
	fi
}

active proctype keeper()
{
	byte u, nr;
	bool won;

	u = use[0];
	if
	:: u & 1 ->
		take_over(0, u, 3);
		if
		:: won -> end_hold(0)
		:: else
		fi
	:: else
	fi
}

active proctype worker()
{
	byte nr, i;
	bool last;

	do
	:: round < ROUNDS ->
		round++;
		d_step { live = true; runs = true; returned = false; ended[0] = 0; ended[1] = 0 };
#ifdef BREAK_SHARE
		count = 0;
#else
		count = 1;
#endif
		i = 0;
		do
		:: i < 2 ->				/* rnl__holds_take() */
			count++;
			d_step { use[i] = use[i] + 1; assert(use[i] & 1); given[i] = use[i] };	/* [holds.T1] */
			taken[i] = true;
			i++
		:: else -> break
		od;
		runs = false;
#ifdef BREAK_SHARE
		last = (count == 0);
#else
#ifdef BREAK_AWAIT
		nr = count;
		count = nr - 1;
		last = (nr == 1);
#else
		d_step { last = (count == 1); count = count - 1 };	/* [holds.D4] */
#endif
#endif
		if
		:: last
		:: else -> returned			/* rnl__complete_returned() */
		fi;
		d_step {
			assert(!(use[0] & 1) && !(use[1] & 1) && ended[0] == 1 && ended[1] == 1);
			live = false; last = false; nr = 0
		}
	:: else -> break
	od;
#ifndef BREAK_RELEASING
	releasing == 0;					/* [latch.W1] */
#endif
	gone = true
}

init { atomic { run releaser(0); run releaser(1) } }
