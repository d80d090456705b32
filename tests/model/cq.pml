/* SPDX-License-Identifier: MIT */
/*
 * Model of a completion queue: push_chain() of one job, arm(), reap() and rnl_cq_destroy()
 * of src/job/cq.c ([cq.W1]), and the latch `writing`; and of the queue's inbox, all of
 * src/sys/inbox.h ([inbox.P1], T1, A1).
 *
 * Two workers push a job each, and push it again after a reap, so its address returns (ABA).  The
 * reader is an event loop: it sleeps until the descriptor is readable, then reaps once: at most one
 * job, or all.  The list is a real one, with links in the jobs' memory.  When every job is reaped,
 * or only the last job is still in the queue, the reader destroys the queue.
 *
 * Until the program gets the descriptor, at some time or never, a reap does not arm, and the reader
 * waits like rnl_cq_reap(): it arms, and sleeps if the queue is armed.  Another thread gets it.
 *
 * Not modelled: store buffers.  Both sides read-modify-write `head`, and reads and writes of the
 * descriptor are system calls that take its lock, so no thread reads another thread's plain store.
 * The descriptor's count is a flag.  An event loop may reap before it sleeps; that order is tried,
 * too.
 *
 * Asserted: each push is reaped once; a job is not touched after it is the caller's again, nor the
 * queue after it is freed.  No thread is stuck: if the reader sleeps while a job is in the queue,
 * spin reports an invalid end state.
 *
 * Broken variants:
 * BREAK_LOOK: arm() does not look again after it emptied an armed queue's descriptor.
 * BREAK_ORDER: arm() empties the descriptor after it armed.  BREAK_CLEAR: arm() does not note the
 * empty descriptor.  Found: stuck: a write is lost.
 * BREAK_STORE: the arming is a load and a store.  BREAK_TAKE: so is a take.  BREAK_LINK: a
 * repeated put keeps its first link.  Found: stuck: a pushed job is overwritten, or is on no list;
 * or a job is touched after its caller got it back.
 * BREAK_TOLD: a reap that stops early does not write.  BREAK_PUSH: a put returns whether the head
 * was first read as ARMED.  Found: stuck.
 * BREAK_FD: the first rnl_cq_fd() does not write.  BREAK_SLEEP: the reader sleeps although arm()
 * found jobs.  Found: stuck.
 * BREAK_WAIT: destroy does not wait for a writer.  Found: the queue is touched when freed.
 * BREAK_COUNT: the arming is seen before `writing` is counted, as without release in [inbox.A1].
 * Found: a write that was not counted yet is subtracted.
 * BREAK_DROP: a reap drops a job before it reads the link.  Found: a job is touched after its
 * caller got it back.
 */
#define NONE 0
#define ARMED 9
#define NJ 2			/* jobs 1 and 2 */
#define PUSHES 4		/* each job twice */

byte head = ARMED;
byte link[NJ + 1];
bool users[NJ + 1];		/* the job is its caller's: no access by the queue */
byte writing = 1;
bool readable;
bool freed;
byte reaped;

#define touch_job(j) assert(!users[j])
#define touch_queue() assert(!freed)

/* ---- push_chain(), rnl__inbox_put() ---- */

inline push(j)
{
	touch_queue();
	h = head;
	do
	::	touch_job(j);
#ifdef BREAK_LINK
		link[j] = (linked -> link[j] : (h == ARMED -> NONE : h)); linked = true;
#else
		link[j] = (h == ARMED -> NONE : h);
#endif
#ifdef BREAK_PUSH
		seen = (seen == NONE -> h : seen);
#endif
		atomic {				/* [inbox.P1] */
			touch_queue();
			if
			:: head == h -> head = j; break
			:: else -> h = head
			fi
		}
	od;
#ifdef BREAK_PUSH
	h = seen;
#endif
	if
	:: h == ARMED ->
		d_step { touch_queue(); readable = true };	/* make_readable() */
		d_step { touch_queue(); assert(writing > 0); writing-- }	/* [cq.W1] */
	:: else
	fi;
	h = NONE
}

proctype worker(byte j)
{
	byte h;
#ifdef BREAK_PUSH
	byte seen;
#endif
#ifdef BREAK_LINK
	bool linked;
#endif

	push(j);
	atomic { users[j] -> users[j] = false };	/* the caller submits it again */
#ifdef BREAK_PUSH
	seen = NONE;
#endif
#ifdef BREAK_LINK
	linked = false;
#endif
	push(j)
}

/* ---- the reader ---- */

byte first;			/* taken off the list, in order */
bool armed = true, notified;
byte max = 1, nr;

inline drop(j)			/* rnl__job_drop() */
{
	d_step { touch_job(j); users[j] = true; reaped++ }
}

inline take_all()
{
#ifdef BREAK_TAKE
	job = head; head = NONE;
#else
	atomic { job = head; head = NONE };		/* [inbox.T1] */
#endif
	assert(job != ARMED);
	d_step {					/* reverses the reader's list */
		first = NONE;
		do
		:: job != NONE ->
			touch_job(job);
			next = link[job]; link[job] = first; first = job; job = next
		:: else -> break
		od;
		next = NONE
	}
}

#define pushed() (head != NONE && head != ARMED)

inline arm()
{
#ifndef BREAK_ORDER
	readable = false;				/* make_unreadable() */
#ifndef BREAK_CLEAR
	notified = false;
#endif
#endif
	if
	:: armed ->
#ifndef BREAK_LOOK
		armed = !pushed()
#endif
	:: else ->
#ifndef BREAK_COUNT
		writing++;				/* rnl__latch_add() */
#endif
#ifdef BREAK_STORE
		armed = (head == NONE);
		if
		:: armed -> head = ARMED
		:: else -> writing--
		fi
#else
		atomic {				/* [inbox.A1] */
			if
			:: head == NONE -> head = ARMED; armed = true
			:: else
			fi
		};
#ifdef BREAK_COUNT
		writing++;
#endif
		if
		:: armed
		:: else -> writing--
		fi
#endif
	fi;
#ifdef BREAK_ORDER
	d_step { readable = false; notified = false };
#endif
}

inline reap()
{
	nr = 0;
	do
	::	do
		:: first != NONE && nr < max ->
#ifdef BREAK_DROP
			job = first;
			drop(job);
			touch_job(job);
			first = link[job];
#else
			d_step { touch_job(first); job = first; first = link[first] };
			drop(job);
#endif
			job = NONE;
			nr++
		:: else -> break
		od;
		if
		:: nr == max && polled ->			/* the queue was not seen empty */
			if
			:: !notified ->
#ifndef BREAK_TOLD
				readable = true
#endif
			:: else
			fi;
			notified = true;
			break
		:: nr == max && !polled -> break
		:: else
		fi;
		if
		:: pushed() ->
			take_all();
			notified = notified || armed;		/* the push that replaced ARMED writes */
			armed = false
		:: !pushed() && !polled -> break
		:: else ->
			arm();
			if
			:: armed -> break
			:: else
			fi
		fi
	od
}

bool polled;			/* the program has the descriptor */
bool polls;			/* ... and polls it: reaps happen after its thread's rnl_cq_fd() */
bool asked;			/* that thread has ended: a destroy must not run concurrently */

/* rnl_cq_fd(), called once, or never */
active proctype asker()
{
	if
	:: polled = true;
		if
#ifndef BREAK_FD
		:: head != ARMED -> d_step { assert(!freed); readable = true }
#endif
		:: else
		fi;
		polls = true
	:: true
	fi;
	asked = true
}

/* A call of rnl_cq_reap() with a timeout, which goes on until it gets a job. */
inline await_and_reap()
{
	do
	::	arm();
		if
#ifdef BREAK_SLEEP
		:: true -> readable
#else
		:: armed -> readable			/* wait_readable() */
#endif
		:: !armed
		fi;
		reap();
		if
		:: nr -> break
		:: else
		fi
	od
}

active proctype reader()
{
	byte job, next;
	bool wait_first;

	if
	:: wait_first = true
	:: wait_first = false
	fi;
	do
	:: reaped == PUSHES -> break
	:: reaped == PUSHES - 1 && pushed() -> break	/* the last job is left for destroy */
	:: else ->
		if
		:: max = 1
		:: max = NJ + 1
		fi;
		if
		:: polls ->
			if
			:: wait_first -> readable	/* poll() */
			:: else -> wait_first = true
			fi;
				reap()
		:: else ->
			reap();
			if
			:: nr == 0 && reaped < PUSHES -> await_and_reap()
			:: else
			fi
		fi
	od;

	asked;
	/* rnl_cq_destroy() */
	max = NJ + 1;
	do
	:: reap();
		if
		:: nr == 0 -> break
		:: else
		fi
	od;
	if
	:: atomic { head == ARMED -> head = NONE };	/* [inbox.A1] */
		assert(writing > 0);
		writing--
	:: head != ARMED -> assert(head == NONE)
	fi;
#ifndef BREAK_WAIT
	writing == 0;					/* rnl__latch_wait() */
#endif
	freed = true;
	assert(reaped == PUSHES)
}

init { atomic { run worker(1); run worker(2) } }
