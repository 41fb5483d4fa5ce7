"""Pairs of representations whose similarity is known, and a small real data set."""

from sklearn_cka.datasets._known_pairs import (
    load_digits_split,
    make_independent_pair,
    make_known_pair,
    make_rotated_pair,
)
from sklearn_cka.datasets._planted_pairs import (
    make_noisy_pair,
    make_outlier_pair,
    make_reduced_pair,
    make_shared_pair,
    make_translated_pair,
)

__all__ = [
    "load_digits_split",
    "make_independent_pair",
    "make_known_pair",
    "make_noisy_pair",
    "make_outlier_pair",
    "make_reduced_pair",
    "make_rotated_pair",
    "make_shared_pair",
    "make_translated_pair",
]
