"""All pairs of 12 layers under every index of the spectral family: ours beside the bare decompositions."""

import warnings

import numpy as np

from benchmarks.data import network
from sklearn_cka import compare_layers

INDEXES = (
    "cca",
    "svcca",
    "pwcca",
    "eigenspace_overlap",
    "linear_predictivity",
    "canonical_ridge",
    "procrustes",
    "shape_metric",
)


def bare_table(layers):
    """Nuclear norms of the products of all pairs of bases: one SVD a layer, one stacked product, small SVDs."""
    bases = [np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0] for X in layers]
    stack = np.concatenate(bases, axis=1)
    product = stack.T @ stack
    p = layers[0].shape[1]
    table = np.empty((len(layers), len(layers)))
    for i in range(len(layers)):
        for j in range(i, len(layers)):
            M = product[p * i : p * (i + 1), p * j : p * (j + 1)]
            table[i, j] = table[j, i] = np.linalg.svd(M, compute_uv=False).sum() / p
    return table


class SpectralTable:
    timeout = 300
    params = INDEXES
    param_names = ("index",)

    def setup(self, index):
        warnings.simplefilter("ignore")
        self.layers = network(12, 5000, 256, "float64")

    def time_ours(self, index):
        compare_layers(self.layers, index=index, verbose=0)

    def peakmem_ours(self, index):
        compare_layers(self.layers, index=index, verbose=0)


class BareSpectralTable:
    timeout = 300

    def setup(self):
        self.layers = network(12, 5000, 256, "float64")

    def time_bare(self):
        bare_table(self.layers)

    def peakmem_bare(self):
        bare_table(self.layers)
