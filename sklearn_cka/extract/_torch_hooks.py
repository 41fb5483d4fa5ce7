"""Running a torch model once with hooks on its layers, and leaving it as it was.

Hooks exist only while one batch runs: they are removed when the forward pass ends, fails or is interrupted, and a
generator over batches that is abandoned holds none. For the same time the modules are in evaluation mode, each with
its own flag put back afterwards, buffers are restored if the model changed them, and no graph is recorded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from sklearn_cka._arrays import describe_type
from sklearn_cka.extract._torch_data import Batch
from sklearn_cka.extract._torch_layers import Pick, Target

Receive = Callable[[str, torch.Tensor], None]
Adapt = Callable[[str, torch.Tensor, Batch], torch.Tensor]


class UnfitOutputError(ValueError, TypeError):
    """What a module returned has no rows to store."""


class Recorder:
    """Run a model on a batch and hand on, at the moment it is made, what each layer makes of it.

    Parameters
    ----------
    model : Module
        The model, unwrapped.
    targets : list of Target
        The modules to record.
    output : int, str, callable, dict or None
        Which tensor of a structured output is meant; a dict has one of these per layer name.
    adapt : callable
        Makes the matrix to store of a layer's name, its tensor and the batch; raises UnfitOutputError.
    """

    def __init__(self, model: nn.Module, targets: Sequence[Target], output: Any, adapt: Adapt) -> None:
        self.model = model
        self.targets = list(targets)
        self._output = output
        self._adapt = adapt
        # Layers of the model's choosing, not the user's, that turned out to hold no rows: name -> reason.
        self.left_out: dict[str, str] = {}

    def run(self, batch: Batch, receive: Receive) -> Any:
        """Run the model on a batch; `receive` gets the name and the matrix of every layer, in call order.

        Matrices may share memory with tensors that the model goes on to change: `receive` has to copy them.
        """
        calls: dict[Target, int] = {}

        def record(target: Target, value: Any) -> None:
            calls[target] = calls.get(target, 0) + 1
            name = _call_name(target, calls[target])
            if target.name in self.left_out:
                return
            try:
                tensor = resolve(name, value, pick_for(self._output, name, target.name))
                matrix = self._adapt(name, _rows_first(tensor, target.module, batch.n_rows), batch)
            except UnfitOutputError as error:
                if target.is_named:
                    raise
                self.left_out[target.name] = str(error)
                return
            receive(name, matrix)

        with ExitStack() as stack:
            stack.enter_context(unchanged(self.model))
            for target in self.targets:
                stack.enter_context(_hooked(target, record))
            return self.model(*batch.args, **batch.kwargs)


@contextmanager
def _hooked(target: Target, record: Callable[[Target, Any], None]) -> Iterator[None]:
    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        record(target, args if args else kwargs)

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        record(target, output)

    if target.side == "input":
        handle = target.module.register_forward_pre_hook(before, with_kwargs=True)
    else:
        handle = target.module.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def _call_name(target: Target, call: int) -> str:
    if call == 1:
        return target.name
    stem = target.name.removesuffix(":input")
    return f"{stem}#{call}{target.name[len(stem) :]}"


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode without autograd for the block, and everything back afterwards.

    The flag of every module is kept and restored by itself: ``model.eval()`` and ``model.train()`` would put modules
    that were frozen on purpose into training mode, and may be overridden to do more.
    """
    flags = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone(), buffer._version)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if buffer.device.type != "meta"
    ]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(_eager(model))
        try:
            for module, _ in flags:
                module.training = False
            yield
        finally:
            for module, flag in flags:
                module.training = flag
            for module, name, buffer, copy, version in buffers:
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                if buffer._version != version:
                    buffer.copy_(copy)


@contextmanager
def _eager(model: nn.Module) -> Iterator[None]:
    """Run modules one by one, where torch would run several as one: fused attention, compiled modules."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        if not any(_is_compiled(module) for module in model.modules()):
            yield
        elif hasattr(torch.compiler, "set_stance"):
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            raise TypeError(
                "The layers of a compiled model cannot be recorded with this version of torch: pass the model that "
                "was compiled, or use torch 2.6 or newer."
            )
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def _is_compiled(module: nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def pick_for(output: Any, name: str, target_name: str) -> Pick:
    """Return the choice among a structured output for one layer."""
    if isinstance(output, Mapping):
        return output.get(name, output.get(target_name))
    return output


def resolve(name: str, value: Any, pick: Pick = None) -> torch.Tensor:
    """Return the tensor that a module's output, or input, stands for: the one picked, or else the first in it.

    Parameters
    ----------
    name : str
        The layer, for messages.
    value : object
        A tensor, or tuples, lists, mappings and dataclasses that hold tensors, one inside the other.
    pick : int, str, callable or None
        The position in a tuple or list, the key in a mapping or attribute, or a function of `value`.

    Raises
    ------
    UnfitOutputError
        If there is no tensor, or no such part.
    """
    if callable(pick):
        value = pick(value)
    elif pick is not None:
        value = _part(name, value, pick)
    if isinstance(value, PackedSequence):
        raise UnfitOutputError(
            f"Layer {name!r} returns a PackedSequence, whose rows are steps of all sequences together; pass output=, a "
            "function that returns a tensor with one row per sequence, such as that of pad_packed_sequence."
        )
    tensor = _first_tensor(value)
    if tensor is None:
        raise UnfitOutputError(
            f"Layer {name!r} returns {describe_type(value)}, in which there is no tensor; pass output= (a position, a "
            "key or attribute, or a function) to say what to take, or leave the layer out."
        )
    if tensor.is_nested or tensor.layout is not torch.strided:
        raise UnfitOutputError(f"Layer {name!r} returns a nested or sparse tensor; pass output=, a function that pads.")
    return tensor.detach()


def _part(name: str, value: Any, pick: int | str) -> Any:
    try:
        if isinstance(pick, str) and not isinstance(value, Mapping):
            return getattr(value, pick)
        return value[pick]
    except (AttributeError, IndexError, KeyError, TypeError):
        parts = list(value) if isinstance(value, Mapping) else range(len(value)) if isinstance(value, tuple) else None
        has = f"; it has {', '.join(map(repr, parts))}" if parts else ""
        raise UnfitOutputError(
            f"output={pick!r} is no part of what layer {name!r} returns ({describe_type(value)}){has}."
        ) from None


def _first_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Mapping):
        parts: Any = value.values()
    elif isinstance(value, (tuple, list)):
        parts = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, field.name) for field in dataclasses.fields(value))
    else:
        return None
    return next((tensor for part in parts if (tensor := _first_tensor(part)) is not None), None)


def _rows_first(tensor: torch.Tensor, module: nn.Module, n_rows: int) -> torch.Tensor:
    """Return a tensor with the rows on its first axis; modules with ``batch_first=False`` have them on the second."""
    if getattr(module, "batch_first", None) is False and tensor.ndim == 3:
        return tensor.transpose(0, 1)
    return tensor
