"""Representation topology divergence (RTD): loops and gaps that one representation has where the other has none.

Let D and E be the distances between the rows of X and of Y, each divided by its 0.9 quantile. The rows are doubled and
one point O is added:

    M = | D    D+'        0   |     D+ is D with infinity below the diagonal: no edge;
        | D+   min(D, E)  inf |     O is joined to the first copy of the rows at once, and to the second never.
        | 0    inf        0   |

The bars of the first homology of the Vietoris-Rips filtration of M are what D lacks of min(D, E), born and dying as the
distance grows; RTD(D, E) is the sum of their lengths, and the divergence the mean of RTD(D, E) and RTD(E, D).

Reference: Barannikov, Trofimov, Balabin & Burnaev (2022), "Representation topology divergence: a method for comparing
neural network representations", ICML.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._distance_index import DistanceIndex, negated
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["RTD"]

# Distances are measured in this quantile of those between different rows.
_QUANTILE = 0.9


@dataclass(frozen=True)
class DistanceSubsets:
    """Matrices of distances within subsets of rows, in units of their quantile; none for a representation without."""

    matrices: list[np.ndarray]


class RTD(DistanceIndex):
    """Minus the representation topology divergence of two representations.

    Parameters
    ----------
    max_samples : int, default=500
        Up to this many rows all are taken; of more, random subsets of this many.
    n_subsets : int, default=10
        Number of random subsets, over which the divergence is averaged.
    random_state : int, default=0
        Seed of the subsets, which are the same for all representations.

    Attributes
    ----------
    similarity_ : float
        Minus the divergence for the `X` and `y` given to fit, at most 0.
    chance_ : float
        NaN: the mean divergence over row permutations has no closed form.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Raises
    ------
    ImportError
        At fit, if ripser is not installed: ``pip install "sklearn_cka[topology]"``.

    Warns
    -----
    UndefinedSimilarityWarning
        If nine tenths of the distances of a side are 0, as for a constant representation: the value is NaN.

    Notes
    -----
    The bars are found by ripser on the CPU from the ranks of the distances, which its float32 holds exactly, and
    measured in float64. The divergence is not known to obey the triangle inequality. A thousand points take seconds,
    so that tables of many layers take long.

    References
    ----------
    Barannikov, Trofimov, Balabin & Burnaev (2022), "Representation topology divergence: a method for comparing neural
    network representations", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import RTD
    >>> angles = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    >>> circle, ellipse = (np.c_[width * np.cos(angles), np.sin(angles)] for width in (1.0, 1.2))
    >>> line = angles[:, None]
    >>> index = RTD()
    >>> index.distance(circle, ellipse) < index.distance(circle, line)  # doctest: +SKIP
    True
    """

    extra = "topology"

    def __init__(self, *, max_samples: int = 500, n_subsets: int = 10, random_state: int = 0) -> None:
        self.max_samples = max_samples
        self.n_subsets = n_subsets
        self.random_state = random_state

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-math.inf, 0.0),
            symmetric=True,
            invariances=frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"}),
            self_similarity=0.0,
            metric=None,
            min_samples=2,
            cost="n^2 (p + q), and the homology of 2 n + 1 points, at worst of order n^6",
            reference="Barannikov et al. 2022, ICML",
        )

    def embed(self, X: Array) -> DistanceSubsets:
        """Return the distances between the rows of one representation, or of every subset of them.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        embedding : DistanceSubsets
            In NumPy, wherever `X` is.
        """
        xp = _arrays.namespace(X)
        n = X.shape[0]
        Z = xp.astype(X, xp.float64, copy=False)
        matrices = []
        for rows in self._subsets(n):
            part = Z if rows is None else xp.take(Z, _arrays.like(rows, Z), axis=0)
            centered = _linalg.center(part)
            D = np.sqrt(_arrays.to_numpy(_linalg.squared_distances(centered.values, centered.unshifted)))
            between = D[np.triu_indices(D.shape[0], k=1)]
            unit = float(np.quantile(between, _QUANTILE))
            if unit <= 0.0:
                return DistanceSubsets([])
            matrices.append((D + D.T) / (2.0 * unit))
        return DistanceSubsets(matrices)

    def compare(self, a: DistanceSubsets, b: DistanceSubsets) -> float:
        """Return minus the divergence, NaN where a representation has no distances to speak of.

        Parameters
        ----------
        a, b : DistanceSubsets
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            At most 0.
        """
        if not (a.matrices and b.matrices):
            return math.nan
        both = [0.5 * (_divergence(D, E) + _divergence(E, D)) for D, E in zip(a.matrices, b.matrices, strict=True)]
        return negated(math.fsum(both) / len(both))

    def _subsets(self, n: int) -> list[np.ndarray | None]:
        """Return the rows of every subset, None for all rows."""
        if n <= self.max_samples:
            return [None]
        rng = np.random.default_rng(self.random_state)
        return [np.sort(rng.choice(n, self.max_samples, replace=False)) for _ in range(self.n_subsets)]

    def _check_params(self) -> None:
        for name, least in (("max_samples", 2), ("n_subsets", 1), ("random_state", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def _divergence(D: np.ndarray, E: np.ndarray) -> float:
    """Return the total length of the bars of the first homology that D lacks of the smaller distances of both."""
    n = D.shape[0]
    M = np.zeros((2 * n + 1, 2 * n + 1))
    upper = np.where(np.tri(n, k=-1, dtype=bool), math.inf, D)
    M[:n, :n] = D
    M[n:-1, :n], M[:n, n:-1] = upper, upper.T
    M[n:-1, n:-1] = np.minimum(D, E)
    M[n:-1, -1] = M[-1, n:-1] = math.inf
    return math.fsum(death - birth for birth, death in first_homology(M))


def first_homology(M: np.ndarray) -> np.ndarray:
    """Return birth and death of the bars of finite length of the first homology of a filtration, shape (n_bars, 2)."""
    try:
        from ripser import ripser
    except ImportError as error:
        raise ImportError('RTD needs ripser: pip install "sklearn_cka[topology]".') from error
    is_edge = np.isfinite(M)
    lengths = np.unique(M[is_edge])
    ranks = np.where(is_edge, np.searchsorted(lengths, np.where(is_edge, M, 0.0)), math.inf)
    bars = ripser(ranks, distance_matrix=True, maxdim=1)["dgms"][1]
    return lengths[bars[np.isfinite(bars).all(axis=1)].astype(np.int64)]
