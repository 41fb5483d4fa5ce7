"""Values of the spectral family that others have printed.

The numbers stand here as well as in the reference data beside the checkout, so that they are tested everywhere.
"""

import json
import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import KFold, cross_validate

from sklearn_cka import Procrustes, ShapeMetric, cca, compare_layers

MEAN_SQUARED_CCA = 0.545396332191
TRAIN_SUM, TEST_SUM = 5478.173387196459, 6333.232718084371
TRAIN_ANGLES = [
    *(0.46626067, 0.46140001, 0.46623968, 0.46866604, 0.47149637),
    *(0.47078356, 0.46782596, 0.46504587, 0.46302238, 0.46197876),
]
TEST_ANGLES = [
    *(0.48806546, 0.50628853, 0.48546268, 0.4625334, 0.37655937),
    *(0.4109973, 0.47418875, 0.49561857, 0.50214559, 0.51200611),
]


def test_mean_squared_cca_of_the_demonstration_notebook(backend):
    """The inputs of Kornblith et al. (2019), centred; their notebook does not centre and prints 0.54312."""
    legacy = np.random.RandomState(1337)
    X = legacy.randn(100, 10)
    Y = legacy.randn(100, 10) + X
    value = cca(backend.asarray(X), backend.asarray(Y), statistic="mean_squared")
    assert value == pytest.approx(MEAN_SQUARED_CCA, abs=1e-12)
    uncentred = np.linalg.norm(np.linalg.qr(X)[0].T @ np.linalg.qr(Y)[0]) ** 2 / 10
    assert uncentred == pytest.approx(0.543123855931, abs=1e-10)


@pytest.mark.parametrize("index", [Procrustes(), ShapeMetric(alpha=1.0)], ids=repr)
def test_cross_validated_shape_distances_of_netrep(index):
    """The example on linear metrics of netrep: angles on ten training and test folds, to the digits printed."""
    seed = 42069
    X = make_blobs(n_samples=256, n_features=2, centers=256, cluster_std=0.0, shuffle=False, random_state=seed)[0]
    X = X[np.argsort(X[:, 0])]
    random = np.random.default_rng(seed)
    random.random()
    Y = X @ random.standard_exponential((2, 2))
    scores = cross_validate(index, X, Y, cv=KFold(10), return_train_score=True)
    for name, printed in (("train_score", TRAIN_ANGLES), ("test_score", TEST_ANGLES)):
        angles = [index.to_distance(score) for score in scores[name]]
        np.testing.assert_allclose(angles, printed, rtol=0.0, atol=5.1e-9)


def test_sums_of_all_pairwise_shape_distances_of_netrep():
    """The example on pairwise distances of netrep: 64 networks, angles on the training and on the test rows."""
    random = np.random.default_rng(0)
    train = [random.standard_normal((1024, 64)) for _ in range(64)]
    test = [random.standard_normal((1024, 64)) for _ in range(64)]
    index = Procrustes()
    embeddings = [index._embed(X, None, loadings=True) for X in train]
    similarities = np.asarray(index.compare_all(embeddings, embeddings))
    angles = np.arccos(np.clip(similarities, -1.0, 1.0))
    np.fill_diagonal(angles, 0.0)
    assert angles.sum() == pytest.approx(TRAIN_SUM, rel=1e-13)
    # What fit and score do, each training side embedded once.
    total = 0.0
    for i in range(64):
        for j in range(i):
            index._learn(embeddings[i], embeddings[j])
            total += 2.0 * math.acos(index._held_out(test[i], test[j], None))
    assert total == pytest.approx(TEST_SUM, rel=1e-13)
    fitted = Procrustes().fit(train[1], train[0])
    assert fitted.similarity_ == pytest.approx(similarities[1, 0], abs=1e-12)
    index._learn(embeddings[1], embeddings[0])
    assert fitted.score(test[1], test[0]) == pytest.approx(index._held_out(test[1], test[0], None), abs=1e-12)
    table = compare_layers(train[:4], index="procrustes", verbose=0)
    np.testing.assert_allclose(table.values, similarities[:4, :4], atol=1e-12)


def test_numbers_are_those_of_the_reference_data(shared):
    golden = json.loads((shared / "golden" / "golden_values.json").read_text())
    pairwise, folds = golden["netrep_pairwise"], golden["netrep_cv"]
    assert pairwise["D_train_sum"]["printed"] == TRAIN_SUM
    assert pairwise["D_test_sum"]["printed"] == TEST_SUM
    assert folds["train_score_printed"] == TRAIN_ANGLES
    assert folds["test_score_printed"] == TEST_ANGLES
    assert str(MEAN_SQUARED_CCA) in golden["kornblith_demo"]["mean_squared_cca"]["note"]
