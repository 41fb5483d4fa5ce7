"""GULP: how far apart the predictions of ridge regressions from two representations are.

With the ridge regressions of any target t from X and from Y, t -> H_X t and t -> H_Y t on the rows,

    d^2 = ||H_X - H_Y||_F^2,    H = U diag(mu / (mu + alpha)) U',    mu = s^2 / n

for the thin SVD ``X = U s V'`` of the centred representation: the squared distance of the two predictions, summed over
an orthonormal basis of targets. In covariances that is

    tr(S_x^-a S_x S_x^-a S_x) + tr(S_y^-a S_y S_y^-a S_y) - 2 tr(S_x^-a S_xy S_y^-a S_yx),    S^-a = (S + alpha I)^-1

Reference: Boix-Adserà, Lawrence, Stepaniants & Rigollet (2022), "GULP: a prediction-based metric between
representations", NeurIPS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import DegenerateSimilarityWarning, SimilarityWarning
from sklearn_cka.indexes._distance_index import NEGATED, DistanceIndex, negated
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["GULP"]

# A squared distance below this share of its two positive terms has lost half of its digits to their difference.
_CANCELLED = 1e-5
# From this share of the total variance on, the penalty outweighs what forming the covariance costs in digits.
_WELL_CONDITIONED = 1e-4


@dataclass(frozen=True)
class HatEmbedding:
    """The hat matrix of a ridge regression, as a factor.

    Attributes
    ----------
    factor : array of shape (n_samples, rank)
        A with ``A A' = H``: the columns of U times the roots of their shrinkage factors.
    square : float
        Squared Frobenius norm of H.
    """

    factor: Array
    square: float

    @property
    def width(self) -> int:
        """Number of columns of the factor: without a penalty the rank of the centred representation."""
        return int(self.factor.shape[1])


class GULP(DistanceIndex):
    """GULP: minus the distance of the ridge predictions from two representations.

    Parameters
    ----------
    alpha : float, default=0.01
        Penalty of the ridge regressions, in units of the covariance of a representation (1/n in its denominator): a
        direction of variance alpha is shrunk by half. 0 is least squares, where only the spans count, as in CCA.
    normalize : bool, default=True
        Whether to scale each centred representation to total variance 1 first, as the authors do. One alpha then
        means the same for both, and 0.01 is a hundredth of the variance.

    Attributes
    ----------
    similarity_ : float
        Minus the distance of the `X` and `y` given to fit; at most 0, and 0 for equal predictions.
    chance_ : float
        NaN: the mean of a root over row permutations has no closed form.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If ``alpha=0`` and both representations span all directions of the rows: the value is 0 for any data.

    References
    ----------
    Boix-Adserà, Lawrence, Stepaniants & Rigollet (2022), "GULP: a prediction-based metric between representations",
    NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import GULP
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> y = X[:, :3] + np.random.default_rng(1).standard_normal((40, 3))
    >>> index = GULP().fit(X, y)
    >>> round(index.similarity_, 6), round(index.distance(X, y), 6)
    (-1.871177, 1.871177)
    """

    def __init__(self, alpha: float = 0.01, *, normalize: bool = True) -> None:
        self.alpha = alpha
        self.normalize = normalize

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        invariances = {"translation", "permutation", "orthogonal"}
        if self.normalize or self.alpha == 0:
            invariances |= {"isotropic_scaling"}
        if self.alpha == 0:
            invariances |= {"invertible_linear"}
        return IndexProperties(
            range=(-math.inf, 0.0),
            symmetric=True,
            invariances=frozenset(invariances),
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=2,
            cost="n p q, and one SVD for each representation",
            reference="Boix-Adserà et al. 2022, NeurIPS",
        )

    def embed(self, X: Array) -> HatEmbedding:
        """Return the hat matrix of ridge regression on one representation, as a factor.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        embedding : HatEmbedding
            Of width 0 for a constant representation.
        """
        xp = _arrays.namespace(X)
        centered = _linalg.center(X)
        Z, n = centered.values, X.shape[0]
        if centered.is_constant:
            return HatEmbedding(Z[:, :0], 0.0)
        total = _linalg.sum_of_squares(Z) / n
        # The data are values * 2**exponent.
        alpha = float(self.alpha) * (total if self.normalize else _linalg.power_of_two(-2 * centered.exponent))
        if alpha > _WELL_CONDITIONED * total and Z.shape[1] <= n:
            covariance = xp.astype(xp.matrix_transpose(Z) @ Z, xp.float64) / n
            variances, axes = xp.linalg.eigh(covariance)
            variances = xp.where(variances > 0.0, variances, xp.zeros_like(variances))
            shrinkage = variances / (variances + alpha)
            factor = Z @ xp.astype(axes / xp.sqrt(n * (variances + alpha))[None, :], Z.dtype)
        else:
            U, s, _ = _linalg.thin_svd(Z, right=False)
            variances = s**2 / n
            shrinkage = variances / (variances + alpha)
            factor = U * xp.astype(xp.sqrt(shrinkage), U.dtype)[None, :]
        return HatEmbedding(factor, float(xp.vecdot(shrinkage, shrinkage)))

    def compare(self, a: HatEmbedding, b: HatEmbedding) -> float:
        """Return minus the distance of two hat matrices, NaN where one representation is constant.

        Parameters
        ----------
        a, b : HatEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            At most 0.
        """
        if a.width == 0 or b.width == 0:
            return math.nan
        xp = _arrays.namespace(a.factor)
        both = _linalg.sum_of_squares(xp.matrix_transpose(a.factor) @ b.factor)
        square = a.square + b.square - 2.0 * both
        if square > _CANCELLED * (a.square + b.square):
            return negated(math.sqrt(square))
        return negated(_distance_of_close(a.factor, b.factor))

    def diagnose(self, a: HatEmbedding, b: HatEmbedding, similarity: float, chance: float) -> list[SimilarityWarning]:
        """Warn of an undefined value, and of one that is 0 for any data."""
        found = super().diagnose(a, b, similarity, chance)
        n = int(a.factor.shape[0])
        if self.alpha == 0 and a.width == b.width == n - 1:
            found.append(
                DegenerateSimilarityWarning(
                    f"GULP with alpha=0 is 0 for any two representations that span all {n - 1} directions of {n} rows;"
                    " use alpha > 0 or more rows."
                )
            )
        return found

    def _undefined(self, a: HatEmbedding, b: HatEmbedding) -> str:
        constant = " and ".join(name for name, side in (("X", a), ("y", b)) if side.width == 0)
        return f"{constant} is constant over the rows"

    def _check_params(self) -> None:
        _validation.check_non_negative("alpha", self.alpha)
        _validation.check_flag("normalize", self.normalize)


def _distance_of_close(A: Array, B: Array) -> float:
    """Return ``||A A' - B B'||_F`` from the difference itself, within the span of both."""
    xp = _arrays.namespace(A)
    R = xp.linalg.qr(xp.concat([A, B], axis=1))[1]
    left, right = R[:, : A.shape[1]], R[:, A.shape[1] :]
    difference = left @ xp.matrix_transpose(left) - right @ xp.matrix_transpose(right)
    return math.sqrt(_linalg.sum_of_squares(difference))
