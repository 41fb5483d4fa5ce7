"""CKNNA: CKA restricted to nearest neighbours.

With N(x_i) the k nearest other rows of a row in one representation, α_ij = 1 if j is in N(x_i) and in N(y_i), and 0
otherwise, and K the Gram matrix with the mean of its row taken from every entry (L the same of y):

    Align(K, L) = Σ_ij α_ij K_ij L_ij
    CKNNA(K, L) = Align(K, L) / sqrt(Align(K, K) Align(L, L))

where Align(K, K) takes the neighbours of X on both sides. The debiased form replaces Align(K, L) by the unbiased HSIC
of the masked matrices α∘K and α∘L, K and L not centred before.

References: Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix A, and the code
published with it; Song, Smola, Gretton, Bedo & Borgwardt (2012), JMLR 13, equation 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._neighbor_index import NeighborIndex
from sklearn_cka.indexes._neighbor_tables import NeighborTable, common_neighbors, neighbor_table
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["CKNNA", "cknna"]

# Numbers gathered at a time.
_GATHER = 4_000_000


@dataclass(frozen=True)
class KernelTable(NeighborTable):
    """Nearest neighbours with the entries of the Gram matrix that belong to them.

    Attributes
    ----------
    kernel : ndarray of shape (n_samples, n_neighbors)
        Entries (i, indices[i, r]) of the Gram matrix.
    """

    kernel: np.ndarray

    @cached_property
    def aligned(self) -> float:
        """Align(K, K)."""
        return float(np.vdot(self.kernel, self.kernel))

    @cached_property
    def hsic(self) -> float:
        """Unbiased HSIC of the masked matrix with itself."""
        rows = np.repeat(np.arange(self.n_samples), self.n_neighbors)
        entries = self.kernel.ravel()
        return masked_hsic(self.n_samples, rows, self.indices.ravel(), entries, entries)


class CKNNA(NeighborIndex):
    """Centred kernel nearest-neighbour alignment: CKA of which only pairs of common neighbours count.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of neighbours of each row, itself excluded; less than the number of rows. With all rows as neighbours
        it is CKA without the diagonals of the Gram matrices.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ``"euclidean"``: neighbours by Euclidean distance, Gram matrix of the centred rows, as linear CKA. ``"cosine"``:
        neighbours and Gram matrix by cosine similarity, as of rows of unit length.
    debiased : bool, default=False
        Whether to take the unbiased HSIC of the masked Gram matrices. This is what the code of the authors computes by
        default, whereas the formula that they print is the other form. Needs 4 rows.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [-1, 1]; without bounds if debiased.
    chance_ : float
        Expected value under a random permutation of the rows of one side, in closed form; NaN for the debiased form,
        whose mean takes sums over triples of rows, and where on both sides ties decide a set.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0, or the debiased HSIC of a side with itself is not positive: the value
        is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    Notes
    -----
    Values printed in the literature come from the code of the authors on rows of unit length with 10 neighbours:
    ``CKNNA(10, metric="cosine", debiased=True)``, but for a constant 1e-6 that the code adds to the denominator. The
    mask is not symmetric (j may be a neighbour of i, and not i of j), and the unbiased estimator is written for
    symmetric matrices: in the debiased form exchanging X and y changes the value a little. Ties, arithmetic and the
    meaning of :meth:`score` are as of :class:`MutualKNN`.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CKNNA
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> index = CKNNA(10).fit(X, y)
    >>> round(index.similarity_, 4), round(index.chance_, 4)
    (0.7422, 0.1571)
    >>> round(CKNNA(10, metric="cosine", debiased=True).fit(X, y).similarity_, 4)
    0.7236
    """

    metric: str

    def __init__(self, n_neighbors: int = 5, *, metric: str = "euclidean", debiased: bool = False) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.debiased = debiased

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-math.inf, math.inf) if self.debiased else (-1.0, 1.0),
            symmetric=not self.debiased,
            invariances=self._invariances(),
            self_similarity=1.0,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Huh, Cheung, Wang & Isola 2024, ICML",
        )

    def _check_params(self) -> None:
        super()._check_params()
        _validation.check_option("metric", self.metric, ("euclidean", "cosine"))
        _validation.check_flag("debiased", self.debiased)

    def _required_samples(self) -> tuple[int, str]:
        minimum, required_by = super()._required_samples()
        if self.debiased and minimum < 4:
            return 4, f"the debiased estimator of {type(self).__name__}"
        return minimum, required_by

    def embed(self, X: Array) -> KernelTable:
        """Find the nearest neighbours of every row, and the entries of the Gram matrix that belong to them.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64; more rows than `n_neighbors`.

        Returns
        -------
        embedding : KernelTable
            On the host.
        """
        table = neighbor_table(X, int(self.n_neighbors), self.metric)
        rows = table.rows
        if self.debiased:
            kernel = _entries(rows.vectors, table.indices)
        else:  # less the mean of its row, an entry is the product with the other row less the mean row
            kernel = _entries(rows.centered, table.indices) + rows.along_mean()[table.indices]
        return KernelTable(table.indices, table.set_ties, table.order_ties, table.rows, kernel)

    def compare(self, a: KernelTable, b: KernelTable) -> float:  # type: ignore[override]
        """Return the alignment of two Gram matrices at their common neighbours, NaN where it is undefined.

        Parameters
        ----------
        a, b : KernelTable
            Neighbours of the same rows, and their entries of the Gram matrices.

        Returns
        -------
        similarity : float
            The index.
        """
        if not self._are_defined(a, b):
            return math.nan
        rows, rank_a, rank_b = common_neighbors(a, b)
        K, L = a.kernel[rows, rank_a], b.kernel[rows, rank_b]
        if self.debiased:
            return masked_hsic(a.n_samples, rows, a.indices[rows, rank_a], K, L) / math.sqrt(a.hsic) / math.sqrt(b.hsic)
        value = float(np.vdot(K, L)) / math.sqrt(a.aligned) / math.sqrt(b.aligned)
        return _linalg.clip_rounding(value, -1.0, 1.0, 64 * float(np.finfo(np.float64).eps))

    def _are_defined(self, a: NeighborTable, b: NeighborTable) -> bool:
        tables = [table for table in (a, b) if isinstance(table, KernelTable)]
        norms = [table.hsic if self.debiased else table.aligned for table in tables]
        return super()._are_defined(a, b) and min(norms) > 0.0

    def chance(self, a: KernelTable, b: KernelTable) -> float:  # type: ignore[override]
        """Return the expected value under a random permutation of rows: any two entries meet as often."""
        if self.debiased or not self._has_free_side(a, b):
            return math.nan
        pairs = a.n_samples * (a.n_samples - 1)
        expected = float(a.kernel.sum()) * float(b.kernel.sum()) / pairs
        return expected / math.sqrt(a.aligned) / math.sqrt(b.aligned)

    def _undefined(self, a: NeighborTable, b: NeighborTable) -> str:
        if a.is_constant or b.is_constant:
            return super()._undefined(a, b)
        if self.debiased:
            return "the unbiased HSIC of a side with itself is not positive: hardly any two rows are mutual neighbours"
        return "the entries of the Gram matrix that belong to neighbours are all zero"


def masked_hsic(n: int, i: np.ndarray, j: np.ndarray, K: np.ndarray, L: np.ndarray) -> float:
    """Return the unbiased HSIC of two n x n matrices that are K and L at the entries (i, j), and zero elsewhere."""
    k, m = (sparse.csr_array((values, (i, j)), shape=(n, n)) for values in (K, L))
    inner = float((k * m.T).sum())
    through = float(np.bincount(j, weights=K, minlength=n) @ np.bincount(i, weights=L, minlength=n))
    sums = float(K.sum()) * float(L.sum())
    return (inner + sums / ((n - 1.0) * (n - 2.0)) - 2.0 / (n - 2.0) * through) / (n * (n - 3.0))


def _entries(vectors: Array, indices: np.ndarray) -> np.ndarray:
    """Return the inner products of every row with the rows at `indices`."""
    xp = _arrays.namespace(vectors)
    n, k = indices.shape
    parts = []
    for rows in _linalg.blocks(n, max(1, _GATHER // max(1, k * vectors.shape[1]))):
        wanted = _arrays.like(np.ascontiguousarray(indices[rows].ravel()), vectors)
        others = xp.reshape(xp.take(vectors, wanted, axis=0), (rows.stop - rows.start, k, vectors.shape[1]))
        parts.append(_arrays.to_numpy(xp.vecdot(others, vectors[rows, None, :], axis=-1)))
    return np.concatenate(parts).astype(np.float64, copy=False)


def cknna(X: Array, Y: Array, *, n_neighbors: int = 5, metric: str = "euclidean", debiased: bool = False) -> float:
    """Compute CKA of which only pairs of common nearest neighbours count.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric, debiased
        As in :class:`CKNNA`.

    Returns
    -------
    similarity : float
        In [-1, 1], without bounds if debiased; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are not more rows than `n_neighbors`, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0, or the debiased HSIC of a side with itself is not positive: the value
        is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix A.

    Examples
    --------
    >>> from sklearn_cka import cknna
    >>> round(cknna([[0.0], [1.0], [3.0], [6.0]], [[0.0], [2.0], [3.0], [7.0]], n_neighbors=2), 6)
    0.939895
    """
    return CKNNA(n_neighbors, metric=metric, debiased=debiased).similarity(X, Y)
