"""Riemannian distances against matrix logarithms and generalised eigenvalues."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh, logm
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import RiemannianSimilarity, UndefinedSimilarityWarning, compare_layers
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng
GEOMETRIES = ("affine_invariant", "log_euclidean")


def shrunk(K, shrinkage):
    n = len(K)
    H = np.eye(n) - 1 / n
    K = H @ K @ H
    return (1 - shrinkage) * K * (n - 1) / np.trace(K) + shrinkage * np.eye(n)


def definition(K, L, shrinkage=0.1, geometry="affine_invariant"):
    K, L = shrunk(K, shrinkage), shrunk(L, shrinkage)
    if geometry == "log_euclidean":
        return np.linalg.norm(logm(K) - logm(L))
    return math.sqrt((np.log(eigh(L, K, eigvals_only=True)) ** 2).sum())


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance * max(1.0, abs(expected)), (value, expected)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(2, 20),
    p=st.integers(1, 25),
    q=st.integers(1, 25),
    shrinkage=st.sampled_from([0.5, 0.1, 1e-3]),
    offset=st.sampled_from([0.0, 100.0]),
    scale=st.sampled_from([1.0, 1e-20, 1e20]),
)
def test_distance_is_that_of_logarithms(geometry, seed, n, p, q, shrinkage, offset, scale):
    X, Y = rng(seed).standard_normal((n, p)), rng(seed + 1).standard_normal((n, q))
    index = RiemannianSimilarity(shrinkage=shrinkage, geometry=geometry)
    value = index.similarity((X + offset) * scale, Y - offset)
    close(-value, definition(X @ X.T, Y @ Y.T, shrinkage, geometry), 1e-9)
    assert index.to_distance(value) == -value


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_kernels(geometry):
    X, Y = rng(0).standard_normal((15, 4)), rng(1).standard_normal((15, 3))
    index = RiemannianSimilarity("rbf", gamma=0.3, geometry=geometry)
    expected = definition(rbf_kernel(X, gamma=0.3), rbf_kernel(Y, gamma=0.3), geometry=geometry)
    close(index.distance(X, Y), expected)
    precomputed = RiemannianSimilarity("precomputed", geometry=geometry)
    close(precomputed.distance(rbf_kernel(X, gamma=0.3), rbf_kernel(Y, gamma=0.3)), expected)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_integer_weights_are_repeated_rows(geometry):
    X, Y = rng(0).standard_normal((12, 4)), rng(1).standard_normal((12, 3))
    weights = rng(2).integers(0, 4, 12)
    rows = np.repeat(np.arange(12), weights)
    for kernel in ("linear", "rbf"):
        index = RiemannianSimilarity(kernel, geometry=geometry)
        close(index.similarity(X, Y, sample_weight=weights), index.similarity(X[rows], Y[rows]))


def test_undefined_and_refused():
    X = rng(0).standard_normal((8, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="the centred Gram matrix of y is zero"):
        assert math.isnan(RiemannianSimilarity().fit(X, np.full(8, 3.7)).similarity_)
    for shrinkage in (0.0, -0.1, 1.0, "auto"):
        with pytest.raises(ValueError, match="shrinkage must be"):
            RiemannianSimilarity(shrinkage=shrinkage).fit(X, X)
    with pytest.raises(ValueError, match="geometry must be one of 'affine_invariant', 'log_euclidean'"):
        RiemannianSimilarity(geometry="euclidean").fit(X, X)
    with pytest.raises(ValueError, match="takes positive semi-definite kernels"):
        RiemannianSimilarity(lambda A, B: (A @ B.T) - 9 * (A[:, :1] @ B[:, :1].T)).fit(X, X)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_all_array_libraries_agree(backend, geometry):
    X = rng(0).standard_normal((20, 6))
    Y = X[:, :4] + rng(1).standard_normal((20, 4))
    index = RiemannianSimilarity(geometry=geometry)
    value = index.similarity(backend.asarray(X), backend.asarray(Y))
    assert type(value) is float
    close(value, index.similarity(X, Y))
    close(index.similarity(backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4"))), value, 1e-4)


def test_table_of_distances():
    layers = {f"layer{i}": rng(i).standard_normal((15, 3 + i)) for i in range(3)}
    table = compare_layers(layers, index="riemannian_similarity", output="distance", verbose=0)
    close(table.values[0, 2], definition(layers["layer0"] @ layers["layer0"].T, layers["layer2"] @ layers["layer2"].T))


INDEXES = [
    RiemannianSimilarity(),
    RiemannianSimilarity(geometry="log_euclidean", shrinkage=0.01),
    RiemannianSimilarity("rbf"),
    RiemannianSimilarity(kernel_y="distance"),
]


@ignore_similarity_warnings
@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _reference(X, Y):
    return -definition(X @ X.T, Y @ Y.T)


def _index_checks():
    for index in INDEXES:
        for name, check in index_checks(index, reference=_reference if index is INDEXES[0] else None):
            yield pytest.param(check, id=f"{index!r}-{name}")


@ignore_similarity_warnings
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
