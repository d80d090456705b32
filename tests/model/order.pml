/* SPDX-License-Identifier: MIT */
/*
 * Model of an order's gate: get_gate(), next_job(), is_ready(), rnl__order_ready(), order_go_on()
 * of src/job/order.c [order.K1, K2], on an inbox that is armed while the gate is free [inbox.P1,
 * T1, A1], called like in submit() of submit.c, with rnl__rounds_defer() and the seal, the count
 * and the issue of a round as one step each (barrier.pml has their steps).
 *
 * One thread submits jobs 1 and 2, another jobs 3 and 4.  Jobs 1 and 4 come after a round each.
 * Such a round counts one job of the other thread (3 for job 1, 2 for job 4) if that job was
 * counted before the seal.  Each round has a thread that issues it at any time after the seal, when
 * the counted job is queued.  When all jobs are queued, a thread waits for the order's end.
 *
 * Not modelled: the reservation in the queue; the put, because calls and puts have the same order.
 *
 * Asserted: each job is queued once, after its round is issued and its submit is over; each
 * thread's jobs are queued in the order of its submits; one thread at a time has the gate; the
 * order is not touched after its end.  No job is left, as that is an invalid end state.
 *
 * Broken variants:
 * BREAK_BUSY: a submit that finds the gate taken queues its job immediately.  BREAK_ORDER: the
 * list is queued as pushed, last job first.  BREAK_OWN: a submit that gets the gate by its put
 * leaves its job in the inbox.  Found: out of order, or a job is queued twice.
 * BREAK_LIST: the list is taken by a load and a store.  BREAK_FREE: the gate is released without a
 * check for new jobs ([inbox.A1]).  Found: stuck: a job is lost.
 * BREAK_DEFER: a thread continues after its job was deferred.  Found: two threads have the gate.
 * BREAK_COUNT: a job is counted before it has its place.  Found: stuck: two jobs wait for each
 * other.
 * BREAK_READY: the gate marks an unready job by a load and a store ([order.K1]).  Found: stuck: no
 * thread has the gate.
 * BREAK_SOON: the gate queues an unready job.  Found: a job is queued before its submit has ended.
 */
#define JOBS 4

bool armed = true;		/* `waiting`: ARMED, */
byte list[JOBS], nr_list;	/* or a list, the last job first */
byte first[JOBS], nr_first;	/* `first` */
bool issued[JOBS + 1], at_round[JOBS + 1];	/* a job's round is issued; defers the job */
bool in_queue[JOBS + 1];
mtype = { UNREADY, AT_GATE, READY };
mtype key[JOBS + 1];
bool counted[JOBS + 1], sealed[JOBS + 1], needs[JOBS + 1];	/* needs: its round counts a job */
byte nr_queued, at_gate;
bool over;

#define after(job) (job == 1 || job == 4)
#define before(job) (job == 1 -> 3 : 2)	/* the job that the round of `job` may count */

inline queue(job)
{
	d_step {
		assert(!in_queue[job] && key[job] == READY && (!after(job) || issued[job]));
		assert(job % 2 || in_queue[job - 1]);	/* each thread submits the odd job first */
		in_queue[job] = true;
		nr_queued++
	}
}

inline take_all()			/* puts the oldest job at the end of first[] */
{
#ifdef BREAK_LIST
	k = nr_list;
	d_step {
#else
	d_step {					/* [inbox.T1] */
		k = nr_list;
#endif
		nr_list = 0;
		do					/* rnl__job_in_order() */
		:: k > 0 ->
			k--;
#ifdef BREAK_ORDER
			first[nr_first] = list[nr_first];
#else
			first[nr_first] = list[k];
#endif
			nr_first++
		:: else -> break
		od
	}
}

inline next_job()
{
	d_step { assert(!over && at_gate == 1) };
	do
	:: nr_first -> break
	:: else ->
		take_all();
		if
		:: nr_first
		:: else ->
			atomic {			/* [inbox.A1] */
				if
#ifdef BREAK_FREE
				:: true ->
					nr_list = 0;
#else
				:: nr_list == 0 ->
#endif
					d_step { armed = true; at_gate--; job = 0 }; goto gone
#ifndef BREAK_FREE
				:: else
#endif
				fi
			}
		fi
	od;
	atomic {				/* takes the oldest job, at the end of first[] */
		job = first[nr_first - 1];
		nr_first--
	}
#ifndef BREAK_SOON
#ifdef BREAK_READY
	if
	:: key[job] == UNREADY -> d_step { key[job] = AT_GATE; at_gate--; job = 0 }; goto gone
	:: else
	fi;
#else
	atomic {					/* is_ready() [order.K1] */
		if
		:: key[job] == UNREADY -> key[job] = AT_GATE; at_gate--; job = 0; goto gone
		:: else
		fi
	}
#endif
#endif
}

inline order_go_on(known)
{
	do
	:: job == 0 -> break
	:: else ->
		deferred = false;
		if
		:: !known && after(job) ->
			d_step {			/* rnl__rounds_defer() */
				deferred = !issued[job];
				if
				:: deferred -> at_round[job] = true; at_gate--
				:: else
				fi
			}
		:: else
		fi;
		known = false;
		if
		:: deferred ->
#ifdef BREAK_DEFER
			at_gate++;
#else
			break
#endif
		:: else -> queue(job)
		fi;
		next_job()
	od;
gone:	skip
}

proctype submitter(byte one)
{
	byte job, k, sent;
	bool known, deferred, has;

	do
	:: sent < 2 ->
		job = one + sent;
		d_step {				/* rnl__barrier_snapshot() */
			if
			:: after(job) -> sealed[job] = true; needs[job] = counted[before(job)]
			:: else
			fi
		};
#ifdef BREAK_COUNT
		counted[job] = true;
#endif
		key[job] = UNREADY;
#ifdef BREAK_BUSY
		if
		:: !armed && !after(job) ->
			counted[job] = true; key[job] = READY;
			queue(job); job = 0; has = false; goto sent_it
		:: else
		fi;
#endif
		d_step { has = armed; armed = false };	/* [inbox.A1] */
		if
		:: has
		:: else ->
			d_step {			/* [inbox.P1] */
				list[nr_list] = job; nr_list++;
				has = armed; armed = false
			};
			if
			:: has ->			/* the gate became free in between */
#ifndef BREAK_OWN
				take_all();
				d_step { nr_first--; assert(first[nr_first] == job) }
#endif
			:: else
			fi
		fi;
		if
		:: has -> key[job] = AT_GATE
		:: else
		fi;
#ifndef BREAK_COUNT
		counted[job] = true;			/* accept_chain() */
#endif
		atomic {				/* rnl__order_ready() [order.K2] */
			has = (key[job] == AT_GATE);
			key[job] = READY;
			if
			:: has -> at_gate++; assert(at_gate == 1)
			:: else
			fi
		};
sent_it:	sent++;
		if
		:: has -> known = false; order_go_on(known)
		:: else
		fi
	:: else -> break
	od
}

proctype issuer(byte one)
{
	byte job, k;
	bool known, deferred;

	atomic {					/* issue() */
		(sealed[one] && (!needs[one] || in_queue[before(one)]));
		issued[one] = true;
		if
		:: at_round[one] -> at_round[one] = false; job = one; at_gate++; assert(at_gate == 1)
		:: else
		fi
	};
	if
	:: job -> known = true; order_go_on(known)
	:: else
	fi
}

active proctype owner()
{
	nr_queued == JOBS && armed;			/* rnl_order_fini() */
	over = true
}

init { atomic { run submitter(1); run submitter(3); run issuer(1); run issuer(4) } }
