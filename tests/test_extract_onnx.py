"""Layers out of ONNX graphs: any value by name, equal to computing it by hand."""

import numpy as np
import pytest

from sklearn_cka import extract_layers

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

RNG = np.random.default_rng(0)
W = RNG.standard_normal((4, 6)).astype("f4")


def network():
    """x W, then its positive part, then the sum of both."""
    helper = onnx.helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["linear"]),
        helper.make_node("Relu", ["linear"], ["rectified"]),
        helper.make_node("Add", ["linear", "rectified"], ["sum"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("sum", onnx.TensorProto.FLOAT, ["n", 6])],
        [onnx.numpy_helper.from_array(W, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def tokens_network():
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Mul", ["hidden", "two"], ["doubled"])],
        "tokens",
        [
            helper.make_tensor_value_info("hidden", onnx.TensorProto.FLOAT, ["n", "t", 3]),
            helper.make_tensor_value_info("attention_mask", onnx.TensorProto.INT64, ["n", "t"]),
        ],
        [helper.make_tensor_value_info("doubled", onnx.TensorProto.FLOAT, ["n", "t", 3])],
        [onnx.numpy_helper.from_array(np.array(2, dtype="f4"), "two")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("batch_size", [1, 7, 32, 33, 34])
@pytest.mark.parametrize("out", [None, "acts", "acts.npz"])
def test_values_of_the_graph_equal_those_computed_by_hand(batch_size, out, tmp_path):
    x = RNG.standard_normal((33, 4))
    out = None if out is None else tmp_path / out
    layers = extract_layers(network(), x, ["sum", "l*", "rectified"], batch_size=batch_size, out=out)
    linear = x.astype("f4") @ W
    assert layers.names == ["linear", "rectified", "sum"]
    np.testing.assert_allclose(layers["linear"], linear, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layers["rectified"], np.maximum(linear, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layers["sum"], linear + np.maximum(linear, 0), rtol=1e-5, atol=1e-6)


def test_declared_outputs_are_the_default_and_all_a_session_gives():
    model, x = network(), RNG.standard_normal((5, 4))
    assert extract_layers(model, x).names == ["sum"]
    assert len(model.graph.output) == 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(extract_layers(session, x)["sum"], extract_layers(model, x)["sum"])
    with pytest.raises(ValueError, match=r"Unknown layer 'linear'.*pass the model, onnx\.load\(path\)"):
        extract_layers(session, x, "linear")


def test_tokens_are_reduced_by_the_mask():
    hidden = RNG.standard_normal((3, 4, 3)).astype("f4")
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]])
    data = {"hidden": hidden, "attention_mask": mask, "token_type_ids": mask}
    real = [2 * rows[seen > 0] for rows, seen in zip(hidden, mask, strict=True)]
    for rule, expected in [
        ("mean", [rows.mean(axis=0) for rows in real]),
        ("first", [rows[0] for rows in real]),
        ("last", [rows[-1] for rows in real]),
        (lambda h, m: (h * m[:, :, None]).sum(axis=1), [rows.sum(axis=0) for rows in real]),
    ]:
        found = extract_layers(tokens_network(), data, tokens=rule, batch_size=2)["doubled"]
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5)
    assert extract_layers(tokens_network(), data)["doubled"].shape == (3, 12)


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        (network, np.ones((3, 4)), {"layers": "liner"}, "Unknown layer 'liner'. Did you mean 'linear'"),
        (network, np.ones((0, 4)), {}, "The data have no rows"),
        (network, [1, 2], {}, "The data must be an array"),
        (network, np.ones((3, 4)), {"batch_size": 0}, "batch_size must be a whole number"),
        (network, np.ones((3, 4)), {"flatten": "positions"}, "flatten must be one of 'flatten', 'mean'"),
        (tokens_network, np.ones((3, 4, 3)), {}, "has the inputs hidden, attention_mask: pass a dict"),
        (tokens_network, {"hidden": np.ones((3, 4, 3))}, {}, "there is no attention_mask"),
        (
            tokens_network,
            {"hidden": np.ones((3, 4, 3)), "attention_mask": np.zeros((3, 4))},
            {"tokens": "mean"},
            "A row has no token",
        ),
        (
            tokens_network,
            {"hidden": np.ones((3, 4, 3)), "attention_mask": np.ones((2, 4))},
            {},
            "different numbers of rows",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(model, data, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        extract_layers(model(), data, **options)
