"""Layers of transformers that work side by side: one for each branch of a ColumnTransformer or FeatureUnion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion
from sklearn.utils.validation import check_is_fitted

from sklearn_cka.extract._dispatch import extractor, select_layers
from sklearn_cka.extract._sklearn_models import dense_output
from sklearn_cka.layers import Layers


@extractor.register(ColumnTransformer)
def _column_layers(model: ColumnTransformer, X: Any, layers: str | Iterable[str] | None = None) -> Layers:
    """Return the columns that every branch makes, under its name; dropped ones have none."""
    check_is_fitted(model)
    output: Any = model.transform(X)
    if hasattr(output, "tocsr"):
        output = output.tocsr()  # the other formats cannot be cut
    slices = {name: at for name, at in model.output_indices_.items() if at.stop > at.start}
    rows = output.iloc if hasattr(output, "iloc") else output
    return _checked({name: rows[:, slices[name]] for name in _wanted(list(slices), layers, model)}, X)


@extractor.register(FeatureUnion)
def _union_layers(model: FeatureUnion, X: Any, layers: str | Iterable[str] | None = None) -> Layers:
    """Return what every branch makes, under its name, without the weights of the union."""
    check_is_fitted(model)
    branches = {name: step for name, step in model.transformer_list if step != "drop"}
    wanted = _wanted(list(branches), layers, model)
    return _checked({name: X if branches[name] == "passthrough" else branches[name].transform(X) for name in wanted}, X)


def _wanted(names: list[str], layers: str | Iterable[str] | None, model: Any) -> list[str]:
    if not names:
        raise ValueError(f"The {type(model).__name__} has no layers: all of its branches are dropped.")
    return select_layers(names, layers)


def _checked(found: dict[str, Any], X: Any) -> Layers:
    return Layers({name: dense_output(name, output, X) for name, output in found.items()})


_column_layers.stands_alone = True
_union_layers.stands_alone = True
