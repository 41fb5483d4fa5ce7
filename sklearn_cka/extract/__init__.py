"""Activations out of models: :func:`extract_layers` and the model types that it knows.

Each library of models has one module here, which registers a function on the model's type.
"""

from sklearn_cka.extract import _branches, _forests, _sklearn_models  # noqa: F401  (they register their model types)
from sklearn_cka.extract._dispatch import extract_layers, iter_layers, select_layers

__all__ = ["extract_layers", "iter_layers", "select_layers"]
