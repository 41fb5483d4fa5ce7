"""Measure tables on a device: ``python -m benchmarks.gpu --device cuda [--library cupy] [--quick] [--json FILE]``.

Every line gives the median time of a table, the rate at which it worked through the operations that it must at least
do, and the share of the rate of a large matrix product measured on the same device between the runs. The second part
times both forms of the linear kernel over the number of rows, and prints where they cross beside where the operations
say they should.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bound import network, table_operations
from sklearn_cka import SimilarityWarning, compare_layers


class Device:
    """A library on a device: moves arrays there, and waits until what was asked for is done."""

    def __init__(self, library: str, name: str) -> None:
        self.library, self.name = library, name
        if library == "torch":
            import torch

            self.torch, self.place = torch, torch.device(name)
            torch.set_float32_matmul_precision("highest")
        elif library == "cupy":
            import cupy

            self.cupy = cupy
        else:
            raise ValueError(f"library must be 'torch' or 'cupy', got {library!r}.")

    def put(self, array: np.ndarray) -> Any:
        """Return a NumPy array on the device."""
        return self.torch.asarray(array).to(self.place) if self.library == "torch" else self.cupy.asarray(array)

    def wait(self) -> None:
        """Wait until the device has nothing left to do."""
        if self.library == "cupy":
            self.cupy.cuda.Device().synchronize()
        elif self.place.type == "cuda":
            self.torch.cuda.synchronize(self.place)
        elif self.place.type == "mps":
            self.torch.mps.synchronize()

    def describe(self) -> str:
        """Name the device and the library with its version."""
        if self.library == "cupy":
            properties = self.cupy.cuda.runtime.getDeviceProperties(self.cupy.cuda.Device().id)
            return f"{properties['name'].decode()}, cupy {self.cupy.__version__}"
        name = self.torch.cuda.get_device_name(self.place) if self.place.type == "cuda" else self.name
        return f"{name}, torch {self.torch.__version__}"

    def seconds(self, job: Callable[[], Any]) -> float:
        """Return how long a job takes, with everything that it leaves to the device."""
        self.wait()
        start = time.perf_counter()
        job()
        self.wait()
        return time.perf_counter() - start

    def rate(self, side: int, repeats: int) -> float:
        """Return the operations a second of a square float32 product."""
        A = self.put(np.random.default_rng(0).standard_normal((side, side)).astype(np.float32))
        times = [self.seconds(lambda: A @ A) for _ in range(repeats + 1)]
        return 2.0 * side**3 / median(times[1:])


def table(layers: dict[str, Any], **options: Any) -> np.ndarray:
    """Return the values of a table, in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        return compare_layers(layers, verbose=0, **options).values


def measure_table(device: Device, n: int, p: int, n_layers: int, side: int, repeats: int) -> list[dict[str, Any]]:
    """Measure the table of one collection, under the linear kernel (biased, debiased) and the Gaussian."""
    host = network(n, [p] * n_layers)
    layers = {name: device.put(X) for name, X in host.items()}
    few = {name: host[name].astype(np.float64) for name in list(host)[:2]}
    found = []
    for name, options in (
        ("linear CKA", {}),
        ("linear CKA, debiased", {"debiased": True}),
        ("RBF CKA 0.4", {"kernel": "rbf", "bandwidth": 0.4}),
    ):
        values = table(layers, **options)  # also the first run, which compiles and allocates
        seconds, rates = [], []
        for _ in range(repeats):
            rates.append(device.rate(side, 1))
            seconds.append(device.seconds(partial(table, layers, **options)))
        operations = table_operations(n, [p] * n_layers)
        rate = operations / median(seconds)
        found.append(
            {
                "table": f"{n_layers} x {n_layers} layers, n={n:,}, p={p:,}, {name}",
                "seconds": median(seconds),
                "gigaflops": rate / 1e9,
                "share": rate / median(rates),
                "error": float(np.abs(table(few, **options)[0, 1] - values[0, 1])),
            }
        )
    return found


def measure_crossover(device: Device, n_layers: int, p: int, rows: list[int], repeats: int) -> list[dict[str, Any]]:
    """Time both forms of the linear kernel over the number of rows."""
    found = []
    for n in rows:
        layers = {name: device.put(X) for name, X in network(n, [p] * n_layers).items()}
        times = {}
        for plan in ("gram", "feature"):
            table(layers, plan=plan)
            job = partial(table, layers, plan=plan)
            times[plan] = median(device.seconds(job) for _ in range(repeats))
        found.append(
            {"n": n, "sum of widths": n_layers * p, **times, "gram / feature": times["gram"] / times["feature"]}
        )
    return found


def crossing(found: list[dict[str, Any]]) -> float:
    """Return the number of rows at which both forms cost the same, by interpolation of logarithms; NaN outside."""
    rows = np.log([entry["n"] for entry in found])
    ratios = np.log([entry["gram / feature"] for entry in found])
    for i in range(len(found) - 1):
        if ratios[i] <= 0.0 < ratios[i + 1]:
            return float(np.exp(np.interp(0.0, ratios[i : i + 2], rows[i : i + 2])))
    return float("nan")


def main(argv: list[str] | None = None) -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--library", default="torch", choices=("torch", "cupy"))
    parser.add_argument("--device", default="cuda", help="device of torch: cuda, cuda:1, mps, cpu (default: cuda)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    args = parser.parse_args(argv)
    device = Device(args.library, args.device)
    size = {"n": 600, "p": 128, "n_layers": 4, "side": 512} if args.quick else {}
    size = size or {"n": 10_000, "p": 4_096, "n_layers": 24, "side": 8_192}
    print(device.describe())
    tables = measure_table(device, **size, repeats=args.repeats)
    for entry in tables:
        print(
            f"{entry['table']}: {entry['seconds']:.3g} s, {entry['gigaflops']:.0f} GFLOP/s,"
            f" {100 * entry['share']:.0f} % of the product, error {entry['error']:.1e}"
        )
    n_layers, p = (4, 32) if args.quick else (12, 512)
    rows = [n_layers * p * k // 8 for k in (2, 4, 6, 8, 10, 12, 16)]
    crossover = measure_crossover(device, n_layers, p, rows, args.repeats)
    for entry in crossover:
        print(f"n={entry['n']:,}: gram / feature {entry['gram / feature']:.2f}")
    print(f"The forms cross at {crossing(crossover):,.0f} rows; by their operations at {n_layers * p:,}, about.")
    if args.json:
        args.json.write_text(json.dumps({"device": device.describe(), "tables": tables, "crossover": crossover}))


if __name__ == "__main__":
    main()
