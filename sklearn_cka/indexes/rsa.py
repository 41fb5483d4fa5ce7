"""Representational similarity analysis (RSA): whether two representations put the same rows far apart.

Each representation becomes its RDM, the matrix of distances between its rows (:mod:`sklearn_cka.indexes._rdm`); the
index compares the entries above the diagonals of two RDMs. With r, s the two vectors of m = n (n - 1) / 2 distances:

=================  ==================================================================================
pearson            correlation of r and s
spearman           correlation of their ranks, ties sharing the mean rank
rho_a              12 <rank r, rank s> / (m^3 - m), ranks centred: what Spearman's rho is on average if
                   ties are broken at random, so that a prediction of ties earns nothing
kendall            Kendall's tau-b
kendall_tau_a      (concordant - discordant) / (m (m - 1) / 2)
cosine             <r, s> / (||r|| ||s||)
whitened_cosine    r' V^-1 s / sqrt(r' V^-1 r  s' V^-1 s), V the covariance of the errors of distances
whitened_pearson   the same of r and s less their means
=================  ==================================================================================

V is 4 for a pair of rows with itself, 1 for two pairs that share a row, 0 otherwise. Its inverse need not be made:
``4 r' V^-1 s = <H R H, H S H>``, the inner product of the double-centred RDMs (V = 2 I + B B', B the incidence of
pairs and rows, and Woodbury's identity). So the whitened cosine of squared Euclidean RDMs is linear CKA, that of
Euclidean ones the squared distance correlation.

References: Kriegeskorte, Mur & Bandettini (2008), Frontiers in Systems Neuroscience 2; Diedrichsen, Berlot, Mur,
Schütt, Shahbazi & Kriegeskorte (2021), Neurons, Behavior, Data analysis and Theory 5 (whitening); Schütt, Kipnis,
Diedrichsen & Kriegeskorte (2023), eLife 12 (rho_a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes import _rdm
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["RSA", "rdm", "rsa"]

COMPARISONS = (
    "spearman",
    "pearson",
    "kendall",
    "kendall_tau_a",
    "rho_a",
    "cosine",
    "whitened_cosine",
    "whitened_pearson",
)
_RANKED = ("spearman", "rho_a", "kendall", "kendall_tau_a")
_KENDALL = ("kendall", "kendall_tau_a")
_COSINES = ("pearson", "spearman", "cosine", "whitened_cosine", "whitened_pearson")
# Distances that spread by no more than this many units in the last place are all alike.
_CONSTANT_ULPS = 64.0


@dataclass(frozen=True)
class RDMEmbedding:
    """What a comparison needs of one RDM.

    Attributes
    ----------
    values : array or None
        The distances (their ranks, the double-centred matrix), centred where the comparison centres them; the
        numbers of the groups of ties for Kendall's tau. None where no value exists.
    square : float
        Sum of the squares of `values`; for Kendall's tau the number of pairs of distances that differ.
    chance : float
        One side's factor of the expected value.
    undefined : str
        Why the RDM cannot be compared; empty if it can.
    """

    values: Any
    square: float = 0.0
    chance: float = 0.0
    undefined: str = ""


class RSA(BaseIndex):
    """Representational similarity analysis: agreement of the distances within two representations.

    Parameters
    ----------
    metric : str or callable, default="correlation"
        Distance between the rows of X: ``"correlation"`` (1 - r over the features), ``"cosine"``, ``"euclidean"``,
        ``"sqeuclidean"``, ``"cityblock"``, ``"mahalanobis"``, a callable ``f(X) -> (n_samples, n_samples)``, or
        ``"precomputed"``: X is the RDM.
    metric_y : str or callable, default="same"
        Distance between the rows of y.
    comparison : str, default="spearman"
        How the distances are compared: ``"spearman"``, ``"pearson"``, ``"kendall"`` (tau-b), ``"kendall_tau_a"``,
        ``"rho_a"``, ``"cosine"``, ``"whitened_cosine"`` or ``"whitened_pearson"``.

    Attributes
    ----------
    similarity_ : float
        RSA of the `X` and `y` given to fit, in [-1, 1]; in [0, 1] for the cosines.
    chance_ : float
        Expected value over all row permutations of y, in closed form: 0 for all but the cosines.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all distances of a side are alike, or a row is constant over the features under ``"correlation"`` (zero
        under ``"cosine"``), as every row of a single feature is: the value is NaN.

    Notes
    -----
    The diagonals are left out: their zeros are no distances, and would count as agreement.

    RDMs are computed where the data are. For the four comparisons of ranks they are computed in float64 and moved to
    NumPy, where :mod:`scipy.stats` ranks them; distances that differ by rounding only are ties.

    References
    ----------
    Kriegeskorte, Mur & Bandettini (2008), "Representational similarity analysis - connecting the branches of systems
    neuroscience", Frontiers in Systems Neuroscience 2.

    Diedrichsen, Berlot, Mur, Schütt, Shahbazi & Kriegeskorte (2021), "Comparing representational geometries using
    whitened unbiased-distance-matrix similarity", Neurons, Behavior, Data analysis and Theory 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import RSA, cka
    >>> X = np.random.default_rng(0).standard_normal((10, 6))
    >>> y = np.random.default_rng(1).standard_normal((10, 6))
    >>> round(RSA(metric="euclidean", comparison="pearson").fit(X, y).similarity_, 6)
    -0.389154
    >>> whitened = RSA(metric="sqeuclidean", comparison="whitened_cosine")
    >>> round(whitened.fit(X, X[:, :3]).similarity_, 6), round(cka(X, X[:, :3]), 6)
    (0.872799, 0.872799)
    """

    family = "gram"

    def __init__(self, metric: Any = "correlation", *, metric_y: Any = "same", comparison: str = "spearman") -> None:
        self.metric = metric
        self.metric_y = metric_y
        self.comparison = comparison

    @property
    def _metrics(self) -> tuple[Any, Any]:
        same = isinstance(self.metric_y, str) and self.metric_y == "same"
        return self.metric, self.metric if same else self.metric_y

    @property
    def has_equal_sides(self) -> bool:
        """Whether both sides are embedded alike, so that one embedding serves as either."""
        x, y = self._metrics
        return x is y or (isinstance(x, str) and isinstance(y, str) and x == y)

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        metrics = self._metrics
        known = [_rdm.INVARIANCES.get(metric) if isinstance(metric, str) else None for metric in metrics]
        # All named distances are of negative type, so that their double-centred RDMs are negative semi-definite.
        non_negative = self.comparison == "cosine" or (self.comparison == "whitened_cosine" and None not in known)
        may_tie = self.comparison in ("rho_a", "kendall_tau_a")
        return IndexProperties(
            range=(0.0 if non_negative else -1.0, 1.0),
            symmetric=self.has_equal_sides,
            invariances=None if known[0] is None or known[1] is None else known[0] & known[1],
            self_similarity=1.0 if self.has_equal_sides and not may_tie else None,
            metric="arccos(s)" if self.has_equal_sides and self.comparison in _COSINES else None,
            min_samples=3,
            cost="n^2 (p + q), and n^2 log n for ranks",
            reference="Kriegeskorte, Mur & Bandettini 2008, Frontiers in Systems Neuroscience 2",
        )

    def embed(self, X: Array) -> RDMEmbedding:
        """Return what the comparison needs of the RDM of one representation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64; for ``metric="precomputed"`` the RDM.

        Returns
        -------
        embedding : RDMEmbedding
            Vector of distances, or ranks, or a matrix.
        """
        return self._embed_side(X, self._metrics[0])

    def embed_y(self, y: Array) -> RDMEmbedding:
        """Embed the second representation, under its own distance if it has one."""
        return self._embed_side(y, self._metrics[1])

    def _embed_side(self, X: Array, metric: Any) -> RDMEmbedding:
        found = _rdm.dissimilarities(X, metric, exact=self.comparison in _RANKED)
        if found.undefined:
            return RDMEmbedding(None, undefined=_rdm.why_undefined(found, metric))
        distances = _rdm.upper_triangle(found.matrix)
        reason = _without_spread(distances, centered=self.comparison not in ("cosine", "whitened_cosine"))
        if reason:
            return RDMEmbedding(None, undefined=reason)
        if self.comparison in _RANKED:
            groups = _rdm.tie_groups(_arrays.to_numpy(distances), metric, found.amplification)
            return _ranks(groups, self.comparison)
        xp = _arrays.namespace(distances)
        mean = float(xp.sum(distances, dtype=xp.float64)) / distances.shape[0]
        if self.comparison.startswith("whitened"):
            return _whitened(found.matrix, mean if self.comparison == "whitened_pearson" else None)
        if self.comparison == "cosine":
            square = _linalg.sum_of_squares(distances)
            return RDMEmbedding(distances, square, chance=mean * math.sqrt(distances.shape[0] / square))
        centered = distances - mean
        return RDMEmbedding(centered, _linalg.sum_of_squares(centered))

    def compare(self, a: RDMEmbedding, b: RDMEmbedding) -> float:
        """Return the agreement of two RDMs, NaN where it is undefined.

        Parameters
        ----------
        a, b : RDMEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        if a.values is None or b.values is None:
            return math.nan
        if self.comparison in _KENDALL:
            return _kendall(a, b, self.comparison)
        return self._normalize(_linalg.inner(a.values, b.values), a, b)

    def compare_all(self, a: list[RDMEmbedding], b: list[RDMEmbedding]) -> list[list[float]]:
        """Return the agreement of all pairs of RDMs, but for Kendall's tau by one product."""
        if self.comparison in _KENDALL:
            return super().compare_all(a, b)
        rows = [side.values for side in a]
        products = _rdm.inner_products(rows, rows if b is a else [side.values for side in b])
        return [
            [self._normalize(product, left, right) for product, right in zip(line, b, strict=True)]
            for line, left in zip(products.tolist(), a, strict=True)
        ]

    def _normalize(self, inner: float, a: RDMEmbedding, b: RDMEmbedding) -> float:
        """Return the value that belongs to an inner product of two embeddings."""
        if a.values is None or b.values is None:
            return math.nan
        if self.comparison == "rho_a":
            return inner / _largest_rank_square(a.values.shape[0])
        value = inner / (math.sqrt(a.square) * math.sqrt(b.square))
        tolerance = _CONSTANT_ULPS * max(_arrays.eps(a.values), _arrays.eps(b.values))
        return _linalg.clip_rounding(value, -1.0, 1.0, tolerance)

    def chance(self, a: RDMEmbedding, b: RDMEmbedding) -> float:
        """Return the expected value under a random permutation of the rows of one side, in closed form."""
        if a.values is None or b.values is None:
            return math.nan
        return a.chance * b.chance

    def _undefined(self, a: RDMEmbedding, b: RDMEmbedding) -> str:
        return "; ".join(f"{name}: {side.undefined}" for name, side in (("X", a), ("y", b)) if side.undefined)

    def _check_params(self) -> None:
        _rdm.check_metric(self.metric, "metric")
        if not (isinstance(self.metric_y, str) and self.metric_y == "same"):
            _rdm.check_metric(self.metric_y, "metric_y")
        _validation.check_option("comparison", self.comparison, COMPARISONS)

    def _check_X(self, X: Array, name: str) -> Array:
        return _rdm.check_input(super()._check_X(X, name), self._metrics[0], name)

    def _check_y(self, y: Array, name: str) -> Array:
        return _rdm.check_input(super()._check_y(y, name), self._metrics[1], name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        x, y = (isinstance(metric, str) and metric == "precomputed" for metric in self._metrics)
        tags.input_tags.pairwise = tags.input_tags.positive_only = x
        tags.target_tags.positive_only = y
        return tags


def _without_spread(distances: Array, *, centered: bool) -> str:
    """Return why a comparison is 0/0 for these distances: none above 0, or all alike; empty if it is not."""
    xp = _arrays.namespace(distances)
    high = float(xp.max(distances))
    if high == 0.0:
        return "all rows are alike"
    if centered and high - float(xp.min(distances)) <= _CONSTANT_ULPS * _arrays.eps(distances) * high:
        return "all distances between its rows are alike"
    return ""


def _ranks(groups: np.ndarray, comparison: str) -> RDMEmbedding:
    """Return the embedding of distances given by their groups of ties, numbered in order."""
    m = len(groups)
    counts = np.bincount(groups).astype(np.float64)
    if len(counts) == 1:
        return RDMEmbedding(None, undefined="all distances between its rows are alike")
    if comparison in _KENDALL:
        return RDMEmbedding(groups, m * (m - 1) / 2 - float(counts @ (counts - 1.0)) / 2)
    # The mean rank of a group, counted from the middle.
    mean_ranks = np.cumsum(counts) - (counts + m) / 2.0
    ranks = mean_ranks[groups]
    return RDMEmbedding(ranks, float(counts @ mean_ranks**2))


def _largest_rank_square(m: int) -> float:
    """Return the sum of the squares of m centred ranks without ties."""
    return (float(m) ** 3 - m) / 12.0


def _kendall(a: RDMEmbedding, b: RDMEmbedding, comparison: str) -> float:
    tau_b = float(stats.kendalltau(a.values, b.values, method="asymptotic").statistic)
    if comparison == "kendall":
        return tau_b
    m = len(a.values)
    return tau_b * math.sqrt(a.square) * math.sqrt(b.square) / (m * (m - 1) / 2)


def _whitened(D: Array, mean: float | None) -> RDMEmbedding:
    """Return the double-centred RDM, after `mean` is taken from all entries off the diagonal."""
    xp = _arrays.namespace(D)
    n = D.shape[0]
    if mean is not None:
        D = _arrays.fill_diagonal(D - mean, 0.0)
    row_means = xp.sum(D, axis=1, dtype=xp.float64) / n
    grand = float(xp.sum(row_means)) / n
    offsets = xp.astype(row_means - 0.5 * grand, D.dtype)
    centered = D - offsets[:, None] - offsets[None, :]
    square = _linalg.sum_of_squares(centered)
    trace = -grand * n if mean is None else 0.0
    return RDMEmbedding(centered, square, chance=trace / math.sqrt((n - 1) * square))


def rdm(X: Array, metric: Any = "correlation") -> Array:
    """Compute the representational dissimilarity matrix of a representation: the distances between its rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        A representation.
    metric : str or callable, default="correlation"
        ``"correlation"`` (1 - r over the features, sign kept), ``"cosine"``, ``"euclidean"``, ``"sqeuclidean"``,
        ``"cityblock"``, ``"mahalanobis"`` (covariance of the rows of X, n_samples - 1 in its denominator, inverted
        within the span of the data), or a callable ``f(X) -> (n_samples, n_samples)``.

    Returns
    -------
    D : array of shape (n_samples, n_samples)
        Symmetric, not negative, with a diagonal of exact zeros; in the library and precision of `X`.

    Raises
    ------
    ValueError
        If the metric is unknown or the data break the input contract.

    Warns
    -----
    UndefinedSimilarityWarning
        If a row is constant over the features (``"correlation"``) or zero (``"cosine"``): its distances are NaN.

    References
    ----------
    Kriegeskorte, Mur & Bandettini (2008), "Representational similarity analysis - connecting the branches of systems
    neuroscience", Frontiers in Systems Neuroscience 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import rdm
    >>> rdm(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 3.0, 2.0]])).round(6)
    array([[0. , 2. , 0.5],
           [2. , 0. , 1.5],
           [0.5, 1.5, 0. ]])
    """
    _rdm.check_metric(metric, "metric")
    if isinstance(metric, str) and metric == "precomputed":
        raise ValueError(f'metric="precomputed" is no distance. Valid metrics are {", ".join(_rdm.METRICS)}.')
    X = _validation.check_matrix(X, "X", min_samples=2, required_by="rdm")
    found = _rdm.dissimilarities(X, metric)
    if found.undefined:
        warn(UndefinedSimilarityWarning(f"rdm is undefined (0/0): {_rdm.why_undefined(found, metric)}."))
    return _linalg.scale_by_power_of_two(found.matrix, found.exponent)


def rsa(
    X: Array, Y: Array, *, metric: Any = "correlation", metric_y: Any = "same", comparison: str = "spearman"
) -> float:
    """Compute the representational similarity analysis of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    metric, metric_y, comparison
        As in :class:`RSA`.

    Returns
    -------
    similarity : float
        In [-1, 1]; higher is more similar.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 3 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If the value is 0/0, see :class:`RSA`: it is NaN.

    References
    ----------
    Kriegeskorte, Mur & Bandettini (2008), "Representational similarity analysis - connecting the branches of systems
    neuroscience", Frontiers in Systems Neuroscience 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import rsa
    >>> X = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [2.0, 2.0, 5.0]])
    >>> Y = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [5.0, 1.0]])
    >>> round(rsa(X, Y, metric_y="euclidean"), 6)
    -0.376851
    """
    return RSA(metric, metric_y=metric_y, comparison=comparison).similarity(X, Y)
