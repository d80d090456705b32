/* SPDX-License-Identifier: MIT */
/*
 * Records, on CUDA: the issued work of a function, which can be issued again.
 *
 * DESIGN
 *	A record is a graph and its executable form.  It is built node by node, as a chain, from the
 *	notes of the function's calls, without an effect on other threads.  If the program has opted
 *	in, the record is made by a stream capture, which does affect other threads.
 *	Arguments of rnl_job_args() are nodes of the library's own kernel.  They are set before each
 *	launch if they have changed.
 *	Two captured runs have issued the same work if their graphs have the same nodes in the same
 *	order.  The comparison covers a kernel's function, dimensions and bytes of parameters,
 *	except the bytes of job arguments; and all that CUDA reports of copies and fills.
 *	A graph that allocates memory and does not free it can run only once, so it is not a record.
 */
#ifndef RNL_CUDA_RECORD_H
#define RNL_CUDA_RECORD_H

#include <cuda_runtime_api.h>

#include "device/device.h"
#include "device/notes.h"

/*
 * Issues a captured graph.  If a record is wanted, sets guarded->record or guarded->same.  The
 * callee owns the graph from now on.
 */
cudaError_t rnl__cuda_record(struct rnl__guarded *guarded, cudaGraph_t graph, cudaStream_t stream);

/* Like the device's record_create, record_launch and record_drop. */
struct rnl__record *rnl__cuda_record_create(const struct rnl__notes *notes);
cudaError_t rnl__cuda_record_launch(struct rnl__record *record, const void *user,
				    cudaStream_t stream);
void rnl__cuda_record_drop(struct rnl__record *record);

#endif
