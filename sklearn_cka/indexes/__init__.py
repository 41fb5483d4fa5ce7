"""Similarity indexes, one module a family; names are resolved by :mod:`sklearn_cka.indexes._registry`."""
