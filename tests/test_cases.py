"""Faults that users of other programs have reported, as inputs to be right on, and the whole kinds they belong to.

Numbers with six decimals were computed independently in float64; other expected values come from ``brute_force``.
"""

import math
import warnings
from fractions import Fraction

import brute_force as bf
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

from sklearn_cka import (
    CKA,
    HSIC,
    ChanceLevelWarning,
    DistanceCorrelation,
    KernelAlignment,
    Layers,
    SimilarityWarning,
    UndefinedSimilarityWarning,
    accumulate_layers,
    cka,
    compare_layers,
    distance_correlation,
    get_index,
    hsic,
    index_names,
    kernel_alignment,
    median_distance,
    similarity,
)
from sklearn_cka._arrays import to_numpy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")

rng = np.random.default_rng

FAMILY = [
    CKA(),
    CKA(debiased=True),
    CKA(form="gram"),
    CKA(form="feature", debiased=True),
    CKA("rbf", bandwidth=0.7),
    CKA("rbf", debiased=True),
    CKA("laplacian"),
    CKA("polynomial"),
    CKA("sigmoid"),
    CKA("cosine"),
    CKA("distance"),
    HSIC(),
    HSIC(debiased=True),
    HSIC("rbf"),
    KernelAlignment(),
    KernelAlignment("rbf"),
    DistanceCorrelation(),
    DistanceCorrelation(debiased=True),
]
# Indexes that neither scale nor offset changes.
FREE = [
    CKA(),
    CKA(debiased=True),
    CKA(form="gram"),
    CKA(form="gram", debiased=True),
    CKA(form="feature"),
    CKA("rbf"),
    CKA("rbf", debiased=True),
    CKA("rbf", bandwidth=0.2),
    CKA("rbf", bandwidth=30.0),
    CKA("rbf", bandwidth_rule="mean"),
    CKA("laplacian"),
    CKA("distance"),
    KernelAlignment("rbf"),
    DistanceCorrelation(),
    DistanceCorrelation(debiased=True),
]


def by_repr(values):
    return pytest.mark.parametrize("index", values, ids=[repr(value) for value in values])


def dependent(n=64, p=16, q=8):
    X = rng(0).standard_normal((n, p))
    return X, X[:, :q] + rng(1).standard_normal((n, q))


def value_of(index, X, y):
    return clone(index).fit(X, y).similarity_


# 01: few rows


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("function", [cka, hsic, distance_correlation])
def test_case_01_debiased_estimates_of_fewer_than_four_rows_raise(function, n):
    X, Y = rng(0).standard_normal((n, 5)), rng(1).standard_normal((n, 5))
    with pytest.raises(ValueError, match=rf"X with {n} sample.*minimum of 4 is required by the debiased estimator"):
        function(X, Y, debiased=True)


def test_case_01_biased_cka_of_three_rows():
    X, Y = rng(0).standard_normal((3, 5)), rng(1).standard_normal((3, 5))
    assert cka(X, Y) == pytest.approx(bf.linear_cka(X, Y), abs=1e-12)
    assert cka(X, Y, kernel="rbf") == pytest.approx(bf.rbf_cka(X, Y), abs=1e-12)


@pytest.mark.parametrize(("n", "expected"), [(4, 0.991955), (5, 0.432710)])
def test_case_01_debiased_cka_of_four_and_five_rows(backend, n, expected):
    X, Y = rng(0).standard_normal((n, 5)), rng(1).standard_normal((n, 5))
    assert cka(backend.asarray(X), backend.asarray(Y), debiased=True) == pytest.approx(expected, abs=1e-6)
    assert cka(X, Y, debiased=True, form="feature") == pytest.approx(expected, abs=1e-6)


@by_repr(FAMILY)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_rows_give_a_number_or_an_error_that_counts_them(index, n):
    X, Y = np.abs(rng(0).standard_normal((n, 3))), np.abs(rng(1).standard_normal((n, 2)))
    least = 4 if getattr(index, "debiased", False) else 2
    if n < least:
        with pytest.raises(ValueError, match=rf"{n} sample\(s\).*minimum of {least} is required by"):
            clone(index).fit(X, Y)
        return
    assert math.isfinite(value_of(index, X, Y))
    if n < 4 and hasattr(index, "z_score"):
        with pytest.raises(ValueError, match=rf"{n} sample\(s\).*minimum of 4 is required by z_score"):
            clone(index).fit(X, Y).z_score(X, Y)


def test_two_rows_are_always_alike():
    X, Y = rng(0).standard_normal((2, 3)), rng(1).standard_normal((2, 4))
    for kernel in ("linear", "rbf", "distance"):
        assert cka(X, Y, kernel=kernel) == pytest.approx(1.0, abs=1e-12)


def test_no_rows_and_no_columns():
    with pytest.raises(ValueError, match=r"X with 0 sample\(s\)"):
        cka(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"X with 0 feature\(s\)"):
        cka(np.zeros((5, 0)), np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"y with 0 feature\(s\)"):
        CKA().fit(np.arange(5.0)[:, None], np.zeros((5, 0)))


# 02: exact fractions


@pytest.mark.parametrize("form", ["auto", "gram", "feature"])
def test_case_02_exact_rational_values(backend, form):
    X = np.arange(5.0)[:, None]
    X, Y = backend.asarray(X), backend.asarray(X**2)
    for debiased, xy, xx, yy in (
        (True, Fraction(469, 6), Fraction(31, 6), Fraction(12769, 10)),
        (False, Fraction(100), Fraction(25, 4), Fraction(7569, 4)),
    ):
        for left, right, expected in ((X, Y, xy), (X, X, xx), (Y, Y, yy)):
            assert hsic(left, right, debiased=debiased, form=form) == pytest.approx(float(expected), rel=1e-13)
        assert cka(X, Y, debiased=debiased, form=form) == pytest.approx(float(xy) / math.sqrt(xx * yy), abs=1e-13)
    assert cka(X, Y, debiased=True) == pytest.approx(0.962361, abs=5e-7)
    assert cka(X, Y) == pytest.approx(0.919540, abs=5e-7)


def test_case_02_integers_give_the_same_fractions():
    for dtype in (int, np.uint8, np.int16, float):
        X = np.arange(5, dtype=dtype)[:, None]
        assert hsic(X, X**2, debiased=True) == pytest.approx(469 / 6, rel=1e-13)


# 04: the debiased estimate averages zero


@pytest.mark.parametrize("columns", [8, 64])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "distance"])
def test_case_04_debiased_cka_of_independent_pairs_averages_zero(columns, kernel):
    pairs = [(rng(s).standard_normal((32, columns)), rng(1000 + s).standard_normal((32, columns))) for s in range(20)]
    biased = np.mean([cka(X, Y, kernel=kernel) for X, Y in pairs])
    debiased = np.mean([cka(X, Y, kernel=kernel, debiased=True) for X, Y in pairs])
    assert abs(debiased) < 0.04
    if kernel == "linear":
        assert biased == pytest.approx({8: 0.202, 64: 0.669}[columns], abs=1e-3)
        assert columns != 64 or debiased == pytest.approx(-0.0041, abs=1e-4)


def test_debiased_changes_the_number_on_every_path():
    X, Y = dependent(20, 6, 4)
    for function in (cka, hsic, distance_correlation):
        assert abs(function(X, Y, debiased=True) - function(X, Y)) > 1e-3
    for kernel in ("linear", "rbf", "laplacian", "polynomial", "distance", lambda A, B: A @ B.T):
        for form in ("auto", "gram"):
            assert abs(cka(X, Y, kernel=kernel, debiased=True, form=form) - cka(X, Y, kernel=kernel, form=form)) > 1e-3
    for name in ("cka", "hsic", "distance_correlation"):
        assert abs(similarity(X, Y, name, debiased=True) - similarity(X, Y, name)) > 1e-3
        layers = [X, Y]
        tables = [compare_layers(layers, index=name, debiased=flag, verbose=0).values[0, 1] for flag in (True, False)]
        assert abs(tables[0] - tables[1]) > 1e-3


# 09: dead layers


@pytest.mark.parametrize("constant", [0.0, 3.7, -1e30, 1e-30])
def test_case_09_one_dead_layer_leaves_the_others_alone(backend, constant):
    layers = [rng(i).standard_normal((30, 6)) for i in range(3)]
    layers[1] = np.full((30, 6), constant)
    layers = [backend.asarray(layer) for layer in layers]
    with pytest.warns(UndefinedSimilarityWarning, match="layer '1' is undefined") as caught:
        values = compare_layers(layers, verbose=0).values
    assert sum(warning.category is UndefinedSimilarityWarning for warning in caught) == 1
    assert values[[0, 2], [0, 2]] == pytest.approx(1.0, abs=1e-12)
    assert values[[0, 2], [2, 0]] == pytest.approx(0.183998, abs=1e-6)
    assert np.isnan(values[1]).all()
    assert np.isnan(values[:, 1]).all()
    for debiased in (False, True):
        values = compare_layers(layers, index="hsic", debiased=debiased, verbose=0).values
        assert (values[1] == 0).all()
        assert np.isfinite(values).all()


CONSTANTS = [0.0, 3.7, 0.1, 1 / 3, -2.3e5, 1e-30, 1e30, 1e8 + 0.1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", CONSTANTS)
@by_repr(
    [
        index
        for index in FAMILY
        if not isinstance(index, KernelAlignment) and index.get_params().get("kernel") not in ("polynomial", "sigmoid")
    ]
)
def test_constant_sides_are_undefined_with_a_warning_and_0_under_hsic(index, constant, dtype):
    X = rng(0).standard_normal((12, 3)).astype(dtype)
    dead = np.full((12, 3), constant, dtype=dtype)
    for pair in ((X, dead), (dead, X), (dead, dead)):
        if isinstance(index, HSIC):
            assert value_of(index, *pair) == 0.0
            continue
        with pytest.warns(UndefinedSimilarityWarning, match="constant (over the rows|representation)") as caught:
            assert math.isnan(value_of(index, *pair))
        assert sum(warning.category is UndefinedSimilarityWarning for warning in caught) == 1


@pytest.mark.parametrize(
    "kernel", ["polynomial", "sigmoid", lambda A, B: A @ B.T + 1.0], ids=["poly", "sigmoid", "own"]
)
@pytest.mark.parametrize("constant", [0.0, 3.7, 0.1, 1 / 3])
def test_constant_sides_are_undefined_under_kernels_that_are_not_translation_invariant(kernel, constant):
    X = rng(0).standard_normal((12, 3))
    for debiased in (False, True):
        with pytest.warns(UndefinedSimilarityWarning):
            assert math.isnan(cka(np.full((12, 3), constant), X, kernel=kernel, debiased=debiased))
        assert hsic(np.full((12, 3), constant), X, kernel=kernel, debiased=debiased) == 0.0


def test_which_side_is_constant_is_said():
    X, dead = rng(0).standard_normal((12, 3)), np.ones((12, 3))
    for pair, words in (((dead, X), "of X is zero"), ((X, dead), "of y is zero"), ((dead, dead), "of X and y is zero")):
        with pytest.warns(UndefinedSimilarityWarning, match=words):
            cka(*pair)


def test_zero_gram_matrices_are_undefined_under_kernel_alignment_and_constant_ones_are_not():
    X = rng(0).standard_normal((12, 3))
    with pytest.warns(UndefinedSimilarityWarning, match="the Gram matrix of at least one side is zero"):
        assert math.isnan(kernel_alignment(np.zeros((12, 3)), X))
    ones = np.full((12, 2), 3.7)
    assert kernel_alignment(ones, X + 1) == pytest.approx(bf.linear_alignment(ones, X + 1), abs=1e-12)
    assert kernel_alignment(ones, X, kernel="rbf") == pytest.approx(
        bf.kernel_alignment([[1.0] * 12] * 12, bf.rbf_gram(X)), abs=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_and_noise_of_rounding_do_not_count_as_variation(dtype):
    """A layer that is constant but for the last bit has no similarity to anything."""
    X = rng(0).standard_normal((30, 3)).astype(dtype)
    for constant in (0.1, 3.7, 1e8, 1e-20):
        value = dtype(constant)
        noisy = np.where(rng(1).integers(0, 2, (30, 4)) > 0, value, np.nextafter(value, dtype(np.inf))).astype(dtype)
        with pytest.warns(UndefinedSimilarityWarning):
            assert math.isnan(cka(noisy, X))
        with pytest.warns(UndefinedSimilarityWarning):
            assert math.isnan(cka(noisy, X, debiased=True, form="feature"))


def test_one_hot_rows_have_nothing_left_after_u_centring():
    """All pairs of rows are alike: debiased CKA is 0/0, biased CKA is not."""
    X = rng(0).standard_normal((8, 3))
    for scale in (1.0, 0.1, 1e-20):
        with pytest.warns(UndefinedSimilarityWarning):
            assert math.isnan(cka(np.eye(8) * scale, X, debiased=True))
        with pytest.warns(UndefinedSimilarityWarning):
            assert math.isnan(cka(np.eye(8) * scale, X, debiased=True, form="feature"))
        assert cka(np.eye(8) * scale, X) == pytest.approx(bf.linear_cka(np.eye(8), X), abs=1e-12)


# 10: bandwidths of 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_case_10_median_of_rows_that_mostly_repeat(backend, dtype):
    X = np.zeros((20, 3))
    X[:5] = rng(0).standard_normal((5, 3))
    Y = rng(1).standard_normal((20, 3))
    index = CKA("rbf").fit(backend.asarray(X.astype(dtype)), backend.asarray(Y.astype(dtype)))
    tolerance = 1e-6 if dtype == np.float64 else 1e-5
    assert index.similarity_ == pytest.approx(0.098775, abs=max(tolerance, 5e-7))
    assert index.bandwidth_ == pytest.approx(1.411195, abs=max(tolerance, 5e-7))


@pytest.mark.parametrize("rule", ["median", "median_with_self", "median_nonzero", "mean"])
@pytest.mark.parametrize("distinct", [1, 2, 3])
def test_no_rule_gives_nan_for_repeating_rows(rule, distinct):
    X = np.zeros((15, 2))
    X[:distinct] = 1.0 + np.arange(2.0 * distinct).reshape(distinct, 2)
    Y = rng(1).standard_normal((15, 2))
    for kernel in ("rbf", "laplacian"):
        assert 0.0 < cka(X, Y, kernel=kernel, bandwidth_rule=rule) <= 1.0
    assert cka(X, Y, kernel="rbf", bandwidth_rule=rule) == pytest.approx(bf.rbf_cka(X, Y, rule=rule), abs=1e-12)


# 11, 12: scale


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-13, 1e-12, 1.0, 1e10, 1e20, 1e30])
def test_cases_11_and_12_scales_of_float32(backend, scale):
    X, Y = (Z.astype("f4") for Z in dependent())
    X, Y = (backend.asarray(Z * np.float32(scale)) for Z in (X, Y))
    for form in ("auto", "gram", "feature"):
        assert cka(X, Y, form=form) == pytest.approx(0.417093, abs=1e-5)
        assert cka(X, Y, form=form, debiased=True) == pytest.approx(0.315993, abs=1e-5)
    assert cka(X, Y, kernel="rbf") == pytest.approx(0.470188, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scales", [(1e-30, 1e-30), (1e30, 1e30), (1e-30, 1e30), (1e-12, 1.0), (1e15, 1e-15)])
@by_repr([*FREE, CKA("cosine"), KernelAlignment(), KernelAlignment("distance")])
def test_scales_change_nothing(index, scales, dtype):
    X, Y = dependent(30, 5, 3)
    expected = value_of(index, X, Y)
    value = value_of(index, (X * scales[0]).astype(dtype), (Y * scales[1]).astype(dtype))
    assert value == pytest.approx(expected, abs=1e-10 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300, 4e307])
def test_the_ends_of_float64(scale):
    X, Y = dependent(30, 5, 3)
    X /= np.abs(X).max()
    for index in FREE:
        assert value_of(index, X * scale, Y) == pytest.approx(value_of(index, X, Y), abs=1e-9)
    assert hsic(X * scale, Y / scale) == pytest.approx(hsic(X, Y), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-37, 1e37, 3e38])
def test_the_ends_of_float32(scale):
    X, Y = dependent(30, 5, 3)
    X /= np.abs(X).max()
    for index in FREE:
        value = value_of(index, (X * scale).astype("f4"), Y.astype("f4"))
        assert value == pytest.approx(value_of(index, X, Y), abs=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-12, 1e-8, 1e8, 1e12])
def test_hsic_follows_the_scale(scale, dtype):
    X, Y = dependent(30, 5, 3)
    for debiased in (False, True):
        value = hsic((X * scale).astype(dtype), (Y / scale).astype(dtype), debiased=debiased)
        assert value == pytest.approx(hsic(X, Y, debiased=debiased), rel=1e-10 if dtype == np.float64 else 1e-4)
        value = hsic((X * scale).astype(dtype), Y.astype(dtype), debiased=debiased) / scale / scale
        assert value == pytest.approx(hsic(X, Y, debiased=debiased), rel=1e-10 if dtype == np.float64 else 1e-4)


def test_columns_of_very_different_scales():
    X, Y = dependent(20, 4, 3)
    X = X * np.array([1e-20, 1.0, 1e-8, 1e-150])
    assert cka(X, Y) == pytest.approx(bf.linear_cka(X, Y), abs=1e-12)


# 13: offsets


@pytest.mark.parametrize("form", ["auto", "gram", "feature"])
def test_case_13_a_large_mean_in_float32(backend, form):
    X = (1e4 + rng(0).standard_normal((50, 6))).astype("f4")
    Y = (X[:, :3] + rng(1).standard_normal((50, 3))).astype("f4")
    X, Y = backend.asarray(X), backend.asarray(Y)
    assert cka(X, Y, form=form) == pytest.approx(0.433020, abs=1e-6)
    assert cka(X, Y, form=form, debiased=True) == pytest.approx(0.385813, abs=1e-6)


@pytest.mark.parametrize("offset", [1.0, 1e4, 1e8])
@by_repr(FREE)
def test_offsets_change_nothing_but_the_digits_stored(backend, index, offset):
    X, Y = dependent(30, 5, 3)
    shifted, shifted_y = X + offset * rng(2).standard_normal(5), Y - offset
    stored, stored_y = (shifted - shifted[0], shifted_y - shifted_y[0])  # exact differences of the stored numbers
    expected = value_of(index, stored, stored_y)
    value = value_of(index, backend.asarray(shifted), backend.asarray(shifted_y))
    assert value == pytest.approx(expected, abs=1e-9)
    assert value == pytest.approx(value_of(index, X, Y), abs=1e-6)


@by_repr(FREE)
def test_offsets_in_float32(index):
    X, Y = dependent(30, 5, 3)
    for offset in (10.0, 1e3, 1e5):
        shifted, shifted_y = (X + offset).astype("f4"), (Y - offset).astype("f4")
        expected = value_of(index, shifted.astype("f8"), shifted_y.astype("f8"))
        assert value_of(index, shifted, shifted_y) == pytest.approx(expected, abs=2e-5)


def test_offset_of_a_million_rows_worth_of_sum_in_float32():
    """The mean must not be summed up in float32: 30,000 rows of about 1000."""
    X = (1000 + rng(0).standard_normal((30_000, 3))).astype("f4")
    Y = (X[:, :2] + rng(1).standard_normal((30_000, 2))).astype("f4")
    expected = cka(X.astype("f8"), Y.astype("f8"))
    assert cka(X, Y) == pytest.approx(expected, abs=1e-5)
    assert cka(X, Y, debiased=True) == pytest.approx(cka(X.astype("f8"), Y.astype("f8"), debiased=True), abs=1e-5)


# 16: half precision


@pytest.mark.parametrize("form", ["auto", "gram", "feature"])
def test_case_16_float16_is_promoted(form):
    X = (300 * rng(0).standard_normal((40, 8))).astype("f2")
    Y = (X[:, :4] + 100 * rng(1).standard_normal((40, 4))).astype("f2")
    assert cka(X, Y, form=form) == pytest.approx(0.613917, abs=1e-5)
    assert cka(X, Y, form=form, debiased=True) == pytest.approx(bf.linear_cka(X, Y, True), abs=1e-5)
    assert cka(X, Y, kernel="rbf") == pytest.approx(cka(X.astype("f8"), Y.astype("f8"), kernel="rbf"), abs=1e-5)


def test_case_16_bfloat16_and_float16_of_torch():
    torch = pytest.importorskip("torch")
    Xb = torch.tensor(rng(0).standard_normal((40, 8))).bfloat16()
    Yb = torch.tensor(rng(1).standard_normal((40, 4)) + Xb[:, :4].double().numpy()).bfloat16()
    assert cka(Xb, Yb) == pytest.approx(0.389205, abs=1e-5)
    assert cka(Xb, Yb, debiased=True) == pytest.approx(bf.linear_cka(Xb.double(), Yb.double(), True), abs=1e-5)
    X = torch.tensor(300 * rng(0).standard_normal((40, 8))).half()
    assert cka(X, X[:, :4]) == pytest.approx(bf.linear_cka(X.double(), X[:, :4].double()), abs=1e-5)
    assert cka(Xb, Yb.double().numpy()) == pytest.approx(0.389205, abs=1e-5)  # mixed with NumPy
    table = compare_layers({"x": Xb, "y": Yb}, verbose=0)
    assert table.values[0, 1] == pytest.approx(0.389205, abs=1e-5)


def test_the_largest_float16():
    X = np.array([[65504.0], [-65504.0], [1.0], [300.0], [-2.0]], dtype="f2")
    Y = rng(0).standard_normal((5, 2)).astype("f2")
    for index in FREE:
        expected = value_of(index, X.astype("f8"), Y.astype("f8"))
        assert value_of(index, X, Y) == pytest.approx(expected, abs=1e-4)


# Integers


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "uint64", "bool", "object"])
def test_integers_and_bools_are_computed_in_float64(backend, dtype):
    X, Y = rng(0).integers(0, 2 if dtype == "bool" else 100, (30, 4)), rng(1).integers(0, 2, (30, 3))
    Y = X[:, :3] + (0 if dtype == "bool" else Y)
    expected = {index: value_of(index, X.astype(float), Y.astype(float)) for index in FREE}
    X, Y = X.astype(dtype), Y.astype(dtype)
    if dtype == "object":
        if backend.name != "numpy":
            pytest.skip(f"{backend.name} has no arrays of objects")
    elif backend.name == "torch" and dtype == "uint64":
        pytest.skip("torch cannot convert uint64")
    else:
        X, Y = backend.asarray(X), backend.asarray(Y)
    for index, value in expected.items():
        assert value_of(index, X, Y) == pytest.approx(value, abs=1e-12)


def test_uint8_never_wraps():
    X = rng(0).integers(0, 256, (30, 4), dtype=np.uint8)
    Y = 255 - X
    assert cka(X, Y) == pytest.approx(1.0, abs=1e-12)
    assert kernel_alignment(X, Y) == pytest.approx(bf.linear_alignment(X, Y), abs=1e-12)
    assert hsic(X, Y) == pytest.approx(bf.linear_hsic(X, Y), rel=1e-12)
    assert median_distance(X) == pytest.approx(bf.typical_distance(bf.floats(X), "median"), rel=1e-12)


def test_integers_beyond_float64_are_at_least_finite():
    X = np.array([[2**62], [2**62 + 2**40], [0], [5]])
    assert cka(X, X) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_refused(backend, dtype):
    X = backend.asarray(np.ones((5, 2)), dtype=getattr(backend.xp, dtype))
    with pytest.raises(ValueError, match="Complex data not supported"):
        cka(X, X)


@pytest.mark.parametrize("bad", [[["a"], ["b"]], [["1"], ["x"]], np.array([{}, 3], dtype=object)[:, None]])
def test_strings_and_objects_that_are_no_numbers_are_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        cka(bad, [[1.0], [2.0]])
    with pytest.raises((ValueError, TypeError)):
        cka([[1.0], [2.0]], bad)


def test_extended_precision_is_taken():
    X, Y = dependent(20, 4, 3)
    assert cka(X.astype(np.longdouble), Y.astype(np.longdouble)) == pytest.approx(cka(X, Y), abs=1e-12)


# 29: bandwidth


@pytest.mark.parametrize(("sigma", "expected"), [(0.5, 0.638052), (1, 0.446582), (2, 0.374995), (5, 0.366201)])
def test_case_29_the_bandwidth_reaches_the_kernel(backend, sigma, expected):
    X = rng(0).standard_normal((30, 4))
    Y = X[:, :2] + rng(1).standard_normal((30, 2))
    X, Y = backend.asarray(X), backend.asarray(Y)
    assert cka(X, Y, kernel="rbf", bandwidth=sigma, bandwidth_rule="none") == pytest.approx(expected, abs=1e-6)
    assert cka(X, Y, kernel="gaussian", bandwidth=sigma, bandwidth_rule="none") == pytest.approx(expected, abs=1e-6)
    assert cka(X, Y, kernel="rbf", gamma=1 / (2 * sigma**2)) == pytest.approx(expected, abs=1e-6)


def test_case_29_linear_and_median_rule():
    X = rng(0).standard_normal((30, 4))
    Y = X[:, :2] + rng(1).standard_normal((30, 2))
    assert cka(X, Y) == pytest.approx(0.362857, abs=1e-6)
    index = CKA("rbf").fit(X, Y)
    assert index.similarity_ == pytest.approx(0.365744, abs=1e-6)
    assert (index.bandwidth_, index.bandwidth_y_) == pytest.approx((2.574122, 1.845078), abs=1e-6)


# 33: direction and range


@by_repr([index for index in FAMILY if not isinstance(index, HSIC)])
def test_case_33_indexes_are_similarities(index):
    X = rng(0).standard_normal((40, 4))
    Y = X[:, :3] + rng(1).standard_normal((40, 3))
    Z = rng(2).standard_normal((40, 3))
    fitted = clone(index).fit(X, X)
    assert fitted.score(X, X) == pytest.approx(1.0, abs=1e-9)
    low, high = index.properties.range
    assert low <= value_of(index, X, Z) < value_of(index, X, Y) < high == 1.0


# 37: NaN and infinity


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["X", "y"])
@by_repr(FAMILY)
def test_case_37_nan_and_infinity_are_named_with_their_argument(backend, index, side, wrong):
    X, Y = rng(0).standard_normal((20, 4)), rng(1).standard_normal((20, 4))
    (X if side == "X" else Y)[3, 1] = wrong
    word = "NaN" if np.isnan(wrong) else "infinity"
    with pytest.raises(ValueError, match=rf"Input {side} contains {word}"):
        clone(index).fit(backend.asarray(X), backend.asarray(Y))
    good = backend.asarray(np.abs(rng(2).standard_normal((20, 4))))
    fitted = clone(index).fit(good, good)
    for method in ("score", "z_score", "similarity"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match=rf"Input {side} contains {word}"):
                getattr(fitted, method)(backend.asarray(X), backend.asarray(Y))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_opposite_infinities_do_not_cancel(dtype):
    X = np.ones((6, 2), dtype=dtype)
    X[1, 0], X[2, 0] = np.inf, -np.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        cka(X, np.arange(6.0))


def test_large_finite_numbers_are_not_infinity():
    X = np.full((6, 3), 3e38, dtype="f4")
    X[:3] *= -1
    X[0, 0] = 0
    Y = rng(0).standard_normal((6, 2)).astype("f4")
    assert cka(X, Y) == pytest.approx(bf.linear_cka(X, Y), abs=1e-5)


def test_nan_in_frames_lists_and_weights():
    frame = pd.DataFrame({"a": [1.0, None, 3.0, 4.0], "b": [1, 2, 3, 5]})
    with pytest.raises(ValueError, match="X contains NaN"):
        cka(frame, frame)
    with pytest.raises(ValueError, match="X contains NaN"):
        cka(frame.astype("Float64"), [1.0, 2, 3, 5])
    with pytest.raises(ValueError, match="y contains NaN"):
        cka(frame[["b"]], [1.0, float("nan"), 3, 4])
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        cka(frame[["b"]], [1.0, 2, 3, 5], sample_weight=[1, np.nan, 1, 1])


@pytest.mark.parametrize("name", index_names())
@pytest.mark.parametrize("side", ["a", "b"])
def test_nan_names_the_layer_in_a_table(name, side):
    a, b = ({f"{s}{i}": np.abs(rng(i).standard_normal((20, 4))) for i in range(3)} for s in "ab")
    (a if side == "a" else b)[f"{side}1"][3, 1] = np.nan
    with pytest.raises(ValueError, match=rf"layer '{side}1' of {side} contains NaN"):
        compare_layers(a, b, index=name, verbose=0)


# Shapes and kinds of input


def test_one_dimension_is_one_column_of_y_and_an_error_of_X(backend):
    X, Y = dependent(20, 4, 1)
    X, Y = backend.asarray(X), backend.asarray(Y)
    assert cka(X, Y[:, 0]) == cka(X, Y)
    with pytest.raises(ValueError, match=r"[Ee]xpected 2D array"):
        cka(Y[:, 0], X)


@pytest.mark.parametrize("side", ["X", "y"])
@pytest.mark.parametrize("shape", [(), (20, 2, 2), (20, 2, 2, 2)])
def test_other_dimensions_are_refused(backend, side, shape):
    good, bad = backend.asarray(rng(0).standard_normal((20, 2))), backend.asarray(rng(0).standard_normal(shape))
    with pytest.raises(ValueError, match=rf"{len(shape)}D array|[Ss]calar|{side}"):
        cka(*((bad, good) if side == "X" else (good, bad)))


@pytest.mark.parametrize("other", [3.0, None, "text", object()])
def test_what_is_no_array_is_refused(other):
    X = np.arange(6.0)[:, None]
    for pair in ((other, X), (X, other)):
        with pytest.raises((ValueError, TypeError)):
            cka(*pair)


@pytest.mark.parametrize("convert", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_sparse_input_is_refused_with_a_remedy(convert):
    X = np.eye(6)
    for pair in ((convert(X), X), (X, convert(X))):
        with pytest.raises(TypeError, match=r"toarray\(\)"):
            cka(*pair)


def test_masked_arrays():
    X, Y = dependent(20, 4, 3)
    assert cka(np.ma.array(X), np.ma.array(Y)) == cka(X, Y)
    mask = np.zeros(X.shape, dtype=bool)
    assert cka(np.ma.array(X, mask=mask), Y) == cka(X, Y)
    mask[3, 1] = True
    with pytest.raises(ValueError, match="X is a masked array with masked entries"):
        cka(np.ma.array(X, mask=mask), Y)
    with pytest.raises(ValueError, match="y is a masked array with masked entries"):
        cka(Y, np.ma.array(X, mask=mask))
    with pytest.raises(ValueError, match=r"layer 'm'.*masked"):
        compare_layers({"m": np.ma.array(X, mask=mask), "n": Y}, verbose=0)


@by_repr(FREE)
def test_memory_layout_changes_nothing(index):
    X, Y = dependent(30, 5, 3)
    expected = value_of(index, X, Y)
    wide = np.zeros((60, 10))
    wide[::2, ::2] = X
    for form in (
        np.asfortranarray(X),
        wide[::2, ::2],
        X[::-1][::-1],
        np.ascontiguousarray(X[::-1])[::-1],
        X.astype(">f8"),
        X.T.copy().T,
        np.lib.stride_tricks.as_strided(X, X.shape, X.strides, writeable=False),
    ):
        assert value_of(index, form, Y) == pytest.approx(expected, abs=1e-13)
        assert value_of(index, form, np.asfortranarray(Y)) == pytest.approx(expected, abs=1e-13)
    assert value_of(index, X, Y.astype(">f8")) == pytest.approx(expected, abs=1e-13)
    assert value_of(index, X.astype(">f4"), Y.astype(">f4")) == pytest.approx(
        value_of(index, X.astype("f4"), Y.astype("f4")), abs=1e-6
    )
    assert value_of(index, X.astype(">i4"), Y) == pytest.approx(value_of(index, X.astype("i4"), Y), abs=1e-13)


def test_views_that_repeat_memory():
    column = rng(0).standard_normal((20, 1))
    X = np.broadcast_to(column, (20, 5))
    Y = rng(1).standard_normal((20, 2))
    for index in FREE:
        assert value_of(index, X, Y) == pytest.approx(value_of(index, X.copy(), Y), abs=1e-13)


@by_repr(FAMILY)
def test_the_callers_arrays_are_not_changed(backend, index):
    X, Y = (np.abs(Z) for Z in dependent(12, 5, 3))
    for dtype in (np.float32, np.float64):
        for scale in (1.0, 1e20):
            a, b = (backend.asarray((Z * scale).astype(dtype)) for Z in (X, Y))
            before = [to_numpy(Z).copy() for Z in (a, b)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fitted = clone(index).fit(a, b)
                except ValueError:  # a polynomial of 1e20 passes float32
                    assert scale > 1.0
                    continue
                fitted.score(a, b)
                if hasattr(fitted, "z_score"):
                    fitted.z_score(a, b)
                compare_layers({"a": a, "b": b}, index=index, verbose=0)
            for now, then in zip((a, b), before, strict=True):
                np.testing.assert_array_equal(to_numpy(now), then)


@by_repr([*FREE, CKA("precomputed")])
def test_read_only_arrays(index):
    X, Y = dependent(30, 5, 3)
    if index.get_params().get("kernel") == "precomputed":
        X, Y = X @ X.T, Y @ Y.T
    expected = value_of(index, X, Y)
    X.setflags(write=False)
    Y.setflags(write=False)
    assert value_of(index, X, Y) == expected
    assert compare_layers([X, Y], index=index, verbose=0).values[0, 1] == pytest.approx(expected, abs=1e-12)
    pytest.importorskip("torch")
    assert value_of(index, X, np.array(Y)) == expected


def test_read_only_arrays_go_to_torch():
    torch = pytest.importorskip("torch")
    X, Y = dependent(30, 5, 3)
    Y.setflags(write=False)
    assert cka(torch.tensor(X), Y) == pytest.approx(cka(X, Y), abs=1e-12)
    table = compare_layers({"x": torch.tensor(X), "y": Y}, verbose=0)
    assert table.values[0, 1] == pytest.approx(cka(X, Y), abs=1e-12)


# 52: array libraries


@pytest.mark.parametrize("dispatch", [False, True])
def test_case_52_cpu_tensors_with_dispatch_on_and_off(backend, dispatch):
    from sklearn import config_context

    if dispatch and parse_version(scipy.__version__) < parse_version("1.14"):
        pytest.skip("this SciPy has no array API dispatch")
    X = rng(0).standard_normal((40, 6))
    Y = X[:, :4] + rng(1).standard_normal((40, 4))
    with config_context(array_api_dispatch=dispatch):
        Xb, Yb = backend.asarray(X), backend.asarray(Y)
        assert cka(Xb, Yb) == pytest.approx(0.628230, abs=1e-6)
        assert cka(Xb, Yb) == pytest.approx(cka(X, Y), abs=1e-10)
        assert cka(Xb, Yb, debiased=True) == pytest.approx(0.582909, abs=1e-6)
        assert similarity(Xb, Yb, "cca") == pytest.approx(0.830886, abs=1e-6)
        assert cka(X, Yb) == pytest.approx(0.628230, abs=1e-6)
        assert cka(Xb, Y) == pytest.approx(0.628230, abs=1e-6)
        assert CKA().fit(Xb, Yb).score(Xb, Yb) == pytest.approx(0.628230, abs=1e-6)
        for index in FREE:
            assert value_of(index, Xb, Yb) == pytest.approx(value_of(index, X, Y), abs=1e-10)


@by_repr(FAMILY)
def test_results_are_python_floats(backend, index):
    X, Y = (np.abs(Z) for Z in dependent(12, 5, 3))
    for dtype in (np.float32, np.float64):
        fitted = clone(index).fit(backend.asarray(X.astype(dtype)), backend.asarray(Y.astype(dtype)))
        assert type(fitted.similarity_) is type(fitted.chance_) is float
        assert type(fitted.score(backend.asarray(X.astype(dtype)), backend.asarray(Y.astype(dtype)))) is float
        if hasattr(fitted, "z_score"):
            assert type(fitted.z_score(backend.asarray(X.astype(dtype)), backend.asarray(Y.astype(dtype)))) is float


def test_tensors_that_require_gradients():
    torch = pytest.importorskip("torch")
    X, Y = dependent(20, 4, 3)
    t = torch.tensor(X, requires_grad=True)
    assert cka(t, torch.tensor(Y)) == pytest.approx(cka(X, Y), abs=1e-12)
    assert cka(torch.tensor(Y), t) == pytest.approx(cka(X, Y), abs=1e-12)
    assert cka(t, Y) == pytest.approx(cka(X, Y), abs=1e-12)
    assert cka(Y, t) == pytest.approx(cka(X, Y), abs=1e-12)
    assert cka(t, t * 2, kernel="rbf") == pytest.approx(1.0, abs=1e-12)
    assert compare_layers({"t": t, "y": Y}, verbose=0).values[0, 1] == pytest.approx(cka(X, Y), abs=1e-12)


def test_precisions_that_differ_between_the_sides(backend):
    X, Y = dependent(20, 4, 3)
    for index in FREE:
        expected = value_of(index, X, Y)
        assert value_of(index, backend.asarray(X.astype("f4")), backend.asarray(Y)) == pytest.approx(expected, abs=1e-5)
        assert value_of(index, backend.asarray(X), backend.asarray(Y.astype("f4"))) == pytest.approx(expected, abs=1e-5)


# 53: memory maps and workers


@pytest.fixture(scope="module")
def big_pair(tmp_path_factory):
    X, Y = rng(0).standard_normal((400, 400)), rng(1).standard_normal((400, 300))
    folder = tmp_path_factory.mktemp("maps")
    np.save(folder / "X.npy", X)
    np.save(folder / "Y.npy", Y)
    return X, Y, *(np.load(folder / name, mmap_mode="r") for name in ("X.npy", "Y.npy"))


def _cka_job(X, Y, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChanceLevelWarning)
        return CKA(**params).fit(X, Y).similarity_


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("engine", ["threading", "loky"])
def test_case_53_memory_maps_in_workers(big_pair, engine, n_jobs):
    X, Y, X_map, Y_map = big_pair
    jobs = [(X, Y), (X_map, Y_map)]
    values = joblib.Parallel(n_jobs=n_jobs, backend=engine, max_nbytes="1M")(
        joblib.delayed(_cka_job)(*job, **params) for job in jobs for params in ({}, {"debiased": True})
    )
    expected = cka(X, Y, debiased=True)
    assert values == pytest.approx([values[0], expected, values[0], expected], abs=1e-10)
    assert values[0] == pytest.approx(0.466027, abs=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("engine", ["threading", "loky"])
def test_case_53_tables_and_searches_over_memory_maps(big_pair, engine, n_jobs):
    *_, X_map, Y_map = big_pair
    with joblib.parallel_config(backend=engine, n_jobs=n_jobs):
        table = compare_layers({"x": X_map, "y": Y_map}, n_jobs=n_jobs, verbose=0)
        assert table.values[0, 1] == pytest.approx(0.466027, abs=1e-6)
        search = GridSearchCV(CKA(), {"debiased": [False, True]}, cv=2, n_jobs=n_jobs).fit(X_map, Y_map)
        assert search.best_params_ == {"debiased": False}


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "distance", "cosine", lambda A, B: A @ B.T])
def test_memory_maps_under_every_kernel(big_pair, kernel):
    X, Y, X_map, Y_map = big_pair
    assert cka(X_map[:60], Y_map[:60], kernel=kernel) == pytest.approx(cka(X[:60], Y[:60], kernel=kernel), abs=1e-12)


def test_callable_kernels_in_workers(big_pair):
    X, Y, *_ = big_pair
    kernel = lambda A, B: A @ B.T  # noqa: E731 (a lambda is what users pass)
    for engine in ("threading", "loky"):
        values = joblib.Parallel(n_jobs=2, backend=engine)(
            joblib.delayed(_cka_job)(X, Y, kernel=kernel) for _ in range(2)
        )
        assert values == pytest.approx([0.466027, 0.466027], abs=1e-6)


# 55: cloning


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf", "bandwidth": np.float64(2.0)},
        {"kernel": "rbf", "bandwidth": np.array(2.0)},
        {"kernel": lambda A, B: A @ B.T},
        {"kernel": "polynomial", "kernel_params": {"degree": np.int64(2)}},
        {"kernel_y": "delta", "debiased": np.bool_(True)},
        {"kernel": "nonsense", "bandwidth": -1, "debiased": "maybe", "form": 7},
    ],
)
@pytest.mark.parametrize("kind", [CKA, HSIC])
def test_case_55_parameters_are_the_objects_given(kind, params):
    index = kind(**params)
    for copy in (clone(index), clone(clone(index))):
        assert all(type(copy.get_params()[name]) is type(value) for name, value in params.items())
    assert all(index.get_params()[name] is value for name, value in params.items())


def test_case_55_bad_values_raise_at_fit_and_new_ones_take_effect():
    X, Y = dependent(20, 4, 3)
    for params in (
        {"bandwidth": -1.0, "kernel": "rbf"},
        {"debiased": "yes"},
        {"debiased": 1},
        {"form": "fast"},
        {"kernel_params": 3, "kernel": "rbf"},
        {"gamma": -1, "kernel": "rbf"},
    ):
        index = CKA(**params)
        with pytest.raises(ValueError, match=f"{next(iter(params))} must be"):
            index.fit(X, Y)
    with pytest.raises(ValueError, match="squared must be True or False"):
        DistanceCorrelation(squared="yes").fit(X, Y)
    index = CKA("rbf").fit(X, Y)
    before = index.similarity_
    index.set_params(bandwidth=3.0)
    assert index.similarity_ == before
    assert index.fit(X, Y).similarity_ == pytest.approx(bf.rbf_cka(X, Y, 3.0), abs=1e-12)


def test_bandwidths_of_other_number_types():
    X, Y = dependent(12, 4, 3)
    expected = cka(X, Y, kernel="rbf", bandwidth=2.0)
    for bandwidth in (2, np.float64(2.0), np.float32(2.0), np.int64(2)):
        assert cka(X, Y, kernel="rbf", bandwidth=bandwidth) == expected


def test_scoring_before_fitting():
    X = np.arange(6.0)[:, None]
    for index in (CKA(), HSIC("rbf"), KernelAlignment(), DistanceCorrelation()):
        with pytest.raises(NotFittedError):
            index.score(X, X)
    with pytest.raises(NotFittedError):
        CKA().z_score(X, X)


def test_other_widths_than_in_fit_are_refused_by_score():
    X, Y = dependent(20, 4, 3)
    index = CKA().fit(X, Y)
    with pytest.raises(ValueError, match="X has 3 features, but CKA is expecting 4"):
        index.score(X[:, :3], Y)
    with pytest.raises(ValueError, match="y has 2 features, but CKA is expecting 3"):
        index.score(X, Y[:, :2])


# Rows that do not pair up


def test_row_counts_that_differ_name_both(backend):
    X, Y = backend.asarray(rng(0).standard_normal((64, 4))), backend.asarray(rng(1).standard_normal((32, 4)))
    for call in (cka, hsic, kernel_alignment, distance_correlation, CKA().fit):
        with pytest.raises(ValueError, match=r"X has 64 samples and y has 32 samples"):
            call(X, Y)
    with pytest.raises(ValueError, match=r"64 .*32 "):
        compare_layers({"x": X}, {"y": Y}, verbose=0)


FRAME = pd.DataFrame(rng(0).standard_normal((20, 4)), columns=list("abcd"), index=[f"row {i}" for i in range(20)])
FRAME_Y = FRAME[["a", "b"]] + rng(1).standard_normal((20, 2))


def test_frames_of_pandas():
    expected = cka(FRAME.to_numpy(), FRAME_Y.to_numpy())
    assert cka(FRAME, FRAME_Y) == pytest.approx(expected, abs=1e-14)
    assert cka(FRAME, FRAME_Y.to_numpy()) == pytest.approx(expected, abs=1e-14)
    assert cka(FRAME, FRAME_Y["a"]) == pytest.approx(cka(FRAME.to_numpy(), FRAME_Y[["a"]].to_numpy()), abs=1e-14)
    index = CKA().fit(FRAME, FRAME_Y)
    assert list(index.feature_names_in_) == list("abcd")
    assert index.score(FRAME, FRAME_Y) == pytest.approx(expected, abs=1e-14)
    with pytest.raises(ValueError, match="feature names should match"):
        index.score(FRAME[list("bacd")], FRAME_Y)
    mixed = FRAME.assign(a=(FRAME["a"] * 10).round().astype(int), b=FRAME["b"] > 0, c=FRAME["c"].astype("f4"))
    assert cka(mixed, FRAME_Y) == pytest.approx(cka(mixed.to_numpy(dtype=float), FRAME_Y.to_numpy()), abs=1e-12)
    nullable = mixed.convert_dtypes()
    assert cka(nullable, FRAME_Y) == pytest.approx(cka(mixed, FRAME_Y), abs=1e-12)


@pytest.mark.parametrize("call", [cka, hsic, kernel_alignment, distance_correlation, CKA("rbf").fit])
def test_shuffled_row_labels_are_an_error_and_not_a_comparison_by_position(call):
    shuffled = FRAME_Y.sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match="the same but in another order"):
        call(FRAME, shuffled)
    with pytest.raises(ValueError, match="the same but in another order"):
        call(FRAME, shuffled["a"])
    with pytest.raises(ValueError, match="row labels of X and y differ"):
        call(FRAME, FRAME_Y.rename(index={"row 3": "row three"}))
    with pytest.raises(ValueError, match="row labels of X and y differ"):
        call(FRAME, FRAME_Y.reset_index(drop=True))


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(20),
        np.arange(20) / 2,
        pd.date_range("2024-01-01", periods=20),
        pd.MultiIndex.from_product([range(4), list("abcde")]),
        pd.Index([1, "a"] * 10),
        pd.Categorical(list("abcd") * 5),
        pd.Index([True, False] * 10),
        pd.period_range("2024-01", periods=20, freq="M"),
        pd.Index([*range(19), None], dtype=object),
    ],
    ids=["int", "float", "date", "multi", "mixed", "category", "bool", "period", "missing"],
)
def test_row_labels_of_every_kind(labels):
    X, Y = FRAME.set_axis(labels), FRAME_Y.set_axis(labels)
    assert cka(X, Y) == pytest.approx(cka(FRAME, FRAME_Y), abs=1e-14)
    with pytest.raises(ValueError, match="the same but in another order"):
        cka(X, Y.iloc[[1, 0, *range(2, 20)]])
    with pytest.raises(ValueError, match="differ"):
        cka(X, Y.set_axis([f"other {i}" for i in range(20)]))


def test_repeated_row_labels_are_compared_by_order():
    labels = [0, 0, 1, 1] * 5
    assert cka(FRAME.set_axis(labels), FRAME_Y.set_axis(labels)) == pytest.approx(cka(FRAME, FRAME_Y), abs=1e-14)
    with pytest.raises(ValueError, match="differ"):  # the same set of labels, but not as often
        cka(FRAME.set_axis(labels), FRAME_Y.set_axis([0, 1, 1, 1] * 5))


def test_shuffled_row_labels_in_score_and_tables():
    index = CKA().fit(FRAME, FRAME_Y)
    shuffled = FRAME_Y.sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match="the same but in another order"):
        index.score(FRAME, shuffled)
    with pytest.raises(ValueError, match="the same but in another order"):
        index.z_score(FRAME, shuffled)
    with pytest.raises(ValueError, match="the same but in another order"):
        compare_layers({"x": FRAME}, {"y": shuffled}, verbose=0)
    with pytest.raises(ValueError, match="the same but in another order"):
        compare_layers({"x": FRAME, "y": shuffled}, verbose=0)


def test_row_labels_of_weights():
    weights = pd.Series(rng(2).integers(1, 4, 20), index=FRAME.index)
    expected = cka(FRAME.to_numpy(), FRAME_Y.to_numpy(), sample_weight=weights.to_numpy())
    assert cka(FRAME, FRAME_Y, sample_weight=weights) == pytest.approx(expected, abs=1e-14)
    assert CKA().fit(FRAME, FRAME_Y, weights).score(FRAME, FRAME_Y, weights) == pytest.approx(expected, abs=1e-14)
    assert cka(FRAME.to_numpy(), FRAME_Y, sample_weight=weights) == pytest.approx(expected, abs=1e-14)
    with pytest.raises(ValueError, match="labels of X and sample_weight are the same but in another order"):
        cka(FRAME, FRAME_Y, sample_weight=weights.sample(frac=1.0, random_state=0))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((20, 1)), r"sample_weight has shape \(20, 1\), expected \(20,\)"),
        (np.ones(19), r"sample_weight has shape \(19,\), expected \(20,\)"),
        (2.0, r"sample_weight has shape \(\), expected \(20,\)"),
        (np.r_[-1.0, np.ones(19)], "sample_weight must not be negative, got -1"),
        (np.zeros(20), "sample_weight is zero for every row"),
        (np.eye(20)[0], r"X with 1 sample\(s\).*minimum of 2.*positive sample_weight"),
        (np.r_[np.inf, np.ones(19)], "sample_weight contains infinity"),
    ],
)
def test_weights_that_are_none(weights, message):
    with pytest.raises(ValueError, match=message):
        cka(FRAME, FRAME_Y, sample_weight=weights)


@pytest.mark.parametrize("form", ["gram", "feature"])
def test_fractional_weights_are_those_of_the_weighted_centred_gram_matrices(backend, form):
    X, Y = dependent(12, 3, 2)
    weights = rng(2).uniform(0.1, 2.0, 12)
    share = weights / weights.sum()
    center = np.eye(12) - np.outer(np.ones(12), share)
    K, L = (center @ Z @ Z.T @ center.T for Z in (X, Y))
    products = [
        sum(share[i] * share[j] * A[i, j] * B[i, j] for i in range(12) for j in range(12))
        for A, B in ((K, L), (K, K), (L, L))
    ]
    expected = products[0] / math.sqrt(products[1] * products[2])
    X, Y = backend.asarray(X), backend.asarray(Y)
    for scale in (1.0, 1e-3, 1e-30, 1e30):
        value = cka(X, Y, sample_weight=backend.asarray(weights * scale), form=form)
        assert value == pytest.approx(expected, abs=1e-12)
    assert cka(X, Y, sample_weight=weights, form=form) == pytest.approx(expected, abs=1e-12)


def test_frames_of_polars():
    pl = pytest.importorskip("polars")
    X, Y = pl.DataFrame(FRAME.to_dict("list")), pl.DataFrame(FRAME_Y.to_dict("list"))
    expected = cka(FRAME.to_numpy(), FRAME_Y.to_numpy())
    assert cka(X, Y) == pytest.approx(expected, abs=1e-14)
    assert cka(X, Y["a"]) == pytest.approx(cka(FRAME, FRAME_Y["a"]), abs=1e-14)
    index = CKA().fit(X, Y)
    assert index.score(X, Y) == pytest.approx(expected, abs=1e-14)
    assert list(index.feature_names_in_) == list("abcd")
    labels = pl.Series(["u", "v"] * 10)
    assert cka(X, labels, kernel_y="delta") == pytest.approx(cka(FRAME, ["u", "v"] * 10, kernel_y="delta"), abs=1e-14)
    assert compare_layers({"x": X, "y": Y}, verbose=0).values[0, 1] == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="X contains NaN"):
        cka(X.with_columns(pl.Series("a", [None] + [1.0] * 19)), Y)
    with pytest.raises(ValueError, match=r"20 samples.*19 samples"):
        cka(X, Y[:19])


def test_tables_of_pyarrow():
    pa = pytest.importorskip("pyarrow")
    X, Y = pa.table(FRAME.to_dict("list")), pa.table(FRAME_Y.to_dict("list"))
    expected = cka(FRAME.to_numpy(), FRAME_Y.to_numpy())
    assert cka(X, Y) == pytest.approx(expected, abs=1e-14)
    assert CKA().fit(X, Y).score(X, Y) == pytest.approx(expected, abs=1e-14)
    assert cka(X, Y["a"]) == pytest.approx(cka(FRAME, FRAME_Y["a"]), abs=1e-14)
    assert compare_layers({"x": X, "y": Y}, verbose=0).values[0, 1] == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match=r"20 samples.*19 samples"):
        cka(X, Y.slice(1))


def test_lists_and_tuples():
    X, Y = dependent(10, 3, 2)
    expected = cka(X, Y)
    assert cka(X.tolist(), Y.tolist()) == expected
    assert cka(tuple(map(tuple, X)), list(map(tuple, Y))) == expected
    assert cka(X.tolist(), Y[:, 0].tolist()) == cka(X, Y[:, :1])
    assert cka([[1], [2], [4]], [1, 2, 5]) == pytest.approx(bf.linear_cka([[1], [2], [4]], [[1], [2], [5]]), abs=1e-14)
    with pytest.raises(ValueError, match=r"inhomogeneous|setting an array element"):
        cka([[1.0], [2.0, 3.0]], [1.0, 2.0])


# Single columns, duplicated rows and columns


@by_repr([index for index in FAMILY if index.get_params().get("kernel") != "cosine"])
def test_single_columns(backend, index):
    X, Y = np.abs(rng(0).standard_normal((20, 1))), np.abs(rng(1).standard_normal((20, 1)))
    assert math.isfinite(value_of(index, backend.asarray(X), backend.asarray(Y)))


def test_single_columns_have_the_squared_correlation_as_cka():
    x, y = rng(0).standard_normal((100, 1)), rng(1).standard_normal((100, 1))
    assert math.sqrt(cka(x, y)) == pytest.approx(0.050646, abs=1e-6)
    assert cka(x, y) == pytest.approx(0.002565, abs=1e-6)


def test_duplicated_columns_double_a_direction_and_constant_ones_change_nothing():
    X, Y = dependent(20, 4, 3)
    for debiased in (False, True):
        expected = cka(X, Y, debiased=debiased)
        assert cka(np.c_[X, X], Y, debiased=debiased) == pytest.approx(expected, abs=1e-12)
        for constant in (0.0, 3.0, 1e8):
            assert cka(np.c_[X, np.full(20, constant)], Y, debiased=debiased) == pytest.approx(expected, abs=1e-12)
            value = cka(np.c_[X, np.full(20, constant)], Y, kernel="rbf", debiased=debiased)
            assert value == pytest.approx(cka(X, Y, kernel="rbf", debiased=debiased), abs=1e-10)
            value = distance_correlation(np.c_[X, np.full(20, constant)], Y, debiased=debiased)
            assert value == pytest.approx(distance_correlation(X, Y, debiased=debiased), abs=1e-10)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("cka", {}),
        ("cka", {"debiased": True}),
        ("cka", {"kernel": "rbf"}),
        ("hsic", {}),
        ("distance_correlation", {}),
        ("cca", {}),
        ("svcca", {}),
        ("pwcca", {}),
        ("linear_predictivity", {}),
        ("procrustes", {}),
        ("rsa", {"metric": "euclidean"}),
    ],
)
def test_case_20_a_constant_column_changes_nothing(name, params):
    X = rng(0).standard_normal((50, 4))
    Y = X[:, :3] + rng(1).standard_normal((50, 3))
    index = get_index(name, **params)
    expected = index.similarity(X, Y)
    for constant in (0.0, 3.0, 1e8):
        with_constant = np.c_[X, np.full(50, constant)]
        assert index.similarity(with_constant, Y) == pytest.approx(expected, abs=1e-9)
        assert index.similarity(Y, with_constant) == pytest.approx(index.similarity(Y, X), abs=1e-9)


def test_duplicated_rows_are_the_definition():
    X, Y = dependent(10, 3, 2)
    X, Y = np.repeat(X, 3, axis=0)[:12], np.repeat(Y, 3, axis=0)[:12]
    assert cka(X, Y) == pytest.approx(bf.linear_cka(X, Y), abs=1e-12)
    assert cka(X, Y, debiased=True) == pytest.approx(bf.linear_cka(X, Y, True), abs=1e-12)
    assert cka(X, Y, kernel="rbf") == pytest.approx(bf.rbf_cka(X, Y), abs=1e-12)


# 59: precomputed kernels


def test_case_59_precomputed_kernels_in_cross_validation():
    X = rng(0).standard_normal((40, 6))
    Y = X[:, :4] + rng(1).standard_normal((40, 4))
    K, L = X @ X.T, Y @ Y.T
    index = CKA("precomputed").fit(K, L)
    assert index.similarity_ == pytest.approx(0.628230, abs=1e-6)
    assert index.__sklearn_tags__().input_tags.pairwise
    assert not CKA().__sklearn_tags__().input_tags.pairwise
    for wrong in (K[:, :30], K[:30]):
        with pytest.raises(ValueError, match="square"):
            CKA("precomputed").fit(wrong, L[: len(wrong)])
    search = GridSearchCV(CKA("precomputed", kernel_y="linear"), {"debiased": [False, True]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="cross-validation"):
        search.fit(K, Y)


def test_collections_and_sparse_tensors_are_refused_with_a_remedy():
    X, Y = dependent(20, 4, 3)
    for collection in ({"layer": X}, Layers({"layer": X})):
        with pytest.raises(TypeError, match=r"X is a collection of layers or columns.*compare_layers"):
            cka(collection, Y)
        with pytest.raises(TypeError, match=r"y is a collection of layers or columns.*compare_layers"):
            CKA().fit(X, collection)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"Sparse data was passed for y, but dense data is required. Use its to_dense"):
        cka(X, torch.tensor(Y).to_sparse())


def test_types_that_are_no_numbers_name_the_argument():
    X, Y = dependent(20, 4, 3)
    dates = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=20)})
    with pytest.raises(TypeError, match="Expected an array of real numbers for X, got one of datetime64"):
        cka(dates, Y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        cka(X, Y * 1j)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="Complex data not supported: y is an array of complex128"):
        cka(X, torch.tensor(Y * 1j))


# 07: short last batches


@pytest.mark.parametrize("rows", [65, 66, 67])
def test_case_07_short_last_batches_are_left_out_alike_in_every_run(rows):
    X = rng(0).standard_normal((rows, 10))
    Y = np.c_[X[:, :5], rng(1).standard_normal((rows, 5))]
    runs = []
    for _ in range(2):
        with pytest.warns(SimilarityWarning, match=rf"A batch of {rows - 64} row\(s\) was left out"):
            accumulator = accumulate_layers([X], [Y], estimate="minibatch", batch_size=32)
        runs.append(accumulator.table().values[0, 0])
    assert runs[0] == runs[1] == pytest.approx(0.515200, abs=1e-6)


def test_weights_that_are_no_numbers_are_named():
    X, y = dependent()
    with pytest.raises(ValueError, match=r"sample_weight.*'abc'"):
        cka(X, y, sample_weight="abc")


def test_weights_of_hsic_are_added_up_in_their_library(backend):
    X, Y = (rng(seed).standard_normal((20, 3)) for seed in (0, 1))
    weights = rng(2).integers(1, 3, 20).astype(float)
    on = [backend.asarray(array) for array in (X, Y)]
    expected = HSIC().fit(X, Y, sample_weight=weights).similarity_
    assert HSIC().fit(*on, sample_weight=backend.asarray(weights)).similarity_ == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=r"sum must be greater than 1, got 0\.2"):
        HSIC().fit(*on, sample_weight=backend.asarray(np.full(20, 0.01)))
