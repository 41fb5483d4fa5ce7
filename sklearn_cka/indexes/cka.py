"""Centred kernel alignment (CKA), and its uncentred form.

    CKA(K, L) = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))

With either HSIC it is the cosine between two centred Gram matrices. References: Kornblith, Norouzi, Lee & Hinton
(2019), "Similarity of neural network representations revisited", ICML; Cortes, Mohri & Rostamizadeh (2012), JMLR 13;
Cristianini, Shawe-Taylor, Elisseeff & Kandola (2001), NIPS (uncentred).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_cka import _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._differentiable import cka_tensor
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, GramIndex, KernelParamsMixin
from sklearn_cka.indexes._partial import PartialFitMixin
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["CKA", "KernelAlignment", "cka", "kernel_alignment"]


def cosine(inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
    """Return ``inner / sqrt(self_a self_b)``, at most 1 in size to rounding, NaN where a side is zero."""
    if self_a <= 0.0 or self_b <= 0.0:
        return math.nan
    value = inner / math.sqrt(self_a) / math.sqrt(self_b)
    return _linalg.clip_rounding(value, -1.0, 1.0, 64 * max(a.eps, b.eps))


class CKA(PartialFitMixin, KernelParamsMixin, CenteredGramIndex):
    """Centred kernel alignment of two representations.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X: a name of :func:`~sklearn_cka.kernel_names`, a callable ``f(X, Y) -> (n_x, n_y)`` on whole
        matrices, or a kernel object of :mod:`sklearn.gaussian_process.kernels`.
    kernel_y : str or callable, default="same"
        Kernel of y; ``"same"`` is that of X with its own bandwidth. ``"delta"`` takes class labels as y
        (kernel-target alignment).
    bandwidth : float, default=1.0
        For ``"rbf"`` and ``"laplacian"``: sigma of each side in units of its own typical distance.
    bandwidth_rule : str, default="median"
        What the typical distance is, see :func:`~sklearn_cka.bandwidth_rule_names`; ``"none"`` makes `bandwidth`
        sigma itself.
    gamma : float, default=None
        scikit-learn's kernel parameter; overrides `bandwidth` for ``"rbf"`` and ``"laplacian"``.
    kernel_params : dict, default=None
        Further parameters of the kernel, such as ``{"degree": 2}``.
    kernel_params_y : dict, default=None
        Parameters of the kernel of y, `bandwidth`, `bandwidth_rule` and `gamma` among them, where they differ.
    debiased : bool, default=False
        Whether to use the unbiased estimator of HSIC (Song et al. 2012) throughout: 0 on average for unrelated
        representations, in [-1, 1] and never clamped. Needs 4 rows.
    form : {"auto", "gram", "feature"}, default="auto"
        For the linear kernel: through n x n Gram matrices, through features, or whichever costs less
        (Gram if n < p + q). The value is the same.

    Attributes
    ----------
    similarity_ : float
        CKA of the `X` and `y` given to fit, in [0, 1] (biased, positive definite kernel) or [-1, 1].
    chance_ : float
        Expected value over all row permutations of y, in closed form; NaN for weighted rows.
    bandwidth_, bandwidth_y_ : float or None
        sigma used for X and y, in units of the data; None for kernels without a bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    ChanceLevelWarning
        If at least half of a biased value is expected by chance.

    Notes
    -----
    :meth:`fit` learns the bandwidths only; :meth:`score` evaluates CKA on the rows given, centred on themselves.
    Choosing a bandwidth by the largest biased CKA is a trap: as sigma goes to 0, K goes to the identity and CKA to 1
    for any data. Use :func:`~sklearn_cka.permutation_z_scorer`.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CKA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 6))
    >>> y = X[:, :4] + np.random.default_rng(1).standard_normal((40, 4))
    >>> index = CKA().fit(X, y)
    >>> round(index.similarity_, 6), round(index.chance_, 6)
    (0.62823, 0.112215)
    >>> round(CKA(debiased=True).fit(X, y).similarity_, 6)
    0.582909
    """

    _warns_of_chance = True

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
        debiased: bool = False,
        form: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y
        self.debiased = debiased
        self.form = form

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0) if self.debiased or not self._is_positive_definite() else (0.0, 1.0),
            symmetric=self.has_equal_sides,
            invariances=self._kernel_invariances(),
            self_similarity=1.0 if self.has_equal_sides else None,
            metric="arccos(s)" if self.has_equal_sides else None,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q) by Gram matrices, n (p + q)^2 / 2 by features",
            reference="Kornblith et al. 2019, ICML",
        )

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the cosine of the two centred Gram matrices."""
        return cosine(inner, self_a, self_b, a, b)


class KernelAlignment(KernelParamsMixin, GramIndex):
    """Kernel alignment: the cosine of two Gram matrices as they are, not centred.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X, as in :class:`CKA`.
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
    form : {"auto", "gram", "feature"}, default="auto"
        For the linear kernel: through n x n Gram matrices, through features, or whichever costs less.

    Attributes
    ----------
    similarity_ : float
        Alignment of the `X` and `y` given to fit, in [-1, 1]; [0, 1] for positive definite kernels.
    chance_ : float
        Expected value over all row permutations of y, in closed form; NaN for weighted rows.
    bandwidth_, bandwidth_y_ : float or None
        sigma used for X and y; None for kernels without a bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a Gram matrix is zero: the value is NaN.

    Notes
    -----
    A common offset of the data counts as similarity here; :class:`CKA` is the form that removes it.

    References
    ----------
    Cristianini, Shawe-Taylor, Elisseeff & Kandola (2001), "On kernel-target alignment", NIPS.

    Examples
    --------
    >>> from sklearn_cka import KernelAlignment
    >>> X, y = [[1.0], [2.0], [3.0]], [[1.0], [1.0], [2.0]]
    >>> round(KernelAlignment().fit(X, y).similarity_, 6)
    0.964286
    """

    _is_centered = False

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
        form: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y
        self.form = form

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0) if self._is_positive_definite() else (-1.0, 1.0),
            symmetric=self.has_equal_sides,
            invariances=self._kernel_invariances(),
            self_similarity=1.0 if self.has_equal_sides else None,
            metric="arccos(s)" if self.has_equal_sides else None,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q) by Gram matrices, n (p + q)^2 / 2 by features",
            reference="Cristianini et al. 2001, NIPS",
        )

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the cosine of the two Gram matrices."""
        return cosine(inner, self_a, self_b, a, b)

    def chance(self, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the mean over all row permutations: diagonals meet diagonals, other entries meet each other."""
        if a.weights is not None:
            return math.nan
        n = a.n_samples
        form = self._form(a, b)
        (trace_a, rest_a), (trace_b, rest_b) = a.split_sum, b.split_sum
        inner = trace_a * trace_b / n + rest_a * rest_b / (n * (n - 1))
        return self.normalize(inner, a.self_inner(form), b.self_inner(form), a, b)

    def _undefined(self, a: GramEmbedding, b: GramEmbedding) -> str:
        return "the Gram matrix of at least one side is zero"


def cka(
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
    debiased: bool = False,
    form: str = "auto",
    sample_weight: Array | None = None,
    as_tensor: bool = False,
) -> Any:
    """Compute the centred kernel alignment of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    kernel, kernel_y, bandwidth, bandwidth_rule, gamma, kernel_params, kernel_params_y, debiased, form
        As in :class:`CKA`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.
    as_tensor : bool, default=False
        For torch tensors: whether to return a 0-dimensional tensor through which gradients flow to `X` and `Y`, for
        use as a loss. For the kernels linear, rbf (its bandwidth a constant), polynomial, sigmoid, cosine and
        callables, without `sample_weight`.

    Returns
    -------
    similarity : float or 0-dimensional tensor
        In [0, 1] (biased, positive definite kernels) or [-1, 1] (debiased); 1 for X with itself.

    Raises
    ------
    ValueError
        If row counts or labels differ, an entry is not finite, there are too few rows (2; debiased 4), or a
        parameter is not valid.
    TypeError
        If `as_tensor` is given for arrays that are not torch tensors.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    ChanceLevelWarning
        If at least half of a biased value is expected by chance.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import cka
    >>> X = np.arange(5.0)[:, None]
    >>> round(cka(X, X**2), 6), round(cka(X, X**2, debiased=True), 6)
    (0.91954, 0.962361)
    """
    index = CKA(
        kernel,
        kernel_y=kernel_y,
        bandwidth=bandwidth,
        bandwidth_rule=bandwidth_rule,
        gamma=gamma,
        kernel_params=kernel_params,
        kernel_params_y=kernel_params_y,
        debiased=debiased,
        form=form,
    )
    if not as_tensor:
        return index.similarity(X, Y, sample_weight)
    if sample_weight is not None:
        raise ValueError("as_tensor=True takes no sample_weight.")
    return cka_tensor(index, X, Y)


def kernel_alignment(
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
    form: str = "auto",
    sample_weight: Array | None = None,
) -> float:
    """Compute the uncentred kernel alignment of two representations.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    kernel, kernel_y, bandwidth, bandwidth_rule, gamma, kernel_params, kernel_params_y, form
        As in :class:`KernelAlignment`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [-1, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If a Gram matrix is zero: the value is NaN.

    References
    ----------
    Cristianini, Shawe-Taylor, Elisseeff & Kandola (2001), "On kernel-target alignment", NIPS.

    Examples
    --------
    >>> from sklearn_cka import kernel_alignment
    >>> round(kernel_alignment([[1.0], [2.0], [3.0]], [[1.0], [1.0], [2.0]]), 6)
    0.964286
    """
    index = KernelAlignment(
        kernel,
        kernel_y=kernel_y,
        bandwidth=bandwidth,
        bandwidth_rule=bandwidth_rule,
        gamma=gamma,
        kernel_params=kernel_params,
        kernel_params_y=kernel_params_y,
        form=form,
    )
    return index.similarity(X, Y, sample_weight)
