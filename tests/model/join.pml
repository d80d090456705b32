/* SPDX-License-Identifier: MIT */
/*
 * Model of a join: inflight_record(), rnl__inflight_mark(), inflight_reached(), find_event() and
 * rnl__inflight_join() of src/stream/inflight.c.
 *
 * A worker issues six jobs, each followed by an event, into a ring of three.  It reuses an event
 * after the device has completed the event's job.  The device completes the jobs in order.  A
 * thread that knows that some job's event is recorded joins that job: it searches the ring from the
 * latest event back, while the worker records other events.
 *
 * Not modelled: marks without an event; jobs that are not a mark's last; store buffers, because the
 * count is stored with release and read with acquire.
 *
 * Asserted: the joined event is recorded after the job (the wait is never too short), and is the
 * job's own event while that event still covers the job (not too long).
 *
 * Broken variants:
 * BREAK_RECORD: the count is stored before the event is recorded ([inflight.J1]).  Found: too
 * short: the stream waits for the event's earlier mark.
 * BREAK_SAYS: the count is stored before the event's job.  BREAK_LATEST: the latest event is
 * joined.  BREAK_ANEW: an event that was recorded again meanwhile is mistaken for an earlier
 * event.  Found: too long: the stream does not wait for the job's own event, which is there.
 */
#define NJ 6
#define LIMIT 3

byte recorded[LIMIT];			/* on the stream: the last job before the event */
byte says[LIMIT];			/* struct rnl__recorded: seq */
byte nr_recorded, reached, passed;

proctype worker()
{
	byte n;

	do
	:: n < NJ && n < reached + LIMIT ->
		n++;
#ifdef BREAK_RECORD
		nr_recorded = n;
		says[n % LIMIT] = n;
		recorded[n % LIMIT] = n
#else
		recorded[n % LIMIT] = n;		/* event_record() */
#ifdef BREAK_SAYS
		nr_recorded = n;
		says[n % LIMIT] = n
#else
		says[n % LIMIT] = n;
		nr_recorded = n				/* [inflight.J1] */
#endif
#endif
	:: reached < passed -> reached = passed		/* [inflight.R1] */
	:: n == NJ && reached == NJ -> break
	od
}

proctype device()
{
	do
	:: passed < NJ -> (recorded[(passed + 1) % LIMIT] == passed + 1); passed++
	:: passed == NJ -> break
	od
}

proctype join()
{
	byte seq, i, at, before, found, nr;

	nr_recorded > 0;
	seq = nr_recorded;			/* the barrier reported the job some time ago */
	do
	:: seq > 1 -> seq--
	:: break
	od;
	if
	:: reached >= seq -> assert(passed >= seq); goto over	/* [inflight.R2] */
	:: else
	fi;
	nr = nr_recorded;				/* [inflight.J2] */
	i = nr; before = 255; found = LIMIT;
	do
	:: i == 0 || nr - i >= LIMIT -> break
	:: else ->
		at = says[i % LIMIT];
		if
#ifdef BREAK_ANEW
		:: found < LIMIT && at < seq -> break
#else
		:: found < LIMIT && (at < seq || at > before) -> break
#endif
		:: else
		fi;
		found = i % LIMIT; before = at; i--;
#ifdef BREAK_LATEST
		break
#endif
	od;
	atomic {					/* event_wait() */
		assert(recorded[found] >= seq);
		assert(recorded[seq % LIMIT] != seq || recorded[found] == seq)
	};
over:
	skip
}

init
{
	atomic { run worker(); run device(); run join() }
}
