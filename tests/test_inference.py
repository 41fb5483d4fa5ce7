"""Standard errors, intervals and tests: against computing everything again, and against theory."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sklearn_cka import (
    CKA,
    HSIC,
    UndefinedSimilarityWarning,
    bootstrap,
    cka,
    compare_similarities,
    get_index,
    hsic,
    jackknife,
    permutation_test,
    similarity,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


def pair(n, p=4, q=6, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X @ rng.standard_normal((p, q)) + noise * rng.standard_normal((n, q))


def leave_one_out(function, X, y, groups=None):
    groups = np.arange(len(X)) if groups is None else groups
    return np.array([function(X[groups != g], y[groups != g]) for g in np.unique(groups)])


CLOSED = [
    ("cka", {}),
    ("cka", {"debiased": True}),
    ("cka", {"form": "gram"}),
    ("cka", {"debiased": True, "form": "gram"}),
    ("cka", {"kernel": "rbf", "gamma": 0.1}),
    ("cka", {"kernel": "rbf", "gamma": 0.1, "debiased": True}),
    ("cka", {"kernel": "polynomial", "kernel_y": "rbf", "bandwidth_rule": "none", "debiased": True}),
    ("hsic", {}),
    ("hsic", {"debiased": True}),
    ("hsic", {"form": "gram", "debiased": True}),
    ("distance_correlation", {}),
    ("distance_correlation", {"debiased": True}),
    ("angular_cka", {}),
]


@pytest.mark.parametrize(("name", "params"), CLOSED)
def test_closed_form_equals_leaving_out_each_row(name, params):
    X, y = pair(40)
    result = jackknife(name, X, y, **params)
    expected = leave_one_out(lambda a, b: similarity(a, b, name, **params), X, y)
    np.testing.assert_allclose(result.leave_one_out, expected, rtol=1e-10)
    assert result.statistic == pytest.approx(similarity(X, y, name, **params), rel=1e-12)
    assert result.standard_error == pytest.approx(
        np.sqrt(39 / 40 * np.sum((expected - expected.mean()) ** 2)), rel=1e-9
    )
    assert result.bias == pytest.approx(39 * (expected.mean() - result.statistic), rel=1e-6, abs=1e-12)
    reach = stats.t.ppf(0.975, 39) * result.standard_error
    assert result.confidence_interval == pytest.approx((result.statistic - reach, result.statistic + reach))


@pytest.mark.parametrize(("name", "params"), CLOSED)
def test_groups_are_left_out_whole(name, params):
    X, y = pair(30)
    groups = np.array(list("abcdeabcdeabcdeabcdeaaaaabbbbc"))
    result = jackknife(name, X, y, groups=groups, **params)
    expected = leave_one_out(lambda a, b: similarity(a, b, name, **params), X, y, groups)
    np.testing.assert_allclose(result.leave_one_out, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["kernel_alignment", "cca", "procrustes", "rsa", "mutual_knn"])
def test_any_other_index_is_computed_without_each_row(name):
    X, y = pair(15, 2, 3)
    params = {"n_neighbors": 3} if name == "mutual_knn" else {}
    expected = leave_one_out(lambda a, b: similarity(a, b, name, **params), X, y)
    np.testing.assert_allclose(jackknife(name, X, y, **params).leave_one_out, expected, rtol=1e-9)


def test_precomputed_gram_matrices_lose_rows_and_columns():
    X, y = pair(20)
    expected = jackknife(HSIC(), X, y).leave_one_out
    found = jackknife("hsic", X @ X.T, y @ y.T, kernel="precomputed").leave_one_out
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    aligned = jackknife("kernel_alignment", X @ X.T, y @ y.T, kernel="precomputed").leave_one_out
    np.testing.assert_allclose(aligned, jackknife("kernel_alignment", X, y).leave_one_out, rtol=1e-9)


def test_large_offset_and_single_precision_keep_the_standard_error():
    X, y = pair(60)
    expected = jackknife("cka", X, y, debiased=True).standard_error
    found = jackknife("cka", (X + 100).astype(np.float32), (1e-15 * y).astype(np.float32), debiased=True)
    assert found.standard_error == pytest.approx(expected, rel=1e-3)


def test_jackknife_computes_where_the_data_lie(backend):
    X, y = pair(20)
    result = jackknife("cka", backend.asarray(X), backend.asarray(y), debiased=True)
    assert result.standard_error == pytest.approx(jackknife("cka", X, y, debiased=True).standard_error, rel=1e-9)
    drawn = bootstrap("cka", backend.asarray(X), backend.asarray(y), n_resamples=9, random_state=0)
    expected = bootstrap("cka", X, y, n_resamples=9, random_state=0).bootstrap_distribution
    np.testing.assert_allclose(drawn.bootstrap_distribution, expected, rtol=1e-9)
    for method in ("resampled", "pearson3"):
        found, expected = (
            permutation_test("cka", a, b, n_resamples=19, random_state=0, method=method)
            for a, b in ((backend.asarray(X), backend.asarray(y)), (X, y))
        )
        assert found.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
        assert found.z_score == pytest.approx(expected.z_score, rel=1e-9)


def hsic_of_counts(K, L, w):
    """The unbiased estimate as a mean over quadruples of different rows, weighted by the products of their counts."""
    quadruples = list(itertools.permutations(range(len(K)), 4))
    values = [K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]) for i, j, q, r in quadruples]
    return np.average(values, weights=[np.prod(w[list(t)]) for t in quadruples])


@pytest.mark.parametrize("form", ["gram", "auto"])
def test_bootstrap_leaves_out_pairs_of_copies(form):
    X, y = pair(8, 2, 3)
    result = bootstrap("cka", X, y, debiased=True, n_resamples=5, method="percentile", random_state=3, form=form)
    rng = np.random.default_rng(3)
    drawn = rng.integers(8, size=(8, 5))
    K, L = X @ X.T, y @ y.T
    expected = []
    for k in range(5):
        w = np.bincount(drawn[:, k], minlength=8).astype(float)
        expected.append(hsic_of_counts(K, L, w) / np.sqrt(hsic_of_counts(K, K, w) * hsic_of_counts(L, L, w)))
    np.testing.assert_allclose(result.bootstrap_distribution, expected, rtol=1e-9)
    assert result.confidence_interval == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))


def test_bootstrap_of_other_indexes_draws_rows():
    X, y = pair(20, 2, 3)
    found = bootstrap("procrustes", X, y, n_resamples=3, random_state=0).bootstrap_distribution
    drawn = np.random.default_rng(0).integers(20, size=(20, 3))
    expected = [similarity(X[np.sort(d)], y[np.sort(d)], "procrustes") for d in drawn.T]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_batches_are_drawn_from_one_stream():
    X, y = pair(30)
    in_parts, whole = (bootstrap("cka", X, y, n_resamples=400, batch=batch, random_state=0) for batch in (7, None))
    assert in_parts.bootstrap_distribution.shape == (400,)
    assert in_parts.standard_error == pytest.approx(whole.standard_error, rel=0.2)
    same = bootstrap("cka", X, y, n_resamples=400, batch=7, random_state=0)
    np.testing.assert_array_equal(in_parts.bootstrap_distribution, same.bootstrap_distribution)


def test_bootstrap_and_jackknife_agree_on_the_standard_error():
    X, y = pair(200)
    by_jackknife = jackknife("cka", X, y, debiased=True).standard_error
    by_bootstrap = bootstrap("cka", X, y, debiased=True, n_resamples=2000, random_state=0).standard_error
    assert by_bootstrap == pytest.approx(by_jackknife, rel=0.1)


def test_bca_interval_is_that_of_efron():
    X, y = pair(50)
    result = bootstrap("hsic", X, y, debiased=True, n_resamples=500, random_state=0)
    left_out = jackknife("hsic", X, y, debiased=True).leave_one_out
    d = left_out.mean() - left_out
    acceleration = np.sum(d**3) / (6 * np.sum(d**2) ** 1.5)
    z0 = stats.norm.ppf(np.mean(result.bootstrap_distribution < result.statistic))
    z = z0 + stats.norm.ppf([0.025, 0.975])
    levels = stats.norm.cdf(z0 + z / (1 - acceleration * z))
    assert result.confidence_interval == pytest.approx(tuple(np.quantile(result.bootstrap_distribution, levels)))


def test_basic_interval_is_the_reflected_one():
    X, y = pair(50)
    basic, percentile = (bootstrap("cka", X, y, method=m, random_state=0) for m in ("basic", "percentile"))
    reflected = [2 * basic.statistic - limit for limit in percentile.confidence_interval[::-1]]
    assert basic.confidence_interval == pytest.approx(tuple(reflected))


def test_undefined_resamples_are_left_out_with_a_warning():
    X = np.zeros((6, 1))
    X[0] = 1
    y = np.arange(6.0)
    with pytest.warns(UndefinedSimilarityWarning, match="of 200 resamples is undefined"):
        result = bootstrap("cka", X, y, n_resamples=200, random_state=0, method="percentile")
    assert 0 < len(result.bootstrap_distribution) < 200
    assert not np.isnan(result.bootstrap_distribution).any()


@pytest.mark.parametrize(("name", "params"), CLOSED)
def test_resampled_permutations_are_those_of_permuted_rows(name, params):
    X, y = pair(25)
    result = permutation_test(name, X, y, n_resamples=7, random_state=5, **params)
    rng = np.random.default_rng(5)
    expected = [similarity(X, y[rng.permutation(25)], name, **params) for _ in range(7)]
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["cca", "procrustes", "rsa", "pwcca"])
def test_bases_are_permuted_without_fitting_again(name):
    X, y = pair(25, 3, 4)
    found = permutation_test(name, X, y, n_resamples=5, random_state=5).null_distribution
    rng = np.random.default_rng(5)
    expected = [similarity(X, y[rng.permutation(25)], name) for _ in range(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("debiased", [False, True])
def test_closed_form_moments_are_those_of_all_permutations(debiased):
    X, y = pair(6, 2, 3)
    values = np.array([cka(X, y[list(p)], debiased=debiased) for p in itertools.permutations(range(6))])
    result = permutation_test("cka", X, y, method="pearson3", debiased=debiased)
    assert result.null_mean == pytest.approx(values.mean(), abs=1e-12)
    assert result.null_standard_deviation == pytest.approx(values.std(), rel=1e-9)
    assert result.null_skewness == pytest.approx(stats.skew(values), rel=1e-8)
    assert result.z_score == pytest.approx((result.statistic - values.mean()) / values.std(), rel=1e-9)
    assert result.z_score == pytest.approx(CKA(debiased=debiased).fit(X, y).z_score(X, y), rel=1e-9)
    assert result.pvalue == pytest.approx(stats.pearson3.sf(result.z_score, result.null_skewness))
    normal = permutation_test("cka", X, y, method="normal", debiased=debiased)
    assert normal.pvalue == pytest.approx(stats.norm.sf(result.z_score))


def test_hsic_and_cka_have_the_same_closed_form_test():
    X, y = pair(20, noise=20)
    p = permutation_test("cka", X, y, method="pearson3").pvalue
    assert permutation_test("hsic", X, y, method="pearson3").pvalue == pytest.approx(p, rel=1e-9)
    less = permutation_test("hsic", X, y, method="pearson3", alternative="less").pvalue
    assert less == pytest.approx(1 - p, rel=1e-9)


def test_resampled_pvalue_counts_itself():
    X, y = pair(20, noise=0.1)
    result = permutation_test("cka", X, y, n_resamples=99, random_state=0)
    assert result.pvalue == pytest.approx(0.01)
    assert permutation_test("cka", X, y, n_resamples=99, alternative="less", random_state=0).pvalue == 1.0
    assert permutation_test("cka", X, y, n_resamples=99, alternative="two-sided", random_state=0).pvalue == 0.02


def test_permutation_within_strata_keeps_what_strata_share():
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1], 40)
    X, y = (3 * strata[:, None] + rng.standard_normal((80, 2)) for _ in range(2))
    assert permutation_test("cka", X, y, random_state=0).pvalue < 0.01
    assert permutation_test("cka", X, y, random_state=0, stratify=strata).pvalue > 0.05


@pytest.mark.parametrize(("n", "p"), [(30, 2), (30, 300), (100, 20)])
@pytest.mark.parametrize("debiased", [False, True])
def test_closed_form_pvalues_are_uniform_under_independence(n, p, debiased):
    rng = np.random.default_rng(n + p)
    pvalues = [
        permutation_test(
            "cka", rng.standard_normal((n, p)), rng.standard_normal((n, p)), method="pearson3", debiased=debiased
        ).pvalue
        for _ in range(200)
    ]
    assert stats.kstest(pvalues, "uniform").pvalue > 0.01
    assert np.mean(np.array(pvalues) < 0.05) < 0.11


def test_intervals_of_debiased_cka_cover_the_population_value():
    """Population CKA of X and Y = X A + noise, jointly normal: ||Sxy||^2 / (||Sxx|| ||Syy||)."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((3, 3)) / 2
    truth = np.sum(A**2) / np.sqrt(3 * np.sum((A.T @ A + np.eye(3)) ** 2))
    covered = {"jackknife": 0, "bootstrap": 0}
    trials = 200
    for trial in range(trials):
        X = rng.standard_normal((100, 3))
        y = X @ A + rng.standard_normal((100, 3))
        for name, interval in [
            ("jackknife", jackknife("cka", X, y, debiased=True).confidence_interval),
            (
                "bootstrap",
                bootstrap("cka", X, y, debiased=True, n_resamples=399, random_state=trial).confidence_interval,
            ),
        ]:
            covered[name] += interval.low <= truth <= interval.high
    # Binomial(200, 0.95) is below 0.905 once in two hundred times.
    assert 0.905 <= covered["jackknife"] / trials <= 0.99
    assert 0.905 <= covered["bootstrap"] / trials <= 0.99


def test_difference_is_paired_by_row():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    B = A + rng.standard_normal((60, 3))
    C = B + 0.1 * rng.standard_normal((60, 3))
    result = compare_similarities("cka", (A, B), (A, C), debiased=True)
    left_out = leave_one_out(
        lambda a, b: cka(a, b[:, :3], debiased=True) - cka(a, b[:, 3:], debiased=True), A, np.hstack([B, C])
    )
    error = np.sqrt(59 / 60 * np.sum((left_out - left_out.mean()) ** 2))
    assert result.standard_error == pytest.approx(error, rel=1e-9)
    assert result.pvalue == pytest.approx(2 * stats.t.sf(abs(result.statistic) / error, 59))
    assert result.standard_error < 0.2 * jackknife("cka", A, B, debiased=True).standard_error
    drawn = compare_similarities("cka", (A, B), (A, C), debiased=True, method="bootstrap", random_state=0)
    assert drawn.standard_error == pytest.approx(error, rel=0.2)
    assert compare_similarities("cka", (A, B), (A, B)).pvalue == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: jackknife("cka", X, y, confidence_level=95), "confidence_level must lie between 0 and 1, got 95"),
        (lambda X, y: jackknife("cka", X, y, groups=[0, 1]), r"groups has shape \(2,\), expected \(10,\)"),
        (lambda X, y: jackknife("cka", X, y, groups=[0] * 10), "groups names 1 group"),
        (lambda X, y: jackknife("cka", X[:4], y[:4], debiased=True), "3 sample.* minimum of 4 is required"),
        (lambda X, y: jackknife("cka", X, y, groups=[0] * 9 + [1]), "1 sample.* minimum of 2 is required"),
        (lambda X, y: bootstrap("cka", X, y, n_resamples=0), "n_resamples must be a whole number of at least 1, got 0"),
        (lambda X, y: bootstrap("cka", X, y, method="BCA"), "method must be one of .*'bca'"),
        (lambda X, y: bootstrap("cka", X, y, random_state="a"), "random_state must be"),
        (
            lambda X, y: bootstrap("cka", X, y, groups=[0] * 5 + [1] * 5, stratify=[0] * 4 + [1] * 6),
            "every group must lie in one stratum",
        ),
        (lambda X, y: permutation_test("cka", X, y, alternative="both"), "alternative must be one of"),
        (lambda X, y: permutation_test("cca", X, y, method="normal"), "moments in closed form"),
        (lambda X, y: permutation_test("distance_correlation", X, y, method="normal"), "moments in closed form"),
        (lambda X, y: permutation_test("cka", X, y, method="normal", stratify=[0] * 10), "use 'resampled' with groups"),
        (lambda X, y: permutation_test("cka", X, y, stratify=range(10)), "No two rows or groups can change places"),
        (lambda X, y: compare_similarities("cka", X, (X, y)), r"pair must be two representations \(X, y\)"),
        (lambda X, y: compare_similarities("cka", (X[:5], y[:5]), (X, y)), "5 samples .* 10 samples"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    X, y = pair(10)
    with pytest.raises(ValueError, match=message):
        call(X, y)


def test_index_may_be_an_instance_and_is_not_fitted():
    X, y = pair(20)
    index = CKA(debiased=True)
    assert jackknife(index, X, y).statistic == pytest.approx(cka(X, y, debiased=True), rel=1e-12)
    assert not hasattr(index, "similarity_")
    assert hsic(X, y) == pytest.approx(jackknife(get_index("hsic"), X, y).statistic)
