"""`compare_layers`: the similarity of every layer of one model with every layer of another."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from sklearn_cka import _arrays, _backends, _jobs, _memory, _validation
from sklearn_cka.exceptions import (
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    SimilarityWarning,
    UndefinedSimilarityWarning,
    warn,
)
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram_index import GramIndex
from sklearn_cka.indexes._registry import get_index, index_name
from sklearn_cka.layers import Layers, as_layers
from sklearn_cka.pairwise import _enough_rows, _feature_maps, _kernel_tiles, _plans, _tiles
from sklearn_cka.pairwise.table import SimilarityTable

# A progress bar shows once a job has taken this many seconds.
_SILENT_SECONDS = 1.0
_NAMES_SHOWN = 5


def compare_layers(
    a: Any,
    b: Any = None,
    index: str | BaseIndex = "cka",
    *,
    output: str = "similarity",
    n_jobs: int | None = None,
    plan: str | None = None,
    backend: str | None = None,
    device: Any = None,
    precision: str | None = None,
    feature_map: Any = None,
    tol: float | None = None,
    random_state: Any = 0,
    verbose: int = 1,
    **params: Any,
) -> SimilarityTable:
    """Compare every layer of one collection with every layer of another.

    Each layer is embedded once, and all pairs of the Gram family come from one product of stacked tiles.

    Parameters
    ----------
    a : Layers, dict, list, DataFrame or path
        First collection of L_a layers over the same n_samples rows, whatever :class:`~sklearn_cka.Layers` takes:
        name -> array of shape (n_samples, ...), a list of arrays, a frame with two-level columns, an ``.npz`` file.
    b : Layers, dict, list, DataFrame or path, default=None
        Second collection of L_b layers over the same rows; None compares `a` with itself, at half the cost if the
        index is symmetric.
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index.
    output : {"similarity", "distance"}, default="similarity"
        Whether to give the index or its distance form, a metric, for methods that take ``metric="precomputed"``.
    n_jobs : int, default=None
        How many layers are embedded at a time (and pairs compared, where the family has no product for all of them),
        by threads unless a :func:`joblib.parallel_config` context names another backend: ``"loky"``, ``"dask"``,
        ``"ray"``. The products themselves use the threads of the linear algebra library, as one layer at a time
        does. None is 1 unless in such a context.
    plan : {"gram", "feature", "matrix", "tiles", "spectral", "embed"}, default=None
        How to compute the table; None is the way of fewest operations that fits into memory. ``table.plan`` tells
        what was chosen, and the cost: operations and memory of every way, as estimated, and the seconds taken.
    backend : str, default=None
        Array library to which NumPy layers are moved, a name of :func:`~sklearn_cka.backend_names`; None is that of a
        surrounding :func:`~sklearn_cka.array_backend`, else NumPy. Each layer is moved once; where the device is too
        small for all of them, the plans "gram", "feature" and "tiles" move pieces (``table.plan.in_pieces``). Layers
        of other libraries are computed where they lie.
    device : str or object, default=None
        Device of the backend, such as ``"cuda"``.
    precision : {"tf32", "bf16"}, default=None
        A lower precision of float32 matrix products for torch and JAX layers; None is full float32 whatever the
        library is set to.
    feature_map : transformer, default=None
        A transformer of scikit-learn, a clone of which takes every layer to fewer features. ``Nystroem`` and
        ``RBFSampler`` approximate the kernel of the index, ``kernel="rbf"`` with its `bandwidth`, at a cost linear in
        n_samples; random projections are corrected for the shrinkage they cause. An approximation: its error falls
        with the number of components.
    tol : float, default=None
        Largest standard error wanted: rows are added in random blocks until none is above it, those of the jackknife
        in closed form (CKA, HSIC, AngularCKA, DistanceCorrelation). ``table.rows`` are the rows taken, ``n_samples``
        their number, ``standard_error`` what was reached. None takes all rows.
    random_state : int, RandomState instance or None, default=0
        Seeds the clones of `feature_map`, and the order of rows with `tol`.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.
    **params
        Parameters of the index.

    Returns
    -------
    table : SimilarityTable
        Values of shape (L_a, L_b), layers in the order given; rows are `a`.

    Raises
    ------
    ValueError
        If row counts or row labels of `a` and `b` differ, an array is not finite (the message names the layer), or
        the index, the plan or a parameter is unknown.
    MemoryError
        If the table takes more memory than is free by every plan that is open; the message says what would fit.

    Warns
    -----
    UndefinedSimilarityWarning
        If layers are constant over the rows: their rows and columns are NaN, the others are not.
    ChanceLevelWarning
        If at least half of some biased values is expected by chance.
    ToleranceWarning
        If a standard error stays above `tol` with all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import compare_layers
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 4))
    >>> table = compare_layers({"in": X, "out": X[:, :2] ** 3}, debiased=True)
    >>> table.to_frame().round(3)
            in    out
    in   1.000  0.393
    out  0.393  1.000
    """
    index = get_index(index, **params)
    index._check_params()
    _validation.check_option("output", output, ("similarity", "distance"))
    if output == "distance":
        index.to_distance(1.0)  # an index without a metric form says so before it computes
    _validation.check_option("precision", precision, _backends.PRECISIONS)
    target = _backends.resolve(backend, device)
    a = as_layers(a, argument="a")
    b = None if b is None else as_layers(b, argument="b")
    if b is not None:
        first, other = f"layer {a.names[0]!r} of a", f"layer {b.names[0]!r} of b"
        _validation.check_same_count(a.n_rows, b.n_rows, first, other)
        _validation.check_row_labels(a.index, b.index, "a", "b")
    rows_taken, errors = None, None
    if tol is not None:
        _enough_rows.check_tolerance(index, tol, output, feature_map)
        rows_taken, errors = _enough_rows.enough_rows(index, a, b, tol, random_state, target)
        a, b = a.rows(rows_taken), None if b is None else b.rows(rows_taken)
    maps = None if feature_map is None else _feature_maps.feature_maps(feature_map, index, random_state)
    asked = index
    if maps is not None:
        index = maps.mapped
        a, b = maps.apply(a, b)
    one_sided = b is None and index.properties.symmetric and index.has_equal_sides
    names_a, names_b = a.names, (a if b is None else b).names
    first = next(iter(a.values()))
    reference = first[:1, :] if target is None else target.move(first[:1, :])
    jobs = _embedding_jobs(index, a, b, one_sided)
    chosen = _choose(index, _sizes(a, b, one_sided, jobs, reference), plan, jobs, reference)
    place = reference if chosen.in_pieces else None
    start = time.perf_counter()
    with _backends.product_precision(reference, precision):
        embedded = _embed(index, jobs, chosen, target, reference, n_jobs, verbose)
        rows = embedded[: len(a)]
        columns = None if one_sided else embedded[len(a) :] or rows
        is_sketch = maps is not None and maps.is_sketch
        values = _fill(index, chosen, rows, columns, n_jobs, verbose, is_sketch=is_sketch, place=place)
        chance = _judge(index, rows, columns, values, names_a, names_b)
    chosen = replace(chosen, seconds=time.perf_counter() - start)
    if output == "distance":
        values = _distances(index, values, on_diagonal=one_sided)
        chance = np.full(values.shape, math.nan)
    return SimilarityTable(
        values=values,
        chance=chance,
        row_names=names_a,
        column_names=names_b,
        index=index_name(asked),
        params=_changed_params(asked) | ({} if feature_map is None else {"feature_map": feature_map}),
        symmetric=one_sided,
        n_samples=a.n_rows,
        plan=chosen,
        bounds=index.properties.range if output == "similarity" else (0.0, math.inf),
        output=output,
        standard_error=errors,
        rows=rows_taken,
    )


def _distances(index: BaseIndex, values: np.ndarray, *, on_diagonal: bool) -> np.ndarray:
    """Return the distance form of a table; a layer is at distance 0 from itself, not at the root of rounding."""
    distances = np.array([[index.to_distance(value) for value in line] for line in values.tolist()])
    if on_diagonal:
        np.fill_diagonal(distances, np.where(np.isnan(np.diagonal(values)), math.nan, 0.0))
    return distances


def _widths(layers: Layers) -> list[int]:
    return [int(array.shape[1]) for array in layers.values()]


def _changed_params(index: BaseIndex) -> dict[str, Any]:
    """Return the parameters of an index that are not the defaults."""
    import inspect

    defaults = inspect.signature(type(index).__init__).parameters
    given = index.get_params(deep=False)
    return {name: value for name, value in given.items() if not _is_default(value, defaults[name].default)}


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, (str, int, float)) and value == default
    )


def _progress(total: int, what: str, verbose: int) -> Any:
    return tqdm(total=total, desc=what, disable=verbose <= 0, delay=_SILENT_SECONDS, leave=False)


@dataclass(frozen=True)
class _Job:
    """A layer to embed: its side (0: as X, 1: as y), and its name for messages."""

    side: int
    label: str
    array: Any

    @property
    def key(self) -> tuple[int, int]:
        """What jobs of the same result have in common."""
        return id(self.array), self.side


def _embedding_jobs(index: BaseIndex, a: Layers, b: Layers | None, one_sided: bool) -> list[_Job]:
    """Return the layers of `a`, then those of the other side unless the first serve as these, too."""
    jobs = [_Job(0, f"layer {name!r} of a", array) for name, array in a.items()]
    if one_sided or (b is None and index.has_equal_sides):
        return jobs
    side = 0 if index.has_equal_sides else 1
    source, argument = (a, "a") if b is None else (b, "b")
    return jobs + [_Job(side, f"layer {name!r} of {argument}", array) for name, array in source.items()]


def _sizes(a: Layers, b: Layers | None, one_sided: bool, jobs: list[_Job], reference: Any) -> _plans.Sizes:
    distinct = {job.key: int(job.array.shape[1]) for job in jobs}
    itemsize = 8 if any(_arrays.dtype_name(job.array) not in ("float32", "float16", "bfloat16") for job in jobs) else 4
    widths_b = None if one_sided else _widths(a if b is None else b)
    return _plans.Sizes(a.n_rows, _widths(a), widths_b, itemsize, list(distinct.values()))


def _choose(index: BaseIndex, sizes: _plans.Sizes, plan: str | None, jobs: list[_Job], reference: Any) -> _plans.Plan:
    """Return the plan of a table by what is free where it is computed, where that is known."""
    on_device, on_host = _arrays.free_memory(reference), _memory.available_memory()
    if on_device is None:
        return _plans.choose(index, sizes, plan, on_host)
    can_stay = all(_arrays.is_numpy(job.array) for job in jobs)
    return _plans.choose(index, sizes, plan, on_device, on_host if can_stay else None)


def _embed(
    index: BaseIndex,
    jobs: list[_Job],
    plan: _plans.Plan,
    target: _backends.Target | None,
    reference: Any,
    n_jobs: int | None,
    verbose: int,
) -> list[Any]:
    """Embed every layer once for each side on which the index treats it differently, where the reference lies."""
    # The same array under several names, or on both sides, is embedded once.
    distinct = {job.key: job for job in jobs}

    calls = ((index, plan, job, target, reference) for job in distinct.values())
    with _progress(len(distinct), "embedding layers", verbose) as progress:
        results = _jobs.run(_embed_one, calls, n_jobs, progress.update)
    made = dict(zip(distinct, results, strict=True))
    return [made[job.key] for job in jobs]


def _embed_one(index: Any, plan: _plans.Plan, job: _Job, target: _backends.Target | None, reference: Any) -> Any:
    """Check one layer, bring it to where the reference lies unless that is done in pieces, and embed it."""
    checked = (index._check_X, index._check_y)[job.side](job.array, job.label)
    if plan.in_pieces:
        layer = _arrays.narrowed(checked, reference)
    else:
        layer = _arrays.like(checked if target is None else target.move(checked), reference)
    if plan.name == "tiles":
        return _kernel_tiles.embed(index, job.side, layer, reference if plan.in_pieces else None)
    return (index.embed, index.embed_y)[job.side](layer)


def _fill(
    index: BaseIndex,
    plan: _plans.Plan,
    rows: list[Any],
    columns: list[Any] | None,
    n_jobs: int | None,
    verbose: int,
    *,
    is_sketch: bool,
    place: Any = None,
) -> np.ndarray:
    """Return the similarities of all pairs; `place` is an array on the device to which pieces of layers are moved."""
    if isinstance(index, GramIndex):
        products = _products(plan.name, rows, columns, verbose, place)
        form = "feature" if plan.name == "feature" else "gram"
        if is_sketch:
            products = _feature_maps.correct_self_terms(products, rows, columns, form)
        values = np.empty(products.shape)
        for i, (inner_products, left) in enumerate(zip(products.tolist(), rows, strict=True)):
            for j, (product, right) in enumerate(
                zip(inner_products, rows if columns is None else columns, strict=True)
            ):
                if columns is None and j < i:
                    values[i, j] = values[j, i]
                else:
                    values[i, j] = index.normalize(product, left.self_inner(form), right.self_inner(form), left, right)
        return values
    others = rows if columns is None else columns
    if type(index).compare_all is not BaseIndex.compare_all:
        return np.asarray(index.compare_all(rows, others), dtype=np.float64)
    starts = [0 if columns is not None else i for i in range(len(rows))]
    calls = (([left], others[start:]) for left, start in zip(rows, starts, strict=True))
    with _progress(len(rows), "comparing layers", verbose) as progress:
        lines = _jobs.run(index.compare_all, calls, n_jobs, progress.update)
    values = np.empty((len(rows), len(others)))
    for i, ((line,), start) in enumerate(zip(lines, starts, strict=True)):
        values[i, start:] = line
        if columns is None:
            values[start:, i] = line
    return values


def _products(plan: str, rows: list[Any], columns: list[Any] | None, verbose: int, place: Any) -> np.ndarray:
    """Return the inner products of all pairs of Gram matrices."""
    n = rows[0].n_samples
    total = {"gram": n, "feature": len(rows), "matrix": n**2, "tiles": 2 * n}[plan]
    with _progress(total, "comparing layers", verbose) as progress:
        if plan == "gram":
            return _tiles.gram_products(rows, columns, progress, place)
        if plan == "feature":
            return _tiles.feature_products(rows, columns, progress, place)
        if plan == "matrix":
            return _tiles.matrix_products(rows, columns, progress)
        return _kernel_tiles.kernel_products(rows, columns, progress)


def _judge(
    index: BaseIndex,
    rows: list[Any],
    columns: list[Any] | None,
    values: np.ndarray,
    names_a: list[str],
    names_b: list[str],
) -> np.ndarray:
    """Return the chance levels of all pairs, and issue one warning of each kind for the whole table."""
    others = rows if columns is None else columns
    chance = np.full(values.shape, math.nan)
    found: dict[type[SimilarityWarning], list[tuple[int, int, str]]] = {}
    for i, left in enumerate(rows):
        for j, right in enumerate(others):
            if columns is None and j < i:
                chance[i, j] = chance[j, i]
                continue
            chance[i, j] = index.chance(left, right)
            if columns is None and i == j:
                continue  # a layer with itself is no finding
            for warning in index.diagnose(left, right, float(values[i, j]), float(chance[i, j])):
                found.setdefault(type(warning), []).append((i, j, str(warning)))
    undefined = _undefined_layers(values, names_a, names_b)
    if UndefinedSimilarityWarning not in found and undefined:
        found[UndefinedSimilarityWarning] = [(0, 0, "")]
    n_pairs = values.size if columns is not None else len(rows) * (len(rows) - 1) // 2
    for kind, pairs in found.items():
        warn(kind(_summary(kind, pairs, n_pairs, undefined, names_a, names_b)))
    return chance


def _undefined_layers(values: np.ndarray, names_a: list[str], names_b: list[str]) -> list[str]:
    """Return the names of the layers whose similarities are all undefined."""
    missing = np.isnan(values)
    names = [name for name, line in zip(names_a, missing, strict=True) if line.all()]
    names += [name for name, line in zip(names_b, missing.T, strict=True) if line.all() and name not in names]
    return names


def _summary(
    kind: type[SimilarityWarning],
    pairs: list[tuple[int, int, str]],
    n_pairs: int,
    undefined: list[str],
    names_a: list[str],
    names_b: list[str],
) -> str:
    """Say in one sentence what is the matter with some pairs of a table."""
    if kind is UndefinedSimilarityWarning and undefined:
        shown = ", ".join(repr(name) for name in undefined[:_NAMES_SHOWN])
        more = f" and {len(undefined) - _NAMES_SHOWN} more" if len(undefined) > _NAMES_SHOWN else ""
        return (
            f"The similarity of every pair with layer {shown}{more} is undefined (0/0), as for layers that are constant"
            " over the rows; these values are NaN."
        )
    i, j, message = pairs[0]
    what = {
        UndefinedSimilarityWarning: "the similarity is undefined",
        ChanceLevelWarning: "at least half of the value is expected by chance",
        DegenerateSimilarityWarning: "the value says little",
    }.get(kind, "something is to be known of the value")
    return f"In {len(pairs)} of {n_pairs} pairs of layers {what}; for {names_a[i]!r} and {names_b[j]!r}: {message}"
