/* SPDX-License-Identifier: MIT */
/*
 * Model of resizes during submits: change_staff(), bring_in(), send_away() of src/worker/staff.c;
 * reserve_keyed(), reserve_open(), took_back() of src/pool/choose.c; rnl__queue_reserve()
 * [queue.R1], _leave() [queue.A1], _promise() [queue.K1], _shut_lane() [queue.K2], _keyed_done(),
 * _lane_done(), take_keyed() of src/pool/queue.c; rnl__loop(), rnl__idle(),
 * rnl__command_may_leave(), _may_obey(), await_command() of src/worker/serve.c.
 *
 * Two workers serve by the table of generation 0; the pool is resized to one worker, and back to
 * two.  A thread submits two jobs of one key, which belongs to worker 0 in each table, or to worker
 * 1 while worker 1 serves.  Or a thread submits an unkeyed job to any worker, as if it had read an
 * old table or the idle set, and a free worker steals the job.
 *
 * Not modelled: store buffers, because each decision depends on one word, read and changed in one
 * step; sleeping with full barriers, which park.pml has; closing; workers of classes; deferred jobs;
 * work on the stream, except that a taken job is done later.  The counters `accepted` less `taken`,
 * and `promised` less `done`, are one number each, `room` and `owed`.  A queue is never full.
 *
 * Asserted: each job runs once; the key's second job starts when the first is done; a job is only
 * put where a worker serves, and a leaving worker leaves no job.  No thread is stuck: spin reports
 * a job that stays, an endless resize, a worker not woken for a command as invalid end states.
 *
 * Broken variants:
 * BREAK_AWAY: `away` is not set when a worker leaves ([queue.A1]).  Found: a job is put where no
 * worker serves.
 * BREAK_SHUT: lanes are not shut, so a promise is not ordered before the read of the table
 * ([queue.K2]).  Found: stuck: a job in a lane that is no longer served.
 * BREAK_TABLE: a keyed submit does not read the table again after its promise.  Found: out of
 * order: two resizes happened in between.
 * BREAK_TAG: workers take keyed jobs of any generation.  BREAK_WAIT: new lanes are served before
 * the old lanes' jobs are done.  Found: out of order; stuck.
 * BREAK_BACK: a submit that takes its reservation back wakes no worker.  BREAK_THIEF: a thief does
 * not wake the worker from which it took.  BREAK_SERVE: a new generation wakes no worker.
 * BREAK_COMMAND: nor does a command.  Found: stuck: a leaving worker, or a worker that has jobs,
 * continues to sleep.
 */
#define NONE 255
#define SERVE 1
#define HAND_OVER 2
#define LEAVE 4
#define OPEN 2				/* the unkeyed job; 0 and 1 are keyed */

byte table_gen, table_nr = 2, serving;
byte room[2];				/* reserved, but not taken */
bool away[2];
byte owed[4];				/* a keyed lane's jobs: promised, but not done */
bool shut[4];
chan keyed[4] = [2] of { byte };
chan open_lane[2] = [1] of { byte };
byte tag[3];				/* a keyed job's generation */
byte commands[2], moving;
bool asleep[2], serves[2] = true;
bool done[3], taken[3];
bit key;

#define lane(w, gen) (2 * (w) + (gen) % 2)
#define wake(w) asleep[w] = false	/* rnl__park_wake() */

/* ---- src/pool/choose.c ---- */

inline took_back(w)
{
	room[w]--;				/* rnl__queue_unreserve() */
#ifndef BREAK_BACK
	wake(w)
#endif
}

inline submit_keyed(j)
{
	do
	::	atomic { gen = table_gen; w = (table_nr == 2 -> key : 0) };	/* rnl__pool_staff() */
		d_step { room[w]++; refused = away[w] };	/* [queue.R1] */
		if
		:: refused -> refused = false; took_back(w)
		:: else ->
#ifdef BREAK_SHUT
			refused = (table_gen != gen);	/* no word orders this read */
			owed[lane(w, gen)]++;
			if
			:: !refused -> break
			:: else
			fi;
#else
			d_step { owed[lane(w, gen)]++; refused = shut[lane(w, gen)] };	/* [queue.K1] */
			if
			:: !refused ->
#ifdef BREAK_TABLE
				break
#else
				if
				:: table_gen == gen -> break
				:: else
				fi
#endif
			:: else
			fi;
#endif
			refused = false;
			owed[lane(w, gen)]--;		/* rnl__queue_unpromise() */
			took_back(w)
		fi
	od;
	atomic { assert(serves[w]); tag[j] = gen; keyed[lane(w, gen)]!j };	/* [queue.E1] */
	wake(w);
	d_step { w = 0; gen = 0 }
}

inline submit_open(j)
{
	do
	::	if
		:: w = 0
		:: w = 1
		fi;
		d_step { room[w]++; refused = away[w] };
		if
		:: refused -> refused = false; took_back(w)
		:: else -> break
		fi
	od;
	atomic { assert(serves[w]); open_lane[w]!j };
	if						/* rnl__idle_set_wake_one() */
	:: asleep[w] -> wake(w)
	:: else -> wake(1 - w)
	fi;
	w = 0
}

proctype submitter_keyed()
{
	byte w, gen;
	bool refused;

	submit_keyed(0);
	submit_keyed(1);
	(done[0] && done[1])
}

proctype submitter_open()
{
	byte w;
	bool refused;

	submit_open(OPEN);
	done[OPEN]
}

/* ---- src/worker/staff.c ---- */

inline command(w, what)
{
	d_step { moving++; commands[w] = commands[w] | what };	/* [worker.O2] */
#ifndef BREAK_COMMAND
	wake(w)
#endif
}

/* change_staff(), to generation g with nr workers */
inline change_staff(g, nr, old_nr)
{
	shut[lane(0, g)] = false;			/* rnl__queue_open_lane(), _serve() */
	away[0] = false;
	if
	:: nr == 2 -> shut[lane(1, g)] = false; away[1] = false
	:: else
	fi;
	d_step { table_gen = g; table_nr = nr };	/* publish() */
#ifndef BREAK_AWAY
	if
	:: nr == 1 -> away[1] = true			/* [queue.A1] */
	:: else
	fi;
#endif
#ifndef BREAK_SHUT
	shut[lane(0, g - 1)] = true;			/* [queue.K2] */
	if
	:: old_nr == 2 -> shut[lane(1, g - 1)] = true
	:: else
	fi;
#endif
	if
	:: nr == 2 -> wake(1)				/* wakes the worker that was brought in */
	:: else
	fi;
#ifndef BREAK_WAIT
	if
	:: owed[lane(0, g - 1)] -> command(0, HAND_OVER)
	:: else
	fi;
	if
	:: old_nr == 2 && owed[lane(1, g - 1)] -> command(1, HAND_OVER)
	:: else
	fi;
	moving == 0;					/* await_commands() */
#endif
	serving = g;					/* serve_generation() */
#ifndef BREAK_SERVE
	wake(0);
	if
	:: nr == 2 -> wake(1)
	:: else
	fi
#endif
}

active proctype resizer()
{
	change_staff(1, 1, 2);
	command(1, LEAVE);				/* send_away() */
	moving == 0;
	command(1, SERVE);				/* bring_in() */
	moving == 0;
	change_staff(2, 2, 1)
}

/* ---- src/worker/loop.c, idle.c, serve.c ---- */

#define may_leave (commands[w] & LEAVE && room[w] == 0)
#define may_obey (commands[w] & HAND_OVER && owed[lane(w, serving)] == 0)
#define victim (!(commands[w] & LEAVE) && len(open_lane[1 - w]))
#define holds (len(keyed[lane(w, serving)]) || len(open_lane[w]))

inline obeyed(what)
{
	d_step { commands[w] = commands[w] & ~what; assert(moving > 0); moving-- }
}

inline sleep_unless(cond)
{
	asleep[w] = true;				/* rnl__park_prepare() */
	if
	:: cond -> asleep[w] = false			/* rnl__park_leave() */
	:: else
	fi
}

inline take_keyed()
{
	gen = serving;					/* rnl__pool_serving() */
	d_step {
		if
		:: len(keyed[lane(w, gen)]) ->
			keyed[lane(w, gen)]?<j>;
			if
#ifndef BREAK_TAG
			:: tag[j] != gen -> j = NONE
#endif
			:: else -> keyed[lane(w, gen)]?j
			fi
		:: else
		fi;
		gen = 0
	}
}

proctype worker(byte w)
{
	byte j = NONE, gen, from;

next:	if
	:: !serves[w] ->				/* rnl__serve_main() */
		if
		:: commands[w] & SERVE -> serves[w] = true; obeyed(SERVE)
		:: else -> sleep_unless(commands[w]); goto end
		fi
	:: else
	fi;
	if
	:: may_obey -> obeyed(HAND_OVER)
	:: else
	fi;
	from = w;
	take_keyed();
	if
	:: atomic { j == NONE && len(open_lane[w]) -> open_lane[w]?j }
	:: atomic { j == NONE && !len(open_lane[w]) && victim -> open_lane[1 - w]?j; from = 1 - w }	/* steal() */
	:: else
	fi;
	if
	:: j != NONE ->
		room[from]--;				/* `taken` counts after the link is cut */
#ifndef BREAK_THIEF
		if					/* rnl__share_taken() */
		:: from != w -> wake(from)
		:: else
		fi;
#endif
		d_step { from = 0; assert(!taken[j] && (j != 1 || done[0])); taken[j] = true };
		done[j] = true;
		if
		:: j != OPEN -> owed[lane(w, tag[j])]--	/* [queue.K3] */
		:: else
		fi;
		j = NONE;
		goto next
	:: may_leave ->
		d_step {
			from = 0;
			assert(!len(open_lane[w]) && !len(keyed[2 * w]) && !len(keyed[2 * w + 1]));
			serves[w] = false
		};
		obeyed(LEAVE);
		goto next
	:: else
	fi;
	from = 0;
	sleep_unless(holds || victim || may_leave || may_obey);	/* idle_busy() */
end:	!asleep[w];
	goto next
}

init
{
	atomic {
		shut[1] = true; shut[3] = true;
		if
		:: key = 0; run submitter_keyed()
		:: key = 1; run submitter_keyed()
		:: run submitter_open()
		fi;
		run worker(0);
		run worker(1)
	}
}
