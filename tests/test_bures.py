"""Normalised Bures similarity against matrix roots, nuclear norms in extended precision and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes, sqrtm, svdvals
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    NormalizedBuresSimilarity,
    UndefinedSimilarityWarning,
    compare_layers,
    normalized_bures_similarity,
)
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def centering_matrix(n):
    return np.eye(n) - 1 / n


def by_nuclear_norm(X, Y):
    """The linear index from features, centred and multiplied in extended precision."""
    X, Y = (np.asarray(Z, dtype=np.longdouble) for Z in (X, Y))
    X, Y = (Z - Z.mean(axis=0) for Z in (X, Y))
    X, Y = (Z / np.abs(Z).max() for Z in (X, Y))
    norms = np.sqrt((X**2).sum()) * np.sqrt((Y**2).sum())
    return svdvals((X.T @ Y).astype(float)).sum() / float(norms)


def by_roots(K, L):
    """The definition: nuclear norm of the product of the principal roots of the centred matrices."""
    K, L = (centering_matrix(len(K)) @ A @ centering_matrix(len(K)) for A in (K, L))
    root_k, root_l = (np.real(sqrtm((A + A.T) / 2)) for A in (K, L))
    return svdvals(root_k @ root_l).sum() / math.sqrt(np.trace(K) * np.trace(L))


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance, (value, expected)


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(2, 30),
    p=st.integers(1, 40),
    q=st.integers(1, 40),
    offset=st.sampled_from([0.0, 1e3]),
    scale=st.sampled_from([1.0, 1e-30, 1e30]),
    repeat=st.booleans(),
)
def test_linear_similarity_is_the_nuclear_norm_of_centred_products(seed, n, p, q, offset, scale, repeat):
    X, Y = rng(seed).standard_normal((n, p)), rng(seed + 1).standard_normal((n, q))
    if repeat:
        X[:, -1], Y[:, -1] = X[:, 0], 3.0
        if q == 1:
            Y[:, 0] = X[:, 0] ** 2
    X, Y = (X + offset) * scale, Y - offset
    tolerance = 1e-10 if offset == 0.0 or scale == 1.0 else 1e-9
    close(normalized_bures_similarity(X, Y), by_nuclear_norm(X, Y), tolerance)


def test_linear_similarity_is_the_fidelity_of_gram_matrices():
    for n, p, q in ((12, 3, 5), (6, 10, 4), (8, 8, 8)):
        X, Y = rng(n).standard_normal((n, p)), rng(p).standard_normal((n, q))
        close(normalized_bures_similarity(X, Y), by_roots(X @ X.T, Y @ Y.T), 1e-6)
        close(normalized_bures_similarity(X @ X.T, Y @ Y.T, kernel="precomputed"), normalized_bures_similarity(X, Y))


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")  # a centred matrix is singular
@given(seed=st.integers(0, 2**20), n=st.integers(3, 15), p=st.integers(2, 6), q=st.integers(2, 6))
def test_rbf_similarity_is_the_fidelity_of_gram_matrices(seed, n, p, q):
    X, Y = rng(seed).standard_normal((n, p)), rng(seed + 1).standard_normal((n, q))
    value = normalized_bures_similarity(X, Y, kernel="rbf", bandwidth=0.7, bandwidth_rule="none")
    K, L = (rbf_kernel(Z, gamma=1 / (2 * 0.7**2)) for Z in (X, Y))
    close(value, by_roots(K, L), 1e-7)  # sqrtm of a singular matrix has no more digits


def test_polynomial_similarity_is_that_of_its_explicit_features():
    x, y = rng(0).standard_normal((20, 1)), rng(1).standard_normal((20, 1))
    value = normalized_bures_similarity(x, y, kernel="polynomial", gamma=1.0, kernel_params={"degree": 2, "coef0": 1})
    features = [np.hstack([np.sqrt(2) * z, z**2]) for z in (x, y)]
    close(value, by_nuclear_norm(*features))


def test_linear_similarity_is_that_of_orthogonal_procrustes():
    X = rng(0).standard_normal((40, 4))
    Y = X[:, :3] + rng(1).standard_normal((40, 3))
    index = NormalizedBuresSimilarity().fit(X, Y)
    assert round(index.similarity_, 6) == 0.641049
    assert round(index.distance(X, Y), 6) == 0.874932
    Xc, Yc = X - X.mean(0), np.c_[Y - Y.mean(0), np.zeros(40)]
    _, scale = orthogonal_procrustes(Xc, Yc)
    close(index.similarity_, scale / np.linalg.norm(Xc) / np.linalg.norm(Yc))
    assert math.isnan(index.chance_)


def test_integer_weights_are_repeated_rows():
    X, Y = rng(0).standard_normal((15, 3)), rng(1).standard_normal((15, 20))
    weights = rng(2).integers(0, 4, 15)
    rows = np.repeat(np.arange(15), weights)
    for kernel in ("linear", "rbf", "distance"):
        value = normalized_bures_similarity(X, Y, kernel=kernel, sample_weight=weights)
        close(value, normalized_bures_similarity(X[rows], Y[rows], kernel=kernel), 1e-8)


def test_all_array_libraries_agree(backend):
    X = rng(0).standard_normal((20, 6))
    Y = X[:, :4] + rng(1).standard_normal((20, 4))
    wide = rng(2).standard_normal((20, 50))
    for kernel in ("linear", "rbf", "laplacian", "distance"):
        for A, B in ((X, Y), (X, wide)):
            value = normalized_bures_similarity(backend.asarray(A), backend.asarray(B), kernel=kernel)
            assert type(value) is float
            close(value, normalized_bures_similarity(A, B, kernel=kernel))
            single = [backend.asarray(Z.astype("f4")) for Z in (A, B)]
            close(normalized_bures_similarity(*single, kernel=kernel), value, 1e-4)


def test_constant_sides_are_undefined_and_kernels_without_root_refused():
    X = rng(0).standard_normal((8, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="the centred Gram matrix of y is zero"):
        assert math.isnan(normalized_bures_similarity(X, np.full(8, 3.7)))
    with pytest.warns(UndefinedSimilarityWarning, match="the centred Gram matrix of X is zero"):
        assert math.isnan(normalized_bures_similarity(np.full((8, 2), 3.7), X, kernel="rbf"))
    with pytest.raises(ValueError, match=r"takes positive semi-definite kernels: .* has the eigenvalue -"):
        normalized_bures_similarity(X, X, kernel=lambda A, B: -(A @ B.T))
    with pytest.raises(ValueError, match="Unknown kernel"):
        normalized_bures_similarity(X, X, kernel="rfb")


def test_table_equals_its_pairs():
    layers = {f"layer{i}": rng(i).standard_normal((15, 3 + 5 * i)) for i in range(4)}
    for kernel in ("linear", "rbf"):
        table = compare_layers(layers, index="normalized_bures_similarity", kernel=kernel, verbose=0)
        for i, a in enumerate(layers.values()):
            for j, b in enumerate(layers.values()):
                close(table.values[i, j], normalized_bures_similarity(a, b, kernel=kernel), 1e-13)


LINEAR = NormalizedBuresSimilarity()
INDEXES = [
    LINEAR,
    NormalizedBuresSimilarity("rbf", bandwidth=0.5),
    NormalizedBuresSimilarity("laplacian"),
    NormalizedBuresSimilarity("distance"),
    NormalizedBuresSimilarity(kernel_y="rbf"),
]


def gram_pair(rng, n):
    X = rng.standard_normal((n, 4))
    Y = X[:, :2] + rng.standard_normal((n, 2))
    return X @ X.T, Y @ Y.T


# Without "precomputed": one of the checks cuts a Gram matrix down to integers, which leaves it without a root.
@ignore_similarity_warnings
@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES:
        for name, check in index_checks(index, reference=by_nuclear_norm if index is LINEAR else None):
            yield pytest.param(check, id=f"{index!r}-{name}")
    for name, check in index_checks(NormalizedBuresSimilarity("precomputed"), make_pair=gram_pair):
        yield pytest.param(check, id=f"precomputed-{name}")


@ignore_similarity_warnings
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
