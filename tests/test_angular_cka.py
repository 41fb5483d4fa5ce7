"""Angular CKA against the arccos of brute-force CKA, and in extended precision where that has no digits left."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.manifold import MDS
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import CKA, AngularCKA, UndefinedSimilarityWarning, cka, compare_layers
from sklearn_cka.testing import index_checks

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.ChanceLevelWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def angle(X, Y):
    """The angle of two centred linear Gram matrices in extended precision, exact near 0."""
    units = []
    for Z in (X, Y):
        Z = np.asarray(Z, dtype=np.longdouble)
        Z = Z - Z.mean(axis=0)
        K = (Z[:, None, :] * Z[None, :, :]).sum(axis=-1)
        units.append(K / np.sqrt((K**2).sum()))
    return float(2 * np.arcsin(np.sqrt(((units[0] - units[1]) ** 2).sum()) / 2))


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance, (value, expected)


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(3, 15),
    p=st.integers(1, 20),
    q=st.integers(1, 20),
    noise=st.sampled_from([None, 1.0, 1e-3, 1e-6, 1e-10]),
    form=st.sampled_from(["gram", "feature", "auto"]),
)
def test_it_is_minus_the_angle(seed, n, p, q, noise, form):
    X = rng(seed).standard_normal((n, p))
    Y = rng(seed + 1).standard_normal((n, q)) if noise is None else X + noise * rng(seed + 1).standard_normal((n, p))
    value = AngularCKA(form=form).similarity(X, Y)
    close(value, -angle(X, Y), 1e-8 if noise == 1e-3 else 1e-10)
    close(math.cos(value), cka(X, Y))


def test_small_angles_keep_their_digits():
    X = rng(0).standard_normal((30, 5))
    E = rng(1).standard_normal((30, 5))
    for size in (1e-4, 1e-6, 1e-8, 1e-12):
        seen = AngularCKA().distance(X, X + size * E)
        assert abs(seen / angle(X, X + size * E) - 1) < 1e-3
    assert AngularCKA().distance(X, 2.0 * X) == 0.0
    assert AngularCKA().distance(X, 3.0 * X[:, ::-1] + 1.0) < 1e-14


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "distance"])
def test_it_is_the_distance_form_of_cka(kernel, debiased):
    X, Y = rng(0).standard_normal((20, 5)), rng(1).standard_normal((20, 3))
    index = AngularCKA(kernel, debiased=debiased).fit(X, Y)
    close(index.distance(X, Y), CKA(kernel, debiased=debiased).distance(X, Y))
    assert math.isnan(index.chance_)
    close(index.z_score(X, Y), CKA(kernel, debiased=debiased).fit(X, Y).z_score(X, Y))


def test_all_array_libraries_agree(backend):
    X = rng(0).standard_normal((20, 6))
    Y = X[:, :4] + rng(1).standard_normal((20, 4))
    for kernel in ("linear", "rbf"):
        value = AngularCKA(kernel).similarity(backend.asarray(X), backend.asarray(Y))
        assert type(value) is float
        close(value, AngularCKA(kernel).similarity(X, Y))
        half = AngularCKA(kernel).similarity(backend.asarray(X.astype("f4")), backend.asarray(Y.astype("f4")))
        close(half, value, 1e-4)
        close(AngularCKA(kernel).similarity(backend.asarray(X), backend.asarray(X)), 0.0, 1e-14)


def test_tables_are_distances_for_multidimensional_scaling():
    layers = {f"layer{i}": rng(i).standard_normal((25, 3 + i)) for i in range(4)}
    for plan in ("gram", "feature"):
        table = compare_layers(layers, index="angular_cka", output="distance", plan=plan, verbose=0)
        close(table.values[0, 2], angle(layers["layer0"], layers["layer2"]))
        assert (np.diagonal(table.values) == 0.0).all()
    positions = (
        MDS(metric="precomputed", n_init=1, init="random", random_state=0)
        if "metric_mds" in MDS().get_params()
        else MDS(dissimilarity="precomputed", n_init=1, random_state=0)
    )
    assert positions.fit_transform(table.values).shape == (4, 2)


def test_constant_sides_are_undefined():
    X = rng(0).standard_normal((8, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="AngularCKA is undefined"):
        assert math.isnan(AngularCKA().fit(X, np.full(8, 3.7)).similarity_)


INDEXES = [AngularCKA(), AngularCKA(debiased=True), AngularCKA("rbf", bandwidth=0.5), AngularCKA(kernel_y="rbf")]


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@parametrize_with_checks([*INDEXES, AngularCKA("precomputed", kernel_y="linear")])
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES:
        reference = (lambda X, Y: -angle(X, Y)) if index is INDEXES[0] else None
        for name, check in index_checks(index, reference=reference):
            yield pytest.param(check, id=f"{index!r}-{name}")


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
