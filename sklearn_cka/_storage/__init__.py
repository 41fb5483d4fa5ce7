"""Layer files: named arrays in and out, memory-mapped where the format allows it.

=====================  =========================  ================================================
path                   format                     read as
=====================  =========================  ================================================
``acts.npz``           NumPy's archive            memory maps; compressed members are read
``acts.safetensors``   Hugging Face safetensors   memory maps; bfloat16 is read, as float32
``acts.zarr``          zarr group (extra ``io``)  arrays that are read
``acts`` (a folder)    one ``.npy`` a layer       memory maps
=====================  =========================  ================================================

What is written replaces an older file or folder only once it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka._arrays import to_numpy
from sklearn_cka._storage import _folder, _npz, _safetensors, _zarr

__all__ = ["FORMATS", "format_of", "read", "write"]

FORMATS = ".npz, .safetensors and .zarr, and folders of .npy files (a path without a suffix)"
_SUFFIXES = {".npz": "npz", ".safetensors": "safetensors", ".zarr": "zarr"}


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that a path stands for: "npz", "safetensors", "zarr" or "folder".

    Raises
    ------
    ValueError
        If its suffix is none of a format and it is not a folder.
    """
    path = Path(path)
    if path.suffix in _SUFFIXES:
        return _SUFFIXES[path.suffix]
    if path.suffix == "" or path.is_dir():
        return "folder"
    raise ValueError(f"Layers are read from and written to {FORMATS}; got {str(path)!r}.")


def read(path: str | os.PathLike[str], *, mmap: bool = True) -> list[tuple[str, np.ndarray]]:
    """Return the named arrays of a file or folder, in its order.

    Parameters
    ----------
    path : path-like
        The file or folder.
    mmap : bool, default=True
        Whether to map arrays read-only, where the format allows it, instead of reading them.

    Returns
    -------
    list of (str, ndarray)
        Names and arrays.
    """
    kind, path = format_of(path), Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {str(path)!r}.")
    if kind == "npz":
        return _npz.read_npz(path, mmap=mmap)
    if kind == "safetensors":
        return _safetensors.read_safetensors(path, mmap=mmap)
    if kind == "zarr":
        return _zarr.read_zarr(path)
    return _folder.read_folder(path, mmap=mmap)


def write(path: str | os.PathLike[str], arrays: Iterable[tuple[str, Any]], *, compress: bool = False) -> None:
    """Write named arrays to a file or folder, in the format that its suffix stands for.

    Parameters
    ----------
    path : path-like
        The file or folder.
    arrays : iterable of (str, array)
        Names and arrays of any library. They may be maps of the very file that is replaced.
    compress : bool, default=False
        Whether to compress an ``.npz`` file.

    Raises
    ------
    ValueError
        If the format cannot hold a name or a data type, or cannot be compressed.
    FileExistsError
        If a folder is in the place of the output that holds other things than layers.
    """
    kind, path = format_of(path), Path(path)
    if compress and kind != "npz":
        raise ValueError(f"compress=True is for .npz files; got {str(path)!r}.")
    if kind == "npz":
        _npz.write_npz(path, ((name, to_numpy(array)) for name, array in arrays), compress=compress)
    elif kind == "safetensors":
        _safetensors.write_safetensors(path, list(arrays))
    elif kind == "zarr":
        _zarr.write_zarr(path, list(arrays))
    else:
        _folder.write_folder(path, arrays)
