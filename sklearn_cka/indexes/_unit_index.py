"""What the unit-matching indexes with a map share as estimators: embedding, held-out score and transform."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_cka import _arrays, _linalg, _sklearn, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._units import UnitEmbedding, embed_units, gains, shifted_units
from sklearn_cka.indexes._weighted import WeightedIndex

INVARIANCES = frozenset({"translation", "isotropic_scaling", "permutation"})
# Products of long columns agree to this many units in the last place.
_ROUNDING_ULPS = 64.0


class UnitIndex(WeightedIndex):
    """Base class of the unit-matching family: subclasses match the units of two representations."""

    family = "units"
    #: Whether the units are scaled to length 1 before they are matched.
    _is_scaled = False

    def embed(self, X: Array, sample_weight: Array | None = None) -> UnitEmbedding:
        """Return the centred units of one representation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : UnitEmbedding
            Centred columns, scaled to length 1 where the index compares correlations.
        """
        return embed_units(X, sample_weight, scaled=self._is_scaled)

    @abstractmethod
    def _solve(self, gain: np.ndarray) -> Any:
        """Return the best matching for the inner products of the units of both sides."""

    def _matching(self, a: UnitEmbedding, b: UnitEmbedding) -> Any:
        """Return the best matching of two embeddings, and remember the last one of `a`."""
        solved = a.solved
        if solved is None or solved[0] is not b:
            solved = a.solved = b, self._solve(gains(a, b))
        return solved[1]

    def _undefined(self, a: UnitEmbedding, b: UnitEmbedding) -> str:
        sides = " and ".join(name for name, side in (("X", a), ("y", b)) if not side.varies.any())
        return f"{sides or 'one side'} is constant over the rows"

    @abstractmethod
    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return the quality of the learned matching on checked rows, NaN where undefined."""

    def _evaluate(self, X: Array, y: Array, weights: Array | None) -> float:
        self._check_place(X, "score")
        value = self._held_out(X, y, weights)
        if math.isnan(value):
            message = "the matched units of a side are constant over the rows of fit or over those given"
            warn(UndefinedSimilarityWarning(f"The score of {type(self).__name__} is undefined (0/0): {message}."))
        return value

    def _check_place(self, X: Array, method: str) -> None:
        """Raise ValueError unless `X` lies where the learned matching does."""
        if not _arrays.same_place(X, self.x_mean_):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device as"
                f" those passed to fit(): got {_arrays.describe_type(X)} on {_arrays.device(X)}, fitted on"
                f" {_arrays.describe_type(self.x_mean_)} on {_arrays.device(self.x_mean_)}."
            )

    def _learn(self, a: UnitEmbedding, b: UnitEmbedding) -> None:
        self.x_mean_, self.y_mean_ = a.mean, b.mean


class UnitMapIndex(ClassNamePrefixFeaturesOutMixin, TransformerMixin, UnitIndex):
    """Base class of the indexes whose matching is a linear map from the units of X to those of y."""

    _x_lengths: Array | None = None
    _y_lengths: Array | None = None

    @abstractmethod
    def _image(self, Z: Array) -> Array:
        """Return centred units of X moved to the units of y, shape (n_samples, n_features_y_in_)."""

    @abstractmethod
    def _rate(self, p: int, q: int) -> float:
        """Return the factor that makes the cosine of image and y the index."""

    def _cosine(self, inner: float, norm_x: float, norm_y: float, eps: float) -> float:
        if norm_x == 0.0 or norm_y == 0.0:
            return math.nan
        return _linalg.clip_rounding(inner / norm_x / norm_y, -1.0, 1.0, _ROUNDING_ULPS * eps)

    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        Z_x = shifted_units(X, self.x_mean_, self._x_lengths, weights)
        Z_y = shifted_units(y, self.y_mean_, self._y_lengths, weights)
        inner = _linalg.inner(self._image(Z_x), Z_y) * self._rate(Z_x.shape[1], Z_y.shape[1])
        norm_x, norm_y = (math.sqrt(_linalg.sum_of_squares(Z)) for Z in (Z_x, Z_y))
        return self._cosine(inner, norm_x, norm_y, _arrays.eps(Z_x))

    def _learn(self, a: UnitEmbedding, b: UnitEmbedding) -> None:
        super()._learn(a, b)
        self._x_lengths, self._y_lengths = a.lengths, b.lengths

    @property
    def _n_features_out(self) -> int:
        return self.n_features_y_in_

    def transform(self, X: Array) -> Array:
        """Return the units of `X`, less their means, in the places of the units of y with which they are matched.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the first representation.

        Returns
        -------
        X_aligned : array of shape (n_samples, n_features_y_in_)
            In the array library of `X` and in its units; columns have mean 0 over the training rows.

        Raises
        ------
        ValueError
            If the number or names of the features are not those of fit, an entry is not finite, or the data are in
            another array library or on another device than those of fit.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        """
        check_is_fitted(self)
        if getattr(X, "ndim", 2) == 2:  # anything else is refused by the next line, in other words
            _sklearn.check_features(self, X, reset=False)
        X = _validation.check_matrix(X, "X", min_samples=1, required_by=type(self).__name__)
        self._check_place(X, "transform")
        xp = _arrays.namespace(X)
        return xp.astype(self._image(xp.astype(X, xp.float64) - self.x_mean_[None, :]), X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
