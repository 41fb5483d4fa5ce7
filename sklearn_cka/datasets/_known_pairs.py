"""Pairs of representations whose similarity is known in closed form, and a small real data set.

Everything that a linear index sees of two representations is the spectra of their centred features, ``s_x`` and
``s_y``, and the cross-product M of their orthonormal bases (Kornblith et al. 2019). Chosen beforehand, they give the
value of every such index by arithmetic, and data that have exactly these spectra and this M test it.

References
----------
S. Kornblith, M. Norouzi, H. Lee, G. Hinton, "Similarity of neural network representations revisited", ICML 2019.

F. Kazi-Aoual, S. Hitier, R. Sabatier, J.-D. Lebreton, "Refined approximations to permutation tests for multivariate
inference", Computational Statistics & Data Analysis 20, 1995 (values expected under permutation).
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_scalar

__all__ = ["load_digits_split", "make_independent_pair", "make_known_pair", "make_rotated_pair"]

_GREATEST_PIXEL = 16.0


def make_known_pair(
    n_samples: int = 100,
    *,
    spectrum_x: Any = (10.0, 1.0),
    spectrum_y: Any = (1.0, 10.0),
    correlations: Any = (1.0, 1.0),
    n_features_x: int | None = None,
    n_features_y: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Make two representations with given spectra and canonical correlations, exact in the sample.

    The i-th principal direction of X correlates with the i-th of Y by ``correlations[i]``, and with no other. The
    default is the pair that tells CKA from CCA: two shared directions, of which X has mostly the first and Y mostly
    the second.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows; at least one more than the number of independent directions of X and Y together.
    spectrum_x : array-like of shape (r_x,), default=(10, 1)
        Positive singular values of X (whose columns have mean zero), in any order.
    spectrum_y : array-like of shape (r_y,), default=(1, 10)
        Positive singular values of Y.
    correlations : array-like of shape (r,), default=(1, 1)
        Canonical correlations in [0, 1] of the first ``r <= min(r_x, r_y)`` directions, in the order of the spectra;
        those not given are 0.
    n_features_x : int, default=None
        Number of columns of X, at least r_x, into which the r_x directions are rotated at random. If None, X has one
        column per direction and is not rotated.
    n_features_y : int, default=None
        The same for Y.
    random_state : int, RandomState instance or None, default=None
        Determines the directions. The known values do not depend on it.

    Returns
    -------
    Bunch
        ``X`` of shape (n_samples, n_features_x) and ``Y`` of shape (n_samples, n_features_y), float64; ``known``, a
        dict of values by name:

        - ``linear_cka`` and ``linear_hsic`` (both biased), ``procrustes``, ``eigenspace_overlap``
        - ``canonical_correlations`` (descending), ``mean_cca``, ``mean_squared_cca``
        - ``regression_x_from_y``, ``regression_y_from_x`` (R² of the least-squares fit)

        and ``chance``, what ``linear_cka``, ``mean_squared_cca`` and the regressions are expected to be if the rows of
        Y are permuted at random.

    Raises
    ------
    ValueError
        If a singular value is not positive, a correlation is not in [0, 1], there are more correlations than
        directions, or there are too few rows or columns.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_known_pair
    >>> pair = make_known_pair(50, random_state=0)
    >>> round(pair.known["linear_cka"], 6), 200 / 10001, pair.known["mean_cca"]
    (0.019998, 0.01999800019998, 1.0)
    """
    s_x = _spectrum(spectrum_x, "spectrum_x")
    s_y = _spectrum(spectrum_y, "spectrum_y")
    r_x, r_y = len(s_x), len(s_y)
    rho = np.zeros(min(r_x, r_y))
    given = _vector(correlations, "correlations")
    if len(given) > len(rho):
        raise ValueError(f"correlations holds {len(given)} values, but X has {r_x} directions and Y has {r_y}.")
    if ((given < 0) | (given > 1)).any():
        raise ValueError(f"correlations must lie in [0, 1], got {given}.")
    rho[: len(given)] = given

    # Directions of Y are those of X, mixed with directions of their own unless the correlation is 1.
    own = np.ones(r_y, dtype=bool)
    own[: len(rho)] = rho < 1
    n_directions = r_x + int(own.sum())
    _check_count(n_samples, "n_samples", n_directions + 1, f"the {n_directions} directions of X and Y together")
    rng = check_random_state(random_state)
    basis = _centred_basis(n_samples, n_directions, rng)
    U_x = basis[:, :r_x]
    U_y = np.zeros((n_samples, r_y))
    U_y[:, own] = basis[:, r_x:]
    U_y[:, : len(rho)] *= np.sqrt(1 - rho**2)
    U_y[:, : len(rho)] += rho * U_x[:, : len(rho)]

    m = len(rho)
    shared = s_x[:m] * s_y[:m] * rho
    size_x, size_y = np.sum(s_x**2), np.sum(s_y**2)
    gram_x, gram_y = np.sqrt(np.sum(s_x**4)), np.sqrt(np.sum(s_y**4))
    known = {
        "linear_cka": float(np.sum(shared**2) / (gram_x * gram_y)),
        "linear_hsic": float(np.sum(shared**2) / (n_samples - 1) ** 2),
        "procrustes": float(np.sum(shared) / np.sqrt(size_x * size_y)),
        "eigenspace_overlap": float(np.sum(rho**2) / max(r_x, r_y)),
        "canonical_correlations": np.sort(rho)[::-1],
        "mean_cca": float(np.mean(rho)),
        "mean_squared_cca": float(np.mean(rho**2)),
        "regression_x_from_y": float(np.sum((s_x[:m] * rho) ** 2) / size_x),
        "regression_y_from_x": float(np.sum((s_y[:m] * rho) ** 2) / size_y),
    }
    return Bunch(
        X=_in_columns(U_x * s_x, n_features_x, "n_features_x", rng),
        Y=_in_columns(U_y * s_y, n_features_y, "n_features_y", rng),
        known=known,
        chance=_chance(n_samples, (r_x, size_x, gram_x), (r_y, size_y, gram_y)),
    )


def make_rotated_pair(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    n_features_y: int | None = None,
    scale: float = 1.0,
    offset: float = 0.0,
    random_state: Any = None,
) -> Bunch:
    """Make a representation and a rotated, rescaled and shifted copy of it.

    Every index that is invariant to rotation, isotropic scaling and translation is 1 for the two. One that is only
    invariant to permutations of units, such as soft matching, is not.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows, at least 2.
    n_features : int, default=10
        Number of columns of X, whose entries are normal with variances between 1 and 1/10.
    n_features_y : int, default=None
        Number of columns of Y, at least `n_features`, which it equals if None.
    scale : float, default=1.0
        Factor by which Y is larger; positive.
    offset : float, default=0.0
        Added to every entry of Y.
    random_state : int, RandomState instance or None, default=None
        Determines the data.

    Returns
    -------
    Bunch
        ``X`` of shape (n_samples, n_features), ``Y = scale * X @ rotation + offset`` of shape
        (n_samples, n_features_y), ``rotation`` of shape (n_features, n_features_y) with orthonormal rows, and
        ``known``, a dict of the values by name.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_rotated_pair
    >>> pair = make_rotated_pair(20, 3, scale=100.0, random_state=0)
    >>> bool(abs(pair.X @ pair.rotation * 100 - pair.Y).max() < 1e-12)
    True
    >>> pair.known["linear_cka"]
    1.0
    """
    _check_count(n_samples, "n_samples", 2)
    _check_count(n_features, "n_features", 1)
    n_features_y = n_features if n_features_y is None else n_features_y
    _check_count(n_features_y, "n_features_y", n_features, f"the {n_features} columns of X")
    check_scalar(scale, "scale", numbers.Real, min_val=0, include_boundaries="neither")
    check_scalar(offset, "offset", numbers.Real)
    rng = check_random_state(random_state)
    X = rng.normal(size=(n_samples, n_features)) * np.linspace(1, 0.1**0.5, n_features)
    rotation = np.linalg.qr(rng.normal(size=(n_features_y, n_features)))[0].T
    ones = (
        "linear_cka",
        "debiased_linear_cka",
        "distance_correlation",
        "procrustes",
        "eigenspace_overlap",
        "mean_cca",
        "mean_squared_cca",
        "regression_x_from_y",
        "regression_y_from_x",
    )
    return Bunch(X=X, Y=scale * (X @ rotation) + offset, rotation=rotation, known=dict.fromkeys(ones, 1.0))


def make_independent_pair(
    n_samples: int = 100, n_features_x: int = 10, n_features_y: int | None = None, *, random_state: Any = None
) -> Bunch:
    """Make two independent representations of standard normal entries.

    What an index gives for them is chance alone. It grows to 1 as the number of columns exceeds that of rows, unless
    the index is debiased.

    Parameters
    ----------
    n_samples : int, default=100
        Number of rows, at least 2.
    n_features_x : int, default=10
        Number of columns of X.
    n_features_y : int, default=None
        Number of columns of Y; `n_features_x` if None.
    random_state : int, RandomState instance or None, default=None
        Determines the data.

    Returns
    -------
    Bunch
        ``X`` of shape (n_samples, n_features_x), ``Y`` of shape (n_samples, n_features_y), and ``chance``, a dict: the
        mean of ``linear_cka``, ``mean_squared_cca``, ``regression_x_from_y`` and ``regression_y_from_x`` over all
        permutations of the rows of this Y.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_independent_pair
    >>> few, many = (make_independent_pair(50, p, random_state=0).chance["linear_cka"] for p in (5, 500))
    >>> round(few, 2), round(many, 2)
    (0.09, 0.91)
    """
    _check_count(n_samples, "n_samples", 2)
    _check_count(n_features_x, "n_features_x", 1)
    n_features_y = n_features_x if n_features_y is None else n_features_y
    _check_count(n_features_y, "n_features_y", 1)
    rng = check_random_state(random_state)
    X, Y = rng.normal(size=(n_samples, n_features_x)), rng.normal(size=(n_samples, n_features_y))
    sides = []
    for side in (X, Y):
        s = np.linalg.svd(side - side.mean(0), compute_uv=False)
        # The centred rank of normal entries is as large as it can be.
        sides.append((min(n_samples - 1, side.shape[1]), np.sum(s**2), np.sqrt(np.sum(s**4))))
    return Bunch(X=X, Y=Y, chance=_chance(n_samples, *sides))


def load_digits_split(*, test_size: float | int = 0.3, random_state: Any = 0) -> Bunch:
    """Load scikit-learn's handwritten digits, scaled to [0, 1] and split by class.

    1797 images of 8 x 8 pixels come with scikit-learn, so that nothing is downloaded: enough to train two small
    networks in seconds and compare their layers.

    Parameters
    ----------
    test_size : float or int, default=0.3
        Share or number of the images held out.
    random_state : int, RandomState instance or None, default=0
        Determines the split.

    Returns
    -------
    Bunch
        ``X_train`` and ``X_test`` of shape (n, 64) with values in [0, 1], ``y_train`` and ``y_test`` of shape (n,) with
        the digits, ``target_names``, and ``DESCR``, the description of the data.

    Examples
    --------
    >>> from sklearn_cka.datasets import load_digits_split
    >>> digits = load_digits_split()
    >>> digits.X_train.shape, digits.X_test.shape
    ((1257, 64), (540, 64))
    """
    digits = load_digits()
    X_train, X_test, y_train, y_test = train_test_split(
        digits.data / _GREATEST_PIXEL,
        digits.target,
        test_size=test_size,
        random_state=random_state,
        stratify=digits.target,
    )
    return Bunch(
        X_train=X_train,
        X_test=X_test,
        y_train=y_train,
        y_test=y_test,
        target_names=digits.target_names,
        DESCR=digits.DESCR,
    )


def _vector(values: Any, name: str) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be a list of finite numbers, got {values!r}.")
    return vector


def _spectrum(values: Any, name: str) -> np.ndarray:
    spectrum = _vector(values, name)
    if len(spectrum) == 0 or (spectrum <= 0).any():
        raise ValueError(f"{name} must hold at least one singular value, all of them positive, got {values!r}.")
    return spectrum


def _check_count(value: Any, name: str, least: int, why: str = "") -> None:
    check_scalar(value, name, numbers.Integral)
    if value < least:
        raise ValueError(f"{name} must be at least {least}{f' for {why}' if why else ''}, got {value}.")


def _centred_basis(n_samples: int, n_directions: int, rng: np.random.RandomState) -> np.ndarray:
    """Return orthonormal columns of mean zero."""
    noise = rng.normal(size=(n_samples, n_directions))
    basis = np.linalg.qr(noise - noise.mean(0))[0]
    # QR leaves means of the order of rounding; a second pass leaves as little as the format can.
    return np.linalg.qr(basis - basis.mean(0))[0]


def _in_columns(directions: np.ndarray, n_features: int | None, name: str, rng: np.random.RandomState) -> np.ndarray:
    rank = directions.shape[1]
    if n_features is None:
        return directions
    _check_count(n_features, name, rank, f"{rank} singular values")
    rotation = np.linalg.qr(rng.normal(size=(n_features, rank)))[0]
    return directions @ rotation.T


def _chance(n_samples: int, x: tuple[int, float, float], y: tuple[int, float, float]) -> dict[str, float]:
    """Return expected values under permutation from the rank, the squared norm and the Gram norm of each side."""
    rank_x, size_x, gram_x = x
    rank_y, size_y, gram_y = y
    return {
        "linear_cka": float(size_x * size_y / ((n_samples - 1) * gram_x * gram_y)),
        "mean_squared_cca": max(rank_x, rank_y) / (n_samples - 1),
        "regression_x_from_y": rank_y / (n_samples - 1),
        "regression_y_from_x": rank_x / (n_samples - 1),
    }
