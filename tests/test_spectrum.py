"""Parts of CKA by eigenvector pairs, against explicit eigenvectors; effective dimensions; CKA within classes."""

import numpy as np
import pytest

from sklearn_cka import (
    UndefinedSimilarityWarning,
    cka,
    cka_spectrum,
    effective_dimension,
    pairwise_kernel,
    within_class,
)
from sklearn_cka.datasets import make_known_pair

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")


def pair(n=30, p=4, q=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1)
    return X, X @ rng.standard_normal((p, q)) + rng.standard_normal((n, q))


def eigenpairs(K):
    H = np.eye(len(K)) - 1 / len(K)
    values, vectors = np.linalg.eigh(H @ K @ H)
    kept = values > 1e-10 * values.max()
    return values[kept][::-1], vectors[:, kept][:, ::-1]


@pytest.mark.parametrize("shape", [(30, 4, 6), (20, 50, 3), (20, 50, 60)])
def test_parts_are_those_of_explicit_eigenvectors(backend, shape):
    X, Y = pair(*shape)
    spectrum = cka_spectrum(backend.asarray(X), backend.asarray(Y))
    l_x, U = eigenpairs(X @ X.T)
    l_y, V = eigenpairs(Y @ Y.T)
    np.testing.assert_allclose(spectrum.eigenvalues_x, l_x, rtol=1e-9)
    np.testing.assert_allclose(spectrum.eigenvalues_y, l_y, rtol=1e-9)
    np.testing.assert_allclose(spectrum.overlaps, (U.T @ V) ** 2, atol=1e-7)
    expected = np.outer(l_x, l_y) * (U.T @ V) ** 2 / np.linalg.norm(l_x) / np.linalg.norm(l_y)
    np.testing.assert_allclose(spectrum.contributions, expected, atol=1e-9)
    assert spectrum.similarity == pytest.approx(cka(X, Y), rel=1e-10)
    assert spectrum.contributions.sum() == pytest.approx(spectrum.similarity)


def test_parts_of_a_kernel_sum_to_its_cka():
    X, Y = pair()
    spectrum = cka_spectrum(X, Y, kernel="rbf", bandwidth=0.5)
    assert spectrum.similarity == pytest.approx(cka(X, Y, kernel="rbf", bandwidth=0.5), rel=1e-10)
    values, _ = eigenpairs(pairwise_kernel(X, kernel="rbf", bandwidth=0.5))
    np.testing.assert_allclose(spectrum.eigenvalues_x, values, rtol=1e-9, atol=1e-9)


def test_indefinite_kernels_keep_their_negative_eigenvalues():
    X, Y = pair()
    spectrum = cka_spectrum(X, Y, kernel="sigmoid", gamma=0.05)
    assert (spectrum.eigenvalues_x < 0).any()
    assert spectrum.similarity == pytest.approx(cka(X, Y, kernel="sigmoid", gamma=0.05), rel=1e-9)


def test_cumulative_shares_by_definition():
    X, Y = pair()
    s = cka_spectrum(X, Y)
    C = s.contributions
    np.testing.assert_allclose(s.cumulative_x, [C[: k + 1].sum() / C.sum() for k in range(4)])
    np.testing.assert_allclose(s.cumulative_y, [C[:, : k + 1].sum() / C.sum() for k in range(6)])
    np.testing.assert_allclose(s.cumulative, [C[: k + 1, : k + 1].sum() / C.sum() for k in range(4)])
    assert s.cumulative_x[-1] == pytest.approx(1.0)


def test_quantities_of_figure_8_by_definition():
    X, Y = pair()
    s = cka_spectrum(X, Y)
    Xc, Yc = X - X.mean(0), Y - Y.mean(0)
    _, U = eigenpairs(X @ X.T)
    moved = Yc @ Yc.T @ U
    np.testing.assert_allclose(np.linalg.norm(Xc @ Xc.T @ U, axis=0), s.eigenvalues_x, rtol=1e-9)
    np.testing.assert_allclose(s.norms_y, np.linalg.norm(moved, axis=0), rtol=1e-9)
    np.testing.assert_allclose(s.cosines, np.sum(U * moved, 0) / np.linalg.norm(moved, axis=0), rtol=1e-9)
    frame = s.to_frame()
    assert list(frame) == ["component", "eigenvalue", "norm_y", "cosine", "contribution", "cumulative_share"]
    np.testing.assert_array_equal(frame.cumulative_share, s.cumulative_x)


def test_known_pair_has_known_parts():
    known = make_known_pair(40, spectrum_x=[10, 1], spectrum_y=[1, 10], random_state=0)
    # The first direction of X is the second of Y: each crossed pair holds 100 of 200 / 10001.
    spectrum = cka_spectrum(known.X, known.Y)
    np.testing.assert_allclose(spectrum.contributions, [[0, 100 / 10001], [100 / 10001, 0]], atol=1e-12)
    assert spectrum.cumulative == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e15])
def test_scale_changes_eigenvalues_alone(scale):
    X, Y = pair()
    plain, scaled = cka_spectrum(X, Y), cka_spectrum(X * scale, Y)
    np.testing.assert_allclose(scaled.contributions, plain.contributions, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(scaled.eigenvalues_x, plain.eigenvalues_x * scale**2, rtol=1e-9)


def test_effective_dimension_is_the_participation_ratio(backend):
    for shape in [(50, 5), (10, 40)]:
        X = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1)
        values = np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2
        expected = values.sum() ** 2 / np.sum(values**2)
        assert effective_dimension(backend.asarray(X)) == pytest.approx(expected, rel=1e-10)
        assert effective_dimension(backend.asarray(X * 1e20 + 0.0)) == pytest.approx(expected, rel=1e-10)
        spectrum = cka_spectrum(X, X)
        assert spectrum.effective_dimension_x == pytest.approx(expected)
        assert spectrum.effective_dimension_y == pytest.approx(expected)
    assert np.isnan(effective_dimension(np.ones((5, 2))))


def test_within_class_is_the_mean_over_classes(backend):
    X, Y = pair(60)
    labels = np.random.default_rng(1).integers(3, size=60)
    result = within_class(backend.asarray(X), backend.asarray(Y), labels, debiased=True)
    expected = [cka(X[labels == k], Y[labels == k], debiased=True) for k in range(3)]
    np.testing.assert_allclose(result.similarities, expected, rtol=1e-9)
    assert result.statistic == pytest.approx(np.mean(expected))
    np.testing.assert_array_equal(result.classes, [0, 1, 2])
    np.testing.assert_array_equal(result.n_samples, np.bincount(labels))


def test_within_class_of_independent_noise_around_class_means_is_zero():
    rng = np.random.default_rng(0)
    labels = np.array(["cat", "dog"])[np.arange(1000) % 2]
    X, Y = (3.0 * (labels == "cat")[:, None] + rng.standard_normal((1000, 2)) for _ in range(2))
    assert cka(X, Y, debiased=True) > 0.5
    assert abs(within_class(X, Y, labels, debiased=True).statistic) < 0.01


def test_figure_has_both_panels():
    X, Y = pair(100, 40, 30)
    display = cka_spectrum(X, Y).plot()
    left, right = display.axes_
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    assert [line.get_label() for line in right.get_lines()] == ["of X", "of Y", "of both"]
    offsets = left.collections[0].get_offsets()
    assert len(offsets) == 40
    with pytest.raises(ValueError, match="two panels"):
        cka_spectrum(X, Y).plot([left])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, Y: cka_spectrum(X, Y, debiased=True), "debiased=True has no parts"),
        (lambda X, Y: cka_spectrum(X, np.ones((30, 2))), "Y is constant"),
        (lambda X, Y: cka_spectrum(X, Y[:5]), "30 samples .* 5 samples"),
        (lambda X, Y: within_class(X, Y, [0] * 5), r"labels has shape \(5,\), expected \(30,\)"),
        (lambda X, Y: within_class(X, Y, ["a"] * 27 + ["b"] * 3, debiased=True), "Class .*b.* has 3 row"),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(*pair())


def test_class_without_spread_is_left_out():
    X, Y = pair(20)
    X[:10] = 1.0
    result = within_class(X, Y, np.repeat([0, 1], 10))
    assert np.isnan(result.similarities[0])
    assert result.statistic == result.similarities[1]
    with pytest.warns(UndefinedSimilarityWarning):
        assert np.isnan(cka(X[:10], Y[:10]))
