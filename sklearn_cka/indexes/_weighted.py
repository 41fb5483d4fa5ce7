"""The protocol of indexes whose rows may be weighted: weights count repetitions of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sklearn_cka import _arrays, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._base import BaseIndex

__all__ = ["WeightedIndex"]


class WeightedIndex(BaseIndex):
    """Base class of indexes whose rows may be weighted; ``embed(X, sample_weight=None)`` takes the weights."""

    @abstractmethod
    def embed(self, X: Array, sample_weight: Array | None = None) -> Any:
        """Turn one validated representation, whose rows may be weighted, into what comparisons need of it."""

    def embed_y(self, y: Array, sample_weight: Array | None = None) -> Any:
        """Embed the second representation."""
        return self.embed(y, sample_weight)

    @property
    def has_equal_sides(self) -> bool:
        """Whether both sides are embedded alike, so that one embedding serves as either."""
        return type(self).embed_y is WeightedIndex.embed_y

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> WeightedIndex:
        """Learn from two representations of the same rows, and compute their similarity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows in the same order; one dimension is one column.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts: integer weights are the same as repeated rows.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If a parameter is not valid or the data break the input contract: row counts, labels or order of rows
            that differ, NaN or infinity, too few rows, negative weights.
        """
        return self._fit(X, y, sample_weight)

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return the index on the rows given, with what was learned by :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        similarity : float
            Higher is more similar.

        Raises
        ------
        ValueError
            If the data break the input contract.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        """
        return self._score(X, y, sample_weight)

    def similarity(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return the index of two representations without fitting; what the functions of the package call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        similarity : float
            The value that ``fit(X, y).similarity_`` would have.

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        return self._similarity(X, y, sample_weight)

    def distance(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Return the metric form of the index, a distance, without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        distance : float
            At least 0, 0 for equal representations (up to the root of rounding), and no longer than the way over
            any third representation.

        Raises
        ------
        ValueError
            If the index has no metric form (``properties.metric`` is None), or as :meth:`fit`.
        """
        return self._distance(X, y, sample_weight)

    def _embed_pair(self, X: Array, y: Array, weights: Array | None) -> tuple[Any, Any]:
        return self.embed(X, weights), self.embed_y(y, weights)

    def _check_weighted(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array | None]:
        """Leave out rows of weight zero, as if they had not been given."""
        xp = _arrays.namespace(X)
        kept = weights > 0
        if bool(xp.all(kept)):
            return X, y, weights
        rows = xp.nonzero(kept)[0]
        X, y, weights = (xp.take(array, rows, axis=0) for array in (X, y, weights))
        minimum, required_by = self._required_samples()
        if X.shape[0] < minimum:
            shape = tuple(X.shape)
            raise ValueError(
                _validation.too_few_samples(
                    "X", X.shape[0], shape, minimum, f"{required_by}, of positive sample_weight"
                )
            )
        return X, y, weights
