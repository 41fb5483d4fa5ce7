"""The table of similarities: what it holds, what it becomes, how it is printed."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest

from sklearn_cka.pairwise import SimilarityTable

NAN = float("nan")


def brute(X, Y):
    return X @ Y.T


def make_table(values=((0.9, 0.2, 0.4), (0.3, NAN, 0.7)), **changes):
    values = np.array(values)
    n_rows, n_columns = values.shape
    settings = {
        "values": values,
        "chance": np.full(values.shape, 0.1),
        "row_names": [f"a{i}" for i in range(n_rows)],
        "column_names": [f"b{j}" for j in range(n_columns)],
        "index": "cka",
        "params": {"debiased": True},
        "symmetric": False,
        "n_samples": 50,
    }
    return SimilarityTable(**(settings | changes))


def test_frame_has_the_first_collection_in_rows():
    frame = make_table().to_frame()
    assert list(frame.index) == ["a0", "a1"]
    assert list(frame.columns) == ["b0", "b1", "b2"]
    assert frame.loc["a0", "b2"] == 0.4
    assert frame.loc["a1", "b0"] == 0.3
    assert np.isnan(frame.loc["a1", "b1"])


def test_changing_the_frame_leaves_the_table():
    table = make_table()
    for frame in (table.to_frame(), table.to_frame(tidy=True)):
        frame.iloc[0, -1] = -1
        frame.iloc[0, -2] = -1
    np.testing.assert_array_equal(table.values, [[0.9, 0.2, 0.4], [0.3, NAN, 0.7]])
    assert (table.chance == 0.1).all()


def test_tidy_frame_has_a_line_for_every_pair():
    chance = np.arange(6.0).reshape(2, 3) / 10
    tidy = make_table(chance=chance).to_frame(tidy=True)
    expected = pd.DataFrame(
        [
            ("a0", "b0", 0.9, 0.0),
            ("a0", "b1", 0.2, 0.1),
            ("a0", "b2", 0.4, 0.2),
            ("a1", "b0", 0.3, 0.3),
            ("a1", "b1", NAN, 0.4),
            ("a1", "b2", 0.7, 0.5),
        ],
        columns=["row", "column", "similarity", "chance"],
    )
    pd.testing.assert_frame_equal(tidy, expected, check_dtype=False)
    pd.testing.assert_frame_equal(
        tidy.pivot(index="row", columns="column", values="similarity"), make_table().to_frame(), check_names=False
    )


def test_best_match_skips_undefined_values_and_takes_the_first_of_equals():
    table = make_table([[0.1, NAN, 0.7], [0.5, 0.5, 0.2], [NAN, NAN, NAN], [-0.3, -0.1, -0.2]])
    best = table.best_match()
    assert list(best.columns) == ["row", "column", "similarity"]
    assert list(best["row"]) == ["a0", "a1", "a2", "a3"]
    assert list(best["column"]) == ["b2", "b0", None, "b1"]
    np.testing.assert_array_equal(best["similarity"], [0.7, 0.5, NAN, -0.1])


def test_best_match_without_a_layer_itself():
    values = [[1, 0.2, 0.6], [0.2, 1, 0.4], [0.6, 0.4, 1]]
    table = make_table(values, row_names=list("xyz"), column_names=list("xyz"), symmetric=True)
    assert list(table.best_match()["column"]) == ["x", "y", "z"]
    assert list(table.best_match(exclude_self=True)["column"]) == ["z", "z", "x"]
    np.testing.assert_array_equal(table.best_match(exclude_self=True)["similarity"], [0.6, 0.4, 0.6])


def test_adjusted_is_zero_at_chance_and_one_at_the_maximum():
    table = make_table([[0.4, 1.0, 0.7], [0.1, 0.5, 1.0]], chance=np.array([[0.4, 0.2, 0.5], [0.2, NAN, 1.0]]))
    np.testing.assert_allclose(table.adjusted, [[0, 1, 0.4], [-0.125, NAN, NAN]], atol=1e-15)


def test_adjusted_needs_an_index_with_maximum_one():
    with pytest.raises(ValueError, match="Only an index with maximum 1 can be adjusted for chance; 'hsic'"):
        _ = make_table(index="hsic", bounds=(0.0, np.inf)).adjusted
    assert make_table(bounds=(-1.0, 1.0)).adjusted[0, 0] == pytest.approx(0.8 / 0.9)


def test_unknown_chance_is_nan():
    table = make_table(chance=None)
    assert table.chance.shape == (2, 3)
    assert np.isnan(table.chance).all()
    assert np.isnan(table.adjusted).all()


def test_table_cannot_be_changed():
    values = np.array([[0.5, 0.25]])
    table = make_table(values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.index = "other"
    for array in (table.values, table.chance):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    values[0, 0] = 0.75  # the caller's own array stays writable
    params = {"kernel": "rbf"}
    table = make_table(params=params)
    params["kernel"] = "linear"
    assert table.params == {"kernel": "rbf"}


def test_tables_are_compared_by_identity():
    table = make_table()
    assert table == table
    assert table != make_table()
    assert len({table, table}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.ones(3)}, r"`values` must be a non-empty array of shape .* got shape \(3,\)"),
        ({"values": np.ones((0, 3))}, r"`values` must be a non-empty array"),
        ({"chance": np.ones((3, 2))}, r"`chance` must have the shape of `values`, \(2, 3\); got \(3, 2\)"),
        ({"row_names": ["a"]}, "`row_names` holds 1 names for 2 layers"),
        ({"column_names": list("abcd")}, "`column_names` holds 4 names for 3 layers"),
        ({"column_names": ["a", "b", "a"]}, "`column_names` holds 'a' more than once"),
        ({"symmetric": True}, "symmetric table needs the same names"),
        ({"n_samples": 0}, "`n_samples` must be at least 1; got 0"),
    ],
)
def test_inconsistent_parts_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make_table(), **changes)


def test_a_table_said_to_be_symmetric_must_be():
    sides = {"row_names": ["x", "y"], "column_names": ["x", "y"], "symmetric": True}
    assert make_table([[1, NAN], [NAN, 1]], **sides).shape == (2, 2)
    with pytest.raises(ValueError, match="differ from their transpose"):
        make_table([[1, 0.2], [0.3, 1]], **sides)


def test_text_of_a_small_table():
    text = repr(make_table([[0.9, -0.00001], [NAN, 1]]))
    assert text == (
        "SimilarityTable: cka(debiased=True), 2 x 2 layers, 50 samples\n"
        "       b0     b1\n"
        "a0  0.900  0.000\n"
        "a1      -  1.000"
    )


def test_text_names_functions_among_the_parameters():
    assert "cka(kernel=brute, bandwidth=0.4)" in repr(make_table(params={"kernel": brute, "bandwidth": 0.4}))


def test_text_of_a_large_table_fits_a_terminal_and_tells_layers_apart():
    names = [f"model.encoder.layer.{i}.attention.output.dense.activation" for i in range(60)]
    lines = repr(make_table(np.eye(60), row_names=names, column_names=names, symmetric=True)).splitlines()
    assert lines[0].endswith("60 x 60 layers, 50 samples")
    assert max(map(len, lines)) <= 120
    assert lines[-1] == "..."
    assert len(lines) == 27
    assert lines[2].endswith("...")
    assert len({line.split()[0] for line in lines[2:-1]}) == 24


def test_text_of_tiny_values_keeps_their_digits():
    assert repr(make_table([[1.23456e-7]])).splitlines()[-1] == "a0  1.23e-07"


def test_notebook_table_escapes_names():
    table = make_table([[0.5, NAN]], row_names=["<script>a</script>"], column_names=["<b>x</b>", "y&z"], index="<i>")
    page = table._repr_html_()
    for raw in ("<script>", "<b>x", "y&z", "<i>"):
        assert raw not in page
    for escaped in ("&lt;script&gt;a&lt;/script&gt;", "&lt;b&gt;x&lt;/b&gt;", "y&amp;z", "&lt;i&gt;"):
        assert escaped in page
    assert "<td>0.500</td>" in page
    assert "<td>-</td>" in page


def test_pickle_round_trip():
    table = make_table(plan="gram")
    again = pickle.loads(pickle.dumps(table))
    np.testing.assert_array_equal(again.values, table.values)
    assert again.row_names == table.row_names
    assert again.plan == "gram"
    assert dataclasses.replace(again, n_samples=7).n_samples == 7
