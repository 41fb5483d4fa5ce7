"""One change at a time to a representation, from none to much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_cka import datasets

N_SAMPLES, N_DIRECTIONS = 200, 20
# The spectra of trained networks fall about like this; entries are of the order of 1.
SPECTRUM = np.sqrt(N_SAMPLES) / np.arange(1, N_DIRECTIONS + 1)


@dataclass(frozen=True)
class Change:
    """A change, the amounts of it, and how a pair of a given amount is made."""

    title: str
    amount_label: str
    amounts: tuple[float, ...]
    make: Callable[[float, int], tuple[np.ndarray, np.ndarray]]
    is_logarithmic: bool = False


def _mixed(pair, seed):
    """Turn the directions of both into units by one rotation, so that no unit is a principal direction."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((N_DIRECTIONS, N_DIRECTIONS)))[0]
    return pair.X @ turn[: pair.X.shape[1]], pair.Y @ turn[: pair.Y.shape[1]]


def rotation(amount, seed):
    """Turn units within random pairs by an angle, twice over with other pairs."""
    X, _ = _mixed(datasets.make_noisy_pair(N_SAMPLES, noise=0.0, spectrum=SPECTRUM, random_state=seed), seed)
    Y, rng, angle = X.copy(), np.random.default_rng(seed + 1), np.deg2rad(amount)
    for _ in range(2):
        left, right = rng.permutation(N_DIRECTIONS).reshape(2, -1)
        first, second = Y[:, left], Y[:, right]
        Y[:, left] = np.cos(angle) * first - np.sin(angle) * second
        Y[:, right] = np.sin(angle) * first + np.cos(angle) * second
    return X, Y


def rescaling(amount, seed):
    """Raise the spectrum to 1 - amount: 0 leaves it, 1 makes all directions equal, 2 turns it round."""
    pair = datasets.make_known_pair(
        N_SAMPLES,
        spectrum_x=SPECTRUM,
        spectrum_y=SPECTRUM ** (1 - amount),
        correlations=np.ones(N_DIRECTIONS),
        random_state=seed,
    )
    return _mixed(pair, seed)


def noise(amount, seed):
    return _mixed(datasets.make_noisy_pair(N_SAMPLES, noise=amount, spectrum=SPECTRUM, random_state=seed), seed)


def shared_subspace(amount, seed):
    """Share all but the last `amount` directions."""
    n_shared = N_DIRECTIONS - int(amount)
    return _mixed(datasets.make_shared_pair(N_SAMPLES, n_shared=n_shared, spectrum=SPECTRUM, random_state=seed), seed)


def dropped(amount, seed, drop):
    pair = datasets.make_reduced_pair(N_SAMPLES, n_dropped=int(amount), drop=drop, spectrum=SPECTRUM, random_state=seed)
    return _mixed(pair, seed)


def translation(amount, seed):
    pair = datasets.make_translated_pair(
        N_SAMPLES, n_moved=N_SAMPLES // 10, distance=amount, spectrum=SPECTRUM, random_state=seed
    )
    return _mixed(pair, seed)


def outliers(amount, seed):
    pair = datasets.make_outlier_pair(N_SAMPLES, n_outliers=2, distance=amount, spectrum=SPECTRUM, random_state=seed)
    return _mixed(pair, seed)


def width(amount, seed):
    pair = datasets.make_independent_pair(N_SAMPLES, int(amount * N_SAMPLES), random_state=seed)
    return pair.X, pair.Y


CHANGES = {
    "rotation": Change("units mixed with each other", "angle, degrees", (0, 5, 10, 20, 30, 45), rotation),
    "rescaling": Change("directions rescaled", "change of the exponent", (0, 0.25, 0.5, 1, 1.5, 2), rescaling),
    "noise": Change("noise added", "noise over signal", (0, 0.25, 0.5, 1, 2, 4), noise),
    "subspace": Change(
        "only the leading directions shared", "not shared, of 20", (0, 4, 8, 12, 16, 20), shared_subspace
    ),
    "smallest dropped": Change(
        "smallest directions dropped",
        "dropped, of 20",
        (0, 4, 8, 12, 16, 19),
        lambda amount, seed: dropped(amount, seed, "smallest"),
    ),
    "largest dropped": Change(
        "largest directions dropped",
        "dropped, of 20",
        (0, 1, 2, 4, 8, 16),
        lambda amount, seed: dropped(amount, seed, "largest"),
    ),
    "translation": Change("a tenth of the rows moved", "distance", (0, 1, 2, 4, 8, 16), translation),
    "outliers": Change("nothing shared but two outliers", "distance", (0, 2, 4, 8, 16, 32), outliers),
    "width": Change(
        "nothing shared, ever more units", "units per row", (0.05, 0.1, 0.25, 0.5, 1, 2), width, is_logarithmic=True
    ),
}
