# SPDX-License-Identifier: MIT
"""Buckets of gradients as in data-parallel training: each device computes bucket after bucket, and
as soon as all have computed one, each adds it up over all devices, on another stream. Beside adding
at the end, and on GPUs beside streams and events by hand. --device=cuda:all, or host:2: one
process."""
import numpy as np

import common
import runnel


class Work:
    """What is computed and added: on a GPU by torch, on the host by numpy."""

    def __init__(self, pool, torch, args):
        self.torch, self.nr, self.rounds = torch, args.buckets, args.rounds
        self.devices = range(len(pool.devices))
        self.names = [f"cuda:{d['ordinal']}" for d in pool.devices]
        weight = common.numbers(args.width, args.width)
        self.weights = [self.there(weight, d) for d in self.devices]
        zeros = np.zeros_like(weight)
        self.parts, self.sums = ([[self.there(zeros, d) for _ in range(self.nr)]
                                  for d in self.devices] for _ in range(2))
        x = np.eye(args.width, dtype="f4")
        for _ in range(self.rounds):
            x = x @ weight
        self.expected = x * sum(range(1, len(self.devices) + 1))
        self.synchronize()

    def there(self, array, device):
        return self.torch.from_numpy(array).to(self.names[device]) if self.torch else array.copy()

    def synchronize(self):
        for name in self.names if self.torch else ():
            self.torch.cuda.synchronize(name)

    def compute(self, device, bucket):
        x = self.weights[device] * (device + 1)
        for _ in range(self.rounds - 1):
            x = x @ self.weights[device]
        self.parts[device][bucket][:] = x

    def add(self, device, bucket):
        """Other devices' parts are read where they are: they are computed, and nobody writes."""
        total = self.sums[device][bucket]
        total[:] = self.parts[device][bucket]
        for other in self.devices:
            if other != device:
                part = self.parts[other][bucket]
                total += part.to(self.names[device], non_blocking=True) if self.torch else part

    def check(self, _name):
        self.synchronize()
        for device in self.devices:
            for bucket, have in enumerate(self.sums[device]):
                have = have.cpu().numpy() if self.torch else have
                if not np.allclose(have, self.expected, rtol=1e-2, atol=1e-3):
                    off = np.abs(have - self.expected).max()
                    return f"device {device}, bucket {bucket}: off by {off}"
                self.sums[device][bucket][:] = 0
        self.synchronize()


def wrapped(fn, device, bucket):
    with runnel.torch_stream():
        fn(device, bucket)


def main():
    args = common.options(__doc__, buckets=(16, 8, 4), width=(2048, 128, 64), rounds=(4, 4, 2))
    devices = "host:2" if args.device == "host" else args.device
    pool, torch = common.pool_and_torch(0, devices)
    pool.resize(2 * len(pool.devices))		# of each device one computes, and one adds
    work = Work(pool, torch, args)

    def submit(what, device, bucket, worker, **options):
        worker = pool.options(key=runnel.worker_key(worker), device=device, **options)
        return worker.submit(wrapped, what, device, bucket)

    def overlapped():
        jobs = []
        for bucket in range(args.buckets):
            computed = pool.barrier()
            for device in work.devices:
                submit(work.compute, device, bucket, 0, barrier=computed)
            jobs += [submit(work.add, device, bucket, 1, after=computed) for device in work.devices]
        for job in jobs:
            job.result()

    def all_of(what):
        done = pool.barrier()
        for bucket in range(args.buckets):
            for device in work.devices:
                submit(what, device, bucket, 0, barrier=done)
        done.wait()

    def at_the_end():
        all_of(work.compute)
        all_of(work.add)

    def by_hand():
        streams = [(torch.cuda.Stream(name), torch.cuda.Stream(name)) for name in work.names]
        for bucket in range(args.buckets):
            events = []
            for device in work.devices:
                with torch.cuda.device(device), torch.cuda.stream(streams[device][0]):
                    work.compute(device, bucket)
                    events.append(streams[device][0].record_event())
            for device in work.devices:
                with torch.cuda.device(device), torch.cuda.stream(streams[device][1]):
                    for event in events:
                        streams[device][1].wait_event(event)
                    work.add(device, bucket)
        work.synchronize()

    def check(name):
        return None if name.startswith("limit") else work.check(name)

    with pool:
        common.table({"limit: computing alone": lambda: all_of(work.compute),
                      "adding at the end": at_the_end,
                      "streams and events by hand": by_hand if torch else "needs GPUs and torch",
                      "runnel, overlapped": overlapped}, args.runs, check)


main()
