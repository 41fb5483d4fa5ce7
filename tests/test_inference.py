"""Standard errors, intervals and tests: against computing everything again, and against theory."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

from sklearn_cka import (
    CKA,
    HSIC,
    UndefinedSimilarityWarning,
    bootstrap,
    cka,
    compare_layers,
    compare_similarities,
    get_index,
    hsic,
    jackknife,
    permutation_test,
    similarity,
)
from sklearn_cka.inference import _pairs, adjust_pvalues, compare_tables, noise_ceiling, table_inference

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


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_scale_of_the_data_is_that_of_hsic(scale):
    X, y = pair(20)
    plain, scaled = (jackknife("hsic", Z, y, debiased=True) for Z in (X, scale * X))
    assert scaled.standard_error == pytest.approx(plain.standard_error * scale**2, rel=1e-9)
    np.testing.assert_allclose(scaled.leave_one_out, plain.leave_one_out * scale**2, rtol=1e-9)


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


@pytest.mark.parametrize("feature_rows", [0, 500])
def test_bootstrap_leaves_out_pairs_of_copies(feature_rows, monkeypatch):
    monkeypatch.setattr(_pairs, "_FEATURE_ROWS", feature_rows)
    monkeypatch.setattr(_pairs, "_FEATURE_FACTOR", 10.0)
    X, y = pair(8, 2, 3)
    result = bootstrap("cka", X, y, debiased=True, n_resamples=5, method="percentile", random_state=3)
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


@pytest.mark.parametrize("name", ["cka", "hsic", "procrustes", "rsa"])
def test_threads_change_no_permutation(name):
    X, y = pair(30, 20, 20)
    one, two = (permutation_test(name, X, y, n_resamples=9, random_state=0, n_jobs=jobs) for jobs in (None, 2))
    np.testing.assert_array_equal(one.null_distribution, two.null_distribution)


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
        intervals = {
            "jackknife": jackknife("cka", X, y, debiased=True),
            "bootstrap": bootstrap("cka", X, y, debiased=True, n_resamples=199, random_state=trial),
        }
        for name, result in intervals.items():
            covered[name] += result.confidence_interval.low <= truth <= result.confidence_interval.high
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


def collections(n=60, dtype="float64"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    a = {"one": X, "two": X[:, :2] + rng.standard_normal((n, 2))}
    b = {"three": X + rng.standard_normal((n, 3)), "wide": rng.standard_normal((n, 100)), "four": X**3}
    return tuple({name: array.astype(dtype) for name, array in side.items()} for side in (a, b))


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        *CLOSED[:6],
        ("hsic", {"debiased": True}),
        ("angular_cka", {"debiased": True}),
        ("distance_correlation", {}),
        ("procrustes", {}),
        ("linear_predictivity", {}),
    ],
)
def test_table_has_the_standard_error_of_every_pair(name, params, sides):
    a, b = collections(30)
    b = b if sides == 2 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = table_inference(a, b, name, **params)
        plain = compare_layers(a, b, name, **params)
        np.testing.assert_array_equal(table.values, plain.values)
        for i, j in np.ndindex(table.shape):
            if sides == 1 and i == j:
                continue
            X, y = list(a.values())[i], list((b or a).values())[j]
            expected = jackknife(name, X, y, **params).standard_error
            assert table.standard_error[i, j] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("form", ["auto", "gram", "feature"])
@pytest.mark.parametrize("debiased", [False, True])
def test_table_in_each_form_equals_pairs(backend, form, debiased):
    a, b = ({k: backend.asarray(v) for k, v in side.items()} for side in collections(20))
    table = table_inference(a, b, "cka", form=form, debiased=debiased, correction=None)
    plain_a, plain_b = collections(20)
    for i, j in np.ndindex(table.shape):
        X, y = list(plain_a.values())[i], list(plain_b.values())[j]
        one = jackknife("cka", X, y, debiased=debiased)
        assert table.standard_error[i, j] == pytest.approx(one.standard_error, rel=1e-8)
        test = permutation_test("cka", X, y, debiased=debiased, method="pearson3")
        assert table.pvalue[i, j] == pytest.approx(test.pvalue, rel=1e-6, abs=1e-14)


def test_table_of_groups_leaves_them_out_whole():
    a, b = collections(30)
    groups = np.arange(30) % 10
    table = table_inference(a, b, debiased=True, groups=groups, test=None)
    expected = jackknife("cka", a["two"], b["four"], debiased=True, groups=groups).standard_error
    assert table.standard_error[1, 2] == pytest.approx(expected, rel=1e-9)
    assert table.pvalue is None


def test_table_of_resampled_pvalues_shares_the_permutations():
    a, b = collections(30)
    table = table_inference(a, b, test="resampled", n_resamples=49, random_state=7, correction=None)
    expected = permutation_test("cka", a["two"], b["four"], n_resamples=49, random_state=7).pvalue
    assert table.pvalue[1, 2] == expected
    assert table_inference(a, b, "procrustes", standard_error=False).pvalue is None


def test_symmetric_table_tests_every_pair_once():
    a, b = collections(30)
    layers = a | b
    plain, holm = (table_inference(layers, debiased=True, correction=c) for c in (None, "holm"))
    assert np.isnan(np.diagonal(holm.pvalue)).all()
    np.testing.assert_array_equal(holm.pvalue, holm.pvalue.T)
    upper = np.triu_indices(5, 1)
    np.testing.assert_allclose(holm.pvalue[upper], adjust_pvalues(plain.pvalue[upper]), rtol=1e-12)
    normal = table_inference(layers, debiased=True, correction=None, test="normal")
    assert normal.pvalue[0, 3] == pytest.approx(
        permutation_test("cka", layers["one"], layers["wide"], debiased=True, method="normal").pvalue
    )


def test_constant_layer_is_missing_alone():
    a, b = collections(30)
    b["dead"] = np.ones((30, 2))
    with pytest.warns(UndefinedSimilarityWarning):
        table = table_inference(a, b, debiased=True)
    for values in (table.values, table.standard_error, table.pvalue):
        assert np.isnan(values[:, 3]).all()
        assert not np.isnan(values[:, :3]).any()


def test_single_precision_table_agrees_with_double():
    a, b = collections(40, "float32")
    found = table_inference(a, b, debiased=True)
    expected = table_inference(*collections(40), debiased=True)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-4)
    np.testing.assert_allclose(found.pvalue, expected.pvalue, rtol=1e-2, atol=1e-9)


def test_tidy_frame_carries_errors_and_pvalues():
    a, b = collections(30)
    frame = table_inference(a, b, debiased=True).to_frame(tidy=True)
    assert list(frame) == ["row", "column", "similarity", "chance", "standard_error", "pvalue"]
    assert list(compare_layers(a, b, debiased=True).to_frame(tidy=True)) == ["row", "column", "similarity", "chance"]
    line = frame.query("row == 'one' and column == 'four'")
    expected = jackknife("cka", a["one"], b["four"], debiased=True).standard_error
    assert line.standard_error.item() == pytest.approx(expected, rel=1e-9)


def test_difference_of_tables_is_paired():
    a, b = collections(30)
    other = {name: X + np.random.default_rng(1).standard_normal(X.shape) for name, X in b.items()}
    table = compare_tables((a, b), (a, other), debiased=True, correction=None)
    one = compare_similarities("cka", (a["two"], b["four"]), (a["two"], other["four"]), debiased=True)
    assert table.values[1, 2] == pytest.approx(one.statistic)
    assert table.standard_error[1, 2] == pytest.approx(one.standard_error, rel=1e-8)
    assert table.pvalue[1, 2] == pytest.approx(one.pvalue, rel=1e-6)
    same = compare_tables(a, a)
    assert (same.values == 0).all()
    assert same.pvalue[0, 1] == 1.0
    with pytest.raises(ValueError, match="need equal shapes"):
        compare_tables(a, b)


def test_adjusted_pvalues_by_their_definitions():
    p = np.array([0.01, 0.02, np.nan, 0.03, 0.005])
    # statsmodels 0.14: multipletests([.01, .02, .03, .005], method=...)
    np.testing.assert_allclose(adjust_pvalues(p), [0.03, 0.04, np.nan, 0.04, 0.02])
    np.testing.assert_allclose(adjust_pvalues(p, "bonferroni"), [0.04, 0.08, np.nan, 0.12, 0.02])
    np.testing.assert_allclose(adjust_pvalues(p, "fdr_bh"), [0.02, 0.08 / 3, np.nan, 0.03, 0.02])
    np.testing.assert_allclose(adjust_pvalues(p, "fdr_by"), np.array([0.02, 0.08 / 3, np.nan, 0.03, 0.02]) * 25 / 12)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        adjust_pvalues([1.5])
    with pytest.raises(ValueError, match="is square"):
        adjust_pvalues([0.5], symmetric=True)


def test_noise_ceiling_is_the_similarity_with_mean_matrices():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((40, 4))
    repeats = [truth + rng.standard_normal((40, 4)) for _ in range(4)]
    repeats[3] = np.hstack([repeats[3], rng.standard_normal((40, 2))])
    H = np.eye(40) - 1 / 40
    G = [H @ X @ X.T @ H for X in repeats]
    G = [K / np.linalg.norm(K) for K in G]

    def cosine(K, L):
        return np.sum(K * L) / np.linalg.norm(K) / np.linalg.norm(L)

    ceiling = noise_ceiling(repeats)
    np.testing.assert_allclose(ceiling.upper_values, [cosine(K, sum(G)) for K in G])
    np.testing.assert_allclose(ceiling.lower_values, [cosine(K, sum(G) - K) for K in G])
    assert ceiling.lower == pytest.approx(ceiling.lower_values.mean())
    by_features = noise_ceiling(repeats[:3], "procrustes", average="features")
    assert by_features.upper_values[0] == pytest.approx(similarity(repeats[0], sum(repeats[:3]), "procrustes"))
    assert by_features.lower_values[0] == pytest.approx(similarity(repeats[0], sum(repeats[1:3]), "procrustes"))
    with pytest.raises(ValueError, match=r"widths \[4, 6\]"):
        noise_ceiling(repeats, average="features")
    with pytest.raises(ValueError, match="is for CKA with one kernel"):
        noise_ceiling(repeats, "hsic")
    with pytest.raises(ValueError, match="needs at least 2"):
        noise_ceiling(repeats[:1])


def test_table_tests_permute_whole_groups_within_strata():
    a, b = collections(n=24)
    groups = np.repeat(np.arange(8), 3)
    strata = np.repeat([0, 1], 12)
    table = table_inference(
        a, b, debiased=True, groups=groups, stratify=strata, n_resamples=49, random_state=0, correction=None
    )
    for i, X in enumerate(a.values()):
        for j, y in enumerate(b.values()):
            alone = permutation_test(
                "cka", X, y, debiased=True, groups=groups, stratify=strata, n_resamples=49, random_state=0
            )
            assert table.pvalue[i, j] == alone.pvalue


def test_rows_that_move_together_take_their_similarity_with_them():
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(10), 8)
    X, y = (5 * rng.standard_normal((10, 3))[subjects] + rng.standard_normal((80, 3)) for _ in range(2))
    single = table_inference({"x": X}, {"y": y}, debiased=True)
    grouped = table_inference({"x": X}, {"y": y}, debiased=True, groups=subjects, random_state=0)
    assert single.pvalue.item() < 1e-4
    assert grouped.pvalue.item() > 0.05
    assert grouped.standard_error.item() > 2 * single.standard_error.item()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "pearson3", "groups": np.repeat(np.arange(30), 2)}, "use 'resampled' with groups or stratify"),
        ({"groups": np.r_[np.zeros(40), np.ones(20)]}, "No two rows or groups can change places"),
        ({"stratify": np.arange(59)}, r"stratify has shape \(59,\)"),
        ({"groups": np.repeat(np.arange(30), 2), "stratify": np.r_[0, np.ones(59)]}, "parts rows of the same group"),
    ],
    ids=["closed form", "sizes", "shape", "parted"],
)
def test_restrictions_of_table_tests_that_cannot_be_kept_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        table_inference(collections()[0], **options)
