"""What an index declares of itself, and the distances that it may declare to be metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["METRIC_FORMS", "TRANSFORMATIONS", "IndexProperties", "is_mostly_chance"]

#: What a representation may undergo without changing an invariant index.
TRANSFORMATIONS = ("translation", "isotropic_scaling", "permutation", "orthogonal", "invertible_linear")

#: Distances that are metrics where an index declares them by name; rounding makes none negative.
METRIC_FORMS: dict[str | None, Callable[[float], float]] = {
    "arccos(s)": lambda s: math.acos(max(-1.0, min(1.0, s))),
    "sqrt(2 - 2s)": lambda s: math.sqrt(max(0.0, 2.0 - 2.0 * s)),
    "sqrt(1 - s)": lambda s: math.sqrt(max(0.0, 1.0 - s)),
    "1 - s": lambda s: max(0.0, 1.0 - s),
    "-s": lambda s: max(0.0, -s),
}

# A biased value is mostly chance if at least half of it is, and the chance level itself is not negligible.
_MOSTLY_CHANCE = 0.5
_NEGLIGIBLE_CHANCE = 0.1


@dataclass(frozen=True)
class IndexProperties:
    """What an index declares of itself; :func:`sklearn_cka.testing.check_index` verifies all of it.

    Attributes
    ----------
    range : (float, float)
        Smallest and largest value.
    symmetric : bool
        Whether exchanging the two representations changes nothing.
    invariances : frozenset of str or None
        Which of ``"translation"``, ``"isotropic_scaling"``, ``"permutation"`` (of units), ``"orthogonal"`` and
        ``"invertible_linear"`` maps of either side change nothing. What is not named does change the value. None
        where it is not known, as for a kernel given as a function.
    self_similarity : float or None
        The value of a representation with itself; None where it depends on the representation.
    metric : str or None
        The distance form that is a metric, ``"arccos(s)"``, ``"sqrt(2 - 2s)"``, ``"sqrt(1 - s)"``, ``"1 - s"`` or
        ``"-s"`` of the similarity s; None without one.
    min_samples : int
        Least number of rows.
    equal_widths : bool
        Whether both representations must have the same number of features.
    cost : str
        Operations for one pair; n rows, p and q features.
    reference : str
        Where the index was defined.
    """

    range: tuple[float, float] = (-math.inf, math.inf)
    symmetric: bool = True
    invariances: frozenset[str] | None = field(default_factory=frozenset)
    self_similarity: float | None = None
    metric: str | None = None
    min_samples: int = 2
    equal_widths: bool = False
    cost: str = ""
    reference: str = ""


def is_mostly_chance(similarity: float, chance: float) -> bool:
    """Whether at least half of a value, and not a negligible amount, is its chance level; False where one is NaN."""
    return chance > _NEGLIGIBLE_CHANCE and chance > _MOSTLY_CHANCE * similarity
