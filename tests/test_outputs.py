"""Indexes of classifier outputs against scikit-learn's and SciPy's statistics, row by row."""

import itertools
import math

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    ErrorConsistency,
    JensenShannonSimilarity,
    PredictionAgreement,
    UndefinedSimilarityWarning,
    compare_layers,
    similarity,
)
from sklearn_cka.testing import index_checks

ignore_similarity_warnings = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def scores(seed, n=30, c=4, tied=False):
    X = rng(seed).standard_normal((n, c))
    return np.round(X) if tied else X


def by_divergences(X, Y, weights=None):
    """One minus the mean of the divergences of rows, in bits, from SciPy's relative entropies."""
    middle = (np.asarray(X) + np.asarray(Y)) / 2
    divergences = (rel_entr(X, middle) + rel_entr(Y, middle)).sum(axis=1) / (2 * math.log(2))
    return 1 - np.average(divergences, weights=weights)


def kappa_of_correctness(X, Y, labels):
    """The formula of Geirhos et al. (2020), from accuracies."""
    right = [[int(np.argmax(row)) == label for row, label in zip(Z, labels, strict=True)] for Z in (X, Y)]
    a, b = (sum(r) / len(r) for r in right)
    observed = sum(r == s for r, s in zip(*right, strict=True)) / len(labels)
    expected = a * b + (1 - a) * (1 - b)
    return (observed - expected) / (1 - expected)


def close(value, expected, tolerance=1e-12):
    assert abs(value - expected) <= tolerance, (value, expected)


@given(seed=st.integers(0, 2**20), n=st.integers(1, 30), c=st.integers(2, 6), tied=st.booleans())
def test_agreement_is_the_share_of_equal_decisions(seed, n, c, tied):
    X, Y = scores(seed, n, c, tied), scores(seed + 1, n, c, tied)
    expected = np.mean([int(np.argmax(x)) == int(np.argmax(y)) for x, y in zip(X, Y, strict=True)])
    close(similarity(X, Y, index="prediction_agreement"), expected)
    close(similarity(X, Y.argmax(axis=1), index="prediction_agreement"), expected)
    close(similarity(X.argmax(axis=1)[:, None], Y, index="prediction_agreement"), expected)


@given(seed=st.integers(0, 2**20), n=st.integers(5, 40), c=st.integers(2, 6), tied=st.booleans())
def test_error_consistency_is_kappa_of_being_right(seed, n, c, tied):
    X, Y, labels = scores(seed, n, c, tied), scores(seed + 1, n, c, tied), rng(seed).integers(0, c, n)
    X[np.arange(n), labels] += 0.7
    right = [(Z.argmax(axis=1) == labels).astype(int) for Z in (X, Y)]
    if len({*right[0], *right[1]}) == 1:
        return  # undefined
    index = ErrorConsistency().fit(X, Y, labels=labels)
    close(index.similarity_, kappa_of_correctness(X, Y, labels))
    close(index.similarity_, cohen_kappa_score(*right))
    close(index.accuracy_, right[0].mean())
    close(index.accuracy_y_, right[1].mean())
    close(ErrorConsistency().similarity(right[0][:, None], right[1]), index.similarity_)
    close(ErrorConsistency().similarity(X.argmax(axis=1)[:, None], Y, labels=labels), index.similarity_)


def test_error_consistency_without_labels_is_kappa_of_the_decisions():
    X, Y = scores(0), scores(1)
    index = ErrorConsistency().fit(X, Y)
    close(index.similarity_, cohen_kappa_score(X.argmax(axis=1), Y.argmax(axis=1)))
    assert math.isnan(index.accuracy_)


@given(seed=st.integers(0, 2**20), n=st.integers(1, 30), c=st.integers(2, 6), scale=st.sampled_from([0.1, 1.0, 50.0]))
def test_jensen_shannon_similarity_is_that_of_relative_entropies(seed, n, c, scale):
    X, Y = scale * scores(seed, n, c), scale * scores(seed + 1, n, c)
    P, Q = softmax(X, axis=1), softmax(Y, axis=1)
    expected = by_divergences(P, Q)
    close(similarity(X, Y, index="jensen_shannon_similarity"), expected)
    close(similarity(X, Y + 1000.0, index="jensen_shannon_similarity"), expected, 1e-9)
    index = JensenShannonSimilarity("probabilities").fit(P, Q)
    close(index.similarity_, expected)
    close(index.distance(P, Q), math.sqrt(max(0.0, 1 - expected)), 1e-7)
    hot = np.eye(c)[Y.argmax(axis=1)]
    close(JensenShannonSimilarity().similarity(X, Y.argmax(axis=1)), by_divergences(P, hot))
    close(JensenShannonSimilarity("probabilities").similarity(P, hot), by_divergences(P, hot))


def test_extreme_distributions():
    index = JensenShannonSimilarity("probabilities")
    assert index.similarity([[1.0, 0.0]], [[0.0, 1.0]]) == 0.0
    assert index.similarity([[1.0, 0.0]], [[1.0, 0.0]]) == 1.0
    assert index.similarity([[1.0, 0.0]], [7]) == 0.0
    assert index.similarity([[1.0, 0.0]], [0]) == 1.0
    assert JensenShannonSimilarity().similarity([[1e30, 0.0], [0.0, 1e4]], [0, 1]) == 1.0
    assert index.distance([[1.0, 0.0]], [[0.0, 1.0]]) == 1.0


@pytest.mark.parametrize("name", ["prediction_agreement", "error_consistency"])
def test_chance_is_the_mean_over_all_permutations(name):
    X, Y = scores(0, 6, 3), scores(1, 6, 3)
    index = ErrorConsistency() if name == "error_consistency" else PredictionAgreement()
    values = [index.similarity(X, Y[list(order)]) for order in itertools.permutations(range(6))]
    close(index.fit(X, Y).chance_, np.mean(values))


def test_integer_weights_are_repeated_rows():
    X, Y, labels = scores(0), scores(1), rng(2).integers(0, 4, 30)
    weights = rng(3).integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    for index in (PredictionAgreement(), ErrorConsistency(), JensenShannonSimilarity()):
        close(index.similarity(X, Y, sample_weight=weights), index.similarity(X[rows], Y[rows]))
    index = ErrorConsistency()
    value = index.similarity(X, Y, sample_weight=weights, labels=labels)
    close(value, index.similarity(X[rows], Y[rows], labels=labels[rows]))


def test_labels_follow_the_folds():
    X, Y, labels = scores(0), scores(1), rng(2).integers(0, 4, 30)
    with sklearn.config_context(enable_metadata_routing=True):
        index = ErrorConsistency().set_fit_request(labels=True).set_score_request(labels=True)
        found = cross_validate(index, X, Y, cv=KFold(3), params={"labels": labels})["test_score"]
    for value, (_, test) in zip(found, KFold(3).split(X), strict=True):
        close(value, kappa_of_correctness(X[test], Y[test], labels[test]))


def test_table_of_classifiers():
    data = rng(0).standard_normal((200, 3))
    labels = (data[:, 0] + 0.7 * rng(1).standard_normal(200) > 0).astype(int) + (data[:, 1] > 1)
    models = {"linear": LogisticRegression(), "bayes": GaussianNB(), "half": LogisticRegression()}
    outputs = {}
    for name, model in models.items():
        rows = slice(100) if name == "half" else slice(None)
        outputs[name] = model.fit(data[rows], labels[rows]).predict_proba(data)
    table = compare_layers(outputs, index="error_consistency", labels=labels, verbose=0)
    close(table.values[0, 1], kappa_of_correctness(outputs["linear"], outputs["bayes"], labels))
    distances = compare_layers(
        outputs, index="jensen_shannon_similarity", outputs="probabilities", output="distance", verbose=0
    )
    close(distances.values[0, 1], math.sqrt(1 - by_divergences(outputs["linear"], outputs["bayes"])))


def test_two_perfect_classifiers_leave_nothing_to_explain():
    labels = np.arange(6) % 3
    with pytest.warns(UndefinedSimilarityWarning, match="both sides are right on all examples"):
        assert math.isnan(ErrorConsistency().fit(np.eye(3)[labels], labels, labels=labels).similarity_)


def test_outputs_that_are_not_what_they_are_said_to_be():
    P, X = softmax(scores(0), axis=1), scores(1)
    with pytest.raises(ValueError, match=r"Every row of X sums to 1: .*pass outputs=\"probabilities\""):
        JensenShannonSimilarity().fit(P, X)
    with pytest.raises(ValueError, match=r"y holds -.*, which is no probability; pass outputs=\"logits\""):
        JensenShannonSimilarity("probabilities").fit(P, X)
    with pytest.raises(ValueError, match=r"Row 3 of y sums to 0.8, not 1"):
        JensenShannonSimilarity("probabilities").fit(P, np.where(np.arange(30)[:, None] == 3, 0.8 * P, P))
    with pytest.raises(ValueError, match="outputs must be one of 'logits', 'probabilities'"):
        JensenShannonSimilarity("softmax").fit(X, X)
    for index in (PredictionAgreement(), ErrorConsistency(), JensenShannonSimilarity()):
        with pytest.raises(ValueError, match="X has 4 columns and y has 3; a side of one column holds predicted"):
            index.fit(X, X[:, :3])
    with pytest.raises(ValueError, match="labels has 20 rows and X has 30"):
        ErrorConsistency().fit(X, X, labels=np.zeros(20))
    with pytest.raises(ValueError, match="labels must have one column"):
        ErrorConsistency().fit(X, X, labels=np.zeros((30, 2)))


def test_all_array_libraries_agree(backend):
    X, Y, labels = scores(0, tied=True), scores(1, tied=True), rng(2).integers(0, 4, 30)
    for index in (PredictionAgreement(), ErrorConsistency(), ErrorConsistency(labels), JensenShannonSimilarity()):
        value = index.similarity(X, Y)
        seen = index.similarity(backend.asarray(X), backend.asarray(Y))
        assert type(seen) is float
        close(seen, value)
        close(index.similarity(backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4"))), value, 1e-6)
        close(index.similarity(backend.asarray(X), backend.asarray(labels)), index.similarity(X, labels))
    P, Q = softmax(X, axis=1), softmax(Y, axis=1)
    index = JensenShannonSimilarity("probabilities")
    close(index.similarity(backend.asarray(P), backend.asarray(Q)), by_divergences(P, Q))
    close(
        index.similarity(backend.asarray(P.astype("f4")), backend.asarray(Q.astype("f4"))), by_divergences(P, Q), 1e-6
    )


INDEXES = [PredictionAgreement(), ErrorConsistency(), JensenShannonSimilarity()]


@ignore_similarity_warnings
@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _probability_pair(rng, n):
    X = rng.standard_normal((n, 4))
    return softmax(X, axis=1), softmax(X + rng.standard_normal((n, 4)), axis=1)


def _index_checks():
    for index in INDEXES:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index!r}-{name}")
    for name, check in index_checks(JensenShannonSimilarity("probabilities"), make_pair=_probability_pair):
        yield pytest.param(check, id=f"probabilities-{name}")


@ignore_similarity_warnings
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
