/* SPDX-License-Identifier: MIT */
/*
 * Model of thieves and their wakes: lane_try_take() of src/queue.c ([queue.T1], T2),
 * steal(), idle() of src/loop.c, and src/park.[ch], of which park.pml has the barriers.
 *
 * A queue, of a worker that is busy with a long job and so is not modelled, gets three
 * jobs, one by one, each with a wake; or the submitter claims a sleeper and puts the
 * job there.  Three idle workers steal.  A job's function returns when all three have
 * begun, so each needs a worker of its own.
 *
 * A worker that was woken for a job finds `busy` held, says ASLEEP again, and sees the
 * job in its second look.  A wake that exchanges its word now is spent on a worker
 * that is awake: so it has to pass it on when it leaves.
 *
 * Left out: store buffers; spinning, which makes this rarer; the owner of the queue.
 *
 * Asserted: nobody is stuck: a job that lies there while a worker sleeps is an
 * invalid end state.
 *
 * Broken: BREAK_LEAVE the wake is not passed on.
 */
#define NONE 255
#define NJ 3

mtype = { awake, asleep };

mtype word[3] = asleep;
bool bits[3] = true;
chan lane = [NJ] of { byte };		/* of the busy worker */
chan own[3] = [NJ] of { byte };
bool busy;
byte begun;

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

inline lot_wake_one()
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

active proctype submitter()
{
	byte j, i, seen;
	bool woke;

	do
	:: j < NJ ->
		if
		:: lane!j; lot_wake_one()			/* rnl__park_wake() of the busy one says no */
		:: atomic { bits[0] -> bits[0] = false; i = 0 }; goto claimed	/* rnl__lot_claim() */
		:: atomic { bits[1] -> bits[1] = false; i = 1 }; goto claimed
		:: atomic { bits[2] -> bits[2] = false; i = 2 };
claimed:		own[i]!j;
			park_wake(i);
			if
			:: woke -> woke = false
			:: else -> lot_wake_one()
			fi
		fi;
		j++
	:: else -> break
	od;
	begun == NJ
}

proctype worker(byte w)
{
	byte j = NONE, seen;
	bool woke, held;

	goto end;
next:	if
	:: atomic { len(own[w]) -> own[w]?j }			/* take() */
	:: atomic { !len(own[w]) && len(own[(w + 1) % 3]) -> own[(w + 1) % 3]?j }	/* steal() */
	:: atomic { !len(own[w]) && !len(own[(w + 1) % 3]) && len(own[(w + 2) % 3]) ->
		    own[(w + 2) % 3]?j }
	:: !len(own[0]) && !len(own[1]) && !len(own[2]) && len(lane) ->	/* lane_try_take() */
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
	:: else
	fi;
	if
	:: j != NONE ->
		begun++;
		begun == NJ;
		j = NONE
	:: else ->						/* idle() */
		word[w] = asleep;
		bits[w] = true;
		if
		:: len(lane) || len(own[0]) || len(own[1]) || len(own[2]) ->
#ifdef BREAK_LEAVE
			word[w] = awake;
			bits[w] = false
#else
			atomic { woke = (word[w] == awake); word[w] = awake };
			bits[w] = false;
			if
			:: woke -> woke = false; lot_wake_one()
			:: else
			fi
#endif
		:: else ->
end:			word[w] == awake;
			bits[w] = false
		fi
	fi;
	goto next
}

init { atomic { run worker(0); run worker(1); run worker(2) } }
