"""The only place that touches private or version-dependent names of scikit-learn (1.6 and newer)."""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils.validation import validate_data

__all__ = ["GaussianProcessKernel", "check_features", "n_threads"]


def n_threads() -> int:
    """Return how many threads scikit-learn's own compiled code would use here."""
    return int(_openmp_effective_n_threads())


def check_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Record (`reset`) or compare the number and names of the features of `X`, leaving its values alone."""
    validate_data(estimator, X, reset=reset, skip_check_array=True)
