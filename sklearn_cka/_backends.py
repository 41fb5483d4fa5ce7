"""Array libraries by name: moving NumPy data to a device for a computation, and the precision of products there.

Arrays of torch, CuPy and JAX are computed where they lie without any of this. What is here serves data that are
NumPy arrays and a user who wants them computed elsewhere: within ``with array_backend("torch", device="cuda"):`` they
are moved once, and results come home as Python floats and NumPy tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from sklearn_cka import _arrays
from sklearn_cka._arrays import Array

__all__ = ["array_backend", "backend_names", "register_backend"]

#: Precisions of float32 products that may be asked for by name; None is full float32.
PRECISIONS = (None, "tf32", "bf16")
_TORCH_PRECISION = {None: "highest", "tf32": "high", "bf16": "medium"}
_JAX_PRECISION = {None: "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class _Backend:
    """How arrays of one library are made: ``put(array, device)`` takes a NumPy array."""

    put: Callable[[np.ndarray, Any], Array]
    install: str


@dataclass(frozen=True)
class Target:
    """Where NumPy data are to be computed."""

    name: str
    device: Any
    put: Callable[[np.ndarray, Any], Array]

    def move(self, x: Array) -> Array:
        """Return a NumPy array as one of the target's; arrays of other libraries are returned as they are."""
        if not isinstance(x, np.ndarray) or self.name == "numpy":
            return x
        return self.put(np.array(x), self.device)  # a copy: libraries refuse, or write to, memory that is not theirs

    def bring(self, x: Array) -> Array:
        """Return an array of any library as one of the target's."""
        if self.name == "numpy":
            return _arrays.to_numpy(x)
        return _arrays.like(x, self.put(np.zeros(1, dtype=np.float32), self.device))


def _numpy_put(x: np.ndarray, device: Any) -> Array:
    if device not in (None, "cpu"):
        raise ValueError(f"NumPy computes on the cpu, got device={device!r}; for a GPU choose another backend.")
    return x


def _torch_put(x: np.ndarray, device: Any) -> Array:
    import torch

    wanted = torch.device("cpu" if device is None else device)
    available: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if wanted.type in available and not available[wanted.type]():
        raise ValueError(f"torch {torch.__version__} finds no {wanted.type} device on this machine.")
    if wanted.type == "mps" and x.dtype == np.float64:
        x = x.astype(np.float32)
    return torch.asarray(x, device=wanted)


def _cupy_put(x: np.ndarray, device: Any) -> Array:
    import cupy

    with cupy.cuda.Device(device):
        return cupy.asarray(x)


def _jax_put(x: np.ndarray, device: Any) -> Array:
    import jax

    if device is None:
        return jax.numpy.asarray(x)
    try:
        found = jax.devices(device) if isinstance(device, str) else [device]
    except RuntimeError as error:
        raise ValueError(f"JAX finds no {device} device on this machine: {error}") from None
    return jax.device_put(x, found[0])


def _strict_put(x: np.ndarray, device: Any) -> Array:
    import array_api_strict

    return array_api_strict.asarray(x, device=None if device is None else array_api_strict.Device(device))


_BACKENDS: dict[str, _Backend] = {
    "numpy": _Backend(_numpy_put, "numpy"),
    "torch": _Backend(_torch_put, 'torch, as in: python -m pip install "sklearn_cka[torch]"'),
    "cupy": _Backend(_cupy_put, 'CuPy for your CUDA version, as in: python -m pip install "sklearn_cka[cupy]"'),
    "jax": _Backend(_jax_put, 'JAX, as in: python -m pip install "sklearn_cka[jax]"'),
    "array_api_strict": _Backend(_strict_put, "array-api-strict, as in: python -m pip install array-api-strict"),
}
_BUILT_IN = frozenset(_BACKENDS)
_active: ContextVar[Target | None] = ContextVar("sklearn_cka_array_backend", default=None)


def backend_names() -> list[str]:
    """Return the names of the array libraries to which NumPy data can be moved, installed or not.

    Examples
    --------
    >>> from sklearn_cka import backend_names
    >>> {"cupy", "jax", "numpy", "torch"} <= set(backend_names())
    True
    """
    return sorted(_BACKENDS)


def register_backend(
    name: str, put: Callable[[np.ndarray, Any], Array], *, install: str = "", overwrite: bool = False
) -> None:
    """Make another array library available by name.

    Parameters
    ----------
    name : str
        The name. Names of the package's own backends cannot be taken.
    put : callable
        ``put(array, device)`` turns a NumPy array into one of the library on the device (None: its default). The
        library must follow the array API standard, as array-api-compat sees it. An ImportError it raises is reported
        with `install`, a ValueError as it is.
    install : str, default=""
        What to install where the library is missing, for the message.
    overwrite : bool, default=False
        Whether a backend registered earlier under this name may be replaced.

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If `put` is not callable or `name` is not a string.

    Examples
    --------
    >>> import array_api_strict
    >>> from sklearn_cka import array_backend, cka, register_backend
    >>> register_backend("checked", lambda array, device: array_api_strict.asarray(array), overwrite=True)
    >>> with array_backend("checked"):
    ...     round(cka([[0.0], [1.0], [2.0], [4.0]], [[0.0], [1.0], [4.0], [16.0]]), 6)
    0.922756
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}.")
    if not callable(put):
        raise TypeError(f"put must be callable as put(array, device), got {put!r}.")
    if name in _BUILT_IN:
        raise ValueError(f"The backend {name!r} belongs to the package and cannot be replaced; choose another name.")
    if name in _BACKENDS and not overwrite:
        raise ValueError(f"A backend {name!r} is registered already; pass overwrite=True to replace it.")
    _BACKENDS[name] = _Backend(put, install)


def resolve(name: str | None, device: Any = None) -> Target | None:
    """Return the target of a backend and device, or the one of the surrounding context where `name` is None.

    Raises
    ------
    ValueError
        If the name is unknown, the library is not installed, or it has no such device.
    """
    if name is None:
        if device is not None:
            raise ValueError(f"device={device!r} needs a backend to go with it, one of {', '.join(backend_names())}.")
        return _active.get()
    if name not in _BACKENDS:
        raise ValueError(f"Unknown backend {name!r}. Valid backends are {', '.join(backend_names())}.")
    backend = _BACKENDS[name]
    try:
        backend.put(np.zeros(1, dtype=np.float32), device)
    except ImportError as error:
        hint = f" It needs {backend.install}." if backend.install else ""
        raise ValueError(f"The backend {name!r} is not available here ({error}).{hint}") from None
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"The backend {name!r} has no device {device!r} on this machine: {reason}") from None
    return Target(name, device, backend.put)


@contextmanager
def array_backend(name: str, device: Any = None) -> Iterator[None]:
    """Compute NumPy data in another array library, on a device, within a ``with`` block.

    Parameters
    ----------
    name : str
        A name of :func:`backend_names`.
    device : str or object, default=None
        A device as the library names it, such as ``"cuda"``, ``"cuda:1"`` or ``"mps"``; None is its default.

    Raises
    ------
    ValueError
        If the backend is unknown, not installed, or has no such device.

    Notes
    -----
    Arrays of torch, CuPy and JAX are computed where they lie, within the block and outside of it. The block holds for
    the thread that entered it; searches that start threads or processes of their own do not see it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import array_backend, cka
    >>> X = np.arange(5.0)[:, None]
    >>> with array_backend("array_api_strict"):
    ...     round(cka(X, X**2), 6)
    0.91954
    """
    token = _active.set(resolve(name, device))
    try:
        yield
    finally:
        _active.reset(token)


def move(x: Array) -> Array:
    """Return a NumPy array as one of the library that the surrounding context names; others as they are."""
    target = _active.get()
    return x if target is None else target.move(x)


@contextmanager
def product_precision(reference: Array, precision: str | None = None) -> Iterator[None]:
    """Set the precision of float32 products of the library of `reference`, and restore what it was.

    Full float32 unless ``"tf32"`` or ``"bf16"`` is asked for, whatever the library is set to outside.

    Raises
    ------
    ValueError
        If a lower precision is asked for of a library that does not offer it.
    """
    if _arrays.is_torch(reference):
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(_TORCH_PRECISION[precision])
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    elif array_api_compat.is_jax_array(reference):
        import jax

        with jax.default_matmul_precision(_JAX_PRECISION[precision]):
            yield
    elif precision is None:
        yield
    else:
        kind = _arrays.describe_type(reference)
        raise ValueError(f"precision={precision!r} is offered for torch and JAX arrays, got {kind}.")
