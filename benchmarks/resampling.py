"""Print what uncertainty costs, beside the value itself and beside the bare NumPy loop.

    python -m benchmarks.resampling            every case
    python -m benchmarks.resampling --check    and exit with 1 where a limit is passed

Ours and the other take turns, so that a slow moment of the machine falls on both. The bare loops have both Gram
matrices at hand, centred; ours starts from the data. A case against hyppo runs where it is installed.
"""

import argparse
import sys
import time
import warnings
from importlib.util import find_spec
from statistics import median

import numpy as np

from benchmarks.ratios import readable
from sklearn_cka import bootstrap, cka, jackknife, permutation_test


def pair(n, p, dtype):
    """Return two related representations."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X.astype(dtype), (X + rng.standard_normal((n, p))).astype(dtype)


def centered_grams(X, Y):
    return [Zc @ Zc.T for Zc in (X - X.mean(0), Y - Y.mean(0))]


def permutation_loop(K, L, n_resamples):
    rng = np.random.default_rng(0)
    norm = np.linalg.norm(K) * np.linalg.norm(L)
    values = np.empty(n_resamples)
    for k in range(n_resamples):
        order = rng.permutation(len(K))
        values[k] = np.sum(K * L[np.ix_(order, order)]) / norm
    return values


def bootstrap_loop(K, L, n_resamples):
    rng = np.random.default_rng(0)
    values = np.empty(n_resamples)
    for k in range(n_resamples):
        rows = rng.integers(len(K), size=len(K))
        A, B = K[np.ix_(rows, rows)], L[np.ix_(rows, rows)]
        a, b = A.mean(0), B.mean(0)
        A, B = A - a - a[:, None] + a.mean(), B - b - b[:, None] + b.mean()
        values[k] = np.vdot(A, B) / np.sqrt(np.vdot(A, A) * np.vdot(B, B))
    return values


def cases():
    """Yield name, ours, the other, what the other is, and the greatest ratio allowed."""
    for p in (64, 256, 512, 2000):
        for dtype in ("float64", "float32"):
            for debiased in (False, True):
                X, Y = pair(2000, p, dtype)
                yield (
                    f"jackknife, n=2000, p={p}, {dtype}{', debiased' if debiased else ''}",
                    lambda X=X, Y=Y, d=debiased: jackknife("cka", X, Y, debiased=d),
                    lambda X=X, Y=Y, d=debiased: cka(X, Y, debiased=d),
                    "the value",
                    2.5,
                )
    X, Y = pair(2000, 128, "float64")
    yield (
        "jackknife, n=2000, p=128, RBF",
        lambda: jackknife("cka", X, Y, kernel="rbf"),
        lambda: cka(X, Y, kernel="rbf"),
        "the value",
        2.5,
    )
    for p in (20, 100, 600):
        X, Y = pair(500, p, "float64")
        K, L = centered_grams(X, Y)
        found = permutation_test("cka", X, Y, n_resamples=20, random_state=0).null_distribution
        np.testing.assert_allclose(found, permutation_loop(K, L, 20), rtol=1e-9)
        yield (
            f"1,000 permutations, n=500, p={p}",
            lambda X=X, Y=Y: permutation_test("cka", X, Y, n_resamples=1000, random_state=0),
            lambda K=K, L=L: permutation_loop(K, L, 1000),
            "bare loop",
            0.4,
        )
        for debiased in (False, True):
            yield (
                f"1,000 bootstrap resamples, n=500, p={p}{', debiased' if debiased else ''}",
                lambda X=X, Y=Y, d=debiased: bootstrap("cka", X, Y, n_resamples=1000, random_state=0, debiased=d),
                lambda K=K, L=L: bootstrap_loop(K, L, 1000),
                "bare loop",
                0.25,
            )
    if find_spec("hyppo") is not None:
        from hyppo.independence import Hsic

        X, Y = pair(500, 20, "float64")
        yield (
            "1,000 permutations, n=500, p=20, RBF, two threads",
            lambda: permutation_test("hsic", X, Y, kernel="rbf", n_resamples=1000, random_state=0, n_jobs=2),
            lambda: Hsic().test(X, Y, reps=1000, workers=1, auto=False),
            "hyppo",
            1 / 30,
        )


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    """Run every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side of a case (default: 5)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is passed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    passed = True
    print(f"{'case':<58} {'ours':>9} {'other':>9} {'ratio':>6}   limit")
    for name, ours, other, what, limit in cases():
        ours(), other()
        turns = [(seconds(ours), seconds(other)) for _ in range(arguments.rounds)]
        mine, others = (median(times) for times in zip(*turns, strict=True))
        within = mine / others <= limit
        passed &= within
        ratio = f"{readable(mine):>9} {readable(others):>9} {mine / others:>6.3f}"
        print(f"{name:<58} {ratio}   {limit:.3g} x {what}{'' if within else ': EXCEEDED'}", flush=True)
    return 1 if arguments.check and not passed else 0


if __name__ == "__main__":
    sys.exit(main())
