"""Every index of the spectral family against its definition on random representations of every shape."""

import numpy as np
import pytest
import spectral_definitions as definitions
from hypothesis import assume, given
from hypothesis import strategies as st

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

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

FLOAT64, FLOAT32 = 1e-10, 1e-4


def check(index, expected, X, Y):
    """Assert the value from similarity, fit and score, in both precisions."""
    assert index.similarity(X, Y) == pytest.approx(expected, abs=FLOAT64)
    fitted = index.fit(X, Y)
    assert fitted.similarity_ == pytest.approx(expected, abs=FLOAT64)
    assert fitted.score(X, Y) == pytest.approx(expected, abs=FLOAT64)


def single(X, Y):
    """Return a pair in single precision, whose ranks that leaves in no doubt, and the same numbers in double."""
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    for Z in (X, Y):
        spectrum = np.linalg.svd(definitions.centered(Z), compute_uv=False)
        share = spectrum / spectrum[0]
        assume(not np.any((share > 1e-10) & (share < 2e-2)))
    return (X, Y), (X.astype(np.float64), Y.astype(np.float64))


PLAIN = [
    (CanonicalCorrelation(), definitions.cca),
    (CanonicalCorrelation(statistic="mean_squared"), lambda X, Y: definitions.cca(X, Y, "mean_squared")),
    (EigenspaceOverlap(), definitions.eigenspace_overlap),
    (SVCCA(threshold=1.0), definitions.cca),
    (LinearPredictivity(), definitions.linear_predictivity),
    (LinearPredictivity(target="y"), lambda X, Y: definitions.linear_predictivity(X, Y, "y")),
    (Procrustes(), definitions.procrustes),
    (ShapeMetric(), definitions.procrustes),
    (ShapeMetric(alpha=0.4), lambda X, Y: definitions.shape_similarity(X, Y, 0.4)),
    (ShapeMetric(alpha=0.0), lambda X, Y: definitions.shape_similarity(X, Y, 0.0)),
]


@pytest.mark.parametrize(("index", "definition"), PLAIN, ids=[repr(index) for index, _ in PLAIN])
@given(pair=definitions.pairs())
def test_index_is_its_definition(index, definition, pair):
    check(index, definition(*pair), *pair)


@pytest.mark.parametrize(("index", "definition"), PLAIN, ids=[repr(index) for index, _ in PLAIN])
@given(pair=definitions.pairs(offsets=(0.0, 1.0), scales=(1.0, 2.0**-50, 2.0**50)))
def test_index_in_single_precision_is_its_definition(index, definition, pair):
    low, high = single(*pair)
    assert index.similarity(*low) == pytest.approx(definition(*high), abs=FLOAT32)
    assert index.fit(*low).score(*low) == pytest.approx(definition(*high), abs=FLOAT32)


@given(pair=definitions.pairs(), threshold=st.sampled_from([0.5, 0.9, 0.99]), squared=st.booleans())
def test_svcca_is_its_definition(pair, threshold, squared):
    X, Y = pair
    for Z in pair:  # no share within rounding of the threshold
        variances = definitions.axes(definitions.centered(Z))[0][::-1]
        assume(np.abs(np.cumsum(variances) / variances.sum() - threshold).min() > 1e-9)
        gaps = -np.diff(variances) / variances[0]
        assume(gaps.min(initial=1.0) > 1e-3)
    statistic = "mean_squared" if squared else "mean"
    index = SVCCA(threshold=threshold, statistic=statistic)
    check(index, definitions.svcca(X, Y, threshold, statistic), X, Y)
    kept = [definitions.principal_components(Z, threshold).shape[1] for Z in pair]
    assert [index.n_components_x_, index.n_components_y_] == kept
    assert len(index.canonical_correlations_) == index.n_components_ == min(kept)


@given(pair=definitions.pairs())
def test_pwcca_is_its_definition_where_it_is_defined(pair):
    X, Y = pair
    rho = definitions.canonical_correlations(X, Y)
    # Equal correlations leave the directions, and with them the weights, open; if all are 1, so is the mean.
    assume(np.all(rho > 1.0 - 1e-9) or (-np.diff(rho**2)).min(initial=1.0) > 1e-4)
    check(PWCCA(), definitions.pwcca(X, Y), X, Y)
    check(PWCCA(symmetrize=True), (definitions.pwcca(X, Y) + definitions.pwcca(Y, X)) / 2, X, Y)


@given(pair=definitions.pairs(scales=(1.0, 2.0**-6, 32.0)), alpha=st.sampled_from([1e-3, 1.0, 50.0]))
def test_ridge_regression_is_its_normal_equations(pair, alpha):
    X, Y = pair
    for target in ("X", "y"):
        index = LinearPredictivity(target=target, alpha=alpha)
        expected = definitions.linear_predictivity(X, Y, target, alpha)
        assert index.similarity(X, Y) == pytest.approx(expected, abs=1e-8)
        assert index.fit(X, Y).score(X, Y) == pytest.approx(index.similarity_, abs=FLOAT64)


@given(
    pair=definitions.pairs(scales=(1.0, 0.125, 8.0), offsets=(0.0, 1.0)),
    penalties=st.sampled_from([(0.5, 0.5), (2.0, 0.3), (10.0, 1.0)]),
)
def test_canonical_ridge_is_its_definition(pair, penalties):
    X, Y = pair

    def correlations(A, B):
        kappa = {id(X): penalties[0], id(Y): penalties[1]}
        return definitions.canonical_ridge_correlations(A, B, kappa[id(A)], kappa[id(B)])

    rho = correlations(X, Y)
    k = min(definitions.rank(X), definitions.rank(Y))
    for statistic, expected in (
        ("mean", np.sum(rho[:k]) / k),
        ("mean_squared", np.sum(rho[:k] ** 2) / k),
        ("separable", definitions.separable(correlations, X, Y)),
    ):
        index = CanonicalRidge(penalty=penalties[0], penalty_y=penalties[1], statistic=statistic)
        assert index.fit(X, Y).similarity_ == pytest.approx(expected, abs=1e-8)
        assert index.score(X, Y) == pytest.approx(index.similarity_, abs=FLOAT64)
        np.testing.assert_allclose(index.canonical_correlations_, rho[:k], atol=1e-8)
