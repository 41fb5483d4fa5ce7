"""GULP against scikit-learn's ridge regressions, traces of covariances and the identities with CCA."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import GULP, DegenerateSimilarityWarning, UndefinedSimilarityWarning, compare_layers, similarity
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def standardized(X, normalize):
    X = X - X.mean(axis=0)
    return X / math.sqrt((X**2).sum() / len(X)) if normalize else X


def by_ridge(X, Y, alpha, normalize=True):
    """Distance of the predictions of every unit target from both, summed over the rows."""
    n = len(X)
    predictions = []
    for Z in (standardized(X, normalize), standardized(Y, normalize)):
        model = Ridge(alpha * n, fit_intercept=False, solver="svd") if alpha else LinearRegression(fit_intercept=False)
        predictions.append(model.fit(Z, np.eye(n)).predict(Z))
    return np.linalg.norm(predictions[0] - predictions[1])


def by_covariances(X, Y, alpha, normalize=True):
    """The formula of the paper."""
    n = len(X)
    X, Y = standardized(X, normalize), standardized(Y, normalize)
    Sx, Sy, Sxy = X.T @ X / n, Y.T @ Y / n, X.T @ Y / n
    Ax, Ay = np.linalg.inv(Sx + alpha * np.eye(len(Sx))), np.linalg.inv(Sy + alpha * np.eye(len(Sy)))
    square = np.trace(Ax @ Sx @ Ax @ Sx) + np.trace(Ay @ Sy @ Ay @ Sy) - 2 * np.trace(Ax @ Sxy @ Ay @ Sxy.T)
    return math.sqrt(max(square, 0.0))


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance * max(1.0, abs(expected)), (value, expected)


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(3, 25),
    p=st.integers(1, 30),
    q=st.integers(1, 30),
    alpha=st.sampled_from([0.0, 1e-3, 0.1, 10.0]),
    normalize=st.booleans(),
    noise=st.sampled_from([1.0, 1e-3, 1e-6]),
    offset=st.sampled_from([0.0, 100.0]),
)
@pytest.mark.filterwarnings("ignore::sklearn_cka.DegenerateSimilarityWarning")
def test_distance_is_that_of_ridge_predictions(seed, n, p, q, alpha, normalize, noise, offset):
    X = rng(seed).standard_normal((n, p))
    Y = (X @ rng(seed + 2).standard_normal((p, q)) if p == q else rng(seed + 3).standard_normal((n, q))) + noise * rng(
        seed + 1
    ).standard_normal((n, q))
    if normalize is False and alpha:
        X, Y = 3.0 * X, 0.5 * Y
    index = GULP(alpha, normalize=normalize)
    value = index.similarity(X + offset, Y)
    close(-value, by_ridge(X, Y, alpha, normalize), 1e-9)
    if alpha >= 0.1:
        close(value**2, by_covariances(X, Y, alpha, normalize) ** 2)
    assert index.to_distance(value) == -value


def test_distance_of_close_representations_keeps_its_digits():
    X = rng(0).standard_normal((30, 5))
    for size in (1e-3, 1e-6, 1e-9):
        Y = X + size * rng(1).standard_normal((30, 5))
        close(GULP().distance(X, Y) / size, by_ridge(X, Y, 0.01) / size, 1e-5)
    assert GULP().distance(X, X) < 1e-14
    assert GULP().distance(X, 3.0 * X + 2.0) < 1e-14


def test_without_penalty_only_the_spans_count():
    X, Y = rng(0).standard_normal((30, 4)), rng(1).standard_normal((30, 6))
    Qx, Qy = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
    canonical = np.linalg.svd(Qx.T @ Qy, compute_uv=False)
    close(GULP(0.0).distance(X, Y), math.sqrt(4 + 6 - 2 * (canonical**2).sum()))
    close(GULP(0.0).distance(X @ rng(2).standard_normal((4, 4)), Y), GULP(0.0).distance(X, Y))


def test_full_rank_without_penalty_is_degenerate():
    X, Y = rng(0).standard_normal((8, 12)), rng(1).standard_normal((8, 10))
    with pytest.warns(DegenerateSimilarityWarning, match="span all 7 directions of 8 rows"):
        assert GULP(alpha=0).distance(X, Y) < 1e-13
    assert GULP(alpha=0.1).distance(X, Y) > 0.1


def test_constant_sides_are_undefined_and_parameters_are_checked():
    X = rng(0).standard_normal((8, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="y is constant over the rows"):
        assert math.isnan(GULP().fit(X, np.full(8, 3.7)).similarity_)
    with pytest.raises(ValueError, match=r"alpha must be .* got -1"):
        GULP(alpha=-1).fit(X, X)
    with pytest.raises(ValueError, match="normalize must be True or False"):
        GULP(normalize="yes").fit(X, X)


def test_scales():
    X, Y = rng(0).standard_normal((20, 3)), rng(1).standard_normal((20, 4))
    value = similarity(X, Y, index="gulp")
    for scale in (1e-200, 1e-30, 1e30, 1e200):
        close(similarity(X * scale, Y, index="gulp"), value)
    close(GULP(normalize=False).similarity(X * 1e-200, Y), -by_ridge(0 * X, Y, 0.01, normalize=False))
    close(GULP(0.01, normalize=False).similarity(X * 1e10, Y), GULP(0.01e-20, normalize=False).similarity(X, Y * 1e-10))


def test_all_array_libraries_agree(backend):
    X = rng(0).standard_normal((20, 6))
    Y = X[:, :4] + rng(1).standard_normal((20, 4))
    for alpha in (0.0, 0.01):
        value = GULP(alpha).similarity(backend.asarray(X), backend.asarray(Y))
        assert type(value) is float
        close(value, GULP(alpha).similarity(X, Y))
        close(GULP(alpha).similarity(backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4"))), value, 1e-4)
        assert GULP(alpha).distance(backend.asarray(X), backend.asarray(X)) < 1e-14


def test_table_of_distances():
    layers = {f"layer{i}": rng(i).standard_normal((15, 4)) for i in range(3)}
    table = compare_layers(layers, index="gulp", output="distance", verbose=0)
    close(table.values[0, 2], by_ridge(layers["layer0"], layers["layer2"], 0.01))
    assert (np.diagonal(table.values) == 0.0).all()


INDEXES = [GULP(), GULP(alpha=0.0), GULP(alpha=1.0, normalize=False)]


@ignore_similarity_warnings
@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES:

        def reference(X, Y, index=index):
            return -by_ridge(X, Y, index.alpha, index.normalize)

        for name, check in index_checks(index, reference=reference):
            yield pytest.param(check, id=f"{index!r}-{name}")


@ignore_similarity_warnings
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
