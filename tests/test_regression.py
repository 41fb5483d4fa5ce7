"""Linear predictivity and canonical ridge: units of the penalties, fitted maps, held-out scores, warnings."""

import itertools
import math
import warnings

import numpy as np
import pytest
import spectral_definitions as definitions
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_cka import (
    CanonicalCorrelation,
    CanonicalRidge,
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    LinearPredictivity,
    UndefinedSimilarityWarning,
    cca,
    cka,
    compare_layers,
    get_index,
    linear_predictivity,
)
from sklearn_cka._arrays import to_numpy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

rng = np.random.default_rng
FAMILY = [
    LinearPredictivity(),
    LinearPredictivity(target="y"),
    LinearPredictivity(alpha=3.0),
    LinearPredictivity(target="y", alpha=3.0),
    CanonicalRidge(),
    CanonicalRidge(penalty=0.5, penalty_y=2.0, statistic="mean_squared"),
    CanonicalRidge(penalty=0.5, statistic="separable"),
]
family = pytest.mark.parametrize("index", FAMILY, ids=map(repr, FAMILY))


def pair(n=60, p=5, q=4, noise=1.0, seed=0):
    X = rng(seed).standard_normal((n, p)) * np.geomspace(1.0, 3.0, p)
    return X, X[:, np.arange(q) % p] + noise * rng(seed + 1000).standard_normal((n, q))


def raised(kind, call, *args, **kwargs):
    """Return the messages of the warnings of one kind that a call issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **kwargs)
    return [str(warning.message) for warning in caught if issubclass(warning.category, kind)]


# Regression.


@pytest.mark.parametrize("alpha", [0.0, 0.7, 40.0])
@pytest.mark.parametrize("target", ["X", "y"])
@pytest.mark.parametrize(("p", "q"), [(5, 4), (3, 7), (1, 4), (4, 1)])
def test_regression_is_that_of_scikit_learn_in_and_out_of_sample(target, alpha, p, q):
    X, Y = pair(n=80, p=p, q=q)
    X, Y = X + 5.0, Y - 3.0
    response, predictor = (X, Y) if target == "X" else (Y, X)
    model = Ridge(alpha=alpha) if alpha else LinearRegression()
    model.fit(predictor[:50], response[:50])
    index = LinearPredictivity(target=target, alpha=alpha).fit(X[:50], Y[:50])

    def r2(rows, **kwargs):
        fitted = model.predict(predictor[rows])
        return r2_score(response[rows], fitted, multioutput="variance_weighted", **kwargs)

    train, test = slice(0, 50), slice(50, 80)
    assert index.similarity_ == pytest.approx(r2(train), abs=1e-10)
    assert index.score(X[train], Y[train]) == pytest.approx(r2(train), abs=1e-10)
    assert index.score(X[test], Y[test]) == pytest.approx(r2(test), abs=1e-10)
    weights = rng(5).uniform(0.0, 3.0, 30)
    weighted = index.score(X[test], Y[test], sample_weight=weights)
    assert weighted == pytest.approx(r2(test, sample_weight=weights), abs=1e-10)
    np.testing.assert_allclose(index.coef_, np.atleast_2d(model.coef_), atol=1e-10)
    np.testing.assert_allclose(index.intercept_, model.intercept_, atol=1e-10)
    predicted = index.transform_y(Y) + index.x_mean_ if target == "X" else index.transform(X) + index.y_mean_
    np.testing.assert_allclose(predicted, model.predict(predictor).reshape(predicted.shape), atol=1e-10)
    kept = index.transform(X) + index.x_mean_ if target == "X" else index.transform_y(Y) + index.y_mean_
    np.testing.assert_allclose(kept, response, atol=1e-12)


def test_weighted_regression_is_that_of_scikit_learn():
    X, Y = pair(n=50)
    weights = rng(3).uniform(0.0, 2.0, 50)
    for alpha in (0.0, 2.0):
        index = LinearPredictivity(target="y", alpha=alpha).fit(X, Y, sample_weight=weights)
        model = Ridge(alpha=alpha, solver="cholesky").fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(index.coef_, model.coef_, atol=1e-10)


def test_more_predictors_than_rows_give_the_solution_of_least_norm():
    X, Y = pair(n=20, p=3, q=60)
    with pytest.warns(DegenerateSimilarityWarning):
        index = LinearPredictivity().fit(X, Y)
    assert index.similarity_ == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(index.coef_, LinearRegression().fit(Y, X).coef_, atol=1e-10)


def test_held_out_columns_without_variance_have_no_weight():
    X, Y = pair(n=60)
    X[40:, 2] = 1.25  # constant on the test rows alone
    index = LinearPredictivity().fit(X[:40], Y[:40])
    predicted = LinearRegression().fit(Y[:40], X[:40]).predict(Y[40:])
    expected = r2_score(X[40:], predicted, multioutput="variance_weighted")
    assert index.score(X[40:], Y[40:]) == pytest.approx(expected, abs=1e-10)
    with pytest.warns(UndefinedSimilarityWarning, match="score"):
        assert math.isnan(index.score(np.ones((20, 5)), Y[40:]))
    assert index.score(X[40:], np.ones((20, 4))) < 0.0  # a constant predictor is a poor one, not undefined


def test_dead_units_are_no_obstacle():
    X, Y = pair()
    dead = np.c_[Y, np.zeros(60), np.full(60, 3.0)]
    assert linear_predictivity(X, dead) == pytest.approx(linear_predictivity(X, Y), abs=1e-12)
    assert linear_predictivity(dead, X) == pytest.approx(linear_predictivity(Y, X), abs=1e-12)


def test_both_directions_are_to_be_had():
    X, Y = pair(p=6, q=2)
    assert linear_predictivity(X, Y, target="y") == pytest.approx(linear_predictivity(Y, X), abs=1e-12)
    assert linear_predictivity(X, Y) < linear_predictivity(X, Y, target="y")
    assert linear_predictivity(X, Y[:, 0]) == linear_predictivity(X, Y[:, :1])


def test_penalty_counts_in_the_units_of_the_data():
    X, Y = pair()
    expected = definitions.linear_predictivity(X, Y, alpha=5.0)
    assert linear_predictivity(X, Y, alpha=5.0) == pytest.approx(expected, abs=1e-10)
    small = linear_predictivity(X, Y * 2.0**-60, alpha=5.0 * 2.0**-120)
    assert small == pytest.approx(expected, abs=1e-10)
    assert linear_predictivity(X, Y * 1e-160) == pytest.approx(linear_predictivity(X, Y), abs=1e-12)
    assert linear_predictivity(X, Y * 1e160, alpha=1.0) == pytest.approx(linear_predictivity(X, Y), abs=1e-12)
    values = [linear_predictivity(X, Y, alpha=alpha) for alpha in (0.0, 1.0, 10.0, 1e3, 1e12)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(0.0, abs=1e-8)


def test_degenerate_warning_is_for_predictors_that_fill_the_rows():
    X, Y = pair(n=12, p=2, q=10)
    assert not raised(DegenerateSimilarityWarning, linear_predictivity, X, Y)
    messages = raised(DegenerateSimilarityWarning, linear_predictivity, X, np.c_[Y, X[:, :1] ** 2])
    assert len(messages) == 1
    assert not raised(DegenerateSimilarityWarning, linear_predictivity, np.c_[Y, X[:, :1] ** 2], X)
    wide = np.c_[Y, X[:, :1] ** 2]
    assert raised(DegenerateSimilarityWarning, linear_predictivity, wide, X, target="y")
    assert not raised(DegenerateSimilarityWarning, linear_predictivity, X, wide, alpha=1.0)


def test_held_out_score_separates_dependent_from_independent_where_r2_is_one():
    latent = rng(0).standard_normal((400, 5))
    X = latent @ rng(1).standard_normal((5, 40)) + 0.3 * rng(2).standard_normal((400, 40))
    Y = latent @ rng(3).standard_normal((5, 150)) + 0.3 * rng(4).standard_normal((400, 150))
    Z = rng(5).standard_normal((400, 150))
    scores = []
    for other in (Y, Z):
        fitted = LinearPredictivity().fit(X[:100], other[:100])
        assert fitted.similarity_ == pytest.approx(1.0, abs=1e-10)
        scores.append(fitted.score(X[100:], other[100:]))
    assert scores[0] > 0.8
    assert scores[1] < 0.05


def test_cross_validation_takes_the_held_out_form():
    X, Y = pair(n=90)
    scores = cross_val_score(LinearPredictivity(target="y"), X, Y, cv=3)
    r2 = make_scorer(r2_score, multioutput="variance_weighted")
    np.testing.assert_allclose(scores, cross_val_score(LinearRegression(), X, Y, cv=3, scoring=r2), atol=1e-10)
    search = GridSearchCV(LinearPredictivity(target="y"), {"alpha": [0.0, 1.0, 1e6]}, cv=3).fit(X, Y)
    assert search.best_params_["alpha"] < 1e6


# Canonical ridge.


def test_penalty_of_canonical_ridge_is_in_units_of_the_covariance():
    x = np.array([[-2.0], [-1], [0], [1], [2]])
    y = np.array([[-1.0], [-2], [0], [2], [1]])

    def value(x, k):
        return CanonicalRidge(penalty=k).fit(x, y).similarity_

    assert value(x, 0.0) == pytest.approx(0.8, abs=1e-12)
    assert value(x, 0.5) == pytest.approx(0.64, abs=1e-12)
    assert value(10 * x, 0.5) == pytest.approx(0.714649, abs=1e-6)
    falling = [value(x, k) for k in (0.0, 0.1, 0.5, 1.0, 10.0, 1e5, 1e300)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.0, abs=1e-15)


def test_effect_of_the_penalty_does_not_depend_on_the_number_of_rows_or_the_scale_of_weights():
    X, Y = pair(n=40)
    index = CanonicalRidge(penalty=0.7)
    value = index.similarity(X, Y)
    assert index.similarity(np.tile(X, (5, 1)), np.tile(Y, (5, 1))) == pytest.approx(value, abs=1e-12)
    assert index.similarity(X, Y, np.full(40, 3.0)) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(5, 4), (3, 6), (40, 4), (50, 70)])
def test_canonical_ridge_runs_from_cca_to_linear_cka(p, q):
    X, Y = pair(n=40, p=p, q=q)
    none = CanonicalRidge(penalty=0.0).fit(X, Y)
    plain = CanonicalCorrelation().fit(X, Y)
    np.testing.assert_allclose(none.canonical_correlations_, plain.canonical_correlations_, atol=1e-10)
    assert none.similarity_ == pytest.approx(plain.similarity_, abs=1e-12)
    assert none.properties.invariances == plain.properties.invariances
    expected = cka(X, Y)
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
        for kappa in (1e13, 1e40, 1e300):
            index = CanonicalRidge(penalty=kappa, statistic="separable")
            assert index.similarity(X.astype(dtype), Y.astype(dtype)) == pytest.approx(expected, abs=tolerance)
    ranks = [definitions.rank(Z) for Z in (X, Y)]
    squares = cca(X, Y, statistic="mean_squared") * min(ranks)
    separable = CanonicalRidge(penalty=0.0, statistic="separable").similarity(X, Y)
    assert separable == pytest.approx(squares / math.sqrt(ranks[0] * ranks[1]), abs=1e-10)


def test_score_of_new_rows_is_the_penalised_correlation_of_the_variates():
    X, Y = pair(n=80, p=4, q=3)
    kappa, kappa_y = 0.5, 2.0
    index = CanonicalRidge(penalty=kappa, penalty_y=kappa_y).fit(X[:50], Y[:50])
    W, V = index.x_rotations_, index.y_rotations_
    for rows in (slice(0, 50), slice(50, 80)):
        A, B = ((Z[rows] - Z[rows].mean(axis=0)) @ R for Z, R in ((X, W), (Y, V)))
        n = len(A)
        variances = [
            np.sum(U**2, axis=0) / n + k * np.sum(R**2, axis=0) for U, R, k in ((A, W, kappa), (B, V, kappa_y))
        ]
        rho = np.sum(A * B, axis=0) / n / np.sqrt(variances[0] * variances[1])
        assert index.score(X[rows], Y[rows]) == pytest.approx(rho.mean(), abs=1e-10)
        if rows.start == 0:
            np.testing.assert_allclose(variances, 1.0, atol=1e-10)
            np.testing.assert_allclose(rho, index.canonical_correlations_, atol=1e-10)


def test_score_with_a_penalty_does_not_depend_on_how_units_are_kept_apart():
    X, Y = pair(n=80)
    index = CanonicalRidge(penalty=0.5).fit(X[:50], Y[:50])
    small = CanonicalRidge(penalty=0.5 * 2.0**-60, penalty_y=0.5).fit(X[:50] * 2.0**-30, Y[:50])
    assert small.similarity_ == pytest.approx(index.similarity_, abs=1e-12)
    score = index.score(X[50:], Y[50:])
    assert small.score(X[50:] * 2.0**-30, Y[50:]) == pytest.approx(score, abs=1e-12)
    # New rows of quite another size than those of fit: the penalty is then next to nothing, or all.
    plain = CanonicalRidge(penalty=0.5).fit(X[:50], Y[:50])
    assert abs(plain.score(X[50:] * 2.0**-30, Y[50:])) < 1e-6
    assert plain.score(X[50:] * 2.0**30, Y[50:]) > score


def test_penalty_makes_many_columns_comparable():
    latent = rng(0).standard_normal((300, 5))
    X = latent @ rng(1).standard_normal((5, 120)) + 0.3 * rng(2).standard_normal((300, 120))
    Y = latent @ rng(3).standard_normal((5, 110)) + 0.3 * rng(4).standard_normal((300, 110))
    Z = rng(5).standard_normal((300, 110))
    index = CanonicalRidge(penalty=1.0, statistic="separable")
    assert index.similarity(X[:100], Y[:100]) > 2.0 * index.similarity(X[:100], Z[:100])
    assert not raised(DegenerateSimilarityWarning, index.fit, X[:100], Y[:100])
    assert raised(DegenerateSimilarityWarning, CanonicalRidge(penalty=0.0).fit, X[:100], Y[:100])


# Both.


@family
def test_chance_is_the_mean_over_all_row_permutations(index):
    X, Y = pair(n=6, p=2, q=1)
    X, Y = np.c_[X, X[:, :1] ** 2], np.c_[Y, Y**2]
    chance = clone(index).fit(X, Y).chance_
    values = [index.similarity(X, Y[list(order)]) for order in itertools.permutations(range(6))]
    if index.get_params().get("statistic") == "mean":
        assert math.isnan(chance)
    else:
        assert chance == pytest.approx(np.mean(values), abs=1e-12)


@family
def test_integer_weights_are_repeated_rows_in_all_that_is_learned(index):
    X, Y = pair(n=30)
    X_new, Y_new = pair(n=20, seed=7)
    counts, counts_new = rng(3).integers(0, 4, 30), rng(4).integers(0, 3, 20)
    rows, rows_new = np.repeat(np.arange(30), counts), np.repeat(np.arange(20), counts_new)
    weighted = clone(index).fit(X, Y, sample_weight=counts)
    repeated = clone(index).fit(X[rows], Y[rows])
    assert weighted.similarity_ == pytest.approx(repeated.similarity_, abs=1e-12)
    assert weighted.chance_ == pytest.approx(repeated.chance_, abs=1e-14, nan_ok=True)
    score = weighted.score(X_new, Y_new, sample_weight=counts_new)
    assert score == pytest.approx(repeated.score(X_new[rows_new], Y_new[rows_new]), abs=1e-12)
    np.testing.assert_allclose(weighted.transform(X_new), repeated.transform(X_new), atol=1e-10)
    np.testing.assert_allclose(weighted.transform_y(Y_new), repeated.transform_y(Y_new), atol=1e-10)


@family
@pytest.mark.parametrize("value", [0.0, 3.7])
def test_constant_side_is_undefined_with_one_warning(index, value):
    X, Y = pair()
    for first, second in ((np.full_like(X, value), Y), (X, np.full_like(Y, value))):
        assert len(raised(UndefinedSimilarityWarning, clone(index).fit, first, second)) == 1
        fitted = clone(index).fit(first, second)
        assert math.isnan(fitted.similarity_)
        assert math.isnan(fitted.chance_)
        assert np.isfinite(fitted.transform(X)).all()
        assert raised(UndefinedSimilarityWarning, fitted.score, X, Y)


def test_value_that_is_mostly_chance_is_told():
    X, Y = rng(0).standard_normal((50, 5)), rng(1).standard_normal((50, 30))
    assert raised(ChanceLevelWarning, linear_predictivity, X, Y)
    assert not raised(ChanceLevelWarning, linear_predictivity, X, np.c_[X, Y[:, :5]])


@family
def test_every_array_library_gives_the_same(backend, index):
    X, Y = pair(n=40)
    Xb, Yb = backend.asarray(X), backend.asarray(Y)
    reference, fitted = clone(index).fit(X[:30], Y[:30]), clone(index).fit(Xb[:30, :], Yb[:30, :])
    assert fitted.similarity_ == pytest.approx(reference.similarity_, abs=1e-12)
    assert fitted.chance_ == pytest.approx(reference.chance_, abs=1e-12, nan_ok=True)
    assert fitted.score(Xb[30:, :], Yb[30:, :]) == pytest.approx(reference.score(X[30:], Y[30:]), abs=1e-10)
    for learned, given, expected in (
        (fitted.transform(Xb), Xb, reference.transform(X)),
        (fitted.transform_y(Yb), Yb, reference.transform_y(Y)),
    ):
        assert type(learned) is type(given)
        np.testing.assert_allclose(to_numpy(learned), expected, atol=1e-10)
    for name in ("coef_", "intercept_"):
        if hasattr(reference, name):
            np.testing.assert_allclose(to_numpy(getattr(fitted, name)), getattr(reference, name), atol=1e-10)


@family
def test_table_is_its_pairs_one_by_one(index):
    layers = [rng(i).standard_normal((40, p)) for i, p in enumerate((3, 6, 1))]
    values = compare_layers(layers, index=index, verbose=0).values
    expected = [[index.similarity(a, b) for b in layers] for a in layers]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (LinearPredictivity(target="Y"), "target must be one of 'X', 'y'"),
        (LinearPredictivity(alpha=-1.0), "alpha must be a finite number, zero or positive"),
        (LinearPredictivity(alpha=math.inf), "alpha must be a finite number"),
        (CanonicalRidge(penalty=-0.1), "penalty must be a finite number"),
        (CanonicalRidge(penalty_y="auto"), "penalty_y must be a finite number"),
        (CanonicalRidge(statistic="cka"), "statistic must be one of 'mean', 'mean_squared', 'separable'"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(index, message):
    X, Y = pair()
    with pytest.raises(ValueError, match=message):
        index.fit(X, Y)


def test_names():
    assert get_index("linear_predictivity", alpha=2.0).alpha == 2.0
    assert isinstance(get_index("canonical_ridge"), CanonicalRidge)
