"""Layers of scikit-learn's networks and pipelines.

The activations of a multi-layer perceptron are computed from its public attributes,
``H_0 = X,  H_i = f(H_{i-1} W_i + b_i)``, with ``coefs_``, ``intercepts_``, ``activation`` and ``out_activation_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn import get_config
from sklearn.base import TransformerMixin, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_cka.extract._dispatch import extract_layers, extractor, has_extractor, select_layers
from sklearn_cka.layers import Layers

# The common base of grid, random and halving searches has no public name.
SearchCV: Any = GridSearchCV.__mro__[1]


def _softmax_rows(z: np.ndarray) -> np.ndarray:
    return softmax(z, axis=1)


ACTIVATIONS: dict[str, Callable[[Any], np.ndarray]] = {
    "identity": lambda z: z,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
    "softmax": _softmax_rows,
    "exp": np.exp,
}


@extractor.register(MLPClassifier)
@extractor.register(MLPRegressor)
def _mlp_layers(model: MLPClassifier | MLPRegressor, X: Any, *, layers: str | Iterable[str] | None = None) -> Layers:
    """Return the hidden layers after the activation function and the output after its own."""
    check_is_fitted(model)
    names = [f"hidden_{i}" for i in range(1, len(model.coefs_))] + ["output"]
    wanted = select_layers(names, layers)
    current = validate_data(model, X, accept_sparse=["csr", "csc"], reset=False)

    found = {}
    for name, weights, bias in zip(names, model.coefs_, model.intercepts_, strict=True):
        activation = model.out_activation_ if name == "output" else model.activation
        current = ACTIVATIONS[activation](current @ weights + bias)
        if name in wanted:
            found[name] = current
        if len(found) == len(wanted):
            break
    return Layers({name: found[name] for name in wanted})


@extractor.register(TransformerMixin)
def _transformer_layers(model: Any, X: Any, *, layers: str | Iterable[str] | None = None) -> Layers:
    """Return what a transformer makes of every row, under the name that a pipeline would give it."""
    if not hasattr(model, "transform"):
        raise TypeError(
            f"{type(model).__name__} places only the rows that it was fitted on, and has no transform for others;"
            " what it made of those is a representation by itself, such as its embedding_."
        )
    check_is_fitted(model)
    name = type(model).__name__.lower()
    select_layers([name], layers)
    given = X.copy() if _overwrites(model) and hasattr(X, "copy") else X
    return Layers({name: dense_output(name, model.transform(given), X)})


_transformer_layers.stands_alone = True  # type: ignore[attr-defined]


@extractor.register(HistGradientBoostingClassifier)
@extractor.register(HistGradientBoostingRegressor)
def _histogram_trees(model: Any, X: Any, *, layers: str | Iterable[str] | None = None) -> Layers:
    """Refuse models that do not tell in which leaf a row ends."""
    raise TypeError(
        f"A {type(model).__name__} does not tell in which leaf a row ends, so that it has no layers. Take"
        " GradientBoostingClassifier, GradientBoostingRegressor or a forest, or compare predictions."
    )


_histogram_trees.stands_alone = True  # type: ignore[attr-defined]


@extractor.register(SearchCV)
def _search_layers(model: Any, X: Any, *, layers: str | Iterable[str] | None = None, **options: Any) -> Layers:
    """Return the layers of the estimator that the search refitted."""
    return extract_layers(_best_estimator(model), X, layers=layers, **options)


@extractor.register(Pipeline)
def _pipeline_layers(model: Pipeline, X: Any, *, layers: str | Iterable[str] | None = None) -> Layers:
    """Return the output of every step."""
    check_is_fitted(model)
    outputs = list(_step_outputs(model, X))
    names = [name for name, _ in outputs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Two layers of the pipeline would be called {repeated[0]!r}: rename one of its steps.")
    if not names:
        raise ValueError("The pipeline has no layers: all of its steps pass their input through.")
    found = dict(outputs)
    return Layers({name: dense_output(name, found[name], X) for name in select_layers(names, layers)})


def _step_outputs(pipeline: Pipeline, X: Any, prefix: str = "", *, final: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield the name and the output of one step after another, feeding each to the next.

    `final` says whether the end of `pipeline` is the end of the whole: only there a predictor is asked for predictions.
    """
    steps = [(prefix + name, _best_estimator(step)) for name, step in pipeline.steps if not _passes_through(step)]
    last = len(steps) - 1
    for i, (name, step) in enumerate(steps):
        at_end = final and i == last and not _passes_through(pipeline.steps[-1][1])
        if isinstance(step, Pipeline):
            for inner, output in _step_outputs(step, X, f"{name}.", final=at_end):
                yield inner, output
                X = output
        elif at_end and has_extractor(step):
            for inner, values in extract_layers(step, X).items():
                yield f"{name}.{inner}", values
        else:
            given = X.copy() if _overwrites(step) and hasattr(X, "copy") else X
            X = _predictor_output(step, given) if at_end else step.transform(given)
            yield name, X


def _passes_through(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _overwrites(step: Any) -> bool:
    """Whether `step` or an estimator inside it was told to work in place, which would change the layer before it."""
    return any(value is False for name, value in step.get_params().items() if name == "copy" or name.endswith("__copy"))


def _best_estimator(model: Any) -> Any:
    """Return the refitted estimator of a search, and any other estimator as it is."""
    if not isinstance(model, SearchCV):
        return model
    check_is_fitted(model)
    if not hasattr(model, "best_estimator_"):
        raise ValueError(
            f"This {type(model).__name__} kept no fitted estimator (refit={model.refit!r}): its layers cannot be "
            "extracted. Fit it with refit=True, or fit the estimator of your choice."
        )
    return _best_estimator(model.best_estimator_)


def _predictor_output(predictor: Any, X: Any) -> Any:
    """Return what the last step makes of `X`, before any choice of a class where it can be had."""
    for method in ("transform", "decision_function", "predict_proba"):
        if hasattr(predictor, method):
            output = getattr(predictor, method)(X)
            # Classifiers of several targets return one array of probabilities per target.
            return np.hstack(output) if isinstance(output, list) else output
    output = predictor.predict(X)
    if is_classifier(predictor) and np.ndim(output) == 1:
        return (np.asarray(output)[:, None] == np.asarray(predictor.classes_)[None, :]).astype(np.float64)
    return output


def dense_output(name: str, output: Any, X: Any) -> Any:
    """Return the output of a step in a form that `Layers` takes, with one row per row of the input `X`."""
    n_rows = _n_rows(X)
    if sparse.issparse(output):
        output = _densify(name, output)
    elif isinstance(output, np.ndarray) and output.dtype.kind == "O":
        # ColumnTransformer leaves numbers in an object array where one of its parts passed objects through.
        with suppress(TypeError, ValueError):
            output = output.astype(np.float64)
    if n_rows is not None and output.shape[0] != n_rows:
        raise ValueError(
            f"Step {name!r} returned {output.shape[0]} rows for {n_rows} rows of X: its output no longer describes "
            "the same rows. Leave it out with layers=..., or drop rows before the pipeline."
        )
    return output


def _densify(name: str, output: Any) -> np.ndarray:
    mebibytes = output.shape[0] * output.shape[1] * output.dtype.itemsize / 2**20
    limit = get_config()["working_memory"]
    if mebibytes > limit:
        raise ValueError(
            f"The output of step {name!r} is sparse, of shape {output.shape}, and would take {mebibytes:.0f} MiB as "
            f"a dense array, more than scikit-learn's working_memory of {limit} MiB. Leave it out with layers=..., "
            "pass fewer rows, or raise the limit with sklearn.set_config(working_memory=...)."
        )
    return output.toarray()


def _n_rows(X: Any) -> int | None:
    """Return the number of rows of the input, and None for an iterable without a length."""
    if hasattr(X, "shape"):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else None
