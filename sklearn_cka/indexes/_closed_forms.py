"""Indexes that are known functions of the inner products of centred Gram matrices of their rows alone.

For these the values without each row, and under permutations, come from sums over the rows of one embedding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_cka import _linalg, _resampling
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, GramIndex
from sklearn_cka.indexes.angular_cka import AngularCKA
from sklearn_cka.indexes.cka import CKA
from sklearn_cka.indexes.distance_correlation import DistanceCorrelation
from sklearn_cka.indexes.hsic import HSIC

# What is left of a self-product below this many units in the last place of the whole is rounding.
_ROUNDING_ULPS = 64.0


def has_closed_forms(index: BaseIndex) -> bool:
    """Whether the index is a known function of the inner products of centred Gram matrices of its rows alone."""
    known = (CKA.normalize, AngularCKA.normalize, HSIC.normalize, DistanceCorrelation.normalize)
    is_known = getattr(type(index), "normalize", None) in known
    return is_known and type(index)._embed_side is GramIndex._embed_side  # type: ignore[attr-defined]


def is_linear_in_products(index: BaseIndex) -> bool:
    """Whether the index is linear in the inner product of both sides, so that moments under permutation carry over."""
    kind = getattr(type(index), "normalize", None)
    rooted = getattr(index, "_is_rooted", False)
    return has_closed_forms(index) and kind is not AngularCKA.normalize and not rooted


def row_products(a: GramEmbedding, b: GramEmbedding, form: str) -> _resampling.RowProducts:
    """Return the row products of two embeddings in one form."""
    if form == "feature":
        return _resampling.feature_row_products(a.features, b.features, debiased=a.debiased)
    return _resampling.gram_row_products(a.gram, b.gram)


def normalize_many(
    index: CenteredGramIndex,
    inner: np.ndarray,
    self_a: np.ndarray,
    self_b: np.ndarray,
    a: GramEmbedding,
    b: GramEmbedding,
    n: Any,
    form: str,
) -> np.ndarray:
    """Return the index of many inner products, each of n rows; what is rounding of a self-product is taken as zero."""
    sides = ((self_a, a), (self_b, b))
    self_a, self_b = (
        np.where(own > _ROUNDING_ULPS * side.eps * side.self_inner(form), own, 0.0) for own, side in sides
    )
    undefined = (self_a <= 0.0) | (self_b <= 0.0)
    if type(index).normalize is HSIC.normalize:
        pairs = n * (n - 3.0) if index._is_debiased else (n - 1.0) ** 2
        values = _linalg.scale_by_power_of_two(inner / pairs * a.scale * b.scale, a.exponent + b.exponent)
        return np.where(undefined, 0.0, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(undefined, math.nan, inner / np.sqrt(self_a) / np.sqrt(self_b))
    passes = (np.abs(cosine) > 1.0) & (np.abs(cosine) <= 1.0 + 64 * max(a.eps, b.eps))
    cosine = np.where(passes, np.sign(cosine), cosine)
    if isinstance(index, AngularCKA):
        return -np.arccos(np.clip(cosine, -1.0, 1.0))
    return np.sqrt(np.maximum(cosine, 0.0)) if getattr(index, "_is_rooted", False) else cosine
