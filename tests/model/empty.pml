/* SPDX-License-Identifier: MIT */
/*
 * Model of a notice for RNL_EMPTY: src/job/notice.c, src/job/delayed.c, rnl_job_cancel(),
 * rnl_pool_close() and drained() of src/worker/life.c, rnl__pool_all_done() and _wake_drained() of
 * src/pool/pool.[ch], and timer_main() of src/worker/timer_thread.c.
 *
 * One thread submits a notice, and may cancel it.  Another thread may close the pool; then it
 * drains the pool.  A third thread submits a job, which is refused after the close.  A worker runs
 * the job and the notice; the timer thread queues the notice.
 *
 * Not modelled: store buffers, because there is a full barrier before each wake; the eventcounts
 * themselves: a wake ends each wait that was prepared before; notices for space; jobs with a time;
 * a submit that takes its reservation back.
 *
 * Asserted: the notice is queued once: when the pool is closed and the job is done, or, if it was
 * cancelled, when the cancelling thread has put it on the cancelled list; a drain that begins
 * after the notice's submit ends when the notice is done.  When no thread can move, a notice that
 * was cancelled, or whose pool is closed, is done, and no drain sleeps.
 *
 * Broken variants:
 * BREAK_SUBMIT: a submit does not wake the timer thread.  BREAK_CLOSE: nor does a close.
 * BREAK_CANCEL: nor does a cancel.  BREAK_DONE: nor does a worker.  BREAK_ORDER: a worker checks
 * for the notice before it counts.  BREAK_LISTEN: the timer thread looks before it prepares to
 * wait.  Found: stuck: the notice is never queued.
 * BREAK_LIST: a drain looks at the lists, not at the count.  BREAK_LAST: the timer thread
 * decrements the count before it queues ([tally.L1]).  Found: the drain ends although a notice
 * waits, which is on no list while the timer thread handles it.
 * BREAK_PUSH: a submit pushes before it counts.  Found: the notice is subtracted before it is
 * counted.
 * BREAK_RING: the timer thread wakes no drain after queueing.  Found: a drain is stuck.
 * BREAK_MEET: the timer thread queues a cancelled notice that is not on the cancelled list.
 * Found: the notice is on a list when it is queued.
 */
mtype = { job, notice };

bool closed;
bool cancelled, enqueued;		/* phase of the notice: one of these, or DELAYED */
bool came, listed, named;		/* on the timer thread's lists: came, notices, cancelled */
bool met;			/* the first of two events: it left `notices`, came, or was named */
byte last_entered, last_left;		/* the tally of notices for RNL_EMPTY */
#define last (last_entered - last_left)
bool submitted, job_in, job_done, queued, notice_done;
byte accepted, released;
bool timer_woken, drain_woken;
chan queue = [2] of { mtype };

inline ring_drained()			/* rnl__pool_wake_drained() */
{
	drain_woken = true;
	if
#ifndef BREAK_DONE
	:: last > 0 -> timer_woken = true
#endif
	:: else -> skip
	fi
}

/* Counts a done job [worker.D1]; after a full barrier, looks for drains and notices. */
inline count()
{
#ifdef BREAK_ORDER
	ring_drained();
	released++
#else
	released++;
	ring_drained()
#endif
}

/* rnl__pool_all_done(): reads the sums one by one; a drain includes the notices */
inline all_done(with_last)
{
	sum = released;
	if
	:: with_last -> sum = sum + last_left
	:: else
	fi;
	is_done = (accepted + (with_last -> last_entered : 0) == sum)
}

inline take_off()			/* rnl__tally_leave() */
{
	d_step { assert(last > 0); last_left++ }
}

inline queue_notice()			/* delayed_queue() */
{
#ifdef BREAK_LAST
	take_off();
#endif
	d_step {
		assert(!queued && !came && !listed && !named);
		queued = true;
		assert(cancelled || (closed && job_in == job_done));
		accepted++
	};
	queue!notice;
#ifndef BREAK_LAST
	take_off();
#endif
#ifndef BREAK_RING
	ring_drained()				/* the worker may have completed the notice */
#endif
}

inline meet()
{
#ifdef BREAK_MEET
	met = true;
#endif
	if
	:: met -> queue_notice()
	:: else -> met = true
	fi
}

active proctype submits_notice()
{
#ifdef BREAK_PUSH
	came = true;
	last_entered++;
#else
	last_entered++;
	came = true;					/* push() */
#endif
#ifndef BREAK_SUBMIT
	timer_woken = true;
#endif
	submitted = true;
	if
	:: true ->					/* rnl_job_cancel() */
		atomic {
			if
			:: enqueued -> goto out		/* the worker has or will get the notice */
			:: else -> cancelled = true
			fi
		};
		named = true;
#ifndef BREAK_CANCEL
		timer_woken = true
#endif
	:: true
	fi;
out:
}

active proctype submits_job()
{
	atomic {					/* a reservation in a worker's queue */
		if
		:: closed -> goto refused
		:: else -> accepted++; job_in = true
		fi
	};
	queue!job;
refused:
}

active proctype closes()
{
	bool is_done, knew;
	byte sum;

	if
	:: true -> goto out				/* the pool stays open */
	:: true
	fi;
	closed = true;
#ifndef BREAK_CLOSE
	timer_woken = true;
#endif
	knew = submitted;
	do
	:: drain_woken = false;				/* rnl__eventcount_prepare() */
#ifdef BREAK_LIST
		if
		:: came || listed -> is_done = false
		:: else -> all_done(false)
		fi;
#else
		all_done(true);				/* drained() */
#endif
		if
		:: is_done -> break
		:: else -> drain_woken			/* rnl__eventcount_wait() */
		fi
	od;
	assert(!knew || notice_done);
out:
}

active proctype worker()
{
end:	do
	:: queue?job ->
		job_done = true;
		count()
	:: queue?notice ->
		notice_done = true;
		count()
	od
}

active proctype timer()
{
	bool is_done, seen;
	byte sum;

	do
	:: notice_done -> break				/* the rest is not modelled */
	:: else ->
#ifndef BREAK_LISTEN
		timer_woken = false;			/* rnl__eventcount_prepare() */
#endif
		if
		:: came ->				/* take_in() */
			came = false;
			if
			:: cancelled -> meet()		/* delayed_leave() */
			:: else -> listed = true
			fi
		:: else
		fi;
		if
		:: named ->				/* take_cancelled() */
			named = false;
			if
			:: listed -> listed = false; queue_notice()
			:: else -> meet()
			fi
		:: else
		fi;
		seen = listed && closed;
		if
		:: seen -> all_done(false)
		:: else -> is_done = false
		fi;
		if
		:: is_done ->				/* start_notices() */
			listed = false;
			atomic {			/* rnl__job_enqueued() */
				if
				:: !cancelled -> enqueued = true
				:: else
				fi
			};
			if
			:: enqueued -> queue_notice()
			:: else -> meet()
			fi
		:: else
		fi;
#ifdef BREAK_LISTEN
		timer_woken = false;
#endif
		if
		:: came || named || is_done		/* timer_outside_time() */
		:: else ->
end:			timer_woken			/* rnl__eventcount_wait() */
		fi
	od
}

active proctype nobody_moves()
{
	timeout -> assert(!(closed || cancelled) || notice_done)
}
