# SPDX-License-Identifier: MIT
"""Inference of several batches at once: copy in, layers, copy out, as a job each; beside one
stream, and beside torch's own streams, or on the host beside an executor's threads. On a GPU twice:
each kernel launched by Python, one thread at a time, and each batch as one CUDA graph."""
import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import common
import runnel


def layers_np(x, weights):
    for weight in weights:
        x = np.maximum(x @ weight, 0)
    return x


def main():
    args = common.options(__doc__, batches=(64, 32, 8), rows=(64, 64, 8), width=(1024, 128, 64),
                          layers=(24, 4, 2), workers=(4, 2, 2))
    pool, torch = common.pool_and_torch(args.workers, args.device)
    shape = (args.rows, args.width)
    inputs = [pool.pinned(shape, "f4") for _ in range(args.batches)]
    outputs = [pool.pinned(shape, "f4") for _ in range(args.batches)]
    for i, batch in enumerate(inputs):
        batch[:] = common.numbers(*shape) + i
    weights = [common.numbers(args.width, args.width) * 2**0.5 for _ in range(args.layers)]
    expected = [layers_np(batch, weights) for batch in inputs]

    keys = [runnel.worker_key(i % args.workers) for i in range(args.batches)]
    workers = [pool.options(key=runnel.worker_key(i)) for i in range(args.workers)]

    def by_one_call(*run):		# the submits and the first jobs do not share the lock
        for one in pool.submit_many(lambda i: job(i, *run), range(args.batches), keys=keys):
            one.result()

    def by_a_submit_each(*run):
        for one in [workers[i % args.workers].submit(job, i, *run) for i in range(args.batches)]:
            one.result()

    if torch:
        weights = [torch.from_numpy(weight).cuda() for weight in weights]
        ins, outs = (list(map(common.tensor, arrays)) for arrays in (inputs, outputs))
        torch.cuda.synchronize()		# the weights are there: jobs have other streams
        streams = [torch.cuda.Stream() for _ in range(args.workers)]

        def infer(i):
            x = ins[i].to("cuda", non_blocking=True)
            for weight in weights:
                x = torch.relu(x @ weight)
            outs[i].copy_(x, non_blocking=True)

        # A graph has its stream's workspace of cuBLAS: those of one stream never run at once.
        infer(0)				# cuBLAS sets itself up, which no graph may have
        torch.cuda.synchronize()
        graphs = [torch.cuda.CUDAGraph() for _ in range(args.batches)]
        for i in range(args.batches):
            with torch.cuda.graph(graphs[i], stream=streams[i % len(streams)]):
                infer(i)

        def replay(i):
            graphs[i].replay()

        def one_by_one(run):
            for i in range(args.batches):
                run(i)
                torch.cuda.current_stream().synchronize()

        def one_stream(run):
            for i in range(args.batches):
                run(i)
            torch.cuda.current_stream().synchronize()

        def own_streams(run):
            for i in range(args.batches):
                with torch.cuda.stream(streams[i % len(streams)]):
                    run(i)
            for stream in streams:
                stream.synchronize()

        def job(i, run):
            with runnel.torch_stream():		# inside of the job: the stream is the worker's
                run(i)

        ways = {f"{name}{what}": functools.partial(way, run)
                for what, run in (("", infer), (", graphs", replay))
                for name, way in (("one stream, a wait after each", one_by_one),
                                  ("one stream", one_stream),
                                  (f"torch's streams, {args.workers}", own_streams),
                                  (f"runnel, {args.workers} workers", by_one_call),
                                  ("the same, a submit for each", by_a_submit_each))}
    else:
        def job(i):
            outputs[i][:] = layers_np(inputs[i], weights)

        def one_by_one():
            for i in range(args.batches):
                job(i)

        def executor():
            with ThreadPoolExecutor(args.workers) as threads:
                list(threads.map(job, range(args.batches)))

        ways = {"one thread": one_by_one, f"ThreadPoolExecutor, {args.workers}": executor,
                f"runnel, {args.workers} workers": by_one_call,
                "the same, a submit for each": by_a_submit_each,
                "torch's streams": "needs a GPU and torch"}

    def check(_name):
        for i, (have, want) in enumerate(zip(outputs, expected)):
            if not np.allclose(have, want, rtol=1e-2, atol=1e-2 * want.max()):
                return f"batch {i} differs by {np.abs(have - want).max()}"
            have[:] = 0

    with pool:
        common.table(ways, args.runs, check)


main()
