"""Jackknife and bootstrap of inner products of centred Gram matrices, on plain arrays.

For Gram matrices A and B whose rows sum to zero, all that leaving out row i changes is told by its row of ``A * B``.
With ``q_i = sum_j A_ij B_ij``, ``T = <A, B>`` and m = n - 1 rows left, the inner products of the matrices of the other
rows, centred anew, are

    double-centred   T - 2 q_i + A_ii B_ii - 2 (q_i - A_ii B_ii) / m + A_ii B_ii / m^2
    U-centred        T - 2 q_i (m - 1) / (m - 2)

so that all n of them cost one pass over the entries (Gram form) or three thin products (feature form).

A resample is a vector of counts w. Its estimate is built from means over sets of *different* rows, each weighted by
the product of its counts: copies of one row never meet, which would count as similarity that is not there. For
U-centred matrices it is the U-statistic, the mean of ``A_ij (B_ij + B_qr - 2 B_iq)`` over quadruples of different rows.
With counts of one it is the estimate itself, with counts of 0 and 1 that of the rows kept, so that it serves for
leaving out groups as well. All resamples come from a few matrix products.

References: Efron & Tibshirani (1993), "An introduction to the bootstrap"; Arcones & Giné (1992), "On the bootstrap of
U and V statistics", Annals of Statistics 20; Song et al. (2012), JMLR 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array

# Triangular products pay from this width on.
_TRIANGULAR_WIDTH = 64


@dataclass(frozen=True)
class RowProducts:
    """What the rows of two centred Gram matrices give to their inner product.

    Attributes
    ----------
    total : float
        The inner product.
    rows : ndarray of shape (n,)
        Sums of the rows of ``A * B``.
    own : ndarray of shape (n,)
        Its diagonal.
    """

    total: float
    rows: np.ndarray
    own: np.ndarray

    def without_each(self, debiased: bool) -> np.ndarray:
        """Return the n inner products of the matrices of all rows but one, centred anew, shape (n,)."""
        m = self.rows.shape[0] - 1
        if debiased:
            return self.total - 2.0 * self.rows * ((m - 1.0) / (m - 2.0))
        rest = self.rows - self.own
        return self.total - 2.0 * rest * (1.0 + 1.0 / m) - self.own * (1.0 - 1.0 / m**2)


def gram_row_products(A: Array, B: Array) -> RowProducts:
    """Return the row products of two centred Gram matrices, shape (n, n) both."""
    xp = _arrays.namespace(A)
    if A.dtype != B.dtype:
        A, B = xp.astype(A, xp.float64), xp.astype(B, xp.float64)
    rows = _row_dots(A, B)
    return RowProducts(float(rows.sum()), rows, _host(_arrays.diagonal(A)) * _host(_arrays.diagonal(B)))


def feature_row_products(X: Array, Y: Array, *, debiased: bool) -> RowProducts:
    """Return the row products of the linear Gram matrices of centred features, without making these.

    Parameters
    ----------
    X, Y : array of shape (n, p) and (n, q)
        Centred features; the same object for the products of a matrix with itself.
    debiased : bool
        Whether the matrices are U-centred instead of double-centred.

    Returns
    -------
    products : RowProducts
        As :func:`gram_row_products` of the centred matrices.
    """
    X, Y = _arrays.same_precision(X, Y)
    xp = _arrays.namespace(X)
    squares_x, squares_y = _linalg.row_squares(X), _linalg.row_squares(Y)
    rows = _quadratic_rows(X) if X is Y else _row_dots(X @ (xp.matrix_transpose(X) @ Y), Y)
    d, e = _host(squares_x), _host(squares_y)
    if not debiased:
        return RowProducts(float(rows.sum()), rows, d * e)
    # Entry ij of the U-centred matrices, i not j, is x_i.x_j + c_i + c_j and y_i.y_j + f_i + f_j.
    n = X.shape[0]
    c = d / (n - 2.0) - d.sum() / (2.0 * (n - 1.0) * (n - 2.0))
    f = e / (n - 2.0) - e.sum() / (2.0 * (n - 1.0) * (n - 2.0))
    af, bc = _gram_times(X, f), _gram_times(Y, c)
    rows = rows - d * e  # the pair of a row with itself
    rows += (af - d * f) + (bc - e * c)
    rows += c * (f.sum() - f - e) + (c @ f - c * f)
    return RowProducts(float(rows.sum()), rows, np.zeros_like(d))


def _quadratic_rows(X: Array) -> np.ndarray:
    """Return ``x_i' (X'X) x_i`` for every row."""
    xp = _arrays.namespace(X)
    S = xp.matrix_transpose(X) @ X
    if not _arrays.is_numpy(X) or X.shape[1] < _TRIANGULAR_WIDTH:
        return _row_dots(X @ S, X)
    # x'Sx = x'(2U + D)x with the strict upper triangle U and the diagonal D of S: half a product.
    from scipy.linalg.blas import dtrmm, strmm

    triangle = 2.0 * S
    np.fill_diagonal(triangle, np.diagonal(S))
    trmm = dtrmm if X.dtype == np.float64 else strmm
    # BLAS is column-major: (2U + D)' times X' from the left is X (2U + D).
    product = trmm(1.0, triangle.T, X.T, lower=1).T
    return _row_dots(product, X)


def _row_dots(A: Array, B: Array) -> np.ndarray:
    """Return the inner product of every row of A with that of B."""
    if _arrays.is_numpy(A):
        return np.einsum("ij,ij->i", A, B).astype(np.float64)
    return _host(_arrays.namespace(A).vecdot(A, B, axis=-1))


def _gram_times(X: Array, vector: np.ndarray) -> np.ndarray:
    """Return ``X X' v``."""
    xp = _arrays.namespace(X)
    v = xp.astype(_arrays.like(vector, X), X.dtype)
    return _host(X @ (xp.matrix_transpose(X) @ v))


def _host(x: Array) -> np.ndarray:
    return _arrays.to_numpy(x).astype(np.float64)


class GramRows:
    """Centred Gram matrices A and B of the same rows, to be reweighted many times.

    Parameters
    ----------
    A, B : array of shape (n, n)
        Gram matrices, U-centred if `debiased`, else double-centred.
    debiased : bool
        Which inner product.
    """

    def __init__(self, A: Array, B: Array, *, debiased: bool) -> None:
        xp = _arrays.namespace(A)
        if A.dtype != B.dtype:
            A, B = xp.astype(A, xp.float64), xp.astype(B, xp.float64)
        self._same = A is B
        self.own_a, self.own_b = _host(_arrays.diagonal(A)), _host(_arrays.diagonal(B))
        self._A = A if debiased else _without_diagonal(A)
        self._B = self._A if self._same else B if debiased else _without_diagonal(B)
        self._AB = self._A * self._B
        self.debiased = debiased

    def pair_sums(self, W: np.ndarray) -> PairSums:
        """Return the sums over pairs of different rows for every column of counts, shape (n, n_resamples)."""
        xp = _arrays.namespace(self._A)
        counts = xp.astype(_arrays.like(W, self._A), self._A.dtype)
        squares = counts * counts
        once, twice = _host(self._AB @ counts), _host(self._AB @ squares)

        def times(powers: Array) -> tuple[np.ndarray, np.ndarray]:
            a = _host(self._A @ powers)
            return a, a if self._same else _host(self._B @ powers)

        W2 = W * W
        sums = _dots(W, once), _dots(W2, once), _dots(W2, twice), _dots(W2 * W, once)
        a, b = times(counts)
        a2, b2 = times(squares) if self.debiased else (None, None)
        return PairSums(a, b, a2, b2, *sums)


class FeatureRows:
    """The same for linear Gram matrices of centred features X (n, p) and Y (n, q), which are never made."""

    def __init__(self, X: Array, Y: Array, *, debiased: bool) -> None:
        self._X, self._Y = X, Y = _arrays.same_precision(X, Y)
        self.own_a, self.own_b = _host(_linalg.row_squares(X)), _host(_linalg.row_squares(Y))
        self.debiased = debiased

    def pair_sums(self, W: np.ndarray) -> PairSums:
        """Return the sums over pairs of different rows for every column of counts, shape (n, n_resamples)."""
        X, Y = self._X, self._Y
        xp = _arrays.namespace(X)
        counts = xp.astype(_arrays.like(W, X), X.dtype)
        Xt, Yt = xp.matrix_transpose(X), xp.matrix_transpose(Y)
        W2 = W * W

        def times(powers: Array, host: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            a = _host(X @ (Xt @ powers)) - self.own_a[:, None] * host
            return a, a if X is Y else _host(Y @ (Yt @ powers)) - self.own_b[:, None] * host

        sums = np.empty((4, W.shape[1]))
        for k in range(W.shape[1]):
            w = counts[:, k][:, None]
            powers = [Y * w]
            powers += [powers[-1] * w]
            powers += [powers[-1] * w] if self.debiased else []
            P = [Xt @ power for power in powers]
            sums[:3, k] = _linalg.inner(P[0], P[0]), _linalg.inner(P[0], P[1]), _linalg.inner(P[1], P[1])
            sums[3, k] = _linalg.inner(P[0], P[2]) if self.debiased else 0.0
        both = self.own_a * self.own_b
        fourth = both @ (W2 * W2)
        sums -= np.stack([both @ W2, both @ (W2 * W), fourth, fourth])
        a, b = times(counts, W)
        a2, b2 = times(counts * counts, W2) if self.debiased else (None, None)
        return PairSums(a, b, a2, b2, *sums)


@dataclass(frozen=True)
class PairSums:
    """Weighted sums over pairs of different rows, one a resample.

    With zero diagonals, ``a = A w``, ``b = B w`` and, for U-centred matrices, ``a2 = A w^2``, ``b2 = B w^2``, all of
    shape (n, n_resamples), and the sums over i and j of ``A_ij B_ij`` times ``w_i w_j`` (`once`), ``w_i^2 w_j``
    (`mixed`), ``w_i^2 w_j^2`` (`twice`) and ``w_i^3 w_j`` (`thrice`).
    """

    a: np.ndarray
    b: np.ndarray
    a2: np.ndarray | None
    b2: np.ndarray | None
    once: np.ndarray
    mixed: np.ndarray
    twice: np.ndarray
    thrice: np.ndarray


def reweighted_inner(rows: GramRows | FeatureRows, W: np.ndarray) -> np.ndarray:
    """Return the inner product of the centred Gram matrices of every resample.

    Parameters
    ----------
    rows : GramRows or FeatureRows
        The two matrices.
    W : ndarray of shape (n, n_resamples)
        How often each row was drawn, float64.

    Returns
    -------
    inner : ndarray of shape (n_resamples,)
        ``<A, B>`` of double-centred matrices, or of U-centred ones, as the resample estimates it without pairs of
        copies of one row; NaN where it has too few different rows.
    """
    p = rows.pair_sums(W)
    W2 = W * W
    n, s2, s3, s4 = (power.sum(axis=0) for power in (W, W2, W2 * W, W2 * W2))
    # Sums of the products of counts over pairs, triples and quadruples of different rows.
    pairs = n**2 - s2
    triples = n**3 - 3 * n * s2 + 2 * s3
    quadruples = n**4 - 6 * n**2 * s2 + 3 * s2**2 + 8 * n * s3 - 6 * s4
    ab = p.a * p.b
    total_a, total_b = _dots(W, p.a), _dots(W, p.b)
    shared, squared = _dots(W, ab) - p.mixed, _dots(W2, ab) - p.twice
    apart = total_a * total_b - 4 * squared - 2 * p.twice
    if p.a2 is not None and p.b2 is not None:
        # Every mean over quadruples: what is left of the counts for the indices that a term does not name.
        pair = pairs * p.once - 4 * n * p.mixed + 4 * p.thrice + 2 * p.twice
        tips = _dots(W, p.a2 * p.b) + _dots(W, p.a * p.b2) - 2 * p.thrice
        triple = n * shared - squared - tips
        return n * (n - 3) * _mean(pair + apart - 2 * triple, quadruples)
    pair, triple, quadruple = _mean(p.once, pairs), _mean(shared, triples), _mean(apart, quadruples)
    # tr(KHLH) = sum KL - 2/n sum_i (K1)_i (L1)_i + (1'K1)(1'L1) / n^2, each sum parted by which indices are equal.
    d, e = rows.own_a, rows.own_b
    sum_d, sum_e = d @ W, e @ W
    own = (d * e) @ W / n
    edge = _mean(d @ (W * p.b) + e @ (W * p.a), pairs)
    diagonals = _mean(sum_d * sum_e - (d * e) @ W2, pairs)
    overlap = d @ (W2 * p.b) + e @ (W2 * p.a)
    loose = _mean(sum_d * total_b + sum_e * total_a - 2 * overlap, triples)
    n2, n3 = n * (n - 1), n * (n - 1) * (n - 2)
    n4 = n3 * (n - 3)
    first = n * own + n2 * pair
    second = n * own + n2 * (edge + pair) + _product(n3, triple)
    third = n * own + n2 * (diagonals + 2 * edge + 2 * pair)
    third += _product(n3, loose + 4 * triple) + _product(n4, quadruple)
    return first - 2 * second / n + third / n**2


def _without_diagonal(A: Array) -> Array:
    xp = _arrays.namespace(A)
    return _arrays.fill_diagonal(xp.asarray(A, copy=True), 0.0)


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", A, B)


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0.5)


def _product(count: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return count times mean, 0 where there is nothing to count, though the mean be NaN."""
    return np.multiply(count, mean, out=np.zeros_like(mean), where=count > 0.5)


def standard_error(leave_one_out: np.ndarray) -> np.ndarray:
    """Return the jackknife standard error over the first axis of n leave-one-out values."""
    n = leave_one_out.shape[0]
    return np.sqrt((n - 1.0) * np.var(leave_one_out, axis=0))


def bca_levels(
    statistic: float, distribution: np.ndarray, leave_one_out: np.ndarray, confidence_level: float
) -> tuple[float, float]:
    """Return the two quantile levels of a bias-corrected and accelerated interval (Efron 1987).

    NaN where the statistic lies outside the distribution altogether.
    """
    from scipy.stats import norm

    below = (np.count_nonzero(distribution < statistic) + np.count_nonzero(distribution <= statistic)) / 2.0
    z0 = norm.ppf(below / distribution.shape[0])
    deviations = leave_one_out.mean() - leave_one_out
    spread = np.sum(deviations**2) ** 1.5
    acceleration = np.sum(deviations**3) / (6.0 * spread) if spread > 0.0 else 0.0
    low, high = (z0 + norm.ppf(level) for level in _tails(confidence_level))
    levels = (float(norm.cdf(z0 + z / (1.0 - acceleration * z))) for z in (low, high))
    low_level, high_level = levels
    return low_level, high_level


def _tails(confidence_level: float) -> tuple[float, float]:
    return (1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0


def resample_counts(
    n: int,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Return how often each of n rows is drawn in resamples with replacement, shape (n, n_resamples), float64.

    Parameters
    ----------
    n : int
        Number of rows.
    n_resamples : int
        Number of resamples.
    rng : Generator
        Source of randomness.
    groups : ndarray of shape (n,), default=None
        Codes 0, 1, ... of groups, which are drawn whole.
    strata : ndarray of shape (n,), default=None
        Codes of strata, each of which keeps its number of rows (or of groups, which must lie in one stratum each).

    Returns
    -------
    counts : ndarray of shape (n, n_resamples)
        Whole numbers.
    """
    if groups is not None:
        _, first = np.unique(groups, return_index=True)
        of_groups = resample_counts(len(first), n_resamples, rng, strata=None if strata is None else strata[first])
        return of_groups[groups]
    counts = np.zeros((n, n_resamples))
    members = [np.arange(n)] if strata is None else [np.flatnonzero(strata == code) for code in np.unique(strata)]
    for rows in members:
        m = rows.shape[0]
        drawn = rng.integers(m, size=(m, n_resamples)) * n_resamples + np.arange(n_resamples)
        counts[rows] = np.bincount(drawn.ravel(), minlength=m * n_resamples).reshape(m, n_resamples)
    return counts


def group_counts(groups: np.ndarray) -> np.ndarray:
    """Return the counts of all resamples that leave out one group each, shape (n, n_groups), float64."""
    return (groups[:, None] != np.arange(groups.max() + 1)[None, :]).astype(np.float64)


def random_order(
    n: int,
    rng: np.random.Generator,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Return a random permutation of n rows, within strata, of whole groups of the same size.

    Rows keep their order within a group.
    """
    if groups is None and strata is None:
        return rng.permutation(n)
    order = np.arange(n)
    for blocks in exchangeable_blocks(n, groups, strata):
        order[blocks] = blocks[rng.permutation(blocks.shape[0])]
    return order


def exchangeable_blocks(n: int, groups: np.ndarray | None, strata: np.ndarray | None) -> list[np.ndarray]:
    """Return sets of blocks of rows that may change places, each of shape (n_blocks, block_size)."""
    codes = np.arange(n) if groups is None else groups
    members: dict[tuple[Any, int], list[np.ndarray]] = {}
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        stratum = 0 if strata is None else int(strata[rows[0]])
        members.setdefault((stratum, rows.shape[0]), []).append(rows)
    return [np.stack(blocks) for blocks in members.values()]
