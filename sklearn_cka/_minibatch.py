"""Sums over batches of the minibatch estimate of CKA, and its standard error.

With h the unbiased HSIC of a batch times its number of pairs of rows, the estimate is
``theta = N / sqrt(A C)``, N, A and C the sums of h_xy, h_xx and h_yy over the B batches. Its standard error is that of
the linearised ratio (the delta method), batches being independent draws:

    se^2 = B / (B - 1) sum_b u_b^2,    u_b = theta (h_xy / N - h_xx / 2A - h_yy / 2C)

References: Nguyen, Raghu & Kornblith (2021), ICLR; Song et al. (2012), JMLR 13.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sklearn_cka import _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.pairwise import _tiles


class _Silent:
    """Progress that nobody sees: a batch takes no second."""

    def update(self, count: int) -> None:
        """Pass over."""


class MinibatchSums:
    """Weighted sums of the unbiased HSIC of all pairs of layers, and of their products, over batches.

    Parameters
    ----------
    n_layers : int
        Layers of both sides together.
    """

    def __init__(self, n_layers: int) -> None:
        self.n_rows = 0
        self.n_batches = 0
        self.exponents: list[int] | None = None
        self.own = np.zeros(n_layers)
        self.pairs: np.ndarray | None = None
        # Sums of products over batches: xy xy, xy xx, xy yy, and xx yy for all pairs of layers.
        self.squares: np.ndarray | None = None

    def copy(self) -> MinibatchSums:
        """Return a copy with arrays of its own."""
        made = MinibatchSums(len(self.own))
        made.__dict__.update({name: _copied(value) for name, value in self.__dict__.items()})
        return made

    def add(self, index: Any, arrays: list[Array], split: int | None) -> None:
        """Add a batch of at least 4 rows, its layers split into two sides at a position (None: one side)."""
        n = int(arrays[0].shape[0])
        embeddings = (
            [index.embed(X) for X in arrays]
            if index.has_equal_sides or split is None
            else [index.embed(X) if i < split else index.embed_y(X) for i, X in enumerate(arrays)]
        )
        a, b = (embeddings, None) if split is None else (embeddings[:split], embeddings[split:])
        fill = _tiles.gram_products if index.is_linear else _tiles.matrix_products
        products = fill(a, b, _Silent())
        own = np.array([embedding.self_inner("gram") for embedding in embeddings])
        if self.exponents is None:
            self.exponents = [_size(embedding) for embedding in embeddings]
        scale = [
            math.ldexp(embedding.scale, max(-1000, min(1000, embedding.exponent - unit)))
            for embedding, unit in zip(embeddings, self.exponents, strict=True)
        ]
        weight = (n - 1.0) / (2.0 * (n - 3.0))  # n (n - 1) / 2 pairs of rows, over the n (n - 3) of the estimator
        factors = np.array(scale)
        left, right = (factors, factors) if split is None else (factors[:split], factors[split:])
        own = own * factors**2 * weight
        pairs = products * left[:, None] * right[None, :] * weight
        own_a, own_b = (own, own) if split is None else (own[:split], own[split:])
        squares = np.stack([pairs**2, pairs * own_a[:, None], pairs * own_b[None, :], own_a[:, None] * own_b[None, :]])
        self._accumulate(own, pairs, squares, own**2)
        self.n_rows += n
        self.n_batches += 1

    def _accumulate(self, own: np.ndarray, pairs: np.ndarray, squares: np.ndarray, own_squares: np.ndarray) -> None:
        if self.pairs is None or self.squares is None:
            self.pairs, self.squares = np.zeros_like(pairs), np.zeros_like(squares)
            self.own_squares = np.zeros_like(own)
        self.own = self.own + own
        self.own_squares = self.own_squares + own_squares
        self.pairs = self.pairs + pairs
        self.squares = self.squares + squares

    def merge(self, other: MinibatchSums) -> None:
        """Add the batches of another."""
        if other.pairs is None or other.squares is None:
            return
        if self.exponents is None:
            self.exponents = list(other.exponents or [])
        steps = zip(other.exponents or [], self.exponents, strict=True)
        f = np.array([_linalg.power_of_two(theirs - mine) for theirs, mine in steps])
        split = other.pairs.shape[0] if other.pairs.shape[0] < len(f) else 0
        a, b = f[: other.pairs.shape[0]], f[split:]
        outer = np.outer(a, b)
        squares = other.squares * np.stack([outer**2, outer * a[:, None] ** 2, outer * b**2, outer**2])
        self._accumulate(other.own * f**2, other.pairs * outer, squares, other.own_squares * f**4)
        self.n_rows += other.n_rows
        self.n_batches += other.n_batches

    def estimate(self, n_rows: int, *, one_sided: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimates of all pairs and their standard errors, NaN where undefined."""
        assert self.pairs is not None
        assert self.squares is not None
        own = np.where(self.own > 0.0, self.own, np.nan)
        a, b = (own, own) if one_sided else (own[:n_rows], own[n_rows:])
        squares_a, squares_b = (
            (self.own_squares, self.own_squares)
            if one_sided
            else (self.own_squares[:n_rows], self.own_squares[n_rows:])
        )
        root = np.sqrt(a)[:, None] * np.sqrt(b)[None, :]
        values = self.pairs / root
        if one_sided:
            np.fill_diagonal(values, np.where(np.isnan(own), np.nan, 1.0))
        if self.n_batches < 2:
            return values, np.full(values.shape, np.nan)
        xy, xy_xx, xy_yy, xx_yy = self.squares
        along_a, along_b = a[:, None], b[None, :]
        variance = xy / root**2 - values / root * (xy_xx / along_a + xy_yy / along_b)
        variance += 0.25 * values**2 * ((squares_a / a**2)[:, None] + (squares_b / b**2)[None, :])
        variance += 0.5 * values**2 * xx_yy / (along_a * along_b)
        error = np.sqrt(np.maximum(variance, 0.0) * self.n_batches / (self.n_batches - 1.0))
        if one_sided:
            np.fill_diagonal(error, np.where(np.isnan(own), np.nan, 0.0))
        return values, error


def _size(embedding: Any) -> int:
    """Return the unit of a layer: the binary exponent of its first batch."""
    return int(embedding.exponent)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (np.ndarray, list)) else value
