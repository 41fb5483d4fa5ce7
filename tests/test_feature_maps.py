"""Tables through feature maps: exact where the map is, unbiased where it is random, refused where it cannot stand."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from sklearn_cka import CKA, HSIC, DistanceCorrelation, cka, compare_layers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
rng = np.random.default_rng


def layers_of(seed, n=60, widths=(3, 8, 40)):
    base = rng(seed).standard_normal((n, 3))
    return {
        f"layer {i}": base @ rng(seed + i).standard_normal((3, p)) + rng(i).standard_normal((n, p))
        for i, p in enumerate(widths)
    }


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf", "bandwidth": 0.5},
        {"kernel": "rbf", "bandwidth_rule": "mean", "debiased": True},
        {"kernel": "rbf", "gamma": 0.1},
        {"kernel": "rbf", "bandwidth": 2.0, "bandwidth_rule": "none"},
        {"kernel": "laplacian"},
        {"index": "hsic", "kernel": "rbf"},
    ],
    ids=str,
)
def test_a_map_of_all_rows_is_the_kernel_itself(options):
    a, b = layers_of(0), layers_of(5, widths=(4, 6))
    everything = Nystroem(n_components=60)
    for pair in ((a,), (a, b)):
        approximate = compare_layers(*pair, feature_map=everything, verbose=0, **options)
        exact = compare_layers(*pair, verbose=0, **options)
        np.testing.assert_allclose(approximate.values, exact.values, rtol=1e-8)
        assert approximate.plan.name in ("gram", "feature")
        assert approximate.params["feature_map"] is everything


def test_errors_fall_with_the_number_of_components():
    layers = layers_of(1, n=300)
    exact = compare_layers(layers, kernel="rbf", verbose=0).values
    for made in (Nystroem, RBFSampler):
        errors = []
        for n_components in (10, 40, 160):
            found = [
                compare_layers(
                    layers, kernel="rbf", feature_map=made(n_components=n_components), random_state=seed, verbose=0
                ).values
                for seed in range(5)
            ]
            errors.append(np.mean(np.abs(np.array(found) - exact)))
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 0.05


def test_any_transformer_is_fitted_on_every_layer_by_itself():
    layers = layers_of(2)
    pipeline = make_pipeline(StandardScaler(), PCA(2))
    found = compare_layers(layers, feature_map=pipeline, verbose=0).values
    by_hand = [clone(pipeline).fit_transform(X) for X in layers.values()]
    np.testing.assert_allclose(found, compare_layers(by_hand, verbose=0).values, rtol=1e-10)
    spectral = compare_layers(layers, index="svcca", feature_map=pipeline, verbose=0).values
    np.testing.assert_allclose(spectral, compare_layers(by_hand, index="svcca", verbose=0).values, rtol=1e-10)
    assert not hasattr(pipeline[0], "mean_")


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("plan", ["gram", "feature"])
def test_random_projections_are_unbiased_where_their_plain_use_shrinks(debiased, plan):
    n, p, k = 80, 400, 50
    X = rng(0).standard_normal((n, p))
    layers = {"a": X, "b": X + rng(1).standard_normal((n, p)), "c": rng(2).standard_normal((n, 3))}
    exact = compare_layers(layers, debiased=debiased, verbose=0).values
    options = {"debiased": debiased, "plan": plan, "verbose": 0}
    found = np.array(
        [
            compare_layers(
                layers, feature_map=GaussianRandomProjection(k), random_state=seed, index=HSIC(), **options
            ).values
            for seed in range(40)
        ]
    )
    inner = compare_layers(layers, index=HSIC(), **options).values
    standard_error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - inner) < 4.0 * standard_error + 1e-12 * inner).all()
    ratios = np.array(
        [
            compare_layers(layers, feature_map=GaussianRandomProjection(k), random_state=seed, **options).values
            for seed in range(40)
        ]
    )
    np.testing.assert_allclose(ratios.mean(axis=0), exact, atol=0.03)
    plain = np.mean(
        [
            cka(*(GaussianRandomProjection(k, random_state=seed + 99 * i).fit_transform(layers[name])
                  for i, name in enumerate("ab")), debiased=debiased)
            for seed in range(40)
        ]
    )  # fmt: skip
    assert plain < exact[0, 1] - 0.15


def test_a_layer_and_itself_are_one_though_projected():
    layers = layers_of(3, widths=(100, 200))
    for pair in ((layers,), (layers, {"again": layers["layer 1"]})):
        for projection in (GaussianRandomProjection(20), SparseRandomProjection(20)):
            values = compare_layers(*pair, feature_map=projection, verbose=0).values
            for i, j in ((0, 0), (1, 1)) if len(pair) == 1 else ((1, 0),):
                assert values[i, j] == pytest.approx(1.0, abs=1e-12)


def test_offsets_cost_projections_no_digits():
    layers = layers_of(4, widths=(100, 200))
    moved = {name: X + 1e8 for name, X in layers.items()}
    expected, found = (
        compare_layers(side, feature_map=GaussianRandomProjection(20), verbose=0).values for side in (layers, moved)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_maps_are_seeded_and_differ_between_layers():
    X = rng(0).standard_normal((50, 30))
    layers = {"a": X, "b": X.copy()}
    once, again, other = (
        compare_layers(layers, feature_map=Nystroem(n_components=5, gamma=0.1), random_state=seed, verbose=0).values
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(once, again)
    assert once[0, 1] != other[0, 1]
    assert once[0, 1] < 1.0


def test_mapped_layers_stay_in_their_library(backend):
    layers = {name: backend.asarray(X) for name, X in layers_of(6).items()}
    for feature_map, options in ((Nystroem(n_components=20), {"kernel": "rbf"}), (GaussianRandomProjection(10), {})):
        found = compare_layers(layers, feature_map=feature_map, verbose=0, **options).values
        expected = compare_layers(layers_of(6), feature_map=feature_map, verbose=0, **options).values
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("index", "feature_map", "message"),
    [
        (CKA("rbf", kernel_y="linear"), Nystroem(), "stands for the kernel of both sides"),
        (CKA("polynomial"), Nystroem(), "'rbf' or 'laplacian', got CKA"),
        (DistanceCorrelation(), Nystroem(), "'rbf' or 'laplacian', got Dist"),
        (CKA("laplacian"), RBFSampler(), "cannot approximate the laplacian kernel .* no parameter kernel"),
        (CKA("rbf"), PCA(2), "cannot approximate the rbf kernel .* no parameter gamma"),
        (CKA("rbf"), Nystroem(gamma=2.0), "The kernel is set twice: .* sets gamma"),
    ],
)
def test_maps_that_cannot_stand_for_a_kernel_are_refused(index, feature_map, message):
    with pytest.raises(ValueError, match=message):
        compare_layers(layers_of(0), index=index, feature_map=feature_map, verbose=0)


def test_what_is_no_transformer_is_refused():
    with pytest.raises(TypeError, match="feature_map must be a transformer of scikit-learn, got 'nystroem'"):
        compare_layers(layers_of(0), feature_map="nystroem", verbose=0)
    with pytest.raises(ValueError, match="layer 'bad' of a contains NaN"):
        compare_layers({"bad": np.full((20, 3), np.nan)}, feature_map=PCA(2), verbose=0)
