"""Checks of the arguments that the functions of this package share."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def check_confidence_level(confidence_level: Any) -> float:
    """Return the level; ValueError unless it is between 0 and 1."""
    if not isinstance(confidence_level, numbers.Real) or not 0.0 < float(confidence_level) < 1.0:
        raise ValueError(f"confidence_level must lie between 0 and 1, got {confidence_level!r}.")
    return float(confidence_level)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number; ValueError unless it is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_codes(name: str, labels: Any, n_samples: int, *, least: int = 1) -> np.ndarray | None:
    """Return labels of any kind as codes 0, 1, ... of shape (n_samples,); None for None.

    Raises
    ------
    ValueError
        If the shape does not fit or there are fewer than `least` different labels.
    """
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape != (n_samples,):
        raise ValueError(f"{name} has shape {labels.shape}, expected ({n_samples},): one label for every row.")
    codes = np.unique(labels, return_inverse=True)[1]
    if codes.max() + 1 < least:
        raise ValueError(f"{name} names {codes.max() + 1} group(s); at least {least} are needed.")
    return codes


def check_strata(strata: np.ndarray | None, groups: np.ndarray | None) -> None:
    """Raise ValueError if the rows of one group lie in several strata."""
    if strata is None or groups is None:
        return
    pairs = np.unique(np.stack([groups, strata]), axis=1).shape[1]
    if pairs > groups.max() + 1:
        raise ValueError("stratify parts rows of the same group; every group must lie in one stratum.")


def check_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator made of a seed, a RandomState, a generator or None."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and not isinstance(random_state, numbers.Integral):
        raise ValueError(
            f"random_state must be None, a whole number, a RandomState or a Generator, got {random_state!r}."
        )
    return np.random.default_rng(None if random_state is None else int(random_state))
