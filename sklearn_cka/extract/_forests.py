"""Layers of ensembles of trees: which rows end in the same leaf.

A tree represents a row by the leaf it ends in. With one column per leaf, 1 in the row's own, the linear kernel of T
trees, each scaled by T^(-1/2), is the share of trees in which two rows share a leaf,

    K(x, x') = (1/T) sum_t 1[leaf_t(x) = leaf_t(x')],

the proximity of Breiman's random forests. The columns are returned, so that every index can be computed; linear CKA
of them is the CKA of these kernels. Leaves in which no row ends have no column.

References
----------
L. Breiman, "Random forests", Machine Learning 45 (2001).

E. Scornet, "Random forests and kernel methods", IEEE Transactions on Information Theory 62 (2016).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.utils.validation import check_is_fitted

from sklearn_cka._validation import check_option
from sklearn_cka.extract._dispatch import extractor, select_layers
from sklearn_cka.extract._sinks import LayerShape, check_memory
from sklearn_cka.layers import Layers

_FORMS = ("leaves", "gram")


def _tree_layers(model: Any, X: Any, layers: str | Iterable[str] | None = None, *, form: str = "leaves") -> Layers:
    """Return the leaves of the whole ensemble, ``"trees"``, or of ``"tree_1"``, ``"tree_2"``, ... by name.

    With ``form="gram"`` a layer is the matrix K of shape (n, n) itself, for ``kernel="precomputed"``.
    """
    check_is_fitted(model)
    check_option("form", form, _FORMS)
    leaves = np.asarray(model.apply(X))
    leaves = leaves.reshape(len(leaves), -1)  # boosted classifiers have one tree per class and stage
    columns = {"trees": leaves} | {f"tree_{i}": column[:, None] for i, column in enumerate(leaves.T, start=1)}
    wanted = select_layers(list(columns), "trees" if layers is None else layers)
    n = len(leaves)
    widths = {name: n if form == "gram" else _count_leaves(columns[name]) for name in wanted}
    check_memory({name: LayerShape(width, 8, n) for name, width in widths.items()})
    make = _gram if form == "gram" else _indicators
    return Layers({name: make(columns[name]) for name in wanted})


def _count_leaves(leaves: np.ndarray) -> int:
    return sum(len(np.unique(column)) for column in leaves.T)


def _indicators(leaves: np.ndarray) -> np.ndarray:
    """Return one column per leaf of every tree, scaled so that their linear kernel is the share of shared leaves."""
    columns = []
    for tree in leaves.T:
        found, at = np.unique(tree, return_inverse=True)
        columns.append(np.arange(len(found)) == at[:, None])
    return np.hstack(columns) / math.sqrt(leaves.shape[1])


def _gram(leaves: np.ndarray) -> np.ndarray:
    """Return the share of trees in which two rows end in the same leaf, one tree at a time."""
    gram = np.zeros((len(leaves), len(leaves)))
    for tree in leaves.T:
        gram += tree[:, None] == tree
    return gram / leaves.shape[1]


_tree_layers.stands_alone = True  # type: ignore[attr-defined]

for _kind in (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
):
    extractor.register(_kind, _tree_layers)
