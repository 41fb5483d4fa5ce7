"""A representation as a set of units: the embedding of the unit-matching family, and rows less learned means."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array


@dataclass(eq=False)
class UnitEmbedding:
    """The centred columns of one representation, rows multiplied by the root of their weight.

    Attributes
    ----------
    units : array of shape (n_samples, n_features)
        Centred columns in units of ``2**exponent``, or scaled to length 1 each (0 for constant ones).
    mean : array of shape (n_features,)
        Column means in float64, in the units of the data.
    exponent : int
        Binary exponent of the units of `units` and `lengths`.
    lengths : array of shape (n_features,) or None
        Length of every centred column in float64 where the columns are scaled to length 1, None where they are not.
    solved : tuple or None
        Another embedding and what matching it with this one gave, so that fit does not solve a problem twice.
    """

    units: Array
    mean: Array
    exponent: int
    lengths: Array | None = None
    solved: tuple[Any, Any] | None = None

    @property
    def n_units(self) -> int:
        """Number of columns."""
        return int(self.units.shape[1])

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of `units`."""
        return math.sqrt(_linalg.sum_of_squares(self.units))

    @cached_property
    def varies(self) -> np.ndarray:
        """Which columns are not constant, on the host."""
        xp = _arrays.namespace(self.units)
        return _arrays.to_numpy(xp.max(xp.abs(self.units), axis=0) > 0.0)

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number in the precision of the products."""
        return _arrays.eps(self.units)


def embed_units(X: Array, weights: Array | None, *, scaled: bool) -> UnitEmbedding:
    """Return the centred columns of `X`, scaled to length 1 if asked for."""
    centered = _linalg.center(X, weights)
    xp = _arrays.namespace(X)
    units = centered.values
    if weights is not None:
        units = units * xp.astype(xp.sqrt(weights), units.dtype)[:, None]
    if not scaled:
        return UnitEmbedding(units, centered.mean, centered.exponent)
    largest = xp.max(xp.abs(units), axis=0)
    units = units / xp.where(largest > 0.0, largest, xp.ones_like(largest))[None, :]
    lengths = xp.sqrt(_linalg.row_squares(xp.matrix_transpose(units)))
    units = units / xp.astype(xp.where(lengths > 0.0, lengths, xp.ones_like(lengths)), units.dtype)[None, :]
    return UnitEmbedding(units, centered.mean, centered.exponent, lengths * xp.astype(largest, lengths.dtype))


def gains(a: UnitEmbedding, b: UnitEmbedding) -> np.ndarray:
    """Return the inner products of the units of two representations in float64, moved to the host."""
    left, right = _arrays.same_precision(a.units, b.units)
    product = _arrays.namespace(left).matrix_transpose(left) @ right
    return _arrays.to_numpy(product).astype(np.float64, copy=False)


def shifted_units(X: Array, mean: Array, lengths: Array | None, weights: Array | None) -> Array:
    """Return columns less learned means (over learned lengths, 0 for 0), times the root of the weights, in float64.

    Without lengths the columns come at a scale of their own, which a cosine does not see.
    """
    centered = _linalg.center(X, weights)
    xp = _arrays.namespace(X)
    values = xp.astype(centered.values, xp.float64)
    values = values + _linalg.scale_by_power_of_two(centered.mean - mean, -centered.exponent)[None, :]
    if lengths is not None:
        known = lengths > 0.0
        factor = xp.where(known, 1.0 / xp.where(known, lengths, xp.ones_like(lengths)), xp.zeros_like(lengths))
        values = values * factor[None, :]
    if weights is not None:
        values = values * xp.astype(xp.sqrt(weights), xp.float64)[:, None]
    return values
