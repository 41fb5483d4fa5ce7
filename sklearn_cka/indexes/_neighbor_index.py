"""What the neighbour family shares as estimators: its parameters, its embedding, and what ties do to it."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import ChanceLevelWarning, DegenerateSimilarityWarning, SimilarityWarning
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._neighbor_tables import (
    Metric,
    NeighborTable,
    check_metric,
    check_n_neighbors,
    metric_invariances,
    neighbor_table,
)
from sklearn_cka.indexes._properties import is_mostly_chance

# From this share of rows on, neighbours decided by row index on both sides make the value worthless.
_MANY_TIES = 0.5


class NeighborIndex(BaseIndex):
    """Base class of the neighbour family: subclasses compare the neighbour tables of two representations."""

    family = "neighbors"
    n_neighbors: int
    metric: Metric

    def embed(self, X: Array) -> NeighborTable:
        """Find the nearest neighbours of every row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64; more rows than `n_neighbors`.

        Returns
        -------
        embedding : NeighborTable
            Indices of the neighbours, the nearest first, on the host.
        """
        return neighbor_table(X, int(self.n_neighbors), self.metric)

    def _check_params(self) -> None:
        check_n_neighbors(self.n_neighbors)
        check_metric(self.metric)

    def _required_samples(self) -> tuple[int, str]:
        n_neighbors = int(self.n_neighbors)
        return n_neighbors + 1, f"{type(self).__name__} with n_neighbors={n_neighbors}, that many beside the row itself"

    def _invariances(self) -> frozenset[str] | None:
        return metric_invariances(self.metric)

    def _are_defined(self, a: NeighborTable, b: NeighborTable) -> bool:
        """Whether both representations have neighbours."""
        return not (a.is_constant or b.is_constant)

    def _has_free_side(self, a: NeighborTable, b: NeighborTable) -> bool:
        """Whether ties decide nothing on at least one side: a random permutation of its rows has known moments."""
        return self._are_defined(a, b) and min(self._ties(a), self._ties(b)) == 0.0

    def _ties(self, table: NeighborTable) -> float:
        """Return the share of rows of which row indices decide what the index looks at."""
        return table.set_ties

    def diagnose(self, a: NeighborTable, b: NeighborTable, similarity: float, chance: float) -> list[SimilarityWarning]:
        """Warn of an undefined value, of neighbours that row indices decide, and of a value that is mostly chance."""
        found = super().diagnose(a, b, similarity, chance)
        shares = self._ties(a), self._ties(b)
        if not math.isnan(similarity) and min(shares) >= _MANY_TIES:
            found.append(
                DegenerateSimilarityWarning(
                    f"{type(self).__name__} compares neighbours that row indices decide: {shares[0]:.0%} and"
                    f" {shares[1]:.0%} of the rows have others as near as their last neighbour, as where rows repeat or"
                    " take few values. Use other n_neighbors or another metric, or leave out repeated rows."
                )
            )
        if is_mostly_chance(similarity, chance):
            found.append(
                ChanceLevelWarning(
                    f"{type(self).__name__} is {similarity:.3f}, of which {chance:.3f} is expected without any"
                    f" correspondence between the {a.n_samples} rows; use more rows or fewer n_neighbors than"
                    f" {a.n_neighbors}."
                )
            )
        return found

    def _undefined(self, a: NeighborTable, b: NeighborTable) -> str:
        sides = " and ".join(name for name, side in (("X", a), ("y", b)) if side.is_constant)
        return f"all rows of {sides} are at distance 0 by metric={self.metric!r}, so that none is nearer than another"


def overlap_distribution(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the possible sizes of the overlap of two sets of k out of n - 1 rows, and their probabilities."""
    overlap = np.arange(max(0, 2 * k - (n - 1)), k + 1)
    return overlap, stats.hypergeom.pmf(overlap, n - 1, k, k)


def log_choose(n: np.ndarray, k: int) -> np.ndarray:
    """Return the logarithm of the binomial coefficient, -inf for n < k."""
    possible = np.maximum(n, k)
    logarithm = special.gammaln(possible + 1) - special.gammaln(possible - k + 1) - special.gammaln(k + 1)
    return np.where(n >= k, logarithm, -np.inf)
