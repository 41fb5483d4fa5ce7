"""Uncertainty of similarities: standard errors, intervals, tests against chance, comparisons, many tests at once."""

from sklearn_cka.inference._ceiling import noise_ceiling
from sklearn_cka.inference._intervals import bootstrap, jackknife
from sklearn_cka.inference._multiplicity import adjust_pvalues
from sklearn_cka.inference._results import (
    BootstrapResult,
    ConfidenceInterval,
    DifferenceResult,
    JackknifeResult,
    NoiseCeilingResult,
    PermutationTestResult,
)
from sklearn_cka.inference._tables import compare_tables, table_inference
from sklearn_cka.inference._tests import compare_similarities, permutation_test

__all__ = [
    "BootstrapResult",
    "ConfidenceInterval",
    "DifferenceResult",
    "JackknifeResult",
    "NoiseCeilingResult",
    "PermutationTestResult",
    "adjust_pvalues",
    "bootstrap",
    "compare_similarities",
    "compare_tables",
    "jackknife",
    "noise_ceiling",
    "permutation_test",
    "table_inference",
]
