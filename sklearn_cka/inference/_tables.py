"""Standard errors and p-values of all pairs of layers, and of the difference between two tables."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _permutation, _resampling, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._closed_forms import has_closed_forms, is_linear_in_products, normalize_many, row_products
from sklearn_cka.indexes._gram import GramEmbedding, permutation_moments, permutation_z
from sklearn_cka.indexes._registry import get_index
from sklearn_cka.inference._checks import check_codes, check_count, check_generator, check_strata
from sklearn_cka.inference._multiplicity import _METHODS as CORRECTIONS
from sklearn_cka.inference._multiplicity import adjust_pvalues
from sklearn_cka.inference._pairs import Pair, make_checked_pair
from sklearn_cka.inference._tests import gram_sums, random_orders, student_pvalue, summarize_null, tail_probability
from sklearn_cka.layers import Layers, as_layers
from sklearn_cka.pairwise import SimilarityTable, compare_layers

__all__ = ["compare_tables", "table_inference"]

_TESTS = ("pearson3", "normal", "resampled")
# Rows of all Gram matrices that are looked at together.
_STRIP_ROWS = 64


def table_inference(
    a: Any,
    b: Any = None,
    index: str | BaseIndex = "cka",
    *,
    standard_error: bool = True,
    test: str | None = "auto",
    correction: str | None = "holm",
    groups: Any = None,
    stratify: Any = None,
    n_resamples: int = 999,
    random_state: Any = None,
    verbose: int = 1,
    **params: Any,
) -> SimilarityTable:
    """Compare all layers, with the standard error and the p-value of every pair.

    For CKA and HSIC every layer is embedded once, and all jackknife values of all pairs come from products of stacked
    rows of Gram matrices, or of features where there are more rows than features in all.

    Parameters
    ----------
    a, b, index, verbose
        As for :func:`~sklearn_cka.compare_layers`.
    standard_error : bool, default=True
        Whether to compute jackknife standard errors.
    test : {"auto", "pearson3", "normal", "resampled"} or None, default="auto"
        How to test every pair against rows in random order, as in :func:`~sklearn_cka.permutation_test` (alternative
        "greater"); ``"auto"`` is ``"pearson3"`` where the index has closed forms, ``"resampled"`` with `groups` or
        `stratify`, and no test otherwise.
    correction : {"holm", "bonferroni", "fdr_bh", "fdr_by"} or None, default="holm"
        Adjustment of the p-values for the number of pairs, see :func:`adjust_pvalues`.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together; the jackknife leaves out groups whole, and whole groups change places in
        the test, those of the same number of rows.
    stratify : array-like of shape (n_samples,), default=None
        Labels of strata, within which rows or groups are permuted.
    n_resamples : int, default=999
        Number of permutations of a resampled test, the same for all pairs.
    random_state : int, RandomState, Generator or None, default=None
        Source of the permutations.
    **params
        Parameters of the index.

    Returns
    -------
    table : SimilarityTable
        With `standard_error` and `pvalue`, which ``to_frame(tidy=True)`` carries. A layer with itself has no p-value.

    Raises
    ------
    ValueError
        If an argument is not valid, or as :func:`~sklearn_cka.compare_layers`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka.inference import table_inference
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 4))
    >>> layers = {"in": X, "out": X[:, :2] ** 3, "noise": rng.standard_normal((100, 3))}
    >>> table = table_inference(layers, debiased=True)
    >>> table.standard_error.round(3)
    array([[0.   , 0.05 , 0.028],
           [0.05 , 0.   , 0.02 ],
           [0.028, 0.02 , 0.   ]])
    >>> (table.pvalue < 0.05).tolist()
    [[False, True, False], [True, False, False], [False, False, False]]
    """
    made = get_index(index, **params)
    linear = is_linear_in_products(made)
    restricted = groups is not None or stratify is not None
    if test == "auto":
        test = "resampled" if restricted else "pearson3" if linear else None
    if test is not None:
        _validation.check_option("test", test, _TESTS)
        if test != "resampled" and not linear:
            raise ValueError(f"test={test!r} needs moments in closed form, which {made!r} does not have.")
        if test != "resampled" and restricted:
            raise ValueError(f"test={test!r} is for all permutations; use 'resampled' with groups or stratify.")
    if correction is not None:
        _validation.check_option("correction", correction, CORRECTIONS)
    n_resamples = check_count("n_resamples", n_resamples)
    table = compare_layers(a, b, made, verbose=verbose)
    sides = _Sides(made, a, b)
    codes = check_codes("groups", groups, sides.n_samples, least=2)
    strata = check_codes("stratify", stratify, sides.n_samples)
    check_strata(strata, codes)
    errors = _resampling.standard_error(sides.leave_out(codes)) if standard_error else None
    pvalues = None
    if test is not None:
        if test == "resampled":
            orders = random_orders(sides.n_samples, n_resamples, check_generator(random_state), codes, strata)
            pvalues = sides.resampled_pvalues(orders)
        else:
            pvalues = sides.closed_pvalues(with_skewness=test == "pearson3")
        pvalues[np.isnan(table.values)] = math.nan
        if table.symmetric:
            np.fill_diagonal(pvalues, math.nan)
        if correction is not None:
            pvalues = adjust_pvalues(pvalues, correction, symmetric=table.symmetric)
    return replace(table, standard_error=errors, pvalue=pvalues)


def compare_tables(
    layers: Any,
    other_layers: Any,
    index: str | BaseIndex = "cka",
    *,
    correction: str | None = "holm",
    groups: Any = None,
    verbose: int = 1,
    **params: Any,
) -> SimilarityTable:
    """Ask whether a table changed: the differences of two tables over the same rows, with errors and p-values.

    Parameters
    ----------
    layers, other_layers : Layers, dict, list, or tuple (a, b) of two collections
        The collections whose tables are compared, such as the layers of a network after and before fine-tuning; a tuple
        of two collections is the table of one with the other. Both tables have the same numbers of layers.
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index.
    correction : {"holm", "bonferroni", "fdr_bh", "fdr_by"} or None, default="holm"
        Adjustment of the p-values for the number of pairs.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together; the jackknife leaves out groups whole.
    verbose : int, default=1
        Whether to show progress of what takes over a second.
    **params
        Parameters of the index.

    Returns
    -------
    table : SimilarityTable
        First table minus second, with paired jackknife `standard_error` and two-sided `pvalue`, named by the layers of
        the first.

    Raises
    ------
    ValueError
        If the tables have different shapes or rows, or an argument is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka.inference import compare_tables
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 4))
    >>> before = {"in": X, "out": X + rng.standard_normal((100, 4))}
    >>> after = {"in": X, "out": X + 3 * rng.standard_normal((100, 4))}
    >>> change = compare_tables(after, before, debiased=True)
    >>> change.to_frame().round(2)
           in   out
    in   0.00 -0.41
    out -0.41  0.00
    """
    made = get_index(index, **params)
    if correction is not None:
        _validation.check_option("correction", correction, CORRECTIONS)
    pairs = [_as_pair(layers), _as_pair(other_layers)]
    first, second = (compare_layers(*pair, made, verbose=verbose) for pair in pairs)
    if first.shape != second.shape:
        raise ValueError(
            f"The tables have {first.shape} and {second.shape} layers; their differences need equal shapes."
        )
    _validation.check_same_count(first.n_samples, second.n_samples, "layers", "other_layers")
    symmetric = first.symmetric and second.symmetric
    codes = check_codes("groups", groups, first.n_samples, least=2)
    left_out = _Sides(made, *pairs[0]).leave_out(codes) - _Sides(made, *pairs[1]).leave_out(codes)
    difference = first.values - second.values
    errors = _resampling.standard_error(left_out)
    if symmetric and made.properties.self_similarity is not None:  # a layer with itself does not change
        for table in (difference, errors):
            np.fill_diagonal(table, np.where(np.isnan(np.diagonal(table)), math.nan, 0.0))
    pvalues = student_pvalue(difference, errors, left_out.shape[0])
    pvalues[np.isnan(difference)] = math.nan
    if symmetric:
        np.fill_diagonal(pvalues, math.nan)
    if correction is not None:
        pvalues = adjust_pvalues(pvalues, correction, symmetric=symmetric)
    low, high = made.properties.range
    return replace(
        first,
        values=difference,
        chance=np.full(difference.shape, math.nan),
        symmetric=symmetric,
        bounds=(low - high, high - low) if math.isfinite(high - low) else None,
        standard_error=errors,
        pvalue=pvalues,
    )


def _as_pair(layers: Any) -> tuple[Any, Any]:
    is_pair = isinstance(layers, tuple) and len(layers) == 2 and not any(_arrays.is_array(side) for side in layers)
    return layers if is_pair else (layers, None)  # type: ignore[return-value]


class _Sides:
    """All layers of both collections, checked, and embedded once."""

    def __init__(self, index: BaseIndex, a: Any, b: Any) -> None:
        self.index = index
        rows = as_layers(a, argument="a")
        self.one_sided = b is None and index.properties.symmetric and index.has_equal_sides
        reference = next(iter(rows.values()))
        self.X = self._checked(rows, reference, index._check_X, "a")
        if self.one_sided:
            self.Y = self.X
        else:
            columns = rows if b is None else as_layers(b, argument="b")
            self.Y = self._checked(columns, reference, index._check_y, "a" if b is None else "b")
        self.n_samples = rows.n_rows
        self.closed = has_closed_forms(index)
        self.a = [index.embed(X) for X in self.X]
        self.b = self.a if self.one_sided else [index.embed_y(Y) for Y in self.Y]

    @staticmethod
    def _checked(layers: Layers, reference: Array, check: Any, argument: str) -> list[Array]:
        return [_arrays.like(check(X, f"layer {name!r} of {argument}"), reference) for name, X in layers.items()]

    @property
    def form(self) -> str:
        """Whether all pairs come from features: where there are more rows than features in all."""
        layers = self.a if self.one_sided else self.a + self.b
        if any(layer.features is None for layer in layers):
            return "gram"
        asked = str(getattr(self.index, "form", "auto"))
        width = sum(layer.features.shape[1] for layer in layers)
        return asked if asked != "auto" else "feature" if self.n_samples > width else "gram"

    def pairs(self) -> list[tuple[int, int]]:
        """Return the positions of all pairs, of a symmetric table those on and above the diagonal."""
        return [(i, j) for i in range(len(self.a)) for j in range(i if self.one_sided else 0, len(self.b))]

    def _table(self, values: dict[tuple[int, int], Any], *shape: int) -> np.ndarray:
        table = np.full((*shape, len(self.a), len(self.b)), math.nan)
        for (i, j), value in values.items():
            table[..., i, j] = value
            if self.one_sided:
                table[..., j, i] = value
        return table

    def leave_out(self, codes: np.ndarray | None) -> np.ndarray:
        """Return the tables without each row or group, shape (n_groups, L_a, L_b)."""
        n_groups = self.n_samples if codes is None else int(codes.max()) + 1
        if self.closed and codes is None:
            self._check_left(self.n_samples - 1)
            return self._closed_leave_out()
        values = {(i, j): self._pair(i, j).leave_out(codes) for i, j in self.pairs()}
        return self._table(values, n_groups)

    def _check_left(self, n_left: int) -> None:
        minimum, required_by = self.index._required_samples()
        if n_left < minimum:
            shape = tuple(self.X[0].shape)
            what = f"{required_by} on the rows that leaving some out leaves"
            raise ValueError(_validation.too_few_samples("a layer", n_left, shape, minimum, what))

    def _pair(self, i: int, j: int) -> Pair:
        return make_checked_pair(self.index, self.X[i], self.Y[j], (self.a[i], self.b[j]))

    def _closed_leave_out(self) -> np.ndarray:
        index: Any = self.index
        debiased, form = index._is_debiased, self.form
        products, own_a, own_b = self.products
        left_a = [side.without_each(debiased) for side in own_a]
        left_b = [side.without_each(debiased) for side in own_b]
        m = self.n_samples - 1.0
        values = {
            (i, j): normalize_many(
                index, product.without_each(debiased), left_a[i], left_b[j], self.a[i], self.b[j], m, form
            )
            for (i, j), product in products.items()
        }
        return self._table(values, self.n_samples)

    @cached_property
    def products(
        self,
    ) -> tuple[
        dict[tuple[int, int], _resampling.RowProducts],
        list[_resampling.RowProducts],
        list[_resampling.RowProducts],
    ]:
        """Return the row products of all pairs, and of every layer with itself."""
        if self.form == "feature":
            products = {(i, j): row_products(self.a[i], self.b[j], "feature") for i, j in self.pairs()}
            own_a = [row_products(layer, layer, "feature") for layer in self.a]
            own_b = own_a if self.one_sided else [row_products(layer, layer, "feature") for layer in self.b]
        else:
            products, own_a, own_b = self._strip_products()
        for layers, own in ((self.a, own_a), (self.b, own_b)):
            for layer, product in zip(layers, own, strict=True):
                layer.remember_self_inner(self.form, product.total)
        return products, own_a, own_b

    def _strip_products(self) -> tuple[Any, Any, Any]:
        """Row products of all pairs from strips of all Gram matrices: one small product for every row."""
        n = self.n_samples
        a, b = self.a, self.b
        rows = np.empty((len(a), len(b), n))
        own = [np.empty((len(side), n)) for side in (a, b)]
        diagonal = [np.empty((len(side), n)) for side in (a, b)]
        for strip in range(0, n, _STRIP_ROWS):
            chosen = slice(strip, min(strip + _STRIP_ROWS, n))
            left = _strips(a, chosen)
            right = left if self.one_sided else _strips(b, chosen)
            xp = _arrays.namespace(left)
            left, right = _arrays.same_precision(left, right)
            rows[:, :, chosen] = np.moveaxis(_host(left @ xp.matrix_transpose(right)), 0, -1)
            for side, stack in enumerate((left, right)):
                own[side][:, chosen] = _host(xp.vecdot(stack, stack, axis=-1)).T
                for k, row in enumerate(range(chosen.start, chosen.stop)):
                    diagonal[side][:, row] = _host(stack[k, :, row])
        made = _resampling.RowProducts
        products = {
            (i, j): made(float(rows[i, j].sum()), rows[i, j], diagonal[0][i] * diagonal[1][j]) for i, j in self.pairs()
        }
        self_products = [
            [made(float(q.sum()), q, d**2) for q, d in zip(own[side], diagonal[side], strict=True)] for side in (0, 1)
        ]
        return products, self_products[0], self_products[1]

    def resampled_pvalues(self, orders: list[np.ndarray]) -> np.ndarray:
        """Return the p-values of all pairs by the same permutations, not adjusted."""
        values = {}
        for i, j in self.pairs():
            if self.one_sided and i == j:
                continue
            pair = self._pair(i, j)
            null = pair.permuted(orders)
            values[i, j] = summarize_null(pair.value, null[~np.isnan(null)], "greater").pvalue
        return self._table(values)

    def closed_pvalues(self, *, with_skewness: bool) -> np.ndarray:
        """Return the p-values of all pairs by the moments over all permutations, not adjusted."""
        products = self.products[0]
        sums_a = [self._sums(layer, with_skewness) for layer in self.a]
        sums_b = sums_a if self.one_sided else [self._sums(layer, with_skewness) for layer in self.b]
        values = {}
        for (i, j), product in products.items():
            if with_skewness:
                mean, variance, skewness = _permutation.permutation_moments(sums_a[i], sums_b[j])
            else:
                mean, variance = permutation_moments(self.n_samples, sums_a[i], sums_b[j])
                skewness = math.nan
            z = permutation_z(product.total, mean, variance, self.a[i], self.b[j])
            values[i, j] = tail_probability(z, skewness, "greater")
        return self._table(values)

    def _sums(self, layer: GramEmbedding, with_skewness: bool) -> Any:
        if not with_skewness:
            return layer.moments(self.form)
        sums = gram_sums(layer)
        if layer.features is not None:  # one matrix at a time: it can be made again
            vars(layer).pop("gram", None)
        return sums


def _strips(layers: list[GramEmbedding], rows: slice) -> Array:
    """Return rows of the centred Gram matrices of all layers, shape (n_rows, n_layers, n_samples)."""
    strips = [_strip(layer, rows) for layer in layers]
    xp = _arrays.namespace(strips[0])
    if any(strip.dtype != strips[0].dtype for strip in strips):
        strips = [xp.astype(strip, xp.float64) for strip in strips]
    return xp.stack(strips, axis=1)


def _strip(layer: GramEmbedding, rows: slice) -> Array:
    if layer.features is None:
        return layer.gram[rows, :]
    X = layer.features
    xp = _arrays.namespace(X)
    strip = X[rows, :] @ xp.matrix_transpose(X)
    if not layer.debiased:
        return strip
    n = layer.n_samples
    d = layer.squares
    offset = xp.astype(d / (n - 2.0) - float(xp.sum(d)) / (2.0 * (n - 1.0) * (n - 2.0)), strip.dtype)
    strip = strip + offset[rows][:, None] + offset[None, :]
    device = _arrays.device(X)
    mask = xp.arange(rows.start, rows.stop, device=device)[:, None] == xp.arange(n, device=device)[None, :]
    return xp.where(mask, xp.zeros_like(strip), strip)


def _host(x: Array) -> np.ndarray:
    return _arrays.to_numpy(x).astype(np.float64)
