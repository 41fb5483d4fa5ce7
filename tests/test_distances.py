"""Distance forms: a similarity that is the cosine of an angle gives a metric."""

import math
import warnings

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.manifold import MDS

from sklearn_cka import CKA, HSIC, SimilarityWarning, cka, compare_layers, get_index


@pytest.fixture
def layers():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((60, 4))
    return {
        "a": base,
        "b": base + 0.1 * rng.standard_normal((60, 4)),
        "c": rng.standard_normal((60, 3)),
        "d": rng.standard_normal((60, 3)),
    }


def test_distance_of_cka_is_the_angle_between_centred_gram_matrices(layers):
    X, Y = (Z - Z.mean(axis=0) for Z in (layers["a"], layers["c"]))
    K, L = X @ X.T, Y @ Y.T
    angle = math.acos((K * L).sum() / np.linalg.norm(K) / np.linalg.norm(L))
    assert CKA().distance(layers["a"], layers["c"]) == pytest.approx(angle, abs=1e-12)


def test_table_of_distances_is_the_arccos_of_the_table_of_similarities(layers):
    table = compare_layers(layers, output="distance")
    assert table.output == "distance"
    expected = np.array([[math.acos(min(1.0, cka(a, b))) for b in layers.values()] for a in layers.values()])
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(table.values, expected, atol=1e-7)
    assert (np.diagonal(table.values) == 0.0).all()


def test_best_match_of_distances_is_the_nearest(layers):
    match = compare_layers(layers, output="distance").best_match(exclude_self=True)
    assert match["column"][0] == "b"
    assert match["column"][1] == "a"
    assert match["distance"][0] == pytest.approx(CKA().distance(layers["a"], layers["b"]), abs=1e-12)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_distances_feed_clustering_and_embedding(layers):
    distances = compare_layers(layers, output="distance").values
    labels = AgglomerativeClustering(2, metric="precomputed", linkage="average").fit_predict(distances[:3, :3])
    assert labels[0] == labels[1] != labels[2]
    placed = MDS(2, dissimilarity="precomputed", random_state=0, n_init=4, normalized_stress=False).fit(distances)
    assert placed.embedding_.shape == (4, 2)


def test_an_index_without_a_metric_form_says_so(layers):
    with pytest.raises(ValueError, match=r"HSIC.*no distance form"):
        HSIC().distance(layers["a"], layers["b"])
    with pytest.raises(ValueError, match=r"HSIC.*no distance form"):
        compare_layers(layers, index="hsic", output="distance")
    with pytest.raises(ValueError, match="output must be one of 'similarity', 'distance'"):
        compare_layers(layers, output="angle")
    with pytest.raises(ValueError, match="no chance-adjusted form"):
        _ = compare_layers(layers, output="distance").adjusted


def test_distances_of_weighted_rows_are_those_of_repeated_ones():
    rng = np.random.default_rng(0)
    X, y, weights = rng.standard_normal((30, 4)), rng.standard_normal((30, 4)), rng.integers(1, 4, 30)
    repeated = np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        for name in ("cka", "procrustes", "angular_cka", "permutation_procrustes", "soft_matching"):
            index = get_index(name)
            assert index.distance(X, y, sample_weight=weights) == pytest.approx(index.distance(*repeated), abs=1e-9)
            assert index.distance(X, y, weights) != pytest.approx(index.distance(X, y), abs=1e-4)
        with pytest.raises(ValueError, match="no distance form"):
            get_index("cca").distance(X, y, weights)
