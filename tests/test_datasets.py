"""The known values of the synthetic pairs, measured by brute force on the data."""

from itertools import permutations

import numpy as np
import pytest
import scipy.linalg
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LinearRegression

from sklearn_cka.datasets import (
    load_digits_split,
    make_independent_pair,
    make_known_pair,
    make_noisy_pair,
    make_outlier_pair,
    make_reduced_pair,
    make_rotated_pair,
    make_shared_pair,
    make_translated_pair,
)


def linear_hsic(X, Y):
    n = len(X)
    H = np.eye(n) - np.ones((n, n)) / n
    return np.trace(X @ X.T @ H @ Y @ Y.T @ H) / (n - 1) ** 2


def linear_cka(X, Y):
    return linear_hsic(X, Y) / np.sqrt(linear_hsic(X, X) * linear_hsic(Y, Y))


def canonical_correlations(X, Y):
    """Cosines of the principal angles between the column spaces of the centred data."""
    rank = min(np.linalg.matrix_rank(X - X.mean(0)), np.linalg.matrix_rank(Y - Y.mean(0)))
    bases = [scipy.linalg.orth(Z - Z.mean(0)) for Z in (X, Y)]
    return np.sort(np.cos(scipy.linalg.subspace_angles(*bases)))[::-1][:rank]


def regression_r2(X, Y):
    """Share of the variance of X that a linear map of Y explains."""
    residual = X - LinearRegression().fit(Y, X).predict(Y)
    return 1 - np.sum(residual**2) / np.sum((X - X.mean(0)) ** 2)


def procrustes(X, Y):
    """Greatest normalised inner product with a rotation of Y, found by SciPy."""
    X, Y = X - X.mean(0), Y - Y.mean(0)
    width = max(X.shape[1], Y.shape[1])
    X, Y = (np.pad(Z, ((0, 0), (0, width - Z.shape[1]))) for Z in (X, Y))
    rotation, _ = scipy.linalg.orthogonal_procrustes(Y, X)
    return np.sum((Y @ rotation) * X) / (np.linalg.norm(X) * np.linalg.norm(Y))


KNOWN_PAIRS = {
    "default": {},
    "one direction": {"spectrum_x": [2.0], "spectrum_y": [5.0], "correlations": [0.6]},
    "unequal ranks": {"spectrum_x": [5, 3, 1, 0.5], "spectrum_y": [2, 7], "correlations": [0.9, 0.3]},
    "few correlations": {"spectrum_x": [1, 2, 3], "spectrum_y": [3, 3, 1, 1], "correlations": [0.2]},
    "none": {"spectrum_x": [1, 2], "spectrum_y": [3, 4, 5], "correlations": []},
    "wide": {
        "spectrum_x": [4, 2, 1],
        "spectrum_y": [1, 2, 4, 8],
        "correlations": [1.0, 0.5, 0.25],
        "n_features_x": 12,
        "n_features_y": 40,
    },
}


@pytest.mark.parametrize("name", KNOWN_PAIRS)
def test_known_values_are_those_of_the_data(name):
    pair = make_known_pair(30, **KNOWN_PAIRS[name], random_state=0)
    X, Y, known = pair.X, pair.Y, pair.known
    tight = {"rel": 1e-12, "abs": 1e-14}
    assert linear_cka(X, Y) == pytest.approx(known["linear_cka"], **tight)
    assert linear_hsic(X, Y) == pytest.approx(known["linear_hsic"], **tight)
    # The cosine of a small angle and its arc lose half of the digits.
    np.testing.assert_allclose(canonical_correlations(X, Y), known["canonical_correlations"], atol=1e-8)
    assert np.mean(canonical_correlations(X, Y)) == pytest.approx(known["mean_cca"], abs=1e-8)
    assert np.mean(canonical_correlations(X, Y) ** 2) == pytest.approx(known["mean_squared_cca"], abs=1e-8)
    assert regression_r2(X, Y) == pytest.approx(known["regression_x_from_y"], abs=1e-12)
    assert regression_r2(Y, X) == pytest.approx(known["regression_y_from_x"], abs=1e-12)
    assert procrustes(X, Y) == pytest.approx(known["procrustes"], abs=1e-12)
    largest = max(np.linalg.matrix_rank(X), np.linalg.matrix_rank(Y))
    overlap = np.sum(canonical_correlations(X, Y) ** 2) / largest
    assert overlap == pytest.approx(known["eigenspace_overlap"], abs=1e-8)


@pytest.mark.parametrize("name", KNOWN_PAIRS)
def test_known_pairs_have_their_spectra_and_mean_zero(name):
    params = KNOWN_PAIRS[name]
    pair = make_known_pair(30, **params, random_state=1)
    for Z, spectrum in [(pair.X, params.get("spectrum_x", [10, 1])), (pair.Y, params.get("spectrum_y", [1, 10]))]:
        s = np.linalg.svd(Z, compute_uv=False)
        np.testing.assert_allclose(s[: len(spectrum)], sorted(spectrum, reverse=True), rtol=1e-13)
        assert (s[len(spectrum) :] < 1e-13).all()
        assert np.abs(Z.mean(0)).max() < 1e-15
    assert pair.X.shape == (30, params.get("n_features_x", len(params.get("spectrum_x", [10, 1]))))
    assert pair.Y.shape == (30, params.get("n_features_y", len(params.get("spectrum_y", [1, 10]))))


def test_default_pair_is_the_one_that_tells_cka_from_cca():
    pair = make_known_pair(random_state=0)
    assert pair.known["linear_cka"] == pytest.approx(200 / 10001, rel=1e-15)
    assert linear_cka(pair.X, pair.Y) == pytest.approx(200 / 10001, rel=1e-12)
    assert pair.known["mean_cca"] == 1
    np.testing.assert_allclose(pair.X[:, 0] / 10, pair.Y[:, 0], rtol=1e-13)


def test_canonical_correlations_agree_with_scikit_learn():
    pair = make_known_pair(60, spectrum_x=[3, 2], spectrum_y=[1, 2, 3], correlations=[0.5, 0.8], random_state=0)
    variates = CCA(2, scale=False, tol=1e-14, max_iter=100_000).fit(pair.X, pair.Y).transform(pair.X, pair.Y)
    found = [np.corrcoef(a, b)[0, 1] for a, b in zip(variates[0].T, variates[1].T, strict=True)]
    np.testing.assert_allclose(sorted(found), [0.5, 0.8], atol=1e-6)  # scikit-learn does not order them
    np.testing.assert_array_equal(pair.known["canonical_correlations"], [0.8, 0.5])


def test_smallest_possible_number_of_rows():
    spectra = {"spectrum_x": [2, 1], "spectrum_y": [1, 3, 2]}
    pair = make_known_pair(5, **spectra, correlations=[1.0, 0.5], random_state=0)
    assert linear_cka(pair.X, pair.Y) == pytest.approx(pair.known["linear_cka"], rel=1e-12)
    with pytest.raises(
        ValueError, match="n_samples must be at least 5 for the 4 directions of X and Y together, got 4"
    ):
        make_known_pair(4, **spectra, correlations=[1.0, 0.5])


def test_chance_is_the_mean_over_all_permutations():
    pair = make_known_pair(
        6, spectrum_x=[3, 1], spectrum_y=[2, 1, 1], correlations=[0.7], n_features_x=4, random_state=0
    )
    every = [pair.Y[list(p)] for p in permutations(range(6))]
    assert np.mean([linear_cka(pair.X, Y) for Y in every]) == pytest.approx(pair.chance["linear_cka"], rel=1e-12)
    chance = pair.chance
    assert np.mean([np.mean(canonical_correlations(pair.X, Y) ** 2) for Y in every]) == pytest.approx(
        chance["mean_squared_cca"], rel=1e-7
    )
    assert np.mean([regression_r2(pair.X, Y) for Y in every]) == pytest.approx(chance["regression_x_from_y"])
    assert np.mean([regression_r2(Y, pair.X) for Y in every]) == pytest.approx(chance["regression_y_from_x"])


def test_independent_pair_has_its_chance_level_under_all_permutations():
    pair = make_independent_pair(6, 2, 3, random_state=0)
    assert pair.X.shape == (6, 2)
    assert pair.Y.shape == (6, 3)
    every = [pair.Y[list(p)] for p in permutations(range(6))]
    assert np.mean([linear_cka(pair.X, Y) for Y in every]) == pytest.approx(pair.chance["linear_cka"], rel=1e-12)
    assert np.mean([regression_r2(pair.X, Y) for Y in every]) == pytest.approx(pair.chance["regression_x_from_y"])
    assert np.mean([regression_r2(Y, pair.X) for Y in every]) == pytest.approx(pair.chance["regression_y_from_x"])


def test_independent_pairs_average_their_chance_level():
    pairs = [make_independent_pair(20, 15, 30, random_state=seed) for seed in range(200)]
    values = np.array([linear_cka(pair.X, pair.Y) for pair in pairs])
    chance = np.array([pair.chance["linear_cka"] for pair in pairs])
    error = np.std(values - chance) / np.sqrt(len(pairs))
    assert abs(np.mean(values - chance)) < 3 * error
    assert np.mean(values) > 0.5


def test_independent_pair_without_room_has_full_rank():
    pair = make_independent_pair(5, 10, random_state=0)
    assert pair.Y.shape == (5, 10)
    assert pair.chance["mean_squared_cca"] == 1
    assert pair.chance["regression_x_from_y"] == 1


@pytest.mark.parametrize("params", [{}, {"n_features_y": 9, "scale": 1e-3, "offset": 50.0}], ids=["plain", "moved"])
def test_rotated_copy_is_the_same_to_invariant_indexes(params):
    pair = make_rotated_pair(40, 5, **params, random_state=0)
    np.testing.assert_allclose(pair.rotation @ pair.rotation.T, np.eye(5), atol=1e-14)
    Y = params.get("scale", 1) * pair.X @ pair.rotation + params.get("offset", 0)
    np.testing.assert_allclose(pair.Y, Y, rtol=1e-13)
    assert set(pair.known.values()) == {1.0}
    assert linear_cka(pair.X, pair.Y - pair.Y.mean(0)) == pytest.approx(1, abs=1e-12)
    assert procrustes(pair.X, pair.Y) == pytest.approx(1, abs=1e-12)
    assert regression_r2(pair.X, pair.Y) == pytest.approx(1, abs=1e-9)
    distances = [np.linalg.norm(Z[:, None] - Z[None], axis=2) for Z in (pair.X, pair.Y)]
    np.testing.assert_allclose(distances[1] / params.get("scale", 1), distances[0], atol=1e-9)


@pytest.mark.parametrize("make", [make_known_pair, make_rotated_pair, make_independent_pair])
def test_random_state_determines_the_data(make):
    first, second, other = make(random_state=3), make(random_state=np.random.RandomState(3)), make(random_state=4)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.Y, second.Y)
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize(
    ("make", "params", "error", "message"),
    [
        (make_known_pair, {"spectrum_x": [1, 0]}, ValueError, "spectrum_x must hold .* all of them positive"),
        (make_known_pair, {"spectrum_y": []}, ValueError, "spectrum_y must hold at least one"),
        (make_known_pair, {"spectrum_y": [[1.0]]}, ValueError, "spectrum_y must be a list of finite numbers"),
        (make_known_pair, {"spectrum_x": [np.nan]}, ValueError, "spectrum_x must be a list of finite numbers"),
        (make_known_pair, {"correlations": [1.1]}, ValueError, r"correlations must lie in \[0, 1\], got \[1.1\]"),
        (make_known_pair, {"correlations": [-0.1]}, ValueError, "correlations must lie in"),
        (
            make_known_pair,
            {"correlations": [1, 1, 1]},
            ValueError,
            "holds 3 values, but X has 2 directions and Y has 2",
        ),
        (
            make_known_pair,
            {"n_features_x": 1},
            ValueError,
            "n_features_x must be at least 2 for 2 singular values, got 1",
        ),
        (make_known_pair, {"n_samples": 10.0}, TypeError, "n_samples must be an instance of"),
        (make_rotated_pair, {"n_features_y": 4}, ValueError, "n_features_y must be at least 10 for the 10 columns"),
        (make_rotated_pair, {"scale": 0.0}, ValueError, "scale == 0.0, must be > 0"),
        (make_rotated_pair, {"n_samples": 1}, ValueError, "n_samples must be at least 2, got 1"),
        (make_independent_pair, {"n_features_y": 0}, ValueError, "n_features_y must be at least 1, got 0"),
    ],
)
def test_bad_parameters_are_refused(make, params, error, message):
    with pytest.raises(error, match=message):
        make(**params)


def test_digits_are_scaled_and_split_by_class():
    digits = load_digits_split()
    assert digits.X_train.shape == (1257, 64)
    assert digits.X_test.shape == (540, 64)
    assert digits.X_train.min() == digits.X_test.min() == 0
    assert digits.X_train.max() == digits.X_test.max() == 1
    shares = np.bincount(digits.y_test) / np.bincount(np.r_[digits.y_train, digits.y_test])
    np.testing.assert_allclose(shares, 0.3, atol=0.005)
    np.testing.assert_array_equal(load_digits_split().X_test, digits.X_test)
    assert len(load_digits_split(test_size=100, random_state=1).y_test) == 100
    assert list(digits.target_names) == list(range(10))


PLANTED_PAIRS = {
    "shared": lambda: make_shared_pair(60, n_shared=3, random_state=1),
    "shared, wide": lambda: make_shared_pair(60, n_shared=0, spectrum=[3, 1], n_features=70, random_state=1),
    "noisy": lambda: make_noisy_pair(60, noise=0.7, n_features=25, random_state=2),
    "without noise": lambda: make_noisy_pair(60, noise=0.0, random_state=2),
    "smallest dropped": lambda: make_reduced_pair(60, n_dropped=4, random_state=3),
    "largest dropped": lambda: make_reduced_pair(60, n_dropped=9, drop="largest", n_features=12, random_state=3),
    "translated": lambda: make_translated_pair(60, n_moved=17, distance=2.5, random_state=4),
    "translated by nothing": lambda: make_translated_pair(60, n_moved=17, distance=0, random_state=4),
    "two translated": lambda: make_translated_pair(40, n_moved=2, distance=30, spectrum=[1, 5], random_state=4),
    "outliers": lambda: make_outlier_pair(60, n_outliers=3, distance=8, random_state=5),
    "far outliers": lambda: make_outlier_pair(60, n_outliers=2, distance=1e3, spectrum=[2, 1], random_state=5),
    "no outliers": lambda: make_outlier_pair(60, distance=0.0, random_state=5),
}


@pytest.mark.parametrize("name", PLANTED_PAIRS)
def test_values_of_planted_pairs_are_those_of_brute_force(name):
    pair = PLANTED_PAIRS[name]()
    X, Y, known = pair.X, pair.Y, pair.known
    rho = canonical_correlations(X, Y)
    np.testing.assert_allclose(known["linear_cka"], linear_cka(X, Y), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(known["procrustes"], procrustes(X, Y), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(known["canonical_correlations"], rho, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(known["mean_squared_cca"], np.mean(rho**2), rtol=1e-8, atol=1e-12)


def test_noise_has_the_size_asked_for():
    pair = make_noisy_pair(50, noise=0.5, random_state=0)
    np.testing.assert_allclose(np.sum(pair.Y**2), 1.25 * np.sum(pair.X**2), rtol=1e-12)


def test_translated_rows_differ_by_one_vector_and_no_other_row_does():
    pair = make_translated_pair(50, n_moved=20, distance=3, random_state=0)
    moves = pair.Y - pair.X
    assert pair.moved.sum() == 20
    np.testing.assert_allclose(moves[~pair.moved], 0)
    np.testing.assert_allclose(moves[pair.moved] - moves[pair.moved][0], 0, atol=1e-14)
    spread = np.sqrt(np.mean(np.sum((pair.X - pair.X.mean(0)) ** 2, axis=1)))
    np.testing.assert_allclose(np.linalg.norm(moves[pair.moved][0]), 3 * spread, rtol=1e-12)
    for rows in (pair.moved, ~pair.moved):
        np.testing.assert_allclose(linear_cka(pair.X[rows], pair.Y[rows]), 1.0, rtol=1e-12)


def test_outlier_pair_shares_nothing_among_the_other_rows():
    pair = make_outlier_pair(400, n_outliers=2, distance=100, random_state=0)
    assert linear_cka(pair.X, pair.Y) > 0.99
    kept = ~pair.moved
    assert linear_cka(pair.X[kept], pair.Y[kept]) < 1e-3


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        (make_shared_pair, {"n_shared": 11}, ValueError, "n_shared"),
        (make_noisy_pair, {"noise": -1}, ValueError, "noise"),
        (make_noisy_pair, {"noise": "much"}, TypeError, "noise"),
        (make_reduced_pair, {"n_dropped": 10}, ValueError, "n_dropped"),
        (make_reduced_pair, {"drop": "all"}, ValueError, "'smallest' or 'largest', got 'all'"),
        (make_translated_pair, {"n_moved": 1}, ValueError, "n_moved"),
        (make_translated_pair, {"n_samples": 11, "n_moved": 3}, ValueError, "at least 12"),
        (make_translated_pair, {"distance": -0.1}, ValueError, "distance"),
        (make_outlier_pair, {"n_samples": 20}, ValueError, "at least 22"),
        (make_outlier_pair, {"n_outliers": 199}, ValueError, "n_outliers"),
        (make_outlier_pair, {"spectrum": [1, 0]}, ValueError, "positive"),
    ],
)
def test_planted_pairs_refuse_what_is_out_of_range(make, arguments, error, message):
    with pytest.raises(error, match=message):
        make(**arguments)
