"""Moving NumPy data to another array library, and the precision of products there."""

import numpy as np
import pytest

from sklearn_cka import CKA, _arrays, _backends, array_backend, backend_names, cka, compare_layers, register_backend
from sklearn_cka._backends import product_precision, resolve

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    return X, X[:, :4] + rng.standard_normal((60, 4))


@pytest.mark.parametrize("index", [CKA(), CKA("rbf", debiased=True), CKA("laplacian")])
def test_numpy_data_are_computed_in_the_library_of_the_context(backend, index, pair, monkeypatch):
    X, Y = pair
    expected = index.similarity(X, Y)
    seen = []
    embed = type(index).embed
    monkeypatch.setattr(type(index), "embed", lambda self, Z, w=None: seen.append(Z) or embed(self, Z, w))
    with array_backend(backend.name):
        assert index.similarity(X, Y) == pytest.approx(expected, abs=1e-10)
    assert type(index.similarity(X, Y)) is float
    kinds = [type(Z) for Z in seen]
    assert kinds[0] is type(backend.asarray(X)), "the data were not moved"
    assert kinds[-1] is np.ndarray, "the context did not end"


def test_tables_are_computed_in_the_backend_asked_for(backend, pair):
    layers = dict(zip("ab", pair, strict=True))
    expected = compare_layers(layers, debiased=True).values
    table = compare_layers(layers, debiased=True, backend=backend.name)
    assert isinstance(table.values, np.ndarray)
    np.testing.assert_allclose(table.values, expected, atol=1e-10)


def test_layers_of_another_library_stay_where_they_are(pair):
    strict = pytest.importorskip("array_api_strict")
    X, Y = (strict.asarray(Z) for Z in pair)
    with array_backend("numpy"):
        assert cka(X, Y) == pytest.approx(cka(*pair), abs=1e-12)


def test_contexts_nest_and_end_after_an_error(pair):
    pytest.importorskip("array_api_strict")
    with array_backend("array_api_strict"):
        with array_backend("numpy"):
            assert resolve(None).name == "numpy"
        assert resolve(None).name == "array_api_strict"
        with pytest.raises(ValueError, match="NaN"):
            cka(np.full((5, 2), np.nan), pair[1][:5])
    assert resolve(None) is None


def test_device_of_a_backend_is_used(pair):
    strict = pytest.importorskip("array_api_strict")
    target = resolve("array_api_strict", "device1")
    assert _arrays.device(target.move(pair[0])) == strict.Device("device1")
    layers = dict(zip("ab", pair, strict=True))
    table = compare_layers(layers, backend="array_api_strict", device="device1")
    np.testing.assert_allclose(table.values, compare_layers(layers).values, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        (
            "tensorflow",
            None,
            "Unknown backend 'tensorflow'. Valid backends are array_api_strict, cupy, jax, numpy, torch",
        ),
        ("numpy", "cuda", "NumPy computes on the cpu, got device='cuda'"),
        (None, "cuda", "device='cuda' needs a backend"),
    ],
)
def test_an_unavailable_backend_or_device_is_one_clear_line(pair, name, device, message):
    with pytest.raises(ValueError, match=message) as error:
        compare_layers(dict(zip("ab", pair, strict=True)), backend=name, device=device)
    assert "\n" not in str(error.value)


def test_a_missing_library_says_how_to_install_it(pair, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)
    with (
        pytest.raises(ValueError, match=r"'cupy' is not available here .* install \"sklearn_cka\[cupy\]\""),
        array_backend("cupy"),
    ):
        pass


def test_torch_without_a_gpu_says_so():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match="finds no cuda device on this machine"), array_backend("torch", "cuda"):
        pass


def test_register_backend(pair, monkeypatch):
    calls = []

    def put(array, device):
        calls.append(device)
        return array

    monkeypatch.setattr(_backends, "_BACKENDS", dict(_backends._BACKENDS))
    register_backend("here", put)
    assert "here" in backend_names()
    with array_backend("here", device=3):
        assert cka(*pair) == cka(*pair)
    assert calls[0] == 3
    with pytest.raises(ValueError, match="registered already"):
        register_backend("here", put)
    with pytest.raises(ValueError, match="belongs to the package"):
        register_backend("torch", put)
    with pytest.raises(TypeError, match="put must be callable"):
        register_backend("there", 3)
    with pytest.raises(TypeError, match="name must be a string"):
        register_backend(3, put)


def test_products_are_full_float32_whatever_torch_is_set_to():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    layers = {name: torch.tensor(rng.standard_normal((300, 40)), dtype=torch.float32) for name in "abc"}
    exact = compare_layers({name: layer.double() for name, layer in layers.items()}, debiased=True).values
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        full = compare_layers(layers, debiased=True).values
        assert torch.get_float32_matmul_precision() == "medium", "the user's setting was changed"
    finally:
        torch.set_float32_matmul_precision(before)
    np.testing.assert_allclose(full, exact, atol=1e-6)
    low = compare_layers(layers, debiased=True, precision="bf16").values
    assert torch.get_float32_matmul_precision() == before
    np.testing.assert_allclose(low, exact, atol=2e-2)


def numbers_read(layers, **options):
    """Return how often a table reads a number out of a tensor, for which the host waits for the device."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Reads(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += "_local_scalar_dense" in str(function)
            return function(*args, **(kwargs or {}))

    with Reads() as reads:
        compare_layers(layers, verbose=0, **options)
    return reads.count


@pytest.mark.parametrize(
    "options",
    [
        {"plan": "gram"},
        {"plan": "gram", "debiased": True},
        {"plan": "feature"},
        {"plan": "feature", "debiased": True},
        {"kernel": "rbf"},
        {"kernel": "rbf", "plan": "tiles"},
        {"index": "hsic"},
        {"index": "angular_cka"},
        {"index": "kernel_alignment"},
        {"index": "distance_correlation"},
    ],
    ids=str,
)
def test_the_host_waits_for_the_device_by_the_layer_not_by_the_pair(options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    layers = {str(i): torch.asarray(rng.standard_normal((20, 3))) for i in range(8)}
    four = dict(list(layers.items())[:4])
    assert numbers_read(layers, **options) == 2 * numbers_read(four, **options) > 0


def test_a_lower_precision_is_set_within_and_restored():
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    x = torch.zeros(1)
    for precision, name in ((None, "highest"), ("tf32", "high"), ("bf16", "medium")):
        with product_precision(x, precision):
            assert torch.get_float32_matmul_precision() == name
        assert torch.get_float32_matmul_precision() == before


def test_numpy_offers_no_lower_precision(pair):
    layers = dict(zip("ab", pair, strict=True))
    with pytest.raises(ValueError, match="precision='tf32' is offered for torch and JAX arrays"):
        compare_layers(layers, precision="tf32")
    with pytest.raises(ValueError, match="precision must be one of None, 'tf32', 'bf16', got 'fp8'"):
        compare_layers(layers, precision="fp8")
