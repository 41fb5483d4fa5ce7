"""The collection of layers: what goes in, what becomes of it, and what is refused."""

import pickle
import zipfile

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from sklearn_cka._arrays import to_numpy
from sklearn_cka.layers import Layers, as_layers

rng = np.random.default_rng


def brute_force_linear_cka(X, Y):
    """CKA from the definition: explicit centring matrix, traces of products."""
    n = len(X)
    H = np.eye(n) - np.ones((n, n)) / n
    K, L = H @ X @ X.T @ H, H @ Y @ Y.T @ H
    return np.trace(K @ L) / np.sqrt(np.trace(K @ K) * np.trace(L @ L))


@pytest.fixture
def arrays():
    return {
        "conv1": rng(0).normal(size=(6, 4)),
        "conv2": rng(1).normal(size=(6, 3)),
        "logits": rng(2).normal(size=(6, 2)),
    }


# What goes in


def test_mapping_keeps_order_and_the_very_arrays(arrays):
    layers = Layers(arrays)
    assert list(layers) == layers.names == ["conv1", "conv2", "logits"]
    assert len(layers) == 3
    assert layers.n_rows == 6
    assert layers.index is None
    assert all(layers[name] is array for name, array in arrays.items())
    assert [name for name, _ in layers.items()] == layers.names


def test_lists_and_tuples_are_named_by_position(arrays):
    for make in (list, tuple):
        layers = Layers(make(arrays.values()))
        assert layers.names == ["0", "1", "2"]
        assert layers["2"] is arrays["logits"]


def test_pairs_items_and_iterators_of_pairs(arrays):
    for data in (list(arrays.items()), arrays.items(), iter(arrays.items()), zip(arrays, arrays.values(), strict=True)):
        assert Layers(data).names == list(arrays)


def test_layers_of_layers_share_arrays_and_index():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 5.0]}, index=["a", "b"])
    first = Layers({"l": frame})
    second = Layers(first)
    assert second["l"] is first["l"]
    assert list(second.index) == ["a", "b"]


def test_frame_with_two_level_columns_gives_layers_in_order_of_appearance():
    columns = pd.MultiIndex.from_tuples([("z", 0), ("a", "u"), ("z", 1), ("a", "v"), (7, 0)])
    frame = pd.DataFrame(np.arange(20).reshape(4, 5), columns=columns, index=list("wxyz"))
    layers = Layers(frame)
    assert layers.names == ["z", "a", "7"]
    np.testing.assert_array_equal(layers["z"], [[0, 2], [5, 7], [10, 12], [15, 17]])
    np.testing.assert_array_equal(layers["a"], [[1, 3], [6, 8], [11, 13], [16, 18]])
    np.testing.assert_array_equal(layers["7"], [[4], [9], [14], [19]])
    assert list(layers.index) == list("wxyz")


def test_frame_of_mixed_number_types_does_not_mix_layers():
    frame = pd.concat({"i": pd.DataFrame({"a": [1, 2]}), "f": pd.DataFrame({"a": [0.5, 1.5]})}, axis=1)
    layers = Layers(frame)
    assert layers["i"].dtype == np.int64
    assert layers["f"].dtype == np.float64


def test_nullable_columns_become_floats_with_nan():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([0.5, 1.5, None], dtype="Float64")})
    np.testing.assert_array_equal(Layers({"l": frame})["l"], [[1, 0.5], [np.nan, 1.5], [3, np.nan]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frames_as_values(make):
    layers = Layers({"l": make({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 5.0]})})
    np.testing.assert_array_equal(layers["l"], [[1, 0], [2, 1], [4, 5]])


def test_frames_as_values_must_share_their_row_labels():
    a = pd.DataFrame({"u": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])
    assert list(Layers({"a": a, "b": a * 2, "c": np.ones((3, 2))}).index) == ["x", "y", "z"]
    with pytest.raises(ValueError, match=r"(?s)layer 'a'.*layer 'b'.*another order"):
        Layers({"a": a, "b": a.iloc[::-1]})
    with pytest.raises(ValueError, match=r"(?s)layer 'a'.*layer 'b'.*differ"):
        Layers({"a": a, "b": a.set_axis(["x", "y", "w"])})


def test_one_dimensional_arrays_and_series_are_one_column():
    layers = Layers({"a": np.arange(3.0), "s": pd.Series([1, 2, 3]), "l": [1, 2, 3]})
    for name, expected in {"a": [[0], [1], [2]], "s": [[1], [2], [3]], "l": [[1], [2], [3]]}.items():
        np.testing.assert_array_equal(layers[name], expected)


def test_names_that_are_not_strings_are_converted():
    layers = Layers({0: np.ones((2, 1)), ("block", 1): np.ones((2, 1)), np.str_("s"): np.ones((2, 1))})
    assert layers.names == ["0", "('block', 1)", "s"]
    assert all(type(name) is str for name in layers)


# Flattening


@pytest.fixture
def maps():
    A = rng(0).standard_normal((10, 3, 4, 4))
    return A, rng(1).standard_normal((10, 3, 4, 4)) + A


@pytest.mark.parametrize(("policy", "value"), [("flatten", 0.917331), ("mean", 0.766260), ("positions", 0.568694)])
def test_linear_cka_of_convolution_maps(backend, maps, policy, value):
    layers = Layers(dict(zip("ab", map(backend.asarray, maps), strict=True)), flatten=policy)
    X, Y = (to_numpy(layer) for layer in layers.values())
    assert brute_force_linear_cka(X, Y) == pytest.approx(value, abs=1e-6)
    assert type(layers["a"]) is type(backend.asarray(maps[0]))


def test_flattening_policies_entry_by_entry(backend):
    A = np.arange(2 * 3 * 2 * 2, dtype=float).reshape(2, 3, 2, 2)
    get = lambda **kw: to_numpy(Layers([backend.asarray(A)], **kw)["0"])  # noqa: E731
    np.testing.assert_array_equal(get(), A.reshape(2, 12))
    by_hand = [[A[n, c, h, w] for c in range(3)] for n in range(2) for h in range(2) for w in range(2)]
    np.testing.assert_array_equal(get(flatten="positions"), by_hand)
    np.testing.assert_array_equal(get(flatten="mean"), [[A[n, c].sum() / 4 for c in range(3)] for n in range(2)])
    by_hand = [[A[n, a, b, c] for c in range(2)] for n in range(2) for a in range(3) for b in range(2)]
    np.testing.assert_array_equal(get(flatten="positions", channels="last"), by_hand)


def test_tokens_have_their_features_on_the_last_axis(backend):
    T = rng(0).normal(size=(5, 7, 3))
    get = lambda **kw: to_numpy(Layers([backend.asarray(T)], **kw)["0"])  # noqa: E731
    np.testing.assert_array_equal(get(), T.reshape(5, 21))
    np.testing.assert_array_equal(get(flatten="positions"), T.reshape(35, 3))
    np.testing.assert_allclose(get(flatten="mean"), T.mean(1), rtol=1e-14)
    np.testing.assert_allclose(get(flatten="mean", channels="first"), T.mean(2), rtol=1e-14)


def test_volumes_have_their_channels_on_axis_one():
    V = rng(0).normal(size=(2, 3, 2, 2, 2))
    np.testing.assert_allclose(Layers([V], flatten="mean")["0"], V.mean((2, 3, 4)), rtol=1e-14)


def test_mean_promotes_half_precision_and_integers(backend):
    half = backend.asarray(np.full((2, 3, 50, 50), 60000.0, dtype=np.float32))
    half = half if backend.name == "array_api_strict" else backend.xp.astype(half, backend.xp.float16)
    mean = Layers([half], flatten="mean")["0"]
    assert mean.dtype == backend.xp.float32
    assert float(mean[0, 0]) == pytest.approx(60000, rel=1e-3)
    pixels = Layers([backend.asarray(np.full((2, 3, 4, 4), 255, dtype=np.uint8))], flatten="mean")["0"]
    assert pixels.dtype == backend.xp.float64
    assert float(pixels[0, 0]) == 255.0


def test_mean_of_bfloat16_maps():
    torch = pytest.importorskip("torch")
    mean = Layers([torch.full((2, 3, 4, 4), 1.5, dtype=torch.bfloat16)], flatten="mean")["0"]
    assert mean.dtype == torch.float32
    assert float(mean[1, 2]) == 1.5


def test_float32_mean_keeps_a_small_signal_on_a_large_offset():
    A = (1e4 + rng(0).normal(size=(4, 2, 64, 64))).astype(np.float32)
    mean = Layers([A], flatten="mean")["0"]
    np.testing.assert_allclose(mean, A.astype(np.float64).mean((2, 3)), rtol=1e-7)


def test_positions_need_equal_numbers_of_positions():
    with pytest.raises(ValueError, match=r"layer 'b' has 8 rows but layer 'a' has 32; flatten=\"positions\" needs"):
        Layers({"a": np.ones((2, 3, 4, 4)), "b": np.ones((2, 5, 2, 2))}, flatten="positions")


def test_unknown_policies_are_refused(arrays):
    with pytest.raises(ValueError, match=r"flatten must be one of 'flatten', 'mean', 'positions', got 'average'"):
        Layers(arrays, flatten="average")
    with pytest.raises(ValueError, match=r"channels must be one of .*got 'axis1'"):
        Layers(arrays, channels="axis1")


# What is refused


def test_unequal_row_counts_name_both_layers_and_counts():
    data = {"conv1": np.ones((64, 4)), "conv2": np.ones((64, 2)), "fc": np.ones((32, 4))}
    with pytest.raises(ValueError, match=r"layer 'fc' has 32 rows but layer 'conv1' has 64; all layers"):
        Layers(data)
    with pytest.raises(ValueError, match=r"layer 'fc' of `b` has 32 rows but layer 'conv1' of `b` has 64"):
        as_layers(data, argument="b")


def test_duplicate_names_are_refused():
    one = np.ones((2, 1))
    with pytest.raises(ValueError, match=r"Duplicate layer name 'conv1'"):
        Layers([("conv1", one), ("conv1", one)])
    with pytest.raises(ValueError, match=r"Layer names 1 and '1' are both '1' as text"):
        Layers({1: one, "1": one})
    frame = pd.concat([pd.DataFrame({("a", "u"): [1.0]}), pd.DataFrame({("a", "u"): [2.0]})], axis=1)
    with pytest.raises(ValueError, match=r"layer 'a' of `data` has the unit 'u' twice"):
        Layers(frame)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.float64(3.0), ValueError, "zero-dimensional"),
        (np.array(3.0), ValueError, "zero-dimensional"),
        (np.ones((3, 2), dtype=complex), ValueError, "is complex"),
        (array_api_strict.ones((3, 2), dtype=array_api_strict.complex64), ValueError, "is complex"),
        (np.array([["a", "b"]]), TypeError, "must hold real numbers"),
        (np.array([[{}]], dtype=object), TypeError, "must hold real numbers; its dtype is object"),
        (np.array(["2020-01-01"], dtype="M8[D]"), TypeError, "must hold real numbers"),
        (pd.DataFrame({"a": ["x", "y"]}), TypeError, "must hold real numbers"),
        (np.ones((0, 2)), ValueError, r"is empty: its shape is \(0, 2\)"),
        (np.ones((2, 0)), ValueError, r"is empty: its shape is \(2, 0\)"),
        (np.ones((2, 3, 0)), ValueError, "is empty"),
        ([[1, 2], [3]], ValueError, "cannot be made an array"),
        ((np.ones((2, 3)), np.ones((2, 3))), TypeError, "is a tuple of arrays, not one array"),
        ([np.ones((2, 3)), np.ones((2, 3))], TypeError, "is a list of arrays, not one array"),
        (scipy.sparse.eye_array(3), TypeError, "is sparse"),
        (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), ValueError, "masked values"),
        ({"a": 1}, TypeError, "must be an array; got builtins.dict"),
        (None, TypeError, "must be an array"),
    ],
    ids=str,
)
def test_bad_arrays_are_refused_by_layer_name(value, error, message):
    with pytest.raises(error, match=rf"layer 'bad' of `a` .*{message}"):
        as_layers({"bad": value})


def test_a_single_representation_is_refused_with_the_remedy():
    for data in (np.ones((3, 2)), np.ones((3, 2, 2)), np.ones(3), array_api_strict.ones((3, 2))):
        with pytest.raises(TypeError, match=r"`b` must be a collection of layers, not one array.*\{\"name\": b\}"):
            as_layers(data, argument="b")
    for table in (pd.DataFrame({"u": [1.0]}), pl.DataFrame({"u": [1.0]}), pa.table({"u": [1.0]}), pd.Series([1.0])):
        with pytest.raises(TypeError, match=r"`b` is a table without two-level columns.*\{\"name\": b\}"):
            as_layers(table, argument="b")
    for numbers in ([1.0, 2.0], [[1, 2], [3, 4]], [np.float64(1.0)]):
        with pytest.raises(TypeError, match=r"`b` is a list of numbers.*\{\"name\": b\}"):
            as_layers(numbers, argument="b")


def test_other_things_that_are_no_collection():
    with pytest.raises(TypeError, match=r"single \(name, array\) pair"):
        Layers(("conv", np.ones((2, 2))))
    with pytest.raises(TypeError, match="mixes"):
        Layers([("conv", np.ones((2, 2))), np.ones((2, 2))])
    for data in (7, None, {1.0}, object()):
        with pytest.raises(TypeError, match="must be a mapping of layer name to array"):
            Layers(data)
    for empty in ({}, [], (), iter(())):
        with pytest.raises(ValueError, match="holds no layers"):
            Layers(empty)


# Access


def test_unknown_names_are_answered_with_close_ones(arrays):
    layers = Layers(arrays)
    for error in (KeyError, ValueError):
        with pytest.raises(
            error, match=r"Unknown layer 'conv3'. Did you mean 'conv2' or 'conv1'\? The layers are 'conv1'"
        ):
            layers["conv3"]
    with pytest.raises(KeyError, match=r"Unknown layer 0. The layers are 'conv1', 'conv2', 'logits'"):
        layers[0]
    with pytest.raises(KeyError):
        layers[["conv1"]]
    assert layers.get("nothing") is None
    assert "conv1" in layers
    assert 3 not in layers
    with pytest.raises(KeyError, match=r"'11', ... \(40 in all\)"):
        Layers([np.ones((2, 1))] * 40)["fc"]


def test_select_by_name_and_pattern(arrays):
    layers = Layers(arrays)
    assert layers.select("logits", "conv*").names == ["logits", "conv1", "conv2"]
    assert layers.select("conv2", "conv2").names == ["conv2"]
    assert layers.select("conv1")["conv1"] is arrays["conv1"]
    with pytest.raises(KeyError, match=r"Unknown layer 'fc\*'"):
        layers.select("conv1", "fc*")
    with pytest.raises(ValueError, match="at least one"):
        layers.select()


def test_select_prefers_a_name_that_looks_like_a_pattern():
    layers = Layers({"block[0]": np.ones((2, 1)), "block0": np.ones((2, 1))})
    assert layers.select("block[0]").names == ["block[0]"]


@pytest.mark.parametrize(
    ("index", "positions"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None, None, -2), [5, 3, 1]),
        ([5, 0, 0], [5, 0, 0]),
        (np.array([-1, 2], dtype=np.int8), [5, 2]),
        (np.array([1, 4], dtype=np.uint64), [1, 4]),
        ([True, False, True, False, False, True], [0, 2, 5]),
        (pd.Series([False, False, False, True, True, False]), [3, 4]),
        (array_api_strict.asarray([4, 1]), [4, 1]),
    ],
    ids=str,
)
def test_rows_of_every_layer(backend, arrays, index, positions):
    layers = Layers({name: backend.asarray(a) for name, a in arrays.items()})
    chosen = layers.rows(index)
    assert chosen.n_rows == len(positions)
    for name, array in arrays.items():
        assert type(chosen[name]) is type(layers[name])
        np.testing.assert_array_equal(to_numpy(chosen[name]), [array[i] for i in positions])


def test_rows_by_slice_are_views(arrays):
    chosen = Layers(arrays).rows(slice(2, 5))
    assert np.shares_memory(chosen["conv1"], arrays["conv1"])


def test_rows_carry_their_labels():
    layers = Layers({"l": pd.DataFrame({"u": [1.0, 2.0, 3.0]}, index=["x", "y", "z"])})
    assert list(layers.rows([2, 0]).index) == ["z", "x"]
    assert list(layers.rows(np.array([False, True, True])).index) == ["y", "z"]
    assert list(layers.rows(slice(0, 2)).index) == ["x", "y"]
    assert list(layers.select("l").index) == ["x", "y", "z"]


def test_bad_row_selections_are_refused(arrays):
    layers = Layers(arrays)
    with pytest.raises(IndexError, match="Row 6 is out of range for 6 rows"):
        layers.rows([0, 6])
    with pytest.raises(IndexError, match="Row -7 is out of range"):
        layers.rows([-7])
    with pytest.raises(IndexError, match=r"mask of rows must have shape \(6,\); got \(3,\)"):
        layers.rows([True, False, True])
    for index in (3, [0.5], "conv1", np.zeros((2, 2), dtype=int)):
        with pytest.raises(TypeError, match="Rows are selected by"):
            layers.rows(index)
    for index in ([], slice(6, None), np.zeros(6, dtype=bool)):
        with pytest.raises(ValueError, match="leaves none of the 6 rows"):
            layers.rows(index)


def test_map_applies_to_every_layer(arrays):
    frame = pd.DataFrame(arrays["conv1"], index=list("abcdef"))
    layers = Layers({"a": frame, "b": arrays["conv2"]})
    centred = layers.map(lambda x: x - x.mean(0))
    np.testing.assert_allclose(centred["a"], arrays["conv1"] - arrays["conv1"].mean(0))
    assert list(centred.index) == list("abcdef")
    assert layers.map(lambda x: x[:2]).index is None
    with pytest.raises(ValueError, match="layer 'b' has 3 rows but layer 'a' has 4"):
        layers.map(lambda x: x[: x.shape[1]])


def test_collection_is_immutable_and_compares_by_identity(arrays):
    layers = Layers(arrays)
    with pytest.raises(TypeError):
        layers["new"] = np.ones((6, 1))
    with pytest.raises(AttributeError):
        layers.n_rows = 3
    layers.names.append("x")
    assert layers.names == list(arrays)
    assert layers == layers
    assert layers != Layers(arrays)
    assert len({layers, layers}) == 1


def test_input_is_not_changed(arrays):
    arrays["maps"] = rng(3).normal(size=(6, 2, 3, 3))
    before = {name: a.copy() for name, a in arrays.items()}
    for policy in ("flatten", "mean"):
        Layers(arrays, flatten=policy).rows([1, 2]).map(lambda x: x * 2)
    for name, a in arrays.items():
        np.testing.assert_array_equal(a, before[name])


def test_repr_lists_names_shapes_and_types():
    layers = Layers({"conv": np.ones((10, 3, 4, 4), dtype=np.float32), "y": np.arange(10)})
    assert repr(layers) == "Layers(2 layers, 10 rows)\n  conv  (10, 48) float32\n  y     (10, 1) int64"


def test_pickle_round_trip(arrays):
    again = pickle.loads(pickle.dumps(Layers(arrays)))
    assert again.names == list(arrays)
    np.testing.assert_array_equal(again["conv2"], arrays["conv2"])


def test_as_layers_returns_layers_as_they_are(arrays):
    layers = Layers(arrays)
    assert as_layers(layers) is layers


# Files


def test_npz_of_numpy_is_mapped_in_file_order(tmp_path, arrays):
    path = tmp_path / "acts.npz"
    np.savez(
        path, z=arrays["conv1"], a=np.asfortranarray(arrays["conv2"]), maps=np.ones((6, 2, 2, 2), dtype=np.float32)
    )
    for source in (path, str(path)):
        layers = Layers(source)
        assert layers.names == ["z", "a", "maps"]
        np.testing.assert_array_equal(layers["z"], arrays["conv1"])
        np.testing.assert_array_equal(layers["a"], arrays["conv2"])
        assert layers["maps"].shape == (6, 8)
        assert isinstance(layers["z"], np.memmap)
        assert not layers["z"].flags.writeable
    assert not isinstance(Layers.load(path, mmap=False)["z"], np.memmap)
    assert Layers.load(path, flatten="mean")["maps"].shape == (6, 2)


def test_compressed_npz_is_read(tmp_path, arrays):
    path = tmp_path / "acts.npz"
    np.savez_compressed(path, **arrays)
    layers = Layers(path)
    assert layers.names == list(arrays)
    np.testing.assert_array_equal(layers["logits"], arrays["logits"])


@pytest.mark.parametrize("compress", [False, True])
def test_save_and_load_keep_awkward_names_order_and_types(tmp_path, backend, compress):
    path = tmp_path / "acts.npz"
    values = {
        "file": np.ones((2, 3)),
        "layer1/0.conv": np.arange(4, dtype=np.float32).reshape(2, 2),
        "a.npy": np.array([[1], [2]], dtype=np.uint8),
        "größe": np.zeros((2, 1)),
    }
    Layers({name: backend.asarray(a) for name, a in values.items()}).save(path, compress=compress)
    again = Layers.load(path)
    assert again.names == list(values)
    for name, value in values.items():
        np.testing.assert_array_equal(again[name], value)
        assert again[name].dtype == value.dtype
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["layer1/0.conv"], values["layer1/0.conv"])
    assert [p.name for p in tmp_path.iterdir()] == ["acts.npz"]


def test_save_over_the_file_that_is_mapped(tmp_path, arrays):
    path = tmp_path / "acts.npz"
    Layers(arrays).save(path)
    layers = Layers(path)
    layers.map(lambda x: x * 2).save(path)
    layers.save(path)
    np.testing.assert_array_equal(Layers(path)["conv1"], arrays["conv1"])


def test_failed_save_leaves_the_old_file(tmp_path, arrays):
    path = tmp_path / "acts.npz"
    Layers(arrays).save(path)
    with pytest.raises(ValueError, match="cannot be stored"):
        Layers({"ok": np.ones((2, 1)), "a\0b": np.ones((2, 1))}).save(path)
    assert Layers(path).names == list(arrays)
    assert [p.name for p in tmp_path.iterdir()] == ["acts.npz"]


def test_torch_tensors_with_gradient_and_bfloat16_are_saved(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "acts.npz"
    values = {"g": torch.ones((2, 3), requires_grad=True), "b": torch.full((2, 1), 1.5, dtype=torch.bfloat16)}
    Layers(values).save(path)
    again = Layers(path)
    np.testing.assert_array_equal(again["g"], np.ones((2, 3)))
    np.testing.assert_array_equal(again["b"], np.full((2, 1), 1.5, dtype=np.float32))


def test_bad_files_are_refused_by_name(tmp_path, arrays):
    with pytest.raises(FileNotFoundError, match=r"No such file: .*missing\.npz"):
        Layers(tmp_path / "missing.npz")
    with pytest.raises(ValueError, match=r"read from and written to \.npz, .*got .*acts\.npy"):
        Layers("acts.npy")
    with pytest.raises(ValueError, match=r"read from and written to \.npz, .*got .*acts\.pt"):
        Layers(arrays).save(tmp_path / "acts.pt")
    (tmp_path / "text.npz").write_text("not a zip")
    with pytest.raises(ValueError, match=r"text\.npz' is not an \.npz file"):
        Layers(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(ValueError, match=r"holds 'readme.txt', which is not an array"):
        Layers(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", bad=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"Layer 'bad' of .*objects\.npz' cannot be read"):
        Layers(tmp_path / "objects.npz")
    with zipfile.ZipFile(tmp_path / "broken.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"Layer 'a' of .*broken\.npz' cannot be read"):
        Layers(tmp_path / "broken.npz")
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(ValueError, match="holds no layers"):
        Layers(tmp_path / "empty.npz")
    np.savez(tmp_path / "scalar.npz", step=np.array(3))
    with pytest.raises(ValueError, match="layer 'step' is a single number"):
        Layers(tmp_path / "scalar.npz")
    np.save(tmp_path / "member.npy", np.ones((2, 1)))
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.write(tmp_path / "member.npy", "a.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.write(tmp_path / "member.npy", "a.npy")
    with pytest.raises(ValueError, match="Duplicate layer name 'a'"):
        Layers(tmp_path / "twice.npz")
