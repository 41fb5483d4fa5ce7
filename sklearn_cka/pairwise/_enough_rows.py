"""How many rows are enough: blocks of rows are added until every standard error of a table is small enough.

Standard errors are those of the jackknife in closed form, see :mod:`sklearn_cka._resampling`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_cka import _arrays, _linalg, _resampling
from sklearn_cka._validation import check_positive
from sklearn_cka.exceptions import ToleranceWarning, warn
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._closed_forms import has_closed_forms, normalize_many, row_products
from sklearn_cka.layers import Layers

# Rows looked at first; every further block makes them half as many again, so that all looks together cost less than
# twice the last one.
FIRST_ROWS, GROWTH = 256, 1.5


def check_tolerance(index: BaseIndex, tol: Any, output: str, feature_map: Any) -> None:
    """Raise ValueError unless `tol` is positive and the index has standard errors in closed form."""
    check_positive("tol", tol)
    if not has_closed_forms(index):
        raise ValueError(
            f"tol needs standard errors in closed form, which CKA, HSIC, AngularCKA and DistanceCorrelation have, got"
            f" {index!r}; take a number of rows of your own, and its errors from sklearn_cka.inference.table_inference."
        )
    if output != "similarity":
        raise ValueError(f'tol is a standard error of similarities; it needs output="similarity", got {output!r}.')
    if feature_map is not None:
        raise ValueError("tol and feature_map exclude each other: the errors are those of the index without a map.")


def block_sizes(n: int) -> list[int]:
    """Return the numbers of rows looked at in turn, the last of which is all n."""
    sizes = []
    size = float(FIRST_ROWS)
    while size < n:
        sizes.append(int(size))
        size *= GROWTH
    return [*sizes, n]


def enough_rows(
    index: BaseIndex, a: Layers, b: Layers | None, tol: float, random_state: Any, target: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows, ascending, with which no standard error is above `tol`, and the standard errors.

    Where that takes more rows than there are, they are all rows. Errors that are undefined count as too large, unless
    their layer is constant over all rows.

    Parameters
    ----------
    index : BaseIndex
        An index that :func:`check_tolerance` let pass.
    a, b : Layers
        The collections; None compares `a` with itself.
    tol : float
        Largest standard error allowed.
    random_state : int, RandomState instance, Generator or None
        Seeds the order in which rows are added.
    target : object, default=None
        Backend to which rows are moved.

    Returns
    -------
    rows : ndarray of shape (n_rows,)
        Positions of the rows.
    standard_error : ndarray of shape (L_a, L_b)
        Jackknife standard errors over these rows.
    """
    n = a.n_rows
    order = _order(n, random_state)
    hopeless: dict[int, bool] = {}
    for size in block_sizes(n):
        rows = np.sort(order[:size])
        errors = standard_errors(index, a.rows(rows), None if b is None else b.rows(rows), target)
        if size == n:
            break
        large = ~(errors <= tol)
        for i, j in np.argwhere(np.isnan(errors)):
            pair = (list(a.values())[i], list((a if b is None else b).values())[j])
            if any(hopeless.setdefault(id(X), _linalg.center(X).is_constant) for X in pair):
                large[i, j] = False
        if not large.any():
            break
    if size == n and np.nanmax(errors, initial=0.0) > tol:
        warn(
            ToleranceWarning(
                f"With all {n} rows the largest standard error is {np.nanmax(errors):.3g}, above tol={tol:g};"
                f" {np.count_nonzero(errors > tol)} of {errors.size} pairs are above it."
            )
        )
    return rows, errors


def _order(n: int, random_state: Any) -> np.ndarray:
    if isinstance(random_state, np.random.Generator):
        return random_state.permutation(n)
    from sklearn.utils import check_random_state

    return np.asarray(check_random_state(random_state).permutation(n))


def standard_errors(index: Any, a: Layers, b: Layers | None, target: Any = None) -> np.ndarray:
    """Return the jackknife standard errors of a table, shape (L_a, L_b)."""
    one_sided = b is None and index.properties.symmetric and index.has_equal_sides
    reference = next(iter(a.values()))[:1, :]
    reference = reference if target is None else target.move(reference)

    def embed(layers: Layers, check: Any, make: Any, argument: str) -> list[Any]:
        checked = (check(X, f"layer {name!r} of {argument}") for name, X in layers.items())
        return [make(_arrays.like(X if target is None else target.move(X), reference)) for X in checked]

    left = embed(a, index._check_X, index.embed, "a")
    right = (
        left if one_sided else embed(a if b is None else b, index._check_y, index.embed_y, "a" if b is None else "b")
    )
    form = (
        "feature" if all(layer.features is not None for layer in left + right) and _is_narrow(left + right) else "gram"
    )
    m = a.n_rows - 1.0
    debiased = index._is_debiased

    def without_each(x: Any, y: Any) -> np.ndarray:
        products = row_products(x, y, form)
        if x is y:
            x.remember_self_inner(form, products.total)
        return products.without_each(debiased)

    own_a = [without_each(x, x) for x in left]
    own_b = own_a if one_sided else [without_each(y, y) for y in right]
    errors = np.empty((len(left), len(right)))
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            if one_sided and j < i:
                errors[i, j] = errors[j, i]
                continue
            values = normalize_many(index, without_each(x, y), own_a[i], own_b[j], x, y, m, form)
            errors[i, j] = _resampling.standard_error(values)
    return errors


def _is_narrow(layers: list[Any]) -> bool:
    """Whether products of features cost less than those of Gram matrices."""
    return 2 * max(layer.features.shape[1] for layer in layers) < layers[0].n_samples
