"""Normalised Bures similarity: the fidelity of two centred Gram matrices.

    NBS(K, L) = ||K^(1/2) L^(1/2)||_* / sqrt(tr K tr L),    K and L centred, || . ||_* the nuclear norm

Any A with A A' = K serves in place of the root, since it differs from it by an orthogonal map: for the linear kernel
A is the centred representation itself, and the index is ||X'Y||_* / (||X|| ||Y||), the orthogonal Procrustes
similarity. Its arccos is the Bures angle between the two matrices of trace one, a metric. References: Tang, Maddox,
Dickens, Diethe & Damianou (2020), "Similarity of neural networks with gradients", arXiv:2003.11498; Bhatia, Jain &
Lim (2019), Expositiones Mathematicae 37 (the metric); Williams, Kunz, Kornblith & Linderman (2021), NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import KernelIndex, KernelParamsMixin, KernelSpec
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["NormalizedBuresSimilarity", "normalized_bures_similarity"]

# Eigenvalues of a Gram matrix below this many units in the last place of the largest, per row, are rounding.
_ROUNDING_ULPS = 4.0
# Negative ones beyond this share of the largest, per row, are no rounding, not even in single precision: no root.
_NEGATIVE_SHARE = 1e-6


@dataclass(frozen=True)
class RootEmbedding:
    """A centred Gram matrix K, held as a matrix A with ``A A' = K``.

    Attributes
    ----------
    root : array of shape (n_samples, rank)
        A: the features themselves, or eigenvectors times roots of eigenvalues; no wider than long.
    norm : float
        Frobenius norm of A, the root of the trace of K.
    bandwidth : float or None
        The sigma of the kernel, for fitted attributes.
    """

    root: Array
    norm: float
    bandwidth: float | None = None


def _root(gram: GramEmbedding) -> Array:
    """Return a matrix A with ``A A' = K``, no wider than long."""
    if gram.features is None:
        return _eigen_root(gram.gram)
    Z = gram.weighted_features
    if Z.shape[1] <= Z.shape[0]:
        return Z
    xp = _arrays.namespace(Z)
    return xp.matrix_transpose(xp.linalg.qr(xp.matrix_transpose(Z))[1])


def _eigen_root(K: Array) -> Array:
    xp = _arrays.namespace(K)
    given_eps = _arrays.eps(K)
    values, vectors = xp.linalg.eigh(xp.astype(K, xp.float64, copy=False))
    smallest, largest = float(values[0]), float(values[-1])
    unit = K.shape[0] * max(abs(smallest), largest)
    if smallest < -_NEGATIVE_SHARE * unit:
        raise ValueError(
            "The normalised Bures similarity takes positive semi-definite kernels: a centred Gram matrix has the"
            f" eigenvalue {smallest:.3g} beside a largest of {largest:.3g}."
        )
    rank = _arrays.count(values > _ROUNDING_ULPS * given_eps * unit)
    first = K.shape[0] - rank
    return vectors[:, first:] * xp.sqrt(values[first:])[None, :]


class NormalizedBuresSimilarity(KernelParamsMixin, KernelIndex):
    """Normalised Bures similarity: the fidelity of two centred Gram matrices.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X, positive semi-definite once centred, as in :class:`CKA`.
    kernel_y : str or callable, default="same"
        Kernel of y, as in :class:`CKA`.
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
        Similarity of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        NaN: the expected nuclear norm over row permutations has no closed form.
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
    With the linear kernel no Gram matrix is made: the value is the nuclear norm of X'Y over the norms of X and Y,
    which is the orthogonal Procrustes similarity. Other kernels cost an eigendecomposition for each representation;
    they are computed in float64 throughout, since a root turns rounding of 1e-7 into 3e-4.

    References
    ----------
    Tang, Maddox, Dickens, Diethe & Damianou (2020), "Similarity of neural networks with gradients",
    arXiv:2003.11498.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import NormalizedBuresSimilarity
    >>> X = np.random.default_rng(0).standard_normal((40, 4))
    >>> y = X[:, :3] + np.random.default_rng(1).standard_normal((40, 3))
    >>> index = NormalizedBuresSimilarity().fit(X, y)
    >>> round(index.similarity_, 6), round(index.distance(X, y), 6)
    (0.641049, 0.874932)
    >>> round(NormalizedBuresSimilarity("rbf").fit(X, y).similarity_, 6)
    0.664998
    """

    def __init__(
        self,
        kernel: Any = "linear",
        *,
        kernel_y: Any = "same",
        bandwidth: float = 1.0,
        bandwidth_rule: str = "median",
        gamma: float | None = None,
        kernel_params: Mapping[str, Any] | None = None,
        kernel_params_y: Mapping[str, Any] | None = None,
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=self.has_equal_sides,
            invariances=self._kernel_invariances(),
            self_similarity=1.0 if self.has_equal_sides else None,
            metric="arccos(s)" if self.has_equal_sides else None,
            min_samples=2,
            cost="n p q + p q min(p, q) for the linear kernel, n^3 for others",
            reference="Tang et al. 2020, arXiv:2003.11498",
        )

    def _embed_side(self, X: Array, spec: KernelSpec, weights: Array | None, sigma: float | None = None) -> Any:
        if spec.kernel not in ("linear", "precomputed", "delta"):
            X = _arrays.namespace(X).astype(X, _arrays.namespace(X).float64, copy=False)
        gram = super()._embed_side(X, spec, weights, sigma)
        root = _root(gram)
        return RootEmbedding(root, math.sqrt(_linalg.sum_of_squares(root)), gram.bandwidth)

    def compare(self, a: RootEmbedding, b: RootEmbedding) -> float:
        """Return the similarity of two embeddings, NaN where one is constant.

        Parameters
        ----------
        a, b : RootEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [0, 1].
        """
        if a.norm == 0.0 or b.norm == 0.0:
            return math.nan
        xp = _arrays.namespace(a.root)
        left, right = _arrays.same_precision(a.root, b.root)
        value = _linalg.nuclear_norm(xp.matrix_transpose(left) @ right) / a.norm / b.norm
        return _linalg.clip_rounding(value, 0.0, 1.0, 64 * max(_arrays.eps(a.root), _arrays.eps(b.root)))

    def _match_precision(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Keep what each side was given in, which tells rounding in a precomputed Gram matrix from eigenvalues."""
        return X, y

    def _undefined(self, a: RootEmbedding, b: RootEmbedding) -> str:
        where = " and ".join(name for name, side in (("X", a), ("y", b)) if side.norm == 0.0)
        return f"the centred Gram matrix of {where} is zero, as for a representation that is constant over the rows"


def normalized_bures_similarity(
    X: Array,
    Y: Array,
    *,
    kernel: Any = "linear",
    kernel_y: Any = "same",
    bandwidth: float = 1.0,
    bandwidth_rule: str = "median",
    gamma: float | None = None,
    kernel_params: Mapping[str, Any] | None = None,
    kernel_params_y: Mapping[str, Any] | None = None,
    sample_weight: Array | None = None,
) -> float:
    """Compute the normalised Bures similarity of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    kernel, kernel_y, bandwidth, bandwidth_rule, gamma, kernel_params, kernel_params_y
        As in :class:`NormalizedBuresSimilarity`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, a parameter is not valid, or a centred Gram matrix has negative
        eigenvalues.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.

    References
    ----------
    Tang, Maddox, Dickens, Diethe & Damianou (2020), "Similarity of neural networks with gradients",
    arXiv:2003.11498.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import normalized_bures_similarity
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> round(normalized_bures_similarity(X, 3.0 * X[:, ::-1]), 6)
    1.0
    """
    index = NormalizedBuresSimilarity(
        kernel,
        kernel_y=kernel_y,
        bandwidth=bandwidth,
        bandwidth_rule=bandwidth_rule,
        gamma=gamma,
        kernel_params=kernel_params,
        kernel_params_y=kernel_params_y,
    )
    return index.similarity(X, Y, sample_weight)
