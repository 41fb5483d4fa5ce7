"""The noise ceiling: how similar the best possible model could be to what was measured with noise.

Reference: Nili, Wingfield, Walther, Su, Marslen-Wilson & Kriegeskorte (2014), "A toolbox for representational
similarity analysis", PLoS Computational Biology 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_cka._arrays import namespace
from sklearn_cka._validation import check_option
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._registry import get_index
from sklearn_cka.indexes.cka import CKA
from sklearn_cka.inference._results import NoiseCeilingResult
from sklearn_cka.layers import as_layers
from sklearn_cka.pairwise import compare_layers

__all__ = ["noise_ceiling"]


def noise_ceiling(
    repeats: Any, index: str | BaseIndex = "cka", *, average: str = "gram", **params: Any
) -> NoiseCeilingResult:
    """Bound the similarity that a model could have with a representation measured several times.

    The upper bound is the similarity of every measurement with the mean of all, itself among them; the lower bound that
    with the mean of the others. No model can be expected above the first, and a model that knew the truth would be
    expected above the second.

    Parameters
    ----------
    repeats : Layers, dict or list of arrays of shape (n_samples, n_features)
        The measurements, such as subjects or sessions, of the same rows in the same order; two or more.
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index.
    average : {"gram", "features"}, default="gram"
        What is averaged: centred Gram matrices of norm one, for CKA alone, whatever the widths and whatever the units
        of every measurement; or the features themselves, for any index and units that correspond.
    **params
        Parameters of the index.

    Returns
    -------
    result : NoiseCeilingResult
        With `lower`, `upper`, `lower_values` and `upper_values`.

    Raises
    ------
    ValueError
        If there are fewer than two measurements, the index is not CKA where Gram matrices are to be averaged, or the
        widths differ where features are.

    References
    ----------
    Nili, Wingfield, Walther, Su, Marslen-Wilson & Kriegeskorte (2014), PLoS Computational Biology 10.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka.inference import noise_ceiling
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.standard_normal((100, 5))
    >>> subjects = [truth + rng.standard_normal((100, 5)) for _ in range(6)]
    >>> ceiling = noise_ceiling(subjects, debiased=True)
    >>> round(ceiling.lower, 2), round(ceiling.upper, 2)
    (0.39, 0.61)
    """
    check_option("average", average, ("gram", "features"))
    made = get_index(index, **params)
    layers = as_layers(repeats, argument="repeats")
    if len(layers) < 2:
        raise ValueError(f"repeats holds {len(layers)} measurement; a noise ceiling needs at least 2.")
    lower, upper = (_by_gram if average == "gram" else _by_features)(layers, made)
    return NoiseCeilingResult(float(lower.mean()), float(upper.mean()), lower, upper)


def _by_gram(layers: Any, index: BaseIndex) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of unit matrices with their mean follow from their cosines with each other."""
    if type(index) is not CKA or not index.has_equal_sides:
        raise ValueError(f'average="gram" is for CKA with one kernel, not {index!r}; use average="features".')
    S = compare_layers(layers, index=index, verbose=0).values
    sums, total = S.sum(axis=1), S.sum()
    own = np.diagonal(S)
    return (sums - own) / np.sqrt(total - 2.0 * sums + own), sums / np.sqrt(total)


def _by_features(layers: Any, index: BaseIndex) -> tuple[np.ndarray, np.ndarray]:
    arrays = list(layers.values())
    widths = {int(array.shape[1]) for array in arrays}
    if len(widths) > 1:
        raise ValueError(f'average="features" needs measurements of the same units, got widths {sorted(widths)}.')
    xp = namespace(arrays[0])
    arrays = [xp.astype(array, xp.float64) for array in arrays]
    total = sum(arrays[1:], start=arrays[0])
    m = len(arrays)
    lower = np.array([index.similarity(array, (total - array) / (m - 1)) for array in arrays])
    upper = np.array([index.similarity(array, total / m) for array in arrays])
    return lower, upper
