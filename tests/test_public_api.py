"""What a user may import: there, documented, and nothing else."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import sklearn_cka
from sklearn_cka import BaseIndex, IndexProperties, get_index, index_names
from sklearn_cka.indexes import _registry
from sklearn_cka.indexes._properties import TRANSFORMATIONS

PUBLIC = sorted(sklearn_cka.__all__)
CALLABLES = [name for name in PUBLIC if callable(getattr(sklearn_cka, name))]
CLASSES = [name for name in PUBLIC if inspect.isclass(getattr(sklearn_cka, name))]
FUNCTIONS = [name for name in CALLABLES if name not in CLASSES]
WARNINGS = [name for name in CLASSES if issubclass(getattr(sklearn_cka, name), Warning)]
ABSTRACT = ["BaseIndex", "WeightedIndex", "IndexProperties"]


def sections(obj):
    """Return the numpydoc sections of a docstring, by name."""
    doc = inspect.getdoc(obj) or ""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$", doc, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def described(body):
    """Return the names that a section of parameters or attributes describes."""
    names = []
    for line in body.splitlines():
        if line and not line[0].isspace():
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names


def modules():
    for module in pkgutil.walk_packages(sklearn_cka.__path__, "sklearn_cka."):
        if not module.name.endswith("__main__"):
            yield module.name


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_can_be_imported(name):
    assert hasattr(sklearn_cka, name)
    namespace = {}
    exec(f"from sklearn_cka import {name}", namespace)
    assert namespace[name] is getattr(sklearn_cka, name)


def test_public_names_are_sorted_as_ruff_sorts_them_and_unique():
    assert len(set(sklearn_cka.__all__)) == len(sklearn_cka.__all__)


def test_star_import_brings_the_public_names_and_nothing_else():
    namespace = {}
    exec("from sklearn_cka import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(PUBLIC)


def test_no_private_or_foreign_name_leaks_into_the_top_level():
    visible = {name for name in vars(sklearn_cka) if not name.startswith("_")}
    leaked = {name for name in visible - set(PUBLIC) if not inspect.ismodule(getattr(sklearn_cka, name))}
    assert leaked == set()
    foreign = {
        name
        for name in visible - set(PUBLIC)
        if inspect.ismodule(getattr(sklearn_cka, name))
        and not getattr(sklearn_cka, name).__name__.startswith("sklearn_cka.")
    }
    assert foreign == set()


def test_the_version_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+([abrc.]\w+)?", sklearn_cka.__version__)


@pytest.mark.parametrize("name", list(modules()))
def test_modules_import_and_have_a_docstring(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sklearn_cka"):
            raise
        pytest.skip(f"{error.name}, an extra, is not installed")
    assert module.__doc__
    assert module.__doc__.strip().splitlines()[0].rstrip().endswith((".", ":"))
    exported = getattr(module, "__all__", [])
    assert all(hasattr(module, export) for export in exported)
    assert not [export for export in exported if export.startswith("_")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_documented_in_full(name):
    function = getattr(sklearn_cka, name)
    found = sections(function)
    parameters = list(inspect.signature(function).parameters)
    if parameters:
        assert sorted(described(found["Parameters"])) == sorted(parameters)
    returns = str(inspect.signature(function).return_annotation)
    assert "Returns" in found or returns == "None" or returns.startswith("Iterator") or name.endswith("_names")
    assert ">>> " in found["Examples"]


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in [*WARNINGS, *ABSTRACT]])
def test_classes_are_documented_in_full(name):
    kind = getattr(sklearn_cka, name)
    found = sections(kind)
    parameters = list(inspect.signature(kind).parameters)
    assert sorted(described(found.get("Parameters", ""))) == sorted(parameters) or "Attributes" in found
    if issubclass(kind, BaseEstimator):
        assert sorted(described(found.get("Parameters", ""))) == sorted(parameters)
        assert ">>> " in found["Examples"]


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in WARNINGS])
def test_public_methods_and_properties_are_documented(name):
    kind = getattr(sklearn_cka, name)
    for member, value in inspect.getmembers(kind):
        if member.startswith("_") or not getattr(value, "__module__", "sklearn_cka").startswith("sklearn_cka"):
            continue
        target = value.fget if isinstance(value, property) else value
        if inspect.isfunction(target) or isinstance(value, property):
            assert inspect.getdoc(target), f"{name}.{member} has no docstring"


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_are_documented_and_can_be_filtered_together(name):
    kind = getattr(sklearn_cka, name)
    assert kind.__doc__
    assert issubclass(kind, sklearn_cka.SimilarityWarning)
    assert issubclass(kind, UserWarning)


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@pytest.mark.parametrize("name", index_names())
def test_fitted_attributes_are_documented(name):
    index = get_index(name)
    found = sections(type(index))
    X = np.random.default_rng(0).standard_normal((30, 3))
    y = X + 0.1 * np.random.default_rng(1).standard_normal((30, 3))
    documented = described(found["Attributes"])
    fitted = [a for a in vars(index.fit(X, y)) if a.endswith("_") and not a.startswith("_")]
    assert {"similarity_", "chance_", "n_features_in_"} <= set(fitted)
    assert sorted(set(fitted) - set(documented)) == []


@pytest.mark.parametrize("name", index_names())
def test_indexes_are_exported_and_name_their_source(name):
    kind = type(get_index(name))
    assert getattr(sklearn_cka, kind.__name__) is kind
    assert "References" in sections(kind)
    properties = get_index(name).properties
    assert properties.reference
    assert properties.cost


@pytest.mark.parametrize("name", index_names())
def test_defaults_of_functions_are_those_of_their_class(name):
    function = getattr(sklearn_cka, name, None)
    if function is None:
        pytest.skip(f"{name} has no function of its own")
    kind = type(get_index(name))
    ours = inspect.signature(function).parameters
    for parameter, theirs in inspect.signature(kind).parameters.items():
        required = ours[parameter].default is inspect.Parameter.empty  # what a class can be given later
        assert required or ours[parameter].default == theirs.default
    assert list(ours)[:2] == ["X", "Y"]


def test_every_index_class_keeps_scikit_learns_rules_of_the_constructor():
    for name in index_names():
        kind = type(get_index(name))
        assert issubclass(kind, BaseIndex)
        index = kind()
        assert set(vars(index)) == set(index.get_params(deep=False))


def _run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_loads_no_extra():
    """torch, matplotlib, jax and the like cost seconds: nothing is loaded before it is asked for."""
    out = _run(
        """
        import sys
        import sklearn_cka
        heavy = ["torch", "jax", "cupy", "dask", "matplotlib", "zarr", "safetensors", "polars"]
        print([name for name in heavy if name in sys.modules])
        """
    )
    assert out.strip() == "[]"


def test_importing_the_package_leaves_warnings_and_settings_alone():
    out = _run(
        """
        import sys
        import warnings
        import numpy as np
        import sklearn
        before = list(warnings.filters), sklearn.get_config(), np.geterr()
        import sklearn_cka
        after = list(warnings.filters), sklearn.get_config(), np.geterr()
        print(before == after)
        """
    )
    assert out.strip() == "True"


def test_the_table_of_indexes_says_what_each_declares():
    table = sklearn_cka.index_table()
    assert list(table.index) == index_names()
    for name, row in table.iterrows():
        properties = get_index(name).properties
        assert (row["lowest"], row["highest"]) == properties.range
        assert row["symmetric"] == properties.symmetric
        assert row["min_samples"] == properties.min_samples
        assert row["reference"] == properties.reference != ""
        assert row["cost"] == properties.cost != ""
        assert {t for t in TRANSFORMATIONS if row[t]} == properties.invariances
        assert row["family"] in ("gram", "spectral", "units", "neighbors", "outputs", "other")
    assert table.loc["pwcca", "sample_weight"]
    assert not table.loc["mutual_knn", "sample_weight"]
    assert table["metric"].isna()["cca"]


def test_an_index_of_ones_own_enters_the_table(monkeypatch):
    class Odd(BaseIndex):
        @property
        def properties(self):
            return IndexProperties(invariances=None, min_samples=3)

        def embed(self, X):
            return X

        def compare(self, a, b):
            return 0.0

    monkeypatch.setitem(_registry._INDEXES, "odd", Odd)
    row = sklearn_cka.index_table().loc["odd"]
    assert row["family"] == "other"
    assert row["min_samples"] == 3
    assert row[list(TRANSFORMATIONS)].isna().all()


@pytest.mark.parametrize("name", index_names())
def test_every_index_goes_through_the_estimator_checks_of_scikit_learn(name):
    kind = type(get_index(name)).__name__
    files = Path(__file__).parent.glob("test_*.py")
    texts = [path.read_text(encoding="utf-8") for path in files]
    checked = [text for text in texts if "@parametrize_with_checks" in text]
    assert any(f"{kind}(" in text and "index_checks" in text for text in checked)
