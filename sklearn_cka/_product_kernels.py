"""Kernels of inner products up to what centring removes: the digits that a large mean of the data would cost.

With m the mean row and u the rows less the mean, ``x.x' = m.m + m.u + m.u' + u.u'``. Of rows far from the origin the
first term outweighs the last, in which rows differ from each other. Double centring and U-centring remove constants and
all that depends on one row alone, and so these may be left out before they cost anything.
"""

from __future__ import annotations

import math

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka._radial import Gram


def normalize_rows(X: Array) -> Array:
    """Scale every row to unit length at any size of its numbers; rows of zeros stay zero, as in scikit-learn."""
    xp = _arrays.namespace(X)
    largest = xp.max(xp.abs(X), axis=1, keepdims=True)
    X = X / xp.where(largest > 0, largest, xp.ones_like(largest))
    norms = xp.sqrt(xp.vecdot(X, X, axis=-1))[:, None]
    return X / xp.where(norms > 0, norms, xp.ones_like(norms))


def cosine_differences(X: Array) -> Gram:
    """Return ``cos - 1``, minus half of the squared distance between rows of unit length."""
    xp = _arrays.namespace(X)
    units = normalize_rows(xp.astype(X, xp.float64, copy=False))
    centered = _linalg.center(units)
    K = _linalg.squared_distances(xp.astype(centered.values, X.dtype, copy=False)) * -0.5
    zero = ~xp.any(X != 0.0, axis=1)
    if not bool(xp.any(zero)):
        return Gram(K, scale=_linalg.power_of_two(2 * centered.exponent), is_constant=centered.is_constant)
    # Beside rows of length 1 those of zeros are far from all others, so that there is no exponent.
    K = xp.where(zero[:, None] | zero[None, :], xp.full_like(K[:1, :1], -1.0), K)
    return Gram(K, is_constant=bool(xp.all(zero)))


def polynomial_differences(X: Array, gamma: float | None = None, *, degree: float = 3, coef0: float = 1) -> Gram:
    """Return ``(gamma x.x' + coef0)^degree``, degree a whole number, less terms that depend on one row at most."""
    xp = _arrays.namespace(X)
    centered = _linalg.center(X)
    U, mean, exponent, degree = centered.values, centered.mean, centered.exponent, int(degree)
    rate = 1.0 / X.shape[1] if gamma is None else float(gamma)
    if coef0 == 0 or degree == 1:  # the size of the data is but a factor
        mean, scale = _linalg.scale_by_power_of_two(mean, -exponent), _linalg.power_of_two(2 * exponent * degree)
    else:
        U, scale = _linalg.scale_by_power_of_two(U, exponent), 1.0
    level = rate * float(xp.vecdot(mean, mean)) + coef0
    slopes = xp.astype(xp.astype(U, xp.float64) @ mean * rate, U.dtype)
    products = U @ xp.matrix_transpose(U) * rate
    # With d = products + slopes + slopes' the kernel is (level + d)^degree: by Horner's rule from the second power on.
    d = products + (slopes[:, None] + slopes[None, :])
    total = xp.zeros_like(d)
    for power in range(degree, 1, -1):
        total = total * d + math.comb(degree, power) * level ** (degree - power)
    return Gram(total * d * d + products * (degree * level ** (degree - 1)) if degree else total, scale=scale)
