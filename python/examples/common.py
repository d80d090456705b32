# SPDX-License-Identifier: MIT
"""What the examples share: options, torch or numpy, passes, and a table of them."""
import argparse
import statistics
import sys
import time

import numpy as np

import runnel


def options(doc, **numbers):
    """--device, --runs, --quick, and numbers with their defaults: on a GPU, on the host, quick."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--device", default="auto", help="cuda, cuda:1, cuda:all, host, host:2; auto")
    parser.add_argument("--runs", type=int, default=5, help="of each row, whose median is shown; 5")
    parser.add_argument("--quick", action="store_true", help="small: it works, and no figures")
    for name, (gpu, host, _) in numbers.items():
        parser.add_argument(f"--{name}", type=int, help=f"{gpu} on a GPU, {host} on the host")
    args = parser.parse_args()
    if args.quick:
        args.runs = 1
    for name in ("runs", *numbers):
        given = getattr(args, name)
        if given is not None and given < 1:
            parser.error(f"--{name} is {given}; it must be 1 at least")
    which = 2 if args.quick else 1 - runnel.describe(args.device)["cuda"]
    for name, defaults in numbers.items():
        if getattr(args, name) is None:
            setattr(args, name, defaults[which])
    return args


def pool_and_torch(nr_workers, device):
    """A pool; and torch on a GPU, None on the host, where numpy computes."""
    pool = runnel.Pool(nr_workers, device)
    print(", ".join(d["name"] for d in pool.devices))
    if pool.on_host:
        return pool, None
    try:
        import torch
    except ImportError:
        pool.close()
        sys.exit("on a GPU this program needs torch: pip install torch; --device=host does not")
    torch.cuda.set_device(pool.devices[0]["ordinal"])
    return pool, torch


def tensor(array):
    """A pinned numpy array as torch's."""
    import torch
    return torch.from_numpy(array)


def table(ways, runs, check):
    """Runs each way some times, in turns, and prints their medians; check(name) tells what is wrong
    after a run. Ways are a dict: name -> function, or a sentence that says why there is none."""
    times = {name: [] for name, way in ways.items() if callable(way)}
    for turn in range(runs + (runs > 1)):		# the first turn warms up
        for name in times:
            begin = time.perf_counter()
            ways[name]()
            seconds = time.perf_counter() - begin
            wrong = check(name)
            if wrong:
                sys.exit(f"{name}: {wrong}")
            if turn or runs == 1:
                times[name].append(seconds)
    for name, way in ways.items():
        if callable(way):
            took = sorted(times[name])
            print(f"{name:44} {statistics.median(took) * 1e3:9.2f} ms   {took[0] * 1e3:9.2f} to "
                  f"{took[-1] * 1e3:.2f}")
        else:
            print(f"{name:44} {way}")


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype="f4") / shape[-1] ** 0.5
