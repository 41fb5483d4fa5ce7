"""Tables against their pairs one by one, for every plan; and what a table says of layers that do not fit."""

import math
import warnings

import brute_force as bf
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

from sklearn_cka import (
    CKA,
    HSIC,
    BaseIndex,
    ChanceLevelWarning,
    DistanceCorrelation,
    KernelAlignment,
    Layers,
    SimilarityTable,
    UndefinedSimilarityWarning,
    cka,
    compare_layers,
)
from sklearn_cka._arrays import to_numpy
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import GramIndex
from sklearn_cka.pairwise import _plans, _tiles

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

EXACT = 1e-11
INDEXES = [
    CKA(),
    CKA(debiased=True),
    CKA("rbf", bandwidth=0.7),
    CKA("rbf", debiased=True),
    CKA(kernel_y="rbf"),
    CKA("laplacian", kernel_y="distance", debiased=True),
    HSIC(),
    HSIC(debiased=True),
    HSIC("rbf"),
    KernelAlignment(),
    KernelAlignment("polynomial"),
    DistanceCorrelation(),
    DistanceCorrelation(debiased=True),
]


def by_repr(values):
    return pytest.mark.parametrize("index", values, ids=[repr(value) for value in values])


def layers_of(n=24, widths=(3, 5, 40), seed=0, base=None):
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((n, 3)) if base is None else base
    made = {}
    for i, p in enumerate(widths):
        made[f"layer{i}"] = np.tanh(base @ rng.standard_normal((3, p))) + 0.5 * rng.standard_normal((n, p)) + 2.0 * i
    return made


@pytest.fixture
def pair_of_models():
    base = np.random.default_rng(5).standard_normal((24, 3))
    return layers_of(base=base), layers_of(widths=(4, 30), seed=1, base=base)


def one_by_one(index, a, b):
    return np.array([[index.similarity(X, Y) for Y in b.values()] for X in a.values()])


def plans_of(index):
    if not isinstance(index, GramIndex):
        return ["embed"]
    return ["gram", "feature"] if index.is_linear else ["matrix"]


@by_repr(INDEXES)
def test_a_table_is_its_pairs_one_by_one_under_every_plan(backend, index, pair_of_models):
    a, b = pair_of_models
    expected, expected_alone = one_by_one(index, a, b), one_by_one(index, a, a)
    chance = np.array([[index.fit(X, Y).chance_ for Y in b.values()] for X in a.values()])
    a, b = ({name: backend.asarray(Z) for name, Z in layers.items()} for layers in (a, b))
    for plan in [None, *plans_of(index)]:
        table = compare_layers(a, b, index, plan=plan, verbose=0)
        np.testing.assert_allclose(table.values, expected, rtol=1e-9, atol=EXACT)
        np.testing.assert_allclose(table.chance, chance, rtol=1e-9, atol=EXACT)
        assert not table.symmetric
        alone = compare_layers(a, index=index, plan=plan, verbose=0)
        np.testing.assert_allclose(alone.values, expected_alone, rtol=1e-9, atol=EXACT)
        assert alone.symmetric == index.properties.symmetric
        np.testing.assert_allclose(
            compare_layers(a, a, index, plan=plan, verbose=0).values, expected_alone, 1e-9, EXACT
        )
        if plan is not None:
            assert table.plan.name == alone.plan.name == plan


def test_a_table_is_the_definition(pair_of_models):
    a, b = pair_of_models
    for debiased in (False, True):
        expected = [
            [bf.cka(*(bf.gram(bf.floats(Z - Z.mean(0)), bf.linear) for Z in (X, Y)), debiased) for Y in b.values()]
            for X in a.values()
        ]
        for plan in ("gram", "feature"):
            values = compare_layers(a, b, debiased=debiased, plan=plan, verbose=0).values
            np.testing.assert_allclose(values, expected, atol=1e-10)


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("strip", [1, 5, 7, 24, 100])
def test_strips_of_any_height_give_the_same_table(monkeypatch, pair_of_models, strip, debiased):
    _check_strips(monkeypatch, *pair_of_models, CKA(debiased=debiased), strip)


@pytest.mark.parametrize("debiased", [False, True])
def test_strips_of_every_library_give_the_same_table(monkeypatch, backend, pair_of_models, debiased):
    a, b = ({name: backend.asarray(Z) for name, Z in layers.items()} for layers in pair_of_models)
    _check_strips(monkeypatch, a, b, CKA(debiased=debiased), 9)


def _check_strips(monkeypatch, a, b, index, strip):
    expected = compare_layers(a, b, index, plan="feature", verbose=0).values
    alone = compare_layers(a, index=index, plan="feature", verbose=0).values
    rbf = CKA("rbf", debiased=index.debiased)
    expected_rbf = compare_layers(a, b, rbf, verbose=0).values
    monkeypatch.setattr(_tiles, "_WHOLE_GRAM_ROWS", 0)
    monkeypatch.setattr(_tiles, "_STRIP_ROWS", strip)
    monkeypatch.setattr(_tiles, "_SUM_BLOCK", 50)
    np.testing.assert_allclose(compare_layers(a, b, index, plan="gram", verbose=0).values, expected, atol=EXACT)
    np.testing.assert_allclose(compare_layers(a, index=index, plan="gram", verbose=0).values, alone, atol=EXACT)
    np.testing.assert_allclose(compare_layers(a, b, rbf, verbose=0).values, expected_rbf, atol=EXACT)


@by_repr(INDEXES)
def test_a_working_memory_too_small_for_one_strip_changes_no_value(index, pair_of_models):
    a, b = pair_of_models
    expected = one_by_one(index, a, b)
    with config_context(working_memory=1e-4):  # about 13 numbers
        for plan in plans_of(index):
            np.testing.assert_allclose(compare_layers(a, b, index, plan=plan, verbose=0).values, expected, 1e-9, EXACT)


def test_names_come_in_the_order_given_and_rows_are_the_first_argument():
    a, b = layers_of(widths=(3, 4, 5)), layers_of(widths=(4, 2), seed=1)
    a = {name: a[layer] for name, layer in zip(("z", "a", "m"), a, strict=True)}
    b = {name: b[layer] for name, layer in zip(("y", "x"), b, strict=True)}
    table = compare_layers(a, b, verbose=0)
    assert isinstance(table, SimilarityTable)
    assert (table.row_names, table.column_names) == (["z", "a", "m"], ["y", "x"])
    assert table.values.shape == table.chance.shape == (3, 2)
    assert table.values.dtype == np.float64
    frame = table.to_frame()
    assert list(frame.index) == ["z", "a", "m"]
    assert list(frame.columns) == ["y", "x"]
    assert frame.loc["m", "y"] == pytest.approx(cka(a["m"], b["y"]), abs=EXACT)
    assert (table.n_samples, table.index, table.params) == (24, "cka", {})
    np.testing.assert_allclose(compare_layers(b, a, verbose=0).values, table.values.T, atol=EXACT)


def test_kinds_of_collections():
    layers = layers_of(widths=(3, 4))
    expected = compare_layers(layers, verbose=0).values
    arrays = list(layers.values())
    for form in (arrays, tuple(arrays), Layers(layers), list(layers.items()), iter(layers.items())):
        np.testing.assert_allclose(compare_layers(form, verbose=0).values, expected, atol=EXACT)
    assert compare_layers(arrays, verbose=0).row_names == ["0", "1"]
    frame = pd.concat({name: pd.DataFrame(Z) for name, Z in layers.items()}, axis=1)
    np.testing.assert_allclose(compare_layers(frame, verbose=0).values, expected, atol=EXACT)
    with pytest.raises(TypeError, match=r"`a` must be a collection of layers, not one array of shape \(24, 3\)"):
        compare_layers(arrays[0], verbose=0)
    with pytest.raises(TypeError, match=r"`b` must be a collection of layers, not one array"):
        compare_layers(arrays, arrays[0], verbose=0)


def test_maps_of_more_dimensions_are_flattened():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 3, 4, 4))
    B = np.random.default_rng(1).standard_normal((10, 3, 4, 4)) + A
    table = compare_layers({"A": A, "B": B}, verbose=0)
    assert table.values[0, 1] == pytest.approx(0.917331, abs=1e-6)
    table = compare_layers(Layers({"A": A, "B": B}, flatten="mean"), verbose=0)
    assert table.values[0, 1] == pytest.approx(0.766260, abs=1e-6)
    table = compare_layers(Layers({"A": A, "B": B}, flatten="positions"), verbose=0)
    assert table.values[0, 1] == pytest.approx(0.568694, abs=1e-6)
    assert table.n_samples == 160


@by_repr(INDEXES)
def test_precisions_that_differ_between_layers(backend, index, pair_of_models):
    a, b = pair_of_models
    expected, alone = one_by_one(index, a, b), one_by_one(index, a, a)
    kinds = [np.float32, np.float64, np.float32]
    a = {name: backend.asarray(Z.astype(kind)) for (name, Z), kind in zip(a.items(), kinds, strict=True)}
    b = {name: backend.asarray(Z.astype(kind)) for (name, Z), kind in zip(b.items(), kinds[1:], strict=True)}
    for plan in plans_of(index):
        np.testing.assert_allclose(compare_layers(a, b, index, plan=plan, verbose=0).values, expected, 1e-4, 1e-5)
        np.testing.assert_allclose(compare_layers(a, index=index, plan=plan, verbose=0).values, alone, 1e-4, 1e-5)


def test_integer_bool_and_half_layers(backend):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 200, (20, 4)).astype(np.uint8)
    layers = {
        "counts": backend.asarray(counts),
        "flags": backend.asarray(counts > 100),
        "half": backend.asarray((counts / 7).astype("f4")),
    }
    table = compare_layers(layers, verbose=0)
    expected = cka(counts.astype(float), (counts > 100).astype(float))
    assert table.values[0, 1] == pytest.approx(expected, abs=1e-9)


def test_libraries_that_differ_between_layers(backend, pair_of_models):
    a, b = pair_of_models
    expected = one_by_one(CKA(), a, b)
    mixed = dict(a)
    mixed["layer1"] = backend.asarray(mixed["layer1"])
    np.testing.assert_allclose(compare_layers(mixed, b, verbose=0).values, expected, atol=EXACT)
    moved = {name: backend.asarray(Z) for name, Z in b.items()}
    np.testing.assert_allclose(compare_layers(a, moved, verbose=0).values, expected, atol=EXACT)
    np.testing.assert_allclose(compare_layers(moved, a, verbose=0).values, expected.T, atol=EXACT)


class Counting(BaseIndex):
    """An index that keeps a record of what it embeds and compares."""

    embedded: list = []
    compared: list = []

    def embed(self, X):
        self.embedded.append(X.shape)
        return to_numpy(X) - to_numpy(X).mean(axis=0)

    def compare(self, a, b):
        self.compared.append((a.shape, b.shape))
        return float(np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b))


class CountingCKA(CKA):
    """CKA that counts its embeddings."""

    embedded: list = []

    def embed(self, X, sample_weight=None):
        self.embedded.append(("X", X.shape))
        return super().embed(X, sample_weight)

    def embed_y(self, y, sample_weight=None):
        self.embedded.append(("y", y.shape))
        return super().embed_y(y, sample_weight)


@pytest.fixture(autouse=True)
def _forget_counts():
    for record in (Counting.embedded, Counting.compared, CountingCKA.embedded):
        record.clear()


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_every_layer_is_embedded_once(pair_of_models, n_jobs):
    a, b = pair_of_models
    for index, record in ((Counting(), Counting.embedded), (CountingCKA(), CountingCKA.embedded)):
        compare_layers(a, index=index, n_jobs=n_jobs, verbose=0)
        assert len(record) == 3
        record.clear()
        compare_layers(a, b, index, n_jobs=n_jobs, verbose=0)
        assert len(record) == 5
        record.clear()
        compare_layers(a, a, index, n_jobs=n_jobs, verbose=0)
        assert len(record) == 3
        record.clear()


def test_an_array_under_two_names_is_embedded_once(pair_of_models):
    a, b = pair_of_models
    a = {**a, "again": a["layer1"]}
    b = {**b, "shared": a["layer1"]}
    for index, record in ((Counting(), Counting.embedded), (CountingCKA(), CountingCKA.embedded)):
        values = compare_layers(a, b, index, verbose=0).values
        assert len(record) == 5
        np.testing.assert_array_equal(values[1], values[3])
        assert values[1, 2] == pytest.approx(1.0, abs=1e-12)


def test_an_index_that_treats_the_sides_differently_embeds_every_layer_for_each(pair_of_models):
    a, b = pair_of_models
    compare_layers(a, index=CountingCKA(kernel_y="rbf"), verbose=0)
    assert sorted(side for side, _ in CountingCKA.embedded) == ["X", "X", "X", "y", "y", "y"]
    CountingCKA.embedded.clear()
    compare_layers(a, b, CountingCKA(kernel_y="rbf"), verbose=0)
    assert sorted(side for side, _ in CountingCKA.embedded) == ["X", "X", "X", "y", "y"]


def test_asymmetric_kernels_fill_the_whole_table(pair_of_models):
    a, _ = pair_of_models
    index = CKA("linear", kernel_y="rbf")
    table = compare_layers(a, index=index, verbose=0)
    assert not table.symmetric
    assert abs(table.values - table.values.T).max() > 1e-3
    X, Y = a["layer0"], a["layer2"]
    assert table.values[0, 2] == pytest.approx(cka(X, Y, kernel_y="rbf"), abs=EXACT)
    assert table.values[2, 0] == pytest.approx(cka(Y, X, kernel_y="rbf"), abs=EXACT)


def test_only_half_of_a_symmetric_table_is_compared(pair_of_models):
    a, b = pair_of_models

    class Symmetric(Counting):
        """Declared symmetric, which is the default."""

    compare_layers(a, index=Symmetric(), verbose=0)
    assert len(Counting.compared) == 6
    Counting.compared.clear()
    compare_layers(a, b, Symmetric(), verbose=0)
    assert len(Counting.compared) == 6  # 3 x 2


def test_an_index_of_ones_own_fills_a_table(pair_of_models):
    a, b = pair_of_models
    table = compare_layers(a, b, Counting(), verbose=0)
    assert table.index == "Counting"
    assert table.plan.name == "embed"
    np.testing.assert_allclose(table.values, one_by_one(CKA(), a, b), atol=EXACT)
    assert np.isnan(table.chance).all()


@by_repr([*INDEXES, Counting()])
def test_two_threads_give_the_table_of_one(index, pair_of_models):
    a, b = pair_of_models
    for columns in (None, b):
        one = compare_layers(a, columns, index, n_jobs=1, verbose=0)
        two = compare_layers(a, columns, index, n_jobs=2, verbose=0)
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_array_equal(one.chance, two.chance)
        with joblib.parallel_config(backend="loky", n_jobs=2):
            np.testing.assert_array_equal(compare_layers(a, columns, index, verbose=0).values, one.values)


def test_verbose_0_is_silent_and_short_jobs_are_anyway(capfd, pair_of_models):
    a, b = pair_of_models
    compare_layers(a, b, verbose=0)
    compare_layers(a, b)
    compare_layers(a, index=Counting())
    assert capfd.readouterr() == ("", "")


def test_jobs_of_over_a_second_show_progress(capfd, monkeypatch, pair_of_models):
    from sklearn_cka.pairwise import compare

    monkeypatch.setattr(compare, "_SILENT_SECONDS", 0.0)
    compare_layers(pair_of_models[0])
    assert "embedding layers" in capfd.readouterr().err
    compare_layers(pair_of_models[0], verbose=0)
    assert capfd.readouterr().err == ""


# Layers that are constant


@pytest.mark.parametrize("plan", ["gram", "feature"])
@pytest.mark.parametrize("debiased", [False, True])
def test_only_the_row_and_column_of_a_constant_layer_are_nan(pair_of_models, plan, debiased):
    a, b = pair_of_models
    a["dead"] = np.full((24, 4), 3.7)
    with pytest.warns(UndefinedSimilarityWarning, match=r"every pair with layer 'dead' is undefined") as caught:
        values = compare_layers(a, debiased=debiased, plan=plan, verbose=0).values
    assert len(caught) == 1
    assert np.isnan(values[3]).all()
    assert np.isnan(values[:, 3]).all()
    assert np.isfinite(values[:3, :3]).all()
    with pytest.warns(UndefinedSimilarityWarning, match="'dead'") as caught:
        values = compare_layers(b, a, debiased=debiased, plan=plan, verbose=0).values
    assert len(caught) == 1
    assert np.isnan(values[:, 3]).all()
    assert np.isfinite(values[:, :3]).all()


@by_repr([CKA("rbf"), CKA("distance"), DistanceCorrelation(), CKA("rbf", debiased=True)])
def test_constant_layers_under_kernels(index, pair_of_models):
    a, _ = pair_of_models
    a = {"dead": np.full((24, 1), -1e5), **a, "zero": np.zeros((24, 9), dtype="f4")}
    with pytest.warns(UndefinedSimilarityWarning, match="layer 'dead', 'zero' is undefined") as caught:
        values = compare_layers(a, index=index, verbose=0).values
    assert sum(warning.category is UndefinedSimilarityWarning for warning in caught) == 1
    assert np.isnan(values[[0, 4]]).all()
    assert np.isnan(values[:, [0, 4]]).all()
    assert np.isfinite(values[1:4, 1:4]).all()


def test_many_constant_layers_are_not_all_named():
    layers = {f"dead{i}": np.zeros((6, 2)) for i in range(9)}
    with pytest.warns(UndefinedSimilarityWarning, match=r"'dead4' and 4 more") as caught:
        assert np.isnan(compare_layers(layers, verbose=0).values).all()
    assert len(caught) == 1


def test_a_single_constant_layer():
    with pytest.warns(UndefinedSimilarityWarning, match="'dead'"):
        table = compare_layers({"dead": np.ones((6, 2))}, verbose=0)
    assert math.isnan(table.values[0, 0])
    assert compare_layers({"dead": np.ones((6, 2))}, index="hsic", verbose=0).values[0, 0] == 0.0


@pytest.mark.filterwarnings("default::sklearn_cka.ChanceLevelWarning")
def test_one_warning_says_how_many_values_are_mostly_chance():
    layers = {f"l{i}": np.random.default_rng(i).standard_normal((10, 50)) for i in range(4)}
    with pytest.warns(ChanceLevelWarning, match=r"In 6 of 6 pairs of layers.*'l0' and 'l1'") as caught:
        compare_layers(layers, verbose=0)
    assert len(caught) == 1
    with pytest.warns(ChanceLevelWarning, match="In 16 of 16 pairs") as caught:
        compare_layers(layers, {name: Z[::-1] for name, Z in layers.items()}, verbose=0)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_layers(layers, debiased=True, verbose=0)


def test_warnings_point_at_the_line_of_the_caller():
    with pytest.warns(UndefinedSimilarityWarning) as caught:
        compare_layers({"dead": np.ones((6, 2))}, verbose=0)
    assert caught[0].filename == __file__
    with pytest.warns(UndefinedSimilarityWarning) as caught:
        cka(np.ones((6, 2)), np.ones((6, 2)))
    assert caught[0].filename == __file__


# Errors


def test_row_counts_that_differ_name_both_layers_and_counts(backend):
    a, b = {"x": backend.asarray(np.ones((20, 2)))}, {"y": backend.asarray(np.ones((30, 2)))}
    with pytest.raises(ValueError, match=r"'x' of a has 20 .*'y' of b has 30 "):
        compare_layers(a, b, verbose=0)
    with pytest.raises(ValueError, match=r"'z' of `a` has 30 rows but layer 'x' of `a` has 20"):
        compare_layers({**a, "z": b["y"]}, verbose=0)


def test_frames_whose_rows_are_in_another_order():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((10, 4)), index=list("abcdefghij"))
    shuffled = frame.sample(frac=1.0, random_state=1)
    with pytest.raises(ValueError, match="the same but in another order"):
        compare_layers({"x": frame}, {"y": shuffled}, verbose=0)
    with pytest.raises(ValueError, match=r"row labels of .* differ"):
        compare_layers({"x": frame}, {"y": frame.set_axis(range(10))}, verbose=0)
    with pytest.raises(ValueError, match=r"layer 'x' of `a`.* layer 'y' of `a`.*another order"):
        compare_layers({"x": frame, "y": shuffled}, verbose=0)
    wide = pd.concat({"u": frame, "v": frame**2}, axis=1)
    with pytest.raises(ValueError, match="another order"):
        compare_layers(wide, wide.loc[shuffled.index], verbose=0)
    assert compare_layers({"x": frame}, {"y": shuffled.loc[frame.index]}, verbose=0).values[0, 0] == pytest.approx(1.0)
    assert compare_layers({"x": frame}, {"y": frame.to_numpy()}, verbose=0).values[0, 0] == pytest.approx(1.0)


@by_repr([*INDEXES, Counting()])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nan_and_infinity_name_layer_and_argument(backend, index, wrong):
    a, b = layers_of(), layers_of(seed=1)
    b["layer1"][2, 0] = wrong
    word = "NaN" if np.isnan(wrong) else "infinity"
    with pytest.raises(ValueError, match=rf"layer 'layer1' of b contains {word}"):
        compare_layers(a, {name: backend.asarray(Z) for name, Z in b.items()}, index, verbose=0)
    with pytest.raises(ValueError, match=rf"layer 'layer1' of a contains {word}"):
        compare_layers({name: backend.asarray(Z) for name, Z in b.items()}, index=index, n_jobs=2, verbose=0)


def test_too_few_rows_name_a_layer_and_the_number():
    layers = {"x": np.arange(3.0)[:, None], "y": np.arange(3.0)[:, None] ** 2}
    with pytest.raises(ValueError, match=r"layer 'x' of a with 3 sample\(s\).*minimum of 4"):
        compare_layers(layers, debiased=True, verbose=0)
    assert np.isfinite(compare_layers(layers, verbose=0).values).all()
    with pytest.raises(ValueError, match=r"layer 'x' of a with 1 sample\(s\).*minimum of 2"):
        compare_layers({"x": np.ones((1, 3))}, verbose=0)


def test_plans_that_are_unknown_or_not_open(pair_of_models):
    a, _ = pair_of_models
    with pytest.raises(ValueError, match=r"plan must be one of 'gram', 'feature', .*'embed', got 'fast'"):
        compare_layers(a, plan="fast", verbose=0)
    with pytest.raises(ValueError, match=r"plan='feature' is not open to CKA\(kernel='rbf'\).*'matrix'"):
        compare_layers(a, index=CKA("rbf"), plan="feature", verbose=0)
    with pytest.raises(ValueError, match=r"plan='feature' is not open to CKA\(form='gram'\).*'gram'"):
        compare_layers(a, index=CKA(form="gram"), plan="feature", verbose=0)
    with pytest.raises(ValueError, match=r"plan='gram' is not open to Counting.*'embed'"):
        compare_layers(a, index=Counting(), plan="gram", verbose=0)


def test_names_and_parameters_that_are_unknown(pair_of_models):
    a, _ = pair_of_models
    with pytest.raises(ValueError, match=r"Unknown index 'ckaa'. Did you mean 'cka'\? Valid indexes are"):
        compare_layers(a, index="ckaa", verbose=0)
    with pytest.raises(ValueError, match="CKA has no parameter sigma"):
        compare_layers(a, sigma=2.0, verbose=0)
    with pytest.raises(TypeError, match="index must be a name or an index"):
        compare_layers(a, index=3, verbose=0)
    with pytest.raises(ValueError, match="bandwidth must be a positive finite number"):
        compare_layers(a, kernel="rbf", bandwidth=-1.0, verbose=0)


def test_the_index_given_is_not_changed(pair_of_models):
    a, _ = pair_of_models
    index = CKA("rbf")
    table = compare_layers(a, index=index, debiased=True, verbose=0)
    assert not index.debiased
    assert not hasattr(index, "similarity_")
    assert table.params == {"kernel": "rbf", "debiased": True}


# Plans


def test_gram_matrices_are_chosen_for_wide_layers_and_features_for_narrow_ones():
    wide, narrow = layers_of(n=20, widths=(200, 300)), layers_of(n=200, widths=(3, 4))
    assert compare_layers(wide, verbose=0).plan.name == "gram"
    assert compare_layers(narrow, verbose=0).plan.name == "feature"
    assert compare_layers(wide, narrow := {k: v[:20] for k, v in narrow.items()}, verbose=0).plan.name == "gram"
    assert compare_layers(narrow, index="cka", kernel="rbf", verbose=0).plan.name == "matrix"


def test_costs_of_the_plans_cross_at_about_as_many_rows_as_columns():
    for widths in ([64] * 12, [1024] * 24, [10, 100, 1000]):
        total = sum(widths)
        for n, better in ((total // 2, "gram"), (total * 2, "feature")):
            assert _plans.choose(CKA(), _plans.Sizes(n, widths, None, 4, widths), None, None).name == better


def test_sums_over_many_rows_in_float32_keep_their_digits():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((3000, 4))
    layers = [(base @ rng.standard_normal((4, p)) + rng.standard_normal((3000, p))).astype("f4") for p in (8, 16)]
    for debiased in (False, True):
        exact = cka(*(Z.astype("f8") for Z in layers), debiased=debiased)
        for plan in ("gram", "feature"):
            value = compare_layers(layers, debiased=debiased, plan=plan, verbose=0).values[0, 1]
            assert value == pytest.approx(exact, abs=2e-6)


def test_debiased_float32_with_one_row_far_from_the_others():
    """An outlier makes squared norms that outweigh everything the debiased estimate is about."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((200, 4))
    layers = [base @ rng.standard_normal((4, p)) + rng.standard_normal((200, p)) for p in (8, 300)]
    for size in (10.0, 100.0, 1000.0, 1e5):
        for Z in layers:
            Z[7] = size * rng.standard_normal(Z.shape[1])
        stored = [Z.astype("f4") for Z in layers]
        exact = cka(*(Z.astype("f8") for Z in stored), debiased=True)
        for form in ("gram", "feature"):
            assert cka(*stored, debiased=True, form=form) == pytest.approx(exact, abs=1e-4)
        for plan in ("gram", "feature"):
            value = compare_layers(stored, debiased=True, plan=plan, verbose=0).values[0, 1]
            assert value == pytest.approx(exact, abs=1e-4)


def test_embeddings_hold_no_more_than_they_need(pair_of_models):
    X = pair_of_models[0]["layer0"]
    embedding = CKA().embed(X)
    assert isinstance(embedding, GramEmbedding)
    assert embedding.features.shape == X.shape
    assert "gram" not in vars(embedding)
