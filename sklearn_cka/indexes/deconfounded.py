"""Deconfounded CKA: what two Gram matrices share beyond what both take from a common input.

Two networks that see the same images have similar Gram matrices because the images have one. With K, L the centred
Gram matrices of the representations and C that of the confounder (the input), each is replaced by the residual of its
regression on C, entry by entry, and CKA is taken of the residuals:

    K_res = K - alpha C,    alpha = <K, C> / <C, C>
    dCKA  = <K_res, L_res> / (||K_res|| ||L_res||)

Centred matrices need no intercept. The result is the partial correlation of the entries of K and L given those of C:

    dCKA(K, L | C) = (CKA(K, L) - CKA(K, C) CKA(L, C)) / sqrt((1 - CKA(K, C)^2) (1 - CKA(L, C)^2))

and with U-centred matrices the partial distance correlation for any kernel. References: Cui, Kumar, Marttinen & Kaski
(2022), "Deconfounded representation similarity for comparison of neural networks", NeurIPS; Székely & Rizzo (2014),
"Partial distance correlation with methods for dissimilarities", Annals of Statistics 42.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_cka import _validation, kernels
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, KernelParamsMixin
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._residual import ConfounderMixin
from sklearn_cka.indexes._row_data import RowData
from sklearn_cka.indexes.cka import cosine

__all__ = ["DeconfoundedCKA", "deconfounded_cka"]


class DeconfoundedCKA(ConfounderMixin, KernelParamsMixin, CenteredGramIndex):
    """CKA of two representations, given what a confounder such as their common input explains of both.

    The confounder is data about the same rows, and is given to :meth:`fit` and :meth:`score` as metadata: under
    ``sklearn.set_config(enable_metadata_routing=True)`` and ``set_fit_request(confound=True)``,
    ``set_score_request(confound=True)``, cross-validation hands every fold its own rows of it. The parameter
    `confound` is for all that knows of no metadata and looks at whole data sets, tables of layers above all.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Kernel of X, as in :class:`CKA`.
    kernel_y : str or callable, default="same"
        Kernel of y, as in :class:`CKA`.
    confound_kernel : str or callable, default="same"
        Kernel of the confounder; ``"same"`` is that of X with the confounder's own bandwidth, ``"precomputed"`` takes
        its Gram matrix as `confound`.
    confound : array-like of shape (n_samples, n_features), default=None
        The confounder of whole data sets; the one given to a method comes first. With none at all the index is CKA.
    bandwidth : float, default=1.0
        For ``"rbf"`` and ``"laplacian"``: sigma of each side in units of its own typical distance.
    bandwidth_rule : str, default="median"
        What the typical distance is, see :func:`~sklearn_cka.bandwidth_rule_names`.
    gamma : float, default=None
        scikit-learn's kernel parameter; overrides `bandwidth`.
    kernel_params, kernel_params_y : dict, default=None
        Further parameters of the kernel of X (and of the confounder, if it is the same) and of y.
    debiased : bool, default=False
        Whether to use U-centred matrices throughout: 0 on average without correspondence. Needs 4 rows.
    nearest_psd : bool, default=False
        Whether to set the negative eigenvalues of the residual matrices to zero before they are compared, as programs
        of the authors do: the value is then in [0, 1], and no partial correlation. Not with `debiased`.

    Attributes
    ----------
    similarity_ : float
        Deconfounded CKA of the `X` and `y` given to fit, in [-1, 1].
    chance_ : float
        Expected value over all permutations of the rows of y's residual matrix, in closed form; NaN for weighted rows.
    explained_, explained_y_ : float
        Share of the squared norm of the Gram matrix of X and of y that the confounder's explains: the square of their
        CKA. 0 without a confounder.
    bandwidth_, bandwidth_y_, bandwidth_confound_ : float or None
        sigma used for X, y and the confounder; None for kernels without a bandwidth.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows, or its Gram matrix a multiple of the confounder's: the value is NaN.
    ChanceLevelWarning
        If at least half of a biased value is expected by chance.

    References
    ----------
    Cui, Kumar, Marttinen & Kaski (2022), "Deconfounded representation similarity for comparison of neural networks",
    NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CKA, DeconfoundedCKA
    >>> rng = np.random.default_rng(0)
    >>> images = rng.standard_normal((100, 5))
    >>> X, y = (images @ rng.standard_normal((5, 8)) + rng.standard_normal((100, 8)) for _ in range(2))
    >>> round(CKA(debiased=True).fit(X, y).similarity_, 3)
    0.534
    >>> round(DeconfoundedCKA(debiased=True).fit(X, y, confound=images).similarity_, 3)
    0.063
    """

    _warns_of_chance = True

    def __init__(
        self,
        kernel: Any = "linear",
        *,
        kernel_y: Any = "same",
        confound_kernel: Any = "same",
        confound: Array | None = None,
        bandwidth: float = 1.0,
        bandwidth_rule: str = "median",
        gamma: float | None = None,
        kernel_params: Mapping[str, Any] | None = None,
        kernel_params_y: Mapping[str, Any] | None = None,
        debiased: bool = False,
        nearest_psd: bool = False,
    ) -> None:
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.confound_kernel = confound_kernel
        self.confound = confound
        self.bandwidth = bandwidth
        self.bandwidth_rule = bandwidth_rule
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.kernel_params_y = kernel_params_y
        self.debiased = debiased
        self.nearest_psd = nearest_psd

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0) if self.nearest_psd and self._is_positive_definite() else (-1.0, 1.0),
            symmetric=self.has_equal_sides,
            invariances=self._kernel_invariances(),
            self_similarity=1.0 if self.has_equal_sides else None,
            metric="arccos(s)" if self.has_equal_sides else None,
            min_samples=self._required_samples()[0],
            cost="n^2 (p + q + r), r features of the confounder",
            reference="Cui et al. 2022, NeurIPS",
        )

    @property
    def can_tile(self) -> bool:
        """Whether the embedding is a plain Gram matrix, which a residual one is not."""
        return self.confound is None

    @property
    def is_linear(self) -> bool:
        """Whether features can stand for Gram matrices, which they cannot for residual ones."""
        return self.confound is None and super().is_linear

    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None, confound: Array | None = None
    ) -> DeconfoundedCKA:
        """Learn the bandwidths, and compute the similarity.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows in the same order.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts: integer weights are the same as repeated rows.
        confound : array-like of shape (n_samples, n_confounders) or (n_samples,), default=None
            What both may take from: the input of the same rows, or its Gram matrix for
            ``confound_kernel="precomputed"``. None is the parameter of the same name.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If a parameter is not valid or the data break the input contract.
        """
        return self._fit(X, y, RowData(sample_weight, confound))

    def score(self, X: Array, y: Array, sample_weight: Array | None = None, confound: Array | None = None) -> float:
        """Return the index on the rows given, with the bandwidths learned by :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.
        confound : array-like of shape (n_samples, n_confounders) or (n_samples,), default=None
            The confounder of these rows.

        Returns
        -------
        similarity : float
            Higher is more similar.

        Raises
        ------
        ValueError
            If the data break the input contract.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        """
        return self._score(X, y, RowData(sample_weight, confound))

    def similarity(
        self, X: Array, y: Array, sample_weight: Array | None = None, confound: Array | None = None
    ) -> float:
        """Return the index of two representations without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.
        confound : array-like of shape (n_samples, n_confounders) or (n_samples,), default=None
            The confounder of these rows.

        Returns
        -------
        similarity : float
            The value that ``fit(X, y).similarity_`` would have.

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        return self._similarity(X, y, RowData(sample_weight, confound))

    def distance(self, X: Array, y: Array, sample_weight: Array | None = None, confound: Array | None = None) -> float:
        """Return the angle between the residual matrices, without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.
        confound : array-like of shape (n_samples, n_confounders) or (n_samples,), default=None
            The confounder of these rows.

        Returns
        -------
        distance : float
            In [0, pi] radians; a metric of the residuals.

        Raises
        ------
        ValueError
            As :meth:`fit`, or if the two sides have kernels of their own, which leaves no metric.
        """
        return self._distance(X, y, RowData(sample_weight, confound))

    def z_score(self, X: Array, y: Array, confound: Array | None = None) -> float:
        """Return the number of standard deviations by which the similarity passes its chance level.

        Mean and variance are those over all permutations of the rows of y's residual matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation, n_samples >= 4.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.
        confound : array-like of shape (n_samples, n_confounders) or (n_samples,), default=None
            The confounder of these rows.

        Returns
        -------
        z : float
            Compares the residuals with themselves in other orders of rows.

        Raises
        ------
        ValueError
            If the data break the input contract or there are fewer than 4 rows.
        """
        return self._z_score(X, y, RowData(None, confound))

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the cosine of the two residual matrices."""
        return cosine(inner, self_a, self_b, a, b)

    def embed(self, X: Array, sample_weight: Array | None = None) -> GramEmbedding:
        """Return the centred Gram matrix of one representation, less what the parameter `confound` explains of it."""
        return self._without_own_confounder(super().embed(X, sample_weight), X)

    def embed_y(self, y: Array, sample_weight: Array | None = None) -> GramEmbedding:
        """Embed the second representation, under its own kernel if it has one."""
        return self._without_own_confounder(super().embed_y(y, sample_weight), y)

    def _check_params(self) -> None:
        super()._check_params()
        _validation.check_flag("nearest_psd", self.nearest_psd)
        if not (isinstance(self.confound_kernel, str) and self.confound_kernel == "same"):
            kernels.check_kernel(self.confound_kernel, "confound_kernel")
        if self.nearest_psd and self.debiased:
            raise ValueError("nearest_psd=True has no meaning with debiased=True: U-centred matrices have no diagonal.")

    def _learn(self, a: GramEmbedding, b: GramEmbedding) -> None:
        super()._learn(a, b)
        self.explained_, self.explained_y_ = getattr(a, "explained", 0.0), getattr(b, "explained", 0.0)
        self.bandwidth_confound_ = getattr(a, "confounder_bandwidth", None)

    def _undefined(self, a: GramEmbedding, b: GramEmbedding) -> str:
        reasons = []
        for name, side in (("X", a), ("y", b)):
            if side.self_inner(self._form(a, b)) == 0.0:
                alone = math.isnan(getattr(side, "explained", math.nan))
                why = "zero, as for a constant representation" if alone else "a multiple of that of the confounder"
                reasons.append(f"the centred Gram matrix of {name} is {why}")
        return "; ".join(reasons)


def deconfounded_cka(
    X: Array,
    Y: Array,
    confound: Array,
    *,
    kernel: Any = "linear",
    kernel_y: Any = "same",
    confound_kernel: Any = "same",
    bandwidth: float = 1.0,
    bandwidth_rule: str = "median",
    gamma: float | None = None,
    kernel_params: Mapping[str, Any] | None = None,
    kernel_params_y: Mapping[str, Any] | None = None,
    debiased: bool = False,
    nearest_psd: bool = False,
    sample_weight: Array | None = None,
) -> float:
    """Compute the CKA of two representations, given what a confounder explains of both.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    confound : array-like of shape (n_samples, n_confounders) or (n_samples,)
        What both may take from, such as their common input.
    kernel, kernel_y, confound_kernel, bandwidth, bandwidth_rule, gamma, kernel_params, kernel_params_y, debiased, \
nearest_psd
        As in :class:`DeconfoundedCKA`.
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
        If a side is constant over the rows, or its Gram matrix a multiple of the confounder's: the value is NaN.

    References
    ----------
    Cui, Kumar, Marttinen & Kaski (2022), "Deconfounded representation similarity for comparison of neural networks",
    NeurIPS.

    Examples
    --------
    >>> from sklearn_cka import cka, deconfounded_cka
    >>> X, Y, Z = [[1.0], [2.0], [4.0], [7.0]], [[1.0], [3.0], [4.0], [6.0]], [[0.0], [1.0], [2.0], [4.0]]
    >>> round(cka(X, Y), 6), round(deconfounded_cka(X, Y, Z), 6)
    (0.937729, -0.75155)
    """
    index = DeconfoundedCKA(
        kernel,
        kernel_y=kernel_y,
        confound_kernel=confound_kernel,
        bandwidth=bandwidth,
        bandwidth_rule=bandwidth_rule,
        gamma=gamma,
        kernel_params=kernel_params,
        kernel_params_y=kernel_params_y,
        debiased=debiased,
        nearest_psd=nearest_psd,
    )
    return index.similarity(X, Y, sample_weight, confound)
