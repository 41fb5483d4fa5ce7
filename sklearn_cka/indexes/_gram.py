"""A representation as a centred Gram matrix: the embedding of the Gram family.

Every member of the family is a function of inner products of Gram matrices K, double-centred (biased estimators) or
U-centred (debiased ones). With the linear kernel the centred features stand for the matrix, and
``<K, L> = ||X'Y||_F^2``: whichever form costs less is taken, and the Gram matrix is made only if it is needed.

Row weights w count repetitions: the embedding of weighted rows has the inner products that the repeated rows have.

References: Kornblith et al. (2019), ICML; Song et al. (2012), JMLR 13; Székely & Rizzo (2014), Annals of Statistics
42 (U-centring); Kazi-Aoual et al. (1995), Computational Statistics & Data Analysis 20 (moments under permutation).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array

# Entries of a centred Gram matrix below this many units in the last place of K are rounding: K is constant.
ROUNDING_ULPS = 32.0
# Sums of rows below this share of the diagonal entry that is taken out of them are computed without it.
_DOMINATED = 2.0**-8
# Squared norms of rows in units of their median: above this, or above the number of rows (one huge row shifts
# the mean and makes the others less small), one row outweighs the others in a debiased estimate.
_OUTLYING = 1e3
# A spread under permutation below this many units in the last place of the mean is rounding: no order matters.
_SPREAD_ULPS = 64.0


class GramEmbedding:
    """A centred Gram matrix of one representation, held as linear features, as a matrix, or as both.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    features : array of shape (n_samples, n_features) or None
        Features whose inner products are the Gram matrix, centred unless `centered` is False.
    matrix : array of shape (n_samples, n_samples) or None
        A Gram matrix, not yet centred.
    scale, exponent : float, int
        `features @ features.T` or `matrix` times ``scale * 2**exponent`` is the kernel.
    weights : array of shape (n_samples,) or None
        Row weights.
    debiased, centered : bool
        U-centring, double centring (both False: none).
    bandwidth : float or None
        The sigma of the kernel, for fitted attributes.
    """

    def __init__(
        self,
        n_samples: int,
        *,
        features: Array | None = None,
        matrix: Array | None = None,
        scale: float = 1.0,
        exponent: int = 0,
        weights: Array | None = None,
        debiased: bool = False,
        centered: bool = True,
        bandwidth: float | None = None,
    ) -> None:
        self.n_samples = n_samples
        self.features = features
        self.scale = scale
        self.exponent = exponent
        self.weights = weights
        self.debiased = debiased
        self.centered = centered
        self.bandwidth = bandwidth
        self._matrix = matrix
        self._self_inner: dict[str, float] = {}

    @cached_property
    def eps(self) -> float:
        """Distance from 1 to the next number in the precision of the products."""
        return _arrays.eps(self.features if self.features is not None else self.gram)

    @cached_property
    def total(self) -> float:
        """Number of rows, repetitions counted."""
        if self.weights is None:
            return float(self.n_samples)
        xp = _arrays.namespace(self.weights)
        return float(xp.sum(self.weights, dtype=xp.float64))

    @cached_property
    def squares(self) -> Array:
        """Squared norm of every row of the features, in float64."""
        return _linalg.row_squares(self.features)

    @cached_property
    def weighted_features(self) -> Array:
        """Features with every row multiplied by the root of its weight."""
        if self.weights is None or self.features is None:
            return self.features
        xp = _arrays.namespace(self.features)
        return self.features * xp.astype(xp.sqrt(self.weights), self.features.dtype)[:, None]

    @cached_property
    def gram(self) -> Array:
        """The centred Gram matrix, its entries multiplied so that inner products count repeated rows."""
        if self.features is not None:
            # Centred features make a centred Gram matrix; only U-centring is left to do.
            K = self._linear_gram(self.features if self.debiased else self.weighted_features)
            return self._u_center(K) if self.debiased else K
        K = self._matrix
        self._matrix = None
        if not self.centered:
            return self._weigh(K)
        centered = self._u_center(K) if self.debiased else self._double_center(K)
        xp = _arrays.namespace(K)
        rounding = ROUNDING_ULPS * _arrays.eps(centered) * _linalg.largest_size(K)
        if self.debiased and _linalg.largest_size(centered) <= rounding:  # it may be the diagonal alone that is large
            off_diagonal = _arrays.fill_diagonal(xp.asarray(K, copy=True), 0.0)
            rounding = ROUNDING_ULPS * _arrays.eps(centered) * _linalg.largest_size(off_diagonal)
        return centered if _linalg.largest_size(centered) > rounding else xp.zeros_like(centered)

    @staticmethod
    def _linear_gram(Z: Array) -> Array:
        return Z @ _arrays.namespace(Z).matrix_transpose(Z)

    def _weigh(self, K: Array) -> Array:
        """Multiply entry ij by the root of ``w_i w_j``."""
        if self.weights is None:
            return K
        xp = _arrays.namespace(K)
        root = xp.astype(xp.sqrt(self.weights), K.dtype)
        return K * root[:, None] * root[None, :]

    def _double_center(self, K: Array) -> Array:
        xp = _arrays.namespace(K)
        if self.weights is None:
            means = xp.sum(K, axis=1, dtype=xp.float64) / self.n_samples
            grand = float(xp.sum(means)) / self.n_samples
        else:
            means = xp.astype(K, xp.float64) @ self.weights / self.total
            grand = float(xp.vecdot(means, self.weights)) / self.total
        offsets = xp.astype(means - 0.5 * grand, K.dtype)
        return self._weigh(_linalg.subtract_sums(K, offsets))

    def _u_center(self, K: Array) -> Array:
        """Return the U-centred matrix of Székely & Rizzo; copies of one row count as different rows."""
        xp = _arrays.namespace(K)
        n = self.total
        own = xp.astype(_arrays.diagonal(K), xp.float64, copy=True)
        sums = self._weighted_sums(K) - own
        if bool(xp.any(xp.abs(sums) < _DOMINATED * xp.abs(own))):  # where the diagonal dominates, the sums lost digits
            K = _arrays.fill_diagonal(xp.asarray(K, copy=True), 0.0)
            sums = self._weighted_sums(K)
            if self.weights is not None:
                sums = sums + own * (self.weights - 1.0)
        grand = float(xp.sum(sums) if self.weights is None else xp.vecdot(sums, self.weights))
        offsets = xp.astype(sums / (n - 2.0) - 0.5 * grand / ((n - 1.0) * (n - 2.0)), K.dtype)
        A = _linalg.subtract_sums(K, offsets)
        if self.weights is None:
            return _arrays.fill_diagonal(A, 0.0)
        # A row that counts w times has w (w - 1) pairs of copies, and none of a copy with itself.
        copies = xp.sqrt(self.weights * (self.weights - 1.0)) * (own - 2.0 * xp.astype(offsets, xp.float64))
        A = self._weigh(A)
        identity = xp.eye(self.n_samples, dtype=A.dtype, device=_arrays.device(A))
        return A * (1.0 - identity) + identity * xp.astype(copies, A.dtype)[None, :]

    def _weighted_sums(self, K: Array) -> Array:
        """Return the sums of the rows of `K` in float64, every column counted as often as its row of the data."""
        xp = _arrays.namespace(K)
        if self.weights is None:
            return xp.sum(K, axis=1, dtype=xp.float64)
        return xp.astype(K, xp.float64) @ self.weights

    def inner(self, other: GramEmbedding, form: str) -> float:
        """Return the inner product with another embedding, in the "gram" or the "feature" form."""
        if form == "gram":
            return _linalg.inner(self.gram, other.gram)
        a, b = _arrays.same_precision(self.weighted_features, other.weighted_features)
        total = _linalg.sum_of_squares(_arrays.namespace(a).matrix_transpose(a) @ b)
        return total - self.feature_correction(other) if self.debiased else total

    def feature_correction(self, other: GramEmbedding) -> float:
        """Return what the squared norm of X'Y holds beyond the inner product of the U-centred matrices."""
        n = self.total
        both = _linalg.weighted_inner(self.squares, other.squares, self.weights)
        return n / (n - 2.0) * both - self._weighted_trace * other._weighted_trace / ((n - 1.0) * (n - 2.0))

    @cached_property
    def _weighted_trace(self) -> float:
        xp = _arrays.namespace(self.squares)
        return float(xp.sum(self.squares if self.weights is None else self.squares * self.weights))

    def self_inner(self, form: str) -> float:
        """Return the inner product with itself, exactly 0 where nothing but rounding is left of it."""
        if form not in self._self_inner:
            self.remember_self_inner(form, self.inner(self, form))
        return self._self_inner[form]

    def remember_self_inner(self, form: str, value: float) -> None:
        """Keep an inner product with itself that was computed elsewhere, 0 if it is rounding."""
        if self.debiased and self.features is not None:
            if form == "gram":  # entry ij is off by rounding of |x_i| |x_j|
                rounding = (ROUNDING_ULPS * self.eps * self._weighted_trace) ** 2
            else:
                rounding = 0.25 * ROUNDING_ULPS * self.eps * abs(self.feature_correction(self))
            value = value if value > rounding else 0.0
        self._self_inner[form] = value

    @cached_property
    def has_outlying_row(self) -> bool:
        """Whether the norm of one row of the features is far larger than that of most."""
        return outlies(self.squares)

    def remember_squares(self, squares: Array) -> None:
        """Keep the squared norms of the rows of the features that were computed elsewhere, in float64."""
        self.__dict__["squares"] = squares

    @cached_property
    def diagonal(self) -> Array:
        """Diagonal of the biased centred Gram matrix, in float64."""
        if self.features is not None:
            return self.squares
        return _arrays.namespace(self.gram).astype(_arrays.diagonal(self.gram), self._float64)

    @property
    def _float64(self) -> Any:
        return _arrays.namespace(self.features if self.features is not None else self.gram).float64

    @cached_property
    def trace(self) -> float:
        """Trace of the centred matrix, which is 0 if it is U-centred (unweighted)."""
        if self.debiased:
            return 0.0
        if self.features is not None and "squares" not in self.__dict__:
            return _linalg.sum_of_squares(self.features)
        return float(_arrays.namespace(self.diagonal).sum(self.diagonal))

    @cached_property
    def split_sum(self) -> tuple[float, float]:
        """Sum of the diagonal entries and that of all others (unweighted, not centred)."""
        if self.features is not None:
            xp = _arrays.namespace(self.features)
            trace = float(xp.sum(self.squares))
            column_sums = xp.sum(self.features, axis=0, dtype=xp.float64)
            return trace, float(xp.vecdot(column_sums, column_sums)) - trace
        xp = _arrays.namespace(self.gram)
        trace = float(xp.sum(_arrays.diagonal(self.gram), dtype=xp.float64))
        return trace, float(xp.sum(self.gram, dtype=xp.float64)) - trace

    def moments(self, form: str) -> tuple[float, float, float]:
        """Return trace, squared norm and sum of squared diagonal entries of the centred matrix (unweighted)."""
        norm = self.self_inner(form)
        if self.debiased:
            return 0.0, norm, 0.0
        return self.trace, norm, float(_arrays.namespace(self.diagonal).vecdot(self.diagonal, self.diagonal))


def outlies(squares: Array) -> bool:
    """Whether a squared row norm outweighs the others so much that debiasing, a difference, loses their digits."""
    xp = _arrays.namespace(squares)
    n = squares.shape[0]
    return float(xp.max(squares)) > min(_OUTLYING, n) * float(xp.sort(squares)[n // 2])


def permutation_moments(
    n: int, moments_a: tuple[float, float, float], moments_b: tuple[float, float, float]
) -> tuple[float, float]:
    """Return mean and variance of <A, P B P'> over all n! row permutations P of doubly centred A and B.

    Each side is given by its trace, squared norm and sum of squared diagonal entries; n >= 4.
    """
    (trace_a, square_a, diagonal_a), (trace_b, square_b, diagonal_b) = moments_a, moments_b

    def v(trace: float, square: float) -> float:
        return (n - 1) * square - trace**2

    def u(trace: float, square: float, diagonal: float) -> float:
        return n * (n + 1) * diagonal - (n - 1) * (trace**2 + 2 * square)

    variance = 2 * v(trace_a, square_a) * v(trace_b, square_b) / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance += (
        u(trace_a, square_a, diagonal_a)
        * u(trace_b, square_b, diagonal_b)
        / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    )
    return trace_a * trace_b / (n - 1), variance


def permutation_z(inner: float, mean: float, variance: float, a: GramEmbedding, b: GramEmbedding) -> float:
    """Return the z-score of the inner product of two embeddings, NaN where its spread is nothing but rounding.

    So it is for a constant side, and where all rows are equally alike: a kernel so narrow that K is the identity.
    """
    if not variance > (_SPREAD_ULPS * max(a.eps, b.eps) * mean) ** 2:
        return math.nan
    return (inner - mean) / math.sqrt(variance)
