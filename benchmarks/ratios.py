"""Print what the package costs beside the bare formula: medians of interleaved runs in one process.

    python -m benchmarks.ratios            every case
    python -m benchmarks.ratios --check    and exit with 1 where a limit is passed

Ours and the bare form take turns, so that a slow moment of the machine falls on both; each case first checks
that both give the same numbers. On a machine with other work to do, set OPENBLAS_NUM_THREADS=1: threads that must
wait for each other make every small product slow.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks import bare
from benchmarks.data import network, pair
from sklearn_cka import cka, compare_layers


@dataclass
class Case:
    """Two ways to one result: the package's and the bare formula's."""

    name: str
    ours: Callable[[], object]
    bare: Callable[[], object]
    limit: str
    max_ratio: float = np.inf
    max_seconds: float = np.inf
    calls: int = 1


def cases():
    """Yield every case; the data of one are freed before the next is made."""
    for dtype in ("float64", "float32"):
        X, Y = pair(2000, 512, dtype)
        yield Case(
            f"cka(X, Y), n=2000, p=512, {dtype}",
            lambda X=X, Y=Y: cka(X, Y),
            lambda X=X, Y=Y: bare.linear_cka(X, Y),
            "ratio <= 1.3",
            max_ratio=1.3,
        )
    X, Y = pair(20, 5, "float64")
    yield Case(
        "cka(X, Y), n=20, p=5, float64",
        lambda: cka(X, Y),
        lambda: bare.linear_cka(X, Y),
        "<= 200 us",
        max_seconds=200e-6,
        calls=500,
    )
    for dtype in ("float64", "float32"):
        X, Y = pair(2000, 512, dtype)
        yield Case(
            f"cka(X, Y, kernel='rbf'), n=2000, p=512, {dtype}",
            lambda X=X, Y=Y: cka(X, Y, kernel="rbf", bandwidth=0.5),
            lambda X=X, Y=Y: bare.rbf_cka(X, Y, bandwidth=0.5),
            "none set",
        )
    layers = network(24, 2000, 1024, "float32")
    yield Case(
        "compare_layers, 24 layers, n=2000, p=1024, float32",
        lambda: compare_layers(layers, verbose=0).values,
        lambda: bare.linear_cka_table(layers),
        "ratio <= 1.5",
        max_ratio=1.5,
    )


def seconds_per_call(function, calls):
    """Wall time of one call, averaged over `calls` of them."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def measure(case, rounds):
    """Return the seconds of every turn of ours and of the bare form."""
    np.testing.assert_allclose(case.ours(), case.bare(), rtol=1e-4)
    ours, by_hand = [], []
    for number in range(rounds):
        turns = [(case.ours, ours), (case.bare, by_hand)]
        for function, times in turns if number % 2 else reversed(turns):
            times.append(seconds_per_call(function, case.calls))
    return ours, by_hand


def readable(seconds):
    """Write seconds in the largest unit that leaves a digit before the point."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def main():
    """Run every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="turns of ours and bare in each case (default: 11)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is passed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")

    passed = True
    print(f"{'case':<52} {'ours':>9} {'fastest':>9} {'bare':>9} {'ratio':>6}   limit")
    for case in cases():
        ours, by_hand = measure(case, arguments.rounds)
        ratio = median(ours) / median(by_hand)
        # Turns share the machine's slow moments; a time by itself is judged by the turn that had none.
        within = ratio <= case.max_ratio and min(ours) <= case.max_seconds
        passed &= within
        times = f"{readable(median(ours)):>9} {readable(min(ours)):>9} {readable(median(by_hand)):>9} {ratio:>6.2f}"
        print(f"{case.name:<52} {times}   {case.limit}{'' if within else ': EXCEEDED'}", flush=True)
    return 1 if arguments.check and not passed else 0


if __name__ == "__main__":
    sys.exit(main())
