"""Layers of ensembles of trees and of branches side by side, against counting leaves and transforming by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_cka import _memory, compare_layers, extract_layers

X, Y = load_iris(return_X_y=True)
MODELS = [
    RandomForestClassifier(7, random_state=0),
    ExtraTreesRegressor(7, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=4, random_state=0),
    GradientBoostingRegressor(n_estimators=4, random_state=0),
    RandomTreesEmbedding(5, random_state=0),
    DecisionTreeClassifier(max_depth=3, random_state=0),
]


def shared_leaves(leaves):
    """The share of trees in which two rows end in the same leaf, pair by pair."""
    return np.array([[np.mean(a == b) for b in leaves] for a in leaves])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_linear_kernel_of_the_leaves_is_the_share_of_trees_that_agree(model):
    model.fit(X, Y)
    rows = X[::4]
    expected = shared_leaves(model.apply(rows).reshape(len(rows), -1))
    layers = extract_layers(model, rows)
    assert layers.names == ["trees"]
    np.testing.assert_allclose(layers["trees"] @ layers["trees"].T, expected, atol=1e-12)
    np.testing.assert_allclose(extract_layers(model, rows, form="gram")["trees"], expected, atol=1e-12)


def test_single_trees_by_name():
    model = RandomForestClassifier(12, random_state=0).fit(X, Y)
    layers = extract_layers(model, X, layers=["trees", "tree_1*"])
    assert layers.names == ["trees", "tree_1", "tree_10", "tree_11", "tree_12"]
    expected = model.estimators_[10].apply(X)
    np.testing.assert_array_equal(layers["tree_11"] @ layers["tree_11"].T, expected[:, None] == expected)
    with pytest.raises(ValueError, match="Unknown layer 'tree_13'"):
        extract_layers(model, X, layers="tree_13")


def test_both_forms_have_the_same_cka():
    models = [RandomForestClassifier(9, random_state=seed).fit(X, Y) for seed in (0, 1)]
    leaves = [extract_layers(model, X) for model in models]
    grams = [extract_layers(model, X, form="gram") for model in models]
    value = compare_layers(*leaves, debiased=True).values[0, 0]
    assert compare_layers(*grams, kernel="precomputed", debiased=True).values[0, 0] == pytest.approx(value, rel=1e-9)
    assert 0.5 < value < 1


def test_forests_are_refused_where_they_cannot_be_extracted(monkeypatch):
    model = RandomForestClassifier(3, random_state=0)
    with pytest.raises(NotFittedError):
        extract_layers(model, X)
    with pytest.raises(ValueError, match="form must be one of 'leaves', 'gram'"):
        extract_layers(model.fit(X, Y), X, form="kernel")
    monkeypatch.setattr(_memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"Keeping 1 layer of 150 rows .*'trees' of \d+ units"):
        extract_layers(model, X)


def test_forest_in_a_pipeline_is_a_step_like_others():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(X, Y)
    layers = extract_layers(model, X)
    np.testing.assert_array_equal(layers["randomforestclassifier"], model.predict_proba(X))


def test_branches_of_a_column_transformer():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(Y > 1, "x", "y"))
    model = ColumnTransformer(
        [
            ("pca", PCA(2), ["a", "b", "c"]),
            ("kind", OneHotEncoder(), ["kind"]),
            ("gone", "drop", ["d"]),
            ("scaled", StandardScaler(), ["d"]),
        ],
        sparse_threshold=1.0,
    ).fit(frame)
    assert sparse.issparse(model.transform(frame))
    layers = extract_layers(model, frame)
    assert layers.names == ["pca", "kind", "scaled"]
    np.testing.assert_allclose(layers["pca"], model.named_transformers_["pca"].transform(frame[["a", "b", "c"]]))
    np.testing.assert_array_equal(layers["kind"], np.c_[Y > 1, Y <= 1])
    assert extract_layers(model, frame, layers="s*").names == ["scaled"]
    model.set_params(sparse_threshold=0.0, kind__sparse_output=False).set_output(transform="pandas").fit(frame)
    np.testing.assert_allclose(extract_layers(model, frame)["scaled"], layers["scaled"])


def test_branches_of_a_union():
    model = FeatureUnion(
        [("pca", PCA(2)), ("raw", "passthrough"), ("gone", "drop"), ("scaled", StandardScaler())],
        transformer_weights={"pca": 10},
    ).fit(X)
    layers = extract_layers(model, X, layers=["scaled", "pca", "raw"])
    assert layers.names == ["scaled", "pca", "raw"]
    np.testing.assert_allclose(layers["pca"], PCA(2).fit_transform(X))
    np.testing.assert_array_equal(layers["raw"], X)
    with pytest.raises(ValueError, match="all of its branches are dropped"):
        extract_layers(FeatureUnion([("gone", "drop")]).fit(X), X)
