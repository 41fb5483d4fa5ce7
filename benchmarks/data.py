"""Inputs of the benchmarks: related representations, so that the values compared are not trivial."""

import numpy as np


def pair(n_samples, n_features, dtype):
    """Make two (n_samples, n_features) arrays that share half of their signal."""
    rng = np.random.default_rng(0)
    common, own_x, own_y = rng.standard_normal((3, n_samples, n_features))
    return (common + own_x).astype(dtype), (common + own_y).astype(dtype)


def network(n_layers, n_samples, n_features, dtype):
    """Make a list of layers, each half of it the layer before."""
    rng = np.random.default_rng(0)
    layers = [rng.standard_normal((n_samples, n_features), dtype=dtype)]
    while len(layers) < n_layers:
        layers.append(layers[-1] / 2 + rng.standard_normal((n_samples, n_features), dtype=dtype))
    return layers
