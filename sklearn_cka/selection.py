"""Scorers for model selection.

Maximising biased CKA over a bandwidth is a trap: as sigma goes to 0 every Gram matrix goes to the identity, and CKA
to 1 for any data. The permutation z-score compares the value with what the same two Gram matrices give when their
rows do not correspond, so that it is comparable over bandwidths and kernels.
"""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from sklearn_cka._arrays import Array

__all__ = ["permutation_z_scorer"]


def permutation_z_scorer(estimator: Any, X: Array, y: Array) -> float:
    """Score a fitted index, or a pipeline or search that ends in one, by its permutation z-score.

    Meant for ``scoring=`` of :class:`~sklearn.model_selection.GridSearchCV` and its relatives.

    Parameters
    ----------
    estimator : estimator
        A fitted index with a method ``z_score`` (CKA, HSIC, DistanceCorrelation, PairedTransformer), or a
        :class:`~sklearn.pipeline.Pipeline` whose last step is one.
    X : array-like of shape (n_samples, n_features)
        First representation, n_samples >= 4.
    y : array-like of shape (n_samples, n_targets) or (n_samples,)
        Second representation of the same rows.

    Returns
    -------
    z : float
        Standard deviations above the chance level of the rows given; larger is better.

    Raises
    ------
    TypeError
        If the estimator has no z-score.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_cka import CKA, permutation_z_scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(120, 1))
    >>> y = np.sin(2 * X) + 0.1 * rng.standard_normal((120, 1))
    >>> grid = {"bandwidth": [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]}
    >>> search = GridSearchCV(CKA("rbf", debiased=True), grid, scoring=permutation_z_scorer).fit(X, y)
    >>> search.best_params_
    {'bandwidth': 0.2}
    """
    if isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return permutation_z_scorer(estimator[-1], X, y)
    if hasattr(estimator, "best_estimator_"):
        return permutation_z_scorer(estimator.best_estimator_, X, y)
    if not hasattr(estimator, "z_score"):
        raise TypeError(
            f"{type(estimator).__name__} has no permutation z-score; the indexes on centred Gram matrices (CKA, HSIC,"
            " DistanceCorrelation) and PairedTransformer around them have one."
        )
    return float(estimator.z_score(X, y))
