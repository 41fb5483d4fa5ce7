"""Transformers on both sides of an index.

A :class:`~sklearn.pipeline.Pipeline` transforms X and never touches y. A similarity index compares two
representations of equal standing, so what is done to one (scaling, reduction to a few components) is usually to be
done to the other as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from sklearn_cka._arrays import is_array, namespace
from sklearn_cka._sklearn import check_features
from sklearn_cka._validation import check_same_rows
from sklearn_cka.indexes._registry import get_index

__all__ = ["PairedTransformer"]


def _index_has(method: str) -> Any:
    """Make a method available where the index has it, before and after fitting."""

    def check(self: PairedTransformer) -> bool:
        # The AttributeError of a missing method names the index.
        getattr(getattr(self, "index_", None) or get_index(self.index), method)
        return True

    return check


class PairedTransformer(BaseEstimator):
    """Transform X and y, each with its own fitted transformer, and compare what comes out.

    ``fit`` clones the transformer twice, fits one clone on X and the other on y, and fits a clone of the index on the
    two results. The transformers are fitted without a target: neither side sees the other before the comparison.

    Parameters
    ----------
    index : BaseIndex or str
        The index that compares the two transformed sides: an instance, whose parameters can be searched as
        ``index__bandwidth``, or a name of :func:`~sklearn_cka.index_names`.
    transformer : estimator or None
        The transformer of X, a :class:`~sklearn.pipeline.Pipeline` of transformers included. None or
        ``"passthrough"`` leaves X as it is.
    y_transformer : {"same"}, estimator or None, default="same"
        The transformer of y. ``"same"`` is another clone of `transformer`, fitted on y; None or ``"passthrough"``
        leaves y as it is.

    Attributes
    ----------
    index_ : BaseIndex
        The fitted index.
    transformer_, y_transformer_ : estimator or None
        The fitted transformers; None where a side is left as it is.
    similarity_ : float
        The similarity of the two transformed sides of the training rows.
    chance_ : float
        The value expected without any correspondence between their rows, NaN where it is unknown.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of the columns of X, where X has names that are all strings.

    See Also
    --------
    sklearn_cka.CKA : The default choice of an index.
    sklearn.compose.TransformedTargetRegressor : The same thought for regression.

    Notes
    -----
    A `y` of one dimension is one column, also for its transformer.

    Keyword arguments of ``fit`` and ``score``, such as ``sample_weight``, go to the index. With
    ``sklearn.set_config(enable_metadata_routing=True)`` they go where they are requested, to the ``fit`` of the
    transformers included.

    Examples
    --------
    Two noisy recordings of the same three signals, before and after both are reduced to three components:

    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from sklearn_cka import CKA, PairedTransformer
    >>> rng = np.random.default_rng(0)
    >>> signals = rng.normal(size=(100, 3))
    >>> X = signals @ rng.normal(size=(3, 200)) + 3 * rng.normal(size=(100, 200))
    >>> y = signals @ rng.normal(size=(3, 300)) + 3 * rng.normal(size=(100, 300))
    >>> index = CKA(debiased=True)
    >>> print(f"{index.fit(X, y).similarity_:.3f}")
    0.820
    >>> paired = PairedTransformer(index, transformer=PCA(3)).fit(X, y)
    >>> print(f"{paired.similarity_:.3f}")
    0.896
    """

    def __init__(self, index: Any, transformer: Any, y_transformer: Any = "same") -> None:
        self.index = index
        self.transformer = transformer
        self.y_transformer = y_transformer

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit both transformers and the index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One representation, in a form that `transformer` takes.
        y : array-like of shape (n_samples, n_features_y) or (n_samples,)
            Another representation of the same rows, in a form that the transformer of y takes.
        **params : dict
            ``sample_weight`` and the like, for the index.

        Returns
        -------
        self : PairedTransformer

        Raises
        ------
        ValueError
            If the numbers of rows or the row labels of two frames differ, or `y_transformer` is another string.
        TypeError
            If a transformer has no ``fit`` or no ``transform``.
        """
        sides = self._sides()
        routed = self._route("fit", params)
        check_features(self, X, reset=True)
        y = self._check_pair(X, y)

        self.transformer_, self.y_transformer_ = (
            _fitted_clone(argument, transformer, values, **routed[argument]["fit"])
            for (argument, transformer), values in zip(sides.items(), (X, y), strict=True)
        )
        self.index_ = get_index(self.index).fit(*self._transformed(X, y), **routed["index"]["fit"])
        self.similarity_ = self.index_.similarity_
        self.chance_ = self.index_.chance_
        return self

    def score(self, X: Any, y: Any, **params: Any) -> float:
        """Return the similarity of the given rows, each side transformed as it was learned in ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One representation.
        y : array-like of shape (n_samples, n_features_y) or (n_samples,)
            Another representation of the same rows.
        **params : dict
            ``sample_weight`` and the like, for the index.

        Returns
        -------
        float
            ``index_.score`` of the transformed rows.
        """
        check_is_fitted(self)
        routed = self._route("score", params)
        check_features(self, X, reset=False)
        return self.index_.score(*self._transformed(X, self._check_pair(X, y)), **routed["index"]["score"])

    @available_if(_index_has("z_score"))
    def z_score(self, X: Any, y: Any) -> float:
        """Return by how many standard deviations the transformed rows are more similar than by chance.

        Available where the index has a ``z_score``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One representation.
        y : array-like of shape (n_samples, n_features_y) or (n_samples,)
            Another representation of the same rows.

        Returns
        -------
        float
            ``index_.z_score`` of the transformed rows.
        """
        check_is_fitted(self)
        check_features(self, X, reset=False)
        return self.index_.z_score(*self._transformed(X, self._check_pair(X, y)))

    @available_if(_index_has("transform"))
    def transform(self, X: Any, y: Any = None) -> Any:
        """Apply the transformers, and to what they return the map that the index learned.

        Available where the index learns a map and has a ``transform``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One representation.
        y : array-like of shape (n_samples, n_features_y) or (n_samples,), default=None
            Another representation of the same rows.

        Returns
        -------
        object
            What ``index_.transform`` returns for the transformed X, or for the transformed X and y.
        """
        check_is_fitted(self)
        check_features(self, X, reset=False)
        if y is None:
            return self.index_.transform(_applied("transformer", self.transformer_, X))
        return self.index_.transform(*self._transformed(X, self._check_pair(X, y)))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata is routed to the index and the transformers.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            The router of this object.
        """
        both = MethodMapping().add(caller="fit", callee="fit").add(caller="score", callee="score")
        router = MetadataRouter(owner=type(self).__name__).add(index=get_index(self.index), method_mapping=both)
        fit_only = MethodMapping().add(caller="fit", callee="fit")
        for name, transformer in self._sides().items():
            if transformer is not None:
                router.add(**{name: transformer}, method_mapping=fit_only)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        index_tags = get_tags(get_index(self.index))
        first, second = (index_tags if side is None else get_tags(side) for side in self._sides().values())
        tags.estimator_type = index_tags.estimator_type
        tags.target_tags = index_tags.target_tags
        tags.input_tags = first.input_tags
        # A transformer may take missing values without filling them in, and no index takes them.
        tags.input_tags.allow_nan = False
        parts = (first, second, index_tags)
        tags.array_api_support = all(part.array_api_support for part in parts)
        tags.non_deterministic = any(part.non_deterministic for part in parts)
        return tags

    def _route(self, method: str, params: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the keyword arguments for each part: by their requests, or all to the index without routing."""
        empty: dict[str, dict[str, Any]] = {"fit": {}, "score": {}}
        routed = {"index": empty, "transformer": empty, "y_transformer": empty}
        if get_config()["enable_metadata_routing"]:
            requested = process_routing(self, method, **params)
            return {name: {**empty, **requested.get(name, {})} for name in routed}
        return {**routed, "index": {**empty, method: params}}

    def _sides(self) -> dict[str, Any]:
        """Return the transformer of each side by its argument, None where the side is left as it is."""
        same = isinstance(self.y_transformer, str) and self.y_transformer == "same"
        sides = {"transformer": self.transformer, "y_transformer": self.transformer if same else self.y_transformer}
        for argument, transformer in sides.items():
            if isinstance(transformer, str) and transformer == "passthrough":
                sides[argument] = None
            elif isinstance(transformer, str) and argument == "y_transformer" and not same:
                raise ValueError(f"y_transformer must be 'same', None or an estimator, got {transformer!r}.")
            elif transformer is not None and not _is_transformer(transformer):
                raise TypeError(
                    f"{argument} must be an estimator with fit and transform, or None, got {transformer!r}."
                )
        return sides

    def _check_pair(self, X: Any, y: Any) -> Any:
        """Check that y goes with X and return it with two dimensions."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        check_same_rows(X, y)
        transformer = self._sides()["y_transformer"]
        tags = get_tags(get_index(self.index) if transformer is None else transformer).input_tags
        if not hasattr(y, "columns"):  # a frame goes to its transformer as it is, which may pick columns by name
            y = check_array(
                y,
                accept_sparse=tags.sparse,
                dtype=None,
                ensure_2d=False,
                allow_nd=tags.three_d_array,
                ensure_all_finite="allow-nan" if tags.allow_nan else True,
                input_name="y",
                estimator=self,
            )
            if y.ndim == 1:
                y = namespace(y).reshape(y, (-1, 1)) if is_array(y) else y.reshape(-1, 1)
        return y

    def _transformed(self, X: Any, y: Any) -> tuple[Any, Any]:
        return (
            _applied("transformer", self.transformer_, X),
            _applied("y_transformer", self.y_transformer_, y),
        )


def _is_transformer(obj: Any) -> bool:
    return not isinstance(obj, type) and hasattr(obj, "fit") and hasattr(obj, "transform")


def _fitted_clone(argument: str, transformer: Any, values: Any, **params: Any) -> Any:
    """Return a clone of `transformer` fitted on `values`, and None where they are left as they are."""
    if transformer is None:
        return None
    with _naming(argument):
        return clone(transformer).fit(values, **params)


def _applied(argument: str, transformer: Any, values: Any) -> Any:
    if transformer is None:
        return values
    with _naming(argument):
        return transformer.transform(values)


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Say in the traceback which side failed: to a transformer both are called X."""
    try:
        yield
    except Exception as error:
        side = "y" if argument == "y_transformer" else "X"
        error.add_note(f"Raised by the {argument} of PairedTransformer, given its {side}.")
        raise
