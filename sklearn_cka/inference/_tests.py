"""Tests of one similarity against chance, and of the difference between two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_cka import _permutation, _resampling
from sklearn_cka._arrays import Array
from sklearn_cka._validation import check_option, check_same_count
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._closed_forms import is_linear_in_products
from sklearn_cka.indexes._gram import GramEmbedding, permutation_z
from sklearn_cka.indexes._gram import permutation_moments as two_moments
from sklearn_cka.inference._checks import (
    check_codes,
    check_confidence_level,
    check_count,
    check_generator,
    check_strata,
)
from sklearn_cka.inference._intervals import defined_only, student_interval
from sklearn_cka.inference._pairs import GramPair, Pair, make_pair
from sklearn_cka.inference._results import DifferenceResult, PermutationTestResult

__all__ = ["compare_similarities", "permutation_test"]

_METHODS = ("resampled", "pearson3", "normal")
_ALTERNATIVES = ("greater", "less", "two-sided")


def permutation_test(
    index: str | BaseIndex,
    X: Array,
    y: Array,
    *,
    method: str = "resampled",
    n_resamples: int = 999,
    alternative: str = "greater",
    groups: Any = None,
    stratify: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **params: Any,
) -> PermutationTestResult:
    """Test whether two representations are more similar than their rows in random order would be.

    Nothing is embedded again: Gram matrices, features and bases are permuted. For CKA and HSIC the moments over all n!
    permutations have closed forms, which make the test exact to their order without any resampling.

    Parameters
    ----------
    index : str or BaseIndex
        A name of :func:`~sklearn_cka.index_names` or an index.
    X : array-like of shape (n_samples, n_features)
        First representation.
    y : array-like of shape (n_samples, n_targets) or (n_samples,)
        Second representation of the same rows.
    method : {"resampled", "pearson3", "normal"}, default="resampled"
        Random permutations, or a distribution with the exact mean and variance (normal) and skewness (Pearson type III;
        it takes the time of a product of n x n matrices). Closed forms are for CKA, HSIC and distance correlation
        (squared or debiased), without `groups` and `stratify`.
    n_resamples : int, default=999
        Number of random permutations.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which similarities are as extreme as the one found.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together: whole groups change places, those of the same number of rows.
    stratify : array-like of shape (n_samples,), default=None
        Labels of strata, within which rows or groups are permuted.
    random_state : int, RandomState, Generator or None, default=None
        Source of the permutations.
    n_jobs : int, default=None
        Threads that permute.
    **params
        Parameters of the index.

    Returns
    -------
    result : PermutationTestResult
        With `statistic`, `pvalue`, `null_mean`, `null_standard_deviation`, `null_skewness`, `z_score` and
        `null_distribution`. A resampled p-value counts the order found among the permutations, so that it is at least
        ``1 / (n_resamples + 1)``.

    Raises
    ------
    ValueError
        If the data break the input contract, an argument is not valid, the index has no closed form, or no two groups
        can change places.

    References
    ----------
    Kazi-Aoual, Hitier, Sabatier & Lebreton (1995), Computational Statistics & Data Analysis 20.
    Josse, Pagès & Husson (2008), "Testing the significance of the RV coefficient", the same journal 53.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import permutation_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 5))
    >>> y = X[:, :2] + 2 * rng.standard_normal((50, 2))
    >>> round(permutation_test("cka", X, y, method="pearson3").pvalue, 5)
    0.0
    >>> permutation_test("cka", X, y, random_state=0).pvalue
    0.001
    """
    check_option("method", method, _METHODS)
    check_option("alternative", alternative, _ALTERNATIVES)
    pair = make_pair(index, X, y, params)
    n = pair.n_samples
    codes = check_codes("groups", groups, n)
    strata = check_codes("stratify", stratify, n)
    check_strata(strata, codes)
    if method != "resampled":
        if codes is not None or strata is not None:
            raise ValueError(f"method={method!r} is for all permutations; use 'resampled' with groups or stratify.")
        return _closed_form_test(pair, method, alternative)
    n_resamples = check_count("n_resamples", n_resamples)
    orders = random_orders(n, n_resamples, check_generator(random_state), codes, strata)
    return summarize_null(pair.statistic, defined_only(pair.permuted(orders, n_jobs), "permutations"), alternative)


def random_orders(
    n: int, n_resamples: int, rng: np.random.Generator, groups: np.ndarray | None, strata: np.ndarray | None
) -> list[np.ndarray]:
    """Return permutations of n rows, of whole groups and within strata; ValueError if nothing can change places."""
    if all(len(blocks) < 2 for blocks in _resampling.exchangeable_blocks(n, groups, strata)):
        raise ValueError("No two rows or groups can change places: groups must have the same number of rows to do so.")
    return [_resampling.random_order(n, rng, groups=groups, strata=strata) for _ in range(n_resamples)]


def summarize_null(statistic: float, null: np.ndarray, alternative: str) -> PermutationTestResult:
    """Return the test result of a resampled null distribution."""
    from scipy.stats import skew

    if math.isnan(statistic) or null.shape[0] == 0:
        return PermutationTestResult(statistic, math.nan, math.nan, math.nan, math.nan, math.nan, null)
    # Equal values differ by rounding, as that of a permutation that moves only copies of one row.
    tolerance = 1e-12 * max(abs(statistic), float(np.abs(null).max()))
    upper = (1 + np.count_nonzero(null >= statistic - tolerance)) / (null.shape[0] + 1)
    lower = (1 + np.count_nonzero(null <= statistic + tolerance)) / (null.shape[0] + 1)
    pvalue = {"greater": upper, "less": lower, "two-sided": min(1.0, 2 * min(upper, lower))}[alternative]
    mean, deviation = float(null.mean()), float(null.std())
    z = (statistic - mean) / deviation if deviation > 0 else math.nan
    skewness = float(skew(null)) if deviation > 0 else math.nan
    return PermutationTestResult(statistic, float(pvalue), mean, deviation, skewness, z, null)


def _closed_form_test(pair: Pair, method: str, alternative: str) -> PermutationTestResult:
    if not isinstance(pair, GramPair) or not is_linear_in_products(pair.index):
        raise ValueError(
            f"method={method!r} needs moments in closed form, which {pair.index!r} does not have; use 'resampled'."
        )
    if pair.n_samples < 4:
        raise ValueError(f"method={method!r} needs at least 4 rows, got {pair.n_samples}.")
    mean, variance, skewness = pair_moments(pair, pair.a, pair.b, with_skewness=method == "pearson3")
    inner = pair.a.inner(pair.b, pair.form)
    z = permutation_z(inner, mean, variance, pair.a, pair.b)
    if math.isnan(z) or math.isnan(pair.statistic):
        return PermutationTestResult(pair.statistic, math.nan, math.nan, math.nan, math.nan, math.nan)
    # The index is linear in the inner product, so that moments go through it.
    location, above = (float(v) for v in pair._of_inner(np.array([mean, mean + math.sqrt(variance)])))
    return PermutationTestResult(
        pair.statistic, tail_probability(z, skewness, alternative), location, abs(above - location), skewness, z
    )


def pair_moments(pair: Any, a: GramEmbedding, b: GramEmbedding, *, with_skewness: bool) -> tuple[float, float, float]:
    """Return mean, variance and skewness (NaN if not asked for) of the inner product under permutation."""
    if with_skewness:
        return _permutation.permutation_moments(gram_sums(a), gram_sums(b))
    form = pair.form
    return (*two_moments(a.n_samples, a.moments(form), b.moments(form)), math.nan)


def gram_sums(embedding: GramEmbedding) -> _permutation.GramSums:
    """Return the sums of a centred Gram matrix that the moments need, from features where these are narrow."""
    features = embedding.features
    if features is not None and not embedding.debiased and features.shape[1] < embedding.n_samples:
        return _permutation.GramSums.of_features(features)
    return _permutation.GramSums.of_gram(embedding.gram)


def tail_probability(z: Any, skewness: Any, alternative: str) -> Any:
    """Return p-values of standardised values, by Pearson type III or, where the skewness is NaN, by the normal."""
    from scipy.stats import norm, pearson3

    skewness = np.asarray(skewness, dtype=np.float64)
    known = np.where(np.isnan(skewness), 0.0, skewness)
    upper = np.where(np.isnan(skewness), norm.sf(z), pearson3.sf(z, known))
    lower = np.where(np.isnan(skewness), norm.cdf(z), pearson3.cdf(z, known))
    if alternative == "two-sided":
        p = np.minimum(1.0, 2.0 * np.minimum(upper, lower))
    else:
        p = upper if alternative == "greater" else lower
    return float(p) if np.ndim(z) == 0 else p


def compare_similarities(
    index: str | BaseIndex,
    pair: tuple[Array, Array],
    other_pair: tuple[Array, Array],
    *,
    method: str = "jackknife",
    n_resamples: int = 999,
    confidence_level: float = 0.95,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    **params: Any,
) -> DifferenceResult:
    """Compare two similarities over the same rows: is A closer to B than to C, and by how much.

    Both similarities are taken on the same rows left out, or drawn, so that what they share cancels.

    Parameters
    ----------
    index : str or BaseIndex
        A name of :func:`~sklearn_cka.index_names` or an index.
    pair, other_pair : tuple of two array-likes of shape (n_samples, ...)
        The representations compared, as in ``(A, B)`` and ``(A, C)``, or ``(A, B)`` before and after; all of the same
        rows in the same order.
    method : {"jackknife", "bootstrap"}, default="jackknife"
        Interval and p-value by Student's t on the jackknife standard error, or by the quantiles of a bootstrap.
    n_resamples : int, default=999
        Number of bootstrap resamples.
    confidence_level : float, default=0.95
        Level of the interval.
    groups : array-like of shape (n_samples,), default=None
        Labels of rows that belong together; groups are left out or drawn whole.
    random_state : int, RandomState, Generator or None, default=None
        Source of the resamples.
    n_jobs : int, default=None
        Threads for indexes without a closed form.
    **params
        Parameters of the index.

    Returns
    -------
    result : DifferenceResult
        With `statistic` (first similarity minus second), `similarities`, `standard_error`, `pvalue` (two-sided) and
        `confidence_interval`.

    Raises
    ------
    ValueError
        If the pairs have different numbers of rows, or the data break the input contract.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import compare_similarities
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((200, 4))
    >>> B, C = A + 0.5 * rng.standard_normal((200, 4)), A + rng.standard_normal((200, 4))
    >>> result = compare_similarities("cka", (A, B), (A, C), debiased=True)
    >>> round(result.statistic, 2), result.pvalue < 0.001
    (0.33, True)
    """
    check_option("method", method, ("jackknife", "bootstrap"))
    confidence_level = check_confidence_level(confidence_level)
    _check_sides(pair, "pair")
    _check_sides(other_pair, "other_pair")
    first, second = (make_pair(index, *sides, params) for sides in (pair, other_pair))
    check_same_count(first.n_samples, second.n_samples, "pair", "other_pair")
    n = first.n_samples
    codes = check_codes("groups", groups, n, least=2)
    difference = first.statistic - second.statistic
    both = (first.statistic, second.statistic)
    if method == "jackknife":
        left_out = first.leave_out(codes, n_jobs) - second.leave_out(codes, n_jobs)
        error = float(_resampling.standard_error(left_out))
        pvalue = student_pvalue(difference, error, left_out.shape[0])
        interval = student_interval(difference, error, left_out.shape[0], confidence_level)
        return DifferenceResult(difference, both, error, float(pvalue), interval)
    n_resamples = check_count("n_resamples", n_resamples, 2)
    rng = check_generator(random_state)
    parts = []
    for start in range(0, n_resamples, step := min(first.default_batch(), second.default_batch())):
        W = _resampling.resample_counts(n, min(step, n_resamples - start), rng, groups=codes)
        parts.append(first.reweighted(W) - second.reweighted(W))
    distribution = defined_only(np.concatenate(parts), "resamples")
    return _bootstrap_difference(difference, both, distribution, confidence_level)


def _check_sides(sides: Any, name: str) -> None:
    if not isinstance(sides, (tuple, list)) or len(sides) != 2:
        raise ValueError(f"{name} must be two representations (X, y), got {type(sides).__name__}.")


def student_pvalue(difference: Any, error: Any, n: int) -> Any:
    """Return two-sided p-values of differences by Student's t; 1 for no difference without an error."""
    from scipy.stats import t

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(difference) / np.asarray(error)
    return np.where(np.asarray(difference) == 0.0, 1.0, 2.0 * t.sf(ratio, n - 1))


def _bootstrap_difference(
    difference: float, both: tuple[float, float], distribution: np.ndarray, confidence_level: float
) -> DifferenceResult:
    from sklearn_cka.inference._intervals import quantile_interval

    interval = quantile_interval(difference, distribution, None, "percentile", confidence_level)
    m = distribution.shape[0]
    tails = np.count_nonzero(distribution <= 0.0), np.count_nonzero(distribution >= 0.0)
    pvalue = min(1.0, 2.0 * (1 + min(tails)) / (m + 1))
    return DifferenceResult(difference, both, float(np.std(distribution, ddof=1)), pvalue, interval)
