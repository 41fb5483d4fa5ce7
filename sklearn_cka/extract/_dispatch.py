"""One function for every kind of model, chosen by the model's type, and the rule by which layers are picked by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import singledispatch
from typing import Any

from sklearn_cka.layers import Layers

__all__ = ["extract_layers", "select_layers"]


@singledispatch
def extract_layers(model: Any, X: Any, *, layers: str | Iterable[str] | None = None, **options: Any) -> Layers:
    """Run a fitted model on `X` and return what its layers, or steps, make of every row.

    The function to run is chosen by the type of `model`
    (:func:`functools.singledispatch`). Models of scikit-learn that are known:

    ===================================  =====================================================
    model                                layers
    ===================================  =====================================================
    ``MLPClassifier``, ``MLPRegressor``  ``hidden_1``, ``hidden_2``, ... after the activation
                                         function, and ``output`` after the output activation.
                                         ``output`` holds one column per output unit: it is
                                         ``predict(X)`` of a regressor and ``predict_proba(X)``
                                         of a classifier, of which a classifier of two classes
                                         has only the second column.
    ``Pipeline``                         the output of every step, under the step's name. The
                                         steps of a nested pipeline are called
                                         ``outer_step.inner_step``, the layers of a network at
                                         the end ``step.hidden_1``, ..., ``step.output``. Steps
                                         that pass their input through are left out.
    ``GridSearchCV`` and other searches  those of ``best_estimator_``
    ===================================  =====================================================

    A pipeline that ends in a predictor has as its last layer the first of these that
    the predictor offers: ``transform``, ``decision_function``, ``predict_proba``, and
    ``predict`` (of a classifier as one column of 0 and 1 per class). The input is not
    among the layers; ``Layers({"input": X, **layers})`` adds it.

    Parameters
    ----------
    model : object
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows to run the model on, checked by the model's own rules: number and names of
        the features, missing values, sparse matrices where it takes them.
    layers : str, iterable of str, or None, default=None
        The layers to return: names, or patterns as of :mod:`fnmatch`, such as
        ``"hidden_*"``, in the order wanted. ``None`` is all of them, in the order of the model.
    **options : dict
        Further options of the model type's function.

    Returns
    -------
    Layers
        An ordered mapping from the layer's name to an array of `n_samples` rows.

    Raises
    ------
    TypeError
        If there is no function for the type of `model`, or a layer asked for holds strings.
    ValueError
        If no layer has one of the names asked for, a step returned another number of rows
        than it was given, or a sparse output would take more memory as a dense array than
        scikit-learn's ``working_memory``; smaller ones are made dense.
    sklearn.exceptions.NotFittedError
        If `model` is not fitted.

    See Also
    --------
    sklearn_cka.compare_layers : Compare the layers of two models.

    Notes
    -----
    Other model types are added with ``extract_layers.register``::

        @extract_layers.register
        def _(model: MyNet, X, *, layers=None):
            found = model.activations(X)  # a dict: name -> array, one row per row of X
            return Layers({name: found[name] for name in select_layers(list(found), layers)})

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_cka import extract_layers
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), PCA(2), LogisticRegression()).fit(X, y)
    >>> layers = extract_layers(model, X)
    >>> {name: values.shape for name, values in layers.items()}
    {'standardscaler': (150, 4), 'pca': (150, 2), 'logisticregression': (150, 3)}
    >>> list(extract_layers(model, X, layers="p*"))
    ['pca']
    """
    raise TypeError(
        f"extract_layers does not know models of type {type(model).__module__}.{type(model).__qualname__}. "
        f"Known types: {', '.join(_known_types())}. A fitted scikit-learn transformer or predictor is known inside "
        "make_pipeline(...); for another type, register a function that returns its layers with "
        f"@extract_layers.register({type(model).__qualname__})."
    )


def _known_types() -> list[str]:
    return sorted(cls.__name__ for cls in extract_layers.registry if cls is not object)


def has_extractor(model: Any) -> bool:
    """Whether a function is registered for the type of `model`."""
    return extract_layers.dispatch(type(model)) is not extract_layers.dispatch(object)


def select_layers(names: Sequence[str], layers: str | Iterable[str] | None = None) -> list[str]:
    """Return those of `names` that `layers` asks for, in the order in which it does.

    Parameters
    ----------
    names : sequence of str
        The names of all layers of a model.
    layers : str, iterable of str, or None, default=None
        Names, or case-sensitive patterns as of :mod:`fnmatch`, which stand for the names that
        they match, in the order of `names`. What is a name is not taken as a pattern, and no
        name is returned twice. ``None`` is all.

    Returns
    -------
    list of str
        The names picked.

    Raises
    ------
    TypeError
        If `layers` is neither a string nor an iterable of strings.
    ValueError
        If one of `layers` matches no name, or nothing is asked for.

    Examples
    --------
    >>> from sklearn_cka.extract import select_layers
    >>> select_layers(["conv1", "conv2", "fc"], ["fc", "conv*"])
    ['fc', 'conv1', 'conv2']
    """
    if layers is None:
        return list(names)
    wanted = [layers] if isinstance(layers, str) else list(layers)
    if not wanted:
        raise ValueError("layers is empty: name at least one layer, or pass None for all of them.")
    picked: dict[str, None] = {}
    for pattern in wanted:
        if not isinstance(pattern, str):
            raise TypeError(f"layers must hold names or patterns (str), got {pattern!r}.")
        matches = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matches:
            raise ValueError(_unknown_layer(pattern, names))
        picked.update(dict.fromkeys(matches))
    return list(picked)


def _unknown_layer(pattern: str, names: Sequence[str]) -> str:
    close = get_close_matches(pattern, names)
    hint = f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""
    return f"Unknown layer {pattern!r}.{hint} The layers are {', '.join(repr(name) for name in names)}."
