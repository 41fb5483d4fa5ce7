"""Layers of ONNX graphs, run by onnxruntime (extra ``onnx``): any value of the graph, by its name.

A graph gives out what it declares as outputs. To record other values, a copy of the graph is made that declares them
as well. That takes the model; a session made of it gives its declared outputs alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from tqdm.auto import tqdm

from sklearn_cka._arrays import describe_type, to_numpy
from sklearn_cka._layer_arrays import as_matrix
from sklearn_cka._validation import check_option
from sklearn_cka.extract import _sinks
from sklearn_cka.extract._dispatch import extractor, select_layers
from sklearn_cka.layers import Layers

_SILENT_SECONDS = 1.0
_POLICIES = ("flatten", "mean")
_TOKEN_RULES = ("mean", "first", "last")


@extractor.register(onnx.ModelProto)
def _model_layers(
    model: onnx.ModelProto,
    X: Any,
    layers: str | Iterable[str] | None = None,
    *,
    providers: list[str] | None = None,
    **options: Any,
) -> Layers:
    """Return values of a graph for every row, its declared outputs by default, in the order of the graph."""
    graph = model.graph
    declared = [output.name for output in graph.output]
    values = list(dict.fromkeys(name for node in graph.node for name in node.output if name))
    if layers is None:
        wanted = set(declared)
    else:
        wanted = set(select_layers(values, layers))
    names = [name for name in values if name in wanted]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in declared)
    session = onnxruntime.InferenceSession(
        copy.SerializeToString(), providers=providers or onnxruntime.get_available_providers()
    )
    return _run(session, names, X, **options)


@extractor.register(onnxruntime.InferenceSession)
def _session_layers(
    model: onnxruntime.InferenceSession, X: Any, layers: str | Iterable[str] | None = None, **options: Any
) -> Layers:
    """Return the declared outputs of a session for every row."""
    declared = [output.name for output in model.get_outputs()]
    try:
        names = select_layers(declared, layers)
    except ValueError as error:
        raise ValueError(
            f"{error} A session gives its declared outputs alone: for other values of the graph, pass the model, "
            "onnx.load(path)."
        ) from error
    return _run(model, names, X, **options)


def _run(
    session: onnxruntime.InferenceSession,
    names: list[str],
    X: Any,
    *,
    batch_size: int = 64,
    inputs: Callable[[Any], Mapping[str, Any]] | None = None,
    tokens: str | Callable[[Any, Any], Any] | None = None,
    flatten: str = "flatten",
    channels: str = "auto",
    out: str | os.PathLike[str] | None = None,
    verbose: int = 1,
) -> Layers:
    """Run a session batch by batch and store the values of `names`."""
    check_option("flatten", flatten, _POLICIES)
    if tokens is not None and not callable(tokens):
        check_option("tokens", tokens, _TOKEN_RULES)
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    n_rows = _count(X, inputs)
    sink = _sinks.make_sink(out)
    progress = tqdm(
        total=n_rows, desc="extracting layers", unit="row", disable=verbose <= 0, delay=_SILENT_SECONDS, leave=False
    )
    try:
        with progress:
            for start in range(0, n_rows, batch_size):
                stop = min(start + batch_size, n_rows)
                feed = _feed(session, _cut(X, start, stop), inputs)
                mask = feed.get("attention_mask")
                found = {
                    name: as_matrix(_reduced(name, values, stop - start, mask, tokens), flatten, channels)
                    for name, values in zip(names, session.run(names, feed), strict=True)
                }
                if start == 0:
                    sink.prepare({name: _sinks.LayerShape(m.shape[1], m.itemsize, n_rows) for name, m in found.items()})
                for name, matrix in found.items():
                    sink.write(name, matrix)
                progress.update(stop - start)
        return sink.finish()
    except BaseException:
        sink.discard()
        raise


def _count(X: Any, inputs: Any) -> int:
    if isinstance(X, Mapping):
        counts = {name: len(values) for name, values in X.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(f"Inputs have different numbers of rows: {counts}; all need the same.")
        n_rows = next(iter(counts.values()))
    elif hasattr(X, "shape") or (isinstance(X, list) and inputs is not None):
        n_rows = len(X)
    else:
        raise TypeError(
            f"The data must be an array, a dict of arrays, or a list with inputs=, a function that makes arrays of it; "
            f"got {describe_type(X)}."
        )
    if n_rows == 0:
        raise ValueError("The data have no rows.")
    return n_rows


def _cut(X: Any, start: int, stop: int) -> Any:
    if isinstance(X, Mapping):
        return {name: values[start:stop] for name, values in X.items()}
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def _feed(session: onnxruntime.InferenceSession, given: Any, inputs: Any) -> dict[str, np.ndarray]:
    """Return the inputs of a session for one batch, of the data types that it declares."""
    declared = {one.name: one.type for one in session.get_inputs()}
    given = given if inputs is None else inputs(given)
    if not isinstance(given, Mapping):
        if len(declared) > 1:
            raise ValueError(f"The graph has the inputs {', '.join(declared)}: pass a dict of arrays.")
        given = dict.fromkeys(declared, given)
    missing = [name for name in declared if name not in given]
    if missing:
        raise ValueError(f"The graph has the inputs {', '.join(declared)}; there is no {', '.join(missing)}.")
    # What the graph has no input for is left out, such as the token types of a tokenizer.
    return {name: to_numpy(given[name]).astype(_dtype(kind), copy=False) for name, kind in declared.items()}


def _dtype(kind: str) -> Any:
    """Return the NumPy type of an onnxruntime type such as ``tensor(float)``."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(name, name))


def _reduced(name: str, values: Any, n_rows: int, mask: np.ndarray | None, tokens: Any) -> np.ndarray:
    """Return values with the rows first, and sequences reduced over the tokens that the mask lets through."""
    if not isinstance(values, np.ndarray) or values.ndim == 0 or values.shape[0] != n_rows or values.dtype.kind == "O":
        shape = getattr(values, "shape", type(values).__name__)
        raise ValueError(f"Value {name!r} of the graph is {shape}, whose first axis is not the {n_rows} rows.")
    if tokens is None or values.ndim != 3:
        return values
    seen = np.ones(values.shape[:2], dtype=bool) if mask is None else mask != 0
    if seen.shape != values.shape[:2]:
        raise ValueError(
            f"Value {name!r} of shape {values.shape} does not have the {seen.shape[1]} tokens of the mask."
        )
    if not seen.any(axis=1).all():
        raise ValueError("A row has no token that the attention mask lets through.")
    if callable(tokens):
        return np.asarray(tokens(values, seen))
    if tokens == "mean":
        total = np.where(seen[:, :, None], values, 0).sum(axis=1, dtype=np.float64)
        return (total / seen.sum(axis=1, keepdims=True)).astype(np.result_type(values.dtype, np.float32))
    at = seen.argmax(axis=1) if tokens == "first" else seen.shape[1] - 1 - seen[:, ::-1].argmax(axis=1)
    return values[np.arange(n_rows), at]
