"""Values that others have published or that were computed outside of this package.

The numbers stand here as well as in the reference data beside the checkout, so that they are tested everywhere.
"""

import json

import numpy as np
import pytest

from sklearn_cka import CKA, cka

LINEAR = 0.557613256612
LINEAR_DEBIASED = 0.513456489506
RBF_WITH_SELF = 0.654831182261
RBF_MEDIAN = 0.654005929073
RBF_NONZERO = 0.654005927736
RBF_DEBIASED_WITH_SELF = 0.419276751022
TOLERANCE = 1e-10

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


def demo_inputs():
    """The inputs of the demonstration notebook of Kornblith et al. (2019): legacy generator, seed 1337."""
    legacy = np.random.RandomState(1337)
    X = legacy.randn(100, 10)
    return X, legacy.randn(100, 10) + X


@pytest.mark.parametrize("form", ["auto", "gram", "feature"])
def test_linear_cka_of_the_authors_notebook(backend, form):
    X, Y = map(backend.asarray, demo_inputs())
    assert cka(X, Y, form=form) == pytest.approx(LINEAR, abs=TOLERANCE)
    assert cka(X, Y, form=form, debiased=True) == pytest.approx(LINEAR_DEBIASED, abs=TOLERANCE)
    assert round(cka(X, Y, form=form), 5) == 0.55761  # as printed
    assert round(cka(X, Y, form=form, debiased=True), 5) == 0.51346


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("median_with_self", RBF_WITH_SELF), ("median", RBF_MEDIAN), ("median_nonzero", RBF_NONZERO)],
)
def test_rbf_cka_of_the_authors_notebook(backend, rule, expected):
    X, Y = map(backend.asarray, demo_inputs())
    value = cka(X, Y, kernel="rbf", bandwidth=0.5, bandwidth_rule=rule)
    assert value == pytest.approx(expected, abs=TOLERANCE)


def test_debiased_rbf_cka_of_the_authors_inputs():
    X, Y = demo_inputs()
    value = cka(X, Y, kernel="rbf", bandwidth=0.5, bandwidth_rule="median_with_self", debiased=True)
    assert value == pytest.approx(RBF_DEBIASED_WITH_SELF, abs=TOLERANCE)


def test_the_estimator_gives_the_published_values_from_fit_and_score():
    X, Y = demo_inputs()
    index = CKA("rbf", bandwidth=0.5, bandwidth_rule="median_with_self").fit(X, Y)
    assert index.similarity_ == pytest.approx(RBF_WITH_SELF, abs=TOLERANCE)
    assert index.score(X, Y) == pytest.approx(RBF_WITH_SELF, abs=TOLERANCE)


def test_reference_file_holds_the_values_tested_here(shared):
    entry = json.loads((shared / "golden" / "golden_values.json").read_text())["kornblith_demo"]
    assert entry["linear_cka"]["recomputed_float64"] == LINEAR
    assert entry["linear_cka_debiased"]["recomputed_float64"] == LINEAR_DEBIASED
    assert entry["rbf_cka_threshold_0.5"]["recomputed_float64"] == RBF_WITH_SELF
    assert entry["rbf_cka_debiased_threshold_0.5"]["recomputed_float64"] == RBF_DEBIASED_WITH_SELF
    X, Y = demo_inputs()
    assert cka(X, Y) == pytest.approx(entry["linear_cka"]["printed"], abs=5e-6)
    assert cka(X, Y, debiased=True) == pytest.approx(entry["linear_cka_debiased"]["printed"], abs=5e-6)
    rbf = cka(X, Y, kernel="rbf", bandwidth=0.5, bandwidth_rule="median_with_self")
    assert rbf == pytest.approx(entry["rbf_cka_threshold_0.5"]["printed"], abs=5e-6)
