"""Features in place of layers or of their kernels: transformers of scikit-learn, one clone a layer.

A map of a kernel (``Nystroem``, ``RBFSampler``) makes a table of n rows cost what features cost, not n^2. A random
projection to k columns leaves the inner products of two layers unbiased if each has projections of its own, but not
that of a layer with itself: ``E||X P P' X'||_F^2 = ||K||_F^2 (1 + 1/k) + tr(K)^2 / k``. Every layer therefore gets two
independent projections; those of different layers are averaged over all four pairs, and the inner product of a layer
with itself is that of its two, which is unbiased, too. Layers of at most k columns are left as they are.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.random_projection import BaseRandomProjection
from sklearn.utils import check_random_state

from sklearn_cka import _arrays, _bandwidths, _radial
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import GramIndex, KernelIndex
from sklearn_cka.layers import Layers

# Parameters of transformers that are parameters of the kernel they approximate.
_KERNEL_PARAMS = ("gamma", "degree", "coef0", "kernel_params")


@dataclass(frozen=True)
class FeatureMaps:
    """One transformer for all layers, a clone each, and the index of what comes out."""

    transformer: Any
    index: BaseIndex
    mapped: BaseIndex
    random_state: Any = 0

    @property
    def is_sketch(self) -> bool:
        """Whether layers are projected at random and the index is one of inner products of Gram matrices."""
        return isinstance(self.transformer, BaseRandomProjection) and isinstance(self.index, GramIndex)

    @property
    def _n_components(self) -> int:
        wanted = self.transformer.n_components
        return 0 if isinstance(wanted, str) else int(wanted)

    def apply(self, *sides: Layers | None) -> list[Layers | None]:
        """Return the layers of both sides mapped; an array that is given twice is mapped once."""
        random = check_random_state(self.random_state)
        made: dict[int, Array] = {}
        results: list[Layers | None] = []
        for argument, side in zip("ab", sides, strict=True):
            if side is None:
                results.append(None)
                continue
            mapped = {}
            for name, array in side.items():
                if id(array) not in made:
                    checked = self.index._check_X(array, f"layer {name!r} of {argument}")
                    made[id(array)] = self._map(checked, random)
                mapped[name] = made[id(array)]
            results.append(Layers(mapped))
        return results

    def _map(self, X: Array, random: np.random.RandomState) -> Array:
        values = _arrays.to_numpy(X)
        if not self.is_sketch:
            return _arrays.like(self._fitted(X, values, random), X)
        values = values - values[:1]  # centring removes it again, and large offsets cost no digits
        if values.shape[1] <= self._n_components:  # nothing to gain: both halves are the layer itself, which is exact
            halves = [values, values]
        else:
            halves = [self._fitted(X, values, random) for _ in range(2)]
        return _arrays.like(np.concatenate(halves, axis=1) * math.sqrt(0.5), X)

    def _fitted(self, X: Array, values: np.ndarray, random: np.random.RandomState) -> np.ndarray:
        transformer = clone(self.transformer)
        params = transformer.get_params()
        seeds = {
            name: int(random.randint(2**31 - 1))
            for name in sorted(params)
            if name == "random_state" or name.endswith("__random_state")
        }
        transformer.set_params(**seeds, **self._kernel_params(X, params))
        result = transformer.fit_transform(values)
        result = result.toarray() if hasattr(result, "toarray") else np.asarray(result)
        return np.ascontiguousarray(result, dtype=values.dtype)

    def _kernel_params(self, X: Array, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters by which a transformer approximates the kernel of the index on these rows."""
        index: Any = self.index
        if index is self.mapped:
            return {}
        spec = index._specs()[0]
        gamma = spec.gamma
        if gamma is None:
            sigma = spec.bandwidth
            if spec.bandwidth_rule != "none":
                sigma *= _typical_distance(X, spec.kernel, spec.bandwidth_rule)
            gamma = 0.5 / sigma**2 if spec.kernel == "rbf" else 1.0 / sigma
        return {"gamma": gamma} | ({"kernel": spec.kernel} if "kernel" in params else {})


def feature_maps(transformer: Any, index: BaseIndex, random_state: Any) -> FeatureMaps:
    """Return the maps of a transformer for an index.

    Raises
    ------
    TypeError
        If `transformer` is no transformer.
    ValueError
        If it cannot stand for the kernel of the index.
    """
    if not (hasattr(transformer, "fit_transform") and hasattr(transformer, "get_params")):
        raise TypeError(f"feature_map must be a transformer of scikit-learn, got {transformer!r}.")
    if not isinstance(index, KernelIndex) or index.is_linear:
        return FeatureMaps(transformer, index, index, random_state)
    x, y = index._specs()
    params = transformer.get_params(deep=False)
    if x != y or x.kernel not in ("rbf", "laplacian"):
        raise ValueError(
            f"feature_map stands for the kernel of both sides, 'rbf' or 'laplacian', got {index!r}; for features of"
            ' another kernel set it in the transformer and take kernel="linear".'
        )
    if "gamma" not in params or (x.kernel == "laplacian" and "kernel" not in params):
        raise ValueError(
            f"feature_map={transformer!r} cannot approximate the {x.kernel} kernel of {index!r}: it has no parameter"
            f" {'gamma' if 'gamma' not in params else 'kernel'}. sklearn.kernel_approximation.Nystroem can."
        )
    defaults = inspect.signature(type(transformer)).parameters
    changed = [name for name in _KERNEL_PARAMS if name in params and params[name] != defaults[name].default]
    if changed:
        raise ValueError(
            f"The kernel is set twice: {index!r} has one, and feature_map sets {', '.join(changed)}. Leave one out."
        )
    plain = clone(index).set_params(kernel="linear", bandwidth=1.0, bandwidth_rule="median", gamma=None)
    return FeatureMaps(transformer, index, plain, random_state)


def _typical_distance(X: Array, kernel: str, rule: str) -> float:
    """Return the unit of the bandwidth, from a random subset of very many rows."""
    rows = _bandwidths.subset_rows(int(X.shape[0]))
    if rows is not None:
        xp = _arrays.namespace(X)
        X = xp.take(X, xp.asarray(rows, device=_arrays.device(X)), axis=0)
    return float(_radial.RadialDistances(X, kernel).gram(1.0, rule, overwrite=True).bandwidth or math.nan)


def correct_self_terms(
    products: np.ndarray, rows: list[GramEmbedding], columns: list[GramEmbedding] | None, form: str
) -> np.ndarray:
    """Return inner products in which those of a layer with itself come from its two projections."""
    for layer in rows if columns is None else [*rows, *columns]:
        layer.remember_self_inner(form, _inner_of_halves(layer))
    for i, left in enumerate(rows):
        for j, right in enumerate(rows if columns is None else columns):
            if left is right:
                products[i, j] = left.self_inner(form)
    return products


def _inner_of_halves(layer: GramEmbedding) -> float:
    assert layer.features is not None
    width = layer.features.shape[1] // 2
    halves = [
        GramEmbedding(layer.n_samples, features=half * math.sqrt(2.0), debiased=layer.debiased)
        for half in (layer.features[:, :width], layer.features[:, width:])
    ]
    return halves[0].inner(halves[1], "feature")
