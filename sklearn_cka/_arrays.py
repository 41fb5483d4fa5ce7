"""Array namespaces: one code path for NumPy, torch and every other array-API library.

The rooms above compute with ``xp = namespace(X)`` and the functions of the array API standard. What the
standard lacks (a writable diagonal, Python floats out of a result, a data type policy) is here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np

Array = Any

_NUMPY_EPS = {kind.dtype.char: float(np.finfo(kind.dtype).eps) for kind in (np.float32(1), np.float64(1))}
_NUMPY_NAMES = {"f": "float32", "d": "float64"}
_HALF = ("float16", "bfloat16")


def is_array(obj: Any) -> bool:
    """Whether `obj` is an array of NumPy, torch, CuPy, JAX or another array-API library."""
    return isinstance(obj, np.ndarray) or array_api_compat.is_array_api_obj(obj)


def is_numpy(obj: Any) -> bool:
    """Whether `obj` is a NumPy array (pandas, lists and sparse matrices are not)."""
    return isinstance(obj, np.ndarray)


def is_foreign(obj: Any) -> bool:
    """Whether `obj` is an array of a library other than NumPy, computed where it lies."""
    return not isinstance(obj, (np.ndarray, np.generic)) and array_api_compat.is_array_api_obj(obj)


def namespace(*arrays: Array) -> Any:
    """Return the array namespace of the first array."""
    if type(arrays[0]) is np.ndarray:  # the common case, spared a search through all known libraries
        return numpy_namespace
    xp = array_api_compat.array_namespace(arrays[0])
    return _narrow(xp) if lacks_float64(arrays[0]) else xp


def lacks_float64(x: Array) -> bool:
    """Whether the library or the device of `x` has no float64, as JAX unless told otherwise, and Apple's GPUs."""
    if array_api_compat.is_jax_array(x):
        import jax

        return not jax.config.jax_enable_x64
    return array_api_compat.is_torch_array(x) and x.device.type == "mps"


class _NarrowNamespace:
    """A namespace whose widest floating type is float32: what is asked for in float64 is computed in float32."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self.float64 = xp.float32

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


@cache
def _narrow(xp: Any) -> _NarrowNamespace:
    return _NarrowNamespace(xp)


def device(x: Array) -> Any:
    """Return the device on which `x` lies."""
    return array_api_compat.device(x)


def is_torch(x: Array) -> bool:
    """Whether `x` is a torch tensor."""
    return bool(array_api_compat.is_torch_array(x))


def free_memory(x: Array) -> float | None:
    """Return the free bytes of the GPU on which `x` lies, None for the host and where it is not known.

    What the library holds in reserve, to give to its next arrays, is free too.
    """
    if array_api_compat.is_torch_array(x) and x.device.type == "cuda":
        import torch

        reserve = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        return float(torch.cuda.mem_get_info(x.device)[0] + reserve)
    if array_api_compat.is_cupy_array(x):
        import cupy

        with x.device:
            return float(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())
    if array_api_compat.is_jax_array(x):
        state = next(iter(x.devices())).memory_stats()  # None on the host
        return float(state["bytes_limit"] - state["bytes_in_use"]) if state and "bytes_limit" in state else None
    return None


def is_writable_namespace(x: Array) -> bool:
    """Whether arrays of this kind can be written in place (those of JAX cannot)."""
    return not array_api_compat.is_jax_array(x)


def describe_type(obj: Any) -> str:
    """Name the library and class of `obj` for an error message, as in ``torch.Tensor``."""
    kind = type(obj)
    return f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def dtype_name(x: Array) -> str:
    """Return the name of the data type without its library, as in ``float32``."""
    dtype = x.dtype
    if type(x) is np.ndarray and dtype.char in _NUMPY_NAMES:  # NumPy makes the name anew each time
        return _NUMPY_NAMES[dtype.char]
    return getattr(dtype, "name", None) or str(dtype).rsplit(".", maxsplit=1)[-1]


def is_sparse(x: Array) -> bool:
    """Whether `x` is a sparse tensor of torch."""
    return array_api_compat.is_torch_array(x) and x.layout is not namespace(x).strided


def promote(x: Array, name: str = "the data") -> Array:
    """Apply the data type policy: float32 and float64 stay, half goes to float32, integers and bool to float64.

    Raises
    ------
    ValueError
        If `x` is complex.
    TypeError
        If `x` is of another type that is not a number.
    """
    xp = namespace(x)
    dtype = dtype_name(x)
    if dtype in ("float32", "float64"):
        return x
    if dtype in _HALF:
        return x.astype(np.float32) if is_numpy(x) else xp.astype(x, xp.float32)
    if "complex" in dtype:
        raise ValueError(f"Complex data not supported: {name} is an array of {dtype}.")
    if dtype.startswith(("int", "uint", "bool", "float")):
        return x.astype(np.float64) if is_numpy(x) else xp.astype(x, xp.float64)
    raise TypeError(f"Expected an array of real numbers for {name}, got one of {dtype}.")


def detach(x: Array) -> Array:
    """Return `x` without its autograd graph; arrays of other libraries than torch are returned as they are."""
    if array_api_compat.is_torch_array(x) and x.requires_grad:
        return x.detach()
    return x


def same_place(a: Array, b: Array) -> bool:
    """Whether two arrays are of one library and on one device."""
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return True
    return namespace(a) is namespace(b) and bool(device(a) == device(b))


def like(x: Array, reference: Array) -> Array:
    """Return `x` as an array of the library and on the device of `reference`."""
    if type(x) is np.ndarray and type(reference) is np.ndarray:
        return x
    xp = namespace(reference)
    target = device(reference)
    if is_array(x) and namespace(x) is xp:
        return x if device(x) == target else array_api_compat.to_device(x, target)
    values = to_numpy(x)
    if is_numpy(reference):
        return values
    values = narrowed(values, reference)
    # A copy: torch refuses read-only NumPy memory, and the caller's array is never shared with a device.
    return xp.asarray(np.array(values), device=target)


def narrowed(values: np.ndarray, reference: Array) -> np.ndarray:
    """Return a NumPy array in float32 if it is in float64 and the device of `reference` has none."""
    return values.astype(np.float32) if values.dtype == np.float64 and lacks_float64(reference) else values


def to_numpy(x: Array) -> np.ndarray:
    """Return `x` as a NumPy array, copied to the host where it lies elsewhere."""
    if isinstance(x, np.ndarray):
        return x
    if array_api_compat.is_torch_array(x):
        x = x.detach()
        if dtype_name(x) == "bfloat16":
            x = x.float()
        return x.cpu().numpy()
    if array_api_compat.is_cupy_array(x):
        return x.get()
    if array_api_compat.is_array_api_obj(x) and not isinstance(x, np.generic):
        x = array_api_compat.to_device(x, _host_device(x))
    return np.asarray(x)


def _host_device(x: Array) -> Any:
    """Return the device of array-api-strict from which NumPy may read, and the array's own one elsewhere."""
    xp = namespace(x)
    return xp.Device("CPU_DEVICE") if hasattr(xp, "Device") and hasattr(xp, "set_array_api_strict_flags") else device(x)


def to_float(x: Any) -> float:
    """Return a scalar or 0-dimensional array as a Python float."""
    return float(x)


def count(mask: Array) -> int:
    """Return how many entries of a boolean array are true."""
    if is_numpy(mask):
        return int(np.count_nonzero(mask))
    xp = namespace(mask)
    return int(xp.sum(xp.astype(mask, xp.int64)))


def total(vector: Array) -> float:
    """Return the sum of a vector, in float64 on the host where its device has none."""
    if lacks_float64(vector):
        return float(to_numpy(vector).astype(np.float64).sum())
    xp = namespace(vector)
    return float(xp.sum(vector, dtype=xp.float64))


def fill_diagonal(matrix: Array, value: float) -> Array:
    """Return the square `matrix` with its diagonal set to `value`, in place where the library allows it."""
    if is_numpy(matrix):
        np.fill_diagonal(matrix, value)
        return matrix
    if array_api_compat.is_torch_array(matrix):
        return matrix.fill_diagonal_(value)
    xp = namespace(matrix)
    index = xp.arange(matrix.shape[0], device=device(matrix))
    return xp.where(
        index[:, None] == index[None, :], xp.asarray(value, dtype=matrix.dtype, device=device(matrix)), matrix
    )


def diagonal(matrix: Array) -> Array:
    """Return the diagonal of a square matrix."""
    if is_numpy(matrix):
        return np.diagonal(matrix)
    return namespace(matrix).linalg.diagonal(matrix)


def eps(x: Array) -> float:
    """Return the distance from 1 to the next number of the data type of `x`."""
    if type(x) is np.ndarray:
        return _NUMPY_EPS[x.dtype.char]
    return float(namespace(x).finfo(x.dtype).eps)


def same_precision(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two floating arrays in the wider of their types; arrays of other kinds are returned as they are."""
    if a.dtype == b.dtype or "float" not in dtype_name(a) or "float" not in dtype_name(b):
        return a, b
    xp = namespace(a)
    return xp.astype(a, xp.float64, copy=False), xp.astype(b, xp.float64, copy=False)
