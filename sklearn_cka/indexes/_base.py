"""The protocol of every similarity index: embed each representation once, compare embeddings often.

An index of your own needs two methods, ``embed(X)`` and ``compare(a, b)``; fitting, scoring, validation, layer
tables and the common checks are built on them::

    class MeanDirection(BaseIndex):
        def embed(self, X):
            return X / (X**2).sum() ** 0.5

        def compare(self, a, b):
            return float((a * b).sum())
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_cka import _arrays, _backends, _sklearn, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import SimilarityWarning, UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._properties import METRIC_FORMS, IndexProperties

__all__ = ["BaseIndex"]


class BaseIndex(BaseEstimator, metaclass=ABCMeta):
    """Base class of every similarity index.

    Subclasses define :meth:`embed` and :meth:`compare`, and declare what is true of them in :attr:`properties`.

    Attributes
    ----------
    similarity_ : float
        The index between the `X` and `y` given to :meth:`fit`; higher is more similar.
    chance_ : float
        Its expected value had the rows of `y` no correspondence to those of `X`; NaN where it has no closed form
        (:func:`~sklearn_cka.permutation_test` estimates it, as ``null_mean``).
    n_features_in_ : int
        Number of columns of `X`.
    n_features_y_in_ : int
        Number of columns of `y`.
    """

    #: What kind of embedding the index compares; base classes of a family name theirs.
    family: str = "other"
    #: The extra of this package that has to be installed to compute the index, None for most.
    extra: str | None = None

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties()

    @abstractmethod
    def embed(self, X: Array) -> Any:
        """Turn one validated representation into what comparisons need of it.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        embedding : object
            Anything that :meth:`compare` understands.
        """

    def embed_y(self, y: Array) -> Any:
        """Embed the second representation; the same as :meth:`embed` unless an index treats the sides differently."""
        return self.embed(y)

    @abstractmethod
    def compare(self, a: Any, b: Any) -> float:
        """Return the similarity of two embeddings, NaN where it is undefined."""

    def compare_all(self, a: list[Any], b: list[Any]) -> list[list[float]]:
        """Return the similarities of all pairs of embeddings, one list a row; families do it in one product."""
        return [[self.compare(left, right) for right in b] for left in a]

    @property
    def has_equal_sides(self) -> bool:
        """Whether both sides are embedded alike, so that one embedding serves as either."""
        return type(self).embed_y is BaseIndex.embed_y

    def chance(self, a: Any, b: Any) -> float:
        """Return the expected similarity under a random permutation of the rows of one side, NaN if unknown."""
        return math.nan

    def diagnose(self, a: Any, b: Any, similarity: float, chance: float) -> list[SimilarityWarning]:
        """Return what a user should know about the meaning of a value, as warnings not yet issued."""
        if math.isnan(similarity):
            return [UndefinedSimilarityWarning(f"{type(self).__name__} is undefined (0/0): {self._undefined(a, b)}.")]
        return []

    def fit(self, X: Array, y: Array) -> BaseIndex:
        """Learn from two representations of the same rows, and compute their similarity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows in the same order; one dimension is one column.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If a parameter is not valid or the data break the input contract: row counts, labels or order of rows
            that differ, NaN or infinity, too few rows.
        """
        return self._fit(X, y, None)

    def score(self, X: Array, y: Array) -> float:
        """Return the index on the rows given, with what was learned by :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.

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
        return self._score(X, y, None)

    def similarity(self, X: Array, y: Array) -> float:
        """Return the index of two representations without fitting; what the functions of the package call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.

        Returns
        -------
        similarity : float
            The value that ``fit(X, y).similarity_`` would have.

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        return self._similarity(X, y, None)

    def to_distance(self, similarity: float) -> float:
        """Turn a similarity into the distance that :attr:`properties` names as its metric form.

        Parameters
        ----------
        similarity : float
            A value of the index.

        Returns
        -------
        distance : float
            0 for a representation with itself; NaN for NaN.

        Raises
        ------
        ValueError
            If the index has no metric form.
        """
        metric = self.properties.metric
        if metric not in METRIC_FORMS:
            raise ValueError(f"{self!r} has no distance form that is a metric.")
        return similarity if math.isnan(similarity) else METRIC_FORMS[metric](similarity)

    def distance(self, X: Array, y: Array) -> float:
        """Return the metric form of the index, a distance, without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.

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
        return self._distance(X, y, None)

    # The template. Families override the steps, not the sequence.

    def _fit(self, X: Array, y: Array, sample_weight: Array | None) -> Any:
        self._check_params()
        X_checked, y_checked, weights = self._check_data(X, y, sample_weight)
        _sklearn.check_features(self, X, reset=True)
        self.n_features_y_in_ = 1 if len(y_checked.shape) == 1 else int(y_checked.shape[1])
        with _backends.product_precision(X_checked):
            a, b = self._embed_pair(X_checked, y_checked, weights)
            self.similarity_, self.chance_ = self._judge(a, b)
            self._learn(a, b)
        return self

    def _score(self, X: Array, y: Array, sample_weight: Array | None) -> float:
        check_is_fitted(self)
        if getattr(X, "ndim", 2) == 2:  # anything else is refused by the next line, in other words
            _sklearn.check_features(self, X, reset=False)
        X_checked, y_checked, weights = self._check_data(X, y, sample_weight)
        width = 1 if len(y_checked.shape) == 1 else int(y_checked.shape[1])
        if width != self.n_features_y_in_:
            raise ValueError(
                f"y has {width} features, but {type(self).__name__} is expecting {self.n_features_y_in_} features as"
                " in fit."
            )
        with _backends.product_precision(X_checked):
            return self._evaluate(X_checked, y_checked, weights)

    def _distance(self, X: Array, y: Array, sample_weight: Array | None) -> float:
        self.to_distance(1.0)  # an index without one says so before it computes
        return self.to_distance(self._similarity(X, y, sample_weight))

    def _similarity(self, X: Array, y: Array, sample_weight: Array | None) -> float:
        self._check_params()
        X, y, weights = self._check_data(X, y, sample_weight)
        with _backends.product_precision(X):
            return self._judge(*self._embed_pair(X, y, weights))[0]

    def _evaluate(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return the index of checked rows with what was learned; indexes that learn nothing start afresh."""
        return self._judge(*self._embed_pair(X, y, weights))[0]

    def _embed_pair(self, X: Array, y: Array, weights: Array | None) -> tuple[Any, Any]:
        return self.embed(X), self.embed_y(y)

    def _learn(self, a: Any, b: Any) -> None:
        """Set the fitted attributes that go beyond the similarity."""

    def _judge(self, a: Any, b: Any) -> tuple[float, float]:
        """Return similarity and chance level, and warn of what a user should know about them."""
        similarity, chance = float(self.compare(a, b)), float(self.chance(a, b))
        for warning in self.diagnose(a, b, similarity, chance):
            warn(warning)
        return similarity, chance

    def _undefined(self, a: Any, b: Any) -> str:
        """Say why the value of two embeddings is undefined."""
        return "at least one representation is constant over the rows"

    def _check_params(self) -> None:
        """Raise ValueError if a parameter is not valid."""

    def _required_samples(self) -> tuple[int, str]:
        """Return the least number of rows, and who requires them."""
        return self.properties.min_samples, type(self).__name__

    def _check_data(self, X: Array, y: Array, sample_weight: Array | None) -> tuple[Array, Array, Array | None]:
        """Return both representations as checked arrays of one library, device and precision, and the weights."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        X_checked, y_checked = _backends.move(self._check_X(X, "X")), self._check_y(y, "y")
        _validation.check_same_rows(X_checked, y_checked)
        _validation.check_row_labels(_validation.row_labels(X), _validation.row_labels(y), "X", "y")
        y_checked = _arrays.like(y_checked, X_checked)
        X_checked, y_checked = self._match_precision(X_checked, y_checked)
        self._check_widths(X_checked, y_checked, "X", "y")
        if sample_weight is None:
            return X_checked, y_checked, None
        labels, weight_labels = _validation.row_labels(X), _validation.row_labels(sample_weight)
        _validation.check_row_labels(labels, weight_labels, "X", "sample_weight")
        weights = _validation.check_weights(sample_weight, X_checked)
        return self._check_weighted(X_checked, y_checked, weights)

    def _match_precision(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Return both representations as they are to be computed with; by default in the wider of their types."""
        return _arrays.same_precision(X, y)

    def _check_weighted(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array | None]:
        raise ValueError(f"{type(self).__name__} takes no sample_weight.")

    def _check_widths(self, X: Array, y: Array, X_name: str, y_name: str) -> None:
        """Raise ValueError if the index compares equal widths only and they differ."""
        if self.properties.equal_widths and tuple(X.shape[1:]) != tuple(y.shape[1:]):
            raise ValueError(
                f"{type(self).__name__} compares representations of equal width, but {X_name} has {X.shape[1]} features"
                f" and {y_name} has {y.shape[1]}."
            )

    def _check_X(self, X: Array, name: str) -> Array:
        minimum, required_by = self._required_samples()
        return _validation.check_matrix(X, name, min_samples=minimum, required_by=required_by)

    def _check_y(self, y: Array, name: str) -> Array:
        minimum, required_by = self._required_samples()
        return _validation.check_matrix(y, name, min_samples=minimum, required_by=required_by, column=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.array_api_support = True
        return tags
