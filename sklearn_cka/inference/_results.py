"""What the functions of this package return: frozen dataclasses, as those of :mod:`scipy.stats`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = [
    "BootstrapResult",
    "ConfidenceInterval",
    "DifferenceResult",
    "JackknifeResult",
    "NoiseCeilingResult",
    "PermutationTestResult",
]


class ConfidenceInterval(NamedTuple):
    """Lower and upper limit of an interval."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class JackknifeResult:
    """Jackknife of a similarity.

    Attributes
    ----------
    statistic : float
        The similarity of all rows.
    standard_error : float
        Its jackknife standard error.
    bias : float
        Jackknife estimate of its bias.
    confidence_interval : ConfidenceInterval
        Interval by Student's t.
    leave_one_out : ndarray of shape (n_samples,) or (n_groups,)
        The similarity without each row, or without each group.
    """

    statistic: float
    standard_error: float
    bias: float
    confidence_interval: ConfidenceInterval
    leave_one_out: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class BootstrapResult:
    """Bootstrap of a similarity.

    Attributes
    ----------
    statistic : float
        The similarity of all rows.
    standard_error : float
        Standard deviation of the bootstrap distribution.
    confidence_interval : ConfidenceInterval
        Interval by the method asked for.
    bootstrap_distribution : ndarray of shape (n_resamples,)
        The similarity of every resample, those left out that were undefined.
    """

    statistic: float
    standard_error: float
    confidence_interval: ConfidenceInterval
    bootstrap_distribution: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False)
class PermutationTestResult:
    """Test of a similarity against what the same two representations give without correspondence of their rows.

    Attributes
    ----------
    statistic : float
        The similarity.
    pvalue : float
        Probability of a similarity as extreme, were the rows of one side in random order.
    null_mean, null_standard_deviation, null_skewness : float
        Moments of the similarity under permutation; exact where the method has closed forms, those of the resampled
        values otherwise. The normal method does not need the skewness and leaves it NaN.
    z_score : float
        Standard deviations above the mean.
    null_distribution : ndarray of shape (n_resamples,) or None
        The resampled values; None for closed forms.
    """

    statistic: float
    pvalue: float
    null_mean: float
    null_standard_deviation: float
    null_skewness: float
    z_score: float
    null_distribution: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class DifferenceResult:
    """Difference of two similarities over the same rows.

    Attributes
    ----------
    statistic : float
        The first similarity minus the second.
    similarities : tuple of float
        Both.
    standard_error : float
        Standard error of the difference, the two being paired by row.
    pvalue : float
        Two-sided, of no difference.
    confidence_interval : ConfidenceInterval
        Interval of the difference.
    """

    statistic: float
    similarities: tuple[float, float]
    standard_error: float
    pvalue: float
    confidence_interval: ConfidenceInterval


@dataclass(frozen=True, eq=False)
class NoiseCeilingResult:
    """How similar the best possible model could be to a representation that was measured several times.

    Attributes
    ----------
    lower, upper : float
        Mean similarity of every measurement with the mean of the others, and with the mean of all.
    lower_values, upper_values : ndarray of shape (n_repeats,)
        The similarities averaged.
    """

    lower: float
    upper: float
    lower_values: np.ndarray = field(repr=False)
    upper_values: np.ndarray = field(repr=False)
