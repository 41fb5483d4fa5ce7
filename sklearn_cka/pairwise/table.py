"""`SimilarityTable`: the similarities of all pairs of layers, with their names and their chance levels."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_cka._line_display import LineDisplay
from sklearn_cka.display import SimilarityDisplay, default_format, describe_value, format_value, shorten_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SimilarityTable"]

# Differences between a symmetric table and its mirror image beyond rounding in float32.
_ASYMMETRY_TOLERANCE = 1e-5
# A chance level this close to the maximum leaves nothing to adjust: the difference is rounding.
_NO_ROOM_ABOVE_CHANCE = 1e-9
# What is printed whole: more lines or characters do not fit a terminal.
_ROWS_PRINTED, _WIDTH_PRINTED = 24, 110
_NAME_PRINTED = 24
_UNDEFINED = "-"


@dataclass(frozen=True, eq=False, repr=False)
class SimilarityTable:
    """Similarities of the layers of one collection (rows) with those of another (columns).

    Made by `compare_layers`.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Similarities; NaN where undefined, as for a constant layer.
    chance : ndarray of shape (n_rows, n_columns) or None
        Value expected of every pair if the examples of one side had no correspondence to those of the other; NaN where
        unknown. None is NaN everywhere.
    row_names : list of str
        Layers of the first collection, in order.
    column_names : list of str
        Layers of the second collection, in order.
    index : str
        Name of the similarity index.
    params : dict
        Parameters of the index that differ from its defaults.
    symmetric : bool
        Whether the table compares one collection with itself by a symmetric index, so that it equals its transpose.
    n_samples : int
        Number of examples (rows of the arrays) compared.
    plan : object, default=None
        How the table was computed, for the curious.
    output : {"similarity", "distance"}, default="similarity"
        Whether the values are similarities or distances, of which the smallest is the best.
    bounds : (float, float), default=None
        Least and greatest value that the index can take, where known; infinite where it has no bound.
    standard_error : ndarray of shape (n_rows, n_columns), default=None
        Standard error of every similarity, where `table_inference` computed it.
    pvalue : ndarray of shape (n_rows, n_columns), default=None
        p-value of every pair, adjusted for their number if that was asked for.
    rows : ndarray of shape (n_samples,), default=None
        Positions of the examples compared, ascending, where `compare_layers` chose them by `tol`; None for all.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import SimilarityTable
    >>> table = SimilarityTable(
    ...     values=np.array([[0.9, 0.2], [0.3, np.nan]]),
    ...     chance=np.array([[0.1, 0.1], [0.2, np.nan]]),
    ...     row_names=["conv", "fc"],
    ...     column_names=["conv", "dead"],
    ...     index="cka",
    ...     params={},
    ...     symmetric=False,
    ...     n_samples=100,
    ... )
    >>> table
    SimilarityTable: cka, 2 x 2 layers, 100 samples
           conv   dead
    conv  0.900  0.200
    fc    0.300      -
    >>> table.adjusted.round(3)
    array([[0.889, 0.111],
           [0.125,   nan]])
    """

    values: np.ndarray
    chance: np.ndarray
    row_names: list[str]
    column_names: list[str]
    index: str
    params: dict[str, Any]
    symmetric: bool
    n_samples: int
    plan: object | None = None
    bounds: tuple[float, float] | None = None
    output: str = "similarity"
    standard_error: np.ndarray | None = None
    pvalue: np.ndarray | None = None
    rows: np.ndarray | None = None

    def __post_init__(self) -> None:
        values = _read_only(self.values, "values")
        shape = values.shape
        given: Any = self.chance
        chance = _read_only(np.full(shape, np.nan) if given is None else given, "chance")
        if self.n_samples < 1:
            raise ValueError(f"`n_samples` must be at least 1; got {self.n_samples}.")
        if chance.shape != shape:
            raise ValueError(f"`chance` must have the shape of `values`, {shape}; got {chance.shape}.")
        for name in ("standard_error", "pvalue"):
            further = getattr(self, name)
            if further is not None:
                further = _read_only(further, name)
                if further.shape != shape:
                    raise ValueError(f"`{name}` must have the shape of `values`, {shape}; got {further.shape}.")
                object.__setattr__(self, name, further)
        row_names = _names(self.row_names, "row_names", shape[0])
        column_names = _names(self.column_names, "column_names", shape[1])
        if self.symmetric:
            if row_names != column_names:
                raise ValueError("A symmetric table needs the same names on both sides, in the same order.")
            if not np.allclose(values, values.T, rtol=_ASYMMETRY_TOLERANCE, atol=_ASYMMETRY_TOLERANCE, equal_nan=True):
                raise ValueError("`values` differ from their transpose, but the table is said to be symmetric.")
        for name, value in [
            ("values", values),
            ("chance", chance),
            ("row_names", row_names),
            ("column_names", column_names),
            ("params", dict(self.params)),
            ("symmetric", bool(self.symmetric)),
            ("n_samples", int(self.n_samples)),
        ]:
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.row_names), len(self.column_names)

    @property
    def adjusted(self) -> np.ndarray:
        """Similarities adjusted for chance, ``(s - E) / (1 - E)`` with `chance` as E: 0 at chance level, 1 at most.

        NaN where the chance level is unknown or itself 1. This is the adjustment of the adjusted Rand index, and it
        needs an index whose greatest value is 1 (ValueError for others).
        """
        if self.output == "distance":
            raise ValueError("Distances have no chance-adjusted form; ask for the table of similarities.")
        if self.bounds is not None and self.bounds[1] != 1:
            raise ValueError(f"Only an index with maximum 1 can be adjusted for chance; {self.index!r} is not one.")
        room = 1 - self.chance
        room[room <= _NO_ROOM_ABOVE_CHANCE] = np.nan
        return (self.values - self.chance) / room

    def to_frame(self, tidy: bool = False) -> pd.DataFrame:
        """Return the table as a pandas DataFrame.

        Parameters
        ----------
        tidy : bool, default=False
            Whether to return one line per pair instead of a rectangle.

        Returns
        -------
        DataFrame
            Rows are the layers of the first collection, columns those of the second. If `tidy`, the columns ``row``,
            ``column``, ``similarity`` (``distance`` in a table of distances) and ``chance``, row by row, and
            ``standard_error`` and ``pvalue`` where the table has them.
        """
        import pandas as pd

        if not tidy:
            return pd.DataFrame(self.values.copy(), index=self.row_names, columns=self.column_names)
        n_rows, n_columns = self.shape
        columns = {
            "row": np.repeat(np.array(self.row_names, dtype=object), n_columns),
            "column": np.tile(np.array(self.column_names, dtype=object), n_rows),
            self.output: self.values.ravel(),
            "chance": self.chance.ravel(),
        }
        for name in ("standard_error", "pvalue"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name).ravel()
        return pd.DataFrame(columns)

    def best_match(self, *, exclude_self: bool = False) -> pd.DataFrame:
        """Return the most similar layer of the second collection for every layer of the first.

        Parameters
        ----------
        exclude_self : bool, default=False
            Whether to leave out the pairs of equal name, for tables that compare a collection with itself.

        Returns
        -------
        DataFrame
            Columns ``row``, ``column`` and ``similarity`` (``distance`` in a table of distances, where the smallest is
            the best), in the order of the rows. Of several equally similar layers the first is named; where no
            similarity is defined, ``column`` is None and ``similarity`` NaN.
        """
        import pandas as pd

        values = np.array(self.values)
        if exclude_self:
            values[np.equal.outer(np.array(self.row_names), np.array(self.column_names))] = np.nan
        known = ~np.isnan(values)
        best = np.where(known, values if self.output == "similarity" else -values, -np.inf).argmax(1)
        columns = [self.column_names[j] if known[i].any() else None for i, j in enumerate(best)]
        return pd.DataFrame(
            {
                "row": self.row_names,
                "column": pd.Series(columns, dtype=object),
                self.output: values[np.arange(len(best)), best],
            }
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> SimilarityDisplay:
        """Draw the table as a heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs : dict
            Passed to `SimilarityDisplay.from_table`, such as ``alpha=0.05`` to leave pairs blank whose p-value is above
            it.

        Returns
        -------
        SimilarityDisplay
            The display, with the figure as ``figure_``.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return SimilarityDisplay.from_table(self, ax=ax, **kwargs)

    def plot_lines(self, ax: Any = None, **kwargs: Any) -> LineDisplay:
        """Draw rows of the table as lines over its columns, with error bars where it has standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure if None.
        **kwargs : dict
            Passed to `LineDisplay.from_table`, such as ``rows=["conv1", "fc"]``.

        Returns
        -------
        LineDisplay
            The display, with the figure as ``figure_``.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        return LineDisplay.from_table(self, ax=ax, **kwargs)

    def _formatter(self) -> Callable[[float], str]:
        spec = default_format(self.values, decimals=3)
        return lambda value: _UNDEFINED if np.isnan(value) else format_value(value, spec)

    def _summary(self) -> str:
        params = ", ".join(f"{name}={describe_value(value)}" for name, value in self.params.items())
        index = f"{self.index}({params})" if params else self.index
        samples = f"{self.n_samples} sample{'' if self.n_samples == 1 else 's'}"
        index = index if self.output == "similarity" else f"{self.output} by {index}"
        return f"{index}, {self.shape[0]} x {self.shape[1]} layers, {samples}"

    def __repr__(self) -> str:
        names = shorten_names(self.row_names[:_ROWS_PRINTED], _NAME_PRINTED)
        show = self._formatter()
        columns = [["", *names]]
        width = max(map(len, names))
        for j, head in enumerate(shorten_names(self.column_names, _NAME_PRINTED)):
            column = [head, *(show(value) for value in self.values[:_ROWS_PRINTED, j])]
            width += 2 + max(map(len, column))
            if j and width > _WIDTH_PRINTED:
                columns.append(["..."] * len(column))
                break
            columns.append(column)
        widths = [max(map(len, column)) for column in columns]
        lines = [f"SimilarityTable: {self._summary()}"]
        for name, *cells in zip(*columns, strict=True):
            shown = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([f"{name:<{widths[0]}}", *shown]).rstrip())
        return "\n".join(lines if len(names) == self.shape[0] else [*lines, "..."])

    def _repr_html_(self) -> str:
        # pandas escapes the names; what is written around its table is escaped here.
        body = self.to_frame().to_html(
            escape=True, float_format=self._formatter(), na_rep=_UNDEFINED, max_rows=60, max_cols=60
        )
        return f"<div><p><b>SimilarityTable</b>: {html.escape(self._summary())}</p>{body}</div>"


def _read_only(array: Any, name: str) -> np.ndarray:
    view = np.asarray(array, dtype=np.float64).view()
    if view.ndim != 2 or 0 in view.shape:
        raise ValueError(f"`{name}` must be a non-empty array of shape (n_rows, n_columns); got shape {view.shape}.")
    view.flags.writeable = False
    return view


def _names(names: Any, argument: str, expected: int) -> list[str]:
    names = [str(name) for name in names]
    if len(names) != expected:
        raise ValueError(f"`{argument}` holds {len(names)} names for {expected} layers.")
    repeated = {name for name in names if names.count(name) > 1} if len(set(names)) < expected else set()
    if repeated:
        raise ValueError(f"`{argument}` holds {min(repeated)!r} more than once.")
    return names
