"""Data are computed by the functions of their own library: every call of a function of NumPy has a name and a reason.

Tables and lists of numbers that were brought to the host are NumPy's; so are steps whose algorithm is there alone. A
new call in the rooms below is entered here, with why it is no step on data of other libraries.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "sklearn_cka"
ROOMS = (
    "indexes/*.py",
    "kernels.py",
    "_kernel_strips.py",
    "_radial.py",
    "_product_kernels.py",
    "_bandwidths.py",
    "_linalg.py",
    "pairwise/*.py",
)
# Not on data: settings of NumPy, and properties of data types.
HARMLESS = {"errstate", "finfo"}

# Modules and functions ("module.py:function", methods as "module.py:Class.method") that call NumPy.
CPU_STEPS = {
    "_bandwidths.py:subset_rows": "numbers of rows",
    "_bandwidths.py:_weighted": "medians of weighted rows by NumPy's sort, on a copy in host memory",
    "_bandwidths.py:_weighted_median": "the same",
    "_linalg.py:_differences": "in threads, where the data are NumPy's",
    "_linalg.py:_differences.subtract": "in threads, where the data are NumPy's",
    "_linalg.py:subtract_sums.subtract": "in threads, where the data are NumPy's",
    "_linalg.py:_at_ranks": "the partition of NumPy, where the data are NumPy's",
    "_linalg.py:_triangular_factor": "QR without Q, where the data are NumPy's",
    "_radial.py:exponentials.write": "in threads, where the data are NumPy's",
    "indexes/_closed_forms.py": "vectors of sums, one number a row or a permutation",
    "indexes/_neighbor_index.py": "probabilities of counts of neighbours",
    "indexes/_neighbor_tables.py": "tables of the numbers of neighbours, found by scikit-learn",
    "indexes/neighbors.py": "the same tables",
    "indexes/neighbor_similarities.py": "the same tables",
    "indexes/cknna.py": "the same tables, with the kernel values at their places",
    "indexes/_rdm.py": "ranks and ties of distances by sorting, and RDMs of functions of SciPy",
    "indexes/rsa.py:_ranks": "ranks of distances",
    "indexes/_transport.py": "assignment and linear programs of SciPy",
    "indexes/correlation_match.py": "assignment of SciPy, on the small matrix of correlations",
    "indexes/unit_matching.py:PermutationProcrustes._solve": "assignment of SciPy",
    "indexes/imd.py": "heat traces of eigenvalues",
    "indexes/rtd.py": "persistent homology of ripser, on ranks of distances",
    "pairwise/_tiles.py:Sums.to_host": "tables of sums",
    "pairwise/_tiles.py:_subtract_means": "tables of sums",
    "pairwise/_tiles.py:feature_products": "tables of sums",
    "pairwise/_tiles.py:_BlockSums.to_host": "tables of sums",
    "pairwise/_enough_rows.py": "tables of standard errors",
    "pairwise/_feature_maps.py": "transformers of scikit-learn",
    "pairwise/compare.py": "tables of similarities",
    "pairwise/table.py": "tables of similarities",
}


def numpy_calls(path):
    """Yield the function, named with its class or outer function, of every call of a function of NumPy."""

    def walk(node, inside):
        for child in ast.iter_child_nodes(node):
            name = f"{inside}.{child.name}".strip(".") if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else inside
            if isinstance(child, ast.Call):
                parts = ast.unparse(child.func).split(".")
                if parts[0] == "np" and len(parts) > 1 and parts[1] not in HARMLESS:
                    yield inside
            yield from walk(child, name)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


FILES = {str(path.relative_to(PACKAGE).as_posix()): path for room in ROOMS for path in sorted(PACKAGE.glob(room))}


@pytest.mark.parametrize("name", FILES)
def test_numpy_is_called_only_in_named_steps(name):
    found = set(numpy_calls(FILES[name]))
    unnamed = {function for function in found if not {name, f"{name}:{function}"} & CPU_STEPS.keys()}
    assert not unnamed, f"{name} calls NumPy in {sorted(unnamed)}: compute in the library of the data, or enter it here"


@pytest.mark.parametrize("step", CPU_STEPS)
def test_named_steps_exist(step):
    name, _, function = step.partition(":")
    found = set(numpy_calls(FILES[name]))
    assert function in found if function else found


def test_the_search_finds_calls(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("class A:\n def f(self):\n  def g():\n   return np.linalg.svd(x)\n  with np.errstate(): pass\n")
    assert list(numpy_calls(path)) == ["A.f.g"]


def test_functions_are_those_of_the_standard_that_the_oldest_scikit_learn_sets():
    # array-api-strict refuses what came with a later standard than 2023.12, under which scikit-learn 1.6 runs it.
    later = {"count_nonzero", "diff", "nextafter", "reciprocal", "take_along_axis", "isin", "broadcast_shapes"}
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in later and ast.unparse(node.value) == "xp"
    ]
    assert not found
