/* SPDX-License-Identifier: MIT */
/*
 * The rest of the program with the blocks of docs/patterns.md, which patterns.sh puts into
 * blocks.h. It runs each pattern on the host device, and reports errors.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/class.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

enum { NR = 1000, FEATURES = 16, REQUESTS = 100, FRAMES = 20, BATCH_BYTES = 4096 };

struct work_args {
	const uint32_t *in;
	uint32_t *out;
	uint64_t nr;
};

static uint32_t worked(uint32_t x)
{
	return 3 * x + 1;
}

static void work_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct work_args *a = args;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < a->nr; i++)
		a->out[i] = worked(a->in[i]);
}
RNL_HOST_KERNEL(work, work_on_host, struct work_args);

static struct rnl_pool *pool;
static struct rnl_class *urgent;

struct message {
	struct rnl_job job;
	struct rnl_hold hold;
	sem_t sending;
};

static void start_sending(struct message *m)
{
	sem_post(&m->sending);
}

/* Adds the layer to each word; a question is like struct work_args. */
struct layer_args {
	const void *question;
	uint64_t layer;
};

static void layer_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct layer_args *a = args;
	const struct work_args *q = a->question;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < q->nr; i++)
		q->out[i] = (a->layer ? q->out[i] : q->in[i]) + (uint32_t)a->layer;
}
RNL_HOST_KERNEL(layer_kernel, layer_on_host, struct layer_args);

static int launch_layer(const void *question, uint32_t layer)
{
	const struct rnl_dim one = { 1, 1, 1 };
	const struct layer_args args = { question, layer };

	return rnl_launch(&layer_kernel, one, one, &args);
}

static int fill(void *buf, int fd)
{
	return read(fd, buf, BATCH_BYTES) == BATCH_BYTES ? 0 : -EIO;
}

#include "blocks.h"

static void check(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "%s: not right\n", what);
	exit(EXIT_FAILURE);
}

static void done(struct rnl_job *job, const char *what)
{
	check(!rnl_job_wait(job, RNL_FOREVER) && !job->result, what);
}

static uint32_t in[NR], out[NR];

static void begin(void)
{
	for (uint32_t i = 0; i < NR; i++) {
		in[i] = i * 7;
		out[i] = 0;
	}
}

static void all_worked(uint64_t nr, const char *what)
{
	for (uint32_t i = 0; i < nr; i++)
		check(out[i] == worked(i * 7), what);
}

/* ---- the patterns -------------------------------------------------------- */

static void run_chunks(int (*fn)(struct rnl_job *job), int (*submit)(struct chunk *c),
		       const char *what)
{
	struct chunk c[4];

	begin();
	for (int i = 0; i < 4; i++) {
		c[i] = (struct chunk){ .from = in + i * NR / 4, .to = out + i * NR / 4,
				       .nr = NR / 4 };
		rnl_job_init(&c[i].job, fn);
		check(!submit(&c[i]), what);
	}
	for (int i = 0; i < 4; i++)
		done(&c[i].job, what);
	all_worked(NR, what);
}

static int submit_plain(struct chunk *c)
{
	return rnl_submit(pool, &c->job);
}

static void run_questions(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct question q = { .nr = 10 };
	struct rnl_job job;

	begin();
	for (int i = 0; i < 20; i++) {
		q.in = in + i * 10;
		q.out = out + i * 10;
		rnl_job_init(&job, reply);
		check(!submit_question(&job, &q), "replay");
		done(&job, "replay");
	}
	for (uint32_t i = 0; i < 200; i++)
		check(out[i] == in[i] + 29 * 30 / 2, "replay");
	check(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && stats.replayed > 0, "replay");
}

static void run_grouped(void)
{
	struct rnl_barrier barrier;

	begin();
	rnl_barrier_init(&barrier, pool);
	check(!start_grouped(in, out, NR, &barrier), "grouped");
	check(!rnl_barrier_wait(&barrier, RNL_FOREVER) && !barrier.result, "grouped");
	all_worked(NR, "grouped");
}

static void run_loader(void)
{
	FILE *file = tmpfile();
	uint32_t words[BATCH_BYTES / sizeof(uint32_t)];
	struct batch b = { .pinned = NULL };

	memset(words, 0x5a, sizeof(words));
	check(file && fwrite(words, sizeof(words), 1, file) == 1 && !fflush(file), "a file");
	rewind(file);
	check(!rnl_memory_get(pool, 0, BATCH_BYTES, &b.device, 0), "memory");
	rnl_job_init(&b.job, upload);
	check(!load(&b, fileno(file)), "loader");
	done(&b.job, "loader");
	rnl_memory_put(pool, b.pinned);
	check(!memcmp(b.device, words, BATCH_BYTES), "loader");	/* the host device's memory */
	rnl_memory_put(pool, b.device);
	fclose(file);
}

static _Atomic unsigned steps;

__attribute__((unused)) static int step(struct rnl_job *job)
{
	return (int)(steps++ - *(unsigned *)job->user);	/* 0: in its turn */
}

static void run_frame(void)
{
	static struct frame f;
	unsigned turns[] = { 0, 1, 2 };
	struct rnl_job *const jobs[] = { &f.decode, &f.filter, &f.encode };

	steps = 0;
	for (int i = 0; i < 3; i++) {
		rnl_job_init(jobs[i], step);
		jobs[i]->user = &turns[i];
	}
	check(submit_frame(&f), "chain of events");
	for (int i = 0; i < 3; i++)
		done(jobs[i], "chain of events");
}

static void run_chain(void)
{
	struct chunk first, second;
	unsigned turns[] = { 0, 1 };

	steps = 0;
	rnl_job_init(&first.job, step);
	rnl_job_init(&second.job, step);
	first.job.user = &turns[0];
	second.job.user = &turns[1];
	check(!submit_chain(&first, &second), "chain");
	done(&first.job, "chain");
	done(&second.job, "chain");
}

static void run_batcher(void)
{
	static struct rnl_request requests[REQUESTS];
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_batcher *batcher;

	begin();
	attr.fn = infer;
	attr.in_bytes = attr.out_bytes = FEATURES * sizeof(uint32_t);
	check(!rnl_batcher_create(&batcher, pool, &attr), "batcher");
	for (int i = 0; i < REQUESTS; i++) {
		rnl_job_init(&requests[i].job, NULL);
		check(!ask(batcher, &requests[i], in), "inference");
	}
	for (int i = 0; i < REQUESTS; i++) {
		done(&requests[i].job, "inference");
		memcpy(out, requests[i].out, FEATURES * sizeof(uint32_t));
		all_worked(FEATURES, "inference");
		rnl_request_release(&requests[i]);
	}
	rnl_batcher_destroy(batcher);
}

static void run_told(void)
{
	struct rnl_barrier batch;
	struct rnl_job job, end, *reaped;
	unsigned turn = 0;
	struct rnl_cq *cq;

	steps = 0;
	check(!rnl_cq_create(&cq), "told");
	rnl_barrier_init(&batch, pool);
	rnl_job_init(&job, step);
	job.user = &turn;
	rnl_barrier_add(&batch, &job);
	check(!rnl_submit(pool, &job) && !tell_end(&batch, &end, cq), "told");
	check(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER) == 1 && reaped == &end, "told");
	check(!rnl_job_wait(&job, 0) && !end.result, "told");
	rnl_cq_destroy(cq);
}

static int nothing(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static void run_buckets(void)
{
	static struct bucket buckets[FRAMES];
	unsigned turns[FRAMES];
	struct rnl_order reduces;

	check(!rnl_order_init(&reduces, pool, RNL_KEY_WORKER(1)), "buckets");
	steps = 0;
	for (unsigned i = 0; i < FRAMES; i++) {
		turns[i] = i;
		rnl_job_init(&buckets[i].compute, nothing);
		rnl_job_init(&buckets[i].reduce, step);
		buckets[i].reduce.user = &turns[i];
		check(!submit_bucket(&buckets[i], &reduces), "buckets");
	}
	for (unsigned i = 0; i < FRAMES; i++)
		done(&buckets[i].reduce, "buckets");
	rnl_order_fini(&reduces);
}

static void run_message(void)
{
	struct message m;

	sem_init(&m.sending, 0, 0);
	rnl_job_init(&m.job, send_out);
	check(!rnl_submit(pool, &m.job), "hold");
	sem_wait(&m.sending);
	check(rnl_job_wait(&m.job, 0), "hold");
	was_sent(&m, 0);
	done(&m.job, "hold");
	sem_destroy(&m.sending);
}

int main(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "", 1);	/* the blocks' kernel is for the host */
	check(!create_pool(), "create_pool");
	run_chunks(copy_work_copy, submit_plain, "interleaved");
	run_questions();
	run_grouped();
	run_loader();
	run_frame();
	run_chain();
	run_batcher();
	run_told();
	run_chunks(answer, submit_plain, "alone");
	run_chunks(copy_work_copy, submit_small, "by the thousand");
	run_chunks(copy_work_copy, submit_urgent, "urgent");
	run_buckets();
	run_message();
	rnl_pool_destroy(pool);
	return EXIT_SUCCESS;
}
