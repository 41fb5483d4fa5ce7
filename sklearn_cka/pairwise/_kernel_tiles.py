"""Tables under a kernel whose Gram matrices are too large to hold: blocks are computed twice and never kept.

The first pass over the blocks finds the means of the rows and the size of the values; the second centres every block
and adds the inner products of all pairs, as :func:`~sklearn_cka.pairwise._tiles.matrix_products` does for matrices
that are held.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka._kernel_strips import KernelStrips
from sklearn_cka.indexes._gram import ROUNDING_ULPS, GramEmbedding
from sklearn_cka.indexes._gram_index import GramIndex
from sklearn_cka.pairwise import _tiles


class TiledGram(GramEmbedding):
    """The centred Gram matrix of one layer, of which nothing is known but sums over its blocks."""

    def __init__(self, strips: KernelStrips, *, debiased: bool) -> None:
        super().__init__(strips.n_samples, scale=strips.scale, debiased=debiased, bandwidth=strips.bandwidth)
        self.strips = strips
        self.offsets: Array | None = None
        self.step = 1.0  # what blocks are multiplied by so that their squares stay in float32
        self.rounding = 0.0
        self.__dict__["eps"] = _arrays.eps(strips.reference)

    def centered_block(self, rows: slice, columns: slice) -> Array:
        """Return a block of the centred matrix."""
        K = self.strips.block(rows, columns) * self.step
        xp = _arrays.namespace(K)
        assert self.offsets is not None
        offsets = xp.astype(self.offsets, K.dtype)
        K = K - offsets[rows][:, None] - offsets[columns][None, :]
        return _arrays.fill_diagonal(K, 0.0) if self.debiased and rows == columns else K


def can_tile(index: Any) -> bool:
    """Whether the Gram matrices of an index are those of kernels, centred and with nothing else done to them."""
    return isinstance(index, GramIndex) and index.can_tile and not index.is_linear


def embed(index: GramIndex, side: int, X: Array, place: Array | None = None) -> TiledGram:
    """Return what stands for the Gram matrix of one layer on the first (0) or the second side (1).

    With a `place`, an array on a device, the rows of a block are moved there when the block is computed.
    """
    spec = index._specs()[side]
    strips = KernelStrips(
        X,
        spec.kernel,
        bandwidth=spec.bandwidth,
        bandwidth_rule=spec.bandwidth_rule,
        gamma=spec.gamma,
        params=spec.params,
        place=place,
    )
    return TiledGram(strips, debiased=index._is_debiased)


def kernel_products(a: list[TiledGram], b: list[TiledGram] | None, progress: Any) -> np.ndarray:
    """Return all inner products <a_i, b_j>; leave <a_i, a_i> and <b_j, b_j>, and diagonals, with the embeddings."""
    layers = a if b is None else a + b
    n = layers[0].n_samples
    reference = min((layer.strips.reference for layer in layers), key=_arrays.eps)
    in_pieces = layers[0].strips.in_pieces
    height = _tiles.strip_rows(n, 2 * len(layers), reference)
    if in_pieces:
        widest = max(layer.strips.width for layer in layers)
        height = _tiles.piece_rows(n, 2 * len(layers) + 4, widest, reference, reference)
    blocks = list(_tiles.upper_triangle(n, height, square=in_pieces))
    for layer in layers:
        _measure(layer, blocks)
        progress.update(n / len(layers))
    xp = _arrays.namespace(reference)
    sums = _tiles.Sums(reference, len(a), None if b is None else len(b))
    largest = [0.0] * len(layers)
    for rows, columns, factor in blocks:
        matrices = _tiles.common_precision([layer.centered_block(rows, columns) for layer in layers])
        largest = [max(size, _linalg.largest_size(K)) for size, K in zip(largest, matrices, strict=True)]
        sums.add(xp.stack([xp.reshape(K, (-1,)) for K in matrices]), factor)
        if columns.stop == n:
            progress.update(rows.stop - rows.start)
    pairs, own = sums.to_host()
    is_nothing = [size <= layer.rounding for size, layer in zip(largest, layers, strict=True)]
    own[is_nothing] = 0.0
    pairs[is_nothing[: len(a)], :] = 0.0
    pairs[:, is_nothing if b is None else is_nothing[len(a) :]] = 0.0
    for layer, value in zip(layers, own, strict=True):
        layer.remember_self_inner("gram", float(value))
    return pairs


def _measure(layer: TiledGram, blocks: list[tuple[slice, slice, float]]) -> None:
    """Find the row means, the diagonal and the size of the values of a layer from the upper triangle of its blocks."""
    n = layer.n_samples
    xp = _arrays.namespace(layer.strips.reference)
    sums = xp.zeros((n,), dtype=xp.float64, device=_arrays.device(layer.strips.reference))
    finished: list[Array] = []
    diagonals: list[Array] = []
    added: list[Array] = []
    largest = 0.0
    for rows, columns, _ in blocks:
        block = layer.strips.block(rows, columns)
        largest = max(largest, _linalg.largest_size(block))
        of_rows = xp.sum(block, axis=1, dtype=xp.float64)
        if columns is rows:
            diagonals.append(xp.astype(_arrays.diagonal(block), xp.float64))
            added = [of_rows]
        else:
            added[0] = added[0] + of_rows
            added.append(xp.sum(block, axis=0, dtype=xp.float64))
        if columns.stop == n:
            sums = sums + xp.concat(added)
            height = rows.stop - rows.start
            finished.append(sums[:height])
            sums = sums[height:]
    row_sums, diagonal = xp.concat(finished), xp.concat(diagonals)
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    layer.step = _linalg.power_of_two(-exponent)
    layer.scale = layer.strips.scale * _linalg.power_of_two(exponent)
    row_sums, diagonal = row_sums * layer.step, diagonal * layer.step
    if layer.debiased:
        row_sums = row_sums - diagonal
        layer.offsets = row_sums / (n - 2.0) - 0.5 * float(xp.sum(row_sums)) / ((n - 1.0) * (n - 2.0))
    else:
        layer.offsets = row_sums / n - 0.5 * float(xp.sum(row_sums)) / n**2
        layer.__dict__["diagonal"] = diagonal - 2.0 * layer.offsets
    layer.rounding = ROUNDING_ULPS * layer.eps * largest * layer.step
    if layer.strips.is_constant:
        layer.rounding = math.inf
