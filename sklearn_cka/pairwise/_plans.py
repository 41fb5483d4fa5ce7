"""Which way to fill a table: the operations of each, and the choice between them.

With L layers of n rows and widths p_i, P their sum, all pairs of one collection take n^2 P + n^2 L^2 / 2 operations
through Gram matrices and n P^2 through features (symmetric halves both), so that Gram matrices win while n < P,
about. Two collections A and B take n^2 (P_A + P_B) + n^2 L_A L_B against 2 n P_A P_B + n sum(p_i^2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sklearn_cka._validation import check_option
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram_index import GramIndex

PLANS = ("gram", "feature", "matrix", "embed")


@dataclass(frozen=True)
class Plan:
    """How a table was computed.

    Attributes
    ----------
    name : str
        ``"gram"`` (strips of Gram matrices of features), ``"feature"`` (products of features), ``"matrix"`` (whole
        Gram matrices) or ``"embed"`` (embeddings compared pair by pair, or all at once by their family).
    operations : dict of str to float
        Estimated multiply-add operations of every way that was open.
    """

    name: str
    operations: dict[str, float]


def choose(
    index: BaseIndex, n: int, widths_a: Sequence[int], widths_b: Sequence[int] | None, asked: str | None
) -> Plan:
    """Return the plan asked for, or the one of fewest operations among those open to the index.

    Raises
    ------
    ValueError
        If the plan asked for is unknown or not open to the index.
    """
    operations = _operations(index, n, widths_a, widths_b)
    if asked is None:
        return Plan(min(operations, key=operations.__getitem__), operations)
    check_option("plan", asked, PLANS)
    if asked not in operations:
        raise ValueError(
            f"plan={asked!r} is not open to {index!r}; it can be computed by {' or '.join(map(repr, operations))}."
        )
    return Plan(asked, operations)


def _operations(index: BaseIndex, n: int, widths_a: Sequence[int], widths_b: Sequence[int] | None) -> dict[str, float]:
    if not isinstance(index, GramIndex):
        return {"embed": float("nan")}
    total_a, pairs = sum(widths_a), len(widths_a) ** 2 / 2
    total, squares = total_a, total_a**2 / 2
    if widths_b is not None:
        total_b = sum(widths_b)
        total, pairs = total_a + total_b, len(widths_a) * len(widths_b)
        squares = total_a * total_b + sum(p * p for p in (*widths_a, *widths_b)) / 2
    gram, feature = n * n * (total / 2 + pairs / 2), n * squares
    if not index.is_linear:
        return {"matrix": float(n * n * (total + pairs))}
    operations = {"gram": float(gram), "feature": float(feature)}
    form = getattr(index, "form", "auto")
    return operations if form == "auto" else {form: operations[form]}
