"""The unit-matching family against all permutations, dual certificates and textbook programs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    CorrelationMatch,
    PermutationProcrustes,
    SoftMatching,
    UndefinedSimilarityWarning,
    compare_layers,
    correlation_match,
    permutation_procrustes,
    procrustes_similarity,
    similarity,
    soft_matching,
)
from sklearn_cka._arrays import to_numpy
from sklearn_cka.indexes import _transport
from sklearn_cka.testing import index_checks

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
shapes = {"n": st.integers(2, 12), "p": st.integers(1, 5), "q": st.integers(1, 5), "seed": st.integers(0, 10_000)}


def related_pair(seed, n, p, q, offset=0.0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.geomspace(1.0, 4.0, p)
    Y = X[:, rng.permutation(q) % p] + rng.standard_normal((n, q))
    return X * scale + offset, Y


# Definitions: all one-to-one matchings, the linear program of the textbook, correlations by numpy.corrcoef.


def matchings(p, q):
    """Yield all sets of pairs in which each unit of the smaller side has a partner of its own."""
    if p > q:
        yield from ([(i, j) for j, i in pairs] for pairs in matchings(q, p))
    else:
        yield from (list(enumerate(columns)) for columns in itertools.permutations(range(q), p))


def permutation_definition(X, Y):
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    best = max(sum(X[:, i] @ Y[:, j] for i, j in pairs) for pairs in matchings(X.shape[1], Y.shape[1]))
    return best / np.linalg.norm(X) / np.linalg.norm(Y)


def plan_by_program(cost):
    """Return the least cost over the transportation polytope, from dense constraints written row by row."""
    p, q = cost.shape
    A, b = [], []
    for i in range(p):
        row = np.zeros((p, q))
        row[i] = 1.0
        A.append(row.ravel())
        b.append(1.0 / p)
    for j in range(q):
        row = np.zeros((p, q))
        row[:, j] = 1.0
        A.append(row.ravel())
        b.append(1.0 / q)
    largest = np.abs(cost).max() or 1.0
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(
        (cost / largest).ravel(), A_eq=np.array(A), b_eq=b, bounds=(0, None), method="highs", options=options
    )
    return result.fun * largest


def soft_definition(X, Y, unit_norm=False):
    """One minus half the least mean squared distance between units of root mean square length 1."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    if unit_norm:
        X, Y = (Z / np.where(np.linalg.norm(Z, axis=0) > 0, np.linalg.norm(Z, axis=0), 1.0) for Z in (X, Y))
    X, Y = (Z / np.sqrt((Z**2).sum(axis=0).mean()) for Z in (X, Y))
    squared = np.array([[((x - y) ** 2).sum() for y in Y.T] for x in X.T])
    return 1.0 - plan_by_program(squared) / 2.0


def correlation_table(X, Y):
    return np.array([[np.corrcoef(x, y)[0, 1] for y in Y.T] for x in X.T])


def hard_definition(X, Y, absolute=False):
    r = correlation_table(X, Y)
    r = np.abs(r) if absolute else r
    return max(np.mean([r[pair] for pair in pairs]) for pairs in matchings(*r.shape))


def semi_definition(X, Y, absolute=False, symmetrize=False):
    r = correlation_table(X, Y)
    r = np.abs(r) if absolute else r
    forth, back = np.mean([max(row) for row in r]), np.mean([max(row) for row in r.T])
    return (forth + back) / 2 if symmetrize else forth


# Values.


@given(**shapes, offset=st.sampled_from([0.0, 1e3, -1e6]), scale=st.sampled_from([1e-20, 1.0, 1e20]))
def test_permutation_procrustes_is_the_best_of_all_matchings(n, p, q, seed, offset, scale):
    X, Y = related_pair(seed, n, p, q)
    expected = permutation_definition(X, Y)
    assert permutation_procrustes(X * scale, Y) == pytest.approx(expected, abs=1e-10)
    assert permutation_procrustes(X, Y + offset) == pytest.approx(expected, abs=1e-8 if offset else 1e-10)


@pytest.mark.parametrize("unit_norm", [False, True])
@given(**shapes, scale=st.sampled_from([1e-20, 1.0, 1e20]))
def test_soft_matching_is_the_solution_of_the_linear_program(unit_norm, n, p, q, seed, scale):
    X, Y = related_pair(seed, n, p, q)
    expected = soft_definition(X, Y, unit_norm)
    assert soft_matching(X * scale, Y, unit_norm=unit_norm) == pytest.approx(expected, abs=1e-9)
    # The constraints of the program itself hold to rounding only: the certificate below is sharper.
    assert_optimal(SoftMatching(unit_norm=unit_norm).fit(X, Y), X, Y, unit_norm)


def assert_optimal(index, X, Y, unit_norm):
    """Check that the plan is feasible, and that no cycle of moves of mass between units gains anything."""
    P = index.transport_
    p, q = P.shape
    np.testing.assert_allclose(P.sum(axis=1), 1 / p, atol=1e-15)
    np.testing.assert_allclose(P.sum(axis=0), 1 / q, atol=1e-15)
    assert P.min() >= 0.0
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    if unit_norm:
        X, Y = X / np.linalg.norm(X, axis=0), Y / np.linalg.norm(Y, axis=0)
    gain = X.T @ Y
    # Longest paths between units of X, where a step from i to k moves mass of i from j to where k has some.
    steps = np.full((p, p), -math.inf)
    for i, k, j in itertools.product(range(p), range(p), range(q)):
        if P[i, j] > 1e-12:
            steps[i, k] = max(steps[i, k], gain[k, j] - gain[i, j])
    for m, i, k in itertools.product(range(p), range(p), range(p)):
        steps[i, k] = max(steps[i, k], steps[i, m] + steps[m, k])
    assert max(np.diagonal(steps)) <= 1e-9 * np.abs(gain).max()
    norm = np.sqrt((X**2).sum() * (Y**2).sum() / (p * q))
    assert index.similarity_ == pytest.approx((P * gain).sum() / norm, abs=1e-12)


@given(**shapes)
def test_soft_matching_of_equal_widths_is_a_permutation(n, p, q, seed):
    X, Y = related_pair(seed, n, p, p)
    index = SoftMatching().fit(X, Y)
    assert index.similarity_ == pytest.approx(permutation_definition(X, Y), abs=1e-10)
    assert set(np.unique(p * index.transport_)) <= {0.0, 1.0}


def test_soft_matching_of_repeated_units_is_that_of_the_units():
    X, Y = related_pair(3, 30, 4, 4)
    for copies in (2, 3):
        assert soft_matching(np.tile(X, copies), Y) == pytest.approx(soft_matching(X, Y), abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(2, 3), (6, 4), (5, 15), (12, 18), (7, 11)])
def test_copies_and_program_give_the_same_transport(p, q):
    gain = np.random.default_rng(p).standard_normal((p, q))
    copies = math.lcm(p, q)
    by_copies, by_program = (f(gain, copies) / copies for f in (_transport._assign_copies, _transport._solve_program))
    for plan in (by_copies, by_program, _transport.transport_plan(gain)):
        np.testing.assert_allclose(plan.sum(axis=1), 1 / p, atol=1e-15)
        np.testing.assert_allclose(plan.sum(axis=0), 1 / q, atol=1e-15)
        assert (plan * gain).sum() == pytest.approx(-plan_by_program(-gain), abs=1e-10)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_large_program_is_solved_exactly(scale):
    # 190 and 211 units have no small common multiple; the interior point method has to end at a vertex.
    gain = np.random.default_rng(0).standard_normal((190, 211)) * scale
    plan = _transport.transport_plan(gain)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 190, atol=1e-15)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 211, atol=1e-15)
    assert np.count_nonzero(plan) <= 190 + 211 - 1
    counts = plan * 190 * 211
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)


def test_program_without_solution_is_an_error(monkeypatch):
    class Failed:
        success, message = False, "time limit"

    monkeypatch.setattr(_transport, "linprog", lambda *args, **kwargs: Failed)
    with pytest.raises(RuntimeError, match="between 30 and 41 units was not solved: time limit"):
        _transport.transport_plan(np.ones((30, 41)))


@pytest.mark.parametrize("absolute", [False, True])
@given(**shapes, scale=st.sampled_from([1e-20, 1.0, 1e20]))
def test_correlation_match_is_that_of_the_definition(absolute, n, p, q, seed, scale):
    X, Y = related_pair(seed, max(n, 3), p, q)
    hard = correlation_match(X * scale, Y, absolute=absolute)
    assert hard == pytest.approx(hard_definition(X, Y, absolute), abs=1e-10)
    for symmetrize in (False, True):
        soft = correlation_match(X * scale, Y, kind="soft", absolute=absolute, symmetrize=symmetrize)
        assert soft == pytest.approx(semi_definition(X, Y, absolute, symmetrize), abs=1e-10)


def test_correlation_match_sees_units_of_any_scale():
    X, Y = related_pair(0, 20, 4, 3)
    expected = hard_definition(X, Y)
    assert correlation_match(X * [1e-3, 1.0, 1e4, 1e8], Y * [1e6, 1.0, 1e-2]) == pytest.approx(expected, abs=1e-10)


def test_constant_units_are_left_out_of_correlation_match():
    X, Y = related_pair(0, 20, 4, 3)
    dead_x, dead_y = np.insert(X, 1, 7.0, axis=1), np.insert(Y, [0, 3], [0.0, -2.5], axis=1)
    for kind in ("hard", "soft"):
        index = CorrelationMatch(kind).fit(dead_x, dead_y)
        plain = CorrelationMatch(kind).fit(X, Y)
        assert index.similarity_ == pytest.approx(plain.similarity_, abs=1e-12)
        np.testing.assert_array_equal(np.delete(index.match_, 1), np.where(plain.match_ >= 0, plain.match_ + 1, -1))
        assert index.match_[1] == -1
        assert math.isnan(index.correlations_[1])
        assert index.match_y_[0] == index.match_y_[-1] == -1
        assert index.score(dead_x, dead_y) == pytest.approx(index.similarity_, abs=1e-12)
        assert similarity(dead_x, dead_x, index="correlation_match", kind=kind) == pytest.approx(1.0, abs=1e-12)


def test_constant_units_do_not_change_the_matching_of_the_others():
    X, Y = related_pair(1, 20, 4, 4)
    dead_x, dead_y = np.insert(X, 2, 3.0, axis=1), np.insert(Y, 0, 3.0, axis=1)
    assert permutation_procrustes(dead_x, dead_y) >= permutation_definition(X, Y) - 1e-12
    assert soft_matching(dead_x, dead_x, unit_norm=True) == pytest.approx(1.0, abs=1e-12)
    assert soft_matching(dead_x, dead_y, unit_norm=True) == pytest.approx(
        soft_definition(dead_x, dead_y, True), abs=1e-9
    )


def test_a_matching_is_worth_no_more_than_a_rotation():
    X, Y = related_pair(5, 40, 6, 4)
    assert permutation_procrustes(X, Y) <= procrustes_similarity(X, Y)
    shuffled = X[:, np.random.default_rng(0).permutation(6)]
    index = PermutationProcrustes().fit(X, shuffled)
    assert index.similarity_ == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_array_equal(X[:, index.permutation_], shuffled)


def test_rotation_of_units_lowers_every_index():
    X = np.random.default_rng(0).standard_normal((200, 6))
    rotated = X @ np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    assert procrustes_similarity(X, rotated) == pytest.approx(1.0, abs=1e-12)
    for index in (PermutationProcrustes(), SoftMatching(), CorrelationMatch(), CorrelationMatch("soft")):
        assert index.fit(X, rotated).similarity_ < 0.9


def test_forced_negative_matches_are_counted():
    x = np.array([[0.0], [1.0], [2.0]])
    assert permutation_procrustes(x, -x) == pytest.approx(-1.0, abs=1e-12)
    assert soft_matching(x, -x) == pytest.approx(-1.0, abs=1e-12)
    assert correlation_match(x, -x) == pytest.approx(-1.0, abs=1e-12)
    assert correlation_match(x, -x, absolute=True) == pytest.approx(1.0, abs=1e-12)


# What fit learns.


@pytest.mark.parametrize(("p", "q"), [(4, 4), (6, 4), (3, 5)])
def test_permutation_and_transform(p, q):
    X, Y = related_pair(2, 30, p, q)
    index = PermutationProcrustes().fit(X, Y)
    kept = [i for i in index.permutation_ if i >= 0]
    assert len(kept) == len(set(kept)) == min(p, q)
    moved = index.transform(X)
    assert moved.shape == (30, q)
    for j, i in enumerate(index.permutation_):
        expected = X[:, i] - X[:, i].mean() if i >= 0 else np.zeros(30)
        np.testing.assert_allclose(moved[:, j], expected, atol=1e-12)
    centered = Y - Y.mean(axis=0)
    norm = np.linalg.norm(X - X.mean(axis=0)) * np.linalg.norm(centered)
    assert (moved * centered).sum() / norm == pytest.approx(index.similarity_, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(4, 4), (6, 4), (3, 5)])
@pytest.mark.parametrize("index", [PermutationProcrustes(), SoftMatching(), SoftMatching(unit_norm=True)], ids=repr)
def test_score_on_new_rows_uses_the_learned_matching_and_means(index, p, q):
    X, Y = related_pair(4, 60, p, q, offset=3.0)
    index = index.fit(X[:30], Y[:30])
    new_x, new_y = X[30:] - X[:30].mean(axis=0), Y[30:] - Y[:30].mean(axis=0)
    if getattr(index, "unit_norm", False):
        new_x, new_y = new_x / X[:30].std(axis=0), new_y / Y[:30].std(axis=0)
    if isinstance(index, PermutationProcrustes):
        inner = sum(new_x[:, i] @ new_y[:, j] for j, i in enumerate(index.permutation_) if i >= 0)
        norm = np.linalg.norm(new_x) * np.linalg.norm(new_y)
    else:
        inner = (index.transport_ * (new_x.T @ new_y)).sum()
        norm = np.sqrt((new_x**2).sum() / p * (new_y**2).sum() / q)
    assert index.score(X[30:], Y[30:]) == pytest.approx(inner / norm, abs=1e-12)
    assert index.score(X[:30], Y[:30]) == pytest.approx(index.similarity_, abs=1e-12)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("kind", "symmetrize"), [("hard", False), ("soft", False), ("soft", True)])
def test_held_out_correlations_of_learned_matches(kind, symmetrize, absolute):
    X, Y = related_pair(6, 40, 5, 4)
    Y[:, 0] *= -1.0
    index = CorrelationMatch(kind, absolute=absolute, symmetrize=symmetrize).fit(X[:20], Y[:20])
    before, after = correlation_table(X[:20], Y[:20]), correlation_table(X[20:], Y[20:])
    signs = np.sign(before) if absolute else np.ones_like(before)
    forth = [signs[i, j] * after[i, j] for i, j in enumerate(index.match_) if j >= 0]
    back = [signs[i, j] * after[i, j] for j, i in enumerate(index.match_y_) if i >= 0]
    expected = (np.mean(forth) + np.mean(back)) / 2 if symmetrize else np.mean(forth)
    assert index.score(X[20:], Y[20:]) == pytest.approx(expected, abs=1e-12)
    for i, j in enumerate(index.match_):
        if j >= 0:
            assert index.correlations_[i] == pytest.approx(before[i, j], abs=1e-12)


def test_matching_learned_from_noise_does_not_hold():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 60, 30))
    for index in (PermutationProcrustes(), SoftMatching(), CorrelationMatch(), CorrelationMatch("soft")):
        fitted = index.fit(X[:30], Y[:30])
        assert fitted.similarity_ > 0.2
        assert abs(fitted.score(X[30:], Y[30:])) < 0.15


def test_units_that_die_after_fit_are_left_out_of_the_score():
    X, Y = related_pair(0, 40, 3, 3)
    index = CorrelationMatch().fit(X[:20], Y[:20])
    dead = X[20:].copy()
    dead[:, 1] = 5.0
    after = correlation_table(X[20:], Y[20:])
    expected = np.mean([after[i, index.match_[i]] for i in (0, 2)])
    assert index.score(dead, Y[20:]) == pytest.approx(expected, abs=1e-12)
    with pytest.warns(UndefinedSimilarityWarning, match="constant over the rows of fit or over those given"):
        assert math.isnan(index.score(np.ones((20, 3)), Y[20:]))


@pytest.mark.parametrize(
    "index", [PermutationProcrustes(), SoftMatching(), CorrelationMatch(), CorrelationMatch("soft")], ids=repr
)
@pytest.mark.parametrize("side", ["X", "y"])
def test_constant_side_is_undefined_and_named(index, side):
    X, Y = related_pair(0, 10, 3, 3)
    pair = (np.full_like(X, 2.5), Y) if side == "X" else (X, np.full_like(Y, 2.5))
    with pytest.warns(UndefinedSimilarityWarning, match=f"{side} is constant over the rows"):
        assert math.isnan(index.fit(*pair).similarity_)


@pytest.mark.parametrize(
    "index", [PermutationProcrustes(), SoftMatching(), CorrelationMatch(), CorrelationMatch("soft")], ids=repr
)
def test_fit_solves_the_matching_once(index, monkeypatch):
    solved = []
    original = type(index)._solve
    monkeypatch.setattr(type(index), "_solve", lambda self, gain: solved.append(gain.shape) or original(self, gain))
    index.fit(*related_pair(0, 10, 4, 3))
    assert solved == [(4, 3)]


@pytest.mark.parametrize("index", [PermutationProcrustes(), SoftMatching(), CorrelationMatch()], ids=repr)
def test_array_libraries_agree(index, backend):
    X, Y = related_pair(0, 20, 6, 4)
    expected = index.fit(X, Y)
    held_out, moved = expected.score(X[::-2], Y[::-2]), getattr(expected, "transform", lambda X: None)(X)
    learned = np.asarray(getattr(expected, "permutation_", getattr(expected, "transport_", expected.x_mean_)))
    value = expected.similarity_
    there = index.fit(backend.asarray(X), backend.asarray(Y))
    assert there.similarity_ == pytest.approx(value, abs=1e-12)
    assert there.score(backend.asarray(X[::-2].copy()), backend.asarray(Y[::-2].copy())) == pytest.approx(
        held_out, abs=1e-12
    )
    if moved is not None:
        np.testing.assert_allclose(to_numpy(there.transform(backend.asarray(X))), moved, atol=1e-12)
    seen = getattr(there, "permutation_", getattr(there, "transport_", there.x_mean_))
    np.testing.assert_allclose(to_numpy(seen), learned, atol=1e-12)


def test_float32_agrees_with_float64():
    X, Y = related_pair(0, 50, 12, 8, offset=100.0)
    for index in (PermutationProcrustes(), SoftMatching(unit_norm=True), CorrelationMatch()):
        single = index.fit(X.astype(np.float32), Y.astype(np.float32)).similarity_
        assert single == pytest.approx(index.fit(X, Y).similarity_, abs=1e-4)


def test_transform_in_a_pipeline_with_names():
    X, Y = related_pair(0, 20, 3, 2)
    pipeline = make_pipeline(SoftMatching(), StandardScaler()).set_output(transform="pandas")
    frame = pipeline.fit(X, Y).transform(X)
    assert list(frame.columns) == ["softmatching0", "softmatching1"]
    expected = (X - X.mean(axis=0)) @ (2 * SoftMatching().fit(X, Y).transport_)
    np.testing.assert_allclose(frame.to_numpy(), expected / expected.std(axis=0), atol=1e-12)


# Distances and tables.


@given(seed=st.integers(0, 10_000), widths=st.tuples(*[st.integers(1, 4)] * 3))
def test_soft_matching_distances_are_metrics_among_all_widths(seed, widths):
    rng = np.random.default_rng(seed)
    A, B, C = (rng.standard_normal((5, width)) for width in widths)
    for unit_norm in (False, True):
        index = SoftMatching(unit_norm=unit_norm)
        assert index.distance(A, C) <= index.distance(A, B) + index.distance(B, C) + 1e-7


@given(seed=st.integers(0, 10_000), width=st.integers(1, 4))
def test_permutation_distances_are_metrics_among_equal_widths(seed, width):
    A, B, C = np.random.default_rng(seed).standard_normal((3, 5, width))
    index = PermutationProcrustes()
    assert index.distance(A, C) <= index.distance(A, B) + index.distance(B, C) + 1e-7
    assert index.distance(A, B) == pytest.approx(math.acos(permutation_definition(A, B)), abs=1e-7)


def test_soft_matching_distance_is_the_wasserstein_distance():
    X, Y = related_pair(0, 20, 5, 3)
    scaled = [(Z - Z.mean(axis=0)) / np.sqrt(((Z - Z.mean(axis=0)) ** 2).sum(axis=0).mean()) for Z in (X, Y)]
    squared = np.array([[((x - y) ** 2).sum() for y in scaled[1].T] for x in scaled[0].T])
    assert SoftMatching().distance(X, Y) == pytest.approx(math.sqrt(plan_by_program(squared)), abs=1e-9)


@pytest.mark.parametrize("name", ["permutation_procrustes", "soft_matching", "correlation_match"])
def test_names_and_tables(name):
    layers = {f"layer{p}": related_pair(p, 20, p, 2)[0] for p in (2, 3, 4)}
    table = compare_layers(layers, index=name, verbose=0)
    for i, a in enumerate(layers.values()):
        for j, b in enumerate(layers.values()):
            assert table.values[i, j] == pytest.approx(similarity(a, b, index=name), abs=1e-12)


# Contract.


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (SoftMatching(unit_norm=1), "unit_norm must be True or False, got 1"),
        (CorrelationMatch("semi"), "kind must be one of 'hard', 'soft', got 'semi'"),
        (CorrelationMatch(absolute="yes"), "absolute must be True or False, got 'yes'"),
        (CorrelationMatch(symmetrize=None), "symmetrize must be True or False, got None"),
    ],
)
def test_wrong_parameters(index, message):
    with pytest.raises(ValueError, match=message):
        index.fit(*related_pair(0, 10, 3, 2))


CONFIGURATIONS = [
    PermutationProcrustes(),
    SoftMatching(),
    SoftMatching(unit_norm=True),
    CorrelationMatch(),
    CorrelationMatch(absolute=True),
    CorrelationMatch("soft"),
    CorrelationMatch("soft", absolute=True, symmetrize=True),
]


@quiet
@parametrize_with_checks(CONFIGURATIONS)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


DEFINITIONS = {
    PermutationProcrustes: lambda index: permutation_definition,
    SoftMatching: lambda index: lambda X, Y: soft_definition(X, Y, index.unit_norm),
    CorrelationMatch: lambda index: (
        (lambda X, Y: hard_definition(X, Y, index.absolute))
        if index.kind == "hard"
        else (lambda X, Y: semi_definition(X, Y, index.absolute, index.symmetrize))
    ),
}


def _index_checks():
    for index in CONFIGURATIONS:
        wide = isinstance(index, PermutationProcrustes) or getattr(index, "kind", None) == "hard"
        reference = None if wide else DEFINITIONS[type(index)](index)  # not all permutations of 24 units
        for name, check in index_checks(index, reference=reference):
            yield pytest.param(check, id=f"{index!r}-{name}")


@quiet
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
