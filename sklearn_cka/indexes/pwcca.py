"""Projection-weighted canonical correlation analysis (PWCCA).

    PWCCA = sum(alpha rho) / sum(alpha),    alpha_i = sum_j |<h_i, x_j>|

with rho the canonical correlations, h_i the canonical variates of X as unit vectors, and x_j its centred columns.
Reference: Morcos, Raghu & Bengio (2018), NeurIPS.
"""

from __future__ import annotations

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._canonical import COST, CanonicalIndex, canonical_directions
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._spectral import SpectralEmbedding, weigh

__all__ = ["PWCCA", "pwcca"]


class PWCCA(CanonicalIndex):
    """Projection-weighted CCA: canonical correlations weighted by how much of X their directions account for.

    Parameters
    ----------
    symmetrize : bool, default=False
        Whether to take the mean of the values weighted by X and weighted by y, which is symmetric; the literature's
        definition weighs by X alone.

    Attributes
    ----------
    similarity_ : float
        PWCCA of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        NaN: the mean over row permutations has no closed form.
    canonical_correlations_ : array of shape (n_components_,)
        All canonical correlations, descending, in [0, 1].
    projection_weights_ : array of shape (n_components_,)
        Weight of each canonical correlation in float64; they add up to 1.
    n_components_ : int
        Number of canonical components: the smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    x_rotations_, y_rotations_ : array of shape (n_features_in_, n_components_) and (n_features_y_in_, n_components_)
        Weights of the columns in the canonical variates, which have variance 1 over the training rows.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If n <= r_x + r_y: some correlations are 1 whatever the data are.

    Notes
    -----
    The weight of the variate h_i of X is the sum over the columns x_j of X of abs(<h_i, x_j>): a sum of absolute
    values, so that PWCCA is not invariant to a rotation of X. It is invariant to any invertible linear map of y. With
    squares in place of absolute values, and squared correlations, it is :class:`LinearPredictivity` (for r_x <= r_y).
    Variates of equal correlation are not unique, nor is the value where several are equal but not all; among those of
    correlation 1, the directions of most joint variance come first.

    References
    ----------
    Morcos, Raghu & Bengio (2018), "Insights on representational similarity in neural networks with canonical
    correlation", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import PWCCA
    >>> rng = np.random.default_rng
    >>> X = rng(0).standard_normal((200, 3))
    >>> y = np.c_[X[:, :2] * [3, 1], rng(1).standard_normal((200, 4))] + 0.5 * rng(2).standard_normal((200, 6))
    >>> round(PWCCA().fit(X, y).similarity_, 6), round(PWCCA().fit(y, X).similarity_, 6)
    (0.684688, 0.720101)
    """

    _uses_loadings = True

    def __init__(self, *, symmetrize: bool = False) -> None:
        self.symmetrize = symmetrize

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=bool(self.symmetrize),
            invariances=frozenset({"translation", "isotropic_scaling", "permutation"}),
            self_similarity=1.0,
            cost=f"{COST}, r_x r_y min(r_x, r_y) for its singular vectors",
            reference="Morcos, Raghu & Bengio 2018, NeurIPS",
        )

    def _check_params(self) -> None:
        _validation.check_flag("symmetrize", self.symmetrize)

    def _divisor(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        return 1.0

    def from_cross(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, neither of rank 0, from the product of their bases.

        Parameters
        ----------
        M : array of shape (rank_x, rank_y)
            Product ``U_x' U_y``.
        a, b : SpectralEmbedding
            The two embeddings, with loadings.

        Returns
        -------
        similarity : float
            The index.
        """
        A, rho, B = canonical_directions(M, a, b)
        return self._weighted_mean(rho, self._component_weights(A, B, a, b), a, b)

    def _both_ways(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[float, float]:
        A, rho, B = canonical_directions(M, a, b)  # these serve both
        forth = self._weighted_mean(rho, self._component_weights(A, B, a, b), a, b)
        return forth, forth if self.symmetrize else self._weighted_mean(rho, _projection_weights(B, b), a, b)

    @staticmethod
    def _weighted_mean(rho: Array, weights: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        xp = _arrays.namespace(rho)
        value = float(xp.sum(weights * xp.astype(rho, xp.float64)))
        return _linalg.clip_rounding(value, 0.0, 1.0, max(a.tolerance, b.tolerance))

    def _component_weights(self, A: Array, B: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> Array:
        weights = _projection_weights(A, a)
        return 0.5 * (weights + _projection_weights(B, b)) if self.symmetrize else weights

    def _learn(self, a: SpectralEmbedding, b: SpectralEmbedding) -> None:
        super()._learn(a, b)
        self.projection_weights_ = self._weights


def _projection_weights(A: Array, embedding: SpectralEmbedding) -> Array:
    """Return sum_j |<h_i, x_j>| of the variates ``h = U A`` over the columns of the data, of sum 1, in float64."""
    xp = _arrays.namespace(A)
    loadings = xp.astype(embedding.loadings, A.dtype, copy=False)
    projections = loadings @ weigh(A, embedding.relative)
    weights = xp.sum(xp.abs(projections), axis=0, dtype=xp.float64)
    return weights / xp.sum(weights)


def pwcca(X: Array, Y: Array, *, symmetrize: bool = False, sample_weight: Array | None = None) -> float:
    """Compute the projection-weighted canonical correlation (PWCCA) of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation, whose columns weigh the correlations.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    symmetrize : bool, default=False
        Whether to take the mean of the values weighted by X and weighted by Y.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning, DegenerateSimilarityWarning
        As :class:`PWCCA`.

    References
    ----------
    Morcos, Raghu & Bengio (2018), "Insights on representational similarity in neural networks with canonical
    correlation", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import pwcca
    >>> rng = np.random.default_rng
    >>> X = rng(0).standard_normal((200, 3))
    >>> Y = np.c_[X[:, :2] * [3, 1], rng(1).standard_normal((200, 4))] + 0.5 * rng(2).standard_normal((200, 6))
    >>> round(pwcca(X, Y), 6)
    0.684688
    """
    return PWCCA(symmetrize=symmetrize).similarity(X, Y, sample_weight)
