"""Named arrays in and out of ``.npz`` files, memory-mapped where they are not compressed.

NumPy's own reader ignores ``mmap_mode`` for archives. A member stored without compression is nevertheless a
plain ``.npy`` file at a fixed offset, so it can be mapped there: a file larger than memory opens in
milliseconds.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

from sklearn_cka._storage._replace import replacing_file

_LOCAL_HEADER_BYTES = 30
_NPY_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: Path, *, mmap: bool = True) -> list[tuple[str, np.ndarray]]:
    """Return the named arrays of an ``.npz`` file in the order of the file.

    Parameters
    ----------
    path : path-like
        The file.
    mmap : bool, default=True
        Whether to map uncompressed members read-only instead of reading them. Compressed members are always
        read.

    Returns
    -------
    list of (str, ndarray)
        Names and arrays, duplicated names included.
    """
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{str(path)!r} is not an .npz file: {error}.") from error
    arrays = []
    with archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise ValueError(f"{str(path)!r} holds {info.filename!r}, which is not an array (.npy).")
            name = info.filename.removesuffix(".npy")
            try:
                array = _map_member(path, info) if mmap else None
                if array is None:
                    with archive.open(info) as member:
                        array = np.lib.format.read_array(member, allow_pickle=False)
            except (ValueError, EOFError, zipfile.BadZipFile) as error:
                raise ValueError(f"Layer {name!r} of {str(path)!r} cannot be read: {error}") from error
            arrays.append((name, array))
    return arrays


def _map_member(path: Path, info: zipfile.ZipInfo) -> np.ndarray | None:
    """Map one member of an archive, or return None where it has to be read: compressed, empty or unusual."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
        return None
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
        # The sizes of name and extra field may differ from those of the central directory.
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        file.seek(info.header_offset + _LOCAL_HEADER_BYTES + name_length + extra_length)
        read_header = _NPY_HEADER_READERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            return None
        shape, fortran_order, dtype = read_header(file)
        if dtype.hasobject or 0 in shape or shape == ():
            return None
        order: Literal["F", "C"] = "F" if fortran_order else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order=order)


def write_npz(path: Path, arrays: Iterable[tuple[str, np.ndarray]], *, compress: bool = False) -> None:
    """Write named arrays to an ``.npz`` file, replacing it only once it is complete.

    `numpy.savez` takes the names as keywords and so cannot write an array called ``file``.

    Parameters
    ----------
    path : Path
        The file.
    arrays : iterable of (str, ndarray)
        Names and arrays. They may be maps of the very file that is replaced.
    compress : bool, default=False
        Whether to compress; a compressed file cannot be memory-mapped.
    """
    compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replacing_file(path) as file, zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays:
            member = f"{name}.npy"
            if zipfile.ZipInfo(member).filename != member:
                raise ValueError(f"Layer name {name!r} cannot be stored in an .npz file.")
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
