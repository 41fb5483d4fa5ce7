"""Similarities over bandwidths: equal to one bandwidth at a time, from distances that are computed once."""

import math

import brute_force as bf
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from sklearn_cka import (
    CKA,
    HSIC,
    AngularCKA,
    BandwidthDisplay,
    DistanceCorrelation,
    Layers,
    UndefinedSimilarityWarning,
    _linalg,
    bandwidth_curve,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

WIDTHS = [0.0625, 0.3, 1.0, 6.0]


def pair(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2 * X[:, :2]) + 0.3 * rng.standard_normal((n, 2))


def layers(seed=0, n=30):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 3))
    return {"in": Z, "mid": Z**2 + 0.1 * rng.standard_normal((n, 3)), "out": rng.standard_normal((n, 2))}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (CKA, {"kernel": "rbf"}),
        (CKA, {"kernel": "laplacian", "bandwidth_rule": "mean"}),
        (CKA, {"kernel": "rbf", "kernel_y": "linear"}),
        (CKA, {"kernel": "linear", "kernel_y": "rbf"}),
        (CKA, {"kernel": "rbf", "bandwidth_rule": "none"}),
        (CKA, {"kernel": "rbf", "kernel_params_y": {"bandwidth": 0.5}}),
        (HSIC, {"kernel": "rbf"}),
        (AngularCKA, {"kernel": "rbf"}),
    ],
    ids=str,
)
def test_every_point_is_the_index_at_that_bandwidth(kind, params, debiased):
    X, y = pair()
    index = kind(**params, debiased=debiased)
    curve = bandwidth_curve(X, y, index, bandwidths=WIDTHS)
    np.testing.assert_array_equal(curve.bandwidths, WIDTHS)
    assert curve.values.shape == (4, 1, 1)
    for width, value, chance, z in zip(WIDTHS, curve.values, curve.chance, curve.z_scores, strict=True):
        one = kind(**params, debiased=debiased, bandwidth=width).fit(X, y)
        assert value.item() == pytest.approx(one.similarity_, rel=1e-10, abs=1e-10)
        assert chance.item() == pytest.approx(one.chance_, rel=1e-10, abs=1e-12, nan_ok=True)
        assert z.item() == pytest.approx(one.z_score(X, y), rel=1e-10)


@pytest.mark.parametrize("kernel_y", ["same", "linear"])
def test_curves_are_computed_where_the_data_lie(backend, kernel_y):
    X, y = pair()
    expected = bandwidth_curve(X, y, bandwidths=WIDTHS, kernel_y=kernel_y, debiased=True)
    for a, b in ((backend.asarray(X), backend.asarray(y)), ({"x": backend.asarray(X)}, {"y": backend.asarray(y)})):
        curve = bandwidth_curve(a, b, bandwidths=WIDTHS, kernel_y=kernel_y, debiased=True)
        np.testing.assert_allclose(curve.values, expected.values, rtol=1e-10)
        np.testing.assert_allclose(curve.z_scores, expected.z_scores, rtol=1e-9)


@pytest.mark.parametrize("debiased", [False, True])
def test_values_are_those_of_the_definition(debiased):
    X, y = pair(12)
    curve = bandwidth_curve(X, y, bandwidths=WIDTHS, debiased=debiased)
    expected = [float(bf.rbf_cka(X, y, width, debiased=debiased)) for width in WIDTHS]
    np.testing.assert_allclose(curve.values[:, 0, 0], expected, rtol=1e-10)


def test_layers_are_compared_pair_by_pair():
    a, b = layers(), layers(1)
    curve = bandwidth_curve(Layers(a), b, bandwidths=WIDTHS, debiased=True)
    assert (curve.row_names, curve.column_names, curve.symmetric) == (list(a), list(b), False)
    for k, width in enumerate(WIDTHS):
        for i, X in enumerate(a.values()):
            for j, y in enumerate(b.values()):
                one = CKA("rbf", bandwidth=width, debiased=True).fit(X, y)
                assert curve.values[k, i, j] == pytest.approx(one.similarity_, rel=1e-10, abs=1e-12)
                assert curve.z_scores[k, i, j] == pytest.approx(one.z_score(X, y), rel=1e-9)


def test_one_collection_is_compared_with_itself_and_symmetric():
    a = layers()
    one, both = (bandwidth_curve(*sides, bandwidths=WIDTHS) for sides in ((a,), (a, a)))
    assert one.symmetric
    assert not both.symmetric
    for quantity in ("values", "chance", "z_scores"):
        found = getattr(one, quantity)
        np.testing.assert_allclose(found, getattr(both, quantity), rtol=1e-9)
        np.testing.assert_allclose(found, np.swapaxes(found, 1, 2), rtol=1e-12)
    uneven = bandwidth_curve(a, bandwidths=WIDTHS, kernel_y="linear")
    assert not uneven.symmetric
    expected = CKA("rbf", kernel_y="linear", bandwidth=0.3).similarity(a["mid"], a["in"])
    assert uneven.values[1, 1, 0] == pytest.approx(expected, rel=1e-10)


def test_labels_keep_their_kernel_over_all_bandwidths():
    X, _ = pair()
    labels = np.where(X[:, 0] > 0, "a", "b")
    curve = bandwidth_curve(X, labels, bandwidths=WIDTHS, kernel_y="delta")
    expected = [CKA("rbf", kernel_y="delta", bandwidth=width).similarity(X, labels) for width in WIDTHS]
    np.testing.assert_allclose(curve.values[:, 0, 0], expected, rtol=1e-10)


@pytest.mark.parametrize(("kernel", "function"), [("rbf", "squared_distances"), ("laplacian", "manhattan_distances")])
def test_distances_are_computed_once_for_all_bandwidths(monkeypatch, kernel, function):
    calls = []
    original = getattr(_linalg, function)

    def counted(*args):
        calls.append(args[0].shape)
        return original(*args)

    monkeypatch.setattr(_linalg, function, counted)
    bandwidth_curve(layers(), bandwidths=WIDTHS, kernel=kernel)
    assert len(calls) == 3
    bandwidth_curve(layers(), layers(1), kernel=kernel)
    assert len(calls) == 3 + 6


def test_narrow_bandwidths_take_biased_cka_to_one_and_the_z_score_nowhere():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    curve = bandwidth_curve(X, y, bandwidths=[0.02, 0.1, 1.0])
    value, chance, z = (np.ravel(q) for q in (curve.values, curve.chance, curve.z_scores))
    assert value[0] > 0.95
    assert value[0] - chance[0] < 0.02
    assert (np.abs(z) < 3).all()
    unbiased = bandwidth_curve(X, y, bandwidths=[0.02, 0.1, 1.0], debiased=True)
    assert (np.abs(unbiased.values) < 0.2).all()
    assert (unbiased.chance == 0).all()


def test_the_best_bandwidth_has_the_greatest_z_score():
    X, y = pair(100)
    curve = bandwidth_curve({"x": X, "noise": np.random.default_rng(5).standard_normal((100, 2))}, {"y": y})
    best = curve.best()
    assert best[["row", "column"]].values.tolist() == [["x", "y"], ["noise", "y"]]
    for k in range(2):
        at = int(curve.z_scores[:, k, 0].argmax())
        line = best.loc[k, ["bandwidth", "similarity", "chance", "z"]].tolist()
        expected = [curve.bandwidths[at], curve.values[at, k, 0], curve.chance[at, k, 0], curve.z_scores[at, k, 0]]
        assert line == expected
    assert 0.1 < best["bandwidth"][0] < 1.0


def test_frames_name_bandwidths_and_pairs():
    curve = bandwidth_curve(layers(), layers(1), bandwidths=WIDTHS)
    wide = curve.to_frame()
    assert wide["z"]["mid"]["out"].tolist() == curve.z_scores[:, 1, 2].tolist()
    assert wide.index.tolist() == WIDTHS
    tidy = curve.to_frame(tidy=True)
    assert tidy.columns.tolist() == ["bandwidth", "row", "column", "similarity", "chance", "z"]
    assert len(tidy) == 4 * 9
    line = tidy[(tidy.bandwidth == 1.0) & (tidy.row == "in") & (tidy.column == "mid")]
    assert line[["similarity", "chance", "z"]].values.tolist() == [
        [curve.values[2, 0, 1], curve.chance[2, 0, 1], curve.z_scores[2, 0, 1]]
    ]


def test_frames_lists_and_paths_are_told_from_matrices(tmp_path):
    X, y = pair()
    expected = bandwidth_curve(X, y, bandwidths=WIDTHS).values
    for a, b in ((pd.DataFrame(X), pd.DataFrame(y)), (X.tolist(), y.tolist())):
        np.testing.assert_allclose(bandwidth_curve(a, b, bandwidths=WIDTHS).values, expected, rtol=1e-12)
    np.testing.assert_allclose(bandwidth_curve([X], [y], bandwidths=WIDTHS).values, expected, rtol=1e-12)
    Layers({"one": X}).save(tmp_path / "a.npz")
    from_file = bandwidth_curve(tmp_path / "a.npz", {"two": y}, bandwidths=WIDTHS)
    assert (from_file.row_names, from_file.column_names) == (["one"], ["two"])
    np.testing.assert_allclose(from_file.values, expected, rtol=1e-12)


def test_constant_layers_are_undefined_alone_and_named():
    a = layers() | {"dead": np.ones((30, 2))}
    with pytest.warns(UndefinedSimilarityWarning, match="28 of 64 similarities.*'in' and 'dead' at 0.0625, 0.3"):
        curve = bandwidth_curve(a, bandwidths=WIDTHS)
    assert np.isnan(curve.values[:, 3]).all()
    assert not np.isnan(curve.values[:, :3, :3]).any()
    assert curve.best()[["bandwidth", "z"]].isna().all(axis=1).tolist() == [
        i == 3 or j == 3 for i, j in np.ndindex(4, 4)
    ]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y: bandwidth_curve(X), ValueError, "a is one representation: give b"),
        (lambda X, y: bandwidth_curve(X, {"y": y}), ValueError, "got one of each"),
        (lambda X, y: bandwidth_curve(X, y[:-1]), ValueError, "40.*39"),
        (lambda X, y: bandwidth_curve({"x": X}, {"y": y[:-1]}), ValueError, "layer 'x' of a.*layer 'y' of b"),
        (lambda X, y: bandwidth_curve(X[:3], y[:3]), ValueError, "minimum of 4"),
        (lambda X, y: bandwidth_curve(X, y, bandwidths=[0.1, 0.0]), ValueError, "bandwidths must be"),
        (lambda X, y: bandwidth_curve(X, y, bandwidths=[]), ValueError, "bandwidths must be a list"),
        (lambda X, y: bandwidth_curve(X, y, kernel="linear"), ValueError, "has a bandwidth to vary"),
        (lambda X, y: bandwidth_curve(X, y, gamma=0.5), ValueError, "without gamma"),
        (lambda X, y: bandwidth_curve(X, y, DistanceCorrelation()), TypeError, "is for CKA, HSIC and AngularCKA"),
        (lambda X, y: bandwidth_curve(X, y, "kernel_alignment"), TypeError, "z-scores"),
        (lambda X, y: bandwidth_curve({"x": np.full((9, 1), math.nan)}), ValueError, "layer 'x' of a contains NaN"),
    ],
)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call(*pair())


def test_the_display_draws_value_chance_and_z_of_every_pair():
    curve = bandwidth_curve(layers(), bandwidths=WIDTHS)
    display = curve.plot()
    assert isinstance(display, BandwidthDisplay)
    assert sorted(display.lines_) == [("in", "mid"), ("in", "out"), ("mid", "out")]
    for (row, column), (value, chance, z) in display.lines_.items():
        i, j = curve.row_names.index(row), curve.column_names.index(column)
        for line, quantity in ((value, curve.values), (chance, curve.chance), (z, curve.z_scores)):
            np.testing.assert_array_equal(line.get_ydata(), quantity[:, i, j])
            np.testing.assert_array_equal(line.get_xdata(), WIDTHS)
    styles = {(value.get_marker(), tuple(value.get_color())) for value, _, _ in display.lines_.values()}
    assert len(styles) == 3
    assert len({marker for marker, _ in styles}) == 3
    top, bottom = display.axes_
    assert (top.get_xscale(), bottom.get_xscale()) == ("log", "log")
    assert [text.get_text() for text in top.get_legend().get_texts()][-1] == "by chance"


def test_the_display_draws_the_pairs_asked_for_or_the_eight_best():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 2))
    many = {f"l{k}": Z @ rng.standard_normal((2, 3)) + 0.3 * k * rng.standard_normal((30, 3)) for k in range(6)}
    curve = bandwidth_curve(many, bandwidths=WIDTHS)
    best = curve.z_scores.max(axis=0)[np.triu_indices(6, 1)]
    drawn = [np.max(z.get_ydata()) for _, _, z in curve.plot().lines_.values()]
    assert sorted(drawn) == pytest.approx(sorted(best)[-8:])
    _, axes = plt.subplots(1, 2)
    display = curve.plot(axes, pairs=[("l2", "l0")])
    assert list(display.lines_) == [("l2", "l0")]
    assert display.axes_ == tuple(axes)
    with pytest.raises(ValueError, match="pairs names"):
        curve.plot(pairs=[("l2", "nowhere")])
    with pytest.raises(ValueError, match="axes must be two panels, got 1"):
        curve.plot([axes[0]])
