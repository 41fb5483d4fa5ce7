"""Inner products of Gram matrices under permutations of the rows of one side: exact moments, and resampling.

The moments over all n! permutations P of ``<A, P B P'>`` follow from sums over index patterns. The k-th power is a sum
over k pairs of indices; parted by which of the 2k indices are equal, each part is a product of a sum over A and one
over B, divided by the number of ways to place that many rows. Sums over different indices are those over all indices
by Möbius inversion on the lattice of set partitions, and of these only a few are not zero for a matrix whose rows sum
to zero: every index must occur twice or on the diagonal. Subtracting a multiple of the centring matrix from A first
makes its trace, and thereby the mean, zero and changes nothing else, so that the moments are central ones without a
difference of large numbers.

References: Kazi-Aoual, Hitier, Sabatier & Lebreton (1995), Computational Statistics & Data Analysis 20, whose moments
these are; Josse, Pagès & Husson (2008), "Testing the significance of the RV coefficient", the same journal 53 (Pearson
type III).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import factorial, perm, prod

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array

# Rows of a Gram matrix that are looked at together, and rows of a block of a permuted matrix.
_STRIP_ROWS = 256
_GATHER_ROWS = 64
_DOT_LENGTH = 8_192
# A linear kernel is permuted as features if 2 p q is below this many rows times n.
_GATHERS_PER_ROW = 40
# Numbers in a stack of permuted features.
_STACK = 2_000_000

_SECOND = ("diagonal_squares", "squares")
_THIRD = ("diagonal_cubes", "bridge", "loop", "cubes", "triangle")


@dataclass(frozen=True)
class GramSums:
    """Sums over the entries of a matrix A whose rows sum to zero, less the multiple of H that makes its trace zero.

    Attributes
    ----------
    n_samples : int
        Number of rows.
    trace : float
        tr A before the subtraction.
    squares, diagonal_squares : float
        Sums of ``A_ij^2`` and ``A_ii^2``.
    diagonal_cubes, bridge, loop, cubes, triangle : float
        Sums of ``A_ii^3``, ``A_ii A_ij A_jj``, ``A_ii A_ij^2``, ``A_ij^3`` and ``A_ij A_jk A_ki``.
    """

    n_samples: int
    trace: float
    squares: float
    diagonal_squares: float
    diagonal_cubes: float
    bridge: float
    loop: float
    cubes: float
    triangle: float

    @classmethod
    def of_gram(cls, A: Array) -> GramSums:
        """Return the sums of a centred Gram matrix, shape (n, n)."""
        n = A.shape[0]
        diagonal = _host(_arrays.diagonal(A))
        shift = float(diagonal.sum()) / (n - 1)

        def strips() -> Iterator[tuple[slice, Array, Array]]:
            for rows in _linalg.blocks(n, _STRIP_ROWS):
                A_rows = A[rows, :]
                yield rows, A_rows, A_rows @ A

        return cls._of_strips(n, diagonal, shift, strips)

    @classmethod
    def of_features(cls, X: Array) -> GramSums:
        """Return the sums of the linear Gram matrix of centred features, shape (n, p)."""
        n = X.shape[0]
        xp = _arrays.namespace(X)
        diagonal = _host(_linalg.row_squares(X))
        shift = float(diagonal.sum()) / (n - 1)
        Xt = xp.matrix_transpose(X)

        def strips() -> Iterator[tuple[slice, Array, Array]]:
            product = Xt @ X
            for rows in _linalg.blocks(n, _STRIP_ROWS):
                X_rows = X[rows, :]
                yield rows, X_rows @ Xt, (X_rows @ product) @ Xt

        return cls._of_strips(n, diagonal, shift, strips)

    @classmethod
    def _of_strips(
        cls,
        n: int,
        diagonal: np.ndarray,
        shift: float,
        strips: Callable[[], Iterable[tuple[slice, Array, Array]]],
    ) -> GramSums:
        """Add up strips of rows of A and of A A, with ``shift`` times H subtracted; H A = A, H H = H."""
        own = diagonal - shift * (1.0 - 1.0 / n)
        squares = cubes = bridge = loop = triangle = 0.0
        for rows, A_rows, square_rows in strips():
            xp = _arrays.namespace(A_rows)
            A = xp.astype(A_rows, xp.float64) + shift / n
            AA = xp.astype(square_rows, xp.float64) + (-2.0 * shift) * xp.astype(A_rows, xp.float64) - shift**2 / n
            mask = (
                xp.arange(rows.start, rows.stop, device=_arrays.device(A))[:, None]
                == xp.arange(n, device=_arrays.device(A))[None, :]
            )
            identity = xp.astype(mask, xp.float64)
            A = A - shift * identity
            AA = AA + shift**2 * identity
            vector = _arrays.like(own, A)
            A2 = A * A
            row_squares = xp.sum(A2, axis=1)
            squares += float(xp.sum(row_squares))
            cubes += float(xp.sum(A2 * A))
            triangle += float(xp.sum(AA * A))
            loop += float(xp.sum(row_squares * vector[rows]))
            bridge += float(xp.sum((A @ vector) * vector[rows]))
        return cls(
            n_samples=n,
            trace=float(diagonal.sum()),
            squares=squares,
            diagonal_squares=float(np.sum(own**2)),
            diagonal_cubes=float(np.sum(own**3)),
            bridge=bridge,
            loop=loop,
            cubes=cubes,
            triangle=triangle,
        )


def permutation_moments(a: GramSums, b: GramSums) -> tuple[float, float, float]:
    """Return mean, variance and skewness of <A, P B P'> over all n! row permutations P.

    Parameters
    ----------
    a, b : GramSums
        Sums of the two matrices.

    Returns
    -------
    mean, variance, skewness : float
        Exact; the skewness is NaN where the variance is zero.
    """
    n = a.n_samples
    mean = a.trace * b.trace / (n - 1)
    variance = _expected_power(2, _SECOND, a, b)
    if not variance > 0.0:
        return mean, 0.0, float("nan")
    return mean, variance, _expected_power(3, _THIRD, a, b) / variance**1.5


def _expected_power(power: int, names: tuple[str, ...], a: GramSums, b: GramSums) -> float:
    n = a.n_samples
    left, right = (np.array([getattr(side, name) for name in names]) for side in (a, b))
    coefficients = _coefficients(power)
    total = sum(matrix / perm(n, k) for k, matrix in enumerate(coefficients, start=1) if k <= n)
    return float(left @ total @ right)


@lru_cache(maxsize=4)
def _coefficients(power: int) -> list[np.ndarray]:
    """Return, for every number k of different indices, the matrix that joins the sums of A and of B."""
    names = _SECOND if power == 2 else _THIRD
    partitions = list(_set_partitions(2 * power))
    kinds = [_kind(partition) for partition in partitions]
    matrices = [np.zeros((len(names), len(names))) for _ in range(2 * power)]
    for fine in partitions:
        row = np.zeros(len(names))
        for coarse, kind in zip(partitions, kinds, strict=True):
            if kind is not None and _refines(fine, coarse):
                merged = np.bincount([coarse[fine.index(block)] for block in range(max(fine) + 1)])
                row[names.index(kind)] += prod((-1) ** (m - 1) * factorial(m - 1) for m in merged)
        matrices[max(fine)] += np.outer(row, row)
    return matrices


def _set_partitions(size: int) -> Iterator[tuple[int, ...]]:
    """Yield all partitions of `size` items, each as the block numbers of the items in order of appearance."""

    def extend(head: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(head) == size:
            yield head
            return
        for block in range(max(head) + 2):
            yield from extend((*head, block))

    return extend((0,))


def _refines(fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    """Whether items in one block of `fine` are in one block of `coarse`."""
    seen: dict[int, int] = {}
    return all(seen.setdefault(f, c) == c for f, c in zip(fine, coarse, strict=True))


def _kind(partition: tuple[int, ...]) -> str | None:
    """Name the sum over all indices of a pattern; None where it is zero because rows and the diagonal sum to zero."""
    edges = [tuple(sorted(partition[i : i + 2])) for i in range(0, len(partition), 2)]
    loops = [u for u, v in edges if u == v]
    links = [edge for edge in edges if edge[0] != edge[1]]
    degree = np.bincount([index for edge in edges for index in edge])
    alone = [u for u in loops if degree[u] == 2]
    if (degree == 1).any() or alone:
        return None
    if len(edges) == 2:
        return "squares" if links else "diagonal_squares"
    if not links:
        return "diagonal_cubes"
    if len(links) == 1:
        return "bridge"
    if len(links) == 2:
        return "loop"
    return "cubes" if len(set(links)) == 1 else "triangle"


class PermutedGram:
    """Inner products of A with B under permutations of its rows, from cached Gram matrices.

    Parameters
    ----------
    A, B : array of shape (n, n)
        Symmetric matrices.
    """

    def __init__(self, A: Array, B: Array) -> None:
        xp = _arrays.namespace(A)
        if A.dtype != B.dtype:
            A, B = xp.astype(A, xp.float64), xp.astype(B, xp.float64)
        self._A, self._B = A, B
        if _arrays.is_numpy(A):
            # Rows of a block against the columns from the block on: the lower triangle is that again.
            self._blocks = [(rows, _doubled(A, rows)) for rows in _linalg.blocks(A.shape[0], _GATHER_ROWS)]

    def products(self, orders: Iterable[np.ndarray]) -> np.ndarray:
        """Return <A, B[order][:, order]> for every permutation."""
        if _arrays.is_numpy(self._A):
            n = self._A.shape[0]
            # Of this call alone: several threads may permute the same matrices.
            rows, gathered = np.empty((_GATHER_ROWS, n), self._A.dtype), np.empty(_GATHER_ROWS * n, self._A.dtype)
            return np.array([self._numpy_product(order, rows, gathered) for order in orders])
        xp = _arrays.namespace(self._A)
        values = []
        for order in orders:
            rows = _arrays.like(order, self._A)
            values.append(_linalg.inner(self._A, xp.take(xp.take(self._B, rows, axis=0), rows, axis=1)))
        return np.array(values)

    def _numpy_product(self, order: np.ndarray, row_buffer: np.ndarray, buffer: np.ndarray) -> float:
        total = 0.0
        # mode="clip" spares the copy by which mode="raise" protects the buffer; a permutation has nothing to clip.
        for rows, doubled in self._blocks:
            m = rows.stop - rows.start
            taken = np.take(self._B, order[rows], axis=0, out=row_buffer[:m], mode="clip")
            out = buffer[: doubled.size].reshape(doubled.shape)
            np.take(taken, order[rows.start :], axis=1, out=out, mode="clip")
            # In pieces for which BLAS wakes none of its threads: these would wait for each other at every block.
            for piece in _linalg.blocks(doubled.size, _DOT_LENGTH):
                total += float(np.dot(doubled.reshape(-1)[piece], buffer[piece]))
        return total


def _doubled(A: np.ndarray, rows: slice) -> np.ndarray:
    """Return the rows of A from their first column on, what lies right of the square block counted twice."""
    part = np.ascontiguousarray(A[rows, rows.start :])
    if part is A or np.shares_memory(part, A):
        part = part.copy()
    part[:, rows.stop - rows.start :] *= 2
    return part


class PermutedFeatures:
    """The same for linear Gram matrices of centred features, through ``||X' Y[order]||_F^2``.

    Parameters
    ----------
    X, Y : array of shape (n, p) and (n, q)
        Centred features.
    debiased : bool
        Whether the inner products are those of U-centred matrices.
    """

    def __init__(self, X: Array, Y: Array, *, debiased: bool) -> None:
        self._X, self._Y = _arrays.same_precision(X, Y)
        self._squares = (_host(_linalg.row_squares(X)), _host(_linalg.row_squares(Y))) if debiased else None

    def products(self, orders: Iterable[np.ndarray]) -> np.ndarray:
        """Return <A, B[order][:, order]> for every permutation, several of them in one product."""
        X, Y = self._X, self._Y
        xp = _arrays.namespace(X)
        n, q = Y.shape
        Xt = xp.matrix_transpose(X)
        orders = list(orders)
        values = np.empty(len(orders))
        for chunk in _linalg.blocks(len(orders), max(1, _STACK // (n * q))):
            m = chunk.stop - chunk.start
            # Row i holds row order[i] of Y for each of the m permutations side by side.
            stacked = np.stack(orders[chunk], axis=1)
            moved = xp.reshape(xp.take(Y, _arrays.like(stacked.reshape(-1), Y), axis=0), (n, m * q))
            product = xp.reshape(Xt @ moved, (X.shape[1], m, q))
            values[chunk] = _host(xp.sum(xp.sum(product * product, axis=2), axis=0, dtype=xp.float64))
            if self._squares is not None:
                d, e = self._squares
                values[chunk] -= n / (n - 2.0) * (d @ e[stacked]) - d.sum() * e.sum() / ((n - 1.0) * (n - 2.0))
        return values


def prefers_features(n: int, p: int, q: int) -> bool:
    """Whether permuting features costs less than permuting a Gram matrix."""
    return 2 * p * q < _GATHERS_PER_ROW * n


def _host(x: Array) -> np.ndarray:
    return _arrays.to_numpy(x).astype(np.float64)
