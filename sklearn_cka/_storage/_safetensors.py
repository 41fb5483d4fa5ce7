"""Safetensors files: eight bytes of length, a JSON header of names, types, shapes and offsets, then the raw values.

The format is read and written here, without the library of that name, which reads every tensor into memory and wants
all of them in memory to write: a map of the file, or one layer at a time, is what large activations need. Files go
both ways between the two. The order of layers is kept in the metadata; without it, it is that of the offsets.

References
----------
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka._arrays import dtype_name, to_numpy
from sklearn_cka._storage._replace import replacing_file

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_CODES = {name: code for code, name in _DTYPES.items()} | {"bfloat16": "F32"}
_ORDER = "layers"
_MAX_HEADER_BYTES = 100_000_000
_ALIGNMENT = 8


def read_safetensors(path: Path, *, mmap: bool = True) -> list[tuple[str, np.ndarray]]:
    """Return the named arrays of a file, mapped read-only or read."""
    header, start = _read_header(path)
    metadata = header.pop("__metadata__", None) or {}
    names = sorted(header, key=lambda name: header[name]["data_offsets"][0])
    order = json.loads(metadata[_ORDER]) if _ORDER in metadata else names
    if sorted(order) != sorted(names):
        order = names
    return [(name, _read_tensor(path, name, header[name], start, mmap=mmap)) for name in order]


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header and the position at which the values start."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
        if not 0 < length <= min(size - 8, _MAX_HEADER_BYTES):
            raise ValueError(f"{str(path)!r} is not a safetensors file: its header is missing or cut off.")
        try:
            header = json.loads(file.read(length))
            last = max(
                (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is not a safetensors file: its header cannot be read.") from error
    if 8 + length + last > size:
        raise ValueError(f"{str(path)!r} is cut off: it should have {8 + length + last} bytes and has {size}.")
    return header, 8 + length


def _read_tensor(path: Path, name: str, entry: dict[str, Any], start: int, *, mmap: bool) -> np.ndarray:
    code, shape = entry["dtype"], tuple(entry["shape"])
    if code not in _DTYPES and code != "BF16":
        raise ValueError(f"Layer {name!r} of {str(path)!r} is of type {code}, which cannot be read.")
    dtype = np.dtype(_DTYPES.get(code, "uint16")).newbyteorder("<")
    begin, end = entry["data_offsets"]
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"Layer {name!r} of {str(path)!r} has {end - begin} bytes, which shape {shape} does not.")
    if mmap and code != "BF16" and end > begin:
        array: np.ndarray = np.memmap(path, dtype=dtype, mode="r", offset=start + begin, shape=shape)
        return array
    values = np.fromfile(path, dtype=dtype, count=math.prod(shape), offset=start + begin).reshape(shape)
    # bfloat16 is the upper half of float32.
    return (values.astype(np.uint32) << 16).view(np.float32) if code == "BF16" else values


def write_safetensors(path: Path, arrays: list[tuple[str, Any]]) -> None:
    """Write named arrays, one at a time; bfloat16 becomes float32."""
    header: dict[str, Any] = {"__metadata__": {_ORDER: json.dumps([name for name, _ in arrays])}}
    position = 0
    for name, array in arrays:
        code = _CODES.get(dtype_name(array))
        if code is None:
            raise ValueError(f"Layer {name!r} is of type {dtype_name(array)}, which safetensors cannot hold.")
        if name in header:
            raise ValueError(f"Layer name {name!r} cannot be stored in a .safetensors file.")
        end = position + math.prod(array.shape) * np.dtype(_DTYPES[code]).itemsize
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with replacing_file(path) as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _, array in arrays:
            values = np.ascontiguousarray(to_numpy(array))
            file.flush()
            values.astype(values.dtype.newbyteorder("<"), copy=False).tofile(file)
