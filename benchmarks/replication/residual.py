"""Figure 5 of the paper: shortcuts make the sums alike, and not the branches between them.

Needs checkpoints of residual networks for CIFAR-10, as of https://github.com/akamaster/pytorch_resnet_cifar10.
"""

from __future__ import annotations

import pandas as pd
import torch

from benchmarks.replication.experiments import Setting
from benchmarks.replication.images import MEAN, STANDARD_DEVIATION
from examples import compare_resnets as resnets
from sklearn_cka import compare_layers, extract_layers

SMALL, LARGE = "resnet20", "resnet56"


def main(setting: Setting) -> pd.DataFrame:
    """Compare branches and sums within the small network, and the sums of both networks."""
    if setting.checkpoints is None:
        return pd.DataFrame({"skipped": [f"--checkpoints FOLDER with {SMALL}-*.th and {LARGE}-*.th was not given"]})
    small, large = (load(setting, name) for name in (SMALL, LARGE))
    pixels, classes = setting.test_images()
    pixels = _as_of_the_checkpoints(pixels)
    options = {"flatten": "mean", "batch_size": 100, "verbose": 0}
    sums = ["relu", resnets.Block]
    within = compare_layers(extract_layers(small, pixels, [*sums, "layer*.bn2"], **options), debiased=True, verbose=0)
    a, b = (extract_layers(network, pixels, sums, **options) for network in (small, large))
    across = compare_layers(a, b, debiased=True, verbose=0)
    is_branch = [name.endswith("bn2") for name in within.row_names]
    lines = [
        (first, second, pair_kind(is_branch[i], is_branch[j]), within.values[i, j])
        for i, first in enumerate(within.row_names)
        for j, second in enumerate(within.row_names)
        if i < j and first.split(".")[0] == second.split(".")[0]
    ]
    result = pd.DataFrame(lines, columns=["first", "second", "pair", "cka"])
    summary = result.groupby("pair", as_index=False).agg(pairs=("cka", "size"), mean_cka=("cka", "mean"))
    accuracies = {}
    for name, network in ((SMALL, small), (LARGE, large)):
        with torch.no_grad():
            logits = torch.cat([network(batch) for batch in pixels.split(100)])
        accuracies[name] = round(float((logits.argmax(dim=1) == classes).float().mean()), 4)
    matched = [int(column) for column in across.values.argmax(axis=1)]
    setting.write(
        "residual",
        result,
        _figure(within, across),
        accuracy=accuracies,
        most_similar_block=matched,
        last_with_last=round(float(across.values[-1, -1]), 4),
    )
    return summary


def pair_kind(first: bool, second: bool) -> str:
    """Return what two layers of one stage are."""
    if first != second:
        return "branch and sum"
    return "two branches" if first else "two sums"


def load(setting: Setting, name: str) -> resnets.ResNet:
    """Return the network of the one checkpoint of a name."""
    found = sorted(setting.checkpoints.glob(f"{name}-*.th"))
    if len(found) != 1:
        raise ValueError(f"{setting.checkpoints} must hold one {name}-*.th, found {len(found)}.")
    return resnets.load_resnet(found[0]).eval()


def _as_of_the_checkpoints(pixels: torch.Tensor) -> torch.Tensor:
    """Normalise as the checkpoints were trained."""
    mean, scale = (torch.from_numpy(values)[:, None, None] for values in (resnets.MEAN, resnets.STANDARD_DEVIATION))
    return (pixels * STANDARD_DEVIATION[:, None, None] + MEAN[:, None, None] - mean) / scale


def _figure(within, across):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained", width_ratios=[1, 1.25])
    titles = ("branches and sums of ResNet-20", "sums of ResNet-20 and ResNet-56")
    for ax, table, title in zip(axes, (within, across), titles, strict=True):
        image = ax.imshow(table.values, vmin=0.0, vmax=1.0, cmap="viridis", origin="lower", aspect="auto")
        ax.set_title(title, fontsize=10)
    names = [short(name) for name in within.row_names]
    axes[0].set_xticks(range(len(names)), labels=names, rotation=90, fontsize=7)
    axes[0].set_yticks(range(len(names)), labels=names, fontsize=7)
    best = across.values.argmax(axis=1)
    axes[1].plot(best, range(len(best)), "o", color="white", markeredgecolor="black", label="most similar")
    axes[1].set(xlabel="block of ResNet-56", ylabel="block of ResNet-20")
    axes[1].legend(fontsize=8, loc="lower right")
    figure.colorbar(image, ax=axes[1], label="debiased linear CKA")
    return figure


def short(name: str) -> str:
    """Return a short name: stage and block, with `b` for the branch."""
    if name == "relu":
        return "input"
    stage, block, *rest = name.removeprefix("layer").split(".")
    return f"{stage}.{block}" + (" b" if rest else "")
