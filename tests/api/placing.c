/* SPDX-License-Identifier: MIT */
/* The workers' threads: their names, CPUs and signal masks. */
#define _GNU_SOURCE		/* cpu_set_t */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <runnel/kernel.h>

#include "host_kernel.h"
#include "pool.h"
#include "threads.h"

/* ---- names --------------------------------------------------------------- */

struct naming {
	struct rnl_job job;
	struct gate *gate;
	char name[64];
};

static int naming_fn(struct rnl_job *job)
{
	struct naming *n = rnl_container_of(job, struct naming, job);

	prctl(PR_GET_NAME, n->name);
	gate_wait(n->gate);
	return rnl_worker().index;
}

/* Checks that the pool's @nr workers, and no other threads, are called @prefix-INDEX. */
static void check_names(struct rnl_pool *pool, const char *prefix, unsigned nr)
{
	struct gate gate = GATE_INIT;
	struct naming naming[64];
	char name[64];

	for (unsigned i = 0; i < nr; i++) {
		naming[i].gate = &gate;
		submit_job(pool, &naming[i].job, naming_fn, NULL);
	}
	gate_await(&gate, nr);
	for (unsigned i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "%s-%u", prefix, i);
		ck_eventually(nr_threads_named(name) == 1);
		snprintf(name, sizeof(name), "%s:%u", prefix, i);
		ck_eventually(nr_threads_named(name) == on_host());
	}
	snprintf(name, sizeof(name), "%s-%u", prefix, nr);
	ck_eventually(nr_threads_named(name) == 0);
	gate_open(&gate);
	for (unsigned i = 0; i < nr; i++) {
		int worker = result_of(&naming[i].job);

		snprintf(name, sizeof(name), "%s-%d", prefix, worker);
		ck_assert_str_eq(naming[i].name, name);
	}
}

TEST(threads_have_the_pools_name_of_which_twelve_bytes_are_used)
{
	static const struct {
		const char *name, *prefix;
		unsigned nr_workers;
	} rows[] = {
		{ NULL, "rnl-worker", 3 },
		{ "web", "web", 2 },
		{ "x", "x", 1 },
		{ "a b/c", "a b/c", 2 },
		{ "twelve-bytes", "twelve-bytes", 12 },
		{ "thirteen-bytes", "thirteen-byt", 2 },
		{ "\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e", "\u65e5\u672c\u8a9e\u65e5", 2 },
		{ "a\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", "a\u00e9\u00e9\u00e9\u00e9\u00e9", 2 },
		{ "caf\xe9 \U0001f600", "caf? \U0001f600", 2 },	/* not UTF-8 */
		{ "a name that is much longer than any thread's may be, and than 64 bytes, too",
		  "a name that ", 64 },
	};

	for (unsigned i = 0; i < COUNT(rows); i++) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
		struct rnl_pool *pool;
		char name[128];

		if (rows[i].name)
			attr.name = strcpy(name, rows[i].name);
		pool = pool_with(&attr, rows[i].nr_workers);
		memset(name, 'z', sizeof(name));	/* it was copied */
		check_names(pool, rows[i].prefix, rows[i].nr_workers);
		if (rows[i].nr_workers < 4) {		/* also workers that start later */
			must(rnl_pool_resize(pool, 4));
			check_names(pool, rows[i].prefix, 4);
		}
		rnl_pool_destroy(pool);
	}
}

/* ---- CPUs ---------------------------------------------------------------- */

/* Stores the CPUs that this process may run on.  Returns their number. */
static unsigned allowed_cpus(uint16_t *cpus, unsigned max)
{
	cpu_set_t set;
	unsigned nr = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && nr < max; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[nr++] = (uint16_t)cpu;
	}
	return nr;
}

/* Returns the only CPU that the calling thread may run on, or -1 if there are several. */
static int only_cpu(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) != 1)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set))
			return cpu;
	}
	return -1;
}

struct placed {
	struct rnl_job job;
	struct gate *gate;
	int of_worker, of_executor;
};

static void only_cpu_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	**(int *const *)args = only_cpu();
}
RNL_HOST_KERNEL(only_cpu_kernel, only_cpu_host, int *);

static int placed_fn(struct rnl_job *job)
{
	struct placed *p = rnl_container_of(job, struct placed, job);
	const struct rnl_dim one = { 1, 1, 1 };
	int *const arg = &p->of_executor;
	int ret = on_host() ? rnl_launch(&only_cpu_kernel, one, one, &arg) : 0;

	p->of_worker = only_cpu();
	gate_wait(p->gate);
	return ret ? ret : rnl_worker().index;
}

static void check_placed(struct rnl_pool *pool, unsigned nr, const uint16_t *cpus, unsigned nr_cpus)
{
	struct gate gate = GATE_INIT;
	struct placed placed[8];

	for (unsigned i = 0; i < nr; i++) {
		placed[i] = (struct placed){ .gate = &gate, .of_executor = -2 };
		submit_job(pool, &placed[i].job, placed_fn, NULL);
	}
	gate_await(&gate, nr);
	gate_open(&gate);
	for (unsigned i = 0; i < nr; i++) {
		int worker = result_of(&placed[i].job), cpu;

		ck_assert_int_ge(worker, 0);
		cpu = cpus[(unsigned)worker % nr_cpus];
		ck_assert_int_eq(placed[i].of_worker, cpu);
		if (on_host())
			ck_assert_int_eq(placed[i].of_executor, cpu);
	}
}

TEST(workers_and_their_host_streams_run_on_the_cpus_that_they_were_given,
     .not_simulated = "cpusets")
{
	cpu_set_t before, after;
	uint16_t allowed[2], cpus[6], copy[6];
	unsigned nr = allowed_cpus(allowed, 2);

	/* A list with fewer CPUs than workers, and one with more, which repeats CPUs. */
	for (unsigned nr_cpus = 1; nr_cpus <= 6; nr_cpus += 5) {
		struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
		struct rnl_pool *pool;

		for (unsigned i = 0; i < nr_cpus; i++)
			copy[i] = cpus[i] = allowed[i % 3 % nr];
		attr.cpus = copy;
		attr.nr_cpus = nr_cpus;
		ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
		pool = pool_with(&attr, 3);
		memset(copy, 0xff, sizeof(copy));	/* it was copied */
		check_placed(pool, 3, cpus, nr_cpus);
		must(rnl_pool_resize(pool, 5));
		check_placed(pool, 5, cpus, nr_cpus);
		rnl_pool_destroy(pool);
		/* The caller's CPUs are unchanged. */
		ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
		ck_assert(CPU_EQUAL(&before, &after));
	}
}

TEST(cpus_that_are_none_of_the_process_are_refused, .not_simulated = "cpusets")
{
	uint16_t cpus[2];
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	ck_assert_uint_ge(allowed_cpus(cpus, 1), 1);
	cpus[1] = cpus[0];
	attr.device = test_device();
	attr.nr_workers = 2;
	attr.cpus = cpus;
	attr.nr_cpus = 2;
	for (int i = 0; i < 2; i++) {
		uint16_t good = cpus[i];

		cpus[i] = UINT16_MAX;
		ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
		cpus[i] = CPU_SETSIZE - 1;	/* more CPUs than any machine has */
		ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
		cpus[i] = good;
	}
	attr.cpus = NULL;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
	ck_assert_ptr_null(pool);
	attr.cpus = cpus;
	must(rnl_pool_create(&pool, &attr));
	rnl_pool_destroy(pool);
}

/* ---- signals ------------------------------------------------------------- */

enum { IN_START, IN_JOB, IN_CALLBACK, IN_STOP, PLACES };

struct masks {
	sigset_t masks[PLACES];
	_Atomic unsigned seen;		/* bits of the places */
	unsigned worker;		/* the worker in each place */
};
static struct masks masks;

static void keep_mask(int place)
{
	pthread_sigmask(SIG_SETMASK, NULL, &masks.masks[place]);
	atomic_fetch_or(&masks.seen, 1u << place);
}

static int start(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)datap;
	if (worker == masks.worker)
		keep_mask(IN_START);
	return 0;
}

static void stop(void *arg, unsigned worker, void *data)
{
	(void)arg;
	(void)data;
	if (worker == masks.worker)
		keep_mask(IN_STOP);
}

static int mask_fn(struct rnl_job *job)
{
	(void)job;
	keep_mask(IN_JOB);
	return 0;
}

static void callback(struct rnl_job *job)
{
	(void)job;
	keep_mask(IN_CALLBACK);
}

TEST(signals_to_the_process_are_blocked_in_jobs_callbacks_and_hooks)
{
	const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF };
	sigset_t before, after, unblocked;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;

	sigemptyset(&unblocked);
	for (unsigned i = 0; i < COUNT(open); i++)
		sigaddset(&unblocked, open[i]);
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	attr.on_start = start;
	attr.on_stop = stop;
	for (unsigned round = 0; round < 2; round++) {
		masks = (struct masks){ .worker = round };
		pool = pool_with(&attr, 1);
		job_of(&job, mask_fn, NULL);
		must(rnl_job_set_on_done(&job, callback));
		/* Workers that a resize starts have the same mask. */
		if (round) {
			must(rnl_pool_resize(pool, 2));
			must(submit_by_key(pool, &job, key_on(pool, 1)));
		} else {
			must(rnl_submit(pool, &job));
		}
		must(rnl_pool_drain(pool, RNL_FOREVER));
		rnl_pool_destroy(pool);
		ck_assert_uint_eq(masks.seen, (1u << PLACES) - 1);
		for (int sig = 1; sig <= SIGRTMAX; sig++) {
			if (sig == SIGKILL || sig == SIGSTOP || (sig >= 32 && sig < SIGRTMIN))
				continue;
			for (int place = 0; place < PLACES; place++)
				ck_assert_msg(sigismember(&masks.masks[place], sig) ==
					      !sigismember(&unblocked, sig),
					      "mask of signal %d in place %d", sig, place);
		}
	}
	/* The caller keeps its mask. */
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		ck_assert_int_eq(sigismember(&after, sig), sigismember(&before, sig));
}

static struct {
	volatile int *page;
	size_t bytes;
	pthread_t thread;
} fault;

static void open_page(int sig)
{
	(void)sig;
	fault.thread = pthread_self();
	mprotect((void *)(uintptr_t)fault.page, fault.bytes, PROT_READ | PROT_WRITE);
}

static int fault_fn(struct rnl_job *job)
{
	*fault.page = 7;
	*(pthread_t *)job->user = pthread_self();
	return 0;
}

TEST(a_fault_in_a_job_calls_the_applications_handler_on_the_worker)
{
	struct sigaction action = { .sa_handler = open_page }, before;
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;
	pthread_t worker;

	fault.bytes = (size_t)sysconf(_SC_PAGESIZE);
	fault.page = mmap(NULL, fault.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne((void *)(uintptr_t)fault.page, MAP_FAILED);
	must(sigaction(SIGSEGV, &action, &before));
	submit_job(pool, &job, fault_fn, &worker);
	ck_assert_int_eq(result_of(&job), 0);
	must(sigaction(SIGSEGV, &before, NULL));
	ck_assert_int_eq(*fault.page, 7);
	ck_assert(pthread_equal(fault.thread, worker));
	munmap((void *)(uintptr_t)fault.page, fault.bytes);
	rnl_pool_destroy(pool);
}
