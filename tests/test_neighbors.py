"""The neighbour family against definitions written with loops and sets."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    CKNNA,
    ChanceLevelWarning,
    CycleKNN,
    DegenerateSimilarityWarning,
    JaccardKNN,
    MutualKNN,
    RankSimilarity,
    SecondOrderCosine,
    UndefinedSimilarityWarning,
    cka,
    cknna,
    compare_layers,
    cycle_knn,
    jaccard_knn,
    mutual_knn,
    rank_similarity,
    second_order_cosine,
    similarity,
)
from sklearn_cka.indexes import _neighbor_tables
from sklearn_cka.indexes._neighbor_tables import METRICS, neighbor_table
from sklearn_cka.testing import index_checks

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
INDEXES = [MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, SecondOrderCosine, CKNNA]


class AbsoluteCosine:
    """A metric of one's own; its representation, part of the names of tests, is the same in every process."""

    def __call__(self, a, b):
        norms = float(np.linalg.norm(a) * np.linalg.norm(b))
        return 1.0 - abs(float(a @ b)) / norms if norms else 1.0

    def __repr__(self):
        return "AbsoluteCosine()"


# Definitions, one row and one pair at a time.


def distance(a, b, metric):
    if metric in ("euclidean", "l2"):
        return math.sqrt(math.fsum((u - v) ** 2 for u, v in zip(a, b, strict=True)))
    if metric == "sqeuclidean":
        return math.fsum((u - v) ** 2 for u, v in zip(a, b, strict=True))
    if metric in ("cityblock", "manhattan", "l1"):
        return math.fsum(abs(u - v) for u, v in zip(a, b, strict=True))
    if metric == "chebyshev":
        return max(abs(u - v) for u, v in zip(a, b, strict=True))
    if metric == "correlation":
        a, b = a - a.mean(), b - b.mean()
    norms = math.sqrt(math.fsum(u * u for u in a)) * math.sqrt(math.fsum(u * u for u in b))
    return 1.0 - math.fsum(u * v for u, v in zip(a, b, strict=True)) / norms if norms else 1.0


def neighbors(X, k, metric="euclidean", digits=None):
    """Return for every row the list of its k nearest others; equal distances, to so many digits, by row index."""
    lists = []
    for i, row in enumerate(X):
        others = [j for j in range(len(X)) if j != i]
        measured = {j: distance(row, X[j], metric) for j in others}
        if digits is not None:
            measured = {j: round(d, digits) for j, d in measured.items()}
        lists.append(sorted(others, key=lambda j, d=measured: (d[j], j))[:k])
    return lists


def mutual_definition(X, Y, k, metric="euclidean", **kw):
    pairs = zip(neighbors(X, k, metric, **kw), neighbors(Y, k, metric, **kw), strict=True)
    return sum(len(set(a) & set(b)) / k for a, b in pairs) / len(X)


def jaccard_definition(X, Y, k, metric="euclidean", **kw):
    pairs = zip(neighbors(X, k, metric, **kw), neighbors(Y, k, metric, **kw), strict=True)
    return sum(len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in pairs) / len(X)


def cycle_definition(X, Y, k, metric="euclidean", **kw):
    of_x, of_y = neighbors(X, k, metric, **kw), neighbors(Y, k, metric, **kw)
    return sum(any(i in of_x[j] for j in of_y[i]) for i in range(len(X))) / len(X)


def rank_definition(X, Y, k, metric="euclidean", **kw):
    total = 0.0
    for a, b in zip(neighbors(X, k, metric, **kw), neighbors(Y, k, metric, **kw), strict=True):
        common = set(a) & set(b)
        if common:
            largest = sum(1.0 / r for r in range(1, len(common) + 1))
            for j in common:
                r, s = a.index(j) + 1, b.index(j) + 1
                total += 2.0 / ((1 + abs(r - s)) * (r + s)) / largest
    return total / len(X)


def second_order_definition(X, Y, k, metric="cosine", **kw):
    values = []
    for i, (a, b) in enumerate(zip(neighbors(X, k, metric, **kw), neighbors(Y, k, metric, **kw), strict=True)):
        union = sorted(set(a) | set(b))
        s, t = (np.array([distance(Z[i], Z[j], metric) for j in union]) for Z in (X, Y))
        if metric in ("cosine", "correlation"):
            s, t = 1.0 - s, 1.0 - t
        if np.linalg.norm(s) > 0 and np.linalg.norm(t) > 0:
            values.append(s @ t / np.linalg.norm(s) / np.linalg.norm(t))
    return sum(values) / len(values)


def vectors(X, metric):
    return X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X - X.mean(axis=0)


def cknna_definition(X, Y, k, metric="euclidean", **kw):
    """The printed formula: rows of the Gram matrices centred, then masked."""
    of = [neighbors(Z, k, metric, **kw) for Z in (X, Y)]
    grams = [vectors(Z, metric) @ vectors(Z, metric).T for Z in (X, Y)]
    n = len(X)

    def align(p, q):
        total = 0.0
        for i, j in itertools.product(range(n), range(n)):
            if i != j and j in of[p][i] and j in of[q][i]:
                total += (grams[p][i, j] - grams[p][i].mean()) * (grams[q][i, j] - grams[q][i].mean())
        return total

    return align(0, 1) / math.sqrt(align(0, 0) * align(1, 1))


def debiased_cknna_definition(X, Y, k, metric="euclidean", **kw):
    """The unbiased HSIC, with dense matrices and traces, of Gram matrices times the common mask."""
    of = [neighbors(Z, k, metric, **kw) for Z in (X, Y)]
    grams = [vectors(Z, metric) @ vectors(Z, metric).T for Z in (X, Y)]
    n = len(X)

    def align(p, q):
        mask = np.array([[float(j in of[p][i] and j in of[q][i]) for j in range(n)] for i in range(n)])
        K, L = mask * grams[p], mask * grams[q]
        one = np.ones(n)
        trace = np.trace(K @ L)
        sums = (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
        return (trace + sums - 2.0 / (n - 2) * (one @ K @ L @ one)) / (n * (n - 3))

    return align(0, 1) / math.sqrt(align(0, 0) * align(1, 1))


DEFINITIONS = {
    MutualKNN: mutual_definition,
    JaccardKNN: jaccard_definition,
    CycleKNN: cycle_definition,
    RankSimilarity: rank_definition,
    SecondOrderCosine: second_order_definition,
    CKNNA: cknna_definition,
}


def related_pair(seed, n, p, q, offset=0.0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    Y = X[:, np.arange(q) % p] + rng.standard_normal((n, q))
    return X * scale + offset, Y


def value(index, X, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return index.fit(X, Y).similarity_


# Values.


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(7, 24),
    p=st.integers(1, 6),
    q=st.integers(1, 6),
    k=st.integers(1, 6),
    scale=st.sampled_from([1e-20, 1.0, 1e20]),
)
def test_value_is_that_of_the_definition(kind, seed, n, p, q, k, scale):
    metric = "cosine" if kind is SecondOrderCosine else "euclidean"
    X, Y = related_pair(seed, n, max(p, 2) if metric == "cosine" else p, max(q, 2), scale=scale)
    expected = DEFINITIONS[kind](X, Y, k, metric)
    assert value(kind(k, metric=metric), X, Y) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
@given(seed=st.integers(0, 10_000), offset=st.sampled_from([1e3, 1e6, -1e9]))
def test_offsets_do_not_change_the_value(kind, seed, offset):
    # Whole numbers over a power of two: adding the offset loses nothing, so that the definition sees the same rows.
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(-500, 500, size=(2, 15, 3)) / 64.0
    expected = DEFINITIONS[kind](X, Y, 4, "euclidean")
    assert value(kind(4, metric="euclidean"), X + offset, Y - offset) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 10), levels=st.integers(2, 4), p=st.integers(1, 3))
def test_ties_go_to_the_smaller_row_index(kind, seed, k, levels, p):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, levels, size=(16, p)).astype(float)
    Y = rng.integers(0, levels, size=(16, 2)).astype(float)
    for Z in (X, Y):
        Z[0], Z[1] = 0.0, 1.0  # not constant
    if kind is CKNNA:
        with np.errstate(invalid="ignore"):
            expected = cknna_definition(X, Y, k)
        assert value(CKNNA(k), X, Y) == pytest.approx(expected, abs=1e-10, nan_ok=True)
    else:
        assert value(kind(k, metric="cityblock"), X, Y) == pytest.approx(
            DEFINITIONS[kind](X, Y, k, "cityblock"), abs=1e-10
        )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("data", ["continuous", "whole numbers", "tenths", "repeated rows", "repeated rows far off"])
def test_neighbor_tables_of_every_metric(metric, data, backend):
    rng = np.random.default_rng(len(metric) + len(data))
    for p in (2, 5):
        X = {
            "continuous": rng.standard_normal((30, p)),
            "whole numbers": rng.integers(-2, 3, (30, p)).astype(float),
            "tenths": 0.1 * rng.integers(-2, 3, (30, p)),
            "repeated rows": rng.standard_normal((8, p))[rng.integers(0, 8, 30)],
            "repeated rows far off": 1000.0 + rng.standard_normal((8, p))[rng.integers(0, 8, 30)],
        }[data]
        if metric == "correlation":
            X[:, 0] += 20.0 * (np.ptp(X, axis=1) == 0)  # such a row has no correlation
        for k in (1, 4, 29):
            table = neighbor_table(backend.asarray(X), k, metric)
            assert table.indices.tolist() == neighbors(X, k, metric, digits=10)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock", "chebyshev"])
def test_neighbors_are_those_of_scikit_learn(metric):
    X = np.random.default_rng(3).standard_normal((200, 7))
    searched = NearestNeighbors(n_neighbors=12, metric=metric).fit(X).kneighbors(return_distance=False)
    np.testing.assert_array_equal(neighbor_table(X, 12, metric).indices, searched)


def test_near_duplicates_are_told_apart():
    # Squared distances of 1e-24 beside rows of squared norm 1: a product of rows knows nothing of them.
    rng = np.random.default_rng(0)
    centers = 100.0 * np.arange(4)[:, None] + rng.standard_normal((4, 3))
    steps = np.array([0.0, 1.0, 3.0, 7.0, 15.0]) * 2.0**-36
    X = (centers[:, None, :] + steps[None, :, None]).reshape(-1, 3)
    expected = [
        [base + j for j in order] for base in (0, 5, 10, 15) for order in ([1, 2], [0, 2], [1, 0], [2, 1], [3, 2])
    ]
    assert neighbor_table(X, 2, "euclidean").indices.tolist() == expected


def test_rows_in_blocks_give_the_same_table(monkeypatch):
    X = np.random.default_rng(1).integers(0, 3, size=(50, 3)).astype(float)
    whole = {metric: neighbor_table(X, 6, metric) for metric in METRICS}
    monkeypatch.setattr(_neighbor_tables, "_MOST_ROWS", 7)
    for metric, table in whole.items():
        parts = neighbor_table(X, 6, metric)
        np.testing.assert_array_equal(parts.indices, table.indices)
        assert (parts.set_ties, parts.order_ties) == (table.set_ties, table.order_ties)


def test_rows_without_direction_are_at_right_angles_to_all():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [0.0, 0.0]])
    assert neighbor_table(X, 2, "cosine").indices.tolist() == neighbors(X, 2, "cosine")
    assert neighbors(X, 2, "cosine")[1] == [0, 2]


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
def test_array_libraries_agree_on_tied_data(kind, backend):
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 3, size=(40, 3)) / 7.0, rng.integers(0, 5, size=(40, 4)) / 3.0
    for dtype in (np.float64, np.float32):
        pair = X.astype(dtype), Y.astype(dtype)
        assert value(kind(6), *map(backend.asarray, pair)) == pytest.approx(value(kind(6), *pair), abs=1e-12)


@pytest.mark.parametrize("metric", [*METRICS, AbsoluteCosine()], ids=str)
def test_metrics_of_the_indexes(metric):
    X, Y = related_pair(5, 20, 4, 3)
    if callable(metric):
        angle = NearestNeighbors(n_neighbors=4, metric=metric)
        tables = [angle.fit(Z).kneighbors(return_distance=False) for Z in (X, Y)]
        expected = np.mean([len(set(a) & set(b)) / 4 for a, b in zip(*tables, strict=True)])
        assert value(MutualKNN(4, metric=metric), X, Y) == pytest.approx(expected, abs=1e-12)
        return
    for kind in set(INDEXES) - {CKNNA}:
        expected = DEFINITIONS[kind](X, Y, 4, metric)
        assert value(kind(4, metric=metric), X, Y) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@given(seed=st.integers(0, 10_000), n=st.integers(8, 20), k=st.integers(2, 6))
def test_cknna_in_both_forms(metric, seed, n, k):
    X, Y = related_pair(seed, n, 4, 3)
    assert value(CKNNA(k, metric=metric), X, Y) == pytest.approx(cknna_definition(X, Y, k, metric), abs=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = CKNNA(k, metric=metric, debiased=True)
        if min(index.embed(X).hsic, index.embed(Y).hsic) <= 0.0:
            assert math.isnan(index.fit(X, Y).similarity_)
            return
    expected = debiased_cknna_definition(X, Y, k, metric)
    assert value(index, X, Y) == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_cknna_with_all_neighbors_is_cka_without_diagonals():
    X, Y = related_pair(1, 15, 4, 3)
    K, L = ((Z - Z.mean(axis=0)) @ (Z - Z.mean(axis=0)).T for Z in (X, Y))
    for gram in (K, L):
        np.fill_diagonal(gram, 0.0)
    expected = np.sum(K * L) / np.linalg.norm(K) / np.linalg.norm(L)
    assert value(CKNNA(14), X, Y) == pytest.approx(expected, abs=1e-12)
    # The unbiased HSIC leaves diagonals out by itself: with all neighbours it is that of debiased CKA.
    assert value(CKNNA(14, debiased=True), X, Y) == pytest.approx(cka(X, Y, debiased=True), abs=1e-12)


def test_debiased_cknna_without_mutual_neighbors_is_undefined():
    X = np.random.default_rng(11).standard_normal((8, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="not positive"):
        assert math.isnan(cknna(X, X[:, :2], n_neighbors=1, debiased=True))


def test_second_order_cosine_by_hand():
    X, Y = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]]
    assert second_order_cosine(X, Y, n_neighbors=2) == pytest.approx((1 + 1.4 / math.sqrt(2) + 1) / 3, abs=1e-12)


def test_second_order_cosine_leaves_out_rows_without_similarities():
    X, Y = related_pair(2, 12, 3, 3)
    X[4] = 0.0
    expected = second_order_definition(X, Y, 3)
    assert value(SecondOrderCosine(3), X, Y) == pytest.approx(expected, abs=1e-10)
    with pytest.warns(UndefinedSimilarityWarning, match="no row has a similarity other than 0"):
        assert math.isnan(second_order_cosine(np.zeros_like(X), Y, n_neighbors=3))


def test_cycle_starts_in_y():
    X, Y = related_pair(1, 12, 2, 2)
    assert cycle_definition(X, Y, 2) != cycle_definition(Y, X, 2)
    assert value(CycleKNN(2), X, Y) == pytest.approx(cycle_definition(X, Y, 2), abs=1e-12)
    assert value(CycleKNN(2), Y, X) == pytest.approx(cycle_definition(Y, X, 2), abs=1e-12)


@pytest.mark.parametrize("k", [1, 3, 11])
def test_functions_and_names_are_the_estimators(k):
    X, Y = related_pair(8, 14, 4, 3)
    functions = {
        "mutual_knn": mutual_knn,
        "jaccard_knn": jaccard_knn,
        "cycle_knn": cycle_knn,
        "rank_similarity": rank_similarity,
        "second_order_cosine": second_order_cosine,
        "cknna": cknna,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChanceLevelWarning)
        for (name, function), kind in zip(
            functions.items(), (MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, SecondOrderCosine, CKNNA), strict=True
        ):
            expected = kind(k).fit(X, Y).similarity_
            assert function(X, Y, n_neighbors=k) == expected
            assert similarity(X, Y, index=name, n_neighbors=k) == expected


# Chance levels.


def exact_mean(kind, X, Y, k, **params):
    """Return the mean of an index over all n! orders of the rows of Y."""
    index = kind(k, **params)
    orders = itertools.permutations(range(len(X)))
    return np.mean([index.compare(index.embed(X), index.embed(Y[list(order)])) for order in orders])


@pytest.mark.parametrize(
    "kind", [MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, CKNNA], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_chance_is_the_mean_over_all_orders_of_rows(kind, k):
    X, Y = related_pair(k, 6, 3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChanceLevelWarning)
        chance = kind(k).fit(X, Y).chance_
    assert chance == pytest.approx(exact_mean(kind, X, Y, k), abs=1e-12)


@pytest.mark.parametrize(
    "kind", [MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, CKNNA], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("tied_side", ["X", "y"])
def test_chance_with_ties_on_one_side_is_that_of_permuting_the_other(kind, tied_side):
    X, Y = related_pair(1, 6, 3, 2)
    tied = np.array([[0.0], [0.0], [1.0], [1.0], [0.0], [3.0]])
    pair = (tied, Y) if tied_side == "X" else (X, tied)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chance = kind(2).fit(*pair).chance_
    index = kind(2)
    fixed, free = pair if tied_side == "X" else pair[::-1]
    values = []
    for order in itertools.permutations(range(6)):
        a, b = index.embed(fixed), index.embed(free[list(order)])
        values.append(index.compare(a, b) if tied_side == "X" else index.compare(b, a))
    assert chance == pytest.approx(np.mean(values), abs=1e-12)


def test_chance_of_mutual_knn_and_jaccard_in_closed_form():
    X, Y = related_pair(0, 200, 5, 4)
    assert MutualKNN(10).fit(X, Y).chance_ == pytest.approx(10 / 199, abs=1e-15)
    overlaps = range(11)
    ways = [comb(10, m, exact=True) * comb(189, 10 - m, exact=True) for m in overlaps]
    expected = sum(w * m / (20 - m) for w, m in zip(ways, overlaps, strict=True)) / comb(199, 10, exact=True)
    assert JaccardKNN(10).fit(X, Y).chance_ == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "kind", [MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, CKNNA], ids=lambda kind: kind.__name__
)
def test_chance_is_unknown_where_ties_decide_on_both_sides(kind):
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 2, size=(2, 40, 1)).astype(float)
    with pytest.warns(DegenerateSimilarityWarning, match=r"row indices decide: \d+% and \d+% of the rows"):
        index = kind(4).fit(X, Y)
    assert math.isnan(index.chance_)
    assert index.similarity_ > 2 * 4 / 39  # row indices agree, though X and Y are independent


@pytest.mark.parametrize("index", [SecondOrderCosine(), CKNNA(debiased=True)], ids=repr)
def test_chance_without_closed_form_is_nan(index):
    assert math.isnan(index.fit(*related_pair(0, 30, 4, 3)).chance_)


def test_value_that_is_mostly_chance_warns():
    rng = np.random.default_rng(0)
    with pytest.warns(ChanceLevelWarning, match="use more rows or fewer n_neighbors than 8"):
        MutualKNN(8).fit(rng.standard_normal((20, 3)), rng.standard_normal((20, 3)))


# Contract.


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
def test_as_many_rows_as_neighbors_are_too_few(kind):
    X, Y = related_pair(0, 10, 3, 2)
    with pytest.raises(ValueError, match=r"10 sample\(s\) .* minimum of 11 is required by \w+ with n_neighbors=10"):
        kind(10).fit(X, Y)
    assert kind(9).properties.min_samples == 10


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("wrong", [0, -1, 2.0, "5", True, None])
def test_wrong_n_neighbors(kind, wrong):
    with pytest.raises(ValueError, match="n_neighbors must be a positive integer, got"):
        kind(wrong).fit(*related_pair(0, 10, 3, 2))


@pytest.mark.parametrize("kind", INDEXES, ids=lambda kind: kind.__name__)
def test_wrong_metric_lists_the_valid_ones(kind):
    with pytest.raises(ValueError, match=r"metric must be one of .*'cosine'.*got 'hamming'"):
        kind(metric="hamming").fit(*related_pair(0, 10, 3, 2))


def test_cknna_takes_metrics_that_have_a_kernel():
    with pytest.raises(ValueError, match="metric must be one of 'euclidean', 'cosine', got 'cityblock'"):
        CKNNA(metric="cityblock").fit(*related_pair(0, 10, 3, 2))


def test_metric_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        MutualKNN(metric=lambda a, b: math.nan).fit(*related_pair(0, 10, 3, 2))


@pytest.mark.parametrize(
    "kind", [MutualKNN, JaccardKNN, CycleKNN, RankSimilarity, CKNNA], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_all_alike_are_undefined(kind, metric):
    _, Y = related_pair(0, 20, 3, 2)
    alike = np.full((20, 3), 3.7) if metric == "euclidean" else np.outer(np.arange(1.0, 21.0), [0.3, 1.0, -2.0])
    with pytest.warns(UndefinedSimilarityWarning, match="all rows of X are at distance 0"):
        index = kind(metric=metric).fit(alike, Y)
    assert math.isnan(index.similarity_)
    assert math.isnan(index.chance_)


def test_neighbors_take_no_weights():
    X, Y = related_pair(0, 20, 3, 2)
    with pytest.raises(TypeError, match="sample_weight"):
        MutualKNN().fit(X, Y, sample_weight=np.ones(20))


@quiet
def test_score_seeks_neighbors_among_the_rows_given():
    X, Y = related_pair(0, 60, 3, 2)
    index = MutualKNN(3).fit(X[:40], Y[:40])
    assert index.score(X[40:], Y[40:]) == pytest.approx(mutual_definition(X[40:], Y[40:], 3), abs=1e-12)


@quiet
def test_tables_embed_each_layer_once(monkeypatch):
    calls = []
    original = MutualKNN.embed
    monkeypatch.setattr(MutualKNN, "embed", lambda self, X: calls.append(X.shape) or original(self, X))
    layers = {f"layer{p}": related_pair(p, 30, p, 2)[0] for p in (2, 3, 4)}
    table = compare_layers(layers, index=MutualKNN(4), verbose=0)
    assert len(calls) == 3
    for i, a in enumerate(layers.values()):
        for j, b in enumerate(layers.values()):
            assert table.values[i, j] == pytest.approx(mutual_definition(a, b, 4), abs=1e-12)


@pytest.mark.parametrize("kind", [MutualKNN, JaccardKNN], ids=lambda kind: kind.__name__)
@given(seed=st.integers(0, 10_000))
def test_one_minus_the_index_is_a_metric(kind, seed):
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(0, 4, size=(3, 12, 2)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ab, bc, ac = (kind(3).distance(*pair) for pair in ((A, B), (B, C), (A, C)))
    assert ac <= ab + bc + 1e-12


CONFIGURATIONS = [
    MutualKNN(),
    MutualKNN(9, metric="cosine"),
    MutualKNN(3, metric="chebyshev"),
    MutualKNN(3, metric=AbsoluteCosine()),
    JaccardKNN(),
    JaccardKNN(2, metric="cityblock"),
    CycleKNN(),
    CycleKNN(1),
    CycleKNN(4, metric="correlation"),
    RankSimilarity(),
    RankSimilarity(8, metric="cosine"),
    SecondOrderCosine(),
    SecondOrderCosine(3, metric="euclidean"),
    CKNNA(),
    CKNNA(6, metric="cosine"),
    CKNNA(debiased=True),
    CKNNA(6, metric="cosine", debiased=True),
]


@quiet
@parametrize_with_checks(CONFIGURATIONS)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in CONFIGURATIONS:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index!r}-{name}")


@quiet
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
