"""Value, chance level and z-score of a similarity over bandwidths: what a choice of bandwidth has to look at.

Biased CKA goes to 1 as the bandwidth goes to 0, for any data, and its chance level with it; the permutation z-score
parts the two. The distances between rows do not depend on the bandwidth and are computed once for all of them.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from tqdm.auto import tqdm

from sklearn_cka import _arrays, _validation, kernels
from sklearn_cka._arrays import Array
from sklearn_cka._layer_arrays import is_pandas
from sklearn_cka._line_display import line_styles
from sklearn_cka._radial import RadialDistances
from sklearn_cka.display import _import_pyplot, _index_label
from sklearn_cka.exceptions import UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import CenteredGramIndex, KernelIndex, KernelSpec
from sklearn_cka.indexes._registry import get_index, index_name
from sklearn_cka.layers import as_layers
from sklearn_cka.pairwise import _tiles

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BandwidthCurve", "BandwidthDisplay", "bandwidth_curve"]

# Two bandwidths an octave, from where most rows see nobody to where the kernel is all but linear.
_DEFAULT = 2.0 ** np.arange(-4.0, 3.25, 0.5)
_PAIRS_DRAWN = 8


@dataclass(frozen=True, eq=False)
class BandwidthCurve:
    """A similarity over bandwidths, for every pair of layers.

    Attributes
    ----------
    bandwidths : ndarray of shape (n_bandwidths,)
        The bandwidths, ascending, in units of the typical distance of each layer.
    values : ndarray of shape (n_bandwidths, n_rows, n_columns)
        Similarities; NaN where undefined.
    chance : ndarray of shape (n_bandwidths, n_rows, n_columns)
        Values expected without correspondence of the rows; NaN where the index has no closed form.
    z_scores : ndarray of shape (n_bandwidths, n_rows, n_columns)
        Permutation z-scores, as of :meth:`sklearn_cka.CKA.z_score`; NaN where undefined.
    row_names, column_names : list of str
        Names of the layers of the first and of the second collection; ``"X"`` and ``"y"`` for two matrices.
    index : BaseIndex
        The index, at the bandwidth it was given with.
    symmetric : bool
        Whether one collection was compared with itself by a symmetric index.
    n_samples : int
        Number of rows compared.
    """

    bandwidths: np.ndarray
    values: np.ndarray = field(repr=False)
    chance: np.ndarray = field(repr=False)
    z_scores: np.ndarray = field(repr=False)
    row_names: list[str]
    column_names: list[str]
    index: BaseIndex
    symmetric: bool = field(repr=False)
    n_samples: int

    def best(self) -> pd.DataFrame:
        """Return the bandwidth of the greatest z-score for every pair of layers.

        Returns
        -------
        DataFrame
            Columns ``row``, ``column``, ``bandwidth``, ``similarity``, ``chance`` and ``z``, one line a pair; NaN for
            pairs without a defined z-score. Of equal scores the smaller bandwidth is named.
        """
        import pandas as pd

        defined = ~np.isnan(self.z_scores)
        position = np.where(defined, self.z_scores, -np.inf).argmax(axis=0)
        known = defined.any(axis=0).ravel()

        def chosen(values: np.ndarray) -> np.ndarray:
            found = np.take_along_axis(values, position[None], axis=0).ravel()
            return np.where(known, found, math.nan)

        pairs = list(product(self.row_names, self.column_names))
        return pd.DataFrame(
            {
                "row": [row for row, _ in pairs],
                "column": [column for _, column in pairs],
                "bandwidth": np.where(known, self.bandwidths[position.ravel()], math.nan),
                "similarity": chosen(self.values),
                "chance": chosen(self.chance),
                "z": chosen(self.z_scores),
            }
        )

    def to_frame(self, tidy: bool = False) -> pd.DataFrame:
        """Return the curves as a pandas DataFrame.

        Parameters
        ----------
        tidy : bool, default=False
            Whether to return one line for every bandwidth and pair instead of one line a bandwidth.

        Returns
        -------
        DataFrame
            Rows are bandwidths; columns have the levels quantity (``similarity``, ``chance``, ``z``), row and column.
            If `tidy`, the columns ``bandwidth``, ``row``, ``column``, ``similarity``, ``chance`` and ``z``.
        """
        import pandas as pd

        quantities = {"similarity": self.values, "chance": self.chance, "z": self.z_scores}
        if not tidy:
            columns = pd.MultiIndex.from_product(
                [quantities, self.row_names, self.column_names], names=["quantity", "row", "column"]
            )
            flat = np.concatenate([values.reshape(len(values), -1) for values in quantities.values()], axis=1)
            return pd.DataFrame(flat, index=pd.Index(self.bandwidths, name="bandwidth"), columns=columns)
        keys = pd.MultiIndex.from_product(
            [self.bandwidths, self.row_names, self.column_names], names=["bandwidth", "row", "column"]
        )
        return pd.DataFrame({name: v.ravel() for name, v in quantities.items()}, index=keys).reset_index()

    def plot(self, axes: Any = None, *, pairs: Iterable[tuple[str, str]] | None = None) -> BandwidthDisplay:
        """Draw the curves in two panels, see :class:`BandwidthDisplay`.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        pairs : list of (row, column), default=None
            Names of the pairs of layers drawn; None is those of the greatest z-scores, eight at most, each once and
            none of a layer with itself.

        Returns
        -------
        BandwidthDisplay
            The display, with the figure as ``figure_``.
        """
        return BandwidthDisplay(self).plot(axes, pairs=pairs)


class BandwidthDisplay:
    """Two panels over bandwidths: similarity with its chance level, and z-score.

    Every pair of layers has a line of its own marker and grey level; its chance level is the dashed line of the same
    colour. The filled marker is the bandwidth of the greatest z-score.

    Parameters
    ----------
    curve : BandwidthCurve
        What to draw.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : tuple of two matplotlib Axes
        The panels of the similarities and of the z-scores.
    lines_ : dict of (row, column) to tuple of matplotlib Line2D
        The lines of every pair: similarity, chance level and z-score.
    """

    figure_: Any
    axes_: tuple[Any, Any]
    lines_: dict[tuple[str, str], tuple[Any, Any, Any]]

    def __init__(self, curve: BandwidthCurve) -> None:
        self.curve = curve

    def plot(self, axes: Any = None, *, pairs: Iterable[tuple[str, str]] | None = None) -> BandwidthDisplay:
        """Draw.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        pairs : list of (row, column), default=None
            Names of the pairs drawn, as for :meth:`BandwidthCurve.plot`.

        Returns
        -------
        BandwidthDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are not two axes, or a pair is not among those of the curve.
        """
        plt = _import_pyplot()
        drawn = self._pairs(pairs)
        if axes is None:
            _, axes = plt.subplots(2, 1, figsize=(5.5, 5.5), sharex=True, layout="constrained")
        if len(axes) != 2:
            raise ValueError(f"axes must be two panels, got {len(axes)}.")
        top, bottom = self.axes_ = tuple(axes)
        self.figure_ = top.figure
        curve = self.curve
        self.lines_ = {}
        for (i, j), style in zip(drawn, line_styles(len(drawn)), strict=True):
            name = curve.row_names[i], curve.column_names[j]
            label = " – ".join(name)
            z = curve.z_scores[:, i, j]
            color = style["color"]
            (value,) = top.plot(curve.bandwidths, curve.values[:, i, j], markerfacecolor="white", label=label, **style)
            (chance,) = top.plot(curve.bandwidths, curve.chance[:, i, j], color=color, linestyle="--", linewidth=1)
            (score,) = bottom.plot(curve.bandwidths, z, markerfacecolor="white", **style)
            if not np.isnan(z).all():
                best = int(np.nanargmax(z))
                for ax, height in ((top, curve.values[best, i, j]), (bottom, z[best])):
                    ax.plot(curve.bandwidths[best], height, color=color, marker=style["marker"], zorder=3)
            self.lines_[name] = value, chance, score
        if not np.isnan(curve.chance).all():
            top.plot([], [], color="0.4", linestyle="--", linewidth=1, label="by chance")
        bottom.axhline(0.0, color="0.6", linewidth=0.8)
        bottom.set_xscale("log", base=2)
        top.set_xscale("log", base=2)
        for ax in (top, bottom):
            ax.xaxis.set_major_formatter(lambda x, _: f"{x:.2g}")
        rule = getattr(curve.index, "bandwidth_rule", "median")
        bottom.set_xlabel("bandwidth" if rule == "none" else f"bandwidth, in {rule.split('_')[0]} distances")
        top.set_ylabel(_index_label(index_name(curve.index), {}))
        bottom.set_ylabel("z over permutations")
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(drawn) > 2 else {}
        top.legend(fontsize="small", **beside)
        return self

    def _pairs(self, pairs: Iterable[tuple[str, str]] | None) -> list[tuple[int, int]]:
        curve = self.curve
        rows, columns = curve.row_names, curve.column_names
        if pairs is not None:
            named = [tuple(pair) for pair in pairs]
            for pair in named:
                if len(pair) != 2 or pair[0] not in rows or pair[1] not in columns:
                    raise ValueError(
                        f"pairs names {pair!r}; a pair is one of {', '.join(rows)} with one of {', '.join(columns)}."
                    )
            return [(rows.index(row), columns.index(column)) for row, column in named]
        found = [(i, j) for i in range(len(rows)) for j in range(i + 1 if curve.symmetric else 0, len(columns))]
        found = found or [(0, 0)]
        defined = np.where(np.isnan(curve.z_scores), -np.inf, curve.z_scores).max(axis=0)
        kept = sorted(found, key=lambda pair: -defined[pair])[:_PAIRS_DRAWN]
        return sorted(kept)


def bandwidth_curve(
    a: Any,
    b: Any = None,
    index: str | BaseIndex = "cka",
    *,
    bandwidths: Sequence[float] | None = None,
    kernel: Any = "rbf",
    verbose: int = 1,
    **params: Any,
) -> BandwidthCurve:
    """Compute value, chance level and z-score of a similarity over bandwidths, for every pair of layers.

    The distances within every layer are computed once for all bandwidths.

    Parameters
    ----------
    a : array-like of shape (n_samples, n_features), or Layers, dict, list of arrays or path
        One representation, or a collection of layers as of :func:`~sklearn_cka.compare_layers`.
    b : array-like, or Layers, dict, list of arrays or path, default=None
        A second representation of the same rows (labels of shape (n_samples,) with ``kernel_y="delta"``) or a second
        collection; None compares the layers of `a` with each other.
    index : str or BaseIndex, default="cka"
        ``"cka"``, ``"hsic"``, ``"angular_cka"`` or an index of their classes. At any one bandwidth CKA and HSIC have
        the same z-scores.
    bandwidths : array-like of shape (n_bandwidths,), default=None
        Bandwidths in units of the typical distance of each layer, see :func:`~sklearn_cka.bandwidth_rule_names`; None
        is 1/16 to 8 in steps of half an octave.
    kernel : str, default="rbf"
        Kernel of `a`, for an index that is given by name: one with a bandwidth (``"rbf"``, ``"laplacian"``), unless
        `kernel_y` is.
    verbose : int, default=1
        Whether to show progress of what takes over a second; 0 is silent.
    **params
        Further parameters of the index, such as `debiased`, `kernel_y` and `bandwidth_rule`.

    Returns
    -------
    curve : BandwidthCurve
        With `values`, `chance` and `z_scores` of shape (n_bandwidths, n_rows, n_columns), ``best()``, ``to_frame()``
        and ``plot()``.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 4 rows, a bandwidth is not a positive number, or no
        kernel of the index has a bandwidth.
    TypeError
        If the index has no permutation z-score.

    Warns
    -----
    UndefinedSimilarityWarning
        If some values are undefined, as for constant layers or a bandwidth at which no two rows are alike.

    Notes
    -----
    Holds the distances and one Gram matrix of every layer: 16 n_samples^2 bytes a layer in float64. A kernel without
    a bandwidth on one side, such as ``kernel_y="delta"`` for class labels, stays the same over all bandwidths.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import bandwidth_curve
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-3, 3, size=(120, 1))
    >>> y = np.sin(2 * x) + 0.1 * rng.standard_normal((120, 1))
    >>> curve = bandwidth_curve(x, y, bandwidths=[0.001, 0.1, 0.2, 0.4, 1.6])
    >>> curve.to_frame(tidy=True)[["bandwidth", "similarity", "chance", "z"]].round(2)
       bandwidth  similarity  chance      z
    0        0.0        0.96    0.96   2.79
    1        0.1        0.36    0.13  22.78
    2        0.2        0.35    0.06  25.93
    3        0.4        0.31    0.03  23.91
    4        1.6        0.18    0.01  14.39
    >>> curve.best()["bandwidth"].tolist()
    [0.2]
    """
    made = get_index(index, **params) if isinstance(index, BaseIndex) else get_index(index, kernel=kernel, **params)
    _check_index(made)
    widths = _check_bandwidths(_DEFAULT if bandwidths is None else bandwidths)
    rows, columns, names_a, names_b = _layers_of_both(made, a, b)
    n = int(rows[0].shape[0])
    if n < 4:
        raise ValueError(_validation.too_few_samples("a", n, tuple(rows[0].shape), 4, "bandwidth_curve"))
    first, second = _Side(made, rows, 0), None if columns is None else _Side(made, columns, 1)
    if not (first.varies or (second is not None and second.varies)):
        raise ValueError(
            f"No kernel of {made!r} has a bandwidth to vary; kernels with one are 'rbf' and 'laplacian', without gamma."
        )
    results = np.full((3, len(widths), len(names_a), len(names_b)), math.nan)
    total = len(widths) * n**2
    with tqdm(total=total, desc="bandwidths", disable=verbose <= 0, delay=1.0, leave=False) as progress:
        for k, width in enumerate(widths.tolist()):
            at_width = clone(made).set_params(bandwidth=width)
            others = None if second is None else second.embed(at_width)
            _fill(at_width, first.embed(at_width), others, progress, results[:, k])
    values, chance, z_scores = results
    if np.isnan(values).any():
        i, j = np.argwhere(np.isnan(values).any(axis=0))[0]
        missing = ", ".join(f"{width:g}" for width in widths[np.isnan(values[:, i, j])])
        warn(
            UndefinedSimilarityWarning(
                f"{np.isnan(values).sum()} of {values.size} similarities are undefined (0/0), as for constant layers or"
                f" bandwidths at which no two rows are alike: {names_a[i]!r} and {names_b[j]!r} at {missing}."
            )
        )
    return BandwidthCurve(widths, values, chance, z_scores, names_a, names_b, made, columns is None, n)


def _check_index(index: BaseIndex) -> None:
    index._check_params()
    kind: Any = type(index)
    known = isinstance(index, CenteredGramIndex) and kind._embed_side is KernelIndex._embed_side
    if not known or "bandwidth" not in index.get_params(deep=False):
        raise TypeError(
            f"bandwidth_curve is for CKA, HSIC and AngularCKA, which have kernels and z-scores; got {index!r}."
        )


def _check_bandwidths(bandwidths: Any) -> np.ndarray:
    widths = np.asarray(bandwidths, dtype=np.float64)
    if widths.ndim != 1 or widths.size == 0:
        raise ValueError(f"bandwidths must be a list of positive numbers, got {bandwidths!r}.")
    for width in widths.tolist():
        _validation.check_positive("bandwidths", width)
    return np.sort(widths)


def _layers_of_both(index: BaseIndex, a: Any, b: Any) -> tuple[list[Array], list[Array] | None, list[str], list[str]]:
    """Return the checked layers of both sides (None: the first again) and their names."""
    single = [_is_matrix(side) for side in (a, b) if side is not None]
    if single[0] != single[-1]:
        raise ValueError("a and b must be two matrices or two collections of layers; got one of each.")
    if single[0]:
        if b is None:
            raise ValueError('a is one representation: give b, the other one, or a collection of layers {"name": a}.')
        X, y, _ = index._check_data(a, b, None)
        return [X], [y], ["X"], ["y"]
    rows = as_layers(a, argument="a")
    columns = rows if b is None else as_layers(b, argument="b")
    first, other = f"layer {rows.names[0]!r} of a", f"layer {columns.names[0]!r} of b"
    _validation.check_same_count(rows.n_rows, columns.n_rows, first, other)
    _validation.check_row_labels(rows.index, columns.index, "a", "b")
    reference = next(iter(rows.values()))
    checked = [_arrays.like(index._check_X(X, f"layer {name!r} of a"), reference) for name, X in rows.items()]
    if b is None and index.properties.symmetric and index.has_equal_sides:
        return checked, None, rows.names, rows.names
    argument = "a" if b is None else "b"
    return (
        checked,
        [_arrays.like(index._check_y(Y, f"layer {name!r} of {argument}"), reference) for name, Y in columns.items()],
        rows.names,
        columns.names,
    )


def _is_matrix(side: Any) -> bool:
    """Whether a side is one representation rather than a collection of layers."""
    if _arrays.is_array(side) or is_pandas(side, "Series"):
        return True
    if is_pandas(side, "DataFrame"):
        return side.columns.nlevels == 1
    if isinstance(side, (list, tuple)):
        return all(_is_entry(row) or (isinstance(row, (list, tuple)) and all(map(_is_entry, row))) for row in side)
    return hasattr(side, "__arrow_c_stream__")


def _is_entry(value: Any) -> bool:
    return isinstance(value, (numbers.Number, str))


class _Side:
    """The layers of one side: their distances where the kernel has a bandwidth, else what they are at any."""

    def __init__(self, index: Any, layers: list[Array], position: int) -> None:
        self.position = position
        spec, other = (clone(index).set_params(bandwidth=width)._specs()[position] for width in (1.0, 2.0))
        self.varies = kernels.has_bandwidth(spec.kernel) and spec.gamma is None and spec != other
        self.n_samples = int(layers[0].shape[0])
        self.distances: list[RadialDistances] = []
        self.fixed: list[GramEmbedding] = []
        if self.varies:
            self.distances = [RadialDistances(X, spec.kernel) for X in layers]
        else:
            self.fixed = [index._embed_side(X, spec, None) for X in layers]

    def embed(self, index: Any) -> list[GramEmbedding]:
        """Return the embeddings of all layers at the bandwidth of an index."""
        if not self.varies:
            return self.fixed
        spec: KernelSpec = index._specs()[self.position]
        grams = (distances.gram(spec.bandwidth, spec.bandwidth_rule) for distances in self.distances)
        return [index._embed_gram(gram, self.n_samples) for gram in grams]


def _fill(
    index: Any, rows: list[GramEmbedding], columns: list[GramEmbedding] | None, progress: Any, results: np.ndarray
) -> None:
    """Write values, chance levels and z-scores of all pairs at one bandwidth, shape (3, n_rows, n_columns)."""
    products = _tiles.matrix_products(rows, columns, progress)
    others = rows if columns is None else columns
    for i, left in enumerate(rows):
        for j, right in enumerate(others):
            if columns is None and j < i:
                results[:, i, j] = results[:, j, i]
                continue
            inner = float(products[i, j])
            value = index.normalize(inner, left.self_inner("gram"), right.self_inner("gram"), left, right)
            results[:, i, j] = value, index.chance(left, right), index._z_of(left, right, inner)
