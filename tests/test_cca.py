"""CCA, SVCCA, PWCCA and eigenspace overlap: published inputs, fitted maps, held-out scores, warnings."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import spectral_definitions as definitions
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cka import (
    PWCCA,
    SVCCA,
    CanonicalCorrelation,
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    EigenspaceOverlap,
    UndefinedSimilarityWarning,
    cca,
    compare_layers,
    get_index,
    pwcca,
    svcca,
)
from sklearn_cka._arrays import to_numpy
from sklearn_cka.indexes import _spectral

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

rng = np.random.default_rng
FAMILY = [
    CanonicalCorrelation(),
    CanonicalCorrelation(statistic="mean_squared"),
    SVCCA(),
    SVCCA(n_components=2),
    PWCCA(),
    PWCCA(symmetrize=True),
    EigenspaceOverlap(),
]
family = pytest.mark.parametrize("index", FAMILY, ids=map(repr, FAMILY))


def pair(n=60, p=5, q=4, noise=1.0, seed=0):
    X = rng(seed).standard_normal((n, p)) * np.geomspace(1.0, 3.0, p)
    return X, X[:, np.arange(q) % p] + noise * rng(seed + 1000).standard_normal((n, q))


def raised(kind, call, *args):
    """Return the messages of the warnings of one kind that a call issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args)
    return [str(warning.message) for warning in caught if issubclass(warning.category, kind)]


# Inputs on which other programs went wrong.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_of_single_precision_data_is_found_from_their_own_rounding(dtype):
    W = rng(0).standard_normal((100, 3)).astype("f4") @ rng(1).standard_normal((3, 20)).astype("f4")
    Z = rng(2).standard_normal((100, 5)).astype("f4").astype(dtype)  # the other side does not change the rank of this
    index = CanonicalCorrelation().fit(W, Z)
    np.testing.assert_allclose(index.canonical_correlations_, [0.374480, 0.221277, 0.036955], atol=2e-6)
    for threshold in (0.99, 1.0):
        assert SVCCA(threshold=threshold).fit(W, Z).n_components_x_ == 3
    table = compare_layers({"W": W, "Z": Z}, index="cca", verbose=0)
    assert table.values[0, 1] == pytest.approx(np.mean([0.374480, 0.221277, 0.036955]), abs=2e-6)


def test_canonical_correlations_are_descending_and_accurate():
    r = rng(30)
    t = np.arange(15.0)[:, None]

    def g():
        return 0.1 * r.normal(size=(15, 1))

    X = np.c_[g(), -t + g(), -0.5 * t + g()]
    Y = np.c_[1.5 * t + g(), 0.3 * t + g(), 0.8 * t + g()]
    rho = CanonicalCorrelation().fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(rho, [0.999899, 0.323629, 0.301762], atol=1e-6)
    assert np.all(np.diff(rho) < 0)


@pytest.mark.parametrize("constant", [3.0, 0.1, -1e6])
def test_constant_column_changes_nothing(constant):
    X = rng(0).standard_normal((50, 4))
    Y = X[:, :3] + rng(1).standard_normal((50, 3))
    wider = np.c_[X, np.full(50, constant)]
    rho = CanonicalCorrelation().fit(wider, Y).canonical_correlations_
    np.testing.assert_allclose(rho, [0.819327, 0.714552, 0.584096], atol=1e-6)
    for index in FAMILY:
        assert index.similarity(wider, Y) == pytest.approx(index.similarity(X, Y), abs=1e-12)
        assert index.similarity(Y, wider) == pytest.approx(index.similarity(Y, X), abs=1e-12)


@pytest.mark.parametrize("index", [CanonicalCorrelation(), SVCCA(threshold=1.0), PWCCA(), EigenspaceOverlap()])
def test_as_many_columns_as_rows_give_ones_and_a_warning(index):
    X = rng(0).standard_normal((10, 10))
    A, B = rng(0).standard_normal((8, 12)), rng(1).standard_normal((8, 12))
    for first, second, k in ((X, X, 9), (A, B, 7)):
        with pytest.warns(DegenerateSimilarityWarning, match=rf"rank {k} and {k} over {k + 1} rows.*held-out"):
            fitted = clone(index).fit(first, second)
        np.testing.assert_allclose(fitted.canonical_correlations_, np.ones(k), atol=1e-12)
        assert fitted.similarity_ == pytest.approx(1.0, abs=1e-12)


@family
def test_degenerate_warning_begins_where_the_ranks_fill_the_rows(index):
    k = 2
    X, Y = pair(n=20, p=k, q=k)
    assert not raised(DegenerateSimilarityWarning, index.similarity, X[: 2 * k + 1], Y[: 2 * k + 1])
    assert raised(DegenerateSimilarityWarning, index.similarity, X[: 2 * k], Y[: 2 * k])
    # Rows that are repeated count as often as they are.
    weights = [1, 1, 1, 2]
    assert not raised(DegenerateSimilarityWarning, index.similarity, X[:4], Y[:4], weights)
    assert raised(DegenerateSimilarityWarning, index.similarity, X[:4], Y[:4], [0.25] * 4)


def test_mean_and_mean_of_squares_are_both_to_be_had():
    x, y = rng(0).standard_normal((100, 1)), rng(1).standard_normal((100, 1))
    assert cca(x, y) == pytest.approx(0.050646, abs=1e-6)
    assert cca(x, y, statistic="mean_squared") == pytest.approx(0.002565, abs=1e-6)
    assert cca(x, y[:, 0]) == cca(x, y)


def test_pwcca_weighs_by_the_first_side_in_both_orders():
    X = rng(0).standard_normal((200, 3))
    Y = np.c_[X[:, :2] * [3, 1], rng(1).standard_normal((200, 4))] + 0.5 * rng(2).standard_normal((200, 6))
    index = PWCCA().fit(X, Y)
    np.testing.assert_allclose(index.canonical_correlations_, [0.987183, 0.898076, 0.097347], atol=1e-6)
    assert index.similarity_ == pytest.approx(0.684688, abs=1e-6)
    assert pwcca(Y, X) == pytest.approx(0.720101, abs=1e-6)
    assert cca(X, Y) == pytest.approx(0.660869, abs=1e-6)
    assert pwcca(X, Y, symmetrize=True) == pytest.approx((0.684688 + 0.720101) / 2, abs=1e-6)
    assert np.sum(index.projection_weights_) == pytest.approx(1.0)
    assert index.projection_weights_ @ index.canonical_correlations_ == pytest.approx(index.similarity_)


def test_pwcca_is_invariant_to_shifts_and_to_maps_of_y_but_not_to_rotations_of_x():
    X, Y = pair(n=100, p=6, q=4)
    A = rng(5).standard_normal((4, 4))
    Q = np.linalg.qr(rng(6).standard_normal((6, 6)))[0]
    value = pwcca(X, Y)
    assert value == pytest.approx(definitions.pwcca(X, Y), abs=1e-10)
    assert pwcca(X + 100.0, Y) == pytest.approx(value, abs=1e-10)
    assert pwcca(X, Y @ A - 7.0) == pytest.approx(value, abs=1e-10)
    assert abs(pwcca(X @ Q, Y) - value) > 1e-4


def test_pwcca_of_wider_x_has_no_more_components_than_y():
    X, Y = pair(n=80, p=20, q=10)
    assert pwcca(X, Y) == pytest.approx(definitions.pwcca(X, Y), abs=1e-10)
    assert pwcca(Y, X) == pytest.approx(definitions.pwcca(Y, X), abs=1e-10)


def test_svcca_cuts_by_variance_before_it_orthonormalises():
    shared = rng(0).standard_normal((100, 1)) * 30.0
    X = np.c_[shared, 0.1 * rng(1).standard_normal((100, 8))]
    Y = np.c_[0.1 * rng(2).standard_normal((100, 8)), -2.0 * shared]
    index = SVCCA(threshold=0.99).fit(X, Y)
    assert (index.n_components_x_, index.n_components_y_) == (1, 1)
    assert index.similarity_ == pytest.approx(1.0, abs=1e-4)
    assert cca(X, Y) < 0.5
    assert svcca(X + 10.0, Y) == pytest.approx(svcca(X, Y), abs=1e-12)


def test_self_similarity_is_one_where_there_are_more_columns_than_rows():
    X = rng(0).standard_normal((20, 30))
    for index in FAMILY:
        assert index.similarity(X, X) == pytest.approx(1.0, abs=1e-12)


def test_svcca_threshold_reached_exactly_needs_no_further_component():
    # Orthogonal columns of variance 90, 9 and 1 in 100.
    H = scipy.linalg.hadamard(8)[:, 1:4] * np.sqrt([90.0, 9.0, 1.0])
    for threshold, expected in ((0.9, 1), (0.901, 2), (0.99, 2), (0.991, 3), (1.0, 3)):
        for dtype in (np.float64, np.float32):
            index = SVCCA(threshold=threshold).fit(H.astype(dtype), H.astype(dtype))
            assert index.n_components_x_ == expected
    assert SVCCA(threshold=0.9, n_components=2).fit(H, H).n_components_x_ == 2
    assert SVCCA(n_components=50).fit(H, H[:, :2]).n_components_y_ == 2


# Maps.


@pytest.mark.parametrize("squared", [False, True])
def test_variates_have_unit_variance_and_correlate_as_they_should(squared):
    X, Y = pair(n=50, p=4, q=6)
    index = CanonicalCorrelation(statistic="mean_squared" if squared else "mean").fit(X, Y)
    U, V = index.transform(X), index.transform_y(Y)
    assert U.shape == V.shape == (50, 4)
    np.testing.assert_allclose(U.T @ U / 50, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(V.T @ V / 50, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(U.T @ V / 50, np.diag(index.canonical_correlations_), atol=1e-12)
    np.testing.assert_allclose(U, (X - index.x_mean_) @ index.x_rotations_, atol=1e-12)
    np.testing.assert_allclose(V, (Y - index.y_mean_) @ index.y_rotations_, atol=1e-12)
    assert np.all(index.x_rotations_.max(axis=0) >= -index.x_rotations_.min(axis=0))  # signs are settled


def held_out_correlations(X, Y, X_new, Y_new):
    """Return correlations of new rows along the directions of the generalised eigenproblem of CCA."""
    p, n = X.shape[1], len(X)
    S = np.cov(np.c_[X, Y].T)
    cross, own = S.copy(), S.copy()
    cross[:p, :p] = cross[p:, p:] = own[:p, p:] = own[p:, :p] = 0.0
    w = scipy.linalg.eigh(cross, own)[1][:, ::-1][:, : min(p, Y.shape[1])]
    assert n > S.shape[0]
    return np.array([np.corrcoef(X_new @ w[:p, i], Y_new @ w[p:, i])[0, 1] for i in range(w.shape[1])])


def test_score_of_new_rows_is_the_correlation_of_their_variates():
    X, Y = pair(n=80, p=5, q=3)
    train, test = slice(0, 50), slice(50, 80)
    rho = held_out_correlations(X[train], Y[train], X[test], Y[test])
    fit = (X[train], Y[train])
    new = (X[test], Y[test])
    assert CanonicalCorrelation().fit(*fit).score(*new) == pytest.approx(rho.mean(), abs=1e-10)
    squared = CanonicalCorrelation(statistic="mean_squared").fit(*fit)
    assert squared.score(*new) == pytest.approx(np.mean(rho**2), abs=1e-10)
    assert EigenspaceOverlap().fit(*fit).score(*new) == pytest.approx(np.sum(rho**2) / 5, abs=1e-10)
    weighted = PWCCA().fit(*fit)
    assert weighted.score(*new) == pytest.approx(weighted.projection_weights_ @ rho, abs=1e-10)


@family
def test_score_of_new_rows_does_not_depend_on_offset_and_scale(index):
    X, Y = pair(n=80)
    score = clone(index).fit(X[:50], Y[:50]).score(X[50:], Y[50:])
    far = X * 2.0**-90 + 3.0 * 2.0**-80
    assert clone(index).fit(far[:50], Y[:50]).score(far[50:], Y[50:]) == pytest.approx(score, abs=1e-10)
    low = [Z.astype(np.float32) for Z in (X, Y)]
    assert clone(index).fit(low[0][:50], low[1][:50]).score(low[0][50:], low[1][50:]) == pytest.approx(score, abs=1e-4)


@family
def test_integer_weights_are_repeated_rows_in_all_that_is_learned(index):
    X, Y = pair(n=30)
    X_new, Y_new = pair(n=20, seed=7)
    counts, counts_new = rng(3).integers(0, 4, 30), rng(4).integers(0, 3, 20)
    rows, rows_new = np.repeat(np.arange(30), counts), np.repeat(np.arange(20), counts_new)
    weighted = clone(index).fit(X, Y, sample_weight=counts)
    repeated = clone(index).fit(X[rows], Y[rows])
    assert weighted.similarity_ == pytest.approx(repeated.similarity_, abs=1e-12)
    assert weighted.chance_ == pytest.approx(repeated.chance_, abs=1e-15, nan_ok=True)
    score = weighted.score(X_new, Y_new, sample_weight=counts_new)
    assert score == pytest.approx(repeated.score(X_new[rows_new], Y_new[rows_new]), abs=1e-12)
    np.testing.assert_allclose(weighted.transform(X_new), repeated.transform(X_new), atol=1e-10)
    np.testing.assert_allclose(weighted.transform_y(Y_new), repeated.transform_y(Y_new), atol=1e-10)
    halves = clone(index).fit(X, Y, sample_weight=counts / 2)
    assert halves.similarity_ == pytest.approx(weighted.similarity_, abs=1e-12)
    assert math.isnan(halves.chance_)


def test_held_out_score_separates_dependent_from_independent_where_cca_is_constant():
    latent = rng(0).standard_normal((400, 5))
    X = latent @ rng(1).standard_normal((5, 120)) + 0.3 * rng(2).standard_normal((400, 120))
    Y = latent @ rng(3).standard_normal((5, 110)) + 0.3 * rng(4).standard_normal((400, 110))
    Z = rng(5).standard_normal((400, 110))
    train, test = slice(0, 100), slice(100, 400)
    for index in (CanonicalCorrelation(), SVCCA(threshold=1.0), PWCCA()):
        scores = []
        for other in (Y, Z):
            with pytest.warns(DegenerateSimilarityWarning):
                fitted = clone(index).fit(X[train], other[train])
            assert fitted.similarity_ == pytest.approx(1.0, abs=1e-10)
            scores.append(fitted.score(X[test], other[test]))
        dependent, independent = scores
        assert abs(independent) < 0.03
        assert dependent > 0.05


# Warnings, chance, errors.


@family
@pytest.mark.parametrize("value", [0.0, 3.7, 1e9])
def test_constant_side_is_undefined_with_one_warning(index, value):
    X, Y = pair()
    constant = np.full((60, 3), value)
    for first, second, side in ((constant, Y, "X is"), (X, constant, "y is"), (constant, constant, "X and y is")):
        messages = raised(UndefinedSimilarityWarning, clone(index).fit, first, second)
        assert len(messages) == 1
        assert f"{side} constant" in messages[0]
    with pytest.warns(UndefinedSimilarityWarning):
        fitted = clone(index).fit(X, constant)
    assert math.isnan(fitted.similarity_)
    assert math.isnan(fitted.chance_)
    assert fitted.n_components_ == 0
    assert fitted.transform(X).shape == (60, 0)
    with pytest.warns(UndefinedSimilarityWarning, match="score"):
        assert math.isnan(fitted.score(X, Y[:, :3]))
    fitted = clone(index).fit(X, Y)
    with pytest.warns(UndefinedSimilarityWarning, match="score"):
        assert math.isnan(fitted.score(np.full_like(X, value), Y))


@family
def test_dead_layer_leaves_the_rest_of_a_table(index):
    layers = [rng(i).standard_normal((30, 6)) for i in range(3)]
    layers[1] = np.full((30, 6), 3.7)
    with pytest.warns(UndefinedSimilarityWarning):
        values = compare_layers(layers, index=index, verbose=0).values
    assert np.isnan(values[1]).all()
    assert np.isnan(values[:, 1]).all()
    assert values[0, 2] == pytest.approx(index.similarity(layers[0], layers[2]), abs=1e-12)
    assert values[2, 0] == pytest.approx(index.similarity(layers[2], layers[0]), abs=1e-12)
    np.testing.assert_allclose([values[0, 0], values[2, 2]], 1.0, atol=1e-12)


def test_chance_is_the_closed_form():
    X, Y = pair(n=30, p=6, q=3)
    assert CanonicalCorrelation(statistic="mean_squared").fit(X, Y).chance_ == pytest.approx(6 / 29)
    assert EigenspaceOverlap().fit(X, Y).chance_ == pytest.approx(3 / 29)
    assert SVCCA(n_components=2, statistic="mean_squared").fit(X, Y).chance_ == pytest.approx(2 / 29)
    assert math.isnan(CanonicalCorrelation().fit(X, Y).chance_)
    assert math.isnan(PWCCA().fit(X, Y).chance_)


def test_value_that_is_mostly_chance_is_told():
    X, Y = rng(0).standard_normal((40, 10)), rng(1).standard_normal((40, 10))
    index = CanonicalCorrelation(statistic="mean_squared")
    with pytest.warns(ChanceLevelWarning, match=r"of which 0\.256 is expected"):
        index.fit(X, Y)
    assert not raised(ChanceLevelWarning, index.fit, X, X)
    assert not raised(ChanceLevelWarning, CanonicalCorrelation().fit, X, Y)  # its chance level is not known


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (CanonicalCorrelation(statistic="max"), "statistic must be one of 'mean', 'mean_squared'"),
        (SVCCA(threshold=0.0), "threshold is a share"),
        (SVCCA(threshold=1.5), "threshold is a share"),
        (SVCCA(threshold="all"), "threshold is a share"),
        (SVCCA(n_components=0), "n_components must be a positive integer"),
        (SVCCA(n_components=2.0), "n_components must be a positive integer"),
        (PWCCA(symmetrize="yes"), "symmetrize must be True or False"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(index, message):
    X, Y = pair()
    with pytest.raises(ValueError, match=message):
        index.fit(X, Y)
    with pytest.raises(ValueError, match=message):
        index.similarity(X, Y)


def test_shapes_of_later_rows_are_checked():
    X, Y = pair()
    index = CanonicalCorrelation().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 5 features"):
        index.transform(X[:, :3])
    with pytest.raises(ValueError, match="expecting 4 features as in fit"):
        index.transform_y(Y[:, :3])
    with pytest.raises(ValueError, match="expecting 4 features as in fit"):
        index.score(X, Y[:, :3])
    with pytest.raises(ValueError, match="1 sample"):
        index.fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match=r"y contains NaN"):
        index.transform_y(np.where(Y > 0, np.nan, Y))


# Ecosystem.


@family
def test_every_array_library_gives_the_same(backend, index):
    X, Y = pair(n=40)
    Xb, Yb = backend.asarray(X), backend.asarray(Y)
    reference, fitted = clone(index).fit(X[:30], Y[:30]), clone(index).fit(Xb[:30, :], Yb[:30, :])
    assert type(fitted.similarity_) is float
    assert fitted.similarity_ == pytest.approx(reference.similarity_, abs=1e-12)
    assert fitted.score(Xb[30:, :], Yb[30:, :]) == pytest.approx(reference.score(X[30:], Y[30:]), abs=1e-10)
    for name in ("canonical_correlations_", "x_mean_", "y_mean_", "x_rotations_", "y_rotations_"):
        array = getattr(fitted, name)
        assert type(array) is type(Xb)
        np.testing.assert_allclose(to_numpy(array), getattr(reference, name), atol=1e-10)
    aligned = fitted.transform(Xb)
    assert type(aligned) is type(Xb)
    np.testing.assert_allclose(to_numpy(aligned), reference.transform(X), atol=1e-10)


def test_mixed_precisions_keep_each_its_rank(backend):
    X, Y = pair()
    value = cca(backend.asarray(X.astype(np.float32)), backend.asarray(Y))
    assert value == pytest.approx(cca(X, Y), abs=1e-5)


def test_transform_is_one_array_for_the_next_step():
    X = rng(0).standard_normal((30, 4))
    Y = X[:, :2] + 0.1 * rng(1).standard_normal((30, 2))
    for index in FAMILY:
        out = clone(index).fit_transform(X, Y)
        assert out.shape == (30, 2)
        np.testing.assert_allclose(
            make_pipeline(clone(index), StandardScaler()).fit(X, Y).transform(X).std(axis=0), 1.0
        )
    search = GridSearchCV(SVCCA(), {"threshold": [0.5, 0.9, 1.0]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0.5
    assert search.score(X, Y) == search.best_estimator_.score(X, Y)


def test_output_frames_are_labelled():
    X, Y = pair()
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(60) + 100)
    index = CanonicalCorrelation().set_output(transform="pandas").fit(frame, Y)
    out = index.transform(frame)
    assert list(out.columns) == [f"canonicalcorrelation{i}" for i in range(4)]
    assert list(out.index) == list(frame.index)
    assert list(index.get_feature_names_out()) == list(out.columns)


@family
def test_table_is_its_pairs_one_by_one(index, monkeypatch):
    # Wider than one panel of stacked bases, ranks that differ, and one layer in single precision.
    monkeypatch.setattr(_spectral, "_PANEL_COLUMNS", 10)
    layers = [rng(i).standard_normal((60, p)) for i, p in enumerate((3, 6, 4, 12, 2, 1))]
    layers[3] = layers[3].astype(np.float32)
    values = compare_layers(layers, index=index, verbose=0).values
    others = compare_layers(layers[:2], layers[2:], index=index, verbose=0).values
    np.testing.assert_allclose(others, values[:2, 2:], atol=1e-6)
    for i, a in enumerate(layers):
        for j, b in enumerate(layers):
            tolerance = 1e-10 if a.dtype == b.dtype == np.float64 else 1e-5
            assert values[i, j] == pytest.approx(index.similarity(a, b), abs=tolerance)


def test_names():
    assert isinstance(get_index("cca"), CanonicalCorrelation)
    assert get_index("svcca", threshold=0.9).threshold == 0.9
    assert isinstance(get_index("pwcca"), PWCCA)
    assert isinstance(get_index("eigenspace_overlap"), EigenspaceOverlap)
