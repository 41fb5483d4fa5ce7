"""Layers out of scikit-learn's models: the numbers against the models' own predictions and a forward pass by hand."""

import functools
import inspect
import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.manifold import TSNE, Isomap
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from sklearn_cka import _arrays
from sklearn_cka.extract import extract_layers, select_layers
from sklearn_cka.layers import Layers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SCALAR = {
    "identity": lambda z: z,
    "relu": lambda z: z if z > 0 else 0.0,
    "tanh": math.tanh,
    "logistic": lambda z: 1 / (1 + math.exp(-z)),
}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def binary(iris):
    X, y = iris
    return X[:100], np.array(["no", "yes"])[y[:100]]


def mlp(cls=MLPClassifier, **params):
    return cls(**{"hidden_layer_sizes": (7, 5), "max_iter": 30, "random_state": 0, **params})


def unit_by_unit(model, X, n_layers):
    """Activations of the first hidden layers with one scalar activation a unit."""
    current = np.asarray(X, dtype=float)
    for weights, bias in list(zip(model.coefs_, model.intercepts_, strict=True))[:n_layers]:
        z = np.array([[sum(row * weights[:, j]) + bias[j] for j in range(len(bias))] for row in current])
        current = np.vectorize(SCALAR[model.activation], otypes=[float])(z)
    return current


@pytest.mark.parametrize("activation", list(SCALAR))
def test_hidden_layers_are_the_activations_computed_unit_by_unit(iris, activation):
    X, y = iris
    model = mlp(activation=activation).fit(X, y)
    layers = extract_layers(model, X[::10])
    assert isinstance(layers, Layers)
    assert layers.names == ["hidden_1", "hidden_2", "output"]
    np.testing.assert_allclose(layers["hidden_1"], unit_by_unit(model, X[::10], 1), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(layers["hidden_2"], unit_by_unit(model, X[::10], 2), rtol=1e-12, atol=1e-13)


def test_output_of_a_classifier_is_predict_proba(iris):
    X, y = iris
    model = mlp().fit(X, y)
    np.testing.assert_allclose(extract_layers(model, X)["output"], model.predict_proba(X), rtol=1e-12)


def test_output_of_a_binary_classifier_is_its_one_unit(binary):
    X, y = binary
    model = mlp().fit(X, y)
    output = extract_layers(model, X)["output"]
    assert output.shape == (100, 1)
    np.testing.assert_allclose(output, model.predict_proba(X)[:, [1]], rtol=1e-12)


def test_output_of_a_multilabel_classifier_is_predict_proba(iris):
    X, y = iris
    labels = np.stack([y == 0, y < 2], axis=1).astype(int)
    model = mlp().fit(X, labels)
    np.testing.assert_allclose(extract_layers(model, X)["output"], model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_output_of_a_regressor_is_predict(iris, n_outputs):
    X = iris[0]
    target = X[:, 0] if n_outputs == 1 else X[:, :2]
    model = mlp(MLPRegressor).fit(X, target)
    np.testing.assert_allclose(extract_layers(model, X)["output"], model.predict(X).reshape(150, n_outputs), rtol=1e-12)


@pytest.mark.skipif("loss" not in inspect.signature(MLPRegressor).parameters, reason="new in scikit-learn 1.7")
def test_output_of_a_poisson_regressor_is_predict_through_the_exponential(iris):
    X = iris[0]
    model = mlp(MLPRegressor, loss="poisson").fit(X[:, 1:], X[:, 0])
    output = extract_layers(model, X[:, 1:])["output"]
    assert output.min() > 0
    np.testing.assert_allclose(output[:, 0], model.predict(X[:, 1:]), rtol=1e-12)


def test_a_network_without_hidden_layers_has_only_its_output(iris):
    X, y = iris
    model = mlp(hidden_layer_sizes=()).fit(X, y)
    assert extract_layers(model, X).names == ["output"]


def test_float32_stays_float32(iris):
    X, y = iris
    model = mlp().fit(X.astype(np.float32), y)
    assert {a.dtype for a in extract_layers(model, X.astype(np.float32)).values()} == {np.dtype("float32")}


def test_sparse_and_dense_input_of_a_network_give_the_same_layers(iris):
    X, y = iris
    model = mlp().fit(X, y)
    from_sparse = extract_layers(model, sparse.csr_array(X))
    for name, dense in extract_layers(model, X).items():
        np.testing.assert_allclose(from_sparse[name], dense, rtol=1e-12)


def test_layers_of_a_network_by_name_and_pattern_in_the_order_wanted(iris):
    X, y = iris
    model = mlp().fit(X, y)
    everything = extract_layers(model, X)
    some = extract_layers(model, X, layers=["output", "hidden_*"])
    assert some.names == ["output", "hidden_1", "hidden_2"]
    assert all(np.array_equal(some[name], everything[name]) for name in some)
    assert extract_layers(model, X, layers="hidden_1").names == ["hidden_1"]


def test_an_unknown_layer_is_an_error_with_close_matches(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"Unknown layer 'hiden_1'\. Did you mean 'hidden_1'.*'output'\."):
        extract_layers(mlp().fit(X, y), X, layers="hiden_1")
    with pytest.raises(ValueError, match=r"Unknown layer 'conv\*'"):
        extract_layers(make_pipeline(StandardScaler()).fit(X), X, layers=["standardscaler", "conv*"])


def test_select_layers_takes_a_name_with_brackets_as_a_name():
    assert select_layers(["block[0]", "block0"], "block[0]") == ["block[0]"]
    assert select_layers(["block[0]", "block0", "other"], ["block*", "block0"]) == ["block[0]", "block0"]


@pytest.mark.parametrize(("layers", "error"), [([], ValueError), ([1], TypeError)])
def test_select_layers_refuses_nothing_and_numbers(layers, error):
    with pytest.raises(error, match="layers"):
        select_layers(["a"], layers)


def test_the_rules_of_the_model_apply_to_its_input(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = mlp().fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        extract_layers(model, frame[list("dcba")])
    with pytest.raises(ValueError, match="expecting 4 features"):
        extract_layers(mlp().fit(X, y), X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        extract_layers(mlp().fit(X, y), np.where(X.max() == X, np.nan, X))


@pytest.mark.parametrize(
    "model",
    [mlp(), mlp(MLPRegressor), make_pipeline(StandardScaler(), mlp()), GridSearchCV(mlp(), {"alpha": [1.0]})],
    ids=["classifier", "regressor", "pipeline", "search"],
)
def test_an_unfitted_model_is_an_error(iris, model):
    with pytest.raises(NotFittedError):
        extract_layers(model, iris[0])


def test_a_pipeline_gives_the_output_of_every_step_under_its_name(iris):
    X, y = iris
    model = Pipeline([("scale", StandardScaler()), ("pca", PCA(2)), ("svm", LinearSVC())]).fit(X, y)
    layers = extract_layers(model, X)
    assert layers.names == ["scale", "pca", "svm"]
    standardized = (X - X.mean(0)) / X.std(0)
    np.testing.assert_allclose(layers["scale"], standardized, atol=1e-12)
    np.testing.assert_allclose(layers["pca"], standardized @ model["pca"].components_.T, atol=1e-12)
    np.testing.assert_allclose(layers["svm"], model.decision_function(X))


def test_a_network_at_the_end_gives_its_layers_under_the_name_of_its_step(iris):
    X, y = iris
    model = Pipeline([("scale", StandardScaler()), ("net", mlp())]).fit(X, y)
    layers = extract_layers(model, X)
    assert layers.names == ["scale", "net.hidden_1", "net.hidden_2", "net.output"]
    np.testing.assert_allclose(layers["net.hidden_2"], unit_by_unit(model["net"], layers["scale"], 2), atol=1e-12)
    np.testing.assert_allclose(layers["net.output"], model.predict_proba(X))
    assert extract_layers(model, X, layers="net.*").names == layers.names[1:]


@pytest.mark.parametrize(
    ("predictor", "expected"),
    [
        (LogisticRegression(), lambda model, X, y: model.decision_function(X)),
        (RandomForestClassifier(5, random_state=0), lambda model, X, y: model.predict_proba(X)),
        (LinearDiscriminantAnalysis(), lambda model, X, y: model.transform(X)),
        (KMeans(3, n_init=1, random_state=0), lambda model, X, y: model.transform(X)),
        (LinearRegression(), lambda model, X, y: model.predict(X)[:, None]),
    ],
    ids=lambda p: type(p).__name__,
)
def test_a_final_predictor_gives_the_first_of_transform_decision_function_predict_proba_predict(
    iris, predictor, expected
):
    X, y = iris
    model = Pipeline([("scale", StandardScaler()), ("last", predictor)]).fit(X, y)
    np.testing.assert_allclose(extract_layers(model, X)["last"], expected(model, X, y))


class NearestMean(BaseEstimator):
    """A classifier that can only predict."""

    _estimator_type = "classifier"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean(0) for c in self.classes_])
        return self

    def predict(self, X):
        return self.classes_[((X[:, None] - self.means_) ** 2).sum(-1).argmin(1)]


def test_classes_predicted_become_one_column_each(iris):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    model = Pipeline([("scale", StandardScaler()), ("last", NearestMean())]).fit(X, names)
    layer = extract_layers(model, X)["last"]
    predicted = model.predict(X)
    assert [row.tolist() for row in layer] == [[float(p == c) for c in "abc"] for p in predicted]


def test_probabilities_of_several_targets_stand_side_by_side(iris):
    X, y = iris
    targets = np.stack([y, y == 1], axis=1)
    model = Pipeline([("scale", StandardScaler()), ("last", MultiOutputClassifier(KNeighborsClassifier()))])
    model.fit(X, targets)
    np.testing.assert_allclose(extract_layers(model, X)["last"], np.hstack(model.predict_proba(X)))


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_steps_that_pass_through_are_left_out(iris, nothing):
    X, _ = iris
    model = Pipeline([("a", nothing), ("scale", StandardScaler()), ("b", nothing), ("pca", PCA(2)), ("c", nothing)])
    assert extract_layers(model.fit(X), X).names == ["scale", "pca"]
    with pytest.raises(ValueError, match="no layers"):
        extract_layers(Pipeline([("a", nothing)]).fit(X), X)


def test_nested_pipelines_have_dotted_names_and_feed_the_next_step(iris):
    X, y = iris
    inner = Pipeline([("scale", StandardScaler()), ("pca", PCA(3))])
    last = Pipeline([("max", MaxAbsScaler()), ("net", mlp())])
    model = Pipeline([("in", inner), ("out", last)]).fit(X, y)
    layers = extract_layers(model, X)
    assert layers.names == ["in.scale", "in.pca", "out.max", "out.net.hidden_1", "out.net.hidden_2", "out.net.output"]
    np.testing.assert_allclose(layers["out.max"], layers["in.pca"] / np.abs(layers["in.pca"]).max(0), atol=1e-12)
    np.testing.assert_allclose(layers["out.net.output"], model.predict_proba(X))


def test_two_layers_of_one_name_are_an_error(iris):
    X, _ = iris
    inner = Pipeline([("b", StandardScaler())])
    model = Pipeline([("a", inner), ("a.b", PCA(2))]).fit(X)
    with pytest.raises(ValueError, match=r"would be called 'a\.b'"):
        extract_layers(model, X)


@pytest.mark.parametrize("search", [GridSearchCV, functools.partial(HalvingGridSearchCV, min_resources=60)])
def test_a_search_gives_the_layers_of_its_best_estimator(iris, search):
    X, y = iris
    model = search(mlp(), {"hidden_layer_sizes": [(3,), (6,)]}, cv=2).fit(X, y)
    layers = extract_layers(model, X)
    assert layers["hidden_1"].shape == (150, model.best_params_["hidden_layer_sizes"][0])
    np.testing.assert_allclose(layers["output"], model.predict_proba(X))


def test_a_search_as_a_step_is_looked_into(iris):
    X, y = iris
    model = Pipeline([("scale", StandardScaler()), ("search", GridSearchCV(mlp(), {"alpha": [1.0]}, cv=2))])
    assert extract_layers(model.fit(X, y), X).names == [
        "scale",
        *(f"search.{x}" for x in ("hidden_1", "hidden_2", "output")),
    ]
    plain = Pipeline([("search", GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2))]).fit(X, y)
    np.testing.assert_allclose(extract_layers(plain, X)["search"], plain.decision_function(X))


def test_a_search_that_kept_no_estimator_is_an_error(iris):
    model = GridSearchCV(mlp(), {"alpha": [1.0]}, cv=2, refit=False).fit(*iris)
    with pytest.raises(ValueError, match="refit=False"):
        extract_layers(model, iris[0])


@pytest.mark.parametrize(
    "scaler", [MaxAbsScaler(copy=False), ColumnTransformer([("s", MaxAbsScaler(copy=False), slice(0, 4))])]
)
def test_steps_that_work_in_place_change_neither_the_input_nor_the_layer_before(iris, scaler):
    X, _ = iris
    before = X.copy()
    model = Pipeline([("scale", StandardScaler()), ("max", scaler)]).fit(X)
    layers = extract_layers(model, X)
    np.testing.assert_allclose(layers["scale"], (before - before.mean(0)) / before.std(0), atol=1e-12)
    np.testing.assert_array_equal(X, before)


TEXTS = ["red green", "green blue blue", "red", "blue red red", "green"]


def test_sparse_outputs_are_made_dense():
    model = make_pipeline(CountVectorizer(), TfidfTransformer(), TruncatedSVD(2, random_state=0)).fit(TEXTS)
    layers = extract_layers(model, TEXTS)
    assert layers["countvectorizer"].tolist() == [[0, 1, 1], [2, 1, 0], [0, 0, 1], [1, 0, 2], [0, 1, 0]]
    np.testing.assert_allclose(np.linalg.norm(layers["tfidftransformer"], axis=1), 1)


def test_a_sparse_output_beyond_the_working_memory_is_an_error_that_names_the_step():
    model = make_pipeline(FunctionTransformer(_wide, check_inverse=False), TruncatedSVD(2)).fit(np.eye(5))
    with sklearn.config_context(working_memory=1):
        with pytest.raises(ValueError, match=r"step 'functiontransformer' is sparse, of shape \(5, 100000\).* 4 MiB"):
            extract_layers(model, np.eye(5))
        assert extract_layers(model, np.eye(5), layers="truncatedsvd")["truncatedsvd"].shape == (5, 2)


def _wide(X):
    return sparse.csr_array((np.ones(5), (np.arange(5), np.arange(5))), shape=(5, 100_000))


def test_a_step_that_drops_rows_is_an_error_that_names_it(iris):
    model = Pipeline([("scale", StandardScaler()), ("half", FunctionTransformer(_half))]).fit(iris[0])
    with pytest.raises(ValueError, match="Step 'half' returned 75 rows for 150 rows"):
        extract_layers(model, iris[0])
    assert extract_layers(model, iris[0], layers="scale").n_rows == 150


def _half(X):
    return X[::2]


def test_a_layer_of_strings_is_an_error_unless_it_is_left_out():
    X = pd.DataFrame({"colour": ["red", "blue", "red"]})
    model = Pipeline([("same", FunctionTransformer()), ("hot", OneHotEncoder())]).fit(X)
    with pytest.raises(TypeError, match="'same'"):
        extract_layers(model, X)
    assert extract_layers(model, X, layers="hot")["hot"].tolist() == [[0, 1], [1, 0], [0, 1]]


def test_frames_between_the_steps_keep_values_and_row_labels(iris):
    X = pd.DataFrame(iris[0], columns=list("abcd"), index=[f"flower {i}" for i in range(150)])
    model = make_pipeline(StandardScaler(), PCA(2)).set_output(transform="pandas").fit(X)
    layers = extract_layers(model, X)
    assert layers.index.equals(X.index)
    np.testing.assert_array_equal(layers["pca"], model.transform(X).to_numpy())


def test_an_unknown_type_is_an_error_that_lists_the_known_and_how_to_register():
    with pytest.raises(TypeError, match=r"builtins\.dict.*MLPClassifier.*Pipeline.*@extract_layers\.register\(dict\)"):
        extract_layers({}, np.eye(3))


class Doubling(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 4 * X


def test_a_registered_type_is_known_alone_and_at_the_end_of_a_pipeline(monkeypatch):
    @extract_layers.register(Doubling)
    def _(model, X, *, layers=None):
        found = {"twice": 2 * X, "four_times": 4 * X}
        return Layers({name: found[name] for name in select_layers(list(found), layers)})

    X = np.arange(6.0).reshape(3, 2)
    assert extract_layers(Doubling(), X, layers="f*")["four_times"].tolist() == (4 * X).tolist()
    model = Pipeline([("first", Doubling()), ("last", Doubling())]).fit(X)
    layers = extract_layers(model, X)
    assert layers.names == ["first", "last.twice", "last.four_times"]
    assert layers["last.four_times"].tolist() == (16 * X).tolist()


def test_layers_are_moved_to_a_backend(backend):
    X, y = load_iris(return_X_y=True)
    model = MLPClassifier((5,), max_iter=20, random_state=0)
    model.fit(X, y)
    expected = extract_layers(model, X)
    moved = extract_layers(model, X, backend=backend.name)
    assert moved.names == expected.names
    for name, array in moved.items():
        assert type(array) is type(backend.asarray(X)) or backend.name == "jax"
        np.testing.assert_array_equal(_arrays.to_numpy(array), expected[name])
    with pytest.raises(ValueError, match="Unknown backend 'tensor'"):
        extract_layers(model, X, backend="tensor")
    with pytest.raises(ValueError, match="NumPy computes on the cpu"):
        extract_layers(model, X, backend="numpy", device="cuda")


def test_a_transformer_by_itself_is_one_layer_as_in_a_pipeline():
    X, y = load_iris(return_X_y=True)
    for transformer in (PCA(2), KernelPCA(2, kernel="rbf"), Isomap(n_neighbors=70), StandardScaler(copy=False)):
        before = X.copy()
        alone = extract_layers(transformer.fit(X.copy(), y), X)
        inside = extract_layers(make_pipeline(transformer), X)
        assert list(alone) == list(inside)
        for name in alone:
            np.testing.assert_array_equal(alone[name], inside[name])
        np.testing.assert_array_equal(X, before)
    with pytest.raises(ValueError, match="Unknown layer 'pc'"):
        extract_layers(PCA(2).fit(X), X, layers="pc")
    with pytest.raises(NotFittedError):
        extract_layers(PCA(2), X)
    with pytest.raises(TypeError, match="TSNE places only the rows that it was fitted on"):
        extract_layers(TSNE(), X)


def test_histogram_boosting_says_what_to_take_instead():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match=r"does not tell in which leaf a row ends.*GradientBoostingClassifier"):
        extract_layers(HistGradientBoostingClassifier(max_iter=2).fit(X, y), X)


def test_options_that_a_model_does_not_take_are_named():
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    assert list(extract_layers(model, X, verbose=0)) == ["trees"]
    with pytest.raises(TypeError, match=r"takes no option 'batch_size' for a RandomForestClassifier; it takes layers,"):
        extract_layers(model, X, batch_size=3)
