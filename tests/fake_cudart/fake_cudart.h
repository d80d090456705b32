/* SPDX-License-Identifier: MIT */
/*
 * A double of the CUDA runtime, for tests: the calls that src/device/cuda*.c make, three
 * that jobs should not make (cudaMalloc(), cudaFree(), cudaDeviceSynchronize()), and some of
 * those of units that are compiled for per-thread streams (ptsz.c). It runs on the host, so
 * the CUDA device's code is tested without a GPU.
 *
 * DESIGN
 *	A shared object with the soname and the symbol version of libcudart. LD_LIBRARY_PATH
 *	puts it in libcudart's place, so library and tests are the same as on a GPU, and a
 *	missing call is an error. (Preloaded under another name it would let such a call go to
 *	the real runtime.)  On a simulated machine it is linked in libcudart's place.
 *	There is one lock, as in the driver. A stream is a ring of operations with a thread,
 *	the executor. An operation may first wait until other streams have come to some
 *	point. Device memory is one mapping, cut into blocks, so an address tells its block,
 *	and whether the block is free.
 *	What CUDA leaves undefined is refused where the double can see it, and counted:
 *	fake_misuses(). Where a GPU behaves otherwise, the double is wrong.
 *
 *	The plan, from FAKE_CUDART at the start, fields separated by commas:
 *	fail=FUNCTION:N:CODE[:sticky]	the N-th call from here of FUNCTION, or of
 *					`any`, fails with that cudaError_t
 *	nofail				forgets the failures so far
 *	seed=N				of the delays; 0: by the clock, and printed
 *	delay_calls=US, delay_ops=US	calls, operations take up to so much longer, so that
 *					streams pass each other, and events come in another order
 *	memory=BYTES[K|M|G]		the device's; before its first use (256M)
 *	pinned=BYTES[K|M|G]		how much may be page-locked
 *	nowrite				no cuStreamWriteValue32
 *	absent=CODE			no driver answers: each call fails with it
 *	devices=N			1 to 16 (1); they share one memory, which has an owner
 *	strangers			no device is another one's peer
 *	queues=N			hardware queues, which streams share, in the order of
 *					issue; before its first use (0: one for each)
 *	logs				the driver's log of refused calls, as since 12.9
 *	junk				freed device memory is filled with 0xdb
 *	stay				threads that had a stream of their own never end once
 *					the device has failed (seen, but not always)
 *	misuse=abort			a misuse prints what it was and ends the process
 */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <runnel.h>
#include <runnel/kernel.h>

#define FAKE_ENV "FAKE_CUDART"

/* Adds to the plan. 0, or -1: a field was not understood, it and later ones are ignored. */
int fake_plan(const char *text);

/* Adds one failure; @function NULL or "any": any. 0, or -1: no such function. */
int fake_fail(const char *function, unsigned nth, int code, bool sticky);

/* The rest of the plan, in the format of fake_plan(). */
void fake_plan_print(FILE *to);

/* The device fails now: every call returns @code, no stream goes on, no word is written. */
void fake_fail_sticky(int code);

/* The functions' names, from 0; NULL: no more. */
const char *fake_function(unsigned i);

/* Calls of the function so far, by all threads; NULL: of all functions. */
uint64_t fake_calls(const char *function);

struct fake_alive {
	uint64_t device_bytes;		/* allocated */
	uint64_t kept_bytes;		/* free, and kept by memory pools */
	uint64_t pinned_bytes;
	unsigned streams;		/* made by cudaStreamCreate...() */
	unsigned thread_streams;	/* per-thread default streams of living threads */
	unsigned executors;
	unsigned events, pools, graphs;	/* executable ones included */
};
void fake_alive(struct fake_alive *alive);

/* The number of misuses, which CUDA leaves undefined; the last one in words, "" if none. */
uint64_t fake_misuses(void);
const char *fake_last_misuse(void);

/* Whether the device has a context: some 500 MB of a GPU's memory. */
bool fake_has_context(int device);

/* Operations that were issued to a stream (a cudaStream_t). */
int fake_stream_priority(void *stream);
uint64_t fake_stream_id(void *stream);

/* A kernel of the double; its CUfunction is the address of one. */
#define FAKE_KERNEL_MAGIC 0x6b65726eu

struct fake_kernel {
	uint32_t magic;
	void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	size_t bytes;			/* of args */
};

/*
 * A kernel on the double: a host function that an executor calls. The arguments are copied
 * before the call returns. Return: a cudaError_t.
 */
int fake_launch(void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args),
		struct rnl_dim grid, struct rnl_dim block, const void *args, size_t bytes,
		void *stream);

#endif
