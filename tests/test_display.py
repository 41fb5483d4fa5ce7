"""The heat map: every name legible, every value where it belongs, nothing shown by itself."""

import ast
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import sklearn_cka.display
from sklearn_cka.display import SimilarityDisplay, shorten_names
from sklearn_cka.pairwise import SimilarityTable

NAN = float("nan")


@pytest.fixture(autouse=True)
def _close_figures(monkeypatch):
    def show(*args, **kwargs):
        raise AssertionError("a display must not call show()")

    monkeypatch.setattr(plt, "show", show)
    yield
    plt.close("all")


def band(n, m):
    """Similarities in [0, 1] with a bright diagonal."""
    i, j = np.mgrid[:n, :m]
    return np.exp(-(((i + 0.5) / n - (j + 0.5) / m) ** 2) * 20)


def names(prefix, n):
    return [f"{prefix}{i}" for i in range(n)]


def make_table(values, **changes):
    values = np.asarray(values, dtype=float)
    settings = {
        "values": values,
        "chance": np.full(values.shape, 0.25),
        "row_names": names("a", values.shape[0]),
        "column_names": names("b", values.shape[1]),
        "index": "cka",
        "params": {},
        "symmetric": False,
        "n_samples": 10,
    }
    return SimilarityTable(**(settings | changes))


def contrast(text, display, value):
    """WCAG contrast of a text with its cell, written out channel by channel."""

    def luminance(color):
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3])
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    a, b = luminance(mpl.colors.to_rgb(text.get_color())), luminance(display.im_.cmap(display.im_.norm(value)))
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_rows_are_on_the_y_axis_with_the_first_at_the_top():
    display = SimilarityDisplay([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], ["r0", "r1"], ["c0", "c1", "c2"]).plot()
    ax = display.ax_
    assert [t.get_text() for t in ax.get_yticklabels()] == ["r0", "r1"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["c0", "c1", "c2"]
    bottom, top = ax.get_ylim()
    assert bottom > top
    assert [[t.get_text() for t in row] for row in display.text_] == [
        ["0.10", "0.20", "0.30"],
        ["0.40", "0.50", "0.60"],
    ]
    assert display.text_[1, 2].get_position() == (2, 1)
    np.testing.assert_array_equal(display.im_.get_array(), [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    assert display.figure_ is ax.figure
    assert display.colorbar_.ax.get_ylabel() == "similarity"


def test_origin_lower_puts_the_first_row_at_the_bottom():
    bottom, top = SimilarityDisplay(band(3, 3)).plot(origin="lower").ax_.get_ylim()
    assert bottom < top


def test_names_default_to_positions():
    ax = SimilarityDisplay(band(2, 3)).plot().ax_
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("values", "bounds", "limits"),
    [
        ([[0.2, 0.7]], None, (0, 1)),
        ([[0.2, -0.3]], None, (-0.3, 1)),
        ([[0.2, -0.3]], (-1, 1), (-0.3, 1)),
        ([[3.0, 50.0]], None, (0, 50)),
        ([[1e-5, 4e-5]], (0, np.inf), (0, 4e-5)),
        ([[-2e-5, 4e-5]], (-np.inf, np.inf), (-2e-5, 4e-5)),
        ([[NAN, 0.5]], None, (0, 1)),
        ([[NAN, NAN]], None, (0, 1)),
        ([[0.0, 0.0]], (0, np.inf), (0, 1)),
        ([[np.inf, 0.5]], None, (0, 1)),
    ],
)
def test_color_limits_hold_zero_every_value_and_the_maximum(values, bounds, limits):
    display = SimilarityDisplay(values, bounds=bounds).plot()
    assert display.im_.get_clim() == limits


def test_color_limits_can_be_given():
    assert SimilarityDisplay(band(2, 2)).plot(im_kw={"vmin": -1, "vmax": 2}).im_.get_clim() == (-1, 2)
    norm = mpl.colors.TwoSlopeNorm(0.5, 0, 1)
    assert SimilarityDisplay(band(2, 2)).plot(im_kw={"norm": norm}).im_.norm is norm


def test_undefined_cells_are_blank():
    display = SimilarityDisplay([[0.1, NAN], [0.9, np.inf]]).plot(colorbar=False)
    assert display.text_[0, 1] is None
    assert display.text_[1, 1] is None
    assert display.text_[0, 0].get_text() == "0.10"
    display.figure_.canvas.draw()
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3] / 255

    def mean_color(i, j):
        x0, y0 = display.ax_.transData.transform((j - 0.3, i + 0.3))
        x1, y1 = display.ax_.transData.transform((j + 0.3, i - 0.3))
        rows = slice(len(pixels) - int(y1), len(pixels) - int(y0))
        return pixels[rows, int(x0) : int(x1)].mean((0, 1))

    assert mean_color(0, 1).min() > 0.8  # white with a light hatch
    assert np.ptp(mean_color(0, 1)) < 0.01
    dark = np.array(mpl.colormaps["viridis"](0.1)[:3])
    np.testing.assert_allclose(mean_color(0, 0), dark, atol=0.15)


def test_the_registered_colormap_is_left_alone():
    before = mpl.colormaps["viridis"].get_bad()
    mine = mpl.colormaps["cividis"]
    SimilarityDisplay(band(2, 2)).plot()
    display = SimilarityDisplay(band(2, 2)).plot(cmap=mine)
    np.testing.assert_array_equal(mpl.colormaps["viridis"].get_bad(), before)
    assert display.im_.cmap.name == "cividis"
    assert display.im_.cmap is not mine


@pytest.mark.parametrize("cmap", ["viridis", "cividis", "gray", "RdBu"])
def test_printed_values_stand_out_from_their_cells(cmap):
    values = np.linspace(0, 1, 144).reshape(12, 12)
    display = SimilarityDisplay(values).plot(cmap=cmap)
    contrasts = [contrast(display.text_[cell], display, values[cell]) for cell in np.ndindex(values.shape)]
    assert min(contrasts) >= 4.5


def test_colors_are_ordered_in_greyscale():
    display = SimilarityDisplay(band(2, 2)).plot()
    colors = display.im_.cmap(np.linspace(0, 1, 64))[:, :3]
    assert (np.diff(colors @ [0.299, 0.587, 0.114]) > 0).all()


def test_values_are_printed_in_small_tables_only():
    assert SimilarityDisplay(band(15, 3)).plot().text_.shape == (15, 3)
    assert SimilarityDisplay(band(16, 3)).plot().text_ is None
    assert SimilarityDisplay(band(16, 3)).plot(include_values=True).text_.shape == (16, 3)
    assert SimilarityDisplay(band(3, 3)).plot(include_values=False).text_ is None


@pytest.mark.parametrize(
    ("values", "spec", "expected"),
    [
        ([[0.126, -0.001]], None, ["0.13", "0.00"]),
        ([[0.126, -0.001]], ".3f", ["0.126", "-0.001"]),
        ([[12345.0, 1.0]], None, ["1.2e+04", "1"]),
        ([[1.26e-6, 0.0]], None, ["1.3e-06", "0"]),
    ],
)
def test_format_of_printed_values(values, spec, expected):
    display = SimilarityDisplay(values).plot(values_format=spec)
    assert [text.get_text() for text in display.text_[0]] == expected


def test_printed_values_stay_inside_their_cells():
    for values in (band(12, 12), -band(4, 4), 1e5 * band(5, 5)):
        display = SimilarityDisplay(values).plot()
        display.figure_.canvas.draw()
        cell = display.ax_.get_window_extent().width / values.shape[1]
        assert max(t.get_window_extent().width for t in display.text_.ravel()) <= cell


def test_text_and_image_options_are_passed_on():
    display = SimilarityDisplay(band(2, 2)).plot(text_kw={"color": "red", "fontsize": 5}, im_kw={"alpha": 0.5})
    assert display.text_[0, 0].get_color() == "red"
    assert display.text_[0, 0].get_fontsize() == 5
    assert display.im_.get_alpha() == 0.5


LONG = "encoder.layer.{}.attention.output.LayerNorm.normalised"


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (names("fc", 2), names("fc", 2)),
        (names("conv", 12), names("conv", 12)),
        (names("layer", 50), names("layer", 40)),
        ([LONG.format(i) for i in range(50)], [LONG.format(i) for i in range(40)]),
        (["a", "b"], [LONG.format(i) for i in range(50)]),
        ([LONG.format(i) for i in range(50)], ["a", "b"]),
    ],
    ids=["2x2", "12x12", "50x40", "50x40 long", "2x50", "50x2"],
)
def test_every_name_is_legible(rows, columns):
    display = SimilarityDisplay(band(len(rows), len(columns)), rows, columns, row_label="a", column_label="b").plot()
    display.figure_.canvas.draw()
    figure = display.figure_.bbox
    for labels, expected, side in [
        (display.ax_.get_yticklabels(), rows, "y"),
        (display.ax_.get_xticklabels(), columns, "x"),
    ]:
        assert len(labels) == len(expected)
        assert len({label.get_text() for label in labels}) == len(expected)
        assert min(label.get_fontsize() for label in labels) >= 6
        boxes = [label.get_window_extent() for label in labels]
        for box in boxes:
            assert figure.x0 <= box.x0 < box.x1 <= figure.x1
            assert figure.y0 <= box.y0 < box.y1 <= figure.y1
        boxes.sort(key=lambda box: getattr(box, f"{side}0"))
        for before, after in pairwise(boxes):
            assert getattr(before, f"{side}1") <= getattr(after, f"{side}0") + 1
    for label in (display.ax_.xaxis.label, display.ax_.yaxis.label):
        box = label.get_window_extent()
        assert figure.x0 <= box.x0
        assert figure.y0 <= box.y0


def test_two_hundred_layers_have_every_second_name_or_fewer():
    display = SimilarityDisplay(band(200, 200)).plot()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[:3] == ["0", "2", "4"]
    assert max(display.figure_.get_size_inches()) < 13


def test_names_fit_axes_of_the_caller():
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    long = [LONG.format(i) for i in range(24)]
    display = SimilarityDisplay(band(24, 24), long, long, row_label="a").plot(ax=left)
    SimilarityDisplay(band(4, 4)).plot(ax=right, colorbar=False)
    assert display.ax_ is left
    assert display.figure_ is figure
    figure.canvas.draw()
    boxes = sorted((label.get_window_extent() for label in left.get_yticklabels()), key=lambda box: box.y0)
    assert all(before.y1 <= after.y0 + 1 for before, after in pairwise(boxes))
    assert left.yaxis.label.get_window_extent().x0 >= 0
    assert left.get_yticklabels()[0].get_text() == "…" + long[0][4 : 4 + 38] + "…"


def test_axes_in_a_subfigure():
    figure = plt.figure(layout="constrained")
    ax = figure.subfigures(1, 2)[0].subplots()
    assert SimilarityDisplay(band(3, 3)).plot(ax=ax).ax_ is ax


def test_rotation_of_column_names():
    short = SimilarityDisplay(band(2, 2), list("ab"), list("ab")).plot().ax_.get_xticklabels()[0]
    assert short.get_rotation() == 0
    long = SimilarityDisplay(band(12, 12), None, names("a.long.layer.name", 12))
    assert long.plot().ax_.get_xticklabels()[0].get_rotation() == 90
    assert long.plot(xticks_rotation="horizontal").ax_.get_xticklabels()[0].get_rotation() == 0
    slanted = long.plot(xticks_rotation=45).ax_.get_xticklabels()[0]
    assert slanted.get_rotation() == 45
    assert slanted.get_ha() == "right"


def test_colorbar_can_be_left_out():
    display = SimilarityDisplay(band(2, 2)).plot(colorbar=False)
    assert display.colorbar_ is None
    assert len(display.figure_.axes) == 1


def test_long_labels_of_the_colorbar_are_wrapped():
    display = SimilarityDisplay(band(2, 2), label="cka (kernel=rbf, bandwidth=0.4, debiased=True)").plot()
    assert "\n" in display.colorbar_.ax.get_ylabel()


def test_table_is_drawn_with_its_names_and_index():
    display = make_table(band(2, 3), params={"kernel": "rbf", "bandwidth": 0.4}).plot()
    assert isinstance(display, SimilarityDisplay)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["a0", "a1"]
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["b0", "b1", "b2"]
    assert display.ax_.get_ylabel() == "first model"
    assert display.ax_.get_xlabel() == "second model"
    assert display.label == "CKA (kernel=rbf, bandwidth=0.4)"


def test_table_of_one_collection_has_one_kind_of_layer():
    sides = {"row_names": list("xyz"), "column_names": list("xyz"), "symmetric": True}
    ax = make_table(np.eye(3), **sides).plot(column_label="ResNet").ax_
    assert ax.get_ylabel() == "layer"
    assert ax.get_xlabel() == "ResNet"


def test_other_quantities_of_a_table():
    table = make_table([[0.25, 0.625], [1.0, 0.1]])
    adjusted = SimilarityDisplay.from_table(table, quantity="adjusted")
    np.testing.assert_allclose(adjusted.im_.get_array(), [[0, 0.5], [1, -0.2]], atol=1e-15)
    assert adjusted.label == "CKA, adjusted for chance"
    assert adjusted.im_.get_clim() == pytest.approx((-0.2, 1))
    chance = table.plot(quantity="chance", label="by luck")
    assert (chance.im_.get_array() == 0.25).all()
    assert chance.colorbar_.ax.get_ylabel() == "by luck"
    with pytest.raises(ValueError, match="quantity must be one of 'similarity', 'adjusted', 'chance', got 'values'"):
        table.plot(quantity="values")


def test_bounds_of_a_table_set_the_colors():
    assert make_table([[1e-5, 4e-5]], index="hsic", bounds=(0.0, np.inf)).plot().im_.get_clim() == (0, 4e-5)


def test_values_and_names_must_fit():
    with pytest.raises(ValueError, match=r"values must have shape \(n_rows, n_columns\), got \(3,\)"):
        SimilarityDisplay([1, 2, 3]).plot()
    with pytest.raises(ValueError, match="row_names holds 1 names, but values has 2 of them"):
        SimilarityDisplay(np.eye(2), ["a"]).plot()


def test_missing_matplotlib_is_answered_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn_cka\[plot\]"'):
        make_table(np.eye(2)).plot()


def test_display_imports_nothing_of_the_computation_and_matplotlib_only_when_drawing():
    tree = ast.parse(Path(sklearn_cka.display.__file__).read_text(encoding="utf-8"))
    modules = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    modules += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [m for m in modules if m.startswith("sklearn_cka")]
    at_import = [a.name for node in tree.body if isinstance(node, ast.Import) for a in node.names]
    assert not [m for m in at_import if m.startswith("matplotlib")]


def test_names_are_shortened_in_the_middle():
    assert shorten_names(["short", "backbone.layer4.2.bn3.output"], 16) == ["short", "backb…bn3.output"]


def test_shortened_names_stay_distinct():
    long = [f"same.start.of.the.name.{i}.same.end.of.the.name" for i in range(12)]
    short = shorten_names(long, 20)
    assert len(set(short)) == 12
    assert max(map(len, short)) <= 20
    twins = ["a" * 10 + "x" * 30 + "b" + "c" * 10, "a" * 10 + "x" * 30 + "d" + "c" * 10]
    assert len(set(shorten_names(twins, 20))) == 2
