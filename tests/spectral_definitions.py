"""The spectral family by its definitions: explicit covariances, whitening, normal equations, projections.

Written with SciPy from the papers' formulas; no thin SVD, no product of bases, nothing of the package. Also random
representations of every shape for which these definitions are numerically sound.
"""

import numpy as np
import scipy.linalg
from hypothesis import assume
from hypothesis import strategies as st

# Directions with less than this share of the largest variance are rounding.
NO_VARIANCE = 1e-20


def centered(X):
    """Return the centred columns of `X`, of size about 1; extended precision takes care of offsets."""
    X = np.asarray(X)
    X = X[:, None] if X.ndim == 1 else X
    Z = X.astype(np.longdouble)
    Z = Z - Z[0]
    Z = Z - Z.mean(axis=0)
    size = np.abs(Z).max()
    return (Z / size if size else Z).astype(np.float64)


def axes(X):
    """Return the variances of centred `X` along its principal axes, and these, without those of no variance."""
    variances, directions = scipy.linalg.eigh(X.T @ X)
    kept = variances > max(NO_VARIANCE, 1e-13) * variances[-1]
    return variances[kept], directions[:, kept]


def power(X, exponent, penalty=0.0):
    """Return ``(X'X + penalty I) ** exponent`` on the space in which centred `X` varies."""
    variances, directions = axes(X)
    return (directions * (variances + penalty) ** exponent) @ directions.T


def rank(X):
    return len(axes(centered(X))[0])


def projection(X):
    """Return the projection of the rows' space onto the span of the centred columns."""
    X = centered(X)
    return X @ power(X, -1.0) @ X.T


def canonical_correlations(X, Y):
    X, Y = centered(X), centered(Y)
    coherence = power(X, -0.5) @ X.T @ Y @ power(Y, -0.5)
    k = min(len(axes(X)[0]), len(axes(Y)[0]))
    return scipy.linalg.svdvals(coherence)[:k]


def cca(X, Y, statistic="mean"):
    rho = canonical_correlations(X, Y)
    return float(np.mean(rho**2 if statistic == "mean_squared" else rho))


def eigenspace_overlap(X, Y):
    return float(np.trace(projection(X) @ projection(Y)) / max(rank(X), rank(Y)))


def principal_components(X, threshold):
    """Return the scores of the fewest components whose share of the variance reaches the threshold."""
    X = centered(X)
    variances, directions = axes(X)
    share = np.cumsum(variances[::-1]) / variances.sum()
    k = int(np.argmax(share >= threshold)) + 1 if threshold < 1.0 else len(share)
    return X @ directions[:, ::-1][:, :k]


def svcca(X, Y, threshold=0.99, statistic="mean"):
    return cca(principal_components(X, threshold), principal_components(Y, threshold), statistic)


def canonical_variates(X, Y):
    """Return the canonical variates of X as unit vectors, and the correlations, from the eigenproblem of CCA."""
    X, Y = centered(X), centered(Y)
    root = power(X, -0.5)
    C = root @ X.T @ Y @ power(Y, -1.0) @ Y.T @ X @ root
    squares, vectors = scipy.linalg.eigh((C + C.T) / 2.0)
    k = min(len(axes(X)[0]), len(axes(Y)[0]))
    squares, vectors = squares[::-1][:k], vectors[:, ::-1][:, :k]
    return X @ root @ vectors, np.sqrt(np.clip(squares, 0.0, 1.0))


def pwcca(X, Y):
    h, rho = canonical_variates(X, Y)
    alpha = np.zeros(len(rho))
    for i in range(len(rho)):
        for column in centered(X).T:
            alpha[i] += abs(h[:, i] @ column)
    return float(alpha @ rho / alpha.sum())


def linear_predictivity(X, Y, target="X", alpha=0.0):
    """Return R² by least squares, or by the normal equations of ridge regression in the units given."""
    response, predictor = (X, Y) if target == "X" else (Y, X)
    response = centered(response)
    if alpha:
        predictor = predictor - predictor.mean(axis=0)
        gram = predictor.T @ predictor + alpha * np.eye(predictor.shape[1])
        fitted = predictor @ scipy.linalg.solve(gram, predictor.T @ response, assume_a="pos")
    else:
        fitted = projection(predictor) @ response
    return float(1.0 - np.sum((response - fitted) ** 2) / np.sum(response**2))


def canonical_ridge_correlations(X, Y, penalty, penalty_y):
    """Return the singular values of the penalised coherence; penalties in units of the covariance over n."""
    X, Y = (Z - Z.mean(axis=0) for Z in (X, Y))
    n = len(X)
    left, right = (
        scipy.linalg.inv(scipy.linalg.sqrtm(Z.T @ Z / n + kappa * np.eye(Z.shape[1])).real)
        for Z, kappa in ((X, penalty), (Y, penalty_y))
    )
    return scipy.linalg.svdvals(left @ (X.T @ Y / n) @ right)


def separable(correlations_of, X, Y):
    """Return the sum of squares over the geometric mean of those of X with itself and Y with itself."""
    both, first, second = (np.sum(correlations_of(*pair) ** 2) for pair in ((X, Y), (X, X), (Y, Y)))
    return float(both / np.sqrt(first * second))


def procrustes(X, Y):
    X, Y = centered(X), centered(Y)
    return float(scipy.linalg.svdvals(X.T @ Y).sum() / (scipy.linalg.norm(X) * scipy.linalg.norm(Y)))


def whitened(X, alpha):
    """Return the partially whitened data of Williams et al., first scaled to a total variance equal to the rank."""
    X = centered(X)
    n = len(X)
    X = X * np.sqrt(n * len(axes(X)[0])) / scipy.linalg.norm(X)
    return X @ (alpha * np.eye(X.shape[1]) + (1.0 - alpha) * np.sqrt(n) * power(X, -0.5))


def shape_similarity(X, Y, alpha):
    X, Y = whitened(X, alpha), whitened(Y, alpha)
    return float(scipy.linalg.svdvals(X.T @ Y).sum() / (scipy.linalg.norm(X) * scipy.linalg.norm(Y)))


def linear_cka(X, Y):
    K, L = (centered(Z) @ centered(Z).T for Z in (X, Y))
    return float(np.sum(K * L) / (scipy.linalg.norm(K) * scipy.linalg.norm(L)))


KINDS = (
    "narrow",
    "square",
    "wide",
    "very wide",
    "rank deficient",
    "duplicated columns",
    "constant column",
    "one column",
)


@st.composite
def representations(draw, n, scales=(1.0, 2.0**-100, 2.0**100), offsets=(0.0, 1.0, 1e4)):
    """A matrix of `n` rows of every shape and rank, shifted and scaled without leaving its rank in doubt.

    Whole numbers where the rank is deficient, and scales by powers of two: no rounding adds to the rank.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(KINDS))
    narrow = draw(st.integers(1, max(1, n // 2)))
    width = {"square": n, "wide": n + 3, "very wide": 6 * n, "one column": 1}.get(kind, narrow)
    X = rng.standard_normal((n, width)) * rng.uniform(0.5, 2.0, size=width)
    if kind == "rank deficient":
        X = rng.integers(-4, 5, size=(n, narrow)) @ rng.integers(-2, 3, size=(narrow, 2 * narrow + 1)) * 1.0
        X[0, 0] += 1.0  # not constant
    X = X + draw(st.sampled_from(offsets)) * rng.integers(-3, 4, size=X.shape[1])
    if kind == "duplicated columns":
        X = np.concatenate([X, 2.0 * X[:, ::-1]], axis=1)
    elif kind == "constant column":
        X = np.concatenate([X, np.full((n, 1), rng.standard_normal())], axis=1)
    return X * draw(st.sampled_from(scales))


@st.composite
def pairs(draw, min_samples=3, max_samples=14, **kwargs):
    """Two representations of the same rows, sometimes of shared columns, whose directions are well determined."""
    n = draw(st.integers(min_samples, max_samples))
    X, Y = draw(representations(n, **kwargs)), draw(representations(n, **kwargs))
    if draw(st.booleans()):
        Y = np.concatenate([_near_one(Y), _near_one(X)[:, :2]], axis=1)
    for Z in (X, Y):
        assume(np.any(centered(Z)))
        spectrum = scipy.linalg.svdvals(centered(Z))
        assume(not np.any((spectrum > 1e-15 * spectrum[0]) & (spectrum < 3e-3 * spectrum[0])))
    return X, Y


def _near_one(X):
    return np.ldexp(X, -np.frexp(np.ptp(X))[1])
