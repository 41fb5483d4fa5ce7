"""The identities that the package is built on, each against the definitions written out in ``brute_force``.

Chance levels and variances are compared with all n! permutations of the rows of one side.
"""

import itertools
import math

import brute_force as bf
import numpy as np
import pytest

from sklearn_cka import (
    CKA,
    HSIC,
    DistanceCorrelation,
    KernelAlignment,
    cka,
    distance_correlation,
    hsic,
    kernel_alignment,
)
from sklearn_cka.indexes._gram import permutation_moments

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

EXACT = 1e-12


def pair(n, p, q, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, np.arange(q) % p] + rng.standard_normal((n, q))


def exact_grams(X, Y):
    return bf.gram(bf.exact(X), bf.linear), bf.gram(bf.exact(Y), bf.linear)


def thin_svd(X):
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    kept = s > s[0] * max(X.shape) * np.finfo(float).eps
    return U[:, kept], s[kept]


@pytest.mark.parametrize(("n", "p", "q"), [(4, 1, 1), (5, 3, 2), (6, 2, 8), (7, 7, 1)])
def test_unbiased_hsic_is_an_inner_product_of_u_centred_matrices(n, p, q):
    X, Y = pair(n, p, q)
    K, L = exact_grams(X, Y)
    expected = bf.entrywise(bf.u_centered(K), bf.u_centered(L)) / (n * (n - 3))
    assert bf.hsic_unbiased(K, L) == expected  # in fractions: no rounding
    assert hsic(X, Y, debiased=True) == pytest.approx(float(expected), abs=EXACT, rel=EXACT)


@pytest.mark.parametrize(("n", "p", "q"), [(4, 1, 1), (5, 3, 2), (6, 2, 8)])
def test_unbiased_hsic_is_the_mean_over_quadruples_of_rows(n, p, q):
    X, Y = pair(n, p, q)
    K, L = exact_grams(X, Y)
    assert bf.hsic_u_statistic(K, L) == bf.hsic_unbiased(K, L)
    assert hsic(X, Y, debiased=True) == pytest.approx(float(bf.hsic_u_statistic(K, L)), abs=EXACT, rel=EXACT)


def test_unbiased_hsic_is_unchanged_by_centring_the_data():
    X, Y = pair(6, 4, 3)
    X, Y = bf.exact(X), bf.exact(Y)
    n = len(X)

    def centered(Z):
        means = [sum(column) / n for column in zip(*Z, strict=True)]
        return [[value - mean for value, mean in zip(row, means, strict=True)] for row in Z]

    plain = bf.hsic_unbiased(bf.gram(X, bf.linear), bf.gram(Y, bf.linear))
    assert bf.hsic_unbiased(bf.gram(centered(X), bf.linear), bf.gram(centered(Y), bf.linear)) == plain


@pytest.mark.parametrize(("n", "p", "q"), [(5, 3, 2), (30, 4, 6), (8, 40, 30), (25, 24, 1)])
@pytest.mark.parametrize("debiased", [False, True])
def test_feature_form_is_the_gram_form(n, p, q, debiased):
    X, Y = pair(n, p, q)
    X += 100.0
    for function in (cka, hsic):
        values = [function(X, Y, debiased=debiased, form=form) for form in ("gram", "feature")]
        assert values[0] == pytest.approx(values[1], rel=1e-10)


@pytest.mark.parametrize(("n", "p", "q"), [(5, 3, 2), (9, 4, 12)])
def test_feature_formulas_of_hsic(n, p, q):
    X, Y = pair(n, p, q)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    product = sum(sum(x * y for x, y in zip(a, b, strict=True)) ** 2 for a in Xc.T for b in Yc.T)
    dx, dy = ([sum(value**2 for value in row) for row in Z] for Z in (Xc, Yc))
    both = sum(a * b for a, b in zip(dx, dy, strict=True))
    unbiased = product - n / (n - 2) * both + sum(dx) * sum(dy) / ((n - 1) * (n - 2))
    assert hsic(X, Y) == pytest.approx(product / (n - 1) ** 2, rel=EXACT)
    assert hsic(X, Y, debiased=True) == pytest.approx(unbiased / (n * (n - 3)), rel=1e-10)
    K, L = exact_grams(X, Y)
    assert float(bf.hsic_biased(K, L)) == pytest.approx(product / (n - 1) ** 2, rel=EXACT)
    assert float(bf.hsic_unbiased(K, L)) == pytest.approx(unbiased / (n * (n - 3)), rel=1e-10)


def test_debiased_cka_lies_in_minus_1_to_1_and_goes_below_0():
    values = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values.append(cka(rng.standard_normal((5, 2)), rng.standard_normal((5, 3)), debiased=True))
    assert -1.0 <= min(values) < -0.5
    assert max(values) <= 1.0
    assert len(set(values)) == len(values)  # not clamped


@pytest.mark.parametrize(("n", "p", "q"), [(30, 5, 3), (10, 20, 4), (12, 11, 30)])
def test_spectral_form_of_linear_cka(n, p, q):
    X, Y = pair(n, p, q)
    (U_x, s_x), (U_y, s_y) = thin_svd(X), thin_svd(Y)
    M = U_x.T @ U_y
    spectral = sum((s_x[i] * M[i, j] * s_y[j]) ** 2 for i in range(len(s_x)) for j in range(len(s_y)))
    spectral /= math.sqrt(sum(s_x**4)) * math.sqrt(sum(s_y**4))
    assert cka(X, Y) == pytest.approx(spectral, abs=EXACT)


@pytest.mark.parametrize("n", [10, 50])
def test_linear_cka_of_two_directions_of_opposite_weight(n):
    """X = [10u, v], Y = [u, 10v] with u, v orthonormal and of zero mean: 200/10001."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(np.c_[np.ones(n), rng.standard_normal((n, 2))])[0]
    u, v = basis[:, 1:2], basis[:, 2:3]
    assert cka(np.c_[10 * u, v], np.c_[u, 10 * v]) == pytest.approx(200 / 10001, abs=EXACT)


def test_squared_distance_correlation_is_cka_with_the_distance_kernel():
    X, Y = pair(12, 3, 4)
    assert distance_correlation(X, Y, squared=True) == pytest.approx(cka(X, Y, kernel="distance"), abs=EXACT)
    assert distance_correlation(X, Y) ** 2 == pytest.approx(cka(X, Y, kernel="distance"), abs=EXACT)
    expected = bf.distance_correlation(bf.floats(X), bf.floats(Y), squared=True)
    assert cka(X, Y, kernel="distance") == pytest.approx(expected, abs=EXACT)
    debiased = bf.distance_correlation_debiased(bf.floats(X), bf.floats(Y))
    assert cka(X, Y, kernel="distance", debiased=True) == pytest.approx(debiased, abs=EXACT)


@pytest.mark.parametrize("debiased", [False, True])
def test_rbf_cka_tends_to_linear_cka_as_the_square_of_the_bandwidth(debiased):
    X, Y = pair(40, 6, 4)
    linear = cka(X, Y, debiased=debiased)
    errors = [
        abs(cka(X, Y, kernel="rbf", bandwidth=bandwidth, debiased=debiased) - linear)
        for bandwidth in (10.0, 100.0, 1000.0, 1e5, 1e7)
    ]
    assert 1e-5 < errors[0] < 1e-2
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.05)
    assert errors[2] == pytest.approx(errors[1] / 100, rel=0.05)
    assert max(errors[3:]) < 1e-9


def test_rbf_cka_tends_to_linear_cka_in_float32():
    X, Y = (Z.astype(np.float32) for Z in pair(40, 6, 4))
    for bandwidth in (100.0, 1000.0, 1e5):
        assert cka(X, Y, kernel="rbf", bandwidth=bandwidth) == pytest.approx(
            cka(X, Y), abs=2e-4 if bandwidth == 100 else 1e-5
        )


@pytest.mark.parametrize("bandwidth", [0.4, 1.0, 5.0, 50.0])
def test_rbf_cka_keeps_its_digits_in_float32(bandwidth):
    X, Y = (Z.astype(np.float32) for Z in pair(100, 20, 12))
    exact = cka(X.astype(np.float64), Y.astype(np.float64), kernel="rbf", bandwidth=bandwidth)
    assert cka(X, Y, kernel="rbf", bandwidth=bandwidth) == pytest.approx(exact, abs=2e-6)


@pytest.mark.parametrize("n", [4, 5, 6])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 5), (7, 2)])
def test_mean_and_variance_over_all_permutations(n, p, q):
    X, Y = pair(n, p, q)
    K, L = exact_grams(X, Y)
    for debiased in (False, True):
        center = bf.u_centered if debiased else bf.double_centered
        A, B = center(K), center(L)
        mean, variance = bf.mean_and_variance(bf.permutation_values(A, B, bf.entrywise))
        if debiased:
            assert mean == 0  # exactly, in fractions
        else:
            assert mean == bf.trace(A) * bf.trace(B) / (n - 1)
        moments = [
            tuple(map(float, (bf.trace(M), bf.entrywise(M, M), sum(M[i][i] ** 2 for i in range(n))))) for M in (A, B)
        ]
        seen_mean, seen_variance = permutation_moments(n, *moments)
        assert seen_mean == pytest.approx(float(mean), rel=EXACT, abs=EXACT)
        assert seen_variance == pytest.approx(float(variance), rel=1e-9)


@pytest.mark.parametrize("n", [4, 5, 6])
@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("kind", ["linear gram", "linear feature", "rbf", "laplacian", "distance", "cosine"])
def test_chance_and_z_score_are_those_of_all_permutations(n, debiased, kind):
    X, Y = pair(n, 3, 2)
    kernel, _, form = kind.partition(" ")
    for family in (CKA, HSIC):
        index = family(kernel, debiased=debiased, form=form or "auto").fit(X, Y)
        values = [index.score(X, Y[list(order)]) for order in _orders(n)]
        mean, variance = bf.mean_and_variance(values)
        assert index.chance_ == pytest.approx(mean, abs=1e-11)
        assert index.z_score(X, Y) == pytest.approx((index.similarity_ - mean) / math.sqrt(variance), rel=1e-6)


def _orders(n):
    return itertools.permutations(range(n))


def test_z_score_does_not_depend_on_the_normalisation():
    X, Y = pair(20, 4, 3)
    for debiased in (False, True):
        scores = [family(debiased=debiased).fit(X, Y).z_score(X, Y) for family in (CKA, HSIC)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-10)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_chance_of_kernel_alignment_is_the_mean_over_all_permutations(n):
    X, Y = pair(n, 3, 2)
    for kernel in ("linear", "rbf", "distance"):
        index = KernelAlignment(kernel).fit(X + 1.0, Y)
        values = [kernel_alignment(X + 1.0, Y[list(order)], kernel=kernel) for order in _orders(n)]
        assert index.chance_ == pytest.approx(sum(values) / len(values), abs=1e-11)


@pytest.mark.parametrize("n", [2, 3])
def test_chance_of_biased_cka_of_two_and_three_rows(n):
    X, Y = pair(n, 3, 2)
    index = CKA().fit(X, Y)
    values = [cka(X, Y[list(order)]) for order in _orders(n)]
    assert index.chance_ == pytest.approx(sum(values) / len(values), abs=1e-11)


@pytest.mark.parametrize("n", [4, 5])
def test_chance_of_distance_correlation_is_the_mean_over_all_permutations(n):
    X, Y = pair(n, 3, 2)
    for params in ({"squared": True}, {"debiased": True}):
        index = DistanceCorrelation(**params).fit(X, Y)
        values = [distance_correlation(X, Y[list(order)], **params) for order in _orders(n)]
        assert index.chance_ == pytest.approx(sum(values) / len(values), abs=1e-11)
    assert math.isnan(DistanceCorrelation().fit(X, Y).chance_)


def test_expected_cka_by_its_formula_and_its_growth_to_1_as_columns_outnumber_rows():
    chances = []
    for p in (5, 50, 500, 5000):
        rng = np.random.default_rng(p)
        X, Y = rng.standard_normal((20, p)), rng.standard_normal((20, p))
        index = CKA().fit(X, Y)
        A, B = (Z @ Z.T for Z in (X - X.mean(axis=0), Y - Y.mean(axis=0)))
        formula = np.trace(A) * np.trace(B) / (19 * np.linalg.norm(A) * np.linalg.norm(B))
        assert index.chance_ == pytest.approx(formula, rel=1e-10)
        chances.append(index.chance_)
    assert chances == sorted(chances)
    assert chances[-1] > 0.99
    assert chances[0] < 0.5


def test_debiased_cka_of_independent_data_averages_zero():
    for p in (2, 8, 64):
        values = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            values.append(cka(rng.standard_normal((20, p)), rng.standard_normal((20, p)), debiased=True))
        standard_error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values)) < 4 * standard_error


def test_the_z_score_is_about_standard_normal_without_correspondence():
    scores = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 4))
        scores.append(CKA("rbf", debiased=True).fit(X, Y).z_score(X, Y))
    assert abs(np.mean(scores)) < 0.3
    assert 0.8 < np.std(scores) < 1.2


def test_centred_alignment_is_kernel_alignment_of_centred_gram_matrices():
    X, Y = pair(9, 3, 4)
    H = np.eye(9) - 1 / 9
    K, L = H @ X @ X.T @ H, H @ Y @ Y.T @ H
    value = kernel_alignment((K + K.T) / 2, (L + L.T) / 2, kernel="precomputed")
    assert value == pytest.approx(cka(X, Y), abs=EXACT)


def test_linear_cka_of_single_columns_is_the_squared_correlation():
    X, Y = pair(25, 1, 1)
    assert cka(X, Y) == pytest.approx(np.corrcoef(X[:, 0], Y[:, 0])[0, 1] ** 2, abs=EXACT)


def test_kernel_target_alignment_is_the_delta_kernel_of_labels():
    X, _ = pair(8, 3, 2)
    labels = ["a", "b", "c", "a", "a", "b", "c", "c"]
    delta = [[1.0 if a == b else 0.0 for b in labels] for a in labels]
    K = bf.gram(bf.floats(X), bf.linear)
    assert cka(X, labels, kernel_y="delta") == pytest.approx(bf.cka(K, delta), abs=EXACT)
    assert cka(X, labels, kernel_y="delta", debiased=True) == pytest.approx(bf.cka(K, delta, True), abs=EXACT)
    assert kernel_alignment(X, labels, kernel_y="delta") == pytest.approx(bf.kernel_alignment(K, delta), abs=EXACT)
    one_hot = np.array([[label == name for name in "abc"] for label in labels], dtype=float)
    assert cka(X, labels, kernel_y="delta") == pytest.approx(cka(X, one_hot), abs=EXACT)
