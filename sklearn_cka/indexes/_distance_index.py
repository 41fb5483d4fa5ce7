"""Indexes that the literature defines as a distance d: their similarity is -d, so that higher is more similar."""

from __future__ import annotations

import math

from sklearn_cka.indexes._base import BaseIndex

#: The metric form of such an index, by which it is declared.
NEGATED = "-s"


class DistanceIndex(BaseIndex):
    """Base class of indexes whose similarity is the negative of a distance; :meth:`distance` returns the distance."""

    def to_distance(self, similarity: float) -> float:
        """Turn a similarity into the distance whose negative it is.

        Parameters
        ----------
        similarity : float
            A value of the index.

        Returns
        -------
        distance : float
            At least 0; NaN for NaN.
        """
        return similarity if math.isnan(similarity) else max(0.0, -similarity)


def negated(distance: float) -> float:
    """Return ``-distance``, 0.0 rather than -0.0 for no distance."""
    return 0.0 - distance
