"""Accumulators from dask arrays: every block of rows is summed up where it lies, and the sums are merged in a tree."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sklearn_cka.streaming import LayerAccumulator

# Accumulators merged by one task.
_BRANCHES = 4


def reduce_blocks(
    empty: LayerAccumulator, a: dict[str, Any], b: dict[str, Any] | None, weights: np.ndarray | None
) -> LayerAccumulator:
    """Return the accumulator of all rows of dask arrays, computed by dask's scheduler.

    Blocks are the row chunks of the first layer; all other layers are cut alike.
    """
    import dask

    rows = next(iter(a.values())).chunks[0]
    if any(np.isnan(size) for size in rows):
        raise ValueError("dask arrays must have known chunk sizes; call their compute_chunk_sizes().")
    starts = np.concatenate([[0], np.cumsum(rows)])
    parts = [None if side is None else _row_chunks(side, rows) for side in (a, b)]
    update = dask.delayed(_accumulate, pure=False)
    made = []
    for i, (start, stop) in enumerate(itertools.pairwise(starts)):
        part = None if weights is None else weights[start:stop]
        if stop == start or (part is not None and not part.any()):
            continue
        read = [None if side is None else {name: chunks[i] for name, chunks in side.items()} for side in parts]
        made.append(update(empty, read[0], read[1], part))
    join = dask.delayed(_merge, pure=False)
    while len(made) > 1:
        made = [join(made[i : i + _BRANCHES]) for i in range(0, len(made), _BRANCHES)]
    return made[0].compute() if made else empty


def _row_chunks(side: dict[str, Any], rows: tuple[int, ...]) -> dict[str, list[Any]]:
    """Return the blocks of rows of every layer, all columns in one, as delayed values."""
    chunks = {}
    for name, array in side.items():
        whole = array.rechunk((rows, *((size,) for size in array.shape[1:])))
        chunks[name] = list(whole.to_delayed().ravel())
    return chunks


def _accumulate(
    empty: LayerAccumulator, a: dict[str, Any], b: dict[str, Any] | None, weights: np.ndarray | None
) -> LayerAccumulator:
    import copy

    return copy.deepcopy(empty).update(a, b, weights)


def _merge(accumulators: list[LayerAccumulator]) -> LayerAccumulator:
    import copy

    merged = copy.deepcopy(accumulators[0])
    for other in accumulators[1:]:
        merged.merge(other)
    return merged
