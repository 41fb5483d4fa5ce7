"""`compare_models`: from two models and the rows to run them on to the table of their layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any

from sklearn_cka.extract._pair import extract_pair, iter_pair
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._partial import why_not
from sklearn_cka.indexes._registry import get_index
from sklearn_cka.layers import Layers
from sklearn_cka.pairwise.compare import compare_layers
from sklearn_cka.pairwise.table import SimilarityTable
from sklearn_cka.streaming import LayerAccumulator


def compare_models(
    model_a: Any,
    model_b: Any,
    X: Any,
    index: str | BaseIndex = "cka",
    *,
    layers: Any = None,
    layers_b: Any = None,
    extract: Mapping[str, Any] | None = None,
    extract_b: Mapping[str, Any] | None = None,
    output: str = "similarity",
    n_jobs: int | None = None,
    plan: str | None = None,
    stream: bool | None = None,
    verbose: int = 1,
    **params: Any,
) -> SimilarityTable:
    """Run two models on the same rows and compare every layer of one with every layer of the other.

    Two torch models get the very same batches: each goes through both models before the next one is drawn.

    Parameters
    ----------
    model_a : object
        First model, of a type that :func:`extract_layers` knows; its layers are the rows of the table.
    model_b : object
        Second model; its layers are the columns.
    X : array-like of shape (n_samples, ...)
        The rows, as of :func:`extract_layers`.
    index : str or BaseIndex, default="cka"
        A name of :func:`index_names` or an index.
    layers : str, iterable of str, or None, default=None
        The layers of `model_a`, as of :func:`extract_layers`.
    layers_b : str, iterable of str, or None, default=None
        The layers of `model_b`; None is what `layers` says.
    extract : dict, default=None
        Options of :func:`extract_layers` for `model_a`, such as ``{"batch_size": 256, "flatten": "mean"}``.
    extract_b : dict, default=None
        Those for `model_b`; None is what `extract` says.
    output : {"similarity", "distance"}, default="similarity"
        Whether to give the index or its distance form.
    n_jobs : int, default=None
        Threads, as of :func:`compare_layers`.
    plan : {"gram", "feature", "matrix", "embed"}, default=None
        How to compute the table, as of :func:`compare_layers`.
    stream : bool, default=None
        Whether to add every batch to a :class:`LayerAccumulator` and keep no layers: exact too, for the indexes that
        can be accumulated, with memory for the square of the number of units of all layers. False keeps the layers, in
        memory unless `extract` says ``out``. None streams where that takes less memory: where there are more rows
        than units, the index can be accumulated, and neither ``out``, `output` nor `plan` asks for the layers.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.
    **params
        Parameters of the index.

    Returns
    -------
    table : SimilarityTable
        Values of shape (L_a, L_b).

    Raises
    ------
    TypeError
        If a model is of an unknown type.
    ValueError
        If a layer is unknown or did not run, positions of the two models do not correspond, or the index cannot be
        streamed though `stream` asks for it.
    MemoryError
        If the layers do not fit into memory; the message says what to do instead.

    See Also
    --------
    extract_layers : The layers of one model.
    compare_layers : Compare layers that are there already.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> from sklearn_cka import compare_models
    >>> X, y = load_iris(return_X_y=True)
    >>> a, b = (MLPClassifier((8, 4), max_iter=3000, random_state=seed).fit(X, y) for seed in (0, 1))
    >>> table = compare_models(a, b, X, layers="hidden_*")
    >>> table.to_frame().shape
    (2, 2)
    """
    extract = {} if extract is None else dict(extract)
    extract_b = extract if extract_b is None else dict(extract_b)
    layers_b = layers if layers_b is None else layers_b
    made = get_index(index, **params)
    run = ((model_a, model_b), X, (layers, layers_b), (extract, extract_b))
    needs_layers = output != "similarity" or plan is not None or any("out" in each for each in (extract, extract_b))
    if stream and (needs_layers or why_not(made)):
        raise ValueError(
            why_not(made) or "stream=True keeps no layers for the `out`, output or plan that are asked for."
        )
    if stream or (stream is None and not needs_layers and why_not(made) is None):
        table = _stream(made, iter_pair(*run, verbose=verbose), None if stream else _count_rows(X))
        if table is not None:
            return table
    a, b = extract_pair(*run, verbose=verbose)
    return compare_layers(a, b, made, output=output, n_jobs=n_jobs, plan=plan, verbose=verbose)


def _stream(index: BaseIndex, batches: Iterator[tuple[Layers, Layers]], n_rows: int | None) -> SimilarityTable | None:
    """Return the table of all batches; None after the first if its layers have more units than there are rows."""
    with closing(batches):  # type: ignore[type-var]
        first = next(batches, None)
        if first is None:
            return None
        n_units = sum(int(array.shape[1]) for side in first for array in side.values())
        if n_rows is not None and n_units >= n_rows:
            return None
        accumulator = LayerAccumulator(index)
        for a, b in chain([first], batches):
            accumulator.update(a, b)
        return accumulator.table()


def _count_rows(X: Any) -> int:
    """Return the number of rows of an array, a data set, or a dict or tuple of arrays; 0 where it is not known."""
    if isinstance(X, Mapping):
        X = next(iter(X.values()), ())
    elif isinstance(X, tuple):
        X = X[0] if X else ()
    X = getattr(X, "dataset", X)  # of a loader
    try:
        return len(X)
    except TypeError:
        return 0
