/* SPDX-License-Identifier: MIT */
/*
 * Records, on CUDA: what a function has issued, to be issued once more.
 *
 * DESIGN
 *	A record is a graph, and the executable one.  It is built node by node from the notes of
 *	the function's calls, as a chain; or it is what a stream capture made, if the program has
 *	opted in to that.  Building one goes unnoticed by other threads; a capture does not.
 *	Arguments of rnl_job_args() are nodes of the library's own kernel, and are set before each
 *	launch if they have changed.
 *	Two captured runs have issued the same if their graphs have the same nodes, one after the
 *	other: of kernels, the function, the dimensions and each byte of the parameters, but the
 *	bytes of arguments; of copies and fills, all that CUDA says.
 *	A graph that allocates memory and does not free it can run only once: it is no record.
 */
#ifndef RNL_CUDA_RECORD_H
#define RNL_CUDA_RECORD_H

#include <cuda_runtime_api.h>

#include "device/device.h"
#include "device/notes.h"

/*
 * Issues a captured graph, and makes a record of it, if one is wanted: guarded->record, or
 * guarded->same.  The graph is the callee's from now on.
 */
cudaError_t rnl__cuda_record(struct rnl__guarded *guarded, cudaGraph_t graph, cudaStream_t stream);

/* As the device's record_create, record_launch and record_drop. */
struct rnl__record *rnl__cuda_record_create(const struct rnl__notes *notes);
cudaError_t rnl__cuda_record_launch(struct rnl__record *record, const void *user,
				    cudaStream_t stream);
void rnl__cuda_record_drop(struct rnl__record *record);

#endif
