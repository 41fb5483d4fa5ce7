"""The Gaussian and the Laplacian kernel from distances: sigma, the values, and their digits at any bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sklearn_cka import _arrays, _bandwidths, _linalg, _threads
from sklearn_cka._arrays import Array

# Of c in exp(-c d^2), d within a few thousand of 1: the largest exponent of 2 that keeps c d in its type; where
# exp(-t) is 1 - t to the last digit; where squares of what K varies by would leave float32.
_LARGEST_RATE = {"float32": 80, "float64": 500}
LINEAR_RATE = {"float32": 2.0**-60, "float64": 2.0**-110}
_SMALL_RATE = 2.0**-12
# Where the logarithm of the kernel at the typical distance is below this, most values lie near 0 and not near another.
_NARROW = -4.0


@dataclass(frozen=True)
class Gram:
    """A Gram matrix; `scale` times `matrix` is the kernel, up to an additive constant where that was allowed."""

    matrix: Array
    bandwidth: float | None = None
    scale: float = 1.0
    is_constant: bool = False


def scaled(K: Array) -> Gram:
    """Return a Gram matrix whose entries have a size that can be squared in float32."""
    K, exponent = _linalg.scale(K)
    return Gram(K, scale=_linalg.power_of_two(exponent))


def sigma_of(gamma: float, squared: bool) -> float:
    """Return sigma of the Gaussian (`squared`) or Laplacian kernel that scikit-learn's gamma stands for."""
    return math.sqrt(0.5 / gamma) if squared else 1.0 / gamma


def rate_of(log2_sigma: float, squared: bool, X: Array) -> float:
    """Return c of ``exp(-c d^2)`` or ``exp(-c d)``, cut before c d leaves the type: the kernel is 0 long before."""
    log2_rate = -2.0 * log2_sigma - 1.0 if squared else -log2_sigma
    return float(2.0 ** min(log2_rate, _LARGEST_RATE[_arrays.dtype_name(X)]))


class RadialDistances:
    """Distances between all rows, from which the Gaussian or Laplacian Gram matrix of any bandwidth comes.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Validated rows.
    kernel : str
        A kernel with a bandwidth.
    """

    def __init__(self, X: Array, kernel: str) -> None:
        centered = _linalg.center(X)
        Z = centered.values
        self._squared = squared = kernel == "rbf"
        self._values = (
            _linalg.squared_distances(Z, centered.unshifted) if squared else _linalg.manhattan_distances(Z, Z)
        )
        self._exponent = centered.exponent
        self._is_constant = centered.is_constant
        self._typical: dict[str, float] = {}

    def _typical_distance(self, rule: str, weights: Array | None) -> float:
        if weights is not None:
            return _typical_distance(self._values, rule, squared=self._squared, weights=weights)
        if rule not in self._typical:
            self._typical[rule] = _typical_distance(self._values, rule, squared=self._squared, weights=None)
        return self._typical[rule]

    def gram(
        self,
        bandwidth: float,
        rule: str = "median",
        *,
        gamma: float | None = None,
        sigma: float | None = None,
        weights: Array | None = None,
        exact: bool = False,
        overwrite: bool = False,
    ) -> Gram:
        """Return the Gram matrix ``exp(-t)``, t = d^2 / (2 sigma^2) or d / sigma, as :func:`gram_matrix` does.

        With `overwrite` the distances are lost to it.
        """
        distances, squared = self._values, self._squared
        xp = _arrays.namespace(distances)
        typical = None
        if sigma is None and gamma is not None:
            sigma = sigma_of(gamma, squared)
        elif sigma is None and rule == "none":
            sigma = float(bandwidth)
        if self._is_constant:  # every distance is 0 and the kernel 1 at any bandwidth
            K = xp.ones_like(distances) if exact else xp.zeros_like(distances)
            return Gram(K, bandwidth=math.nan if sigma is None else sigma, is_constant=True)
        if sigma is None:
            typical = self._typical_distance(rule, weights)
            log2_sigma = math.log2(bandwidth) + math.log2(typical)
            sigma = float(bandwidth) * typical * _linalg.power_of_two(self._exponent)
        else:
            log2_sigma = math.log2(sigma) - self._exponent
        rate = rate_of(log2_sigma, squared, distances)
        if exact:
            return Gram(xp.exp(distances * -rate), bandwidth=sigma)
        distances = distances if overwrite else xp.asarray(distances, copy=True)
        if rate < LINEAR_RATE[_arrays.dtype_name(distances)]:  # exp(-t) is 1 - t: keep the size of t apart
            distances *= -1.0
            distances -= float(xp.mean(distances))
            return Gram(distances, bandwidth=sigma, scale=rate)
        m = -rate * (float(xp.mean(distances)) if typical is None else typical**2 if squared else typical)
        K = exponentials(distances, rate, m)
        if rate > _SMALL_RATE:
            return Gram(K, bandwidth=sigma)
        return replace(scaled(K), bandwidth=sigma)


def exponentials(distances: Array, rate: float, middle: float) -> Array:
    """Return ``exp(-rate * distances)`` less its value where the exponent is `middle`, or less 0 if that is far below.

    Values keep the digits in which they differ from each other. They are written over the distances where that can be
    done.
    """
    xp = _arrays.namespace(distances)
    is_narrow = middle < _NARROW
    constant = 0.0 if is_narrow else math.expm1(middle)
    if not _arrays.is_numpy(distances):
        exponents = distances * -rate
        return xp.exp(exponents) if is_narrow else xp.expm1(exponents) - constant

    def write(rows: slice) -> None:
        block = distances[rows, :]
        block *= -rate
        if is_narrow:
            np.exp(block, out=block)
        else:
            np.expm1(block, out=block)
            block -= constant

    _threads.map_blocks(write, _linalg.row_blocks(distances), distances)
    return distances


def _typical_distance(distances: Array, rule: str, *, squared: bool, weights: Array | None) -> float:
    """Apply a bandwidth rule to the distances between all rows, or between a random subset of very many."""
    sample = _bandwidths.subset_rows(distances.shape[0])
    if sample is not None:
        xp = _arrays.namespace(distances)
        chosen = None if weights is None else xp.take(weights, xp.asarray(sample, device=_arrays.device(distances)))
        inside = _bandwidths.sub_square(distances, sample)
        typical = _bandwidths.typical_distance(inside, rule, squared=squared, weights=chosen)
        if typical > 0.0:
            return typical  # otherwise hardly any row differs from the others: look at all of them
    return _bandwidths.typical_distance(distances, rule, squared=squared, weights=weights)
