"""CKA as a differentiable function of torch tensors, to serve as a loss.

The formulas are those of :mod:`sklearn_cka.indexes._gram`, written without any step through Python floats, so that
gradients flow from the value to both representations. Bandwidths are constants: they are found from the data, and the
gradient does not pass through the rule.
"""

from __future__ import annotations

import math
from typing import Any

from sklearn_cka import _arrays, kernels
from sklearn_cka._arrays import Array
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._gram_index import CenteredGramIndex, KernelSpec

# Kernels whose function is differentiable as it stands.
_SMOOTH = ("linear", "polynomial", "sigmoid", "cosine")


def cka_tensor(index: CenteredGramIndex, X: Array, y: Array) -> Array:
    """Return the CKA of two torch tensors as a 0-dimensional tensor with gradients.

    Raises
    ------
    TypeError
        If an input is not a torch tensor.
    ValueError
        If the data break the input contract or a kernel is not differentiable here.
    """
    for name, array in (("X", X), ("Y", y)):
        if not _arrays.is_torch(array):
            raise TypeError(f"as_tensor=True takes torch tensors, but {name} is a {_arrays.describe_type(array)}.")
    index._check_params()
    index._check_data(X, y, None)
    y = y[:, None] if y.ndim == 1 else y
    spec_x, spec_y = index._specs()
    xp = _arrays.namespace(X)
    dtype = xp.float64 if "float64" in (_arrays.dtype_name(X), _arrays.dtype_name(y)) else xp.float32
    debiased = bool(getattr(index, "debiased", False))
    K = _centered(xp, _gram(xp, xp.astype(X, dtype), spec_x), debiased)
    L = _centered(xp, _gram(xp, xp.astype(y, dtype), spec_y), debiased)
    value = xp.sum(K * L) / xp.sqrt(xp.sum(K * K)) / xp.sqrt(xp.sum(L * L))
    if bool(xp.isnan(value)):
        warn(
            UndefinedSimilarityWarning("CKA is undefined (0/0): at least one representation is constant over the rows.")
        )
    return value


def _gram(xp: Any, X: Array, spec: KernelSpec) -> Array:
    """Return the Gram matrix of a kernel, up to an additive constant and a factor, with gradients."""
    Z = X - xp.mean(X, axis=0, keepdims=True)
    if spec.kernel == "linear":
        Z = Z / xp.max(xp.abs(_arrays.detach(Z)))
        return Z @ xp.matrix_transpose(Z)
    if spec.kernel == "rbf":
        sigma = kernels.gram_matrix(
            _arrays.detach(X),
            "rbf",
            bandwidth=spec.bandwidth,
            bandwidth_rule=spec.bandwidth_rule,
            gamma=spec.gamma,
        ).bandwidth
        if sigma is None or math.isnan(sigma):  # a constant representation: the value will be 0/0
            sigma = 1.0
        Z = Z / sigma
        squares = xp.sum(Z * Z, axis=1)
        distances = squares[:, None] + squares[None, :] - 2.0 * (Z @ xp.matrix_transpose(Z))
        return xp.expm1(-0.5 * xp.clip(distances, min=0.0))
    if callable(spec.kernel) or spec.kernel in _SMOOTH:
        K: Array = kernels.evaluate(spec.kernel, X, X, spec.gamma, spec.params)
        return K
    raise ValueError(
        f"as_tensor=True is offered for the kernels rbf, {', '.join(_SMOOTH)} and callables of torch, not for"
        f" {spec.kernel!r}."
    )


def _centered(xp: Any, K: Array, debiased: bool) -> Array:
    """Return the double-centred or the U-centred matrix, with gradients."""
    n = K.shape[0]
    if not debiased:
        means = xp.mean(K, axis=1)
        return K - means[:, None] - means[None, :] + xp.mean(means)
    off_diagonal = 1.0 - xp.eye(n, dtype=K.dtype, device=_arrays.device(K))
    sums = xp.sum(K * off_diagonal, axis=1)
    offsets = sums / (n - 2.0) - 0.5 * xp.sum(sums) / ((n - 1.0) * (n - 2.0))
    return (K - offsets[:, None] - offsets[None, :]) * off_diagonal
