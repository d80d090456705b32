/* SPDX-License-Identifier: MIT */
/* Tries all calls of one operation; countdown.h has the design. */
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <runnel/thread.h>

#include "fake_cudart/fake_cudart.h"
#include "await.h"
#include "calls.h"
#include "countdown.h"
#include "sanitizers.h"

#pragma weak fake_calls
#pragma weak fake_fail
#pragma weak fake_function
#pragma weak fake_last_misuse
#pragma weak fake_misuses
#pragma weak fake_plan

#define NTH_MOST 2000
#define FUNCTIONS_MOST 100
#define EVERY_CALL_S 240		/* after this time a busy machine tries fewer calls */

/* cudaError_t of a failing call, and of a failing device */
enum { OUT_OF_MEMORY = 2, ILLEGAL_ADDRESS = 700 };

/* the fault; CANCEL: no call fails, but the thread has a cancel pending */
struct fault {
	enum { NO_FAULT, CANCEL, LIBC, LIBC_AND_AFTER, CUDA, CUDA_STICKY } how;
	enum call_kind kind;		/* for LIBC... */
	unsigned function;		/* for CUDA...: the double's number */
	long nth;
};

/* A try's report, in memory shared with the process that waits for it. */
struct notified {
	long nr_failed;
	uint64_t calls[FUNCTIONS_MOST];
	char said[500];
};
static struct notified *notified;
static struct fault now;

int fault(void)
{
	switch (now.how) {
	case LIBC:
	case LIBC_AND_AFTER:
		return -call_names[now.kind].error;
	case CUDA:
		return -ENOMEM;
	case CUDA_STICKY:
		return -EIO;
	default:
		return 0;
	}
}

bool fault_lasts(void)
{
	return now.how == CUDA_STICKY;
}

void unexpected(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(notified->said, sizeof(notified->said), format, args);
	va_end(args);
	_exit(EXIT_FAILURE);
}

/* ---- one try, in its process --------------------------------------------------------- */

static void begin_to_fail(void)
{
	for (unsigned i = 0; test_fake() && fake_function(i); i++)
		notified->calls[i] = fake_calls(fake_function(i));
	if (now.how == LIBC || now.how == LIBC_AND_AFTER)
		calls_fail(now.kind, now.nth, now.how == LIBC_AND_AFTER);
	else if (now.how == CANCEL)
		pthread_cancel(pthread_self());
	else if (now.how != NO_FAULT)
		expect(!fake_fail(fake_function(now.function), (unsigned)now.nth,
				  fault_lasts() ? ILLEGAL_ADDRESS : OUT_OF_MEMORY, fault_lasts()));
}

static void cease_to_fail(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	notified->nr_failed = calls_stop();
	if (!test_fake())
		return;
	expect(!fake_plan("nofail"));
	for (unsigned i = 0; fake_function(i); i++)
		notified->calls[i] = fake_calls(fake_function(i)) - notified->calls[i];
	if (now.how == CUDA || now.how == CUDA_STICKY)
		notified->nr_failed = notified->calls[now.function] >= (uint64_t)now.nth;
}

static bool is_one_of(int ret, const int *errnos)
{
	for (unsigned i = 0; i < NR_ERRNOS; i++) {
		if (errnos[i] == ret)
			return true;
	}
	return false;
}

static void check_return(const struct operation *operation, int ret)
{
	if (ret >= 0)
		return;
	expect_msg(notified->nr_failed, "returned %s, though nothing failed", rnl_strerror(ret));
	expect_msg(is_one_of(ret, operation->errnos), "returned %d, %s, which is not documented",
		   ret, rnl_strerror(ret));
	expect_msg(ret == fault() || is_one_of(ret, operation->instead),
		   "returned %d, %s, which is not what failed", ret, rnl_strerror(ret));
}

/* A failed call that frees leaves its object; a failed device leaves all objects. */
static bool may_leave(void)
{
	const char *name = now.how == CUDA ? fake_function(now.function) : "";

	return fault_lasts() || strstr(name, "Destroy") || strstr(name, "Free");
}

static void check_left(const struct operation *operation, const struct living *before)
{
	struct living left;

	living_now(&left);
	expect_msg(left.threads == before->threads, "%ld threads were left",
		   left.threads - before->threads);
	expect_msg(left.detached == before->detached || fault_lasts(), "a thread was detached");
	expect_msg(left.descriptors == before->descriptors, "%ld descriptors were left",
		   left.descriptors - before->descriptors);
	expect_msg(left.mappings == before->mappings, "%ld mappings were left",
		   left.mappings - before->mappings);
	expect_msg(left.memory >= before->memory &&
		   left.memory <= before->memory + (long)operation->keeps,
		   "%ld pieces of memory were left", left.memory - before->memory);
	if (may_leave())
		return;
	expect_msg(left.events == before->events && left.graphs == before->graphs,
		   "%u events and %u graphs were left", left.events - before->events,
		   left.graphs - before->graphs);
	expect_msg(left.greens == before->greens, "%u green contexts were left",
		   left.greens - before->greens);
	expect_msg(left.device_bytes == before->device_bytes &&
		   left.pinned_bytes == before->pinned_bytes, "CUDA's memory was left");
	/* The library keeps a memory pool and a stream for each device. */
	if (operation->first)
		expect_msg(left.streams == left.pools && left.pools <= 1, "a stream was left");
	else
		expect_msg(left.streams == before->streams && left.pools == before->pools,
			   "%u streams were left", left.streams - before->streams);
}

const char *two_devices(void)
{
	return strcmp(test_device(), "host") ? "cuda:all" : "host:2";
}

static struct rnl_pool *pool_for(const struct operation *operation)
{
	struct rnl_pool_attr attr = operation->attr;
	struct rnl_pool *pool = NULL;
	int ret;

	attr.size = sizeof(attr);
	attr.device = operation->several ? two_devices() : test_device();
	if (!attr.nr_workers)
		attr.nr_workers = operation->several ? 2 : 1;
	if (!attr.max_in_flight)
		attr.max_in_flight = 4;
	attr.spin_us = -1;
	if (attr.guard)
		watched_twice();
	ret = rnl_pool_create(&pool, &attr);
	expect_msg(!ret, "no pool: %s", rnl_strerror(ret));
	return pool;
}

/* Makes the objects that a process keeps; on the double also this thread's stream. */
static void warm_up(bool several)
{
	struct rnl_pool *pool = pool_for(&(struct operation){ .name = "", .several = several });
	int word = 0;

	expect(!rnl_thread_attach(pool) && !launch_word(&word, 1));
	rnl_thread_attach(NULL);
	expect(word == 1);
	expect_works(pool);
	hold_once(pool);
	rnl_pool_destroy(pool);
}

/* Called if the thread ends in a call that is a cancellation point. */
static void was_cancelled(void *unused)
{
	(void)unused;
	unexpected("it is a cancellation point");
}

static int run_failing(const struct operation *operation, struct rnl_pool **pool)
{
	int ret;

	pthread_cleanup_push(was_cancelled, NULL);
	begin_to_fail();
	ret = operation->run(pool);
	cease_to_fail();
	pthread_cleanup_pop(0);
	return ret;
}

static void try_once(const struct operation *operation)
{
	struct rnl_pool *pool = NULL;
	struct living before;
	bool used = false;
	int ret;

	signal(SIGALRM, SIG_DFL);	/* Check's handler would end all tries */
	alarm((unsigned)PATIENCE_S);
	if (test_fake() && operation->plan)
		expect(!fake_plan(operation->plan));
	if (test_fake() && operation->several)
		expect(!fake_plan("devices=2"));
	if (!operation->first)
		warm_up(operation->several);
	living_now(&before);
	if (!operation->bare)
		pool = pool_for(operation);
	if (operation->before)
		operation->before(pool);
	ret = run_failing(operation, &pool);
	check_return(operation, ret);
	if (operation->after)
		operation->after(pool, ret);
	if (pool)
		expect(!rnl_pool_drain(pool, RNL_FOREVER));
	watched_verify();
	if (pool && !operation->closes) {
		if (notified->nr_failed && fault_lasts())
			expect_fails(pool);
		else
			expect_works(pool);
		used = true;
	}
	rnl_pool_destroy(pool);
	check_left(operation, &before);
	if (!used && !(notified->nr_failed && fault_lasts())) {
		pool = pool_for(&(struct operation){ .name = "" });
		expect_works(pool);
		rnl_pool_destroy(pool);
	}
	if (test_fake())
		expect_msg(!fake_misuses(), "misused CUDA: %s", fake_last_misuse());
}

/* ---- all tries ------------------------------------------------------------------------- */

static void describe(const struct fault *f, char *text, size_t bytes)
{
	static const char *const how[] = {
		[CANCEL] = "", [LIBC] = "", [LIBC_AND_AFTER] = " and all after it", [CUDA] = "",
		[CUDA_STICKY] = ", and the device",
	};

	if (f->how == NO_FAULT)
		snprintf(text, bytes, "without a fault");
	else if (f->how == CANCEL)
		snprintf(text, bytes, "a cancel is pending");
	else
		snprintf(text, bytes, "%s %ld%s fails", f->how == LIBC || f->how == LIBC_AND_AFTER ?
			 call_names[f->kind].name : fake_function(f->function), f->nth, how[f->how]);
}

static void attempt(const struct operation *operation, const struct fault *f)
{
	char what[120];
	int status;
	pid_t pid;

	memset(notified, 0, sizeof(*notified));
	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		now = *f;
		try_once(operation);
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (!status)
		return;
	describe(f, what, sizeof(what));
	if (WIFSIGNALED(status))
		ck_abort_msg("%s, when %s: %s %s", operation->name, what,
			     WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)),
			     notified->said);
	ck_abort_msg("%s, when %s: %s", operation->name, what, notified->said);
}

/* Returns true if tries take long: with a sanitizer, or on a machine with much other work. */
static bool takes_long(struct counts *counts)
{
	counts->in_steps = counts->in_steps || SANITIZED ||
			   seconds_now() - counts->began_s > EVERY_CALL_S;
	return counts->in_steps;
}

/* Returns the number of failed calls.  If a try takes long, later calls are tried in steps. */
static unsigned try_each(const struct operation *operation, struct fault f, struct counts *counts)
{
	unsigned nr = 0;

	for (f.nth = 1;; f.nth += takes_long(counts) ? 1 + f.nth / 2 : 1) {
		ck_assert_msg(f.nth < NTH_MOST, "%s does not end", operation->name);
		attempt(operation, &f);
		if (!notified->nr_failed)
			return nr;
		nr++;
	}
}

void count_down(const struct operation *operation, struct counts *counts)
{
	unsigned libc[NR_CALL_KINDS], after, cuda = 0, sticky = 0, sum;
	uint64_t calls[FUNCTIONS_MOST];

	notified = mmap(NULL, sizeof(*notified), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	ck_assert(notified != MAP_FAILED);
	attempt(operation, &(struct fault){ NO_FAULT, 0, 0, 0 });
	memcpy(calls, notified->calls, sizeof(calls));
	attempt(operation, &(struct fault){ CANCEL, 0, 0, 0 });
	sum = after = try_each(operation, (struct fault){ LIBC_AND_AFTER, CALL_MEMORY, 0, 0 }, counts);
	for (unsigned kind = 0; kind < NR_CALL_KINDS; kind++) {
		libc[kind] = try_each(operation, (struct fault){ LIBC, kind, 0, 0 }, counts);
		sum += libc[kind];
	}
	for (unsigned i = 0; i < FUNCTIONS_MOST; i++) {
		if (!calls[i])
			continue;
		cuda += try_each(operation, (struct fault){ CUDA, 0, i, 0 }, counts);
		sticky += try_each(operation, (struct fault){ CUDA_STICKY, 0, i, 0 }, counts);
	}
	printf("%-52s", operation->name);
	for (unsigned kind = 0; kind < NR_CALL_KINDS; kind++) {
		if (libc[kind])
			printf(" %s %u,", call_names[kind].name, libc[kind]);
	}
	if (after)
		printf(" memory from then on %u,", after);
	if (cuda)
		printf(" CUDA %u, for good %u,", cuda, sticky);
	printf(" %u failing calls\n", sum + cuda + sticky);
	counts->operations++;
	counts->libc += sum;
	counts->cuda += cuda;
	counts->sticky += sticky;
}
