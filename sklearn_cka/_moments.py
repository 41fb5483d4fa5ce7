"""Mergeable sums of rows: what exact streaming keeps of several representations of the same rows.

Of the stacked layers ``Z = [X_1 | ... | X_L]`` are kept the number of rows n, the means, the centred second moments
``S = Zc' Zc`` and, for debiased estimates, with ``d_a`` the squared norms of the centred rows of layer a,

    D_ab = sum_i d_ai d_bi        G_ab = sum_i z_ai d_bi

All of them are relative to the mean of the rows seen so far. Two sets of rows are merged by moving both to their
common mean, delta away, in closed form:

    S     -> S_1 + S_2 + n_1 n_2 / n delta delta'
    G_ab  -> G_ab - 2 S_ab delta_b - delta_a (T_b + n c_b)                       T_b = tr S_bb,  c_b = |delta_b|^2
    D_ab  -> D_ab - 2 delta_b G_ba - 2 delta_a G_ab + c_b T_a + c_a T_b + 4 delta_a S_ab delta_b + n c_a c_b

so that neither offset nor order nor size of the batches matters beyond rounding. Every layer has a binary exponent
of its own, so that no power of its scale leaves the range of float64. Memory is O(P^2), P the sum of the widths.

References: Chan, Golub & LeVeque (1983), The American Statistician 37; Pébay (2008), Sandia report SAND2008-6212.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array

# Numbers of one block of rows: a batch of more is summed block by block, which bounds memory and rounding.
_BLOCK_NUMBERS = 8_000_000
# Squared row norms in units of their median: above this, sums for debiased estimates are taken in float64.
_OUTLYING = 1e3
# Data between 2**-_SAFE_EXPONENT and 2**_SAFE_EXPONENT stays in its own units.
_SAFE_EXPONENT = 12
# A column whose spread is below this many units in the last place of its mean holds rounding, not data.
_CONSTANT_ULPS = 2.0


class RowMoments:
    """Sums over rows of several layers, to which further rows and the sums over other rows can be added.

    Parameters
    ----------
    widths : sequence of int
        Number of columns of every layer.
    fourth : bool, default=False
        Whether to keep D and G, which debiased estimates need.
    exact : bool, default=False
        Whether products are taken in float64 whatever the precision of the data, as for factorisations of S, which
        squares the condition number.

    Attributes
    ----------
    n_rows : int
        Rows added, whatever their weight.
    total : float
        Sum of their weights, the number of rows for rows without.
    is_weighted, counts_rows : bool
        Whether any rows had weights; whether all weights were whole numbers.
    scatter : array of shape (P, P)
        S in float64; column j of layer l is in units of ``2**exponents[l]``.
    """

    def __init__(self, widths: Sequence[int], *, fourth: bool = False, exact: bool = False) -> None:
        self.widths = tuple(int(width) for width in widths)
        self.fourth = fourth
        self.exact = exact
        self.n_rows = 0
        self.total = 0.0
        self.is_weighted = False
        self.counts_rows = True
        self.exponents = [0] * len(self.widths)
        self.eps = [0.0] * len(self.widths)
        self.first: Array = None
        self.shift: Array = None
        self.scatter: Array = None
        self.squares: Array = None
        self.cross: Array = None

    @property
    def columns(self) -> list[slice]:
        """The columns of every layer in the stack."""
        stops = [sum(self.widths[: i + 1]) for i in range(len(self.widths))]
        return [slice(stop - width, stop) for stop, width in zip(stops, self.widths, strict=True)]

    def mean(self, layer: int) -> Array:
        """Return the column means of one layer in float64, in the units of the data."""
        part = self.columns[layer]
        return self.first[part] + _linalg.scale_by_power_of_two(self.shift[part], self.exponents[layer])

    def add(self, arrays: Sequence[Array], weights: Array | None = None) -> None:
        """Add rows, one array of shape (n_samples, width) a layer, which lie where the earlier ones do."""
        n = int(arrays[0].shape[0])
        step = max(256, _BLOCK_NUMBERS // sum(self.widths))
        for rows in _linalg.blocks(n, step):
            part = None if weights is None else weights[rows]
            whole = n <= step
            self.merge(self._sums_of([X if whole else X[rows, :] for X in arrays], part))

    def merge(self, other: RowMoments) -> None:
        """Add the sums over other rows, which stay as they are.

        Raises
        ------
        ValueError
            If widths or kinds of sums differ.
        """
        if (self.widths, self.fourth, self.exact) != (other.widths, other.fourth, other.exact):
            raise ValueError(
                f"Sums over layers of widths {self.widths} and {other.widths} cannot be merged, or they were kept for"
                " different estimates."
            )
        if other.n_rows == 0:
            return
        if self.n_rows == 0:
            self.__dict__.update(other.copy().__dict__)
            return
        other = other.copy(deep=False)
        exponents = self._common_exponents(other)
        self._rescale(exponents)
        other._rescale(exponents)
        xp = _arrays.namespace(self.scatter)
        total = self.total + other.total
        apart = self._in_units(other.first - self.first)
        delta = apart + other.shift - self.shift
        mine, theirs = delta * (other.total / total), delta * (-self.total / total)
        if self.fourth:
            own, added = self._moved(mine), other._moved(theirs)
            self.squares, self.cross = own[0] + added[0], own[1] + added[1]
        if bool(xp.any(delta != 0.0)):
            root = delta * math.sqrt(self.total / total * other.total)
            self.scatter += root[:, None] * root[None, :]
        self.scatter += other.scatter
        self.shift = self.shift + mine
        self.n_rows += other.n_rows
        self.total = total
        self.is_weighted |= other.is_weighted
        self.counts_rows &= other.counts_rows
        self.eps = [max(pair) for pair in zip(self.eps, other.eps, strict=True)]

    def copy(self, *, deep: bool = True) -> RowMoments:
        """Return a copy, with arrays of its own if `deep`."""
        made = RowMoments(self.widths, fourth=self.fourth, exact=self.exact)
        made.__dict__.update(self.__dict__)
        made.exponents, made.eps = list(self.exponents), list(self.eps)
        if deep and self.scatter is not None:
            made.scatter = self.scatter + 0.0
        return made

    def trace(self, layer: int) -> float:
        """Return the sum of the squares of one centred layer, in units of ``2**(2 * exponent)``."""
        part = self.columns[layer]
        return _arrays.total(_arrays.diagonal(self.scatter)[part])

    def block(self, a: int, b: int) -> Array:
        """Return ``X_a' X_b`` of two centred layers."""
        return self.scatter[self.columns[a], self.columns[b]]

    def settle(self) -> None:
        """Set columns to constant that vary by rounding of their mean only, as one look at all rows would."""
        xp = _arrays.namespace(self.scatter)
        variances = _arrays.diagonal(self.scatter) / self.total
        noise = xp.zeros_like(variances) > 0.0
        parts = []
        for layer, part in enumerate(self.columns):
            size = _linalg.scale_by_power_of_two(xp.abs(self.mean(layer)), -self.exponents[layer])
            parts.append(xp.sqrt(variances[part]) <= size * (_CONSTANT_ULPS * self.eps[layer]))
        noise = xp.concat(parts) & (variances > 0.0)
        if not bool(xp.any(noise)):
            return
        kept = xp.astype(~noise, self.scatter.dtype)
        self.scatter = self.scatter * kept[:, None] * kept[None, :]
        if self.fourth:
            self.cross = self.cross * kept[:, None]

    def representative_rows(self) -> list[Array]:
        """Return few rows of every layer with mean 0 and the second moments S of all rows, in units of the exponents.

        Whatever depends on rows through their centred second moments alone (singular values, loadings, the products
        of bases) is the same for them; at most P + 1 rows.
        """
        xp = _arrays.namespace(self.scatter)
        diagonal = _arrays.diagonal(self.scatter)
        size = xp.sqrt(xp.where(diagonal > 0.0, diagonal, xp.ones_like(diagonal)))
        # Columns of unit size: what is small keeps its digits beside what is large.
        values, vectors = xp.linalg.eigh(self.scatter / size[:, None] / size[None, :])
        values = xp.where(values > 0.0, values, xp.zeros_like(values))
        root = xp.sqrt(values)[:, None] * xp.matrix_transpose(vectors) * size[None, :]
        # A reflection that takes the first unit vector to the constant one leaves all other rows with mean zero.
        m = root.shape[0] + 1
        corner = 1.0 - 1.0 / math.sqrt(m)
        sums = xp.sum(root, axis=0) / math.sqrt(m)
        factor = 2.0 / (corner**2 + (m - 1.0) / m)
        top = sums[None, :] * (factor * corner)
        rows = xp.concat([top, root - sums[None, :] * (factor / math.sqrt(m))], axis=0)
        return [rows[:, part] for part in self.columns]

    def _sums_of(self, arrays: Sequence[Array], weights: Array | None) -> RowMoments:
        """Return the sums over one block of rows."""
        made = RowMoments(self.widths, fourth=self.fourth, exact=self.exact)
        centered = [_linalg.center(X, weights) for X in arrays]
        xp = _arrays.namespace(arrays[0])
        values = [side.values for side in centered]
        wide = self.exact or len({value.dtype for value in values}) > 1
        if wide or (self.fourth and any(_has_outlying_row(value) for value in values)):
            centered = [_linalg.center(xp.astype(X, xp.float64, copy=False), weights) for X in arrays]
            values = [side.values for side in centered]
        made.exponents = [side.exponent for side in centered]
        made.eps = [_arrays.eps(X) for X in arrays]
        made.first = xp.concat([xp.astype(side.first, xp.float64) for side in centered])
        made.shift = xp.concat([xp.astype(side.shift, xp.float64) for side in centered])
        made.n_rows = int(arrays[0].shape[0])
        made.total = float(made.n_rows) if weights is None else _arrays.total(weights)
        made.is_weighted = weights is not None
        made.counts_rows = weights is None or bool(xp.all(xp.round(weights) == weights))
        Z = values[0] if len(values) == 1 else xp.concat(values, axis=1)
        if self.fourth:
            norms = xp.stack([_linalg.row_squares(value) for value in values], axis=1)
            weighted = norms if weights is None else norms * weights[:, None]
            made.squares = xp.matrix_transpose(norms) @ weighted
            made.cross = xp.matrix_transpose(xp.astype(Z, xp.float64)) @ weighted
        if weights is not None:
            Z = Z * xp.astype(xp.sqrt(weights), Z.dtype)[:, None]
        made.scatter = xp.astype(xp.matrix_transpose(Z) @ Z, xp.float64)
        return made

    def _per_column(self, factors: Sequence[float]) -> Array:
        """Return one factor a layer as one a column."""
        xp = _arrays.namespace(self.first)
        device = _arrays.device(self.first)
        parts = [
            xp.full((width,), factor, dtype=xp.float64, device=device)
            for width, factor in zip(self.widths, factors, strict=True)
        ]
        return xp.concat(parts)

    def _in_units(self, difference: Array) -> Array:
        if not any(self.exponents):
            return difference
        parts = [
            _linalg.scale_by_power_of_two(difference[part], -exponent)
            for part, exponent in zip(self.columns, self.exponents, strict=True)
        ]
        return _arrays.namespace(difference).concat(parts)

    def _common_exponents(self, other: RowMoments) -> list[int]:
        """Return the exponents in which both, and the distance between their means, are neither large nor lost."""
        xp = _arrays.namespace(self.first)
        common = []
        for layer in range(len(self.widths)):
            apart = float(xp.max(xp.abs(other.mean(layer) - self.mean(layer))))
            found = [math.frexp(apart)[1]] if apart > 0.0 else []
            found += [side.exponents[layer] for side in (self, other) if side.trace(layer) > 0.0]
            common.append(max(found) if found and abs(max(found)) > _SAFE_EXPONENT else 0)
        return common

    def _rescale(self, exponents: list[int]) -> None:
        """Express all sums in other units."""
        if exponents == self.exponents:
            return
        steps = [old - new for old, new in zip(self.exponents, exponents, strict=True)]
        factors = [_linalg.power_of_two(step) for step in steps]
        column = self._per_column(factors)
        self.shift = self.shift * column
        self.scatter = self.scatter * column[:, None] * column[None, :]
        if self.fourth:
            xp = _arrays.namespace(self.first)
            square = xp.asarray([f * f for f in factors], dtype=xp.float64, device=_arrays.device(self.first))
            self.squares = self.squares * square[:, None] * square[None, :]
            self.cross = self.cross * column[:, None] * square[None, :]
        self.exponents = list(exponents)

    def _moved(self, delta: Array) -> tuple[Array, Array]:
        """Return D and G about a point `delta` away from the mean."""
        xp = _arrays.namespace(delta)
        zero = xp.zeros_like(delta)
        spread = xp.stack([self._only(delta, zero, part) for part in self.columns], axis=1)
        n = self.total
        moved = self.scatter @ spread
        traces = xp.stack([xp.sum(_arrays.diagonal(self.scatter)[part]) for part in self.columns])
        sizes = xp.sum(spread * spread, axis=0)
        cross = self.cross - 2.0 * moved - delta[:, None] * (traces + n * sizes)[None, :]
        across = xp.matrix_transpose(spread) @ self.cross
        outer = traces[:, None] * sizes[None, :]
        squares = (
            self.squares
            - 2.0 * (across + xp.matrix_transpose(across))
            + outer
            + xp.matrix_transpose(outer)
            + 4.0 * (xp.matrix_transpose(spread) @ moved)
            + n * sizes[:, None] * sizes[None, :]
        )
        return squares, cross

    @staticmethod
    def _only(delta: Array, zero: Array, part: slice) -> Array:
        """Return `delta` with all columns but those of one layer set to zero."""
        xp = _arrays.namespace(delta)
        return xp.concat([zero[: part.start], delta[part], zero[part.stop :]])


def _has_outlying_row(Z: Array) -> bool:
    """Whether a squared row norm in float32 outweighs the others so much that a difference of sums loses them."""
    if _arrays.dtype_name(Z) != "float32":
        return False
    xp: Any = _arrays.namespace(Z)
    squares = _linalg.row_squares(Z)
    typical = float(xp.sort(squares)[squares.shape[0] // 2])
    return float(xp.max(squares)) > _OUTLYING * typical
