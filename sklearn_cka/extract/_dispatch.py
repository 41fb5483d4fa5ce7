"""One function for every kind of model, chosen by the model's type, and the rule by which layers are picked by name."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import singledispatch
from typing import Any

from sklearn_cka import _backends
from sklearn_cka._arrays import is_array
from sklearn_cka.layers import Layers

__all__ = ["extract_layers", "iter_layers", "select_layers"]

# Classes of libraries that need not be installed, by their full names, and the modules here that register functions
# for them. A model of such a class can only exist once its library is imported, so that a look at the names of its
# bases, which imports nothing, tells when the module here has to be.
LIBRARIES = {
    "torch.nn.modules.module.Module": "sklearn_cka.extract._torch",
    "transformers.modeling_utils.PreTrainedModel": "sklearn_cka.extract._transformers",
    "onnx.onnx_ml_pb2.ModelProto": "sklearn_cka.extract._onnx",
    "onnxruntime.capi.onnxruntime_inference_collection.InferenceSession": "sklearn_cka.extract._onnx",
    "skorch.net.NeuralNet": "sklearn_cka.extract._skorch",
    "torch.export.exported_program.ExportedProgram": "sklearn_cka.extract._torch",
}


def register_library_of(model: Any) -> bool:
    """Import what registers functions for the classes of `model`; False if there is nothing left to import."""
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(model).__mro__}
    missing = {LIBRARIES[name] for name in LIBRARIES.keys() & names} - sys.modules.keys()
    for module in missing:
        importlib.import_module(module)
    return bool(missing)


@singledispatch
def extractor(model: Any, X: Any, layers: Any = None, **options: Any) -> Layers:
    """Refuse a model of no known type; functions for others are registered with this one."""
    if register_library_of(model):
        return extractor(model, X, layers=layers, **options)
    raise TypeError(
        f"extract_layers does not know models of type {type(model).__module__}.{type(model).__qualname__}. "
        f"Known types: {', '.join(_known_types())}. A fitted scikit-learn predictor is known inside "
        "make_pipeline(...); for another type, register a function that returns its layers with "
        f"@extract_layers.register({type(model).__qualname__})."
    )


def extract_layers(model: Any, X: Any, layers: Any = None, *, backend: str | None = None, **options: Any) -> Layers:
    """Run a fitted model on `X` and return what its layers, or steps, make of every row.

    The function to run is chosen by the type of `model`
    (:func:`functools.singledispatch`). Models of torch and transformers have options of their
    own, which the page :doc:`/extract` describes. Models of scikit-learn that are known:

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
    other transformers, such as          ``transform(X)``, under the lower-case name of the class
    ``PCA`` and ``KernelPCA``
    ``GridSearchCV`` and other searches  those of ``best_estimator_``
    ``ColumnTransformer``,               the output of every branch, under its name
    ``FeatureUnion``
    trees, random forests, extra trees,  ``trees``: one column per leaf, the linear kernel of
    gradient boosting,                   which is the share of trees in which two rows end in
    ``RandomTreesEmbedding``             the same leaf; by name ``tree_1``, ``tree_2``, ...;
                                         ``form="gram"`` returns the kernel itself
    ===================================  =====================================================

    A pipeline that ends in a predictor has as its last layer the first of these that
    the predictor offers: ``transform``, ``decision_function``, ``predict_proba``, and
    ``predict`` (of a classifier as one column of 0 and 1 per class). The input is not
    among the layers; ``Layers({"input": X, **layers})`` adds it. In a pipeline, trees and
    branches are steps like others.

    Parameters
    ----------
    model : object
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows to run the model on, checked by the model's own rules: number and names of
        the features, missing values, sparse matrices where it takes them. A torch model takes
        tensors, arrays, a dict of keyword inputs, a tuple of positional inputs, a ``Dataset``,
        or a ``DataLoader`` whose order is fixed.
    layers : str, iterable of str, or None, default=None
        The layers to return: names, or patterns as of :mod:`fnmatch`, such as
        ``"hidden_*"``, in the order wanted. ``None`` is all of them, in the order of the model.
        Of a torch model also module types, or a function of name and module; ``None`` is all
        modules without modules inside, and the order is that in which they are called.
    backend : str, default=None
        Array library to move the layers to, a name of :func:`~sklearn_cka.backend_names`, on the `device` among the
        options; a torch model runs there, too. None leaves them where the model's function does: NumPy, and tensors
        in host memory of a torch model.
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
    options = _taken(model, options)
    if backend is None:
        return extractor(model, X, layers=layers, **options)
    if options.get("out") is not None:
        raise ValueError("backend is for layers kept in memory, not for those written to a file (out).")
    target = _backends.resolve(backend, options.get("device"))
    if not runs_on_device(model):
        options.pop("device", None)  # which is where the layers go
    found = extractor(model, X, layers=layers, **options)
    return found if target is None else found.map(target.bring)


def _taken(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, less `verbose` where the function for the type of `model` has nothing to show.

    Raises
    ------
    TypeError
        If the function does not take one of the others.
    """
    register_library_of(model)
    parameters = inspect.signature(extractor.dispatch(type(model))).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return options
    known = [name for name in list(parameters)[2:] if name != "layers"]
    unknown = [name for name in options if name not in (*known, "verbose", "device")]
    if unknown:
        raise TypeError(
            f"extract_layers takes no option {unknown[0]!r} for a {type(model).__name__}; it takes"
            f" {', '.join(['layers', *known, 'backend'])}."
        )
    return {name: value for name, value in options.items() if name != "verbose" or name in known}


# What a singledispatch function has, so that others can register functions for their models.
extract_layers.register = extractor.register  # type: ignore[attr-defined]
extract_layers.registry = extractor.registry  # type: ignore[attr-defined]
extract_layers.dispatch = extractor.dispatch  # type: ignore[attr-defined]


@singledispatch
def iter_layers(model: Any, X: Any, layers: Any = None, *, batch_size: int = 64, **options: Any) -> Iterator[Layers]:
    """Run a fitted model on `X` batch by batch and yield the layers of each batch, keeping none.

    For what is computed from batches, and for rows whose activations fit nowhere. A generator
    that is abandoned leaves nothing behind on the model.

    Parameters
    ----------
    model : object
        The fitted model, of a type that :func:`extract_layers` knows.
    X : array-like of shape (n_samples, n_features)
        The rows, as of :func:`extract_layers`.
    layers : str, iterable of str, or None, default=None
        The layers, as of :func:`extract_layers`.
    batch_size : int, default=64
        Rows per batch; the last batch may be smaller. Of a ``DataLoader`` it is the loader's.
    **options : dict
        Further options of the model type's function.

    Yields
    ------
    Layers
        The layers of the next rows.

    Raises
    ------
    TypeError
        If there is no function for the type of `model`, or `X` cannot be cut into rows.
    ValueError
        If `batch_size` is not at least 1, or for the reasons of :func:`extract_layers`.

    See Also
    --------
    extract_layers : The layers of all rows at once.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> from sklearn_cka import iter_layers
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((8,), max_iter=2000, random_state=0).fit(X, y)
    >>> [layers.n_rows for layers in iter_layers(model, X, batch_size=64)]
    [64, 64, 22]
    """
    if register_library_of(model):
        return iter_layers(model, X, layers=layers, batch_size=batch_size, **options)
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    if not (is_array(X) or hasattr(X, "iloc")):
        raise TypeError(f"X must be an array or a frame, to be cut into batches; got {type(X).__name__}.")
    rows = X.iloc if hasattr(X, "iloc") else X
    starts = range(0, len(X), batch_size)
    return (extract_layers(model, rows[i : i + batch_size], layers=layers, **options) for i in starts)


def runs_on_device(model: Any) -> bool:
    """Whether the function for the type of `model` has the option ``device``."""
    register_library_of(model)
    return getattr(extractor.dispatch(type(model)), "runs_on_device", False)


def _known_types() -> list[str]:
    return sorted(cls.__name__ for cls in extractor.registry if cls is not object)


def has_extractor(model: Any) -> bool:
    """Whether a function is registered for the type of `model` that takes its place at the end of a pipeline.

    Functions with the attribute ``stands_alone`` do not: in a pipeline their models are steps like others.
    """
    register_library_of(model)
    function = extractor.dispatch(type(model))
    return function is not extractor.dispatch(object) and not getattr(function, "stands_alone", False)


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
