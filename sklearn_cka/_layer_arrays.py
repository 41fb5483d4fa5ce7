"""From whatever a caller has for a collection of layers to names and one matrix (rows, units) a layer.

The policies of flattening are described in :mod:`sklearn_cka.layers`.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import ItemsView, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from sklearn_cka import _storage
from sklearn_cka._arrays import Array, describe_type, dtype_name, is_array, namespace

if TYPE_CHECKING:
    import pandas as pd


def is_pandas(obj: Any, *classes: str) -> bool:
    """Whether `obj` is of one of the named classes of pandas."""
    # An object of pandas can only exist once pandas has been imported; asking does not import it.
    module = sys.modules.get("pandas")
    return module is not None and isinstance(obj, tuple(getattr(module, name) for name in classes))


def collect(data: Any, argument: str) -> list[tuple[Any, Any]]:
    """Return the (name, value) pairs of a collection in any of its forms."""
    if isinstance(data, (str, os.PathLike)):
        return list(_storage.read(data))
    if isinstance(data, Mapping):
        return list(data.items())
    if is_pandas(data, "DataFrame") and data.columns.nlevels == 2:
        return _split_frame(data, argument)
    if isinstance(data, (ItemsView, Iterator)):
        data = list(data)
    if isinstance(data, (list, tuple)):
        return _collect_sequence(data, argument)
    hint = f'wrap a single representation as {{"name": {argument}}}'
    if is_array(data):
        shape = tuple(data.shape)
        raise TypeError(f"`{argument}` must be a collection of layers, not one array of shape {shape}: {hint}.")
    if is_pandas(data, "DataFrame", "Series") or hasattr(data, "__arrow_c_stream__"):
        raise TypeError(
            f"`{argument}` is a table without two-level columns (layer, unit), so it has no layers: {hint}."
        )
    raise TypeError(
        f"`{argument}` must be a mapping of layer name to array, a list of arrays or of (name, array) pairs, "
        f"a DataFrame with two-level columns, or the path of a file of layers; got {describe_type(data)}."
    )


def _collect_sequence(data: list | tuple, argument: str) -> list[tuple[Any, Any]]:
    pairs = [isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str) for item in data]
    if data and all(pairs):
        return [(name, value) for name, value in data]
    if any(pairs):
        raise TypeError(f"`{argument}` mixes (name, array) pairs with items that are not pairs.")
    if len(data) == 2 and isinstance(data[0], str):
        raise TypeError(f"`{argument}` is a single (name, array) pair; put it into a list.")
    if any(_is_number(x) or (isinstance(x, (list, tuple)) and all(map(_is_number, x))) for x in data):
        raise TypeError(
            f'`{argument}` is a list of numbers, not of arrays: wrap a single representation as {{"name": {argument}}}.'
        )
    return [(str(i), value) for i, value in enumerate(data)]


def _is_number(obj: Any) -> bool:
    return isinstance(obj, (numbers.Number, np.generic))


def _split_frame(frame: pd.DataFrame, argument: str) -> list[tuple[Any, Any]]:
    """Split a frame by the first level of its columns, in the order in which layers first appear."""
    if not frame.columns.is_unique:
        repeated: Any = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"layer {repeated[0]!r} of `{argument}` has the unit {repeated[1]!r} twice.")
    positions: dict[Any, list[int]] = {}
    for position, name in enumerate(frame.columns.get_level_values(0)):
        positions.setdefault(name, []).append(position)
    return [(name, frame.iloc[:, columns]) for name, columns in positions.items()]


def text_names(names: list[Any], where: str) -> list[str]:
    """Return the layer names as strings, refusing those that are not distinct."""
    seen: dict[str, Any] = {}
    for name in names:
        text = str(name)
        if text in seen:
            if type(seen[text]) is type(name):
                raise ValueError(f"Duplicate layer name {text!r}{where}.")
            raise ValueError(f"Layer names {seen[text]!r} and {name!r}{where} are both {text!r} as text.")
        seen[text] = name
    return list(seen)


def as_array(value: Any, label: str) -> Array:
    """Return the value of a layer as an array of real numbers in its own namespace."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{label} is a masked array with masked values; fill them or drop their rows.")
    if scipy.sparse.issparse(value):
        raise TypeError(f"{label} is sparse; pass its toarray().")
    if isinstance(value, (list, tuple)) and any(is_array(x) and x.ndim > 1 for x in value):
        raise TypeError(f"{label} is a {type(value).__name__} of arrays, not one array; choose or concatenate them.")
    if is_pandas(value, "DataFrame", "Series"):
        array = _pandas_values(value)
    elif isinstance(value, np.memmap) or (is_array(value) and not isinstance(value, (np.ndarray, np.generic))):
        array = value
    elif is_array(value) or isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{label} cannot be made an array: {error}") from error
    else:
        raise TypeError(f"{label} must be an array; got {describe_type(value)}.")
    _check_dtype(array, label)
    if array.ndim == 0:
        raise ValueError(f"{label} is a single number (zero-dimensional); an array of shape (n_rows, ...) is needed.")
    if 0 in array.shape:
        raise ValueError(f"{label} is empty: its shape is {tuple(array.shape)}.")
    return array


def _pandas_values(value: Any) -> np.ndarray:
    array = value.to_numpy()
    if array.dtype.kind == "O":
        # Nullable number types give objects; ask for floats, unless some column is not a number at all.
        dtypes = list(value.dtypes) if hasattr(value, "columns") else [value.dtype]
        if all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes):
            array = value.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def _check_dtype(array: Array, label: str) -> None:
    name = dtype_name(array)
    if "complex" in name:
        raise ValueError(f"{label} is complex ({name}); real numbers are needed, such as its absolute value.")
    if not name.startswith(("float", "bfloat", "int", "uint", "bool", "longdouble")):
        raise TypeError(f"{label} must hold real numbers; its dtype is {name}.")


def as_matrix(array: Array, flatten: str, channels: str) -> Array:
    """Bring an array to two dimensions by the flattening policy."""
    n_rows, *rest = array.shape
    if len(rest) == 1:
        return array
    xp = namespace(array)
    if not rest or flatten == "flatten":
        return xp.reshape(array, (n_rows, math.prod(rest)))
    first = channels == "first" or (channels == "auto" and len(rest) > 2)
    channel_axis = 1 if first else len(rest)
    position_axes = tuple(axis for axis in range(1, len(rest) + 1) if axis != channel_axis)
    if flatten == "positions":
        # Channels go last first: reshaping alone would mix the values of several channels into one unit.
        moved = xp.permute_dims(array, (0, *position_axes, channel_axis))
        n_channels = array.shape[channel_axis]
        return xp.reshape(moved, (n_rows * math.prod(rest) // n_channels, n_channels))
    return _mean(array, position_axes)


def _mean(array: Array, axes: tuple[int, ...]) -> Array:
    """Average over `axes` in float64, returning the floating type the array is computed in."""
    xp = namespace(array)
    name = dtype_name(array)
    total = xp.sum(xp.astype(array, xp.float64) if "float" not in name else array, axis=axes, dtype=xp.float64)
    mean = total / math.prod(array.shape[axis] for axis in axes)
    return xp.astype(mean, xp.float32) if name in ("float32", "float16", "bfloat16") else mean
