"""The command line, ``sklearn-cka`` or ``python -m sklearn_cka``.

Tables go to standard output, progress and messages to standard error. The exit status is 0 after success, 1 where the
data or the machine are at fault, 2 where the command line is, 130 after Ctrl-C and 141 when the reader of a pipe left.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn_cka import _cli_extract

if TYPE_CHECKING:  # a command imports what it needs, so that --help and --version answer at once
    from sklearn_cka.indexes._base import BaseIndex
    from sklearn_cka.layers import Layers
    from sklearn_cka.pairwise.table import SimilarityTable

__all__ = ["main"]

PROGRAM = "sklearn-cka"
INSTALL_PLOT = 'pip install "sklearn_cka[plot]"'
TABLE_SUFFIXES = (".csv", ".npz")

KERNEL_NOTES = {
    "linear": "x.x'",
    "rbf": "exp(-|x-x'|^2 / (2 s^2)), s = bandwidth x the median distance within each representation",
    "laplacian": "exp(-|x-x'|_1 / s), s = bandwidth x the median distance",
    "polynomial": "(gamma x.x' + coef0)^degree",
    "sigmoid": "tanh(gamma x.x' + coef0)",
    "cosine": "the cosine of the angle between x and x'",
    "chi2": "exp(-gamma sum (x-x')^2 / (x+x')), for values >= 0",
    "additive_chi2": "-sum (x-x')^2 / (x+x'), for values >= 0",
    "distance": "-|x-x'|: CKA is then the squared distance correlation",
    "delta": "1 where the labels are equal: one column of class labels",
    "precomputed": "the arrays are Gram matrices",
}


class UsageError(Exception):
    """A command line that asks for something that does not exist."""


class DataError(Exception):
    """Input or output that cannot be used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments; those of the process by default.

    Returns
    -------
    int
        0 after success, 1 if the data or the machine are at fault, 2 if the command line is, 130 after Ctrl-C,
        141 if the reader of standard output went away.
    """
    args = _parser().parse_args(argv)
    try:
        with _warnings_in_one_line():
            args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The interpreter flushes standard output once more as it ends, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except UsageError as error:
        _print_error(error)
        return 2
    except OSError as error:
        _print_error(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error)
        return 1
    except (DataError, ImportError, MemoryError, TypeError, ValueError) as error:
        _print_error(str(error) or type(error).__name__)
        return 1
    return 0


def _print_error(error: object) -> None:
    print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print warnings as a message for people, without the line of code that raised them."""

    def show(message: Warning | str, *where: object, **more: object) -> None:
        print(f"{PROGRAM}: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _parser() -> argparse.ArgumentParser:
    from sklearn_cka import __version__

    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Compare representations of the same rows: layers of neural networks above all."
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="train two small networks on digits and compare their layers",
        description="Train two networks on the digits of scikit-learn from different seeds, compare their layers with "
        "linear CKA, print the table and draw it as a heat map. Takes well under a minute.",
    )
    demo.add_argument("--out", type=Path, metavar="FILE", default=Path("demo.png"), help="picture (default: demo.png)")
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first network (default: 0)")
    demo.add_argument("--quiet", action="store_true", help="show no progress")
    demo.set_defaults(run=_demo)

    compare = commands.add_parser(
        "compare",
        help="compare the layers in one file, or of one file with those of another",
        description="Compare layers: arrays of an .npz, .safetensors or .zarr file or of a folder of .npy files, whose "
        "rows are the same examples in the same order. With one file every layer is compared with every other; with "
        "two, the rows of the table are the layers of the first file and its columns those of the second.",
    )
    compare.add_argument(
        "a", type=Path, metavar="A", help="layers of one model: .npz, .safetensors, .zarr or a folder of .npy"
    )
    compare.add_argument("b", type=Path, metavar="B", nargs="?", help="layers of another model (default: those of A)")
    compare.add_argument("--index", default="cka", metavar="NAME", help="see `indexes` (default: cka)")
    compare.add_argument("--kernel", metavar="NAME", help="see `kernels` (default: that of the index, linear)")
    compare.add_argument("--bandwidth", type=_positive, metavar="X", help="of rbf and laplacian, in median distances")
    compare.add_argument("--debiased", action="store_true", help="the estimate that is 0 on average by chance")
    compare.add_argument(
        "--param",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another option of the index; may be repeated",
    )
    compare.add_argument(
        "--layers",
        action="append",
        metavar="PATTERN",
        help="only layers of this name or pattern, such as 'conv*'; may be repeated",
    )
    compare.add_argument(
        "--flatten",
        choices=("flatten", "mean", "positions"),
        default="flatten",
        help="what becomes of arrays of more than two dimensions: all values of a row side by side, the mean over "
        "positions, or every position a row of its own (default: flatten)",
    )
    compare.add_argument(
        "--distance", action="store_true", help="give the distance form of the index, a metric, see `indexes`"
    )
    compare.add_argument("--backend", metavar="NAME", help="array library to compute with, such as torch or jax")
    compare.add_argument("--device", metavar="NAME", help="device of the backend, such as cuda")
    compare.add_argument(
        "--precision", choices=("tf32", "bf16"), help="a lower precision of float32 products (default: full float32)"
    )
    compare.add_argument("--out", type=Path, metavar="FILE", help="write the table to a .csv or .npz file")
    compare.add_argument("--plot", type=Path, metavar="FILE", help="draw the table: .png, .pdf, .svg, ...")
    compare.add_argument("--n-jobs", type=int, metavar="N", help="parallel jobs, -1 for all cores (default: 1)")
    compare.add_argument("--quiet", action="store_true", help="show no progress")
    compare.set_defaults(run=_compare)

    _cli_extract.add_parser(commands)

    indexes = commands.add_parser("indexes", help="list the similarity indexes, what each declares, and their options")
    indexes.set_defaults(run=_list_indexes)
    kernels = commands.add_parser("kernels", help="list the kernels and the bandwidth rules")
    kernels.set_defaults(run=_list_kernels)
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _compare(args: argparse.Namespace) -> None:
    index = _configured_index(args)
    _check_outputs(args)
    a = _load(args.a, args.flatten)
    b = None if args.b is None else _load(args.b, args.flatten)
    if b is not None and a.n_rows != b.n_rows:
        raise DataError(
            f"{args.a} has {a.n_rows} rows and {args.b} has {b.n_rows}: both must describe the same examples in the "
            "same order."
        )
    if args.layers:
        a, b = _pick(args, a, b)

    from sklearn_cka import compare_layers

    table = compare_layers(
        a,
        b,
        index=index,
        output="distance" if args.distance else "similarity",
        n_jobs=args.n_jobs,
        backend=args.backend,
        device=args.device,
        precision=args.precision,
        verbose=0 if args.quiet else 1,
    )
    if args.out is not None:
        _write_table(table, args.out)
    if args.plot is not None:
        _draw(table, args.plot)
    print(_text(table))


def _configured_index(args: argparse.Namespace) -> BaseIndex:
    from sklearn_cka import get_index, index_names, kernel_names

    _check_name("index", args.index, index_names())
    known = get_index(args.index).get_params()
    given = {"kernel": args.kernel, "bandwidth": args.bandwidth, "debiased": args.debiased or None}
    params = {name: value for name, value in given.items() if value is not None} | dict(args.param)
    for name in params:
        if name not in known:
            raise UsageError(
                f"index {args.index!r} has no option {name!r}; its options are: {', '.join(sorted(known)) or 'none'}."
            )
    for name in ("kernel", "kernel_y"):
        if isinstance(params.get(name), str):
            _check_name(name, params[name], kernel_names())
    if "bandwidth" in params and not {params.get("kernel"), params.get("kernel_y")} & {"rbf", "laplacian"}:
        raise UsageError("--bandwidth needs a kernel that has one: add --kernel rbf or --kernel laplacian.")
    return get_index(args.index, **params)


def _check_name(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        close = get_close_matches(name, known)
        hint = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
        raise UsageError(f"unknown {kind} {name!r}.{hint} Known are: {', '.join(known)}.")


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse what could not be written before the work rather than after it."""
    if args.out is not None:
        if args.out.suffix not in TABLE_SUFFIXES:
            raise UsageError(f"--out must end in {' or '.join(TABLE_SUFFIXES)}, got {args.out}.")
        _check_writable(args.out, inputs=[args.a, args.b])
    if args.plot is not None:
        _check_picture(args.plot)


def _check_picture(path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError(f"drawing {path} needs matplotlib: {INSTALL_PLOT}") from error
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in formats:
        raise UsageError(
            f"a picture must end in one of {', '.join(f'.{name}' for name in sorted(formats))}, got {path}."
        )
    _check_writable(path)


def _check_writable(path: Path, inputs: Sequence[Path | None] = ()) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a directory, not a file to write to.")
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {path.parent}.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise DataError(f"cannot write {path}: permission denied.")
    if path.exists() and any(file is not None and file.exists() and path.samefile(file) for file in inputs):
        raise UsageError(f"--out {path} would overwrite an input file.")


def _load(path: Path, flatten: str) -> Layers:
    from sklearn_cka.layers import Layers

    if not path.exists():
        raise DataError(f"{path}: no such file.")
    try:
        return Layers.load(path, flatten=flatten)
    except (TypeError, ValueError) as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from error


def _pick(args: argparse.Namespace, a: Layers, b: Layers | None) -> tuple[Layers, Layers | None]:
    """Return the layers of both files that `--layers` names; a pattern has to match in at least one of them."""
    from sklearn_cka.extract import select_layers

    names = list(dict.fromkeys([*a, *(b or ())]))
    try:
        wanted = select_layers(names, args.layers)
    except ValueError as error:
        raise DataError(str(error)) from error

    def part(layers: Layers, path: Path) -> Layers:
        found = [name for name in wanted if name in layers]
        if not found:
            raise DataError(f"{path} has no layer of those that --layers names; it has: {', '.join(layers)}.")
        return layers.select(*found)

    return part(a, args.a), None if b is None else part(b, args.b)


def _text(table: SimilarityTable) -> str:
    from sklearn_cka.display import default_format, format_value

    spec = default_format(table.values, decimals=3)
    return str(table.to_frame().to_string(float_format=lambda value: format_value(value, spec), na_rep="-"))


def _write_table(table: SimilarityTable, path: Path) -> None:
    if path.suffix == ".csv":
        table.to_frame().to_csv(path, index_label="layer")
        return
    import numpy as np

    np.savez(
        path,
        values=table.values,
        chance=table.chance,
        row_names=np.array(table.row_names),
        column_names=np.array(table.column_names),
        index=np.array(table.index),
    )


def _draw(table: SimilarityTable, path: Path, **options: Any) -> None:
    import matplotlib

    if "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("agg")  # a file needs no window, which there may be no screen for
    import matplotlib.pyplot as plt

    figure = table.plot(**options).figure_
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _demo(args: argparse.Namespace) -> None:
    try:
        _check_picture(args.out)
        can_draw = True
    except DataError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
        can_draw = False

    import numpy as np

    from sklearn_cka import compare_layers
    from sklearn_cka.extract import extract_layers

    networks, unseen, accuracies = _two_digit_networks(args.seed, quiet=args.quiet)
    first, second = (extract_layers(network, unseen) for network in networks)
    table = compare_layers(first, second, index="cka", verbose=0)

    sizes = "-".join(str(size) for size in (unseen.shape[1], *(w.shape[1] for w in networks[0].coefs_)))
    print(
        f"Two networks ({sizes}) learned to read digits from different random weights; they read "
        f"{accuracies[0]:.1%} and {accuracies[1]:.1%} of {len(unseen)} new images rightly.\n"
        "Linear CKA of their layers on these images (rows: first network, columns: second):\n"
    )
    print(_text(table), end="\n\n")
    if can_draw:
        # From just below the smallest value on, so that the colours of the others differ visibly.
        limits = {"vmin": np.floor(10 * table.values.min()) / 10}
        _draw(table, args.out, im_kw=limits, row_label="first network", column_label="second network")
        print(f"Heat map written to {args.out}")
    else:
        print(f"For the heat map install matplotlib and run the demo again: {INSTALL_PLOT}")

    diagonal = np.diagonal(table.values)
    own = int((table.values.argmax(axis=1) == np.arange(len(diagonal))).sum())
    print(
        f"What to look at: the diagonal. {own} of {len(diagonal)} layers of the first network are most similar to the "
        f"layer at the same depth of the second (CKA {diagonal.min():.2f} to {diagonal.max():.2f}), although no two "
        "of their units need be alike."
    )


def _two_digit_networks(seed: int, *, quiet: bool) -> tuple[list[Any], Any, list[float]]:
    """Train two networks that differ in their seed, and return them, images unseen by both, and their accuracies."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits
    from tqdm import tqdm

    images, digits = load_digits(return_X_y=True)
    seen, unseen, seen_digits, unseen_digits = train_test_split(
        images / 16, digits, test_size=0.5, stratify=digits, random_state=0
    )
    n_epochs = 40
    networks = [
        MLPClassifier((512, 256, 64), activation="tanh", batch_size=64, random_state=seed + i) for i in range(2)
    ]
    for number, network in enumerate(networks, start=1):
        # The products of a small network are too small to share: threads would wait for each other.
        with (
            threadpool_limits(1),
            tqdm(total=n_epochs, desc=f"training network {number} of 2", unit="epoch", disable=quiet) as progress,
        ):
            for _ in range(n_epochs):
                _interruptible(network.partial_fit, seen, seen_digits, classes=np.arange(10))
                progress.set_postfix(loss=f"{network.loss_:.4f}", refresh=False)
                progress.update()
    return networks, unseen, [network.score(unseen, unseen_digits) for network in networks]


def _interruptible(fit: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a method of a scikit-learn network, which makes a warning of Ctrl-C, and let Ctrl-C through."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Training interrupted by user")
        try:
            fit(*args, **kwargs)
        except UserWarning as warning:
            raise KeyboardInterrupt from warning


def _list_indexes(args: argparse.Namespace) -> None:
    from sklearn_cka import get_index, index_table

    table = index_table()
    rows = [("index", "family", "range", "symmetric", "metric", "rows", "options", "reference")]
    for name, row in table.sort_values(["family", "index"]).iterrows():
        rows.append(
            (
                str(name),
                row["family"],
                f"[{row['lowest']:.4g}, {row['highest']:.4g}]",
                "yes" if row["symmetric"] else "no",
                row["metric"] if isinstance(row["metric"], str) else "-",
                f">= {row['min_samples']}",
                ", ".join(get_index(str(name)).get_params()),
                row["reference"],
            )
        )
    _print_columns(rows)


def _list_kernels(args: argparse.Namespace) -> None:
    from sklearn_cka import bandwidth_rule_names, kernel_names

    _print_columns([("kernel", "k(x, x')"), *((name, KERNEL_NOTES.get(name, "")) for name in kernel_names())])
    print(f"\nBandwidth rules (--param bandwidth_rule=NAME): {', '.join(bandwidth_rule_names())}")


def _print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
