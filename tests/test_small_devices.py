"""Tables on a device that is too small for the layers: the values of NumPy, from pieces that fit."""

import numpy as np
import pytest

from sklearn_cka import CKA, HSIC, DistanceCorrelation, UndefinedSimilarityWarning, _arrays, _memory, compare_layers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
rng = np.random.default_rng


class SmallDevice:
    """A limit on what is free on a device, and a record of what was moved there."""

    def __init__(self, free, like):
        self.free, self.moved, self._like = free, [], like

    def like(self, x, reference):
        found = self._like(x, reference)
        if isinstance(x, np.ndarray) and not isinstance(found, np.ndarray):
            self.moved.append(x.nbytes)
        return found


@pytest.fixture(params=[("array_api_strict", "device1"), ("torch", "cpu")], ids=lambda place: place[0])
def place(request):
    """Name and device of a backend other than NumPy."""
    pytest.importorskip(request.param[0])
    return dict(zip(("backend", "device"), request.param, strict=True))


@pytest.fixture
def small_device(monkeypatch):
    """Make a device of so many free bytes, on which other libraries' arrays lie."""

    def make(free):
        device = SmallDevice(free, _arrays.like)
        monkeypatch.setattr(_arrays, "free_memory", lambda x: None if isinstance(x, np.ndarray) else device.free)
        monkeypatch.setattr(_arrays, "like", device.like)
        return device

    return make


def layers_of(n, widths, seed=0, dtype="f8"):
    base = rng(seed).standard_normal((n, 3))
    return {
        f"layer {i}": (base @ rng(seed + i).standard_normal((3, p)) + rng(i).standard_normal((n, p))).astype(dtype)
        for i, p in enumerate(widths)
    }


WIDE, LONG = (150, (900, 1200, 1100)), (3000, (20, 12, 30, 40, 25))
CASES = [
    (CKA(), "gram", WIDE),
    (CKA(debiased=True), "gram", WIDE),
    (HSIC(debiased=True), "gram", WIDE),
    (CKA(), "feature", LONG),
    (CKA(debiased=True), "feature", LONG),
    (CKA("rbf"), "tiles", (150, (700, 900))),
    (CKA("rbf", debiased=True), "tiles", (150, (700, 900))),
    (CKA("laplacian"), "tiles", (150, (700, 900))),
    (CKA("polynomial"), "tiles", (150, (700, 900))),
    (CKA(kernel_y="rbf"), "tiles", (150, (700, 900))),
    (DistanceCorrelation(), "tiles", (150, (700, 900))),
]


@pytest.mark.parametrize(("index", "plan", "shape"), CASES, ids=lambda case: str(case).replace("\n", " "))
def test_pieces_give_the_values_of_whole_layers(index, plan, shape, place, small_device):
    n, widths = shape
    a, b = layers_of(n, widths), layers_of(n, widths[1:], seed=9)
    total = sum(8 * n * p for p in widths)
    expected = [compare_layers(*sides, index=index, plan=plan, verbose=0) for sides in ((a,), (a, b))]
    device = small_device(total)
    for sides, whole in zip(((a,), (a, b)), expected, strict=True):
        asked = plan if plan == "tiles" else None
        table = compare_layers(*sides, index=index, plan=asked, verbose=0, **place)
        assert table.plan.name == plan
        assert table.plan.in_pieces
        assert table.plan.memory[plan] < device.free
        np.testing.assert_allclose(table.values, whole.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(table.chance, whole.chance, rtol=1e-10, atol=1e-12)
    assert max(device.moved) < 0.25 * total, "pieces take the share of the free memory that is left to tiles"


def test_layers_that_fit_are_moved_once(place, small_device):
    layers = layers_of(50, (8, 5, 12))
    expected = compare_layers(layers, verbose=0).values
    device = small_device(10**9)
    table = compare_layers(layers, verbose=0, **place)
    assert not table.plan.in_pieces
    assert not device.moved, "a layer moved whole goes by the backend"
    np.testing.assert_allclose(table.values, expected, rtol=1e-10)


def test_pieces_keep_the_digits_of_float32_and_of_offsets(place, small_device):
    layers = {name: X + np.float32(1000) for name, X in layers_of(*LONG, dtype="f4").items()}
    exact = compare_layers({name: X.astype("f8") for name, X in layers.items()}, debiased=True, verbose=0).values
    small_device(sum(X.nbytes for X in layers.values()))
    table = compare_layers(layers, debiased=True, verbose=0, **place)
    assert table.plan.in_pieces
    np.testing.assert_allclose(table.values, exact, atol=2e-6)


def test_pieces_go_to_jax(small_device):
    pytest.importorskip("jax")
    layers = layers_of(*WIDE)
    expected = compare_layers(layers, debiased=True, verbose=0).values
    small_device(sum(X.nbytes for X in layers.values()))
    table = compare_layers(layers, debiased=True, verbose=0, backend="jax")
    assert table.plan.in_pieces
    np.testing.assert_allclose(table.values, expected, rtol=1e-10)


def test_a_dead_layer_is_undefined_in_pieces(place, small_device):
    layers = layers_of(*WIDE) | {"dead": np.full((150, 500), 3.7)}
    small_device(3 * 10**6)
    for options in ({}, {"debiased": True}, {"kernel": "rbf", "plan": "tiles"}):
        with pytest.warns(UndefinedSimilarityWarning, match="'dead'"):
            table = compare_layers(layers, verbose=0, **place, **options)
        assert table.plan.in_pieces
        assert np.isnan(table.values[-1]).all()
        assert np.isfinite(table.values[:-1, :-1]).all()


def test_what_fits_neither_on_the_device_nor_in_pieces_is_refused(place, small_device, monkeypatch):
    layers = layers_of(*WIDE)
    small_device(1000)
    with pytest.raises(MemoryError, match="1000 bytes are free"):
        compare_layers(layers, verbose=0, **place)
    small_device(2**20)
    with pytest.raises(MemoryError, match=r"by plan 'spectral' .* 1\.0 MiB are free"):
        compare_layers(layers, index="procrustes", verbose=0, **place)
    small_device(3 * 2**20)
    monkeypatch.setattr(_memory, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"3\.0 MiB are free"):
        compare_layers(layers, verbose=0, **place)


def test_layers_that_lie_on_the_device_are_not_cut(small_device):
    torch = pytest.importorskip("torch")
    layers = {name: torch.asarray(X) for name, X in layers_of(*WIDE).items()}
    small_device(10**6)
    with pytest.raises(MemoryError, match="takes about"):
        compare_layers(layers, verbose=0)
