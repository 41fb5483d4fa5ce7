"""One pair of representations: ours beside the bare formula."""

import warnings

from benchmarks import bare
from benchmarks.data import pair
from sklearn_cka import cka


class _Pair:
    def setup(self, dtype):
        warnings.simplefilter("ignore")
        self.X, self.Y = pair(self.n_samples, self.n_features, dtype)


class LinearCKA(_Pair):
    params = ("float32", "float64")
    param_names = ("dtype",)
    n_samples, n_features = 2000, 512

    def time_ours(self, dtype):
        cka(self.X, self.Y)

    def time_debiased(self, dtype):
        cka(self.X, self.Y, debiased=True)

    def time_bare(self, dtype):
        bare.linear_cka(self.X, self.Y)

    def peakmem_ours(self, dtype):
        cka(self.X, self.Y)

    def peakmem_bare(self, dtype):
        bare.linear_cka(self.X, self.Y)


class SmallLinearCKA(_Pair):
    params = ("float32", "float64")
    param_names = ("dtype",)
    n_samples, n_features = 20, 5

    def time_ours(self, dtype):
        cka(self.X, self.Y)

    def time_bare(self, dtype):
        bare.linear_cka(self.X, self.Y)


class RBFCKA(_Pair):
    params = ("float32", "float64")
    param_names = ("dtype",)
    n_samples, n_features = 2000, 512

    def time_ours(self, dtype):
        cka(self.X, self.Y, kernel="rbf", bandwidth=0.5)

    def time_bare(self, dtype):
        bare.rbf_cka(self.X, self.Y, bandwidth=0.5)
