"""Layers of torch models: a model, rows and a place to keep what its modules make of them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import singledispatch
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from tqdm.auto import tqdm

from sklearn_cka import _backends, exceptions
from sklearn_cka.extract import _sinks
from sklearn_cka.extract._dispatch import extractor, iter_layers, register_library_of
from sklearn_cka.extract._torch_adapt import Adapter
from sklearn_cka.extract._torch_data import Batch, Drawn, Source, make_batch, make_source
from sklearn_cka.extract._torch_hooks import Recorder
from sklearn_cka.extract._torch_layers import choose_targets, unwrap
from sklearn_cka.layers import Layers

_SILENT_SECONDS = 1.0
_NAMES_SHOWN = 5


class Extraction:
    """A model on its way through the batches of some rows.

    Used as a context: the model is on `device` inside, and what was stored is discarded if the block fails.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Any = None,
        *,
        inputs: Callable[[Any], Any] | None = None,
        device: torch.device | str | None = None,
        flatten: str = "flatten",
        channels: str = "auto",
        grid: int | tuple[int, ...] | None = None,
        max_positions: int | None = None,
        tokens: str | Callable[[Any, Any], Any] | None = None,
        random_state: int = 0,
        output: Any = None,
        dtype: Any = None,
        out: str | os.PathLike[str] | None = None,
        out_device: torch.device | str | None = None,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self._targets = choose_targets(self.model, layers)
        self._is_default = layers is None
        self._adapter = Adapter(
            flatten=flatten,
            channels=channels,
            grid=grid,
            max_positions=max_positions,
            tokens=tokens,
            seed=random_state,
        )
        self._recorder = Recorder(self.model, self._targets, output, self._adapter)
        self._dtype = None if dtype is None else _torch_dtype(dtype)
        self._sink = _sinks.make_sink(out, _empty)
        if out is not None and out_device is not None:
            raise ValueError("out_device is for layers kept in memory (out=None); a file lies on no device.")
        for wanted in (device, out_device):
            if wanted is not None:
                _backends.resolve("torch", wanted)  # says in one line what is missing
        self._out_device = torch.device(out_device or "cpu")
        self._device = None if device is None else torch.device(device)
        self._float_type = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        self._names: list[str] | None = None
        self.n_seen = 0
        self._stack = ExitStack()

    def __enter__(self) -> Extraction:
        self._device = self._stack.enter_context(_placed(self.model, self._device))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._stack.close()
        if kind is not None:
            self._sink.discard()

    def matrices(self, drawn: Drawn) -> dict[str, torch.Tensor]:
        """Run the model on a batch and return the matrix of every layer."""
        return self._matrices(make_batch(drawn, self.inputs, self._float_type))

    def _matrices(self, batch: Batch) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}

        def receive(name: str, matrix: torch.Tensor) -> None:
            found[name] = self._copied(matrix)

        self._run(batch, receive, found)
        return found

    def feed(self, drawn: Drawn, n_rows: int | None) -> None:
        """Run the model on a batch of the `n_rows` rows in all (None: not known) and store its layers."""
        batch = make_batch(drawn, self.inputs, self._float_type)
        if self._names is None:
            first = self._matrices(batch)
            self._sink.prepare(self._shapes(first, batch.n_rows, n_rows))
            for name, matrix in first.items():
                self._sink.write(name, matrix)
            return
        found: dict[str, None] = {}
        copies = n_rows is None or self._adapter.multiplies_rows

        def receive(name: str, matrix: torch.Tensor) -> None:
            # A layer that did not run in the first batch is reported at the end of this one.
            found[name] = None
            if name in known:
                self._sink.write(name, self._copied(matrix) if copies else self._cast(matrix))

        known = set(self._names)
        self._run(batch, receive, found)

    def _run(self, batch: Batch, receive: Callable[[str, torch.Tensor], None], found: dict[str, Any]) -> None:
        assert self._device is not None
        moved = batch.to(self._device)
        self._adapter.begin(self.n_seen, moved)
        self._recorder.run(moved, receive)
        if self._names is None:
            self._check_first(list(found))
            self._names = list(found)
        elif list(found) != self._names:
            self._refuse_change(list(found))
        self.n_seen += batch.n_rows

    def _cast(self, matrix: torch.Tensor) -> torch.Tensor:
        return matrix.to(device=self._out_device, dtype=self._dtype or matrix.dtype)

    def _copied(self, matrix: torch.Tensor) -> torch.Tensor:
        if self._out_device.type == "cpu":
            return _empty_on_cpu(tuple(matrix.shape), self._dtype or matrix.dtype).copy_(matrix)
        # Contiguous, so that a view of a few columns does not keep a whole map in memory.
        return matrix.to(device=self._out_device, dtype=self._dtype or matrix.dtype, copy=True).contiguous()

    def _shapes(self, first: dict[str, torch.Tensor], n_batch: int, n_rows: int | None) -> dict[str, _sinks.LayerShape]:
        known = None if n_rows is None or self._adapter.multiplies_rows else n_rows
        in_memory = isinstance(self._sink, _sinks.MemorySink) and self._out_device.type == "cpu"
        return {
            name: _sinks.LayerShape(
                n_units=matrix.shape[1],
                # NumPy, and so a file, has no bfloat16.
                itemsize=4 if matrix.dtype is torch.bfloat16 and not in_memory else matrix.element_size(),
                n_rows=None if known is None else known * matrix.shape[0] // n_batch,
            )
            for name, matrix in first.items()
        }

    def _check_first(self, found: list[str]) -> None:
        """After the first batch, name the layers that were asked for and did not run or hold no rows."""
        ran = {name.removesuffix(":input").partition("#")[0] for name in found}
        left_out = self._recorder.left_out
        silent = [t for t in self._targets if _stem(t.name) not in ran and t.name not in left_out]
        missing = [t.name for t in silent if t.is_named]
        if missing:
            raise ValueError(
                f"Layer{'s' if len(missing) > 1 else ''} {_shown(missing)} did not run when the model was called: "
                "nothing can be recorded. The module exists, but the model does not call it (for this input)."
            )
        if not found:
            reasons = f" {next(iter(left_out.values()))}" if left_out else ""
            raise ValueError(f"No layer that was asked for ran and returned rows.{reasons}")
        if left_out:
            exceptions.warn(
                UserWarning(f"Layers left out: {_shown(list(left_out))}. {next(iter(left_out.values()))}"),
            )
        if silent and not self._is_default:
            exceptions.warn(UserWarning(f"Layers that did not run are left out: {_shown([t.name for t in silent])}."))

    def _refuse_change(self, found: list[str]) -> None:
        assert self._names is not None
        changed = sorted(set(found) ^ set(self._names))
        raise ValueError(
            f"Layer{'s' if len(changed) > 1 else ''} {_shown(changed)} ran in some batches and not, or not as often, "
            f"in others (seen in the batch that starts at row {self.n_seen}): its rows would not pair up. The model's "
            "path depends on its data; choose layers that always run."
            if changed
            else f"The layers ran in another order in the batch that starts at row {self.n_seen}."
        )

    def finish(self, source: Source) -> Layers:
        """Return the layers stored, after the last batch."""
        if self._names is None:
            raise ValueError("The data gave no batch.")
        if source.n_rows is not None and self.n_seen != source.n_rows:
            raise ValueError(f"The data gave {self.n_seen} rows where {source.n_rows} were expected.")
        layers = self._sink.finish()
        labels = self._adapter.labels(source.labels, self.n_seen)
        return Layers._of(dict(layers), labels)


def _empty(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """Return an empty tensor, on the CPU in memory of NumPy: it asks for large pages, which are faster to fill."""
    if like.device.type != "cpu":
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    return _empty_on_cpu(shape, like.dtype)


def _empty_on_cpu(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    memory = np.empty(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return torch.from_numpy(memory).view(dtype).reshape(shape)


@contextmanager
def _placed(model: nn.Module, device: torch.device | None) -> Iterator[torch.device]:
    """Have the model on a device for the block, and back where it was; None is where it is."""
    devices = list(dict.fromkeys(tensor.device for tensor in chain(model.parameters(), model.buffers())))
    if torch.device("meta") in devices:
        raise ValueError("The model has parameters without values (device 'meta'): load its weights first.")
    home = devices[0] if devices else torch.device("cpu")
    if device is None or devices == [device] or not devices:
        yield device or home
        return
    if len(devices) > 1:
        raise ValueError(f"The model is spread over {', '.join(map(str, devices))}: leave device=None.")
    model.to(device)
    try:
        yield device
    finally:
        model.to(home)


def _torch_dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        found: Any = dtype
    else:
        name = dtype if dtype == "bfloat16" else np.dtype(dtype).name
        found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or found.is_complex:
        raise ValueError(f"dtype must be a real type, such as 'float32', got {dtype!r}.")
    return found


def _stem(name: str) -> str:
    return name.removesuffix(":input")


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(map(repr, names[:_NAMES_SHOWN])) + more


@singledispatch
def prepare(model: nn.Module, layers: Any, options: dict[str, Any]) -> tuple[nn.Module, Any, dict[str, Any]]:
    """Return the module to run, its layers and options; other libraries register what their models need."""
    return model, layers, options


def _extraction(model: nn.Module, layers: Any, options: dict[str, Any]) -> Extraction:
    model = unwrap(model)
    register_library_of(model)
    model, layers, options = prepare(model, layers, options)
    return Extraction(model, layers, **options)


def extract_together(
    models: Sequence[nn.Module],
    X: Any,
    layers: Sequence[Any],
    options: Sequence[dict[str, Any]],
    *,
    batch_size: int | None,
    verbose: int,
) -> list[Layers]:
    """Send every batch through all models before the next one is drawn, and return the layers of each."""
    extractions = [_extraction(*each) for each in zip(models, layers, options, strict=True)]
    takes_lists = all(extraction.inputs is not None for extraction in extractions)
    source = make_source(X, batch_size=batch_size, takes_lists=takes_lists)
    with ExitStack() as stack:
        for extraction in extractions:
            stack.enter_context(extraction)
        progress = stack.enter_context(_progress(source.n_rows, verbose))
        n_seen = 0
        for drawn in source.batches():
            for extraction in extractions:
                extraction.feed(drawn, source.n_rows)
            progress.update(extractions[0].n_seen - n_seen)
            n_seen = extractions[0].n_seen
        return [extraction.finish(source) for extraction in extractions]


def iter_together(
    models: Sequence[nn.Module],
    X: Any,
    layers: Sequence[Any],
    options: Sequence[dict[str, Any]],
    *,
    batch_size: int | None,
    verbose: int,
) -> Iterator[list[Layers]]:
    """Send every batch through all models and yield the layers of each, keeping none."""
    extractions = [_extraction(*each) for each in zip(models, layers, options, strict=True)]
    takes_lists = all(extraction.inputs is not None for extraction in extractions)
    source = make_source(X, batch_size=batch_size, takes_lists=takes_lists)
    with ExitStack() as stack:
        for extraction in extractions:
            stack.enter_context(extraction)
        progress = stack.enter_context(_progress(source.n_rows, verbose))
        for drawn in source.batches():
            start = extractions[0].n_seen
            found = [extraction.matrices(drawn) for extraction in extractions]
            stop = extractions[0].n_seen
            labels = None if source.labels is None else source.labels[start:stop]
            yield [
                Layers._of(arrays, labels if all(len(array) == stop - start for array in arrays.values()) else None)
                for arrays in found
            ]
            progress.update(stop - start)


@extractor.register(nn.Module)
def _module_layers(
    model: nn.Module, X: Any, layers: Any = None, *, batch_size: int | None = None, verbose: int = 1, **options: Any
) -> Layers:
    """Return what the modules of a torch model make of every row."""
    (found,) = extract_together([model], X, [layers], [options], batch_size=batch_size, verbose=verbose)
    return found


_module_layers.runs_on_device = True  # type: ignore[attr-defined]


@extractor.register(ExportedProgram)
def _exported_layers(model: ExportedProgram, X: Any, layers: Any = None, **options: Any) -> Layers:
    """Refuse a program whose modules were dissolved into operations."""
    raise TypeError(
        "An exported program has no modules to record: torch.export dissolved them into operations. Pass "
        "torch.export.unflatten(program), which has modules again, or the model that was exported."
    )


@iter_layers.register(nn.Module)
def _module_batches(
    model: nn.Module, X: Any, layers: Any = None, *, batch_size: int | None = None, verbose: int = 1, **options: Any
) -> Iterator[Layers]:
    """Yield the layers of one batch after another."""
    for name in ("out", "out_device"):
        if options.get(name) is not None:
            raise ValueError(f"{name} is for extract_layers; iter_layers keeps nothing.")
    for (found,) in iter_together([model], X, [layers], [options], batch_size=batch_size, verbose=verbose):
        yield found


def _progress(n_rows: int | None, verbose: int) -> Any:
    return tqdm(
        total=n_rows,
        desc="extracting layers",
        unit="row",
        disable=verbose <= 0,
        delay=_SILENT_SECONDS,
        leave=False,
    )
