"""Identities between the indexes of the spectral family, Theorem 1 of Kornblith et al., and their Table 1 measured."""

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.linalg
import spectral_definitions as definitions
from hypothesis import given
from hypothesis import strategies as st

from sklearn_cka import (
    CKA,
    HSIC,
    PWCCA,
    SVCCA,
    CanonicalCorrelation,
    CanonicalRidge,
    DegenerateSimilarityWarning,
    EigenspaceOverlap,
    LinearPredictivity,
    Procrustes,
    ShapeMetric,
    cca,
    cka,
    linear_predictivity,
    procrustes_similarity,
    pwcca,
    svcca,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

rng = np.random.default_rng
EXACT = 1e-10


def pair(n=40, p=5, q=3, seed=0):
    X = rng(seed).standard_normal((n, p)) * np.geomspace(1.0, 3.0, p)
    return X, X[:, np.arange(q) % p] + rng(seed + 1000).standard_normal((n, q))


def orthonormal(X):
    return scipy.linalg.orth(definitions.centered(X), rcond=1e-12)


@given(pair=definitions.pairs())
def test_mean_squared_cca_is_cka_of_orthonormal_bases(pair):
    Q_x, Q_y = map(orthonormal, pair)
    ranks = sorted((Q_x.shape[1], Q_y.shape[1]))
    expected = cka(Q_x, Q_y) * math.sqrt(ranks[1] / ranks[0])
    assert cca(*pair, statistic="mean_squared") == pytest.approx(expected, abs=EXACT)
    assert EigenspaceOverlap().similarity(*pair) == pytest.approx(expected * ranks[0] / ranks[1], abs=EXACT)


@given(pair=definitions.pairs())
def test_regression_is_cka_with_an_orthonormal_basis_times_the_root_of_its_rank(pair):
    X, Y = definitions.centered(pair[0]), pair[1]
    Q_y = orthonormal(Y)
    factor = math.sqrt(Q_y.shape[1]) * scipy.linalg.norm(X.T @ X) / scipy.linalg.norm(X) ** 2
    assert linear_predictivity(X, Y) == pytest.approx(cka(X, Q_y) * factor, abs=EXACT)


def test_factor_of_equation_12_is_the_rank_of_the_predictor_not_the_width_of_the_target():
    X, Y = pair(n=60, p=6, q=2)
    Xc, Q_y = X - X.mean(axis=0), orthonormal(Y)
    base = cka(X, Q_y) * scipy.linalg.norm(Xc.T @ Xc) / scipy.linalg.norm(Xc) ** 2
    assert linear_predictivity(X, Y) == pytest.approx(base * math.sqrt(2), abs=EXACT)
    assert abs(linear_predictivity(X, Y) - base * math.sqrt(6)) > 0.05


@pytest.mark.parametrize(("p", "q"), [(3, 3), (3, 5), (1, 4)])
def test_pwcca_with_squares_is_regression(p, q):
    X, Y = pair(p=p, q=q)
    h, rho = definitions.canonical_variates(X, Y)
    alpha = np.sum((h.T @ (X - X.mean(axis=0))) ** 2, axis=1)
    assert alpha @ rho**2 / alpha.sum() == pytest.approx(linear_predictivity(X, Y), abs=EXACT)


@given(pair=definitions.pairs(scales=(1.0,)))
def test_linear_cka_is_the_spectral_form(pair):
    a, b = map(CanonicalCorrelation().embed, pair)
    M = a.basis.T @ b.basis
    s_x, s_y = a.spectrum, b.spectrum
    spectral = np.sum((s_x[:, None] * M * s_y) ** 2) / (np.linalg.norm(s_x**2) * np.linalg.norm(s_y**2))
    assert cka(*pair) == pytest.approx(spectral, abs=EXACT)


def test_known_value_of_scaled_orthonormal_columns():
    u = np.array([1.0, -1.0, 0.0, 0.0]) / math.sqrt(2)
    v = np.array([0.0, 0.0, 1.0, -1.0]) / math.sqrt(2)
    X, Y = np.c_[10 * u, v], np.c_[u, 10 * v]
    assert cka(X, Y) == pytest.approx(200 / 10001, abs=1e-12)
    assert cca(X, Y) == pytest.approx(1.0, abs=1e-12)
    assert svcca(X, Y, threshold=0.9) == pytest.approx(0.0, abs=1e-12)
    assert procrustes_similarity(X, Y) == pytest.approx(20 / 101, abs=1e-12)
    assert linear_predictivity(X, Y) == pytest.approx(1.0, abs=1e-12)


@given(pair=definitions.pairs(), seed=st.integers(0, 2**32 - 1))
def test_cca_is_invariant_to_invertible_maps_and_shifts(pair, seed):
    X, Y = pair
    r = rng(seed)
    A, B = (r.standard_normal((Z.shape[1],) * 2) + 3.0 * np.eye(Z.shape[1]) for Z in pair)
    spectra = [np.linalg.svd(definitions.centered(Z @ T))[1] for Z, T in ((X, A), (Y, B))]
    if any(np.any((s > 1e-13 * s[0]) & (s < 1e-3 * s[0])) for s in spectra):
        return
    ranks = [definitions.rank(Z) for Z in (X @ A, X, Y @ B, Y)]
    if ranks[0] != ranks[1] or ranks[2] != ranks[3] or any(Z.shape[1] > definitions.rank(Z) for Z in pair):
        return  # rounding of a product of rank-deficient data adds to their rank
    X_scale, Y_scale = np.ptp(X), np.ptp(Y)
    assert cca(X @ A + X_scale, Y @ B - Y_scale) == pytest.approx(cca(X, Y), abs=1e-8)


@pytest.mark.parametrize("n", [4, 12, 30])
@pytest.mark.parametrize("extra", [(0, 0), (3, 0), (0, 20), (40, 40)])
def test_theorem_1_invariant_indexes_are_constant_where_both_ranks_are_full(n, extra):
    """Both centred ranks are n - 1: whatever is invariant to invertible maps is then the same for all data."""
    X, Y = rng(0).standard_normal((n, n + extra[0])), rng(1).standard_normal((n, n + extra[1]))
    for index in (
        CanonicalCorrelation(),
        CanonicalCorrelation(statistic="mean_squared"),
        SVCCA(threshold=1.0),
        EigenspaceOverlap(),
        PWCCA(),
        LinearPredictivity(),
        LinearPredictivity(target="y"),
        ShapeMetric(alpha=0.0),
        CanonicalRidge(penalty=0.0),
    ):
        with pytest.warns(DegenerateSimilarityWarning, match="held-out"):
            assert index.similarity(X, Y) == pytest.approx(1.0, abs=1e-9)
    for index in (Procrustes(), ShapeMetric(alpha=0.5), CanonicalRidge(penalty=1.0), CKA()):
        assert index.similarity(X, Y) < 0.999


def transformations(X, seed):
    """Return `X` under an invertible linear map, an orthogonal one, and isotropic scaling."""
    p = X.shape[1]
    r = rng(seed)
    Q = np.linalg.qr(r.standard_normal((p, p)))[0]
    return {
        "invertible linear": X @ (Q * np.geomspace(1.0, 20.0, p)) @ np.linalg.qr(r.standard_normal((p, p)))[0],
        "orthogonal": X @ Q,
        "isotropic scaling": X * 5.0,
    }


# Table 1 of Kornblith et al. (2019): to what of Y, and of X, the index is invariant. For SVCCA and PWCCA the table
# marks as invariant to invertible maps those that leave the kept subspace alone; a general one changes the value.
TABLE_1 = {
    "linear regression": (LinearPredictivity(), "y", {"invertible linear", "orthogonal", "isotropic scaling"}),
    "linear regression (X)": (LinearPredictivity(), "X", {"orthogonal", "isotropic scaling"}),
    "R2 CCA": (
        CanonicalCorrelation(statistic="mean_squared"),
        "both",
        {"invertible linear", "orthogonal", "isotropic scaling"},
    ),
    "mean CCA": (CanonicalCorrelation(), "both", {"invertible linear", "orthogonal", "isotropic scaling"}),
    "R2 SVCCA": (SVCCA(threshold=0.9, statistic="mean_squared"), "both", {"orthogonal", "isotropic scaling"}),
    "mean SVCCA": (SVCCA(threshold=0.9), "both", {"orthogonal", "isotropic scaling"}),
    "PWCCA (X)": (PWCCA(), "X", {"isotropic scaling"}),
    "PWCCA (y)": (PWCCA(), "y", {"invertible linear", "orthogonal", "isotropic scaling"}),
    "linear HSIC": (HSIC(), "both", {"orthogonal"}),
    "linear CKA": (CKA(), "both", {"orthogonal", "isotropic scaling"}),
    "RBF CKA": (CKA("rbf"), "both", {"orthogonal", "isotropic scaling"}),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_invariances_of_table_1_measured(name):
    index, sides, invariances = TABLE_1[name]
    X, Y = pair(n=50, p=6, q=4)
    value = index.similarity(X, Y)
    for side in ("X", "y") if sides == "both" else sides:
        for kind, changed in transformations(X if side == "X" else Y, seed=5).items():
            other = index.similarity(changed, Y) if side == "X" else index.similarity(X, changed)
            if kind in invariances:
                assert other == pytest.approx(value, abs=1e-10), (side, kind)
            else:
                assert abs(other - value) > 1e-4, (side, kind)


def test_svcca_is_invariant_to_maps_within_the_kept_subspace():
    X, Y = pair(n=50, p=4, q=3)
    A = np.linalg.qr(rng(1).standard_normal((4, 4)))[0] * [1.0, 1.2, 0.9, 1.1]  # keeps all at either end
    assert svcca(X @ A, Y, n_components=4) == pytest.approx(svcca(X, Y, n_components=4), abs=EXACT)


@pytest.mark.parametrize(
    "index",
    [
        CanonicalCorrelation(statistic="mean_squared"),
        EigenspaceOverlap(),
        SVCCA(threshold=0.8, statistic="mean_squared"),
        LinearPredictivity(),
        LinearPredictivity(target="y"),
        LinearPredictivity(alpha=2.0),
        CanonicalRidge(penalty=0.5, penalty_y=2.0, statistic="mean_squared"),
        CanonicalRidge(penalty=0.5, statistic="separable"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("p", "q"), [(3, 2), (1, 4), (5, 5)])
def test_chance_is_the_mean_over_all_permutations_of_the_rows(index, p, q):
    X, Y = pair(n=6, p=p, q=q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chance = index.fit(X, Y).chance_
        a, b = index.embed(X), index.embed(Y)
        mean = np.mean(
            [index.from_cross(a.basis.T @ b.basis[list(order)], a, b) for order in itertools.permutations(range(6))]
        )
    assert chance == pytest.approx(mean, abs=1e-12)


def test_independent_data_are_at_chance_on_average():
    squared, regression = CanonicalCorrelation(statistic="mean_squared"), LinearPredictivity()
    values = []
    for seed in range(60):
        X, Y = rng(seed).standard_normal((30, 4)), rng(seed + 500).standard_normal((30, 6))
        values.append([squared.similarity(X, Y), regression.similarity(X, Y)])
    error = np.std(values, axis=0, ddof=1) / math.sqrt(60)
    assert np.all(np.abs(np.mean(values, axis=0) - 6 / 29) < 4.0 * error)


def test_symmetrised_pwcca_is_the_mean_of_both_orders():
    X, Y = pair()
    assert pwcca(X, Y, symmetrize=True) == pytest.approx((pwcca(X, Y) + pwcca(Y, X)) / 2, abs=1e-12)
