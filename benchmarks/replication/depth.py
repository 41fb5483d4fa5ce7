"""Figures 3 and 4 of the paper: where depth stops to help, CKA within a network shows it, as probes do."""

from __future__ import annotations

import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, accuracies, layers_of
from sklearn_cka import compare_layers, probe_layers

# How often every convolution of Tiny-10 is repeated.
DEPTHS, LONG_DEPTHS = (1, 2, 4), (1, 2, 4, 8)


def main(setting: Setting) -> pd.DataFrame:
    """Train plain networks of growing depth, and the deepest with shortcuts too; compare and probe their layers."""
    depths = LONG_DEPTHS if setting.is_long else DEPTHS
    architectures = [Architecture(repeats=repeats) for repeats in depths]
    architectures.append(Architecture(repeats=depths[-1], residual=True))
    recipe = setting.recipe(0)
    setting.train([(made, recipe) for made in reversed(architectures)])
    networks = [setting.network(made, recipe) for made in architectures]
    pixels, classes = setting.test_images()
    tables, probes, frames = [], [], []
    for made, network in zip(architectures, networks, strict=True):
        layers = layers_of(network, pixels)
        tables.append(compare_layers(layers, debiased=True))
        probes.append(probe_layers(layers, classes, n_jobs=setting.n_jobs))
        frame = probes[-1].to_frame().rename(columns={"score": "probe_accuracy"})
        frame.insert(0, "network", made.name)
        values = tables[-1].values
        frame["cka_with_next"] = [*(values[i, i + 1] for i in range(len(values) - 1)), float("nan")]
        frame["cka_with_last"] = values[:, -1]
        frames.append(frame)
    result = pd.concat(frames, ignore_index=True)
    found = accuracies(networks, pixels, classes)
    result["test_accuracy"] = result["network"].map(
        dict(zip((made.name for made in architectures), found, strict=True))
    )
    setting.write("depth", result, _figure(architectures, tables, probes, found), seeds=1)
    return result


def _figure(architectures, tables, probes, found):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(tables), figsize=(3.1 * len(tables), 5.4), layout="constrained", height_ratios=[3, 2], squeeze=False
    )
    for column, (made, table, probe, accuracy) in enumerate(zip(architectures, tables, probes, found, strict=True)):
        top, bottom = axes[:, column]
        n = len(table.row_names)
        image = top.imshow(table.values, vmin=0.0, vmax=1.0, cmap="viridis", origin="lower", extent=(0.5, n + 0.5) * 2)
        kind = "with shortcuts" if made.residual else "plain"
        top.set_title(f"{8 * made.repeats} convolutions, {kind}\naccuracy {accuracy:.2f}", fontsize=9)
        bottom.errorbar(range(1, n + 1), probe.mean, yerr=probe.standard_error, color="black", linewidth=1, capsize=2)
        bottom.set(xlim=(0.5, n + 0.5), ylim=(0.25, 0.85), xlabel="layer")
    axes[0, 0].set_ylabel("layer")
    axes[1, 0].set_ylabel("accuracy of a linear probe")
    figure.colorbar(image, ax=axes[0, :].tolist(), label="debiased linear CKA")
    return figure
