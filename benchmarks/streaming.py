"""Exact streaming beside the bare product of its batches and the bound of the hardware.

``python -m benchmarks.streaming`` prints the ratios of interleaved medians; asv runs the class.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time

import numpy as np

from sklearn_cka import LayerAccumulator

WIDTH, BATCH = 512, 1_000


def make_batches(number: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return a few different batches of float32, which a stream repeats."""
    rng = np.random.default_rng(0)
    shared = [rng.standard_normal((BATCH, WIDTH), dtype=np.float32) for _ in range(number)]
    return [(X, X + rng.standard_normal((BATCH, WIDTH), dtype=np.float32)) for X in shared]


def bare(batches: list[tuple[np.ndarray, np.ndarray]], rounds: int) -> np.ndarray:
    """Return Z'Z of the stream, with no care for offsets, scales or debiasing."""
    total = np.zeros((2 * WIDTH, 2 * WIDTH))
    for i in range(rounds):
        Z = np.hstack(batches[i % len(batches)])
        total += Z.T @ Z
    return total


def accumulate(batches: list[tuple[np.ndarray, np.ndarray]], rounds: int, **params: object) -> LayerAccumulator:
    """Return the accumulator of the stream."""
    accumulator = LayerAccumulator("cka", **params)
    for i in range(rounds):
        X, Y = batches[i % len(batches)]
        accumulator.update({"x": X, "y": Y})
    return accumulator


def bound(rounds: int) -> float:
    """Return the seconds of n P^2 operations at the rate of a large matrix product."""
    A = np.ones((2_000, 2_000), dtype=np.float32)
    start = time.perf_counter()
    A @ A
    return rounds * BATCH * (2 * WIDTH) ** 2 * (time.perf_counter() - start) / (2 * 2_000**3)


class Streaming:
    """One pair of layers from batches."""

    params = (False, True)
    param_names = ("debiased",)

    def setup(self, debiased: bool) -> None:
        """Make the batches."""
        self.batches = make_batches()

    def time_accumulate(self, debiased: bool) -> None:
        """Time twenty batches."""
        accumulate(self.batches, 20, debiased=debiased)

    def peakmem_accumulate(self, debiased: bool) -> None:
        """Peak memory of twenty batches."""
        accumulate(self.batches, 20, debiased=debiased)


def main(rounds: int = 200, repeats: int = 5) -> None:
    """Print the ratios."""
    batches = make_batches()
    accumulate(batches, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: dict[str, list[float]] = {}
    for _ in range(repeats):
        times.setdefault("bound", []).append(bound(rounds))
        for name, work in (
            ("bare Z'Z", lambda: bare(batches, rounds)),
            ("biased", lambda: accumulate(batches, rounds)),
            ("debiased", lambda: accumulate(batches, rounds, debiased=True)),
        ):
            start = time.perf_counter()
            work()
            times.setdefault(name, []).append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:10} {value:8.3f} s  {value / medians['bound']:6.2f} times the bound")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"memory beyond that of four batches: {grown / 1024:.0f} MB")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
