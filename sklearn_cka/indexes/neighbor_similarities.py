"""Agreement of the order of neighbours, and of the similarities to them.

N(x) are the k rows nearest to a row of one representation, itself excluded; of rows at the same distance the one of
the smaller index is nearer.

    RankSimilarity     mean over rows of 1/H_m Σ_j 2 / ((1 + |r_j - r'_j|) (r_j + r'_j)), over the m rows j common to
                       N(x) and N(y), with r_j and r'_j their ranks in each and H_m = 1 + 1/2 + ... + 1/m
    SecondOrderCosine  mean over rows of the cosine between the vectors of similarities to N(x) ∪ N(y) in X and in y

References: Wang, Rao, Guo, Wang, Liu & Guan (2022), "Towards understanding the instability of network embedding", IEEE
Transactions on Knowledge and Data Engineering 34; Hamilton, Leskovec & Jurafsky (2016), "Cultural shift or linguistic
drift? Comparing two computational measures of semantic change", EMNLP; both as in Klabunde, Schumacher, Strohmaier &
Lemmerich (2023), "Similarity of neural network models: a survey of functional and representational measures".
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._neighbor_index import NeighborIndex, overlap_distribution
from sklearn_cka.indexes._neighbor_tables import Metric, NeighborTable, common_neighbors
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["RankSimilarity", "SecondOrderCosine", "rank_similarity", "second_order_cosine"]


class RankSimilarity(NeighborIndex):
    """Rank similarity: how far the common neighbours of a row come in the same order, the nearest counting most.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of neighbours of each row, itself excluded; less than the number of rows.
    metric : str or callable, default="euclidean"
        Distance between rows, as in :class:`MutualKNN`.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected value under a random permutation of the rows of one side, in closed form: each of the k^2 pairs of
        ranks is as likely. NaN where on both sides ties decide an order.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the order of the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    Notes
    -----
    A row without common neighbours counts 0. The value of a row is divided by its largest value for that number of
    common neighbours, so that few common neighbours can give a high value: read it beside :class:`JaccardKNN`. Ties,
    arithmetic and the meaning of :meth:`score` are as of :class:`MutualKNN`.

    References
    ----------
    Wang, Rao, Guo, Wang, Liu & Guan (2022), "Towards understanding the instability of network embedding", IEEE
    Transactions on Knowledge and Data Engineering 34, 927-941.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import RankSimilarity
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> index = RankSimilarity(5).fit(X, y)
    >>> round(index.similarity_, 4), round(index.chance_, 4)
    (0.4603, 0.1128)
    """

    def __init__(self, n_neighbors: int = 5, *, metric: Metric = "euclidean") -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=self._invariances(),
            self_similarity=1.0,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Wang et al. 2022, IEEE TKDE 34",
        )

    def _ties(self, table: NeighborTable) -> float:
        return table.order_ties

    def compare(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the mean rank similarity, NaN where a side has no neighbours to speak of.

        Parameters
        ----------
        a, b : NeighborTable
            Neighbours of the same rows.

        Returns
        -------
        similarity : float
            In [0, 1].
        """
        if not self._are_defined(a, b):
            return math.nan
        rows, rank_a, rank_b = common_neighbors(a, b)
        weights = _rank_weight(rank_a + 1, rank_b + 1)
        sums = np.bincount(rows, weights=weights, minlength=a.n_samples).astype(np.float64)  # of no pairs: integers
        largest = _harmonic_numbers(a.n_neighbors)[np.bincount(rows, minlength=a.n_samples)]
        return float(np.mean(np.divide(sums, largest, out=np.zeros_like(sums), where=largest > 0.0)))

    def chance(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the expected rank similarity of two random lists of k out of n - 1 rows."""
        if not self._has_free_side(a, b):
            return math.nan
        k = a.n_neighbors
        overlap, probability = overlap_distribution(a.n_samples, k)
        ranks = np.arange(1, k + 1)
        mean_weight = _rank_weight(ranks[:, None], ranks[None, :]).mean()
        some = overlap > 0
        per_overlap = overlap[some] / _harmonic_numbers(k)[overlap[some]]
        return float((probability[some] * per_overlap).sum() * mean_weight)


def _rank_weight(rank_a: np.ndarray, rank_b: np.ndarray) -> np.ndarray:
    """Return what a common neighbour of two 1-based ranks counts."""
    return 2.0 / ((1.0 + np.abs(rank_a - rank_b)) * (rank_a + rank_b))


def _harmonic_numbers(k: int) -> np.ndarray:
    """Return H_0, ..., H_k."""
    return np.r_[0.0, np.cumsum(1.0 / np.arange(1, k + 1))]


class SecondOrderCosine(NeighborIndex):
    """Second-order cosine similarity: whether a row is as similar to its neighbours in both representations.

    The neighbours of a row by either representation are put together, and the vectors of its similarities to them in X
    and in y are compared by their cosine.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of neighbours of each row in each representation, itself excluded; less than the number of rows.
    metric : str or callable, default="cosine"
        What makes neighbours, and similarities to them: cosine similarity by ``"cosine"``, Pearson correlation by
        ``"correlation"``. Other metrics, as in :class:`MutualKNN`, compare the vectors of distances.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [-1, 1]; in [0, 1] for distances.
    chance_ : float
        NaN: the mean over row permutations of a ratio of random sums has no closed form.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If on one side or the other all similarities are 0 for every row: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.

    Notes
    -----
    A row whose similarities to all these neighbours are 0 in X or in y has no angle and is left out of the mean. A
    common offset of the rows counts as similarity: centre the columns first to be rid of it. Ties, arithmetic and the
    meaning of :meth:`score` are as of :class:`MutualKNN`.

    References
    ----------
    Hamilton, Leskovec & Jurafsky (2016), "Cultural shift or linguistic drift? Comparing two computational measures of
    semantic change", EMNLP, equation 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import SecondOrderCosine
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> round(SecondOrderCosine(10).fit(X, y).similarity_, 4)
    0.7828
    """

    def __init__(self, n_neighbors: int = 5, *, metric: Metric = "cosine") -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0) if self.metric in ("cosine", "correlation") else (0.0, 1.0),
            symmetric=True,
            invariances=self._invariances(),
            self_similarity=1.0,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Hamilton, Leskovec & Jurafsky 2016, EMNLP",
        )

    def compare(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the mean second-order cosine, NaN where no row has one.

        Parameters
        ----------
        a, b : NeighborTable
            Neighbours of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        i, j = np.divmod(np.union1d(a.keys, b.keys), a.n_samples)
        x, y = _similarities(a, i, j), _similarities(b, i, j)
        products, squares_x, squares_y = (np.bincount(i, weights=weights) for weights in (x * y, x * x, y * y))
        norms = np.sqrt(squares_x) * np.sqrt(squares_y)
        has_angle = norms > 0.0
        if not has_angle.any():
            return math.nan
        value = float((products[has_angle] / norms[has_angle]).mean())
        return _linalg.clip_rounding(value, -1.0, 1.0, 64 * float(np.finfo(np.float64).eps))

    def _undefined(self, a: NeighborTable, b: NeighborTable) -> str:
        return f"by metric={self.metric!r} no row has a similarity other than 0 to its neighbours in both X and y"


def _similarities(table: NeighborTable, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    values = table.rows.values
    return table.rows.similarities(_arrays.like(i, values), _arrays.like(j, values))


def rank_similarity(X: Array, Y: Array, *, n_neighbors: int = 5, metric: Metric = "euclidean") -> float:
    """Compute how far the common neighbours of a row come in the same order, the nearest counting most.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric
        As in :class:`RankSimilarity`.

    Returns
    -------
    similarity : float
        In [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are not more rows than `n_neighbors`, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the order of the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    References
    ----------
    Wang, Rao, Guo, Wang, Liu & Guan (2022), "Towards understanding the instability of network embedding", IEEE
    Transactions on Knowledge and Data Engineering 34, 927-941.

    Examples
    --------
    >>> from sklearn_cka import rank_similarity
    >>> rank_similarity([[0.0], [1.0], [3.0], [6.0]], [[0.0], [2.0], [3.0], [7.0]], n_neighbors=1)
    0.75
    """
    return RankSimilarity(n_neighbors, metric=metric).similarity(X, Y)


def second_order_cosine(X: Array, Y: Array, *, n_neighbors: int = 5, metric: Metric = "cosine") -> float:
    """Compute whether a row is as similar to its neighbours in both representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric
        As in :class:`SecondOrderCosine`.

    Returns
    -------
    similarity : float
        In [-1, 1]; in [0, 1] for distances; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are not more rows than `n_neighbors`, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If on one side or the other all similarities are 0 for every row: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.

    References
    ----------
    Hamilton, Leskovec & Jurafsky (2016), "Cultural shift or linguistic drift? Comparing two computational measures of
    semantic change", EMNLP, equation 3.

    Examples
    --------
    >>> from sklearn_cka import second_order_cosine
    >>> X, Y = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]]
    >>> round(second_order_cosine(X, Y, n_neighbors=2), 6)
    0.99665
    """
    return SecondOrderCosine(n_neighbors, metric=metric).similarity(X, Y)
