"""Indexes against their definitions on random representations of every shape and difficulty.

The definitions are those of ``brute_force``: exact rational arithmetic for linear kernels, so that offsets and scales
of the data cost the reference nothing.
"""

import math

import brute_force as bf
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sklearn_cka import cka, distance_correlation, hsic, kernel_alignment

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

# What rounding of the data's precision may do to a ratio.
FLOAT64, FLOAT32 = 1e-10, 1e-4


@st.composite
def representations(draw, n, dtype=np.float64, max_width=9, offsets=(0.0, 1.0, 1e4, 1e8), scales=(1.0, 1e-30, 1e30)):
    """A matrix of `n` rows: wide or narrow, of any rank, with columns that repeat or are constant, shifted, scaled."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = draw(st.integers(1, max_width))
    rank = draw(st.integers(1, p))
    X = rng.standard_normal((n, p))
    if rank < p:
        X = X[:, :rank] @ rng.standard_normal((rank, p))
    kind = draw(st.sampled_from(["plain", "duplicated columns", "constant column", "duplicated rows", "integers"]))
    if kind == "duplicated columns":
        X = np.concatenate([X, X[:, ::-1]], axis=1)
    elif kind == "constant column":
        X = np.concatenate([X, np.full((n, 1), rng.standard_normal())], axis=1)
    elif kind == "duplicated rows":
        X = X[rng.integers(0, n, size=n)]
        X[-1] = X[0] + 1.0  # not all of them
    elif kind == "integers":
        X = np.rint(3.0 * X)
        X[0] = X[1] + 1.0  # never constant
    X = X * rng.uniform(0.2, 5.0, size=X.shape[1])
    X = (X + draw(st.sampled_from(offsets)) * rng.standard_normal(X.shape[1])) * draw(st.sampled_from(scales))
    X = np.asarray(X, dtype=dtype)
    return np.asfortranarray(X) if draw(st.booleans()) else X


@st.composite
def pairs(draw, min_samples=2, max_samples=9, **kwargs):
    n = draw(st.integers(min_samples, max_samples))
    return draw(representations(n, **kwargs)), draw(representations(n, **kwargs))


def is_constant(X):
    return all(row == bf.exact(X)[0] for row in bf.exact(X))


def is_degenerate(X):
    """Whether next to nothing of the Gram matrix is left by U-centring: the ratio is then 0/0 or close to it."""
    K = bf.gram(bf.exact(X), bf.linear)
    centered = bf.u_centered(bf.double_centered(K))
    return bf.entrywise(centered, centered) < 1e-6 * bf.entrywise(bf.double_centered(K), bf.double_centered(K))


def close(value, expected, tolerance):
    return value == pytest.approx(expected, abs=tolerance, rel=tolerance, nan_ok=True)


@given(pair=pairs(), form=st.sampled_from(["auto", "gram", "feature"]))
def test_linear_cka_is_the_definition(pair, form):
    X, Y = pair
    assert close(cka(X, Y, form=form), bf.linear_cka(X, Y), FLOAT64)


@given(pair=pairs(min_samples=4), form=st.sampled_from(["auto", "gram", "feature"]))
def test_debiased_linear_cka_is_the_definition(pair, form):
    X, Y = pair
    assume(not is_degenerate(X) and not is_degenerate(Y))
    assert close(cka(X, Y, form=form, debiased=True), bf.linear_cka(X, Y, debiased=True), FLOAT64)


@given(pair=pairs(), form=st.sampled_from(["auto", "gram", "feature"]))
def test_linear_hsic_is_the_definition(pair, form):
    X, Y = pair
    expected, size = (bf.linear_hsic(*sides) for sides in ((X, Y), (X, X)))
    size = math.sqrt(size) * math.sqrt(bf.linear_hsic(Y, Y))
    assert abs(hsic(X, Y, form=form) - expected) <= FLOAT64 * size


@given(pair=pairs(min_samples=4), form=st.sampled_from(["auto", "gram", "feature"]))
def test_debiased_linear_hsic_is_the_definition(pair, form):
    X, Y = pair
    size = math.sqrt(bf.linear_hsic(X, X)) * math.sqrt(bf.linear_hsic(Y, Y))
    assert abs(hsic(X, Y, form=form, debiased=True) - bf.linear_hsic(X, Y, debiased=True)) <= FLOAT64 * size


@given(pair=pairs(), form=st.sampled_from(["auto", "gram", "feature"]))
def test_linear_kernel_alignment_is_the_definition(pair, form):
    X, Y = pair
    assert close(kernel_alignment(X, Y, form=form), bf.linear_alignment(X, Y), FLOAT64)


@given(pair=pairs(min_samples=3), squared=st.booleans())
def test_distance_correlation_is_the_definition(pair, squared):
    X, Y = pair
    expected = bf.distance_correlation(bf.exact(X), bf.exact(Y), squared=squared)
    # The root turns rounding of size r around 0 into sqrt(r).
    tolerance = FLOAT64 if squared or expected > 1e-4 else math.sqrt(FLOAT64)
    assert close(distance_correlation(X, Y, squared=squared), expected, tolerance)


@given(pair=pairs(min_samples=5))
def test_debiased_distance_correlation_is_the_definition(pair):
    X, Y = pair
    expected = bf.distance_correlation_debiased(bf.exact(X), bf.exact(Y))
    assert close(distance_correlation(X, Y, debiased=True), expected, 1e-9)


@given(
    pair=pairs(min_samples=3),
    bandwidth=st.sampled_from([0.2, 1.0, 5.0]),
    rule=st.sampled_from(["median", "median_with_self", "median_nonzero", "mean"]),
)
def test_rbf_cka_is_the_definition(pair, bandwidth, rule):
    X, Y = pair
    assert close(
        cka(X, Y, kernel="rbf", bandwidth=bandwidth, bandwidth_rule=rule), bf.rbf_cka(X, Y, bandwidth, rule), 1e-9
    )


@given(pair=pairs(min_samples=5), bandwidth=st.sampled_from([0.2, 1.0, 5.0]))
def test_debiased_rbf_cka_is_the_definition(pair, bandwidth):
    X, Y = pair
    expected = bf.rbf_cka(X, Y, bandwidth, debiased=True)
    assert close(cka(X, Y, kernel="rbf", bandwidth=bandwidth, debiased=True), expected, 1e-8)


@given(
    pair=pairs(dtype=np.float32, offsets=(0.0, 1.0, 1e3), min_samples=4),
    debiased=st.booleans(),
    form=st.sampled_from(["auto", "gram", "feature"]),
)
def test_float32_linear_cka_is_that_of_the_stored_numbers(pair, debiased, form):
    X, Y = pair
    assume(not debiased or not (is_degenerate(X) or is_degenerate(Y)))
    assert close(cka(X, Y, form=form, debiased=debiased), bf.linear_cka(X, Y, debiased), FLOAT32)


@given(pair=pairs(dtype=np.float32, offsets=(0.0, 1.0, 1e3), min_samples=4), bandwidth=st.sampled_from([0.2, 1.0, 5.0]))
def test_float32_rbf_cka_is_that_of_the_stored_numbers(pair, bandwidth):
    X, Y = pair
    assert close(cka(X, Y, kernel="rbf", bandwidth=bandwidth), bf.rbf_cka(X, Y, bandwidth), FLOAT32)


@given(pair=pairs(dtype=np.float32, offsets=(0.0, 1.0, 1e3), min_samples=4))
def test_float32_distance_correlation_is_that_of_the_stored_numbers(pair):
    X, Y = pair
    expected = bf.distance_correlation(bf.exact(X), bf.exact(Y), squared=True)
    assert close(distance_correlation(X, Y, squared=True), expected, FLOAT32)


@given(pair=pairs(min_samples=4, offsets=(0.0, 1e4)), data=st.data(), debiased=st.booleans())
def test_integer_weights_are_repeated_rows_of_the_definition(pair, data, debiased):
    X, Y = pair
    n = len(X)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(lambda c: sum(map(bool, c)) >= 4))
    repeated = [bf.repeated(rows, counts) for rows in (bf.exact(X), bf.exact(Y))]
    K, L = (bf.gram(rows, bf.linear) for rows in repeated)
    for form in ("gram", "feature"):
        size = math.sqrt(float(bf.hsic_biased(K, K))) * math.sqrt(float(bf.hsic_biased(L, L)))
        value = hsic(X, Y, debiased=debiased, form=form, sample_weight=counts)
        assert abs(value - float(bf.hsic(K, L, debiased))) <= FLOAT64 * size
        if not debiased:
            assert close(cka(X, Y, form=form, sample_weight=counts), bf.cka(K, L), FLOAT64)


@given(pair=pairs(min_samples=4, max_samples=7, offsets=(0.0,), scales=(1.0,)), data=st.data())
def test_integer_weights_are_repeated_rows_under_every_bandwidth_rule(pair, data):
    X, Y = pair
    n = len(X)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(lambda c: sum(map(bool, c)) >= 4))
    X2, Y2 = (np.array(bf.repeated(bf.floats(Z), counts)) for Z in (X, Y))
    assume(not is_constant(X2) and not is_constant(Y2))
    for rule in ("median", "median_with_self", "median_nonzero", "mean"):
        value = cka(X, Y, kernel="rbf", bandwidth_rule=rule, sample_weight=counts)
        assert close(value, bf.rbf_cka(X2, Y2, rule=rule), 1e-9)


@given(pair=pairs(min_samples=3))
def test_biased_cka_lies_between_0_and_1_and_is_symmetric(pair):
    X, Y = pair
    value = cka(X, Y)
    assert 0.0 <= value <= 1.0
    assert cka(Y, X) == pytest.approx(value, abs=1e-12)
    assert cka(X, X) == pytest.approx(1.0, abs=1e-12)
