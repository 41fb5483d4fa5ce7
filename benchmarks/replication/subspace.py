"""Figure 8 of the paper: networks of two seeds share a subspace of the leading components of their layers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.replication.experiments import Architecture, Setting, layers_of, untrained
from sklearn_cka import cka_spectrum


def main(setting: Setting) -> pd.DataFrame:
    """Take the CKA of the same layer of two networks apart by eigenvectors."""
    plain = Architecture()
    recipes = [setting.recipe(seed) for seed in (0, 1)]
    setting.train([(plain, recipe) for recipe in recipes])
    pixels, _ = setting.test_images()
    trained = [layers_of(setting.network(plain, recipe), pixels) for recipe in recipes]
    raw = [layers_of(untrained(plain, seed), pixels) for seed in (0, 1)]
    frames, shown = [], {}
    for kind, (first, second) in (("trained", trained), ("not trained", raw)):
        for layer in first:
            spectrum = cka_spectrum(first[layer], second[layer])
            half = int(np.searchsorted(spectrum.cumulative, 0.9)) + 1
            frames.append(
                {
                    "networks": kind,
                    "layer": int(layer),
                    "cka": spectrum.similarity,
                    "components_for_90_percent": half,
                    "effective_dimension": spectrum.effective_dimension_x,
                    "mean_cosine_of_ten": float(spectrum.cosines[:10].mean()),
                }
            )
            shown[kind, layer] = spectrum
    result = pd.DataFrame(frames)
    setting.write("subspace", result, shown["trained", list(trained[0])[4]].plot().figure_, seeds=2, figure_layer=5)
    return result
