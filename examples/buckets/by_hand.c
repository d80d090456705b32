/* SPDX-License-Identifier: MIT */
/*
 * The overlapped run by hand: a program without runnel, for comparison.
 *
 * DESIGN
 * Each device has a thread with an event for each bucket, and two streams, of which the second has
 * the highest priority.  NCCL remembers a communicator's last stream, so this run has communicators
 * of its own.  The threads sleep between runs, and spin at a run's start to avoid late wake-ups.
 */
#include "config.h"

#include "comms.h"
#include "common/program.h"

#include <pthread.h>
#include <stdatomic.h>

#include <runnel/kernel.h>

static struct hand {
	struct buckets *b;
	unsigned device;
	pthread_t thread;
	cudaStream_t computing, reducing;
	cudaEvent_t full[BUCKETS_MAX];
} hands[RNL_DEVICES_MAX];

static struct comms comms;
static pthread_barrier_t ready;		/* of the main thread and the devices' threads */
static _Atomic unsigned begun, ended;	/* runs that began; threads that ended the current run */
static bool is_over;

static void hand_begin(struct hand *h)
{
	int least, greatest;

	must_cuda(cudaSetDevice(ordinal_of(h->b, h->device)), "cudaSetDevice");
	must_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities");
	must_cuda(cudaStreamCreateWithPriority(&h->computing, cudaStreamNonBlocking, least),
		  "a stream");
	must_cuda(cudaStreamCreateWithPriority(&h->reducing, cudaStreamNonBlocking, greatest),
		  "a stream");
	for (unsigned i = 0; i < h->b->set.nr; i++)
		must_cuda(cudaEventCreateWithFlags(&h->full[i], cudaEventDisableTiming), "an event");
}

static void hand_end(struct hand *h)
{
	for (unsigned i = 0; i < h->b->set.nr; i++)
		(void)cudaEventDestroy(h->full[i]);
	(void)cudaStreamDestroy(h->reducing);
	(void)cudaStreamDestroy(h->computing);
}

static void hand_run(struct hand *h)
{
	const struct rnl_dim block = { COMPUTE_THREADS, 1, 1 };

	for (unsigned i = 0; i < h->b->set.nr; i++) {
		const struct compute_args args = compute_args_of(h->b, h->device, i);
		const char *wrong;

		must_cuda((cudaError_t)compute_kernel.cuda(compute_grid_of(h->b), block, &args,
							   h->computing), "a launch");
		must_cuda(cudaEventRecord(h->full[i], h->computing), "cudaEventRecord");
		must_cuda(cudaStreamWaitEvent(h->reducing, h->full[i], 0), "cudaStreamWaitEvent");
		wrong = comms_reduce(&comms, h->b, h->device, i, h->reducing);
		if (wrong)
			program_die("rank %u, bucket %u, by hand: %s", rank_of(h->b, h->device), i, wrong);
	}
	must_cuda(cudaStreamSynchronize(h->reducing), "cudaStreamSynchronize");
}

static void *hand_thread(void *arg)
{
	struct hand *h = arg;

	hand_begin(h);
	for (unsigned run = 1;; run++) {
		pthread_barrier_wait(&ready);
		if (is_over)
			break;
		while (atomic_load_explicit(&begun, memory_order_acquire) != run)
			;
		hand_run(h);
		atomic_fetch_add_explicit(&ended, 1, memory_order_release);
	}
	hand_end(h);
	return NULL;
}

void by_hand_begin(struct buckets *b)
{
	comms_begin(&comms, b);
	pthread_barrier_init(&ready, NULL, b->set.nr_devices + 1);
	for (unsigned d = 0; d < b->set.nr_devices; d++) {
		hands[d].b = b;
		hands[d].device = d;
		program_must(-pthread_create(&hands[d].thread, NULL, hand_thread, &hands[d]), "a thread");
	}
}

void by_hand_end(void)
{
	is_over = true;
	pthread_barrier_wait(&ready);
	for (unsigned d = 0; d < comms.nr; d++)
		pthread_join(hands[d].thread, NULL);
	pthread_barrier_destroy(&ready);
	comms_end(&comms);
}

double by_hand_go(struct buckets *b)
{
	uint64_t begin, end;

	b->nr_runs++;
	pthread_barrier_wait(&ready);
	watch_expect("all ranks to reach the run %s", way_names[BY_HAND]);
	processes_meet();
	watch_expect("the all-reduces of %u buckets, %s", b->set.nr, way_names[BY_HAND]);
	atomic_store_explicit(&ended, 0, memory_order_relaxed);
	begin = program_now_ns();
	atomic_fetch_add_explicit(&begun, 1, memory_order_release);
	while (atomic_load_explicit(&ended, memory_order_acquire) != b->set.nr_devices)
		;
	end = program_now_ns();
	watch_rest();
	values_check(b, way_names[BY_HAND]);
	return (double)(end - begin) / 1e6;
}
