"""Representation topology divergence against homology computed by the reduction of a boundary matrix."""

import itertools
import math
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import RTD, SimilarityWarning, UndefinedSimilarityWarning, benchmark_indexes, compare_layers
from sklearn_cka.testing import index_checks

pytest.importorskip("ripser", reason="ripser is not installed")

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


# Definition: simplices in the order of their longest edge, and the columns of their boundaries reduced over Z/2.


def loops(M):
    """Return birth and death of the bars of the first homology of a filtered clique complex."""
    simplices = []
    for size in (1, 2, 3):
        for corners in itertools.combinations(range(len(M)), size):
            length = max((M[i, j] for i, j in itertools.combinations(corners, 2)), default=0.0)
            if math.isfinite(length):
                simplices.append((length, size, corners))
    simplices.sort()
    place = {corners: i for i, (_, _, corners) in enumerate(simplices)}
    reduced, bars, open_loops = {}, [], set()
    for j, (length, size, corners) in enumerate(simplices):
        column = {place[tuple(c for c in corners if c != left)] for left in corners} if size > 1 else set()
        while column and max(column) in reduced:
            column ^= reduced[max(column)]
        if column:
            reduced[max(column)] = column
            birth, dimension, _ = simplices[max(column)]
            open_loops.discard(max(column))
            if dimension == 2:
                bars.append((birth, length))
        elif size == 2:
            open_loops.add(j)
    assert not open_loops, "a loop never closes"
    return bars


def one_way(D, E):
    n = len(D)
    names = [("first", i) for i in range(n)] + [("second", i) for i in range(n)] + ["O"]
    M = np.full((2 * n + 1, 2 * n + 1), math.inf)
    for (a, left), (b, right) in itertools.product(enumerate(names), repeat=2):
        if a == b:
            M[a, b] = 0.0
        elif "O" in (left, right):
            other = right if left == "O" else left
            M[a, b] = 0.0 if other[0] == "first" else math.inf
        elif left[0] == right[0]:
            i, j = left[1], right[1]
            M[a, b] = D[i, j] if left[0] == "first" else min(D[i, j], E[i, j])
        else:
            first, second = (left[1], right[1]) if left[0] == "first" else (right[1], left[1])
            M[a, b] = D[second, first] if second <= first else math.inf
    return sum(death - birth for birth, death in loops(M))


def divergence(X, Y):
    both = []
    for Z in (X, Y):
        D = np.array([[math.dist(a, b) for b in Z] for a in Z])
        both.append(D / np.quantile([D[i, j] for i in range(len(D)) for j in range(i)], 0.9))
    return (one_way(*both) + one_way(*both[::-1])) / 2


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(3, 7),
    p=st.integers(1, 4),
    q=st.integers(1, 4),
    kind=st.sampled_from(["plain", "grid", "repeated"]),
    scale=st.sampled_from([1.0, 1e-20, 1e20]),
)
def test_divergence_is_that_of_the_definition(seed, n, p, q, kind, scale):
    X, Y = rng(seed).standard_normal((n, p)), rng(seed + 1).standard_normal((n, q))
    if kind == "grid":
        X = np.round(2 * X) + np.arange(n)[:, None]
    if kind == "repeated":
        X[1] = X[0]
    assert RTD().similarity(X * scale + 3 * scale, Y) == pytest.approx(-divergence(X, Y), abs=1e-10)


def test_a_circle_is_nearer_to_an_ellipse_than_to_a_line():
    angles = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    circle, ellipse = (np.c_[width * np.cos(angles), np.sin(angles)] for width in (1.0, 1.2))
    assert RTD().distance(circle, circle) == 0.0
    assert RTD().distance(circle, ellipse) < RTD().distance(circle, angles[:, None])


def test_more_rows_than_the_limit_are_seen_in_seeded_subsets():
    X, Y = rng(0).standard_normal((40, 3)), rng(1).standard_normal((40, 3))
    index = RTD(max_samples=15, n_subsets=4, random_state=7)
    chosen = [np.sort(generator.choice(40, 15, replace=False)) for generator in [rng(7)] for _ in range(4)]
    expected = np.mean([RTD().similarity(X[rows], Y[rows]) for rows in chosen])
    assert index.similarity(X, Y) == pytest.approx(expected, abs=1e-12)
    assert index.similarity(X, Y) == index.similarity(X, Y)
    assert RTD(max_samples=15, random_state=8).similarity(X, Y) != index.similarity(X, Y)
    table = compare_layers({"x": X, "y": Y}, index=index, verbose=0)
    assert table.values[0, 1] == pytest.approx(expected, abs=1e-12)


def test_no_distances_are_undefined_and_parameters_are_checked():
    X = rng(0).standard_normal((30, 3))
    with pytest.warns(UndefinedSimilarityWarning):
        assert math.isnan(RTD().similarity(X, np.ones((30, 2))))
    for params, message in (
        ({"max_samples": 1}, "max_samples must be an integer of at least 2"),
        ({"n_subsets": 0.5}, "n_subsets must be an integer"),
        ({"random_state": None}, "random_state must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            RTD(**params).fit(X, X)


def test_without_ripser_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ripser", None)
    X = rng(0).standard_normal((10, 3))
    with pytest.raises(ImportError, match=r'pip install "sklearn_cka\[topology\]"'):
        RTD().fit(X, X)


def test_the_benchmark_of_all_indexes_leaves_it_out():
    models = [{"a": rng(k).standard_normal((20, 3)), "b": rng(k + 9).standard_normal((20, 3))} for k in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        assert "rtd" not in set(benchmark_indexes(models, verbose=0)["index"])


@quiet
@parametrize_with_checks([RTD()])
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


@quiet
@pytest.mark.parametrize("check", [pytest.param(check, id=name) for name, check in index_checks(RTD())])
def test_index_checks(check):
    check()
