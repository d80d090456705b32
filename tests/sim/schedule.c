/* SPDX-License-Identifier: MIT */
/* Decides which thread runs, and when; sim.h has the design. */
#define _GNU_SOURCE		/* dladdr(), cpu_set_t */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/memory.h"
#include "sim/sim.h"

#define THREADS_MAX 8192
#define STEPS_MAX 300000000ull	/* of a run; more steps mean an endless loop */
#define SHOWN 60		/* switches in a report */
#define PAUSE_NS 1000
#define CHECK_SIZE 6000u	/* bytes of code of Check's check_run.c */
#define FAIR_STEPS 100000ull	/* then the thread goes last: two may wake each other forever */
#define LAGS 11			/* slow threads are 2, 3, 5, ... 1,025 times slower */
#define CHANGES 8192		/* then changes are half as frequent: each costs two system calls */
#define SPIN_STEPS 2000		/* in a row; then the thread lets others go first */

long __real_syscall(long number, ...);
int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

static const char *const words[] = {
	[SIM_LOAD] = "load", [SIM_OLD] = "load old", [SIM_STORE] = "store", [SIM_MODIFY] = "modify", [SIM_FENCE] = "fence",
	[SIM_PAUSE] = "pause", [SIM_CREATE] = "create", [SIM_JOIN] = "join", [SIM_LOCK] = "lock",
	[SIM_UNLOCK] = "unlock", [SIM_COND_WAIT] = "wait", [SIM_COND_WAKE] = "signal",
	[SIM_FUTEX_WAIT] = "futex wait", [SIM_FUTEX_WAKE] = "futex wake", [SIM_SLEEP] = "sleep",
	[SIM_FD] = "file", [SIM_SEM] = "semaphore", [SIM_END] = "end",
};

enum state { READY, ASLEEP, OVER };

struct sim_thread {
	_Atomic uint32_t turn;		/* a futex; 1: the thread has its turn */
	unsigned nr, place;		/* place in `ready` or `asleep` */
	unsigned slot;			/* slot in memory.c */
	enum state state;
	bool timed_out;
	enum sim_what what;		/* kind of the last step */
	const volatile void *object;
	const void *pc;
	uint64_t until, priority;
	uint64_t lag;			/* extra ns of a step, while others run */
	void *(*fn)(void *);
	void *arg;
	char name[16];			/* set when the thread is over */
	pthread_t id;
	pid_t tid;
};

/* A switch, for the report: the next step of the thread that continues. */
struct sim_switch {
	uint64_t step, now;
	unsigned nr;
	enum sim_what what;
	const volatile void *object;
	const void *pc;
};

/* The ways to explore schedules. */
enum how { RANDOM, PRIORITIES, BOUNDED, STARVED, NR_HOW };
static const char *const how_names[] = { "random", "priorities", "bounded", "starved" };
static const char *const memory_names[] = { "sequential", "weak" };

static struct {
	bool on;
	enum how how;
	uint64_t seed, random, now, steps, hash, next_timer;
	uint64_t left;			/* steps until the next change */
	uint64_t mean, changes;		/* steps between changes; changes so far, or left */
	uint64_t since;			/* steps since the last switch */
	uint64_t lowest;		/* priority of the next thread that is put last */
	unsigned nr, starved, spurious;
	unsigned nr_alive, slots;	/* slots in use: one bit each */
	bool weak;			/* memory_weak's value while there are few threads */
	bool woken;			/* a thread became ready after the last choice */
	struct sim_thread *threads[THREADS_MAX];
	struct list { unsigned nr; struct sim_thread *list[THREADS_MAX]; } ready, asleep;
	struct sim_switch shown[SHOWN];
	uint64_t nr_switches, nr_old;
	pid_t ending;			/* a thread that is over, but not yet for the C library */
} sim;

static _Thread_local struct sim_thread *me;
static pthread_key_t ends;

/* ---- chance ---------------------------------------------------------------- */

uint64_t sim_any(uint64_t nr)
{
	/* splitmix64 (Steele, Lea, Flood 2014) */
	uint64_t z = sim.random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % nr;
}

bool sim_spurious(void)
{
	return !sim_any(sim.spurious);
}

static void mix(uint64_t value)
{
	sim.hash = (sim.hash ^ value) * 0x100000001b3u;
}

/* ---- the turn --------------------------------------------------------------- */

static void give_turn(struct sim_thread *t)
{
	atomic_store(&t->turn, 1);
	(void)__real_syscall(SYS_futex, &t->turn, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static void await_turn(struct sim_thread *t)
{
	while (!atomic_load(&t->turn))
		(void)__real_syscall(SYS_futex, &t->turn, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL,
				     NULL, 0);
	atomic_store(&t->turn, 0);
	/* The next owner of an ended thread's stack and heap must not depend on real time. */
	while (sim.ending && !__real_syscall(SYS_tgkill, __real_syscall(SYS_getpid), sim.ending, 0))
		(void)__real_syscall(SYS_sched_yield);
	sim.ending = 0;
}

static void show(const struct sim_thread *t, enum sim_what what)
{
	sim.shown[sim.nr_switches++ % SHOWN] = (struct sim_switch){
		.step = sim.steps, .now = sim.now, .nr = t->nr, .what = what,
		.object = t->object, .pc = t->pc,
	};
	mix(t->nr);
	mix(sim.steps);
}

static void go_to(struct sim_thread *next)
{
	struct sim_thread *was = me;
	int saved = errno;

	sim.since = 0;
	if (next == was)
		return;
	show(next, next->what);
	if (was->state == OVER) {
		sim.ending = was->tid;
		me = NULL;
	}
	give_turn(next);
	if (me)
		await_turn(was);
	errno = saved;
}

static void add(struct list *to, struct sim_thread *t)
{
	t->place = to->nr;
	to->list[to->nr++] = t;
}

/* Takes a thread off; the list's last thread moves to its place. */
static void take(struct list *from, struct sim_thread *t)
{
	struct sim_thread *last = from->list[--from->nr];

	from->list[t->place] = last;
	last->place = t->place;
}

static void add_ready(struct sim_thread *t)
{
	t->state = READY;
	t->until = SIM_NEVER;
	sim.woken = true;
	add(&sim.ready, t);
}

static void rouse(struct sim_thread *t)
{
	take(&sim.asleep, t);
	add_ready(t);
}

static void wake_due(void)
{
	sim.next_timer = SIM_NEVER;
	for (unsigned i = 0; i < sim.asleep.nr;) {
		struct sim_thread *t = sim.asleep.list[i];

		if (t->until <= sim.now) {
			t->timed_out = true;
			rouse(t);	/* the list's last thread moves to its place */
		} else {
			i++;
			if (t->until < sim.next_timer)
				sim.next_timer = t->until;
		}
	}
}

/* ---- the next thread -------------------------------------------------------- */

static struct sim_thread *first_by_priority(void)
{
	struct sim_thread *first = sim.ready.list[0];

	for (unsigned i = 1; i < sim.ready.nr; i++)
		if (sim.ready.list[i]->priority > first->priority)
			first = sim.ready.list[i];
	sim.woken = false;
	return first;
}

/* Picks a ready thread; @but: not that thread, if there are others. */
static struct sim_thread *pick(const struct sim_thread *but)
{
	/* Starves a thread only in every second million steps: others may wait for it in a loop. */
	const bool starves = sim.how == STARVED && !(sim.steps >> 20 & 1);
	struct sim_thread *t;

	if (sim.how == PRIORITIES)
		return first_by_priority();
	for (unsigned tries = 0; tries < 64; tries++) {
		t = sim.ready.list[sim_any(sim.ready.nr)];
		if (sim.ready.nr == 1 || (t != but && !(starves && t->nr == sim.starved)))
			return t;
	}
	return t;
}

static void draw_next_change(void)
{
	if (sim.how == RANDOM || sim.how == STARVED) {
		if (!(++sim.changes % CHANGES))
			sim.mean *= 2;
		sim.left = 1 + sim_any(2 * sim.mean);
	} else
		sim.left = sim.changes-- ? 1 + sim_any(2 * sim.mean) : UINT64_MAX;
}

/* Draws the way to explore, and the memory, from the seed. */
static void draw_the_run(void)
{
	const char *how = getenv("SIM_HOW"), *memory = getenv("SIM_MEMORY");

	sim.how = sim_any(NR_HOW);
	for (unsigned i = 0; how && i < NR_HOW; i++)
		if (!strcmp(how, how_names[i]))
			sim.how = i;
	sim.lowest = UINT64_MAX / 2;
	sim.mean = 1ull << sim_any(sim.how == RANDOM || sim.how == STARVED ? 8 : 14);
	sim.changes = 1 + sim_any(8);
	sim.starved = (unsigned)sim_any(8);
	sim.spurious = 2u << sim_any(6);
	draw_next_change();
	sim.weak = sim_any(2);
	if (memory && *memory)
		sim.weak = strcmp(memory, "sequential") != 0;
}

/* Lets all other threads go first. */
static void put_last(void)
{
	me->priority = sim.lowest--;
	go_to(pick(me));
}

/* ---- memory ------------------------------------------------------------------- */

unsigned sim_slot(void)
{
	return me->slot;
}

void sim_old_value(void)
{
	sim.nr_old++;
	show(me, SIM_OLD);
}

static void take_slot(struct sim_thread *t)
{
	t->slot = (unsigned)__builtin_ctz(~sim.slots);
	if (t->slot >= MEMORY_THREADS)
		abort();
	sim.slots |= 1u << t->slot;
}

/* If there are more threads than slots, loads return no old values until threads are few again. */
static void begins(struct sim_thread *t)
{
	if (++sim.nr_alive > MEMORY_THREADS) {
		memory_weak = false;
		return;
	}
	take_slot(t);
	memory_thread_begins(t->slot, me ? me->slot : t->slot);
}

static void has_ended(struct sim_thread *t)
{
	if (--sim.nr_alive < MEMORY_THREADS) {
		sim.slots &= ~(1u << t->slot);
		memory_thread_ends(t->slot);
	} else if (sim.nr_alive == MEMORY_THREADS) {
		sim.slots = 0;
		for (unsigned i = 0; i < sim.nr; i++)
			if (sim.threads[i]->state != OVER)
				take_slot(sim.threads[i]);
		memory_forget_all();
		memory_weak = sim.weak;
	}
}

/* ---- steps -------------------------------------------------------------------- */

bool sim_runs(void)
{
	return sim.on && me;
}

uint64_t sim_now(void)
{
	return sim.now;
}

unsigned sim_thread(void)
{
	return me->nr;
}

static void note(enum sim_what what, const volatile void *object, const void *pc, uint64_t ns)
{
	me->what = what;
	me->object = object;
	me->pc = pc;
	sim.now += ns;
	sim.since++;
	mix((uint64_t)((const char *)pc - (const char *)(uintptr_t)sim_begin) << 8 | what);
	if (++sim.steps > STEPS_MAX) {
		sim_report("it does not end");
		_exit(1);
	}
	if (sim.now >= sim.next_timer)
		wake_due();
}

/* The calling thread's CPU is slow: other threads run before its step of @ns nanoseconds. */
static void lag_behind(uint64_t ns, const void *pc)
{
	if (me->lag)
		(void)sim_sleep(SIM_SLEEP, NULL, sim.now + ns * me->lag, pc);
}

void sim_step(enum sim_what what, const volatile void *object, const void *pc)
{
	bool change;

	if (!sim_runs())
		return;
	lag_behind(1, pc);
	note(what, object, pc, 1);
	change = !--sim.left;
	if (change)
		draw_next_change();
	if (sim.how == PRIORITIES && (change || !(sim.steps % FAIR_STEPS)))
		put_last();
	else if (change || (sim.how == PRIORITIES && sim.woken))
		go_to(pick(NULL));
	else if (sim.since > SPIN_STEPS)
		sim_pause(pc);
	if (what >= SIM_MEETS)
		memory_meet(object);
}

void sim_pause(const void *pc)
{
	if (!sim_runs())
		return;
	lag_behind(PAUSE_NS, pc);
	note(SIM_PAUSE, NULL, pc, PAUSE_NS);
	put_last();
}

static void all_sleep(void)
{
	if (sim.next_timer == SIM_NEVER) {
		sim_report("all threads sleep");
		_exit(1);
	}
	sim.now = sim.next_timer;
	wake_due();
}

/* The caller sleeps, or is over: another thread continues. */
static void leave(enum state state)
{
	take(&sim.ready, me);
	me->state = state;
	if (state == ASLEEP)
		add(&sim.asleep, me);
	else
		has_ended(me);
	while (!sim.ready.nr)
		all_sleep();
	go_to(pick(NULL));
}

bool sim_sleep(enum sim_what what, const volatile void *object, uint64_t until, const void *pc)
{
	note(what, object, pc, 1);
	me->timed_out = false;
	if (until <= sim.now)
		return false;
	me->until = until;
	if (until < sim.next_timer)
		sim.next_timer = until;
	leave(ASLEEP);
	if (what >= SIM_MEETS)
		memory_meet(object);
	return !me->timed_out;
}

unsigned sim_rouse(enum sim_what what, const volatile void *object, unsigned nr)
{
	unsigned woken = 0, i = nr == 1 && sim.asleep.nr ? (unsigned)sim_any(sim.asleep.nr) : 0;

	if (what >= SIM_MEETS)
		memory_meet(object);
	for (unsigned left = sim.asleep.nr; left && woken < nr; left--) {
		struct sim_thread *t;

		i %= sim.asleep.nr;
		t = sim.asleep.list[i];
		if (t->object == object) {
			rouse(t);
			woken++;
		} else {
			i++;
		}
	}
	return woken;
}

unsigned sim_wake(enum sim_what what, const volatile void *object, unsigned nr, const void *pc)
{
	const unsigned woken = sim_rouse(what, object, nr);

	sim_step(what, object, pc);
	return woken;
}

/* ---- a thread's life ----------------------------------------------------------- */

/* Runs as the last destructor of thread-local memory: until then the thread is simulated. */
static void thread_ends(void *last)
{
	struct sim_thread *t = me;

	if ((uintptr_t)last < 4) {
		pthread_setspecific(ends, (void *)((uintptr_t)last + 1));
		return;
	}
	(void)pthread_getname_np(t->id, t->name, sizeof(t->name));
	note(SIM_END, t, NULL, 1);
	(void)sim_rouse(SIM_END, t, UINT_MAX);
	leave(OVER);
}

static void *thread_main(void *arg)
{
	struct sim_thread *t = arg;

	me = t;
	t->tid = (pid_t)__real_syscall(SYS_gettid);
	await_turn(t);
	pthread_setspecific(ends, (void *)1);
	return t->fn(t->arg);
}

static struct sim_thread *new_thread(void *(*fn)(void *), void *arg)
{
	struct sim_thread *t = calloc(1, sizeof(*t));

	if (!t || sim.nr == THREADS_MAX)
		abort();
	t->nr = sim.nr;
	t->fn = fn;
	t->arg = arg;
	t->what = SIM_CREATE;
	t->priority = UINT64_MAX / 2 + 1 + sim_any(UINT64_MAX / 4);
	if (sim_fault("cpus") && !sim_any(4))
		t->lag = 1ull << sim_any(LAGS);
	sim.threads[sim.nr++] = t;
	add_ready(t);
	begins(t);
	return t;
}

void sim_thread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	struct sim_thread *t = new_thread(fn, arg);

	/* A test's own calloc() must not make steps here; the new thread cannot run yet. */
	sim.on = false;
	if (__real_pthread_create(&t->id, attr, thread_main, t))
		abort();
	sim.on = true;
	*id = t->id;
}

void sim_thread_join(pthread_t id, const void *pc)
{
	struct sim_thread *t;
	unsigned i = sim.nr;

	do
		t = sim.threads[--i];
	while (i && !pthread_equal(t->id, id));
	while (t->state != OVER)
		(void)sim_sleep(SIM_JOIN, t, SIM_NEVER, pc);
	memory_meet(t);
}

char sim_state(unsigned tid)
{
	const struct sim_thread *t = tid - SIM_FIRST_TID < sim.nr ? sim.threads[tid - SIM_FIRST_TID] : NULL;

	return !t || t->state == OVER ? 0 : t->state == ASLEEP ? 'S' : 'R';
}

unsigned sim_nr_alive(void)
{
	return sim.nr_alive;
}

/* Ends the simulation.  A forked child is not simulated: it has one thread and the real clock. */
static void stop(void)
{
	sim.on = memory_weak = false;
}

/* ---- a report ------------------------------------------------------------------- */

/* Returns "function (file:line)" for each code address, from binutils' addr2line. */
static void name_places(char (*names)[96], const void *const *pcs, unsigned nr)
{
	char command[SHOWN * 32 + 256];
	Dl_info info = { 0 };
	FILE *out;
	int n;

	(void)dladdr((void *)(uintptr_t)sim_begin, &info);
	n = snprintf(command, sizeof(command), "addr2line -s -f -e /proc/%d/exe", (int)getpid());
	for (unsigned i = 0; i < nr; i++)
		n += snprintf(command + n, sizeof(command) - (size_t)n, " %#tx",
			      pcs[i] ? (const char *)pcs[i] - (const char *)info.dli_fbase - 1 : 0);
	out = popen(command, "r");
	for (unsigned i = 0; i < nr; i++) {
		char function[64] = "?", line[64] = "?";

		if (!out || !fgets(function, sizeof(function), out) || !fgets(line, sizeof(line), out))
			strcpy(line, "?");
		function[strcspn(function, "\n")] = line[strcspn(line, "\n ")] = 0;
		snprintf(names[i], sizeof(names[i]), "%.40s (%.40s)", function, line);
	}
	if (out)
		pclose(out);
}

static const char *name_of(struct sim_thread *t)
{
	if (t->state != OVER)
		(void)pthread_getname_np(t->id, t->name, sizeof(t->name));
	return t->name;
}

/* Numbers objects in the order in which a report shows them. */
static unsigned number_of(const volatile void *object)
{
	static const volatile void *shown[SHOWN + THREADS_MAX];
	unsigned i = 0;

	if (!object)
		return 0;
	while (shown[i] && shown[i] != object)
		i++;
	shown[i] = object;
	return i + 1;
}

static void report_switches(void)
{
	unsigned nr = sim.nr_switches < SHOWN ? (unsigned)sim.nr_switches : SHOWN;
	uint64_t first = sim.nr_switches - nr;
	const void *pcs[SHOWN] = { NULL };
	char names[SHOWN][96];

	for (unsigned i = 0; i < nr; i++)
		pcs[i] = sim.shown[(first + i) % SHOWN].pc;
	name_places(names, pcs, nr);
	fprintf(stderr, "the last %u of %llu switches:\n%10s %14s  %-20s %-10s %8s  %s\n", nr,
		(unsigned long long)sim.nr_switches, "step", "ns", "goes on", "about to", "object", "in");
	for (unsigned i = 0; i < nr; i++) {
		const struct sim_switch *s = &sim.shown[(first + i) % SHOWN];

		fprintf(stderr, "%10llu %14llu  %3u %-16s %-10s %8u  %s\n",
			(unsigned long long)s->step, (unsigned long long)s->now, s->nr,
			name_of(sim.threads[s->nr]), words[s->what], number_of(s->object), names[i]);
	}
}

static void report_threads(void)
{
	fprintf(stderr, "threads:\n");
	for (unsigned i = 0; i < sim.nr; i++) {
		struct sim_thread *t = sim.threads[i];
		const void *pc = t->pc;
		char name[1][96];

		if (t->state == OVER)
			continue;
		name_places(name, &pc, 1);
		fprintf(stderr, "%3u %-16s %-6s %-10s %8u  %s\n", t->nr, name_of(t),
			t == me ? "runs" : t->state == READY ? "ready" : "asleep", words[t->what],
			number_of(t->object), name[0]);
	}
}

static void end(const char *why)
{
	stop();
	fprintf(stderr, "sim: %s: seed %llu, %s, %s, %llu steps, %llu switches, %llu old values, %llu ns, hash %016llx\n",
		why, (unsigned long long)sim.seed, how_names[sim.how], memory_names[sim.weak],
		(unsigned long long)sim.steps, (unsigned long long)(sim.nr_switches - sim.nr_old),
		(unsigned long long)sim.nr_old, (unsigned long long)sim.now, (unsigned long long)sim.hash);
}

void sim_report(const char *why)
{
	if (!sim_runs())
		return;
	end(why);
	report_switches();
	report_threads();
}

void sim_race(const char *how, unsigned beside, const void *at, const void *pc)
{
	char why[64];
	unsigned i = sim.nr - 1;

	while (i && sim.threads[i]->slot != beside)
		i--;
	snprintf(why, sizeof(why), "a race, %s, of thread %u", how, i);
	me->pc = pc;
	me->object = at;
	sim_report(why);
	_exit(1);
}

/* ---- a run ------------------------------------------------------------------------ */

static void at_exit(void)
{
	if (sim_runs() && getenv("SIM_HASH"))
		end("it has ended");
	stop();
}

/* A function in Check's file that measures a test's time; NULL in a program without Check. */
#pragma weak check_waitpid_and_exit
void check_waitpid_and_exit(int pid);

/* Returns true for Check's code, which needs the real clock: a test may take a simulated year. */
bool sim_is_check(const void *pc)
{
	uintptr_t at = (uintptr_t)check_waitpid_and_exit;

	return at && (uintptr_t)pc - at + CHECK_SIZE < 2 * CHECK_SIZE;
}

void sim_begin(void)
{
	const char *seed = getenv("SIM_SEED");
	cpu_set_t one;
	int cpu = sched_getcpu();

	if (sim.on)
		return;
	/* A turn changes hands in a third of the time if both threads are on one CPU. */
	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : cpu, &one);
	(void)__real_syscall(SYS_sched_setaffinity, 0, sizeof(one), &one);
	sim.seed = seed ? strtoull(seed, NULL, 0) : 1;
	sim.random = sim.seed;
	sim.now = 1000000000u;
	sim.next_timer = SIM_NEVER;
	if (pthread_key_create(&ends, thread_ends))
		abort();
	me = new_thread(NULL, NULL);
	me->id = pthread_self();
	me->tid = getpid();
	draw_the_run();
	memory_weak = sim.weak;
	memory_watch(NULL, SIZE_MAX);
	sim.on = true;
	(void)pthread_atfork(NULL, NULL, stop);
	atexit(at_exit);
}
