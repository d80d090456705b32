/* SPDX-License-Identifier: MIT */
/* Memory that the library allocates and copies, maps, batchers, and a pool's life. */
#include <runnel/batch.h>
#include <runnel/class.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "races.h"

/* ---- memory ----------------------------------------------------------------------- */

static void *pinned_user(void *arg)
{
	for (unsigned i = 0; i < 50 * ROUNDS; i++) {
		void *buf;

		must(rnl_memory_get(pool, RNL_PINNED, 4096, &buf, RNL_FOREVER), "pinned");
		for (unsigned j = 0; j < 4096 / sizeof(unsigned); j += 64)
			((unsigned *)buf)[j] = i;
		rnl_memory_put(pool, buf);
	}
	return arg;
}

struct copies {
	struct rnl_job job;
	unsigned in[NUMBERS], out[NUMBERS];
};

struct add_args {
	const unsigned *in;
	unsigned *out;
};

static void add_host(struct rnl_dim grid, struct rnl_dim block_dim, const void *args)
{
	const struct add_args *a = args;

	(void)grid;
	(void)block_dim;
	for (unsigned i = 0; i < NUMBERS; i++)
		a->out[i] = a->in[i] + 1;
}
RNL_HOST_KERNEL(add_one, add_host, struct add_args);

static int copies_fn(struct rnl_job *job)
{
	struct copies *c = rnl_container_of(job, struct copies, job);
	struct rnl_dim one = { 1, 1, 1 };
	void *mem;
	int ret = rnl_scratch(sizeof(c->in), &mem);
	struct add_args args;

	if (ret)
		return ret;
	args = (struct add_args){ mem, mem };
	rnl_copy(mem, c->in, sizeof(c->in));
	rnl_launch(&add_one, one, one, &args);
	return rnl_copy(c->out, mem, sizeof(c->out));
}

void memory(void)
{
	pthread_t threads[2];
	struct copies *c[JOBS];
	unsigned *numbers;
	void *mem, *buf;
	struct rnl_class_attr own = RNL_CLASS_ATTR_INIT;
	struct rnl_class *cls;

	own.nr_workers = 1;
	must(rnl_class_create(&cls, pool, &own), "rnl_class_create");
	for (int i = 0; i < 2; i++)
		check(!pthread_create(&threads[i], NULL, pinned_user, NULL), "pthread_create");
	for (unsigned i = 0; i < JOBS; i++) {
		c[i] = calloc(1, sizeof(*c[i]));
		check(c[i] != NULL, "calloc");
		for (unsigned j = 0; j < NUMBERS; j++)
			c[i]->in[j] = i + j;
		rnl_job_init(&c[i]->job, copies_fn);
		if (i % 4 == 1)
			rnl_job_set_flags(&c[i]->job, RNL_GATHER);
		if (i % 4 == 2)
			must(rnl_job_set_class(&c[i]->job, cls), "rnl_job_set_class");
		must(rnl_submit_wait(pool, &c[i]->job, RNL_FOREVER), "submit");
	}
	for (unsigned i = 0; i < JOBS; i++) {
		must(rnl_job_wait(&c[i]->job, RNL_FOREVER), "wait");
		check(!c[i]->job.result && c[i]->out[NUMBERS - 1] == i + NUMBERS, "copies");
		free(c[i]);
	}
	rnl_class_destroy(cls);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* This thread's own stream. */
	must(rnl_memory_get(pool, 0, NUMBERS * sizeof(unsigned), &mem, 0), "rnl_memory_get");
	must(rnl_memory_get(pool, RNL_PINNED, NUMBERS * sizeof(unsigned), &buf, 0),
	     "rnl_memory_get");
	numbers = buf;
	numbers[0] = 5;
	must(rnl_thread_attach(pool), "rnl_thread_attach");
	must(rnl_copy(mem, buf, NUMBERS * sizeof(unsigned)), "rnl_copy");
	must(rnl_fill((char *)mem + sizeof(unsigned), 1, sizeof(unsigned)), "rnl_fill");
	must(rnl_copy(buf, mem, NUMBERS * sizeof(unsigned)), "rnl_copy");
	must(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	check(numbers[0] == 5 && numbers[1] == 0x01010101, "fill");
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, buf);
	rnl_memory_put(pool, mem);
}

/* ---- two streams ---------------------------------------------------------------------- */

/*
 * A job copies to the device on one worker; a job after it computes there, on another worker, which
 * is most likely busy until the copy has completed: then its stream need not wait. The barrier is
 * not done yet: the callback is called first.
 */
struct stage {
	struct rnl_job copy, busy, compute;
	struct rnl_barrier copied;
	unsigned *pinned, *device;
};

static int run_copy(struct rnl_job *job)
{
	struct stage *s = rnl_container_of(job, struct stage, copy);

	return rnl_copy(s->device, s->pinned, NUMBERS * sizeof(unsigned));
}

static void end_copy(struct rnl_job *job)
{
	(void)job;
	for (int i = 0; i < 4; i++)
		nap();
}

static int run_busy(struct rnl_job *job)
{
	(void)job;
	nap();
	return 0;
}

static int run_compute(struct rnl_job *job)
{
	struct stage *s = rnl_container_of(job, struct stage, compute);
	struct rnl_dim one = { 1, 1, 1 };
	struct add_args args = { s->device, s->device };

	return rnl_launch(&add_one, one, one, &args);
}

void streams(void)
{
	struct stage s;
	void *mem;

	must(rnl_memory_get(pool, RNL_PINNED, NUMBERS * sizeof(unsigned), &mem, 0), "pinned");
	s.pinned = mem;
	must(rnl_memory_get(pool, 0, NUMBERS * sizeof(unsigned), &mem, 0), "rnl_memory_get");
	s.device = mem;
	for (unsigned n = 0; n < ROUNDS; n++) {
		s.pinned[0] = n;
		must(rnl_barrier_init(&s.copied, pool), "init");
		rnl_job_init(&s.copy, run_copy);
		rnl_job_set_on_done(&s.copy, end_copy);
		rnl_job_init(&s.busy, run_busy);
		rnl_job_init(&s.compute, run_compute);
		rnl_barrier_add(&s.copied, &s.copy);
		rnl_job_set_after(&s.compute, &s.copied);
		must((rnl_job_set_key(&s.busy, RNL_KEY_WORKER(1)), rnl_submit(pool, &s.busy)),
		     "submit");
		must((rnl_job_set_key(&s.copy, RNL_KEY_WORKER(0)), rnl_submit(pool, &s.copy)),
		     "submit");
		must((rnl_job_set_key(&s.compute, RNL_KEY_WORKER(1)), rnl_submit(pool, &s.compute)),
		     "submit");
		must(rnl_job_wait(&s.compute, RNL_FOREVER), "wait");
		check(s.device[0] == n + 1, "two streams");	/* the host device's memory */
	}
	rnl_memory_put(pool, s.device);
	rnl_memory_put(pool, s.pinned);
}

/* ---- maps -------------------------------------------------------------------------- */

static int chunk_fn(const struct rnl_chunk *chunk)
{
	struct rnl_dim one = { 1, 1, 1 };
	struct add_args args = { chunk->in, chunk->out };

	return rnl_launch(&add_one, one, one, &args);
}

/* Shared by the callbacks of an ordered map, without a lock. */
struct ends {
	uint64_t nr_read, nr_written;
};

static int read_chunk(void *arg, void *buf, uint64_t first, uint64_t nr)
{
	struct ends *e = arg;

	check(first == e->nr_read, "read");
	e->nr_read += nr;
	memset(buf, 0, nr * sizeof(unsigned));
	return 0;
}

static int write_chunk(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	struct ends *e = arg;

	check(first == e->nr_written && ((const unsigned *)buf)[nr - 1] == 1, "write");
	e->nr_written += nr;
	return 0;
}

void maps(void)
{
	struct rnl_map_report report = RNL_MAP_REPORT_INIT;
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;
	struct ends ends = { 0, 0 };
	unsigned *numbers = malloc(JOBS * NUMBERS * sizeof(*numbers));

	check(numbers != NULL, "malloc");
	rnl_barrier_init(&barrier, pool);
	for (unsigned i = 0; i < JOBS * NUMBERS; i++)
		numbers[i] = i;
	map.fn = chunk_fn;
	map.nr = JOBS * NUMBERS;
	map.chunk = NUMBERS;
	map.in_bytes = map.out_bytes = sizeof(*numbers);
	map.in = map.out = numbers;
	map.report = &report;
	map.flags = RNL_MAP_TIMED;
	must(rnl_map_start(pool, &map, &barrier), "rnl_map_start");
	must(rnl_barrier_wait(&barrier, RNL_FOREVER), "wait");
	check(!barrier.result && report.chunks == JOBS, "map");
	for (unsigned i = 0; i < JOBS * NUMBERS; i++)
		check(numbers[i] == i + 1, "map");
	free(numbers);
	map.in = map.out = NULL;
	map.read = read_chunk;
	map.write = write_chunk;
	map.arg = &ends;
	map.flags = RNL_MAP_IN_ORDER;
	must(rnl_map_start(pool, &map, &barrier), "rnl_map_start");
	must(rnl_barrier_wait(&barrier, RNL_FOREVER), "wait");
	check(!barrier.result && ends.nr_written == map.nr, "map in order");
}

/* ---- batchers ------------------------------------------------------------------------ */

struct square_args {
	const uint32_t *in;
	uint32_t *out;
	uint32_t nr;
};

static void square_host(struct rnl_dim grid, struct rnl_dim block_dim, const void *args)
{
	const struct square_args *a = args;

	(void)grid;
	(void)block_dim;
	for (uint32_t i = 0; i < a->nr; i++)
		a->out[i] = a->in[i] * a->in[i];
}
RNL_HOST_KERNEL(square, square_host, struct square_args);

static int batch_fn(const struct rnl_batch *batch)
{
	struct rnl_dim one = { 1, 1, 1 };
	struct square_args args = { batch->in, batch->out, batch->nr };

	return rnl_launch(&square, one, one, &args);
}

static void *producer(void *arg)
{
	struct rnl_request requests[BATCH];

	for (unsigned n = 0; n < ROUNDS * 4; n++) {
		for (unsigned i = 0; i < BATCH; i++) {
			must(rnl_job_init(&requests[i].job, NULL), "init");
			must(rnl_batcher_reserve(arg, &requests[i], sizeof(uint32_t), RNL_FOREVER),
			     "reserve");
			*(uint32_t *)requests[i].in = n + i;
			if (i == 7)
				must(rnl_request_release(&requests[i]), "cancel");
			else
				must(rnl_request_commit(&requests[i]), "commit");
		}
		for (unsigned i = 0; i < BATCH; i++) {
			if (i == 7)
				continue;
			must(rnl_job_wait(&requests[i].job, RNL_FOREVER), "wait");
			check(*(const uint32_t *)requests[i].out == (n + i) * (n + i), "batch");
			must(rnl_request_release(&requests[i]), "release");
		}
	}
	return NULL;
}

void batchers(void)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;
	pthread_t threads[3];

	attr.fn = batch_fn;
	attr.in_bytes = attr.out_bytes = sizeof(uint32_t);
	attr.slab_bytes = 4 * BATCH * sizeof(uint32_t);	/* slots are reused by other threads */
	attr.max_batch = BATCH;
	for (int copies = 0; copies < 2; copies++) {
		attr.flags = copies ? RNL_BATCHER_ALWAYS_COPY : 0;
		must(rnl_batcher_create(&batcher, pool, &attr), "rnl_batcher_create");
		for (int i = 0; i < 3; i++)
			check(!pthread_create(&threads[i], NULL, producer, batcher), "pthread_create");
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		rnl_batcher_destroy(batcher);
	}
}

/* ---- a pool's life --------------------------------------------------------------------- */

static unsigned served[RNL_WORKERS_MAX];

static int on_start(void *arg, unsigned worker, void **datap)
{
	*datap = &((unsigned *)arg)[worker];
	return 0;
}

static void on_stop(void *arg, unsigned worker, void *data)
{
	(void)arg;
	(void)worker;
	++*(unsigned *)data;
}

static int serve(struct rnl_job *job)
{
	(void)job;
	++*(unsigned *)rnl_worker().data;
	return 0;
}

/* Per-worker counters, which are added up after a drain. */
void lives(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_job jobs[JOBS];
	struct rnl_pool *own;
	unsigned sum = 0;

	memset(served, 0, sizeof(served));
	attr.device = "host";
	attr.nr_workers = WORKERS;
	attr.on_start = on_start;
	attr.on_stop = on_stop;
	attr.hook_arg = served;
	must(rnl_pool_create(&own, &attr), "rnl_pool_create");
	for (unsigned i = 0; i < JOBS; i++) {
		rnl_job_init(&jobs[i], serve);
		must(rnl_submit_wait(own, &jobs[i], RNL_FOREVER), "submit");
	}
	must(rnl_pool_drain(own, RNL_FOREVER), "drain");
	for (unsigned i = 0; i < WORKERS; i++)
		sum += served[i];
	check(sum == JOBS, "drain");
	must(rnl_pool_read_stats(own, RNL_ALL_WORKERS, &stats), "stats");
	must(rnl_pool_resize(own, 1), "resize");
	for (unsigned i = 1; i < WORKERS; i++)
		served[i]++;
	for (unsigned i = 0; i < JOBS; i++)
		must(rnl_submit_wait(own, &jobs[i], RNL_FOREVER), "submit");
	must(rnl_pool_stop(own, RNL_FOREVER), "stop");
	rnl_pool_destroy(own);
	for (unsigned i = 0; i < WORKERS; i++)
		sum += served[i];
	check(sum >= 2 * JOBS, "destroy");
}
