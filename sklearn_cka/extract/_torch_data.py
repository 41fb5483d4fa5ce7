"""Batches for torch models, out of whatever holds the rows, always in the same order.

Two representations can be compared only if their rows are the same examples in the same order. Arrays and datasets
are read in order. A `DataLoader` is asked for its order before it is run, and refused if that is not the same every
time or leaves rows out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from sklearn_cka._arrays import describe_type

DEFAULT_BATCH_SIZE = 64
_RANDOM_SAMPLERS = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
FIXED_ORDER = (
    "rows of two extractions could not be paired. Use shuffle=False, or fix the order: DataLoader(..., "
    "generator=torch.Generator().manual_seed(0))"
)


@dataclass(frozen=True)
class Batch:
    """The inputs of one forward pass: positional and keyword arguments, for `n_rows` rows."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    n_rows: int

    def to(self, device: torch.device) -> Batch:
        """Return the batch with its tensors on a device."""
        return Batch(_move(self.args, device), _move(self.kwargs, device), self.n_rows)


@dataclass(frozen=True)
class Drawn:
    """A batch as it comes out of the data, before it is made the input of a model."""

    given: Any
    n_rows: int | None  # None: as many as its first tensor has
    # Whether a tuple is several inputs, as a user gives them, or an example with its label, as a dataset does.
    is_direct: bool


@dataclass(frozen=True)
class Source:
    """Rows in a fixed order: how many (None: not known), their labels, and a function that gives them in batches."""

    n_rows: int | None
    batches: Callable[[], Iterator[Drawn]]
    labels: pd.Index | None = None


def make_source(data: Any, *, batch_size: int | None, takes_lists: bool = False) -> Source:
    """Return the rows of `data` in batches.

    Parameters
    ----------
    data : tensor, array, dict, tuple, list of str, Dataset or DataLoader
        What to run the model on.
    batch_size : int or None
        Rows per batch; None is that of the DataLoader, or 64.
    takes_lists : bool, default=False
        Whether there is a function that makes inputs of lists of anything.

    Raises
    ------
    TypeError
        If `data` is of none of these kinds.
    ValueError
        If the rows do not pair up, are none, or their order is not fixed.
    """
    if batch_size is not None and (isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1):
        raise ValueError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    if isinstance(data, DataLoader):
        if batch_size is not None and batch_size != data.batch_size:
            raise ValueError(
                f"batch_size={batch_size} was given with a DataLoader, which makes batches of its own "
                f"(batch_size={data.batch_size}): leave it out, or pass the loader's dataset."
            )
        return _loader_source(data)
    size = batch_size or DEFAULT_BATCH_SIZE
    if isinstance(data, Dataset):
        return _loader_source(DataLoader(data, batch_size=size))
    return _array_source(data, size, takes_lists)


def _array_source(data: Any, batch_size: int, takes_lists: bool) -> Source:
    """Return the rows of tensors, arrays, or lists."""
    parts = _parts(data, takes_lists)
    counts = {name: len(values) for name, values in parts.items()}
    first = next(iter(counts))
    for name, count in counts.items():
        if count != counts[first]:
            raise ValueError(f"Input {name!r} has {count} rows and {first!r} has {counts[first]}; all need the same.")
    n_rows = counts[first]
    if n_rows == 0:
        raise ValueError("The data have no rows.")
    labels = data.index if hasattr(data, "iloc") and isinstance(data.index, pd.Index) else None

    def batches() -> Iterator[Drawn]:
        for start in range(0, n_rows, batch_size):
            stop = min(start + batch_size, n_rows)
            cut = {name: values[start:stop] for name, values in parts.items()}
            if isinstance(data, Mapping):
                given: Any = cut
            elif isinstance(data, tuple):
                given = tuple(cut.values())
            else:
                given = next(iter(cut.values()))
            yield Drawn(given, stop - start, is_direct=True)

    return Source(n_rows, batches, labels)


def _parts(data: Any, takes_lists: bool) -> dict[str, Any]:
    """Return what has to be cut into rows, by name."""
    if isinstance(data, Mapping):
        if not data:
            raise ValueError("The dict of inputs is empty.")
        return {str(name): _sliceable(value, f"input {name!r}", takes_lists) for name, value in data.items()}
    if isinstance(data, tuple):
        if not data:
            raise ValueError("The tuple of inputs is empty.")
        return {str(i): _sliceable(value, f"input {i}", takes_lists) for i, value in enumerate(data)}
    return {"data": _sliceable(data, "data", takes_lists)}


def _sliceable(value: Any, label: str, takes_lists: bool) -> Any:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        if value.ndim == 0:
            raise ValueError(f"{label} is a single number; the first axis must be the rows.")
        return value
    if isinstance(value, list) and takes_lists:
        return value
    if isinstance(value, list) and value and isinstance(value[0], str):
        raise TypeError(
            f"{label} is a list of strings, which a torch model does not read: give inputs=, a function that makes "
            "tensors of a list of them, such as lambda texts: tokenizer(texts, padding=True, return_tensors='pt')."
        )
    if hasattr(value, "iloc"):
        value = value.to_numpy()
    elif isinstance(value, list) or hasattr(value, "__array__"):
        value = np.asarray(value)
    else:
        raise TypeError(
            f"{label} must be a tensor, an array, a dict of keyword inputs, a tuple of positional inputs, a Dataset or "
            f"a DataLoader; got {describe_type(value)}."
        )
    return _sliceable(value, label, takes_lists)


def make_batch(drawn: Drawn, inputs: Callable[[Any], Any] | None, float_type: torch.dtype | None) -> Batch:
    """Return the arguments for a model that a batch of data stands for.

    Parameters
    ----------
    drawn : Drawn
        The batch.
    inputs : callable or None
        Makes a tensor, a tuple of positional or a dict of keyword arguments of it.
    float_type : torch.dtype or None
        The type of the model's parameters, which arrays of floating-point numbers are converted to.

    Raises
    ------
    TypeError
        If there is no tensor in it.
    ValueError
        If it has another number of rows than it should.
    """
    given, n_rows, is_direct = _as_tensors(drawn.given, float_type), drawn.n_rows, drawn.is_direct
    if inputs is not None:
        given, is_direct = inputs(given), True
    if isinstance(given, (tuple, list)) and not is_direct and given:
        given = given[0]
    args: tuple[Any, ...] = (given,)
    kwargs: dict[str, Any] = {}
    if isinstance(given, Mapping):
        args, kwargs = (), {str(name): value for name, value in given.items()}
    elif isinstance(given, tuple) and is_direct:
        args = given
    if n_rows is None or inputs is None:
        found = _count_rows((*args, *kwargs.values()))
        if n_rows is not None and found != n_rows:
            raise ValueError(
                f"A batch of the DataLoader has {found} rows where {n_rows} were asked for: its collate_fn drops or "
                "adds rows."
            )
        n_rows = found
    return Batch(args, kwargs, n_rows)


def _as_tensors(value: Any, float_type: torch.dtype | None) -> Any:
    """Return a batch of arrays as tensors; everything else is returned as it is."""
    if isinstance(value, dict):
        return {name: _as_tensors(part, float_type) for name, part in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_as_tensors(part, float_type) for part in value)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "biuf":
        raise TypeError(f"The data are an array of {value.dtype}; a torch model takes numbers.")
    # A copy: torch warns of read-only memory, such as that of memory maps.
    tensor = torch.from_numpy(np.array(value))
    return tensor.to(float_type) if float_type is not None and tensor.is_floating_point() else tensor


def _count_rows(values: tuple[Any, ...]) -> int:
    for value in values:
        if isinstance(value, torch.Tensor) and value.ndim:
            return int(value.shape[0])
    kinds = ", ".join(describe_type(value) for value in values)
    raise TypeError(f"A batch holds no tensor ({kinds}): give inputs=, a function that makes a model's input of it.")


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {name: _move(item, device) for name, item in value.items()}
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(_move(item, device) for item in value)
    return value


def _loader_source(loader: DataLoader) -> Source:
    """Return the rows of a DataLoader in an order that is the same every time."""
    if isinstance(loader.dataset, IterableDataset):
        if loader.drop_last:
            raise ValueError("The DataLoader drops the last batch (drop_last=True): its rows would be lost.")
        return Source(None, lambda: _pass_on(loader, None))
    n_dataset = len(loader.dataset)  # type: ignore[arg-type]
    if n_dataset == 0:
        raise ValueError("The dataset has no rows.")
    order = _fixed_order(loader)
    rows = np.array([row for batch in order for row in batch])
    if loader.drop_last and 0 < n_dataset - len(rows) < (loader.batch_size or n_dataset):
        raise ValueError(
            f"The DataLoader drops the last {n_dataset - len(rows)} of {n_dataset} rows (drop_last=True); use "
            "drop_last=False."
        )
    if len(np.unique(rows)) < len(rows):
        raise ValueError("The DataLoader gives some rows more than once; use a sampler that takes each row once.")
    labels = pd.RangeIndex(n_dataset) if np.array_equal(rows, np.arange(n_dataset)) else pd.Index(rows)
    if type(loader).__iter__ is not DataLoader.__iter__:
        # A loader with an iteration of its own is run as it is; the number of its rows is checked at the end.
        return Source(len(rows), lambda: _pass_on(loader, None), labels)
    return Source(len(rows), lambda: _pass_on(_in_order(loader, order), order), labels)


def _fixed_order(loader: DataLoader) -> list[list[int]]:
    """Return the batches of row numbers of a loader, refusing one whose order is another every time.

    The order is drawn twice from the same state of the loader's generators, while those of the process run on; all
    of them are left as they were.
    """
    if loader.batch_sampler is None:
        raise ValueError(
            "The DataLoader has batch_size=None, so that its items are batches of unknown rows; give it a batch_size."
        )
    holders = [getattr(loader.sampler, "generator", None), loader.generator]
    generators = [generator for generator in holders if isinstance(generator, torch.Generator)]
    starts = [generator.get_state() for generator in generators]
    state = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    drawn = []
    try:
        for _ in range(2):
            for generator, start in zip(generators, starts, strict=True):
                generator.set_state(start)
            drawn.append([list(batch) for batch in loader.batch_sampler])
    finally:
        for generator, start in zip(generators, starts, strict=True):
            generator.set_state(start)
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])  # noqa: NPY002
        random.setstate(state[2])
    # Two shuffles of few rows can agree, so a known random sampler without a generator is refused all the same.
    if drawn[0] != drawn[1] or (isinstance(loader.sampler, _RANDOM_SAMPLERS) and not generators):
        own = type(loader.batch_sampler) is not BatchSampler
        kind = type(loader.batch_sampler if own else loader.sampler).__name__
        raise ValueError(f"The DataLoader shuffles ({kind}), another way every time: {FIXED_ORDER}.")
    return drawn[0]


def _in_order(loader: DataLoader, order: list[list[int]]) -> DataLoader:
    """Return a loader of the same examples in a given order, which leaves the generators alone."""
    workers: dict[str, Any] = {}
    if loader.num_workers:
        workers = {
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor,
            "multiprocessing_context": loader.multiprocessing_context,
            "worker_init_fn": loader.worker_init_fn,
            "timeout": loader.timeout,
        }
    return DataLoader(
        loader.dataset,
        batch_sampler=order,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        generator=torch.Generator(),
        **workers,
    )


def _pass_on(loader: DataLoader, order: list[list[int]] | None) -> Iterator[Drawn]:
    """Yield the batches of a loader, with the number of rows that were asked for, where it is known."""
    for i, given in enumerate(loader):
        yield Drawn(given, None if order is None else len(order[i]), is_direct=False)
