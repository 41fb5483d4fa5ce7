"""Which modules of a torch model are its layers, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from sklearn_cka._arrays import describe_type

_NAMES_SHOWN = 12
_SIDES = ("input", "output")
_HOLDERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
# The names under which wrappers hold the model.
_WRAPPED = ("module", "_orig_mod")


@dataclass(frozen=True)
class Target:
    """A module whose output or input is wanted, and the name of the layer."""

    name: str
    module: nn.Module
    side: str = "output"
    # Whether the user named this one layer, so that it is an error if it does not run or holds no rows.
    is_named: bool = False


def unwrap(model: nn.Module) -> nn.Module:
    """Return the model inside DataParallel, DistributedDataParallel and torch.compile.

    Raises
    ------
    TypeError
        If the model runs outside Python, where nothing can be recorded, or is spread over processes.
    """
    while True:
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        elif type(model).__name__ == "OptimizedModule":
            model = model.get_submodule("_orig_mod")
        else:
            break
    import torch

    for name, module in model.named_modules():
        where = f"its module {name!r}" if name else "it"
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError(
                f"The layers of this model cannot be recorded: {where} is compiled by TorchScript, whose modules are "
                "not run one by one. Pass the model that was scripted or traced."
            )
        if type(module).__name__ in ("FullyShardedDataParallel", "FSDPModule"):
            raise TypeError(
                f"The layers of this model cannot be recorded: {where} is spread over processes by FSDP. Load its full "
                "state into an ordinary model, and pass that."
            )
        if isinstance(module, DataParallel) and len(module.device_ids or ()) > 1:
            raise TypeError(
                f"The layers of this model cannot be recorded: {where} is a DataParallel inside the model, each of "
                "whose replicas sees a part of the rows. Replace it by its .module."
            )
    return model


def layer_names(model: nn.Module) -> dict[str, nn.Module]:
    """Return the modules of a model by name, without the names of wrappers inside it; the model itself is last."""
    named: dict[str, nn.Module] = {}

    def walk(module: nn.Module, prefix: str, above: tuple[nn.Module, ...]) -> None:
        # Not named_children: it leaves out the second name of a module that has two.
        for child_name, child in module._modules.items():
            # The modules of parametrizations make weights, not activations.
            if child is None or child_name == "parametrizations" or child in above:
                continue
            name = prefix if _is_inside(child_name, module) else f"{prefix}.{child_name}" if prefix else child_name
            if name:
                named[name] = child
            walk(child, name, (*above, child))

    walk(model, "", (model,))
    root = "output" if "output" not in named else type(model).__name__
    return {**named, root: model}


def _is_inside(name: str, wrapper: nn.Module) -> bool:
    """Whether a child of this name is what a wrapper wraps, and goes by the wrapper's own name."""
    if isinstance(wrapper, (DataParallel, DistributedDataParallel)):
        return name == "module"
    return name == "_orig_mod" or name == getattr(wrapper, "transparent", None)


def is_leaf(module: nn.Module) -> bool:
    """Whether a module has no modules inside it but those that make its weights."""
    return all(name == "parametrizations" for name, _ in module.named_children()) and not isinstance(module, _HOLDERS)


def choose_targets(model: nn.Module, layers: Any) -> list[Target]:
    """Return the modules that `layers` asks for.

    Parameters
    ----------
    model : Module
        The model, unwrapped.
    layers : str, type, callable, iterable of str or type, or None
        Names or patterns with an optional ``":input"`` or ``":output"``, module types, a function of name and module,
        or None for the leaf modules.

    Raises
    ------
    TypeError
        If `layers` is of another kind.
    ValueError
        If it matches nothing, or a module that is only a container.
    """
    named = layer_names(model)
    if layers is None:
        return [Target(name, module) for name, module in _distinct(named).items() if is_leaf(module)]
    wanted = [layers] if isinstance(layers, (str, type)) or callable(layers) else layers
    if not isinstance(wanted, Iterable):
        raise TypeError(f"layers must be names, patterns, module types or a function, got {layers!r}.")
    wanted = list(wanted)
    if not wanted:
        raise ValueError("layers is empty: name at least one layer, or pass None for the leaf modules.")
    found = [_matches(named, one) for one in wanted]
    unknown = [one for one, targets in zip(wanted, found, strict=True) if not targets and isinstance(one, str)]
    if unknown:
        raise ValueError(unknown_layers(unknown, list(named)))
    chosen: dict[tuple[int, str], Target] = {}
    for targets in found:
        for target in targets:
            key = id(target.module), target.side
            if key in chosen:
                target = replace(chosen[key], is_named=chosen[key].is_named or target.is_named)
            chosen[key] = target
    return list(chosen.values())


def _distinct(named: dict[str, nn.Module]) -> dict[str, nn.Module]:
    """Return every module once, under its first name."""
    seen: dict[int, str] = {}
    for name, module in named.items():
        seen.setdefault(id(module), name)
    return {name: named[name] for name in seen.values()}


def _matches(named: dict[str, nn.Module], wanted: Any) -> list[Target]:
    if isinstance(wanted, type):
        found = [Target(n, module) for n, module in _distinct(named).items() if isinstance(module, wanted)]
        if not found:
            kinds = sorted({type(module).__name__ for module in named.values()})
            raise ValueError(f"The model has no module of type {wanted.__name__}; it has {', '.join(kinds)}.")
        return found
    if isinstance(wanted, str):
        return _by_name(named, wanted)
    if callable(wanted):
        found = [
            Target(n, module)
            for n, module in _distinct(named).items()
            if not isinstance(module, _HOLDERS) and wanted(n, module)
        ]
        if not found:
            raise ValueError("The function given as layers is true of no module; it is called with name and module.")
        return found
    raise TypeError(
        f"layers must hold names, patterns (str), module types or functions, got {describe_type(wanted)} {wanted!r}."
    )


def _by_name(named: dict[str, nn.Module], wanted: str) -> list[Target]:
    pattern, side = wanted, "output"
    for one in _SIDES:
        if wanted.endswith(f":{one}"):
            pattern, side = wanted.removesuffix(f":{one}"), one
    suffix = ":input" if side == "input" else ""
    # The names of a wrapped model's parts start with the name under which the wrapper holds it.
    for candidate in dict.fromkeys([pattern, _without_wrappers(pattern)]):
        name = next(reversed(named)) if candidate == "" else candidate
        if name in named:
            return [_named_target(name, suffix, named[name], side)]
        found = [
            n for n, module in _distinct(named).items() if fnmatchcase(n, name) and not isinstance(module, _HOLDERS)
        ]
        if found:
            return [Target(n + suffix, named[n], side) for n in found]
    return []


def _named_target(name: str, suffix: str, module: nn.Module, side: str) -> Target:
    if isinstance(module, _HOLDERS):
        inside = [f"{name}.{child}" for child, _ in module.named_children()][:3]
        raise ValueError(
            f"Layer {name!r} is a {type(module).__name__}, which holds modules and is not run itself; name those in "
            f"it, such as {', '.join(map(repr, inside))}."
        )
    return Target(name + suffix, module, side, is_named=True)


def _without_wrappers(name: str) -> str:
    parts = name.split(".")
    while parts and parts[0] in _WRAPPED:
        del parts[0]
    return ".".join(part for part in parts if part != "_orig_mod")


def unknown_layers(wanted: list[str], names: list[str]) -> str:
    """Say which names stand for no layer, and which there are."""
    close = [match for one in wanted for match in get_close_matches(one.removesuffix(":input"), names)]
    hint = f" Did you mean {' or '.join(map(repr, dict.fromkeys(close)))}?" if close else ""
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    more = f", ... ({len(names)} in all)" if len(names) > _NAMES_SHOWN else ""
    plural = "s" if len(wanted) > 1 else ""
    return f"Unknown layer{plural} {', '.join(map(repr, wanted))}.{hint} The layers of the model are {shown}{more}."


Pick = Callable[[Any], Any] | int | str | None
