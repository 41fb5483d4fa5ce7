"""Linear probes: what a linear classifier can read from every layer, beside how similar the layers are.

Where a network wastes its depth, linear CKA between neighbouring layers is high and the accuracy of a probe no longer
rises (Kornblith et al. 2019, figure 3).

References: Alain & Bengio (2016), "Understanding intermediate layers using linear classifier probes",
arXiv:1610.01644; Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited",
ICML, section 6.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm.auto import tqdm

from sklearn_cka import _arrays
from sklearn_cka._validation import check_labels, check_same_count
from sklearn_cka.display import SimilarityDisplay, _import_pyplot, shorten_names
from sklearn_cka.layers import as_layers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ProbeDisplay", "ProbeResult", "probe_layers"]


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """How well the classes can be read from every layer.

    Attributes
    ----------
    layer_names : list of str
        Names of the layers.
    scores : ndarray of shape (n_layers, n_folds)
        Score of every layer on every held-out fold.
    scoring : str
        What the scores are.
    """

    layer_names: list[str]
    scores: np.ndarray = field(repr=False)
    scoring: str = "accuracy"

    @property
    def mean(self) -> np.ndarray:
        """Mean score of every layer over the folds, shape (n_layers,)."""
        return self.scores.mean(axis=1)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of the means over the folds, shape (n_layers,).

        Folds share rows they train on, so that it is somewhat too small.
        """
        return self.scores.std(axis=1, ddof=1) / math.sqrt(self.scores.shape[1])

    def to_frame(self) -> pd.DataFrame:
        """Return one line a layer.

        Returns
        -------
        DataFrame
            Columns ``layer``, ``score`` and ``standard_error``.
        """
        import pandas as pd

        return pd.DataFrame({"layer": self.layer_names, "score": self.mean, "standard_error": self.standard_error})

    def plot(self, table: Any = None, axes: Any = None) -> ProbeDisplay:
        """Draw the scores, under a table of similarities if one is given, see :class:`ProbeDisplay`.

        Parameters
        ----------
        table : SimilarityTable, default=None
            The same layers, compared with each other.
        axes : matplotlib Axes or sequence of two, default=None
            Where to draw: one without a table, two with one; a new figure if None.

        Returns
        -------
        ProbeDisplay
            The display, with the figure as ``figure_``.
        """
        return ProbeDisplay(self, table).plot(axes)


class ProbeDisplay:
    """Scores of linear probes over depth, under the similarities of the layers if they are given.

    Parameters
    ----------
    result : ProbeResult
        The scores.
    table : SimilarityTable, default=None
        The same layers, compared with each other.

    Attributes
    ----------
    axes_ : tuple of matplotlib Axes
        The panel of the similarities, if there is one, and that of the scores.
    figure_ : matplotlib Figure
        The figure.
    """

    axes_: tuple[Any, ...]
    figure_: Any

    def __init__(self, result: ProbeResult, table: Any = None) -> None:
        self.result = result
        self.table = table

    def plot(self, axes: Any = None) -> ProbeDisplay:
        """Draw.

        Parameters
        ----------
        axes : matplotlib Axes or sequence of two, default=None
            Where to draw: one without a table, two with one; a new figure if None.

        Returns
        -------
        ProbeDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the table has other layers, or the number of axes does not fit.
        """
        plt = _import_pyplot()
        names = self.result.layer_names
        wanted = 1 if self.table is None else 2
        if self.table is not None and not names == list(self.table.row_names) == list(self.table.column_names):
            raise ValueError("table must compare the probed layers with each other, in the same order.")
        if axes is None:
            width = min(max(0.35 * len(names), 4.0), 12.0)
            height = 2.8 if wanted == 1 else 2.8 + width
            ratios = [1] if wanted == 1 else [width, 2.8]
            _, axes = plt.subplots(
                wanted, 1, figsize=(width + 1.0, height), layout="constrained", height_ratios=ratios, squeeze=False
            )
        self.axes_ = tuple(np.ravel(np.asarray(axes, dtype=object)))
        if len(self.axes_) != wanted:
            raise ValueError(f"axes must be {wanted} panel(s), got {len(self.axes_)}.")
        self.figure_ = self.axes_[0].figure
        if self.table is not None:
            SimilarityDisplay.from_table(self.table, ax=self.axes_[0])
        self._plot_scores(self.axes_[-1], shorten_names(names, 20))
        return self

    def _plot_scores(self, ax: Any, names: list[str]) -> None:
        places = np.arange(len(names))
        ax.errorbar(
            places, self.result.mean, yerr=self.result.standard_error, color="black", marker="o", capsize=3, linewidth=1
        )
        step = max(1, math.ceil(len(names) / 30))
        ax.set_xticks(places[::step], labels=names[::step], rotation=90)
        ax.set_ylabel(self.result.scoring.replace("_", " ") + " of a linear probe")
        ax.set_xlabel("layer")
        ax.margins(x=0.5 / max(len(names), 1))


def probe_layers(
    layers: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    estimator: BaseEstimator | None = None,
    scoring: str = "accuracy",
    random_state: int | None = 0,
    n_jobs: int | None = None,
    verbose: int = 1,
) -> ProbeResult:
    """Cross-validate a linear classifier on every layer.

    Parameters
    ----------
    layers : Layers, dict, list, DataFrame or path
        Layers over the same n_samples rows, whatever :class:`~sklearn_cka.Layers` takes; those of other array
        libraries are copied to NumPy for the classifier.
    y : array-like of shape (n_samples,)
        Class of every row.
    cv : int or cross-validation splitter, default=5
        A number of stratified folds, shuffled by `random_state` (with `groups`, folds that part no group), or any
        splitter of scikit-learn.
    groups : array-like of shape (n_samples,), default=None
        Rows that belong together, such as the words of a sentence: no group is both trained on and tested.
    estimator : classifier, default=None
        The probe; None is a logistic regression on standardised features.
    scoring : str, default="accuracy"
        A scorer name of scikit-learn.
    random_state : int or None, default=0
        Seed of the folds.
    n_jobs : int, default=None
        Folds in parallel, as for :func:`sklearn.model_selection.cross_val_score`.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.

    Returns
    -------
    result : ProbeResult
        With `scores` of shape (n_layers, n_folds), `mean` and `standard_error` of every layer, and a plot.

    Raises
    ------
    ValueError
        If `y` has another number of rows or a layer is not finite (the message names it), or `estimator` is no
        classifier.

    References
    ----------
    Alain & Bengio (2016), "Understanding intermediate layers using linear classifier probes", arXiv:1610.01644.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_cka import probe_layers
    >>> X, y = load_iris(return_X_y=True)
    >>> result = probe_layers({"sepal": X[:, :2], "petal": X[:, 2:]}, y)
    >>> result.to_frame().round(2)
       layer  score  standard_error
    0  sepal   0.81            0.01
    1  petal   0.96            0.01
    """
    collection = as_layers(layers, argument="layers")
    labels = np.ravel(_arrays.to_numpy(check_labels(y, "y")))
    check_same_count(collection.n_rows, labels.shape[0], "layers", "y")
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)) if estimator is None else estimator
    if not is_classifier(probe):
        raise ValueError(f"estimator must be a classifier, got {probe!r}.")
    if isinstance(cv, (int, np.integer)):
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = kind(cv, shuffle=True, random_state=random_state)
    scores = []
    for name, array in tqdm(
        collection.items(), desc="probing layers", disable=verbose <= 0, delay=1.0, leave=False, total=len(collection)
    ):
        try:
            scores.append(
                cross_val_score(
                    clone(probe),
                    _arrays.to_numpy(array),
                    labels,
                    groups=groups,
                    cv=cv,
                    scoring=scoring,
                    n_jobs=n_jobs,
                    error_score="raise",
                )
            )
        except ValueError as error:
            raise ValueError(f"layer {name!r}: {error}") from error
    return ProbeResult(collection.names, np.array(scores), scoring)
