"""Angular CKA: the angle between two centred Gram matrices, a metric.

    d(K, L) = arccos CKA(K, L)

CKA is the cosine of two matrices in a space with an inner product, so that its arccos obeys the triangle inequality,
which 1 - CKA does not. References: Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural
representations", NeurIPS; Lange, Kwok, Matelsky, Wang, Rolnick & Kording (2023), "Deep networks as paths on the
manifold of neural representations", TAG-ML.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sklearn_cka import _arrays, _linalg
from sklearn_cka.indexes._distance_index import NEGATED, negated
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes.cka import CKA

__all__ = ["AngularCKA"]


class AngularCKA(CKA):
    """Minus the angle between two centred Gram matrices, ``-arccos(CKA)``.

    ``AngularCKA().distance(X, y)`` is the angle, as is ``CKA().distance(X, y)``; this index keeps the digits of angles
    near 0, which the arccos of a number near 1 loses.

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
    debiased : bool, default=False
        Whether to take the angle between U-centred matrices: pi/2 for a debiased CKA of 0. Needs 4 rows.
    form : {"auto", "gram", "feature"}, default="auto"
        For the linear kernel: through n x n Gram matrices, through features, or whichever costs less.

    Attributes
    ----------
    similarity_ : float
        Minus the angle between the `X` and `y` given to fit in radians, in [-pi/2, 0] (biased, positive definite
        kernel) or [-pi, 0].
    chance_ : float
        NaN: the mean of an angle over row permutations has no closed form; that of CKA has.
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

    References
    ----------
    Williams, Kunz, Kornblith & Linderman (2021), "Generalized shape metrics on neural representations", NeurIPS.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from sklearn_cka import AngularCKA
    >>> X = np.arange(5.0)[:, None]
    >>> index = AngularCKA().fit(X, X**2)
    >>> round(index.similarity_, 6), round(math.cos(index.similarity_), 6)
    (-0.403887, 0.91954)
    """

    _warns_of_chance = False

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        cosine = super().properties
        return replace(
            cosine,
            range=(-math.pi / 2.0 if cosine.range[0] == 0.0 else -math.pi, 0.0),
            self_similarity=None if cosine.self_similarity is None else 0.0,
            metric=NEGATED if self.has_equal_sides else None,
            reference="Williams et al. 2021, NeurIPS",
        )

    def to_distance(self, similarity: float) -> float:
        """Return the angle whose negative a value of the index is.

        Parameters
        ----------
        similarity : float
            A value of the index.

        Returns
        -------
        distance : float
            Angle in radians; NaN for NaN.
        """
        return similarity if math.isnan(similarity) else max(0.0, -similarity)

    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return minus the angle between the two centred Gram matrices."""
        if a is b:
            return math.nan if self_a <= 0.0 else 0.0
        cosine = super().normalize(inner, self_a, self_b, a, b)
        if math.isnan(cosine):
            return math.nan
        if 1.0 - cosine < math.sqrt(max(a.eps, b.eps)):
            return negated(_small_angle(a, b))
        return negated(math.acos(max(-1.0, cosine)))

    def chance(self, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return NaN: the expected angle has no closed form."""
        return math.nan


def _small_angle(a: GramEmbedding, b: GramEmbedding) -> float:
    """Return the angle between two nearly parallel matrices from the difference of the unit matrices."""
    K, L = _arrays.same_precision(a.gram, b.gram)
    norm_k, norm_l = (math.sqrt(_linalg.sum_of_squares(A)) for A in (K, L))
    difference = K * (1.0 / norm_k) - L * (1.0 / norm_l)
    return 2.0 * math.asin(min(1.0, 0.5 * math.sqrt(_linalg.sum_of_squares(difference))))
