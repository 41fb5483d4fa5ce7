"""Layer matching, against loops over pairs of models, and by data whose answer is known."""

import warnings

import numpy as np
import pytest
from scipy import stats

from sklearn_cka import (
    CKA,
    BaseIndex,
    ChanceLevelWarning,
    DegenerateSimilarityWarning,
    Layers,
    benchmark_indexes,
    layer_matching,
    similarity,
)
from sklearn_cka.display import SimilarityDisplay

LAYERS = ["conv", "pool", "fc", "logits"]


def make_models(m=4, n=40, noise=1.5, seed=0):
    """Networks whose layers each hold a different function of common inputs, rotated and with noise of their own."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 4))
    functions = [lambda Z: Z, np.abs, lambda Z: Z**2 - Z, lambda Z: Z[:, :2]]
    models = []
    for _ in range(m):
        model = {}
        for name, function in zip(LAYERS, functions, strict=True):
            H = function(Z)
            model[name] = H @ rng.standard_normal((H.shape[1], 6)) + noise * rng.standard_normal((n, 6))
        models.append(model)
    return models


def by_loops(models, score, names=LAYERS):
    """Accuracy of every ordered pair of models, and the confusion."""
    m = len(models)
    accuracy, confusion = np.full((m, m), np.nan), np.zeros((len(names), len(names)), dtype=int)
    for i in range(m):
        for j in range(m):
            if i == j:
                continue
            found = []
            for row, name in enumerate(names):
                values = [score(models[i][name], models[j][other]) for other in names]
                found.append(int(np.argmax(values)))
                confusion[row, found[-1]] += 1
            accuracy[i, j] = np.mean(np.array(found) == np.arange(len(names)))
    return accuracy, confusion


def without(accuracy, k):
    kept = np.delete(np.delete(accuracy, k, 0), k, 1)
    return np.nanmean(kept)


@pytest.mark.parametrize(
    ("name", "params"), [("cka", {"debiased": True}), ("hsic", {}), ("procrustes", {}), ("linear_predictivity", {})]
)
@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
def test_accuracy_is_that_of_loops_over_models(name, params):
    models = make_models()

    def score(X, Y):
        forward = similarity(X, Y, name, **params)
        return forward + similarity(Y, X, name, **params) if name == "linear_predictivity" else forward

    accuracy, confusion = by_loops(models, score)
    result = layer_matching(models, name, **params)
    assert 0.3 < result.accuracy < 1.0
    assert result.accuracy == pytest.approx(np.nanmean(accuracy))
    np.testing.assert_array_equal(result.confusion, confusion)
    expected = np.array([without(accuracy, k) for k in range(4)])
    np.testing.assert_allclose(result.leave_one_out, expected)
    assert result.standard_error == pytest.approx(np.sqrt(3 / 4 * np.sum((expected - expected.mean()) ** 2)))
    np.testing.assert_allclose(result.layer_accuracy, np.diagonal(confusion) / 12)


def test_excluded_layers_take_no_part():
    models = make_models()
    kept = [{name: model[name] for name in LAYERS[:3]} for model in models]
    found = layer_matching(models, debiased=True, exclude="logits")
    expected = layer_matching(kept, debiased=True)
    assert found.layer_names == LAYERS[:3]
    np.testing.assert_array_equal(found.confusion, expected.confusion)
    assert found.accuracy == expected.accuracy


class FirstSide(BaseIndex):
    """Depends on the first side alone: its size, so that only the sum of both directions tells layers apart."""

    def embed(self, X):
        return float(np.mean(np.asarray(X)))

    def embed_y(self, y):
        return 0.0

    def compare(self, a, b):
        return a


def test_index_with_unequal_sides_is_symmetrised():
    models = [{"low": np.full((5, 1), 1.0), "high": np.full((5, 1), 2.0)} for _ in range(2)]
    # One direction alone would tie all candidates, and the first would be matched.
    np.testing.assert_array_equal(layer_matching(models, FirstSide()).confusion, [[0, 2], [0, 2]])


def test_undefined_layers_match_nothing():
    models = make_models(2)
    models[0]["pool"] = np.ones((40, 3))
    with pytest.warns(match="0:pool"):
        result = layer_matching(models, debiased=True)
    assert result.confusion[1].sum() == 1
    assert result.confusion.sum() == 7


def test_two_models_have_no_standard_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = layer_matching(make_models(2), debiased=True)
    assert np.isnan(result.standard_error)
    other = layer_matching(make_models(2, noise=9.0), debiased=True)
    assert other.accuracy < result.accuracy
    assert np.isnan(result.z_test(other)).all()


def test_z_test_is_paired_over_models():
    models = make_models(6)
    first, second = layer_matching(models, debiased=True), layer_matching(models, "hsic", debiased=True)
    z, pvalue = first.z_test(second)
    d = first.leave_one_out - second.leave_one_out
    error = np.sqrt(5 / 6 * np.sum((d - d.mean()) ** 2))
    assert z == pytest.approx((first.accuracy - second.accuracy) / error)
    assert pvalue == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert first.z_test(first) == (0.0, 1.0)
    with pytest.raises(ValueError, match="same models"):
        first.z_test(layer_matching(models, exclude="fc", debiased=True))


def test_benchmark_is_a_line_for_every_index():
    models = make_models(4)
    indexes = {"CKA": CKA(debiased=True), "RBF": CKA("rbf", bandwidth=0.8), "PWCCA": "pwcca", "GCD": "cca"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = benchmark_indexes(models, indexes, exclude="logits", verbose=0)
    assert list(frame) == ["index", "accuracy", "standard_error", "z", "pvalue", "seconds"]
    assert list(frame["index"]) == list(indexes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ChanceLevelWarning))
        results = [layer_matching(models, index, exclude="logits") for index in indexes.values()]
    np.testing.assert_array_equal(frame.accuracy, [result.accuracy for result in results])
    best = max(results, key=lambda result: result.accuracy)
    np.testing.assert_allclose(frame.z, [result.z_test(best)[0] for result in results])
    assert frame.pvalue[frame.accuracy.argmax()] == 1.0


def test_benchmark_without_names_takes_every_index_of_any_widths():
    rng = np.random.default_rng(0)
    models = [{"a": rng.standard_normal((24, 3)), "b": rng.standard_normal((24, 4))} for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateSimilarityWarning)
        frame = benchmark_indexes(models, ["cka", "svcca", CKA("rbf")], verbose=0)
    assert list(frame["index"]) == ["cka", "svcca", "CKA(kernel='rbf')"]


def test_models_may_be_layers_of_any_library(backend):
    plain = make_models(3)
    models = [Layers({name: backend.asarray(X) for name, X in model.items()}) for model in plain]
    expected = layer_matching(plain, debiased=True)
    np.testing.assert_array_equal(layer_matching(models, debiased=True).confusion, expected.confusion)


def test_confusion_is_drawn_and_framed():
    result = layer_matching(make_models(3), debiased=True)
    frame = result.to_frame()
    assert list(frame.index) == list(frame.columns) == LAYERS
    display = result.plot()
    assert isinstance(display, SimilarityDisplay)
    np.testing.assert_allclose(display.values, result.confusion / 6)
    assert display.ax_.get_xlabel() == "most similar layer"


def changed(models, **layers):
    return [models[0], {**models[1], **layers}]


@pytest.mark.parametrize(
    ("models", "params", "message"),
    [
        (make_models(1), {}, "holds 1 model"),
        (make_models(1)[0], {}, "must be a list of models, got one dict"),
        (changed(make_models(2), more=np.ones((40, 2))), {}, r"models\[1\] has layers .*more"),
        (make_models(2), {"exclude": "head"}, "exclude names 'head', which is not a layer; the layers are conv"),
        (make_models(2), {"exclude": LAYERS[1:]}, "1 layer.* left"),
        ([make_models(1)[0], make_models(1, n=30)[0]], {}, "40 samples .* 30 samples"),
    ],
)
def test_errors_name_model_and_layer(models, params, message):
    with pytest.raises(ValueError, match=message):
        layer_matching(models, **params)


def test_benchmark_names_the_index_that_fails():
    with pytest.raises(ValueError, match="Index 'kernel_alignment' cannot match these layers"):
        benchmark_indexes([{"a": np.ones((3, 2)) * np.nan, "b": np.ones((3, 2))}] * 2, ["kernel_alignment"], verbose=0)
    with pytest.raises(ValueError, match="indexes is empty"):
        benchmark_indexes(make_models(2), [])
    with pytest.raises(ValueError, match="names cka more than once"):
        benchmark_indexes(make_models(2), ["cka", "cka"])
