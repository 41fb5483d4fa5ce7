"""Choosing a bandwidth: the trap of the largest biased CKA, and the permutation z-score that avoids it."""

import itertools
import math

import brute_force as bf
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, LeavePOut, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cka import (
    CKA,
    HSIC,
    DistanceCorrelation,
    KernelAlignment,
    LayerMatcher,
    PairedTransformer,
    UndefinedSimilarityWarning,
    cka,
    layer_matching,
    permutation_z_scorer,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

GRID = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 5.0, 30.0]


def waves(seed, n=120):
    """y is a wave of x: smooth at a scale far below the spread of x."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, size=(n, 1))
    return x, np.sin(2 * x) + 0.1 * rng.standard_normal((n, 1))


def independent(seed, n=60):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)), rng.standard_normal((n, 2))


def search(X, y, index=None, grid=None, **options):
    index = CKA("rbf", debiased=True) if index is None else index
    name = "bandwidth" if "bandwidth" in index.get_params() else "index__bandwidth"
    return GridSearchCV(index, {name: grid or GRID}, scoring=permutation_z_scorer, **options).fit(X, y)


def test_the_score_is_the_z_score_over_all_permutations():
    X, y = np.random.default_rng(0).standard_normal((5, 2)), np.random.default_rng(1).standard_normal((5, 1))
    for index in (CKA("rbf"), CKA("rbf", debiased=True), HSIC("rbf"), DistanceCorrelation(debiased=True)):
        index.fit(X, y)
        orders = itertools.permutations(range(5))
        mean, variance = bf.mean_and_variance([index.score(X, y[list(order)]) for order in orders])
        expected = (index.score(X, y) - mean) / math.sqrt(variance)
        assert permutation_z_scorer(index, X, y) == pytest.approx(expected, rel=1e-6)
        assert type(permutation_z_scorer(index, X, y)) is float


@pytest.mark.parametrize("kind", [waves, independent])
def test_the_trap_biased_cka_is_largest_at_the_smallest_bandwidth_and_near_1(kind):
    X, y = kind(0)
    values = [cka(X, y, kernel="rbf", bandwidth=bandwidth) for bandwidth in [1e-4, *GRID]]
    assert int(np.argmax(values)) == 0
    assert values[0] > 0.99
    biased = GridSearchCV(CKA("rbf"), {"bandwidth": [1e-4, *GRID]}).fit(X, y)
    assert biased.best_params_ == {"bandwidth": 1e-4}
    assert biased.best_score_ > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_the_bandwidth_chosen_on_dependent_data_is_that_of_the_dependence(seed):
    X, y = waves(seed)
    found = search(X, y)
    assert 0.05 < found.best_params_["bandwidth"] <= 0.4
    assert found.best_score_ > 4.0
    # The linear limit sees less of the dependence.
    scores = dict(zip(GRID, found.cv_results_["mean_test_score"], strict=True))
    assert found.best_score_ > 1.2 * scores[30.0]


def test_every_score_on_independent_data_is_no_better_than_chance():
    scores = np.array([search(*independent(seed), grid=GRID[2:]).cv_results_["mean_test_score"] for seed in range(30)])
    # Five folds a search: the mean of five z-scores has a standard deviation of about 1/sqrt(5).
    standard_error = scores.std(axis=0, ddof=1) / math.sqrt(len(scores))
    assert (np.abs(scores.mean(axis=0)) < 4 * standard_error + 0.05).all()
    assert np.abs(scores.mean()) < 0.15
    # Even the best of six bandwidths stays within what the largest of so many chances reaches.
    assert scores.max(axis=1).mean() < 1.5


def test_on_independent_data_held_out_scores_of_the_choice_average_zero():
    held_out = []
    for seed in range(40):
        X, y = independent(seed, n=80)
        found = search(X[:40], y[:40], cv=2, grid=GRID[2:])
        held_out.append(found.score(X[40:], y[40:]))
    standard_error = np.std(held_out, ddof=1) / math.sqrt(len(held_out))
    assert abs(np.mean(held_out)) < 3.5 * standard_error
    assert 0.6 < np.std(held_out) < 1.5


def test_a_linear_dependence_prefers_a_wide_kernel():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    y = X @ rng.standard_normal((3, 2)) + rng.standard_normal((100, 2))
    assert search(X, y, grid=GRID[2:]).best_params_["bandwidth"] >= 0.8


def test_normalisation_makes_no_difference_to_the_choice():
    X, y = waves(1)
    scores = [
        search(X, y, index).cv_results_["mean_test_score"]
        for index in (CKA("rbf", debiased=True), HSIC("rbf", debiased=True))
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


def test_pipelines_are_scored_on_what_reaches_their_index():
    X, y = waves(2)
    X = np.c_[X, 100.0 * np.random.default_rng(0).standard_normal((len(X), 1))]
    pipe = make_pipeline(StandardScaler(), CKA("rbf", debiased=True)).fit(X, y)
    by_hand = CKA("rbf", debiased=True).fit(StandardScaler().fit_transform(X), y)
    expected = by_hand.z_score(StandardScaler().fit_transform(X), y)
    assert permutation_z_scorer(pipe, X, y) == pytest.approx(expected, rel=1e-12)
    assert permutation_z_scorer(make_pipeline(CKA()).fit(X, y), X, y) == pytest.approx(CKA().fit(X, y).z_score(X, y))
    found = GridSearchCV(pipe, {"cka__bandwidth": GRID}, scoring=permutation_z_scorer).fit(X, y)
    assert found.best_score_ > 1.5
    assert permutation_z_scorer(found, X, y) == pytest.approx(permutation_z_scorer(found.best_estimator_, X, y))
    nested = make_pipeline(StandardScaler(), make_pipeline(PCA(2), CKA("rbf"))).fit(X, y)
    assert math.isfinite(permutation_z_scorer(nested, X, y))


def test_paired_transformers_are_scored_and_searched():
    X, y = waves(3)
    paired = PairedTransformer(CKA("rbf", debiased=True), StandardScaler())
    found = search(X, y, paired)
    assert found.best_params_["index__bandwidth"] <= 0.4
    fitted = paired.fit(X, y)
    scaled = [StandardScaler().fit_transform(Z) for Z in (X, y)]
    expected = CKA("rbf", debiased=True).fit(*scaled).z_score(*scaled)
    assert permutation_z_scorer(fitted, X, y) == pytest.approx(expected, rel=1e-9)


def test_other_searches_and_cross_validation_take_the_scorer():
    X, y = waves(4)
    found = RandomizedSearchCV(
        CKA("rbf"), {"bandwidth": GRID}, n_iter=4, random_state=0, scoring=permutation_z_scorer
    ).fit(X, y)
    assert found.best_score_ > 3.0
    scores = cross_val_score(CKA("rbf", bandwidth=0.2), X, y, scoring=permutation_z_scorer, cv=4)
    assert scores.shape == (4,)
    assert (scores > 2.0).all()
    both = cross_validate(CKA("rbf", bandwidth=0.2), X, y, scoring={"z": permutation_z_scorer}, cv=3)
    assert (both["test_z"] > 2.0).all()


def test_a_search_without_scoring_uses_the_index_itself():
    X = np.random.default_rng(0).standard_normal((30, 4))
    Y = X[:, :2] + 0.1 * np.random.default_rng(1).standard_normal((30, 2))
    found = GridSearchCV(CKA(), {"debiased": [False, True]}, cv=3).fit(X, Y)
    folds = [slice(0, 10), slice(10, 20), slice(20, 30)]
    assert found.cv_results_["mean_test_score"] == pytest.approx(
        [np.mean([cka(X[f], Y[f], debiased=flag) for f in folds]) for flag in (False, True)]
    )


def test_searches_in_two_threads_give_the_same_scores():
    X, y = waves(5)
    with parallel_config(backend="threading"):
        one, two = (search(X, y, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], rtol=1e-12)


def test_estimators_without_a_z_score_are_refused():
    X, y = waves(0)
    for estimator in (
        KernelAlignment().fit(X, y),
        StandardScaler().fit(X),
        PairedTransformer(KernelAlignment(), None).fit(X, y),
    ):
        with pytest.raises(TypeError, match="has no permutation z-score"):
            permutation_z_scorer(estimator, X, y)


def test_folds_too_small_for_a_z_score_are_an_error_that_counts_them():
    X, y = waves(0)
    with pytest.raises(ValueError, match=r"3 sample\(s\).*minimum of 4 is required by z_score"):
        GridSearchCV(CKA("rbf"), {"bandwidth": [1.0]}, scoring=permutation_z_scorer, cv=3, error_score="raise").fit(
            X[:9], y[:9]
        )


def test_the_z_score_of_a_constant_side_is_undefined():
    X, y = waves(0)
    index = CKA("rbf").fit(X, y)
    with pytest.warns(UndefinedSimilarityWarning, match="z_score is undefined"):
        assert math.isnan(index.z_score(X, np.ones_like(y)))


@pytest.mark.filterwarnings("ignore::sklearn_cka.UndefinedSimilarityWarning", "ignore:One or more of the test scores")
def test_a_bandwidth_at_which_no_two_rows_are_alike_is_never_chosen():
    """The kernel is the identity, and all permutations give the same value: 0/0."""
    X, y = waves(0, n=40)
    found = search(X, y, grid=[1e-5, 0.2])
    assert math.isnan(found.cv_results_["mean_test_score"][0])
    assert found.best_params_ == {"bandwidth": 0.2}


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "distance"])
def test_z_scores_of_every_library_and_precision(backend, kernel, debiased):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    y = X[:, :4] + rng.standard_normal((40, 4))
    index = CKA(kernel, debiased=debiased)
    expected = index.fit(X, y).z_score(X, y)
    Xb, yb = backend.asarray(X), backend.asarray(y)
    assert index.fit(Xb, yb).z_score(Xb, yb) == pytest.approx(expected, rel=1e-9)
    Xb, yb = backend.asarray(X.astype("f4")), backend.asarray(y.astype("f4"))
    assert index.fit(Xb, yb).z_score(Xb, yb) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", ["gram", "feature"])
def test_z_scores_of_wide_data_in_float32(form):
    """With many more columns than rows a biased Gram matrix is close to the identity: the variance is a difference."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3000))
    y = X[:, :2000] + rng.standard_normal((30, 2000))
    for debiased in (False, True):
        index = CKA(debiased=debiased, form=form)
        expected = index.fit(X, y).z_score(X, y)
        small = X.astype("f4"), y.astype("f4")
        assert index.fit(*small).z_score(*small) == pytest.approx(expected, rel=1e-3)


def planted_models(m=6, n=100, seed=0):
    """Layers are circles walked at different speeds: a wide kernel tells them apart, a narrow one sees only noise."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-np.pi, np.pi, size=n)
    circles = {f"layer{k}": np.c_[np.cos(k * angle), np.sin(k * angle)] for k in (1, 1.5, 2)}
    return [{name: X + 0.3 * rng.standard_normal(X.shape) for name, X in circles.items()} for _ in range(m)]


def matched_share(models, bandwidth):
    """Count by loops how often a layer is most similar to its counterpart."""
    hits = []
    for one, other in itertools.permutations(models, 2):
        for k, X in enumerate(one.values()):
            values = [cka(X, y, kernel="rbf", bandwidth=bandwidth, debiased=True) for y in other.values()]
            hits.append(int(np.argmax(values)) == k)
    return np.mean(hits)


def test_a_search_by_layer_matching_finds_the_planted_bandwidth():
    models = planted_models()
    grid = {"index__bandwidth": [0.02, 0.05, 0.5]}
    found = GridSearchCV(LayerMatcher(CKA("rbf", debiased=True)), grid, cv=2).fit(models)
    assert found.best_params_ == {"index__bandwidth": 0.5}
    folds = models[:3], models[3:]
    expected = [np.mean([matched_share(fold, width) for fold in folds]) for width in grid["index__bandwidth"]]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected)
    assert expected[0] < 0.5 < 0.99 < expected[2]
    assert found.score(models) == layer_matching(models, CKA("rbf", bandwidth=0.5, debiased=True)).accuracy


def test_all_pairs_of_models_as_folds_give_the_accuracy_of_all_models():
    models = planted_models(m=4)
    matcher = LayerMatcher(CKA("rbf", bandwidth=0.05, debiased=True))
    scores = cross_val_score(matcher, models, cv=LeavePOut(2))
    assert scores.shape == (6,)
    assert scores.mean() == pytest.approx(layer_matching(models, matcher.index).accuracy)


def test_a_layer_matcher_searches_indexes_and_leaves_out_layers():
    models = planted_models(m=4)
    for model in models:
        model["same"] = np.arange(100.0)[:, None]
    indexes = [CKA(debiased=True), "procrustes"]
    found = GridSearchCV(LayerMatcher(exclude="same"), {"index": indexes}, cv=2).fit(models)
    expected = [
        np.mean([layer_matching(fold, index, exclude="same").accuracy for fold in (models[:2], models[2:])])
        for index in indexes
    ]
    assert found.cv_results_["mean_test_score"].tolist() == pytest.approx(expected)
    fitted = clone(LayerMatcher()).fit(models)
    assert (fitted.layer_names_, fitted.n_models_) == (["layer1", "layer1.5", "layer2", "same"], 4)


def test_layer_matchers_refuse_models_of_other_layers():
    models = planted_models(m=3)
    other = [{"a": model["layer1"], "b": model["layer2"]} for model in models]
    with pytest.raises(ValueError, match="models is empty"):
        LayerMatcher().fit([])
    with pytest.raises(ValueError, match=r"models\[1\] has layers \['a', 'b'\], but models\[0\]"):
        LayerMatcher().fit([models[0], other[0]])
    fitted = LayerMatcher().fit(models)
    with pytest.raises(ValueError, match=r"The models have layers \['a', 'b'\], those given to fit"):
        fitted.score(other)
    with pytest.raises(ValueError, match="at least 2"):
        fitted.score(models[:1])
