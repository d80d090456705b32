/* SPDX-License-Identifier: MIT */
/*
 * Model of a mailbox of a resident kernel: how the host sends a request, ends it, and takes it back;
 * and the kernel's blocks that answer.  The kernel's launches are leases: the block of the next one
 * takes its turn after the end of the one before, which passes the mailbox on or shows that none serves.
 *
 * A sender sends requests, one at a time, and waits for each.  The keeper, another thread of the
 * host, looks for an answer or takes a request back, perhaps one that it saw a while ago.  A request
 * that is taken back is executed by the other way.  A request and its answer have one piece or two.
 * Each piece has a tag: the request's number, modulo the number of tags.  Plans: (1) Three requests,
 * three leases.  (2) Two requests, two leases, and the tags wrap between the requests.  Before these,
 * there were two requests of any size, each answered or taken back.
 *
 * Memory between host and device is weak: each side has a buffer with a place for each word, and
 * memory() makes the stores in it visible in any order.  A fence makes all of them visible.  A side
 * reads its own stores.  The host's threads share a buffer, because a fence also orders what its
 * thread has seen of others.  A load takes the visible value; where a variant has no acquire, a later
 * load is early.  A piece is one word, payload and tag.  A lease reads each piece in a step of its
 * own, and keeps those that match.  The host reads an answer's pieces in one step: they do not change
 * before the request has ended, and then its exchange fails.
 *
 * Not modelled: a lease that never ends, or fails; launches: a lease may start whenever the one
 * before has ended; how it waits for that: each word has one writer; the lease's number in `status`,
 * which no step needs; numbers that wrap, as opposed to tags.
 *
 * Asserted: a request is executed once, by a lease or by the other way; what a lease executes, and
 * the answer that is taken, is of that request as a whole; a lease expects the first request that is
 * not executed; a piece is written before its request has ended; at the end the gate is open.  No
 * thread is stuck.
 *
 * Broken variants:
 * BREAK_STATUS: no fence in a lease between status and gate.  BREAK_GATE: no fence in the host
 * between gate and status.  Found: neither side sees the other: a lease expects a request that was
 * taken back, and executes it.
 * BREAK_PASS: a block that found the gate closed passes the mailbox on.  BREAK_TURN: a block that ends
 * gives the turn before it stores its status.  Found: the host sees no block, and one serves.
 * BREAK_DEV: a lease expects what the one before did at its end.  BREAK_LATER: numbers are compared
 * modulo the number of tags.  Found: a request that was taken back is expected, and executed again.
 * BREAK_HOST: a lease expects what the gate has.  Found: a request is executed again: it was
 * answered, but the host had not seen it.
 * BREAK_LOOK: no second look for the answer.  BREAK_ACQUIRE: that look is before the read of status.
 * BREAK_EARLY: status is stored before the answers are visible.  Found: an answered request is taken
 * back.
 * BREAK_FIRST: a lease compares only the first piece's tag.  BREAK_ANSWER: so does the host.  Found:
 * a piece is taken that is not visible yet.
 * BREAK_CAS: a load and a store end a request.  BREAK_WORD: the exchange does not compare the
 * request's number.  Found: two threads end one request; a thread ends a later one.
 * BREAK_SENT: a request is sent before its pieces are written.  Found: it has ended, and its pieces
 * are written to a mailbox that may be another's.
 * BREAK_BACK: a request that stays is sent again before the gate opens.  BREAK_FREE: a request that
 * was taken back has ended before the gate opens.  Found: the late store opens the gate of the next
 * taking back, and a lease executes what is taken back.
 * BREAK_OPEN: the gate does not open if the second look finds the answer.  Found: it stays closed.
 * BREAK_CLEAR: pieces are not cleared when the tags wrap.  BREAK_RUN: they are cleared while a lease
 * may run.  BREAK_POLL: a lease's read of a piece is before its read of the gate.  Found: an old
 * piece is taken, because it has the tag.
 * BREAK_CLEARED: the gate opens before the cleared pieces are visible.  Found: an answer is cleared,
 * and the request executed again.
 */
#define NONE 255		/* no store is buffered */
#define TAGS 3			/* 1 to 3; 0: a cleared piece */
#define tag(x) ((x) -> ((x) - 1) % TAGS + 1 : 0)
#define wraps(x) (tag(x) == 1)

mtype = { ended, sent, ending };

/* What is visible, and the buffers of the host and the device.  A piece is a request's number. */
byte asked[2], answer[2], gate;
bool running;			/* status */
byte host_asked[2] = NONE, host_answer[2] = NONE, host_gate = NONE;
byte dev_answer[2] = NONE, dev_running = NONE;
byte next_dev;			/* in the device's memory: what a block leaves for the next one */
bool passed;

/* The mailbox's word: the number of a request, and its state. */
byte number;
mtype state = ended;

bool two[6];			/* the request has two pieces */
byte first, last, leases;
byte executed;			/* ghost: all requests up to this one */
bool over[3];			/* ghost: sender, keeper, device */

#define closed(g) ((g) & 1)
#define open_for(x) ((x) * 2)
#define closed_for(x) ((x) * 2 + 1)

#define show(buffered, visible) \
	if :: buffered != NONE -> visible = buffered; buffered = NONE :: else fi

inline host_fence()
{
	show(host_asked[0], asked[0]);
	show(host_asked[1], asked[1]);
	show(host_answer[0], answer[0]);
	show(host_answer[1], answer[1]);
	show(host_gate, gate)
}

inline dev_fence()
{
	show(dev_answer[0], answer[0]);
	show(dev_answer[1], answer[1]);
	show(dev_running, running)
}

#define showing(buffered, visible) \
	:: d_step { buffered != NONE -> visible = buffered; buffered = NONE }

active proctype memory()
{
end:	do
	showing(host_asked[0], asked[0])
	showing(host_asked[1], asked[1])
	showing(host_answer[0], answer[0])
	showing(host_answer[1], answer[1])
	showing(host_gate, gate)
	showing(dev_answer[0], answer[0])
	showing(dev_answer[1], answer[1])
	showing(dev_running, running)
	od
}

inline execute(x)
{
	assert(x == executed + 1);
	executed = x
}

inline finish(who)
{
	atomic {
		over[who] = true;
		if
		:: over[0] && over[1] && over[2] ->
			assert(state == ended && executed == last);
			assert(!closed((host_gate == NONE -> gate : host_gate)))
		:: else
		fi
	}
}

/* ---- the lease ---- */

#ifdef BREAK_FIRST
#define match_second(x) true
#else
#define match_second(x) (tag(asked[1]) == tag(x))
#endif

#ifdef BREAK_DEV
#define later(dev, host) (dev)
#elif BREAK_HOST
#define later(dev, host) (host)
#elif BREAK_LATER
#define later(dev, host) (tag(dev) > tag(host) -> (dev) : (host))
#else
#define later(dev, host) ((dev) > (host) -> (dev) : (host))
#endif

#ifdef BREAK_TURN
proctype late()
{
	dev_running = 0
}
#endif

proctype device()
{
	byte k, g, expected, a, b;

	do
	:: k < leases ->
		d_step {
			k++;
			dev_running = 1;
#ifndef BREAK_STATUS
			if
			:: passed
			:: else -> dev_fence()
			fi
#endif
		};
#ifdef BREAK_POLL
		b = asked[1];
#endif
		d_step { g = (passed -> 0 : gate); passed = false };
		if
#ifdef BREAK_PASS
		:: closed(g) -> passed = true
#endif
		:: closed(g) -> dev_running = 0
		:: else ->
			expected = later(next_dev, g / 2);
#ifdef BREAK_POLL
			b = (tag(b) == tag(expected) -> b : 0);
#endif
			do
			:: d_step { !a && tag(asked[0]) == tag(expected) -> a = asked[0] }
			:: d_step { !b && match_second(expected) -> b = asked[1] }
			:: d_step { a && (!two[a] || b) ->
					assert(a == expected && (!two[a] || b == a));
					execute(a);
					dev_answer[0] = a;
					dev_answer[1] = (two[a] -> a : dev_answer[1]);
					expected++; a = 0; b = 0
				}
			:: d_step { k < leases ->
					assert(expected == executed + 1);
					next_dev = expected;
					passed = true
				};
				break
			:: atomic { true ->
					d_step {
#ifndef BREAK_EARLY
						dev_fence();
#endif
						assert(expected == executed + 1);
						next_dev = expected
					};
#ifdef BREAK_TURN
					run late()
#else
					dev_running = 0
#endif
				};
				break
			od
		fi;
		atomic { g = 0; expected = 0; a = 0; b = 0 }
	:: else -> break
	od;
	finish(2)
}

/* ---- the host ---- */

#define seen(i) (host_answer[i] == NONE -> answer[i] : host_answer[i])
#ifdef BREAK_ANSWER
#define answered(x) (tag(seen(0)) == tag(x))
#else
#define answered(x) (tag(seen(0)) == tag(x) && (!two[x] || tag(seen(1)) == tag(x)))
#endif

#ifdef BREAK_WORD
#define is_sent(x) (state == sent)
#else
#define is_sent(x) (state == sent && number == x)
#endif

/* Only one thread ends a request, or takes it back.  @won: it is this one. */
inline get_word(x)
{
#ifdef BREAK_CAS
	won = is_sent(x);
	if
	:: won -> state = ending
	:: else
	fi
#else
	atomic {
		won = is_sent(x);
		if
		:: won -> state = ending
		:: else
		fi
	}
#endif
}

inline take_answer(x)
{
	d_step {
		assert(state == ending && number == x);
		assert(seen(0) == x && (!two[x] || seen(1) == x))
	}
}

inline end_answered(x)
{
	get_word(x);
	if
	:: won -> take_answer(x); state = ended
	:: else
	fi
}

inline take_back(x)
{
	get_word(x);
	if
	:: won ->
		d_step {
			host_gate = closed_for(x);
#ifndef BREAK_GATE
			host_fence()
#endif
		};
#ifdef BREAK_ACQUIRE
		got = answered(x);
		runs = running;
#else
		runs = running;
#ifndef BREAK_LOOK
		got = answered(x);
#endif
#endif
		if
		:: runs ->
#ifdef BREAK_BACK
			state = sent;
			host_gate = open_for(x)
#else
			host_gate = open_for(x);
			state = sent
#endif
		:: !runs && got ->
			take_answer(x);
#ifndef BREAK_OPEN
			host_gate = open_for(x + 1);
#endif
			state = ended
		:: !runs && !got ->
			d_step { execute(x) };
#ifdef BREAK_FREE
			state = ended;
			host_gate = open_for(x + 1)
#else
			host_gate = open_for(x + 1);
			state = ended
#endif
		fi;
		atomic { runs = false; got = false }
	:: else
	fi
}

/* Clears all pieces, before their tags return. */
inline clear()
{
#ifdef BREAK_CLEAR
	skip
#else
#ifndef BREAK_RUN
	d_step { host_gate = closed_for(x); host_fence() };
	!running;
#endif
	d_step {
		host_asked[0] = 0; host_asked[1] = 0; host_answer[0] = 0; host_answer[1] = 0;
#ifndef BREAK_CLEARED
		host_fence();
#endif
		host_gate = open_for(x)
	}
#endif
}

proctype sender()
{
	byte x = first;
	bool won, runs, got;

	do
	:: x <= last ->
		if
		:: wraps(x) && x > TAGS -> clear()
		:: else
		fi;
		if
		:: two[x] = true
		:: true
		fi;
#ifdef BREAK_SENT
		d_step { number = x; state = sent };
#endif
		d_step {
			assert(number != x || state != ended);
			host_asked[0] = x; host_asked[1] = (two[x] -> x : host_asked[1])
		};
#ifndef BREAK_SENT
		d_step { number = x; state = sent };
#endif
		do
		:: state == ended || number != x -> break
		:: state == sent && answered(x) -> end_answered(x)
		:: state == sent -> take_back(x)
		od;
		atomic { x++; won = false }
	:: else -> break
	od;
	finish(0)
}

proctype keeper()
{
	byte x;
	bool won, runs, got;

	do
	:: atomic { state == sent -> x = number };
		if
		:: answered(x) -> end_answered(x)
		:: take_back(x)
		fi;
		atomic { x = 0; won = false }
	:: over[0] -> break
	od;
	finish(1)
}

/* Request x was sent and has ended: it was answered by a lease, or executed by the other way. */
inline before(x)
{
	if
	:: two[x] = true; asked[1] = x
	:: true
	fi;
	asked[0] = x;
	if
	:: answer[0] = x; answer[1] = (two[x] -> x : answer[1]); next_dev = x + 1
	:: gate = open_for(x + 1)
	fi;
	executed = x
}

init
{
	atomic {
		gate = open_for(1); next_dev = 1;
		if
		:: first = 1; last = 3; leases = 3
		:: first = 3; last = 4; leases = 2; before(1); before(2)
		fi;
		run device();
		run sender();
		run keeper()
	}
}
