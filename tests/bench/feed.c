/* SPDX-License-Identifier: MIT */
/*
 * How fast files in the page cache could be brought to the device at best.
 *
 *	tests/bench/feed DEVICE THREADS FILE...
 *
 * Two figures, each alone: threads that read the files into pinned buffers, one
 * megabyte at a time; and one stream that copies such buffers to the device.  The
 * smaller one is the limit for any program that does both, as examples/gwc.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <runnel.h>

#define PIECE (1u << 20)
#define THREADS_MAX 64
#define COPIES 20000
#define BUFFERS 64		/* of the copies, in turn */

static struct rnl_pool *pool;
static char **files;
static int nr_files;
static atomic_int next_file;
static atomic_ullong total;

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "feed: %s: %s\n", what, rnl_strerror(ret));
		exit(EXIT_FAILURE);
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *read_files(void *buf)
{
	int i;

	while ((i = atomic_fetch_add(&next_file, 1)) < nr_files) {
		int fd = open(files[i], O_RDONLY);
		ssize_t bytes;

		must(fd < 0 ? -errno : 0, files[i]);
		while ((bytes = read(fd, buf, PIECE)) > 0)
			atomic_fetch_add_explicit(&total, (unsigned long long)bytes,
						  memory_order_relaxed);
		must(bytes < 0 ? -errno : 0, files[i]);
		close(fd);
	}
	return NULL;
}

static double read_all(unsigned nr_threads)
{
	pthread_t threads[THREADS_MAX];
	double start;
	void *buf[THREADS_MAX];

	for (unsigned i = 0; i < nr_threads; i++)
		must(rnl_pinned_get(pool, PIECE, &buf[i]), "a pinned buffer");
	atomic_store(&next_file, 0);
	atomic_store(&total, 0);
	start = now();
	for (unsigned i = 0; i < nr_threads; i++)
		must(-pthread_create(&threads[i], NULL, read_files, buf[i]), "a thread");
	for (unsigned i = 0; i < nr_threads; i++)
		pthread_join(threads[i], NULL);
	start = now() - start;
	for (unsigned i = 0; i < nr_threads; i++)
		rnl_pinned_put(pool, buf[i]);
	return (double)atomic_load(&total) / start;
}

static double copy_all(void)
{
	void *buf[BUFFERS], *mem;
	double start;

	must(rnl_thread_attach(pool), "a stream");
	must(rnl_device_alloc(pool, PIECE, &mem), "device memory");
	for (unsigned i = 0; i < BUFFERS; i++)
		must(rnl_pinned_get(pool, PIECE, &buf[i]), "a pinned buffer");
	start = now();
	for (unsigned i = 0; i < COPIES; i++)
		must(rnl_copy(mem, buf[i % BUFFERS], PIECE), "rnl_copy");
	must(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	start = now() - start;
	for (unsigned i = 0; i < BUFFERS; i++)
		rnl_pinned_put(pool, buf[i]);
	rnl_device_free(pool, mem);
	rnl_thread_detach();
	return (double)COPIES * PIECE / start;
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int nr_threads = argc > 2 ? atoi(argv[2]) : 0;
	double best = 0;

	if (argc < 4 || nr_threads < 1 || nr_threads > THREADS_MAX) {
		fprintf(stderr, "usage: feed DEVICE THREADS FILE..., 1 to %d threads\n", THREADS_MAX);
		return 2;
	}
	files = argv + 3;
	nr_files = argc - 3;
	attr.device = argv[1];
	attr.nr_workers = 1;
	must(rnl_pool_create(&pool, &attr), argv[1]);
	for (int run = 0; run < 3; run++) {
		double rate = read_all((unsigned)nr_threads);

		best = rate > best ? rate : best;
	}
	printf("read into pinned memory by %d threads: %.1f GB/s, best of 3\n", nr_threads, best / 1e9);
	printf("copy to the device: %.1f GB/s\n", copy_all() / 1e9);
	rnl_pool_destroy(pool);
	return EXIT_SUCCESS;
}
