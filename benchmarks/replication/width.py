"""Figure 6 of the paper: wider networks have layers more like those of each other."""

from __future__ import annotations

import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, accuracies, layers_of
from sklearn_cka import compare_layers


def main(setting: Setting) -> pd.DataFrame:
    """Compare the same layer of networks of the same width and two seeds, and of every width with the widest."""
    widths = (0.25, 0.5, 1.0, 2.0, 4.0) if setting.is_long else (0.25, 0.5, 1.0, 2.0)
    architectures = [Architecture(width=width) for width in widths]
    recipes = [setting.recipe(seed) for seed in (0, 1)]
    setting.train([(made, recipe) for made in reversed(architectures) for recipe in recipes])
    pixels, classes = setting.test_images()
    networks = {(made.width, r.seed): setting.network(made, r) for made in architectures for r in recipes}
    layers = {key: layers_of(network, pixels) for key, network in networks.items()}
    found = dict(zip(networks, accuracies(list(networks.values()), pixels, classes), strict=True))
    lines = []
    for width in widths:
        same = compare_layers(layers[width, 0], layers[width, 1], debiased=True).values.diagonal()
        widest = compare_layers(layers[width, 0], layers[widths[-1], 1], debiased=True).values.diagonal()
        for i, (own, other) in enumerate(zip(same, widest, strict=True), start=1):
            lines.append((width, i, own, other, (found[width, 0] + found[width, 1]) / 2))
    result = pd.DataFrame(lines, columns=["width", "layer", "cka_same_width", "cka_with_widest", "test_accuracy"])
    setting.write("width", result, _figure(result), seeds=2)
    return result


def _figure(result: pd.DataFrame):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.4), layout="constrained", sharey=True)
    styles = ["o:", "s-.", "^--", "D-", "v-"]
    for (width, part), style in zip(result.groupby("width"), styles, strict=False):
        for ax, column in zip(axes, ("cka_same_width", "cka_with_widest"), strict=True):
            label = f"width {width:g}, accuracy {part['test_accuracy'].iloc[0]:.2f}"
            ax.plot(part["layer"], part[column], style, color="black", markerfacecolor="white", label=label)
    axes[0].set(title="two seeds of one width", xlabel="layer", ylabel="debiased linear CKA of the same layer")
    axes[1].set(title="with the widest network", xlabel="layer")
    axes[0].legend(fontsize=8)
    return figure
