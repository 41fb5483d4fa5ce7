"""Gram matrices or features: where each form of the linear kernel is faster, beside the rule by operations.

    python -m benchmarks.crossover --out FOLDER [--repeats N]

The forms take turns on the same layers. For every number of layers, width and precision the rows at which both cost the
same are found by interpolation, and drawn over the rows at which their operations are equal, P^2 / (P + L^2 / 2).
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bound import network
from sklearn_cka import compare_layers

# (layers, width): one pair to many narrow layers.
SHAPES = ((2, 512), (4, 256), (8, 128), (12, 128), (24, 64), (48, 32))
DTYPES = ("float32", "float64")
FRACTIONS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
MARKERS = {"float32": "o", "float64": "s"}


class GramOrFeature:
    """The table of one network by either plan."""

    timeout = 300
    params = (("gram", "feature"), (256, 1024, 4096), (64, 512), (2, 12), DTYPES)
    param_names = ("plan", "n", "p", "layers", "dtype")

    def setup(self, plan: str, n: int, p: int, n_layers: int, dtype: str) -> None:
        """Make the layers."""
        warnings.simplefilter("ignore")
        self.layers = network(n, [p] * n_layers, dtype)

    def time_table(self, plan: str, *_: Any) -> None:
        """Time the table."""
        compare_layers(self.layers, plan=plan, verbose=0)

    def peakmem_table(self, plan: str, *_: Any) -> None:
        """Record the peak memory of the table."""
        compare_layers(self.layers, plan=plan, verbose=0)


def equal_operations(n_layers: int, p: int) -> float:
    """Return the number of rows at which both forms take the same operations."""
    total = n_layers * p
    return total**2 / (total + n_layers**2 / 2)


def ratios(n_layers: int, p: int, dtype: str, repeats: int) -> list[tuple[int, float]]:
    """Return the time of the Gram form over that of features, for several numbers of rows."""
    found = []
    for fraction in FRACTIONS:
        n = int(fraction * equal_operations(n_layers, p))
        layers = network(n, [p] * n_layers, dtype)
        times: dict[str, list[float]] = {"gram": [], "feature": []}
        for _ in range(repeats + 1):
            for plan, seconds in times.items():
                start = time.perf_counter()
                compare_layers(layers, plan=plan, verbose=0)
                seconds.append(time.perf_counter() - start)
        found.append((n, median(times["gram"][1:]) / median(times["feature"][1:])))
    return found


def crossing(found: list[tuple[int, float]]) -> float:
    """Return the rows at which a line through the logarithms of the ratios passes 1."""
    rows, values = np.log(np.array(found)).T
    slope, offset = np.polyfit(rows, values, 1)
    return float(np.exp(-offset / slope)) if slope > 0 else float("nan")


def draw(results: list[dict[str, Any]], file: Path) -> None:
    """Draw what was measured over the rule."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    ends = [min(r["rule"] for r in results) * 0.8, max(r["rule"] for r in results) * 1.25]
    left.plot(ends, ends, color="black", linewidth=1, label="equal operations")
    styles = ["-", "--", "-.", ":", (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1))]
    for dtype in DTYPES:
        part = [r for r in results if r["dtype"] == dtype]
        left.plot(
            [r["rule"] for r in part],
            [r["crossing"] for r in part],
            MARKERS[dtype],
            color="black",
            markerfacecolor="white" if dtype == "float64" else "black",
            label=dtype,
        )
    for r, style in zip([r for r in results if r["dtype"] == "float32"], styles, strict=False):
        n, values = np.array(r["ratios"]).T
        right.plot(n / r["rule"], values, linestyle=style, color="black", label=f"{r['layers']} layers of {r['p']}")
    left.set(xscale="log", yscale="log", xlabel="rows of equal operations", ylabel="rows of equal time, measured")
    right.set(xscale="log", yscale="log", xlabel="rows / rows of equal operations", ylabel="time, Gram / features")
    right.axhline(1.0, color="grey", linewidth=1)
    right.axvline(1.0, color="grey", linewidth=1)
    left.legend()
    right.legend(fontsize=8)
    figure.savefig(file, dpi=100)


def main(argv: list[str] | None = None) -> None:
    """Print one line a shape, write ``crossover.json`` and ``crossover.png``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crossover", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each (default: 5)")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    results = []
    for n_layers, p in SHAPES:
        for dtype in DTYPES:
            found = ratios(n_layers, p, dtype, args.repeats)
            rule, measured = equal_operations(n_layers, p), crossing(found)
            results.append(
                {"layers": n_layers, "p": p, "dtype": dtype, "rule": rule, "crossing": measured, "ratios": found}
            )
            print(f"{n_layers} layers of {p}, {dtype}: {measured:,.0f} rows, by operations {rule:,.0f}", flush=True)
    (args.out / "crossover.json").write_text(json.dumps(results))
    draw(results, args.out / "crossover.png")


if __name__ == "__main__":
    main()
