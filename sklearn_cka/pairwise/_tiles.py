"""The products that fill a table: inner products of many Gram matrices at the speed of a matrix product.

Rows of the table are `a`, columns are `b` (None: `a` again, and only half is computed). The sums over chunks are
taken in float64, whatever the precision of the products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding

# Rows of a Gram strip: tall enough for full speed of the product, short enough to stay in the buffer.
_STRIP_ROWS = 256
# Numbers summed in the data's precision before float64 takes over.
_SUM_BLOCK = 65_536
# Up to this many rows a whole Gram matrix is one strip.
_WHOLE_GRAM_ROWS = 1_024


def gram_products(a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any) -> np.ndarray:
    """Return all inner products <a_i, b_j> from strips of Gram matrices of features.

    A strip of rows of every layer's Gram matrix, upper triangle only, is stacked as one row a layer; the product of
    the stack with itself adds to all inner products at once. Also leaves <a_i, a_i> and <b_j, b_j> with the
    embeddings.
    """
    layers = a if b is None else a + b
    features = _common_precision([layer.features for layer in layers])
    xp = _arrays.namespace(features[0])
    n = features[0].shape[0]
    strip = _strip_rows(n, len(layers), features[0])
    split = len(a)
    totals = np.zeros((len(a), len(a) if b is None else len(b)))
    own = np.zeros(len(layers))
    for rows in _linalg.blocks(n, strip):
        for columns, factor in ((rows, 1.0), (slice(rows.stop, n), 2.0)):
            if columns.start >= columns.stop:
                continue
            stack = _gram_strips(xp, features, rows, columns)
            if layers[0].debiased and columns is rows:
                stack = _without_diagonal(xp, stack)
            _add_products(xp, xp.reshape(stack, (len(layers), -1)), split, b is None, factor, totals, own)
        progress.update(rows.stop - rows.start)
    if layers[0].debiased:
        _subtract_means(layers, split, b is None, totals, own)
    for layer, value in zip(layers, np.diagonal(totals) if b is None else own, strict=True):
        layer.remember_self_inner("gram", float(value))
    return totals


def _gram_strips(xp: Any, features: list[Array], rows: slice, columns: slice) -> Array:
    """Return ``Z[rows] @ Z[columns].T`` of every layer, shape (n_layers, n_rows, n_columns)."""
    if _arrays.is_numpy(features[0]):
        shape = (len(features), rows.stop - rows.start, columns.stop - columns.start)
        stack = np.empty(shape, dtype=features[0].dtype)
        for out, Z in zip(stack, features, strict=True):
            np.matmul(Z[rows], Z[columns].T, out=out)
        return stack
    return xp.stack([Z[rows, :] @ xp.matrix_transpose(Z[columns, :]) for Z in features])


def _without_diagonal(xp: Any, stack: Array) -> Array:
    """Return a stack of square matrices with zero diagonals."""
    if _arrays.is_numpy(stack):
        index = np.arange(stack.shape[1])
        stack[:, index, index] = 0.0
        return stack
    mask = 1.0 - xp.eye(stack.shape[1], dtype=stack.dtype, device=_arrays.device(stack))
    return stack * mask[None, :, :]


def _add_products(
    xp: Any, stack: Array, split: int, symmetric: bool, factor: float, totals: np.ndarray, own: np.ndarray
) -> None:
    """Add `factor` times the products of the stacked rows to the float64 totals."""
    for chunk in _linalg.blocks(stack.shape[1], _SUM_BLOCK):
        part = stack[:, chunk]
        if symmetric:
            totals += factor * _arrays.to_numpy(part @ xp.matrix_transpose(part)).astype(np.float64)
        else:
            left, right = part[:split, :], part[split:, :]
            totals += factor * _arrays.to_numpy(left @ xp.matrix_transpose(right)).astype(np.float64)
            own += factor * _arrays.to_numpy(xp.vecdot(part, part, axis=-1)).astype(np.float64)


def _subtract_means(
    layers: list[GramEmbedding], split: int, symmetric: bool, totals: np.ndarray, own: np.ndarray
) -> None:
    """Turn inner products of Gram matrices without diagonals into those of U-centred ones.

    Features are centred, so that the row sums of a matrix without its diagonal are minus the squared row norms.
    """
    n = layers[0].n_samples
    squares = np.stack([_arrays.to_numpy(layer.squares) for layer in layers])
    traces = squares.sum(axis=1)
    left, right = (slice(None), slice(None)) if symmetric else (slice(split), slice(split, None))
    totals -= 2.0 / (n - 2.0) * squares[left] @ squares[right].T
    totals += np.outer(traces[left], traces[right]) / ((n - 1.0) * (n - 2.0))
    own -= 2.0 / (n - 2.0) * np.einsum("ij,ij->i", squares, squares)
    own += traces**2 / ((n - 1.0) * (n - 2.0))


def feature_products(a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any) -> np.ndarray:
    """Return all inner products <a_i, b_j> as ``||X_i' Y_j||_F^2``, each pair one product of features."""
    for layer in a if b is None else a + b:
        layer.self_inner("feature")
    totals = np.empty((len(a), len(a) if b is None else len(b)))
    for i, left in enumerate(a):
        for j, right in enumerate(a if b is None else b):
            if b is None and j < i:
                totals[i, j] = totals[j, i]
            elif b is None and j == i:
                totals[i, j] = left.self_inner("feature")
            else:
                totals[i, j] = left.inner(right, "feature")
        progress.update(1)
    return totals


def matrix_products(a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any) -> np.ndarray:
    """Return all inner products <a_i, b_j> of Gram matrices that are held whole, as products of stacked chunks."""
    layers = a if b is None else a + b
    flat = [_arrays.namespace(gram).reshape(gram, (-1,)) for gram in _common_precision([e.gram for e in layers])]
    xp = _arrays.namespace(flat[0])
    totals = np.zeros((len(a), len(a) if b is None else len(b)))
    own = np.zeros(len(layers))
    step = _chunk_columns(len(layers), flat[0])
    for chunk in _linalg.blocks(flat[0].shape[0], step):
        stack = xp.stack([vector[chunk] for vector in flat])
        _add_products(xp, stack, len(a), b is None, 1.0, totals, own)
        progress.update(chunk.stop - chunk.start)
    for layer, value in zip(layers, np.diagonal(totals) if b is None else own, strict=True):
        layer.remember_self_inner("gram", float(value))
    return totals


def _common_precision(arrays: list[Array]) -> list[Array]:
    """Return all arrays in the widest of their precisions."""
    xp = _arrays.namespace(arrays[0])
    if all(array.dtype == arrays[0].dtype for array in arrays):
        return arrays
    return [xp.astype(array, xp.float64, copy=False) for array in arrays]


def _budget(array: Array) -> int:
    """Return how many numbers of the array's type fit in scikit-learn's working memory."""
    return int(get_config()["working_memory"] * 2**20) // (8 if _arrays.dtype_name(array) == "float64" else 4)


def _strip_rows(n: int, n_layers: int, array: Array) -> int:
    """Return the number of rows of a strip, all layers of which fit in the working memory (but at least one row)."""
    wanted = n if n <= _WHOLE_GRAM_ROWS else _STRIP_ROWS
    return max(1, min(wanted, _budget(array) // max(1, n_layers * n)))


def _chunk_columns(n_layers: int, array: Array) -> int:
    return max(1, min(16 * _SUM_BLOCK, _budget(array) // n_layers))
