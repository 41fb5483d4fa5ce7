"""Tables of layers from batches of rows, exact or by the minibatch estimate, on one machine or many.

The exact accumulator keeps the sums of :mod:`sklearn_cka._moments`: its table is the one that `compare_layers` makes
of all rows, whatever the size and order of the batches, and accumulators over different rows merge. The minibatch
estimate adds up the unbiased HSIC of the batches instead, for layers too wide for P x P sums:

    minibatch CKA = sum_b w_b HSIC_1(K_b, L_b) / sqrt(sum_b w_b HSIC_1(K_b, K_b)  sum_b w_b HSIC_1(L_b, L_b))

with w_b = n_b (n_b - 1) / 2, the number of pairs of rows of batch b.

References: Chan, Golub & LeVeque (1983), The American Statistician 37; Nguyen, Raghu & Kornblith (2021), "Do wide and
deep networks learn the same things?", ICLR.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from tqdm.auto import tqdm

from sklearn_cka import _arrays, _backends, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka._minibatch import MinibatchSums
from sklearn_cka._moments import RowMoments
from sklearn_cka.exceptions import SimilarityWarning, UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram_index import GramIndex
from sklearn_cka.indexes._partial import drop_unweighted, embed_moments, enough_rows, make_moments, why_not
from sklearn_cka.indexes._registry import get_index, index_name
from sklearn_cka.indexes.cka import CKA
from sklearn_cka.layers import Layers, as_layers
from sklearn_cka.pairwise.compare import _changed_params, _judge, _undefined_layers
from sklearn_cka.pairwise.table import SimilarityTable

__all__ = ["LayerAccumulator", "accumulate_layers"]

ESTIMATES = ("exact", "minibatch")
# Rows of the smallest batch that has an unbiased HSIC.
_LEAST_BATCH = 4
# A progress bar shows once a job has taken this many seconds.
_SILENT_SECONDS = 1.0


class LayerAccumulator:
    """A table of all pairs of layers that takes its rows batch by batch.

    Parameters
    ----------
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index. Exact from batches are HSIC and CKA of the linear
        kernel, with both estimators, and the spectral family (CCA, SVCCA, PWCCA, linear predictivity, canonical ridge,
        Procrustes and its relatives). The minibatch estimate is for CKA, of any kernel.
    estimate : {"exact", "minibatch"}, default="exact"
        ``"exact"`` is the value of all rows at once; memory is O(P²), P the sum of the widths of all layers.
        ``"minibatch"`` is the estimate of Nguyen et al. (2021), which depends on how rows fall into batches; its
        memory does not grow with the widths, and it comes with a standard error over batches.
    **params
        Parameters of the index.

    Attributes
    ----------
    n_samples : int
        Rows so far.

    Raises
    ------
    ValueError
        If the index cannot be computed from batches, or an argument is unknown.

    Notes
    -----
    Minibatch estimate: a batch counts by its number of pairs of rows. A batch of fewer than 4 rows, as the last one may
    be, has no unbiased HSIC and is left out with a warning.
    With kernels other than the linear one, the bandwidth is that of each batch.

    References
    ----------
    Chan, Golub & LeVeque (1983), The American Statistician 37. Nguyen, Raghu & Kornblith (2021), ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import LayerAccumulator, cka
    >>> X = np.random.default_rng(0).standard_normal((90, 4))
    >>> Y = X[:, :2] ** 3
    >>> accumulator = LayerAccumulator("cka", debiased=True)
    >>> for rows in (slice(0, 50), slice(50, 90)):
    ...     _ = accumulator.update({"in": X[rows], "out": Y[rows]})
    >>> bool(np.isclose(accumulator.table().values[0, 1], cka(X, Y, debiased=True)))
    True
    """

    def __init__(self, index: str | BaseIndex = "cka", *, estimate: str = "exact", **params: Any) -> None:
        self.index = clone(get_index(index, **params))
        self.index._check_params()
        _validation.check_option("estimate", estimate, ESTIMATES)
        self.estimate = estimate
        if estimate == "minibatch":
            if type(self.index) is not CKA:
                raise ValueError(f'estimate="minibatch" is an estimate of CKA, got the index {self.index!r}.')
            self.index.set_params(debiased=True)
        elif why_not(self.index):
            raise ValueError(why_not(self.index))
        self._names: tuple[list[str], list[str] | None] | None = None
        self._widths: list[int] = []
        self._sums: RowMoments | MinibatchSums | None = None

    @property
    def n_samples(self) -> int:
        """Rows so far, without those of weight zero or in batches that were left out."""
        return 0 if self._sums is None else self._sums.n_rows

    def update(self, batch_a: Any, batch_b: Any = None, sample_weight: Array | None = None) -> LayerAccumulator:
        """Add a batch of rows.

        Parameters
        ----------
        batch_a : Layers, dict, list, DataFrame or path
            The batch in every layer of the first collection, as for :func:`~sklearn_cka.compare_layers`; the same
            layers in every batch.
        batch_b : Layers, dict, list, DataFrame or path, default=None
            The same rows in every layer of the second collection; None compares the first with itself.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts. Not for the minibatch estimate.

        Returns
        -------
        self : LayerAccumulator
            With the rows added; unchanged if an error is raised.

        Raises
        ------
        ValueError
            If row counts differ, an array is not finite, or layers or widths are not those of the batches before; the
            message names the layer.

        Warns
        -----
        SimilarityWarning
            If a batch of fewer than 4 rows is left out of a minibatch estimate.
        """
        a = as_layers(batch_a, argument="batch_a")
        b = None if batch_b is None else as_layers(batch_b, argument="batch_b")
        if b is not None:
            first, other = f"layer {a.names[0]!r} of batch_a", f"layer {b.names[0]!r} of batch_b"
            _validation.check_same_count(a.n_rows, b.n_rows, first, other)
            _validation.check_row_labels(a.index, b.index, "batch_a", "batch_b")
        names = self._names or (a.names, None if b is None else b.names)
        if (b is None) != (names[1] is None):
            raise ValueError("batch_b must be given in all batches or in none.")
        arrays = _in_order(a, names[0], "batch_a")
        if b is not None and names[1] is not None:
            arrays += _in_order(b, names[1], "batch_b")
        arrays = self._matched(arrays, names)
        weights = None
        if sample_weight is not None:
            if self.estimate == "minibatch":
                raise ValueError('estimate="minibatch" takes no sample_weight.')
            weights = _validation.check_weights(sample_weight, arrays[0])
            debiased = bool(getattr(self.index, "debiased", False))
            *arrays, weights = drop_unweighted(*arrays, weights=weights, debiased=debiased)
        widths = [int(array.shape[1]) for array in arrays]
        with _backends.product_precision(arrays[0]):
            self._add(arrays, weights, widths, names)
        self._names, self._widths = names, widths
        return self

    def merge(self, other: LayerAccumulator) -> LayerAccumulator:
        """Add the rows of another accumulator, which stays as it is.

        Parameters
        ----------
        other : LayerAccumulator
            Accumulator of the same index and the same layers over other rows.

        Returns
        -------
        self : LayerAccumulator
            With the rows of both.

        Raises
        ------
        ValueError
            If the index, the estimate or the layers differ.
        """
        if not isinstance(other, LayerAccumulator):
            raise TypeError(f"Expected a LayerAccumulator to merge, got {type(other).__name__}.")
        mine = (type(self.index), repr(self.index), self.estimate)
        if mine != (type(other.index), repr(other.index), other.estimate):
            raise ValueError(
                f"Accumulators of {self.index!r} ({self.estimate}) and of {other.index!r} ({other.estimate}) cannot be"
                " merged."
            )
        if other._names is None:
            return self
        if self._names is not None and (self._names != other._names or self._widths != other._widths):
            raise ValueError(
                f"Accumulators cannot be merged: one has the layers {self._described()}, the other"
                f" {other._described()}."
            )
        if other._sums is not None:
            if self._sums is None:
                self._sums = other._sums.copy()
            else:
                self._sums.merge(other._sums)  # type: ignore[arg-type]
        self._names, self._widths = other._names, list(other._widths)
        return self

    def table(self) -> SimilarityTable:
        """Return the similarities of all pairs of layers over the rows so far.

        Returns
        -------
        table : SimilarityTable
            As that of :func:`~sklearn_cka.compare_layers`, chance levels included; with the minibatch estimate
            ``standard_error``, NaN for a single batch.

        Raises
        ------
        ValueError
            If there are fewer rows than the index needs.

        Warns
        -----
        UndefinedSimilarityWarning
            If layers are constant over the rows: their rows and columns are NaN.
        ChanceLevelWarning
            If at least half of some biased values is expected by chance.
        """
        minimum, required_by = self.index._required_samples()
        if self._names is None or self._sums is None or not self._has_enough():
            total = self.n_samples if not isinstance(self._sums, RowMoments) else self._sums.total
            raise ValueError(
                f"There are {total:g} rows so far, while a minimum of {minimum} is required by {required_by}."
            )
        names_a, names_b = self._names[0], self._names[1] or self._names[0]
        one_sided = self._names[1] is None and self.index.properties.symmetric and self.index.has_equal_sides
        error = None
        if isinstance(self._sums, MinibatchSums):
            values, error = self._sums.estimate(len(names_a), one_sided=self._names[1] is None)
            chance = np.where(np.isnan(values), math.nan, 0.0)
            self._warn_of_minibatch(values, names_a, names_b)
        else:
            values, chance = self._exact(self._sums, names_a, names_b, one_sided)
        return SimilarityTable(
            values=values,
            chance=chance,
            row_names=names_a,
            column_names=names_b,
            index=index_name(self.index),
            params=_changed_params(self.index) | ({} if self.estimate == "exact" else {"estimate": self.estimate}),
            symmetric=one_sided,
            n_samples=self._sums.n_rows,
            bounds=self.index.properties.range,
            standard_error=error,
        )

    def __repr__(self) -> str:
        layers = "no layers yet" if self._names is None else self._described()
        return f"LayerAccumulator({self.index!r}, estimate={self.estimate!r}): {layers}, {self.n_samples} rows"

    def _exact(
        self, sums: RowMoments, names_a: list[str], names_b: list[str], one_sided: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        embedded = embed_moments(self.index, sums.copy(deep=False))
        rows = embedded[: len(names_a)]
        columns = rows if self._names is not None and self._names[1] is None else embedded[len(names_a) :]
        if isinstance(self.index, GramIndex):
            values = np.empty((len(rows), len(columns)))
            for i, left in enumerate(rows):
                for j, right in enumerate(columns):
                    values[i, j] = values[j, i] if one_sided and j < i else self.index.compare(left, right)
        else:
            values = np.asarray(self.index.compare_all(rows, rows if one_sided else columns), dtype=np.float64)
        chance = _judge(self.index, rows, None if one_sided else columns, values, names_a, names_b)
        return values, chance

    def _warn_of_minibatch(self, values: np.ndarray, names_a: list[str], names_b: list[str]) -> None:
        undefined = _undefined_layers(values, names_a, names_b)
        if undefined:
            shown = ", ".join(map(repr, undefined[:5])) + (" and more" if len(undefined) > 5 else "")
            warn(UndefinedSimilarityWarning(f"The minibatch CKA of every pair with layer {shown} is undefined (0/0)."))

    def _add(
        self, arrays: list[Array], weights: Array | None, widths: list[int], names: tuple[list[str], list[str] | None]
    ) -> None:
        if self.estimate == "exact":
            if self._sums is None:
                self._sums = make_moments(self.index, widths)
            self._sums.add(arrays, weights)  # type: ignore[call-arg, arg-type]
            return
        n = int(arrays[0].shape[0])
        if n < _LEAST_BATCH:
            warn(
                SimilarityWarning(
                    f"A batch of {n} row(s) was left out of the minibatch estimate: the unbiased HSIC of a batch needs"
                    f" {_LEAST_BATCH}. Choose a batch size that divides the number of rows better."
                )
            )
            return
        if self._sums is None:
            self._sums = MinibatchSums(len(arrays))
        self._sums.add(self.index, arrays, None if names[1] is None else len(names[0]))  # type: ignore[call-arg, arg-type]

    def _matched(self, arrays: list[Array], names: tuple[list[str], list[str] | None]) -> list[Array]:
        """Return all layers as checked arrays where the first of them, or the earlier batches, lie."""
        labels = [f"layer {name!r} of batch_a" for name in names[0]]
        labels += [f"layer {name!r} of batch_b" for name in names[1] or []]
        reference = self._sums.scatter if isinstance(self._sums, RowMoments) else None
        made: list[Array] = []
        for i, (array, label) in enumerate(zip(arrays, labels, strict=True)):
            checked = _backends.move(_validation.check_matrix(array, label, required_by="LayerAccumulator"))
            reference = checked if reference is None else reference
            made.append(_arrays.like(checked, reference))
            if self._widths and int(checked.shape[1]) != self._widths[i]:
                raise ValueError(
                    f"{label} has {checked.shape[1]} features, but had {self._widths[i]} in the batches before."
                )
        if self.index.properties.equal_widths and len({int(array.shape[1]) for array in made}) > 1:
            raise ValueError(f"{type(self.index).__name__} compares layers of equal width only.")
        return made

    def _has_enough(self) -> bool:
        if isinstance(self._sums, RowMoments):
            return enough_rows(self.index, self._sums)
        return True

    def _described(self) -> str:
        assert self._names is not None
        a = ", ".join(f"{name} ({width})" for name, width in zip(self._names[0], self._widths, strict=False))
        if self._names[1] is None:
            return a
        widths = self._widths[len(self._names[0]) :]
        return f"{a} | " + ", ".join(f"{name} ({width})" for name, width in zip(self._names[1], widths, strict=True))


def _in_order(layers: Layers, names: list[str], argument: str) -> list[Array]:
    """Return the arrays of the layers in the order of the first batch."""
    if set(layers.names) != set(names):
        missing = [name for name in names if name not in layers]
        added = [name for name in layers.names if name not in names]
        found = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
        found += [f"has the unknown {', '.join(map(repr, added))}"] if added else []
        raise ValueError(f"{argument} {' and '.join(found)}; its layers must be those of the batches before.")
    return [layers[name] for name in names]


def accumulate_layers(
    a: Mapping[str, Any] | Sequence[Any],
    b: Mapping[str, Any] | Sequence[Any] | None = None,
    index: str | BaseIndex = "cka",
    *,
    batch_size: int = 1_024,
    estimate: str = "exact",
    sample_weight: Any = None,
    verbose: int = 1,
    **params: Any,
) -> LayerAccumulator:
    """Read layers that need not fit into memory once, in blocks of rows, into an accumulator.

    Parameters
    ----------
    a : mapping of str to array, or sequence of arrays
        Layers of shape (n_samples, ...) over the same rows: NumPy arrays, memory maps, zarr arrays, h5py datasets, or
        whatever gives a block of its rows by ``array[start:stop]``. If all layers are dask arrays, each block of rows
        is summed up where it lies and the sums are merged in a tree, on the cluster of the active client if there is
        one; `batch_size` then is that of the chunks.
    b : mapping of str to array, or sequence of arrays, default=None
        Layers of the second collection; None compares `a` with itself.
    index : str or BaseIndex, default="cka"
        As of :class:`LayerAccumulator`.
    batch_size : int, default=1024
        Rows read at a time. At least 4 with the minibatch estimate, which leaves out, with a warning, a
        shorter last block.
    estimate : {"exact", "minibatch"}, default="exact"
        As of :class:`LayerAccumulator`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.
    **params
        Parameters of the index.

    Returns
    -------
    accumulator : LayerAccumulator
        Over all rows; its ``table()`` has the similarities.

    Raises
    ------
    ValueError
        If row counts differ (the message names the layers), or as :class:`LayerAccumulator`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import accumulate_layers
    >>> X = np.random.default_rng(0).standard_normal((5000, 8))
    >>> accumulate_layers({"in": X, "out": X[:, :3]}, batch_size=1000).table().to_frame().round(2)
          in   out
    in   1.00  0.61
    out  0.61  1.00
    """
    least = _LEAST_BATCH if estimate == "minibatch" else 1
    if not isinstance(batch_size, numbers.Integral) or isinstance(batch_size, (bool, np.bool_)) or batch_size < least:
        what = "of at least 4, which the unbiased HSIC of a batch needs," if least > 1 else "of at least 1,"
        raise ValueError(f"batch_size must be an integer {what} got {batch_size!r}.")
    accumulator = LayerAccumulator(index, estimate=estimate, **params)
    sides = (_sources(a), None if b is None else _sources(b))
    n = _count_rows(sides)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    if weights is not None and weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},): one weight for every row.")
    everything = [*sides[0].values(), *(sides[1] or {}).values()]
    if all(_is_dask(array) for array in everything):
        from sklearn_cka._dask import reduce_blocks

        return reduce_blocks(accumulator, *sides, weights)
    with tqdm(
        total=n, desc="reading rows", unit="row", disable=verbose <= 0, delay=_SILENT_SECONDS, leave=False
    ) as bar:
        for rows in _linalg.blocks(n, int(batch_size)):
            if weights is not None and not weights[rows].any():
                continue
            read = [None if side is None else _read(side, rows) for side in sides]
            accumulator.update(read[0], read[1], None if weights is None else weights[rows])
            bar.update(rows.stop - rows.start)
    return accumulator


def _sources(layers: Any) -> dict[str, Any]:
    """Return the layers by name, not yet read where they are given as a mapping."""
    if isinstance(layers, Layers) or not isinstance(layers, (Mapping, list, tuple)):
        return dict(as_layers(layers))
    if isinstance(layers, Mapping):
        return {str(name): layers[name] for name in layers}
    return {f"layer_{i}": array for i, array in enumerate(layers)}


def _count_rows(sides: tuple[dict[str, Any], dict[str, Any] | None]) -> int:
    """Return the number of rows that all layers have."""
    first: tuple[str, int] | None = None
    for argument, side in zip("ab", sides, strict=True):
        for name, array in (side or {}).items():
            label, n = f"layer {name!r} of {argument}", int(array.shape[0])
            first = first or (label, n)
            _validation.check_same_count(first[1], n, first[0], label)
    if first is None:
        raise ValueError("a has no layers.")
    return first[1]


def _is_dask(array: Any) -> bool:
    return type(array).__module__.startswith("dask.") and hasattr(array, "dask")


def _read(side: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Return one block of rows of every layer, in memory."""
    read = {name: array[rows] for name, array in side.items()}
    waiting = [name for name, block in read.items() if _is_dask(block)]
    if waiting:
        import dask

        read.update(zip(waiting, dask.compute(*(read[name] for name in waiting)), strict=True))
    return {name: block if _arrays.is_array(block) else np.asarray(block) for name, block in read.items()}
