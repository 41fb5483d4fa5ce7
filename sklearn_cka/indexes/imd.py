"""Multi-scale intrinsic distance (IMD): the heat traces of two neighbourhood graphs.

    IMD(X, Y) = max over t of exp(-2 (t + 1/t)) |h_X(t) - h_Y(t)|,    h(t) = tr(exp(-t L)) / n

L is the normalised Laplacian ``I - D^(-1/2) A D^(-1/2)`` of the graph that joins two rows if one is among the k nearest
of the other. The authors estimate the trace by a stochastic quadrature; here it is exact, from all eigenvalues, and so
meant for up to some thousands of rows. Like the descriptors, IMD says nothing about which rows correspond. Reference:
Tsitsulin, Munkhoeva, Mottin, Karras, Bronstein, Oseledets & Müller (2020), "The shape of data: intrinsic distance for
data distributions", ICLR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_cka import _arrays
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._distance_index import NEGATED, DistanceIndex, negated
from sklearn_cka.indexes._neighbor_tables import check_n_neighbors, neighbor_table
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["IMD"]

# The scales at which heat traces are compared: those of the authors.
_TIMES = np.logspace(-1.0, 1.0, 256)
_WEIGHTS = np.exp(-2.0 * (_TIMES + 1.0 / _TIMES))


@dataclass(frozen=True)
class HeatTrace:
    """Mean of ``exp(-t lambda)`` over the eigenvalues, at every scale t; NaN for a constant representation."""

    values: np.ndarray


class IMD(DistanceIndex):
    """Minus the multi-scale intrinsic distance of two representations.

    Parameters
    ----------
    n_neighbors : int, default=5
        k of the neighbourhood graphs: rows are joined if one is among the k nearest of the other by Euclidean
        distance, itself excluded, ties (to rounding) in favour of the row that comes first.

    Attributes
    ----------
    similarity_ : float
        Minus the distance for the `X` and `y` given to fit, in [-exp(-4), 0].
    chance_ : float
        The same: the order of rows does not count, unless distances tie.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows, so that none is nearer than another: the value is NaN.

    Notes
    -----
    Traces are divided by n; programs of the authors print a million times as much. The maximum is taken over their 256
    scales t between 0.1 and 10. Their graph is directed; this one is not, so that its Laplacian is symmetric.

    The distance matrix and the eigenvalues are n x n and float64, about 10 n^3 operations for each representation.

    References
    ----------
    Tsitsulin, Munkhoeva, Mottin, Karras, Bronstein, Oseledets & Müller (2020), "The shape of data: intrinsic distance
    for data distributions", ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import IMD
    >>> angles = np.linspace(0.0, 6.0, 60)
    >>> circle, line = np.c_[np.cos(angles), np.sin(angles)], np.arange(60.0)[:, None] ** 1.1
    >>> blob = np.random.default_rng(0).standard_normal((60, 8))
    >>> index = IMD()
    >>> index.distance(circle, line) < index.distance(circle, blob)
    True
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-math.exp(-4.0), 0.0),
            symmetric=True,
            invariances=frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"}),
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=self.n_neighbors + 1,
            cost="n^2 (p + q) + n^3",
            reference="Tsitsulin et al. 2020, ICLR",
        )

    def embed(self, X: Array) -> HeatTrace:
        """Return the heat trace of the neighbourhood graph of one representation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        embedding : HeatTrace
            In NumPy, wherever `X` is.
        """
        table = neighbor_table(X, int(self.n_neighbors), "euclidean")
        if table.is_constant:
            return HeatTrace(np.full_like(_TIMES, math.nan))
        joined = np.zeros((table.n_samples, table.n_samples), dtype=bool)
        np.put_along_axis(joined, table.indices, True, axis=1)
        A = (joined | joined.T).astype(np.float64)
        scale = 1.0 / np.sqrt(A.sum(axis=1))
        xp = _arrays.namespace(X)
        affinity = _arrays.like(A * scale[:, None] * scale[None, :], X)
        eigenvalues = 1.0 - _arrays.to_numpy(xp.linalg.eigvalsh(affinity)).astype(np.float64)
        return HeatTrace(np.exp(-_TIMES[:, None] * eigenvalues[None, :]).mean(axis=1))

    def compare(self, a: HeatTrace, b: HeatTrace) -> float:
        """Return minus the distance of two heat traces, NaN where one representation is constant.

        Parameters
        ----------
        a, b : HeatTrace
            Embeddings of as many rows.

        Returns
        -------
        similarity : float
            At most 0.
        """
        return negated(float((_WEIGHTS * np.abs(a.values - b.values)).max()))

    def chance(self, a: HeatTrace, b: HeatTrace) -> float:
        """Return the value itself, which no permutation of rows changes."""
        return self.compare(a, b)

    def _check_params(self) -> None:
        check_n_neighbors(self.n_neighbors)
