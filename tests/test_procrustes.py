"""Procrustes and shape metrics: rotations, held-out scores, distances."""

import math
import warnings

import numpy as np
import pytest
import scipy.linalg
import spectral_definitions as definitions
from sklearn.base import clone

from sklearn_cka import (
    CanonicalCorrelation,
    DegenerateSimilarityWarning,
    Procrustes,
    ShapeMetric,
    UndefinedSimilarityWarning,
    cca,
    compare_layers,
    get_index,
    procrustes_distance,
    procrustes_similarity,
)
from sklearn_cka._arrays import to_numpy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")

rng = np.random.default_rng
FAMILY = [Procrustes(), ShapeMetric(), ShapeMetric(alpha=0.5), ShapeMetric(alpha=0.0)]
family = pytest.mark.parametrize("index", FAMILY, ids=map(repr, FAMILY))


def pair(n=60, p=5, q=4, noise=1.0, seed=0):
    X = rng(seed).standard_normal((n, p)) * np.geomspace(1.0, 3.0, p)
    return X, X[:, np.arange(q) % p] + noise * rng(seed + 1000).standard_normal((n, q))


def raised(kind, call, *args):
    """Return the messages of the warnings of one kind that a call issues."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args)
    return [str(warning.message) for warning in caught if issubclass(warning.category, kind)]


# Inputs on which other programs went wrong.


def test_rotation_is_the_right_way_round_and_sizes_are_norms():
    X = np.array([[1.0, 0], [-1, 0], [0, 2], [0, -2]])
    R = np.array([[0.0, 1], [-1, 0]])
    Y = 2 * X @ R
    index = Procrustes().fit(X, Y)
    assert index.similarity_ == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(index.rotation_, R, atol=1e-12)
    np.testing.assert_allclose(X @ index.rotation_, Y / 2, atol=1e-12)
    np.testing.assert_allclose(index.transform(X), Y / 2, atol=1e-12)
    assert procrustes_distance(X, Y, form="unscaled") == pytest.approx(math.sqrt(10.0), abs=1e-7)
    for form in ("angular", "chord"):
        assert procrustes_distance(X, Y, form=form) == pytest.approx(0.0, abs=1e-7)
    Z = np.c_[X, np.zeros((4, 3))]
    for first, second in ((X, Z), (Z, X)):
        fitted = Procrustes().fit(first, second)
        assert fitted.similarity_ == pytest.approx(1.0, abs=1e-12)
        assert fitted.rotation_.shape == (first.shape[1], second.shape[1])
        np.testing.assert_allclose(fitted.transform(first), second, atol=1e-12)
        assert procrustes_distance(first, second, form="unscaled") == pytest.approx(0.0, abs=1e-7)


def test_similarity_and_its_distances():
    X = rng(0).standard_normal((40, 4))
    Y = X[:, :3] + rng(1).standard_normal((40, 3))
    value = procrustes_similarity(X, Y)
    assert value == pytest.approx(0.641049, abs=1e-6)
    assert procrustes_distance(X, Y) == pytest.approx(0.874932, abs=1e-6)
    assert procrustes_distance(X, Y, form="chord") ** 2 == pytest.approx(0.717902, abs=1e-6)
    assert 1 - value**2 == pytest.approx(0.589056, abs=1e-6)
    assert Procrustes().distance(X, Y) == pytest.approx(0.874932, abs=1e-6)
    assert Procrustes(distance_form="chord").distance(X, Y) == pytest.approx(math.sqrt(0.717902), abs=1e-6)
    assert Procrustes(distance_form="chord").fit(X, Y).similarity_ == value
    assert procrustes_similarity(X, X) == pytest.approx(1.0, abs=1e-12)
    assert procrustes_distance(X, X) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize(("p", "q"), [(4, 4), (3, 6), (6, 3), (1, 4)])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (2.0**-300, 1.0), (1.0, 2.0**200), (2.0**100, 2.0**100)])
def test_unscaled_distance_is_the_least_over_rotations(p, q, scales):
    X, Y = pair(n=30, p=p, q=q)
    width = max(p, q)
    Xc, Yc = (np.pad(Z - Z.mean(axis=0), ((0, 0), (0, width - Z.shape[1]))) for Z in (X, Y))
    a, b = scales
    R = scipy.linalg.orthogonal_procrustes(Xc, Yc)[0]
    expected = scipy.linalg.norm((Xc @ R) * (a / max(scales)) - Yc * (b / max(scales)))
    value = procrustes_distance(X * a + 7.0 * a, Y * b, form="unscaled") / max(scales)
    assert value == pytest.approx(expected, rel=1e-9)


def test_unscaled_distance_of_a_constant_side_is_the_size_of_the_other():
    X, _ = pair(n=30)
    size = scipy.linalg.norm(X - X.mean(axis=0))
    assert procrustes_distance(X, np.ones((30, 2)), form="unscaled") == pytest.approx(size)
    assert math.isnan(procrustes_distance(X, np.ones((30, 2))))
    with pytest.raises(ValueError, match="form must be one of 'angular', 'chord', 'unscaled'"):
        procrustes_distance(X, X, form="euclidean")


# Maps.


def test_rotation_is_that_of_scipy_and_scores_new_rows():
    X, Y = pair(n=80, p=5, q=5)
    train, test = slice(0, 50), slice(50, 80)
    index = Procrustes().fit(X[train], Y[train])
    means = X[train].mean(axis=0), Y[train].mean(axis=0)
    R = scipy.linalg.orthogonal_procrustes(X[train] - means[0], Y[train] - means[1])[0]
    np.testing.assert_allclose(index.rotation_, R, atol=1e-10)
    for rows in (train, test):
        A, B = (X[rows] - means[0]) @ R, Y[rows] - means[1]
        cosine = np.sum(A * B) / (scipy.linalg.norm(A) * scipy.linalg.norm(B))
        assert index.score(X[rows], Y[rows]) == pytest.approx(cosine, abs=1e-10)
        np.testing.assert_allclose(index.transform(X[rows]), A, atol=1e-10)
        np.testing.assert_allclose(index.transform_y(Y[rows]), B, atol=1e-12)
    weights = rng(4).uniform(0.0, 2.0, 30)
    A, B = (X[test] - means[0]) @ R, Y[test] - means[1]
    norms = [math.sqrt(np.sum(weights[:, None] * Z**2)) for Z in (A, B)]
    weighted = np.sum(weights[:, None] * A * B) / (norms[0] * norms[1])
    assert index.score(X[test], Y[test], sample_weight=weights) == pytest.approx(weighted, abs=1e-10)


@pytest.mark.parametrize(("p", "q"), [(3, 6), (6, 3)])
def test_rotation_between_unequal_widths_is_that_of_the_padded_data(p, q):
    X, Y = pair(n=80, p=p, q=q)
    train, test = slice(0, 50), slice(50, 80)
    width = max(p, q)
    Xp, Yp = (np.pad(Z, ((0, 0), (0, width - Z.shape[1]))) for Z in (X, Y))
    narrow, padded = Procrustes().fit(X[train], Y[train]), Procrustes().fit(Xp[train], Yp[train])
    assert narrow.similarity_ == pytest.approx(padded.similarity_, abs=1e-12)
    assert narrow.score(X[test], Y[test]) == pytest.approx(padded.score(Xp[test], Yp[test]), abs=1e-12)
    np.testing.assert_allclose(narrow.rotation_, padded.rotation_[:p, :q], atol=1e-12)
    np.testing.assert_allclose(np.linalg.svd(narrow.rotation_)[1], 1.0, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("p", "q"), [(5, 5), (4, 6)])
def test_shape_metric_scores_new_rows_by_the_whitening_of_the_training_rows(alpha, p, q):
    X, Y = pair(n=80, p=p, q=q)
    train, test = slice(0, 50), slice(50, 80)
    index = ShapeMetric(alpha=alpha).fit(X[train], Y[train])
    treated = []
    for Z in (X, Y):
        Zc = Z[train] - Z[train].mean(axis=0)
        scale = math.sqrt(50 * Z.shape[1]) / scipy.linalg.norm(Zc)
        covariance = (Zc * scale).T @ (Zc * scale) / 50
        whitening = alpha * np.eye(Z.shape[1]) + (1 - alpha) * scipy.linalg.inv(scipy.linalg.sqrtm(covariance).real)
        treated.append((Z - Z[train].mean(axis=0)) * scale @ whitening)
    A, B = treated
    U, _, Vt = scipy.linalg.svd(A[train].T @ B[train], full_matrices=False)
    R = U @ Vt
    np.testing.assert_allclose(index.rotation_, R, atol=1e-8)
    np.testing.assert_allclose(index.transform(X), A @ R, atol=1e-8)
    np.testing.assert_allclose(index.transform_y(Y), B, atol=1e-8)
    for rows in (train, test):
        cosine = np.sum((A[rows] @ R) * B[rows]) / (scipy.linalg.norm(A[rows]) * scipy.linalg.norm(B[rows]))
        assert index.score(X[rows], Y[rows]) == pytest.approx(cosine, abs=1e-9)


def test_directions_without_training_variance_keep_their_share_of_the_scale():
    X, Y = pair(n=60, p=30, q=20)
    train, test = slice(0, 12), slice(12, 60)
    full = Procrustes().fit(X[train], Y[train])
    same = ShapeMetric(alpha=1.0).fit(X[train], Y[train])
    assert same.score(X[test], Y[test]) == pytest.approx(full.score(X[test], Y[test]), abs=1e-12)
    np.testing.assert_allclose(same.rotation_, full.rotation_, atol=1e-12)
    ranks = [definitions.rank(Z[train]) for Z in (X, Y)]
    assert full.n_components_ == min(ranks) == 11
    partly = ShapeMetric(alpha=0.99999).fit(X[train], Y[train])
    assert partly.score(X[test], Y[test]) == pytest.approx(full.score(X[test], Y[test]), abs=1e-3)


@family
def test_integer_weights_are_repeated_rows_in_all_that_is_learned(index):
    X, Y = pair(n=30)
    X_new, Y_new = pair(n=20, seed=7)
    counts, counts_new = rng(3).integers(0, 4, 30), rng(4).integers(0, 3, 20)
    rows, rows_new = np.repeat(np.arange(30), counts), np.repeat(np.arange(20), counts_new)
    weighted = clone(index).fit(X, Y, sample_weight=counts)
    repeated = clone(index).fit(X[rows], Y[rows])
    assert weighted.similarity_ == pytest.approx(repeated.similarity_, abs=1e-12)
    score = weighted.score(X_new, Y_new, sample_weight=counts_new)
    assert score == pytest.approx(repeated.score(X_new[rows_new], Y_new[rows_new]), abs=1e-12)
    np.testing.assert_allclose(weighted.transform(X_new), repeated.transform(X_new), atol=1e-10)
    np.testing.assert_allclose(weighted.transform_y(Y_new), repeated.transform_y(Y_new), atol=1e-10)


@family
def test_scores_do_not_depend_on_offset_and_scale(index):
    X, Y = pair(n=80)
    score = clone(index).fit(X[:50], Y[:50]).score(X[50:], Y[50:])
    for factor in (2.0**-90, 2.0**90):
        far = (X + 3.0) * factor
        fitted = clone(index).fit(far[:50], Y[:50])
        assert fitted.score(far[50:], Y[50:]) == pytest.approx(score, abs=1e-10)
        low = far.astype(np.float32)
        fitted = clone(index).fit(low[:50], Y[:50].astype(np.float32))
        assert fitted.score(low[50:], Y[50:].astype(np.float32)) == pytest.approx(score, abs=1e-4)
        assert fitted.transform(low).dtype == np.float32
        assert np.isfinite(fitted.transform(low)).all()


# The range of alpha, metrics, warnings.


def test_shape_metric_runs_from_cca_to_procrustes():
    for p, q in ((5, 5), (3, 6), (30, 40), (70, 80)):
        X, Y = pair(n=50, p=p, q=q)
        ranks = [definitions.rank(Z) for Z in (X, Y)]
        whitened = ShapeMetric(alpha=0.0).similarity(X, Y)
        assert whitened == pytest.approx(cca(X, Y) * min(ranks) / math.sqrt(ranks[0] * ranks[1]), abs=1e-10)
        assert ShapeMetric(alpha=1.0).similarity(X, Y) == pytest.approx(procrustes_similarity(X, Y), abs=1e-12)
    assert ShapeMetric(alpha=0.0).properties.invariances == CanonicalCorrelation().properties.invariances


def test_partial_whitening_depends_on_neither_scale_nor_number_of_rows():
    X, Y = pair(n=30)
    value = ShapeMetric(alpha=0.5).similarity(X, Y)
    assert ShapeMetric(alpha=0.5).similarity(100.0 * X, Y / 7.0) == pytest.approx(value, abs=1e-12)
    assert ShapeMetric(alpha=0.5).similarity(np.tile(X, (4, 1)), np.tile(Y, (4, 1))) == pytest.approx(value, abs=1e-12)


@family
@pytest.mark.parametrize("form", ["angular", "chord"])
def test_distance_forms_are_metrics(index, form):
    index = clone(index).set_params(distance_form=form)
    r = rng(11)
    for _ in range(20):
        layers = [r.standard_normal((9, r.integers(1, 12))) for _ in range(3)]
        layers[2] = np.c_[layers[2], layers[0][:, :1]]
        ab, bc, ac = (index.distance(layers[i], layers[j]) for i, j in ((0, 1), (1, 2), (0, 2)))
        assert ac <= ab + bc + 1e-9
        assert index.distance(layers[1], layers[0]) == pytest.approx(ab, abs=1e-9)
    rotated = layers[1] @ np.linalg.qr(r.standard_normal((layers[1].shape[1],) * 2))[0]
    assert index.distance(layers[1], rotated) == pytest.approx(0.0, abs=1e-7)


def test_full_whitening_alone_is_degenerate_where_ranks_fill_the_rows():
    X, Y = pair(n=10, p=6, q=4)
    assert raised(DegenerateSimilarityWarning, ShapeMetric(alpha=0.0).fit, X, Y)
    assert not raised(DegenerateSimilarityWarning, ShapeMetric(alpha=0.5).fit, X, Y)
    assert not raised(DegenerateSimilarityWarning, Procrustes().fit, X, Y)


@family
@pytest.mark.parametrize("value", [0.0, 3.7])
def test_constant_side_is_undefined_with_one_warning(index, value):
    X, Y = pair()
    for first, second in ((np.full_like(X, value), Y), (X, np.full_like(Y, value))):
        assert len(raised(UndefinedSimilarityWarning, clone(index).fit, first, second)) == 1
        fitted = clone(index).fit(first, second)
        assert math.isnan(fitted.similarity_)
        assert fitted.transform(X).shape == Y.shape
        assert not fitted.transform(X).any()
        assert raised(UndefinedSimilarityWarning, fitted.score, X, Y)
    assert math.isnan(index.distance(X, np.full_like(Y, value)))
    fitted = clone(index).fit(X, Y)
    with pytest.warns(UndefinedSimilarityWarning, match="score"):
        assert math.isnan(fitted.score(np.tile(fitted.x_mean_, (3, 1)), Y[:3]))


@family
def test_chance_is_not_known(index):
    assert math.isnan(clone(index).fit(*pair()).chance_)


@family
def test_every_array_library_gives_the_same(backend, index):
    X, Y = pair(n=40)
    Xb, Yb = backend.asarray(X), backend.asarray(Y)
    reference, fitted = clone(index).fit(X[:30], Y[:30]), clone(index).fit(Xb[:30, :], Yb[:30, :])
    assert fitted.similarity_ == pytest.approx(reference.similarity_, abs=1e-12)
    assert fitted.score(Xb[30:, :], Yb[30:, :]) == pytest.approx(reference.score(X[30:], Y[30:]), abs=1e-10)
    for learned, given, expected in (
        (fitted.transform(Xb), Xb, reference.transform(X)),
        (fitted.transform_y(Yb), Yb, reference.transform_y(Y)),
        (fitted.rotation_, Xb, reference.rotation_),
    ):
        assert type(learned) is type(given)
        np.testing.assert_allclose(to_numpy(learned), expected, atol=1e-10)


def test_rows_in_another_library_than_those_of_fit_are_refused(backend):
    X, Y = pair()
    fitted = Procrustes().fit(backend.asarray(X), backend.asarray(Y))
    if type(backend.asarray(X)) is np.ndarray:
        other = pytest.importorskip("torch").asarray
        others = other(X), other(Y)
    else:
        others = X, Y
    for method, args in (("transform", others[:1]), ("transform_y", others[1:]), ("score", others)):
        with pytest.raises(ValueError, match=rf"Procrustes\.{method}\(\) must use the same namespace"):
            getattr(fitted, method)(*args)


@family
def test_table_is_its_pairs_one_by_one(index):
    layers = [rng(i).standard_normal((40, p)) for i, p in enumerate((3, 6, 1, 50))]
    values = compare_layers(layers, index=index, verbose=0).values
    np.testing.assert_allclose(values, [[index.similarity(a, b) for b in layers] for a in layers], atol=1e-12)


def test_wide_data_make_no_square_matrix_of_widths():
    # 40,000 x 40,000 numbers would be 12.8 GB.
    X = rng(0).standard_normal((10, 40_000)).astype(np.float32)
    for index in (Procrustes(), ShapeMetric(alpha=0.5)):
        fitted = index.fit(X, X[:, ::-1])
        assert fitted.score(X, X[:, ::-1]) == pytest.approx(fitted.similarity_, abs=1e-4)
        assert fitted.transform(X[:3]).shape == (3, 40_000)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (Procrustes(distance_form="euclidean"), "distance_form must be one of 'angular', 'chord'"),
        (ShapeMetric(alpha=1.1), "alpha must be a number from 0"),
        (ShapeMetric(alpha=-0.1), "alpha must be a number from 0"),
        (ShapeMetric(alpha=None), "alpha must be a number from 0"),
        (ShapeMetric(alpha=math.nan), "alpha must be a number from 0"),
    ],
)
def test_wrong_parameters_are_refused_by_fit(index, message):
    with pytest.raises(ValueError, match=message):
        index.fit(*pair())


def test_names():
    assert isinstance(get_index("procrustes"), Procrustes)
    assert get_index("shape_metric", alpha=0.5).alpha == 0.5
