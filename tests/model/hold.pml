/* SPDX-License-Identifier: MIT */
/*
 * Model of holds: holds_take(), take_over() [holds.U1], holds_drop() [holds.D1], rnl__holds_await()
 * [holds.D4] and rnl__holds_expire() of src/pool/holds.c, the handling of a held job in
 * src/worker/complete.c, and rnl__directory_pin() and rnl__directory_leave() of
 * src/pool/directory.c.
 *
 * A job runs twice, with two holds each time, in the same two slots.  Each slot has a thread that
 * releases its holds, before or after the function returns.  Another thread releases a copy of the
 * first round's first hold at any time.  The timer thread ends at most one hold, of the first slot.
 * After the job's second end the pool and its slots are destroyed.
 *
 * Left out: the lists of free slots and of the timer thread.  Also store buffers, because each
 * relevant step is an exchange or has a full barrier after it: [directory.F1], F2, [worker.B3].
 *
 * Asserted: the job is done once in each round, when its function has returned and all its holds
 * have ended; exactly one thread ends each hold, before the job is done; a done job is not
 * touched, nor a destroyed pool or its slots.  A worker that never sees `returned` is an invalid
 * end state.
 *
 * Broken variants:
 * BREAK_USE: a release does not compare the slot's use.  BREAK_TAKEOVER: a load and a store
 * replace its exchange ([holds.U1]).  Found: a hold is ended twice: the job is touched after it is
 * done.
 * BREAK_SHARE: the worker has no share.  Found: the job is returned while its function runs.
 * BREAK_AWAIT: a load and a store drop the worker's share ([holds.D4]).  BREAK_DROP: a load and a
 * store drop a hold's share ([holds.D1]).  Found: stuck: the job is never returned.
 * BREAK_LEAVE: the destroy does not wait for threads that pin the pool.  BREAK_PIN: a release
 * looks at the epoch before it pins ([directory.F1], F2).  Found: the pool is touched when freed.
 */
#define ROUNDS 2

byte use[2];			/* odd: taken */
byte count, pinned, round, ended[2];
bool taken[2];			/* the slot's hold was passed to the releasers */
byte given[2];			/* the use of that hold */
bool runs, live, returned, left, gone;	/* left: the epoch has changed */
bool timer_over;

#define touch_job() assert(live)
#define touch_pool() assert(!gone)

/* end(): this thread owns the slot */
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
		touch_job();
		d_step { touch_pool(); assert(!runs && !returned); returned = true };	/* [inbox.P1] */
		touch_pool();				/* rnl__park_wake() */
		break
	od;
	nr = 0
}

/* rnl__directory_pin(): clears won if the pool has ended */
inline pin()
{
#ifdef BREAK_PIN
	won = !left;
	if
	:: won -> pinned++
	:: else
	fi
#else
	pinned++;					/* [directory.F2] */
	won = !left;
	if
	:: won
	:: else -> pinned--
	fi
#endif
}

inline take_over(i, u, by)
{
	touch_pool();
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

	/* If another thread ends this hold, this thread may see the next round's hold instead. */
end:	do
	:: atomic { taken[i] -> taken[i] = false; u = given[i] };
		pin();
		if
		:: won ->
			take_over(i, u, 1);
			if
			:: won -> end_hold(i)
			:: else
			fi;
			pinned--			/* [latch.D1] */
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
	pin();
	if
	:: won ->
		take_over(0, 1, 1);
		if
		:: won -> end_hold(0)
		:: else
		fi;
		pinned--				/* [latch.D1] */
	:: else
	fi
}

active proctype timer()
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
	fi;
	timer_over = true
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
	left = true;					/* [directory.F1] */
#ifndef BREAK_LEAVE
	pinned == 0;					/* [latch.W1] */
#endif
	timer_over;					/* rnl__timer_end() */
	gone = true
}

init { atomic { run releaser(0); run releaser(1) } }
