"""Matching of units instead of rotation: permutation Procrustes and soft matching.

With x_i and y_j the centred columns (units) of two representations:

    PermutationProcrustes   max over one-to-one matchings of Σ <x_i, y_j> over matched pairs, / (||X||_F ||Y||_F)
    SoftMatching            max over P of Σ_ij P_ij <x_i, y_j> / sqrt(mean_i ||x_i||² mean_j ||y_j||²),
                            P ≥ 0 with rows that sum to 1/p and columns that sum to 1/q

For equal widths both are the same. References: Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics
on neural representations", NeurIPS; Khosla & Williams (2024), "Soft matching distance: a metric on neural
representations that captures single-neuron tuning", UniReps workshop, PMLR 243.
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_cka import _arrays, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._transport import assign, transport_plan
from sklearn_cka.indexes._unit_index import INVARIANCES, UnitMapIndex
from sklearn_cka.indexes._units import UnitEmbedding

__all__ = ["PermutationProcrustes", "SoftMatching", "permutation_procrustes", "soft_matching"]


class PermutationProcrustes(UnitMapIndex):
    """Permutation Procrustes similarity: how well X matches y after the best reordering of its units, up to scale.

    Attributes
    ----------
    similarity_ : float
        Similarity s of the `X` and `y` given to fit, in [-1, 1].
    chance_ : float
        NaN: the mean over row permutations of a largest value has no closed form.
    permutation_ : array of shape (n_features_y_in_,)
        For every unit of y the unit of X matched with it, -1 where X has fewer units and none was left.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`. They may differ: then every unit of the narrower side is matched with another
        unit of the wider one, as if the narrower side were filled up with zeros.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    Notes
    -----
    :meth:`transform` puts the units of X, less their means, in the order of the units of y. :meth:`score` is the cosine
    <X'P, Y'> / (||X'|| ||Y'||) of the rows given, less the means of fit, under the learned matching: on held-out rows
    it is a cross-validated index. :meth:`distance` is the angle arccos(s) between the centred configurations, a metric
    among representations of one width; :class:`SoftMatching` has one among representations of several. The matrix of
    inner products of units is moved to the host for :func:`scipy.optimize.linear_sum_assignment`.

    References
    ----------
    Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS,
    section 2 (the group of permutations).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import PermutationProcrustes
    >>> y = np.random.default_rng(0).standard_normal((50, 4))
    >>> X = y[:, [2, 0, 3, 1]] + 0.3 * np.random.default_rng(1).standard_normal((50, 4))
    >>> index = PermutationProcrustes().fit(X, y)
    >>> round(index.similarity_, 6), index.permutation_.tolist()
    (0.962285, [1, 3, 0, 2])
    """

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0),
            symmetric=True,
            invariances=INVARIANCES,
            self_similarity=1.0,
            metric="arccos(s)",
            cost="n p q, and an assignment of order max(p, q)^3 at worst",
            reference="Williams et al. 2021, NeurIPS",
        )

    def _solve(self, gain: np.ndarray) -> tuple[np.ndarray, float]:
        rows, columns = assign(gain)
        permutation = np.full(gain.shape[1], -1, dtype=np.int64)
        permutation[columns] = rows
        return permutation, float(gain[rows, columns].sum())

    def compare(self, a: UnitEmbedding, b: UnitEmbedding) -> float:
        """Return the cosine after the best reordering, NaN where a side is constant.

        Parameters
        ----------
        a, b : UnitEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        return self._cosine(self._matching(a, b)[1], a.norm, b.norm, max(a.eps, b.eps))

    def _learn(self, a: UnitEmbedding, b: UnitEmbedding) -> None:
        super()._learn(a, b)
        self.permutation_ = _arrays.like(self._matching(a, b)[0], a.units)

    def _image(self, Z: Array) -> Array:
        xp = _arrays.namespace(Z)
        has_match = self.permutation_ >= 0
        order = xp.where(has_match, self.permutation_, xp.zeros_like(self.permutation_))
        image = xp.take(Z, order, axis=1)
        return xp.where(has_match[None, :], image, xp.zeros_like(image[:, :1]))

    def _rate(self, p: int, q: int) -> float:
        return 1.0


class SoftMatching(UnitMapIndex):
    """Soft matching similarity: how well X matches y when every unit may be shared among units of the other side.

    Units of either side have equal weight. They are moved onto each other by optimal transport, so that the widths may
    differ; for equal widths the best plan is a permutation, and the index is :class:`PermutationProcrustes`.

    Parameters
    ----------
    unit_norm : bool, default=False
        Whether to scale every unit to unit variance first, so that correlations are matched: the mean correlation of
        matched units, where no unit is constant. Otherwise units count by their variance.

    Attributes
    ----------
    similarity_ : float
        Similarity s of the `X` and `y` given to fit, in [-1, 1].
    chance_ : float
        NaN: the mean over row permutations of a largest value has no closed form.
    transport_ : array of shape (n_features_in_, n_features_y_in_)
        The transport plan P: rows sum to 1 / n_features_in_, columns to 1 / n_features_y_in_.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    Notes
    -----
    :meth:`transform` gives, in the place of each unit of y, the weighted mean of the units of X (less their means)
    moved there, ``(X - x_mean_) @ transport_ * n_features_y_in_``. :meth:`score` is the index of the rows given, less
    the means of fit, under the learned plan. :meth:`distance` is sqrt(2 - 2s), the soft matching distance of the
    representations scaled to units of length 1 (root mean square): a metric, also among different widths.

    Constant units are zeros. The plan is exact and found on the host: by linear assignment where the widths are equal
    or have a small common multiple, else by the linear program of p q variables (:func:`scipy.optimize.linprog`), a
    second for 300 and 256 units and some for twice as many.

    References
    ----------
    Khosla & Williams (2024), "Soft matching distance: a metric on neural representations that captures single-neuron
    tuning", Proceedings of UniReps: the First Workshop on Unifying Representations in Neural Models, PMLR 243.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import SoftMatching
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> y = X[:, [0, 0, 1]] + 0.3 * np.random.default_rng(1).standard_normal((50, 3))
    >>> index = SoftMatching().fit(X, y)
    >>> round(index.similarity_, 6), round(index.distance(X, y), 6)
    (0.82989, 0.583284)
    >>> print(6 * index.transport_)
    [[2. 1. 0.]
     [0. 1. 2.]]
    """

    def __init__(self, *, unit_norm: bool = False) -> None:
        self.unit_norm = unit_norm

    @property
    def _is_scaled(self) -> bool:  # type: ignore[override]
        return bool(self.unit_norm)

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0),
            symmetric=True,
            invariances=INVARIANCES,
            self_similarity=1.0,
            metric="sqrt(2 - 2s)",
            cost="n p q, and an assignment of order max(p, q)^3 or a linear program of p q variables",
            reference="Khosla & Williams 2024, UniReps",
        )

    def _check_params(self) -> None:
        _validation.check_flag("unit_norm", self.unit_norm)

    def _solve(self, gain: np.ndarray) -> tuple[np.ndarray, float]:
        plan = transport_plan(gain)
        return plan, float((plan * gain).sum())

    def compare(self, a: UnitEmbedding, b: UnitEmbedding) -> float:
        """Return the index of two embeddings, NaN where a side is constant.

        Parameters
        ----------
        a, b : UnitEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        inner = self._matching(a, b)[1] * math.sqrt(a.n_units * b.n_units)
        return self._cosine(inner, a.norm, b.norm, max(a.eps, b.eps))

    def _learn(self, a: UnitEmbedding, b: UnitEmbedding) -> None:
        super()._learn(a, b)
        self.transport_ = _arrays.like(self._matching(a, b)[0], a.units)

    def _image(self, Z: Array) -> Array:
        return Z @ self.transport_ * float(self.transport_.shape[1])

    def _rate(self, p: int, q: int) -> float:
        return math.sqrt(p * q) / q


def permutation_procrustes(X: Array, Y: Array, *, sample_weight: Array | None = None) -> float:
    """Compute the permutation Procrustes similarity of two representations: the best cosine as units are reordered.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order; its width may differ.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [-1, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract or there are fewer than 2 rows.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    References
    ----------
    Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS.

    Examples
    --------
    >>> from sklearn_cka import permutation_procrustes
    >>> round(permutation_procrustes([[0.0, 1.0], [1.0, 1.0], [2.0, 4.0]], [[1.0, 0.0], [1.0, 1.0], [4.0, 5.0]]), 6)
    0.948683
    """
    return PermutationProcrustes().similarity(X, Y, sample_weight)


def soft_matching(X: Array, Y: Array, *, unit_norm: bool = False, sample_weight: Array | None = None) -> float:
    """Compute the soft matching similarity of two representations: the best cosine under a transport of units.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order; its width may differ.
    unit_norm : bool, default=False
        As in :class:`SoftMatching`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [-1, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    References
    ----------
    Khosla & Williams (2024), "Soft matching distance: a metric on neural representations that captures single-neuron
    tuning", Proceedings of UniReps: the First Workshop on Unifying Representations in Neural Models, PMLR 243.

    Examples
    --------
    >>> from sklearn_cka import soft_matching
    >>> round(soft_matching([[0.0, 1.0], [1.0, 1.0], [2.0, 4.0]], [1.0, 1.0, 4.0], unit_norm=True), 6)
    0.933013
    """
    return SoftMatching(unit_norm=unit_norm).similarity(X, Y, sample_weight)
