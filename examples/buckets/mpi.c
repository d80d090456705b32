/* SPDX-License-Identifier: MIT */
/*
 * The processes that mpirun starts, and the all-reduce of MPI, for host devices.
 *
 * DESIGN
 * An all-reduce job takes a hold and launches a kernel on its stream.  When the kernel runs, the
 * bucket is full, and the kernel posts a semaphore of the main thread.  The main thread begins
 * MPI_Iallreduce(), polls it to its end, and releases the hold, which completes the job.  So no
 * worker waits, and only one thread calls MPI.  A held job counts as issued when it is done, so the
 * next all-reduce, which runs.c orders after it, starts only then: one all-reduce is in flight at a
 * time, in the same order on all ranks.  Without mpirun, MPI is not started.
 */
#include "config.h"

#include "buckets.h"
#include "common/ranks.h"

#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <runnel/hold.h>
#include <runnel/kernel.h>

#define LOOK_NS 50000000		/* interval of the check for a failed job */

static bool started;

/* ---- the processes --------------------------------------------------------- */

static bool under_mpirun(void)
{
	static const char *const variables[] = {
		"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_SIZE"
	};

	for (unsigned i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		if (getenv(variables[i]))
			return true;
	return false;
}

void processes_begin(struct buckets *b)
{
	int process = 0, nr = 1;

	started = b->mpi || under_mpirun();
	if (started) {
		watch_expect("MPI to start all ranks");
		ranks_begin(MPI_THREAD_FUNNELED, &process, &nr);
		watch_rest();
	}
	b->process = (unsigned)process;
	b->nr_processes = (unsigned)nr;
	if (nr > 1)
		watch_rank(b->process);
}

void processes_end(void)
{
	if (!started)
		return;
	watch_expect("all ranks to finish");
	ranks_must(MPI_Finalize(), "MPI_Finalize");
	watch_rest();
}

const char *processes_device(const char *device, char text[16])
{
	const char *found = device;

	if (started) {
		watch_expect("the ranks of this host to share its devices");
		found = ranks_device(device, text);
		watch_rest();
	}
	return found;
}

void processes_agree(const void *bytes, size_t size, const char *what)
{
	unsigned char first[256];

	if (!started)
		return;
	if (size > sizeof(first))
		program_die("%s are too long", what);
	memcpy(first, bytes, size);
	watch_expect("rank 0's %s", what);
	processes_give(first, size);
	watch_rest();
	if (memcmp(first, bytes, size))
		program_die("this rank's %s differ from rank 0's", what);
}

void processes_give(void *bytes, size_t size)
{
	if (started)
		ranks_must(MPI_Bcast(bytes, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
}

void processes_max(double *values, unsigned nr)
{
	if (!started)
		return;
	watch_expect("the ranks' times");
	ranks_must(MPI_Allreduce(MPI_IN_PLACE, values, (int)nr, MPI_DOUBLE, MPI_MAX,
				 MPI_COMM_WORLD), "MPI_Allreduce");
	watch_rest();
}

void processes_meet(void)
{
	if (started)
		ranks_must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

/* ---- the all-reduce --------------------------------------------------------- */

static sem_t full;			/* counts full buckets */

struct tell_args {
	sem_t *full;
};

static void tell_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	sem_post(((const struct tell_args *)args)->full);
}

RNL_HOST_KERNEL(tell_kernel, tell_on_host, struct tell_args);

static void begin(struct buckets *b)
{
	(void)b;
	sem_init(&full, 0, 0);
}

static int tell(struct buckets *b, struct reduce *r)
{
	const struct tell_args args = { &full };
	const struct rnl_dim one = { 1, 1, 1 };
	int ret = rnl_job_hold(&r->job, &r->hold);

	(void)b;
	if (ret)
		return ret;
	ret = rnl_launch(&tell_kernel, one, one, &args);
	if (ret)
		rnl_hold_release(&r->hold, ret);
	return ret;
}

/* Waits until the bucket is full.  Returns false if the job fails before that. */
static bool is_full(struct reduce *r)
{
	struct timespec until;

	for (;;) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (!sem_timedwait(&full, &until))
			return true;
		if (!rnl_job_wait(&r->job, 0))
			return false;
	}
}

static void all_reduce(struct buckets *b, struct reduce *r)
{
	MPI_Request request;
	int over = 0;

	ranks_must(MPI_Iallreduce(MPI_IN_PLACE, bucket_of(b, r->device, r->bucket), (int)b->nr_words,
				  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request), "MPI_Iallreduce");
	while (!over) {
		ranks_must(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
		if (!over)
			sched_yield();	/* the streams' threads may need this CPU */
	}
	if (r->span)
		r->span->end = (uint64_t)rnl_clock();	/* the host device's clock */
	program_must(rnl_hold_release(&r->hold, 0), "releasing an all-reduce");
}

static void progress(struct buckets *b)
{
	for (unsigned i = 0; i < b->set.nr; i++) {
		struct reduce *r = reduce_of(0, i);

		watch_expect("the computing of bucket %u", i);
		if (!is_full(r))
			return;
		watch_expect("MPI_Iallreduce of bucket %u", i);
		all_reduce(b, r);
	}
}

static const struct transport transport = {
	.name = "MPI_Iallreduce", .begin = begin, .reduce = tell, .progress = progress
};
const struct transport *const mpi_transport = &transport;
