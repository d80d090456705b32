/* SPDX-License-Identifier: MIT */
/*
 * examples/buckets/device.cu for the double of the CUDA runtime, and a double of NCCL for the ranks
 * of one process.
 *
 * An all-reduce is an operation of its stream that waits for the operations of all other ranks,
 * like NCCL's kernels. FAKE_NCCL acts on the 20th all-reduce. call: it is refused; later: NCCL
 * finds an error after it; hangs: it never ends; wrong: a word of its sum is wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>

#include "doubles/clock.h"
#include "examples/buckets/buckets.h"
#include "examples/buckets/comms.h"

DOUBLE_KERNEL(compute_kernel, compute_on_host, struct compute_args)

#define NTH 20
#define GROUPS 8

/* The communicators of one id.  Their all-reduces have one order, so one runs at a time. */
static struct group {
	float *memory[RNL_DEVICES_MAX];
	unsigned nr, nr_came, nr_over;	/* nr_over: all-reduces */
} groups[GROUPS];

struct ncclComm {
	struct group *group;
	unsigned rank;
};

struct reduce_args {
	struct ncclComm *comm;
	float *memory;
	size_t nr_words;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static unsigned nr_ids, nr_calls;

static bool wanted(const char *what)
{
	const char *text = getenv("FAKE_NCCL");

	return text && !strcmp(text, what) && nr_calls >= NTH;
}

static void add_up(struct group *g, size_t nr_words)
{
	for (size_t i = 0; i < nr_words; i++) {
		float sum = 0;

		for (unsigned r = 0; r < g->nr; r++)
			sum += g->memory[r][i];
		for (unsigned r = 0; r < g->nr; r++)
			g->memory[r][i] = sum;
	}
	if (wanted("wrong"))
		g->memory[0][7] += 1;
	g->nr_came = 0;
	g->nr_over++;
	pthread_cond_broadcast(&moved);
}

static void reduce_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct reduce_args *r = args;
	struct group *g = r->comm->group;
	unsigned number;

	(void)grid;
	(void)block;
	pthread_mutex_lock(&lock);
	number = g->nr_over;
	g->memory[r->comm->rank] = r->memory;
	if (++g->nr_came == g->nr && !wanted("hangs"))
		add_up(g, r->nr_words);
	while (g->nr_over == number)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t nr, ncclDataType_t type, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream)
{
	const struct reduce_args args = { comm, to, nr };
	const struct rnl_dim one = { 1, 1, 1 };
	bool refused;

	if (from != to || type != ncclFloat || op != ncclSum)
		return ncclInvalidUsage;
	pthread_mutex_lock(&lock);
	nr_calls++;
	refused = wanted("call");
	pthread_mutex_unlock(&lock);
	if (refused)
		return ncclInternalError;
	return fake_launch(reduce_on_host, one, one, &args, sizeof(args), stream) ?
		ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	id->internal[0] = (char)nr_ids++;
	return nr_ids <= GROUPS ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nr, ncclUniqueId id, int rank)
{
	*comm = calloc(1, sizeof(**comm));
	if (!*comm)
		return ncclSystemError;
	(*comm)->group = &groups[(unsigned char)id.internal[0]];
	(*comm)->group->nr = (unsigned)nr;
	(*comm)->rank = (unsigned)rank;
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	free(comm);
	return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code)
{
	(void)comm;
	pthread_mutex_lock(&lock);
	*code = wanted("later") ? ncclRemoteError : ncclSuccess;
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

/* NCCL's header declares these without a prototype. */
ncclResult_t ncclGroupStart(void), ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
	return code == ncclRemoteError ? "a rank is gone" : "an error of the double";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "it was asked for";
}

const char *cudaGetErrorString(cudaError_t code)
{
	return code == cudaSuccess ? "no error" : "an error of the double of CUDA";
}
