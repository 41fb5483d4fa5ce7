"""Bandwidth rules: the typical distance m within a representation, the unit of every `bandwidth`.

    sigma = bandwidth * m

Each side of a comparison has its own m. Seven rules that do not agree are in public use; those here have names.
Reference: Gretton et al. (2012), "A kernel two-sample test", JMLR 13 (the median heuristic).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array

__all__ = ["bandwidth_rule_names", "median_distance"]

#: Above this number of rows a rule looks at a seeded random subset of this many rows.
MAX_ROWS = 5_000

_RULES = ("median", "median_with_self", "median_nonzero", "mean", "none")


def bandwidth_rule_names() -> list[str]:
    """Return the names of the rules for the distance m in ``sigma = bandwidth * m``.

    ========================  =====================================================================================
    ``"median"``              median of the n (n - 1) / 2 distances between different rows (the default)
    ``"median_with_self"``    root of the median of all n * n squared distances, zero diagonal included
                              (the notebook of Kornblith et al. 2019)
    ``"median_nonzero"``      root of the median of the squared distances that are greater than 0
    ``"mean"``                root of the mean of the squared distances between different rows
    ``"none"``                1: `bandwidth` is sigma itself
    ========================  =====================================================================================

    Examples
    --------
    >>> from sklearn_cka import bandwidth_rule_names
    >>> bandwidth_rule_names()
    ['median', 'median_with_self', 'median_nonzero', 'mean', 'none']
    """
    return list(_RULES)


def check_bandwidth(bandwidth: Any, rule: Any) -> None:
    """Raise ValueError unless `bandwidth` is a positive finite number and `rule` one of the rules."""
    if rule not in _RULES:
        raise ValueError(f"Unknown bandwidth_rule {rule!r}. Valid rules are {', '.join(_RULES)}.")
    _validation.check_positive("bandwidth", bandwidth)


def median_distance(X: Array, rule: str = "median", *, random_state: Any = 0) -> float:
    """Return the typical Euclidean distance m between the rows of X, the unit of every `bandwidth`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        A representation. Above 5,000 rows a random subset of 5,000 rows is looked at.
    rule : str, default="median"
        One of :func:`bandwidth_rule_names`.
    random_state : int, RandomState instance or None, default=0
        Chooses the subset of rows.

    Returns
    -------
    m : float
        The distance, in units of `X`; greater than 0. Where most rows repeat, so that the rule gives 0, it is the
        median of the distances that are not 0.

    Raises
    ------
    ValueError
        If all rows are equal, since no distance is typical then, or the rule is unknown.

    Examples
    --------
    >>> from sklearn_cka import median_distance
    >>> median_distance([[0.0], [1.0], [3.0]])
    2.0
    """
    check_bandwidth(1.0, rule)
    X = _validation.check_matrix(X, "X", min_samples=2)
    rows = subset_rows(X.shape[0], random_state)
    if rows is not None:
        xp = _arrays.namespace(X)
        X = xp.take(X, xp.asarray(rows, device=_arrays.device(X)), axis=0)
    centered = _linalg.center(X)
    if centered.is_constant and rule != "none":
        raise ValueError("All rows of X are equal, so that there is no typical distance between them.")
    return typical_distance(
        _linalg.squared_distances(centered.values, centered.unshifted), rule, unit=2.0**centered.exponent
    )


def subset_rows(n: int, random_state: Any = 0) -> np.ndarray | None:
    """Return the sorted rows from which a bandwidth is estimated, or None for all of them."""
    if n <= MAX_ROWS:
        return None
    return np.sort(check_random_state(random_state).choice(n, MAX_ROWS, replace=False))


def sub_square(matrix: Array, rows: np.ndarray) -> Array:
    xp = _arrays.namespace(matrix)
    index = xp.asarray(rows, device=_arrays.device(matrix))
    return xp.take(xp.take(matrix, index, axis=0), index, axis=1)


def typical_distance(
    distances: Array,
    rule: str,
    *,
    squared: bool = True,
    unit: float = 1.0,
    weights: Array | None = None,
) -> float:
    """Apply a bandwidth rule to a square matrix of (squared) distances with a zero diagonal; 0 if all are 0."""
    if rule == "none":
        return 1.0
    n = distances.shape[0]
    if n < 2:
        return 0.0
    if weights is not None:
        return unit * _weighted(distances, weights, rule, squared=squared)

    def root(value: float) -> float:
        return math.sqrt(value) if squared else value

    def square(value: float) -> float:
        return value if squared else value**2

    m = 0.0
    if rule == "mean":
        xp = _arrays.namespace(distances)
        total = float(xp.sum(distances, dtype=xp.float64)) if squared else _linalg.sum_of_squares(distances)
        m = math.sqrt(total / (n * (n - 1)))
    elif rule == "median":
        pairs = n * (n - 1) // 2
        low, high = _linalg.order_statistics(distances, [n + pairs - 1, n + pairs])
        m = (root(low) + root(high)) / 2
    elif rule == "median_with_self":
        low, high = _linalg.order_statistics(distances, [(n * n - 1) // 2, n * n // 2])
        m = math.sqrt((square(low) + square(high)) / 2)
    if m == 0.0:
        zeros = n * n - _arrays.count(distances != 0.0)
        rest = n * n - zeros
        if rest == 0:
            return 0.0
        low, high = _linalg.order_statistics(distances, [zeros + (rest - 1) // 2, zeros + rest // 2])
        m = math.sqrt((square(low) + square(high)) / 2) if rule == "median_nonzero" else (root(low) + root(high)) / 2
    return unit * m


def _weighted(distances: Array, weights: Array, rule: str, *, squared: bool) -> float:
    """Apply a bandwidth rule to rows that count `weights` times, copies of one row being at distance 0."""
    d: np.ndarray = _arrays.to_numpy(distances).astype(np.float64)
    w = _arrays.to_numpy(weights).astype(np.float64)
    counts: np.ndarray = np.outer(w, w)
    if rule != "median_with_self":
        np.fill_diagonal(counts, np.maximum(w * (w - 1.0), 0.0))
    d = np.ravel(d if squared else d**2)
    counts = np.ravel(counts)
    if rule == "mean":
        return math.sqrt(float(d @ counts) / float(counts.sum()))
    m = 0.0
    if rule == "median":
        m = _weighted_median(np.sqrt(d), counts)
    elif rule == "median_with_self":
        m = math.sqrt(_weighted_median(d, counts))
    if m == 0.0:
        apart = d > 0
        d, counts = d[apart], counts[apart]
        if d.size == 0:
            return 0.0
        m = math.sqrt(_weighted_median(d, counts)) if rule == "median_nonzero" else _weighted_median(np.sqrt(d), counts)
    return m


def _weighted_median(values: np.ndarray, counts: np.ndarray) -> float:
    """Return the median of `values`, each counted `counts` times; the middle of two where they meet."""
    keep = counts > 0
    values, counts = values[keep], counts[keep]
    order = np.argsort(values)
    values, cumulative = values[order], np.cumsum(counts[order])
    half = cumulative[-1] / 2.0
    at = int(np.searchsorted(cumulative, half * (1.0 - 1e-12)))
    if abs(cumulative[at] - half) <= half * 1e-12 and at + 1 < len(values):
        return float((values[at] + values[at + 1]) / 2.0)
    return float(values[at])
