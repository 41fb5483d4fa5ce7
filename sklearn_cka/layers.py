"""`Layers`: an ordered, immutable mapping of layer name to array, all over the same rows.

What a model makes of n inputs is one array a layer. Indexes compare matrices, so every array becomes
(rows, units) when the collection is made, by one of three policies:

============  =====================================================  ========================
``flatten``   an array of shape (n, C, H, W) becomes                 as in
============  =====================================================  ========================
"flatten"     (n, C·H·W): every activation of the map is a unit      Kornblith et al. (2019)
"mean"        (n, C): every channel averaged over its positions      global average pooling
"positions"   (n·H·W, C): every position of every input is a row,    Raghu et al. (2017)
              the channels are the units
============  =====================================================  ========================

References
----------
S. Kornblith, M. Norouzi, H. Lee, G. Hinton, "Similarity of neural network representations revisited",
ICML 2019.

M. Raghu, J. Gilmer, J. Yosinski, J. Sohl-Dickstein, "SVCCA: Singular vector canonical correlation analysis
for deep learning dynamics and interpretability", NeurIPS 2017.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_cka import _storage
from sklearn_cka._arrays import Array, dtype_name, is_array, is_numpy, like, namespace, to_numpy
from sklearn_cka._layer_arrays import as_array, as_matrix, collect, text_names
from sklearn_cka._validation import check_option, check_row_labels, row_labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Layers", "as_layers"]

_FLATTEN_POLICIES = ("flatten", "mean", "positions")
_CHANNEL_RULES = ("auto", "first", "last")
_NAMES_SHOWN = 12


class _UnknownLayerError(KeyError, ValueError):
    """A layer name that is not in the collection: a KeyError, as of any mapping, and a wrong value."""

    def __str__(self) -> str:
        return str(self.args[0])


class Layers(Mapping[str, Array]):
    """Ordered, immutable mapping of layer name to a two-dimensional array, all over the same rows.

    Parameters
    ----------
    data : mapping, sequence, DataFrame, path or Layers
        One of

        - a mapping of name to array, a sequence or iterator of ``(name, array)`` pairs;
        - a list or tuple of arrays, which get the names ``"0"``, ``"1"``, ...;
        - a pandas DataFrame with two-level columns: the first level names the layer, the second the unit;
        - the path of a file of layers, as of `load`;
        - another `Layers`.

        An array has its rows (examples) on the first axis. Arrays of NumPy, torch and other array-API libraries
        stay what they are; frames and nested lists become NumPy arrays. An array of one dimension is one column.
        Names that are not strings are converted to strings.
    flatten : {"flatten", "mean", "positions"}, default="flatten"
        What becomes of arrays of more than two dimensions: all activations of a row side by side in C order,
        the mean of every channel over its positions, or every position as a row of its own. The mean of integers
        is float64, that of half precision float32.
    channels : {"auto", "first", "last"}, default="auto"
        Which axis holds the channels (features) for ``"mean"`` and ``"positions"``: ``"first"`` is axis 1, as in
        the (n, C, H, W) of torch, ``"last"`` the last one, as in (n, H, W, C). ``"auto"`` takes the last axis of
        three-dimensional arrays (n, tokens, features) and axis 1 of those with four or more. It makes no
        difference to ``"flatten"``.

    Attributes
    ----------
    names : list of str
        The layer names, in order.
    n_rows : int
        Number of rows of every layer.
    index : pandas.Index or None
        Row labels, where the data came in pandas frames.

    Raises
    ------
    TypeError
        If `data` is a single array, or an array holds strings or objects.
    ValueError
        If the collection is empty, a name is used twice, row counts or row labels differ, or an array is
        complex, zero-dimensional or empty.

    Notes
    -----
    Arrays are neither copied nor changed: a two-dimensional array is kept as the same object. NaN and infinity
    are not looked for here, since that would read every memory-mapped file; the comparison does it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import Layers
    >>> rng = np.random.default_rng(0)
    >>> layers = Layers({"conv": rng.normal(size=(10, 3, 4, 4)), "logits": rng.normal(size=(10, 5))})
    >>> layers
    Layers(2 layers, 10 rows)
      conv    (10, 48) float64
      logits  (10, 5) float64
    >>> layers.rows(slice(4))["conv"].shape
    (4, 48)
    >>> Layers({"conv": np.ones((10, 3, 4, 4))}, flatten="positions")["conv"].shape
    (160, 3)
    """

    _arrays: dict[str, Array]
    _index: pd.Index | None
    _n_rows: int

    def __init__(self, data: Any, *, flatten: str = "flatten", channels: str = "auto") -> None:
        self._fill(data, flatten=flatten, channels=channels, argument=None)

    def _fill(self, data: Any, *, flatten: str, channels: str, argument: str | None) -> None:
        check_option("flatten", flatten, _FLATTEN_POLICIES)
        check_option("channels", channels, _CHANNEL_RULES)
        where = f" of `{argument}`" if argument else ""
        items = collect(data, argument or "data")
        if not items:
            raise ValueError(f"`{argument or 'data'}` holds no layers; at least one is needed.")
        names = text_names([name for name, _ in items], where)
        labels = [f"layer {name!r}{where}" for name in names]
        values = [as_array(value, label) for (_, value), label in zip(items, labels, strict=True)]
        matrices = [as_matrix(x, flatten, channels) for x in values]
        _check_row_counts(matrices, labels, positions=flatten == "positions" and any(x.ndim > 2 for x in values))
        self._arrays = dict(zip(names, matrices, strict=True))
        self._n_rows = int(matrices[0].shape[0])
        self._index = data.index if isinstance(data, Layers) else _common_index([v for _, v in items], labels)

    @classmethod
    def _of(cls, arrays: dict[str, Array], index: pd.Index | None) -> Layers:
        """Make a collection of arrays that have been checked."""
        layers = cls.__new__(cls)
        layers._arrays = arrays
        layers._index = index
        layers._n_rows = int(next(iter(arrays.values())).shape[0])
        return layers

    @property
    def names(self) -> list[str]:
        """Layer names, in order."""
        return list(self._arrays)

    @property
    def n_rows(self) -> int:
        """Number of rows of every layer."""
        return self._n_rows

    @property
    def index(self) -> pd.Index | None:
        """Row labels, where the data came in pandas frames; otherwise None."""
        return self._index

    def __getitem__(self, name: str) -> Array:
        try:
            return self._arrays[name]
        except (KeyError, TypeError):
            raise _UnknownLayerError(self._unknown(name)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._arrays

    # Comparing arrays element by element has no truth value, so collections are compared by identity.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        width = max(len(name) for name in self._arrays)
        lines = [f"Layers({_count(len(self), 'layer')}, {_count(self.n_rows, 'row')})"]
        lines += [f"  {name:<{width}}  {tuple(a.shape)} {dtype_name(a)}" for name, a in self._arrays.items()]
        return "\n".join(lines)

    def rows(self, index: Any) -> Layers:
        """Select rows of every layer.

        Parameters
        ----------
        index : slice or array-like of int or bool
            Positions of rows, in any order and with repeats, or a mask of length `n_rows`. A slice of NumPy
            arrays gives views.

        Returns
        -------
        Layers
            The same layers over the rows chosen; `index` is carried along.

        Raises
        ------
        IndexError
            If a position is out of range or a mask has the wrong length.
        TypeError
            If `index` is neither.
        ValueError
            If no row is selected.
        """
        if isinstance(index, slice):
            positions = np.arange(self.n_rows)[index]
        else:
            positions = _row_positions(index, self.n_rows)
        if positions.size == 0:
            raise ValueError(f"The selection leaves none of the {self.n_rows} rows.")
        arrays = {}
        for name, array in self._arrays.items():
            if is_numpy(array):
                arrays[name] = array[index if isinstance(index, slice) else positions]
            else:
                arrays[name] = namespace(array).take(array, like(positions, array), axis=0)
        return self._of(arrays, None if self._index is None else self._index[positions])

    def select(self, *names: str) -> Layers:
        """Select layers by name or by shell-style pattern.

        Parameters
        ----------
        *names : str
            Names, or patterns such as ``"block*.relu"``, in the order wanted. A pattern stands for the layers
            that match it in the order of the collection; no layer is taken twice.

        Returns
        -------
        Layers
            The chosen layers, with the same arrays.

        Raises
        ------
        KeyError
            If a name is unknown or a pattern matches no layer (the error is a ValueError, too).
        """
        chosen: dict[str, Array] = {}
        for name in names:
            found = [name] if name in self else [n for n in self._arrays if fnmatch.fnmatchcase(n, str(name))]
            if not found:
                raise _UnknownLayerError(self._unknown(name))
            chosen.update((match, self._arrays[match]) for match in found)
        if not chosen:
            raise ValueError("select() needs at least one layer name or pattern.")
        return self._of(chosen, self._index)

    def map(self, function: Callable[[Array], Array]) -> Layers:
        """Apply a function to the array of every layer.

        Parameters
        ----------
        function : callable
            Takes an array of shape (n_rows, n_units) and returns an array whose rows stand for the same examples
            in the same order.

        Returns
        -------
        Layers
            The results under the same names. `index` is kept where the number of rows is.
        """
        layers = Layers({name: function(array) for name, array in self._arrays.items()})
        if layers._index is None and layers.n_rows == self.n_rows:
            layers._index = self._index
        return layers

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        flatten: str = "flatten",
        channels: str = "auto",
        mmap: bool = True,
    ) -> Layers:
        """Read layers from a file or folder, in its order.

        Parameters
        ----------
        path : path-like
            By its suffix an ``.npz`` file (of `save`, `numpy.savez` or `numpy.savez_compressed`), a
            ``.safetensors`` file or a ``.zarr`` group; otherwise a folder of ``.npy`` files.
        flatten : {"flatten", "mean", "positions"}, default="flatten"
            As for `Layers`.
        channels : {"auto", "first", "last"}, default="auto"
            As for `Layers`.
        mmap : bool, default=True
            Whether to map the arrays read-only instead of reading them into memory. Compressed ``.npz`` files,
            zarr groups and bfloat16 are always read.

        Returns
        -------
        Layers
            The layers of the file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ImportError
            If it is a zarr group and zarr is not installed.
        ValueError
            If the file is of another format or damaged, or does not hold plain arrays.
        """
        return cls(_storage.read(path, mmap=mmap), flatten=flatten, channels=channels)

    def save(self, path: str | os.PathLike[str], *, compress: bool = False) -> None:
        """Write the layers to a file or folder, which the libraries of its format read as well.

        Arrays of other libraries are converted to NumPy, bfloat16 to float32. Row labels are not stored.

        Parameters
        ----------
        path : path-like
            By its suffix an ``.npz`` file, a ``.safetensors`` file or a ``.zarr`` group; without a suffix a
            folder of ``.npy`` files. An existing one is replaced once the new one is complete.
        compress : bool, default=False
            Whether to compress an ``.npz`` file, which cannot be memory-mapped then.

        Raises
        ------
        FileExistsError
            If there is a folder of that name which holds other things than layers.
        ImportError
            If `path` ends in ``.zarr`` and zarr is not installed.
        ValueError
            If the suffix is another one, or the format cannot hold the name of a layer.
        """
        _storage.write(path, self._arrays.items(), compress=compress)

    def _unknown(self, name: object) -> str:
        close = difflib.get_close_matches(str(name), self._arrays, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        shown = ", ".join(map(repr, self.names[:_NAMES_SHOWN]))
        more = f", ... ({len(self)} in all)" if len(self) > _NAMES_SHOWN else ""
        return f"Unknown layer {name!r}.{hint} The layers are {shown}{more}."


def as_layers(obj: Any, *, argument: str = "a", flatten: str = "flatten", channels: str = "auto") -> Layers:
    """Return `obj` as `Layers`, with errors that name the argument it was given as.

    Parameters
    ----------
    obj : mapping, sequence, DataFrame, path or Layers
        As for `Layers`; a `Layers` is returned as it is.
    argument : str, default="a"
        Name of the caller's argument.
    flatten : {"flatten", "mean", "positions"}, default="flatten"
        As for `Layers`.
    channels : {"auto", "first", "last"}, default="auto"
        As for `Layers`.

    Returns
    -------
    Layers
        The collection.
    """
    if isinstance(obj, Layers):
        return obj
    layers = Layers.__new__(Layers)
    layers._fill(obj, flatten=flatten, channels=channels, argument=argument)
    return layers


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_row_counts(matrices: list[Array], labels: list[str], *, positions: bool) -> None:
    expected = matrices[0].shape[0]
    for matrix, label in zip(matrices, labels, strict=True):
        if matrix.shape[0] != expected:
            why = (
                'flatten="positions" needs layers with the same number of positions'
                if positions
                else "all layers must describe the same rows in the same order"
            )
            raise ValueError(f"{label} has {matrix.shape[0]} rows but {labels[0]} has {expected}; {why}.")


def _common_index(values: list[Any], labels: list[str]) -> pd.Index | None:
    """Return the row labels that all frames among the values share."""
    framed = [
        (row_labels(value), label) for value, label in zip(values, labels, strict=True) if row_labels(value) is not None
    ]
    for index, label in framed[1:]:
        check_row_labels(framed[0][0], index, framed[0][1], label)
    return framed[0][0] if framed else None


def _row_positions(index: Any, n_rows: int) -> np.ndarray:
    values = to_numpy(index) if is_array(index) else np.asarray(index)
    if values.dtype.kind == "b":
        if values.shape != (n_rows,):
            raise IndexError(f"A mask of rows must have shape ({n_rows},); got {values.shape}.")
        return np.flatnonzero(values)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise TypeError(f"Rows are selected by a slice, a mask or a list of positions; got {index!r}.")
    outside = values[(values >= n_rows) | (values < -n_rows)] if values.size else values
    if outside.size:
        raise IndexError(f"Row {outside[0]} is out of range for {n_rows} rows.")
    positions = values.astype(np.intp)
    return np.where(positions < 0, positions + n_rows, positions)
