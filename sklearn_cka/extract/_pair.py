"""The layers of two models over the same rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sklearn_cka.extract._dispatch import extract_layers, iter_layers, register_library_of
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
    if _are_torch(models):
        from sklearn_cka.extract._torch import extract_together

        batch_size, rest = _shared_batches(options)
        outs = [each["out"] for each in rest if each.get("out") is not None]
        if len(outs) == 2 and str(outs[0]) == str(outs[1]):
            raise ValueError(f"Both models would be written to out={str(outs[0])!r}: give each a place of its own.")
        a, b = extract_together(models, X, layers, rest, batch_size=batch_size, verbose=verbose)
        return a, b
    a, b = (
        extract_layers(model, X, layers=chosen, **each)
        for model, chosen, each in zip(models, layers, options, strict=True)
    )
    return a, b


def iter_pair(
    models: tuple[Any, Any],
    X: Any,
    layers: tuple[Any, Any],
    options: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    verbose: int,
) -> Iterator[tuple[Layers, Layers]]:
    """Run two models on the same rows batch by batch and yield the layers of both, keeping none."""
    batch_size, rest = _shared_batches(options)
    if _are_torch(models):
        from sklearn_cka.extract._torch import iter_together

        yield from map(tuple, iter_together(models, X, layers, rest, batch_size=batch_size, verbose=verbose))
        return
    size = {} if batch_size is None else {"batch_size": batch_size}
    first, second = (
        iter_layers(model, X, layers=chosen, **size, **each)
        for model, chosen, each in zip(models, layers, rest, strict=True)
    )
    yield from zip(first, second, strict=True)


def _are_torch(models: tuple[Any, Any]) -> bool:
    for model in models:
        register_library_of(model)
    torch = sys.modules.get("torch")
    return torch is not None and all(isinstance(model, torch.nn.Module) for model in models)


def _shared_batches(options: tuple[Mapping[str, Any], Mapping[str, Any]]) -> tuple[int | None, list[dict[str, Any]]]:
    """Return the batch size of both models, and their other options."""
    sizes: set[Any] = {each.get("batch_size") for each in options} - {None}
    if len(sizes) > 1:
        raise ValueError(f"Both models get the same batches: batch_size must be one number, got {sorted(sizes)}.")
    rest = [{k: v for k, v in each.items() if k not in ("batch_size", "verbose")} for each in options]
    return next(iter(sizes), None), rest
