"""Zarr groups, one array a layer, through the zarr library (extra ``io``).

The order of layers is an attribute of the group; without it, it is that of the names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka._arrays import to_numpy
from sklearn_cka._storage._replace import replacing_folder

_ORDER = "layers"


def _library(path: Path) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f'{str(path)!r} needs the zarr library: pip install "sklearn_cka[io]".') from error
    return zarr


def read_zarr(path: Path) -> list[tuple[str, np.ndarray]]:
    """Return the named arrays of a group, read into memory."""
    zarr = _library(path)
    try:
        group = zarr.open_group(str(path), mode="r")
    except (FileNotFoundError, ValueError, zarr.errors.NodeTypeValidationError) as error:
        raise ValueError(f"{str(path)!r} is not a zarr group of arrays.") from error
    names = list(group.attrs.get(_ORDER, sorted(group.array_keys())))
    return [(name, np.asarray(group[name][...])) for name in names]


def write_zarr(path: Path, arrays: list[tuple[str, Any]]) -> None:
    """Write named arrays, one at a time, in blocks of rows."""
    zarr = _library(path)
    for name, _ in arrays:
        if not name or "/" in name or name.startswith(("__", ".")):
            raise ValueError(f"Layer name {name!r} cannot be stored in a zarr group.")
    with replacing_folder(path, is_zarr) as folder:
        group = zarr.open_group(str(folder), mode="w")
        group.attrs[_ORDER] = [name for name, _ in arrays]
        for name, array in arrays:
            values = to_numpy(array)
            group.create_array(name, data=np.ascontiguousarray(values), chunks=_chunks(values))


def _chunks(values: np.ndarray) -> tuple[int, ...]:
    """Return chunks of whole rows, of about 8 MiB each."""
    row_bytes = max(1, values[:1].nbytes)
    return (max(1, min(len(values), 2**23 // row_bytes)), *values.shape[1:])


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr group."""
    return (path / "zarr.json").exists() or (path / ".zgroup").exists()
