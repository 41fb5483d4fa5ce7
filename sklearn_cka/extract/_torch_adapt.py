"""From what a module returns to the rows and units that are stored.

Maps and token sequences have more than two axes. They are flattened, averaged or cut into positions as in
:mod:`sklearn_cka.layers`, batch by batch, so that what a policy leaves out never takes memory. The tokens of a text
are reduced with its mask, so that padding is never counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from sklearn_cka._layer_arrays import as_matrix
from sklearn_cka._validation import check_option
from sklearn_cka.extract._torch_data import Batch
from sklearn_cka.extract._torch_hooks import UnfitOutputError

TOKEN_RULES = ("mean", "first", "last", "all")
_POOLS: dict[int, Any] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}


class Adapter:
    """Make a matrix of rows and units of every tensor that is recorded.

    Parameters
    ----------
    flatten, channels : str
        As of :class:`~sklearn_cka.Layers`.
    grid : int, tuple of int or None
        The size that maps are brought to by averaging areas.
    max_positions : int or None
        The most positions per row that ``flatten="positions"`` keeps, drawn per row.
    tokens : {"mean", "first", "last", "all"}, callable or None
        What becomes of sequences; None is nothing.
    seed : int
        Seed of the positions.
    """

    def __init__(
        self,
        *,
        flatten: str,
        channels: str,
        grid: int | tuple[int, ...] | None,
        max_positions: int | None,
        tokens: str | Callable[[Any, Any], Any] | None,
        seed: int,
    ) -> None:
        check_option("flatten", flatten, ("flatten", "mean", "positions"))
        check_option("channels", channels, ("auto", "first", "last"))
        if tokens is not None and not callable(tokens):
            check_option("tokens", tokens, TOKEN_RULES)
        if max_positions is not None and flatten != "positions":
            raise ValueError(f"max_positions is for flatten='positions', got flatten={flatten!r}.")
        for name, value in (("max_positions", max_positions), ("grid", grid)):
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and (isinstance(number, bool) or int(number) != number or number < 1):
                    raise ValueError(f"{name} must be made of whole numbers of at least 1, got {value!r}.")
        self._flatten, self._channels, self._grid = flatten, channels, grid
        self._max_positions, self._tokens, self._seed = max_positions, tokens, seed
        self._start = 0
        self._map: tuple[str, tuple[int, ...]] | None = None  # first layer with positions, and their grid
        self._masks: list[np.ndarray] = []
        self._drawn: dict[tuple[int, int], torch.Tensor] = {}

    @property
    def multiplies_rows(self) -> bool:
        """Whether one row of the data becomes a number of rows that is not known beforehand."""
        return self._tokens == "all"

    def begin(self, start: int, batch: Batch) -> None:
        """Take note of the batch to come, whose first row is row `start` of the data."""
        self._start = start
        self._drawn.clear()
        if self._tokens == "all":
            mask = _mask_of(batch, "")
            self._masks.append(np.zeros((0, 0), dtype=bool) if mask is None else mask.cpu().numpy())

    def __call__(self, name: str, tensor: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the matrix of a layer's rows and units for one batch."""
        if tensor.ndim == 0 or tensor.shape[0] != batch.n_rows:
            raise UnfitOutputError(
                f"Layer {name!r} has the shape {tuple(tensor.shape)}, whose first axis is not the {batch.n_rows} rows "
                "of the batch; choose other layers, or pass output=, a function that returns a tensor of these rows."
            )
        if tensor.is_complex():
            raise UnfitOutputError(f"Layer {name!r} is complex; pass output=torch.abs or leave it out.")
        if self._tokens is not None and tensor.ndim == 3:
            tensor = self._reduce_tokens(name, tensor, batch)
        elif self._tokens == "all":
            raise UnfitOutputError(
                f"Layer {name!r} has no tokens (shape {tuple(tensor.shape)}); tokens='all' needs them."
            )
        if tensor.ndim > 2 and self._grid is not None:
            tensor = self._resize(name, tensor)
        if self._flatten == "positions" and self._tokens is None:
            return self._positions(name, tensor)
        if self._flatten == "mean" and self._channels_last(tensor) is not tensor and tensor.is_floating_point():
            return _mean(tensor)
        return as_matrix(tensor, self._flatten, self._channels)

    def _channels_last(self, tensor: torch.Tensor) -> torch.Tensor:
        first = self._channels == "first" or (self._channels == "auto" and tensor.ndim > 3)
        return tensor.movedim(1, -1) if first else tensor

    def _resize(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Average a map over areas, to the common grid; the axes stay where they are."""
        maps = self._channels_last(tensor).movedim(-1, 1)
        n_axes = maps.ndim - 2
        size = (self._grid,) * n_axes if isinstance(self._grid, int) else self._grid
        if n_axes not in _POOLS or size is None or len(size) != n_axes:
            raise UnfitOutputError(
                f"Layer {name!r} of shape {tuple(tensor.shape)} has {n_axes} axes of positions, which "
                f"grid={self._grid} does not fit."
            )
        pooled: torch.Tensor = _POOLS[n_axes](maps.float() if maps.element_size() < 4 else maps, size)
        return pooled if self._channels_last(tensor) is not tensor else pooled.movedim(1, -1)

    def _positions(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return every position, or some drawn for each row, as a row of its own."""
        if tensor.ndim < 3:
            raise UnfitOutputError(
                f"Layer {name!r} of shape {tuple(tensor.shape)} has no positions: flatten='positions' is for maps and "
                "sequences."
            )
        maps = self._channels_last(tensor)
        n_rows, *size, n_channels = maps.shape
        self.check_map(name, tuple(size))
        maps = maps.reshape(n_rows, -1, n_channels)
        n_kept = self._max_positions
        if n_kept is not None and n_kept < maps.shape[1]:
            key = (n_rows, maps.shape[1])
            if key not in self._drawn:
                drawn = self._draw(self._start, n_rows, maps.shape[1])
                self._drawn[key] = torch.from_numpy(drawn).to(maps.device)
            index = self._drawn[key]
            maps = maps.gather(1, index[:, :, None].expand(-1, -1, n_channels))
        return maps.reshape(-1, n_channels)

    def check_map(self, name: str, size: tuple[int, ...]) -> None:
        """Raise ValueError if the positions of a layer are not those of the layers before it."""
        if self._map is None:
            self._map = (name, size)
        if self._map[1] != size:
            raise ValueError(
                f"Layer {self._map[0]!r} has {_times(self._map[1])} positions and {name!r} has {_times(size)}, so that "
                "their rows do not correspond under flatten='positions': bring them to a common size with grid=..., "
                "average over positions with flatten='mean', or name layers of one size."
            )

    def _draw(self, start: int, n_rows: int, n_positions: int) -> np.ndarray:
        """Draw positions for each row from a seed of its own, so that they do not depend on the batches."""
        kept = [
            np.sort(
                np.random.default_rng([self._seed, row]).choice(n_positions, size=self._max_positions, replace=False)
            )
            for row in range(start, start + n_rows)
        ]
        return np.stack(kept)

    def _reduce_tokens(self, name: str, tensor: torch.Tensor, batch: Batch) -> torch.Tensor:
        mask = _mask_of(batch, name)
        if mask is None:
            mask = torch.ones(tensor.shape[:2], dtype=torch.bool, device=tensor.device)
        if mask.shape != tensor.shape[:2]:
            raise UnfitOutputError(
                f"Layer {name!r} of shape {tuple(tensor.shape)} does not have the {mask.shape[1]} tokens of the "
                "attention mask; leave it out, or pass tokens=None and a policy of flattening."
            )
        mask = mask.to(tensor.device)
        empty = torch.nonzero(~mask.any(dim=1))
        if len(empty):
            raise ValueError(f"Row {self._start + int(empty[0])} has no token that the attention mask lets through.")
        if callable(self._tokens):
            reduced: Any = self._tokens(tensor, mask)
            if not isinstance(reduced, torch.Tensor) or reduced.ndim == 0 or len(reduced) != len(tensor):
                raise ValueError(f"tokens, a function, must return a tensor of {len(tensor)} rows for layer {name!r}.")
            return reduced
        if self._tokens == "all":
            return tensor[mask]
        if self._tokens == "mean":
            # Chosen, not multiplied: what padding holds may be NaN.
            wide = tensor.float() if tensor.element_size() < 4 else tensor
            total = torch.where(mask[:, :, None], wide, 0).sum(dim=1, dtype=torch.float64)
            return (total / mask.sum(dim=1, keepdim=True)).to(wide.dtype)
        weights = mask.int()
        if self._tokens == "first":
            at = weights.argmax(dim=1)
        else:
            at = weights.shape[1] - 1 - weights.flip(1).argmax(dim=1)
        return tensor[torch.arange(len(tensor), device=tensor.device), at]

    def labels(self, rows: pd.Index | None, n_rows: int) -> pd.Index | None:
        """Return the labels of the rows stored, of data whose rows are `rows` (None: 0, 1, ...)."""
        if self._tokens == "all":
            return self._token_labels(pd.RangeIndex(n_rows) if rows is None else rows)
        if self._flatten != "positions" or self._tokens is not None or self._map is None:
            return rows
        size = self._map[1]
        n_positions = math.prod(size)
        n_kept = min(self._max_positions or n_positions, n_positions)
        if n_kept < n_positions:
            position = self._draw(0, n_rows, n_positions).ravel()
        else:
            position = np.tile(np.arange(n_positions), n_rows)
        base = pd.RangeIndex(n_rows) if rows is None else rows
        # The centre of a position as a part of the map: equal for equal grids only.
        centres = [(at + 0.5) / length for at, length in zip(np.unravel_index(position, size), size, strict=True)]
        names = ["row", *(f"axis_{i}" for i in range(1, len(size) + 1))]
        return pd.MultiIndex.from_arrays([base.repeat(n_kept), *centres], names=names)

    def _token_labels(self, rows: pd.Index) -> pd.Index:
        sentences, positions, start = [], [], 0
        for mask in self._masks:
            row, position = np.nonzero(mask)
            sentences.append(row + start)
            positions.append(position)
            start += len(mask)
        taken = np.concatenate(sentences)
        return pd.MultiIndex.from_arrays([rows[taken], np.concatenate(positions)], names=["row", "token"])


def _mean(maps: torch.Tensor) -> torch.Tensor:
    """Return the mean over the positions of maps (n, C, ...).

    Lines are summed in their own precision, which is exact to the rounding of the result, and the sums of lines in
    float64: half the time of summing everything in float64.
    """
    wide = torch.float32 if maps.element_size() < 4 else maps.dtype
    lines = maps.sum(dim=-1, dtype=wide).flatten(2) if maps.ndim > 3 else maps
    return (lines.sum(dim=2, dtype=torch.float64) / math.prod(maps.shape[2:])).to(wide)


def _mask_of(batch: Batch, name: str) -> torch.Tensor | None:
    """Return the mask of real tokens of a batch; layers of a decoder have a mask of their own, or none."""
    key = "decoder_attention_mask" if "decoder" in name and "decoder_input_ids" in batch.kwargs else "attention_mask"
    mask = batch.kwargs.get(key)
    if mask is None:
        return None
    if mask.ndim != 2:
        raise ValueError(f"{key} has the shape {tuple(mask.shape)}; tokens=... needs one of (rows, tokens).")
    return mask != 0


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))
