/* SPDX-License-Identifier: MIT */
/*
 * Model of a job's life: rnl__job_claim(), _accepted(), _start() [job.P1], _set_result(), _drop()
 * of src/job/job.h, rnl__job_cancel() [job.P2] of src/job/job.c, rnl__run() and hand_over() of
 * src/worker/complete.c as far as they touch these words, and the latch `state`: rnl__latch_drop(),
 * _watch(), _unwatch() ([latch.D1], W2) and rnl__latch_wait().
 *
 * A caller submits a job, waits for it, and submits it again.  Two threads cancel the job at any
 * time, in either round or between.  Another thread waits for the job, and a fourth thread tries to
 * submit it.  One worker starts and completes the job.
 *
 * Not modelled: store buffers, because start and cancel change one word, and so do drop and watch.
 * A plain store of `phase` is followed by a release (the exchange of the queue's tail, the drop)
 * before another thread may rely on the store.  park.pml has the full barrier of [job.P1], cq.pml
 * the end on a completion queue.  Nor are notices modelled, which have a list and one more phase.
 *
 * Asserted: in each round either the function runs, or a cancel has returned that it will not; a
 * job that is not cancelled runs; rnl_job_is_cancelled() is true if the function was asked to end
 * before the call, in this round, and only then; the job ends once, with the right result; a job
 * that has ended gives no -EBUSY; only its caller touches a job that was seen done.  No thread is
 * stuck: if a wake is lost, spin reports an invalid end state.
 *
 * Broken variants:
 * BREAK_START: the start is a load and a store ([job.P1]).  BREAK_CANCEL: the cancel of a queued
 * job is a load and a store ([job.P2]).  BREAK_ASK: the cancel of a started job is a load and a
 * store.  Found: the job is cancelled, and runs.
 * BREAK_CLAIM: the claim is a load and a store ([job.S1]).  Found: two submits claim the job.
 * BREAK_FINISH: the phase is stored after the drop.  Found: the store overwrites the phase of the
 * next submit.
 * BREAK_TOUCH: the worker reads a flag of the job after the drop.  Found: the job is touched when
 * no submit has claimed it.
 * BREAK_WATCH: a waiter sleeps without setting its mark ([latch.W2]).  BREAK_WAKE: the drop reads
 * the mark before it subtracts ([latch.D1]).  BREAK_UNWATCH: a waiter removes the mark by storing
 * 0.  Found: stuck.
 */
#define ROUNDS 2
#define SLEEPER 1
#define ONE 2			/* state: count * 2 | SLEEPER */

mtype = { none, queued, started, asked, cancelled, done, ok, ecanceled };

mtype phase = none, result = none;
byte state;
chan queue = [1] of { bit };
bool in_futex[2];
bool claimants;			/* claimed and not dropped */
byte round, ended;
bool ran, was_cancelled, was_asked;	/* in this round */

#define touch() assert(claimants)

/* ---- latch.h ---- */

inline drop()
{
#ifdef BREAK_WAKE
	mark = state & SLEEPER;
	d_step { state = state - ONE; claimants = false };
#else
	d_step { mark = state & SLEEPER; state = state - ONE; claimants = false };	/* [latch.D1] */
#endif
	if
	:: mark -> mark = 0; d_step { in_futex[0] = false; in_futex[1] = false }	/* by address */
	:: else
	fi
}

inline latch_wait(i)
{
	do
	:: state < ONE -> break				/* rnl__latch_open() */
	:: else ->
#ifndef BREAK_WATCH
		d_step { word = state; state = state | SLEEPER };	/* [latch.W2] */
		if
		:: word < ONE -> break
		:: else
		fi;
#endif
		word = state;
		if
#ifndef BREAK_WATCH
		:: word < ONE || !(word & SLEEPER)	/* tries again */
#endif
		:: else ->
			atomic {			/* the kernel compares */
				if
				:: state == word -> in_futex[i] = true
				:: else
				fi
			};
			!in_futex[i]
		fi
	od;
	word = 0;
#ifdef BREAK_UNWATCH
	if
	:: state == SLEEPER -> state = 0
	:: else
	fi
#else
	d_step {					/* rnl__latch_unwatch() */
		if
		:: state == SLEEPER -> state = 0
		:: else
		fi
	}
#endif
}

/* rnl__job_claim(): only the compare-exchange */
inline claim()
{
#ifdef BREAK_CLAIM
	claimed = (state < ONE);
	if
	:: claimed -> state = state + ONE
	:: else
	fi
#else
	atomic {					/* [job.S1] */
		claimed = (state < ONE);
		if
		:: claimed -> state = state + ONE
		:: else
		fi
	}
#endif
}

/* ---- the threads ---- */

active proctype caller()
{
	byte word;
	bool claimed;

	do
	:: round < ROUNDS ->
		do
		:: claim();
			if
			:: claimed -> break
			:: else -> state < ONE		/* -EBUSY: the other submit has the job */
			fi
		od;
		claimed = false;
		d_step { assert(!claimants); claimants = true; round++;
			 ran = false; was_cancelled = false; was_asked = false };
		phase = queued;				/* rnl__job_accepted() */
		queue!1;				/* rnl__queue_put() */
		latch_wait(0);
		d_step {
			assert(ended == round && (ran ^ was_cancelled));
			assert(result == (ran -> ok : ecanceled) && phase == done)
		}
	:: else -> break
	od
}

active proctype refused_submit()
{
	bool claimed;
	bit mark;

	claim();
	if
	:: claimed ->
		d_step { assert(!claimants); claimants = true };	/* writes the job's flags */
		drop()
	:: else
	fi
}

active proctype other_waiter()
{
	byte word;

	latch_wait(1)
}

active proctype worker()
{
	bit mark;
	bool start;

end:	do
	:: queue?1 ->
		/* rnl__job_start() */
#ifdef BREAK_START
		touch();
		start = (phase == queued);
		if
		:: start -> phase = started
		:: else
		fi;
#else
		d_step {				/* [job.P1] */
			touch();
			start = (phase == queued);
			if
			:: start -> phase = started
			:: else
			fi
		};
#endif
		if
		:: start ->
			d_step { touch(); assert(!ran); ran = true; result = ok };
			/* rnl_job_is_cancelled(), in the function */
			d_step { touch(); assert((phase == asked) == was_asked) }
		:: else -> d_step { touch(); result = ecanceled }
		fi;
		start = false;
		d_step { touch(); ended++; assert(ended == round) };
		/* rnl__job_set_result(), rnl__job_drop() */
#ifdef BREAK_FINISH
		drop();
		phase = done
#else
		d_step { touch(); phase = done };
		drop()
#endif
#ifdef BREAK_TOUCH
		;
		touch()
#endif
	od
}

proctype canceller()
{
	mtype p = none;

	p = phase;
	do
	:: p == queued ->
#ifdef BREAK_CANCEL
		if
		:: phase == queued -> phase = cancelled; was_cancelled = true; break
		:: else -> p = phase
		fi
#else
		atomic {				/* [job.P2] */
			if
			:: phase == queued -> phase = cancelled; was_cancelled = true; break
			:: else -> p = phase
			fi
		}
#endif
	:: p == started ->
#ifdef BREAK_ASK
		if
		:: phase == started -> d_step { phase = asked; was_asked = true }; break
		:: else -> p = phase
		fi
#else
		atomic {				/* [job.P2] */
			if
			:: phase == started -> phase = asked; was_asked = true; break
			:: else -> p = phase
			fi
		}
#endif
	:: else -> break				/* -EBUSY or -EALREADY */
	od
}

init { atomic { run canceller(); run canceller() } }
