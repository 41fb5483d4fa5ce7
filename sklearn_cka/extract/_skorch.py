"""Layers of nets that skorch trained: those of the torch module inside, on the net's device and with its batch size."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted
from skorch import NeuralNet

from sklearn_cka.extract._dispatch import extract_layers, extractor
from sklearn_cka.layers import Layers


@extractor.register(NeuralNet)
def _net_layers(model: NeuralNet, X: Any, layers: Any = None, **options: Any) -> Layers:
    """Return what the modules of a fitted net make of every row."""
    check_is_fitted(model, "module_")
    size = model.batch_size if isinstance(model.batch_size, int) and model.batch_size > 0 else None
    if options.get("batch_size") is None and size is not None and (hasattr(X, "shape") or isinstance(X, dict)):
        options["batch_size"] = size
    return extract_layers(model.module_, X, layers=layers, **options)


_net_layers.runs_on_device = True  # type: ignore[attr-defined]
