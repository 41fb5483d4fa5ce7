"""Deconfounded CKA against least squares on the entries, partial correlations and all permutations."""

import itertools
import math
import pickle

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_cka import (
    CKA,
    DeconfoundedCKA,
    UndefinedSimilarityWarning,
    cka,
    compare_layers,
    deconfounded_cka,
)
from sklearn_cka.testing import index_checks

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_cka.ChanceLevelWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
rng = np.random.default_rng


def triple(seed, n=20, p=4, q=3, r=2, share=1.0):
    Z = rng(seed).standard_normal((n, r))
    X = share * Z @ rng(seed + 1).standard_normal((r, p)) + rng(seed + 2).standard_normal((n, p))
    Y = share * Z @ rng(seed + 3).standard_normal((r, q)) + rng(seed + 4).standard_normal((n, q))
    return X, Y, Z


def double_centered(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


def u_centered(K):
    n = len(K)
    K = K - np.diag(np.diag(K))
    sums = K.sum(axis=1)
    A = K - sums[:, None] / (n - 2) - sums[None] / (n - 2) + K.sum() / ((n - 1) * (n - 2))
    return A - np.diag(np.diag(A))


def definition(K, L, C, center=double_centered, nearest_psd=False):
    """Residuals of a least-squares fit of all entries, and their cosine."""
    residuals = []
    for A in (center(K), center(L)):
        design = np.c_[np.ones(A.size), center(C).ravel()]
        fitted = design @ np.linalg.lstsq(design, A.ravel(), rcond=None)[0]
        R = A - fitted.reshape(A.shape)
        if center is u_centered:
            R -= np.diag(np.diag(R))
        if nearest_psd:
            values, vectors = np.linalg.eigh((R + R.T) / 2)
            R = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        residuals.append(R)
    R, S = residuals
    return (R * S).sum() / math.sqrt((R * R).sum() * (S * S).sum())


def close(value, expected, tolerance=1e-10):
    assert abs(value - expected) <= tolerance, (value, expected)


@given(
    seed=st.integers(0, 2**20),
    n=st.integers(4, 20),
    widths=st.tuples(*(st.integers(1, 25),) * 3),
    share=st.sampled_from([0.0, 1.0, 3.0]),
    offset=st.sampled_from([0.0, 100.0]),
    scale=st.sampled_from([1.0, 1e-20, 1e20]),
    nearest_psd=st.booleans(),
)
def test_residual_matrices_are_those_of_least_squares(seed, n, widths, share, offset, scale, nearest_psd):
    p, q, r = widths
    X, Y, Z = triple(seed, n, p, q, r, share)
    K, L, C = (A @ A.T for A in (X, Y, Z))
    value = deconfounded_cka((X + offset) * scale, Y - offset, Z * scale + 3.0 * scale, nearest_psd=nearest_psd)
    close(value, definition(K, L, C, nearest_psd=nearest_psd), 1e-10 if offset == 0.0 else 1e-8)


@given(seed=st.integers(0, 2**20), n=st.integers(5, 20), widths=st.tuples(*(st.integers(1, 25),) * 3))
def test_debiased_residual_matrices_are_u_centred(seed, n, widths):
    X, Y, Z = triple(seed, n, *widths)
    K, L, C = (A @ A.T for A in (X, Y, Z))
    centered = [u_centered(A) for A in (K, L, C)]
    kl, kc, lc = ((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b) for a, b in itertools.combinations(centered, 2))
    if max(abs(kc), abs(lc)) > 1 - 1e-6:
        return  # next to nothing is left
    partial = (kl - kc * lc) / math.sqrt((1 - kc**2) * (1 - lc**2))
    close(deconfounded_cka(X, Y, Z, debiased=True), partial, 1e-8)


@pytest.mark.parametrize("debiased", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "distance"])
def test_it_is_the_partial_correlation_of_three_ckas(kernel, debiased):
    X, Y, Z = triple(0)
    kl, kc, lc = (cka(A, B, kernel=kernel, debiased=debiased) for A, B in ((X, Y), (X, Z), (Y, Z)))
    index = DeconfoundedCKA(kernel, debiased=debiased).fit(X, Y, confound=Z)
    close(index.similarity_, (kl - kc * lc) / math.sqrt((1 - kc**2) * (1 - lc**2)))
    close(index.explained_, kc**2)
    close(index.explained_y_, lc**2)


def test_confound_kernels():
    X, Y, Z = triple(1)
    C = Z @ Z.T
    close(deconfounded_cka(X, Y, C, confound_kernel="precomputed"), deconfounded_cka(X, Y, Z))
    expected = definition(X @ X.T, Y @ Y.T, rbf_kernel(Z, gamma=0.3))
    close(deconfounded_cka(X, Y, rbf_kernel(Z, gamma=0.3), confound_kernel="precomputed"), expected)
    close(deconfounded_cka(X, Y, Z, confound_kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)), expected)
    sigma = 0.4
    grams = [rbf_kernel(A, gamma=1 / (2 * sigma**2)) for A in (X, Y, Z)]
    close(deconfounded_cka(X, Y, Z, kernel="rbf", bandwidth=sigma, bandwidth_rule="none"), definition(*grams))
    labels = np.arange(20) % 3
    same = (labels[:, None] == labels[None]).astype(float)
    close(deconfounded_cka(X, Y, labels, confound_kernel="delta"), definition(X @ X.T, Y @ Y.T, same))


def test_random_networks_on_one_input_are_similar_only_by_their_input():
    values, raw = [], []
    for seed in range(20):
        Z = rng(seed).standard_normal((200, 10)) * np.geomspace(1, 5, 10)
        X, Y = (np.maximum(Z @ rng(seed + s).standard_normal((10, 100)), 0) for s in (100, 200))
        raw.append(cka(X, Y, debiased=True))
        values.append(deconfounded_cka(X, Y, Z, debiased=True))
    assert min(raw) > 0.85
    assert np.mean(values) < 0.4
    X, Y, Z = triple(3, n=400, p=30, q=30, r=5, share=1.0)
    assert cka(X, Y, debiased=True) > 0.5
    assert abs(deconfounded_cka(X, Y, Z, debiased=True)) < 0.2


def test_without_a_confounder_it_is_cka():
    X, Y, _ = triple(2)
    for kernel in ("linear", "rbf"):
        for debiased in (False, True):
            index = DeconfoundedCKA(kernel, debiased=debiased).fit(X, Y)
            reference = CKA(kernel, debiased=debiased).fit(X, Y)
            assert index.similarity_ == reference.similarity_
            assert index.chance_ == reference.chance_
            assert index.explained_ == index.explained_y_ == 0.0
    index = DeconfoundedCKA().fit(X, Y, confound=np.full((20, 3), 3.7))
    close(index.similarity_, cka(X, Y))
    assert index.explained_ == 0.0


def test_nothing_is_left_of_the_confounder_itself():
    X, Y, Z = triple(4)
    Q = np.linalg.qr(rng(0).standard_normal((2, 2)))[0]
    for kernel in ("linear", "rbf"):
        with pytest.warns(UndefinedSimilarityWarning, match="Gram matrix of X is a multiple of that of the confounder"):
            assert math.isnan(deconfounded_cka(3.0 * Z @ Q + 10.0, Y, Z, kernel=kernel))
    with pytest.warns(UndefinedSimilarityWarning, match="Gram matrix of y is zero, as for a constant"):
        assert math.isnan(deconfounded_cka(X, np.full(20, 2.5), Z))


@pytest.mark.parametrize("options", [{}, {"debiased": True}, {"kernel": "rbf"}, {"nearest_psd": True}])
def test_integer_weights_are_repeated_rows(options):
    X, Y, Z = triple(5)
    weights = rng(6).integers(0, 4, 20)
    rows = np.repeat(np.arange(20), weights)
    value = deconfounded_cka(X, Y, Z, sample_weight=weights, **options)
    close(value, deconfounded_cka(X[rows], Y[rows], Z[rows], **options))


@pytest.mark.parametrize("debiased", [False, True])
def test_chance_and_z_score_are_those_of_permuted_residuals(debiased):
    X, Y, Z = triple(7, n=6)
    index = DeconfoundedCKA(debiased=debiased).fit(X, Y, confound=Z)
    center = u_centered if debiased else double_centered
    K, L, C = (center(A @ A.T) for A in (X, Y, Z))
    R, S = (A - (A * C).sum() / (C * C).sum() * C for A in (K, L))
    products = [(R * S[np.ix_(order, order)]).sum() for order in map(list, itertools.permutations(range(6)))]
    close(index.chance_, np.mean(products) / np.linalg.norm(R) / np.linalg.norm(S))
    close(index.z_score(X, Y, confound=Z), ((R * S).sum() - np.mean(products)) / np.std(products))


def test_metadata_routing_hands_every_fold_its_rows():
    X, Y, Z = triple(8, n=30)
    with sklearn.config_context(enable_metadata_routing=True):
        index = DeconfoundedCKA().set_fit_request(confound=True).set_score_request(confound=True)
        scores = cross_validate(index, X, Y, cv=KFold(3), params={"confound": Z})["test_score"]
        for score, (_, test) in zip(scores, KFold(3).split(X), strict=True):
            close(score, deconfounded_cka(X[test], Y[test], Z[test]))
        search = GridSearchCV(index, {"kernel": ["linear", "rbf"]}, cv=3).fit(X, Y, confound=Z)
        assert search.best_estimator_.explained_ > 0.0


def test_confounder_as_a_parameter_serves_tables():
    X, Y, Z = triple(9)
    layers = {"x": X, "y": Y, "z": Z, "dead": np.ones((20, 2))}
    for kernel in ("linear", "rbf"):
        with pytest.warns(UndefinedSimilarityWarning):
            table = compare_layers(layers, index="deconfounded_cka", confound=Z, kernel=kernel, verbose=0)
        close(table.values[0, 1], deconfounded_cka(X, Y, Z, kernel=kernel))
        close(table.values[1, 1], 1.0)
        assert np.isnan(table.values[2:]).all()
    index = DeconfoundedCKA(confound=Z)
    close(index.fit(X, Y).similarity_, deconfounded_cka(X, Y, Z))
    other = rng(3).standard_normal((20, 2))
    close(index.fit(X, Y, confound=other).similarity_, deconfounded_cka(X, Y, other))
    index.embed(X)
    assert len(pickle.dumps(index)) < 2000 + Z.nbytes
    index.set_params(confound=other)
    close(index.compare(index.embed(X), index.embed(Y)), deconfounded_cka(X, Y, other))
    assert clone(index).get_params()["confound"].shape == (20, 2)


def test_errors_name_the_argument():
    X, Y, Z = triple(10)
    with pytest.raises(ValueError, match=r"confound has 15 rows and X has 20: .*set_fit_request"):
        deconfounded_cka(X, Y, Z[:15])
    with pytest.raises(ValueError, match="confound has 20 rows and X has 10"):
        DeconfoundedCKA(confound=Z).fit(X[:10], Y[:10])
    with pytest.raises(ValueError, match="Input confound contains NaN"):
        deconfounded_cka(X, Y, np.where(Z > 1, np.nan, Z))
    with pytest.raises(ValueError, match="must be a square matrix"):
        deconfounded_cka(X, Y, Z, confound_kernel="precomputed")
    with pytest.raises(ValueError, match="Unknown confound_kernel"):
        deconfounded_cka(X, Y, Z, confound_kernel="lin")
    with pytest.raises(ValueError, match="nearest_psd=True has no meaning with debiased=True"):
        deconfounded_cka(X, Y, Z, debiased=True, nearest_psd=True)


def test_the_metric_form_is_the_angle_between_the_residuals_of_weighted_rows_too():
    X, Y, Z = triple(12)
    index, weights = DeconfoundedCKA(), rng(3).integers(0, 4, len(X))
    close(index.distance(X, Y, confound=Z), math.acos(deconfounded_cka(X, Y, Z)))
    rows = np.repeat(np.arange(len(X)), weights)
    close(index.distance(X, Y, weights, Z), index.distance(X[rows], Y[rows], confound=Z[rows]))


def test_all_array_libraries_agree(backend):
    X, Y, Z = triple(11)
    for options in ({}, {"debiased": True}, {"kernel": "rbf"}, {"nearest_psd": True}):
        arrays = [backend.asarray(A) for A in (X, Y, Z)]
        value = deconfounded_cka(*arrays, **options)
        assert type(value) is float
        close(value, deconfounded_cka(X, Y, Z, **options))
        close(deconfounded_cka(*arrays[:2], Z, **options), value)
        close(deconfounded_cka(*(backend.asarray(A.astype("f4")) for A in (X, Y, Z)), **options), value, 1e-4)


INDEXES = [
    DeconfoundedCKA(),
    DeconfoundedCKA(debiased=True),
    DeconfoundedCKA("rbf", nearest_psd=True),
    DeconfoundedCKA(kernel_y="distance"),
]
WITH_CONFOUNDER = DeconfoundedCKA(confound=rng(99).standard_normal((40, 2)))
# Checks that bring another number of rows than the 40 of the confounder.
_OTHER_ROWS = (
    "check_few_rows",
    "check_chance",
    "check_integer_weights",
    "check_metric",
    "check_range",
    "check_row_order",
)


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@parametrize_with_checks(INDEXES)
def test_sklearn_estimator_checks(estimator, check):
    check(estimator)


def _index_checks():
    for index in INDEXES:
        for name, check in index_checks(index):
            yield pytest.param(check, id=f"{index!r}-{name}")
    for name, check in index_checks(WITH_CONFOUNDER):
        if name not in _OTHER_ROWS:
            yield pytest.param(check, id=f"confound-{name}")


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@pytest.mark.parametrize("check", _index_checks())
def test_index_checks(check):
    check()
