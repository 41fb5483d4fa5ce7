"""The products that fill a table: inner products of many Gram matrices at the speed of a matrix product.

Rows of the table are `a`, columns are `b` (None: `a` again, and only half is computed). The sums over chunks are
taken in float64, whatever the precision of the products. With a `place`, an array on a device that is too small for
the layers, these stay in host memory, and pieces of them are moved for every product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
# Share of a device's free memory that tiles may take.
_FREE_SHARE = 0.25
# Columns of features multiplied at a time: enough for full speed of the product.
_GROUP_COLUMNS = 1_024
# Up to this many rows a whole Gram matrix is one strip.
_WHOLE_GRAM_ROWS = 1_024
# Rows of a piece below which moving it would take far longer than its product.
_LEAST_PIECE_ROWS = 64


class Sums:
    """Inner products of all pairs and of each layer with itself, in float64, where the products are computed.

    They are brought to the host once, when a table is complete: a device is not made to wait for every tile.
    """

    def __init__(self, reference: Array, n_rows: int, n_columns: int | None) -> None:
        xp = self.xp = _arrays.namespace(reference)
        self.split = n_rows
        self.is_symmetric = n_columns is None
        shape = (n_rows, n_rows if n_columns is None else n_columns)
        self.pairs = xp.zeros(shape, dtype=xp.float64, device=_arrays.device(reference))
        self.own = xp.zeros((n_rows + (n_columns or 0),), dtype=xp.float64, device=_arrays.device(reference))

    def add(self, stack: Array, factor: float) -> None:
        """Add `factor` times the inner products of stacked rows, one a layer, summed in short chunks."""
        xp = self.xp
        for chunk in _linalg.blocks(stack.shape[1], _SUM_BLOCK):
            part = stack[:, chunk]
            if self.is_symmetric:
                self.pairs += factor * xp.astype(part @ xp.matrix_transpose(part), xp.float64)
            else:
                left, right = part[: self.split, :], part[self.split :, :]
                self.pairs += factor * xp.astype(left @ xp.matrix_transpose(right), xp.float64)
                self.own += factor * xp.astype(xp.vecdot(part, part, axis=-1), xp.float64)

    def to_host(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the inner products of all pairs, and those of each layer with itself, as NumPy arrays."""
        pairs = np.array(_arrays.to_numpy(self.pairs), dtype=np.float64)
        own = np.diagonal(pairs).copy() if self.is_symmetric else np.array(_arrays.to_numpy(self.own), dtype=np.float64)
        return pairs, own


def upper_triangle(n: int, height: int, *, square: bool) -> Iterator[tuple[slice, slice, float]]:
    """Yield rows and columns of the blocks of the upper triangle of a matrix, and how often they are in the whole.

    Each diagonal block is followed by what is right of it, in one piece or (`square`) in several.
    """
    for rows in _linalg.blocks(n, height):
        yield rows, rows, 1.0
        for start in range(rows.stop, n, height if square else n):
            yield rows, slice(start, min(n, start + height) if square else n), 2.0


def gram_products(
    a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any, place: Array | None = None
) -> np.ndarray:
    """Return all inner products <a_i, b_j> from strips of Gram matrices of features.

    A strip of rows of every layer's Gram matrix, upper triangle only, is stacked as one row a layer; the product of
    the stack with itself adds to all inner products at once. Also leaves <a_i, a_i> and <b_j, b_j> with the
    embeddings.
    """
    layers = a if b is None else a + b
    features = common_precision([layer.features for layer in layers])
    reference = features[0] if place is None else place
    xp = _arrays.namespace(reference)
    n = features[0].shape[0]
    sums = Sums(reference, len(a), None if b is None else len(b))
    diagonals: list[Array] = []
    height = strip_rows(n, len(layers), features[0])
    if place is not None:
        height = piece_rows(n, 2 * len(layers), max(int(Z.shape[1]) for Z in features), features[0], place)
    for rows, columns, factor in upper_triangle(n, height, square=place is not None):
        stack = _gram_strips(xp, features, rows, columns, reference)
        if columns is rows:
            diagonals.append(xp.astype(xp.linalg.diagonal(stack), xp.float64))
            if layers[0].debiased:
                stack = _without_diagonal(xp, stack)
        sums.add(xp.reshape(stack, (len(layers), -1)), factor)
        if columns.stop == n:
            progress.update(rows.stop - rows.start)
    for layer, squares in zip(layers, _layers_of(xp.concat(diagonals, axis=1)), strict=True):
        layer.remember_squares(_arrays.like(squares, layer.features))
    pairs, own = sums.to_host()
    if layers[0].debiased:
        _subtract_means(layers, len(a), b is None, pairs, own, 2.0)
    return _remember(layers, pairs, own)


def _remember(layers: list[GramEmbedding], pairs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Leave the inner products of layers with themselves with their embeddings; return those of all pairs."""
    for layer, value in zip(layers, own, strict=True):
        layer.remember_self_inner("gram", float(value))
    return pairs


def _layers_of(stack: Array) -> list[Array]:
    """Return the rows of a matrix, one a layer."""
    return [stack[i, :] for i in range(stack.shape[0])]


def _gram_strips(xp: Any, features: list[Array], rows: slice, columns: slice, reference: Array) -> Array:
    """Return ``Z[rows] @ Z[columns].T`` of every layer, shape (n_layers, n_rows, n_columns), where the reference is."""
    can_write = _arrays.is_numpy(reference) or _arrays.is_torch(reference)
    if can_write and _arrays.same_place(features[0], reference):  # products written where they are stacked
        shape = (len(features), rows.stop - rows.start, columns.stop - columns.start)
        stack = xp.empty(shape, dtype=features[0].dtype, device=_arrays.device(reference))
        for i, Z in enumerate(features):
            xp.matmul(Z[rows, :], Z[columns, :].T, out=stack[i])
        return stack
    products = []
    for Z in features:
        left = _arrays.like(Z[rows, :], reference)
        right = left if columns is rows else _arrays.like(Z[columns, :], reference)
        products.append(left @ xp.matrix_transpose(right))
    return xp.stack(products)


def _without_diagonal(xp: Any, stack: Array) -> Array:
    """Return a stack of square matrices with zero diagonals."""
    if _arrays.is_writable_namespace(stack):
        for layer in range(stack.shape[0]):
            stack[layer, ...] = _arrays.fill_diagonal(stack[layer, ...], 0.0)
        return stack
    mask = 1.0 - xp.eye(stack.shape[1], dtype=stack.dtype, device=_arrays.device(stack))
    return stack * mask[None, :, :]


def feature_products(
    a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any, place: Array | None = None
) -> np.ndarray:
    """Return all inner products <a_i, b_j> as ``||X_i' Y_j||_F^2``, of features as many at a time as fill a product.

    Also leaves <a_i, a_i> and <b_j, b_j> with the embeddings.
    """
    layers = a if b is None else a + b
    features = common_precision([layer.features for layer in layers])
    if layers[0].debiased:
        for layer, Z in zip(layers, features, strict=True):
            layer.remember_squares(_linalg.row_squares(Z))
    split = len(a)
    widths = [int(Z.shape[1]) for Z in features]
    groups_a, groups_b = _groups(widths[:split], 0), _groups(widths[split:], split)
    sums = _BlockSums(features, place)
    for position, left in enumerate(groups_a):
        Z = sums.stack(left)
        for right in groups_a[position:] if b is None else groups_b:
            sums.add(Z, Z if right is left else sums.stack(right), left, right)
        progress.update(left.stop - left.start)
    if b is None:
        totals = sums.to_host()
        totals = np.triu(totals) + np.triu(totals, 1).T
        own = np.diagonal(totals).copy()
    else:
        for position, Z in enumerate(features):
            alone = slice(position, position + 1)
            sums.add(Z, Z, alone, alone)
        both = sums.to_host()
        totals, own = both[:split, split:], np.diagonal(both).copy()
    if layers[0].debiased:
        _subtract_means(layers, split, b is None, totals, own, float(layers[0].n_samples))
    for layer, value in zip(layers, own, strict=True):
        layer.remember_self_inner("feature", float(value))
    return totals


def _groups(widths: list[int], start: int) -> list[slice]:
    """Cut neighbouring layers into groups of at most `_GROUP_COLUMNS` columns (but at least one layer)."""
    groups: list[slice] = []
    first = columns = 0
    for position, width in enumerate(widths):
        if position > first and columns + width > _GROUP_COLUMNS:
            groups.append(slice(start + first, start + position))
            first, columns = position, 0
        columns += width
    return [*groups, slice(start + first, start + len(widths))]


class _BlockSums:
    """Squared norms of the blocks of Z'Z, in float64, where the products are computed.

    As in :class:`Sums`, they are brought to the host once.
    """

    def __init__(self, features: list[Array], place: Array | None = None) -> None:
        self.place = place
        self.xp = _arrays.namespace(features[0] if place is None else place)
        self.features = features
        self.parts: list[tuple[slice, slice, Array]] = []

    def stack(self, group: slice) -> Array:
        """Return the features of a group of layers side by side, where they lie."""
        if group.stop - group.start == 1:
            return self.features[group.start]
        return _arrays.namespace(self.features[0]).concat(self.features[group], axis=1)

    def add(self, left: Array, right: Array, rows: slice, columns: slice) -> None:
        """Keep the squared norms of the blocks of the product of two groups."""
        product = self._product(left, right)
        self.parts.append((rows, columns, self._block_squares(product, rows, columns)))

    def _product(self, left: Array, right: Array) -> Array:
        if self.place is None:
            return self.xp.matrix_transpose(left) @ right
        parts = (
            self.xp.matrix_transpose(_arrays.like(left[rows, :], self.place)) @ _arrays.like(right[rows, :], self.place)
            for rows in _linalg.blocks(int(left.shape[0]), self._piece_rows(left, right))
        )
        total = next(parts)
        for part in parts:
            total += part
        return total

    def _piece_rows(self, left: Array, right: Array) -> int:
        """Return how many rows of two groups fit beside their product, its squares and one more product."""
        size = _itemsize(left)
        p, q = int(left.shape[1]), int(right.shape[1])
        room = _budget(_arrays.free_memory(self.place), size) - p * q * (2 + 8 // size)
        return max(1, room // (p + q))

    def _block_squares(self, product: Array, rows: slice, columns: slice) -> Array:
        xp = self.xp
        if rows.stop - rows.start == columns.stop - columns.start == 1:
            flat = xp.reshape(product, (-1,))
            whole = flat.shape[0] // _SUM_BLOCK * _SUM_BLOCK
            chunks, rest = xp.reshape(flat[:whole], (-1, _SUM_BLOCK)), flat[whole:]
            sums = xp.astype(xp.vecdot(chunks, chunks), xp.float64)
            return xp.reshape(xp.sum(sums) + xp.astype(xp.vecdot(rest, rest), xp.float64), (1, 1))
        squares = xp.astype(product, xp.float64) ** 2
        return xp.matrix_transpose(self._membership(rows, squares)) @ squares @ self._membership(columns, squares)

    def _membership(self, group: slice, reference: Array) -> Array:
        """Return which column of a group belongs to which of its layers, as ones and zeros in float64."""
        xp = self.xp
        where = _arrays.device(reference)
        layer = [xp.full((Z.shape[1],), i, device=where) for i, Z in enumerate(self.features[group])]
        number = xp.arange(group.stop - group.start, device=where)
        return xp.astype(xp.concat(layer)[:, None] == number[None, :], xp.float64)

    def to_host(self) -> np.ndarray:
        """Return the sums as one table of all layers, NaN where a pair was not asked for."""
        n = len(self.features)
        totals = np.full((n, n), np.nan)
        flat = _arrays.to_numpy(self.xp.concat([self.xp.reshape(part, (-1,)) for _, _, part in self.parts]))
        start = 0
        for rows, columns, part in self.parts:
            stop = start + part.shape[0] * part.shape[1]
            totals[rows, columns] = flat[start:stop].reshape(part.shape)
            start = stop
        return totals


def _subtract_means(
    layers: list[GramEmbedding], split: int, symmetric: bool, totals: np.ndarray, own: np.ndarray, factor: float
) -> None:
    """Turn inner products of matrices that are not U-centred yet into those of U-centred ones, in place.

    Features are centred, so that the row sums of a matrix without its diagonal are minus the squared row norms:
    `factor` is 2 for products without the diagonals, and n where they are in.
    """
    n = layers[0].n_samples
    squares = np.stack([_arrays.to_numpy(layer.squares) for layer in layers])
    traces = squares.sum(axis=1)
    left, right = (slice(None), slice(None)) if symmetric else (slice(split), slice(split, None))
    totals -= factor / (n - 2.0) * squares[left] @ squares[right].T
    totals += np.outer(traces[left], traces[right]) / ((n - 1.0) * (n - 2.0))
    own -= factor / (n - 2.0) * np.einsum("ij,ij->i", squares, squares)
    own += traces**2 / ((n - 1.0) * (n - 2.0))


def matrix_products(a: list[GramEmbedding], b: list[GramEmbedding] | None, progress: Any) -> np.ndarray:
    """Return all inner products <a_i, b_j> of symmetric matrices that are held whole, as products of stacked strips.

    Strips of the upper triangle only, as in :func:`gram_products`.
    """
    layers = a if b is None else a + b
    matrices = common_precision([layer.gram for layer in layers])
    xp = _arrays.namespace(matrices[0])
    n = layers[0].n_samples
    sums = Sums(matrices[0], len(a), None if b is None else len(b))
    for rows in _linalg.blocks(n, strip_rows(n, len(layers), matrices[0])):
        for columns, factor in ((rows, 1.0), (slice(rows.stop, n), 2.0)):
            if columns.start < columns.stop:
                stack = xp.stack([matrix[rows, columns] for matrix in matrices])
                sums.add(xp.reshape(stack, (len(layers), -1)), factor)
        progress.update(n * (rows.stop - rows.start))
    return _remember(layers, *sums.to_host())


def common_precision(arrays: list[Array]) -> list[Array]:
    """Return all arrays in the widest of their precisions."""
    xp = _arrays.namespace(arrays[0])
    if all(array.dtype == arrays[0].dtype for array in arrays):
        return arrays
    return [xp.astype(array, xp.float64, copy=False) for array in arrays]


def _budget(free: float | None, itemsize: int) -> int:
    """Return how many numbers fit in scikit-learn's working memory, and in a share of a device's free memory."""
    size = get_config()["working_memory"] * 2**20
    if free is not None:
        size = min(size, _FREE_SHARE * free)
    return int(size) // itemsize


def strip_rows(n: int, n_layers: int, array: Array) -> int:
    """Return the number of rows of a strip, all layers of which fit in the working memory (but at least one row)."""
    return _strip_rows(n, n_layers, _budget(_arrays.free_memory(array), _itemsize(array)))


def _itemsize(array: Array) -> int:
    return 8 if _arrays.dtype_name(array) == "float64" else 4


def piece_rows(n: int, n_matrices: int, widest: int, array: Array, place: Array) -> int:
    """Return the height of square blocks of all matrices that fit with the rows of one layer that make them."""
    budget = _budget(_arrays.free_memory(place), _itemsize(array))
    # n_matrices * height^2 + 2 * widest * height = budget
    height = (math.sqrt(widest**2 + n_matrices * budget) - widest) / n_matrices
    return max(1, min(n, int(height)))


def _strip_rows(n: int, n_layers: int, budget: int) -> int:
    wanted = n if n <= _WHOLE_GRAM_ROWS else _STRIP_ROWS
    return max(1, min(wanted, budget // max(1, n_layers * n)))


def buffer_bytes(n: int, n_layers: int, itemsize: int) -> int:
    """Return the bytes of the strips of all layers, and of their products in float64."""
    return n_layers * n * _strip_rows(n, n_layers, _budget(None, itemsize)) * itemsize + n_layers**2 * 8


def piece_bytes(n: int, widths: list[int], itemsize: int) -> dict[str, int]:
    """Return the bytes that the smallest sensible pieces take on a device, by plan."""
    n_layers, widest = len(widths), max(widths)
    height, columns = min(n, _LEAST_PIECE_ROWS), max(widest, min(_GROUP_COLUMNS, sum(widths)))
    blocks = {"gram": 2 * n_layers, "tiles": 2 * n_layers + 4}
    taken = {name: (2 * height * widest + count * height**2) * itemsize for name, count in blocks.items()}
    taken["feature"] = (2 * height * columns + 2 * columns**2) * itemsize + 8 * columns**2
    return {name: count + 8 * n_layers**2 for name, count in taken.items()}


def group_bytes(n: int, widest: int, itemsize: int) -> int:
    """Return the bytes of two groups of features side by side, and of their product with its squares in float64."""
    columns = max(widest, _GROUP_COLUMNS)
    return 2 * n * _GROUP_COLUMNS * itemsize + columns**2 * itemsize + _GROUP_COLUMNS**2 * 8
