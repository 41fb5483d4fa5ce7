"""Norm of the difference of two distance matrices.

    d(X, Y) = ||D_x - D_y||_F,    D the matrix of distances between rows

the Frobenius norm over all n^2 entries, not the spectral norm that goes by the same name elsewhere. References:
Klabunde, Schumacher, Strohmaier & Lemmerich (2023), arXiv:2305.06329 (norm of the difference of representational
similarity matrices); Yin & Shen (2018), NeurIPS (the same of inner products).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn_cka import _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes import _rdm
from sklearn_cka.indexes._distance_index import NEGATED, DistanceIndex, negated
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["RDMDifference"]

_SIZED = ("euclidean", "sqeuclidean", "cityblock")


@dataclass(frozen=True)
class DistancesEmbedding:
    """Distances above the diagonal, ``values * 2**exponent``; None where rows have none."""

    values: Array | None
    exponent: int
    undefined: str = ""


class RDMDifference(DistanceIndex):
    """Minus the Frobenius norm of the difference of two matrices of distances between rows.

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        Distance between the rows of both sides: ``"correlation"``, ``"cosine"``, ``"euclidean"``, ``"sqeuclidean"``,
        ``"cityblock"``, ``"mahalanobis"``, a callable ``f(X) -> (n_samples, n_samples)``, or ``"precomputed"``: both
        sides are such matrices.
    normalize : bool, default=False
        Whether to scale each matrix to Frobenius norm 1 first, which takes out the sizes of the representations.

    Attributes
    ----------
    similarity_ : float
        Minus the norm for the `X` and `y` given to fit, at most 0; at least -sqrt(2) if normalised.
    chance_ : float
        NaN: the mean of a norm over row permutations has no closed form.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a row is constant over the features under ``"correlation"`` (zero under ``"cosine"``), or all distances are
        0 and are to be normalised: the value is NaN.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329.

    Examples
    --------
    >>> from sklearn_cka import RDMDifference
    >>> X, y = [[0.0], [1.0], [3.0]], [[0.0], [1.0], [2.0]]
    >>> round(RDMDifference().fit(X, y).similarity_, 6)
    -2.0
    """

    def __init__(self, metric: Any = "euclidean", *, normalize: bool = False) -> None:
        self.metric = metric
        self.normalize = normalize

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        known = _rdm.INVARIANCES.get(self.metric) if isinstance(self.metric, str) else None
        if known is not None and self.metric in _SIZED and not self.normalize:
            known = known - {"isotropic_scaling"}
        return IndexProperties(
            range=(-math.sqrt(2.0) if self.normalize else -math.inf, 0.0),
            symmetric=True,
            invariances=known,
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=2,
            cost="n^2 (p + q)",
            reference="Klabunde et al. 2023, arXiv:2305.06329",
        )

    def embed(self, X: Array) -> DistancesEmbedding:
        """Return the distances between the rows of one representation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64; for ``metric="precomputed"`` the matrix of distances.

        Returns
        -------
        embedding : DistancesEmbedding
            Vector of n (n - 1) / 2 distances.
        """
        found = _rdm.dissimilarities(X, self.metric)
        if found.undefined:
            return DistancesEmbedding(None, 0, _rdm.why_undefined(found, self.metric))
        distances = _rdm.upper_triangle(found.matrix)
        if not self.normalize:
            return DistancesEmbedding(distances, found.exponent)
        norm = math.sqrt(2.0 * _linalg.sum_of_squares(distances))
        if norm == 0.0:
            return DistancesEmbedding(None, 0, "all rows are alike")
        return DistancesEmbedding(distances * (1.0 / norm), 0)

    def compare(self, a: DistancesEmbedding, b: DistancesEmbedding) -> float:
        """Return minus the norm of the difference, NaN where it is undefined.

        Parameters
        ----------
        a, b : DistancesEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            At most 0.
        """
        if a.values is None or b.values is None:
            return math.nan
        exponent = max(a.exponent, b.exponent)
        left, right = (_linalg.scale_by_power_of_two(side.values, side.exponent - exponent) for side in (a, b))
        norm = math.sqrt(2.0 * _linalg.sum_of_squares(left - right))
        return negated(norm * _linalg.power_of_two(exponent) if norm else 0.0)

    def _undefined(self, a: DistancesEmbedding, b: DistancesEmbedding) -> str:
        return "; ".join(f"{name}: {side.undefined}" for name, side in (("X", a), ("y", b)) if side.undefined)

    def _check_params(self) -> None:
        _rdm.check_metric(self.metric, "metric")
        _validation.check_flag("normalize", self.normalize)

    def _check_X(self, X: Array, name: str) -> Array:
        return _rdm.check_input(super()._check_X(X, name), self.metric, name)

    def _check_y(self, y: Array, name: str) -> Array:
        return _rdm.check_input(super()._check_y(y, name), self.metric, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_rdm = isinstance(self.metric, str) and self.metric == "precomputed"
        tags.input_tags.pairwise = tags.input_tags.positive_only = tags.target_tags.positive_only = is_rdm
        return tags
