/* SPDX-License-Identifier: MIT */
/*
 * The row feed: the best rate at which FILEs in the page cache can reach the device.
 *
 * DESIGN
 *	Two separate figures: threads that read the files into pinned buffers, one megabyte at a
 *	time; and one stream that copies such buffers to the device. The smaller one is the limit of
 *	a program that does both, like examples/gwc.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <runnel/memory.h>
#include <runnel/thread.h>

#define PIECE (1u << 20)
#define COPIES 20000
#define QUICK_COPIES 100
#define BUFFERS 64		/* buffers of the copies, in turn; limit of threads */

struct feed {
	const struct bench_options *opt;
	struct rnl_pool *pool;
	void *bufs[BUFFERS], *mem;
	atomic_int next_file, next_buf;
	atomic_ullong total;
};

static void *read_files(void *arg)
{
	struct feed *f = arg;
	void *buf = f->bufs[atomic_fetch_add(&f->next_buf, 1)];
	int i;

	while ((i = atomic_fetch_add(&f->next_file, 1)) < f->opt->nr_files) {
		int fd = open(f->opt->files[i], O_RDONLY);
		ssize_t bytes;

		bench_rnl(fd < 0 ? -errno : 0, f->opt->files[i]);
		while ((bytes = read(fd, buf, PIECE)) > 0)
			/* relaxed: read when all threads have ended */
			atomic_fetch_add_explicit(&f->total, (unsigned long long)bytes,
						  memory_order_relaxed);
		bench_rnl(bytes < 0 ? -errno : 0, f->opt->files[i]);
		close(fd);
	}
	return NULL;
}

static uint64_t read_all(struct feed *f)
{
	pthread_t threads[BENCH_THREADS_MAX];

	atomic_store(&f->next_file, 0);
	atomic_store(&f->next_buf, 0);
	atomic_store(&f->total, 0);
	for (unsigned i = 0; i < f->opt->threads[0]; i++)
		bench_must(!pthread_create(&threads[i], NULL, read_files, f), "pthread_create");
	for (unsigned i = 0; i < f->opt->threads[0]; i++)
		pthread_join(threads[i], NULL);
	return atomic_load(&f->total);
}

static uint64_t copy_all(struct feed *f)
{
	const uint64_t nr = f->opt->quick ? QUICK_COPIES : COPIES;

	for (unsigned i = 0; i < nr; i++)
		bench_rnl(rnl_copy(f->mem, f->bufs[i % BUFFERS], PIECE), "rnl_copy");
	bench_rnl(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	return nr * PIECE;
}

static void measure(void *arg, unsigned copies, double *values)
{
	const uint64_t start = bench_now();
	const uint64_t bytes = copies ? copy_all(arg) : read_all(arg);

	values[0] = (double)bytes / (double)(bench_now() - start);
}

static void *begin(struct bench_run *run)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct feed *f;

	if (!run->opt->nr_files)
		return NULL;
	f = bench_alloc(sizeof(*f));
	f->opt = run->opt;
	attr.device = f->opt->device;
	attr.nr_workers = 1;
	bench_rnl(rnl_pool_create(&f->pool, &attr), f->opt->device);
	bench_rnl(rnl_thread_attach(f->pool), "a stream");
	bench_rnl(rnl_memory_get(f->pool, 0, PIECE, &f->mem, 0), "device memory");
	for (unsigned i = 0; i < BUFFERS; i++)
		bench_rnl(rnl_memory_get(f->pool, RNL_PINNED, PIECE, &f->bufs[i], 0),
			  "rnl_memory_get");
	read_all(f);
	return f;
}

static void end(void *arg, struct bench_line **lines)
{
	struct feed *f = arg;

	snprintf(lines[0]->note, sizeof(lines[0]->note), "%u threads", f->opt->threads[0]);
	for (unsigned i = 0; i < BUFFERS; i++)
		rnl_memory_put(f->pool, f->bufs[i]);
	rnl_memory_put(f->pool, f->mem);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(f->pool);
}

const struct bench_work bench_feed = { begin, measure, end, NULL };
