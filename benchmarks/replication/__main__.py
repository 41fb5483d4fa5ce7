"""Run the experiments: ``python -m benchmarks.replication --images cifar10.zip --out results``.

Every experiment writes a table (.csv), a figure (.png) and its conditions (.json). Networks are trained once and kept
in ``OUT/networks``; a run that was stopped goes on where it was, after the last finished epoch. The default form takes
about an hour on two cores; ``--long`` trains on all 50,000 images for 30 epochs and adds deeper and wider networks.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib

from benchmarks.replication import bandwidth, depth, matching, origins, residual, subspace, width
from benchmarks.replication.experiments import Setting

EXPERIMENTS = {
    "matching": matching,
    "bandwidth": bandwidth,
    "depth": depth,
    "residual": residual,
    "width": width,
    "origins": origins,
    "subspace": subspace,
}


def main(argv: list[str] | None = None) -> None:
    """Run the experiments named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replication",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiments", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--images", type=Path, help="folder or zip of SPLIT/CLASS/*.jpg (default: fetched from OpenML)")
    parser.add_argument("--out", type=Path, required=True, help="folder for networks, tables and figures")
    parser.add_argument("--checkpoints", type=Path, help="folder of resnet20-*.th and resnet56-*.th, for `residual`")
    parser.add_argument("--long", action="store_true", help="the long form")
    parser.add_argument("--epochs", type=int, help="epochs of training (default: 10; long: 30)")
    parser.add_argument("--train-images", type=int, help="images trained on (default: 10000; long: 50000)")
    parser.add_argument("--seeds", type=int, default=10, help="networks to match (default: 10)")
    parser.add_argument("--n-jobs", type=int, default=2, help="networks trained at a time (default: 2)")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.experiments) - set(EXPERIMENTS))
    if unknown:
        parser.error(f"no experiment is called {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    matplotlib.use("agg")
    setting = Setting(
        images=args.images,
        out=args.out,
        epochs=args.epochs or (30 if args.long else 10),
        n_images=args.train_images or (50_000 if args.long else 10_000),
        seeds=args.seeds,
        n_jobs=args.n_jobs,
        is_long=args.long,
        checkpoints=args.checkpoints,
    )
    for name in args.experiments or EXPERIMENTS:
        start = time.perf_counter()
        print(f"== {name}", flush=True)
        print(EXPERIMENTS[name].main(setting).round(3).to_string(index=False))
        print(f"   {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
