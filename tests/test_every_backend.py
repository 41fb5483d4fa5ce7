"""The same numbers, types and complaints on every array library: all indexes, kernels, tables, streams and inference.

The reference is NumPy, which the tests of the families hold to independent definitions.
"""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_cka import (
    CKA,
    HSIC,
    LayerAccumulator,
    SimilarityWarning,
    bandwidth_rule_names,
    cka_spectrum,
    compare_layers,
    effective_dimension,
    get_index,
    kernel_names,
    median_distance,
    pairwise_kernel,
    within_class,
)
from sklearn_cka._arrays import device, namespace, to_numpy
from sklearn_cka.inference import bootstrap, compare_similarities, jackknife, permutation_test, table_inference
from tests.test_every_index import NAMES

rng = np.random.default_rng
pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

SLOW = {"rtd": 20}  # rows, where an index is not for many


def matrices(kind, seed=0):
    """Two positive matrices of 24 rows and one width, in a shape that trips numerical code."""
    n, p = 24, {"tall": 4, "wide": 40, "column": 1, "rank": 6, "dead column": 5}[kind]
    X = rng(seed).uniform(0.2, 2.0, (n, p))
    y = X[:, ::-1] * rng(seed + 1).uniform(0.5, 2.0, (n, p))
    if kind == "rank":
        X, y = (Z[:, :2] @ rng(seed + 2).uniform(0.1, 1.0, (2, p)) for Z in (X, y))
    if kind == "dead column":
        X[:, 2] = 3.7
    return X, y


every_kind = pytest.mark.parametrize("kind", ["wide", "column", "rank", "dead column"])


def outcome(function, *arguments):
    """Return what a call gives: its value, the kinds of its warnings, or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SimilarityWarning)
        try:
            value = function(*arguments)
        except ValueError as error:
            return type(error), str(error)
    return value, sorted(w.category.__name__ for w in caught if issubclass(w.category, SimilarityWarning))


def same(found, expected, tolerance):
    """Whether two outcomes agree: equal errors, or equal warnings and values to a tolerance."""
    assert found[1] == expected[1]
    if isinstance(expected[0], type):
        assert found[0] is expected[0]
    else:
        assert type(found[0]) is float
        assert found[0] == pytest.approx(expected[0], abs=tolerance, rel=tolerance, nan_ok=True)


def rows_of(name, Z):
    return Z[: SLOW.get(name, len(Z))]


@pytest.mark.parametrize("name", NAMES)
@every_kind
def test_every_index_has_the_value_of_numpy(backend, name, kind):
    X, y = (rows_of(name, Z) for Z in matrices(kind))
    index = get_index(name)
    expected = outcome(index.similarity, X, y)
    same(outcome(index.similarity, backend.asarray(X), backend.asarray(y)), expected, 1e-9)
    if not isinstance(expected[0], type) and kind == "wide":
        narrow = outcome(index.similarity, *(backend.asarray(Z.astype("f4")) for Z in (X, y)))
        reference = outcome(index.similarity, X.astype("f4"), y.astype("f4"))
        assert narrow[0] == pytest.approx(reference[0], abs=1e-5, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_every_index_complains_as_with_numpy(backend, name):
    X, y = (rows_of(name, Z) for Z in matrices("tall"))
    bad = X.copy()
    bad[3, 1] = np.nan
    for pair in (
        (X[:1], y[:1]),
        (X[:3], y[:3]),
        (X, y[:-1]),
        (bad, y),
        (np.full_like(X, 2.0), y),
        (X, np.zeros_like(y)),
    ):
        index = get_index(name)
        expected = outcome(index.similarity, *pair)
        found = outcome(index.similarity, *(backend.asarray(Z) for Z in pair))
        same(found, expected, 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_fitted_arrays_stay_in_their_library(backend, name):
    X, y = (rows_of(name, Z) for Z in matrices("tall"))
    reference = clone(get_index(name)).fit(X, y)
    index = clone(get_index(name)).fit(backend.asarray(X), backend.asarray(y))
    for attribute, expected in vars(reference).items():
        if not attribute.endswith("_") or attribute.startswith("_") or not isinstance(expected, np.ndarray):
            continue
        found = getattr(index, attribute)
        if not isinstance(found, np.ndarray):
            assert namespace(found) is namespace(backend.asarray(X)), attribute
            assert device(found) == device(backend.asarray(X)), attribute
        elif expected.dtype.kind == "f":
            assert backend.name == "numpy" or name in ("unit_matching", "rsa", "imd", "gulp"), attribute
        assert to_numpy(found).shape == expected.shape
    if hasattr(index, "transform"):
        moved = index.transform(backend.asarray(X))
        np.testing.assert_allclose(to_numpy(moved), reference.transform(X), atol=1e-8)
        assert namespace(moved) is namespace(backend.asarray(X))
    assert type(index.similarity_) is float


@pytest.mark.parametrize("kernel", [name for name in kernel_names() if name not in ("precomputed", "delta")])
@every_kind
def test_every_kernel_has_the_values_of_numpy(backend, kernel, kind):
    X, y = matrices(kind)
    for debiased in (False, True):
        index = CKA(kernel, debiased=debiased)
        same(
            outcome(index.similarity, backend.asarray(X), backend.asarray(y)),
            outcome(index.similarity, X, y),
            1e-9,
        )
    K = pairwise_kernel(backend.asarray(X), backend.asarray(y), kernel=kernel)
    assert namespace(K) is namespace(backend.asarray(X))
    np.testing.assert_allclose(to_numpy(K), pairwise_kernel(X, y, kernel=kernel), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", [name for name in bandwidth_rule_names() if name != "none"])
def test_every_bandwidth_rule_has_the_value_of_numpy(backend, rule):
    for kind in ("tall", "wide", "column"):
        X, _ = matrices(kind)
        assert median_distance(backend.asarray(X), rule) == pytest.approx(median_distance(X, rule), rel=1e-12)


TABLES = [
    ("cka", {"plan": "gram"}),
    ("cka", {"plan": "feature"}),
    ("cka", {"plan": "feature", "debiased": True}),
    ("hsic", {"plan": "gram", "debiased": True}),
    ("cka", {"kernel": "rbf", "plan": "matrix"}),
    ("cka", {"kernel": "rbf", "plan": "tiles", "debiased": True}),
    ("angular_cka", {"output": "distance"}),
    ("svcca", {}),
    ("pwcca", {}),
    ("procrustes", {"output": "distance"}),
    ("linear_predictivity", {}),
    ("rsa", {}),
    ("mutual_knn", {"n_neighbors": 3}),
]


@pytest.mark.parametrize(("index", "options"), TABLES, ids=str)
def test_every_plan_of_a_table_has_the_values_of_numpy(backend, index, options):
    a = {"first": matrices("tall")[0], "second": matrices("dead column", 3)[1], "wide": matrices("wide", 5)[0]}
    b = {"one": matrices("tall", 7)[0], "two": matrices("rank", 8)[1]}
    if index == "procrustes":
        a, b = ({name: Z[:, :4] for name, Z in side.items()} for side in (a, b))
    on = [{name: backend.asarray(Z) for name, Z in side.items()} for side in (a, b)]
    for ours, theirs in (((a,), (on[0],)), ((a, b), on)):
        expected = compare_layers(*ours, index=index, verbose=0, **options)
        found = compare_layers(*theirs, index=index, verbose=0, **options)
        assert found.plan.name == expected.plan.name
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.chance, expected.chance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("index", ["cka", "svcca", "procrustes", "linear_predictivity"])
def test_streams_have_the_values_of_numpy(backend, index):
    X, y = matrices("tall")
    accumulator = LayerAccumulator(index)
    for start in range(0, 24, 7):
        rows = slice(start, min(start + 7, 24))
        accumulator.update({"x": backend.asarray(X)[rows, :], "y": backend.asarray(y)[rows, :]})
    expected = compare_layers({"x": X, "y": y}, index=index, verbose=0)
    np.testing.assert_allclose(accumulator.table().values, expected.values, rtol=1e-8, atol=1e-9)


INFERENCE = [CKA(), CKA(debiased=True), HSIC("rbf"), get_index("cca")]


@pytest.mark.parametrize("index", INFERENCE, ids=str)
def test_inference_has_the_values_of_numpy(backend, index):
    X, y = matrices("tall")
    Z = matrices("tall", 9)[0]
    on = [backend.asarray(side) for side in (X, y, Z)]
    pairs = [
        (jackknife, {}, ("standard_error", "estimate", "bias_corrected")),
        (bootstrap, {"n_resamples": 20, "random_state": 0}, ("standard_error",)),
        (permutation_test, {"n_resamples": 20, "random_state": 0}, ("pvalue", "z", "null_mean")),
    ]
    for function, options, attributes in pairs:
        found, expected = function(index, *on[:2], **options), function(index, X, y, **options)
        for attribute in attributes:
            if hasattr(expected, attribute):
                value = getattr(found, attribute)
                assert value == pytest.approx(getattr(expected, attribute), rel=1e-7, abs=1e-9, nan_ok=True)
                assert isinstance(value, float)
    found, expected = (compare_similarities(index, sides[:2], sides[::2]) for sides in (on, [X, y, Z]))
    assert found.pvalue == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-9)


def test_standard_errors_of_tables_have_the_values_of_numpy(backend):
    a = {"x": matrices("tall")[0], "y": matrices("wide", 3)[1]}
    on = {name: backend.asarray(Z) for name, Z in a.items()}
    for options in ({"debiased": True}, {"kernel": "rbf"}):
        found, expected = (table_inference(side, index=CKA(**options)) for side in (on, a))
        np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-7, atol=1e-10)


def test_spectra_and_classes_have_the_values_of_numpy(backend):
    X, y = matrices("tall")
    labels = np.arange(24) % 3
    on = [backend.asarray(side) for side in (X, y)]
    assert effective_dimension(on[0]) == pytest.approx(effective_dimension(X), rel=1e-10)
    assert cka_spectrum(*on).similarity == pytest.approx(cka_spectrum(X, y).similarity, rel=1e-10)
    found, expected = within_class(*on, labels), within_class(X, y, labels)
    assert math.isclose(found.statistic, expected.statistic, rel_tol=1e-10)
