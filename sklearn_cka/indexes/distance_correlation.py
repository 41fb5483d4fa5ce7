"""Distance correlation.

    dCor^2(X, Y) = CKA with the kernel k(x, x') = -||x - x'||

The statistic is the root of it; the debiased form, from U-centred distance matrices, may be negative and is not
rooted. References: Székely, Rizzo & Bakirov (2007), Annals of Statistics 35; Székely & Rizzo (2014), Annals of
Statistics 42; Sejdinovic, Sriperumbudur, Gretton & Fukumizu (2013), Annals of Statistics 41.
"""

from __future__ import annotations

import math

from sklearn_cka import _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, KernelSpec
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes.cka import cosine

__all__ = ["DistanceCorrelation", "distance_correlation"]


class DistanceCorrelation(CenteredGramIndex):
    """Distance correlation of two representations.

    Parameters
    ----------
    squared : bool, default=False
        Whether to give dCor^2, which is CKA with the distance kernel, instead of its root.
    debiased : bool, default=False
        Whether to use U-centred distances: 0 on average for independent representations, in [-1, 1], an estimate
        of dCor^2 that is not rooted whatever `squared` is. Needs 4 rows.

    Attributes
    ----------
    similarity_ : float
        Distance correlation of the `X` and `y` given to fit, in [0, 1], or [-1, 1] if debiased.
    chance_ : float
        Expected value over all row permutations of y, in closed form for dCor^2 and the debiased form; NaN for the
        root, whose mean has none, and for weighted rows.
    bandwidth_, bandwidth_y_ : None
        The distance kernel has no bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    ChanceLevelWarning
        If at least half of a squared value is expected by chance.

    References
    ----------
    Székely, Rizzo & Bakirov (2007), "Measuring and testing dependence by correlation of distances", Annals of
    Statistics 35.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import DistanceCorrelation, cka
    >>> X = np.arange(20.0)[:, None]
    >>> index = DistanceCorrelation().fit(X, (X - 6) ** 2)
    >>> round(index.similarity_, 6)
    0.860674
    >>> round(cka(X, (X - 6) ** 2, kernel="distance") ** 0.5, 6)
    0.860674
    """

    _warns_of_chance = True

    def __init__(self, *, squared: bool = False, debiased: bool = False) -> None:
        self.squared = squared
        self.debiased = debiased

    def _specs(self) -> tuple[KernelSpec, KernelSpec]:
        spec = KernelSpec("distance")
        return spec, spec

    def _check_params(self) -> None:
        _validation.check_flag("squared", self.squared)
        _validation.check_flag("debiased", self.debiased)

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0) if self.debiased else (0.0, 1.0),
            symmetric=True,
            invariances=frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"}),
            self_similarity=1.0,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Székely, Rizzo & Bakirov 2007, Annals of Statistics 35",
        )

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the cosine of the centred distance matrices, rooted if the statistic is."""
        value = cosine(inner, self_a, self_b, a, b)
        # The centred matrices are positive semi-definite: a negative biased inner product is rounding.
        return math.sqrt(max(value, 0.0)) if self._is_rooted and not math.isnan(value) else value

    def chance(self, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the expected value under a random permutation of rows; NaN for the root, which has no closed form."""
        return math.nan if self._is_rooted else super().chance(a, b)

    @property
    def _is_rooted(self) -> bool:
        return not (self.squared or self.debiased)


def distance_correlation(
    X: Array, Y: Array, *, squared: bool = False, debiased: bool = False, sample_weight: Array | None = None
) -> float:
    """Compute the distance correlation of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    squared, debiased : bool, default=False
        As in :class:`DistanceCorrelation`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [0, 1]; in [-1, 1] if debiased.

    Raises
    ------
    ValueError
        If the data break the input contract, or there are too few rows (2; debiased 4).

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    References
    ----------
    Székely, Rizzo & Bakirov (2007), "Measuring and testing dependence by correlation of distances", Annals of
    Statistics 35.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import distance_correlation
    >>> X = np.arange(20.0)[:, None]
    >>> round(distance_correlation(X, (X - 6) ** 2), 6)
    0.860674
    """
    return DistanceCorrelation(squared=squared, debiased=debiased).similarity(X, Y, sample_weight)
