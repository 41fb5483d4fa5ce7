"""One comparison, embedded once, to be evaluated on many subsets, resamples and permutations of its rows.

The indexes on centred Gram matrices do so from their cached matrices or features; any other index embeds the rows of
each anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config

from sklearn_cka import _arrays, _jobs, _linalg, _permutation, _resampling
from sklearn_cka._arrays import Array
from sklearn_cka._validation import too_few_samples
from sklearn_cka.exceptions import warn
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._closed_forms import has_closed_forms, normalize_many, row_products
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex
from sklearn_cka.indexes._registry import get_index
from sklearn_cka.indexes._spectral import SpectralEmbedding

# Products of features cost less than those of Gram matrices for resamples while (p + q)^2 is below this times n.
_FEATURE_FACTOR = 1.0
# Below this many rows the calls for every resample cost more than the products of all.
_FEATURE_ROWS = 500
# n x n matrices that the resampling of Gram matrices holds at a time.
_MATRICES = 6
# Arrays of shape (n, batch) that one batch of resamples holds at a time.
_ARRAYS_OF_BATCH = 16


def make_pair(index: str | BaseIndex, X: Array, y: Array, params: dict[str, Any]) -> Pair:
    """Return a comparison of two representations, of the kind that the index allows.

    Raises
    ------
    ValueError
        If the data break the input contract or a parameter is not valid.
    """
    made = get_index(index, **params)
    made._check_params()
    X_checked, y_checked, _ = made._check_data(X, y, None)
    return make_checked_pair(made, X_checked, y_checked)


def make_checked_pair(index: BaseIndex, X: Array, y: Array, embeddings: tuple[Any, Any] | None = None) -> Pair:
    """Return the same of checked representations, which may be embedded already."""
    kind = GramPair if has_closed_forms(index) else Pair
    return kind(index, X, y, index._embed_pair(X, y, None) if embeddings is None else embeddings)


class Pair:
    """A comparison under any index.

    Parameters
    ----------
    index : BaseIndex
        The index.
    X, y : array of shape (n_samples, ...)
        Checked representations.
    embeddings : tuple
        What the index makes of both.
    """

    def __init__(self, index: BaseIndex, X: Array, y: Array, embeddings: tuple[Any, Any]) -> None:
        self.index, self.X, self.y = index, X, y
        self.n_samples = int(X.shape[0])
        self.a, self.b = embeddings

    @property
    def value(self) -> float:
        """The similarity, without a warning."""
        return float(self.index.compare(self.a, self.b))

    @cached_property
    def statistic(self) -> float:
        """The similarity; the first look at it warns of what a user should know about its meaning."""
        return self.index._judge(self.a, self.b)[0]

    def leave_out(self, groups: np.ndarray | None, n_jobs: int | None = None) -> np.ndarray:
        """Return the similarities without each row, or without each group, shape (n_groups,)."""
        codes = np.arange(self.n_samples) if groups is None else groups
        self._check_left(self.n_samples - int(np.bincount(codes).max()))
        kept = (np.flatnonzero(codes != code) for code in range(codes.max() + 1))
        return np.array(_jobs.run(self._value_of_rows, ((rows,) for rows in kept), n_jobs))

    def _check_left(self, n_left: int) -> None:
        minimum, required_by = self.index._required_samples()
        if n_left < minimum:
            shape = tuple(self.X.shape)
            what = f"{required_by} on the rows that leaving some out leaves"
            raise ValueError(too_few_samples("X", n_left, shape, minimum, what))

    def reweighted(self, W: np.ndarray) -> np.ndarray:
        """Return the similarity of every resample; W (n_samples, n_resamples) says how often each row was drawn."""
        rows = (np.repeat(np.arange(self.n_samples), counts.astype(int)) for counts in W.T)
        return np.array([self._value_of_rows(drawn) for drawn in rows])

    def permuted(self, orders: Sequence[np.ndarray], n_jobs: int | None = None) -> np.ndarray:
        """Return the similarity for every order of the rows of y."""
        return np.array(_jobs.run(self._value_of_order, ((order,) for order in orders), n_jobs))

    def _value_of_order(self, order: np.ndarray) -> float:
        moved = permute_rows(self.b, order)
        if moved is None:
            moved = self.index.embed_y(self._rows(self.y, order, self._is_square[1]))
        return float(self.index.compare(self.a, moved))

    @property
    def _is_square(self) -> tuple[bool, bool]:
        """Whether X and y are matrices of pairs of rows, whose columns are chosen with the rows."""
        pairwise = bool(self.index.__sklearn_tags__().input_tags.pairwise)
        specs = getattr(self.index, "_specs", None)
        return pairwise, pairwise if specs is None else specs()[1].kernel == "precomputed"

    def _value_of_rows(self, rows: np.ndarray) -> float:
        X, y = (self._rows(Z, rows, s) for Z, s in zip((self.X, self.y), self._is_square, strict=True))
        return float(self.index.compare(*self.index._embed_pair(X, y, None)))

    @staticmethod
    def _rows(Z: Array, rows: np.ndarray, is_square: bool) -> Array:
        xp = _arrays.namespace(Z)
        positions = _arrays.like(rows, Z)
        taken = xp.take(Z, positions, axis=0)
        return xp.take(taken, positions, axis=1) if is_square else taken

    def default_batch(self) -> int:
        """Return how many resamples fit in scikit-learn's working memory at a time."""
        budget = get_config()["working_memory"] * 2**20 / 8
        return max(1, int(budget / (self.n_samples * _ARRAYS_OF_BATCH)))


class GramPair(Pair):
    """A comparison of two centred Gram matrices: everything from one embedding of each side.

    Bandwidths stay those of all rows.
    """

    index: CenteredGramIndex
    a: GramEmbedding
    b: GramEmbedding

    @property
    def form(self) -> str:
        """Whether Gram matrices or features are multiplied."""
        return self.index._form(self.a, self.b)

    def leave_out(self, groups: np.ndarray | None, n_jobs: int | None = None) -> np.ndarray:
        """Return the similarities without each row in closed form, or without each group, shape (n_groups,)."""
        if groups is not None:
            self._check_left(self.n_samples - int(np.bincount(groups).max()))
            return self.reweighted(_resampling.group_counts(groups))
        self._check_left(self.n_samples - 1)
        inner, self_a, self_b = (products.without_each(self.index._is_debiased) for products in self.row_products)
        return normalize_many(self.index, inner, self_a, self_b, self.a, self.b, self.n_samples - 1.0, self.form)

    def reweighted(self, W: np.ndarray) -> np.ndarray:
        """Return the similarity of every resample, pairs of copies of one row left out."""
        inner, self_a, self_b = (_resampling.reweighted_inner(rows, W) for rows in self._rows_to_weigh())
        return normalize_many(self.index, inner, self_a, self_b, self.a, self.b, W.sum(axis=0), self.form)

    @cached_property
    def row_products(self) -> tuple[_resampling.RowProducts, ...]:
        """What rows give to the inner product of both sides, and of each side with itself."""
        made = [row_products(x, y, self.form) for x, y in ((self.a, self.b), (self.a, self.a), (self.b, self.b))]
        self.a.remember_self_inner(self.form, made[1].total)
        self.b.remember_self_inner(self.form, made[2].total)
        return tuple(made)

    @cached_property
    def statistic(self) -> float:
        """The similarity, from row products if these are there already; the first look warns of its meaning."""
        if "row_products" not in vars(self):
            return self.index._judge(self.a, self.b)[0]
        total = self.row_products[0].total
        similarity = float(self._of_inner(np.array([total]))[0])
        chance = float(self.index.chance(self.a, self.b))
        for warning in self.index.diagnose(self.a, self.b, similarity, chance):
            warn(warning)
        return similarity

    def _rows_to_weigh(self) -> list[Any]:
        if not hasattr(self, "_weighable"):
            sides = ((self.a, self.b), (self.a, self.a), (self.b, self.b))
            debiased = self.index._is_debiased
            self._weighable = [
                _resampling.FeatureRows(x.features, y.features, debiased=debiased)
                if self._prefers_features()
                else _resampling.GramRows(x.gram, y.gram, debiased=debiased)
                for x, y in sides
            ]
        return self._weighable

    def _prefers_features(self) -> bool:
        if self.a.features is None or self.b.features is None or getattr(self.index, "form", "auto") == "gram":
            return False
        width = self.a.features.shape[1] + self.b.features.shape[1]
        too_large = _MATRICES * 8 * self.n_samples**2 > get_config()["working_memory"] * 2**20
        narrow = self.n_samples > _FEATURE_ROWS and width**2 < _FEATURE_FACTOR * self.n_samples
        return narrow or (too_large and width < self.n_samples)

    def permuted(self, orders: Sequence[np.ndarray], n_jobs: int | None = None) -> np.ndarray:
        """Return the similarity for every order of the rows of y."""
        debiased = self.index._is_debiased
        x, y = self.a.features, self.b.features
        n = self.n_samples
        permutable: _permutation.PermutedFeatures | _permutation.PermutedGram
        if x is not None and y is not None and _permutation.prefers_features(n, x.shape[1], y.shape[1]):
            permutable = _permutation.PermutedFeatures(x, y, debiased=debiased)
        else:
            permutable = _permutation.PermutedGram(self.a.gram, self.b.gram)
        step = -(-len(orders) // effective_n_jobs(n_jobs))
        parts = _jobs.run(
            permutable.products, ((orders[chunk],) for chunk in _linalg.blocks(len(orders), step)), n_jobs
        )
        return self._of_inner(np.concatenate(parts))

    def _of_inner(self, inner: np.ndarray) -> np.ndarray:
        """Return the similarities of inner products of the same two matrices, rows in other orders."""
        self_a, self_b = (np.asarray(side.self_inner(self.form)) for side in (self.a, self.b))
        return normalize_many(self.index, inner, self_a, self_b, self.a, self.b, float(self.n_samples), self.form)


@singledispatch
def permute_rows(embedding: Any, order: np.ndarray) -> Any:
    """Return the embedding of the same rows in another order, None where it has to be made anew."""
    return None


@permute_rows.register
def _(embedding: SpectralEmbedding, order: np.ndarray) -> Any:
    xp = _arrays.namespace(embedding.basis)
    return replace(embedding, basis=xp.take(embedding.basis, _arrays.like(order, embedding.basis), axis=0))
