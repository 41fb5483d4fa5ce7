"""What may come with the rows besides X and y: weights, and one further array by the name that an index gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn_cka import _arrays, _validation
from sklearn_cka._arrays import Array


@dataclass(frozen=True)
class RowData:
    """Row weights, and the further array; it travels through the template of an index in the place of the weights."""

    sample_weight: Array | None = None
    extra: Any = None


def without_zero_weights(extra: Array, sample_weight: Any) -> Array:
    """Leave out the rows of weight zero, as it is done with X and y."""
    if sample_weight is None:
        return extra
    xp = _arrays.namespace(extra)
    positive = _validation.check_weights(sample_weight, extra) > 0
    return extra if bool(xp.all(positive)) else xp.take(extra, xp.nonzero(positive)[0], axis=0)


def check_rows_of(extra: Array, X: Array, name: str) -> None:
    """Raise ValueError unless the further array describes the rows of `X`, with what to do in cross-validation."""
    if extra.shape[0] != X.shape[0]:
        raise ValueError(
            f"{name} has {extra.shape[0]} rows and X has {X.shape[0]}: it must describe the same rows. Where rows are"
            " taken from the data, as in cross-validation, give it to fit and score instead of the constructor, and"
            f" request it by set_fit_request({name}=True) and set_score_request({name}=True)."
        )
