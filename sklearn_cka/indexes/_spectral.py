"""The spectral (map) family: indexes that are functions of two thin SVDs and the product of their bases.

With ``Xc = U_x diag(s_x) V_x'`` and ``M = U_x' U_y``, every member is a function of (s_x, M, s_y): one thin SVD for
each representation, one small product for each pair. Members learn a map, too: ``fit`` learns column means and map,
``transform`` takes X into the space in which both sides are aligned, ``score`` is the quality of the map on the rows
given: the index itself on the training rows, the cross-validated index on others.

Row weights w count repetitions: the SVD is that of the centred rows times the root of their weight, which has the
singular values, the loadings V and the product M of the repeated rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_cka import _arrays, _linalg, _sklearn, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import (
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    SimilarityWarning,
    UndefinedSimilarityWarning,
    warn,
)
from sklearn_cka.indexes._linear_map import LinearMap
from sklearn_cka.indexes._partial import PartialFitMixin
from sklearn_cka.indexes._properties import is_mostly_chance
from sklearn_cka.indexes._weighted import WeightedIndex

# Columns of bases that are stacked for one product.
_PANEL_COLUMNS = 1_024


@dataclass(frozen=True, eq=False)
class SpectralEmbedding:
    """The thin SVD of one centred representation: ``Xc = basis @ diag(spectrum) @ loadings.T * 2**exponent``.

    Attributes
    ----------
    basis : array of shape (n_samples, rank)
        Orthonormal columns U; rows of weight w are multiplied by its root.
    spectrum : array of shape (rank,)
        Singular values s in float64, descending.
    loadings : array of shape (n_features, rank) or None
        Orthonormal columns V; None where only the basis was asked for.
    mean : array of shape (n_features,)
        Column means in float64, in the units of the data.
    exponent : int
        Binary exponent of the units of `spectrum`.
    n_samples : float
        Number of rows, repetitions counted.
    counts_rows : bool
        Whether weights, if there are any, are whole numbers, so that they count rows.
    """

    basis: Array
    spectrum: Array
    loadings: Array
    mean: Array
    exponent: int
    n_samples: float
    counts_rows: bool = True

    @property
    def rank(self) -> int:
        """Number of dimensions that vary, 0 for a constant representation."""
        return int(self.spectrum.shape[0])

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of the centred data, in units of ``2**exponent``."""
        return math.sqrt(_linalg.sum_of_squares(self.spectrum))

    @property
    def relative(self) -> Array:
        """Singular values divided by the norm of the centred data, in float64."""
        return self.spectrum / self.norm

    @property
    def tolerance(self) -> float:
        """Size of the rounding in a sum of squared products of unit vectors."""
        return (64.0 + 8.0 * math.sqrt(self.basis.shape[0])) * _arrays.eps(self.basis)

    def leading(self, k: int) -> SpectralEmbedding:
        """Return the embedding of the k leading components alone."""
        if k >= self.rank:
            return self
        loadings = None if self.loadings is None else self.loadings[:, :k]
        return replace(self, basis=self.basis[:, :k], spectrum=self.spectrum[:k], loadings=loadings)


def embed_representation(X: Array, weights: Array | None, *, loadings: bool) -> SpectralEmbedding:
    """Return the thin SVD of the (weighted) centred data, without V unless it is free or asked for."""
    xp = _arrays.namespace(X)
    n = X.shape[0]
    centered = _linalg.center(X, weights)
    total, counts_rows = float(n), True
    values = centered.values
    if weights is not None:
        values = values * xp.astype(xp.sqrt(weights), values.dtype)[:, None]
        total = max(total, float(xp.sum(weights)))
        counts_rows = bool(xp.all(xp.round(weights) == weights))
    # The noise of the SVD, and with it the rank, does not depend on how often the same rows are repeated.
    U, s, V = _linalg.thin_svd(values, right=loadings)
    return SpectralEmbedding(U, s, V, centered.mean, centered.exponent, total, counts_rows)


def cross_product(a: SpectralEmbedding, b: SpectralEmbedding) -> Array:
    """Return ``M = U_x' U_y``, shape (rank_x, rank_y)."""
    return _product(a.basis, b.basis)


def _product(left: Array, right: Array) -> Array:
    left, right = _arrays.same_precision(left, right)
    return _arrays.namespace(left).matrix_transpose(left) @ right


def weigh(M: Array, rows: Array | None, columns: Array | None = None) -> Array:
    """Return ``diag(rows) M diag(columns)`` in the precision of `M`, None for the identity."""
    xp = _arrays.namespace(M)
    if rows is not None:
        M = M * xp.astype(rows, M.dtype, copy=False)[:, None]
    return M if columns is None else M * xp.astype(columns, M.dtype, copy=False)[None, :]


def root_weighted(Z: Array, weights: Array | None) -> Array:
    """Return `Z` with every row multiplied by the root of its weight."""
    if weights is None:
        return Z
    xp = _arrays.namespace(Z)
    return Z * xp.astype(xp.sqrt(weights), Z.dtype)[:, None]


class SpectralIndex(PartialFitMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, WeightedIndex):
    """Base class of the spectral family: subclasses turn (s_x, M, s_y) into a value and into maps of both sides."""

    family = "spectral"
    #: Whether :meth:`from_cross` needs the loadings V.
    _uses_loadings = False

    @abstractmethod
    def from_cross(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, neither of rank 0, from the product ``M = U_x' U_y`` of their bases."""

    @abstractmethod
    def _learn_maps(self, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[LinearMap, LinearMap]:
        """Return the maps of X and of y into the aligned space, and set the fitted attributes that go with them."""

    @abstractmethod
    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return the quality of the learned maps on checked rows, NaN where undefined."""

    def embed(self, X: Array, sample_weight: Array | None = None) -> SpectralEmbedding:
        """Return the thin SVD of one representation, centred and cut to its effective rank.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : SpectralEmbedding
            Basis, singular values and, where they cost nothing or the index needs them, loadings.
        """
        return self._embed(X, sample_weight, loadings=self._uses_loadings)

    def _embed(self, X: Array, weights: Array | None, *, loadings: bool) -> SpectralEmbedding:
        return self._truncate(embed_representation(X, weights, loadings=loadings))

    def _truncate(self, embedding: SpectralEmbedding) -> SpectralEmbedding:
        """Return what the index keeps of an embedding of the whole effective rank."""
        return embedding

    def _embed_pair(self, X: Array, y: Array, weights: Array | None) -> tuple[Any, Any]:
        return self._embed(X, weights, loadings=True), self._embed(y, weights, loadings=True)

    def _similarity(self, X: Array, y: Array, sample_weight: Array | None) -> float:
        self._check_params()
        X, y, weights = self._check_data(X, y, sample_weight)
        return self._judge(self.embed(X, weights), self.embed_y(y, weights))[0]

    def _match_precision(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Keep each side's precision, which decides its effective rank; the product of the bases has the wider one."""
        return X, y

    def compare(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, NaN where one is constant.

        Parameters
        ----------
        a, b : SpectralEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            The index.
        """
        return self.from_cross(cross_product(a, b), a, b) if a.rank and b.rank else math.nan

    def compare_all(self, a: list[SpectralEmbedding], b: list[SpectralEmbedding]) -> list[list[float]]:
        """Return the similarities of all pairs of embeddings from products of stacked bases.

        Parameters
        ----------
        a, b : list of SpectralEmbedding
            Rows and columns of the table; the same list twice computes each product once.

        Returns
        -------
        similarities : list of list of float
            One list a row.
        """
        same = b is a
        values = [[math.nan] * len(b) for _ in a]
        panels_a = _panels(a)
        panels_b = panels_a if same else _panels(b)
        for number, rows in enumerate(panels_a):
            left = _stack(a, rows)
            for columns in panels_b[number:] if same else panels_b:
                product = _product(left, left if same and columns is rows else _stack(b, columns))
                for i, part in rows:
                    for j, across in columns:
                        if same and j < i:
                            continue
                        M = product[part, across]
                        if same and j > i:
                            values[i][j], values[j][i] = self._both_ways(M, a[i], b[j])
                        else:
                            values[i][j] = self.from_cross(M, a[i], b[j])
        return values

    def _both_ways(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[float, float]:
        """Return the index of (a, b) and that of (b, a)."""
        value = self.from_cross(M, a, b)
        if self.properties.symmetric:
            return value, value
        return value, self.from_cross(_arrays.namespace(M).matrix_transpose(M), b, a)

    def diagnose(
        self, a: SpectralEmbedding, b: SpectralEmbedding, similarity: float, chance: float
    ) -> list[SimilarityWarning]:
        """Warn of an undefined value, and of one that so few rows make, wholly or mostly, whatever the data are."""
        found = super().diagnose(a, b, similarity, chance)
        if not found and self._is_degenerate(a, b):
            found.append(
                DegenerateSimilarityWarning(
                    f"{type(self).__name__} of representations of rank {a.rank} and {b.rank} over"
                    f" {a.n_samples:g} rows is high whether or not they are related: with so few rows some direction of"
                    " one side matches one of the other exactly. Use more rows or fewer dimensions, or score held-out"
                    " rows: fit(X_train, y_train).score(X_test, y_test)."
                )
            )
        elif not found and is_mostly_chance(similarity, chance):
            found.append(
                ChanceLevelWarning(
                    f"{type(self).__name__} is {similarity:.3f}, of which {chance:.3f} is expected without any"
                    f" correspondence between the {a.n_samples:g} rows; use more rows, or score held-out rows:"
                    " fit(X_train, y_train).score(X_test, y_test)."
                )
            )
        return found

    def _is_degenerate(self, a: SpectralEmbedding, b: SpectralEmbedding) -> bool:
        """Whether a perfect match is forced by the number of rows."""
        return False

    def _undefined(self, a: SpectralEmbedding, b: SpectralEmbedding) -> str:
        sides = [name for name, side in (("X", a), ("y", b)) if not side.rank]
        return f"{' and '.join(sides) or 'one side'} is constant over the rows"

    def _learn(self, a: SpectralEmbedding, b: SpectralEmbedding) -> None:
        self.x_mean_, self.y_mean_ = a.mean, b.mean
        self._x_map, self._y_map = self._learn_maps(a, b)

    def _evaluate(self, X: Array, y: Array, weights: Array | None) -> float:
        self._check_place(X, "score")
        value = self._held_out(X, y, weights)
        if math.isnan(value):
            message = "a side, or what the map makes of it, is constant over the rows of fit or over those given"
            warn(UndefinedSimilarityWarning(f"The score of {type(self).__name__} is undefined (0/0): {message}."))
        return value

    @property
    def _n_features_out(self) -> int:
        return self._x_map.n_features_out

    def transform(self, X: Array) -> Array:
        """Return `X` in the space in which fit aligned both representations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the first representation.

        Returns
        -------
        X_aligned : array of shape (n_samples, n_features_out)
            In the array library of `X`; columns have mean 0 over the training rows.

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
        return self._x_map.apply(X)

    def transform_y(self, y: Array) -> Array:
        """Return the second representation in the space in which fit aligned both.

        Parameters
        ----------
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Rows of the second representation.

        Returns
        -------
        y_aligned : array of shape (n_samples, n_features_out)
            In the array library of `y`; columns have mean 0 over the training rows.

        Raises
        ------
        ValueError
            If the number of columns is not that of fit, an entry is not finite, or the data are in another array
            library or on another device than those of fit.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        """
        check_is_fitted(self)
        y = _validation.check_matrix(y, "y", min_samples=1, required_by=type(self).__name__, column=True)
        if y.shape[1] != self.n_features_y_in_:
            raise ValueError(
                f"y has {y.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_y_in_} features"
                " as in fit."
            )
        self._check_place(y, "transform_y")
        return self._y_map.apply(y)

    def _check_place(self, X: Array, method: str) -> None:
        """Raise ValueError unless `X` lies where the learned maps do."""
        if not _arrays.same_place(X, self.x_mean_):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device as"
                f" those passed to fit(): got {_arrays.describe_type(X)} on {_arrays.device(X)}, fitted on"
                f" {_arrays.describe_type(self.x_mean_)} on {_arrays.device(self.x_mean_)}."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def chance_of_squares(a: SpectralEmbedding, b: SpectralEmbedding) -> float:
    """Return the mean of every squared entry of M over all row permutations of one side, ``1/(n - 1)``.

    Columns of both bases are unit vectors orthogonal to the constant one. NaN for weights that do not count rows.
    """
    return 1.0 / (a.n_samples - 1.0) if a.counts_rows and a.rank and b.rank else math.nan


def _panels(embeddings: list[SpectralEmbedding]) -> list[list[tuple[int, slice]]]:
    """Return groups of (position, columns in the stack) of the embeddings that are not constant."""
    panels: list[list[tuple[int, slice]]] = []
    width = _PANEL_COLUMNS
    for position, embedding in enumerate(embeddings):
        if not embedding.rank:
            continue
        if width + embedding.rank > _PANEL_COLUMNS:
            panels.append([])
            width = 0
        panels[-1].append((position, slice(width, width + embedding.rank)))
        width += embedding.rank
    return panels


def _stack(embeddings: list[SpectralEmbedding], panel: list[tuple[int, slice]]) -> Array:
    """Return the bases of a panel side by side, in the widest of their precisions."""
    bases = [embeddings[position].basis for position, _ in panel]
    if len(bases) == 1:
        return bases[0]
    xp = _arrays.namespace(bases[0])
    if any(basis.dtype != bases[0].dtype for basis in bases):
        bases = [xp.astype(basis, xp.float64, copy=False) for basis in bases]
    return xp.concat(bases, axis=1)
