"""Linear probes of layers: the scores of scikit-learn, named, grouped, drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cka import compare_layers, probe_layers

X, Y = load_iris(return_X_y=True)
LAYERS = {"sepal": X[:, :2], "petal": X[:, 2:], "noise": np.random.default_rng(0).standard_normal((150, 3))}


def test_scores_are_those_of_cross_validation():
    result = probe_layers(LAYERS, Y, cv=4, random_state=3)
    folds = StratifiedKFold(4, shuffle=True, random_state=3)
    for name, scores in zip(result.layer_names, result.scores, strict=True):
        probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        np.testing.assert_allclose(scores, cross_val_score(probe, LAYERS[name], Y, cv=folds))
    frame = result.to_frame()
    assert list(frame["layer"]) == list(LAYERS)
    np.testing.assert_allclose(frame["score"], result.scores.mean(axis=1))
    np.testing.assert_allclose(frame["standard_error"], result.scores.std(axis=1, ddof=1) / 2)


def test_a_layer_that_knows_nothing_scores_at_chance_and_one_that_does_above():
    result = probe_layers(LAYERS, Y)
    score = dict(zip(result.layer_names, result.mean, strict=True))
    assert score["petal"] > 0.9
    assert abs(score["noise"] - 1 / 3) < 0.15


def test_arrays_of_any_library_and_labels_of_any_kind(backend):
    expected = probe_layers(LAYERS, Y).scores
    layers = {name: backend.asarray(array) for name, array in LAYERS.items()}
    words = np.array(["setosa", "versicolor", "virginica"])[Y]
    np.testing.assert_allclose(probe_layers(layers, words).scores, expected, atol=0.03)


def test_groups_are_not_parted():
    # Five copies of every row: a probe that has seen a copy knows the label, which is random.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    rows, labels = rng.standard_normal((40, 60))[groups], (np.arange(40) % 2)[groups]
    assert probe_layers({"x": rows}, labels).mean[0] > 0.95
    assert probe_layers({"x": rows}, labels, groups=groups).mean[0] < 0.75


def test_a_probe_scoring_and_splitter_of_ones_own():
    probe = LogisticRegression(C=0.01)
    folds = StratifiedKFold(3)
    result = probe_layers(LAYERS, Y, estimator=probe, cv=folds, scoring="neg_log_loss", n_jobs=2)
    expected = cross_val_score(probe, LAYERS["petal"], Y, cv=folds, scoring="neg_log_loss")
    np.testing.assert_allclose(result.scores[1], expected)
    assert result.scoring == "neg_log_loss"


def test_errors_name_the_argument_and_the_layer():
    with pytest.raises(ValueError, match=r"150.*149"):
        probe_layers(LAYERS, Y[:-1])
    with pytest.raises(ValueError, match="estimator must be a classifier"):
        probe_layers(LAYERS, Y, estimator=Ridge())
    with pytest.raises(ValueError, match=r"layer 'bad'.*NaN"):
        probe_layers({"bad": np.where(X > 7.8, np.nan, X)}, Y)
    with pytest.raises(ValueError, match="missing value"):
        probe_layers(LAYERS, [None, *Y[1:]])


def test_the_display_shows_scores_under_the_table():
    result = probe_layers(LAYERS, Y)
    table = compare_layers(LAYERS, verbose=0)
    alone = result.plot()
    assert len(alone.axes_) == 1
    assert [label.get_text() for label in alone.axes_[0].get_xticklabels()] == list(LAYERS)
    both = result.plot(table)
    assert len(both.axes_) == 2
    line = both.axes_[1].lines[0]
    np.testing.assert_allclose(line.get_ydata(), result.mean)
    _, axes = plt.subplots(2, 1)
    assert result.plot(table, axes).axes_ == tuple(axes)
    with pytest.raises(ValueError, match="1 panel"):
        result.plot(axes=axes)
    with pytest.raises(ValueError, match="same order"):
        result.plot(compare_layers({"a": X, "b": X**2}, verbose=0))
