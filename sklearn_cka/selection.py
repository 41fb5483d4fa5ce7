"""What to hand to the searches of scikit-learn: scores by which an index, its kernel and its bandwidth can be chosen.

Maximising biased CKA over a bandwidth is a trap: as sigma goes to 0 every Gram matrix goes to the identity, and CKA
to 1 for any data. The permutation z-score compares the value with what the same two Gram matrices give when their
rows do not correspond, so that it is comparable over bandwidths and kernels. Where several models of one architecture
are at hand, the accuracy of layer matching asks for more: that the index tells layers apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_cka._arrays import Array
from sklearn_cka._layer_matching import layer_matching
from sklearn_cka.layers import as_layers

__all__ = ["LayerMatcher", "permutation_z_scorer"]


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


class LayerMatcher(BaseEstimator):
    """An index whose score is how often it finds the counterpart of a layer in another model.

    The samples are models, so that :class:`~sklearn.model_selection.GridSearchCV` and its relatives choose among
    parameters of an index by layer matching on models held out, and refit on all.

    Parameters
    ----------
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index; its parameters are searched as ``index__bandwidth`` etc.
    exclude : str or list of str, default=None
        Layers that take no part, such as the logits.
    n_jobs : int, default=None
        Threads, as for :func:`~sklearn_cka.compare_layers`.

    Attributes
    ----------
    layer_names_ : list of str
        Names of the layers of the models given to fit.
    n_models_ : int
        Number of these models.

    See Also
    --------
    layer_matching : Accuracy, jackknife standard error and confusion of one index.
    benchmark_indexes : The same of several, with tests of their differences.

    Notes
    -----
    Nothing is learned from the models but their layer names. A fold of m models has m (m - 1) ordered pairs; folds of
    two models each, all pairs of them, are those of ``cv=LeavePOut(2)``, whose mean score is the accuracy of
    :func:`layer_matching` on all models.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML, section
    6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_cka import CKA, LayerMatcher
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(-np.pi, np.pi, size=100)
    >>> layers = [np.c_[np.cos(k * angle), np.sin(k * angle)] for k in (1, 1.5, 2)]
    >>> def model():
    ...     return {f"layer{i}": X + 0.3 * rng.standard_normal(X.shape) for i, X in enumerate(layers)}
    >>> models = [model() for _ in range(6)]
    >>> grid = {"index__bandwidth": [0.02, 0.5]}
    >>> search = GridSearchCV(LayerMatcher(CKA("rbf", debiased=True)), grid, cv=2).fit(models)
    >>> search.best_params_
    {'index__bandwidth': 0.5}
    """

    def __init__(
        self, index: Any = "cka", *, exclude: str | Sequence[str] | None = None, n_jobs: int | None = None
    ) -> None:
        self.index = index
        self.exclude = exclude
        self.n_jobs = n_jobs

    def fit(self, models: Any, y: Any = None) -> LayerMatcher:
        """Look up the names of the layers.

        Parameters
        ----------
        models : list of Layers, dict or path
            Models: collections of layers of the same names in the same order.
        y : None
            Ignored.

        Returns
        -------
        self : LayerMatcher
            The fitted estimator.

        Raises
        ------
        ValueError
            If there is no model, or their layers differ.
        """
        names = [as_layers(model, argument=f"models[{k}]").names for k, model in enumerate(models)]
        if not names:
            raise ValueError("models is empty; at least one model is needed to fit.")
        for k, other in enumerate(names):
            if other != names[0]:
                raise ValueError(f"models[{k}] has layers {other}, but models[0] has {names[0]}.")
        self.layer_names_ = names[0]
        self.n_models_ = len(names)
        return self

    def score(self, models: Any, y: Any = None) -> float:
        """Return the share of layers that find their counterpart, over all ordered pairs of models.

        Parameters
        ----------
        models : list of Layers, dict or path
            Two or more models with the layers seen by fit, over the same rows.
        y : None
            Ignored.

        Returns
        -------
        accuracy : float
            Between 0 and 1; one over the number of layers by chance.

        Raises
        ------
        ValueError
            If there are fewer than two models, or as :func:`layer_matching`.
        """
        check_is_fitted(self)
        result = layer_matching(models, self.index, exclude=self.exclude, n_jobs=self.n_jobs, verbose=0)
        expected = [name for name in self.layer_names_ if name in result.layer_names]
        if result.layer_names != expected:
            raise ValueError(f"The models have layers {result.layer_names}, those given to fit {self.layer_names_}.")
        return result.accuracy
