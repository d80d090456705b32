/* SPDX-License-Identifier: MIT */
/* In a sandbox that refuses system calls, a call fails with a listed errno and logs the reason. */
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "heard.h"
#include "refuse.h"
#include "sanitizers.h"

SUITE_FORKS

/* Children start threads, and exit while a pool exists. */
SANITIZER_OPTIONS("die_after_fork=0:detect_leaks=0");

static const int refusals[] = { EPERM, ENOSYS, EACCES };

#ifdef SYS_clone
#define SYS_CLONE SYS_clone
#else
#define SYS_CLONE -1
#endif

#ifdef SYS_open
#define SYS_open_or_openat SYS_open
#else
#define SYS_open_or_openat SYS_openat
#endif

static struct heard heard;

/* An assertion in a child: its failure is the child's exit status. */
#define child_assert(condition) \
	do { \
		if (!(condition)) { \
			dprintf(2, "%s:%d: not so: %s\nheard: %s", __FILE__, __LINE__, #condition, \
				heard.text); \
			return __LINE__ % 255; \
		} \
	} while (0)

static struct rnl_pool_attr attr_of(unsigned nr_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	attr.device = test_device();
	attr.nr_workers = nr_workers;
	rnl_set_log(hear_line, &heard);
	return attr;
}

static bool works(struct rnl_pool *pool)
{
	struct rnl_job job;

	return !rnl_job_init(&job, noop_fn) && !rnl_submit(pool, &job) &&
	       !rnl_job_wait(&job, RNL_FOREVER) && !job.result;
}

/* ---- threads ---------------------------------------------------------------- */

static int create_without_threads(void)
{
	struct rnl_pool_attr attr = attr_of(2);
	struct rnl_pool *pool = NULL;

	child_assert(rnl_pool_create(&pool, &attr) == -ENOTSUP);
	child_assert(!pool);
	child_assert(has_heard(&heard, "thread") && has_heard(&heard, "seccomp"));
	return 0;
}

TEST(a_pool_without_threads_is_not_supported, .loops = COUNT(refusals))
{
	if (!on_host() && !test_fake())
		test_skip("CUDA itself needs threads");
	ck_refused(refusals[_i], create_without_threads, SYS_clone3, SYS_CLONE, -1);
}

static struct rnl_pool *pool;	/* made before the calls are refused */

static int use_pool_without_threads(void)
{
	struct rnl_trace_attr trace = RNL_TRACE_ATTR_INIT;
	char path[] = "/tmp/rnl-sandbox-XXXXXX";
	int fd = mkstemp(path);

	child_assert(fd >= 0);
	child_assert(rnl_pool_resize(pool, 3) == -ENOTSUP);
	child_assert(has_heard(&heard, "thread") && has_heard(&heard, "seccomp"));
	heard.bytes = 0;
	heard.text[0] = '\0';
	child_assert(rnl_trace_start(pool, path, &trace) == -ENOTSUP);
	child_assert(has_heard(&heard, "thread"));
	heard.bytes = 0;
	heard.text[0] = '\0';
	unlink(path);
	if (on_host()) {
		child_assert(rnl_thread_attach(pool) == -ENOTSUP);
		child_assert(has_heard(&heard, "thread"));
	}
	child_assert(works(pool));
	close(fd);
	return 0;
}

/* The filter is only the calling thread's, because the pool's threads are older. */
TEST(a_pool_that_gets_no_more_threads_works_on, .loops = COUNT(refusals))
{
	struct rnl_pool_attr attr = attr_of(1);
	const long numbers[REFUSED_MOST] = { SYS_clone3, SYS_CLONE, -1 };
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (rnl_pool_create(&pool, &attr) || !works(pool))
			_exit(1);
		_exit(refuse(refusals[_i], numbers) ? use_pool_without_threads() : NO_FILTER);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER)
		test_skip("no seccomp filters here");
	ck_assert_int_eq(status, 0);
}

/* ---- other calls ------------------------------------------------------------ */

static int create_queue_without_eventfd(void)
{
	struct rnl_pool_attr attr = attr_of(1);
	struct rnl_cq *cq = NULL;

	(void)attr;
	child_assert(rnl_cq_create(&cq) == -ENOTSUP);
	child_assert(!cq);
	child_assert(has_heard(&heard, "rnl_cq_create()") && has_heard(&heard, "eventfd2"));
	return 0;
}

TEST(a_completion_queue_without_eventfd_is_not_supported, .loops = COUNT(refusals))
{
	ck_refused(refusals[_i], create_queue_without_eventfd, SYS_eventfd2, -1);
}

static int create_without_sysinfo(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_attr attr = attr_of(2);
	struct rnl_pool *own = NULL;
	void *mem;

	child_assert(!rnl_pool_create(&own, &attr));
	child_assert(!rnl_memory_get(own, RNL_PINNED, 1 << 20, &mem, 0));
	rnl_memory_put(own, mem);
	child_assert(works(own));
	child_assert(!rnl_device_describe(NULL, "host", 0, &info));
	child_assert(!info.memory_bytes);
	rnl_pool_destroy(own);
	return 0;
}

/* Without sysinfo() the size of the memory is unknown. */
TEST(a_pool_does_without_sysinfo, .loops = COUNT(refusals))
{
	ck_refused(refusals[_i], create_without_sysinfo, SYS_sysinfo, -1);
}

static int create_without_affinity(void)
{
	static const uint16_t cpus[] = { 0 };
	struct rnl_pool_attr attr = attr_of(2);
	struct rnl_pool *own = NULL;

	attr.cpus = cpus;
	attr.nr_cpus = 1;
	child_assert(rnl_pool_create(&own, &attr) == -ENOTSUP);
	child_assert(has_heard(&heard, "sched_setaffinity"));
	attr.cpus = NULL;
	attr.nr_cpus = 0;
	attr.nr_workers = 0;
	child_assert(!rnl_pool_create(&own, &attr));
	child_assert(works(own));
	rnl_pool_destroy(own);
	return 0;
}

TEST(a_worker_that_may_not_choose_its_cpu_is_not_supported, .loops = COUNT(refusals),
     .not_simulated = "cpusets")
{
	/* A sanitizer's threads call sched_getaffinity(). */
	ck_refused(refusals[_i], create_without_affinity, SYS_sched_setaffinity,
		   SANITIZED ? -1 : SYS_sched_getaffinity, -1);
}

/* ---- rnl_setup() ------------------------------------------------------------ */

#define VARIABLE "CUDA_DEVICE_MAX_CONNECTIONS"

static int set_up_alone(void)
{
	unsetenv(VARIABLE);
	child_assert(!rnl_setup());
	child_assert(getenv(VARIABLE) && !strcmp(getenv(VARIABLE), "32"));
	return 0;
}

static int set_up_beside_a_thread(void)
{
	struct rnl_pool_attr attr = attr_of(1);
	struct rnl_pool *own;

	unsetenv(VARIABLE);
	attr.device = "host";
	child_assert(!rnl_pool_create(&own, &attr));
	child_assert(rnl_setup() == -EBUSY);
	child_assert(!getenv(VARIABLE));
	child_assert(has_heard(&heard, "other threads run"));
	return 0;
}

static int set_up_blind(void)
{
	(void)attr_of(1);
	unsetenv(VARIABLE);
	child_assert(rnl_setup() == -ENOTSUP);
	child_assert(!getenv(VARIABLE));
	child_assert(has_heard(&heard, "rnl_setup()") && has_heard(&heard, "/proc"));
	setenv(VARIABLE, "9", 1);
	child_assert(!rnl_setup());
	return 0;
}

/* Like a system on which /proc is not mounted. */
TEST(setup_sees_threads_without_proc)
{
	if (SANITIZED)
		test_skip("a sanitizer runs a thread of its own");
	ck_refused(ENOENT, set_up_alone, SYS_openat, SYS_open_or_openat, -1);
	ck_refused(ENOENT, set_up_beside_a_thread, SYS_openat, SYS_open_or_openat, -1);
	ck_refused(ENOENT, set_up_blind, SYS_openat, SYS_open_or_openat, SYS_unshare, -1);
}
