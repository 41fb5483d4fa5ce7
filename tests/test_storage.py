"""Layer files: what is written is read again, by us and by the libraries of the formats, and nothing else is lost."""

import json

import numpy as np
import pytest

from sklearn_cka import Layers, compare_layers
from sklearn_cka._storage import format_of

NAMES = ["layer10", "layer2", "block/../odd: name", "Layer2", "naïve"]


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    dtypes = ["float64", "float32", "float16", "int64", "bool"]
    return {
        name: (10 * rng.standard_normal((6, 2 + i))).astype(dtype)
        for i, (name, dtype) in enumerate(zip(NAMES, dtypes, strict=True))
    }


def path_of(tmp_path, kind):
    if kind == ".zarr":
        pytest.importorskip("zarr", reason="zarr is not installed")
    return tmp_path / f"acts{kind}"


def plain(arrays):
    """Return the arrays under names that every format takes."""
    return {f"layer{i}": values for i, values in zip([10, 2, 1, 30, 4], arrays.values(), strict=True)}


def assert_same(layers, arrays):
    assert layers.names == list(arrays)
    for name, values in arrays.items():
        assert layers[name].dtype == values.dtype
        np.testing.assert_array_equal(layers[name], values)


@pytest.mark.parametrize("kind", [".npz", ".safetensors", ".zarr", ""])
@pytest.mark.parametrize("mmap", [True, False])
def test_save_and_load_keep_order_types_and_values(tmp_path, arrays, kind, mmap):
    path = path_of(tmp_path, kind)
    Layers(plain(arrays)).save(path)
    again = Layers.load(path, mmap=mmap)
    assert_same(again, plain(arrays))
    assert isinstance(again["layer2"], np.memmap) == (mmap and kind != ".zarr")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", [".safetensors", ""])
def test_awkward_names_come_back(tmp_path, arrays, kind):
    path = path_of(tmp_path, kind)
    Layers(arrays).save(path)
    assert_same(Layers.load(path), arrays)


@pytest.mark.parametrize("kind", [".npz", ".safetensors", ".zarr", ""])
def test_saving_over_what_is_mapped(tmp_path, arrays, kind):
    path = path_of(tmp_path, kind)
    Layers(plain(arrays)).save(path)
    Layers.load(path).map(lambda x: np.asarray(x, dtype=float) + 1).save(path)
    np.testing.assert_array_equal(Layers.load(path)["layer2"], plain(arrays)["layer2"].astype(float) + 1)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", [".npz", ".safetensors", ".zarr", ""])
def test_torch_tensors_with_gradient_and_bfloat16_are_saved(tmp_path, kind):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    path = path_of(tmp_path, kind)
    grad = torch.arange(6.0).reshape(3, 2).requires_grad_()
    Layers({"grad": grad, "half": grad.detach().bfloat16()}).save(path)
    again = Layers.load(path)
    for name in ("grad", "half"):
        assert again[name].dtype == np.float32
        np.testing.assert_array_equal(again[name], np.arange(6.0).reshape(3, 2))


def test_files_go_both_ways_between_us_and_the_safetensors_library(tmp_path, arrays):
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    Layers(arrays).save(tmp_path / "ours.safetensors")
    theirs = library.load_file(tmp_path / "ours.safetensors")
    assert set(theirs) == set(arrays)
    for name, values in arrays.items():
        assert theirs[name].dtype == values.dtype
        np.testing.assert_array_equal(theirs[name], values)
    library.save_file(arrays, tmp_path / "theirs.safetensors")
    ours = Layers.load(tmp_path / "theirs.safetensors")
    assert sorted(ours.names) == sorted(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(ours[name], values)


def test_bfloat16_of_the_safetensors_library_is_read_as_float32(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    library = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    library.save_file({"x": values}, tmp_path / "half.safetensors")
    again = Layers.load(tmp_path / "half.safetensors")["x"]
    assert again.dtype == np.float32
    np.testing.assert_array_equal(again, values.float().numpy())


def test_zarr_group_is_what_the_library_reads(tmp_path, arrays):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    Layers(plain(arrays)).save(tmp_path / "acts.zarr")
    group = zarr.open_group(str(tmp_path / "acts.zarr"), mode="r")
    np.testing.assert_array_equal(group["layer10"][...], arrays["layer10"])
    foreign = zarr.open_group(str(tmp_path / "foreign.zarr"), mode="w")
    for name in ("b", "a"):
        foreign.create_array(name, data=np.ones((4, 2)))
    assert Layers.load(tmp_path / "foreign.zarr").names == ["a", "b"]


def test_folder_of_npy_of_others_is_read_in_natural_order(tmp_path):
    folder = tmp_path / "acts"
    folder.mkdir()
    for name in ("layer10", "layer2", "conv"):
        np.save(folder / f"{name}.npy", np.full((4, 2), len(name)))
    assert Layers.load(folder).names == ["conv", "layer2", "layer10"]
    assert Layers(folder)["layer10"][0, 0] == 7


def test_comparing_takes_every_format(tmp_path):
    rng = np.random.default_rng(0)
    layers = Layers({"a": rng.standard_normal((20, 3)), "b": rng.standard_normal((20, 4))})
    expected = compare_layers(layers, debiased=True).values
    for kind in (".npz", ".safetensors", ""):
        layers.save(tmp_path / f"acts{kind}")
        np.testing.assert_array_equal(compare_layers(tmp_path / f"acts{kind}", debiased=True).values, expected)


def test_failed_save_leaves_the_old_file(tmp_path, arrays):
    for kind in (".safetensors", ""):
        path = tmp_path / f"acts{kind}"
        Layers(plain(arrays)).save(path)
        bad = Layers({"a": np.ones((2, 2)), "b": np.ones((2, 2), dtype=np.longdouble)})
        if kind:
            with pytest.raises(ValueError, match=r"'b' is of type (longdouble|float128), which safetensors cannot"):
                bad.save(path)
        assert_same(Layers.load(path), plain(arrays))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["acts", "acts.safetensors"]


def test_folders_of_other_things_are_not_overwritten(tmp_path, arrays):
    (tmp_path / "acts").mkdir()
    (tmp_path / "acts" / "thesis.tex").write_text("two years")
    with pytest.raises(FileExistsError, match=r"acts' holds other things than layers"):
        Layers(arrays).save(tmp_path / "acts")
    assert (tmp_path / "acts" / "thesis.tex").read_text() == "two years"
    (tmp_path / "file").write_text("text")
    with pytest.raises(FileExistsError, match=r"file' is a file; a folder would be written there"):
        Layers(arrays).save(tmp_path / "file")
    with pytest.raises(ValueError, match=r"file' is not a folder of \.npy files"):
        Layers.load(tmp_path / "file")


def test_damaged_files_are_refused_by_name(tmp_path, arrays):
    path = tmp_path / "acts.safetensors"
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match=r"acts\.safetensors' is not a safetensors file: its header is missing"):
        Layers.load(path)
    path.write_bytes((2).to_bytes(8, "little") + b"xx")
    with pytest.raises(ValueError, match="its header cannot be read"):
        Layers.load(path)
    Layers(arrays).save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"is cut off: it should have \d+ bytes"):
        Layers.load(path)
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [2, 1], "data_offsets": [0, 2]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    with pytest.raises(ValueError, match=r"Layer 'x' of .* is of type F8_E4M3, which cannot be read"):
        Layers.load(path)
    folder = tmp_path / "acts"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"The folder .*acts' holds no layers"):
        Layers.load(folder)
    (folder / "x.npy").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"Layer 'x' of .*acts' cannot be read"):
        Layers.load(folder)
    (folder / "layers.json").write_text("{}")
    with pytest.raises(ValueError, match=r"layers\.json' is no listing of layers"):
        Layers.load(folder)


def test_compression_is_for_npz(tmp_path, arrays):
    with pytest.raises(ValueError, match=r"compress=True is for \.npz files"):
        Layers(arrays).save(tmp_path / "acts.safetensors", compress=True)


def test_format_follows_from_the_suffix(tmp_path):
    (tmp_path / "run.3").mkdir()
    kinds = [format_of(tmp_path / name) for name in ("a.npz", "a.safetensors", "a.zarr", "a", "run.3")]
    assert kinds == ["npz", "safetensors", "zarr", "folder", "folder"]
