"""The rows of the comparison: data, the least number of operations, and references in float64 by definition.

Nothing here calls the package: a reference is the formula written out in NumPy, so that an error is an error of
whoever is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

BATCH = 1000


@dataclass(frozen=True)
class Workload:
    """A row: `task` names what is computed, which an adapter knows how to ask its package for."""

    name: str
    title: str
    task: str
    n_samples: int
    widths: tuple[int, ...]
    operations: float
    params: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def is_table(self) -> bool:
        """Whether the result is a matrix over all pairs of layers rather than one number."""
        return self.task.endswith("table")

    def layers(self) -> list[np.ndarray]:
        """Return the layers: each half a map of the one before, half noise, rectified."""
        rng = np.random.default_rng(0)
        last = rng.standard_normal((self.n_samples, 64), dtype=np.float32)
        layers = []
        for width in self.widths:
            source = last[:, :64]
            last = source @ rng.standard_normal((source.shape[1], width), dtype=np.float32) / 8
            last += 0.5 * rng.standard_normal(last.shape, dtype=np.float32)
            layers.append(np.maximum(last, 0, out=last).astype(self.dtype, copy=False))
        return layers

    def reference(self, layers: list[np.ndarray]) -> np.ndarray:
        """Return the value by definition, in float64: a matrix for a table, else a scalar."""
        values = REFERENCES[self.task](layers, **self.params)
        return values if self.is_table else values[0, 1]


def gram_operations(n: int, widths: tuple[int, ...]) -> float:
    """Return the operations of all pairs: the cheaper of Gram matrices and feature products."""
    total = sum(widths)
    return float(min(n**2 * total + n**2 * len(widths) ** 2 / 2, n * total**2))


def spectral_operations(n: int, widths: tuple[int, ...]) -> float:
    """Return the operations of an orthonormal basis per layer and a product per pair."""
    return float(sum(4 * n * p**2 for p in widths) + sum(2 * n * p * q for p, q in combinations(widths, 2)))


def _centered(X: np.ndarray) -> np.ndarray:
    X = X.astype(np.float64)
    return X - X.mean(axis=0)


def _cosines(grams: Iterator[np.ndarray]) -> np.ndarray:
    rows = np.stack([gram.ravel() for gram in grams])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def _double_centered(K: np.ndarray) -> np.ndarray:
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def linear_cka(layers: list[np.ndarray]) -> np.ndarray:
    """Linear CKA of all pairs, from features where rows are many and from Gram matrices where they are few."""
    if len(layers[0]) <= sum(X.shape[1] for X in layers) and len(layers[0]) <= 2500:
        return _cosines(Z @ Z.T for Z in map(_centered, layers))
    return _pairs(layers, lambda A, B: float(np.linalg.norm(A.T @ B) ** 2), _centered)


def debiased_cka(layers: list[np.ndarray]) -> np.ndarray:
    """Linear CKA from the unbiased HSIC: U-centred Gram matrices with a zero diagonal (Song et al. 2012)."""
    return _cosines(_u_centered(Z @ Z.T) for Z in map(_centered, layers))


def _u_centered(K: np.ndarray) -> np.ndarray:
    n = len(K)
    np.fill_diagonal(K, 0)
    sums = K.sum(axis=0)
    K = K - sums / (n - 2) - sums[:, None] / (n - 2) + sums.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(K, 0)
    return K


def _squared_distances(X: np.ndarray) -> np.ndarray:
    Z = _centered(X)
    squares = (Z**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * Z @ Z.T, 0)
    np.fill_diagonal(distances, 0)
    return distances


def rbf_cka(layers: list[np.ndarray], bandwidth: float) -> np.ndarray:
    """CKA with an RBF kernel at `bandwidth` times the median distance between different rows."""

    def gram(X: np.ndarray) -> np.ndarray:
        squares = _squared_distances(X)
        median = np.median(np.sqrt(squares[np.triu_indices(len(X), k=1)]))
        return _double_centered(np.exp(-squares / (2 * (bandwidth * median) ** 2)))

    return _cosines(gram(X) for X in layers)


def distance_correlation(layers: list[np.ndarray]) -> np.ndarray:
    """Distance correlation, the root of the ratio of squared distance covariances (Székely et al. 2007)."""
    return np.sqrt(_cosines(_double_centered(np.sqrt(_squared_distances(X))) for X in layers))


def _pairs(layers: list[np.ndarray], product: Callable, embed: Callable) -> np.ndarray:
    values = np.empty((len(layers), len(layers)))
    embedded = [embed(X) for X in layers]
    for i, A in enumerate(embedded):
        for j, B in enumerate(embedded[i:], i):
            values[i, j] = values[j, i] = product(A, B)
    roots = np.sqrt(np.diagonal(values))
    return values / roots[:, None] / roots


def _basis(X: np.ndarray, keep: float | None = None) -> np.ndarray:
    """Return an orthonormal basis of the centred columns, or of the directions that hold `keep` of the variance."""
    U, s, _ = np.linalg.svd(_centered(X), full_matrices=False)
    if keep is None:
        return U[:, s > s[0] * max(X.shape) * np.finfo(X.dtype).eps]
    shares = np.cumsum(s**2) / np.sum(s**2)
    return U[:, : int(np.searchsorted(shares, keep)) + 1]


def mean_cca(layers: list[np.ndarray], keep: float | None = None) -> np.ndarray:
    """Mean of the min(p, q) canonical correlations."""
    bases = [_basis(X, keep) for X in layers]
    return np.array([[np.linalg.svd(A.T @ B, compute_uv=False).clip(0, 1).mean() for B in bases] for A in bases])


def pwcca(layers: list[np.ndarray]) -> np.ndarray:
    """Canonical correlations weighted by what the canonical variates of the first carry of it (Morcos et al. 2018)."""
    values = np.empty((len(layers), len(layers)))
    centred, bases = [_centered(X) for X in layers], [_basis(X) for X in layers]
    for i, (Z, A) in enumerate(zip(centred, bases, strict=True)):
        for j, B in enumerate(bases):
            U, correlations, _ = np.linalg.svd(A.T @ B, full_matrices=False)
            weights = np.abs((A @ U).T @ Z).sum(axis=1)
            values[i, j] = weights @ correlations / weights.sum()
    return values


def procrustes(layers: list[np.ndarray]) -> np.ndarray:
    """Nuclear norm of the cross product of unit-norm centred layers."""

    def unit(X: np.ndarray) -> np.ndarray:
        Z = _centered(X)
        return Z / np.linalg.norm(Z)

    units = [unit(X) for X in layers]
    return np.array([[np.linalg.svd(A.T @ B, compute_uv=False).sum() for B in units] for A in units])


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "linear table": linear_cka,
    "debiased table": debiased_cka,
    "rbf table": rbf_cka,
    "cca table": mean_cca,
    "svcca table": lambda layers: mean_cca(layers, keep=0.99),
    "pwcca table": pwcca,
    "procrustes table": procrustes,
    "linear pair": linear_cka,
    "distance correlation": distance_correlation,
    "stream": linear_cka,
    "permutations": linear_cka,
}


def _row(name: str, title: str, task: str, n: int, widths: tuple[int, ...], **options: Any) -> Workload:
    spectral = task.startswith(("cca", "svcca", "pwcca", "procrustes"))
    operations = (spectral_operations if spectral else gram_operations)(n, widths)
    if task == "stream":
        operations = 3.0 * 2 * n * widths[0] ** 2
    return Workload(name, title, task, n, widths, operations, **options)


def workloads(quick: bool = False) -> dict[str, Workload]:
    """Return the rows by name; quick ones have a fifth of the rows and columns and half of the layers."""

    def size(value: int, floor: int = 20) -> int:
        return max(value // 5, min(value, floor)) if quick else value

    def depth(value: int) -> int:
        return max(value // 2, 2) if quick else value

    widths = tuple(np.geomspace(64, size(16_384), depth(50)).astype(int).tolist())
    six = {
        "cca": ("mean CCA", "cca table"),
        "svcca": ("SVCCA (99 %)", "svcca table"),
        "pwcca": ("PWCCA", "pwcca table"),
        "procrustes": ("Procrustes", "procrustes table"),
    }
    rows = [
        _row("linear", "24 layers, linear CKA", "linear table", size(2000), (size(1024),) * depth(24)),
        _row("debiased", "24 layers, debiased CKA", "debiased table", size(2000), (size(1024),) * depth(24)),
        _row("widths", "50 layers of many widths", "linear table", size(500), widths),
        _row("rows", "12 layers, many rows", "linear table", size(10_000), (size(768),) * depth(12)),
        _row("rbf", "12 layers, RBF 0.4", "rbf table", size(2000), (size(512),) * depth(12), params={"bandwidth": 0.4}),
        *(
            _row(name, f"12 layers, {title}", task, size(5000), (size(256),) * depth(12))
            for name, (title, task) in six.items()
        ),
        _row("square pair", "one pair", "linear pair", size(2000), (size(512),) * 2),
        _row("wide pair", "one wide pair", "linear pair", size(500), (size(8192),) * 2),
        _row("long pair", "one long pair", "linear pair", size(50_000), (size(256),) * 2),
        _row("small pair", "one small pair", "linear pair", 20, (5, 5), dtype="float64"),
        _row("distance", "distance correlation", "distance correlation", size(2000), (size(512),) * 2),
        _row("stream", f"stream in batches of {BATCH:,}", "stream", size(200_000), (size(512),) * 2),
        _row("permutations", "1,000 permutations", "permutations", size(500), (size(64),) * 2, dtype="float64"),
    ]
    return {row.name: row for row in rows}
