"""What feature maps cost and how far they are off: ``python -m benchmarks.feature_maps [--rows N]``.

For every map and number of components: time beside the exact table, and the root mean square of the errors of all pairs
of different layers over seeds, with the mean error, which is the bias.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.random_projection import GaussianRandomProjection

from benchmarks.bound import network
from sklearn_cka import cka, compare_layers


def errors(layers: dict[str, Any], exact: np.ndarray, seeds: int, **options: Any) -> tuple[float, float, float]:
    """Return root mean square error and mean error over pairs and seeds, and the seconds of one table."""
    upper = np.triu_indices(len(layers), 1)
    start = time.perf_counter()
    found = [compare_layers(layers, random_state=seed, verbose=0, **options).values for seed in range(seeds)]
    seconds = (time.perf_counter() - start) / seeds
    off = (np.array(found) - exact)[:, upper[0], upper[1]]
    return float(np.sqrt(np.mean(off**2))), float(off.mean()), seconds


def plain_projection(layers: dict[str, Any], exact: np.ndarray, k: int, seeds: int) -> tuple[float, float]:
    """Return both errors of projections used as they are, without correction."""
    upper = np.triu_indices(len(layers), 1)
    off = []
    for seed in range(seeds):
        projected = [
            GaussianRandomProjection(k, random_state=1000 * seed + i).fit_transform(X)
            for i, X in enumerate(layers.values())
        ]
        off += [cka(projected[i], projected[j]) - exact[i, j] for i, j in zip(*upper, strict=True)]
    return float(np.sqrt(np.mean(np.square(off)))), float(np.mean(off))


def main(argv: list[str] | None = None) -> None:
    """Print one line a map."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feature_maps", description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    layers = network(args.rows, [512] * 6)
    options: dict[str, Any] = {"kernel": "rbf", "bandwidth": 0.4}
    start = time.perf_counter()
    exact = compare_layers(layers, verbose=0, **options).values
    print(f"RBF 0.4, {args.rows:,} rows, exact: {time.perf_counter() - start:.2f} s")
    for made in (Nystroem, RBFSampler):
        for k in (100, 300, 1000):
            rms, bias, seconds = errors(layers, exact, args.seeds, feature_map=made(n_components=k), **options)
            print(f"  {made.__name__}({k}): error {rms:.4f}, bias {bias:+.4f}, {seconds:.2f} s")
    wide = network(1000, [8192] * 4)
    exact = compare_layers(wide, verbose=0).values
    print("linear, 1,000 rows of 8,192 columns")
    for k in (64, 256, 1024):
        rms, bias, seconds = errors(wide, exact, args.seeds, feature_map=GaussianRandomProjection(k))
        plain_rms, plain_bias = plain_projection(wide, exact, k, args.seeds)
        print(
            f"  GaussianRandomProjection({k}): error {rms:.4f}, bias {bias:+.4f}, {seconds:.2f} s;"
            f" not corrected: error {plain_rms:.4f}, bias {plain_bias:+.4f}"
        )


if __name__ == "__main__":
    main()
