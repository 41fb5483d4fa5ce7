"""`LineDisplay`: similarities of a few layers as lines over the layers of another collection, with error bars.

Like the other displays it draws arrays with names. Lines differ in marker and in lightness, so that they are told
apart in print and without colour vision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sklearn_cka.display import _check_names, _import_pyplot, _index_label, shorten_names

__all__ = ["LineDisplay"]

_MARKERS = "osD^v<>P"
# Lines drawn unless some are asked for; the lightest end of viridis is too pale for one.
_LINES_DRAWN, _LIGHTEST = len(_MARKERS), 0.8
_NAME_SHOWN, _NAMES_SHOWN = 20, 30


def line_styles(n: int) -> list[dict[str, Any]]:
    """Return the colour and the marker of n lines, from dark to light."""
    import matplotlib as mpl

    shades = mpl.colormaps["viridis"](np.linspace(0.0, _LIGHTEST, n))
    return [
        {"color": shade, "marker": _MARKERS[k % len(_MARKERS)], "markersize": 5, "linewidth": 1.2}
        for k, shade in enumerate(shades)
    ]


class LineDisplay:
    """One line a row of a table, over its columns: how similar a layer is to those of another depth.

    It is recommended to create one by `SimilarityTable.plot_lines` or :meth:`from_table`.

    Parameters
    ----------
    values : array-like of shape (n_lines, n_columns)
        Similarities; NaN where undefined.
    standard_error : array-like of shape (n_lines, n_columns), default=None
        Half the length of the error bars; none are drawn if None.
    row_names : sequence of str, default=None
        Names of the lines; their positions if None.
    column_names : sequence of str, default=None
        Names of the columns; their positions if None.
    label : str, default="similarity"
        Label of the y axis.
    column_label : str, default=None
        Label of the x axis.

    Attributes
    ----------
    lines_ : list of matplotlib ErrorbarContainer
        The lines with their error bars.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure containing them.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn_cka import LineDisplay
    >>> display = LineDisplay([[0.9, 0.4]], [[0.02, 0.05]], ["conv"], ["conv", "fc"], label="CKA").plot()
    >>> display.ax_.get_ylabel()
    'CKA'
    """

    lines_: list[Any]
    ax_: Any
    figure_: Any

    def __init__(
        self,
        values: Any,
        standard_error: Any = None,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
        *,
        label: str = "similarity",
        column_label: str | None = None,
    ) -> None:
        self.values = values
        self.standard_error = standard_error
        self.row_names = row_names
        self.column_names = column_names
        self.label = label
        self.column_label = column_label

    @classmethod
    def from_table(cls, table: Any, *, rows: Iterable[str] | None = None, **kwargs: Any) -> LineDisplay:
        """Draw rows of a similarity table, with error bars where it has standard errors.

        Parameters
        ----------
        table : SimilarityTable
            The table.
        rows : list of str, default=None
            Names of the rows drawn; None is all, or eight evenly spaced ones of more.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        LineDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If a name is not that of a row.
        """
        names = list(table.row_names)
        if rows is None:
            positions = np.unique(np.linspace(0, len(names) - 1, min(len(names), _LINES_DRAWN)).round().astype(int))
        else:
            asked = [rows] if isinstance(rows, str) else list(rows)
            unknown = [name for name in asked if name not in names]
            if unknown or not asked:
                raise ValueError(f"rows names {unknown or 'nothing'}; the rows are {', '.join(names)}.")
            positions = np.array([names.index(name) for name in asked])
        one_side = table.symmetric
        display = cls(
            table.values[positions],
            None if table.standard_error is None else table.standard_error[positions],
            [names[k] for k in positions],
            table.column_names,
            label=_index_label(table.index, table.params),
            column_label="layer" if one_side else "layer of the second model",
        )
        return display.plot(**kwargs)

    def plot(self, ax: Any = None) -> LineDisplay:
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        LineDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the values are not a matrix, or the errors or names do not fit them.
        """
        plt = _import_pyplot()
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"values must have shape (n_lines, n_columns), got {values.shape}.")
        errors = None if self.standard_error is None else np.asarray(self.standard_error, dtype=np.float64)
        if errors is not None and errors.shape != values.shape:
            raise ValueError(f"standard_error must have the shape of values, {values.shape}; got {errors.shape}.")
        rows = shorten_names(_check_names(self.row_names, values.shape[0], "row_names"), _NAME_SHOWN)
        columns = shorten_names(_check_names(self.column_names, values.shape[1], "column_names"), _NAME_SHOWN)
        if ax is None:
            width = min(max(0.35 * len(columns), 4.0), 12.0)
            _, ax = plt.subplots(figsize=(width + 2.0, 3.8), layout="constrained")
        places = np.arange(len(columns))
        self.lines_ = [
            ax.errorbar(
                places, values[k], yerr=None if errors is None else errors[k], capsize=3, label=rows[k], **style
            )
            for k, style in enumerate(line_styles(len(rows)))
        ]
        step = -(-len(columns) // _NAMES_SHOWN)
        ax.set_xticks(places[::step], labels=columns[::step], rotation=90)
        ax.margins(x=0.5 / len(columns))
        ax.set_ylabel(self.label)
        if self.column_label:
            ax.set_xlabel(self.column_label)
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        self.ax_, self.figure_ = ax, ax.figure
        return self
