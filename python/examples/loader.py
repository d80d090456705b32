# SPDX-License-Identifier: MIT
"""A loader that reads ahead: jobs read compressed batches of a file, unpack them into pinned memory
and copy them on several streams, while one worker computes; beside no reading ahead, and beside
torch's DataLoader, whose processes stay, or on the host beside an executor's threads."""
import collections
import os
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import common
import runnel


class Batches:
    """Batches of a file, and what computing each of them has to give."""

    def __init__(self, path, args):
        self.path, self.nr, self.shape = path, args.batches, (args.rows, args.width)
        self.weight = common.numbers(args.width, args.width)
        self.rounds = args.rounds
        rng, self.expected, self.places = np.random.default_rng(2), [], []
        with open(path, "wb") as file:
            for _ in range(self.nr):
                # Few values, so that they can be packed.
                batch = rng.integers(-8, 8, self.shape).astype("f4")
                self.places.append((file.tell(), file.write(zlib.compress(batch))))
                self.expected.append(self.compute(batch, self.weight))

    def read(self, i, into):
        offset, nbytes = self.places[i]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            unpacked = zlib.decompress(file.read(nbytes))
        np.copyto(into, np.frombuffer(unpacked, "f4").reshape(self.shape))

    def compute(self, x, weight):
        for _ in range(self.rounds):
            x = x @ weight
            x = x / abs(x).max()
        return x.sum()

    def __len__(self):
        return self.nr


class Torchs(Batches):
    """The same as a dataset of DataLoader, whose processes read."""

    def __init__(self, batches):
        self.__dict__.update(batches.__dict__)

    def __getitem__(self, i):
        import torch
        batch = np.empty(self.shape, "f4")
        self.read(i, batch)
        return torch.from_numpy(batch)


def main():
    args = common.options(__doc__, batches=(100, 32, 12), rows=(256, 64, 16),
                          width=(1024, 128, 64), rounds=(4, 4, 2), readers=(4, 2, 2),
                          ahead=(8, 8, 4))
    pool, torch = common.pool_and_torch(args.readers + 1, args.device)
    folder = tempfile.TemporaryDirectory()
    batches = Batches(os.path.join(folder.name, "batches"), args)
    weight = torch.from_numpy(batches.weight).cuda() if torch else batches.weight
    sums = [None] * len(batches)

    def compute(i, x):
        sums[i] = batches.compute(x, weight)

    def jobs():
        """A batch is a job that reads and copies, on a reader, and one that computes."""
        under_way = collections.deque()

        def load(i, pinned, device):
            batches.read(i, pinned)
            runnel.copy(device, pinned)

        def train(i, device):
            if not torch:
                runnel.launch(compute, i, device)
                return
            with runnel.torch_stream():
                compute(i, torch.from_dlpack(device))

        for i in range(len(batches)):
            if len(under_way) == args.ahead:
                under_way.popleft().result()
            pinned = pool.pinned(batches.shape, "f4")
            device = pool.device_array(batches.shape, "f4")
            loaded, reader = pool.barrier(), runnel.worker_key(1 + i % args.readers)
            pool.options(key=reader, barrier=loaded).submit(load, i, pinned, device)
            trainer = pool.options(key=runnel.worker_key(0), after=loaded)
            under_way.append(trainer.submit(train, i, device))
        for job in under_way:
            job.result()

    def nothing_ahead():
        for i in range(len(batches)):
            batch = np.empty(batches.shape, "f4")
            batches.read(i, batch)
            compute(i, torch.from_numpy(batch).cuda() if torch else batch)
        if torch:
            torch.cuda.synchronize()

    if torch:
        loader = torch.utils.data.DataLoader(Torchs(batches), batch_size=None, pin_memory=True,
                                             num_workers=args.readers, prefetch_factor=args.ahead,
                                             persistent_workers=True)

    def data_loader():
        for i, batch in enumerate(loader):
            compute(i, batch.cuda(non_blocking=True))
        torch.cuda.synchronize()

    def executor():
        def read(i):
            batch = np.empty(batches.shape, "f4")
            batches.read(i, batch)
            return batch

        with ThreadPoolExecutor(args.readers) as threads:
            for i, batch in enumerate(threads.map(read, range(len(batches)))):
                compute(i, batch)

    def check(_name):
        for i, (have, want) in enumerate(zip(sums, batches.expected)):
            if have is None or not np.isclose(float(have), want, rtol=1e-2, atol=1.0):
                return f"batch {i}: the sum is {have}, not {want}"
            sums[i] = None

    reads = "DataLoader" if torch else "ThreadPoolExecutor"
    with folder, pool:
        common.table({"no reading ahead": nothing_ahead,
                      f"{reads}, {args.readers} that read": data_loader if torch else executor,
                      f"runnel, {args.readers} workers that read": jobs}, args.runs, check)


if __name__ == "__main__":		# DataLoader's processes import this file
    main()
