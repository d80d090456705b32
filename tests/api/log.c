/* SPDX-License-Identifier: MIT */
/* The library's messages, in the log of the pool or of the process. */
#include <sys/resource.h>

#include <runnel/batch.h>
#include <runnel/map.h>
#include <runnel/more.h>
#include <runnel/trace.h>

#include "classed.h"
#include "pool.h"

/* Tests change the environment, which the library reads once. */
SUITE_FORKS

struct heard {
	_Atomic int messages, errors;
	char line[200];
};

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* several workers log */
	struct heard *heard = arg;

	if (level == RNL_LOG_ERROR)
		atomic_fetch_add(&heard->errors, 1);
	pthread_mutex_lock(&lock);
	snprintf(heard->line, sizeof(heard->line), "%s", msg);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&heard->messages, 1);
}

/* The last message in `heard` has @text. */
#define said(text) ck_assert_msg(strstr(heard.line, text), "not \"%s\": %s", text, heard.line)

/* The call is refused, with a message that has @text. */
#define ck_invalid(call, text) \
	do { \
		ck_assert_int_eq(call, -EINVAL); \
		said(text); \
	} while (0)

static int destroy_fn(struct rnl_job *job)
{
	rnl_pool_destroy(job->user);
	return 0;
}

TEST(destroy_on_a_worker_only_closes_and_logs)
{
	struct heard heard = { 0 };
	struct rnl_pool *pool = pool_of(2, .log = hear, .log_arg = &heard);
	struct rnl_job job, late;

	ck_assert_int_eq(heard.errors, 0);
	job_of(&job, destroy_fn, pool);
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	ck_assert_int_eq(heard.errors, 1);
	said("rnl_pool_destroy");
	ck_assert_ptr_null(strchr(heard.line, '\n'));

	ck_assert_int_eq(rnl_submit(pool, &late), -ESHUTDOWN);
	rnl_pool_destroy(pool);
	ck_assert_int_eq(heard.errors, 1);
}

TEST(a_pool_says_that_its_workers_share_hardware_queues)
{
	struct heard heard = { 0 };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.log = hear;
	attr.log_arg = &heard;
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	rnl_pool_destroy(pool_with(&attr, 9));
	ck_assert_int_eq(heard.messages, 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
	rnl_pool_destroy(pool_with(&attr, 8));
	ck_assert_int_eq(heard.messages, 0);
	rnl_pool_destroy(pool_with(&attr, 9));
	/* The host device has no hardware queues. */
	ck_assert_int_eq(heard.messages, !on_host());
	ck_assert_int_eq(heard.errors, 0);
}

/* ---- refused calls ------------------------------------------------------------------ */

static struct heard heard_last;

/* Tries an attribute: the create fails and logs one line, with the name and the value. */
#define REFUSED(text, ...) \
	do { \
		struct rnl_pool_attr attr_ = { .size = sizeof(attr_), .log = hear, \
					       .log_arg = &heard_last, __VA_ARGS__ }; \
		struct rnl_pool *pool_ = NULL; \
		heard_last.messages = 0; \
		ck_assert_int_eq(rnl_pool_create(&pool_, &attr_), -EINVAL); \
		ck_assert_ptr_null(pool_); \
		ck_assert_int_eq(heard_last.messages, 1); \
		ck_assert_msg(strstr(heard_last.line, "rnl_pool_create(): " text), \
			      "not \"%s\": %s", text, heard_last.line); \
	} while (0)

TEST(a_pool_that_is_refused_says_which_attribute_and_its_value)
{
	const uint16_t cpus[] = { 0, 65000 };

	REFUSED("nr_class_workers is 65; it must be 0 to 64", .nr_class_workers = 65);
	REFUSED("nr_workers is 1025; it must be 1 to 1024", .nr_workers = 1025);
	REFUSED("nr_workers is 1023; it must be 1 to 1022", .nr_workers = 1023,
		.nr_class_workers = 2);
	REFUSED("stream is 2; it must be 0 to 1", .stream = 2);
	REFUSED("max_in_flight is 1001; it must be 1 to 1000", .max_in_flight = 1001);
	REFUSED("spin_us is -2; it must be -1 or more", .spin_us = -2);
	REFUSED("cpus is set, and nr_cpus is 0", .cpus = cpus);
	REFUSED("cpus is NULL, and nr_cpus is 3", .nr_cpus = 3);
	REFUSED("cpus[1] is 65000", .cpus = cpus, .nr_cpus = 2);
	REFUSED("guard is 3; it must be 0 to 2", .guard = 3);
	REFUSED("pinned_preload is 8192; it must be 0 to 4096", .pinned_preload = 8192,
		.pinned_max = 4096);
	REFUSED("kept_sms is 8, and stream is 0", .kept_sms = 8, .nr_class_workers = 1);
	REFUSED("kept_sms is 16, and nr_class_workers is 0", .kept_sms = 16,
		.stream = RNL_STREAM_PRIVATE);
	REFUSED("device is \"gpu\"", .device = "gpu");
}

static int refuse_to_start(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)worker;
	(void)datap;
	return 5;
}

TEST(the_log_of_the_process_is_for_calls_without_a_pool_and_pools_without_a_log)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	struct heard own = { 0 }, heard = { 0 };
	struct rnl_job job;

	rnl_set_log(hear, &heard);
	ck_invalid(rnl_pool_create(NULL, NULL), "poolp is NULL");
	attr.size = 0;
	ck_invalid(rnl_pool_create(&pool, &attr), "the size of the attributes is 0");
	attr = (struct rnl_pool_attr)RNL_POOL_ATTR_INIT;
	attr.device = test_device();
	attr.on_start = refuse_to_start;
	ck_invalid(rnl_pool_create(&pool, &attr), "on_start returned 5");
	job_of(&job, noop_fn, NULL);
	ck_invalid(rnl_submit(NULL, &job), "pool is NULL");

	heard.messages = 0;
	pool = pool_of(1, .log = hear, .log_arg = &own);
	ck_assert_int_eq(rnl_submit(pool, NULL), -EINVAL);
	ck_assert_int_eq(own.messages, 1);
	ck_assert_int_eq(heard.messages, 0);
	rnl_pool_destroy(pool);
	pool = pool_of(1);
	ck_invalid(rnl_pool_resize(pool, 0), "nr_workers is 0; it must be 1 to 1024");
	rnl_pool_destroy(pool);
	rnl_set_log(NULL, NULL);
}

TEST(a_submit_a_map_a_batcher_and_a_trace_that_are_refused_say_why)
{
	struct heard heard = { 0 };
	struct rnl_pool *pool = pool_of(1, .log = hear, .log_arg = &heard), *other = pool_of(1);
	struct rnl_batcher_attr batch = RNL_BATCHER_ATTR_INIT;
	struct rnl_trace_attr trace = RNL_TRACE_ATTR_INIT;
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_batcher *batcher;
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, other));
	job_in(&barrier, &job, noop_fn, NULL);
	ck_invalid(rnl_submit(pool, &job), "was added to is of another pool");
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_after(&job, &barrier));
	ck_invalid(rnl_submit(pool, &job), "comes after is of another pool");
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_class(&job, class_of(other)));
	ck_invalid(submit_by_key(pool, &job, 1), "is of another pool, or has ended");
	must(rnl_job_set_class(&job, NULL));
	ck_invalid(submit_when(pool, &job, (enum rnl_when)7), "is 7; it must be RNL_NOW");

	ck_invalid(rnl_map_start(pool, &map, &barrier),
		   "rnl_map_start(): the barrier is of another pool");
	must(rnl_barrier_init(&barrier, pool));
	ck_invalid(rnl_map_start(pool, &map, &barrier), "rnl_map_start(): fn is NULL");
	map.fn = noop_chunk;
	ck_invalid(rnl_map_start(pool, &map, &barrier), "in_bytes is 0; it must be 1 to");
	map.in_bytes = 4;
	map.chunk = 10;
	map.halo_after = 11;
	ck_invalid(rnl_map_start(pool, &map, &barrier), "halo_after is 11; it must be 0 to 10");
	map.halo_after = 0;
	ck_invalid(rnl_map_start(pool, &map, &barrier),
		   "in and read are both NULL; one of them must be set");
	map.in = &map;
	map.out_bytes = 4;
	ck_invalid(rnl_map_start(pool, &map, &barrier),
		   "out_bytes is 4, and out and write are both NULL; one of them must be set");
	map.out_bytes = 0;
	map.out = &map;
	ck_invalid(rnl_map_start(pool, &map, &barrier), "out_bytes is 0, and out is set");

	ck_invalid(rnl_batcher_create(&batcher, pool, NULL), "rnl_batcher_create(): attr is NULL");
	batch.fn = noop_batch;
	batch.in_bytes = 64;
	batch.max_in_flight = 33;
	ck_invalid(rnl_batcher_create(&batcher, pool, &batch),
		   "max_in_flight is 33; it must be 0 to 32");

	trace.timing = 3;
	ck_invalid(rnl_trace_start(pool, "/dev/null", &trace),
		   "rnl_trace_start(): timing is 3; it must be 0 to 2");
	ck_invalid(rnl_trace_start(pool, "/dev/null", NULL), "/dev/null is no regular file");
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

TEST(a_job_that_a_row_stops_at_is_logged_once)
{
	struct heard heard = { 0 };
	struct rnl_job jobs[3];
	struct rnl_job *list[] = { &jobs[0], &jobs[1], &jobs[2] };
	struct rnl_pool *pool = pool_of(1, .log = hear, .log_arg = &heard);

	for (int i = 0; i < 3; i++)
		job_of(&jobs[i], noop_fn, NULL);
	memset(&jobs[1], 0, sizeof(jobs[1]));
	ck_assert_int_eq(rnl_submit_many(pool, list, 3), 1);
	ck_assert_int_eq(result_of(&jobs[0]), 0);
	said("was not initialised: call rnl_job_init() first, and not while the job is under way");
	ck_assert_int_eq(heard.messages, 1);
	rnl_pool_destroy(pool);
}

TEST(a_call_without_a_pool_says_so)
{
	struct rnl_batcher_attr batch = RNL_BATCHER_ATTR_INIT;
	struct rnl_map map = RNL_MAP_INIT;
	struct heard heard = { 0 };
	struct rnl_batcher *batcher;
	struct rnl_barrier barrier;
	struct rnl_job *jobs[1] = { NULL };

	rnl_set_log(hear, &heard);
	ck_invalid(rnl_submit_many(NULL, jobs, 1), "rnl_submit_many(): pool is NULL");
	ck_invalid(rnl_map_start(NULL, &map, &barrier), "rnl_map_start(): pool is NULL");
	ck_invalid(rnl_batcher_create(&batcher, NULL, &batch),
		   "rnl_batcher_create(): pool is NULL");
	ck_invalid(rnl_trace_start(NULL, "/dev/null", NULL), "rnl_trace_start(): pool is NULL");
	ck_assert_int_eq(heard.messages, 4);
	rnl_set_log(NULL, NULL);
}

struct waits {
	struct rnl_job job;
	struct rnl_pool *pool;
	struct rnl_barrier barrier;
	struct heard heard;
};

static int wait_fn(struct rnl_job *job)
{
	struct waits *w = rnl_container_of(job, struct waits, job);
	/* A timeout of 0 does not wait, so the call is not logged. */
	const bool looks = rnl_job_wait(job, 0) == -EBUSY && rnl_pool_drain(w->pool, 0) == -EBUSY &&
			   rnl_barrier_wait(&w->barrier, 0) == -EBUSY && !w->heard.messages;

	return looks &&
	       rnl_job_wait(job, MS) == -EBUSY && strstr(w->heard.line, "rnl_job_wait()") &&
	       rnl_barrier_wait(&w->barrier, MS) == -EBUSY &&
	       strstr(w->heard.line, "rnl_barrier_wait()") &&
	       rnl_pool_drain(w->pool, MS) == -EBUSY && strstr(w->heard.line, "rnl_pool_drain()") &&
	       rnl_pool_resize(w->pool, 1) == -EBUSY &&
	       strstr(w->heard.line, "rnl_pool_resize()") &&
	       strstr(w->heard.line, "would wait for itself") ? 0 : -EPROTO;
}

static int wait_for_itself_fn(struct rnl_job *job)
{
	return rnl_job_wait(job, MS) == -EBUSY ? 0 : -EPROTO;
}

TEST(a_wait_that_is_refused_in_a_job_says_why)
{
	struct waits w = { .heard = { 0 } };

	w.pool = pool_of(1, .log = hear, .log_arg = &w.heard);
	must(rnl_barrier_init(&w.barrier, w.pool));
	job_in(&w.barrier, &w.job, wait_fn, NULL);
	ck_assert_int_eq(submit_and_wait(w.pool, &w.job), 0);
	ck_assert_int_eq(w.heard.messages, 4);
	ck_assert_int_eq(w.heard.errors, 0);
	rnl_pool_destroy(w.pool);
}

TEST(without_a_log_errors_and_warnings_go_to_stderr)
{
	char text[400] = "";
	int ends[2], old = dup(2);
	struct rnl_pool *pool;
	struct rnl_job job;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(dup2(ends[1], 2), 2);
	(void)rnl_pool_create(NULL, NULL);
	pool = pool_of(1);
	submit_job(pool, &job, wait_for_itself_fn, NULL);
	must(rnl_job_wait(&job, RNL_FOREVER));
	rnl_pool_destroy(pool);
	ck_assert_int_eq(dup2(old, 2), 2);
	ck_assert_int_gt(read(ends[0], text, sizeof(text) - 1), 0);
	ck_assert_msg(strstr(text, "runnel: error: rnl_pool_create(): poolp is NULL\n") == text,
		      "%s", text);
	ck_assert_msg(strstr(text, "\nrunnel: warning: rnl_job_wait(): "), "%s", text);
	close(old);
	close(ends[0]);
	close(ends[1]);
}

/* ---- RUNNEL_LOG ------------------------------------------------------------------------- */

static int returns_three(struct rnl_job *job)
{
	(void)job;
	return 3;
}

/*
 * Writes to @text what the standard error output gets, with that RUNNEL_LOG, of a call with an
 * error, a pool, a job with a warning and a job with an info.  @fn: the process's log, or NULL.
 */
static void stderr_of(const char *level, rnl_log_fn *fn, void *arg, char *text, size_t bytes)
{
	FILE *file = tmpfile();
	int old = dup(2);
	struct rnl_pool *pool;
	struct rnl_job job;

	if (level)
		setenv("RUNNEL_LOG", level, 1);
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(dup2(fileno(file), 2), 2);
	rnl_set_log(fn, arg);
	(void)rnl_pool_create(NULL, NULL);
	pool = pool_of(1);
	submit_job(pool, &job, wait_for_itself_fn, NULL);
	must(rnl_job_wait(&job, RNL_FOREVER));
	submit_job(pool, &job, returns_three, NULL);
	ck_assert_int_eq(result_of(&job), 3);
	rnl_pool_destroy(pool);
	rnl_set_log(NULL, NULL);
	ck_assert_int_eq(dup2(old, 2), 2);
	close(old);
	rewind(file);
	text[fread(text, 1, bytes - 1, file)] = '\0';
	fclose(file);
}

TEST(the_variable_runnel_log_is_the_least_severe_level_on_stderr, .loops = 5)
{
	static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
	const int most = levels[_i] ? _i : RNL_LOG_WARNING;
	char text[4000];

	stderr_of(levels[_i], NULL, NULL, text, sizeof(text));
	ck_assert_msg(strstr(text, "runnel: error: rnl_pool_create(): poolp is NULL\n"), "%s", text);
	ck_assert_msg(!strstr(text, "runnel: warning: ") == (most < RNL_LOG_WARNING), "%s", text);
	ck_assert_msg(!strstr(text, "runnel: info: ") == (most < RNL_LOG_INFO), "%s", text);
	ck_assert_msg(!strstr(text, "runnel: debug: ") == (most < RNL_LOG_DEBUG), "%s", text);
	if (most < RNL_LOG_DEBUG)
		return;
	ck_assert_msg(strstr(text, "1 workers with per-thread streams"), "%s", text);
	ck_assert_msg(on_host() || strstr(text, "hardware queues: CUDA_DEVICE_MAX_CONNECTIONS"),
		      "%s", text);
}

static int returns_eio(struct rnl_job *job)
{
	(void)job;
	return EIO;
}

static void note_level(void *arg, enum rnl_log_level level, const char *msg)
{
	_Atomic int *noted = arg;

	if (strstr(msg, "a value: its job has succeeded"))
		*noted = (int)level;
}

TEST(a_positive_errno_is_a_warning_and_another_value_an_info)
{
	for (int i = 0; i < 2; i++) {
		_Atomic int noted = -1;
		struct rnl_pool *pool = pool_of(1, .log = note_level, .log_arg = (void *)&noted);
		struct rnl_job job;

		submit_job(pool, &job, i ? returns_eio : returns_three, NULL);
		ck_assert_int_gt(result_of(&job), 0);
		rnl_pool_destroy(pool);
		ck_assert_int_eq(noted, i ? RNL_LOG_WARNING : RNL_LOG_INFO);
	}
}

static void count_levels(void *arg, enum rnl_log_level level, const char *msg)
{
	_Atomic unsigned *nr = arg;

	(void)msg;
	ck_assert_uint_le(level, RNL_LOG_DEBUG);
	nr[level]++;
}

TEST(the_variable_limits_a_log_function_too, .loops = 5)
{
	static const char *const levels[] = { "error", "warning", "info", "debug", NULL };
	const unsigned most = levels[_i] ? (unsigned)_i : RNL_LOG_INFO;
	_Atomic unsigned nr[RNL_LOG_DEBUG + 1] = { 0 };
	char text[400];

	stderr_of(levels[_i], count_levels, nr, text, sizeof(text));
	ck_assert_str_eq(text, "");
	for (unsigned level = 0; level <= RNL_LOG_DEBUG; level++)
		ck_assert_int_eq(nr[level] > 0, level <= most);
}

TEST(a_wrong_level_is_reported_once_and_ignored)
{
	const char *line = "runnel: warning: RUNNEL_LOG is \"verbose\"; it must be error, warning, "
			   "info or debug: it is ignored\n";
	char text[4000];

	stderr_of("verbose", NULL, NULL, text, sizeof(text));
	ck_assert_msg(strstr(text, line) == text, "%s", text);
	ck_assert_msg(!strstr(text + strlen(line), "RUNNEL_LOG"), "%s", text);
	ck_assert_msg(strstr(text, "runnel: warning: rnl_job_wait()"), "%s", text);
	ck_assert_msg(!strstr(text, "runnel: info"), "%s", text);
}

TEST(an_empty_level_is_as_if_the_variable_were_not_set)
{
	char text[4000];

	stderr_of("", NULL, NULL, text, sizeof(text));
	ck_assert_msg(!strstr(text, "RUNNEL_LOG"), "%s", text);
}

/* 100 lines of a kind are logged per second; the test may last longer than a second. */
TEST(stderr_gets_no_flood_and_no_line_of_a_log)
{
	FILE *file = tmpfile();
	int old = dup(2);

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(dup2(fileno(file), 2), 2);
	rnl_set_log(hear, &heard_last);
	(void)rnl_pool_create(NULL, NULL);
	ck_assert_int_eq(lseek(2, 0, SEEK_END), 0);
	rnl_set_log(NULL, NULL);
	for (int i = 0; i < 10000; i++)
		(void)rnl_pool_create(NULL, NULL);
	ck_assert_int_le(lseek(2, 0, SEEK_END), 300 * 64);
	ck_assert_int_eq(dup2(old, 2), 2);
	close(old);
	fclose(file);
}

/* By default, SIGPIPE and SIGXFSZ would end this process. */
TEST(the_log_on_stderr_raises_no_signal)
{
	FILE *file = tmpfile();
	struct rlimit before, none;
	int ends[2], old = dup(2);

	ck_assert_int_eq(pipe(ends), 0);
	close(ends[0]);
	ck_assert_int_eq(dup2(ends[1], 2), 2);
	close(ends[1]);
	(void)rnl_pool_create(NULL, NULL);
	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(dup2(fileno(file), 2), 2);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_FSIZE, &none);
	(void)rnl_pool_create(NULL, NULL);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(dup2(old, 2), 2);
	close(old);
	fclose(file);
}

/* A program that misses these errors runs its job without the order or the barrier. */
TEST(a_barrier_or_a_job_that_is_refused_says_why)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier, none = { 0 };
	struct heard heard = { 0 };
	struct rnl_job job, raw = { 0 };

	must(rnl_barrier_init(&barrier, pool));
	job_of(&job, noop_fn, NULL);
	rnl_set_log(hear, &heard);
	ck_invalid(rnl_job_set_after(&job, &none),
		   "rnl_job_set_after(): the barrier was not initialised");
	ck_invalid(rnl_barrier_add(&none, &job),
		   "rnl_barrier_add(): the barrier was not initialised");
	ck_invalid(rnl_barrier_add(NULL, &job), "rnl_barrier_add(): the barrier is NULL");
	ck_invalid(rnl_barrier_add(&barrier, NULL), "rnl_barrier_add(): the job is NULL");
	ck_invalid(rnl_job_set_after(&raw, &barrier),
		   "rnl_job_set_after(): the job was not initialised");
	must(rnl_barrier_add(&barrier, &job));
	ck_invalid(rnl_job_set_after(&job, &barrier),
		   "rnl_job_set_after(): the job is in this barrier");
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_after(&job, &barrier));
	ck_invalid(rnl_barrier_add(&barrier, &job),
		   "rnl_barrier_add(): the job comes after this barrier");
	ck_assert_int_eq(heard.messages, 7);
	rnl_set_log(NULL, NULL);
	rnl_pool_destroy(pool);
}
