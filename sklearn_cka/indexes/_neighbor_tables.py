"""The nearest neighbours of every row: the embedding of the neighbour family.

Ranks do not forgive rounding as sums do: a distance that is wrong in its last digit can exchange two neighbours. So
distances are taken in float64 whatever the precision of the data (where the device has it), in two steps. Products of
centred rows bracket every distance between two bounds; the rows that may be among the nearest by these bounds are then
measured again from differences of the rows themselves, which are exact for integers, for repeated rows, and near the
offset of the data.

Distances that agree to rounding are ties, and of rows at the same distance the one of the smaller index is nearer.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.metrics import pairwise_distances

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array

Metric = str | Callable[[np.ndarray, np.ndarray], float]

_EUCLIDEAN = ("euclidean", "l2", "sqeuclidean")
_ANGULAR = ("cosine", "correlation")
_MANHATTAN = ("cityblock", "manhattan", "l1")
METRICS = (*_ANGULAR, *_EUCLIDEAN, *_MANHATTAN, "chebyshev")

# Distances that differ by no more than this are ties: relative, and for rows of unit length absolute as well.
_TIE_ULPS, _UNIT_ULPS = 32.0, 8.0
# Distance between ends of unit vectors at a right angle.
_RIGHT_ANGLE = 2.0**0.5
# Numbers gathered at a time, arrays of the size of a block of distances that are alive at once, and its most rows.
_GATHER, _ARRAYS_PER_BLOCK, _MOST_ROWS = 4_000_000, 8, 512


def check_metric(metric: Any) -> None:
    """Raise ValueError unless `metric` is one of :data:`METRICS` or a function of two rows."""
    if not callable(metric) and not (isinstance(metric, str) and metric in METRICS):
        raise ValueError(
            f"metric must be one of {', '.join(map(repr, METRICS))} or a function of two rows, got {metric!r}."
        )


def check_n_neighbors(n_neighbors: Any) -> None:
    """Raise ValueError unless `n_neighbors` is a positive integer."""
    if isinstance(n_neighbors, (bool, np.bool_)) or not isinstance(n_neighbors, numbers.Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be a positive integer, got {n_neighbors!r}.")


def metric_invariances(metric: Metric) -> frozenset[str] | None:
    """Return what may be done to the rows without changing which are neighbours; None where that is not known."""
    if not isinstance(metric, str):
        return None
    if metric in _EUCLIDEAN:
        return frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"})
    if metric == "cosine":
        return frozenset({"isotropic_scaling", "permutation", "orthogonal"})
    if metric == "correlation":
        return frozenset({"isotropic_scaling", "permutation"})
    return frozenset({"translation", "isotropic_scaling", "permutation"})


class Rows:
    """Rows prepared for the distances of one metric.

    Parameters
    ----------
    values : array of shape (n_samples, n_features)
        The rows, in float64.
    is_constant : bool
        Whether all distances are zero.
    tolerance : float
        Differences of distances up to this are rounding, beside the relative ones.
    """

    def __init__(self, values: Array, is_constant: bool, tolerance: float = 0.0) -> None:
        self.values = values
        self.is_constant = is_constant
        self.tolerance = tolerance
        self.eps = _arrays.eps(values)
        self.relative = (_TIE_ULPS + values.shape[1] ** 0.5) * self.eps

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def vectors(self) -> Array:
        """Vectors whose inner products make the Gram matrix that goes with the metric."""
        return self.values

    @property
    def centered(self) -> Array:
        """These vectors less their mean."""
        return self.values

    def along_mean(self) -> np.ndarray:
        """Return the inner products of the mean of these vectors with them less the mean, from the host."""
        return np.zeros(self.n_samples)

    def bounds(self, rows: slice) -> tuple[Array, Array]:
        """Return a lower and an upper bound of the distances from some rows to all, in any increasing unit."""
        raise NotImplementedError

    def widen(self, bound: Array) -> Array:
        """Return a bound moved up by more than what may part a tie."""
        return bound * (1.0 + 4.0 * self.relative) + 4.0 * self.tolerance

    def distances(self, i: Array, j: Array) -> np.ndarray:
        """Return the distances between pairs of rows, from their differences."""
        xp = _arrays.namespace(self.values)
        parts = []
        for pairs in _linalg.blocks(i.shape[0], max(1, _GATHER // max(1, self.values.shape[1]))):
            first, second = xp.take(self.values, i[pairs], axis=0), xp.take(self.values, j[pairs], axis=0)
            parts.append(_arrays.to_numpy(self._between(xp, first, second)))
        return np.concatenate(parts).astype(np.float64, copy=False)

    def _between(self, xp: Any, first: Array, second: Array) -> Array:
        raise NotImplementedError

    def similarities(self, i: Array, j: Array) -> np.ndarray:
        """Return what a second-order comparison takes of pairs of rows: distances, whose sign it does not see."""
        return self.distances(i, j)


class _EuclideanRows(Rows):
    """Euclidean distance: bounds from products of centred rows, in squares."""

    def __init__(self, values: Array, centered: Array, is_constant: bool, tolerance: float = 0.0) -> None:
        super().__init__(values, is_constant, tolerance)
        self._centered = centered
        self.squares = _linalg.row_squares(centered)

    @property
    def vectors(self) -> Array:
        return self._centered

    @property
    def centered(self) -> Array:
        return self._centered

    def bounds(self, rows: slice) -> tuple[Array, Array]:
        xp = _arrays.namespace(self.values)
        values = self.centered
        sums = self.squares[rows, None] + self.squares[None, :]
        distances = sums - 2.0 * (values[rows, :] @ xp.matrix_transpose(values))
        error = (2.0 * (values.shape[1] + 4) * self.eps) * sums
        return distances - error, distances + error

    def widen(self, bound: Array) -> Array:
        xp = _arrays.namespace(self.values)
        return super().widen(xp.sqrt(xp.maximum(bound, xp.zeros_like(bound)))) ** 2

    def _between(self, xp: Any, first: Array, second: Array) -> Array:
        difference = first - second
        return xp.sqrt(xp.vecdot(difference, difference, axis=-1))


class _SquaredRows(_EuclideanRows):
    """Squared Euclidean distance, which makes the same neighbours."""

    def similarities(self, i: Array, j: Array) -> np.ndarray:
        return self.distances(i, j) ** 2


class _UnitRows(_EuclideanRows):
    """Cosine distance as half the squared Euclidean one of rows of unit length; 1 for rows without direction."""

    def __init__(self, X: Array) -> None:
        xp = _arrays.namespace(X)
        largest = xp.max(xp.abs(X), axis=1, keepdims=True)
        self.without = largest[:, 0] == 0.0
        scaled = X / xp.where(largest > 0.0, largest, xp.ones_like(largest))
        norms = xp.sqrt(xp.vecdot(scaled, scaled, axis=-1))[:, None]
        units = scaled / xp.where(norms > 0.0, norms, xp.ones_like(norms))
        tolerance = _UNIT_ULPS * _arrays.eps(units)
        centered = _linalg.center(units)
        super().__init__(units, centered.values * _linalg.power_of_two(centered.exponent), False, tolerance)
        if bool(xp.any(self.without)):
            self.is_constant = bool(xp.all(self.without))
        else:
            self.is_constant = float(xp.max(self.squares)) <= tolerance**2

    @property
    def vectors(self) -> Array:
        return self.values

    def along_mean(self) -> np.ndarray:
        # <m, c> = (|m + c|^2 - |m|^2 - |c|^2) / 2, where |m|^2 is the mean of |m + c|^2 less that of |c|^2.
        lengths = 1.0 - _arrays.to_numpy(self.without).astype(np.float64)
        squares = _arrays.to_numpy(self.squares)
        return 0.5 * ((lengths - lengths.mean()) - (squares - squares.mean()))

    def bounds(self, rows: slice) -> tuple[Array, Array]:
        xp = _arrays.namespace(self.values)
        odd = self.without[rows, None] | self.without[None, :]
        low, high = super().bounds(rows)
        right_angle = xp.full_like(low, 2.0)
        return xp.where(odd, right_angle, low), xp.where(odd, right_angle, high)

    def distances(self, i: Array, j: Array) -> np.ndarray:
        chords = super().distances(i, j)
        odd = _arrays.to_numpy(self.without)
        return np.where(odd[_arrays.to_numpy(i)] | odd[_arrays.to_numpy(j)], _RIGHT_ANGLE, chords)

    def similarities(self, i: Array, j: Array) -> np.ndarray:
        chords = self.distances(i, j)
        return np.where(chords == _RIGHT_ANGLE, 0.0, 1.0 - 0.5 * chords**2)


class _HostRows(Rows):
    """Distances of scikit-learn between NumPy rows."""

    def __init__(self, X: np.ndarray, metric: Metric) -> None:
        super().__init__(X, _linalg.center(X).is_constant)
        self.metric = metric

    def _block(self, rows: slice) -> np.ndarray:
        distances = pairwise_distances(self.values[rows], self.values, metric=self.metric)
        if not np.isfinite(distances).all():
            raise ValueError(f"metric {self.metric!r} gives a distance between rows that is not finite.")
        return distances

    def bounds(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        distances = self._block(rows)
        return distances, distances

    def _between(self, xp: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        if not isinstance(self.metric, str):
            return np.array([self.metric(a, b) for a, b in zip(first, second, strict=True)], dtype=np.float64)
        difference = np.abs(first - second)
        return difference.max(axis=1) if self.metric == "chebyshev" else difference.sum(axis=1)


def prepare(X: Array, metric: Metric) -> Rows:
    """Return the rows of `X`, in float64, prepared for the distances of a metric.

    Euclidean and angular metrics are computed where the data lie; the others on the host.
    """
    xp = _arrays.namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    if metric == "cosine":
        return _UnitRows(X)
    if metric == "correlation":
        return _UnitRows(xp.matrix_transpose(_linalg.center(xp.matrix_transpose(X)).values))
    if metric not in _EUCLIDEAN:
        return _HostRows(np.ascontiguousarray(_arrays.to_numpy(X)), metric)
    centered = _linalg.center(X)
    kind = _SquaredRows if metric == "sqeuclidean" else _EuclideanRows
    return kind(centered.unshifted, centered.values, centered.is_constant)


def block_rows(n: int) -> int:
    """Return how many rows of n distances to take at a time, within scikit-learn's ``working_memory``."""
    fitting = int(get_config()["working_memory"] * 2**20) // (8 * _ARRAYS_PER_BLOCK * n)
    return max(1, min(fitting, _MOST_ROWS))


@dataclass(frozen=True)
class NeighborTable:
    """The nearest neighbours of every row, the nearest first.

    Attributes
    ----------
    indices : ndarray of shape (n_samples, n_neighbors)
        Neighbours by index; no row is its own.
    set_ties : float
        Share of rows of which the set of neighbours is decided by row index: the last of them and the next row
        are at the same distance.
    order_ties : float
        Share of rows of which the set or the order of the neighbours is decided by row index.
    rows : Rows
        The rows, for further distances.
    """

    indices: np.ndarray
    set_ties: float
    order_ties: float
    rows: Rows

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.indices.shape[0])

    @property
    def n_neighbors(self) -> int:
        """Number of neighbours of each row."""
        return int(self.indices.shape[1])

    @property
    def is_constant(self) -> bool:
        """Whether all rows are at distance zero, so that none is nearer than another."""
        return self.rows.is_constant

    @cached_property
    def keys(self) -> np.ndarray:
        """The pairs (row, neighbour) as numbers ``row * n_samples + neighbour``, row by row, the nearest first."""
        n = self.n_samples
        return (np.arange(n)[:, None] * n + self.indices).ravel()

    @cached_property
    def reverse_keys(self) -> np.ndarray:
        """The pairs (neighbour, row) as numbers ``neighbour * n_samples + row``."""
        n = self.n_samples
        return (np.arange(n)[:, None] + self.indices * n).ravel()

    @cached_property
    def in_degrees(self) -> np.ndarray:
        """Of how many rows each row is a neighbour."""
        return np.bincount(self.indices.ravel(), minlength=self.n_samples)


def neighbor_table(X: Array, n_neighbors: int, metric: Metric) -> NeighborTable:
    """Find the nearest other rows of every row.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite; more rows than `n_neighbors`.
    n_neighbors : int
        How many.
    metric : str or callable
        One of :data:`METRICS`, or a function of two rows.

    Returns
    -------
    table : NeighborTable
        On the host; the distances are computed where the data lie.
    """
    rows = prepare(X, metric)
    n = rows.n_samples
    parts = [_nearest(rows, block, n_neighbors) for block in _linalg.blocks(n, block_rows(n))]
    indices, sets, orders = (np.concatenate(part) for part in zip(*parts, strict=True))
    return NeighborTable(indices, float(sets.mean()), float(orders.mean()), rows)


def _nearest(rows: Rows, block: slice, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the k nearest of every row of a block, and whether a tie decided their set, and their order."""
    low, high = rows.bounds(block)
    xp = _arrays.namespace(low)
    device = _arrays.device(low)
    here, everywhere = (xp.arange(*ends, device=device) for ends in ((block.start, block.stop), (0, rows.n_samples)))
    own = here[:, None] == everywhere[None, :]
    infinite = xp.full_like(low, np.inf)
    low, high = xp.where(own, infinite, low), xp.where(own, infinite, high)
    candidate = low <= rows.widen(_kth_smallest(high, k))[:, None]
    i, j = xp.nonzero(candidate)
    distances = rows.distances(i + block.start, j)
    return _select(_arrays.to_numpy(i), _arrays.to_numpy(j), distances, k, rows)


def _kth_smallest(matrix: Array, k: int) -> Array:
    """Return the k-th smallest entry of every row."""
    if _arrays.is_numpy(matrix):
        return np.partition(matrix, k - 1, axis=1)[:, k - 1]
    if hasattr(matrix, "kthvalue"):  # torch's selection, which the standard lacks
        return matrix.kthvalue(k, dim=1).values
    return _arrays.namespace(matrix).sort(matrix, axis=1)[:, k - 1]


def _select(
    i: np.ndarray, j: np.ndarray, distances: np.ndarray, k: int, rows: Rows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the k nearest of every row among candidate pairs (i, j), ties by j, and whether ties decided them."""
    order = np.lexsort((j, distances, i))
    i, j, distances = i[order], j[order], distances[order]
    first = np.r_[True, i[1:] != i[:-1]]
    apart = first.copy()
    apart[1:] |= distances[1:] - distances[:-1] > rows.relative * distances[1:] + rows.tolerance
    j = j[np.lexsort((j, np.cumsum(apart)))]
    starts = np.flatnonzero(first)
    rank = np.arange(len(i)) - np.repeat(starts, np.diff(np.r_[starts, len(i)]))
    set_tied = np.zeros(len(starts), dtype=bool)
    set_tied[i[~apart & (rank == k)]] = True
    order_tied = np.zeros(len(starts), dtype=bool)
    order_tied[i[~apart & (rank <= k)]] = True
    return j[rank < k].reshape(-1, k), set_tied, order_tied


def common_neighbors(a: NeighborTable, b: NeighborTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs of row and neighbour that two tables share: rows, and 0-based ranks in each table."""
    k = a.n_neighbors
    _, at_a, at_b = np.intersect1d(a.keys, b.keys, assume_unique=True, return_indices=True)
    return at_a // k, at_a % k, at_b % k
