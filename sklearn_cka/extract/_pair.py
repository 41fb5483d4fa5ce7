"""The layers of two models over the same rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from sklearn_cka.extract._dispatch import extract_layers, register_library_of
from sklearn_cka.layers import Layers


def extract_pair(
    models: tuple[Any, Any],
    X: Any,
    layers: tuple[Any, Any],
    options: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    verbose: int,
) -> tuple[Layers, Layers]:
    """Run two models on the same rows and return the layers of both.

    Two torch models get the very same batches: each batch goes through both before the next one is drawn, so that
    examples that are augmented at random are the same for both. Others are run one after the other on the same `X`.
    """
    for model in models:
        register_library_of(model)
    torch = sys.modules.get("torch")
    if torch is not None and all(isinstance(model, torch.nn.Module) for model in models):
        from sklearn_cka.extract._torch import extract_together

        sizes: set[Any] = {each.get("batch_size") for each in options} - {None}
        if len(sizes) > 1:
            raise ValueError(f"Both models get the same batches: batch_size must be one number, got {sorted(sizes)}.")
        rest = [{k: v for k, v in each.items() if k not in ("batch_size", "verbose")} for each in options]
        outs = [each["out"] for each in rest if each.get("out") is not None]
        if len(outs) == 2 and str(outs[0]) == str(outs[1]):
            raise ValueError(f"Both models would be written to out={str(outs[0])!r}: give each a place of its own.")
        a, b = extract_together(models, X, layers, rest, batch_size=next(iter(sizes), None), verbose=verbose)
        return a, b
    a, b = (
        extract_layers(model, X, layers=chosen, **each)
        for model, chosen, each in zip(models, layers, options, strict=True)
    )
    return a, b
