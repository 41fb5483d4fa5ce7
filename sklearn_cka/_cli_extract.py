"""The command ``sklearn-cka extract``: the layers of a torch model into a file that ``compare`` reads."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Checkpoints hold the weights under one of these names, or are the weights.
_WEIGHTS = ("state_dict", "model_state_dict", "model")


def add_parser(commands: Any) -> None:
    """Add the command to the subparsers of a parser; its function is the default ``run``.

    Parameters
    ----------
    commands : argparse subparsers action
        What ``ArgumentParser.add_subparsers`` returned.
    """
    extract = commands.add_parser(
        "extract",
        help="run a torch model on a file of rows and write its layers to a file",
        description="Build a torch model with an importable function, load a checkpoint into it, run it on the rows of "
        "a file, and write what its layers make of them to a file that `compare` reads. Modules are looked for in the "
        "current folder too.",
    )
    extract.add_argument("factory", type=_factory_name, metavar="MODULE:FUNCTION", help="function that returns a model")
    extract.add_argument(
        "data", type=Path, metavar="DATA", help="rows: .npy, .pt, or .npz and .safetensors of one array per input"
    )
    extract.add_argument("--checkpoint", type=Path, metavar="FILE", help="weights, read with torch.load(weights_only)")
    extract.add_argument(
        "--out", type=Path, metavar="FILE", required=True, help=".npz, .safetensors, .zarr, or a folder of .npy"
    )
    extract.add_argument(
        "--layers", action="append", metavar="PATTERN", help="module name or pattern; may be repeated (default: leaves)"
    )
    extract.add_argument("--batch-size", type=int, metavar="N", help="rows per forward pass (default: 64)")
    extract.add_argument("--device", metavar="NAME", help="where to run, such as cuda (default: where the model is)")
    extract.add_argument("--dtype", metavar="NAME", help="type to store, such as float16 (default: that of the model)")
    extract.add_argument(
        "--flatten",
        choices=("flatten", "mean", "positions"),
        default="flatten",
        help="what becomes of maps: all values of a row, the mean over positions, or each position a row",
    )
    extract.add_argument(
        "--tokens", choices=("mean", "first", "last"), help="reduce sequences over the tokens of the attention mask"
    )
    extract.add_argument("--quiet", action="store_true", help="show no progress")
    extract.set_defaults(run=run)


def _factory_name(text: str) -> str:
    module, colon, function = text.partition(":")
    if not (module and colon and function):
        raise argparse.ArgumentTypeError(f"must be MODULE:FUNCTION, got {text!r}")
    return text


def run(args: argparse.Namespace) -> None:
    """Run the command.

    Raises
    ------
    ImportError
        If torch or the module of the factory cannot be imported.
    ValueError
        If the factory, the checkpoint or the data cannot be used.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError('extract needs torch: pip install "sklearn_cka[torch]".') from error
    from sklearn_cka import extract_layers

    model = _build(args.factory)
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"{args.factory} returned {type(model).__name__}, not a torch module.")
    if args.checkpoint is not None:
        _load_weights(model, args.checkpoint)
    options = {} if args.tokens is None else {"tokens": args.tokens}
    rows = _read_rows(args.data)
    try:
        layers = extract_layers(
            model,
            rows,
            layers=args.layers,
            batch_size=args.batch_size,
            device=args.device,
            dtype=args.dtype,
            flatten=args.flatten,
            out=args.out,
            verbose=0 if args.quiet else 1,
            **options,
        )
    except (RuntimeError, IndexError) as error:  # of the model's own code
        raise ValueError(f"The model of {args.factory} fails on the rows of {str(args.data)!r}: {error}") from error
    print(layers)


def _build(factory: str) -> Any:
    module_name, _, function_name = factory.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module = importlib.import_module(module_name)
    function: Any = module
    for part in function_name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ValueError(f"Module {module_name!r} has no function {function_name!r}.")
    try:
        return function()
    except Exception as error:
        raise ValueError(f"{factory} raised {type(error).__name__}: {error}") from error


def _load_weights(model: Any, path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"No such file: {str(path)!r}.")
    state = _load_torch(path)
    for name in _WEIGHTS:
        if isinstance(state, Mapping) and isinstance(state.get(name), Mapping):
            state = state[name]
    if not isinstance(state, Mapping):
        raise ValueError(f"{str(path)!r} holds {type(state).__name__}, not a state dict.")
    weights = {str(name).removeprefix("module.").removeprefix("_orig_mod."): value for name, value in state.items()}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"The weights of {str(path)!r} do not fit the model: {error}") from error


def _load_torch(path: Path) -> Any:
    """Return what a file written by torch holds, without running any code of it."""
    import pickle

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{str(path)!r} cannot be read as plain tensors: it holds other Python objects or was not written by"
            " torch.save. Load it in the factory instead, if you trust it."
        ) from error
    except Exception as error:  # what torch makes of a file that is none of its own has no type of its own
        raise ValueError(f"{str(path)!r} is no file of torch ({type(error).__name__}: {error}).") from error


def _read_rows(path: Path) -> Any:
    """Return the rows of a file: an array, a tensor, or a dict of one array per keyword input."""
    import numpy as np

    from sklearn_cka import _storage

    if not path.exists():
        raise FileNotFoundError(f"No such file: {str(path)!r}.")
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.suffix in (".pt", ".pth"):
        return _load_torch(path)
    if path.suffix in (".npz", ".safetensors"):
        arrays = dict(_storage.read(path))
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays
    raise ValueError(f"Rows are read from .npy, .npz, .safetensors and .pt files; got {str(path)!r}.")
