/* SPDX-License-Identifier: MIT */
/*
 * Traces start, stop and report figures while jobs run and the pool is resized. Each job runs once,
 * and each trace is a complete file.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <runnel/memory.h>
#include <runnel/trace.h>

#include "pool.h"
#include "seed.h"

#define NR_SUBMITTERS 3
#define NR_TRACERS 2
#define NR_TRACES 60
#define WINDOW 64

struct test {
	struct rnl_pool *pool;
	_Atomic bool stop, refused;
	_Atomic unsigned nr_traces;
	char *memory;
};

struct item {
	struct rnl_job job;
	struct test *test;
	unsigned ran;
	bool fills;
};

struct submitter {
	pthread_t thread;
	struct test *test;
	uint64_t random, nr;
	const char *wrong;
	struct item items[WINDOW];
};

struct tracer {
	pthread_t thread;
	struct test *test;
	uint64_t random;
	unsigned number;
	const char *wrong;
};

static int run(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);

	item->ran++;
	return item->fills ? rnl_fill(item->test->memory + 64 * rnl_worker().index, 1, 64) : 0;
}

static void *submit_main(void *arg)
{
	struct submitter *s = arg;
	struct rnl_barrier barrier;

	(void)rnl_barrier_init(&barrier, s->test->pool);
	do {
		unsigned nr = 1 + draw(&s->random, WINDOW);

		for (unsigned i = 0; i < nr; i++) {
			struct item *item = &s->items[i];

			(void)rnl_job_init(&item->job, run);
			item->test = s->test;
			item->ran = 0;
			item->fills = draw(&s->random, 3);
			if (draw(&s->random, 2))
				(void)rnl_barrier_add(&barrier, &item->job);
			if (rnl_submit_wait(s->test->pool, &item->job, RNL_FOREVER))
				s->wrong = "a submit was refused";
		}
		if (draw(&s->random, 2) && rnl_barrier_wait(&barrier, RNL_FOREVER))
			s->wrong = "a barrier's wait failed";
		for (unsigned i = 0; i < nr; i++) {
			if (rnl_job_wait(&s->items[i].job, RNL_FOREVER))
				s->wrong = "a wait failed";
			else if (s->items[i].ran != 1 || s->items[i].job.result)
				s->wrong = "a job did not run once, and well";
		}
		s->nr += nr;
	} while (!s->test->stop && !s->wrong);
	return NULL;
}

/* Returns true if the file begins and ends like JSON. */
static bool opens(const char *path)
{
	FILE *file = fopen(path, "r");
	char end[4] = "";
	bool ok;

	if (!file)
		return false;
	ok = getc(file) == '[' && !fseek(file, -3, SEEK_END) && fread(end, 1, 3, file) == 3 &&
	     !strcmp(end, "\n]\n");
	fclose(file);
	return ok;
}

/* Starts and stops the pool's only trace; several threads do. */
static void *trace_main(void *arg)
{
	struct tracer *t = arg;
	char path[80];

	snprintf(path, sizeof(path), "/tmp/stress_trace.%d.%u.json", (int)getpid(), t->number);
	while (t->test->nr_traces < NR_TRACES && !t->wrong) {
		struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
		int ret;

		attr.timing = draw(&t->random, 3);
		attr.buffer_bytes = draw(&t->random, 2) ? 65536 : 0;
		attr.file_max = 1 << 20;
		ret = rnl_trace_start(t->test->pool, path, &attr);
		if (ret && ret != -EALREADY)
			t->wrong = rnl_strerror(ret);
		if (ret)
			continue;
		t->test->nr_traces++;
		if (draw(&t->random, 2))
			usleep(draw(&t->random, 5000));
		ret = rnl_trace_stop(t->test->pool);
		if (ret)
			t->wrong = "it did not stop";
		else if (!opens(path))
			t->wrong = "its file does not open";
	}
	unlink(path);
	return NULL;
}

TEST(test_traces_come_and_go_while_jobs_run, .timeout_s = 120)
{
	struct submitter *submitters = calloc(NR_SUBMITTERS, sizeof(*submitters));
	struct tracer tracers[NR_TRACERS];
	struct test test = { .pool = pool_of(3) };
	uint64_t seed = test_seed(), random = draws_of(seed, 200);
	void *memory;

	must(rnl_memory_get(test.pool, 0, 64 * RNL_WORKERS_MAX, &memory, 0));
	test.memory = memory;
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		submitters[i].test = &test;
		submitters[i].random = draws_of(seed, i);
		must(pthread_create(&submitters[i].thread, NULL, submit_main, &submitters[i]));
	}
	for (unsigned i = 0; i < NR_TRACERS; i++) {
		tracers[i] = (struct tracer){ .test = &test, .random = draws_of(seed, 100 + i),
					      .number = i };
		must(pthread_create(&tracers[i].thread, NULL, trace_main, &tracers[i]));
	}
	while (test.nr_traces < NR_TRACES) {
		bool wrong = false;

		must(rnl_pool_resize(test.pool, 1 + draw(&random, 6)));
		/* A start waits for the resize; a mutex is not fair, so resizes may always win. */
		sched_yield();
		for (unsigned i = 0; i < NR_TRACERS; i++)
			wrong = wrong || tracers[i].wrong;
		if (wrong)
			break;
	}
	for (unsigned i = 0; i < NR_TRACERS; i++)
		pthread_join(tracers[i].thread, NULL);
	test.stop = true;
	for (unsigned i = 0; i < NR_SUBMITTERS; i++)
		pthread_join(submitters[i].thread, NULL);
	for (unsigned i = 0; i < NR_TRACERS; i++)
		ck_assert_msg(!tracers[i].wrong, "a trace: %s", tracers[i].wrong);
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		ck_assert_msg(!submitters[i].wrong, "%s", submitters[i].wrong);
		ck_assert_uint_gt(submitters[i].nr, 0);
	}
	rnl_memory_put(test.pool, memory);
	rnl_pool_destroy(test.pool);
	free(submitters);
}

#define NR_POOLS 20
#define NR_NEW 24

static void *trace_on(void *arg)
{
	struct test *test = arg;
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	char path[80];

	attr.buffer_bytes = 65536;
	snprintf(path, sizeof(path), "/tmp/stress_trace.%d.new.json", (int)getpid());
	while (!test->stop) {
		if (rnl_trace_start(test->pool, path, &attr) || rnl_trace_stop(test->pool))
			test->refused = true;
		test->nr_traces++;
	}
	unlink(path);
	return NULL;
}

/* A pool starts each thread once, so this takes many short-lived pools. */
TEST(test_traces_come_and_go_while_workers_come_for_the_first_time, .timeout_s = 120)
{
	for (unsigned i = 0; i < NR_POOLS; i++) {
		struct test test = { .pool = pool_of(1) };
		pthread_t thread;

		must(pthread_create(&thread, NULL, trace_on, &test));
		for (unsigned nr = 2; nr <= NR_NEW; nr++)
			must(rnl_pool_resize(test.pool, nr));
		ck_eventually(test.nr_traces);
		test.stop = true;
		pthread_join(thread, NULL);
		ck_assert(!test.refused);
		rnl_pool_destroy(test.pool);
	}
}
