"""The curves over planted changes, against what arithmetic says of them."""

import math

import matplotlib
import numpy as np
import pytest

from benchmarks.known_truth.__main__ import SHOWN, draw_all, draw_curves, indexes, main, measure
from benchmarks.known_truth.changes import CHANGES, N_DIRECTIONS, SPECTRUM

FEW = ("cka", "cca, mean squared", "procrustes", "linear_predictivity", "soft_matching")


@pytest.fixture(scope="module")
def frame():
    return measure(2, FEW, verbose=False)


def values(frame, change, index):
    part = frame[(frame["change"] == change) & (frame["index"] == index)]
    assert list(part["amount"]) == list(CHANGES[change].amounts)
    return part["value"].to_numpy()


@pytest.mark.parametrize("index", ["cka", "cca, mean squared", "procrustes", "linear_predictivity"])
def test_mixing_units_changes_no_index_that_is_invariant_to_rotation(frame, index):
    np.testing.assert_allclose(values(frame, "rotation", index), 1.0, rtol=1e-9)


def test_mixing_units_is_seen_by_matching_of_units(frame):
    found = values(frame, "rotation", "soft_matching")
    assert found[0] == pytest.approx(1.0)
    assert (np.diff(found) < 0).all()


def test_cka_without_the_smallest_directions_follows_from_the_spectrum(frame):
    kept = [N_DIRECTIONS - int(amount) for amount in CHANGES["smallest dropped"].amounts]
    expected = [math.sqrt(sum(SPECTRUM[:k] ** 4) / sum(SPECTRUM**4)) for k in kept]
    np.testing.assert_allclose(values(frame, "smallest dropped", "cka"), expected, rtol=1e-9)


def test_squared_correlations_count_the_directions_shared(frame):
    expected = [1 - amount / N_DIRECTIONS for amount in CHANGES["subspace"].amounts]
    np.testing.assert_allclose(values(frame, "subspace", "cca, mean squared"), expected, rtol=1e-9, atol=1e-12)


def test_rescaling_is_seen_by_cka_and_not_by_cca(frame):
    reversed_spectrum = 1 / SPECTRUM
    expected = N_DIRECTIONS / np.sqrt(np.sum(SPECTRUM**4) * np.sum(reversed_spectrum**4))
    np.testing.assert_allclose(values(frame, "rescaling", "cka")[-1], expected, rtol=1e-9)
    np.testing.assert_allclose(values(frame, "rescaling", "cca, mean squared"), 1.0, rtol=1e-9)


def test_moved_rows_lower_cka_to_nothing_and_leave_regression(frame):
    assert values(frame, "translation", "cka")[-1] < 0.05
    assert values(frame, "translation", "linear_predictivity")[-1] > 0.95


def test_two_outliers_raise_cka_to_one(frame):
    found = values(frame, "outliers", "cka")
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[-1] > 0.98


def test_every_index_of_any_widths_is_measured():
    assert {"cka", "cka, debiased", "svcca", "mutual_knn", "gulp"} <= set(indexes())
    assert "prediction_agreement" not in indexes()
    assert set(SHOWN) <= set(indexes())


def test_figures_show_what_the_table_holds(frame):
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    curves, everything = draw_curves(frame), draw_all(frame)
    line = curves.axes[list(CHANGES).index("translation")].get_lines()[list(SHOWN).index("cka")]
    np.testing.assert_allclose(line.get_ydata(), values(frame, "translation", "cka"))
    first = everything.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == sorted(FEW)
    assert first.images[0].get_array().shape == (len(FEW), len(CHANGES["rotation"].amounts))
    plt.close("all")


def test_main_writes_a_table_and_two_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "benchmarks.known_truth.__main__.indexes",
        lambda: {name: indexes()[name] for name in SHOWN if "rbf" not in name},
    )
    main(["--out", str(tmp_path), "--seeds", "1"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "known_truth.csv",
        "known_truth_curves.png",
        "known_truth_indexes.png",
    ]
    assert "200 rows, 20 directions, 1 seeds" in capsys.readouterr().out
