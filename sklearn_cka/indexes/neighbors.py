"""Agreement of neighbour sets.

N(x) are the k rows nearest to a row of one representation, itself excluded; of rows at the same distance the one of
the smaller index is nearer.

    MutualKNN   mean over rows of |N(x) ∩ N(y)| / k
    JaccardKNN  mean over rows of |N(x) ∩ N(y)| / |N(x) ∪ N(y)|
    CycleKNN    share of rows i with a row j in N(y_i) such that i is in N(x_j)

References: Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML (mutual, cycle);
Schumacher et al. (2021), "The effects of randomness on the stability of node embeddings", ECML PKDD (Jaccard).
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_cka._arrays import Array
from sklearn_cka.indexes._neighbor_index import NeighborIndex, log_choose, overlap_distribution
from sklearn_cka.indexes._neighbor_tables import Metric, NeighborTable, common_neighbors
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["CycleKNN", "JaccardKNN", "MutualKNN", "cycle_knn", "jaccard_knn", "mutual_knn"]


class MutualKNN(NeighborIndex):
    """Mutual nearest neighbours: the mean share of neighbours that a row has in both representations.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of neighbours of each row, itself excluded; less than the number of rows.
    metric : str or callable, default="euclidean"
        Distance between rows: ``"euclidean"``, ``"cosine"``, ``"correlation"``, ``"cityblock"``, ``"chebyshev"``,
        scikit-learn's other names of these, or a function of two rows. ``"cosine"`` compares rows of unit length.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected value under a random permutation of the rows of one side, k / (n - 1). NaN where on both sides ties
        decide a set: row indices then agree beyond chance.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    Notes
    -----
    :meth:`score` evaluates the index on the rows given: neighbours are sought among these. Distances are computed
    where the data lie (on the host for ``"cityblock"``, ``"chebyshev"`` and functions, by
    :func:`sklearn.metrics.pairwise_distances`), in float64; neighbour tables lie on the host. Rows have no weights.

    Huh et al. take k = 10 and rows of unit length, that is ``MutualKNN(10, metric="cosine")``. One minus the index is
    a metric: the mean of set differences ``|N(x) Δ N(y)| / 2k``.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import MutualKNN
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> index = MutualKNN(10).fit(X, y)
    >>> round(index.similarity_, 4), round(index.chance_, 4)
    (0.64, 0.2564)
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
            metric="1 - s",
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Huh, Cheung, Wang & Isola 2024, ICML",
        )

    def compare(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the mean share of common neighbours, NaN where a side has no neighbours to speak of.

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
        return len(common_neighbors(a, b)[0]) / len(a.keys)

    def chance(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return k / (n - 1), the expected share of common neighbours of random sets."""
        return a.n_neighbors / (a.n_samples - 1) if self._has_free_side(a, b) else math.nan


class JaccardKNN(NeighborIndex):
    """Jaccard similarity of neighbour sets: common neighbours over all neighbours of a row, averaged over rows.

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
        Expected value under a random permutation of the rows of one side: the mean of m / (2k - m), where m has the
        hypergeometric distribution of the overlap of two random sets of k out of n - 1. NaN where on both sides ties
        decide a set.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    Notes
    -----
    As of :class:`MutualKNN`, ties, arithmetic and the meaning of :meth:`score` included. One minus the index is a
    metric, as the Jaccard distance is.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329, section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import JaccardKNN
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> index = JaccardKNN(10).fit(X, y)
    >>> round(index.similarity_, 4), round(index.chance_, 4)
    (0.4918, 0.1527)
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
            metric="1 - s",
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Schumacher et al. 2021, ECML PKDD",
        )

    def compare(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the mean Jaccard similarity of neighbour sets, NaN where a side has no neighbours to speak of.

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
        overlap = np.bincount(common_neighbors(a, b)[0], minlength=a.n_samples)
        return float((overlap / (2 * a.n_neighbors - overlap)).mean())

    def chance(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the expected Jaccard similarity of two random sets of k out of n - 1 rows."""
        if not self._has_free_side(a, b):
            return math.nan
        overlap, probability = overlap_distribution(a.n_samples, a.n_neighbors)
        return float((probability * overlap / (2 * a.n_neighbors - overlap)).sum())


class CycleKNN(NeighborIndex):
    """Cycle consistency: the share of rows to which a step to a neighbour in y and one in X can lead back.

    A row i counts if, for some j among its neighbours by y, it is itself among the neighbours of j by X.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of neighbours of each row, itself excluded; less than the number of rows.
    metric : str or callable, default="euclidean"
        Distance between rows, as in :class:`MutualKNN`.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [0, 1]. Exchanging the sides changes it unless k = 1, and a
        representation with itself need not give 1: rows that are nobody's neighbours do not count.
    chance_ : float
        Expected value under a random permutation of the rows of one side: a row that is a neighbour of d others by X
        is missed by k random rows with probability C(n-1-d, k) / C(n-1, k). NaN where on both sides ties decide a
        set.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    Notes
    -----
    As of :class:`MutualKNN`, ties and :meth:`score` included. The order of the steps is that of the authors' code.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CycleKNN
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> y = X + 0.5 * np.random.default_rng(1).standard_normal((40, 3))
    >>> index = CycleKNN(2).fit(X, y)
    >>> round(index.similarity_, 4), round(index.chance_, 4)
    (0.6, 0.1002)
    """

    def __init__(self, n_neighbors: int = 5, *, metric: Metric = "euclidean") -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=self.n_neighbors == 1,  # then every cycle has one row on either side
            invariances=self._invariances(),
            self_similarity=None,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q)",
            reference="Huh, Cheung, Wang & Isola 2024, ICML",
        )

    def compare(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the share of rows on a cycle of two steps, NaN where a side has no neighbours to speak of.

        Parameters
        ----------
        a, b : NeighborTable
            Neighbours of the same rows; the first step is one of `b`, the second one of `a`.

        Returns
        -------
        similarity : float
            In [0, 1].
        """
        if not self._are_defined(a, b):
            return math.nan
        leads_back = np.isin(b.keys, a.reverse_keys).reshape(b.indices.shape)
        return float(leads_back.any(axis=1).mean())

    def chance(self, a: NeighborTable, b: NeighborTable) -> float:
        """Return the expected share of rows that k random rows lead back to."""
        if not self._has_free_side(a, b):
            return math.nan
        n, k = a.n_samples, a.n_neighbors
        missed = np.exp(log_choose(n - 1 - a.in_degrees, k) - log_choose(np.array(n - 1), k))
        return float(1.0 - missed.mean())


def mutual_knn(X: Array, Y: Array, *, n_neighbors: int = 5, metric: Metric = "euclidean") -> float:
    """Compute the mean share of neighbours that a row has in both representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric
        As in :class:`MutualKNN`.

    Returns
    -------
    similarity : float
        In [0, 1]; n_neighbors / (n_samples - 1) by chance, 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are not more rows than `n_neighbors`, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix A.

    Examples
    --------
    >>> from sklearn_cka import mutual_knn
    >>> mutual_knn([[0.0], [1.0], [3.0], [6.0]], [[0.0], [2.0], [3.0], [7.0]], n_neighbors=1)
    0.75
    """
    return MutualKNN(n_neighbors, metric=metric).similarity(X, Y)


def jaccard_knn(X: Array, Y: Array, *, n_neighbors: int = 5, metric: Metric = "euclidean") -> float:
    """Compute the mean Jaccard similarity of the neighbour sets of a row in both representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric
        As in :class:`JaccardKNN`.

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
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329, section 3.4.

    Examples
    --------
    >>> from sklearn_cka import jaccard_knn
    >>> jaccard_knn([[0.0], [1.0], [3.0], [6.0]], [[0.0], [2.0], [3.0], [7.0]], n_neighbors=1)
    0.75
    """
    return JaccardKNN(n_neighbors, metric=metric).similarity(X, Y)


def cycle_knn(X: Array, Y: Array, *, n_neighbors: int = 5, metric: Metric = "euclidean") -> float:
    """Compute the share of rows to which a step to a neighbour in Y and one in X can lead back.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    n_neighbors, metric
        As in :class:`CycleKNN`.

    Returns
    -------
    similarity : float
        In [0, 1].

    Raises
    ------
    ValueError
        If the data break the input contract, there are not more rows than `n_neighbors`, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If all rows of a side are at distance 0: the value is NaN.
    DegenerateSimilarityWarning
        If on both sides ties decide the neighbours of at least half of the rows.
    ChanceLevelWarning
        If most of the value is expected by chance, as with few rows for that many neighbours.

    References
    ----------
    Huh, Cheung, Wang & Isola (2024), "The Platonic Representation Hypothesis", ICML, appendix B.

    Examples
    --------
    >>> from sklearn_cka import cycle_knn
    >>> X, Y = [[0.0], [1.0], [3.0], [6.0], [10.0], [15.0]], [[0.0], [2.0], [3.0], [7.0], [8.0], [15.0]]
    >>> cycle_knn(X, Y, n_neighbors=1)
    0.5
    """
    return CycleKNN(n_neighbors, metric=metric).similarity(X, Y)
