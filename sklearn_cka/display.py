"""`SimilarityDisplay`: a table of similarities as a heat map.

Displays draw arrays with names and know nothing of how these were computed. matplotlib is imported when something is
drawn, not before.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["SimilarityDisplay"]

# Inches. A cell with its value printed needs room for five characters.
_CELL_WITH_VALUE, _CELL_WITHOUT_VALUE = 0.5, 0.35
_PLOT_LARGEST, _PLOT_SMALLEST = 10.0, 2.2
_COLORBAR_ROOM, _LABEL_ROOM = 1.1, 0.4
# Points, and multiples of the font size: the height of a line, the mean width of a character.
_FONT_LARGEST, _FONT_SMALLEST, _VALUE_FONT_SMALLEST = 10.0, 6.0, 4.0
_POINTS_PER_INCH = 72.0
_LINE, _CHARACTER = 1.2, 0.6
# Tables up to this size have their values printed; names beyond this length lose their middle.
_VALUES_SHOWN, _NAME_SHOWN = 15, 40
_MASKED_TEXT = "0.4"


class SimilarityDisplay:
    """Heat map of the similarities between two collections of layers.

    It is recommended to create one by `SimilarityTable.plot` or :meth:`from_table`. The layers of the first collection
    are on the y axis, the first of them at the top, as in a printed table.

    Parameters
    ----------
    values : array-like of shape (n_rows, n_columns)
        Similarities; NaN where undefined.
    row_names : sequence of str, default=None
        Names of the rows; their positions if None.
    column_names : sequence of str, default=None
        Names of the columns; their positions if None.
    label : str, default="similarity"
        What the colours stand for.
    row_label : str, default=None
        Label of the y axis.
    column_label : str, default=None
        Label of the x axis.
    bounds : (float, float), default=None
        Least and greatest value that the similarity can take, where known. A finite greatest value becomes the upper
        colour limit, so that colours mean the same in every figure.

    Attributes
    ----------
    im_ : matplotlib AxesImage
        The image.
    text_ : ndarray of shape (n_rows, n_columns) of matplotlib Text, or None
        The printed values (None inside, where undefined), or None if they are not shown.
    colorbar_ : matplotlib Colorbar or None
        The colour bar.
    ax_ : matplotlib Axes
        The axes with the heat map.
    figure_ : matplotlib Figure
        The figure containing it.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn_cka import SimilarityDisplay
    >>> display = SimilarityDisplay([[1.0, 0.4], [0.4, 1.0]], ["conv", "fc"], ["conv", "fc"], label="CKA")
    >>> display.plot().ax_.get_xticklabels()
    [Text(0, 0, 'conv'), Text(1, 0, 'fc')]
    """

    im_: Any
    text_: np.ndarray | None
    colorbar_: Any
    ax_: Any
    figure_: Any

    def __init__(
        self,
        values: Any,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
        *,
        label: str = "similarity",
        row_label: str | None = None,
        column_label: str | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        self.values = values
        self.row_names = row_names
        self.column_names = column_names
        self.label = label
        self.row_label = row_label
        self.column_label = column_label
        self.bounds = bounds

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        quantity: str = "similarity",
        alpha: float | None = None,
        label: str | None = None,
        row_label: str | None = None,
        column_label: str | None = None,
        **kwargs: Any,
    ) -> SimilarityDisplay:
        """Draw a similarity table.

        Parameters
        ----------
        table : SimilarityTable
            The table.
        quantity : {"similarity", "adjusted", "chance"}, default="similarity"
            What to draw: the similarities, the similarities adjusted for chance, or the chance level itself.
        alpha : float, default=None
            Mask the cells whose p-value is above this level, of a table that `table_inference` made. Pairs without a
            p-value, a layer with itself, are drawn.
        label : str, default=None
            What the colours stand for; made from the name of the index and `quantity` if None.
        row_label : str, default=None
            Label of the y axis; says which collection it is if None.
        column_label : str, default=None
            Label of the x axis; says which collection it is if None.
        **kwargs : dict
            Passed to :meth:`plot`.

        Returns
        -------
        SimilarityDisplay
            The display, drawn.
        """
        values = {"similarity": "values", "adjusted": "adjusted", "chance": "chance"}
        if quantity not in values:
            raise ValueError(f"quantity must be one of {', '.join(map(repr, values))}, got {quantity!r}.")
        if alpha is not None:
            kwargs["mask"] = _insignificant(table.pvalue, alpha) | np.asarray(kwargs.get("mask", False))
        name = _index_label(table.index, table.params)
        labels = {
            "similarity": name if getattr(table, "output", "similarity") == "similarity" else f"{name}, distance form",
            "adjusted": f"{name}, adjusted for chance",
            "chance": f"{name} expected by chance",
        }
        if alpha is not None:
            labels = {key: f"{text}, blank if p > {alpha:g}" for key, text in labels.items()}
        one_side = list(table.row_names) == list(table.column_names) and table.symmetric
        display = cls(
            getattr(table, values[quantity]),
            table.row_names,
            table.column_names,
            label=labels[quantity] if label is None else label,
            row_label=row_label if row_label is not None else "layer" if one_side else "first model",
            column_label=column_label if column_label is not None else "layer" if one_side else "second model",
            bounds=getattr(table, "bounds", None),
        )
        return display.plot(**kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        mask: Any = None,
        cmap: Any = "viridis",
        colorbar: bool = True,
        include_values: bool | None = None,
        values_format: str | None = None,
        xticks_rotation: str | float = "auto",
        origin: str = "upper",
        im_kw: dict[str, Any] | None = None,
        text_kw: dict[str, Any] | None = None,
    ) -> SimilarityDisplay:
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. If None, a new figure is made, large enough for the names to be read.
        mask : array-like of bool of shape (n_rows, n_columns), default=None
            Cells left without colour, such as those that are not significant; their printed values are grey.
        cmap : str or matplotlib Colormap, default="viridis"
            The colours. The default is read in greyscale and without colour vision.
        colorbar : bool, default=True
            Whether to add a colour bar.
        include_values : bool, default=None
            Whether to print the values into the cells; if None, in tables of up to 15 rows and columns.
        values_format : str, default=None
            Format of the printed values. If None, ``".2f"``, or ``".2g"`` where the values are large or tiny.
        xticks_rotation : {"auto", "horizontal", "vertical"} or float, default="auto"
            Rotation of the column names; ``"auto"`` is horizontal where they fit and vertical where not.
        origin : {"upper", "lower"}, default="upper"
            Where the first row is: at the top as in a printed table, or at the bottom as in many papers.
        im_kw : dict, default=None
            Passed to `matplotlib.axes.Axes.imshow`; ``vmin`` and ``vmax`` replace the colour limits, which span 0 to 1
            and whatever lies beyond.
        text_kw : dict, default=None
            Passed to `matplotlib.axes.Axes.text` for the printed values.

        Returns
        -------
        SimilarityDisplay
            The display itself. Cells without a value are hatched. Nothing is shown on the screen: that is left to
            ``matplotlib.pyplot.show`` or the notebook.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the values are not a matrix or the names or the mask do not fit them.
        """
        plt = _import_pyplot()
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"values must have shape (n_rows, n_columns), got {values.shape}.")
        rows = shorten_names(_check_names(self.row_names, values.shape[0], "row_names"), _NAME_SHOWN)
        columns = shorten_names(_check_names(self.column_names, values.shape[1], "column_names"), _NAME_SHOWN)
        masked = np.zeros(values.shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        if masked.shape != values.shape:
            raise ValueError(f"mask must have the shape of values, {values.shape}; got {masked.shape}.")
        if include_values is None:
            include_values = max(values.shape) <= _VALUES_SHOWN

        if ax is None:
            cell = _cell_size(values.shape, include_values)
            size = _figure_size(rows, columns, cell, colorbar)
            figure, ax = plt.subplots(figsize=size, layout="compressed")
        else:
            cell = None
            figure = ax.figure

        options = {"cmap": cmap, "origin": origin, "interpolation": "nearest", "aspect": "equal", **(im_kw or {})}
        if "norm" not in options:
            limits = _color_limits(values, self.bounds)
            options = {"vmin": limits[0], "vmax": limits[1], **options}
        # Undefined cells are transparent and let the hatched background through.
        options["cmap"] = plt.get_cmap(options["cmap"]).with_extremes(bad=(0, 0, 0, 0))
        ax.set_facecolor("white")
        ax.patch.set(hatch="////", edgecolor="0.75", linewidth=0)
        ax.grid(False)
        self.im_ = ax.imshow(np.ma.masked_invalid(values), **options)
        if masked.any():
            cover = np.zeros((*values.shape, 4))
            cover[masked & np.isfinite(values)] = 1.0
            ax.imshow(cover, origin=options["origin"], interpolation="nearest", aspect=options["aspect"])

        self.colorbar_ = figure.colorbar(self.im_, ax=ax) if colorbar else None
        if self.row_label:
            ax.set_ylabel(self.row_label)
        if self.column_label:
            ax.set_xlabel(self.column_label)
        height, width = _cell_inches(ax, values.shape) if cell is None else (cell, cell)
        _set_names(ax, rows, columns, height, width, xticks_rotation)
        engine = figure.get_layout_engine() if hasattr(figure, "set_layout_engine") else None  # not of a SubFigure
        if cell is None and engine is not None:
            # The names take room from the cells. Cells pushed into the corner where the names are leave no slack
            # there that the layout would count as room for names.
            ax.set_anchor("SW")
            engine.execute(figure)
            height, width = _cell_inches(ax, values.shape)
            _set_names(ax, rows, columns, height, width, xticks_rotation)
        if colorbar:
            self.colorbar_.set_label(_wrap(self.label, height * values.shape[0]))

        self.text_ = None
        if include_values:
            spec = values_format or default_format(values, decimals=2)
            self.text_ = self._print_values(ax, values, masked, spec, width, text_kw or {})
        self.ax_ = ax
        self.figure_ = figure
        return self

    def _print_values(
        self, ax: Any, values: np.ndarray, masked: np.ndarray, spec: str, inches: float, text_kw: dict[str, Any]
    ) -> np.ndarray:
        texts = np.full(values.shape, None, dtype=object)
        cells = [(i, j) for i, j in np.ndindex(values.shape) if np.isfinite(values[i, j])]
        strings = [format_value(float(values[cell]), spec) for cell in cells]
        longest = max(map(len, strings), default=1)
        size = float(np.clip(0.9 * _font_size(inches, longest * _CHARACTER), _VALUE_FONT_SMALLEST, _FONT_LARGEST))
        for (i, j), string in zip(cells, strings, strict=True):
            color = _MASKED_TEXT if masked[i, j] else _contrasting(self.im_.cmap(self.im_.norm(values[i, j])))
            style = {"ha": "center", "va": "center", "color": color, "fontsize": size, **text_kw}
            texts[i, j] = ax.text(j, i, string, **style)
        return texts


def _import_pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Plots need matplotlib: pip install "sklearn_cka[plot]"') from error
    return plt


def _insignificant(pvalue: Any, alpha: Any) -> np.ndarray:
    """Return which pairs have a p-value above a level."""
    if pvalue is None:
        raise ValueError("alpha masks by p-values, which this table does not have; make it by table_inference.")
    if not isinstance(alpha, (int, float)) or not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return np.asarray(pvalue) > alpha


def _check_names(names: Sequence[str] | None, expected: int, argument: str) -> list[str]:
    names = [str(name) for name in (range(expected) if names is None else names)]
    if len(names) != expected:
        raise ValueError(f"{argument} holds {len(names)} names, but values has {expected} of them.")
    return names


def _index_label(index: str, params: dict[str, Any]) -> str:
    def show(value: Any) -> str:
        if isinstance(value, str):
            return value
        return f"{value:.4g}" if isinstance(value, float) else describe_value(value)

    # The short names are abbreviations: CKA, HSIC, SVCCA.
    index = index.upper() if index.isalpha() and len(index) <= 5 else index
    shown = ", ".join(f"{name}={show(value)}" for name, value in params.items())
    return f"{index} ({shown})" if shown else index


def _color_limits(values: np.ndarray, bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return limits that hold 0, every value, and the greatest possible one if there is such a thing."""
    finite = values[np.isfinite(values)]
    smallest, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    # Without knowledge, values up to 1 are those of an index with maximum 1.
    ceiling = bounds[1] if bounds is not None else 1.0
    lower = min(0.0, smallest)
    upper = max(ceiling, largest) if np.isfinite(ceiling) else largest
    return lower, upper if upper > lower else lower + 1.0


def _cell_size(shape: tuple[int, ...], include_values: bool) -> float:
    """Return the side of a cell in inches, such that the table is neither tiny nor larger than a screen."""
    preferred = _CELL_WITH_VALUE if include_values else _CELL_WITHOUT_VALUE
    return max(min(preferred, _PLOT_LARGEST / max(shape)), _PLOT_SMALLEST / max(shape))


def _figure_size(rows: list[str], columns: list[str], cell: float, colorbar: bool) -> tuple[float, float]:
    """Return width and height in inches of a figure that holds the cells, the names and the colour bar."""
    font = _name_font(cell)
    row_room = max(map(len, rows)) * _CHARACTER * font / _POINTS_PER_INCH
    longest = max(map(len, columns))
    lines = _LINE if _fits_horizontally(longest, cell) else longest * _CHARACTER
    width = len(columns) * cell + row_room + _LABEL_ROOM + (_COLORBAR_ROOM if colorbar else 0.0)
    height = max(len(rows) * cell, _PLOT_SMALLEST / 2) + lines * font / _POINTS_PER_INCH + _LABEL_ROOM
    return width, height


def _cell_inches(ax: Any, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return height and width of a cell of axes that the caller has made."""
    box = ax.get_window_extent()
    dpi = ax.figure.dpi
    height, width = box.height / dpi / shape[0], box.width / dpi / shape[1]
    return (height, width) if ax.get_aspect() == "auto" else (min(height, width),) * 2


def _font_size(inches: float, ems: float) -> float:
    """Return the font size at which `ems` times itself fills a length."""
    return inches * _POINTS_PER_INCH / ems


def _name_font(cell: float) -> float:
    return float(np.clip(_font_size(cell, _LINE), _FONT_SMALLEST, _FONT_LARGEST))


def _fits_horizontally(longest: int, cell: float) -> bool:
    return longest * _CHARACTER * _name_font(cell) <= 0.95 * cell * _POINTS_PER_INCH


def _set_names(
    ax: Any, rows: list[str], columns: list[str], height: float, width: float, rotation: str | float
) -> None:
    """Name the cells along both axes, in the largest font that fits; where none does, name every k-th only."""
    for axis, names, inches in [(ax.yaxis, rows, height), (ax.xaxis, columns, width)]:
        size = _name_font(inches)
        step = max(int(np.ceil(size * _LINE / (inches * _POINTS_PER_INCH) - 1e-9)), 1)
        axis.set_ticks(np.arange(0, len(names), step), labels=names[::step], fontsize=size)
    if rotation == "auto":
        rotation = "horizontal" if _fits_horizontally(max(map(len, columns)), width) else "vertical"
    slanted = isinstance(rotation, (int, float)) and 0 < rotation < 90
    for label in ax.get_xticklabels():
        label.set_rotation(rotation)
        if slanted:
            label.set(ha="right", rotation_mode="anchor")


def _wrap(label: str, inches: float) -> str:
    return textwrap.fill(label, max(int(inches * _POINTS_PER_INCH / (_CHARACTER * _FONT_LARGEST)), 16))


def _contrasting(color: Sequence[float]) -> str:
    """Return black or white, whichever has the greater contrast with a colour by the WCAG definition."""
    channels = np.asarray(color[:3])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    return "black" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "white"


def default_format(values: np.ndarray, decimals: int) -> str:
    """Return a fixed format for values of ordinary size, a general one where that shows zeros or long numbers."""
    sizes = np.abs(values[np.isfinite(values)])
    ordinary = not sizes.any() or 10**-decimals <= sizes.max() < 1000
    return f".{decimals}f" if ordinary else f".{decimals}g"


def format_value(value: float, spec: str) -> str:
    """Format one similarity, with no minus before a zero."""
    text = format(value, spec)
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def describe_value(value: Any) -> str:
    """Return the name of a function, the representation of anything else."""
    return getattr(value, "__name__", None) or repr(value)


def shorten_names(names: Sequence[str], length: int) -> list[str]:
    """Cut long names to `length` characters in a way that keeps them distinct.

    The middle goes first: what tells layers apart stands at the ends, above all the last. Names that this would make
    equal show the part where they begin to differ; names that even this would make equal are left whole.
    """
    head = (length - 1) // 3
    tail = length - 1 - head
    short = [name if len(name) <= length else f"{name[:head]}…{name[-tail:]}" for name in names]
    counts = Counter(short)
    equal = [i for i, name in enumerate(short) if counts[name] > 1]
    letters = zip(*(names[i] for i in equal), strict=False)
    start = next((k for k, letter in enumerate(letters) if len(set(letter)) > 1), length)
    for i in equal:
        short[i] = _window(names[i], start - length // 4, length)
    counts = Counter(short)
    return [whole if counts[cut] > 1 else cut for whole, cut in zip(names, short, strict=True)]


def _window(name: str, start: int, length: int) -> str:
    """Return at most `length` characters of a name, from about `start` on, with ellipses for what is left out."""
    start = max(min(start, len(name) - length + 1), 0)
    part = f"…{name[start:]}" if start else name
    return part if len(part) <= length else f"{part[: length - 1]}…"
