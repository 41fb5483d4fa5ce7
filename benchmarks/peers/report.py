"""The table and the figure of the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Shades that stay apart in grey, and hatches for those that do not see them.
_STYLES = [("#08306b", ""), ("#6baed6", ""), ("#bdbdbd", "///"), ("#f7f7f7", "..."), ("#969696", "xx"), ("#d9d9d9", "")]


def duration(seconds: float) -> str:
    """Write seconds in the largest unit that leaves a digit before the point."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


HEADER = f"{'row / package':<34} {'time':>10} {'x bound':>8} {'x ours':>8} {'memory':>9} {'error':>9}  remark"


def row_lines(row: dict[str, Any]) -> list[str]:
    """Return the lines of one row: one for ours and every peer."""
    widths = sorted(set(row["widths"]))
    p = f"p={widths[0]:,}" if len(widths) == 1 else f"p={widths[0]:,}..{widths[-1]:,}"
    out = [f"{row['title']} (n={row['n_samples']:,}, {p}, {row['dtype']}); bound {duration(row['bound'])}"]
    ours = row["results"].get("sklearn_cka", {}).get("seconds")
    for name, result in row["results"].items():
        if "failed" in result:
            out.append(f"  {name:<32} {result['failed']}")
            continue
        ratio = f"{result['seconds'] / ours:8.2f}" if ours else f"{'':>8}"
        remarks = [f"{1 / result['factor']:.0%} of the pairs, scaled"] if result["factor"] > 1 else []
        remarks += ["one run"] if "rounds" not in result else []
        out.append(
            f"  {name:<32} {duration(result['seconds']):>10} {result['seconds'] / row['bound']:8.1f} {ratio} "
            f"{result['memory'] / 2**20:6.0f} MB {result['error']:9.1e}  {'; '.join(remarks)}".rstrip()
        )
    return out


def version_lines(report: dict[str, Any]) -> list[str]:
    """Return the versions, and the packages that are absent by name."""
    return [f"{name} {version}" for name, version in report["versions"].items()]


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the times of every row as bars on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    rows = [row for row in report["rows"] if any("seconds" in result for result in row["results"].values())]
    heights = [sum("seconds" in result for result in row["results"].values()) + 1 for row in rows]
    figure = Figure(figsize=(7.5, 0.21 * sum(heights) + 0.9), layout="constrained")
    axes = figure.subplots(1, 1)
    position, ticks, labels = 0.0, [], []
    for row in rows:
        axes.text(
            0.0,
            position,
            f" {row['title']}",
            va="center",
            fontsize=8,
            fontweight="bold",
            transform=axes.get_yaxis_transform(),
        )
        position += 1
        known = {name: result for name, result in row["results"].items() if "seconds" in result}
        for name, result in sorted(known.items(), key=lambda item: item[1]["seconds"]):
            own, right = name == "sklearn_cka", result["error"] < 1e-5
            color, hatch = _STYLES[0] if own else (_STYLES[1] if right else _STYLES[2])
            axes.barh(
                position, result["seconds"], color=color, hatch=hatch, edgecolor="black", linewidth=0.5, height=0.8
            )
            text = duration(result["seconds"])
            axes.annotate(
                text, (result["seconds"], position), (3, 0), textcoords="offset points", va="center", fontsize=7
            )
            ticks.append(position)
            labels.append(name)
            position += 1
        axes.plot(
            [row["bound"]] * 2,
            [position - len(known) - 0.5, position - 0.5],
            color="black",
            linestyle="--",
            linewidth=1,
        )
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 3)
    axes.set_xlabel("seconds (median of interleaved runs); dashed: the bound by the matrix product")
    axes.spines[["top", "right"]].set_visible(False)
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor="black", label=label)
        for (color, hatch), label in zip(_STYLES[:3], ["sklearn_cka", "same value", "another value"], strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)
