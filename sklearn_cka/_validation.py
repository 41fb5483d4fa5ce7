"""Every check of an input and every error message about one.

Arrays of NumPy and of other array libraries are checked in their own namespace; lists, frames and everything else
go through :func:`sklearn.utils.check_array` first. The caller's data are never changed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_array

from sklearn_cka import _arrays, _linalg, _threads
from sklearn_cka._arrays import Array

# How far a Gram matrix may be from symmetric, relative to its largest entry: rounding of a matrix product.
_ASYMMETRY = {"float32": 1e-5, "float64": 1e-9}


def check_matrix(
    X: Any,
    name: str,
    *,
    min_samples: int = 1,
    required_by: str = "this function",
    column: bool = False,
) -> Array:
    """Return `X` as a finite real array of shape (n_samples, n_features), float32 or float64.

    Parameters
    ----------
    X : array-like
        The data. Arrays of other libraries stay in their library and on their device.
    name : str
        The argument's name, for messages.
    min_samples : int, default=1
        Least number of rows.
    required_by : str, default="this function"
        Who asks for that many rows, for the message.
    column : bool, default=False
        Whether a 1-dimensional array is accepted as one column.

    Raises
    ------
    ValueError
        If the shape is wrong, there are too few rows, or an entry is NaN, infinite or complex.
    TypeError
        If the data are sparse or not numbers.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float64, np.float32):
        array = X  # the common case, at the cost of a few attribute look-ups
    else:
        array = _as_matrix(X, name, column)
    n, p = array.shape
    if n < min_samples:
        raise ValueError(too_few_samples(name, n, tuple(array.shape), min_samples, required_by))
    if p < 1:
        raise ValueError(
            f"Found {name} with 0 feature(s) (shape={tuple(array.shape)}) while a minimum of 1 is required"
            f" by {required_by}."
        )
    check_finite(array, name)
    return array


def too_few_samples(name: str, n: int, shape: tuple[int, ...], minimum: int, required_by: str) -> str:
    """Return the message about an input of too few rows."""
    return f"Found {name} with {n} sample(s) (shape={shape}) while a minimum of {minimum} is required by {required_by}."


def _as_matrix(X: Any, name: str, column: bool) -> Array:
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise ValueError(f"{name} is a masked array with masked entries; fill or remove them first.")
        X = X.filled()
    if isinstance(X, Mapping) and not hasattr(X, "toarray"):  # some sparse matrices are mappings
        raise TypeError(
            f"{name} is a collection of layers or columns ({_arrays.describe_type(X)}), not one array: choose one,"
            " or compare all of them by sklearn_cka.compare_layers."
        )
    if _arrays.is_foreign(X):
        array = _arrays.detach(X)
        if _arrays.is_sparse(array):
            raise TypeError(f"Sparse data was passed for {name}, but dense data is required. Use its to_dense().")
    else:
        ndim = getattr(X, "ndim", None)
        X = check_array(
            X,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_2d=not column,
            allow_nd=ndim is not None and ndim > 2,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
        array = X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))
    if array.ndim == 1 and column:
        array = _arrays.namespace(array).reshape(array, (-1, 1))
    if array.ndim != 2:
        expected = "(n_samples, n_features) or (n_samples,)" if column else "(n_samples, n_features)"
        raise ValueError(
            f"Expected 2D array for {name}, of shape {expected}, got {array.ndim}D array of shape"
            f" {tuple(array.shape)}. Reshape your data: an array of one feature by {name}.reshape(-1, 1); maps and"
            " token sequences are flattened by sklearn_cka.Layers."
        )
    return _arrays.promote(array, name)


def check_finite(array: Array, name: str) -> None:
    """Raise ValueError naming the argument if an entry is NaN or infinite."""
    if is_finite(array):
        return
    xp = _arrays.namespace(array)
    if bool(xp.any(xp.isnan(array))):
        raise ValueError(f"Input {name} contains NaN. Remove or impute the rows in both representations alike.")
    if bool(xp.any(xp.isinf(array))):
        raise ValueError(
            f"Input {name} contains infinity or a value too large for dtype('{_arrays.dtype_name(array)}')."
        )


def is_finite(array: Array) -> bool:
    """Whether no entry is NaN or infinite."""
    xp = _arrays.namespace(array)

    def total(rows: slice) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(xp.sum(array[rows, ...]))

    rows = _linalg.row_blocks(array) if array.ndim == 2 else [slice(None)]
    if all(map(math.isfinite, _threads.map_blocks(total, rows, array))):  # one pass, unless a sum overflows
        return True
    return bool(xp.all(xp.isfinite(array)))


def check_labels(y: Any, name: str) -> Array:
    """Return class labels of any kind, shape (n_samples,) or (n_samples, 1), as one array of codes.

    Raises
    ------
    ValueError
        If there is more than one column or a label is missing.
    """
    labels = _as_labels(y, name)
    return labels if _arrays.is_foreign(labels) else _codes(labels)


def check_labels_of_both(X: Any, Y: Any) -> tuple[Array, Array]:
    """Return the labels of two sets of rows as codes that mean the same in both, in the library of `X`.

    Raises
    ------
    ValueError
        As :func:`check_labels`.
    """
    first, second = _as_labels(X, "X"), _as_labels(Y, "Y")
    if _arrays.is_foreign(first):
        return first, _arrays.like(second, first)
    # As objects: text stays different from numbers.
    codes = _codes(np.concatenate([labels.astype(object) for labels in (first, _arrays.to_numpy(second))]))
    return codes[: len(first)], codes[len(first) :]


def _codes(labels: np.ndarray) -> np.ndarray:
    """Return numbers for labels, which need not be comparable, in the order of their appearance."""
    import pandas as pd

    return pd.factorize(labels)[0]


def _as_labels(y: Any, name: str) -> Array:
    if not _arrays.is_foreign(y):
        import pandas as pd

        y = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
        if np.any(pd.isna(y)):
            raise ValueError(f"Input {name} contains NaN or another missing value, which is no class label.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = _arrays.namespace(y).reshape(y, (-1,))
    if y.ndim != 1:
        raise ValueError(
            f'kernel="delta" compares class labels: {name} must have shape (n_samples,) or (n_samples, 1), got'
            f" {tuple(y.shape)}."
        )
    if not _arrays.is_foreign(y):
        return y
    y = _arrays.detach(y)
    xp = _arrays.namespace(y)
    if "float" in _arrays.dtype_name(y) and bool(xp.any(xp.isnan(y))):
        raise ValueError(f"Input {name} contains NaN, which is no class label.")
    return y


def check_gram(K: Any, what: str = 'The Gram matrix given with kernel="precomputed"') -> Array:
    """Return a square symmetric Gram matrix.

    Raises
    ------
    ValueError
        If it is not square, as a test x train slice of cross-validation is not, or not symmetric.
    """
    K = check_matrix(K, "the Gram matrix")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"{what} must be a square matrix (n_samples, n_samples), got shape {tuple(K.shape)}."
            " A similarity compares one set of rows with itself; a slice of test rows by training rows, as"
            " cross-validation makes, has no similarity: pass the features instead."
        )
    xp = _arrays.namespace(K)
    largest = float(xp.max(xp.abs(K)))
    asymmetry = float(xp.max(xp.abs(K - xp.matrix_transpose(K))))
    if asymmetry > _ASYMMETRY[_arrays.dtype_name(K)] * largest:
        raise ValueError(
            f"{what} must be symmetric; entries differ from their mirror image by up to {asymmetry:.3g}. (A slice of"
            " test rows by training rows, as cross-validation makes, is no Gram matrix either.)"
        )
    return K


def check_same_rows(X: Any, y: Any, X_name: str = "X", y_name: str = "y") -> None:
    """Raise ValueError if two inputs do not describe the same rows in the same order.

    Row counts are compared for all inputs, row labels where both are pandas objects.
    """
    check_same_count(_n_rows(X), _n_rows(y), X_name, y_name)
    check_row_labels(row_labels(X), row_labels(y), X_name, y_name)


def check_same_count(n_x: int, n_y: int, X_name: str, y_name: str) -> None:
    """Raise ValueError with both counts if two inputs do not have the same number of rows."""
    if n_x != n_y:
        raise ValueError(
            f"{X_name} has {n_x} samples and {y_name} has {n_y} samples (inconsistent numbers of samples); both must"
            " describe the same examples in the same order."
        )


def row_labels(obj: Any) -> Any:
    """Return the index of a pandas object, None for anything else."""
    return obj.index if hasattr(obj, "iloc") and hasattr(obj, "index") else None


def check_row_labels(a: Any, b: Any, a_name: str, b_name: str) -> None:
    """Raise ValueError if two pandas indexes (None: no labels) are not the same in the same order."""
    if a is None or b is None or a.equals(b):
        return
    if a.sort_values().equals(b.sort_values()) if _sortable(a, b) else set(a) == set(b):
        raise ValueError(
            f"The row labels of {a_name} and {b_name} are the same but in another order; rows are compared by position,"
            f" so align them first, for instance {b_name}.loc[{a_name}.index]."
        )
    raise ValueError(
        f"The row labels of {a_name} and {b_name} differ, so that they do not describe the same examples; align them,"
        " or pass .to_numpy() of both to compare by position."
    )


def _sortable(*indexes: Any) -> bool:
    return all(index.inferred_type in ("integer", "floating", "string", "datetime64") for index in indexes)


def _n_rows(obj: Any) -> int:
    shape = getattr(obj, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(obj)


def check_weights(sample_weight: Any, X: Array) -> Array:
    """Return weights as a float64 array of shape (n_samples,) in the namespace of `X`.

    Raises
    ------
    ValueError
        If the shape does not fit, a weight is negative or not finite, or all are zero.
    """
    n = X.shape[0]
    if isinstance(sample_weight, (str, bytes)):
        raise ValueError(f"sample_weight must hold one number for every row, got {sample_weight!r}.")
    if _arrays.is_foreign(sample_weight):
        sample_weight = _arrays.to_numpy(sample_weight)
    weights = check_array(
        sample_weight,
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        input_name="sample_weight",
    )
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},): one weight for every row.")
    if (weights < 0).any():
        raise ValueError(f"sample_weight must not be negative, got {weights.min():g}.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one weight must be positive.")
    return _arrays.like(weights, X)


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a positive finite real number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not is_number or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")


def check_non_negative(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a finite real number, zero or positive."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not is_number or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number, zero or positive, got {value!r}.")


def check_real(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a finite real number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not is_number or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")


def check_option(name: str, value: Any, options: Iterable[Any]) -> None:
    """Raise ValueError unless `value` is one of `options`."""
    options = list(options)
    if not any(type(value) is type(option) and value == option for option in options):
        raise ValueError(f"{name} must be one of {', '.join(repr(option) for option in options)}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
