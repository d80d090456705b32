/* SPDX-License-Identifier: MIT */
/*
 * NCCL's all-reduce, between GPUs of one or several processes.
 *
 * DESIGN
 * Each device has a communicator, which only the device's reducer uses, on its implicit stream.  So
 * ranks in one process need no group call: each reducer calls from its own thread, like processes
 * with one rank.  All reducers issue the all-reduces in the same order.
 *
 * The communicators are blocking, because each collective of a non-blocking communicator starts a
 * thread.  The watch thread handles calls that do not return, and errors that NCCL finds later.
 */
#include "config.h"

#include "comms.h"
#include "common/program.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include <runnel/device.h>

static struct comms reducers;
static _Atomic(const char *) refused;	/* the error of a failed call; NULL: none */

static void must(ncclResult_t code, const char *what)
{
	if (code != ncclSuccess)
		program_die("%s: %s: %s", what, ncclGetErrorString(code), ncclGetLastError(NULL));
}

void must_cuda(cudaError_t code, const char *what)
{
	if (code != cudaSuccess)
		program_die("%s: %s", what, cudaGetErrorString(code));
}

int ordinal_of(const struct buckets *b, unsigned device)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	program_must(rnl_device_describe(b->pool, NULL, device, &info), "a device");
	return info.ordinal;
}

void comms_begin(struct comms *comms, const struct buckets *b)
{
	ncclUniqueId id = { { 0 } };

	if (!b->process)
		must(ncclGetUniqueId(&id), "ncclGetUniqueId");
	watch_expect("rank 0's NCCL id");
	processes_give(&id, sizeof(id));
	watch_expect("NCCL to connect the ranks");
	comms->nr = b->set.nr_devices;
	must(ncclGroupStart(), "ncclGroupStart");
	for (unsigned d = 0; d < comms->nr; d++) {
		must_cuda(cudaSetDevice(ordinal_of(b, d)), "cudaSetDevice");
		must(ncclCommInitRank(&comms->of[d], (int)b->nr_ranks, id, (int)rank_of(b, d)),
		     "ncclCommInitRank");
	}
	must(ncclGroupEnd(), "NCCL does not connect the ranks");
	watch_rest();
}

void comms_end(struct comms *comms)
{
	watch_expect("NCCL to finish");
	for (unsigned d = 0; d < comms->nr; d++)
		must(ncclCommDestroy(comms->of[d]), "ncclCommDestroy");
	watch_rest();
}

const char *comms_reduce(const struct comms *comms, const struct buckets *b, unsigned device,
			 unsigned bucket, cudaStream_t stream)
{
	float *mem = bucket_of(b, device, bucket);
	const ncclResult_t code = ncclAllReduce(mem, mem, b->nr_words, ncclFloat, ncclSum,
						comms->of[device], stream);

	return code == ncclSuccess ? NULL : ncclGetErrorString(code);
}

static void begin(struct buckets *b)
{
	comms_begin(&reducers, b);
}

static void end(void)
{
	comms_end(&reducers);
}

static int all_reduce(struct buckets *b, struct reduce *r)
{
	const char *wrong = comms_reduce(&reducers, b, r->device, r->bucket, rnl_stream());

	/* The watch thread reports the error: main may wait for a rank that waits for this one. */
	if (wrong)
		atomic_store_explicit(&refused, wrong, memory_order_relaxed);
	return wrong ? -EIO : 0;
}

static bool failed(char text[TEXT])
{
	const char *why = atomic_load_explicit(&refused, memory_order_relaxed);

	if (why) {
		snprintf(text, TEXT, "%s: %s", why, ncclGetLastError(NULL));
		return true;
	}
	for (unsigned d = 0; d < reducers.nr; d++) {
		ncclResult_t code = ncclSuccess;
		const ncclResult_t ret = ncclCommGetAsyncError(reducers.of[d], &code);

		code = ret != ncclSuccess ? ret : code;
		if (code != ncclSuccess && code != ncclInProgress) {
			snprintf(text, TEXT, "%s: %s", ncclGetErrorString(code),
				 ncclGetLastError(reducers.of[d]));
			return true;
		}
	}
	return false;
}

static const struct transport transport = {
	.name = "NCCL", .begin = begin, .reduce = all_reduce, .failed = failed, .end = end
};
const struct transport *const nccl_transport = &transport;
