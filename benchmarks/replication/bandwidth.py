"""Choosing the bandwidth of RBF CKA by how often it finds the same layer in a network of another seed."""

from __future__ import annotations

import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, layers_of
from sklearn_cka import CKA, benchmark_indexes

BANDWIDTHS = (0.1, 0.2, 0.4, 0.8, 1.6)


def main(setting: Setting) -> pd.DataFrame:
    """Match the flattened layers of all pairs of networks by every bandwidth and by the linear kernel."""
    plain = Architecture()
    recipes = [setting.recipe(seed) for seed in range(setting.seeds)]
    setting.train([(plain, recipe) for recipe in recipes])
    # Half of the rows of the layer matching: distances between them are a quarter of the work, once a bandwidth.
    rows = setting.n_test if setting.is_long else setting.n_test // 2
    pixels, _ = setting.test_images(rows)
    models = [layers_of(setting.network(plain, recipe), pixels, "flatten") for recipe in recipes]
    kernels = {f"{width:g}": CKA("rbf", bandwidth=width) for width in BANDWIDTHS} | {"linear": CKA()}
    frame = benchmark_indexes(models, kernels, n_jobs=setting.n_jobs).rename(columns={"index": "bandwidth"})
    frame = frame.drop(columns="seconds")
    setting.write("bandwidth", frame, _figure(frame), rows=rows, best=best(frame))
    return frame


def best(frame: pd.DataFrame) -> float:
    """Return the bandwidth of the greatest accuracy, the smallest of several."""
    searched = frame[frame["bandwidth"] != "linear"]
    return float(searched["bandwidth"][searched["accuracy"].idxmax()])


def _figure(frame: pd.DataFrame):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.0, 3.2), layout="constrained")
    searched, linear = frame[frame["bandwidth"] != "linear"], frame[frame["bandwidth"] == "linear"]
    ax.errorbar(
        searched["bandwidth"].astype(float),
        100 * searched["accuracy"],
        yerr=100 * searched["standard_error"],
        color="black",
        marker="o",
        capsize=3,
        label="RBF kernel",
    )
    ax.axhline(100 * linear["accuracy"].iloc[0], color="0.4", linestyle="--", label="linear kernel")
    ax.set_xscale("log", base=2)
    ax.set_xticks(BANDWIDTHS, labels=[f"{width:g}" for width in BANDWIDTHS])
    ax.set_xlabel("bandwidth, in median distances")
    ax.set_ylabel("layers that find\ntheir counterpart, %")
    ax.legend()
    return figure
