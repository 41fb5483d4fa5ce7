"""Pairs of representations with one planted difference: noise, lost directions, moved rows, outliers.

Each makes a representation and alters one thing by a given amount, exactly in the sample, so that the value of the
linear indexes follows from the amount by arithmetic. Swept over the amount, they show what an index sees and what it
is blind to.

References
----------
F. Ding, J.-S. Denain, J. Steinhardt, "Grounding representation similarity with statistical testing", NeurIPS 2021
(lost directions).

M. Davari, S. Horoi, A. Natik, G. Lajoie, G. Wolf, E. Belilovsky, "Reliability of CKA as a similarity measure in deep
learning", ICLR 2023 (moved rows and outliers).
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_scalar

from sklearn_cka.datasets._known_pairs import _check_count, _spectrum, make_known_pair

_DEFAULT_SPECTRUM = tuple(1 / k for k in range(1, 11))


def make_shared_pair(
    n_samples: int = 200,
    *,
    n_shared: int = 5,
    spectrum: Any = _DEFAULT_SPECTRUM,
    n_features: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Make two representations of one spectrum that share some of their directions and no other.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows, at least ``2 r - n_shared + 1``.
    n_shared : int, default=5
        Number of directions shared, those of the first singular values given; 0 to r.
    spectrum : array-like of shape (r,), default=(1, 1/2, ..., 1/10)
        Positive singular values of both.
    n_features : int, default=None
        Number of columns, into which the directions are rotated at random; None is one column per direction.
    random_state : int, RandomState instance or None, default=None
        Determines the directions.

    Returns
    -------
    Bunch
        ``X`` and ``Y`` of shape (n_samples, n_features), with ``known`` and ``chance`` as of
        :func:`make_known_pair`.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_shared_pair
    >>> pair = make_shared_pair(50, n_shared=1, spectrum=[2, 1, 1, 1])
    >>> round(pair.known["linear_cka"], 3), round(pair.known["mean_squared_cca"], 3)
    (0.842, 0.25)
    """
    s = _spectrum(spectrum, "spectrum")
    _check_range(n_shared, "n_shared", 0, len(s))
    return make_known_pair(
        n_samples,
        spectrum_x=s,
        spectrum_y=s,
        correlations=np.ones(n_shared),
        n_features_x=n_features,
        n_features_y=n_features,
        random_state=random_state,
    )


def make_noisy_pair(
    n_samples: int = 200,
    *,
    noise: float = 1.0,
    spectrum: Any = _DEFAULT_SPECTRUM,
    n_features: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Make a representation and a copy with noise in every direction.

    The noise is uncorrelated with the representation in the sample, not only on average.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows, at least ``2 r + 1``.
    noise : float, default=1.0
        Size of the noise, of which every direction has as much, relative to the representation: the square root of
        the ratio of total variances; 0 or more.
    spectrum : array-like of shape (r,), default=(1, 1/2, ..., 1/10)
        Positive singular values of X.
    n_features : int, default=None
        Number of columns, into which the directions are rotated at random; None is one column per direction.
    random_state : int, RandomState instance or None, default=None
        Determines the directions.

    Returns
    -------
    Bunch
        ``X`` and ``Y`` of shape (n_samples, n_features), with ``known`` and ``chance`` as of
        :func:`make_known_pair`.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_noisy_pair
    >>> pair = make_noisy_pair(50, noise=1.0, spectrum=[1, 1])
    >>> round(pair.known["linear_cka"], 6), round(pair.known["mean_squared_cca"], 6)
    (0.5, 0.5)
    """
    s = _spectrum(spectrum, "spectrum")
    check_scalar(noise, "noise", numbers.Real, min_val=0)
    noisy = np.sqrt(s**2 + noise**2 * np.mean(s**2))
    return make_known_pair(
        n_samples,
        spectrum_x=s,
        spectrum_y=noisy,
        correlations=s / noisy,
        n_features_x=n_features,
        n_features_y=n_features,
        random_state=random_state,
    )


def make_reduced_pair(
    n_samples: int = 200,
    *,
    n_dropped: int = 5,
    drop: str = "smallest",
    spectrum: Any = _DEFAULT_SPECTRUM,
    n_features: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Make a representation and what is left of it without some of its directions.

    With the default of one column per direction these are units that are dropped; with `n_features` principal
    components.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows, at least r + 1.
    n_dropped : int, default=5
        Number of directions that Y lacks, 0 to r - 1.
    drop : {"smallest", "largest"}, default="smallest"
        Which ones go: those of the smallest or of the largest singular values.
    spectrum : array-like of shape (r,), default=(1, 1/2, ..., 1/10)
        Positive singular values of X.
    n_features : int, default=None
        Number of columns of both, into which the directions are rotated at random; None is one column per direction.
    random_state : int, RandomState instance or None, default=None
        Determines the directions.

    Returns
    -------
    Bunch
        ``X`` of shape (n_samples, r) and ``Y`` of shape (n_samples, r - n_dropped), or both of shape
        (n_samples, n_features), with ``known`` and ``chance`` as of :func:`make_known_pair`.

    Raises
    ------
    ValueError
        If a number is out of its range or `drop` is unknown.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_reduced_pair
    >>> for drop in ("smallest", "largest"):
    ...     pair = make_reduced_pair(50, n_dropped=2, drop=drop, spectrum=[4, 2, 1, 1])
    ...     print(round(pair.known["linear_cka"], 3), pair.known["regression_y_from_x"])
    0.996 1.0
    0.086 1.0
    """
    s = np.sort(_spectrum(spectrum, "spectrum"))
    _check_range(n_dropped, "n_dropped", 0, len(s) - 1)
    if drop not in ("smallest", "largest"):
        raise ValueError(f"drop must be 'smallest' or 'largest', got {drop!r}.")
    kept_first = s[::-1] if drop == "smallest" else s
    n_kept = len(s) - n_dropped
    return make_known_pair(
        n_samples,
        spectrum_x=kept_first,
        spectrum_y=kept_first[:n_kept],
        correlations=np.ones(n_kept),
        n_features_x=n_features,
        n_features_y=n_features,
        random_state=random_state,
    )


def make_translated_pair(
    n_samples: int = 200,
    *,
    n_moved: int = 50,
    distance: float = 1.0,
    spectrum: Any = _DEFAULT_SPECTRUM,
    random_state: Any = None,
) -> Bunch:
    """Make a representation and a copy in which some of the rows are moved, all by one vector.

    A linear classifier that told the rows apart before can still do so after; nothing within either group has
    changed. The moved rows are chosen at random, and the representation is such that their mean is that of all.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows, at least r + 2.
    n_moved : int, default=50
        Number of rows moved, 2 to n_samples - 2.
    distance : float, default=1.0
        How far, in a random direction, in units of the root mean square distance of a row from the mean; 0 or more.
    spectrum : array-like of shape (r,), default=(1, 1/2, ..., 1/10)
        Positive singular values of X.
    random_state : int, RandomState instance or None, default=None
        Determines the directions and the rows.

    Returns
    -------
    Bunch
        ``X`` and ``Y`` of shape (n_samples, r), ``moved``, a mask of shape (n_samples,), and ``known``, a dict of
        ``linear_cka``, ``procrustes``, ``canonical_correlations`` and ``mean_squared_cca``.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_translated_pair
    >>> for distance in (0, 1, 10):
    ...     pair = make_translated_pair(100, n_moved=20, distance=distance, random_state=0)
    ...     print(round(pair.known["linear_cka"], 3), round(pair.known["mean_squared_cca"], 3))
    1.0 1.0
    0.948 0.911
    0.042 0.9
    """
    s = _spectrum(spectrum, "spectrum")
    _check_count(n_samples, "n_samples", len(s) + 2, f"{len(s)} directions and the moved rows")
    _check_range(n_moved, "n_moved", 2, n_samples - 2)
    check_scalar(distance, "distance", numbers.Real, min_val=0)
    rng = check_random_state(random_state)
    moved = np.zeros(n_samples, dtype=bool)
    moved[rng.permutation(n_samples)[:n_moved]] = True
    X = _centred_basis_beside(moved, len(s), rng) * s
    step = _direction(len(s), rng)
    length = distance * np.sqrt(np.sum(s**2) / n_samples)
    # Squared norm of the centred move, which is all that is added to the covariance.
    added = length**2 * n_moved * (1 - n_moved / n_samples)
    gram = np.sum(s**4)
    last = 1 / (1 + added * np.sum((step / s) ** 2))
    rho = np.append(np.ones(len(s) - 1), np.sqrt(last))
    known = {
        "linear_cka": float(np.sqrt(gram / (gram + 2 * added * np.sum((s * step) ** 2) + added**2))),
        "procrustes": float(np.sqrt(np.sum(s**2) / (np.sum(s**2) + added))),
        "canonical_correlations": rho,
        "mean_squared_cca": float(np.mean(rho**2)),
    }
    return Bunch(X=X, Y=X + length * np.outer(moved, step), moved=moved, known=known)


def make_outlier_pair(
    n_samples: int = 200,
    *,
    n_outliers: int = 2,
    distance: float = 10.0,
    spectrum: Any = _DEFAULT_SPECTRUM,
    random_state: Any = None,
) -> Bunch:
    """Make two representations that have nothing in common but that the same few rows lie far away in both.

    Parameters
    ----------
    n_samples : int, default=200
        Number of rows, at least 2 r + 2.
    n_outliers : int, default=2
        Number of rows moved away, each in X by one vector and in Y by another; 2 to n_samples - 2.
    distance : float, default=10.0
        How far, in random directions, in units of the root mean square distance of a row from the mean; 0 or more.
    spectrum : array-like of shape (r,), default=(1, 1/2, ..., 1/10)
        Positive singular values of both before the rows are moved.
    random_state : int, RandomState instance or None, default=None
        Determines the directions and the rows.

    Returns
    -------
    Bunch
        ``X`` and ``Y`` of shape (n_samples, r), ``moved``, a mask of shape (n_samples,), and ``known``, a dict of
        ``linear_cka``, ``procrustes``, ``canonical_correlations`` and ``mean_squared_cca``.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from sklearn_cka.datasets import make_outlier_pair
    >>> for distance in (0, 10, 100):
    ...     pair = make_outlier_pair(100, n_outliers=2, distance=distance, random_state=0)
    ...     print(round(pair.known["linear_cka"], 3), round(pair.known["mean_squared_cca"], 3))
    0.0 0.0
    0.818 0.098
    0.999 0.1
    """
    s = _spectrum(spectrum, "spectrum")
    r = len(s)
    _check_count(n_samples, "n_samples", 2 * r + 2, f"twice {r} directions and the outliers")
    _check_range(n_outliers, "n_outliers", 2, n_samples - 2)
    check_scalar(distance, "distance", numbers.Real, min_val=0)
    rng = check_random_state(random_state)
    moved = np.zeros(n_samples, dtype=bool)
    moved[rng.permutation(n_samples)[:n_outliers]] = True
    basis = _centred_basis_beside(moved, 2 * r, rng)
    steps = [_direction(r, rng) for _ in range(2)]
    length = distance * np.sqrt(np.sum(s**2) / n_samples)
    added = length**2 * n_outliers * (1 - n_outliers / n_samples)
    # Of X' Y only the moves are left: added * outer(step_x, step_y).
    grams = [np.sum(s**4) + 2 * added * np.sum((s * step) ** 2) + added**2 for step in steps]
    shares = [added * t / (1 + added * t) for t in (np.sum((step / s) ** 2) for step in steps)]
    rho = np.append(np.sqrt(shares[0] * shares[1]), np.zeros(r - 1))
    known = {
        "linear_cka": float(added**2 / np.sqrt(grams[0] * grams[1])),
        "procrustes": float(added / (np.sum(s**2) + added)),
        "canonical_correlations": rho,
        "mean_squared_cca": float(np.mean(rho**2)),
    }
    X, Y = (
        part * s + length * np.outer(moved, step)
        for part, step in zip((basis[:, :r], basis[:, r:]), steps, strict=True)
    )
    return Bunch(X=X, Y=Y, moved=moved, known=known)


def _check_range(value: Any, name: str, least: int, greatest: int) -> None:
    check_scalar(value, name, numbers.Integral, min_val=least, max_val=greatest)


def _direction(n: int, rng: np.random.RandomState) -> np.ndarray:
    vector = rng.normal(size=n)
    return vector / np.linalg.norm(vector)


def _centred_basis_beside(moved: np.ndarray, n_directions: int, rng: np.random.RandomState) -> np.ndarray:
    """Return orthonormal columns, of mean zero over the marked rows and over the others."""
    basis = np.empty((len(moved), n_directions))
    basis[:] = rng.normal(size=basis.shape)
    for _ in range(2):
        for rows in (moved, ~moved):
            basis[rows] -= basis[rows].mean(axis=0)
        basis = np.linalg.qr(basis)[0]
    return basis
