"""Differences of descriptors, of distance matrices and of heat traces, against the definitions written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    IMD,
    ConcentricityDifference,
    MagnitudeDifference,
    RDMDifference,
    UndefinedSimilarityWarning,
    UniformityDifference,
    compare_layers,
    similarity,
)
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def magnitude(X):
    return float(np.linalg.norm(np.asarray(X, dtype=np.longdouble).mean(axis=0)))


def concentricity(X):
    return float((1 - cdist(X, X.mean(axis=0, keepdims=True), "cosine")).mean())


def uniformity(X, t=2.0, normalize=True, include_self=False):
    X = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    n = len(X)
    pairs = [(i, j) for i in range(n) for j in range(n) if include_self or i != j]
    return math.log(math.fsum(math.exp(-t * ((X[i] - X[j]) ** 2).sum()) for i, j in pairs) / len(pairs))


def heat_trace_distance(X, Y, k=5):
    """From matrix exponentials, on scikit-learn's graphs."""
    largest = 0.0
    laplacians = []
    for Z in (X, Y):
        A = kneighbors_graph(Z, k).toarray()
        A = np.maximum(A, A.T)
        root = np.diag(1 / np.sqrt(A.sum(axis=1)))
        laplacians.append(np.eye(len(Z)) - root @ A @ root)
    for t in np.logspace(-1, 1, 256)[::5]:
        traces = [np.trace(expm(-t * L)) / len(X) for L in laplacians]
        largest = max(largest, math.exp(-2 * (t + 1 / t)) * abs(traces[0] - traces[1]))
    return largest


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance * max(1.0, abs(expected)), (value, expected)


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(2, 15),
    p=st.integers(1, 10),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    scale=st.sampled_from([1.0, 1e-100, 1e100]),
)
def test_descriptors_are_those_written_out(seed, n, p, offset, scale):
    X, Y = rng(seed).standard_normal((n, p)) + offset, rng(seed + 1).standard_normal((n, 3)) + 0.1
    index = MagnitudeDifference().fit(X * scale, Y * scale)
    assert abs(index.descriptor_ / scale - magnitude(X)) <= 1e-12 * max(1.0, offset)
    close(index.similarity_ / scale, -abs(magnitude(X) - magnitude(Y)))
    index = ConcentricityDifference().fit(X * scale, Y)
    close(index.descriptor_, concentricity(X))
    close(index.similarity_, -abs(concentricity(X) - concentricity(Y)))
    for options in ({}, {"t": 0.3}, {"include_self": True}):
        index = UniformityDifference(**options).fit(X * scale, Y)
        close(index.descriptor_, uniformity(X, **options))
        close(index.similarity_, -abs(uniformity(X, **options) - uniformity(Y, **options)))
    for options in ({"normalize": False}, {"normalize": False, "include_self": True, "t": 0.5}):
        close(UniformityDifference(**options).fit(X, Y).descriptor_, uniformity(X, **options), 1e-8)


def test_uniformity_of_far_rows_does_not_underflow():
    X = np.array([[0.0], [100.0], [250.0]])
    index = UniformityDifference(normalize=False).fit(X, X)
    close(index.descriptor_, -2 * 100.0**2 + math.log(2 / 6))
    close(UniformityDifference().fit([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]]).descriptor_, -4.0)


def test_descriptors_have_their_value_as_chance_level():
    X, Y = rng(0).standard_normal((20, 3)) + 1, rng(1).standard_normal((20, 5))
    for index in (MagnitudeDifference(), ConcentricityDifference(), UniformityDifference(), IMD()):
        fitted = index.fit(X, Y)
        assert fitted.chance_ == fitted.similarity_
        close(index.similarity(X, Y[rng(2).permutation(20)]), fitted.similarity_, 1e-13)


def test_rows_without_direction_are_undefined():
    X = rng(0).standard_normal((6, 3))
    dead = X.copy()
    dead[4] = 0.0
    with pytest.warns(UndefinedSimilarityWarning, match="X: 1 of 6 rows are zero, and have no direction"):
        assert math.isnan(ConcentricityDifference().fit(dead, X).similarity_)
    with pytest.warns(UndefinedSimilarityWarning, match="y: the mean row is zero"):
        ConcentricityDifference().fit(X, np.r_[X[:3], -X[:3]])
    with pytest.warns(UndefinedSimilarityWarning, match="1 of 6 rows are zero, and cannot be scaled to length 1"):
        UniformityDifference().fit(X, dead)
    with pytest.warns(UndefinedSimilarityWarning, match="IMD is undefined"):
        IMD().fit(X, np.ones(6))


@pytest.mark.parametrize("metric", ["correlation", "cosine", "euclidean", "sqeuclidean", "cityblock", "mahalanobis"])
@given(seed=st.integers(0, 2**20), n=st.integers(6, 15), scale=st.sampled_from([1.0, 1e-50, 1e50]))
def test_rdm_difference_is_the_frobenius_norm(metric, seed, n, scale):
    X, Y = rng(seed).standard_normal((n, 4)), rng(seed + 1).standard_normal((n, 3))
    D, E = squareform(pdist(X, metric)), squareform(pdist(Y, metric))
    power = {"euclidean": 1, "cityblock": 1, "sqeuclidean": 2}.get(metric, 0)
    close(RDMDifference(metric).distance(X * scale, Y * scale) / scale**power, np.linalg.norm(D - E), 1e-9)
    normalized = np.linalg.norm(D / np.linalg.norm(D) - E / np.linalg.norm(E))
    close(RDMDifference(metric, normalize=True).distance(X * scale, Y), normalized, 1e-9)
    close(RDMDifference("precomputed").distance(D, E), np.linalg.norm(D - E))


def test_rdm_difference_of_undefined_distances():
    X = rng(0).standard_normal((6, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="y: 6 of 6 rows are constant over the features"):
        assert math.isnan(RDMDifference("correlation").fit(X, X[:, 0]).similarity_)
    with pytest.warns(UndefinedSimilarityWarning, match="X: all rows are alike"):
        RDMDifference(normalize=True).fit(np.ones((6, 2)), X)
    close(RDMDifference().distance(np.ones((6, 2)), X), np.linalg.norm(squareform(pdist(X))))


@given(seed=st.integers(0, 2**20), n=st.integers(8, 25), k=st.integers(1, 7), scale=st.sampled_from([1.0, 1e-30, 1e30]))
def test_imd_is_that_of_matrix_exponentials(seed, n, k, scale):
    X, Y = rng(seed).standard_normal((n, 4)), rng(seed + 1).standard_normal((n, 2))
    value = IMD(n_neighbors=k).similarity(X * scale + scale, Y)
    expected = heat_trace_distance(X, Y, k)  # the maximum over every fifth of the scales
    assert expected - 1e-12 <= -value <= expected * 1.02 + 1e-12


def test_imd_parameters():
    X = rng(0).standard_normal((6, 3))
    with pytest.raises(ValueError, match="minimum of 6 is required by IMD"):
        IMD().fit(X[:5], X[:5])
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match="n_neighbors must be a positive integer"):
            IMD(n_neighbors=wrong).fit(X, X)
    with pytest.raises(ValueError, match="t must be a positive finite number"):
        UniformityDifference(t=-1.0).fit(X, X)


def test_all_array_libraries_agree(backend):
    X, Y = rng(0).standard_normal((20, 6)) + 0.3, rng(1).standard_normal((20, 4))
    indexes = [*INDEXES, *(RDMDifference(metric) for metric in ("cosine", "cityblock", "mahalanobis"))]
    for index in indexes:
        value = index.similarity(backend.asarray(X), backend.asarray(Y))
        assert type(value) is float
        close(value, index.similarity(X, Y))
        close(index.similarity(backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4"))), value, 1e-4)


def test_tables():
    layers = {f"layer{i}": rng(i).standard_normal((15, 3 + i)) for i in range(3)}
    for name in ("magnitude_difference", "uniformity_difference", "rdm_difference", "imd"):
        table = compare_layers(layers, index=name, output="distance", verbose=0)
        close(table.values[0, 2], -similarity(layers["layer0"], layers["layer2"], index=name))


INDEXES = [
    MagnitudeDifference(),
    ConcentricityDifference(),
    UniformityDifference(),
    UniformityDifference(t=0.5, normalize=False, include_self=True),
    RDMDifference(),
    RDMDifference("sqeuclidean", normalize=True),
    RDMDifference("correlation"),
    IMD(),
    IMD(n_neighbors=3),
]


@ignore_similarity_warnings
@parametrize_with_checks(INDEXES)
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


def _heat_trace_by_definition(X, k, times):
    """Neighbours from exact squared distances of whole numbers, ties by row; eigenvalues of the Laplacian."""
    n = len(X)
    joined = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        others.sort(key=lambda j: (sum((int(a) - int(b)) ** 2 for a, b in zip(X[i], X[j], strict=True)), j))
        joined[i, others[:k]] = 1.0
    joined = np.maximum(joined, joined.T)
    degrees = joined.sum(axis=1)
    eigenvalues = np.linalg.eigvalsh(np.eye(n) - joined / np.sqrt(np.outer(degrees, degrees)))
    return np.exp(-times[:, None] * eigenvalues).mean(axis=1)


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (0.1, 0.0), (1.0, 1e6), (3e-20, 0.0)])
def test_ties_of_imd_are_found_at_any_rounding(k, unit, offset):
    rng = np.random.default_rng(4)
    X, y = rng.integers(0, 4, (30, 3)), rng.integers(0, 5, (30, 2))
    times = np.logspace(-1, 1, 256)
    gap = np.abs(_heat_trace_by_definition(X, k, times) - _heat_trace_by_definition(y, k, times))
    expected = -(np.exp(-2.0 * (times + 1.0 / times)) * gap).max()
    assert IMD(k).similarity(X * unit + offset, y * unit + offset) == pytest.approx(expected, rel=1e-9)
