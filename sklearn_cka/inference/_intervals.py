"""Standard errors and confidence intervals of one similarity: jackknife and bootstrap over examples.

References: Efron & Tibshirani (1993), "An introduction to the bootstrap", chapters 11 and 14; Efron (1987), "Better
bootstrap confidence intervals", Journal of the American Statistical Association 82.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_cka import _resampling
from sklearn_cka._arrays import Array
from sklearn_cka._validation import check_option
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.inference._checks import (
    check_codes,
    check_confidence_level,
    check_count,
    check_generator,
    check_strata,
)
from sklearn_cka.inference._pairs import make_pair
from sklearn_cka.inference._results import BootstrapResult, ConfidenceInterval, JackknifeResult

__all__ = ["bootstrap", "jackknife"]

_METHODS = ("percentile", "basic", "bca")


def jackknife(
    index: str | BaseIndex,
    X: Array,
    y: Array,
    *,
    groups: Any = None,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
    **params: Any,
) -> JackknifeResult:
    """Estimate the standard error of a similarity by leaving out every row once.

    For CKA, HSIC and distance correlation all n values come in closed form from one pass over the Gram matrices, or
    from features without these; any other index is computed n times.

    Parameters
    ----------
    index : str or BaseIndex
        A name of :func:`~sklearn_cka.index_names` or an index.
    X : array-like of shape (n_samples, n_features)
        First representation.
    y : array-like of shape (n_samples, n_targets) or (n_samples,)
        Second representation of the same rows.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together, such as those of one sentence or one subject: groups are left out whole.
    confidence_level : float, default=0.95
        Level of the interval.
    n_jobs : int, default=None
        Threads for indexes without the closed form.
    **params
        Parameters of the index.

    Returns
    -------
    result : JackknifeResult
        With `statistic`, `standard_error`, `bias`, `confidence_interval` (by Student's t with n - 1 degrees of freedom)
        and `leave_one_out`.

    Raises
    ------
    ValueError
        If the data break the input contract, or too few rows are left without one row or group.

    Notes
    -----
    Kernel bandwidths stay those of all rows, where computing the index n times would learn each anew.

    The interval is meant for indexes that are smooth functions of means over rows and not at the border of their range:
    it is right for debiased CKA of representations that share something. Under independence the spread of debiased
    estimates is that of a degenerate statistic, and the interval is too wide; a biased estimate is off by its chance
    level, which no interval around it tells.

    References
    ----------
    Efron & Tibshirani (1993), "An introduction to the bootstrap", chapter 11.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import jackknife
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5))
    >>> y = X + rng.standard_normal((100, 5))
    >>> result = jackknife("cka", X, y, debiased=True)
    >>> round(result.statistic, 3), round(result.standard_error, 3)
    (0.542, 0.033)
    """
    confidence_level = check_confidence_level(confidence_level)
    pair = make_pair(index, X, y, params)
    codes = check_codes("groups", groups, pair.n_samples, least=2)
    left_out = pair.leave_out(codes, n_jobs)
    error = float(_resampling.standard_error(left_out))
    bias = (left_out.shape[0] - 1.0) * (float(left_out.mean()) - pair.statistic)
    interval = student_interval(pair.statistic, error, left_out.shape[0], confidence_level)
    return JackknifeResult(pair.statistic, error, bias, interval, left_out)


def student_interval(value: float, error: float, n: int, confidence_level: float) -> ConfidenceInterval:
    """Return ``value -/+ t * error`` with n - 1 degrees of freedom."""
    from scipy.stats import t

    reach = float(t.ppf((1.0 + confidence_level) / 2.0, n - 1)) * error
    return ConfidenceInterval(value - reach, value + reach)


def bootstrap(
    index: str | BaseIndex,
    X: Array,
    y: Array,
    *,
    n_resamples: int = 999,
    method: str = "bca",
    confidence_level: float = 0.95,
    groups: Any = None,
    stratify: Any = None,
    batch: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **params: Any,
) -> BootstrapResult:
    """Estimate the distribution of a similarity over samples of rows by drawing from the rows given.

    For CKA, HSIC and distance correlation all resamples of a batch come from a few matrix products on the Gram matrices
    of the rows, and pairs of copies of one row are left out: such a pair is similar in both representations whatever
    they are. Any other index is computed on the rows drawn, copies among them.

    Parameters
    ----------
    index : str or BaseIndex
        A name of :func:`~sklearn_cka.index_names` or an index.
    X : array-like of shape (n_samples, n_features)
        First representation.
    y : array-like of shape (n_samples, n_targets) or (n_samples,)
        Second representation of the same rows.
    n_resamples : int, default=999
        Number of resamples.
    method : {"bca", "percentile", "basic"}, default="bca"
        How the interval follows from the distribution: bias-corrected and accelerated (the acceleration by
        :func:`jackknife`), its quantiles, or these reflected at the statistic.
    confidence_level : float, default=0.95
        Level of the interval.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together; groups are drawn whole.
    stratify : array-like of shape (n_samples,), default=None
        Labels of strata; each keeps its number of rows, or of groups.
    batch : int, default=None
        Resamples computed at a time; None fills scikit-learn's ``working_memory``.
    random_state : int, RandomState, Generator or None, default=None
        Source of the resamples.
    n_jobs : int, default=None
        Threads for the acceleration of indexes without a closed form.
    **params
        Parameters of the index.

    Returns
    -------
    result : BootstrapResult
        With `statistic`, `standard_error`, `confidence_interval` and `bootstrap_distribution`.

    Raises
    ------
    ValueError
        If the data break the input contract or an argument is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If the similarity of some resamples is undefined; they are left out.

    Notes
    -----
    With `groups`, pairs of two copies of the same group count, but no pair of copies of the same row.

    References
    ----------
    Efron (1987), "Better bootstrap confidence intervals", Journal of the American Statistical Association 82.
    Arcones & Giné (1992), "On the bootstrap of U and V statistics", Annals of Statistics 20.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5))
    >>> y = X + rng.standard_normal((100, 5))
    >>> result = bootstrap("cka", X, y, debiased=True, random_state=0)
    >>> [round(limit, 2) for limit in result.confidence_interval]
    [0.47, 0.61]
    """
    confidence_level = check_confidence_level(confidence_level)
    check_option("method", method, _METHODS)
    n_resamples = check_count("n_resamples", n_resamples)
    rng = check_generator(random_state)
    pair = make_pair(index, X, y, params)
    n = pair.n_samples
    codes = check_codes("groups", groups, n, least=2)
    strata = check_codes("stratify", stratify, n)
    check_strata(strata, codes)
    step = pair.default_batch() if batch is None else check_count("batch", batch)
    parts = []
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        parts.append(pair.reweighted(_resampling.resample_counts(n, size, rng, groups=codes, strata=strata)))
    distribution = defined_only(np.concatenate(parts), "resamples")
    left_out = pair.leave_out(codes, n_jobs) if method == "bca" else None
    interval = quantile_interval(pair.statistic, distribution, left_out, method, confidence_level)
    error = float(np.std(distribution, ddof=1)) if distribution.shape[0] > 1 else math.nan
    return BootstrapResult(pair.statistic, error, interval, distribution)


def defined_only(values: np.ndarray, what: str) -> np.ndarray:
    """Return the values that are not NaN, and warn if there are others."""
    defined = ~np.isnan(values)
    if not defined.all():
        missing = int(values.shape[0] - np.count_nonzero(defined))
        warn(UndefinedSimilarityWarning(f"The similarity of {missing} of {values.shape[0]} {what} is undefined (0/0)."))
    return values[defined]


def quantile_interval(
    statistic: float,
    distribution: np.ndarray,
    leave_one_out: np.ndarray | None,
    method: str,
    confidence_level: float,
) -> ConfidenceInterval:
    """Return the bootstrap interval of a statistic; NaN where there is none."""
    if distribution.shape[0] == 0 or math.isnan(statistic):
        return ConfidenceInterval(math.nan, math.nan)
    levels = (1.0 - confidence_level) / 2.0, (1.0 + confidence_level) / 2.0
    if method == "bca" and leave_one_out is not None:
        levels = _resampling.bca_levels(statistic, distribution, leave_one_out, confidence_level)
    if not all(0.0 <= level <= 1.0 for level in levels):
        return ConfidenceInterval(math.nan, math.nan)
    low, high = (float(limit) for limit in np.quantile(distribution, levels))
    return (
        ConfidenceInterval(2 * statistic - high, 2 * statistic - low)
        if method == "basic"
        else ConfidenceInterval(low, high)
    )
