"""Print our figures beside those of every peer that is installed, and write them down.

    python -m benchmarks.peers [--rows NAME ...] [--quick] [--out DIR]

Peers that are not installed are named at the end of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.adapters import OURS, PEERS, absent
from benchmarks.peers.measure import measure_row
from benchmarks.peers.report import HEADER, draw, row_lines, version_lines
from benchmarks.peers.workloads import workloads


def compare(
    names: list[str] | None = None,
    *,
    quick: bool = False,
    rounds: int = 5,
    limit: float = 60.0,
    show: Callable[[str], Any] = str,
) -> dict[str, Any]:
    """Return the figures of the rows named, all of them by default."""
    known = workloads(quick)
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise ValueError(f"rows must be among {', '.join(known)}; got {', '.join(unknown)}")
    report: dict[str, Any] = {
        "quick": quick,
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "numpy": np.__version__,
        "versions": {found.name: found.version for found in [OURS, *PEERS]},
        "absent": [found.name for found in absent()],
        "rows": [],
    }
    for name in names or known:
        report["rows"].append(row := measure_row(known[name], quick=quick, rounds=rounds, limit=limit))
        show("\n".join(row_lines(row)))
    return report


def main(argv: list[str] | None = None) -> None:
    """Run the comparison from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rows", nargs="+", metavar="NAME", help=f"{', '.join(workloads())} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows and columns, half of the layers")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every package (default: 5)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a package is stopped")
    parser.add_argument("--out", type=Path, help="folder for peers.json and peers.png")
    args = parser.parse_args(argv)
    print(HEADER)
    show = partial(print, flush=True)
    report = compare(args.rows, quick=args.quick, rounds=args.rounds, limit=args.limit, show=show)
    print("\n".join(["", *version_lines(report)]))
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "peers.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
        draw(report, args.out / "peers.png")


if __name__ == "__main__":
    main()
