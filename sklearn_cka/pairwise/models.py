"""`compare_models`: from two models and the rows to run them on to the table of their layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn_cka.extract._pair import extract_pair
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.pairwise.compare import compare_layers
from sklearn_cka.pairwise.table import SimilarityTable


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
    verbose: int = 1,
    **params: Any,
) -> SimilarityTable:
    """Run two models on the same rows and compare every layer of one with every layer of the other.

    Two torch models get the very same batches: each goes through both models before the next one is drawn. The layers
    are kept, in memory unless `extract` says ``out``, until the table is made.

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
        If a layer is unknown or did not run, or positions of the two models do not correspond.
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
    a, b = extract_pair((model_a, model_b), X, (layers, layers_b), (extract, extract_b), verbose=verbose)
    return compare_layers(a, b, index, output=output, n_jobs=n_jobs, plan=plan, verbose=verbose, **params)
