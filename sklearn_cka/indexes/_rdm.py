"""Representational dissimilarity matrices (RDMs): the distances between the rows of one representation.

===============  ====================================================================================
correlation      1 - r, r the Pearson correlation of two rows over the features; its sign is kept
cosine           1 - cos of the angle between two rows
euclidean        ``||x - x'||``
sqeuclidean      ``||x - x'||^2``
cityblock        sum of ``|x - x'|``
mahalanobis      Euclidean distance after whitening with the covariance of the rows (n - 1 in the
                 denominator), within the span of the data where the covariance is singular
===============  ====================================================================================

1 - r and 1 - cos are half of the squared distance between rows of unit length, and are computed so: rows that are
nearly alike keep their digits. Every matrix is symmetric, with a diagonal of exact zeros and no negative entry.
Reference: Kriegeskorte, Mur & Bandettini (2008), Frontiers in Systems Neuroscience 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array

METRICS = ("correlation", "cosine", "euclidean", "sqeuclidean", "cityblock", "mahalanobis")

#: What the RDM is unchanged by, up to a factor.
INVARIANCES = {
    "correlation": frozenset({"isotropic_scaling", "permutation"}),
    "cosine": frozenset({"isotropic_scaling", "permutation", "orthogonal"}),
    "euclidean": frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"}),
    "sqeuclidean": frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"}),
    "cityblock": frozenset({"translation", "isotropic_scaling", "permutation"}),
    "mahalanobis": frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal", "invertible_linear"}),
}

# A row whose values differ by no more than this many units in the last place is constant over the features.
_CONSTANT_ULPS = 2.0
# Distances multiplied in the precision of the data before the float64 sums take over.
_PRODUCT_BLOCK = 65_536
# Metrics that are the root of a sum.
_ROOTS = ("euclidean", "mahalanobis")
# Distances that differ by less than this many units in the last place of the largest are ties.
_TIE_ULPS = 16.0
# Squared distances below this share of the largest are computed from differences, with errors of their own size.
_REFINED_SHARE = 1e-6


@dataclass(frozen=True)
class Dissimilarities:
    """An RDM: ``matrix * 2**exponent``.

    Rows and columns of the `undefined` rows are NaN. The last places of the data weigh `amplification` times as much
    in the distances.
    """

    matrix: Array
    exponent: int = 0
    undefined: int = 0
    amplification: float = 1.0


def check_metric(metric: Any, argument: str) -> None:
    """Raise ValueError or TypeError unless `metric` names a distance, is ``"precomputed"`` or a callable."""
    if isinstance(metric, str):
        if metric not in METRICS and metric != "precomputed":
            raise ValueError(f"Unknown {argument} {metric!r}. Valid are {', '.join(METRICS)}, precomputed.")
    elif not callable(metric):
        raise TypeError(f"{argument} must be a name or a callable f(X) -> (n_samples, n_samples), got {metric!r}.")


def check_input(X: Array, metric: Any, name: str) -> Array:
    """Return checked data for a metric: a representation, or an RDM if it is ``"precomputed"``."""
    is_rdm = isinstance(metric, str) and metric == "precomputed"
    return check_rdm(X, f"The precomputed RDM given as {name}") if is_rdm else X


def why_undefined(found: Dissimilarities, metric: Any) -> str:
    """Say why rows have no distance to others."""
    what = "constant over the features" if metric == "correlation" else "zero"
    return f"{found.undefined} of {found.matrix.shape[0]} rows are {what}, and have no {metric} distance to others"


def check_rdm(D: Array, what: str) -> Array:
    """Return a square, symmetric, non-negative matrix with a zero diagonal.

    Raises
    ------
    ValueError
        If it is none; the message begins with `what`.
    """
    D = _validation.check_gram(D, what)
    xp = _arrays.namespace(D)
    if bool(xp.any(D < 0.0)):
        raise ValueError(f"Negative values in data. {what} must hold distances, not similarities.")
    if bool(xp.any(_arrays.diagonal(D) != 0.0)):
        raise ValueError(f"{what} must have a diagonal of zeros: the distance of a row from itself.")
    return D


def dissimilarities(X: Array, metric: str | Callable[[Array], Array], *, exact: bool = False) -> Dissimilarities:
    """Return the RDM of validated `X`, in float64 where `exact`, as ranks need it."""
    xp = _arrays.namespace(X)
    eps = _arrays.eps(X)
    if exact:
        X = xp.astype(X, xp.float64, copy=False)
    if callable(metric):
        return Dissimilarities(check_rdm(metric(X), f"The RDM of {metric!r}"))
    if metric == "precomputed":
        return Dissimilarities(X)
    if metric in ("correlation", "cosine"):
        return _angular(X, metric, eps)
    centered = _linalg.center(X)
    Z, exponent = centered.values, centered.exponent
    offset = _offset_ratio(X, centered)
    if metric == "cityblock":
        return Dissimilarities(_symmetric(_linalg.manhattan_distances(Z, Z)), exponent, amplification=offset)
    if metric == "mahalanobis":
        return _mahalanobis(Z, eps, offset)
    squares = _symmetric(_linalg.squared_distances(Z))
    if metric == "sqeuclidean":
        return Dissimilarities(squares, 2 * exponent, amplification=offset)
    return Dissimilarities(xp.sqrt(squares), exponent, amplification=offset)


def _offset_ratio(X: Array, centered: _linalg.Centered) -> float:
    """Return how many times larger the data are than their spread: their last places weigh as much more.

    Columns that are constant have no last places that vary, and do not count.
    """
    if centered.is_constant:
        return 1.0
    xp = _arrays.namespace(X)
    varies = xp.any(centered.values != 0.0, axis=0)
    X = xp.where(varies[None, :], X, xp.zeros_like(X[:1, :1]))
    spread = math.ldexp(float(xp.max(xp.abs(centered.values))), centered.exponent)
    return max(1.0, float(xp.max(xp.abs(X))) / spread) if spread > 0.0 else 1.0


def _symmetric(D: Array) -> Array:
    """Return the matrix of the entries above the diagonal, mirrored, which rounding may have left unequal."""
    xp = _arrays.namespace(D)
    upper = xp.triu(D, k=1)
    return upper + xp.matrix_transpose(upper)


def _angular(X: Array, metric: str, eps: float) -> Dissimilarities:
    xp = _arrays.namespace(X)
    Z, constant = unit_rows(X, eps, centered=metric == "correlation")
    D = _symmetric(_linalg.squared_distances(Z)) * 0.5
    D = xp.where(D > 2.0, xp.full_like(D[:1, :1], 2.0), D)
    undefined = _arrays.count(constant)
    if undefined:
        D = xp.where(constant[:, None] | constant[None, :], xp.full_like(D[:1, :1], math.nan), D)
        D = _arrays.fill_diagonal(D, 0.0)
    return Dissimilarities(D, undefined=undefined)


def unit_rows(X: Array, eps: float, *, centered: bool) -> tuple[Array, Array]:
    """Scale every row to unit length at any size of its numbers, centred over the features first if asked for.

    The second array marks the rows for which that is 0/0: constant over the features, or zero if not centred.
    """
    xp = _arrays.namespace(X)
    shift = X[:, :1] if centered else xp.zeros_like(X[:, :1])
    Z = X - shift
    largest = xp.max(xp.abs(Z), axis=1, keepdims=True)
    if bool(xp.any(xp.isinf(largest))):  # the spread of a row passes the largest number of the type
        return unit_rows(X * 0.25, eps, centered=centered)
    constant = largest <= xp.abs(shift) * (_CONSTANT_ULPS * eps)
    Z = Z / xp.where(constant, xp.ones_like(largest), largest)
    if centered:
        mean = xp.sum(Z, axis=1, keepdims=True, dtype=xp.float64) / X.shape[1]
        Z = Z - xp.astype(mean, Z.dtype)
    norms = xp.sqrt(_linalg.row_squares(Z))[:, None]
    norms = xp.where(constant, xp.ones_like(norms), norms)
    return Z / xp.astype(norms, Z.dtype), constant[:, 0]


def _mahalanobis(Z: Array, eps: float, offset: float) -> Dissimilarities:
    """Return the distances of centred rows in the metric of their own covariance, all alike at full rank n - 1."""
    xp = _arrays.namespace(Z)
    n = Z.shape[0]
    U, s, _ = _linalg.thin_svd(Z, right=False)
    rank = _arrays.count(s > s[:1] * (max(Z.shape) * eps))
    if rank in (0, n - 1):
        alike = math.sqrt(2.0 * (n - 1)) if rank else 0.0
        D = xp.full((n, n), alike, dtype=Z.dtype, device=_arrays.device(Z))
        return Dissimilarities(_arrays.fill_diagonal(D, 0.0))
    squares = _symmetric(_linalg.squared_distances(U[:, :rank])) * float(n - 1)
    return Dissimilarities(xp.sqrt(squares), amplification=offset * float(s[0]) / float(s[rank - 1]))


def upper_triangle(D: Array) -> Array:
    """Return the entries above the diagonal, row after row, shape (n_samples (n_samples - 1) / 2,)."""
    xp = _arrays.namespace(D)
    index = xp.arange(D.shape[0], device=_arrays.device(D))
    return D[index[:, None] < index[None, :]]


def tie_groups(distances: np.ndarray, metric: Any, amplification: float = 1.0) -> np.ndarray:
    """Return the rank of every float64 distance as an integer from 0, alike for those that differ by rounding only.

    Distances that are equal in exact arithmetic, as between rows on a grid, come out unequal in the last places;
    ranks would make much of that. Distances given by the caller are taken as they are.
    """
    values = distances**2 if metric in _ROOTS else distances
    order = np.argsort(values)
    ordered = values[order]
    is_own = isinstance(metric, str) and metric != "precomputed"
    steps = np.diff(ordered)
    new = steps > (_rounding(ordered[1:], metric) * amplification if is_own else 0.0)
    groups = np.empty(len(values), dtype=np.int64)
    groups[order] = np.concatenate([[0], np.cumsum(new)])
    return groups


def _rounding(values: np.ndarray, metric: str) -> np.ndarray:
    """Return how far sorted float64 distances, squared for metrics with a root, may be from their exact values."""
    ulps = _TIE_ULPS * float(np.finfo(np.float64).eps)
    top = 2.0 if metric in ("correlation", "cosine") else float(values[-1])
    if metric == "cityblock":
        return np.full_like(values, top * ulps)
    # Either the expansion of the square, between rows that need not be far from the mean, or the refined difference.
    expanded, refined = values / _REFINED_SHARE, 2.0 * np.sqrt(values * top) + ulps * top
    return np.minimum(top, np.maximum(expanded, refined)) * ulps


def inner_products(a: list[Any], b: list[Any]) -> np.ndarray:
    """Return the inner products of all pairs of arrays of one shape in float64, NaN where one is None."""
    products = np.full((len(a), len(b)), math.nan)
    rows, columns = ([i for i, values in enumerate(side) if values is not None] for side in (a, b))
    if not rows or not columns:
        return products
    xp = _arrays.namespace(a[rows[0]])
    flat = [[xp.reshape(side[i], (-1,)) for i in kept] for side, kept in ((a, rows), (b, columns))]
    if len({values.dtype for side in flat for values in side}) > 1:
        flat = [[xp.astype(values, xp.float64, copy=False) for values in side] for side in flat]
    found = np.zeros((len(rows), len(columns)))
    for chunk in _linalg.blocks(flat[0][0].shape[0], _PRODUCT_BLOCK):
        left, right = (xp.stack([values[chunk] for values in side]) for side in flat)
        found += _arrays.to_numpy(left @ xp.matrix_transpose(right)).astype(np.float64)
    if a is b:
        found = np.triu(found) + np.triu(found, 1).T
    products[np.ix_(rows, columns)] = found
    return products
