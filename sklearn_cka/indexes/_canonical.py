"""Canonical directions: what CCA, its relatives and canonical ridge have in common.

    diag(d_x) M diag(d_y) = A diag(rho) B',    d = s / sqrt(s^2 + n kappa),    d = 1 without a penalty kappa

The value is a weighted sum of the canonical correlations rho or of their squares. On held-out rows each rho gives way
to the correlation of the two canonical variates on those rows, their variances increased by the penalty.
References: Hotelling (1936), Biometrika 28; Vinod (1976), Journal of Econometrics 4 (canonical ridge).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._linear_map import LinearMap
from sklearn_cka.indexes._spectral import (
    SpectralEmbedding,
    SpectralIndex,
    chance_of_squares,
    cross_product,
    root_weighted,
    weigh,
)

#: Invariances of an index that depends on nothing but the spaces spanned by the centred columns.
OF_SPANS = frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal", "invertible_linear"})
COST = "n (p^2 + q^2) for two SVDs, n p q for their product"
STATISTICS = ("mean", "mean_squared")
# Canonical correlations this many units in the last place below 1 are 1: their directions are not unique.
_TIED_ULPS = 1_000.0
# At this ratio of penalty to squared norm the limit of large penalties is reached to the last digit.
_LARGEST_PENALTY = 1e20


def canonical_directions(
    M: Array, a: SpectralEmbedding, b: SpectralEmbedding, d_x: Array | None = None, d_y: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return A (rank_x, k), rho (k,) descending in [0, 1] and B (rank_y, k), k the smaller rank.

    Where several correlations are 1, any rotation of their directions is as good: those that hold the largest joint
    share of the variance of both sides come first, so that the result does not depend on the library or on rounding.
    """
    xp = _arrays.namespace(M)
    A, rho, Bt = xp.linalg.svd(weigh(M, d_x, d_y), full_matrices=False)
    B = xp.matrix_transpose(Bt)
    tied = _arrays.count(rho >= 1.0 - _TIED_ULPS * _arrays.eps(M))
    if tied > 1:
        shares = [weigh(Z[:, :tied], side.relative) for Z, side in ((A, a), (B, b))]
        joint = sum(xp.matrix_transpose(share) @ share for share in shares)
        turn = xp.flip(xp.linalg.eigh(joint)[1], axis=1)
        A, B = (xp.concat([Z[:, :tied] @ turn, Z[:, tied:]], axis=1) for Z in (A, B))
    return A, xp.clip(rho, max=1.0), B


class CanonicalIndex(SpectralIndex):
    """Base class of the indexes on canonical correlations: a divisor and a power make an index."""

    @property
    def _is_squared(self) -> bool:
        """Whether the squares of the correlations are added up."""
        return False

    @abstractmethod
    def _divisor(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return what the sum of the correlations, or of their squares, is divided by."""

    def _penalties(self) -> tuple[float, float]:
        """Return the penalties of X and y in units of the variance of one column."""
        return 0.0, 0.0

    def _penalty_of(self, embedding: SpectralEmbedding, penalty: float) -> float:
        """Return a penalty in units of the squared singular values of an embedding."""
        scaled = penalty * embedding.n_samples * _linalg.power_of_two(-2 * embedding.exponent)
        return min(scaled, _LARGEST_PENALTY * embedding.norm**2)

    def _kept(self, embedding: SpectralEmbedding, penalty: float) -> Array | None:
        """Return the d of one side, what the penalty leaves of each component; None for all of it."""
        if penalty == 0.0:
            return None
        squares = embedding.spectrum**2
        return (squares / (squares + self._penalty_of(embedding, penalty))) ** 0.5

    def _sum_kept(self, embedding: SpectralEmbedding, penalty: float) -> float:
        """Return the sum of the squares of d."""
        d = self._kept(embedding, penalty)
        return float(embedding.rank) if d is None else _linalg.sum_of_squares(d)

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
        xp = _arrays.namespace(M)
        penalty_x, penalty_y = self._penalties()
        C = weigh(M, self._kept(a, penalty_x), self._kept(b, penalty_y))
        if self._is_squared:
            total = _linalg.sum_of_squares(C)
        else:
            total = float(xp.sum(xp.clip(xp.linalg.svdvals(C), max=1.0), dtype=xp.float64))
        return _linalg.clip_rounding(total / self._divisor(a, b), 0.0, 1.0, max(a.tolerance, b.tolerance))

    def chance(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the mean over all row permutations of one side, in closed form for sums of squares, else NaN."""
        if not (self._is_squared and a.rank and b.rank):
            return math.nan
        penalty_x, penalty_y = self._penalties()
        kept = self._sum_kept(a, penalty_x) * self._sum_kept(b, penalty_y)
        return kept * chance_of_squares(a, b) / self._divisor(a, b)

    def _is_degenerate(self, a: SpectralEmbedding, b: SpectralEmbedding) -> bool:
        return self._penalties() == (0.0, 0.0) and a.n_samples <= a.rank + b.rank

    def _component_weights(self, A: Array, B: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> Array:
        """Return the weight of every canonical component in the value, in float64."""
        xp = _arrays.namespace(A)
        return xp.full((A.shape[1],), 1.0 / self._divisor(a, b), dtype=xp.float64, device=_arrays.device(A))

    def _learn_maps(self, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[LinearMap, LinearMap]:
        xp = _arrays.namespace(a.basis)
        self.n_components_ = k = min(a.rank, b.rank)
        if k == 0:
            empty = xp.zeros((0,), dtype=xp.float64, device=_arrays.device(a.basis))
            self.canonical_correlations_ = self._weights = self._penalty_x = self._penalty_y = empty
            maps = [LinearMap(side.mean, side.exponent, left=side.loadings[:, :0]) for side in (a, b)]
            return maps[0], maps[1]
        M = cross_product(a, b)
        penalties = self._penalties()
        d_x, d_y = (self._kept(side, penalty) for side, penalty in zip((a, b), penalties, strict=True))
        A, rho, B = canonical_directions(M, a, b, d_x, d_y)
        left_x, self._penalty_x = self._variates(a, A, d_x, penalties[0])
        left_y, self._penalty_y = self._variates(b, B, d_y, penalties[1])
        # Signs: the largest loading of every variate of X is positive.
        positive = xp.max(left_x, axis=0) >= -xp.min(left_x, axis=0)
        sign = (2.0 * xp.astype(positive, left_x.dtype) - 1.0)[None, :]
        self.canonical_correlations_ = rho
        self._weights = self._component_weights(A, B, a, b)
        return LinearMap(a.mean, a.exponent, left=left_x * sign), LinearMap(b.mean, b.exponent, left=left_y * sign)

    def _variates(self, embedding: SpectralEmbedding, A: Array, d: Array | None, penalty: float) -> tuple[Array, Array]:
        """Return the weights of the features in variates of unit (penalised) variance, and the penalties in these."""
        xp = _arrays.namespace(A)
        squares = embedding.spectrum**2
        if penalty:
            squares = squares + self._penalty_of(embedding, penalty)
        unit = (embedding.n_samples / squares) ** 0.5
        left = xp.astype(embedding.loadings, A.dtype, copy=False) @ weigh(A, unit)
        added = xp.zeros((A.shape[1],), dtype=xp.float64, device=_arrays.device(A))
        if d is not None:
            added = xp.sum(xp.astype(A, xp.float64) ** 2 * (1.0 - d**2)[:, None], axis=0)
        return left, added

    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return the weighted sum of the (squared) correlations of the canonical variates over the rows given."""
        if self.n_components_ == 0:
            return math.nan
        xp = _arrays.namespace(X)
        sides = ((X, self._x_map, self._penalty_x), (y, self._y_map, self._penalty_y))
        variates, lengths = [], []
        total = float(X.shape[0]) if weights is None else float(xp.sum(weights))
        for rows, learned, added in sides:
            centered = _linalg.center(rows, weights)
            Z = root_weighted(xp.astype(centered.values, learned.left.dtype, copy=False), weights) @ learned.left
            Z = xp.astype(Z, xp.float64)
            squares = xp.sum(Z**2, axis=0)
            if any(self._penalties()):  # variances are compared with a penalty: back to the units of fit
                unit = _linalg.power_of_two(2 * (learned.exponent - centered.exponent))
                squares = squares + added * (total * unit)
            variates.append(Z)
            lengths.append(xp.sqrt(squares))
        scale = lengths[0] * lengths[1]
        if not bool(xp.all(scale > 0.0)):
            return math.nan
        correlations = xp.clip(xp.sum(variates[0] * variates[1], axis=0) / scale, min=-1.0, max=1.0)
        if self._is_squared:
            correlations = correlations**2
        return float(xp.sum(correlations * self._weights))

    @property
    def x_rotations_(self) -> Array:
        """Weights of the columns of X in its canonical variates, shape (n_features_in_, n_components_)."""
        return self._x_map.matrix()

    @property
    def y_rotations_(self) -> Array:
        """Weights of the columns of y in its canonical variates, shape (n_features_y_in_, n_components_)."""
        return self._y_map.matrix()


def check_statistic(value: Any) -> None:
    """Raise ValueError unless `value` names a statistic of canonical correlations."""
    _validation.check_option("statistic", value, STATISTICS)
