"""Jackknife, bootstrap and permutation algorithms on arrays, against the definitions written out in loops."""

import itertools

import numpy as np
import pytest

from sklearn_cka import _arrays, _permutation, _resampling


def representation(n, p, seed, backend=None, dtype="float64"):
    X = np.random.default_rng(seed).standard_normal((n, p)) * np.linspace(1, 3, p)
    X = (X - X.mean(0)).astype(dtype)
    return X if backend is None else backend.asarray(X)


def double_centered(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    return H @ K @ H


def u_centered(K):
    n = len(K)
    K = K - np.diag(np.diag(K))
    r, total = K.sum(1), K.sum()
    A = K - r[:, None] / (n - 2) - r[None, :] / (n - 2) + total / ((n - 1) * (n - 2))
    return A - np.diag(np.diag(A))


def centered(K, debiased):
    return u_centered(K) if debiased else double_centered(K)


def inner(K, L, debiased):
    return float(np.sum(centered(K, debiased) * centered(L, debiased)))


def without(K, rows):
    kept = np.setdiff1d(np.arange(len(K)), rows)
    return K[np.ix_(kept, kept)]


@pytest.mark.parametrize("debiased", [False, True])
def test_gram_form_equals_leaving_out_each_row(backend, debiased):
    K, L = (X @ X.T for X in (representation(12, 3, 0), representation(12, 20, 1)))
    A, B = (backend.asarray(centered(G, debiased)) for G in (K, L))
    found = _resampling.gram_row_products(A, B).without_each(debiased)
    expected = [inner(without(K, [i]), without(L, [i]), debiased) for i in range(12)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("widths", [(3, 5), (80, 70)])
@pytest.mark.parametrize("debiased", [False, True])
def test_feature_form_equals_leaving_out_each_row(backend, debiased, widths):
    X, Y = (representation(15, p, seed) for seed, p in enumerate(widths))
    found = _resampling.feature_row_products(backend.asarray(X), backend.asarray(Y), debiased=debiased)
    expected = [inner(without(X @ X.T, [i]), without(Y @ Y.T, [i]), debiased) for i in range(15)]
    np.testing.assert_allclose(found.without_each(debiased), expected, rtol=1e-10)
    Z = backend.asarray(X)
    own = _resampling.feature_row_products(Z, Z, debiased=debiased)
    expected = [inner(without(X @ X.T, [i]), without(X @ X.T, [i]), debiased) for i in range(15)]
    np.testing.assert_allclose(own.without_each(debiased), expected, rtol=1e-10)
    assert own.total == pytest.approx(inner(X @ X.T, X @ X.T, debiased), rel=1e-12)


def test_feature_form_in_single_precision_agrees_with_double():
    X = representation(60, 90, 0, dtype="float32")
    single = _resampling.feature_row_products(X, X, debiased=True)
    double = _resampling.feature_row_products(*[X.astype(np.float64)] * 2, debiased=True)
    np.testing.assert_allclose(single.rows, double.rows, rtol=1e-4)


def u_statistic(K, L, w):
    """The mean of K_ij (L_ij + L_qr - 2 L_iq) over quadruples of different rows, by the products of their counts."""
    quadruples = list(itertools.permutations(range(len(K)), 4))
    values = [K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]) for i, j, q, r in quadruples]
    return np.average(values, weights=[np.prod(w[list(t)]) for t in quadruples])


@pytest.mark.parametrize("form", ["gram", "feature"])
def test_resample_is_the_u_statistic_over_different_rows(backend, form):
    X, Y = representation(8, 2, 0), representation(8, 3, 1)
    W = _resampling.resample_counts(8, 6, np.random.default_rng(0))
    rows = made_rows(form, X, Y, backend, debiased=True)
    found = _resampling.reweighted_inner(rows, W)
    expected = [8 * 5 * u_statistic(X @ X.T, Y @ Y.T, w) for w in W.T]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def made_rows(form, X, Y, backend, debiased):
    if form == "feature":
        return _resampling.FeatureRows(backend.asarray(X), backend.asarray(Y), debiased=debiased)
    A, B = (backend.asarray(centered(Z @ Z.T, debiased)) for Z in (X, Y))
    return _resampling.GramRows(A, B, debiased=debiased)


def biased_over_different_rows(K, L, w):
    """tr(KHLH) with every sum over indices parted by which are equal, each part a weighted mean over different rows."""
    n = int(w.sum())
    rows = range(len(K))

    def mean(slots, value):
        """Sum over n rows a slot: sum over the ways in which slots are equal of (number of such) times the mean."""
        total = 0.0
        for pattern in itertools.product(range(slots), repeat=slots):
            first = {}
            canonical = tuple(first.setdefault(block, len(first)) for block in pattern)
            if pattern != canonical:
                continue
            k = len(first)
            tuples = list(itertools.permutations(rows, k))
            weights = [np.prod(w[list(t)]) for t in tuples]
            values = [value(*(t[block] for block in pattern)) for t in tuples]
            total += np.prod([n - i for i in range(k)]) * np.average(values, weights=weights)
        return total

    first = mean(2, lambda i, j: K[i, j] * L[i, j])
    second = mean(3, lambda i, j, q: K[i, j] * L[i, q])
    third = mean(4, lambda i, j, q, r: K[i, j] * L[q, r])
    return first - 2 * second / n + third / n**2


@pytest.mark.parametrize("form", ["gram", "feature"])
def test_biased_resample_leaves_out_pairs_of_copies(form):
    X, Y = representation(6, 2, 0), representation(6, 3, 1)
    W = np.array([[1, 1, 1, 1, 1, 1], [2, 0, 1, 1, 1, 1], [3, 1, 1, 1, 0, 0], [2, 2, 0, 0, 1, 1.0]]).T
    rows = made_rows(form, X, Y, NumpyBackend, debiased=False)
    K, L = (double_centered(Z @ Z.T) for Z in (X, Y))
    expected = [biased_over_different_rows(K, L, w) for w in W.T]
    np.testing.assert_allclose(_resampling.reweighted_inner(rows, W), expected, rtol=1e-9)
    assert expected[0] == pytest.approx(inner(K, L, False), rel=1e-9)


class NumpyBackend:
    asarray = staticmethod(np.asarray)


@pytest.mark.parametrize("form", ["gram", "feature"])
@pytest.mark.parametrize("debiased", [False, True])
def test_counts_of_zero_and_one_give_the_value_of_the_rows_kept(form, debiased):
    X, Y = representation(20, 2, 0), representation(20, 30, 1)
    groups = np.repeat(np.arange(5), [1, 2, 4, 6, 7])
    found = _resampling.reweighted_inner(
        made_rows(form, X, Y, NumpyBackend, debiased), _resampling.group_counts(groups)
    )
    left_out = [np.flatnonzero(groups == g) for g in range(5)]
    expected = [inner(without(X @ X.T, rows), without(Y @ Y.T, rows), debiased) for rows in left_out]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_resample_of_too_few_different_rows_is_not_a_number():
    X = representation(5, 2, 0)
    rows = made_rows("gram", X, X, NumpyBackend, debiased=True)
    found = _resampling.reweighted_inner(rows, np.array([[3, 1, 1, 0, 0.0], [1, 1, 1, 1, 1]]).T)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(inner(X @ X.T, X @ X.T, True))


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("n", [5, 6, 7])
def test_permutation_moments_equal_those_over_all_permutations(n, debiased):
    X, Y = representation(n, 2, 0) ** 3, representation(n, 4, 1)
    A, B = (centered(Z @ Z.T, debiased) for Z in (X, Y))
    values = np.array([np.sum(A * B[np.ix_(p, p)]) for p in map(list, itertools.permutations(range(n)))])
    mean, variance, skewness = _permutation.permutation_moments(
        _permutation.GramSums.of_gram(A), _permutation.GramSums.of_gram(B)
    )
    spread = values - values.mean()
    assert mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
    assert variance == pytest.approx(np.mean(spread**2), rel=1e-9)
    assert skewness == pytest.approx(np.mean(spread**3) / np.mean(spread**2) ** 1.5, rel=1e-8)


def test_sums_of_features_equal_those_of_their_gram_matrix(backend):
    X = representation(300, 7, 0)
    by_features = _permutation.GramSums.of_features(backend.asarray(X))
    by_gram = _permutation.GramSums.of_gram(backend.asarray(X @ X.T))
    for name in vars(by_gram):
        assert getattr(by_features, name) == pytest.approx(getattr(by_gram, name), rel=1e-9)
    A = X @ X.T - np.trace(X @ X.T) / 299 * (np.eye(300) - 1 / 300)
    assert by_gram.triangle == pytest.approx(np.trace(A @ A @ A), rel=1e-9)
    assert by_gram.cubes == pytest.approx(np.sum(A**3), rel=1e-9)


@pytest.mark.parametrize("debiased", [False, True])
def test_permuted_products_equal_those_of_permuted_matrices(backend, debiased):
    n = 150
    X, Y = representation(n, 3, 0), representation(n, 5, 1)
    A, B = (centered(Z @ Z.T, debiased) for Z in (X, Y))
    orders = [np.random.default_rng(seed).permutation(n) for seed in range(5)]
    expected = [np.sum(A * B[np.ix_(p, p)]) for p in orders]
    by_gram = _permutation.PermutedGram(backend.asarray(A), backend.asarray(B)).products(orders)
    by_features = _permutation.PermutedFeatures(backend.asarray(X), backend.asarray(Y), debiased=debiased)
    np.testing.assert_allclose(by_gram, expected, rtol=1e-9, atol=1e-9 * np.sum(A * A))
    np.testing.assert_allclose(by_features.products(orders), expected, rtol=1e-9, atol=1e-9 * np.sum(A * A))


def test_permuting_leaves_the_matrices_as_they_were():
    A = np.random.default_rng(0).standard_normal((10, 10))
    A = A + A.T
    before = A.copy()
    _permutation.PermutedGram(A, A).products([np.arange(10)])
    np.testing.assert_array_equal(A, before)


def test_counts_keep_groups_whole_and_strata_full():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(6), [1, 3, 2, 2, 1, 3])
    strata = (groups >= 3).astype(int)
    W = _resampling.resample_counts(12, 50, rng, groups=groups, strata=strata)
    for g in range(6):
        members = W[groups == g]
        np.testing.assert_array_equal(members, np.broadcast_to(members[0], members.shape))
    firsts = W[np.unique(groups, return_index=True)[1]]
    np.testing.assert_array_equal(firsts[:3].sum(0), 3)
    np.testing.assert_array_equal(firsts[3:].sum(0), 3)
    plain = _resampling.resample_counts(12, 2000, rng)
    np.testing.assert_array_equal(plain.sum(0), 12)
    assert plain.mean() == pytest.approx(1)
    assert plain.var() == pytest.approx(11 / 12, rel=0.05)  # binomial(12, 1/12)


def test_permutation_moves_groups_whole_within_strata():
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    strata = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    seen = set()
    for seed in range(40):
        order = _resampling.random_order(9, np.random.default_rng(seed), groups=groups, strata=strata)
        assert sorted(order) == list(range(9))
        assert order[8] == 8  # alone in its size
        np.testing.assert_array_equal(strata[order], strata)
        np.testing.assert_array_equal(np.diff(order[:8].reshape(4, 2), axis=1), 1)
        seen.add(tuple(order))
    assert len(seen) == 4


def test_bca_levels_of_a_symmetric_case_are_those_of_percentiles():
    distribution = np.linspace(-1, 1, 1001)
    levels = _resampling.bca_levels(0.0, distribution, np.array([-1.0, 0.0, 1.0]), 0.95)
    assert levels == pytest.approx((0.025, 0.975))


def test_standard_error_of_a_mean_is_the_textbook_one():
    x = np.random.default_rng(0).standard_normal(30)
    left_out = (x.sum() - x) / 29
    assert _resampling.standard_error(left_out) == pytest.approx(x.std(ddof=1) / np.sqrt(30))


def test_namespace_of_results_is_numpy(backend):
    X = backend.asarray(representation(10, 2, 0))
    assert _arrays.is_numpy(_resampling.feature_row_products(X, X, debiased=False).rows)
