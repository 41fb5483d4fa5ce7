"""Files and folders that take the place of older ones only once they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a binary file to write to, which becomes `path` after success and is removed after an error."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        # mkstemp makes files private; give this one the permissions of an ordinary new file.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def replacing_folder(path: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a folder to write into, which becomes `path` after success and is removed after an error.

    Parameters
    ----------
    path : Path
        The folder to be.
    is_ours : callable
        Says of an existing, non-empty folder whether it may be replaced.

    Raises
    ------
    FileExistsError
        If `path` is a file, or a folder that may not be replaced.
    """
    check_replaceable(path, is_ours)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if path.exists():
            # A folder cannot be replaced in one step: the old one steps aside, and is removed last.
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.")) / "old"
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old.parent)
        else:
            temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def check_replaceable(path: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raise FileExistsError where writing the folder `path` would remove something else than layers."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{str(path)!r} is a file; a folder would be written there.")
    if path.is_dir() and any(path.iterdir()) and not is_ours(path):
        raise FileExistsError(f"The folder {str(path)!r} holds other things than layers; it is not overwritten.")


def _umask() -> int:
    """Return the process's file creation mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
