"""Draw every index over every change: ``python -m benchmarks.known_truth --out results``.

Writes ``known_truth.csv``, with the mean and the standard deviation over seeds of every index for every amount of
every change; ``known_truth_curves.png``, with eight indexes of different families; and ``known_truth_indexes.png``,
with all indexes whose greatest value is 1.
"""

from __future__ import annotations

import argparse
import textwrap
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from tqdm import tqdm

from benchmarks.known_truth.changes import CHANGES, N_DIRECTIONS, N_SAMPLES
from sklearn_cka import CKA, CanonicalCorrelation, CanonicalRidge, get_index, index_names
from sklearn_cka.exceptions import SimilarityWarning

# Besides every index by its defaults.
VARIANTS = {
    "cka, debiased": CKA(debiased=True),
    "cka, rbf 0.4": CKA("rbf", bandwidth=0.4),
    "cca, mean squared": CanonicalCorrelation(statistic="mean_squared"),
    "canonical_ridge, separable": CanonicalRidge(statistic="separable"),
}
# There is nothing to deconfound; the mean of penalised correlations is not 1 for a representation with itself.
LEFT_OUT = ("deconfounded_cka", "canonical_ridge", "rtd")
# Of the curves: name, label, line and marker, told apart without colour.
SHOWN = {
    "cka": ("linear CKA", "-", "o"),
    "cka, debiased": ("linear CKA, debiased", "--", "o"),
    "cka, rbf 0.4": ("RBF CKA, 0.4", ":", "o"),
    "procrustes": ("Procrustes", "-", "s"),
    "cca, mean squared": ("CCA, mean squared", "-", "^"),
    "linear_predictivity": ("linear regression", "--", "^"),
    "soft_matching": ("soft matching of units", "-", "x"),
    "mutual_knn": ("mutual neighbours", ":", "D"),
}


def indexes():
    """Return every index that takes two representations of any widths, by name."""
    named = {name: get_index(name) for name in index_names() if name not in LEFT_OUT}
    either = {name: index for name, index in named.items() if not index.properties.equal_widths} | VARIANTS
    return dict(sorted(either.items()))


def measure(n_seeds: int, names=None, *, verbose: bool = True) -> pd.DataFrame:
    """Return one line for every change, amount and index."""
    chosen = {name: index for name, index in indexes().items() if names is None or name in names}
    lines = []
    for change_name, change in tqdm(CHANGES.items(), desc="changes", disable=not verbose):
        for amount in change.amounts:
            pairs = [change.make(amount, seed) for seed in range(n_seeds)]
            for name, index in chosen.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SimilarityWarning)
                    values = [index.similarity(X, Y) for X, Y in pairs]
                spread = np.std(values, ddof=1) if n_seeds > 1 else np.nan
                lines.append((change_name, amount, name, np.mean(values), spread, n_seeds))
    return pd.DataFrame(lines, columns=["change", "amount", "index", "value", "standard_deviation", "seeds"])


def draw_curves(frame: pd.DataFrame):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 3, figsize=(9.5, 9.0), layout="constrained", sharey=True)
    for ax, (change_name, change) in zip(axes.flat, CHANGES.items(), strict=True):
        for name, (label, line, marker) in SHOWN.items():
            part = frame[(frame["change"] == change_name) & (frame["index"] == name)]
            shade = "0.55" if "CKA" in label else "black"
            ax.plot(
                part["amount"],
                part["value"],
                linestyle=line,
                marker=marker,
                color=shade,
                label=label,
                markersize=5,
                markerfacecolor="white" if line != "-" else shade,
                linewidth=1.2,
            )
        if change.is_logarithmic:
            ax.set_xscale("log")
        ax.set_title(change.title, fontsize=10)
        ax.set_xlabel(change.amount_label)
        ax.set_ylim(-0.08, 1.05)
    for ax in axes[:, 0]:
        ax.set_ylabel("similarity")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def draw_all(frame: pd.DataFrame):
    """Draw every index with greatest value 1 as a row, the amounts of every change as columns."""
    import matplotlib.pyplot as plt

    bounded = [name for name, index in indexes().items() if index.properties.range[1] == 1.0]
    bounded = [name for name in bounded if name in set(frame["index"])]
    figure, axes = plt.subplots(
        1, len(CHANGES), figsize=(13.0, 0.24 * len(bounded) + 1.8), layout="constrained", sharey=True
    )
    for ax, (change_name, change) in zip(axes, CHANGES.items(), strict=True):
        part = frame[frame["change"] == change_name]
        values = part.pivot(index="index", columns="amount", values="value").loc[bounded].to_numpy()
        image = ax.imshow(np.ma.masked_invalid(values), vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
        ax.set_xticks(range(len(change.amounts)), labels=[f"{a:g}" for a in change.amounts], rotation=90, fontsize=7)
        ax.set_title(textwrap.fill(change.title, 18), fontsize=8)
        ax.set_xlabel(textwrap.fill(change.amount_label, 18), fontsize=7)
    axes[0].set_yticks(range(len(bounded)), labels=bounded, fontsize=8)
    figure.colorbar(image, ax=axes[-1], label="similarity, 0 and below to 1")
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    """Measure, and write the table and the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.known_truth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the table and the figures")
    parser.add_argument("--seeds", type=int, default=5, help="pairs for every amount (default: 5)")
    args = parser.parse_args(argv)
    matplotlib.use("agg")
    frame = measure(args.seeds)
    args.out.mkdir(parents=True, exist_ok=True)
    frame.to_csv(args.out / "known_truth.csv", index=False)
    draw_curves(frame).savefig(args.out / "known_truth_curves.png", dpi=90)
    draw_all(frame).savefig(args.out / "known_truth_indexes.png", dpi=90)
    print(f"{N_SAMPLES} rows, {N_DIRECTIONS} directions, {args.seeds} seeds")
    for change, part in frame.groupby("change", sort=False):
        print(f"== {change}")
        print(part.pivot(index="index", columns="amount", values="value").round(2).to_string())
    return frame


if __name__ == "__main__":
    main()
