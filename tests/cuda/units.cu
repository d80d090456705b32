/* SPDX-License-Identifier: MIT */
/* Functions of jobs that call CUDA, and do not check for errors; units.c makes the jobs. */
#include <runnel/cuda.h>

enum { BAD_THREADS = 4096, LONG_NS = 20000000 };

static __global__ void set_late(volatile int *word, int value)
{
	unsigned long long begin, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < LONG_NS);
	*word = value;
}

extern "C" int bad_launch_fn(struct rnl_job *job)
{
	set_late<<<1, BAD_THREADS>>>(static_cast<int *>(job->user), 1);
	return 0;
}

extern "C" int late_fn(struct rnl_job *job)
{
	set_late<<<1, 1>>>(static_cast<int *>(job->user), 7);
	return 0;
}
