"""Print what tables and pairs cost beside the speed of the machine's matrix product, and beside the bare formula.

    python -m benchmarks.bound [--json FILE] [--repeats N] [NAME ...]

The bound of a table is the least number of operations (a multiply-add counts as two) divided by the rate of a large
matrix product that is measured between the runs. Medians of interleaved runs in one process; errors are against
float64.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import bare
from sklearn_cka import SimilarityWarning, cka, compare_layers

SIDE = 4096


@dataclass
class Workload:
    """A job of the package, what it must at least cost, and other ways to the same numbers."""

    name: str
    ours: Callable[[], Any]
    operations: float
    reference: Callable[[], np.ndarray] | None = None
    others: dict[str, Callable[[], Any]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)


def table_operations(n: int, widths: list[int]) -> float:
    """Return the operations of all pairs of one collection, the cheaper of the two forms."""
    total = sum(widths)
    return min(n**2 * total + n**2 * len(widths) ** 2 / 2, n * total**2)


def network(n: int, widths: list[int], dtype: str = "float32") -> dict[str, np.ndarray]:
    """Return layers over the same rows, each a noisy map of the one before."""
    rng = np.random.default_rng(0)
    layers, last = {}, rng.standard_normal((n, 64)).astype(dtype)
    for i, width in enumerate(widths):
        mixed = last[:, :64] @ rng.standard_normal((min(last.shape[1], 64), width)).astype(dtype) / 8
        last = np.maximum(mixed + 0.5 * rng.standard_normal((n, width)).astype(dtype), 0)
        layers[f"layer {i}"] = last
    return layers


def _in_float64(layers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: X.astype(np.float64) for name, X in layers.items()}


def _quiet_table(layers: Any, **options: Any) -> np.ndarray:
    return compare_layers(layers, verbose=0, **options).values


def workloads() -> dict[str, Callable[[], Workload]]:
    """Return what makes each workload, by name; the data of one are freed before the next is made."""

    def table(title: str, n: int, widths: list[int], limit: float, **options: Any) -> Callable[[], Workload]:
        def make() -> Workload:
            layers = network(n, widths)
            work = Workload(
                title,
                lambda: _quiet_table(layers, **options),
                table_operations(n, widths),
                lambda: _quiet_table(_in_float64(layers), **options),
                limits={"bound": limit},
            )
            if options.get("debiased"):
                work.others["biased"] = lambda: _quiet_table(layers)
                work.limits = {"biased": 1.1}
            return work

        return make

    def pair(n: int, p: int, limit: float = 1.1) -> Callable[[], Workload]:
        def make() -> Workload:
            X, Y = network(n, [p, p]).values()
            return Workload(
                f"one pair, n={n:,}, p={p:,}",
                lambda: cka(X, Y),
                min(n**2 * 2.0 * p, n * (2.0 * p) ** 2 / 2 * 3 / 2),
                lambda: np.array(cka(X.astype("f8"), Y.astype("f8"))),
                others={"bare": lambda: bare.linear_cka(X, Y)},
                limits={"bare": limit},
            )

        return make

    widths = np.geomspace(64, 16_384, 50).astype(int).tolist()
    return {
        "linear": table("24 layers, n=2,000, p=1,024", 2000, [1024] * 24, 2.1),
        "debiased": table("24 layers, n=2,000, p=1,024, debiased", 2000, [1024] * 24, 2.1, debiased=True),
        "widths": table("50 layers, n=500, p from 64 to 16,384", 500, widths, 2.5),
        "rows": table("12 layers, n=10,000, p=768", 10_000, [768] * 12, 1.5),
        "rbf": table("RBF 0.4, 12 layers, n=2,000, p=512", 2000, [512] * 12, 5.0, kernel="rbf", bandwidth=0.4),
        "square pair": pair(2000, 512),
        "wide pair": pair(500, 8192),
        "long pair": pair(50_000, 256),
    }


def measure(work: Workload, repeats: int) -> dict[str, Any]:
    """Return medians of interleaved runs, their ratios, and the error against float64."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    jobs: dict[str, Callable[[], Any]] = {"ours": work.ours, "product": lambda: A @ A, **work.others}
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        value = np.asarray(work.ours())
        error = float(np.nanmax(np.abs(value - work.reference()))) if work.reference else float("nan")
        for _ in range(repeats):
            for name, job in jobs.items():
                start = time.perf_counter()
                job()
                seconds[name].append(time.perf_counter() - start)
    medians = {name: median(times) for name, times in seconds.items()}
    rate = 2.0 * SIDE**3 / medians["product"]
    ratios = {"bound": medians["ours"] * rate / work.operations}
    ratios |= {name: medians["ours"] / medians[name] for name in work.others}
    return {
        "workload": work.name,
        "milliseconds": 1e3 * medians["ours"],
        "gigaflops": rate / 1e9,
        "ratios": ratios,
        "limits": work.limits,
        "error": error,
    }


def main(argv: list[str] | None = None) -> None:
    """Print one line a workload."""
    made = workloads()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bound", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(made)} (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    args = parser.parse_args(argv)
    results = []
    for name in args.names or made:
        results.append(result := measure(made[name](), args.repeats))
        ratios = ", ".join(
            f"{ratio:.2f} x {of}" + (f" (limit {result['limits'][of]})" if of in result["limits"] else "")
            for of, ratio in result["ratios"].items()
        )
        print(f"{result['workload']:42s} {result['milliseconds']:9.2f} ms  {ratios}; error {result['error']:.1e}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
