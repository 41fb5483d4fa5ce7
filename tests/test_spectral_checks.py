"""scikit-learn's estimator checks and ours, over every index of the spectral family in several configurations."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    PWCCA,
    SVCCA,
    CanonicalCorrelation,
    CanonicalRidge,
    EigenspaceOverlap,
    LinearPredictivity,
    Procrustes,
    ShapeMetric,
)
from sklearn_cka.testing import index_checks

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.SimilarityWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)

INDEXES = [
    CanonicalCorrelation(),
    SVCCA(),
    PWCCA(),
    EigenspaceOverlap(),
    LinearPredictivity(),
    CanonicalRidge(),
    Procrustes(),
    ShapeMetric(alpha=0.5),
]
VARIANTS = [
    CanonicalCorrelation(statistic="mean_squared"),
    SVCCA(threshold=0.7, statistic="mean_squared"),
    SVCCA(n_components=2),
    PWCCA(symmetrize=True),
    LinearPredictivity(target="y"),
    LinearPredictivity(alpha=5.0),
    CanonicalRidge(penalty=0.5, penalty_y=2.0, statistic="mean_squared"),
    CanonicalRidge(statistic="separable"),
    Procrustes(distance_form="chord"),
    ShapeMetric(alpha=0.0),
    ShapeMetric(alpha=0.3, distance_form="chord"),
]


@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES + VARIANTS:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index}-{name}")


@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
