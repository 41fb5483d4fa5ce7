"""The input contract, on every registered index: what any of them does with rows, numbers and memory of any kind."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from sklearn_cka import SimilarityWarning, UndefinedSimilarityWarning, compare_layers, get_index, index_names

N_ROWS, WIDTH = 40, 4

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


def _pair(n=N_ROWS):
    """Two positive matrices of one width, a similar one each row."""
    X = np.abs(np.random.default_rng(0).standard_normal((n, WIDTH))) + 0.1
    return X, X[:, ::-1] * np.random.default_rng(1).uniform(0.5, 2.0, (n, WIDTH))


def _takes_any_matrix(name):
    """Whether an index takes any two real matrices; those of labels, probabilities and the like test themselves."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimilarityWarning)
            get_index(name).similarity(*_pair())
    except (ValueError, ImportError):
        return False
    return not get_tags(get_index(name)).input_tags.pairwise


BUILT_IN = [name for name in index_names() if type(get_index(name)).__module__.startswith("sklearn_cka.")]
NAMES = [name for name in BUILT_IN if _takes_any_matrix(name)]
every_index = pytest.mark.parametrize("name", NAMES)


def value(name, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        return get_index(name).similarity(X, y)


def test_most_indexes_take_any_two_matrices():
    assert {"cka", "hsic", "kernel_alignment", "distance_correlation"} <= set(NAMES)
    assert len(NAMES) >= 0.7 * len(BUILT_IN)


@every_index
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["X", "y"])
def test_nan_and_infinity_are_named_with_their_argument(backend, name, side, wrong):
    X, y = _pair()
    (X if side == "X" else y)[3, 1] = wrong
    word = "NaN" if np.isnan(wrong) else "infinity"
    with pytest.raises(ValueError, match=rf"\b{side}\b.*{word}"):
        get_index(name).fit(backend.asarray(X), backend.asarray(y))


@every_index
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_rows_give_a_number_a_warned_nan_or_an_error_that_counts_them(name, n):
    X, y = _pair(n)
    index = get_index(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            similarity = index.similarity(X, y)
        except ValueError as error:
            assert f"{n} sample(s)" in str(error)  # noqa: PT017 (one of three allowed outcomes)
            assert n < index.properties.min_samples
            return
    assert n >= index.properties.min_samples
    kinds = [warning.category for warning in caught]
    assert math.isfinite(similarity) or UndefinedSimilarityWarning in kinds
    assert all(issubclass(kind, SimilarityWarning) for kind in kinds)


@every_index
def test_row_counts_that_differ_name_both(name):
    X, y = _pair()
    with pytest.raises(ValueError, match=r"40 samples .*37 samples"):
        get_index(name).fit(X, y[:-3])
    with pytest.raises(ValueError, match=r"40 samples .*37 samples"):
        compare_layers({"x": X}, {"y": y[:-3]}, index=name, verbose=0)


@every_index
def test_frames_in_another_order_are_refused_and_others_compared(name):
    X, y = _pair()
    labels = [f"row {i}" for i in range(N_ROWS)]
    X_frame, y_frame = (pd.DataFrame(Z, index=labels, columns=list("abcd")) for Z in (X, y))
    assert value(name, X_frame, y_frame) == pytest.approx(value(name, X, y), abs=1e-12)
    with pytest.raises(ValueError, match="the same but in another order"):
        get_index(name).fit(X_frame, y_frame.sample(frac=1.0, random_state=0))
    with pytest.raises(ValueError, match=r"row labels of .* differ"):
        get_index(name).fit(X_frame, y_frame.reset_index(drop=True))


@every_index
def test_memory_of_any_layout_gives_the_same_value_and_is_not_changed(name):
    X, y = _pair()
    expected = value(name, X, y)
    wide = np.zeros((2 * N_ROWS, 2 * WIDTH))
    wide[::2, ::2] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    before = X.copy(), y.copy()
    for form in (np.asfortranarray(X), wide[::2, ::2], X.astype(">f8"), read_only, X.tolist(), np.ma.array(X)):
        assert value(name, form, y) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


@every_index
def test_small_numbers_and_integers_are_promoted(name):
    X, y = _pair()
    for dtype, tolerance in (("f2", 1e-4), ("f4", 1e-4), ("u1", 1e-12), ("i8", 1e-12)):
        a, b = ((Z * (20 if dtype in ("u1", "i8") else 1)).astype(dtype) for Z in (X, y))
        expected = value(name, a.astype("f8"), b.astype("f8"))
        assert value(name, a, b) == pytest.approx(expected, abs=tolerance, rel=tolerance)


@every_index
def test_libraries_agree_and_results_are_python_floats(backend, name):
    X, y = _pair()
    expected = value(name, X, y)
    index = clone(get_index(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        index.fit(backend.asarray(X), backend.asarray(y))
        score = index.score(backend.asarray(X), backend.asarray(y))
    assert index.similarity_ == pytest.approx(expected, abs=1e-9, rel=1e-9)
    assert score == pytest.approx(expected, abs=1e-9, rel=1e-9)
    assert type(index.similarity_) is type(index.chance_) is type(score) is float


@every_index
@pytest.mark.parametrize("constant", [0.0, 3.7, 1 / 3])
def test_constant_sides_give_a_number_or_a_warned_nan(name, constant):
    X, _ = _pair()
    dead = np.full_like(X, constant)
    for pair in ((X, dead), (dead, X), (dead, dead)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            similarity = get_index(name).similarity(*pair)
        kinds = [warning.category for warning in caught]
        assert math.isfinite(similarity) or UndefinedSimilarityWarning in kinds
        assert all(issubclass(kind, SimilarityWarning) for kind in kinds)


@every_index
def test_what_is_no_matrix_of_numbers_is_refused(name):
    X, y = _pair()
    for wrong in (X[:, 0], X[None], 3.0, X * 1j, [["a"]] * N_ROWS, None, {"x": X}):
        with pytest.raises((ValueError, TypeError)):
            get_index(name).fit(wrong, y)
    for wrong in (y[None], 3.0, y * 1j, [["a"]] * N_ROWS, None, {"y": y}):
        with pytest.raises((ValueError, TypeError)):
            get_index(name).fit(X, wrong)


@every_index
def test_a_table_with_a_dead_layer_keeps_the_other_values(name):
    X, y = _pair()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        table = compare_layers({"x": X, "dead": np.full_like(X, 3.7), "y": y}, index=name, verbose=0)
    assert table.values[0, 2] == pytest.approx(value(name, X, y), abs=1e-9, rel=1e-9)
    assert table.values[2, 0] == pytest.approx(value(name, y, X), abs=1e-9, rel=1e-9)
    low, high = get_index(name).properties.range
    seen = table.values[np.isfinite(table.values)]
    assert ((seen >= low - 1e-9) & (seen <= high + 1e-9)).all()
