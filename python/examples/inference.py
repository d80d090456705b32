# SPDX-License-Identifier: MIT
"""Inference of several batches at once: copy in, layers, copy out, as a job each; beside one
stream, and beside torch's own streams, or on the host beside an executor's threads."""
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
                          layers=(8, 4, 2), workers=(4, 2, 2))
    pool, torch = common.pool_and_torch(args.workers, args.device)
    shape = (args.rows, args.width)
    inputs = [pool.pinned(shape, "f4") for _ in range(args.batches)]
    outputs = [pool.pinned(shape, "f4") for _ in range(args.batches)]
    for i, batch in enumerate(inputs):
        batch[:] = common.numbers(*shape) + i
    weights = [common.numbers(args.width, args.width) for _ in range(args.layers)]
    expected = [layers_np(batch, weights) for batch in inputs]

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

        def one_by_one():
            for i in range(args.batches):
                infer(i)
                torch.cuda.current_stream().synchronize()

        def one_stream():
            for i in range(args.batches):
                infer(i)
            torch.cuda.current_stream().synchronize()

        def own_streams():
            for i in range(args.batches):
                with torch.cuda.stream(streams[i % len(streams)]):
                    infer(i)
            for stream in streams:
                stream.synchronize()

        def job(i):
            with runnel.torch_stream():		# inside of the job: the stream is the worker's
                infer(i)

        ways = {"one stream, a wait after each": one_by_one, "one stream": one_stream,
                f"torch's streams, {args.workers}": own_streams}
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
                "torch's streams": "needs a GPU and torch"}

    def jobs():
        for one in [pool.submit(job, i) for i in range(args.batches)]:
            one.result()

    def check(_name):
        for i, (have, want) in enumerate(zip(outputs, expected)):
            if not np.allclose(have, want, rtol=1e-2, atol=1e-2):
                return f"batch {i} differs by {np.abs(have - want).max()}"
            have[:] = 0

    ways[f"runnel, {args.workers} workers"] = jobs
    with pool:
        common.table(ways, args.runs, check)


main()
