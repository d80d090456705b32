/* SPDX-License-Identifier: MIT */
/*
 * Torture: all features of runnel, used concurrently, drawn from a seed; errors are counted.
 *
 * DESIGN
 *	A round has a pool with random attributes, and threads, each in a seat. Makers begin work,
 *	know the results that it may have, and check its end. Meanwhile meddlers cancel, resize,
 *	drain, trace, count and wait. Later the makers wait for their work, or leave it to the pool.
 *	Errors are counted by kind, and the run goes on. A child shares the tally's memory with its
 *	parent, so a crash, or a hang that the watch ended, is counted, too. On the double of the
 *	CUDA runtime, calls fail and are delayed; a child there runs rounds until the device fails
 *	permanently.
 *	Memory whose accesses runnel orders is not atomic, so ThreadSanitizer checks the order.
 *
 *	The table of makers is in round.c. jobs.c uses slots, groups and work; the makers of
 *	jobs that begin each other use lives (life.h). The meddlers are in meddle.c.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <runnel.h>
#include <runnel/kernel.h>

#include "submits.h"

#include "seed.h"
#include "kernel.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS INT64_C(1000000)	/* in ns */
#define SECOND (1000 * MS)

/* ---- options -------------------------------- */

struct options {
	const char *device;
	const char *makers;	/* names with commas; NULL: all */
	double seconds, scale;	/* @scale: factor by which this run is slower than usual */
	uint64_t seed, first_round;
	bool fake;		/* runs on the double of the CUDA runtime */
	bool wrong;		/* compares all data with wrong values */
};
extern struct options options;

void options_parse(int argc, char **argv);

static inline bool on_host(void)
{
	return options.device[0] == 'h';
}

/* Returns a time that is longer than any call or job. */
static inline int64_t long_ns(void)
{
	return (int64_t)(20e9 * options.scale);
}

/*
 * On a simulated machine (tests/sim) a process runs one round. The seed determines the schedule, so
 * no thread is halted; there is one CPU. Calls fail and devices are lost if SIM_FAULTS asks for it.
 * The first error prints the schedule and ends the run.
 */
__attribute__((weak)) void sim_begin(void);
__attribute__((weak)) void sim_report(const char *why);
__attribute__((weak)) bool sim_fault(const char *name);
__attribute__((weak)) unsigned sim_nr_alive(void);

/* Returns true if allocations of the library fail. */
static inline bool memory_lacks(void)
{
	return sim_fault && sim_fault("alloc");
}

/* ---- the tally ------------------------------------------- */

#define WRONGS(X) \
	X(NEVER_ENDED, "accepted jobs that never ended") \
	X(ENDED_TWICE, "jobs that ended more than once") \
	X(RAN_TWICE, "functions that ran more than once") \
	X(RAN_CANCELLED, "jobs that ran, or did not end so, after a cancel that succeeded") \
	X(RAN_REFUSED, "refused jobs that ran, or ended") \
	X(NOT_REFUSED, "jobs accepted after a close") \
	X(DRAINED_EARLY, "drains that returned before the end of a job") \
	X(TOUCHED, "memory written after the end of its job") \
	X(WRONG_END, "results that a job's history does not allow") \
	X(WRONG_DATA, "jobs with wrong data") \
	X(HELD_EARLY, "jobs that were done before the end of their holds") \
	X(HOLD_WRONG, "releases that said what did not happen") \
	X(KEY_ORDER, "jobs out of their key's order") \
	X(MISPLACED, "functions that ran on a device which is not theirs") \
	X(CHAIN_WRONG, "links of chains out of turn") \
	X(ORDER_WRONG, "jobs out of their order, though they came after barriers") \
	X(BARRIER_EARLY, "barriers that were done, or joined, before a job of theirs") \
	X(BARRIER_RESULT, "barriers with a result that none of their jobs has") \
	X(AFTER_EARLY, "jobs that came before the barrier that they are after") \
	X(NOTIFIED_LATE, "jobs that were told long after their end") \
	X(NOTIFIED_EARLY, "jobs that were told before a job of the barrier that they are after") \
	X(STARTED_EARLY, "delayed jobs that started before their time") \
	X(UNDOCUMENTED, "calls that returned what the header does not have") \
	X(CQ_WRONG, "completion queues that lost a job, or had one twice") \
	X(REQUEST_ENDS, "requests that did not end once") \
	X(REQUEST_WRONG, "requests with a wrong result or output") \
	X(MAP_WRONG, "maps with a wrong result, chunk or output") \
	X(MEMORY_SHARED, "buffers that two had at once") \
	X(CLASS_WRONG, "classes that refused, ran or counted jobs wrongly") \
	X(COUNTS, "figures of a pool that do not add up") \
	X(LEAKED, "rounds that left something behind") \
	X(MISUSED, "calls that CUDA would not have forgiven") \
	X(TOO_LATE, "waits that were not woken, rounds that did not end") \
	X(CRASHED, "crashes")

#define COUNTS_OF(X) \
	X(ROUNDS, "rounds") \
	X(JOBS, "jobs") \
	X(RAN, "ran") \
	X(REFUSED, "refused") \
	X(CANCELLED, "cancelled") \
	X(TIMED_OUT, "timed out") \
	X(FAILED, "failed") \
	X(KEYED, "keyed") \
	X(OWN, "on workers of a class") \
	X(PLACED, "placed") \
	X(GATHERED, "that gather") \
	X(IN_GROUPS, "in groups") \
	X(REPLAYED, "replayed") \
	X(NOTICES, "notices") \
	X(DELAYED, "delayed") \
	X(CLASSED, "in classes") \
	X(FULL, "refused by a full class") \
	X(UNCLASSED, "refused by one that ends") \
	X(UNADMITTED, "refused as late") \
	X(AFTER, "after a barrier") \
	X(LINKS, "links of chains") \
	X(HOLDS, "holds") \
	X(REAPED, "reaped") \
	X(CALLBACKS, "callbacks") \
	X(BYTES, "bytes compared") \
	X(BARRIERS, "barriers") \
	X(ORDERED, "ordered") \
	X(NOTIFIED, "notified") \
	X(JOINS, "joins") \
	X(TURNS_TAKEN, "turns") \
	X(REQUESTS, "requests") \
	X(RESIDENT, "answered by leases") \
	X(TAKEN_BACK, "taken back") \
	X(LEASES, "leases") \
	X(MAPS, "maps") \
	X(BUFFERS, "buffers") \
	X(CLASSES, "classes") \
	X(CLASS_ENDS, "classes ended midway") \
	X(RESIZES, "resizes") \
	X(DRAINS, "drains") \
	X(TRACES, "traces") \
	X(CLOSES, "closed midway") \
	X(LEAVES, "destroyed midway") \
	X(GUARDED, "guarded") \
	X(ONE_CPU, "on one CPU") \
	X(SEVERAL, "over several devices") \
	X(FAULTS, "faults") \
	X(DEVICES_LOST, "devices lost")

#define WRONG_NAME(name, text) name,
enum wrong { WRONGS(WRONG_NAME) NR_WRONGS };
#define COUNT_NAME(name, text) NR_##name,
enum count { COUNTS_OF(COUNT_NAME) NR_COUNTS };

struct tally {
	_Atomic uint64_t wrongs[NR_WRONGS], counts[NR_COUNTS];
	_Atomic uint64_t round;		/* the current one */
	_Atomic uint64_t slowest_end_ns; /* from a device's loss to the end of all its jobs */
	_Atomic bool interrupted;
	double began;
};
extern struct tally *tally;

void tally_open(void);
/* Counts an error.  Returns true if it was printed. */
__attribute__((format(printf, 2, 3))) bool tally_wrong(enum wrong wrong, const char *format, ...);
uint64_t tally_nr_wrong(void);
void tally_print(void);			/* the histogram, and a line of totals */
bool is_printed(void);			/* false, after a message: output was not written */

static inline void tally_add(enum count count, uint64_t nr)
{
	atomic_fetch_add_explicit(&tally->counts[count], nr, memory_order_relaxed);
}

/* ---- seats ----------------------------------------------- */

struct round;

/* The reaper stays until the makers' jobs have ended, which is at the latest at the pool's end. */
enum role { MAKES, MEDDLES, REAPS };

/* A thread of a round, and its current activity. */
struct seat {
	const char *name;
	void (*fn)(struct seat *seat);
	struct round *round;
	void *arg;
	enum role role;
	uint64_t random;
	_Atomic(const char *) doing;
	pthread_t thread;
};

#define SEATS_MAX 48
#define PLACES_MAX 4		/* devices of a pool, and of the double */
#define PLACES_NAME 16		/* bytes of their name */
#define WORKERS_MAX 12		/* the attribute's limit is 8; a resize adds more */
#define OWN_MAX 8		/* workers for classes, in addition */

static inline void at(struct seat *seat, const char *doing)
{
	atomic_store_explicit(&seat->doing, doing, memory_order_relaxed);
}

void seat_take(struct round *r, const char *name, enum role role, void (*fn)(struct seat *seat),
	       void *arg);
void seats_join(struct round *r, enum role role);
unsigned seats_nr(const struct round *r, enum role role);
void seats_print(const struct round *r);

/* Halts threads in seats, and workers, as if they were preempted. */
void worker_comes(struct round *r, unsigned worker);
void worker_goes(struct round *r, unsigned worker);
void halts_begin(struct round *r);
void halts_end(void);			/* if there are halts */

/* ---- a round ----------------------------- */

enum faults { NO_FAULTS, SOME_CALLS, THE_DEVICE };

struct round {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	uint64_t number, random;
	enum faults faults;
	bool guarded;
	bool calm;			/* producers pause, so workers sleep and must be woken */
	bool leaves;			/* makers end, and the pool's destruction ends their jobs */
	bool one_cpu;
	char device[PLACES_NAME];	/* of the pool: one or several */
	unsigned nr_devices;
	unsigned nr_class_workers;	/* workers that classes may have */
	bool all_gather;		/* else half of the jobs gather */
	_Atomic int nr_hooked;		/* workers between on_start and on_stop */
	struct {
		pthread_mutex_t lock;
		uint64_t serve;		/* bit mask of hooked workers */
		pthread_t threads[RNL_WORKERS_MAX];
	} workers;
	_Atomic bool stop;		/* makers: begin no more work */
	_Atomic bool shut;		/* closed, or will be soon */
	_Atomic bool closed;		/* a call that closes it has returned */
	_Atomic bool failing;		/* the device has failed, or will soon */
	_Atomic bool over;		/* meddlers: end */
	_Atomic bool reaped;		/* reaper: end */
	_Atomic unsigned nr_stopped;	/* makers that begin no more work */
	_Atomic uint64_t accepted, ended, failed, cancelled, timed_out;
	_Atomic uint64_t gathered;	/* jobs that gather, and ran */
	_Atomic uint64_t failed_at_ns;	/* when the device failed; 0: not failed */
	struct rnl_batcher *batcher;
	struct batch *batch;
	struct mail *mail;
	_Atomic bool others;		/* maps or batches: the pool has other jobs, too */
	struct holders *holders;
	struct crowd *crowd;
	struct jobs *jobs;
	struct classes *classes;	/* NULL: none */
	struct kept *kept;
	_Atomic(struct life *) lives;	/* all jobs with records */
	_Atomic unsigned nr_lives;
	_Atomic unsigned nr_seats;
	struct seat seats[SEATS_MAX];
};

enum may { MAY_AGAIN = 1, MAY_TIME_OUT = 2, MAY_SHUT = 4, MAY_LACK = 8, MAY_BUSY = 16 };

/* Returns @ret; if it is negative and not in @may (bits of enum may), counts an error. */
int said(struct round *r, int ret, unsigned may, const char *call);
/* Returns true if a fault may have caused this result of a job, a batch or a map. */
bool may_end_so(const struct round *r, int result);

/* Returns zeroed memory, which is freed at the round's end. */
void *round_alloc(struct round *r, size_t bytes);
/* Returns zeroed memory. */
void *must_alloc(size_t bytes);
/* Returns memory of the pool, on a device or RNL_PINNED; NULL: there is none. */
void *memory_get(struct round *r, unsigned where, size_t bytes);
/* Returns a buffer, of the pool if *@pinned; clears *@pinned if the pool has none. */
void *buffer_get(struct round *r, size_t bytes, bool *pinned);
void buffer_put(struct round *r, void *buf, bool pinned);
/* Makes a completion queue; tries again while allocations fail. */
struct rnl_cq *cq_make(struct round *r);
void barrier_make(struct round *r, struct rnl_barrier *barrier);
const char *maker_name(unsigned i);	/* NULL: after the last one */
/* Runs a round. Returns false if this process cannot run another one. */
bool round_run(uint64_t number);

uint64_t now_ns(void);
void nap_us(unsigned us);
/* Draws whether a job gathers.  The job must issue by rnl_ calls, and not wait for other jobs. */
static inline bool draw_gather(const struct round *r, uint64_t *random)
{
	return draw(random, 2) || r->all_gather;
}
/* Sometimes yields or sleeps, like a slow function or callback. */
void dawdle(uint64_t *random);
/* Limits the current work to @ns from now; 0: no limit. @r may be NULL. */
void watch(struct round *r, int64_t ns);
/* Ends the process: some work did not end. */
_Noreturn void give_up(struct round *r, const char *why);

/* ---- places ---------------------------------------------- */

void places_draw(struct round *r);		/* the devices of a round */
void places_name_all(char name[PLACES_NAME]);	/* the devices that rounds may have */
int place_draw(const struct round *r, uint64_t *random); /* a device for a job, or -1 */
uint64_t places_draw_some(const struct round *r, uint64_t *random); /* bits, or 0: all */
void place_set(struct rnl_job *job, int place);
/* Called by a job: check its device. Any device of the pool is right for -1, or for 0 bits. */
void place_check(const struct round *r, int place, const char *what);
void places_check(const struct round *r, uint64_t devices, const char *what);

/* ---- faults of the double -------------------------------- */

void faults_prepare(uint64_t *random);	/* before the first call of CUDA in this process */
void faults_begin(struct round *r);	/* calls may be delayed from here on */
void faults_end(struct round *r);
void faults_meddle(struct seat *seat);
void leaks_expect(void);		/* objects that exist now may stay */
void leaks_check(struct round *r);

/* ---- a job's work on the device --------------------------- */

struct work {
	enum what { NOTHING, FAILS, COPIES, ROWS, FILLS, MIXES, NR_WHATS } what;
	uint32_t bytes, rows, dawdle_us;
	uint64_t seed;
	bool looks;		/* gets the stream after its first copy is issued */
	bool pinned_in, pinned_out;
	unsigned char *in, *out;
	unsigned char *left;	/* an earlier job's output, overwritten at that job's end */
	uint32_t left_bytes;
};

void work_begin(struct work *w, struct round *r, uint64_t *random);
int work_issue(const struct work *w);
int work_result(const struct work *w);	/* the function's result if no call failed */
bool work_right(const struct work *w, bool ran); /* right output? untouched if not @ran */
void work_end(struct work *w, struct round *r);
void work_forget(struct work *w);	/* after its end: checks that nothing was written since */

/* A kernel for the host device and the double: stores the value of a word, or the time. */
struct note_args {
	_Atomic uint64_t *to;
	const _Atomic uint64_t *from;	/* NULL: the time */
};
extern const struct rnl_kernel note_kernel;

static inline unsigned char byte_of(uint64_t seed, size_t i)
{
	return (unsigned char)((seed * 8191 + i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* ---- makers and meddlers ----------------------------------------------------- */

/* *_begin() takes seats. *_end() is called after their threads have ended, also without a pool. */
void jobs_begin(struct round *r);
void jobs_end(struct round *r);
void jobs_check_drained(struct round *r);
void jobs_print(const struct round *r);	/* the records of unfinished jobs */
void jobs_cancel_some(struct round *r, uint64_t *random);
void batch_begin(struct round *r);
void batch_end(struct round *r);	/* before the pool's end */
void mail_begin(struct round *r);
void mail_end(struct round *r);		/* likewise */
void chains_begin(struct round *r);
void holds_begin(struct round *r);
void holds_end(struct round *r);
void crowds_begin(struct round *r);
void crowds_end(struct round *r);
void links_begin(struct round *r);
void fans_begin(struct round *r);
void passing_begin(struct round *r);
void turns_begin(struct round *r);
void echoes_begin(struct round *r);
void late_begin(struct round *r);
void due_begin(struct round *r);
void map_begin(struct round *r);
void memory_begin(struct round *r);
void meddle_begin(struct round *r);
void classes_begin(struct round *r);	/* before the makers */
void classes_check_drained(struct round *r);
void classes_print(const struct round *r); /* the records of classes with jobs */
void classes_end(struct round *r);	/* before the pool's end */

#endif /* TORTURE_H */
