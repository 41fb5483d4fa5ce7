"""A folder of ``.npy`` files, one a layer, each memory-mapped.

``layers.json`` lists names and files in order, since a layer's name need not be a file's. A folder without it is
read by the names of its files, in natural order (``layer2`` before ``layer10``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka._arrays import to_numpy
from sklearn_cka._storage._replace import replacing_folder

LISTING = "layers.json"
_UNSAFE = re.compile(r"[^\w.-]+")


def read_folder(path: Path, *, mmap: bool = True) -> list[tuple[str, np.ndarray]]:
    """Return the named arrays of a folder, mapped read-only or read."""
    if not path.is_dir():
        raise ValueError(f"{str(path)!r} is not a folder of .npy files; files of layers end in .npz or .safetensors.")
    arrays = []
    for name, file in _members(path):
        try:
            arrays.append((name, np.load(path / file, mmap_mode="r" if mmap else None, allow_pickle=False)))
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"Layer {name!r} of {str(path)!r} cannot be read: {error}") from error
    return arrays


def _members(path: Path) -> list[tuple[str, str]]:
    listing = path / LISTING
    if listing.exists():
        try:
            entries = json.loads(listing.read_text(encoding="utf-8"))["layers"]
            return [(str(entry["name"]), Path(str(entry["file"])).name) for entry in entries]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(listing)!r} is no listing of layers.") from error
    if not any(path.glob("*.npy")):
        raise ValueError(f"The folder {str(path)!r} holds no layers: there is no .npy file in it.")
    files = sorted((file.name for file in path.glob("*.npy")), key=_natural)
    return [(file.removesuffix(".npy"), file) for file in files]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which numbers inside names are ordered as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def write_folder(path: Path, arrays: Iterable[tuple[str, Any]]) -> None:
    """Write one ``.npy`` file a layer and the listing."""
    with replacing_folder(path, is_folder_of_layers) as folder:
        names: list[str] = []
        for name, array in arrays:
            np.save(folder / member_name(len(names), name), np.ascontiguousarray(to_numpy(array)), allow_pickle=False)
            names.append(name)
        write_listing(folder, names)


def member_name(position: int, name: str) -> str:
    """Return the file name of a layer: its position keeps names apart that differ in case or in odd characters."""
    return f"{position:04d}-{_UNSAFE.sub('_', name)[:80]}.npy"


def write_listing(folder: Path, names: list[str]) -> None:
    """Write ``layers.json``."""
    entries = [{"name": name, "file": member_name(i, name)} for i, name in enumerate(names)]
    (folder / LISTING).write_text(json.dumps({"layers": entries}, indent=1), encoding="utf-8")


def is_folder_of_layers(path: Path) -> bool:
    """Whether a folder holds ``.npy`` files and their listing, and nothing else."""
    return all(file.suffix == ".npy" or file.name == LISTING for file in path.iterdir())
