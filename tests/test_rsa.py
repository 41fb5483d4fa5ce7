"""RSA and RDMs against the definitions in extended precision, explicit covariances and SciPy's statistics."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from sklearn.model_selection import cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    RSA,
    UndefinedSimilarityWarning,
    cka,
    compare_layers,
    distance_correlation,
    get_index,
    rdm,
    rsa,
)
from sklearn_cka._arrays import to_numpy
from sklearn_cka.indexes._rdm import METRICS
from sklearn_cka.indexes.rsa import COMPARISONS
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
METRIC_PAIRS = [
    ("correlation", "same"),
    ("euclidean", "correlation"),
    ("cosine", "cityblock"),
    ("sqeuclidean", "same"),
    ("mahalanobis", "euclidean"),
]
rng = np.random.default_rng


def pairs(n):
    return list(itertools.combinations(range(n), 2))


def distances(X, metric):
    """The distances above the diagonal, one pair at a time, in extended precision."""
    X = np.asarray(X, dtype=np.longdouble)
    n = len(X)
    if metric == "mahalanobis":
        C = X - X.mean(axis=0)
        precision = np.linalg.pinv(
            np.cov(C.astype(float).T, ddof=1).reshape(X.shape[1], -1), rcond=1e-9, hermitian=True
        )
        return np.array([math.sqrt(max(0.0, (C[i] - C[j]) @ precision @ (C[i] - C[j]))) for i, j in pairs(n)])
    if metric == "correlation":
        X = X - X.mean(axis=1, keepdims=True)
    if metric in ("correlation", "cosine"):
        with np.errstate(invalid="ignore"):
            X = X / np.sqrt((X**2).sum(axis=1, keepdims=True))
        return np.array([float(1 - X[i] @ X[j]) for i, j in pairs(n)])
    between = [np.abs(X[i] - X[j]) for i, j in pairs(n)]
    of_metric = {
        "euclidean": lambda d: np.sqrt((d**2).sum()),
        "sqeuclidean": lambda d: (d**2).sum(),
        "cityblock": lambda d: d.sum(),
    }
    return np.array([float(of_metric[metric](d)) for d in between])


def covariance_of_distances(n):
    """V of Diedrichsen et al. (2021) for noise that is alike and independent over rows: (C C')^2, entry by entry."""
    C = np.zeros((n * (n - 1) // 2, n))
    for row, (i, j) in enumerate(pairs(n)):
        C[row, i], C[row, j] = 1.0, -1.0
    return (C @ C.T) ** 2


def ranks(v):
    """Mean ranks from 1, ties by a relative difference of 1e-11 of the largest."""
    v = np.asarray(v, dtype=float)
    v = v / v.max()
    return np.array([(v < x - 1e-11).sum() + ((np.abs(v - x) <= 1e-11).sum() + 1) / 2 for x in v])


def reference(r, s, comparison):
    m = len(r)
    n = int((1 + math.sqrt(1 + 8 * m)) / 2)
    if comparison == "pearson":
        return np.corrcoef(r, s)[0, 1]
    if comparison == "cosine":
        return r @ s / math.sqrt((r @ r) * (s @ s))
    if comparison.startswith("whitened"):
        if comparison == "whitened_pearson":
            r, s = r - r.mean(), s - s.mean()
        inverse = np.linalg.inv(covariance_of_distances(n))
        return r @ inverse @ s / math.sqrt((r @ inverse @ r) * (s @ inverse @ s))
    r, s = ranks(r), ranks(s)
    if comparison == "spearman":
        return np.corrcoef(r, s)[0, 1]
    if comparison == "rho_a":
        return 12 * ((r - (m + 1) / 2) @ (s - (m + 1) / 2)) / (m**3 - m)
    agreement = sum(np.sign(r[i] - r[j]) * np.sign(s[i] - s[j]) for i, j in pairs(m))
    if comparison == "kendall_tau_a":
        return agreement / (m * (m - 1) / 2)
    untied = [sum(v[i] != v[j] for i, j in pairs(m)) for v in (r, s)]
    return agreement / math.sqrt(untied[0] * untied[1])


def is_defined(v):
    return np.isfinite(v).all() and v.max() > 1e-9 and np.ptp(v) > 1e-9 * v.max()


def data(seed, n, p, kind, scale):
    X = rng(seed).standard_normal((n, p))
    if kind == "duplicated":
        X[:, -1] = X[:, 0]
    elif kind == "offset":
        X = X + 1000.0 * rng(seed + 1).standard_normal(p)
    elif kind == "grid":
        X = rng(seed).integers(0, 3, size=(n, p)) + np.arange(p) * 0.25 + np.linspace(0, 1, n)[:, None] ** 2 * (p == 1)
    elif kind == "low_rank":
        u, v, w = (rng(seed + i).integers(-5, 6, size=shape) for i, shape in enumerate(((n, 1), (1, p), (n, 1))))
        X = (u @ v + w).astype(float)
    return X * scale


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance, (value, expected)


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize(("metric", "metric_y"), METRIC_PAIRS)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(4, 9),
    p=st.sampled_from([2, 3, 8, 20]),
    q=st.sampled_from([2, 5, 9]),
    kind=st.sampled_from(["plain", "duplicated", "offset", "grid", "low_rank"]),
    scale=st.sampled_from([1.0, 2.0**-30, 2.0**30]),
)
def test_rsa_is_the_comparison_of_distances_written_out(comparison, metric, metric_y, seed, n, p, q, kind, scale):
    X, Y = data(seed, n, p, kind, scale), data(seed + 10, n, q, "plain", 1.0)
    r, s = distances(X, metric), distances(Y, metric if metric_y == "same" else metric_y)
    unit = {"euclidean": scale, "cityblock": scale, "sqeuclidean": scale**2}.get(metric, 1.0)
    if not (is_defined(r / unit) and is_defined(s)):
        return  # the tests of undefined values are below
    if metric == "mahalanobis" and np.linalg.matrix_rank((X - X.mean(axis=0)) / scale, tol=1e-6) >= n - 1:
        return  # all distances are alike but for rounding
    # Rows that share a large profile are 1e-6 apart in angle: the last places of the data are that much larger there.
    tolerance = 1e-8 if kind == "offset" and {"correlation", "cosine"} & {metric} else 1e-10
    value = rsa(X, Y, metric=metric, metric_y=metric_y, comparison=comparison)
    close(value, reference(r, s, comparison), tolerance)


@pytest.mark.parametrize("metric", ["correlation", "cosine", "euclidean", "sqeuclidean", "cityblock", "mahalanobis"])
@pytest.mark.parametrize(("n", "p"), [(12, 3), (30, 30), (8, 20), (5, 1), (40, 7)])
def test_rdm_is_that_of_scipy(metric, n, p):
    if p == 1 and metric in ("correlation", "cosine"):
        pytest.skip("undefined or trivial for one feature")
    X = rng(n * p).standard_normal((n, p)) + 3.0
    if metric == "mahalanobis" and p >= n - 1:
        pytest.skip("SciPy inverts the singular covariance")
    expected = squareform(pdist(X, metric))
    np.testing.assert_allclose(rdm(X, metric), expected, rtol=1e-10, atol=1e-12)


def test_mahalanobis_distances_of_singular_covariance_are_those_in_the_span():
    B = rng(0).standard_normal((20, 3))
    X = B @ rng(1).standard_normal((3, 8)) + 5.0
    np.testing.assert_allclose(rdm(X, "mahalanobis"), rdm(B, "mahalanobis"), rtol=1e-9, atol=1e-9)


def test_mahalanobis_distances_at_full_rank_are_all_alike_and_compare_with_nothing():
    X, Y = rng(0).standard_normal((8, 12)), rng(1).standard_normal((8, 3))
    D = rdm(X, "mahalanobis")
    np.testing.assert_allclose(D[np.triu_indices(8, 1)], math.sqrt(14.0), rtol=1e-14)
    for comparison in ("spearman", "pearson", "kendall", "whitened_pearson"):
        with pytest.warns(UndefinedSimilarityWarning, match="X: all distances between its rows are alike"):
            assert math.isnan(rsa(X, Y, metric="mahalanobis", comparison=comparison))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rdm_is_symmetric_not_negative_and_zero_on_the_diagonal(backend, metric, dtype):
    X = (1e3 + 0.1 * rng(0).standard_normal((33, 5))).astype(dtype)
    X[7] = X[3]
    D = rdm(backend.asarray(X), metric)
    assert type(D) is type(backend.asarray(X))
    D = to_numpy(D)
    assert D.dtype == dtype
    assert (D == D.T).all()
    assert (np.diagonal(D) == 0.0).all()
    assert (D >= 0.0).all()
    if metric != "mahalanobis":  # its distance of the two is rounding of a singular vector
        assert D[7, 3] == 0.0


def test_euclidean_rdm_keeps_the_distance_of_close_rows_far_from_the_origin():
    a, b = np.full((1, 800), 2, "f4"), np.full((1, 800), 2.002, "f4")
    assert round(float(rdm(np.vstack([a, b]), "euclidean")[0, 1]), 7) == 0.0565712
    A = (1000 + 0.1 * rng(0).standard_normal((40, 8))).astype("f4")
    assert round(float(rdm(A, "euclidean")[3, 7]), 6) == round(0.3228209, 6)
    assert round(float(rdm(A[[3, 7]], "euclidean")[0, 1]), 6) == round(0.3228209, 6)
    scalars = np.array([[700001.0], [700100.0]], "f4")
    assert float(rdm(scalars, "euclidean")[0, 1]) == 99.0


def test_rdm_of_any_scale_has_that_scale():
    X = rng(0).standard_normal((9, 4))
    for metric, power in (("euclidean", 1), ("sqeuclidean", 2), ("cityblock", 1), ("correlation", 0)):
        for scale in (1e-100, 1e100):
            np.testing.assert_allclose(rdm(X * scale, metric), rdm(X, metric) * scale**power, rtol=1e-12)


def test_correlation_rdm_standardises_rows_and_keeps_the_sign():
    M = np.array([[1.0, 2, 4], [3, 3, 6], [5, 1, 2], [2, 7, 3]])
    upper = np.triu_indices(4, 1)
    expected = [0.055089, 1.576557, 1, 1.277350, 1.327327, 1.817057]
    np.testing.assert_allclose(rdm(M)[upper], expected, atol=5e-7)
    X = np.array([[1.0, 2, 3], [3, 2, 1], [1, 3, 2], [2, 2, 5]])
    np.testing.assert_allclose(rdm(X)[upper], [2, 0.5, 0.133975, 1.5, 1.866025, 1], atol=5e-7)


def test_published_values():
    X, Y = rng(0).standard_normal((10, 6)), rng(1).standard_normal((10, 6))
    assert round(rsa(X, Y, metric="euclidean", comparison="pearson"), 6) == -0.389154
    X = np.array([[1.0, 2, 3], [3, 2, 1], [1, 3, 2], [2, 2, 5]])
    Y = np.array([[0.0, 1], [1, 3], [2, 2], [5, 1]])
    assert round(rsa(X, Y, metric_y="euclidean"), 6) == -0.376851
    assert round(rsa(X, Y, metric_y="euclidean", comparison="pearson"), 6) == -0.325682


def test_a_constant_column_changes_no_euclidean_rdm():
    X = rng(0).standard_normal((50, 4))
    Y = X[:, :3] + rng(1).standard_normal((50, 3))
    wider = np.c_[X, np.full(50, 3.0)]
    for comparison in COMPARISONS:
        close(*(rsa(Z, Y, metric="euclidean", comparison=comparison) for Z in (X, wider)), 1e-13)


@given(seed=st.integers(0, 2**20), n=st.integers(4, 30), p=st.integers(1, 20), q=st.integers(1, 20))
def test_whitened_cosine_of_squared_euclidean_rdms_is_linear_cka(seed, n, p, q):
    X = rng(seed).standard_normal((n, p))
    Y = rng(seed + 1).standard_normal((n, q)) + X[:, :1]
    close(rsa(X, Y, metric="sqeuclidean", comparison="whitened_cosine"), _silently(cka, X, Y))
    close(
        rsa(X, Y, metric="euclidean", comparison="whitened_cosine"), _silently(distance_correlation, X, Y, squared=True)
    )


def _silently(function, *args, **kwargs):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def test_rank_comparisons_are_those_of_scipy():
    X, Y = rng(0).standard_normal((40, 6)), rng(1).standard_normal((40, 3))
    r, s = pdist(X), pdist(Y)
    close(rsa(X, Y, metric="euclidean"), stats.spearmanr(r, s).statistic)
    close(rsa(X, Y, metric="euclidean", comparison="kendall"), stats.kendalltau(r, s).statistic)


def test_ties_on_a_grid_are_ties_whatever_the_offset():
    X = np.array(list(itertools.product(range(3), range(3))), dtype=float)
    Y = rng(0).standard_normal((9, 2))
    r, s = pdist(X, "sqeuclidean").round(), pdist(Y)
    expected = {"spearman": stats.spearmanr(r, s).statistic, "kendall": stats.kendalltau(r, s).statistic}
    for offset in (0.0, 0.1, 1e3 / 3):
        for scale in (1.0, 1 / 7):
            Z = (X + offset) * scale
            for comparison, value in expected.items():
                close(rsa(Z, Y, metric="euclidean", comparison=comparison), value, 1e-14)


def test_rho_a_is_spearman_averaged_over_random_orders_of_ties():
    X = rng(0).integers(0, 3, size=(5, 2)).astype(float)
    Y = rng(1).standard_normal((5, 2))
    r, s = pdist(X), pdist(Y)
    total, count = 0.0, 0
    generator = rng(2)
    for _ in range(4000):
        broken = stats.rankdata(r + 1e-9 * generator.random(len(r)), method="ordinal")
        total += stats.spearmanr(broken, s).statistic
        count += 1
    assert abs(rsa(X, Y, metric="euclidean", comparison="rho_a") - total / count) < 0.02


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("metric", ["euclidean", "correlation", "cityblock"])
def test_chance_is_the_mean_over_all_permutations(comparison, metric):
    X, Y = rng(0).standard_normal((5, 3)), rng(1).integers(0, 3, size=(5, 3)) + 0.5 * np.arange(5)[:, None] * [1, 0, 2]
    index = RSA(metric, comparison=comparison).fit(X, Y)
    values = [index.similarity(X, Y[list(order)]) for order in itertools.permutations(range(5))]
    close(index.chance_, np.mean(values), 1e-12)


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_all_array_libraries_agree(backend, comparison):
    X = rng(0).standard_normal((20, 6))
    Y = X[:, :4] + rng(1).standard_normal((20, 4))
    for metric in METRICS:
        value = rsa(backend.asarray(X), backend.asarray(Y), metric=metric, comparison=comparison)
        assert type(value) is float
        close(value, rsa(X, Y, metric=metric, comparison=comparison))
        half = rsa(
            backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4")), metric=metric, comparison=comparison
        )
        close(half, value, 1e-4 if comparison in ("pearson", "cosine", "whitened_cosine", "whitened_pearson") else 1e-3)


def test_a_row_constant_over_the_features_has_no_correlation_distance():
    X, Y = rng(0).standard_normal((6, 4)), rng(1).standard_normal((6, 4))
    X[2] = 7.1
    with pytest.warns(UndefinedSimilarityWarning, match="1 of 6 rows are constant over the features"):
        D = rdm(X)
    assert np.isnan(D[2, [0, 1, 3, 4, 5]]).all()
    assert D[2, 2] == 0.0
    assert np.isfinite(np.delete(np.delete(D, 2, 0), 2, 1)).all()
    with pytest.warns(UndefinedSimilarityWarning, match=r"RSA is undefined \(0/0\): X: 1 of 6 rows are constant"):
        assert math.isnan(rsa(X, Y))
    X[2] = 0.0
    with pytest.warns(UndefinedSimilarityWarning, match="y: 1 of 6 rows are zero, and have no cosine distance"):
        assert math.isnan(rsa(Y, X, metric="cosine"))
    with pytest.warns(UndefinedSimilarityWarning, match="6 of 6 rows are constant"):
        rsa(Y, X[:, 0])


def test_constant_representations_are_undefined():
    Y = rng(1).standard_normal((6, 4))
    for constant in (0.0, 3.7, 1e30):
        for metric in ("euclidean", "sqeuclidean", "cityblock", "mahalanobis"):
            for comparison in COMPARISONS:
                with pytest.warns(UndefinedSimilarityWarning, match="X: all rows are alike"):
                    assert math.isnan(rsa(np.full((6, 3), constant), Y, metric=metric, comparison=comparison))


def test_precomputed_and_callable_rdms():
    X, Y = rng(0).standard_normal((12, 5)), rng(1).standard_normal((12, 5))
    D, E = squareform(pdist(X, "chebyshev")), squareform(pdist(Y, "chebyshev"))
    for comparison in COMPARISONS:
        expected = reference(pdist(X, "chebyshev"), pdist(Y, "chebyshev"), comparison)
        close(rsa(D, E, metric="precomputed", comparison=comparison), expected)
        close(rsa(X, Y, metric=chebyshev, comparison=comparison), expected)
    close(
        rsa(D, Y, metric="precomputed", metric_y="euclidean"),
        stats.spearmanr(pdist(X, "chebyshev"), pdist(Y)).statistic,
    )


def chebyshev(X):
    return np.abs(X[:, None] - X[None]).max(axis=2)


def test_errors_name_the_argument():
    X = rng(0).standard_normal((6, 4))
    with pytest.raises(ValueError, match=r"Unknown metric 'euclid'. Valid are correlation, cosine, .*precomputed"):
        rsa(X, X, metric="euclid")
    with pytest.raises(TypeError, match="metric_y must be a name or a callable"):
        rsa(X, X, metric_y=3)
    with pytest.raises(ValueError, match=r"comparison must be one of 'spearman', .*got 'tau'"):
        rsa(X, X, comparison="tau")
    with pytest.raises(ValueError, match="minimum of 3 is required by RSA"):
        rsa(X[:2], X[:2])
    with pytest.raises(ValueError, match=r"The precomputed RDM given as y must be a square matrix"):
        rsa(X, X, metric_y="precomputed")
    with pytest.raises(ValueError, match="must have a diagonal of zeros"):
        rsa(np.ones((6, 6)), X, metric="precomputed", metric_y="euclidean")
    with pytest.raises(ValueError, match=r"Negative values in data\. The precomputed RDM given as X"):
        rsa(-rdm(X), X, metric="precomputed", metric_y="euclidean")
    with pytest.raises(ValueError, match="Valid metrics are correlation"):
        rdm(X, "precomputed")
    with pytest.raises(ValueError, match="X contains NaN"):
        rdm(np.where(X > 1, np.nan, X))


def test_distance_form_is_the_angle():
    X, Y = rng(0).standard_normal((12, 5)), rng(1).standard_normal((12, 5))
    index = RSA("euclidean", comparison="pearson")
    close(index.distance(X, Y), math.acos(np.corrcoef(pdist(X), pdist(Y))[0, 1]))
    assert RSA(comparison="kendall").properties.metric is None
    assert get_index("rsa").properties.metric == "arccos(s)"


def test_cross_validation_scores_the_rows_of_every_fold():
    X = rng(0).standard_normal((30, 6))
    Y = X[:, :4] + rng(1).standard_normal((30, 4))
    scores = cross_validate(RSA("euclidean"), X, Y, cv=3)["test_score"]
    close(scores[0], rsa(X[:10], Y[:10], metric="euclidean"))


def test_table_of_layers():
    layers = {f"layer{i}": rng(i).standard_normal((15, 4)) for i in range(3)}
    layers["dead"] = np.zeros((15, 4))
    with pytest.warns(UndefinedSimilarityWarning, match="dead"):
        table = compare_layers(layers, index="rsa", comparison="pearson", verbose=0)
    close(table.values[0, 2], rsa(layers["layer0"], layers["layer2"], comparison="pearson"), 1e-15)
    assert np.isnan(table.values[3]).all()
    assert np.isfinite(table.values[:3, :3]).all()


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_tables_equal_their_pairs(comparison):
    layers = {f"layer{i}": rng(i).standard_normal((12, 4)) for i in range(3)}
    others = {"single": rng(5).standard_normal((12, 2)).astype("f4"), "double": rng(6).standard_normal((12, 6))}
    for columns in (None, others):
        table = compare_layers(layers, columns, index="rsa", metric="euclidean", comparison=comparison, verbose=0)
        for i, a in enumerate(layers.values()):
            for j, b in enumerate((columns or layers).values()):
                close(table.values[i, j], rsa(a, b, metric="euclidean", comparison=comparison), 1e-6)
        assert columns is not None or (table.values == table.values.T).all()


INDEXES = [
    RSA(),
    RSA("euclidean", comparison="pearson"),
    RSA("cosine", comparison="kendall"),
    RSA("cityblock", comparison="kendall_tau_a"),
    RSA("mahalanobis", comparison="rho_a"),
    RSA("sqeuclidean", comparison="cosine"),
    RSA("euclidean", comparison="whitened_cosine"),
    RSA("correlation", comparison="whitened_pearson"),
    RSA("euclidean", metric_y="correlation"),
]


@ignore_similarity_warnings
@parametrize_with_checks([*INDEXES, RSA(metric="precomputed", metric_y="euclidean")])
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index!r}-{name}")


@ignore_similarity_warnings
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
