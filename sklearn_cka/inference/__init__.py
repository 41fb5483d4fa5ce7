"""Uncertainty of similarities: standard errors, intervals, tests against chance, comparisons, many tests at once."""

from sklearn_cka.inference._intervals import bootstrap, jackknife
from sklearn_cka.inference._results import (
    BootstrapResult,
    ConfidenceInterval,
    DifferenceResult,
    JackknifeResult,
    NoiseCeilingResult,
    PermutationTestResult,
)
from sklearn_cka.inference._tests import compare_similarities, permutation_test

__all__ = [
    "BootstrapResult",
    "ConfidenceInterval",
    "DifferenceResult",
    "JackknifeResult",
    "NoiseCeilingResult",
    "PermutationTestResult",
    "bootstrap",
    "compare_similarities",
    "jackknife",
    "permutation_test",
]
