"""Write docs/indexes.md, the table of all indexes, from what the indexes declare: ``python docs/list_indexes.py``."""

import math
from pathlib import Path

from sklearn_cka import index_names, index_table

PAGE = Path(__file__).with_name("indexes.md")
FAMILIES = {
    "gram": "Gram matrices: which pairs of examples are alike",
    "spectral": "Maps: what a linear map of one representation tells of the other",
    "units": "Units: single columns matched with each other",
    "neighbors": "Neighbours: which examples lie next to each other",
    "other": "Descriptors: one number or curve of each representation, compared",
    "outputs": "Outputs of classifiers",
}
CHANGES = {
    "translation": "shift",
    "isotropic_scaling": "scale",
    "permutation": "units",
    "orthogonal": "rotation",
    "invertible_linear": "linear map",
}
HEAD = """# All indexes

Every name stands for an estimator, `get_index(name, **parameters)`, and works in `similarity`, `compare_layers` and on
the command line. What is said of each here is declared by its class with default parameters and verified by
`sklearn_cka.testing.check_index`; `index_table()` is the same as a DataFrame.

*Unchanged by*: shift (a constant added to every row), scale (a positive factor), units (another order of the columns),
rotation (an orthogonal map), linear map (any invertible one), each on either side. *Metric form*: what of the
similarity s is a distance, `index.distance(X, y)`. *Rows*: the fewest that it takes.
"""


def page():
    """Return the text of the page."""
    table = index_table()
    table = table.loc[[name for name in index_names() if name in table.index]]
    lines = [HEAD]
    for family in [*FAMILIES, *sorted(set(table["family"]) - FAMILIES.keys())]:
        members = table[table["family"] == family]
        if len(members):
            lines += [f"## {FAMILIES.get(family, family.capitalize())}", ""]
            lines += [
                "| name | class | range | unchanged by | metric form | rows | cost | reference |",
                "|---" * 8 + "|",
            ]
            lines += [_line(name, entry) for name, entry in members.iterrows()]
            lines.append("")
    return "\n".join(lines)


def _line(name, entry):
    unchanged = ", ".join(word for column, word in CHANGES.items() if entry[column]) or "-"
    notes = ["not symmetric"] * (not entry["symmetric"]) + ["equal widths"] * entry["equal_widths"]
    span = f"{_number(entry['lowest'])} to {_number(entry['highest'])}" + "".join(f", {note}" for note in notes)
    metric = f"`{entry['metric']}`" if isinstance(entry["metric"], str) else "-"
    cells = [f"`{name}`", f"`{entry['class']}`", span, unchanged, metric, entry["min_samples"], entry["cost"]]
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in [*cells, entry["reference"]]) + " |"


def _number(value):
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if math.isclose(abs(value), math.pi / 2):
        return "-π/2" if value < 0 else "π/2"
    return f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
