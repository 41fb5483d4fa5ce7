"""`compare_layers(tol=)`: as many rows as the standard errors need, against leaving out every row."""

import warnings

import numpy as np
import pytest

from sklearn_cka import ToleranceWarning, UndefinedSimilarityWarning, compare_layers, similarity
from sklearn_cka.inference import table_inference
from sklearn_cka.pairwise import _enough_rows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(_enough_rows, "FIRST_ROWS", 20)


def layers(n=150, seed=0, offset=0.5):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 3))
    return {"in": Z, "mid": Z**2 + offset * rng.standard_normal((n, 3)), "out": Z[:, :2] + rng.standard_normal((n, 2))}


def errors_by_leaving_out(a, b, rows, name, params):
    """Return the jackknife standard errors from the index of all rows but one."""
    errors = np.empty((len(a), len(b)))
    for i, X in enumerate(a.values()):
        for j, y in enumerate(b.values()):
            kept = [np.delete(rows, k) for k in range(len(rows))]
            values = np.array([similarity(X[k], y[k], name, **params) for k in kept])
            errors[i, j] = np.sqrt((len(rows) - 1) * np.var(values))
    return errors


@pytest.mark.parametrize(
    ("name", "params", "tol"),
    [
        ("cka", {"debiased": True}, 0.08),
        ("cka", {}, 0.07),
        ("cka", {"kernel": "rbf", "gamma": 0.2}, 0.05),
        ("hsic", {"kernel": "rbf", "gamma": 0.2, "debiased": True}, 0.004),
        ("distance_correlation", {}, 0.05),
    ],
    ids=str,
)
@pytest.mark.parametrize("sides", [1, 2])
def test_rows_are_added_until_every_error_is_small(name, params, tol, sides):
    a, b = layers(), layers(seed=0, offset=2.0)
    given = (a,) if sides == 1 else (a, b)
    table = compare_layers(*given, index=name, tol=tol, random_state=3, **params)
    order = np.random.RandomState(3).permutation(150)
    for size in (20, 30, 45, 67, 101, 150):
        rows = np.sort(order[:size])
        errors = errors_by_leaving_out(a, given[-1], rows, name, params)
        if (errors <= tol).all():
            break
    assert 20 < size < 150
    np.testing.assert_array_equal(table.rows, rows)
    assert table.n_samples == size
    np.testing.assert_allclose(table.standard_error, errors, rtol=1e-8, atol=1e-9)


def test_the_table_is_that_of_the_rows_taken_and_carries_the_errors():
    a, b = layers(), layers(seed=0, offset=2.0)
    table = compare_layers(a, b, debiased=True, tol=0.06)
    chosen = [{name: X[table.rows] for name, X in side.items()} for side in (a, b)]
    same = compare_layers(*chosen, debiased=True)
    np.testing.assert_array_equal(table.values, same.values)
    np.testing.assert_allclose(
        table.standard_error, table_inference(*chosen, debiased=True).standard_error, rtol=1e-8, atol=1e-12
    )
    assert table.to_frame(tidy=True)["standard_error"].tolist() == table.standard_error.ravel().tolist()


def test_the_rows_are_seeded():
    a = layers()
    one, again, other = (compare_layers(a, debiased=True, tol=0.06, random_state=seed).rows for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert one.tolist() != other.tolist()


def test_all_rows_are_taken_and_told_where_they_are_too_few():
    a = layers()
    with pytest.warns(
        ToleranceWarning, match=r"With all 150 rows the largest standard error is 0\.\d+, above tol=0.001"
    ):
        table = compare_layers(a, debiased=True, tol=0.001)
    assert table.rows.tolist() == list(range(150))
    np.testing.assert_array_equal(table.values, compare_layers(a, debiased=True).values)


def test_fewer_rows_than_a_block_are_all_taken():
    a = {name: X[:15] for name, X in layers().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ToleranceWarning)
        assert compare_layers(a, tol=1.0).rows.tolist() == list(range(15))


def test_constant_layers_do_not_ask_for_more_rows_and_rare_ones_do():
    a = layers() | {"dead": np.ones((150, 2))}
    with pytest.warns(UndefinedSimilarityWarning, match="'dead'"):
        table = compare_layers(a, debiased=True, tol=0.06)
    assert table.n_samples == compare_layers(layers(), debiased=True, tol=0.06).n_samples < 150
    rare = np.zeros((150, 1))
    rare[np.random.RandomState(0).permutation(150)[-1]] = 1.0
    assert compare_layers(layers() | {"rare": rare}, tol=0.5).n_samples == 150


def test_rows_are_taken_where_they_lie(backend):
    a = {name: backend.asarray(X) for name, X in layers().items()}
    expected = compare_layers(layers(), debiased=True, tol=0.06)
    table = compare_layers(a, debiased=True, tol=0.06)
    np.testing.assert_array_equal(table.rows, expected.rows)
    np.testing.assert_allclose(table.standard_error, expected.standard_error, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"index": "procrustes", "tol": 0.1}, "tol needs standard errors in closed form"),
        ({"tol": 0.0}, "tol must be"),
        ({"tol": 0.1, "output": "distance"}, "needs output=\"similarity\", got 'distance'"),
        ({"tol": 0.1, "feature_map": "any"}, "exclude each other"),
    ],
    ids=str,
)
def test_errors_say_what_is_wrong(params, message):
    with pytest.raises(ValueError, match=message):
        compare_layers(layers(), **params)
