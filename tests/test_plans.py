"""The plans of a table: all give the same values, the choice is by cost and memory, and what cannot fit is refused."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from sklearn_cka import (
    CKA,
    HSIC,
    DeconfoundedCKA,
    DistanceCorrelation,
    KernelAlignment,
    UndefinedSimilarityWarning,
    _bandwidths,
    _memory,
    compare_layers,
)
from sklearn_cka.pairwise import _plans, _tiles

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
rng = np.random.default_rng

TILED = [
    CKA("rbf"),
    CKA("rbf", bandwidth=0.05),
    CKA("rbf", bandwidth=1e12),
    CKA("rbf", bandwidth=1e-4, bandwidth_rule="none"),
    CKA("rbf", gamma=0.3, debiased=True),
    CKA("laplacian", debiased=True),
    CKA("laplacian", gamma=0.2),
    CKA("polynomial", kernel_params={"degree": 2}),
    CKA("cosine"),
    CKA(kernel_y="rbf"),
    CKA("rbf", kernel_y="distance", debiased=True),
    CKA(lambda X, Y: (X @ Y.T) ** 2),
    CKA(RBF(2.0)),
    HSIC("rbf"),
    HSIC("rbf", debiased=True),
    HSIC("polynomial"),
    DistanceCorrelation(),
    DistanceCorrelation(debiased=True),
    DeconfoundedCKA("rbf"),
]


@pytest.fixture
def short_strips(monkeypatch):
    """Strips of seven rows, so that small data have many, the last one short."""
    monkeypatch.setattr(_tiles, "_STRIP_ROWS", 7)
    monkeypatch.setattr(_tiles, "_WHOLE_GRAM_ROWS", 1)


def layers_of(seed, n=30, widths=(3, 8, 40), dtype="f8"):
    base = rng(seed).standard_normal((n, 3))
    return {
        f"layer {i}": (base @ rng(seed + i).standard_normal((3, p)) + rng(i).standard_normal((n, p))).astype(dtype)
        for i, p in enumerate(widths)
    }


@pytest.mark.parametrize("index", TILED, ids=[f"{i}-{type(index).__name__}" for i, index in enumerate(TILED)])
def test_tiles_give_the_values_of_whole_matrices(index, short_strips):
    a, b = layers_of(0), layers_of(10, widths=(5, 2))
    for pair in ((a,), (a, b)):
        tiles, whole = (compare_layers(*pair, index=index, plan=plan, verbose=0) for plan in ("tiles", "matrix"))
        assert tiles.plan.name == "tiles"
        np.testing.assert_allclose(tiles.values, whole.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(tiles.chance, whole.chance, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("factor", "offset"), [(1e-30, 0.0), (1e30, 0.0), (1.0, 1e8)])
def test_tiles_keep_the_digits_of_large_small_and_shifted_data(factor, offset, short_strips):
    layers = {name: factor * X + offset for name, X in layers_of(1).items()}
    for index in (CKA("rbf"), CKA(kernel_y="rbf"), DistanceCorrelation(debiased=True)):
        tiles, whole = (compare_layers(layers, index=index, plan=plan, verbose=0) for plan in ("tiles", "matrix"))
        np.testing.assert_allclose(tiles.values, whole.values, rtol=1e-9, atol=1e-9)


def test_tiles_in_float32_are_as_near_as_whole_matrices(short_strips):
    exact = compare_layers(layers_of(2), index=CKA("rbf", bandwidth=0.4, debiased=True), verbose=0).values
    rough = compare_layers(
        layers_of(2, dtype="f4"), index=CKA("rbf", bandwidth=0.4, debiased=True), plan="tiles", verbose=0
    )
    np.testing.assert_allclose(rough.values, exact, atol=2e-6)


def test_tiles_of_gram_matrices_and_of_labels(short_strips):
    a = layers_of(3)
    grams = {name: X @ X.T for name, X in a.items()}
    labels = [rng(0).integers(0, 3, 30), rng(1).integers(0, 2, 30)]
    for options, right in (({"kernel": "precomputed"}, None), ({"kernel": "rbf", "kernel_y": "delta"}, labels)):
        left = grams if right is None else a
        tiles, whole = (compare_layers(left, right, plan=plan, verbose=0, **options) for plan in ("tiles", "matrix"))
        np.testing.assert_allclose(tiles.values, whole.values, rtol=1e-10)


def test_constant_layers_are_undefined_by_tiles(short_strips):
    layers = layers_of(4) | {"dead": np.full((30, 4), 3.7)}
    for index in (CKA("rbf"), CKA("polynomial"), CKA("distance", debiased=True), CKA("rbf", gamma=2.0)):
        with pytest.warns(UndefinedSimilarityWarning, match="'dead'"):
            table = compare_layers(layers, index=index, plan="tiles", verbose=0)
        assert np.isnan(table.values[3]).all()
        assert np.isfinite(table.values[:3, :3]).all()


def test_tiles_on_every_array_library(backend, short_strips):
    layers = layers_of(5)
    moved = {name: backend.asarray(X) for name, X in layers.items()}
    for index in (CKA("rbf"), CKA("laplacian", debiased=True), DistanceCorrelation(), CKA(kernel_y="rbf")):
        found = compare_layers(moved, index=index, plan="tiles", verbose=0).values
        expected = compare_layers(layers, index=index, plan="matrix", verbose=0).values
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_bandwidths_of_many_rows_come_from_a_subset_by_every_plan(monkeypatch):
    monkeypatch.setattr(_bandwidths, "MAX_ROWS", 20)
    layers = layers_of(6)
    for kernel in ("rbf", "laplacian"):
        tiles, whole = (compare_layers(layers, kernel=kernel, plan=plan, verbose=0) for plan in ("tiles", "matrix"))
        np.testing.assert_allclose(tiles.values, whole.values, rtol=1e-10)
    left_out = next(row for row in range(30) if row not in _bandwidths.subset_rows(30))
    layers["mostly equal"] = np.eye(30)[:, [left_out]]
    with pytest.raises(ValueError, match="Hardly any rows of a layer differ"):
        compare_layers(layers, kernel="rbf", plan="tiles", verbose=0)


def test_tiles_are_for_centred_kernel_matrices_only():
    for index in (KernelAlignment("rbf"), CKA(), DeconfoundedCKA("rbf", confound=rng(0).standard_normal((30, 2)))):
        with pytest.raises(ValueError, match="plan='tiles' is not open"):
            compare_layers(layers_of(0), index=index, plan="tiles", verbose=0)


def test_a_kernel_that_gives_no_number_is_refused_by_tiles(short_strips):
    def bad(X, Y):
        K = X @ Y.T
        return np.where(K > 5.0, np.nan, K)

    with pytest.raises(ValueError, match="contains NaN or infinity"):
        compare_layers(layers_of(0), kernel=bad, plan="tiles", verbose=0)


def test_kernel_tables_that_do_not_fit_whole_are_tiled(monkeypatch):
    layers = layers_of(7, n=400)
    whole = compare_layers(layers, kernel="rbf", verbose=0)
    assert whole.plan.name == "matrix"
    needed = whole.plan.memory["tiles"]
    assert needed < whole.plan.memory["matrix"]
    monkeypatch.setattr(_memory, "available_memory", lambda: int(needed / 0.8) + 1)
    tiles = compare_layers(layers, kernel="rbf", verbose=0)
    assert tiles.plan.name == "tiles"
    np.testing.assert_allclose(tiles.values, whole.values, rtol=1e-10)
    with pytest.raises(MemoryError, match=r"3 layers of 400 rows by plan 'matrix' takes about .* fit: plan='tiles'"):
        compare_layers(layers, kernel="rbf", plan="matrix", verbose=0)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, "float32 instead of float64; batches of rows through LayerAccumulator"),
        ({"kernel": "rbf"}, r"feature_map=sklearn\.kernel_approximation\.Nystroem\(\)"),
        ({"index": "svcca"}, "fewer layers or rows at a time"),
        ({"index": "rsa"}, "fewer layers or rows at a time"),
    ],
)
def test_what_cannot_fit_is_refused_in_words(options, remedy, monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 1_000)
    with pytest.raises(MemoryError, match=rf"A table of 3 layers of 30 rows .* 1000 bytes are free\..*{remedy}"):
        compare_layers(layers_of(0), verbose=0, **options)


def test_what_is_free_may_be_unknown(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: None)
    assert compare_layers(layers_of(0), verbose=0).values.shape == (3, 3)


def test_the_plan_tells_what_was_open_and_what_it_cost():
    layers = layers_of(0)
    n, total = 30, 3 + 8 + 40
    plan = compare_layers(layers, verbose=0).plan
    assert plan.name == "gram"
    assert plan.operations == {"gram": n**2 * (total + 9 / 2) / 2, "feature": n * total**2 / 2}
    assert plan.memory["gram"] == n * total * 8 + 3 * n * n * 8 + 9 * 8
    assert 0.0 < plan.seconds < 60.0
    assert compare_layers(layers, index="svcca", verbose=0).plan.name == "spectral"
    generic = compare_layers(layers, index="mutual_knn", verbose=0).plan
    assert generic.name == "embed"
    assert math.isnan(generic.operations["embed"])


def test_equal_layers_are_counted_once():
    X = rng(0).standard_normal((30, 5))
    alone, twice = (compare_layers(layers, kernel="rbf", verbose=0).plan for layers in ({"a": X}, {"a": X, "b": X}))
    assert twice.operations["matrix"] - alone.operations["matrix"] == 30**2 * (2 - 0.5)


def test_memory_of_a_plan_is_what_it_takes():
    """Numbers allocated by NumPy beyond the layers, at their peak, are near the estimate."""
    import tracemalloc

    layers = layers_of(8, n=1_500, widths=(60, 300, 500), dtype="f4")
    for options in ({"plan": "gram"}, {"plan": "feature"}, {"kernel": "rbf", "plan": "matrix"}):
        compare_layers(layers, verbose=0, **options)
        tracemalloc.start()
        table = compare_layers(layers, verbose=0, **options)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.3 * table.plan.memory[table.plan.name]
    assert _plans.PLANS == ("gram", "feature", "matrix", "tiles", "spectral", "embed")
