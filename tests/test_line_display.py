"""Uncertainty in figures: error bars of lines, and cells left blank by p-value."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from sklearn_cka import LineDisplay, SimilarityDisplay, compare_layers
from sklearn_cka.inference import table_inference


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    layers = {"in": X, "mid": X + rng.standard_normal((80, 4)), "noise": rng.standard_normal((80, 3))}
    return table_inference(layers, debiased=True)


def test_lines_have_the_standard_errors_as_bars(table):
    display = table.plot_lines()
    assert isinstance(display, LineDisplay)
    assert len(display.lines_) == 3
    for k, (line, _, (bars,)) in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_ydata(), table.values[k])
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * table.standard_error[k], atol=1e-12)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["in", "mid", "noise"]
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["in", "mid", "noise"]
    assert display.ax_.get_ylabel() == "CKA (debiased=True)"
    assert display.figure_ is display.ax_.figure


def test_lines_differ_in_marker_and_in_lightness(table):
    lines = [container[0] for container in table.plot_lines().lines_]
    assert len({line.get_marker() for line in lines}) == 3
    lightness = [np.dot(mpl.colors.to_rgb(line.get_color()), [0.299, 0.587, 0.114]) for line in lines]
    assert (np.diff(lightness) > 0.15).all()


def test_rows_are_chosen_by_name_or_evenly(table):
    chosen = table.plot_lines(rows=["noise", "in"])
    np.testing.assert_array_equal(chosen.lines_[0][0].get_ydata(), table.values[2])
    np.testing.assert_array_equal(chosen.lines_[1][0].get_ydata(), table.values[0])
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 2))
    many = compare_layers([Z + k * rng.standard_normal((30, 2)) for k in range(15)], debiased=True)
    display = many.plot_lines()
    assert display.row_names == ["0", "2", "4", "6", "8", "10", "12", "14"]
    assert all(not container[2] for container in display.lines_)  # no bars without errors
    with pytest.raises(ValueError, match=r"rows names \['out'\]; the rows are in, mid, noise"):
        table.plot_lines(rows=["out"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, 0.2],), r"values must have shape \(n_lines, n_columns\), got \(2,\)"),
        (([[0.1, 0.2]], [[0.1]]), r"standard_error must have the shape of values, \(1, 2\); got \(1, 1\)"),
        (([[0.1, 0.2]], None, ["a", "b"]), "row_names holds 2 names"),
    ],
    ids=["values", "errors", "names"],
)
def test_lines_that_do_not_fit_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        LineDisplay(*arguments).plot()


def colors_of_cells(display, shape):
    """Return the mean colour of the left margin of every cell, beside the printed value."""
    display.figure_.canvas.draw()
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3] / 255
    found = np.empty((*shape, 3))
    for i, j in np.ndindex(shape):
        x0, y0 = display.ax_.transData.transform((j - 0.45, i + 0.1))
        x1, y1 = display.ax_.transData.transform((j - 0.38, i - 0.1))
        found[i, j] = pixels[len(pixels) - int(y1) : len(pixels) - int(y0), int(x0) + 1 : int(x1) + 1].mean((0, 1))
    return found


def test_cells_above_the_level_are_white_and_their_values_grey(table):
    blank = table.pvalue > 0.05
    assert blank.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    display = table.plot(alpha=0.05)
    colors = colors_of_cells(display, table.shape)
    assert (colors[blank] > 0.98).all()
    assert (colors[~blank].min(axis=-1) < 0.6).all()
    assert {text.get_color() for text in display.text_[blank]} == {"0.4"}
    assert "0.4" not in {text.get_color() for text in display.text_[~blank]}
    assert display.colorbar_.ax.get_ylabel().replace("\n", " ").endswith("blank if p > 0.05")


def test_any_cells_can_be_masked_and_undefined_ones_stay_hatched():
    values = np.array([[0.9, 0.3], [np.nan, 0.5]])
    display = SimilarityDisplay(values).plot(mask=[[False, True], [True, False]])
    colors = colors_of_cells(display, (2, 2))
    assert (colors[0, 1] > 0.98).all()
    assert (colors[0, 0].min(), colors[1, 1].min()) < (0.6, 0.6)
    cover = display.ax_.images[1].get_array()
    assert cover[..., 3].tolist() == [[0.0, 1.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match=r"mask must have the shape of values, \(2, 2\); got \(1, 2\)"):
        SimilarityDisplay(values).plot(mask=[[True, False]])


def test_levels_need_p_values_and_lie_between_0_and_1(table):
    with pytest.raises(ValueError, match="make it by table_inference"):
        compare_layers({"a": np.eye(5), "b": np.eye(5)[:, :2]}, debiased=True).plot(alpha=0.05)
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1, got 5"):
        table.plot(alpha=5)
