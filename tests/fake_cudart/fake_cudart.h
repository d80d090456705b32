/* SPDX-License-Identifier: MIT */
/*
 * A double of the CUDA runtime, for tests. It has the calls that src/device/cuda*.c make, three
 * calls that jobs should not make (cudaMalloc(), cudaFree(), cudaDeviceSynchronize()), and some
 * calls of units that are compiled for per-thread streams (ptsz.c). It runs on the host, so the
 * CUDA device's code is tested without a GPU.
 *
 * DESIGN
 *	A shared object with the soname and the symbol version of libcudart. LD_LIBRARY_PATH
 *	makes the loader take it for libcudart. So the library and the tests are the same binaries
 *	as on a GPU, and a call that the double lacks is an error. (If the double were preloaded
 *	under another name, such a call would go to the real runtime.) A simulated machine links it
 *	instead of libcudart.
 *	There is one lock, as in the driver. A stream is a ring of operations with a thread,
 *	the executor. An operation may first wait until other streams have reached given points.
 *	Device memory is one mapping, cut into blocks: the double finds the block of an address, and
 *	whether the block is free.
 *	The double refuses uses that CUDA leaves undefined where it can detect them, and counts
 *	them: fake_misuses(). Where a GPU behaves differently, the double is wrong.
 *
 *	The plan is read from FAKE_CUDART at the start; commas separate its fields:
 *	fail=FUNCTION:N:CODE[:sticky]	the N-th later call of FUNCTION, or of `any`, fails
 *					with that cudaError_t
 *	nofail				forgets the failures so far
 *	seed=N				of the delays; 0: by the clock, and printed
 *	delay_calls=US, delay_ops=US	a call or operation takes up to US longer, so that streams
 *					overtake each other, and events get out of order
 *	memory=BYTES[K|M|G]		the device's size; set before its first use (256M)
 *	pinned=BYTES[K|M|G]		limit of page-locked memory
 *	nowrite				no cuStreamWriteValue32
 *	mps				the device is shared by MPS; set before its first use
 *	mig				the device's name is that of a slice of a GPU (MIG)
 *	mode=N				the compute mode, a cudaComputeMode
 *	slice=US			before each kernel another process has the device for that
 *					time, in which the stream's thread uses its CPU
 *	nogreen				no green contexts, as before CUDA 12.5
 *	sms=N				multiprocessors of a device (20), in groups of 8
 *	absent=CODE			there is no driver: each call fails with CODE
 *	devices=N			1 to 16 (1); they share one memory; each block has an owner
 *	strangers			no two devices are peers
 *	queues=N			hardware queues, which streams share in the order of
 *					issue; set before the first use (0: one per stream)
 *	logs, nologs			the driver gives reasons for failed calls, as since CUDA
 *					12.9, or not
 *	junk				freed device memory is filled with 0xdb
 *	stay				threads that used their own stream never end once
 *					the device has failed (seen on GPUs, not always)
 *	misuse=abort			a misuse is printed and ends the process
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

/* Adds to the plan. Returns 0, or -1 if a field is invalid; ignores it and later fields. */
int fake_plan(const char *text);

/* Adds a failure of @function (NULL, "any": any). Returns 0, or -1 if there is no such function. */
int fake_fail(const char *function, unsigned nth, int code, bool sticky);

/* Prints the rest of the plan in the format of fake_plan(). */
void fake_plan_print(FILE *to);

/* Makes the device fail: every call returns @code, streams stop, and no word is written. */
void fake_fail_sticky(int code);

/* Returns the name of function @i, from 0, or NULL after the last one. */
const char *fake_function(unsigned i);

/* Returns the number of calls of @function (NULL: of all functions) so far, by all threads. */
uint64_t fake_calls(const char *function);

struct fake_alive {
	uint64_t device_bytes;		/* allocated */
	uint64_t kept_bytes;		/* free, but kept by memory pools */
	uint64_t pinned_bytes;
	unsigned streams;		/* made by cudaStreamCreate...(), or in green contexts */
	unsigned thread_streams;	/* per-thread default streams of living threads */
	unsigned executors;
	unsigned events, pools, graphs;	/* executable graphs included */
	unsigned greens;		/* green contexts */
};
void fake_alive(struct fake_alive *alive);

/* Return the number of misuses (uses that CUDA leaves undefined), and the last one's text or "". */
uint64_t fake_misuses(void);
const char *fake_last_misuse(void);

/* Returns how often a node of an executable graph was set or enabled while its last launch could run. */
uint64_t fake_early_sets(void);

/* Returns the number of registered log callbacks. */
unsigned fake_listeners(void);

/* Returns true if the device has a context, which takes some 500 MB of a GPU's memory. */
bool fake_has_context(int device);

/* Properties of a stream (a cudaStream_t). */
int fake_stream_priority(void *stream);
uint64_t fake_stream_id(void *stream);

/* Returns the multiprocessors that a stream's kernels may use. */
struct fake_sms {
	unsigned first, nr;
};
struct fake_sms fake_stream_sms(void *stream);

/* A kernel of the double.  The struct's address is its CUfunction. */
#define FAKE_KERNEL_MAGIC 0x6b65726eu

struct fake_kernel {
	uint32_t magic;
	void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args);
	size_t bytes;			/* of args */
};

/*
 * Launches a kernel of the double: a host function that an executor calls. Copies the arguments
 * before it returns. Returns a cudaError_t.
 */
int fake_launch(void (*fn)(struct rnl_dim grid, struct rnl_dim block, const void *args),
		struct rnl_dim grid, struct rnl_dim block, const void *args, size_t bytes,
		void *stream);

#endif
