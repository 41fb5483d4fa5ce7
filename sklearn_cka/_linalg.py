"""Linear algebra of representations: centring, inner products of large matrices, distances.

Everything runs in the namespace of its input. Large products stay in the data's own precision; means, sums,
norms and ratios are taken in float64. Sizes are controlled by powers of two, which change no digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _threads
from sklearn_cka._arrays import Array

# Rows summed in the data's precision before the float64 sum takes over; as fast as a plain mean.
_MEAN_BLOCK = 256
# Squares added up in the data's precision before the float64 sum takes over.
_SUM_BLOCK = 65_536
# A column whose values differ by no more than this many units in the last place holds rounding noise, not data.
_CONSTANT_ULPS = 2.0
# Data between 2**-_SAFE_EXPONENT and 2**_SAFE_EXPONENT is left at its scale: its fourth powers fit in float32.
_SAFE_EXPONENT = 12
# Squared distances below this share of the squared norms are taken again from the differences themselves.
_CLOSE = {"float32": 2e-3, "float64": 1e-6}
# How many times longer than wide a matrix is before a QR decomposition pays ahead of its SVD.
_QR_RATIO = 1.5
# Numbers gathered at a time while close pairs are taken again.
_GATHER = 4_000_000
# Numbers of which order statistics are found at once, and the size of the sample that brackets those of more.
_SORTED_WHOLE = 40_000
# Numbers worked on at a time where several passes go over them: they stay in the cache.
_PASS = 131_072


@dataclass(frozen=True)
class Centered:
    """Column-centred data: ``X - mean = values * 2**exponent``."""

    values: Array
    exponent: int
    is_constant: bool
    first: Array
    shift: Array
    source: Array

    @property
    def unshifted(self) -> Array:
        """The rows at the scale of `values` with the mean left in, whose differences carry no rounding of it."""
        return scale_by_power_of_two(self.source, -self.exponent)

    @property
    def mean(self) -> Array:
        """Mean of every column in float64, shape (n_features,)."""
        xp = _arrays.namespace(self.first)
        return xp.astype(self.first, xp.float64) + scale_by_power_of_two(self.shift, self.exponent)


def blocks(n: int, step: int) -> Iterator[slice]:
    """Yield slices of at most `step` rows that cover ``range(n)`` in order."""
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def column_means(X: Array, weights: Array | None = None) -> Array:
    """Return the (weighted) mean of every column in float64, shape (n_features,)."""
    xp = _arrays.namespace(X)
    n = X.shape[0]
    if weights is not None:
        total = xp.sum(weights, dtype=xp.float64)
        return xp.astype(weights, xp.float64) @ xp.astype(X, xp.float64) / total
    if _arrays.dtype_name(X) == "float64":
        return xp.sum(X, axis=0) / n
    return sum(xp.astype(xp.sum(X[rows, :], axis=0), xp.float64) for rows in blocks(n, _MEAN_BLOCK)) / n


def center(X: Array, weights: Array | None = None) -> Centered:
    """Subtract the (weighted) column means of `X` without losing digits to offset or scale.

    The first row is subtracted first. A constant column then is exactly zero whatever its value, and the mean of
    what is left is taken at the size of the spread instead of the size of the offset. Columns that vary by rounding
    only (two units in the last place) are constant.
    """
    xp = _arrays.namespace(X)
    first = X[0, :]
    values, highest, sums = _differences(X, first)
    noise = highest <= xp.abs(first) * (_CONSTANT_ULPS * _arrays.eps(X))
    if bool(xp.any(noise)) and bool(xp.any(noise & (highest > 0.0))):
        values = xp.where(noise[None, :], xp.zeros_like(values[:1, :1]), values)
        highest = xp.where(noise, xp.zeros_like(highest), highest)
        X = xp.where(noise[None, :], first[None, :], X)
    largest = float(xp.max(highest))
    if math.isinf(largest):  # the spread passes the largest number of the type, though no entry does
        quarter = center(X * 0.25, weights)
        return replace(quarter, exponent=quarter.exponent + 2, first=first, source=X)
    exponent = 0
    if largest > 0.0:
        exponent = math.frexp(largest)[1]
        exponent = exponent if abs(exponent) > _SAFE_EXPONENT else 0
    if exponent:
        values = scale_by_power_of_two(values, -exponent)
    if exponent or weights is not None or sums is None:
        shift = column_means(values, weights)
    else:
        shift = xp.where(highest > 0.0, sums / X.shape[0], xp.zeros_like(sums))
    return Centered(_subtract_from_rows(values, shift), exponent, largest == 0.0, first, shift, X)


def _subtract_from_rows(values: Array, shift: Array) -> Array:
    """Subtract one row from all, in place where that can be done."""
    xp = _arrays.namespace(values)
    row = xp.astype(shift, values.dtype, copy=False)
    if not _arrays.is_numpy(values):
        values -= row[None, :]
        return values

    def subtract(rows: slice) -> None:
        values[rows, :] -= row

    _threads.map_blocks(subtract, row_blocks(values), values)
    return values


def _differences(X: Array, first: Array) -> tuple[Array, Array, Array | None]:
    """Return all rows minus the first, and of their columns the largest size and, for NumPy, the sum in float64.

    Blocks of rows stay in the cache for all that is done with them, and are short enough to be summed in the data's
    precision.
    """
    xp = _arrays.namespace(X)
    if not _arrays.is_numpy(X):
        values = X - first[None, :]
        return values, xp.maximum(xp.max(values, axis=0), -xp.min(values, axis=0)), None
    values = np.empty_like(X)

    def subtract(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        part = values[rows, :]
        with np.errstate(over="ignore", invalid="ignore"):  # looked into by the caller
            np.subtract(X[rows, :], first, out=part)
            sums = part.sum(axis=0).astype(np.float64)
        return np.maximum(part.max(axis=0), -part.min(axis=0)), sums

    height = min(_MEAN_BLOCK, max(1, _PASS // X.shape[1]))
    parts = _threads.map_blocks(subtract, list(blocks(X.shape[0], height)), X)
    if len(parts) == 1:
        return values, *parts[0]
    return values, np.max([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0)


def scale(X: Array) -> tuple[Array, int]:
    """Return `X` divided by ``2**exponent``, and the exponent: 0 unless its size would leave float32."""
    xp = _arrays.namespace(X)
    largest = float(xp.max(xp.abs(X)))
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    if abs(exponent) <= _SAFE_EXPONENT:
        return X, 0
    return scale_by_power_of_two(X, -exponent), exponent


def power_of_two(exponent: int) -> float:
    """Return ``2.0**exponent``, infinity where that passes the largest float."""
    return math.ldexp(1.0, exponent) if exponent <= 1023 else math.inf


def scale_by_power_of_two(x: Any, exponent: int) -> Any:
    """Multiply by ``2**exponent`` in steps that are representable in float32."""
    while exponent:
        step = max(-100, min(100, exponent))
        x = x * 2.0**step
        exponent -= step
    return x


def inner(a: Array, b: Array) -> float:
    """Return the sum of ``a * b`` over all entries, accumulated in float64."""
    xp = _arrays.namespace(a)
    if a.dtype != b.dtype:
        a, b = xp.astype(a, xp.float64), xp.astype(b, xp.float64)
    a, b = xp.reshape(a, (-1,)), xp.reshape(b, (-1,))
    size = a.shape[0]
    if _arrays.dtype_name(a) == "float64" or size <= _SUM_BLOCK:
        return float(xp.vecdot(a, b))
    whole = size // _SUM_BLOCK * _SUM_BLOCK
    blocks = xp.vecdot(xp.reshape(a[:whole], (-1, _SUM_BLOCK)), xp.reshape(b[:whole], (-1, _SUM_BLOCK)))
    total = _arrays.total(blocks)
    return total + float(xp.vecdot(a[whole:], b[whole:])) if whole < size else total


def sum_of_squares(a: Array) -> float:
    """Return the sum of the squares of all entries, accumulated in float64."""
    return inner(a, a)


def row_squares(X: Array) -> Array:
    """Return the squared norm of every row in float64, shape (n_samples,)."""
    xp = _arrays.namespace(X)
    return xp.astype(xp.vecdot(X, X, axis=-1), xp.float64)


def weighted_inner(a: Array, b: Array, weights: Array | None) -> float:
    """Return ``sum(weights * a * b)`` of float64 vectors."""
    return inner(a, b if weights is None else b * weights)


def squared_distances(X: Array, source: Array | None = None) -> Array:
    """Return all squared Euclidean distances between the rows of centred `X`, shape (n_samples, n_samples).

    The expansion ``|x|^2 + |y|^2 - 2 x.y`` loses the digits of rows that are close to each other and far from the
    mean; those pairs are taken again from their difference, in `source` if that is given: the same rows before the
    mean was subtracted. The diagonal is exactly zero, no entry is negative.
    """
    xp = _arrays.namespace(X)
    squares = xp.astype(row_squares(X), X.dtype)
    source = X if source is None else source
    return _arrays.fill_diagonal(_complete(X @ xp.matrix_transpose(X), squares, squares, source, source), 0.0)


def cross_squared_distances(X: Array, Y: Array, source_x: Array | None = None, source_y: Array | None = None) -> Array:
    """Return the squared Euclidean distances between the rows of `X` and of `Y`, shape (n_x, n_y)."""
    xp = _arrays.namespace(X)
    squares_x, squares_y = (xp.astype(row_squares(Z), Z.dtype) for Z in (X, Y))
    source_x, source_y = X if source_x is None else source_x, Y if source_y is None else source_y
    return _complete(X @ xp.matrix_transpose(Y), squares_x, squares_y, source_x, source_y)


def _complete(products: Array, squares_x: Array, squares_y: Array, X: Array, Y: Array) -> Array:
    """Turn inner products into squared distances; those close for the norms are taken from the rows of `X` and `Y`."""
    xp = _arrays.namespace(X)
    same = X is Y
    share = _CLOSE[_arrays.dtype_name(X)]

    def complete(rows: slice) -> Array | None:
        norms = squares_x[rows, None] + squares_y[None, :]  # added at once, which keeps a symmetric matrix symmetric
        block = products[rows, :] * -2.0
        block += norms
        norms *= share
        close = block < norms
        if same:  # the diagonal is close by nature and set by the caller
            close &= (
                xp.arange(rows.start, rows.stop, device=_arrays.device(X))[:, None]
                != xp.arange(Y.shape[0], device=_arrays.device(X))[None, :]
            )
        if bool(xp.any(close)):
            block = _replace_close(xp, block, close, X[rows, :], Y)
        if not _arrays.is_writable_namespace(X):
            return block
        products[rows, :] = block
        return None

    step = max(1, _PASS // max(1, Y.shape[0]))
    out = _threads.map_blocks(complete, list(blocks(X.shape[0], step)), products)
    return products if out[0] is None else xp.concat(out, axis=0)


def _replace_close(xp: Any, block: Array, close: Array, X: Array, Y: Array) -> Array:
    """Return `block` with the entries marked by `close` computed from differences of rows."""
    i, j = xp.nonzero(close)
    chunk = max(1, _GATHER // max(1, X.shape[1]))
    parts = []
    for pairs in blocks(i.shape[0], chunk):
        difference = xp.take(X, i[pairs], axis=0) - xp.take(Y, j[pairs], axis=0)
        parts.append(xp.vecdot(difference, difference, axis=-1))
    values = xp.concat(parts) if len(parts) > 1 else parts[0]
    if _arrays.is_writable_namespace(X):
        block[close] = values
        return block
    return block.at[i, j].set(values)


def largest_size(X: Array) -> float:
    """Return the largest absolute value of a matrix."""
    xp = _arrays.namespace(X)

    def largest(rows: slice) -> float:
        return max(float(xp.max(X[rows, :])), -float(xp.min(X[rows, :])))

    return max(_threads.map_blocks(largest, row_blocks(X), X))


def subtract_sums(K: Array, offsets: Array) -> Array:
    """Return a new matrix with entries ``K[i, j] - offsets[i] - offsets[j]``."""
    xp = _arrays.namespace(K)
    if not _arrays.is_numpy(K):
        return K - offsets[:, None] - offsets[None, :]
    out = xp.empty_like(K)

    def subtract(rows: slice) -> None:
        np.subtract(K[rows, :], offsets[rows, None], out=out[rows, :])
        out[rows, :] -= offsets[None, :]

    _threads.map_blocks(subtract, row_blocks(K), K)
    return out


def row_blocks(X: Array) -> list[slice]:
    """Return slices of rows that stay in the cache for a NumPy matrix, all rows for one of another library."""
    n, p = X.shape
    if n * p <= _PASS or not _arrays.is_numpy(X):
        return [slice(0, n)]
    return list(blocks(n, max(1, _PASS // p)))


def manhattan_distances(X: Array, Y: Array) -> Array:
    """Return the sums of absolute differences between the rows of `X` and of `Y`, shape (n_x, n_y)."""
    if _arrays.is_numpy(X):
        from sklearn.metrics.pairwise import manhattan_distances as numpy_manhattan

        return numpy_manhattan(X, Y).astype(X.dtype, copy=False)
    xp = _arrays.namespace(X)
    step = max(1, _GATHER // max(1, Y.shape[0] * Y.shape[1]))
    parts = [xp.sum(xp.abs(X[rows, :][:, None, :] - Y[None, :, :]), axis=-1) for rows in blocks(X.shape[0], step)]
    return xp.concat(parts, axis=0)


def chi2_distances(X: Array, Y: Array) -> Array:
    """Return ``sum((x - y)^2 / (x + y))`` over features for all pairs of rows, 0/0 counted as 0."""
    xp = _arrays.namespace(X)
    step = max(1, _GATHER // max(1, Y.shape[0] * Y.shape[1]))
    parts = []
    for rows in blocks(X.shape[0], step):
        a, b = X[rows, :][:, None, :], Y[None, :, :]
        total = a + b
        empty = total == 0
        share = (a - b) / xp.where(empty, xp.ones_like(total), total)  # at most 1, where squares could underflow
        parts.append(xp.sum(share * (a - b), axis=-1))
    return xp.concat(parts, axis=0)


def order_statistics(values: Array, ranks: list[int]) -> list[float]:
    """Return the entries of `values` at the 0-based sorted `ranks` without sorting all of them.

    A sorted sample brackets the ranks, one pass counts what lies below the bracket, and only the entries inside
    it are sorted. Falls back to a full sort where the bracket misses.
    """
    xp = _arrays.namespace(values)
    values = xp.reshape(values, (-1,))
    size = values.shape[0]
    if size > _SORTED_WHOLE:
        sample = xp.sort(values[:: size // _SORTED_WHOLE | 1])
        m = sample.shape[0]
        margin = 2 * math.isqrt(m) + 1  # four standard deviations of a rank in the sample
        low = sample[max(0, min(ranks) * m // size - margin)]
        high = sample[min(m - 1, max(ranks) * m // size + margin)]

        def bracket(part: slice) -> tuple[int, Array]:
            block = values[part]
            return _arrays.count(block < low), block[(block >= low) & (block <= high)]

        step = _PASS if _arrays.is_numpy(values) else size
        counts, kept = zip(*_threads.map_blocks(bracket, list(blocks(size, step)), values), strict=True)
        below, inside = sum(counts), xp.concat(kept)
        if below <= min(ranks) and max(ranks) < below + inside.shape[0]:
            return _at_ranks(inside, [rank - below for rank in ranks])
    return _at_ranks(values, ranks)


def _at_ranks(values: Array, ranks: list[int]) -> list[float]:
    if _arrays.is_numpy(values):
        ordered = np.partition(values, sorted(set(ranks)))
    else:
        ordered = _arrays.namespace(values).sort(values)
    return [float(ordered[rank]) for rank in ranks]


def clip_rounding(value: float, low: float, high: float, tolerance: float) -> float:
    """Move a value that passes a mathematical bound by rounding only onto the bound; others stay as they are."""
    if high < value <= high + tolerance:
        return high
    if low - tolerance <= value < low:
        return low
    return value


def thin_svd(X: Array, *, right: bool = True) -> tuple[Array, Array, Array | None]:
    """Return U (n, r), s (r,) in float64 and V (p, r) of a thin SVD, cut to the effective rank r.

    Singular values above ``s_max * max(n, p) * eps`` are kept, eps that of the data type: what a matrix in float32
    holds below that is rounding. A matrix that is not zero has rank 1 or more. A matrix much longer than wide, or
    the reverse, is first brought to triangular form. ``right=False`` spares what only V needs (V may then be None).
    """
    xp = _arrays.namespace(X)
    n, p = X.shape
    V: Array | None
    if n > _QR_RATIO * p and not _arrays.is_numpy(X):  # LAPACK's gesdd, which NumPy calls, does so by itself
        Q, R = xp.linalg.qr(X)
        left, s, Vt = xp.linalg.svd(R, full_matrices=False)
        U, V = Q @ left, xp.matrix_transpose(Vt)
    elif p > _QR_RATIO * n and not right:
        U, s, _ = xp.linalg.svd(xp.matrix_transpose(_triangular_factor(xp.matrix_transpose(X))), full_matrices=False)
        V = None
    elif p > _QR_RATIO * n and not _arrays.is_numpy(X):
        Q, R = xp.linalg.qr(xp.matrix_transpose(X))
        U, s, Vt = xp.linalg.svd(xp.matrix_transpose(R), full_matrices=False)
        V = Q @ xp.matrix_transpose(Vt)
    else:
        U, s, Vt = xp.linalg.svd(X, full_matrices=False)
        V = xp.matrix_transpose(Vt)
    s = xp.astype(s, xp.float64)
    largest = float(s[0])
    rank = _arrays.count(s > largest * max(n, p) * _arrays.eps(X))
    rank = max(rank, 1) if largest > 0.0 else 0
    return U[:, :rank], s[:rank], None if V is None else V[:, :rank]


def _triangular_factor(X: Array) -> Array:
    """Return R of the QR decomposition of `X`, without Q where the library can spare it."""
    xp = _arrays.namespace(X)
    if _arrays.is_numpy(X):
        return np.linalg.qr(X, mode="r")
    if _arrays.is_torch(X):
        return xp.linalg.qr(X, mode="r")[1]
    return xp.linalg.qr(X)[1]


def nuclear_norm(X: Array) -> float:
    """Return the sum of the singular values of `X`, added up in float64."""
    xp = _arrays.namespace(X)
    return float(xp.sum(xp.linalg.svdvals(X), dtype=xp.float64))
