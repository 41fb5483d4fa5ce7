"""What the indexes of classifier outputs share: decisions, and which widths go together.

A side of two or more columns holds one score a class (logits, probabilities, votes), class k in column k. A side of
one column holds the predicted classes themselves, numbered as the columns are: what ``predict`` returns.
"""

from __future__ import annotations

from typing import Any

from sklearn_cka import _arrays
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._weighted import WeightedIndex


class OutputIndex(WeightedIndex):
    """Base class of the indexes of classifier outputs."""

    family = "outputs"

    def _check_widths(self, X: Array, y: Array, X_name: str, y_name: str) -> None:
        """Raise ValueError if two sides score different numbers of classes."""
        p, q = X.shape[1], y.shape[1]
        if p != q and min(p, q) > 1:
            raise ValueError(
                f"{type(self).__name__} compares scores of the same classes, but {X_name} has {p} columns and {y_name}"
                f" has {q}; a side of one column holds predicted classes instead."
            )


def decisions(X: Array) -> Array:
    """Return the number of the class of every row in float64, the first of those that share the highest score."""
    xp = _arrays.namespace(X)
    if X.shape[1] == 1:
        return xp.astype(X[:, 0], xp.float64)
    # Written out, since libraries differ in which of several equal maxima they take.
    column = xp.arange(X.shape[1], device=_arrays.device(X))[None, :]
    highest = xp.max(X, axis=1, keepdims=True) <= X
    first = xp.min(xp.where(highest, column, xp.full_like(column, X.shape[1])), axis=1)
    return xp.astype(first, xp.float64)


def weighted_mean(values: Array, weights: Array | None) -> float:
    """Return the mean of float64 values over rows that count `weights` times."""
    xp = _arrays.namespace(values)
    if weights is None:
        return float(xp.sum(values)) / int(values.shape[0])
    return float(xp.sum(values * weights)) / float(xp.sum(weights))


def shares(codes: Any, weights: Array | None) -> dict[float, float]:
    """Return the share of rows of every value, from the host."""
    host = _arrays.to_numpy(codes).tolist()
    counts: dict[float, float] = {}
    given = [1.0] * len(host) if weights is None else _arrays.to_numpy(weights).tolist()
    for code, weight in zip(host, given, strict=True):
        counts[code] = counts.get(code, 0.0) + weight
    total = sum(given)
    return {code: count / total for code, count in counts.items()}
