"""Canonical correlation analysis and its relatives.

With orthonormal bases U of both centred sides, ``M = U_x' U_y`` and canonical correlations rho = singular values of M:

    mean CCA = sum(rho) / min(r_x, r_y)             R2_CCA (Yanai's GCD) = sum(rho^2) / min(r_x, r_y)
    SVCCA    = either, after each side is cut to the leading components that hold a share of its variance
    eigenspace overlap = sum(rho^2) / max(r_x, r_y)

References: Hotelling (1936), Biometrika 28; Raghu, Gilmer, Yosinski & Sohl-Dickstein (2017), NeurIPS (SVCCA); May,
Zhang, Dao & Ré (2019), NeurIPS (eigenspace overlap).
"""

from __future__ import annotations

import numbers

import numpy as np

from sklearn_cka import _arrays
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._canonical import COST, OF_SPANS, CanonicalIndex, check_statistic
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._spectral import SpectralEmbedding

__all__ = ["SVCCA", "CanonicalCorrelation", "EigenspaceOverlap", "cca", "svcca"]


class CanonicalCorrelation(CanonicalIndex):
    """Canonical correlation analysis (CCA) of two representations.

    Parameters
    ----------
    statistic : {"mean", "mean_squared"}, default="mean"
        The mean canonical correlation, or the mean of their squares (R²_CCA, Yanai's GCD measure). The mean is over
        the smaller of the two ranks.

    Attributes
    ----------
    similarity_ : float
        CCA of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected value over all row permutations of y: max(r_x, r_y) / (n - 1) for ``"mean_squared"``. NaN for
        ``"mean"``, whose mean over permutations has no closed form, and for weights that are not whole numbers.
    canonical_correlations_ : array of shape (n_components_,)
        All canonical correlations, descending, in [0, 1].
    n_components_ : int
        Number of canonical components: the smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    x_rotations_, y_rotations_ : array of shape (n_features_in_, n_components_) and (n_features_y_in_, n_components_)
        Weights of the columns in the canonical variates, which have variance 1 over the training rows:
        ``transform(X) = (X - x_mean_) @ x_rotations_``.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If n <= r_x + r_y: some correlations are 1 whatever the data are, and all are if both ranks are n - 1.
    ChanceLevelWarning
        If at least half of the mean of squares is expected by chance.

    Notes
    -----
    :meth:`fit` learns the canonical directions. :meth:`transform` gives the canonical variates of X and
    :meth:`transform_y` those of y; :meth:`score` is the mean over the components of the correlation (or its square) of
    the variates of the rows given. Held-out rows are how CCA stays meaningful where there are as many columns as rows.

    References
    ----------
    Hotelling (1936), "Relations between two sets of variates", Biometrika 28. Kornblith, Norouzi, Lee & Hinton (2019),
    "Similarity of neural network representations revisited", ICML, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CanonicalCorrelation
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> y = X[:, :3] + np.random.default_rng(1).standard_normal((50, 3))
    >>> index = CanonicalCorrelation().fit(X, y)
    >>> index.canonical_correlations_.round(6)
    array([0.819327, 0.714552, 0.584096])
    >>> round(index.similarity_, 6)
    0.705992
    >>> index.transform(X).shape
    (50, 3)
    """

    def __init__(self, *, statistic: str = "mean") -> None:
        self.statistic = statistic

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=OF_SPANS,
            self_similarity=1.0,
            cost=COST,
            reference="Hotelling 1936, Biometrika 28",
        )

    @property
    def _is_squared(self) -> bool:
        return self.statistic == "mean_squared"

    def _divisor(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        return float(min(a.rank, b.rank))

    def _check_params(self) -> None:
        check_statistic(self.statistic)


class SVCCA(CanonicalCorrelation):
    """Singular vector canonical correlation analysis: CCA of the leading principal components of both sides.

    Parameters
    ----------
    threshold : float, default=0.99
        Each side is cut to the fewest leading components whose share of the variance (squared singular values of the
        centred data) reaches this, in (0, 1]; 1 keeps every component of the effective rank.
    n_components : int, default=None
        Number of leading components to keep of each side (at most its rank), whatever their share of the variance.
    statistic : {"mean", "mean_squared"}, default="mean"
        The mean canonical correlation, or the mean of their squares.

    Attributes
    ----------
    similarity_ : float
        SVCCA of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected value over all row permutations of y: max(k_x, k_y) / (n - 1) for ``"mean_squared"``, k the number of
        components kept. NaN for ``"mean"``, whose mean over permutations has no closed form, and for weights that are
        not whole numbers.
    canonical_correlations_ : array of shape (n_components_,)
        All canonical correlations, descending, in [0, 1].
    n_components_ : int
        Number of canonical components: the smaller of the numbers kept.
    n_components_x_, n_components_y_ : int
        Number of principal components kept of `X` and of `y`.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    x_rotations_, y_rotations_ : array of shape (n_features_in_, n_components_) and (n_features_y_in_, n_components_)
        Weights of the columns in the canonical variates, which have variance 1 over the training rows.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If n <= k_x + k_y: some correlations are 1 whatever the data are.
    ChanceLevelWarning
        If at least half of the mean of squares is expected by chance.

    Notes
    -----
    The cut depends on the scales of the columns: unlike CCA, SVCCA changes under an invertible linear map.
    :meth:`score` is the mean over the components of the correlation (or its square) of the canonical variates of the
    rows given.

    References
    ----------
    Raghu, Gilmer, Yosinski & Sohl-Dickstein (2017), "SVCCA: Singular vector canonical correlation analysis for deep
    learning dynamics and interpretability", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import SVCCA
    >>> X = np.random.default_rng(0).standard_normal((50, 4)) * [9.0, 3.0, 1.0, 0.1]
    >>> y = X[:, :3] + np.random.default_rng(1).standard_normal((50, 3))
    >>> index = SVCCA(threshold=0.98).fit(X, y)
    >>> index.n_components_x_, index.n_components_y_, round(index.similarity_, 6)
    (2, 3, 0.966195)
    """

    def __init__(self, *, threshold: float = 0.99, n_components: int | None = None, statistic: str = "mean") -> None:
        self.threshold = threshold
        self.n_components = n_components
        self.statistic = statistic

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        keeps_all = self.n_components is None and self.threshold == 1.0
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=OF_SPANS if keeps_all else OF_SPANS - {"invertible_linear"},
            self_similarity=1.0,
            cost=COST,
            reference="Raghu et al. 2017, NeurIPS",
        )

    def _check_params(self) -> None:
        super()._check_params()
        k, share = self.n_components, self.threshold
        if k is not None and (not isinstance(k, numbers.Integral) or isinstance(k, (bool, np.bool_)) or k < 1):
            raise ValueError(f"n_components must be a positive integer or None, got {k!r}.")
        is_number = isinstance(share, numbers.Real) and not isinstance(share, (bool, np.bool_))
        if not is_number or not 0.0 < share <= 1.0:
            raise ValueError(f"threshold is a share of the variance, greater than 0 and at most 1; got {share!r}.")

    def _truncate(self, embedding: SpectralEmbedding) -> SpectralEmbedding:
        return embedding.leading(self._n_kept(embedding))

    def _n_kept(self, embedding: SpectralEmbedding) -> int:
        """Return the number of leading components to keep."""
        if self.n_components is not None:
            return int(self.n_components)
        if self.threshold >= 1.0 or embedding.rank == 0:
            return embedding.rank
        xp = _arrays.namespace(embedding.spectrum)
        share = xp.cumulative_sum(embedding.relative**2)
        # A share that misses the threshold by rounding reaches it.
        reached = share >= self.threshold - 4.0 * _arrays.eps(embedding.basis)
        return embedding.rank - _arrays.count(reached) + 1

    def _learn(self, a: SpectralEmbedding, b: SpectralEmbedding) -> None:
        super()._learn(a, b)
        self.n_components_x_, self.n_components_y_ = a.rank, b.rank


class EigenspaceOverlap(CanonicalIndex):
    """Overlap of the spaces spanned by two representations, relative to the larger one.

    Attributes
    ----------
    similarity_ : float
        Sum of the squared canonical correlations over the larger rank, in [0, 1].
    chance_ : float
        Expected value over all row permutations of y: min(r_x, r_y) / (n - 1). NaN for weights that are not whole
        numbers.
    canonical_correlations_ : array of shape (n_components_,)
        All canonical correlations, descending, in [0, 1].
    n_components_ : int
        Number of canonical components: the smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    x_rotations_, y_rotations_ : array of shape (n_features_in_, n_components_) and (n_features_y_in_, n_components_)
        Weights of the columns in the canonical variates, which have variance 1 over the training rows.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If n <= r_x + r_y: some correlations are 1 whatever the data are.
    ChanceLevelWarning
        If at least half of the value is expected by chance.

    Notes
    -----
    The original works on embeddings as they are; here columns are centred, as in all indexes of the family. The
    linear CKA of two orthonormal bases is the geometric mean of this and of R²_CCA.

    References
    ----------
    May, Zhang, Dao & Ré (2019), "On the downstream performance of compressed word embeddings", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import EigenspaceOverlap
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> round(EigenspaceOverlap().fit(X, X[:, :3]).similarity_, 6)
    0.75
    """

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=OF_SPANS,
            self_similarity=1.0,
            cost=COST,
            reference="May, Zhang, Dao & Ré 2019, NeurIPS",
        )

    def _divisor(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        return float(max(a.rank, b.rank))

    @property
    def _is_squared(self) -> bool:
        return True


def cca(X: Array, Y: Array, *, statistic: str = "mean", sample_weight: Array | None = None) -> float:
    """Compute the mean canonical correlation of two representations, or the mean of the squared ones.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    statistic : {"mean", "mean_squared"}, default="mean"
        As in :class:`CanonicalCorrelation`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If n <= r_x + r_y: some correlations are 1 whatever the data are.
    ChanceLevelWarning
        If at least half of the mean of squares is expected by chance.

    References
    ----------
    Hotelling (1936), "Relations between two sets of variates", Biometrika 28.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import cca
    >>> x = np.random.default_rng(0).standard_normal((100, 1))
    >>> y = np.random.default_rng(1).standard_normal((100, 1))
    >>> round(cca(x, y), 6), round(cca(x, y, statistic="mean_squared"), 6)
    (0.050646, 0.002565)
    """
    return CanonicalCorrelation(statistic=statistic).similarity(X, Y, sample_weight)


def svcca(
    X: Array,
    Y: Array,
    *,
    threshold: float = 0.99,
    n_components: int | None = None,
    statistic: str = "mean",
    sample_weight: Array | None = None,
) -> float:
    """Compute the singular vector canonical correlation (SVCCA) of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    threshold : float, default=0.99
        Share of the variance that the components kept of each side reach, in (0, 1].
    n_components : int, default=None
        Number of leading components to keep of each side, whatever their share of the variance.
    statistic : {"mean", "mean_squared"}, default="mean"
        The mean canonical correlation, or the mean of their squares.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning, DegenerateSimilarityWarning, ChanceLevelWarning
        As :class:`SVCCA`.

    References
    ----------
    Raghu, Gilmer, Yosinski & Sohl-Dickstein (2017), "SVCCA: Singular vector canonical correlation analysis for deep
    learning dynamics and interpretability", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import svcca
    >>> X = np.random.default_rng(0).standard_normal((50, 4)) * [9.0, 3.0, 1.0, 0.1]
    >>> Y = X[:, :3] + np.random.default_rng(1).standard_normal((50, 3))
    >>> round(svcca(X, Y, threshold=0.98), 6)
    0.966195
    """
    index = SVCCA(threshold=threshold, n_components=n_components, statistic=statistic)
    return index.similarity(X, Y, sample_weight)
