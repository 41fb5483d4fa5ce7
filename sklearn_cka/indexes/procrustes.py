"""Orthogonal Procrustes and shape metrics: how well a rotation turns one representation into the other.

    Procrustes similarity = ||diag(s_x) M diag(s_y)||_* / (||s_x|| ||s_y||) = ||Xc' Yc||_* / (||Xc||_F ||Yc||_F)
    shape metric          = the same with t in place of s,  t = alpha s sqrt(r) / ||s|| + (1 - alpha)

with the nuclear norm ``||.||_*`` and ``M = U_x' U_y``. The arc cosine of either is a metric, and so is
``sqrt(2 - 2 similarity)``, the distance of the two configurations of unit norm after the best rotation.
References: Schönemann (1966), Psychometrika 31; Williams, Kunz, Kornblith & Linderman (2021), NeurIPS.
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._canonical import COST, OF_SPANS
from sklearn_cka.indexes._linear_map import LinearMap
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._spectral import SpectralEmbedding, SpectralIndex, cross_product, root_weighted, weigh

__all__ = ["Procrustes", "ShapeMetric", "procrustes_distance", "procrustes_similarity"]

_METRIC_FORMS = {"angular": "arccos(s)", "chord": "sqrt(2 - 2s)"}


class RotationIndex(SpectralIndex):
    """Base class of the indexes that stretch each side, ``Z = Xc (factor I + V diag(extra) V')``, and rotate it."""

    distance_form: str

    @abstractmethod
    def _stretch(self, embedding: SpectralEmbedding) -> tuple[float, Array | None]:
        """Return the factor of the identity, and in float64 what is added along each component (None: nothing)."""

    @abstractmethod
    def _exponent_out(self, embedding: SpectralEmbedding) -> int:
        """Return the binary exponent of the units of the stretched data."""

    def _stretched(self, embedding: SpectralEmbedding) -> Array:
        """Return the singular values of the stretched data over their norm, in float64."""
        factor, extra = self._stretch(embedding)
        t = embedding.spectrum * (factor if extra is None else factor + extra)
        return t / math.sqrt(_linalg.sum_of_squares(t))

    def from_cross(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, neither of rank 0, from the product of their bases.

        Parameters
        ----------
        M : array of shape (rank_x, rank_y)
            Product ``U_x' U_y``.
        a, b : SpectralEmbedding
            The two embeddings.

        Returns
        -------
        similarity : float
            The index.
        """
        value = _linalg.nuclear_norm(weigh(M, self._stretched(a), self._stretched(b)))
        return _linalg.clip_rounding(value, 0.0, 1.0, max(a.tolerance, b.tolerance))

    def _check_params(self) -> None:
        _validation.check_option("distance_form", self.distance_form, _METRIC_FORMS)

    def _learn_maps(self, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[LinearMap, LinearMap]:
        xp = _arrays.namespace(a.basis)
        self.n_components_ = min(a.rank, b.rank)
        if self.n_components_ == 0:
            self._x_turn, self._y_turn = a.loadings[:, :0], b.loadings[:, :0]
            nothing = LinearMap(a.mean, a.exponent, self._x_turn, self._y_turn)
            return nothing, LinearMap(b.mean, b.exponent, identity=1.0, exponent_out=b.exponent)
        M = cross_product(a, b)
        A, _, Bt = xp.linalg.svd(weigh(M, self._stretched(a), self._stretched(b)), full_matrices=False)
        V_x, V_y = (xp.astype(side.loadings, M.dtype, copy=False) for side in (a, b))
        self._x_turn, self._y_turn = V_x @ A, V_y @ xp.matrix_transpose(Bt)
        self._x_stretch = self._stretch_map(a, V_x)
        factor, extra = self._stretch(a)
        left = self._x_turn * factor if extra is None else V_x @ weigh(A, factor + extra)
        x_map = LinearMap(a.mean, a.exponent, left, self._y_turn, exponent_out=self._exponent_out(a))
        return x_map, self._stretch_map(b, V_y)

    def _stretch_map(self, side: SpectralEmbedding, V: Array) -> LinearMap:
        """Return the stretch of one side, a map into its own space."""
        factor, extra = self._stretch(side)
        units = self._exponent_out(side)
        if extra is None:
            return LinearMap(side.mean, side.exponent, identity=factor, exponent_out=units)
        return LinearMap(side.mean, side.exponent, weigh(V, None, extra), V, identity=factor, exponent_out=units)

    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return the cosine between X, stretched and rotated as learned, and y, stretched as learned."""
        if self.n_components_ == 0:
            return math.nan
        Z_x, Z_y = (
            root_weighted(stretch.image(rows), weights) for rows, stretch in ((X, self._x_stretch), (y, self._y_map))
        )
        norm = math.sqrt(_linalg.sum_of_squares(Z_x)) * math.sqrt(_linalg.sum_of_squares(Z_y))
        if norm == 0.0:
            return math.nan
        x_turn, y_turn = self._x_turn, self._y_turn
        xp = _arrays.namespace(X)
        inner = _linalg.inner(xp.astype(Z_x, x_turn.dtype) @ x_turn, xp.astype(Z_y, y_turn.dtype) @ y_turn)
        return _linalg.clip_rounding(inner / norm, -1.0, 1.0, 64 * _arrays.eps(x_turn))

    @property
    def rotation_(self) -> Array:
        """Rotation of X onto y, shape (n_features_in_, n_features_y_in_)."""
        return self._x_turn @ _arrays.namespace(self._y_turn).matrix_transpose(self._y_turn)


class Procrustes(RotationIndex):
    """Orthogonal Procrustes similarity: how well a rotation of X matches y, after centring and up to scale.

    Parameters
    ----------
    distance_form : {"angular", "chord"}, default="angular"
        What :meth:`distance` gives: the angle arccos(s) between the configurations after the best rotation, or
        sqrt(2 - 2s), their distance when both have norm 1 (the size-free Procrustes distance). Both are metrics.

    Attributes
    ----------
    similarity_ : float
        Similarity s of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        NaN: the mean over row permutations has no closed form.
    rotation_ : array of shape (n_features_in_, n_features_y_in_)
        The rotation R, reflections included, that makes ``(X - x_mean_) @ R`` most like ``y - y_mean_`` up to scale:
        a partial isometry, which turns n_components_ directions of X and leaves out those without variance or, where
        y has fewer, without counterpart. Computed when asked for, from two thin factors.
    n_components_ : int
        Smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`; they may differ, as if the narrower side were filled up with zeros.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    Notes
    -----
    :meth:`transform` gives ``(X - x_mean_) @ rotation_``, in the space of y and in the units of X. :meth:`score` is the
    cosine <X'R, Y'> / (||X'|| ||Y'||) of the rows given, less the means of fit: on held-out rows it may be negative.

    References
    ----------
    Schönemann (1966), "A generalized solution of the orthogonal Procrustes problem", Psychometrika 31. Williams, Kunz,
    Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import Procrustes
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> y = 2 * X @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> index = Procrustes().fit(X, y)
    >>> round(index.similarity_, 6), np.allclose(X @ index.rotation_, y / 2)
    (1.0, True)
    """

    def __init__(self, *, distance_form: str = "angular") -> None:
        self.distance_form = distance_form

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=OF_SPANS - {"invertible_linear"},
            self_similarity=1.0,
            metric=_METRIC_FORMS.get(self.distance_form),
            cost=f"{COST}, and the singular values of it",
            reference="Williams et al. 2021, NeurIPS",
        )

    def _stretch(self, embedding: SpectralEmbedding) -> tuple[float, Array | None]:
        return 1.0, None

    def _exponent_out(self, embedding: SpectralEmbedding) -> int:
        return embedding.exponent


class ShapeMetric(RotationIndex):
    """Similarity of shapes after partial whitening, between CCA (alpha = 0) and Procrustes (alpha = 1).

    Parameters
    ----------
    alpha : float, default=1.0
        How much of the data's own scale is kept in every direction, in [0, 1]: 1 keeps all, which is
        :class:`Procrustes`; 0 whitens fully, which is the sum of the canonical correlations over sqrt(r_x r_y), mean
        CCA where the ranks agree.
    distance_form : {"angular", "chord"}, default="angular"
        What :meth:`distance` gives, arccos(s) or sqrt(2 - 2s) of the similarity s; both are metrics.

    Attributes
    ----------
    similarity_ : float
        Similarity s of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        NaN: the mean over row permutations has no closed form.
    rotation_ : array of shape (n_features_in_, n_features_y_in_)
        The rotation of whitened X onto whitened y, a partial isometry as in :class:`Procrustes`.
    n_components_ : int
        Smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`; they may differ.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If alpha = 0 and n <= r_x + r_y: some correlations are 1 whatever the data are.

    Notes
    -----
    Each side is centred, scaled to a total variance equal to its rank r, so that neither the number of rows nor the
    scale counts, and whitened: its singular values s become ``alpha s + (1 - alpha) sqrt(n)``. Directions in which the
    training rows do not vary cannot be whitened and keep the share alpha of their scale. :meth:`transform` gives X so
    treated and rotated onto y, and :meth:`transform_y` gives y so treated; :meth:`score` is the cosine of both over the
    rows given: on held-out rows it may be negative.

    References
    ----------
    Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import ShapeMetric
    >>> X = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 3.0, 9.0]
    >>> y = X + 2 * np.random.default_rng(1).standard_normal((50, 3))
    >>> [round(ShapeMetric(alpha=alpha).fit(X, y).similarity_, 6) for alpha in (0.0, 0.5, 1.0)]
    [0.739504, 0.854629, 0.939389]
    >>> round(ShapeMetric(alpha=0.5).distance(X, y), 6)
    0.545961
    """

    def __init__(self, *, alpha: float = 1.0, distance_form: str = "angular") -> None:
        self.alpha = alpha
        self.distance_form = distance_form

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=OF_SPANS if self.alpha == 0 else OF_SPANS - {"invertible_linear"},
            self_similarity=1.0,
            metric=_METRIC_FORMS.get(self.distance_form),
            cost=f"{COST}, and the singular values of it",
            reference="Williams et al. 2021, NeurIPS",
        )

    def _check_params(self) -> None:
        super()._check_params()
        is_number = isinstance(self.alpha, numbers.Real) and not isinstance(self.alpha, bool)
        if not is_number or not 0.0 <= self.alpha <= 1.0:
            raise ValueError(f"alpha must be a number from 0 (whitening) to 1 (none), got {self.alpha!r}.")

    def _stretch(self, embedding: SpectralEmbedding) -> tuple[float, Array | None]:
        alpha, root_n = float(self.alpha), math.sqrt(embedding.n_samples)
        factor = alpha * root_n * math.sqrt(embedding.rank) / embedding.norm
        return factor, None if alpha == 1.0 else (1.0 - alpha) * root_n / embedding.spectrum

    def _exponent_out(self, embedding: SpectralEmbedding) -> int:
        return 0

    def _is_degenerate(self, a: SpectralEmbedding, b: SpectralEmbedding) -> bool:
        return self.alpha == 0 and a.n_samples <= a.rank + b.rank


def procrustes_similarity(X: Array, Y: Array, *, sample_weight: Array | None = None) -> float:
    """Compute the orthogonal Procrustes similarity of two representations: the best cosine under a rotation.

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
        ``||Xc' Yc||_* / (||Xc||_F ||Yc||_F)``, in [0, 1]; 1 for X with itself.

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
    Schönemann (1966), "A generalized solution of the orthogonal Procrustes problem", Psychometrika 31.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import procrustes_similarity
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> Y = X[:, :3] + np.random.default_rng(1).standard_normal((40, 3))
    >>> round(procrustes_similarity(X, Y), 6)
    0.641049
    """
    return Procrustes().similarity(X, Y, sample_weight)


def procrustes_distance(X: Array, Y: Array, *, form: str = "angular", sample_weight: Array | None = None) -> float:
    """Compute the orthogonal Procrustes distance of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order; its width may differ.
    form : {"angular", "chord", "unscaled"}, default="angular"
        arccos(s) of the Procrustes similarity s; sqrt(2 - 2s), the least distance under a rotation of both
        configurations scaled to norm 1; or the least distance of the two as they are, size included.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    distance : float
        In [0, pi/2], [0, sqrt(2)], or in the units of the data (root of the sum over rows); 0 for X with itself, to
        the root of the rounding (about 1e-8).

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or the form is unknown.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the angular and chord forms are NaN.

    References
    ----------
    Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import procrustes_distance
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> round(procrustes_distance(X, 2 * X[:, ::-1], form="unscaled"), 6)
    3.162278
    """
    _validation.check_option("form", form, (*_METRIC_FORMS, "unscaled"))
    index = Procrustes(distance_form="angular" if form == "unscaled" else form)
    if form != "unscaled":
        return index.to_distance(index.similarity(X, Y, sample_weight))
    X, Y, weights = index._check_data(X, Y, sample_weight)
    a, b = index.embed(X, weights), index.embed_y(Y, weights)
    sizes = [side.norm * _linalg.power_of_two(side.exponent) for side in (a, b)]
    if not (a.rank and b.rank):
        return max(sizes)
    larger = max(sizes)
    x, y = sizes[0] / larger, sizes[1] / larger
    return larger * math.sqrt(max(0.0, x * x + y * y - 2.0 * x * y * index.compare(a, b)))
