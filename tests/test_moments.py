"""Mergeable sums of rows against sums over all rows at once."""

import numpy as np
import pytest

from sklearn_cka._arrays import to_numpy
from sklearn_cka._moments import RowMoments


def by_definition(layers, weights):
    """S, D and G of all rows at once."""
    centered = [X - np.average(X, axis=0, weights=weights) for X in layers]
    Z = np.hstack(centered)
    d = np.stack([np.sum(X**2, axis=1) for X in centered], axis=1)
    return Z.T @ (Z * weights[:, None]), d.T @ (d * weights[:, None]), Z.T @ (d * weights[:, None])


@pytest.mark.parametrize("weighted", [False, True])
def test_merged_sums_are_those_of_all_rows(backend, weighted):
    rng = np.random.default_rng(0)
    layers = [rng.standard_normal((50, 3)) + 5, rng.standard_normal((50, 2)) ** 2]
    weights = rng.integers(1, 4, 50).astype(float) if weighted else np.ones(50)
    parts = []
    for rows in (slice(0, 1), slice(1, 20), slice(20, 50)):
        parts.append(RowMoments((3, 2), fourth=True))
        part_weights = backend.asarray(weights[rows]) if weighted else None
        parts[-1].add([backend.asarray(X[rows]) for X in layers], part_weights)
    whole = parts[2].copy()
    whole.merge(parts[0])
    whole.merge(parts[1])
    S, D, G = by_definition(layers, weights)
    assert whole.n_rows == 50
    assert whole.total == weights.sum()
    for made, expected in ((whole.scatter, S), (whole.squares, D), (whole.cross, G)):
        np.testing.assert_allclose(to_numpy(made), expected, rtol=1e-11, atol=1e-10)
    for layer, X in enumerate(layers):
        mean = to_numpy(whole.mean(layer))
        np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weights), rtol=1e-13)


def test_representative_rows_have_mean_zero_and_the_same_second_moments():
    rng = np.random.default_rng(0)
    layers = [rng.standard_normal((80, 4)) * 1e-9, rng.standard_normal((80, 3)) * 1e3]
    moments = RowMoments((4, 3), exact=True)
    moments.add(layers)
    rows = moments.representative_rows()
    assert rows[0].shape == (8, 4)
    for i in range(2):
        assert np.abs(rows[i].mean(axis=0)).max() < 1e-13 * np.abs(rows[i]).max()
        for j in range(2):
            block = moments.block(i, j)
            np.testing.assert_allclose(rows[i].T @ rows[j], block, atol=1e-12 * np.abs(block).max())


def test_sums_of_other_widths_are_not_merged():
    with pytest.raises(ValueError, match=r"widths \(3, 2\) and \(3,\) cannot be merged"):
        RowMoments((3, 2)).merge(RowMoments((3,)))
