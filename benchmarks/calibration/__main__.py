"""How honest the uncertainty is, by simulation: are p-values uniform, do intervals cover what they should.

    python -m benchmarks.calibration                        all of it, some minutes on one core
    python -m benchmarks.calibration --trials 200           quicker and coarser

p-values: pairs of independent representations; the share of p-values below 0.05, and the p-value of a
Kolmogorov-Smirnov test against the uniform distribution. Intervals: pairs drawn from populations whose CKA is
known from a sample of 50,000 rows; the share of 95 % intervals that hold it. One of them shows a limit: similarity so
weak that the estimate is almost that of independent data.
"""

import argparse
import warnings

import numpy as np
from scipy import stats

from sklearn_cka import bootstrap, cka, jackknife, permutation_test
from sklearn_cka.inference import ConfidenceInterval

INDEPENDENT = [(30, 2), (30, 30), (30, 300), (100, 10), (100, 1000), (300, 30), (1000, 2), (1000, 100)]


def linear_map(n, rng, p, q, noise, decay=0.5, heavy=False):
    """X with a power-law spectrum, Y a fixed linear map of it with noise; heavy: multivariate t with 6 degrees."""
    fixed = np.random.default_rng(7)
    A = fixed.standard_normal((p, q)) / np.sqrt(p)
    scale = np.arange(1, p + 1) ** -decay
    X, E = rng.standard_normal((n, p)) * scale, noise * rng.standard_normal((n, q))
    if heavy:
        X = X / np.sqrt(rng.chisquare(6, (n, 1)) / 6)
    return X, X @ A + E


def relu_features(n, rng, noise):
    """Return random features of the same inputs on both sides."""
    fixed = np.random.default_rng(8)
    Z = rng.standard_normal((n, 5))
    first, second = (np.maximum(Z @ fixed.standard_normal((5, 40)), 0.0) for _ in range(2))
    return first, second + noise * rng.standard_normal((n, 40))


SETTINGS = {
    "linear, p=3, q=4, n=60": (60, lambda n, rng: linear_map(n, rng, 3, 4, 0.5)),
    "linear, p=3, q=4, n=200": (200, lambda n, rng: linear_map(n, rng, 3, 4, 0.5)),
    "linear, p=20, q=30, n=100": (100, lambda n, rng: linear_map(n, rng, 20, 30, 1.0)),
    "steep, p=200, q=100, n=100": (100, lambda n, rng: linear_map(n, rng, 200, 100, 0.05, decay=1.0)),
    "steep, p=200, q=100, n=400": (400, lambda n, rng: linear_map(n, rng, 200, 100, 0.05, decay=1.0)),
    "ReLU features, n=150": (150, lambda n, rng: relu_features(n, rng, 0.5)),
    "ReLU features, noisy, n=300": (300, lambda n, rng: relu_features(n, rng, 3.0)),
    "limit: weak, p=200, q=100, n=100": (100, lambda n, rng: linear_map(n, rng, 200, 100, 1.0)),
    "linear, t with 6 df, p=20, n=200": (200, lambda n, rng: linear_map(n, rng, 20, 20, 1.0, heavy=True)),
}


def pvalues(trials):
    """Print the calibration of the tests under independence."""
    print(f"{'independent n, p':<18} {'estimator':<9} {'method':<10} {'< 0.05':>7} {'< 0.01':>7} {'KS p':>6}")
    for n, p in INDEPENDENT:
        for debiased in (False, True):
            for method in ("pearson3", "normal", "resampled"):
                rng = np.random.default_rng(n * p)
                count = trials if method != "resampled" or n <= 300 else max(trials // 10, 50)
                found = np.array(
                    [
                        permutation_test(
                            "cka",
                            rng.standard_normal((n, p)),
                            rng.standard_normal((n, p)),
                            method=method,
                            n_resamples=199,
                            random_state=trial,
                            debiased=debiased,
                        ).pvalue
                        for trial in range(count)
                    ]
                )
                ks = stats.kstest(found, "uniform").pvalue
                kind = "debiased" if debiased else "biased"
                shares = f"{np.mean(found < 0.05):>7.3f} {np.mean(found < 0.01):>7.3f}"
                print(f"{f'{n}, {p}':<18} {kind:<9} {method:<10} {shares} {ks:>6.3f}", flush=True)


def coverage(trials, n_resamples):
    """Print the coverage of intervals."""
    print(f"\n{'setting':<34} {'CKA':>6}  {'jackknife':>9} {'bca':>6} {'perc.':>6}   {'biased: jackknife':>17}")
    for name, (n, draw) in SETTINGS.items():
        X, Y = draw(50_000, np.random.default_rng(0))
        truth = cka(X, Y, debiased=True, form="feature")
        held = dict.fromkeys(("jackknife", "bca", "percentile", "biased"), 0)
        for trial in range(trials):
            X, Y = draw(n, np.random.default_rng(trial + 1))
            intervals = {
                "jackknife": jackknife("cka", X, Y, debiased=True).confidence_interval,
                "biased": jackknife("cka", X, Y).confidence_interval,
            }
            result = bootstrap("cka", X, Y, debiased=True, n_resamples=n_resamples, random_state=trial)
            intervals["bca"] = result.confidence_interval
            limits = np.quantile(result.bootstrap_distribution, [0.025, 0.975])
            intervals["percentile"] = ConfidenceInterval(*limits)
            for method, interval in intervals.items():
                held[method] += interval.low <= truth <= interval.high
        shares = {method: count / trials for method, count in held.items()}
        print(
            f"{name:<34} {truth:>6.3f}  {shares['jackknife']:>9.3f} {shares['bca']:>6.3f}"
            f" {shares['percentile']:>6.3f}   {shares['biased']:>17.3f}",
            flush=True,
        )


def main():
    """Run both simulations."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000, help="simulated data sets of each setting (default: 1000)")
    parser.add_argument("--resamples", type=int, default=999, help="bootstrap resamples (default: 999)")
    parser.add_argument("--only", choices=("pvalues", "coverage"), help="one of the two simulations")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.only != "coverage":
        pvalues(arguments.trials)
    if arguments.only != "pvalues":
        coverage(arguments.trials, arguments.resamples)


if __name__ == "__main__":
    main()
