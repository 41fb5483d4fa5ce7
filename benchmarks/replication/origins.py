"""What makes layers alike: the same data, other data, no batch normalisation, no training (figure 7 of the paper)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, accuracies, layers_of, untrained
from benchmarks.replication.images import TRAIN_IMAGES
from sklearn_cka import compare_layers, within_class

LABELS = {
    "same_data": "another seed",
    "other_data": "another seed, other images",
    "no_batch_norm": "another seed, no batch normalisation",
    "untrained": "not trained",
    "both_untrained": "neither trained",
}


def main(setting: Setting) -> pd.DataFrame:
    """Compare every layer of one trained network with the same layer of others."""
    plain, bare = Architecture(), Architecture(batch_norm=False)
    half = min(setting.n_images, TRAIN_IMAGES // 2)
    # Networks without batch normalisation need smaller steps.
    jobs = {
        "one": (plain, setting.recipe(0, n_images=half)),
        "same_data": (plain, setting.recipe(1, n_images=half)),
        "other_data": (plain, setting.recipe(1, n_images=half, first_image=half)),
        "no_batch_norm": (bare, setting.recipe(1, n_images=half, learning_rate=0.02)),
    }
    setting.train(list(jobs.values()))
    networks = {name: setting.network(*job) for name, job in jobs.items()}
    networks |= {"untrained": untrained(plain, 1), "untrained_too": untrained(plain, 2)}
    pixels, classes = setting.test_images()
    layers = {name: layers_of(network, pixels) for name, network in networks.items()}
    found = dict(zip(networks, accuracies(list(networks.values()), pixels, classes), strict=True))

    def same_layer(a: str, b: str) -> np.ndarray:
        return compare_layers(layers[a], layers[b], debiased=True).values.diagonal()

    values = {name: same_layer("one", name) for name in LABELS if name in layers}
    values["both_untrained"] = same_layer("untrained", "untrained_too")
    result = pd.DataFrame({"layer": range(1, len(values["same_data"]) + 1), **values})
    # Within classes (appendix F.4): what is shared beyond telling the classes apart.
    result["same_data_within_class"] = [
        within_class(layers["one"][name], layers["same_data"][name], classes.numpy(), debiased=True).statistic
        for name in layers["one"]
    ]
    setting.write("origins", result, _figure(result), seeds=2, accuracy={k: round(v, 4) for k, v in found.items()})
    return result


def _figure(result: pd.DataFrame):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained", sharey=True)
    for (name, label), style in zip(LABELS.items(), ["o-", "s--", "^-.", "D:", "v:"], strict=True):
        axes[0].plot(result["layer"], result[name], style, color="black", markerfacecolor="white", label=label)
    axes[0].set(title="a trained network and one ...", xlabel="layer", ylabel="debiased linear CKA of the same layer")
    axes[0].legend(fontsize=8)
    for name, label, style in (
        ("same_data", "all images", "o-"),
        ("same_data_within_class", "within classes, averaged", "s--"),
    ):
        axes[1].plot(result["layer"], result[name], style, color="black", markerfacecolor="white", label=label)
    axes[1].set(title="two seeds", xlabel="layer", ylim=(-0.3, 1.05))
    axes[1].legend(fontsize=8)
    return figure
