"""From two models to a table: the same rows through both, and the values of comparing their layers."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_cka import CKA, _memory, compare_layers, compare_models, extract_layers, models


@pytest.fixture(scope="module")
def networks():
    X, y = load_iris(return_X_y=True)
    return [MLPClassifier((8, 4), max_iter=3000, random_state=seed).fit(X, y) for seed in (0, 1)], X


def test_table_is_that_of_the_layers(networks):
    (a, b), X = networks
    table = compare_models(a, b, X, "cka", debiased=True, layers="hidden_*", layers_b="output")
    expected = compare_layers(
        extract_layers(a, X, layers="hidden_*"), extract_layers(b, X, layers="output"), CKA(debiased=True)
    )
    np.testing.assert_allclose(table.values, expected.values, rtol=1e-12)
    assert (table.row_names, table.column_names) == (["hidden_1", "hidden_2"], ["output"])
    assert table.n_samples == 150


def test_models_of_different_kinds(networks):
    (a, _), X = networks
    pipeline = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    table = compare_models(a, pipeline, X, debiased=True)
    assert table.column_names == ["standardscaler", "pca"]


def torch_models():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    nn = torch.nn
    return torch, nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Sequential(nn.Linear(4, 6), nn.Sigmoid())


def test_torch_models_and_a_distance():
    torch, a, b = torch_models()
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    table = compare_models(a, b, x, debiased=True, layers=["0", "output"], layers_b="1", extract={"batch_size": 7})
    hidden = a[0](x).detach().numpy()
    output = torch.sigmoid(b[0](x)).detach().numpy()
    assert table.values[0, 0] == pytest.approx(CKA(debiased=True).fit(hidden, output).similarity_, rel=1e-5)
    distances = compare_models(a, b, x, layers="1", output="distance").values
    assert distances[0, 0] == pytest.approx(CKA().distance(a(x).detach().numpy(), output), rel=1e-4)


def test_random_augmentation_is_the_same_for_both_models():
    torch, a, _ = torch_models()

    class Augmented(torch.utils.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, i):
            return torch.randn(4)

    table = compare_models(a, a, Augmented(), extract={"batch_size": 5}, extract_b={}, debiased=True)
    np.testing.assert_allclose(np.diag(table.values), 1, rtol=1e-5)


def test_inputs_of_each_model_and_one_batch_size():
    torch, a, b = torch_models()
    rows = torch.randn(20, 4, generator=torch.Generator().manual_seed(1)).tolist()
    options = {"inputs": torch.tensor, "batch_size": 6}
    table = compare_models(a, b, rows, debiased=True, extract=options, extract_b={"inputs": lambda r: torch.tensor(r)})
    expected = compare_models(a, b, torch.tensor(rows), debiased=True)
    np.testing.assert_allclose(table.values, expected.values, rtol=1e-5)
    with pytest.raises(ValueError, match=r"batch_size must be one number, got \[5, 6\]"):
        compare_models(a, b, torch.tensor(rows), extract={"batch_size": 5}, extract_b={"batch_size": 6})


def test_maps_of_unequal_size_as_positions_are_refused():
    torch, *_ = torch_models()
    x = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    a, b = torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.Conv2d(3, 5, 3, stride=2, padding=1)
    capped = {"flatten": "positions", "max_positions": 10}
    with pytest.raises(ValueError, match="row labels of a and b differ"):
        compare_models(a, b, x, extract=capped)
    table = compare_models(a, b, x, extract={**capped, "grid": 4}, debiased=True)
    assert table.n_samples == 60


def test_layers_that_do_not_fit_are_refused(monkeypatch):
    torch, a, b = torch_models()
    monkeypatch.setattr(_memory, "available_memory", lambda: 10)
    with pytest.raises(MemoryError, match=r"write them to a folder of memory maps with out="):
        compare_models(a, b, torch.ones(5, 4))


def test_layers_in_files(tmp_path):
    torch, a, b = torch_models()
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    table = compare_models(
        a, b, x, debiased=True, extract={"out": tmp_path / "a"}, extract_b={"out": tmp_path / "b.safetensors"}
    )
    np.testing.assert_allclose(table.values, compare_models(a, b, x, debiased=True).values, rtol=1e-5)
    with pytest.raises(ValueError, match="give each a place of its own"):
        compare_models(a, b, x, extract={"out": tmp_path / "a"})


@pytest.mark.parametrize("index", ["cka", "hsic", "procrustes", "linear_predictivity"])
def test_streaming_keeps_no_layers_and_changes_no_value(networks, monkeypatch, index):
    (a, b), X = networks
    options = {"layers": "hidden_*", "verbose": 0}
    kept = compare_models(a, b, X, index, stream=False, **options)

    def refuse(*args, **kwargs):
        raise AssertionError("the layers were kept")

    monkeypatch.setattr(models, "extract_pair", refuse)
    for stream in (None, True):
        table = compare_models(a, b, X, index, stream=stream, **options)
        np.testing.assert_allclose(table.values, kept.values, rtol=1e-9)
        np.testing.assert_allclose(table.chance, kept.chance, rtol=1e-9)
        assert (table.row_names, table.column_names, table.n_samples) == (kept.row_names, kept.column_names, 150)


def test_layers_are_kept_where_that_takes_less_or_they_are_asked_for(networks, monkeypatch, tmp_path):
    (a, b), X = networks
    monkeypatch.setattr(models.LayerAccumulator, "update", lambda *args: pytest.fail("the layers were streamed"))
    compare_models(a, b, X[:10], debiased=True)  # fewer rows than units
    compare_models(a, b, X, kernel="rbf", layers="hidden_*", debiased=True)
    compare_models(a, b, X, layers="hidden_*", output="distance")
    compare_models(a, b, X, layers="hidden_*", plan="gram", debiased=True)
    with pytest.raises(ValueError, match="all pairs of rows"):
        compare_models(a, b, X, kernel="rbf", stream=True)
    with pytest.raises(ValueError, match="stream=True keeps no layers"):
        compare_models(a, b, X, output="distance", stream=True)


def test_torch_models_are_streamed_batch_by_batch_and_left_clean():
    torch, a, b = torch_models()
    x = torch.randn(70, 4, generator=torch.Generator().manual_seed(1))
    for data in (x, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=16)):
        options = {} if data is not x else {"extract": {"batch_size": 16}}
        tables = [compare_models(a, b, data, debiased=True, stream=stream, **options) for stream in (True, False)]
        np.testing.assert_allclose(tables[0].values, tables[1].values, atol=1e-6)
    with pytest.raises(RuntimeError):
        compare_models(a, b, torch.randn(9, 5), stream=True)
    assert not any(module._forward_hooks for net in (a, b) for module in net.modules())
