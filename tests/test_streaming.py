"""`partial_fit`, `LayerAccumulator` and the minibatch estimate against definitions over all rows."""

import importlib.util
import itertools
import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_cka import (
    CKA,
    HSIC,
    PWCCA,
    SVCCA,
    CanonicalCorrelation,
    CanonicalRidge,
    DegenerateSimilarityWarning,
    DistanceCorrelation,
    EigenspaceOverlap,
    LayerAccumulator,
    LinearPredictivity,
    Procrustes,
    ShapeMetric,
    SimilarityWarning,
    UndefinedSimilarityWarning,
    accumulate_layers,
    compare_layers,
)

HAS_DASK = all(importlib.util.find_spec(name) for name in ("dask", "distributed"))
INDEXES = [
    CKA(),
    CKA(debiased=True),
    HSIC(),
    HSIC(debiased=True),
    CanonicalCorrelation(),
    CanonicalCorrelation(statistic="mean_squared"),
    SVCCA(threshold=0.9),
    LinearPredictivity(),
    LinearPredictivity(target="y", alpha=3.0),
    Procrustes(),
    PWCCA(),
    ShapeMetric(alpha=0.5),
    EigenspaceOverlap(),
    CanonicalRidge(penalty=2.0),
]
index_list = pytest.mark.parametrize("index", INDEXES, ids=repr)


def pair(n=60, p=5, q=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.arange(1.0, p + 1)
    return X, X[:, :q] + 2 * rng.standard_normal((n, q))


def unbiased_hsic(X, Y):
    """Song et al. 2012, from Gram matrices without their diagonals."""
    n = len(X)
    K, L = X @ X.T, Y @ Y.T
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    one = np.ones(n)
    total = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / (n - 1) / (n - 2)
    return (total - 2 / (n - 2) * one @ K @ L @ one) / (n * (n - 3))


def biased_cka(X, Y):
    H = np.eye(len(X)) - 1 / len(X)
    K, L = H @ X @ X.T @ H, H @ Y @ Y.T @ H
    return np.sum(K * L) / np.sqrt(np.sum(K * K) * np.sum(L * L))


def in_batches(index, X, y, sizes, weights=None):
    index = clone(index)
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        index.partial_fit(X[rows, :], y[rows, :], None if weights is None else weights[rows])
        start += size
    assert start == X.shape[0]
    return index


@index_list
def test_partial_fit_equals_fit_on_all_rows(index):
    X, y = pair()
    X_new, y_new = pair(seed=1)
    whole = clone(index).fit(X, y)
    parts = in_batches(index, X, y, [1, 20, 2, 37])
    assert parts.similarity_ == pytest.approx(whole.similarity_, rel=1e-12)
    assert parts.chance_ == pytest.approx(whole.chance_, rel=1e-12, nan_ok=True)
    assert parts.score(X_new, y_new) == pytest.approx(whole.score(X_new, y_new), rel=1e-10)
    assert set(vars(whole)) == set(vars(parts)) - {"_moments"}
    if hasattr(whole, "transform"):
        np.testing.assert_allclose(parts.transform(X_new), whole.transform(X_new), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(parts.transform_y(y_new), whole.transform_y(y_new), rtol=1e-8, atol=1e-9)


@index_list
def test_weights_of_partial_fit_count_rows(index):
    X, y = pair()
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    repeated = clone(index).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    parts = in_batches(index, X, y, [10, 25, 25], weights)
    assert parts.similarity_ == pytest.approx(repeated.similarity_, rel=1e-11)


@given(
    cuts=st.sets(st.integers(1, 39), max_size=8),
    order=st.permutations(range(40)),
    debiased=st.booleans(),
    split=st.integers(0, 8),
)
def test_batches_order_and_merges_change_nothing(cuts, order, debiased, split):
    X, Y = pair(n=40)
    expected = (
        unbiased_hsic(X, Y) / np.sqrt(unbiased_hsic(X, X) * unbiased_hsic(Y, Y)) if debiased else biased_cka(X, Y)
    )
    X, Y = X + 100.0, Y - 50.0
    edges = [0, *sorted(cuts), 40]
    left, right = (LayerAccumulator("cka", debiased=debiased) for _ in range(2))
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        rows = np.array(order[start:stop])
        (left if number < split else right).update({"x": X[rows], "y": Y[rows]})
    table = left.merge(right).table()
    assert table.n_samples == 40
    assert table.values[0, 1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("debiased", [False, True])
def test_offset_of_1e8_spreads_keeps_six_digits(debiased):
    X, y = pair(n=200)
    expected = CKA(debiased=debiased).fit(X, y).similarity_
    moved = in_batches(CKA(debiased=debiased), X + 1e8, y - 1e8, [1, 99, 100])
    assert moved.similarity_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("debiased", [False, True])
def test_scale_of_float32_changes_nothing(scale, debiased):
    X, y = (side.astype(np.float32) for side in pair(n=100))
    expected = CKA(debiased=debiased).fit(X, y).similarity_
    scaled = in_batches(CKA(debiased=debiased), X * np.float32(scale), y * np.float32(1 / scale), [1, 49, 50])
    assert scaled.similarity_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_of_float64_change_nothing(scale):
    X, y = pair(n=100)
    expected = CKA(debiased=True).fit(X, y).similarity_
    scaled = in_batches(CKA(debiased=True), X * scale, y / scale, [1, 49, 50])
    assert scaled.similarity_ == pytest.approx(expected, rel=1e-10)


@index_list
def test_partial_fit_on_every_array_library(index, backend):
    X, y = pair()
    expected = clone(index).fit(X, y).similarity_
    made = in_batches(index, backend.asarray(X), backend.asarray(y), [30, 30])
    assert made.similarity_ == pytest.approx(expected, rel=1e-9)


def test_fit_forgets_batches_and_partial_fit_forgets_fit():
    X, y = pair()
    index = CKA().partial_fit(X[:30], y[:30])
    assert index.fit(X, y).similarity_ == CKA().fit(X, y).similarity_
    index.partial_fit(X[:40], y[:40])
    assert index.similarity_ == pytest.approx(CKA().fit(X[:40], y[:40]).similarity_, rel=1e-12)


def test_batches_continue_after_pickling_and_reading():
    X, y = pair()
    index = Procrustes().partial_fit(X[:30], y[:30])
    assert index.similarity_ == pytest.approx(Procrustes().fit(X[:30], y[:30]).similarity_, rel=1e-12)
    index = pickle.loads(pickle.dumps(index)).partial_fit(X[30:], y[30:])
    assert index.similarity_ == pytest.approx(Procrustes().fit(X, y).similarity_, rel=1e-12)


def test_too_few_rows_so_far_give_nan_and_say_so():
    X, y = pair()
    index = CKA(debiased=True).partial_fit(X[:3], y[:3])
    with pytest.warns(UndefinedSimilarityWarning, match="3 row.* a minimum of 4"):
        assert np.isnan(index.similarity_)


def test_other_kernels_say_what_to_do():
    X, y = pair()
    index = CKA("rbf")
    assert not hasattr(index, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        index.partial_fit(X, y)
    assert 'kernel="linear" on features of a fixed map' in str(caught.value)
    with pytest.raises(ValueError, match="needs all pairs of rows"):
        LayerAccumulator(index)
    with pytest.raises(ValueError, match="cannot be computed exactly from batches"):
        LayerAccumulator(DistanceCorrelation())


def test_batches_of_other_width_are_refused():
    X, y = pair()
    index = CKA().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but CKA is expecting 5"):
        index.partial_fit(X[:, :4], y)
    with pytest.raises(ValueError, match="y has 2 features, but CKA is expecting 3"):
        index.partial_fit(X, y[:, :2])
    assert index.similarity_ == pytest.approx(CKA().fit(X, y).similarity_, rel=1e-12)


LAYERS = {"wide": pair()[0], "narrow": pair()[1], "dead": np.full((60, 2), 3.7), "cube": pair()[0][:, :2] ** 3}
OTHERS = {"u": pair(seed=3)[0][:, :4], "v": pair()[1] ** 2}


@index_list
@pytest.mark.parametrize("b", [None, OTHERS], ids=["one", "two"])
@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
def test_table_of_batches_is_the_table_of_all_rows(index, b):
    expected = compare_layers(LAYERS, b, index)
    table = accumulate_layers(LAYERS, b, index, batch_size=17).table()
    np.testing.assert_allclose(table.values, expected.values, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(table.chance, expected.chance, rtol=1e-10)
    for name in ("row_names", "column_names", "index", "params", "symmetric", "n_samples", "bounds"):
        assert getattr(table, name) == getattr(expected, name)


def test_a_dead_layer_is_nan_with_one_warning():
    accumulator = accumulate_layers(LAYERS, batch_size=7)
    with pytest.warns(UndefinedSimilarityWarning, match="'dead'") as caught:
        table = accumulator.table()
    assert len(caught) == 1
    assert np.isnan(table.values[2]).all()
    assert not np.isnan(table.values[:2, :2]).any()


def test_layers_may_come_in_another_order():
    X, Y = pair()
    accumulator = LayerAccumulator().update({"x": X[:30], "y": Y[:30]}).update({"y": Y[30:], "x": X[30:]})
    assert accumulator.table().values[0, 1] == pytest.approx(biased_cka(X, Y), rel=1e-12)


def test_errors_of_batches_name_the_layer_and_change_nothing():
    X, Y = pair()
    accumulator = LayerAccumulator().update({"x": X, "y": Y})
    bad = Y.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"layer 'y' of batch_a contains NaN"):
        accumulator.update({"x": X, "y": bad})
    with pytest.raises(ValueError, match="lacks 'y' and has the unknown 'z'"):
        accumulator.update({"x": X, "z": Y})
    with pytest.raises(ValueError, match="layer 'y' of batch_a has 2 features, but had 3"):
        accumulator.update({"x": X, "y": Y[:, :2]})
    with pytest.raises(ValueError, match=r"layer 'y' of `batch_a` has 59 rows"):
        accumulator.update({"x": X, "y": Y[1:]})
    with pytest.raises(ValueError, match="batch_b must be given in all batches or in none"):
        accumulator.update({"x": X, "y": Y}, {"y": Y})
    with pytest.raises(ValueError, match="cannot be merged"):
        accumulator.merge(LayerAccumulator().update({"x": X}))
    assert accumulator.n_samples == 60
    assert accumulator.table().values[0, 1] == pytest.approx(biased_cka(X, Y), rel=1e-12)


def minibatch_by_definition(X, Y, slices):
    def total(A, B):
        return sum((s.stop - s.start) * (s.stop - s.start - 1) / 2 * unbiased_hsic(A[s], B[s]) for s in slices)

    return total(X, Y) / np.sqrt(total(X, X) * total(Y, Y))


def test_minibatch_estimate_is_the_ratio_of_sums():
    X = np.random.default_rng(0).standard_normal((64, 10))
    Y = np.c_[X[:, :5], np.random.default_rng(1).standard_normal((64, 5))]
    Y[:32] *= 5
    table = accumulate_layers([X, Y], estimate="minibatch", batch_size=16).table()
    assert table.values[0, 1] == pytest.approx(0.425628, abs=1e-6)
    assert table.values[0, 0] == 1.0
    assert accumulate_layers([X], [X], estimate="minibatch", batch_size=16).table().values[0, 0] == pytest.approx(1.0)


def test_minibatches_of_unequal_size_count_by_their_pairs():
    X, Y = pair()
    slices = [slice(0, 10), slice(10, 45), slice(45, 60)]
    accumulators = [LayerAccumulator(estimate="minibatch") for _ in slices]
    for accumulator, rows in zip(accumulators, slices, strict=True):
        accumulator.update({"x": X[rows]}, {"y": Y[rows]})
    merged = accumulators[0].merge(accumulators[1]).merge(pickle.loads(pickle.dumps(accumulators[2])))
    assert merged.table().values[0, 0] == pytest.approx(minibatch_by_definition(X, Y, slices), rel=1e-12)


def test_short_batch_is_left_out_and_named():
    X = np.random.default_rng(0).standard_normal((65, 10))
    Y = np.c_[X[:, :5], np.random.default_rng(1).standard_normal((65, 5))]
    with pytest.warns(SimilarityWarning, match=r"A batch of 1 row\(s\) was left out"):
        accumulator = accumulate_layers([X], [Y], estimate="minibatch", batch_size=32)
    assert accumulator.table().values[0, 0] == pytest.approx(0.515200, abs=1e-6)
    assert accumulator.n_samples == 64
    with pytest.raises(ValueError, match="at least 4"):
        accumulate_layers([X], [Y], estimate="minibatch", batch_size=3)
    with pytest.warns(SimilarityWarning):
        empty = LayerAccumulator(estimate="minibatch").update([X[:2]])
    with pytest.raises(ValueError, match="0 rows so far, while a minimum of 4"):
        empty.table()


def test_standard_error_of_minibatches_is_their_spread():
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(200):
        X = rng.standard_normal((400, 3))
        Y = X + rng.standard_normal((400, 3))
        table = accumulate_layers([X], [Y], estimate="minibatch", batch_size=20).table()
        values.append(table.values[0, 0])
        errors.append(table.standard_error[0, 0])
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)


def test_scale_changes_no_minibatch_estimate():
    X, Y = (side.astype(np.float32) for side in pair())
    plain = accumulate_layers([X], [Y], estimate="minibatch", batch_size=20).table()
    scaled = accumulate_layers(
        [X * np.float32(1e30)], [Y * np.float32(1e-30)], estimate="minibatch", batch_size=20
    ).table()
    np.testing.assert_allclose(scaled.values, plain.values, rtol=1e-5)
    np.testing.assert_allclose(scaled.standard_error, plain.standard_error, rtol=1e-4)


def test_layers_on_disk_are_read_in_blocks(tmp_path):
    X, Y = pair(n=500)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    layers = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"}
    assert accumulate_layers(layers, batch_size=64).table().values[0, 1] == pytest.approx(biased_cka(X, Y), rel=1e-11)


def test_datasets_of_h5py_are_read_in_blocks(tmp_path):
    h5py = pytest.importorskip("h5py")
    X, Y = pair(n=500)
    with h5py.File(tmp_path / "layers.h5", "w") as file:
        file["x"], file["y"] = X, Y
        table = accumulate_layers({"x": file["x"], "y": file["y"]}, batch_size=64).table()
    assert table.values[0, 1] == pytest.approx(biased_cka(X, Y), rel=1e-11)


def test_zarr_arrays_are_read_in_blocks(tmp_path):
    zarr = pytest.importorskip("zarr")
    X, Y = pair(n=500)
    group = zarr.open_group(str(tmp_path / "layers.zarr"), mode="w")
    for name, array in (("x", X), ("y", Y)):
        group.create_array(name, shape=array.shape, chunks=(64, array.shape[1]), dtype=array.dtype)[:] = array
    table = accumulate_layers({"x": group["x"], "y": group["y"]}, batch_size=64).table()
    assert table.values[0, 1] == pytest.approx(biased_cka(X, Y), rel=1e-11)


def test_row_counts_that_differ_are_named():
    X, Y = pair()
    with pytest.raises(ValueError, match=r"layer 'y' of b has 59 samples|layer 'x' of a has 60 samples"):
        accumulate_layers({"x": X}, {"y": Y[1:]})


def test_degenerate_tables_warn_once():
    X, Y = pair(n=8)
    accumulator = accumulate_layers({"x": X, "y": Y}, index="cca")
    with pytest.warns(DegenerateSimilarityWarning) as caught:
        accumulator.table()
    assert len(caught) == 1


@pytest.mark.skipif(not HAS_DASK, reason="dask and distributed are not installed")
@pytest.mark.parametrize("index", [CKA(debiased=True), Procrustes()], ids=repr)
def test_dask_arrays_are_reduced_exactly(index):
    import dask.array as da

    X, Y = pair(n=500)
    layers = {"x": da.from_array(X, chunks=(70, 2)), "y": da.from_array(Y, chunks=(111, 3))}
    table = accumulate_layers(layers, index=index).table()
    np.testing.assert_allclose(table.values, compare_layers({"x": X, "y": Y}, index=index).values, rtol=1e-11)


@pytest.mark.skipif(not HAS_DASK, reason="dask and distributed are not installed")
def test_a_cluster_that_loses_a_worker_loses_no_rows():
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    X, Y = pair(n=2000)

    def slowly(block):
        import time

        time.sleep(0.1)
        return block

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            x = da.from_array(X, chunks=(100, -1)).map_blocks(slowly, dtype=X.dtype)
            layers = {"x": x, "y": da.from_array(Y, chunks=(100, -1))}
            pid = next(iter(client.run(os.getpid).values()))
            killer = threading.Timer(0.6, os.kill, (pid, signal.SIGKILL))
            killer.start()
            table = accumulate_layers(layers, debiased=True).table()
            killer.join()
            layers_again = compare_layers({"x": X, "y": Y}, debiased=True)
            import joblib

            with joblib.parallel_config(backend="dask"):
                on_cluster = compare_layers({"x": X, "y": Y}, debiased=True)
            assert client.scheduler is not None
    np.testing.assert_allclose(table.values, layers_again.values, rtol=1e-11)
    np.testing.assert_allclose(on_cluster.values, layers_again.values, rtol=1e-11)
    assert table.n_samples == 2000
