"""Riemannian distance of two Gram matrices, as points of the cone of positive definite matrices.

    K_s = (1 - s) (n - 1) K / tr K + s I                                    K centred, s the shrinkage
    affine invariant:  d(K, L) = ||log(K_s^(-1/2) L_s K_s^(-1/2))||_F
    log-Euclidean:     d(K, L) = ||log K_s - log L_s||_F

A centred Gram matrix is singular, and infinitely far from others, so that the shrinkage is no matter of rounding but
part of the definition: directions in which a representation has less than about a share s of its mean variance count
as having that much. References: Shahbazi, Shirali, Aghajan & Nili (2021), "Using distance on the Riemannian manifold to
compare representations in brain and in models", NeuroImage 239; Pennec, Fillard & Ayache (2006), International Journal
of Computer Vision 66; Arsigny, Fillard, Pennec & Ayache (2006), Magnetic Resonance in Medicine 56.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._distance_index import NEGATED, DistanceIndex, negated
from sklearn_cka.indexes._gram_index import KernelIndex, KernelParamsMixin, KernelSpec
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["RiemannianSimilarity"]

_GEOMETRIES = ("affine_invariant", "log_euclidean")


@dataclass(frozen=True)
class ConeEmbedding:
    """A Gram matrix as a point of the cone of positive definite matrices.

    Attributes
    ----------
    point : array of shape (n_samples, n_samples) or None
        The shrunk matrix; its logarithm for the log-Euclidean geometry. None for a constant representation.
    whitener : array of shape (n_samples, n_samples) or None
        Inverse root of the shrunk matrix, for the affine-invariant geometry.
    bandwidth : float or None
        The sigma of the kernel, for fitted attributes.
    """

    point: Array | None
    whitener: Array | None = None
    bandwidth: float | None = None


class RiemannianSimilarity(KernelParamsMixin, DistanceIndex, KernelIndex):
    """Minus the Riemannian distance of two centred Gram matrices, shrunk to be positive definite.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X, positive semi-definite once centred, as in :class:`CKA`.
    kernel_y : str or callable, default="same"
        Kernel of y, as in :class:`CKA`.
    shrinkage : float, default=0.1
        Share of the identity in the matrices compared, more than 0 and less than 1. Each matrix is first scaled to
        the trace of the centring matrix, n - 1, which takes out its size. The smaller it is, the more directions of
        little variance weigh.
    geometry : {"affine_invariant", "log_euclidean"}, default="affine_invariant"
        The distance along the geodesic of Shahbazi et al., or the distance of the matrix logarithms, which needs one
        eigendecomposition for each representation and none for a pair.
    bandwidth : float, default=1.0
        For ``"rbf"`` and ``"laplacian"``: sigma of each side in units of its own typical distance.
    bandwidth_rule : str, default="median"
        What the typical distance is, see :func:`~sklearn_cka.bandwidth_rule_names`.
    gamma : float, default=None
        scikit-learn's kernel parameter; overrides `bandwidth`.
    kernel_params, kernel_params_y : dict, default=None
        Further parameters of the kernel of X and of y.

    Attributes
    ----------
    similarity_ : float
        Minus the distance of the `X` and `y` given to fit, at most 0.
    chance_ : float
        NaN: the expected distance over row permutations has no closed form.
    bandwidth_, bandwidth_y_ : float or None
        sigma used for X and y; None for kernels without a bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    Notes
    -----
    Matrices are n x n and in float64 whatever the data; a pair costs an eigendecomposition in the affine-invariant
    geometry, about 10 n^3 operations.

    References
    ----------
    Shahbazi, Shirali, Aghajan & Nili (2021), "Using distance on the Riemannian manifold to compare representations in
    brain and in models", NeuroImage 239.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import RiemannianSimilarity
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> y = X[:, :3] + np.random.default_rng(1).standard_normal((40, 3))
    >>> index = RiemannianSimilarity().fit(X, y)
    >>> round(index.similarity_, 6), round(index.distance(X, y), 6)
    (-10.354567, 10.354567)
    """

    def __init__(
        self,
        kernel: Any = "linear",
        *,
        kernel_y: Any = "same",
        shrinkage: float = 0.1,
        geometry: str = "affine_invariant",
        bandwidth: float = 1.0,
        bandwidth_rule: str = "median",
        gamma: float | None = None,
        kernel_params: Mapping[str, Any] | None = None,
        kernel_params_y: Mapping[str, Any] | None = None,
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.shrinkage = shrinkage
        self.geometry = geometry
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-math.inf, 0.0),
            symmetric=self.has_equal_sides,
            invariances=self._kernel_invariances(),
            self_similarity=0.0 if self.has_equal_sides else None,
            metric=NEGATED if self.has_equal_sides else None,
            min_samples=2,
            cost="n^2 (p + q) + n^3",
            reference="Shahbazi et al. 2021, NeuroImage 239",
        )

    def _embed_side(self, X: Array, spec: KernelSpec, weights: Array | None, sigma: float | None = None) -> Any:
        xp = _arrays.namespace(X)
        if spec.kernel != "delta":
            X = xp.astype(X, xp.float64, copy=False)
        gram = super()._embed_side(X, spec, weights, sigma)
        K = gram.gram
        trace = float(xp.sum(_arrays.diagonal(K)))
        if trace == 0.0:
            return ConeEmbedding(None, bandwidth=gram.bandwidth)
        identity = xp.eye(K.shape[0], dtype=K.dtype, device=_arrays.device(K))
        point = K * ((1.0 - self.shrinkage) * (gram.total - 1.0) / trace) + self.shrinkage * identity
        values, vectors = xp.linalg.eigh(point)
        if not float(values[0]) > 0.0:
            raise ValueError(
                "The Riemannian distance takes positive semi-definite kernels: a centred Gram matrix has the eigenvalue"
                f" {(float(values[0]) - self.shrinkage) / (1.0 - self.shrinkage):.3g}, its trace being scaled to"
                f" {gram.total - 1.0:g}."
            )
        if self.geometry == "log_euclidean":
            return ConeEmbedding(_spectral(vectors, xp.log(values)), bandwidth=gram.bandwidth)
        return ConeEmbedding(point, _spectral(vectors, 1.0 / xp.sqrt(values)), gram.bandwidth)

    def compare(self, a: ConeEmbedding, b: ConeEmbedding) -> float:
        """Return minus the distance of two points of the cone, NaN where one representation is constant.

        Parameters
        ----------
        a, b : ConeEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            At most 0.
        """
        if a.point is None or b.point is None:
            return math.nan
        xp = _arrays.namespace(a.point)
        if a.whitener is None:
            return negated(math.sqrt(_linalg.sum_of_squares(a.point - b.point)))
        ratio = a.whitener @ b.point @ a.whitener
        ratios = xp.linalg.eigvalsh((ratio + xp.matrix_transpose(ratio)) * 0.5)
        return negated(math.sqrt(_linalg.sum_of_squares(xp.log(ratios))))

    def _undefined(self, a: ConeEmbedding, b: ConeEmbedding) -> str:
        where = " and ".join(name for name, side in (("X", a), ("y", b)) if side.point is None)
        return f"the centred Gram matrix of {where} is zero, as for a representation that is constant over the rows"

    def _check_params(self) -> None:
        super()._check_params()
        _validation.check_option("geometry", self.geometry, _GEOMETRIES)
        _validation.check_positive("shrinkage", self.shrinkage)
        if self.shrinkage >= 1.0:
            raise ValueError(
                f"shrinkage must be less than 1, where nothing is left of the data; got {self.shrinkage!r}."
            )


def _spectral(vectors: Array, values: Array) -> Array:
    """Return the symmetric matrix of given eigenvectors and eigenvalues."""
    return (vectors * values[None, :]) @ _arrays.namespace(vectors).matrix_transpose(vectors)
