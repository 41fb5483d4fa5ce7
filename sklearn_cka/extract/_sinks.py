"""Where activations go as they are made: memory, or a file.

A sink takes the rows of every layer batch by batch. In memory they are copied into arrays allocated once. On disk every
batch is appended to one ``.npy`` file a layer with ordinary writes, so that neither the process nor its page tables
grow with the number of rows; the result is a read-only memory map.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka import _memory, _storage
from sklearn_cka._arrays import Array, namespace, to_numpy
from sklearn_cka._storage import _folder, _replace
from sklearn_cka.layers import Layers

_NAMES_SHOWN = 3


@dataclass(frozen=True)
class LayerShape:
    """What is known of a layer before it is stored: units per row, bytes per unit, rows (None: not known yet)."""

    n_units: int
    itemsize: int
    n_rows: int | None

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole layer; of one row, where the number of rows is not known."""
        return (self.n_rows or 1) * self.n_units * self.itemsize


class MemorySink:
    """Keep layers in memory, in arrays allocated before the first row where the number of rows is known.

    Parameters
    ----------
    allocate : callable or None
        Makes an empty array of a shape for rows like those given; None is the ``empty`` of their library.
    """

    def __init__(self, allocate: Callable[[tuple[int, int], Array], Array] | None = None) -> None:
        self._allocate = allocate or _empty
        self._arrays: dict[str, Array] = {}
        self._chunks: dict[str, list[Array]] = {}
        self._filled: dict[str, int] = {}
        self._n_rows: dict[str, int | None] = {}

    def prepare(self, shapes: Mapping[str, LayerShape]) -> None:
        """Refuse layers that do not fit into the memory that is free."""
        check_memory(shapes)
        self._n_rows = {name: shape.n_rows for name, shape in shapes.items()}

    def write(self, name: str, rows: Array) -> None:
        """Append rows, of shape (n, n_units), to a layer."""
        start = self._filled.get(name, 0)
        stop = self._filled[name] = start + rows.shape[0]
        total = self._n_rows[name]
        if total is None:
            self._chunks.setdefault(name, []).append(rows)
            return
        if name not in self._arrays:
            self._arrays[name] = self._allocate((total, rows.shape[1]), rows)
        self._arrays[name][start:stop] = rows

    def finish(self) -> Layers:
        """Return what was stored."""
        for name in list(self._chunks):  # layer by layer, so that one at most exists twice
            chunks = self._chunks.pop(name)
            self._arrays[name] = namespace(chunks[0]).concat(chunks, axis=0)
        return Layers({name: self._arrays[name] for name in self._n_rows})

    def discard(self) -> None:
        """Let go of what was stored."""
        self._arrays.clear()
        self._chunks.clear()


def _empty(shape: tuple[int, int], rows: Array) -> Array:
    return namespace(rows).empty(shape, dtype=rows.dtype, device=rows.device)


class FileSink:
    """Append layers to ``.npy`` files, which become the folder, or are copied into the file, asked for.

    Parameters
    ----------
    path : path-like
        As of `Layers.save`: an ``.npz``, ``.safetensors`` or ``.zarr`` path, or a folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._format = _storage.format_of(path)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"out={str(path)!r}: there is no folder {str(self._path.parent)!r}.")
        if self._format == "folder":
            _replace.check_replaceable(self._path, _folder.is_folder_of_layers)
        elif self._path.is_dir() and self._format != "zarr":
            raise FileExistsError(f"out={str(path)!r} is a folder; a file would be written there.")
        self._folder: Path | None = None
        self._files: dict[str, Path] = {}
        self._filled: dict[str, int] = {}
        self._headers: dict[str, tuple[np.dtype, int]] = {}

    def prepare(self, shapes: Mapping[str, LayerShape]) -> None:
        """Refuse layers that do not fit on the disk, and make a folder to write them into."""
        copies = 1 if self._format == "folder" else 2
        needed = copies * sum(shape.n_bytes for shape in shapes.values())
        free = shutil.disk_usage(self._path.parent).free
        if needed > free:
            raise OSError(
                f"Writing {describe(shapes)} to {str(self._path)!r} takes {_memory.size_text(needed)}"
                f"{' (twice its size while the file is put together)' if copies == 2 else ''}, and "
                f"{_memory.size_text(free)} are free there: {_remedies()}."
            )
        self._folder = Path(tempfile.mkdtemp(dir=self._path.parent, prefix=f".{self._path.name}."))
        self._files = {name: self._folder / _folder.member_name(i, name) for i, name in enumerate(shapes)}

    def write(self, name: str, rows: Array) -> None:
        """Append rows, of shape (n, n_units), to a layer."""
        values = np.ascontiguousarray(to_numpy(rows))
        # A file is opened for every write: models have more layers than processes may have open files.
        with self._files[name].open("ab") as file:
            if name not in self._filled:
                self._headers[name] = (values.dtype, values.shape[1])
                self._filled[name] = 0
                self._write_header(name, file)
            file.write(values.data.cast("B"))
        self._filled[name] += len(values)

    def _write_header(self, name: str, file: Any) -> None:
        """Write the header of an array of the rows so far; NumPy leaves room for the number to grow."""
        dtype, n_units = self._headers[name]
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (self._filled[name], n_units),
        }
        np.lib.format.write_array_header_1_0(file, header)

    def finish(self) -> Layers:
        """Put the file or folder in its place and return its layers, mapped where the format allows."""
        assert self._folder is not None
        for name, path in self._files.items():
            with path.open("r+b") as file:
                self._write_header(name, file)
        if self._format == "folder":
            _folder.write_listing(self._folder, list(self._files))
            with _replace.replacing_folder(self._path, _folder.is_folder_of_layers) as target:
                for path in self._folder.iterdir():
                    path.rename(target / path.name)
        else:
            _storage.write(self._path, [(n, np.load(path, mmap_mode="r")) for n, path in self._files.items()])
        self.discard()
        return Layers.load(self._path)

    def discard(self) -> None:
        """Remove what was written and is not in its place."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


Sink = MemorySink | FileSink


def make_sink(
    out: str | os.PathLike[str] | None, allocate: Callable[[tuple[int, int], Array], Array] | None = None
) -> Sink:
    """Return the sink that the argument `out` stands for."""
    if out is None:
        return MemorySink(allocate)
    if not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"out must be None or the path of a file or folder, got {out!r}.")
    return FileSink(out)


def check_memory(shapes: Mapping[str, LayerShape]) -> None:
    """Raise MemoryError if layers of these shapes take more memory than is free."""
    needed = sum(shape.n_bytes for shape in shapes.values())
    free = _memory.available_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"Keeping {describe(shapes)} takes {_memory.size_text(needed)}, and {_memory.size_text(free)} of memory "
            f"are free: write them to a folder of memory maps with out='activations', or {_remedies()}."
        )


def _remedies() -> str:
    return (
        "average maps over their positions with flatten='mean', name fewer layers with layers=..., pass fewer rows, "
        "or compare batch by batch with iter_layers"
    )


def describe(shapes: Mapping[str, LayerShape]) -> str:
    """Say in words how many layers and rows there are, and which layers are the largest."""
    largest = sorted(shapes, key=lambda name: -shapes[name].n_bytes)[:_NAMES_SHOWN]
    rows = next(iter(shapes.values())).n_rows
    count = f"{len(shapes)} layer{'' if len(shapes) == 1 else 's'}"
    return (
        f"{count}{'' if rows is None else f' of {rows} rows'} (the largest: "
        f"{', '.join(f'{name!r} of {shapes[name].n_units} units' for name in largest)})"
    )
