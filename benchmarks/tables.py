"""All pairs of the layers of one network: ours beside the bare loop-free formula."""

import warnings

from benchmarks import bare
from benchmarks.data import network
from sklearn_cka import compare_layers


class LinearCKATable:
    timeout = 300
    params = ("float32",)
    param_names = ("dtype",)

    def setup(self, dtype):
        warnings.simplefilter("ignore")
        self.layers = network(24, 2000, 1024, dtype)

    def time_ours(self, dtype):
        compare_layers(self.layers, verbose=0)

    def time_bare(self, dtype):
        bare.linear_cka_table(self.layers)

    def peakmem_ours(self, dtype):
        compare_layers(self.layers, verbose=0)

    def peakmem_bare(self, dtype):
        bare.linear_cka_table(self.layers)
