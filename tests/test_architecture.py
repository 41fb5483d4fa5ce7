"""The house of docs/design.md: a room imports only from floors below its own or its own, and never in a circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sklearn_cka"

# A room is a module, or a package with all that is in it. A new room is entered here and in docs/design.md.
FLOORS = {
    "_arrays": 1,
    "_sklearn": 1,
    "_memory": 1,
    "_threads": 1,
    "datasets": 1,
    "display": 1,
    "_line_display": 1,
    "exceptions": 1,
    "_jobs": 2,
    "_linalg": 2,
    "_validation": 2,
    "_backends": 2,
    "_bandwidths": 3,
    "_layer_arrays": 3,
    "_moments": 3,
    "_permutation": 3,
    "_resampling": 3,
    "_storage": 3,
    "_product_kernels": 3,
    "_radial": 3,
    "kernels": 3,
    "_kernel_strips": 3,
    "layers": 3,
    "extract": 4,
    "indexes": 4,
    "pairwise": 5,
    "compose": 6,
    "inference": 6,
    "_layer_matching": 6,
    "_minibatch": 6,
    "_index_checks": 6,
    "_dask": 6,
    "probes": 6,
    "spectrum": 6,
    "streaming": 6,
    "testing": 6,
    "models": 7,
    "_bandwidth_curve": 7,
    "selection": 7,
    "_cli_extract": 8,
    "cli": 8,
    "__init__": 8,
    "__main__": 9,
}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in sorted(PACKAGE.rglob("*.py"))
}


def room(module):
    return module.split(".")[1]


def resolve(name):
    """Return the module of the package that a dotted name is or lies in, None for other packages."""
    parts = name.split(".")
    while parts and parts[0] == "sklearn_cka":
        for candidate in (".".join(parts), ".".join([*parts, "__init__"])):
            if candidate in MODULES:
                return candidate
        parts.pop()
    return None


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(module, *, on_import_only):
    """Yield the modules of the package that a module imports, without what it imports for annotations alone."""
    todo = [ast.parse(MODULES[module].read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if is_type_checking(node) or (on_import_only and isinstance(node, ast.FunctionDef)):
            continue
        todo.extend(ast.iter_child_nodes(node))
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from filter(None, map(resolve, names))


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_from_its_own_floor_or_below(module):
    for imported in imports(module, on_import_only=False):
        assert FLOORS[room(imported)] <= FLOORS[room(module)], f"{module} imports {imported}, a floor above it"


def test_imports_have_no_circle():
    graph = {module: set(imports(module, on_import_only=True)) - {module} for module in MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_module_has_at_most_600_lines(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= 600
