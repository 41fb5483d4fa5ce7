"""`partial_fit`: indexes that learn from batches of rows, exactly.

What an index needs of many rows are the sums of :mod:`sklearn_cka._moments`. From them come embeddings that the
index takes for those of all rows: inner products of centred Gram matrices of the linear kernel, or, for the spectral
family, few rows with the same second moments.

    tr(KHLH) = ||S_xy||_F^2
    <U(K), U(L)> = ||S_xy||_F^2 - n/(n - 2) d_x.d_y + (sum d_x)(sum d_y) / ((n - 1)(n - 2))
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sklearn.utils.metaestimators import available_if

from sklearn_cka import _arrays, _backends, _linalg, _sklearn, _validation
from sklearn_cka._arrays import Array
from sklearn_cka._moments import RowMoments
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._gram import GramEmbedding

__all__ = [
    "PartialFitMixin",
    "StreamedGram",
    "drop_unweighted",
    "embed_moments",
    "enough_rows",
    "make_moments",
    "why_not",
]

# Inner products of a U-centred matrix with itself below this many units in the last place of its terms are rounding.
_ROUNDING_ULPS = 8.0
# Singular values come as roots of eigenvalues: below the root of this many units in the last place they are rounding.
_ROOT_ULPS = 16.0
#: What is computed from the sums when it is first asked for, besides the public attributes.
_LEARNED = frozenset({"_x_map", "_y_map", "_weights", "_penalty_x", "_penalty_y", "_x_turn", "_y_turn", "_x_stretch"})


class StreamedGram(GramEmbedding):
    """The centred Gram matrix of one layer, linear kernel, of which nothing is known but sums over its rows."""

    def __init__(self, moments: RowMoments, layer: int, *, debiased: bool) -> None:
        exponent = 2 * moments.exponents[layer]
        super().__init__(moments.n_rows, exponent=exponent, debiased=debiased)
        self.sums, self.layer = moments, layer
        self.weights = moments.total if moments.is_weighted else None
        self.__dict__["eps"] = moments.eps[layer]
        self.__dict__["total"] = moments.total

    def inner(self, other: GramEmbedding, form: str) -> float:
        """Return the inner product with another layer of the same sums, whatever the form."""
        assert isinstance(other, StreamedGram)
        total = _linalg.sum_of_squares(self.sums.block(self.layer, other.layer))
        return total - self.feature_correction(other) if self.debiased else total

    def feature_correction(self, other: GramEmbedding) -> float:
        """Return what the squared norm of X'Y holds beyond the inner product of the U-centred matrices."""
        assert isinstance(other, StreamedGram)
        n = self.total
        both = float(self.sums.squares[self.layer, other.layer])
        traces = self.sums.trace(self.layer) * self.sums.trace(other.layer)
        return n / (n - 2.0) * both - traces / ((n - 1.0) * (n - 2.0))

    def remember_self_inner(self, form: str, value: float) -> None:
        """Keep an inner product with itself, 0 if it is rounding."""
        if self.debiased and value <= _ROUNDING_ULPS * self.eps * abs(self.feature_correction(self)):
            value = 0.0
        self._self_inner[form] = value

    @property
    def trace(self) -> float:  # type: ignore[override]
        """Trace of the centred matrix."""
        return 0.0 if self.debiased else self.sums.trace(self.layer)

    def moments(self, form: str) -> tuple[float, float, float]:
        """Return trace and squared norm of the centred matrix; the squares of its diagonal are not kept (NaN)."""
        return self.trace, self.self_inner(form), math.nan


def gram_embeddings(moments: RowMoments, *, debiased: bool) -> list[StreamedGram]:
    """Return the embedding of every layer for the Gram family."""
    return [StreamedGram(moments, layer, debiased=debiased) for layer in range(len(moments.widths))]


def spectral_embeddings(moments: RowMoments, index: Any) -> list[Any]:
    """Return the embedding of every layer for an index of the spectral family."""
    from sklearn_cka.indexes._spectral import embed_representation

    made = []
    for layer, rows in enumerate(moments.representative_rows()):
        embedding = embed_representation(rows, None, loadings=True)
        if moments.trace(layer) == 0.0:
            embedding = embedding.leading(0)
        if embedding.rank:
            width = moments.widths[layer]
            # The rank that a decomposition of all rows would find, unless the squares have lost it.
            lost = math.sqrt(_ROOT_ULPS * sum(moments.widths) * _arrays.eps(rows))
            cut = max(max(moments.n_rows, width) * moments.eps[layer], lost)
            rank = _arrays.count(embedding.spectrum > cut * float(embedding.spectrum[0]))
            embedding = embedding.leading(max(rank, 1))
        embedding = replace(
            embedding,
            mean=moments.mean(layer),
            exponent=embedding.exponent + moments.exponents[layer],
            n_samples=moments.total,
            counts_rows=moments.counts_rows,
        )
        made.append(index._truncate(embedding))
    return made


def make_moments(index: Any, widths: list[int]) -> RowMoments:
    """Return empty sums of the kind that an index needs.

    Raises
    ------
    ValueError
        If the index cannot be computed from sums over rows.
    """
    reason = why_not(index)
    if reason:
        raise ValueError(reason)
    debiased = bool(getattr(index, "debiased", False))
    return RowMoments(widths, fourth=debiased, exact=index.family == "spectral")


def why_not(index: Any) -> str | None:
    """Say why an index cannot be computed from batches of rows and what to do instead; None where it can."""
    name = type(index).__name__
    if not hasattr(type(index), "_embed_moments"):
        return (
            f"{name} cannot be computed exactly from batches of rows; give all rows to fit or compare_layers, or take"
            " an index that can: HSIC and CKA with the linear kernel, and the indexes of the spectral family."
        )
    if index.family != "spectral" and not index.is_linear:
        kernel = getattr(index, "kernel", None)
        return (
            f"{name} with kernel={kernel!r} needs all pairs of rows, so that it cannot be computed exactly from batches"
            ' of rows: use kernel="linear" on features of a fixed map (such as those of'
            " sklearn.kernel_approximation.Nystroem, fitted beforehand), or give all rows to fit."
        )
    return None


def embed_moments(index: Any, moments: RowMoments) -> list[Any]:
    """Return the embeddings of all layers from the sums over their rows."""
    moments.settle()
    if index.family == "spectral":
        return spectral_embeddings(moments, index)
    return list(gram_embeddings(moments, debiased=bool(index.debiased)))


def _can_stream(index: Any) -> bool:
    if index.family == "spectral" or index.is_linear:
        return True
    raise AttributeError(why_not(index))


class PartialFitMixin:
    """Adds `partial_fit` to an index that depends on its rows through their centred second moments alone."""

    #: Marks the indexes whose embeddings come from sums over rows.
    _embed_moments = staticmethod(embed_moments)

    @available_if(_can_stream)
    def partial_fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Any:
        """Learn from one more batch of rows; after all batches the index is what :meth:`fit` makes of all rows.

        The result does not depend on the size or the order of the batches beyond rounding, and memory does not grow
        with their number. Fitted attributes are computed when they are asked for. :meth:`fit` forgets all batches,
        and the first batch after it starts afresh.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Further rows of the first representation; one row is enough.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            The same rows of the second representation.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        self : object
            The index, fitted to all batches so far.

        Raises
        ------
        ValueError
            If a parameter is not valid, the batch breaks the input contract, or its features are not those of the
            batches before.
        AttributeError
            If the kernel is not linear: such an index needs all pairs of rows.

        Warns
        -----
        UndefinedSimilarityWarning
            When `similarity_` is read before there are enough rows: the value is NaN.
        """
        self._partial_fit(X, y, sample_weight)
        return self

    def _partial_fit(self: Any, X: Array, y: Array, sample_weight: Array | None) -> None:
        self._check_params()
        state = self.__dict__
        first = "_moments" not in state
        if not first and getattr(X, "ndim", 2) == 2:
            _sklearn.check_features(self, X, reset=False)
        X_checked, y_checked, weights = self._check_batch(X, y, sample_weight)
        width = int(y_checked.shape[1])
        if first:
            _sklearn.check_features(self, X, reset=True)
            moments = make_moments(self, [int(X_checked.shape[1]), width])
            self.n_features_y_in_ = width
        else:
            moments = state["_moments"]
            self._check_batch_fits(moments, X_checked, width)
        with _backends.product_precision(X_checked):
            moments.add([X_checked, y_checked], weights)
        for name in [name for name in state if _is_learned(name)]:
            del state[name]
        self._moments = moments

    def _check_batch(self: Any, X: Array, y: Array, sample_weight: Array | None) -> tuple[Array, Array, Array | None]:
        """Check a batch as fit checks all rows, but for their number and the sum of their weights."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        name = f"{type(self).__name__}.partial_fit"
        X_checked = _backends.move(_validation.check_matrix(X, "X", required_by=name))
        y_checked = _validation.check_matrix(y, "y", required_by=name, column=True)
        _validation.check_same_rows(X_checked, y_checked)
        labels = _validation.row_labels(X)
        _validation.check_row_labels(labels, _validation.row_labels(y), "X", "y")
        y_checked = _arrays.like(y_checked, X_checked)
        X_checked, y_checked = self._match_precision(X_checked, y_checked)
        self._check_widths(X_checked, y_checked, "X", "y")
        if sample_weight is None:
            return X_checked, y_checked, None
        _validation.check_row_labels(labels, _validation.row_labels(sample_weight), "X", "sample_weight")
        weights = _validation.check_weights(sample_weight, X_checked)
        return drop_unweighted(X_checked, y_checked, weights=weights, debiased=bool(getattr(self, "debiased", False)))

    def _check_batch_fits(self: Any, moments: RowMoments, X: Array, width: int) -> None:
        if width != self.n_features_y_in_:
            raise ValueError(
                f"y has {width} features, but {type(self).__name__} is expecting {self.n_features_y_in_} features as"
                " in the batches before."
            )
        if not _arrays.same_place(X, moments.scatter):
            raise ValueError(
                f"Batches of {type(self).__name__}.partial_fit must use the same namespace and the same device: got"
                f" {_arrays.describe_type(X)} on {_arrays.device(X)} after"
                f" {_arrays.describe_type(moments.scatter)} on {_arrays.device(moments.scatter)}."
            )

    def _fit(self: Any, X: Array, y: Array, sample_weight: Array | None) -> Any:
        self.__dict__.pop("_moments", None)
        return super()._fit(X, y, sample_weight)  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        if _is_learned(name) and "_moments" in self.__dict__ and "similarity_" not in self.__dict__:
            self._finish()
            if name in self.__dict__:
                return self.__dict__[name]
        if name == "partial_fit":
            raise AttributeError(why_not(self))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _finish(self: Any) -> None:
        """Compute the fitted attributes from the sums over all batches."""
        a, b = embed_moments(self, self._moments)
        if enough_rows(self, self._moments):
            similarity, chance = self._judge(a, b)
        else:
            minimum, required_by = self._required_samples()
            warn(
                UndefinedSimilarityWarning(
                    f"{self._moments.total:g} row(s) so far, while a minimum of {minimum} is required by {required_by}."
                )
            )
            similarity = chance = math.nan
        self._learn(a, b)
        self.similarity_, self.chance_ = similarity, chance


def enough_rows(index: Any, moments: RowMoments) -> bool:
    """Whether there are as many rows as the index needs."""
    minimum = index._required_samples()[0]
    return moments.n_rows >= minimum and moments.total > minimum - 1


def drop_unweighted(*arrays: Array, weights: Array, debiased: bool) -> tuple[Any, ...]:
    """Return arrays and weights without the rows of weight zero.

    Raises
    ------
    ValueError
        If a weight does not count rows where the estimate needs that.
    """
    xp = _arrays.namespace(weights)
    kept = weights > 0
    if not bool(xp.all(kept)):
        rows = xp.nonzero(kept)[0]
        arrays = tuple(xp.take(array, rows, axis=0) for array in arrays)
        weights = xp.take(weights, rows, axis=0)
    if debiased and float(xp.min(weights)) < 1.0:
        raise ValueError(
            "sample_weight counts repetitions of rows for a debiased estimate: every weight must be 0 or at least 1;"
            f" got a smallest of {float(xp.min(weights)):g}."
        )
    return (*arrays, weights)


def _is_learned(name: str) -> bool:
    """Whether an attribute is computed from the sums, rather than known with the first batch."""
    if name in _LEARNED:
        return True
    public = name.endswith("_") and not name.startswith("_")
    return public and name not in ("n_features_in_", "n_features_y_in_", "feature_names_in_")
