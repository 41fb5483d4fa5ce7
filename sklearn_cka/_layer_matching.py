"""Layer matching: a sanity check of similarity indexes, and a benchmark of them.

Networks of one architecture, trained from different seeds, have layers that correspond. For every ordered pair of
models and every layer of the first, an index should find the most similar layer of the second in the same place; the
accuracy is the share of layers for which it does. Errors are jackknifed over models, the independent units of the
experiment.

Reference: Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML,
section 6.1 and appendix D.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from sklearn_cka import _arrays, _resampling
from sklearn_cka._validation import check_row_labels, check_same_count
from sklearn_cka.display import SimilarityDisplay
from sklearn_cka.exceptions import ChanceLevelWarning, DegenerateSimilarityWarning
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._registry import get_index, index_names
from sklearn_cka.layers import Layers, as_layers
from sklearn_cka.pairwise import compare_layers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LayerMatchingResult", "benchmark_indexes", "layer_matching"]


@dataclass(frozen=True, eq=False)
class LayerMatchingResult:
    """How often an index finds the counterpart of a layer in another model.

    Attributes
    ----------
    accuracy : float
        Share of layers, over all ordered pairs of models, whose most similar layer is their counterpart.
    standard_error : float
        Jackknife standard error over models; NaN for two models.
    leave_one_out : ndarray of shape (n_models,)
        The accuracy without each model.
    confusion : ndarray of shape (n_layers, n_layers)
        How often a layer (row) was matched with each layer (column) of another model.
    layer_names : list of str
        Names of the layers compared.
    n_models : int
        Number of models.
    index : BaseIndex
        The index.
    """

    accuracy: float
    standard_error: float
    leave_one_out: np.ndarray = field(repr=False)
    confusion: np.ndarray = field(repr=False)
    layer_names: list[str] = field(repr=False)
    n_models: int
    index: BaseIndex

    @property
    def layer_accuracy(self) -> np.ndarray:
        """Accuracy of every layer, shape (n_layers,)."""
        return np.diagonal(self.confusion) / (self.n_models * (self.n_models - 1))

    def to_frame(self) -> pd.DataFrame:
        """Return the confusion as a DataFrame: rows are layers, columns what they were matched with."""
        import pandas as pd

        return pd.DataFrame(self.confusion, index=self.layer_names, columns=self.layer_names)

    def z_test(self, other: LayerMatchingResult) -> tuple[float, float]:
        """Test whether two indexes differ in accuracy on the same models.

        Parameters
        ----------
        other : LayerMatchingResult
            The result of another index for the same models in the same order.

        Returns
        -------
        z : float
            Difference of the accuracies over its jackknife standard error over models, the two paired by model.
        pvalue : float
            Two-sided, by the normal distribution. A difference of zero has z = 0 and p = 1.

        Raises
        ------
        ValueError
            If the results have different numbers of models or layers.
        """
        if (self.n_models, self.layer_names) != (other.n_models, other.layer_names):
            raise ValueError("z_test compares results for the same models and layers.")
        return _z_test(self.accuracy - other.accuracy, self.leave_one_out - other.leave_one_out)

    def plot(self, ax: Any = None, **kwargs: Any) -> SimilarityDisplay:
        """Draw the shares of the confusion as a heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs : dict
            Passed to :meth:`SimilarityDisplay.plot`.

        Returns
        -------
        SimilarityDisplay
            The display, with the figure as ``figure_``.
        """
        display = SimilarityDisplay(
            self.confusion / (self.n_models * (self.n_models - 1)),
            self.layer_names,
            self.layer_names,
            label="share of pairs of models",
            row_label="layer",
            column_label="most similar layer",
            bounds=(0.0, 1.0),
        )
        return display.plot(ax=ax, **kwargs)


def _z_test(difference: float, leave_one_out: np.ndarray) -> tuple[float, float]:
    from scipy.stats import norm

    if difference == 0.0:
        return 0.0, 1.0
    if leave_one_out.shape[0] < 3:
        return math.nan, math.nan
    error = float(_resampling.standard_error(leave_one_out))
    z = difference / error if error > 0.0 else math.copysign(math.inf, difference)
    return z, float(2.0 * norm.sf(abs(z)))


def layer_matching(
    models: Iterable[Any],
    index: str | BaseIndex = "cka",
    *,
    exclude: str | Sequence[str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 1,
    **params: Any,
) -> LayerMatchingResult:
    """Ask how often an index finds the counterpart of a layer in other models of the same architecture.

    All layers of all models are compared in one table, so that each is embedded once. Where an index treats its sides
    differently, both directions are added.

    Parameters
    ----------
    models : iterable of Layers, dict or path
        Two or more models: collections of layers of the same names in the same order, over the same rows.
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index.
    exclude : str or list of str, default=None
        Layers that take no part, such as the logits, which are alike because they are trained to be.
    n_jobs : int, default=None
        Threads, as for :func:`~sklearn_cka.compare_layers`.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.
    **params
        Parameters of the index.

    Returns
    -------
    result : LayerMatchingResult
        With `accuracy`, `standard_error` (jackknife over models), `confusion` and a :meth:`~LayerMatchingResult.z_test`
        against the result of another index.

    Raises
    ------
    ValueError
        If there are fewer than two models or layers, or the models differ in their layers or rows.

    Notes
    -----
    A layer whose similarities are all undefined is matched with none. Of several equally similar layers the first is
    the match.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import layer_matching
    >>> rng = np.random.default_rng(0)
    >>> inputs = rng.standard_normal((200, 10))
    >>> layers = [inputs, inputs[:, :5] ** 3, np.abs(inputs)]
    >>> def model():
    ...     return {f"layer{i}": X @ rng.standard_normal((X.shape[1], 50)) for i, X in enumerate(layers)}
    >>> models = [model() for _ in range(4)]
    >>> layer_matching(models, debiased=True).accuracy
    1.0
    >>> layer_matching(models, "hsic").accuracy < 1
    True
    """
    made = get_index(index, **params)
    collections = _check_models(models, exclude)
    return _match(collections, made, n_jobs, verbose)


def _match(models: list[Layers], index: BaseIndex, n_jobs: int | None, verbose: int) -> LayerMatchingResult:
    names = models[0].names
    n_layers, m = len(names), len(models)
    everything = Layers({f"{k}:{name}": X for k, model in enumerate(models) for name, X in model.items()})
    values = compare_layers(everything, index=index, n_jobs=n_jobs, verbose=verbose).values
    if not (index.properties.symmetric and index.has_equal_sides):
        values = values + values.T
    # Similarity of layer l of model i with layer k of model j, as [i, l, j, k].
    by_model = values.reshape(m, n_layers, m, n_layers)
    known = ~np.isnan(by_model)
    best = np.where(known, by_model, -np.inf).argmax(axis=3)  # [i, l, j]
    matched = known.any(axis=3) & ~np.eye(m, dtype=bool)[:, None, :]
    hits = (best == np.arange(n_layers)[None, :, None]) & matched
    confusion = np.zeros((n_layers, n_layers), dtype=int)
    layer, found = np.broadcast_to(np.arange(n_layers)[None, :, None], best.shape)[matched], best[matched]
    np.add.at(confusion, (layer, found), 1)
    per_pair = hits.sum(axis=1)  # [i, j], 0 on the diagonal
    total = int(per_pair.sum())
    left_out = np.full(m, math.nan)
    if m > 2:
        without = total - per_pair.sum(axis=0) - per_pair.sum(axis=1)
        left_out = without / (n_layers * (m - 1) * (m - 2))
    return LayerMatchingResult(
        accuracy=total / (n_layers * m * (m - 1)),
        standard_error=float(_resampling.standard_error(left_out)),
        leave_one_out=left_out,
        confusion=confusion,
        layer_names=names,
        n_models=m,
        index=index,
    )


def _check_models(models: Iterable[Any], exclude: str | Sequence[str] | None) -> list[Layers]:
    """Return the models as collections of the same layers over the same rows."""
    if isinstance(models, (Mapping, Layers)) or _arrays.is_array(models):
        raise ValueError(f"models must be a list of models, got one {type(models).__name__}.")
    collections = [as_layers(model, argument=f"models[{k}]") for k, model in enumerate(models)]
    if len(collections) < 2:
        raise ValueError(f"models holds {len(collections)} model(s); layers are matched between at least 2.")
    first = collections[0]
    left_out = [exclude] if isinstance(exclude, str) else list(exclude or ())
    unknown = [name for name in left_out if name not in first]
    if unknown:
        raise ValueError(
            f"exclude names {unknown[0]!r}, which is not a layer; the layers are {', '.join(first.names)}."
        )
    for k, model in enumerate(collections):
        if model.names != first.names:
            raise ValueError(f"models[{k}] has layers {model.names}, but models[0] has {first.names}.")
        check_same_count(first.n_rows, model.n_rows, "models[0]", f"models[{k}]")
        check_row_labels(first.index, model.index, "models[0]", f"models[{k}]")
    kept = [name for name in first.names if name not in left_out]
    if len(kept) < 2:
        raise ValueError(f"{len(kept)} layer(s) are left to match; at least 2 are needed.")
    return [model.select(*kept) for model in collections]


def benchmark_indexes(
    models: Iterable[Any],
    indexes: Mapping[str, str | BaseIndex] | Iterable[str | BaseIndex] | None = None,
    *,
    exclude: str | Sequence[str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 1,
) -> pd.DataFrame:
    """Compare similarity indexes by layer matching, as table 2 of Kornblith et al. (2019) does.

    Parameters
    ----------
    models : iterable of Layers, dict or path
        Two or more models, as for :func:`layer_matching`.
    indexes : dict of name to index, or list of names and indexes, default=None
        What to compare; None is every index that takes two representations of any widths by its defaults, those
        that need an extra excepted.
    exclude : str or list of str, default=None
        Layers that take no part, such as the logits.
    n_jobs : int, default=None
        Threads, as for :func:`~sklearn_cka.compare_layers`.
    verbose : int, default=1
        Whether to show progress; 0 is silent.

    Returns
    -------
    DataFrame
        One line an index, in the order given, with ``index`` (its name), ``accuracy``, ``standard_error`` (jackknife
        over models), ``z`` and ``pvalue`` of its difference from the best (jackknife over models), and ``seconds``.

    Raises
    ------
    ValueError
        As :func:`layer_matching`, or if no index is given.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CKA, benchmark_indexes
    >>> rng = np.random.default_rng(0)
    >>> inputs = rng.standard_normal((100, 10))
    >>> layers = [inputs, inputs[:, :5] ** 3, np.abs(inputs)]
    >>> def model():
    ...     return {f"layer{i}": X @ rng.standard_normal((X.shape[1], 20)) for i, X in enumerate(layers)}
    >>> indexes = {"CKA": CKA(), "RBF CKA": CKA("rbf", bandwidth=0.8), "PWCCA": "pwcca"}
    >>> frame = benchmark_indexes([model() for _ in range(3)], indexes, verbose=0)
    >>> frame[["index", "accuracy"]]
         index  accuracy
    0      CKA       1.0
    1  RBF CKA       1.0
    2    PWCCA       1.0
    """
    import pandas as pd

    collections = _check_models(models, exclude)
    named = _named_indexes(indexes)
    results, seconds = [], []
    for name, index in tqdm(named.items(), desc="indexes", disable=verbose <= 0, delay=1.0, leave=False):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # That a value is mostly chance, or says little, is what the accuracy shows.
                for kind in (ChanceLevelWarning, DegenerateSimilarityWarning):
                    warnings.simplefilter("ignore", kind)
                results.append(_match(collections, index, n_jobs, 0))
        except (ValueError, TypeError) as error:
            raise ValueError(f"Index {name!r} cannot match these layers: {error}") from error
        seconds.append(time.perf_counter() - start)
    best = max(results, key=lambda result: result.accuracy)
    tests = [result.z_test(best) for result in results]
    return pd.DataFrame(
        {
            "index": list(named),
            "accuracy": [result.accuracy for result in results],
            "standard_error": [result.standard_error for result in results],
            "z": [z for z, _ in tests],
            "pvalue": [p for _, p in tests],
            "seconds": seconds,
        }
    )


def _named_indexes(indexes: Any) -> dict[str, BaseIndex]:
    if indexes is None:
        named = {name: get_index(name) for name in index_names()}
        return {
            name: index for name, index in named.items() if not index.properties.equal_widths and index.extra is None
        }
    if isinstance(indexes, (str, BaseIndex)):
        indexes = [indexes]
    if not isinstance(indexes, Mapping):
        given = list(indexes)
        made = [get_index(index) for index in given]
        labels = [index if isinstance(index, str) else repr(index) for index in given]
        if len(set(labels)) < len(labels):
            raise ValueError(f"indexes names {max(labels, key=labels.count)} more than once; give a dict of names.")
        indexes = dict(zip(labels, made, strict=True))
    if not indexes:
        raise ValueError(f"indexes is empty; valid names are {', '.join(index_names())}.")
    return {str(name): get_index(index) for name, index in indexes.items()}
