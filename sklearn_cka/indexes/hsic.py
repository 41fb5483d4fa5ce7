"""The Hilbert-Schmidt independence criterion (HSIC).

    HSIC_0(K, L) = tr(K H L H) / (n - 1)^2                       biased (Gretton et al. 2005)
    HSIC_1(K, L) = <U(K), U(L)> / (n (n - 3))                    unbiased (Song et al. 2012), U-centred matrices

References: Gretton, Bousquet, Smola & Schölkopf (2005), ALT; Song, Smola, Gretton, Bedo & Borgwardt (2012), JMLR 13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, KernelParamsMixin
from sklearn_cka.indexes._partial import PartialFitMixin
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["HSIC", "hsic"]


class HSIC(PartialFitMixin, KernelParamsMixin, CenteredGramIndex):
    """Hilbert-Schmidt independence criterion of two representations.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X: a name of :func:`~sklearn_cka.kernel_names`, a callable ``f(X, Y) -> (n_x, n_y)`` on whole
        matrices, or a kernel object of :mod:`sklearn.gaussian_process.kernels`.
    kernel_y : str or callable, default="same"
        Kernel of y; ``"same"`` is that of X with its own bandwidth.
    bandwidth : float, default=1.0
        For ``"rbf"`` and ``"laplacian"``: sigma of each side in units of its own typical distance.
    bandwidth_rule : str, default="median"
        What the typical distance is, see :func:`~sklearn_cka.bandwidth_rule_names`.
    gamma : float, default=None
        scikit-learn's kernel parameter; overrides `bandwidth`.
    kernel_params, kernel_params_y : dict, default=None
        Further parameters of the kernel of X and of y.
    debiased : bool, default=False
        Whether to use the unbiased estimator, which is 0 on average for independent representations and may be
        negative. Needs 4 rows.
    form : {"auto", "gram", "feature"}, default="auto"
        For the linear kernel: through n x n Gram matrices, through features, or whichever costs less.

    Attributes
    ----------
    similarity_ : float
        HSIC of the `X` and `y` given to fit, in units of the product of both kernels.
    chance_ : float
        Expected value over all row permutations of y, in closed form; NaN for weighted rows.
    bandwidth_, bandwidth_y_ : float or None
        sigma used for X and y; None for kernels without a bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Notes
    -----
    The value is 0 where a side is constant over the rows, and not comparable between kernels or scales; CKA is its
    normalised form.

    References
    ----------
    Gretton, Bousquet, Smola & Schölkopf (2005), "Measuring statistical dependence with Hilbert-Schmidt norms", ALT.
    Song, Smola, Gretton, Bedo & Borgwardt (2012), "Feature selection via dependence maximization", JMLR 13.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import HSIC
    >>> X = np.arange(5.0)[:, None]
    >>> HSIC().fit(X, X**2).similarity_
    100.0
    >>> round(6 * HSIC(debiased=True).fit(X, X**2).similarity_, 6)
    469.0
    """

    def __init__(
        self,
        kernel: Any = "linear",
        *,
        kernel_y: Any = "same",
        bandwidth: float = 1.0,
        bandwidth_rule: str = "median",
        gamma: float | None = None,
        kernel_params: Mapping[str, Any] | None = None,
        kernel_params_y: Mapping[str, Any] | None = None,
        debiased: bool = False,
        form: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y
        self.debiased = debiased
        self.form = form

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        invariances = self._kernel_invariances()
        if invariances is not None and any(
            spec.kernel in ("linear", "polynomial", "distance", "additive_chi2") for spec in self._specs()
        ):
            invariances -= {"isotropic_scaling"}
        return IndexProperties(
            range=(-math.inf, math.inf) if self.debiased or not self._is_positive_definite() else (0.0, math.inf),
            symmetric=self.has_equal_sides,
            invariances=invariances,
            self_similarity=None,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q) by Gram matrices, n p q by features",
            reference="Gretton et al. 2005, ALT; Song et al. 2012, JMLR 13",
        )

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the inner product of the centred Gram matrices over the number of pairs of rows."""
        if self_a == 0.0 or self_b == 0.0:
            return 0.0
        n = a.total
        pairs = n * (n - 3.0) if self.debiased else (n - 1.0) ** 2
        # Both sizes at once: that of one side alone may pass the largest float where the product does not.
        return _linalg.scale_by_power_of_two(inner / pairs * a.scale * b.scale, a.exponent + b.exponent)

    def _check_weighted(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array | None]:
        X, y, kept = super()._check_weighted(X, y, weights)
        total = math.inf if kept is None else _arrays.total(kept)
        if total <= 1.0:
            raise ValueError(
                f"sample_weight counts repetitions of rows in HSIC, so that their sum must be greater than 1, got"
                f" {total:g}."
            )
        return X, y, kept


def hsic(
    X: Array,
    Y: Array,
    *,
    kernel: Any = "linear",
    kernel_y: Any = "same",
    bandwidth: float = 1.0,
    bandwidth_rule: str = "median",
    gamma: float | None = None,
    kernel_params: Mapping[str, Any] | None = None,
    kernel_params_y: Mapping[str, Any] | None = None,
    debiased: bool = False,
    form: str = "auto",
    sample_weight: Array | None = None,
) -> float:
    """Compute the Hilbert-Schmidt independence criterion of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    kernel, kernel_y, bandwidth, bandwidth_rule, gamma, kernel_params, kernel_params_y, debiased, form
        As in :class:`HSIC`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    value : float
        In units of the product of both kernels; at least 0 unless debiased.

    Raises
    ------
    ValueError
        If the data break the input contract, there are too few rows (2; debiased 4), or a parameter is not valid.

    References
    ----------
    Gretton, Bousquet, Smola & Schölkopf (2005), "Measuring statistical dependence with Hilbert-Schmidt norms", ALT.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import hsic
    >>> X = np.arange(5.0)[:, None]
    >>> hsic(X, X)
    6.25
    """
    index = HSIC(
        kernel,
        kernel_y=kernel_y,
        bandwidth=bandwidth,
        bandwidth_rule=bandwidth_rule,
        gamma=gamma,
        kernel_params=kernel_params,
        kernel_params_y=kernel_params_y,
        debiased=debiased,
        form=form,
    )
    return index.similarity(X, Y, sample_weight)
