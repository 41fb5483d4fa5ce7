"""Linear regression of one representation on the other, and canonical ridge.

    R2_LR (X from y)  = ||diag(s_x) M||_F^2 / ||s_x||^2 = ||Q_y' Xc||_F^2 / ||Xc||_F^2,    M = U_x' U_y
    with a penalty    = sum_ij s_xi^2 w_j M_ij^2 / ||s_x||^2,    w = 1 - (1 - g)^2,  g = s_y^2 / (s_y^2 + alpha)
    canonical ridge   : singular values rho of diag(d_x) M diag(d_y),    d = s / sqrt(s^2 + n kappa)

``R2_LR = CKA(XX', Q_y Q_y') sqrt(r_y) ||X'X||_F / ||X||_F^2`` with Q_y an orthonormal basis of rank r_y; the factor
that Kornblith et al. print in Eq. 12, the root of the width of X, is a misprint that shows whenever widths differ.
References: Kornblith, Norouzi, Lee & Hinton (2019), ICML; Vinod (1976), Journal of Econometrics 4 (canonical ridge).
"""

from __future__ import annotations

import math

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._canonical import COST, OF_SPANS, STATISTICS, CanonicalIndex
from sklearn_cka.indexes._linear_map import LinearMap
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._spectral import (
    SpectralEmbedding,
    SpectralIndex,
    chance_of_squares,
    cross_product,
    root_weighted,
    weigh,
)

__all__ = ["CanonicalRidge", "LinearPredictivity", "linear_predictivity"]


class LinearPredictivity(SpectralIndex):
    """Share of the variance of one representation that a linear regression on the other explains (R²).

    Parameters
    ----------
    target : {"X", "y"}, default="X"
        Which representation is predicted from the other; the literature's index predicts X.
    alpha : float, default=0.0
        Ridge penalty, as that of :class:`sklearn.linear_model.Ridge`: it is added to the squared singular values of the
        centred predictors, so that what it does depends on their scale and number of rows. 0 is least squares (of
        least norm, where there are more predictors than rows).

    Attributes
    ----------
    similarity_ : float
        R² on the `X` and `y` given to fit, over all columns of the target together, in [0, 1].
    chance_ : float
        Expected value over all row permutations, in closed form: the rank of the predictors over n - 1, with a penalty
        sum(w) / (n - 1) with w = 1 - (1 - g)², g = s² / (s² + alpha). NaN for weights that are not whole numbers.
    coef_ : array of shape (n_targets, n_predictors)
        Regression coefficients, oriented as in scikit-learn's linear models.
    intercept_ : array of shape (n_targets,)
        Intercepts: ``predictor @ coef_.T + intercept_`` predicts the target.
    n_components_ : int
        Smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If the predictors have rank n - 1 and there is no penalty: R² is 1 whatever the target is.
    ChanceLevelWarning
        If at least half of the value is expected by chance.

    Notes
    -----
    :meth:`fit` learns the regression. The aligned space is that of the target, centred: with ``target="y"``,
    :meth:`transform` predicts y (less `y_mean_`) and :meth:`transform_y` centres y; with ``target="X"``, transform
    centres X and transform_y predicts it. :meth:`score` is ``sklearn.metrics.r2_score`` of the predictions on the rows
    given, variance weighted: on held-out rows it may be negative.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML, section 3.
    In their Eq. 12 read the root of the rank of y for that of the width of X.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn_cka import LinearPredictivity
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> y = X[:, :1] + np.random.default_rng(1).standard_normal((50, 1))
    >>> round(LinearPredictivity().fit(X, y).similarity_, 6)
    0.143862
    >>> (
    ...     round(LinearPredictivity(target="y").fit(X, y).similarity_, 6),
    ...     round(LinearRegression().fit(X, y).score(X, y), 6),
    ... )
    (0.597823, 0.597823)
    """

    def __init__(self, *, target: str = "X", alpha: float = 0.0) -> None:
        self.target = target
        self.alpha = alpha

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=False,
            invariances=OF_SPANS
            - ({"invertible_linear", "isotropic_scaling"} if self.alpha else {"invertible_linear"}),
            self_similarity=None if self.alpha else 1.0,
            cost=COST,
            reference="Kornblith et al. 2019, ICML",
        )

    def _check_params(self) -> None:
        _validation.check_option("target", self.target, ("X", "y"))
        _validation.check_non_negative("alpha", self.alpha)

    def _sides(self, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[SpectralEmbedding, SpectralEmbedding]:
        """Return target and predictor."""
        return (a, b) if self.target == "X" else (b, a)

    def _shrinkage(self, predictor: SpectralEmbedding) -> Array | None:
        """Return g, what the penalty leaves of each component of the predictions; None for all of it."""
        if self.alpha == 0:
            return None
        alpha = float(self.alpha) * _linalg.power_of_two(-2 * predictor.exponent)
        squares = predictor.spectrum**2
        return squares / (squares + alpha)

    def _explained(self, predictor: SpectralEmbedding) -> Array | None:
        """Return w, the share of its variance that is explained of a target along each component of the predictor."""
        g = self._shrinkage(predictor)
        return None if g is None else g * (2.0 - g)

    def from_cross(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, neither of rank 0, from the product of their bases.

        Parameters
        ----------
        M : array of shape (rank_x, rank_y)
            Product ``U_x' U_y``.
        a, b : SpectralEmbedding
            The two embeddings.

        Returns
        -------
        similarity : float
            The index.
        """
        target, predictor = self._sides(a, b)
        explained = self._explained(predictor)
        root = None if explained is None else explained**0.5
        C = weigh(M, target.relative, root) if self.target == "X" else weigh(M, root, target.relative)
        return _linalg.clip_rounding(_linalg.sum_of_squares(C), 0.0, 1.0, max(a.tolerance, b.tolerance))

    def chance(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the mean over all row permutations of one side, in closed form."""
        if not (a.rank and b.rank):
            return math.nan
        predictor = self._sides(a, b)[1]
        explained = self._explained(predictor)
        total = predictor.rank if explained is None else float(_arrays.namespace(explained).sum(explained))
        return total * chance_of_squares(a, b)

    def _is_degenerate(self, a: SpectralEmbedding, b: SpectralEmbedding) -> bool:
        return self.alpha == 0 and self._sides(a, b)[1].rank >= a.n_samples - 1

    def _learn_maps(self, a: SpectralEmbedding, b: SpectralEmbedding) -> tuple[LinearMap, LinearMap]:
        target, predictor = self._sides(a, b)
        xp = _arrays.namespace(a.basis)
        self.n_components_ = min(a.rank, b.rank)
        M = cross_product(predictor, target)
        left, right = (xp.astype(side.loadings, M.dtype, copy=False) for side in (predictor, target))
        g = self._shrinkage(predictor)
        inverse = 1.0 / predictor.spectrum if g is None else g / predictor.spectrum
        if predictor.rank <= target.rank:
            left = weigh(left, None, inverse)
            right = right @ weigh(xp.matrix_transpose(M), target.spectrum)
        else:
            left = left @ weigh(M, inverse, target.spectrum)
        prediction = LinearMap(predictor.mean, predictor.exponent, left, right, exponent_out=target.exponent)
        identity = LinearMap(target.mean, target.exponent, identity=1.0, exponent_out=target.exponent)
        return (identity, prediction) if self.target == "X" else (prediction, identity)

    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        """Return R² of the learned regression on the rows given, columns weighted by their variance on these."""
        if self.n_components_ == 0:
            return math.nan
        xp = _arrays.namespace(X)
        if self.target == "X":
            rows, kept, given, prediction = X, self._x_map, y, self._y_map
        else:
            rows, kept, given, prediction = y, self._y_map, X, self._x_map
        truth = kept.shift(rows)
        truth, predicted = _arrays.same_precision(truth, prediction.image(given))
        errors = xp.astype(root_weighted(truth - predicted, weights), xp.float64)
        centered = _linalg.center(truth, weights)
        spread = xp.astype(root_weighted(centered.values, weights), xp.float64)
        varies = xp.max(xp.abs(spread), axis=0) > 0.0
        # A column that is constant on these rows has no R², and no weight in the mean over columns.
        unexplained = xp.sum(xp.where(varies, xp.sum(errors**2, axis=0), xp.zeros_like(errors[0, :])))
        total = float(xp.sum(spread**2)) * _linalg.power_of_two(2 * centered.exponent)
        return 1.0 - float(unexplained) / total if total > 0.0 else math.nan

    @property
    def coef_(self) -> Array:
        """Regression coefficients, shape (n_targets, n_predictors)."""
        prediction = self._y_map if self.target == "X" else self._x_map
        matrix = prediction.matrix()
        return _arrays.namespace(matrix).matrix_transpose(matrix)

    @property
    def intercept_(self) -> Array:
        """Intercepts in float64, shape (n_targets,)."""
        xp = _arrays.namespace(self.x_mean_)
        means = (self.x_mean_, self.y_mean_)
        target, predictor = means if self.target == "X" else means[::-1]
        return target - xp.astype(self.coef_, xp.float64) @ predictor


class CanonicalRidge(CanonicalIndex):
    """Canonical ridge: CCA whose variances are increased by a penalty, between CCA and linear CKA.

    Parameters
    ----------
    penalty : float, default=1.0
        Penalty kappa of X, in units of the variance of a column (that of ``Xc'Xc / n``): what it does depends neither
        on the number of rows, so that a value found by cross-validation serves on all rows, nor on the scale of sample
        weights. It does depend on the scale of X: standardise the columns, or choose it in the units of the data.
    penalty_y : float, default=None
        Penalty of y; None is that of X.
    statistic : {"mean", "mean_squared", "separable"}, default="mean"
        Mean of the penalised canonical correlations over the smaller rank, mean of their squares, or the sum of their
        squares divided by what it is for X with itself and for y with itself (the geometric mean of both): the
        separable normalisation, which is 1 for a representation with itself whatever the penalty.

    Attributes
    ----------
    similarity_ : float
        Value for the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected value over all row permutations of y, sum(d_x²) sum(d_y²) / (n - 1) over the same divisor, with
        d² = s² / (s² + n kappa), for the statistics of squares. NaN for ``"mean"``, whose mean over permutations has no
        closed form, and for weights that are not whole numbers.
    canonical_correlations_ : array of shape (n_components_,)
        All penalised canonical correlations, descending, in [0, 1].
    n_components_ : int
        Number of canonical components: the smaller of the ranks of both sides.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    x_rotations_, y_rotations_ : array of shape (n_features_in_, n_components_) and (n_features_y_in_, n_components_)
        Weights of the columns in the canonical variates: the variance of each over the training rows, and kappa times
        the squared norm of its weights, add up to 1.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a side is constant over the rows: the value is NaN.
    DegenerateSimilarityWarning
        If there is no penalty and n <= r_x + r_y: some correlations are 1 whatever the data are.
    ChanceLevelWarning
        If at least half of a value of squares is expected by chance.

    Notes
    -----
    Without a penalty the correlations are those of CCA. As the penalty grows they fall to 0, while the separable form
    tends to linear CKA; at penalty 0 it is the squared norm of M over the geometric mean of the ranks. :meth:`score`
    takes the correlations of the canonical variates over the rows given, their variances increased by the penalty as
    in fit.

    References
    ----------
    Vinod (1976), "Canonical ridge and econometrics of joint production", Journal of Econometrics 4.

    Examples
    --------
    >>> from sklearn_cka import CanonicalRidge
    >>> X, y = [[-2.0], [-1.0], [0.0], [1.0], [2.0]], [[-1.0], [-2.0], [0.0], [2.0], [1.0]]
    >>> [round(CanonicalRidge(penalty=penalty).fit(X, y).similarity_, 6) for penalty in (0.0, 0.5, 1.0)]
    [0.8, 0.64, 0.533333]
    """

    def __init__(self, *, penalty: float = 1.0, penalty_y: float | None = None, statistic: str = "mean") -> None:
        self.penalty = penalty
        self.penalty_y = penalty_y
        self.statistic = statistic

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        penalties = self._penalties()
        lost = {"invertible_linear", "isotropic_scaling"} if any(penalties) else set()
        equal = penalties[0] == penalties[1]
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=equal,
            invariances=OF_SPANS - lost,
            self_similarity=1.0 if not any(penalties) or (equal and self.statistic == "separable") else None,
            cost=COST,
            reference="Vinod 1976, Journal of Econometrics 4",
        )

    def _check_params(self) -> None:
        _validation.check_non_negative("penalty", self.penalty)
        if self.penalty_y is not None:
            _validation.check_non_negative("penalty_y", self.penalty_y)
        _validation.check_option("statistic", self.statistic, (*STATISTICS, "separable"))

    def _penalties(self) -> tuple[float, float]:
        return float(self.penalty), float(self.penalty if self.penalty_y is None else self.penalty_y)

    @property
    def _is_squared(self) -> bool:
        return self.statistic != "mean"

    def from_cross(self, M: Array, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        """Return the index of two embeddings, neither of rank 0, from the product of their bases.

        Parameters
        ----------
        M : array of shape (rank_x, rank_y)
            Product ``U_x' U_y``.
        a, b : SpectralEmbedding
            The two embeddings.

        Returns
        -------
        similarity : float
            The index.
        """
        if self.statistic != "separable":
            return super().from_cross(M, a, b)
        # Only the ratios of d count here; the largest is made 1, so that large penalties leave no tiny numbers.
        penalty_x, penalty_y = self._penalties()
        d_x, d_y = (_largest_one(self._kept(*side)) for side in ((a, penalty_x), (b, penalty_y)))
        value = _linalg.sum_of_squares(weigh(M, d_x, d_y)) / (_norm_of_squares(d_x, a) * _norm_of_squares(d_y, b))
        return _linalg.clip_rounding(value, 0.0, 1.0, max(a.tolerance, b.tolerance))

    def _divisor(self, a: SpectralEmbedding, b: SpectralEmbedding) -> float:
        if self.statistic != "separable":
            return float(min(a.rank, b.rank))
        penalty_x, penalty_y = self._penalties()
        return _norm_of_squares(self._kept(a, penalty_x), a) * _norm_of_squares(self._kept(b, penalty_y), b)


def _largest_one(d: Array | None) -> Array | None:
    return None if d is None else d / d[0]


def _norm_of_squares(d: Array | None, embedding: SpectralEmbedding) -> float:
    """Return the norm of ``d**2``, None standing for ones."""
    return math.sqrt(embedding.rank if d is None else _linalg.sum_of_squares(d**2))


def linear_predictivity(
    X: Array, Y: Array, *, target: str = "X", alpha: float = 0.0, sample_weight: Array | None = None
) -> float:
    """Compute the share of the variance of one representation that a linear regression on the other explains.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation, the one that is predicted unless `target` says otherwise.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order.
    target : {"X", "y"}, default="X"
        Which representation is predicted, X or Y.
    alpha : float, default=0.0
        Ridge penalty, as in :class:`LinearPredictivity`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        R² on these rows, in [0, 1].

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning, DegenerateSimilarityWarning, ChanceLevelWarning
        As :class:`LinearPredictivity`.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import linear_predictivity
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> Y = X[:, :1] + np.random.default_rng(1).standard_normal((50, 1))
    >>> round(linear_predictivity(X, Y), 6), round(linear_predictivity(X, Y, target="y"), 6)
    (0.143862, 0.597823)
    """
    return LinearPredictivity(target=target, alpha=alpha).similarity(X, Y, sample_weight)
