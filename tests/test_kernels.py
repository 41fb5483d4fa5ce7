"""Kernels against scikit-learn's, bandwidth rules against naive ones, and distances that must keep their digits."""

import math

import brute_force as bf
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise as sk

from sklearn_cka import (
    CKA,
    HSIC,
    KernelAlignment,
    _bandwidths,
    bandwidth_rule_names,
    cka,
    hsic,
    kernel_alignment,
    kernel_names,
    median_distance,
    pairwise_kernel,
    register_kernel,
)
from sklearn_cka import kernels as kernels_module
from sklearn_cka._arrays import to_numpy
from sklearn_cka._linalg import center, cross_squared_distances, order_statistics, squared_distances
from sklearn_cka.testing import index_checks

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

RULES = ["median", "median_with_self", "median_nonzero", "mean", "none"]
# name, parameters of both, name in scikit-learn
SAME_AS_SKLEARN = [
    ("linear", {}, "linear"),
    ("polynomial", {}, "polynomial"),
    ("polynomial", {"degree": 2, "gamma": 0.3, "coef0": 0.5}, "polynomial"),
    ("poly", {"degree": 2}, "poly"),
    ("sigmoid", {}, "sigmoid"),
    ("sigmoid", {"gamma": 0.1, "coef0": -0.5}, "sigmoid"),
    ("cosine", {}, "cosine"),
    ("rbf", {"gamma": 0.7}, "rbf"),
    ("gaussian", {"gamma": 0.7}, "rbf"),
    ("laplacian", {"gamma": 0.7}, "laplacian"),
    ("chi2", {}, "chi2"),
    ("chi2", {"gamma": 0.2}, "chi2"),
    ("additive_chi2", {}, "additive_chi2"),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return np.abs(rng.standard_normal((12, 5))), np.abs(rng.standard_normal((7, 5)))


@pytest.fixture
def registry(monkeypatch):
    """Give back the registry as it was."""
    monkeypatch.setattr(kernels_module, "_KERNELS", dict(kernels_module._KERNELS))


@pytest.mark.parametrize(("kernel", "params", "name"), SAME_AS_SKLEARN)
def test_kernels_of_the_names_of_sklearn_have_its_values(backend, data, kernel, params, name):
    X, Y = data
    expected = sk.pairwise_kernels(X, metric=name, **params)
    K = pairwise_kernel(backend.asarray(X), kernel=kernel, **params)
    np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-12, atol=1e-14)
    expected = sk.pairwise_kernels(X, Y, metric=name, **params)
    K = pairwise_kernel(backend.asarray(X), backend.asarray(Y), kernel=kernel, **params)
    np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("kernel", "params", "name"), SAME_AS_SKLEARN)
def test_float32_stays_float32_and_is_as_close_as_it_can_be(data, kernel, params, name):
    X, Y = (Z.astype(np.float32) for Z in data)
    for args in ((X,), (X, Y)):
        K = pairwise_kernel(*args, kernel=kernel, **params)
        assert K.dtype == np.float32
        expected = sk.pairwise_kernels(*(Z.astype(np.float64) for Z in args), metric=name, **params)
        np.testing.assert_allclose(K, expected, rtol=2e-6, atol=1e-6)


def test_distance_kernel_is_minus_the_euclidean_distance(backend, data):
    X, Y = data
    K = to_numpy(pairwise_kernel(backend.asarray(X), kernel="distance"))
    np.testing.assert_allclose(K, -sk.euclidean_distances(X), atol=1e-7)
    np.testing.assert_allclose(K, bf.gram(bf.floats(X), bf.minus_distance), atol=1e-13)
    assert (np.diagonal(K) == 0).all()
    K = to_numpy(pairwise_kernel(backend.asarray(X), backend.asarray(Y), kernel="distance"))
    np.testing.assert_allclose(K, bf.gram(bf.floats(X), bf.minus_distance, bf.floats(Y)), atol=1e-13)


def test_delta_kernel_compares_labels_within_and_across():
    labels, others = np.array(["a", "b", "a", "c"]), np.array(["b", "c", "d"])
    np.testing.assert_array_equal(
        pairwise_kernel(labels, kernel="delta"), [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    )
    np.testing.assert_array_equal(
        pairwise_kernel(labels, others, kernel="delta"), [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]]
    )


@pytest.mark.parametrize("labels", [[3, 1, 3], [0.5, 0.25, 0.5], [True, False, True], ["x", "y", "x"]])
def test_delta_kernel_takes_labels_of_any_kind_and_shape(labels):
    expected = [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    for form in (labels, np.array(labels), np.array(labels, dtype=object), np.array(labels)[:, None]):
        np.testing.assert_array_equal(pairwise_kernel(form, kernel="delta"), expected)


def test_delta_kernel_on_other_libraries(backend):
    labels, others = backend.asarray([3, 1, 3, 7]), backend.asarray([7, 3, 5])
    np.testing.assert_array_equal(
        to_numpy(pairwise_kernel(labels, others, kernel="delta")), [[0, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]]
    )


@pytest.mark.parametrize("side", ["X", "y"])
def test_delta_kernel_refuses_missing_labels(backend, side):
    X = np.arange(8.0)[:, None]
    labels = np.array([0.0, 1.0, np.nan, 1.0, 0.0, 1.0, 0.0, 1.0])
    kernels = {"kernel": "delta", "kernel_y": "linear"} if side == "X" else {"kernel_y": "delta"}
    args = (labels, X) if side == "X" else (X, labels)
    with pytest.raises(ValueError, match=rf"{side}.*NaN"):
        cka(*map(backend.asarray, args), **kernels)


def test_delta_kernel_refuses_missing_labels_that_are_objects():
    for missing in (None, float("nan")):
        with pytest.raises(ValueError, match=r"y.*NaN"):
            cka(np.arange(4.0)[:, None], np.array(["a", missing, "b", "a"], dtype=object), kernel_y="delta")
    with pytest.raises(ValueError, match=r"class labels.*\(3, 2\)"):
        pairwise_kernel(np.zeros((3, 2)), kernel="delta")


# Bandwidths


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [2, 3, 4, 7, 12])
def test_bandwidth_rules_are_their_definitions(backend, rule, n):
    X = np.random.default_rng(n).standard_normal((n, 3))
    rows = bf.floats(X)
    m = bf.typical_distance(rows, rule)
    Xb = backend.asarray(X)
    assert median_distance(Xb, rule) == pytest.approx(m, rel=1e-12)
    K = pairwise_kernel(Xb, kernel="rbf", bandwidth=0.7, bandwidth_rule=rule)
    np.testing.assert_allclose(to_numpy(K), bf.gram(rows, bf.rbf(0.7 * m)), rtol=1e-11)
    m = bf.typical_distance(rows, rule, bf.manhattan)
    K = pairwise_kernel(Xb, kernel="laplacian", bandwidth=0.7, bandwidth_rule=rule)
    np.testing.assert_allclose(to_numpy(K), bf.gram(rows, bf.laplacian(0.7 * m)), rtol=1e-11)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_cross_form_takes_sigma_from_the_first_rows(backend, data, rule, kernel):
    X, Y = data
    distance = bf.euclidean if kernel == "rbf" else bf.manhattan
    sigma = 0.7 * bf.typical_distance(bf.floats(X), rule, distance)
    K = pairwise_kernel(backend.asarray(X), backend.asarray(Y), kernel=kernel, bandwidth=0.7, bandwidth_rule=rule)
    one = bf.rbf(sigma) if kernel == "rbf" else bf.laplacian(sigma)
    np.testing.assert_allclose(to_numpy(K), bf.gram(bf.floats(X), one, bf.floats(Y)), rtol=1e-11)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_cross_form_of_a_matrix_with_itself_is_its_gram_matrix(data, rule, kernel):
    X, _ = data
    options = {"kernel": kernel, "bandwidth": 0.7, "bandwidth_rule": rule}
    np.testing.assert_allclose(
        pairwise_kernel(X, X.copy(), **options), pairwise_kernel(X, **options), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("rows", [1, 3])
def test_cross_form_of_equal_rows_has_no_bandwidth_and_says_so(kernel, rows):
    with pytest.raises(ValueError, match=r"are equal, so that"):
        pairwise_kernel(np.ones((rows, 2)), np.zeros((4, 2)), kernel=kernel)
    # With sigma given there is nothing to estimate.
    K = pairwise_kernel(np.ones((rows, 1)), np.zeros((4, 1)), kernel=kernel, bandwidth=1.0, bandwidth_rule="none")
    np.testing.assert_allclose(K, math.exp(-0.5) if kernel == "rbf" else math.exp(-1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_form_mixes_precisions(backend, data, dtype):
    X, Y = data
    for kernel in ("linear", "rbf", "laplacian", "polynomial", "distance", "cosine", "chi2"):
        expected = to_numpy(pairwise_kernel(X, Y, kernel=kernel))
        K = pairwise_kernel(backend.asarray(X.astype(dtype)), backend.asarray(Y), kernel=kernel)
        np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-5)
        K = pairwise_kernel(backend.asarray(X), backend.asarray(Y.astype(dtype)), kernel=kernel)
        np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-5)


def test_every_side_gets_its_own_bandwidth():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), 100.0 * rng.standard_normal((30, 2))
    for rule in RULES[:-1]:
        index = CKA("rbf", bandwidth=0.5, bandwidth_rule=rule).fit(X, Y)
        assert index.bandwidth_ == pytest.approx(0.5 * bf.typical_distance(bf.floats(X), rule), rel=1e-12)
        assert index.bandwidth_y_ == pytest.approx(0.5 * bf.typical_distance(bf.floats(Y), rule), rel=1e-12)


def test_kernel_params_y_change_the_second_side_alone():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((10, 4)), rng.standard_normal((10, 2))
    value = cka(X, Y, kernel="rbf", bandwidth=0.5, kernel_params_y={"bandwidth": 2.0, "bandwidth_rule": "mean"})
    expected = bf.cka(bf.rbf_gram(X, 0.5), bf.rbf_gram(Y, 2.0, "mean"))
    assert value == pytest.approx(expected, abs=1e-12)
    value = cka(X, Y, kernel="polynomial", kernel_params={"degree": 2}, kernel_params_y={"degree": 1, "coef0": 0.0})
    K = [[(v / 4 + 1) ** 2 for v in row] for row in bf.gram(bf.floats(X), bf.linear)]
    assert value == pytest.approx(bf.cka(K, bf.gram(bf.floats(Y), bf.linear)), abs=1e-12)


@pytest.mark.parametrize("rule", RULES[:-1])
def test_bandwidth_of_rows_that_mostly_repeat_is_the_median_of_the_distances_that_are_not_0(rule):
    X = np.zeros((20, 3))
    X[:5] = np.random.default_rng(0).standard_normal((5, 3))
    rows = bf.floats(X)
    assert median_distance(X, rule) == pytest.approx(bf.typical_distance(rows, rule), rel=1e-12)
    if rule in ("median", "median_with_self"):
        distances = [bf.euclidean(a, b) for i, a in enumerate(rows) for b in rows[:i]]
        assert median_distance(X, rule) == pytest.approx(bf.median([d for d in distances if d > 0]), rel=1e-12)


@pytest.mark.parametrize("rule", RULES[:-1])
def test_median_distance_of_equal_rows_raises(rule):
    with pytest.raises(ValueError, match="All rows of X are equal"):
        median_distance(np.full((5, 2), 3.7), rule)
    assert median_distance(np.full((5, 2), 3.7), "none") == 1.0


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_typical_distances_follow_the_scale(dtype, scale):
    X = np.random.default_rng(0).standard_normal((20, 3))
    for rule in RULES[:-1]:
        expected = median_distance(X, rule)
        assert median_distance((X * scale).astype(dtype), rule) / scale == pytest.approx(expected, rel=1e-5)


def test_offsets_do_not_change_distances():
    X = np.random.default_rng(0).standard_normal((20, 3))
    shifted = X + 1e8
    rows = bf.exact(shifted)
    assert median_distance(shifted) == pytest.approx(bf.typical_distance(rows, "median"), rel=1e-12)


def test_many_rows_are_sampled_by_seed_and_not_from_the_front(monkeypatch):
    monkeypatch.setattr(_bandwidths, "MAX_ROWS", 400)
    rng = np.random.default_rng(0)
    X = np.sort(rng.standard_normal((2000, 1)), axis=0)  # the first rows are all close to each other
    true = bf.median([abs(a - b) for i, a in enumerate(X[::4, 0]) for b in X[::4, 0][:i]])
    assert median_distance(X) == pytest.approx(true, rel=0.1)
    assert median_distance(X) == median_distance(X)
    assert median_distance(X, random_state=1) != median_distance(X, random_state=2)
    index = CKA("rbf").fit(X, X**2)
    assert index.bandwidth_ == pytest.approx(median_distance(X), rel=1e-12)
    K = pairwise_kernel(X, kernel="rbf")
    assert K[0, 1500] == pytest.approx(math.exp(-((X[0, 0] - X[1500, 0]) ** 2) / (2 * index.bandwidth_**2)), rel=1e-9)
    # The form with two arguments looks at the same rows.
    assert pairwise_kernel(X, X[1500:1501], kernel="rbf")[0, 0] == pytest.approx(K[0, 1500], rel=1e-9)


def test_alignment_with_large_and_small_gamma_or_sigma_in_float32():
    """exp(-d^2/2 sigma^2) at extreme ratios of the data to sigma: identity and linear limit, never NaN."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 3))
    linear = cka(X, Y)
    for dtype in (np.float32, np.float64):
        X2, Y2 = X.astype(dtype), Y.astype(dtype)
        for kernel in ("rbf", "laplacian"):
            for scale in (1e12, 1e20, 1e30):
                for options in ({"bandwidth_rule": "none"}, {"gamma": 1.0}):
                    assert cka(X2 * dtype(scale), Y2 * dtype(scale), kernel=kernel, **options) == pytest.approx(1.0)
                    value = kernel_alignment(X2 * dtype(scale), Y2 * dtype(scale), kernel=kernel, **options)
                    assert value == pytest.approx(1.0)
        for scale in (1e-12, 1e-20, 1e-30):
            for options in ({"bandwidth_rule": "none"}, {"gamma": 1.0}):
                value = cka(X2 * dtype(scale), Y2 * dtype(scale), kernel="rbf", **options)
                assert value == pytest.approx(linear, abs=1e-5)
        for bandwidth in (1e-200, 1e-100, 1e-25):
            assert cka(X2, Y2, kernel="rbf", bandwidth=bandwidth) == pytest.approx(1.0)
        for bandwidth in (1e25, 1e100, 1e200):
            assert cka(X2, Y2, kernel="rbf", bandwidth=bandwidth) == pytest.approx(linear, abs=1e-5)
            assert kernel_alignment(X2, Y2, kernel="rbf", bandwidth=bandwidth) == pytest.approx(1.0)


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.nan, math.inf, "wide", None, True])
def test_bandwidths_that_are_none_are_refused_at_fit(bandwidth):
    X = np.arange(8.0)[:, None]
    index = CKA("rbf", bandwidth=bandwidth)  # not in the constructor
    with pytest.raises(ValueError, match="bandwidth must be a positive finite number, got"):
        index.fit(X, X)
    with pytest.raises(ValueError, match="bandwidth must be a positive finite number, got"):
        pairwise_kernel(X, kernel="rbf", bandwidth=bandwidth)


@pytest.mark.parametrize("gamma", [0, -1.0, math.nan, math.inf, "wide"])
def test_gammas_that_are_none_are_refused(gamma):
    X = np.arange(8.0)[:, None]
    with pytest.raises(ValueError, match="gamma must be a positive finite number, got"):
        CKA("rbf", gamma=gamma).fit(X, X)
    with pytest.raises(ValueError, match="gamma must be a positive finite number, got"):
        pairwise_kernel(X, kernel="rbf", gamma=gamma)


def test_bandwidth_learned_by_fit_is_used_by_score():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    index = CKA("rbf").fit(X, Y)
    other, other_y = 3.0 * rng.standard_normal((9, 3)), rng.standard_normal((9, 2))
    K = bf.gram(bf.floats(other), bf.rbf(index.bandwidth_))
    L = bf.gram(bf.floats(other_y), bf.rbf(index.bandwidth_y_))
    assert index.score(other, other_y) == pytest.approx(bf.cka(K, L), abs=1e-12)


# Distances


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distance_of_rows_close_to_each_other_keeps_its_digits(backend, dtype):
    """800 features of 2 and 2.002: 0.0565712, which the expanded square gets 13 % wrong in float32."""
    a, b = np.full((1, 800), 2, dtype), np.full((1, 800), 2.002, dtype)
    true = bf.euclidean(bf.exact(a)[0], bf.exact(b)[0])
    both = backend.asarray(np.concatenate([a, b]))
    for K in (
        pairwise_kernel(both, kernel="distance"),
        pairwise_kernel(backend.asarray(a), backend.asarray(b), kernel="distance"),
    ):
        assert -float(to_numpy(K)[0, -1]) == pytest.approx(true, rel=1e-5)
    if dtype == np.float32:
        assert true == pytest.approx(0.0565712, abs=5e-8)


def test_distance_matrix_does_not_depend_on_the_number_of_rows(backend):
    A = (1000 + 0.1 * np.random.default_rng(0).standard_normal((40, 8))).astype("f4")
    whole = -to_numpy(pairwise_kernel(backend.asarray(A), kernel="distance"))
    two = -to_numpy(pairwise_kernel(backend.asarray(A[[3, 7]]), kernel="distance"))
    assert whole[3, 7] == pytest.approx(0.3228209, rel=2e-6)
    assert two[0, 1] == pytest.approx(0.3228209, rel=2e-6)
    assert (np.diagonal(whole) == 0).all()
    assert (whole >= 0).all()
    np.testing.assert_array_equal(whole, whole.T)


def test_distance_of_large_scalars_close_to_each_other(backend):
    A = np.array([[700001.0], [700100.0], [0.0], [1e6]], dtype="f4")
    K = to_numpy(pairwise_kernel(backend.asarray(A), kernel="distance"))
    assert K[0, 1] == -99.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outlier", [0.0, 1e3, 1e6])
def test_near_duplicates_beside_an_outlier_keep_their_distance(backend, dtype, outlier):
    """The centre lies far from all rows but one: the expanded square has nothing left of their distances."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 6))
    X[5:] = X[:5] * (1 + 1e-3)
    X = np.concatenate([X, np.full((1, 6), 1.0 + outlier)]).astype(dtype)
    true = np.array(bf.gram(bf.exact(X), bf.minus_distance))
    K = to_numpy(pairwise_kernel(backend.asarray(X), kernel="distance"))
    np.testing.assert_allclose(K, true, rtol=1e-3 if dtype == np.float32 else 1e-6)
    cross = to_numpy(pairwise_kernel(backend.asarray(X), backend.asarray(X.copy()), kernel="distance"))
    np.testing.assert_allclose(cross, true, rtol=1e-3 if dtype == np.float32 else 1e-6)


def test_exact_duplicates_are_at_distance_0(backend):
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        X = (rng.standard_normal((6, 50)) + 3.0).astype(dtype)
        X = backend.asarray(np.concatenate([X, X, X]))
        D = to_numpy(pairwise_kernel(X, kernel="distance"))
        assert (D.reshape(3, 6, 3, 6)[:, np.arange(6), :, np.arange(6)] == 0).all()
        K = to_numpy(pairwise_kernel(X, kernel="rbf"))
        assert (K.reshape(3, 6, 3, 6)[:, np.arange(6), :, np.arange(6)] == 1).all()


def test_squared_distances_are_symmetric_non_negative_and_0_on_the_diagonal(backend):
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((50, 200)).astype(np.float32)
        X[25:] = X[:25] + np.float32(1e-6)
        D = to_numpy(squared_distances(center(backend.asarray(X)).values))
        assert (D >= 0).all()
        assert (np.diagonal(D) == 0).all()
        np.testing.assert_allclose(D, D.T, rtol=1e-5)
        C = to_numpy(cross_squared_distances(*(center(backend.asarray(Z)).values for Z in (X, X[:10] + 1))))
        assert (C >= 0).all()


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 60_000, 200_003])
@pytest.mark.parametrize("kind", ["normal", "sorted", "ties", "constant", "periodic"])
def test_order_statistics_are_those_of_the_sorted_values(backend, size, kind):
    rng = np.random.default_rng(size)
    values = {
        "normal": lambda: rng.standard_normal(size),
        "sorted": lambda: np.sort(rng.standard_normal(size)),
        "ties": lambda: rng.integers(0, 3, size).astype(float),
        "constant": lambda: np.full(size, 2.5),
        "periodic": lambda: np.arange(size, dtype=float) % 21,  # in step with a regular sample
    }[kind]()
    ordered = np.sort(values)
    for rank in {0, size // 3, size // 2, size - 1}:
        ranks = [rank, min(rank + 1, size - 1)]
        assert order_statistics(backend.asarray(values), ranks) == [ordered[r] for r in ranks]


def test_median_of_many_rows_is_exact():
    X = np.random.default_rng(0).standard_normal((400, 3))  # 160,000 distances: the bracketed search
    for rule in ("median", "median_with_self", "median_nonzero"):
        distances = sk.euclidean_distances(X)
        np.fill_diagonal(distances, 0.0)
        upper = distances[np.triu_indices(400, 1)]
        expected = {
            "median": np.median(upper),
            "median_with_self": math.sqrt(np.median(distances**2)),
            "median_nonzero": math.sqrt(np.median(upper**2)),
        }[rule]
        assert median_distance(X, rule) == pytest.approx(expected, rel=1e-10)


# Kernels of one's own


def test_a_callable_is_a_kernel_of_whole_matrices(backend, data):
    X, Y = data
    seen = []

    def kernel(A, B):
        seen.append((A.shape, B.shape))
        return (A @ backend.xp.matrix_transpose(B)) ** 2

    K = pairwise_kernel(backend.asarray(X), backend.asarray(Y), kernel=kernel)
    np.testing.assert_allclose(to_numpy(K), (X @ Y.T) ** 2)
    value = cka(backend.asarray(X), backend.asarray(X[:, :2]), kernel=kernel)
    K, L = ([[v**2 for v in row] for row in bf.gram(bf.floats(Z), bf.linear)] for Z in (X, X[:, :2]))
    assert value == pytest.approx(bf.cka(K, L), abs=1e-12)
    assert all(left[0] in (12, 7) and right[0] in (12, 7) for left, right in seen)


def test_a_callable_takes_kernel_params(data):
    X, _ = data

    def kernel(A, B, power=1.0):
        return (A @ B.T) ** power

    value = cka(X, X[:, :2], kernel=kernel, kernel_params={"power": 3.0})
    K, L = ([[v**3 for v in row] for row in bf.gram(bf.floats(Z), bf.linear)] for Z in (X, X[:, :2]))
    assert value == pytest.approx(bf.cka(K, L), abs=1e-12)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: float(A[0] @ B[0]), r"must take two whole matrices and return an array of shape \(12, 12\)"),
        (lambda A, B: (A @ B.T)[:, :3], r"returned \(12, 3\) for 12 and 12 rows"),
        (lambda A, B: A @ B.T * np.arange(12.0), "must be symmetric"),
        (lambda A, B: np.where(A @ B.T > 2, np.nan, 1.0), "NaN"),
        (lambda A, B: None, "returned NoneType"),
    ],
)
def test_a_callable_that_returns_no_gram_matrix_is_refused(data, kernel, message):
    X, _ = data
    with pytest.raises(ValueError, match=message):
        cka(X, X, kernel=kernel)


@pytest.mark.parametrize(
    "kernel", [gp.RBF(2.0), gp.Matern(1.5, nu=2.5), gp.RationalQuadratic(), gp.RBF(1.0) + gp.DotProduct(0.5)]
)
def test_gaussian_process_kernels_are_kernels(backend, data, kernel):
    X, Y = data
    np.testing.assert_allclose(to_numpy(pairwise_kernel(backend.asarray(X), kernel=kernel)), kernel(X))
    np.testing.assert_allclose(
        to_numpy(pairwise_kernel(backend.asarray(X), backend.asarray(Y), kernel=kernel)), kernel(X, Y)
    )
    value = cka(backend.asarray(X), backend.asarray(X[:, :2]), kernel=kernel)
    assert value == pytest.approx(bf.cka(kernel(X).tolist(), kernel(X[:, :2]).tolist()), abs=1e-12)


def test_a_registered_kernel_is_used_by_name(registry, data):
    X, _ = data
    register_kernel("squared", lambda A, B, factor=1.0: factor * (A @ B.T) ** 2)
    assert "squared" in kernel_names()
    np.testing.assert_allclose(pairwise_kernel(X, kernel="squared", factor=2.0), 2.0 * (X @ X.T) ** 2)
    assert CKA("squared").fit(X, X[:, :1]).similarity_ == pytest.approx(
        cka(X, X[:, :1], kernel=lambda A, B: (A @ B.T) ** 2)
    )
    assert hsic(X, X, kernel="squared", kernel_params={"factor": 3.0}) == pytest.approx(
        9 * hsic(X, X, kernel="squared")
    )


def test_registering_a_kernel_checks_name_and_function(registry):
    with pytest.raises(ValueError, match="'rbf' belongs to the package"):
        register_kernel("rbf", lambda A, B: A @ B.T, overwrite=True)
    with pytest.raises(ValueError, match="'poly' belongs to the package"):
        register_kernel("poly", lambda A, B: A @ B.T)
    with pytest.raises(TypeError, match="name must be a string, got 3"):
        register_kernel(3, lambda A, B: A @ B.T)
    with pytest.raises(TypeError, match="function must be callable"):
        register_kernel("mine", "linear")
    register_kernel("mine", lambda A, B: A @ B.T)
    with pytest.raises(ValueError, match="registered already; pass overwrite=True"):
        register_kernel("mine", lambda A, B: 2 * A @ B.T)
    register_kernel("mine", lambda A, B: 2 * A @ B.T, overwrite=True)
    assert pairwise_kernel([[1.0]], kernel="mine")[0, 0] == 2.0


def test_registering_leaves_the_registry_of_sklearn_alone(registry):
    before = dict(sk.PAIRWISE_KERNEL_FUNCTIONS)
    register_kernel("mine", lambda A, B: A @ B.T)
    assert before == sk.PAIRWISE_KERNEL_FUNCTIONS


def test_built_in_functions_without_a_signature_can_be_registered(registry):
    register_kernel("inner", np.inner)  # a C function: its signature may be unknown
    np.testing.assert_allclose(pairwise_kernel([[1.0], [2.0]], kernel="inner"), [[1, 2], [2, 4]])


# Errors


def test_unknown_names_list_the_valid_ones():
    X = np.arange(8.0)[:, None]
    for call in (
        lambda: cka(X, X, kernel="rbff"),
        lambda: cka(X, X, kernel_y="rbff"),
        lambda: pairwise_kernel(X, kernel="rbff"),
        lambda: CKA("rbff").fit(X, X),
        lambda: KernelAlignment(kernel_y="rbff").fit(X, X),
    ):
        with pytest.raises(ValueError, match=r"Unknown kernel.*'rbff'.*chi2.*linear.*rbf"):
            call()
    for call in (
        lambda: cka(X, X, kernel="rbf", bandwidth_rule="medain"),
        lambda: pairwise_kernel(X, kernel="rbf", bandwidth_rule="medain"),
        lambda: median_distance(X, "medain"),
    ):
        with pytest.raises(ValueError, match=r"Unknown bandwidth_rule 'medain'.*median, median_with_self.*none"):
            call()


@pytest.mark.parametrize("kernel", [3, None, ["rbf"], np.array("rbf")])
def test_kernels_that_are_neither_names_nor_functions_are_refused(kernel):
    X = np.arange(8.0)[:, None]
    with pytest.raises(TypeError, match="kernel must be a name or a callable"):
        cka(X, X, kernel=kernel)


def test_parameters_that_a_kernel_does_not_have_are_refused():
    X = np.arange(8.0)[:, None]
    for kernel in ("linear", "rbf", "cosine", "distance"):
        with pytest.raises(ValueError, match=f"{kernel} kernel has no parameter degree"):
            cka(X, X, kernel=kernel, kernel_params={"degree": 2})
        with pytest.raises(ValueError, match=f"{kernel} kernel has no parameter degree"):
            pairwise_kernel(X, kernel=kernel, degree=2)
    with pytest.raises(ValueError, match="gamma was given, but the kernel 'linear' has no parameter gamma"):
        cka(X, X, gamma=2.0)
    with pytest.raises(ValueError, match="linear kernel has no parameter gamma"):
        pairwise_kernel(X, gamma=2.0)


def test_form_feature_is_for_linear_kernels_alone():
    X = np.arange(8.0)[:, None]
    for params in ({"kernel": "rbf"}, {"kernel_y": "rbf"}, {"kernel": lambda A, B: A @ B.T}):
        with pytest.raises(ValueError, match='form="feature" is for the linear kernel'):
            cka(X, X, form="feature", **params)


def test_names_of_kernels_and_rules():
    assert {
        "linear",
        "rbf",
        "laplacian",
        "polynomial",
        "sigmoid",
        "cosine",
        "chi2",
        "additive_chi2",
        "distance",
    } <= set(kernel_names())
    assert {"delta", "precomputed"} <= set(kernel_names())
    assert bandwidth_rule_names() == RULES


def test_widths_that_differ_between_the_two_sets_of_rows():
    with pytest.raises(ValueError, match="X has 2 features and Y has 3"):
        pairwise_kernel(np.zeros((4, 2)), np.zeros((4, 3)))


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_negative_data_under_a_kernel_of_counts(kernel):
    with pytest.raises(ValueError, match=f"Negative values in data passed to the {kernel} kernel"):
        cka(np.arange(-3.0, 3.0)[:, None], np.arange(6.0)[:, None], kernel=kernel)


# Precomputed Gram matrices


def test_precomputed_gram_matrices_give_the_value_of_their_features(backend):
    rng = np.random.default_rng
    X = rng(0).standard_normal((40, 6))
    Y = X[:, :4] + rng(1).standard_normal((40, 4))
    K, L = backend.asarray(X @ X.T), backend.asarray(Y @ Y.T)
    assert cka(K, L, kernel="precomputed") == pytest.approx(0.628230, abs=1e-6)
    assert hsic(K, L, kernel="precomputed") == pytest.approx(7.621591, abs=1e-6)
    assert cka(K, L, kernel="precomputed", debiased=True) == pytest.approx(cka(X, Y, debiased=True), abs=1e-12)
    assert cka(K, backend.asarray(Y), kernel="precomputed", kernel_y="linear") == pytest.approx(cka(X, Y), abs=1e-12)
    assert HSIC("precomputed").fit(K, L).similarity_ == pytest.approx(hsic(X, Y), rel=1e-12)
    assert pairwise_kernel(K, kernel="precomputed") is not None
    np.testing.assert_array_equal(to_numpy(pairwise_kernel(K, kernel="precomputed")), X @ X.T)


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precomputed_gram_matrices_of_any_scale(scale, dtype):
    X = np.random.default_rng(0).standard_normal((20, 6))
    Y = X[:, :4] + np.random.default_rng(1).standard_normal((20, 4))
    K, L = X @ X.T, Y @ Y.T
    value = cka((K * scale).astype(dtype), L.astype(dtype), kernel="precomputed")
    assert value == pytest.approx(cka(X, Y), abs=1e-5 if dtype == np.float32 else 1e-12)
    value = hsic((K * scale).astype(dtype), L.astype(dtype), kernel="precomputed")
    assert value / scale == pytest.approx(hsic(X, Y), rel=1e-5)


def test_matrices_that_are_no_gram_matrix_are_refused():
    K = np.eye(5)
    lopsided = K.copy()
    lopsided[0, 1] = 0.5
    with pytest.raises(ValueError, match=r"square matrix.*\(5, 4\)"):
        cka(K[:, :4], K, kernel="precomputed")
    with pytest.raises(ValueError, match="must be symmetric"):
        cka(K, lopsided, kernel="precomputed")
    with pytest.raises(ValueError, match="takes the Gram matrix as X and no Y"):
        pairwise_kernel(K, K, kernel="precomputed")


def test_folds_that_slice_a_gram_matrix_to_test_by_training_rows_get_an_error_that_says_so():
    from sklearn.model_selection import cross_val_score

    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(ValueError, match=r"[Aa] slice of test rows by training rows"):
        cross_val_score(CKA("precomputed", kernel_y="linear"), X @ X.T, X, cv=2, error_score="raise")


def test_a_bandwidth_from_a_sample_in_which_all_rows_are_equal_looks_at_all_rows(monkeypatch):
    monkeypatch.setattr(_bandwidths, "MAX_ROWS", 10)
    X = np.zeros((60, 2))
    left_out = sorted(set(range(60)) - set(_bandwidths.subset_rows(60)))[:2]
    X[left_out] = [[3.0, 4.0], [3.0, 4.0]]
    Y = np.random.default_rng(0).standard_normal((60, 2))
    index = CKA("rbf").fit(X, Y)
    assert index.bandwidth_ == pytest.approx(5.0)
    assert math.isfinite(index.similarity_)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", None, "a"]),
        pd.Series(["a", "b", None, "a"], dtype="string"),
        pd.Series(pd.Categorical(["a", "b", None, "a"])),
        pd.Series([1, 2, None, 1], dtype="Int64"),
        pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01", None, "2020-01-01"])),
        np.array(["2020", "NaT", "2021", "2020"], dtype="datetime64[Y]"),
        ["a", "b", None, "a"],
    ],
    ids=["object", "string", "category", "Int64", "datetime", "datetime64", "list"],
)
def test_missing_labels_of_any_kind_are_refused(labels):
    with pytest.raises(ValueError, match=r"Input y contains NaN"):
        cka(np.arange(4.0)[:, None], labels, kernel_y="delta")


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", "a", "c"], dtype="string"),
        pd.Series(pd.Categorical(["a", "b", "a", "c"], categories=list("zcba"))),
        pd.DataFrame({"label": ["a", "b", "a", "c"]}),
        pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01", "2020-01-01", "2022-01-01"])),
        np.array(["a", 1, "a", 1.5], dtype=object),
        np.array([(1, 2), (3, 4), (1, 2), (5, 6)], dtype="i,i").astype(object),
        [["a"], ["b"], ["a"], ["c"]],
        [b"a", b"b", b"a", b"c"],
    ],
    ids=["string", "category", "frame", "datetime", "mixed", "tuples", "column", "bytes"],
)
def test_labels_need_only_be_equal_or_not(labels):
    expected = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(pairwise_kernel(labels, kernel="delta"), expected)
    np.testing.assert_array_equal(pairwise_kernel(labels, labels, kernel="delta"), expected)
    X = np.random.default_rng(0).standard_normal((4, 2))
    assert cka(X, labels, kernel_y="delta") == pytest.approx(cka(X, [0, 1, 0, 2], kernel_y="delta"), abs=1e-14)


def test_text_is_not_the_number_that_it_shows():
    np.testing.assert_array_equal(pairwise_kernel(["1", "2"], [1, 2], kernel="delta"), np.zeros((2, 2)))


# Parameters of kernels


def test_a_callable_keeps_its_own_parameters_of_any_name(data):
    X, _ = data
    for name in ("gamma", "bandwidth", "bandwidth_rule", "degree"):

        def kernel(A, B, **params):
            (value,) = params.values()
            return (A @ B.T) ** value

        value = cka(X, X[:, :2], kernel=kernel, kernel_params={name: 3.0})
        assert value == pytest.approx(cka(X, X[:, :2], kernel=lambda A, B: (A @ B.T) ** 3.0), abs=1e-14)


def test_a_registered_kernel_keeps_its_own_parameters_of_any_name(registry, data):
    X, _ = data
    expected = cka(X, X[:, :2], kernel=lambda A, B: (A @ B.T) ** 3.0)
    register_kernel("by_bandwidth", lambda A, B, bandwidth=1.0: (A @ B.T) ** bandwidth)
    register_kernel("by_gamma", lambda A, B, gamma=1.0: (A @ B.T) ** gamma)
    assert cka(X, X[:, :2], kernel="by_bandwidth", kernel_params={"bandwidth": 3.0}) == pytest.approx(expected)
    assert cka(X, X[:, :2], kernel="by_gamma", kernel_params={"gamma": 3.0}) == pytest.approx(expected)
    assert cka(X, X[:, :2], kernel="by_gamma", gamma=3.0) == pytest.approx(expected)


def test_parameters_among_kernel_params_are_checked_as_the_others(data):
    X, _ = data
    assert cka(X, X**2, kernel="rbf", kernel_params={"bandwidth": 0.5}) == cka(X, X**2, kernel="rbf", bandwidth=0.5)
    assert cka(X, X**2, kernel="rbf", kernel_params={"gamma": 0.5}) == cka(X, X**2, kernel="rbf", gamma=0.5)
    for params, message in (
        ({"kernel": "rbf", "kernel_params": {"gamma": -1.0}}, "gamma must be a positive finite number, got -1.0"),
        ({"kernel": "rbf", "kernel_params": {"bandwidth": "a"}}, "bandwidth must be a positive finite number, got 'a'"),
        ({"kernel": "rbf", "kernel_params_y": {"bandwidth_rule": "x"}}, "Unknown bandwidth_rule 'x'"),
        ({"kernel_params": {"gamma": 2.0}}, "linear kernel has no parameter gamma"),
        ({"kernel": "polynomial", "kernel_params": {"degree": "two"}}, "degree must be a finite number, got 'two'"),
        ({"kernel": "sigmoid", "kernel_params": {"coef0": None}}, "coef0 must be a finite number, got None"),
        (
            {"kernel": gp.RBF(2.0), "kernel_params": {"length_scale": 3.0}},
            "holds its own parameters and takes no length",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            CKA(**params).fit(X, X)


def test_kernels_that_are_not_defined_for_the_data_say_so():
    X = np.arange(-3.0, 3.0)[:, None]
    with pytest.raises(
        ValueError, match=r"Gram matrix of the polynomial kernel with parameters {'degree': 2.5} contains NaN"
    ):
        cka(X, X, kernel="polynomial", kernel_params={"degree": 2.5})
    with pytest.raises(ValueError, match="too large for float32"):
        cka((X * 1e15).astype("f4"), X.astype("f4"), kernel="polynomial")


def test_length_scales_of_gaussian_process_kernels_can_be_searched(data):
    from sklearn.model_selection import GridSearchCV

    X, _ = data
    search = GridSearchCV(CKA(gp.RBF()), {"kernel__length_scale": [0.5, 5.0]}, cv=2).fit(X, X**2)
    assert search.best_params_ == {"kernel__length_scale": 0.5}  # the trap: the narrower the nearer to 1


@pytest.mark.parametrize("kind", [CKA, HSIC, KernelAlignment])
@pytest.mark.parametrize(
    "params", [{"coef0": 0}, {"degree": 1}, {"degree": 1, "coef0": 0}, {"degree": 2}, {"coef0": 0.5}]
)
def test_what_powers_of_inner_products_are_invariant_to_is_declared(kind, params):
    index = kind("polynomial", kernel_params=params)
    is_ratio, is_centred = kind is not HSIC, kind is not KernelAlignment
    is_affine = is_centred and params.get("degree") == 1
    expected = {"permutation", "orthogonal"} | ({"translation"} if is_affine else set())
    if is_ratio and (is_affine or params.get("coef0") == 0):
        expected.add("isotropic_scaling")
    assert index.properties.invariances == expected
    dict(index_checks(index))["check_invariances"]()
