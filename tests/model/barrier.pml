/* SPDX-License-Identifier: MIT */
/*
 * Model of the rounds of barriers: src/job/rounds.c, and its callers: submit() of src/job/submit.c,
 * and hold_back(), rnl__complete_returned(), rnl__owed_tell() of src/worker/complete.c.
 * [rounds.O1], W1, C1, U1, S1.
 *
 * Jobs 0 and 2 are in barrier 0.  A job "after" starts after the barrier's earlier jobs.  Cases:
 * - A user submits 0 and 2, and 3 after them.
 * - A user submits 0, and 3 after it; then 2, while another user submits 4 after the jobs so far.
 * - A user submits 0, is refused a submit of 3 after 0, and may submit 2, while a host waits.  If
 *   the host's wait covers all jobs of the barrier, the barrier is freed when the wait ends.
 * - One user submits 2 in barrier 0 after barrier 1, another 3 in barrier 1 after barrier 0.
 * - A user submits 0 and 2, while a thread requests a notice, 3, of their end.
 * - A thread has sealed the round of 0, but not yet marked the round as issued.  Meanwhile 0 ends,
 *   and a user submits 2 and 1 in barrier 0, and 4 after them.
 * Two workers run all jobs.  A job that leaves work on the stream is issued immediately and done
 * later.  A job without work is issued and done when its function returns; its worker reports both
 * to the barrier before it takes a job of another round.
 *
 * Not modelled: store buffers, because each step changes or reads one word.  A loop of
 * compare-exchanges is one step, except in seal(), where other words change between its load and
 * exchange.  `waiting` is a set.  A start or a return of jobs is one step.
 *
 * Asserted: a job after the barrier starts once, when all jobs counted before its submit are
 * issued, and completes when these jobs are done; a freed barrier is not touched; a freed slot has
 * no jobs; an ended round has only issued jobs; a notice is sent once, after all jobs counted
 * before its request.  No thread is stuck: a job left on a list is an invalid end state.
 *
 * Broken variants:
 * BREAK_COUNT: a submit counts its job before it seals.  BREAK_SEAL: a job after the barrier does
 * not seal.  BREAK_FOLLOW: the opener of a round does not check whether the previous round has
 * ended.  BREAK_PUSH: a job is pushed on an ended round.  BREAK_OWED: a worker becomes idle before
 * it reports.  Found: stuck.
 * BREAK_ISSUE: only a round's sealer marks it as issued, not the next round's opener.  Found: a
 * round ends with a job that is not issued: the sealer's drop goes to the next round.
 * BREAK_SLOT: a waiting host does not use the slot.  Found: stuck: the slot is free, and no thread
 * wakes the host.
 * BREAK_HOLD: a round does not count the previous one.  Found: a host returns before all jobs are
 * done.
 * BREAK_TOLD: a job after the barrier does not check whether its round has ended.  BREAK_TWO: both
 * counts of a sealed round are dropped in one step.  BREAK_WAIT: a host does not wait for the end
 * of a sealed round.  Found: the barrier is touched when freed.
 * BREAK_KEEP: a notice's request does not delay the round's end.  BREAK_EARLY: it ends the delay
 * before the notice is on the list.  Found: stuck: the notice never completes.
 * BREAK_BACK: a notice goes with the jobs that an issued round starts.  Found: a job that does not
 * come after the round leaves its slot.
 * BREAK_USER: seal() does not use the slot while it exchanges the word.  Found: a slot that has
 * jobs, or another round, is freed.
 */
#define NS 3			/* slots of a barrier */
#define ALL 7
#define NONE 15
#define bit(j) (1 << (j))
#define worker_of(j) ((j) && (j) % 2 == 0)

/* a slot's index is barrier * NS + the slot's number */
byte o_slot[2], o_next[2], o_unissued[2], o_undone[2];	/* `open` */
bool o_sleeper[2];
short c_unissued[6], c_undone[6];			/* `counts` */
byte w_list[6];						/* `waiting` */
bool w_issued[6], w_followed[6], w_ended[6], w_watched[6];
byte users[6], nxt[6], slots[2];

byte in[5], after[5];		/* a job's barriers, or NONE */
byte round_in[5], round_after[5];
byte before[5];			/* jobs that a job after the barrier waits for */
byte counted[2], issued, done, started, notified;	/* bits of jobs */
byte returned[2], owner[5];
byte refused = NONE, covers, nr_users, notices;
bool freed, waited, meets;
chan queue[2] = [5] of { byte };

#define touch() assert(!freed)

/* ---- src/job/rounds.c ---- */

inline start_all(set)
{
	d_step {
		k = 0;
		do
		:: k < 5 ->
			if
			:: set & bit(k) ->
				assert(!(started & bit(k)) && (before[k] & ~issued) == 0);
				started = started | bit(k);
				queue[worker_of(k)]!k
			:: else
			fi;
			k++
		:: else -> break
		od;
		set = 0; k = 0
	}
}

inline return_all(set)
{
	d_step {
		k = 0;
		do
		:: k < 5 ->
			if
			:: set & bit(k) -> returned[owner[k]] = returned[owner[k]] | bit(k)
			:: else
			fi;
			k++
		:: else -> break
		od;
		set = 0; k = 0
	}
}

inline tell_notices(set)
{
	assert((before[3] & ~done) == 0 && !(notified & set));
	notified = notified | set
}

inline leave(s)
{
	d_step { touch(); assert(users[s]); users[s] = users[s] - 1; z = (users[s] == 0) };
	if
	:: z ->
		d_step {
			touch();
			assert(w_list[s] == 0 && w_ended[s] && c_unissued[s] == 0 && c_undone[s] == 0);
			w_issued[s] = false; w_followed[s] = false; w_ended[s] = false;
			slots[s / NS] = slots[s / NS] & ~bit(s % NS);
			z = 0
		}
	:: else
	fi
}

inline leave_spare(s)
{
	d_step { touch(); users[s] = users[s] - 1; slots[s / NS] = slots[s / NS] & ~bit(s % NS) }
}

inline push_drop(s, i, d)
{
	d_step { st_s[sp] = s; st_i[sp] = i; st_d[sp] = d; sp++ }
}

inline issue(s)
{
	d_step {
		touch();
		if
#ifdef BREAK_ISSUE
		:: !w_ended[s] ->
#else
		:: !w_ended[s] && !w_issued[s] ->
#endif
#ifdef BREAK_BACK
			q_set = q_set | w_list[s];
#else
			q_set = q_set | (w_list[s] & ~notices); n_set = w_list[s] & notices;
#endif
			w_list[s] = 0; w_issued[s] = true;
			z = w_followed[s]
		:: else -> z = 0
		fi
	};
	if
	:: z -> d_step { touch(); st_s[sp] = nxt[s]; st_i[sp] = 1; st_d[sp] = 0; sp++; z = 0 }
	:: else
	fi;
	if
	:: q_set -> start_all(q_set)
	:: else
	fi;
	if
	:: n_set ->					/* let_issued_go(): pushes them again */
		d_step {
			touch();
			if
			:: !w_ended[s] -> w_list[s] = w_list[s] | n_set
			:: else -> tell_notices(n_set)
			fi;
			n_set = 0
		}
	:: else
	fi
}

inline end_round(s)
{
	d_step {
		touch();
		assert((o_slot[s / NS] == s -> o_unissued[s / NS] : c_unissued[s]) == 0);
		if
		:: w_issued[s] -> r_set = r_set | (w_list[s] & ~notices)
		:: else -> e_set = e_set | (w_list[s] & ~notices)
		fi;
		t_set = t_set | (w_list[s] & notices);
		z = 1 + w_issued[s]; y = w_followed[s];
		w_list[s] = 0; w_issued[s] = true; w_ended[s] = true; w_watched[s] = false
	};
	if
	:: y ->
		d_step { touch(); st_s[sp] = nxt[s]; st_i[sp] = (z == 1); st_d[sp] = 1; sp++; z = 0; y = 0 };
		leave(s)
	:: else -> d_step { z = 0; y = 0 }
	fi
}

/* rnl__rounds_drop(), for all drops on the stack */
inline drop_all()
{
	do
	:: sp ->
		d_step {
			touch();
			sp--;
			s = st_s[sp]; i = st_i[sp]; d = st_d[sp]; b = s / NS; x = 0;
			if
			:: o_slot[b] == s && o_next[b] == s ->		/* drop_open() */
				assert(o_unissued[b] >= i && o_undone[b] >= d);
				o_unissued[b] = o_unissued[b] - i;
				o_undone[b] = o_undone[b] - d
			:: else ->					/* drop_sealed() */
#ifndef BREAK_TWO
				if
				:: i && d -> st_i[sp] = 0; sp++; d = 0	/* done is dropped next */
				:: else
				fi;
#endif
				if
				:: o_slot[b] == s ->
					assert(o_unissued[b] >= i && o_undone[b] >= d);
					o_unissued[b] = o_unissued[b] - i;
					o_undone[b] = o_undone[b] - d;
					x = (i && o_unissued[b] == 0) + 2 * (d && o_undone[b] == 0)
				:: else ->
					c_unissued[s] = c_unissued[s] - i;
					c_undone[s] = c_undone[s] - d;
					x = (i && c_unissued[s] == 0) + 2 * (d && c_undone[s] == 0)
				fi
			fi;
			if
			:: o_undone[b] == 0 -> o_sleeper[b] = false	/* and wakes the host */
			:: else
			fi;
			i = 0; d = 0; b = 0
		};
		if
		:: x & 1 -> issue(s)
		:: else
		fi;
		if
		:: x & 2 -> end_round(s)
		:: else
		fi;
		d_step { x = 0; s = 0 }
	:: else -> break
	od;
	if
	:: r_set -> return_all(r_set)
	:: else
	fi;
	if
	:: e_set -> start_all(e_set)
	:: else
	fi;
	if
	:: t_set -> d_step { tell_notices(t_set); t_set = 0 }
	:: else
	fi
}

inline count(j)
{
	d_step {
		touch();
		b = in[j]; s = o_slot[b]; y = o_next[b]; counted[b] = counted[b] | bit(j);
		round_in[j] = y;
		if
		:: s != y ->
			mi = o_unissued[b]; md = o_undone[b];
			o_slot[b] = y;
#ifdef BREAK_HOLD
			o_unissued[b] = 1; o_undone[b] = 1
#else
			o_unissued[b] = 2; o_undone[b] = 2
#endif
		:: else -> o_unissued[b] = o_unissued[b] + 1; o_undone[b] = o_undone[b] + 1
		fi;
		b = 0
	};
	if
	:: s != y ->
		d_step {
			touch();
			c_unissued[s] = c_unissued[s] + mi; c_undone[s] = c_undone[s] + md;
			x = (mi && c_unissued[s] == 0) + 2 * (md && c_undone[s] == 0);
			v = s; u = y;
#ifndef BREAK_ISSUE
			x = x | (mi == 0);		/* the sealer may be delayed */
#endif
			mi = 0; md = 0; s = 0; y = 0
		};
		if
		:: x & 1 -> issue(v)
		:: else
		fi;
		if
		:: x & 2 -> end_round(v)
		:: else
		fi;
		d_step {				/* follow() */
			touch();
			nxt[v] = u; w_followed[v] = true;
			x = (w_ended[v] -> 2 : w_issued[v])
		};
		if
#ifndef BREAK_FOLLOW
		:: x == 2 -> leave(v);
#ifndef BREAK_HOLD
			push_drop(u, 1, 1)
#endif
#endif
		:: x == 1 ->
#ifndef BREAK_HOLD
			push_drop(u, 1, 0)
#else
			skip
#endif
		:: else
		fi;
		d_step { x = 0; v = 0; u = 0 };
		drop_all()
	:: else -> d_step { s = 0; y = 0 }
	fi
}

inline seal(j)
{
	d_step { before[j] = counted[after[j]]; spare = NONE; round_after[j] = NONE };
	do
	:: true ->
		d_step {
			touch();
			b = after[j]; s = o_slot[b]; y = o_next[b]; mi = o_unissued[b]; md = o_undone[b]
		};
		if
		:: s == y && md == 0 -> break
		:: else
		fi;
#ifdef BREAK_SEAL
		d_step { users[s] = users[s] + 1; round_after[j] = s };
		break;
#endif
		if
		:: s == y && spare == NONE ->
			atomic {			/* or -EAGAIN, and a wait for a slot */
				slots[b] != ALL || o_slot[b] != o_next[b];
				d_step {
					touch();
					if
					:: !(slots[b] & 1) -> spare = 0
					:: slots[b] & 1 && !(slots[b] & 2) -> spare = 1
					:: slots[b] & 1 && slots[b] & 2 && !(slots[b] & 4) -> spare = 2
					:: else
					fi;
					if
					:: spare != NONE ->
						slots[b] = slots[b] | bit(spare);
						spare = spare + NS * b; users[spare] = 1
					:: else
					fi
				}
			}
		:: else
		fi;
		if
		:: s == y && spare == NONE -> goto_again = 1
		:: else -> goto_again = 0
		fi;
#ifdef BREAK_USER
		z = !goto_again;
#else
		d_step {
			touch();
			z = (!goto_again && users[s] > 0);
			if
			:: z -> users[s] = users[s] + 1
			:: else
			fi
		};
#endif
		if
		:: z ->
			d_step {			/* [rounds.O1] */
				touch();
				z = (o_slot[b] == s && o_next[b] == y && o_unissued[b] == mi &&
				     o_undone[b] == md);
				if
				:: z && s == y -> o_next[b] = spare; spare = NONE
				:: else
				fi
			};
			if
			:: z ->
#ifdef BREAK_USER
				d_step { touch(); users[s] = users[s] + 1 };
#endif
				d_step { round_after[j] = s; v = s; z = (s == y && mi == 0); s = 0; y = 0 };
				if
				:: z -> d_step { z = 0; mi = 0; md = 0; b = 0 }; issue(v); drop_all()
				:: else
				fi;
				d_step { v = 0; z = 0 };
				break
			:: else ->
#ifdef BREAK_USER
				skip
#else
				leave(s)
#endif
			fi
		:: else
		fi
	od;
	skip;
	d_step { s = 0; y = 0; mi = 0; md = 0; b = 0; z = 0; goto_again = 0 };
	if
	:: spare != NONE -> leave_spare(spare); spare = NONE
	:: else
	fi;
	if
	:: round_after[j] != NONE ->
		d_step { touch(); z = w_ended[round_after[j]] };
		if
		:: z -> leave(round_after[j]); round_after[j] = NONE
		:: else
		fi
	:: else
	fi
}

/* rnl__rounds_notify() */
inline notify(j)
{
	d_step { before[j] = counted[0]; own = NONE };
	do						/* keep() */
	:: true ->
		d_step { touch(); s = o_slot[0]; y = o_next[0]; mi = o_unissued[0]; md = o_undone[0] };
		if
		:: md == 0 && s == y -> break
		:: md == 0 && s != y ->
			d_step { touch(); z = w_ended[s] };
			if
			:: z -> break
			:: else
			fi
		:: md ->
#ifdef BREAK_KEEP
			own = s; break;
#endif
			d_step {
				touch();
				z = (o_slot[0] == s && o_next[0] == y && o_unissued[0] == mi &&
				     o_undone[0] == md);
				if
				:: z ->
					o_undone[0] = o_undone[0] + 1;
					o_unissued[0] = o_unissued[0] + (s == y);
					own = s; own_issued = (s == y)
				:: else
				fi
			};
			if
			:: z -> break
			:: else
			fi
		fi
	od;
	skip;
	d_step { s = 0; y = 0; mi = 0; md = 0; z = 0 };
	if
	:: own == NONE -> d_step { tell_notices(bit(j)) }
	:: else ->
#ifdef BREAK_EARLY
		push_drop(own, own_issued, 1); drop_all();
#endif
		seal(j);
		if
		:: round_after[j] != NONE ->
			d_step {
				touch();
				if
				:: !w_ended[round_after[j]] ->
					w_list[round_after[j]] = w_list[round_after[j]] | bit(j)
				:: else
				fi
			};
			leave(round_after[j])
		:: else
		fi;
#ifndef BREAK_KEEP
#ifndef BREAK_EARLY
		push_drop(own, own_issued, 1); drop_all()
#endif
#endif
	fi
}

/* ---- src/job/submit.c ---- */

inline place(j)
{
	d_step {
		assert(!(started & bit(j)) && (before[j] & ~issued) == 0);
		started = started | bit(j);
		queue[worker_of(j)]!j
	}
}

inline submit(j)
{
#ifdef BREAK_COUNT
	if
	:: in[j] != NONE -> count(j)
	:: else
	fi;
#endif
	if
	:: after[j] != NONE -> seal(j)
	:: else
	fi;
#ifndef BREAK_COUNT
	if
	:: in[j] != NONE -> count(j)
	:: else
	fi;
#endif
	if
	:: j == refused ->
		if
		:: round_after[j] != NONE -> leave(round_after[j])
		:: else
		fi;
		z = 0
	:: j != refused && after[j] != NONE && round_after[j] != NONE ->
		d_step {				/* rnl__rounds_defer() */
			touch();
			z = w_issued[round_after[j]];
			if
			:: !z -> w_list[round_after[j]] = w_list[round_after[j]] | bit(j)
			:: else
			fi
		}
	:: else -> z = 1
	fi;
	if
	:: z -> place(j)
	:: else
	fi;
	z = 0
}

#define locals \
	byte s, i, d, b, x, y, z, k, v, u, mi, md, spare = NONE, goto_again; \
	byte q_set, n_set, r_set, e_set, t_set, sp; \
	byte st_s[4], st_i[4], st_d[4]

/* ---- src/worker ---- */

inline tell(j)
{
	assert((before[j] & ~done) == 0);
	notified = notified | bit(j)
}

inline finish(j, nr_issued)
{
	d_step { done = done | bit(j) };
	if
	:: in[j] != NONE -> push_drop(round_in[j], nr_issued, 1); drop_all()
	:: else
	fi;
	tell(j)
}

inline tell_owed()
{
	if
	:: owed -> push_drop(owed_round, owed, owed); d_step { owed = 0; owed_round = 0 }; drop_all()
	:: else
	fi
}

proctype worker(byte w)
{
	byte j, owed, owed_round;
	locals;

end:	do
	:: len(queue[w]) && !returned[w] ->
		queue[w]?j;
		if
		:: owed && (after[j] != NONE || round_in[j] != owed_round) -> tell_owed()
		:: else
		fi;
		if
		:: after[j] != NONE ->
			d_step { issued = issued | bit(j) };
			if
			:: round_after[j] != NONE ->
				d_step { touch(); z = w_ended[round_after[j]] };
				if
				:: z -> leave(round_after[j]); finish(j, 1)
				:: else ->				/* hold_back() */
					if
					:: in[j] != NONE -> push_drop(round_in[j], 1, 0); drop_all()
					:: else
					fi;
#ifdef BREAK_TOLD
					leave(round_after[j]);
					v = 1;
#else
					d_step {			/* rnl__rounds_hold() */
						touch();
						owner[j] = w;
#ifdef BREAK_PUSH
						v = 0;
#else
						v = w_ended[round_after[j]];
#endif
						if
						:: !v -> w_list[round_after[j]] = w_list[round_after[j]] | bit(j)
						:: else
						fi
					};
					leave(round_after[j]);
#endif
					if
					:: v -> v = 0; finish(j, 0)
					:: else
					fi
				fi
			:: else -> finish(j, 1)
			fi
		:: else ->
			if
			:: d_step { issued = issued | bit(j) };	/* mark_event() */
				push_drop(round_in[j], 1, 0); drop_all();
				d_step { done = done | bit(j) };
				push_drop(round_in[j], 0, 1); drop_all()
			:: !meets -> d_step {
				issued = issued | bit(j); done = done | bit(j);
				owed++; owed_round = round_in[j]
			   }
			fi
		fi;
		d_step { j = 0; z = 0 }
	:: returned[w] ->				/* rnl__complete_returned() */
		d_step {
			j = 0;
			do
			:: !(returned[w] & bit(j)) -> j++
			:: else -> break
			od;
			returned[w] = returned[w] & ~bit(j)
		};
		finish(j, 0);
		j = 0
#ifndef BREAK_OWED
	:: len(queue[w]) == 0 && owed -> tell_owed()
#endif
	od
}

/* ---- the users ---- */

proctype user(byte first; byte second; byte third)
{
	byte j;
	locals;

	do
	:: first != NONE ->
		d_step { j = first; first = second; second = third; third = NONE };
		submit(j)
	:: first == NONE -> break
	od;
	nr_users--
}

/* Job 0 is issued, and done now. */
proctype worker_of_0()
{
	locals;

	done = done | bit(0);
	push_drop(0, 0, 1);
	drop_all()
}

/* A thread that has sealed the round of job 0, and now marks the round as issued. */
proctype sealer_of_0()
{
	locals;

	issue(0);
	drop_all()
}

proctype notifier()
{
	byte own, own_issued;
	locals;

	notify(3)
}

/* rnl__rounds_await_done() */
proctype host()
{
	byte s, y, mi, md, z;

	counted[0] & 1;
	covers = counted[0];
	do
	:: true ->
		d_step {
			touch();
			s = o_slot[0]; y = o_next[0]; mi = o_unissued[0]; md = o_undone[0]
		};
		if
		:: md ->					/* sleep_open() */
			d_step {
				touch();
				if
				:: o_undone[0] -> o_sleeper[0] = true
				:: else
				fi
			};
			!o_sleeper[0]
		:: md == 0 && s == y -> break
		:: md == 0 && s != y ->
#ifdef BREAK_WAIT
			break;
#endif
			d_step { touch(); z = w_ended[s] };
			if
			:: z -> break
			:: else
			fi;
#ifndef BREAK_SLOT
			d_step {				/* sleep_ended() */
				touch();
				z = (users[s] > 0);
				users[s] = users[s] + z
			};
#else
			z = 1;
#endif
			if
			:: z ->
				d_step {
					touch();
#ifndef BREAK_SLOT
					z = (o_slot[0] == s && o_next[0] == y &&
					     o_unissued[0] == mi && o_undone[0] == md)
#endif
				};
				if
				:: z ->
					d_step {
						touch();
						if
						:: w_ended[s]
						:: else -> w_watched[s] = true
						fi
					};
					!w_watched[s]
				:: else
				fi;
#ifndef BREAK_SLOT
				leave(s)
#endif
			:: else
			fi
		fi
	od;
	assert((covers & ~done) == 0);
	waited = true
}

init
{
	atomic {
		users[0] = 1; slots[0] = 1;
		o_slot[1] = NS; o_next[1] = NS; users[NS] = 1; slots[1] = 1;
		in[3] = NONE; in[4] = NONE;
		after[0] = NONE; after[1] = NONE; after[2] = NONE; after[3] = 0; after[4] = 0;
		round_after[0] = NONE; round_after[1] = NONE; round_after[2] = NONE;
		nr_users = 1;
		run worker(0);
		run worker(1);
		if
		:: nr_users = 2; in[3] = 1; after[2] = 1; run user(2, NONE, NONE); run user(3, NONE, NONE)
		:: notices = bit(3); run user(0, 2, NONE); run notifier()
		:: refused = 3; run user(0, 3, NONE); run host()
		:: run user(0, 2, 3)
		:: refused = 3; run user(0, 3, 2); run host()
		:: run user(0, 3, NONE); refused = 1
		:: meets = true; counted[0] = 1; started = 1; issued = 1;
			o_undone[0] = 1; o_next[0] = 1; users[0] = 2; users[1] = 1; slots[0] = 3;
			run worker_of_0(); run sealer_of_0(); run user(2, 1, 4)
		fi
	};
	nr_users == 0;
	if
	:: refused == 1 ->
		atomic { nr_users = 2; run user(2, NONE, NONE); run user(4, NONE, NONE) };
		nr_users == 0
	:: else
	fi;
	if
	:: in[3] == 1 -> (notified & 12) == 12
	:: meets -> notified & bit(4)
	:: in[3] != 1 && refused == NONE && !meets ->
		notified & bit(3);
		freed = (notices == 0 || (before[3] & 5) == 5)
	:: in[3] != 1 && refused == 1 ->
		(notified & 24) == 24;
		freed = ((before[4] & 5) == 5)
	:: in[3] != 1 && refused == 3 -> waited; freed = (covers == counted[0])
	fi
}
