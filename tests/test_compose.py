"""PairedTransformer: the numbers against the transformers and the index applied by hand."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import CKA, HSIC, BaseIndex
from sklearn_cka.compose import PairedTransformer


def linear_cka(X, Y):
    """CKA from the definition, with explicit centring matrices."""
    n = len(X)
    H = np.eye(n) - 1 / n
    K, L = (H @ (Z @ Z.T) @ H for Z in (X, Y))
    return np.trace(K @ L) / np.sqrt(np.trace(K @ K) * np.trace(L @ L))


def components(Z, k, training=None):
    """The first k principal components, by the eigenvectors of the covariance of the training rows."""
    training = Z if training is None else training
    _, vectors = np.linalg.eigh(np.cov(training.T))
    return (Z - training.mean(0)) @ vectors[:, ::-1][:, :k]


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(60, 3)) * [6, 4, 2]
    X = shared @ rng.normal(size=(3, 8)) + rng.normal(size=(60, 8))
    y = shared @ rng.normal(size=(3, 5)) + rng.normal(size=(60, 5))
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")  # the checks use unrelated X and y
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide")  # StandardScaler on array-api-strict
@parametrize_with_checks(
    [
        PairedTransformer(CKA(), StandardScaler()),
        PairedTransformer(CKA(), PCA()),
        PairedTransformer(CKA(), None),
        PairedTransformer(CKA(debiased=True), StandardScaler(), y_transformer=None),
        PairedTransformer(CKA(kernel="rbf"), StandardScaler(), y_transformer=MinMaxScaler()),
        PairedTransformer(HSIC(), make_pipeline(StandardScaler(), PCA())),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_same_transformer_is_fitted_on_each_side_by_itself(pair):
    X, y = pair
    model = PairedTransformer(CKA(), PCA(2)).fit(X, y)
    expected = linear_cka(components(X, 2), components(y, 2))
    assert_allclose(model.similarity_, expected, rtol=1e-10)
    assert_allclose(model.score(X, y), expected, rtol=1e-10)
    assert model.transformer_.n_features_in_ == 8
    assert model.y_transformer_.n_features_in_ == 5
    assert model.n_features_in_ == 8
    assert not hasattr(model.transformer, "components_")


def test_y_is_left_alone_without_a_transformer(pair):
    X, y = pair
    for nothing in (None, "passthrough"):
        model = PairedTransformer(CKA(), PCA(2), y_transformer=nothing).fit(X, y)
        assert model.y_transformer_ is None
        assert_allclose(model.similarity_, linear_cka(components(X, 2), y), rtol=1e-10)


def test_X_is_left_alone_without_a_transformer(pair):
    X, y = pair
    model = PairedTransformer(CKA(), None, y_transformer=PCA(2)).fit(X, y)
    assert_allclose(model.similarity_, linear_cka(X, components(y, 2)), rtol=1e-10)
    assert_allclose(PairedTransformer(CKA(), None).fit(X, y).similarity_, linear_cka(X, y), rtol=1e-10)


def test_y_can_have_a_transformer_of_its_own(pair):
    X, y = pair
    model = PairedTransformer(CKA(), PCA(2), y_transformer=StandardScaler()).fit(X, y)
    assert_allclose(model.similarity_, linear_cka(components(X, 2), (y - y.mean(0)) / y.std(0)), rtol=1e-10)


def test_score_transforms_new_rows_as_learned(pair):
    X, y = pair
    model = PairedTransformer(CKA(), PCA(2)).fit(X[:40], y[:40])
    expected = linear_cka(components(X[40:], 2, X[:40]), components(y[40:], 2, y[:40]))
    assert_allclose(model.score(X[40:], y[40:]), expected, rtol=1e-10)


def test_one_dimensional_y_is_one_column(pair):
    X, y = pair
    model = PairedTransformer(CKA(), StandardScaler())
    assert_allclose(
        model.fit(X, y[:, 0]).similarity_, linear_cka(StandardScaler().fit_transform(X), y[:, :1]), rtol=1e-10
    )
    assert model.score(X, pd.Series(y[:, 0])) == model.score(X, y[:, [0]])


def test_the_index_can_be_named(pair):
    X, y = pair
    assert_allclose(
        PairedTransformer("cka", PCA(2)).fit(X, y).similarity_, linear_cka(components(X, 2), components(y, 2))
    )


def test_chance_and_z_score_are_those_of_the_transformed_pair(pair):
    X, y = pair
    model = PairedTransformer(CKA(), PCA(2)).fit(X, y)
    A, B = components(X, 2), components(y, 2)
    rng = np.random.default_rng(1)
    permuted = [linear_cka(A, B[rng.permutation(60)]) for _ in range(2000)]
    assert_allclose(model.chance_, np.mean(permuted), atol=4 * np.std(permuted) / np.sqrt(2000))
    assert_allclose(model.z_score(X, y), (linear_cka(A, B) - np.mean(permuted)) / np.std(permuted), rtol=0.1)
    assert model.z_score(X, y) == CKA().fit(A, B).z_score(
        model.transformer_.transform(X), model.y_transformer_.transform(y)
    )


class MapIndex(BaseIndex):
    """An index that learns a map: the scale of y to that of X."""

    def embed(self, X):
        return X

    def compare(self, a, b):
        return float((a * a).sum() / (b * b).sum())

    def transform(self, X, y=None):
        return 2 * X if y is None else (2 * X, 3 * y)


def test_transform_applies_the_transformer_and_then_the_map_of_the_index(pair):
    X, y = pair
    model = PairedTransformer(MapIndex(), StandardScaler()).fit(X, y)
    scaled, scaled_y = ((Z - Z.mean(0)) / Z.std(0) for Z in (X, y))
    assert_allclose(model.transform(X), 2 * scaled)
    both = model.transform(X, y)
    assert_allclose(both[0], 2 * scaled)
    assert_allclose(both[1], 3 * scaled_y)


def test_methods_that_the_index_lacks_are_absent(pair):
    assert not hasattr(PairedTransformer(CKA(), PCA(2)), "transform")
    assert not hasattr(PairedTransformer(CKA(), PCA(2)).fit(*pair), "transform")
    assert hasattr(PairedTransformer(CKA(), PCA(2)), "z_score")
    assert not hasattr(PairedTransformer(MapIndex(), PCA(2)), "z_score")


def test_parameters_of_all_parts_can_be_searched(pair):
    X, y = pair
    model = PairedTransformer(CKA(), StandardScaler(), y_transformer=PCA(1))
    grid = {
        "index__debiased": [False, True],
        "transformer__with_std": [True, False],
        "y_transformer__n_components": [1, 2],
    }
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    best = search.best_estimator_
    assert best.score(X, y) == clone(model).set_params(**search.best_params_).fit(X, y).similarity_


def test_the_shared_transformer_is_set_for_both_sides(pair):
    model = PairedTransformer(CKA(), PCA(2)).set_params(transformer__n_components=3).fit(*pair)
    assert model.transformer_.n_components_ == model.y_transformer_.n_components_ == 3


def test_cross_validation_scores_are_those_of_the_folds(pair):
    X, y = pair
    scores = cross_val_score(PairedTransformer(CKA(), PCA(2)), X, y, cv=3)
    folds = [slice(0, 20), slice(20, 40), slice(40, 60)]
    for score, fold in zip(scores, folds, strict=True):
        X_train, y_train = np.delete(X, fold, axis=0), np.delete(y, fold, axis=0)
        expected = linear_cka(components(X[fold], 2, X_train), components(y[fold], 2, y_train))
        assert_allclose(score, expected, rtol=1e-10)


def test_fitted_and_unfitted_survive_pickling_and_clone(pair):
    model = PairedTransformer(CKA(kernel="rbf", bandwidth=0.5), PCA(2), y_transformer=None)
    assert clone(model).get_params()["index__bandwidth"] == 0.5
    fitted = pickle.loads(pickle.dumps(model)).fit(*pair)
    assert pickle.loads(pickle.dumps(fitted)).score(*pair) == fitted.similarity_


def test_weights_go_to_the_index_as_repeated_rows(pair):
    X, y = pair
    weights = np.random.default_rng(2).integers(1, 4, size=60)
    model = PairedTransformer(CKA(), StandardScaler()).fit(X, y, sample_weight=weights)
    A, B = (np.repeat(StandardScaler().fit_transform(Z), weights, axis=0) for Z in (X, y))
    assert_allclose(model.similarity_, linear_cka(A, B), rtol=1e-10)
    assert_allclose(model.score(X, y, sample_weight=weights), linear_cka(A, B), rtol=1e-10)


def test_routed_weights_go_where_they_are_requested(pair):
    X, y = pair
    weights = np.random.default_rng(2).integers(1, 4, size=60).astype(float)
    counts = weights.astype(int)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        index = CKA().set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
        model = PairedTransformer(index, scaler, y_transformer=None).fit(X, y, sample_weight=weights)
        repeated = np.repeat(X, counts, axis=0)
        A = (X - repeated.mean(0)) / repeated.std(0)
        assert_allclose(model.similarity_, linear_cka(A, y), rtol=1e-10)
        expected = linear_cka(np.repeat(A, counts, axis=0), np.repeat(y, counts, axis=0))
        assert_allclose(model.score(X, y, sample_weight=weights), expected, rtol=1e-10)

        unsaid = PairedTransformer(CKA(), StandardScaler().set_fit_request(sample_weight=False))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            unsaid.fit(X, y, sample_weight=weights)
        search = GridSearchCV(model, {"transformer__with_mean": [True, False]}, cv=3)
        assert search.fit(X, y, sample_weight=weights).best_score_ > 0


def test_frames_reach_transformers_that_pick_columns_by_name():
    frame = load_iris(as_frame=True).data
    sepal = ColumnTransformer([("keep", StandardScaler(), ["sepal length (cm)", "sepal width (cm)"])])
    petal = ColumnTransformer([("keep", StandardScaler(), ["petal length (cm)", "petal width (cm)"])])
    model = PairedTransformer(CKA(), sepal, y_transformer=petal).fit(frame, frame)
    A, B = (StandardScaler().fit_transform(frame.to_numpy()[:, columns]) for columns in ([0, 1], [2, 3]))
    assert_allclose(model.similarity_, linear_cka(A, B), rtol=1e-10)
    assert list(model.feature_names_in_) == list(frame.columns)


def test_missing_values_are_allowed_where_the_transformer_of_the_side_allows_them(pair):
    X, y = (Z.copy() for Z in pair)
    X[3, 2] = y[5, 1] = np.nan
    model = PairedTransformer(CKA(), SimpleImputer()).fit(X, y)
    A, B = (np.where(np.isnan(Z), np.nanmean(Z, axis=0), Z) for Z in (X, y))
    assert_allclose(model.similarity_, linear_cka(A, B), rtol=1e-10)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PairedTransformer(CKA(), SimpleImputer(), y_transformer=StandardScaler()).fit(X, y)


@pytest.mark.parametrize("method", ["fit", "score", "z_score"])
def test_frames_with_shuffled_rows_are_refused(pair, method):
    X, y = (pd.DataFrame(Z).rename(columns=str) for Z in pair)
    model = PairedTransformer(CKA(), StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="another order"):
        getattr(model, method)(X, y.iloc[::-1])


def test_different_numbers_of_rows_are_refused_with_both_counts(pair):
    X, y = pair
    with pytest.raises(ValueError, match=r"60.*59"):
        PairedTransformer(CKA(), PCA(2)).fit(X, y[:59])


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"y_transformer": "other"}, ValueError, "y_transformer must be 'same'"),
        ({"transformer": "other"}, TypeError, "transformer must be an estimator"),
        ({"transformer": PCA}, TypeError, "transformer must be an estimator"),
        ({"y_transformer": CKA()}, TypeError, "y_transformer must be an estimator"),
        ({"index": "ckaa"}, ValueError, "cka"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_in_fit(pair, params, error, message):
    model = PairedTransformer(**{"index": CKA(), "transformer": PCA(2), **params})
    with pytest.raises(error, match=message):
        model.fit(*pair)


def test_an_error_of_a_transformer_says_on_which_side_it_arose(pair):
    X, y = pair
    with pytest.raises(ValueError, match="n_components=7") as caught:
        PairedTransformer(CKA(), PCA(7)).fit(X, y)
    assert any("y_transformer" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("method", ["score", "z_score"])
def test_methods_need_a_fit(pair, method):
    with pytest.raises(NotFittedError):
        getattr(PairedTransformer(CKA(), PCA(2)), method)(*pair)


class Counting(BaseEstimator):
    """A transformer that remembers whether it was given a target."""

    def fit(self, X, y=None):
        self.had_target_ = y is not None
        return self

    def transform(self, X):
        return np.asarray(X)


def test_transformers_never_see_the_other_side(pair):
    model = PairedTransformer(CKA(), Counting()).fit(*pair)
    assert not model.transformer_.had_target_
    assert not model.y_transformer_.had_target_
