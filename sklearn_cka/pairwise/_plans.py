"""Which way to fill a table: the operations and the memory of each, and the choice between them.

With L layers of n rows and widths p_i, P their sum, all pairs of one collection take n^2 P + n^2 L^2 / 2 operations
through Gram matrices and n P^2 through features (symmetric halves both), so that Gram matrices win while n < P,
about. Two collections A and B take n^2 (P_A + P_B) + n^2 L_A L_B against 2 n P_A P_B + n sum(p_i^2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sklearn_cka import _memory
from sklearn_cka._validation import check_option
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram_index import GramIndex
from sklearn_cka.pairwise import _kernel_tiles, _tiles

PLANS = ("gram", "feature", "matrix", "tiles", "spectral", "embed")

# Share of the free memory that a table may take, so that something is left for whoever else runs.
_SHARE = 0.8


@dataclass(frozen=True)
class Plan:
    """How a table was computed, and at what cost.

    Attributes
    ----------
    name : str
        ``"gram"`` (strips of Gram matrices of features), ``"feature"`` (products of features), ``"matrix"`` (whole
        Gram matrices of a kernel), ``"tiles"`` (blocks of them, computed twice and not kept), ``"spectral"`` (one
        decomposition a layer, one product for all pairs) or ``"embed"`` (embeddings compared pair by pair, or all
        at once by their family).
    operations : dict of str to float
        Estimated multiply-add operations of every way that was open; NaN for ``"embed"``, whose cost is the index's.
    memory : dict of str to int
        Estimated bytes that every way takes at most, besides the layers given.
    in_pieces : bool
        Whether NumPy layers that do not fit on a device stayed in host memory, and pieces of them were moved there.
    seconds : float
        What the table took, measured; NaN before.
    """

    name: str
    operations: dict[str, float]
    memory: dict[str, int]
    seconds: float = math.nan
    in_pieces: bool = False


@dataclass(frozen=True)
class Sizes:
    """The sizes of a table: rows, widths of both sides (None: one side), bytes a number, widths to be embedded."""

    n: int
    widths_a: Sequence[int]
    widths_b: Sequence[int] | None
    itemsize: int
    embedded: Sequence[int]


def choose(index: BaseIndex, sizes: Sizes, asked: str | None, free: float | None, on_host: float | None = None) -> Plan:
    """Return the plan asked for, or the one of fewest operations among those that are open to the index and fit.

    `on_host` is what is free in host memory where the layers lie there and the table is computed on a device of
    `free` bytes: if no plan fits on the device, the layers stay where they are and pieces of them are moved.

    Raises
    ------
    ValueError
        If the plan asked for is unknown or not open to the index.
    MemoryError
        If no plan fits into `free` bytes.
    """
    operations, memory = _operations(index, sizes), _memory_of_plans(index, sizes)
    if asked is not None:
        check_option("plan", asked, PLANS)
        if asked not in operations:
            raise ValueError(
                f"plan={asked!r} is not open to {index!r}; it can be computed by {' or '.join(map(repr, operations))}."
            )
    wanted = list(operations) if asked is None else [asked]
    fitting = [name for name in wanted if free is None or memory[name] <= _SHARE * free]
    in_pieces = not fitting and free is not None and on_host is not None
    if in_pieces and free is not None and on_host is not None:
        pieces = _tiles.piece_bytes(sizes.n, list(sizes.embedded), sizes.itemsize)
        held = sizes.n * sum(sizes.embedded) * sizes.itemsize
        fitting = [name for name in wanted if pieces.get(name, math.inf) <= _SHARE * free and held <= _SHARE * on_host]
        memory |= {name: pieces[name] for name in fitting}
    if not fitting:
        raise MemoryError(_refusal(index, sizes, min(wanted, key=memory.__getitem__), memory, free or 0.0))
    best = min(fitting, key=operations.__getitem__)
    return Plan(best, operations, memory, in_pieces=in_pieces)


def _refusal(index: BaseIndex, sizes: Sizes, name: str, memory: dict[str, int], free: float) -> str:
    n_layers = len(sizes.embedded)
    others = [other for other in memory if memory[other] <= _SHARE * free]
    remedies = [f"plan={other!r}" for other in others]
    remedies += ["fewer layers or rows at a time", "float32 instead of float64"][: 1 + (sizes.itemsize == 8)]
    if getattr(index, "is_linear", True) and hasattr(type(index), "partial_fit"):
        remedies.append("batches of rows through LayerAccumulator, which is exact and needs no layer whole")
    elif isinstance(index, GramIndex) and not index.is_linear:
        remedies.append("feature_map=sklearn.kernel_approximation.Nystroem(), which approximates the kernel")
    return (
        f"A table of {n_layers} layer{'' if n_layers == 1 else 's'} of {sizes.n:,} rows by plan {name!r} takes about"
        f" {_memory.size_text(memory[name])} besides the layers, and {_memory.size_text(int(free))} are free."
        f" What would fit: {'; '.join(remedies)}."
    )


def _operations(index: BaseIndex, sizes: Sizes) -> dict[str, float]:
    n, widths_a, widths_b = sizes.n, sizes.widths_a, sizes.widths_b
    if not isinstance(index, GramIndex):
        if index.family == "spectral":
            return {"spectral": float(n * sum(min(n, p) * p for p in sizes.embedded) + _spectral_pairs(sizes))}
        return {"embed": math.nan}
    total_a, pairs = sum(widths_a), len(widths_a) ** 2 / 2
    total, squares = total_a, total_a**2 / 2
    if widths_b is not None:
        total_b = sum(widths_b)
        total, pairs = total_a + total_b, len(widths_a) * len(widths_b)
        squares = total_a * total_b + sum(p * p for p in (*widths_a, *widths_b)) / 2
    gram, feature = n * n * (total / 2 + pairs / 2), n * squares
    if not index.is_linear:
        operations = {"matrix": float(n * n * (sum(sizes.embedded) + pairs))}
        if _kernel_tiles.can_tile(index):
            operations["tiles"] = float(n * n * (2 * sum(sizes.embedded) + pairs))
        return operations
    operations = {"gram": float(gram), "feature": float(feature)}
    form = getattr(index, "form", "auto")
    return operations if form == "auto" else {form: operations[form]}


def _spectral_pairs(sizes: Sizes) -> float:
    """Return the operations of all products of bases."""
    ranks_a = sum(min(sizes.n, p) for p in sizes.widths_a)
    if sizes.widths_b is None:
        return sizes.n * ranks_a**2 / 2
    return float(sizes.n * ranks_a * sum(min(sizes.n, p) for p in sizes.widths_b))


def _memory_of_plans(index: BaseIndex, sizes: Sizes) -> dict[str, int]:
    n, size, n_layers = sizes.n, sizes.itemsize, len(sizes.embedded)
    centered = n * sum(sizes.embedded) * size
    strips = _tiles.buffer_bytes(n, n_layers, size)
    squares = n_layers * n * n * size
    memory = {
        "gram": centered + strips,
        "feature": centered + _tiles.group_bytes(n, max(sizes.embedded), size),
        "matrix": squares + 2 * n * n * size + strips,
        "tiles": centered + _tiles.buffer_bytes(n, 2 * n_layers, size),
        "spectral": 2 * n * sum(min(n, p) for p in sizes.embedded) * size,
        "embed": squares if index.family == "gram" else centered,
    }
    return {name: int(memory[name]) for name in _operations(index, sizes)}
