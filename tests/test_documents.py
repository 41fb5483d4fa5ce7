"""What the documents say is run: every Python block of README, CONTRIBUTING and docs, and every picture they show."""

import doctest
import re
import runpy
import tomllib
from pathlib import Path

import pytest

import sklearn_cka
from sklearn_cka import kernels
from sklearn_cka.indexes import _registry

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BUILT_IN = set(sklearn_cka.index_names())
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def blocks(document, language):
    """Return (line number, source) of each fenced block in a language."""
    text = document.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[2]) for m in BLOCK.finditer(text) if m[1] == language]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_of_the_document_runs_and_prints_what_it_shows(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What a document registers is gone with it.
    monkeypatch.setattr(kernels, "_KERNELS", dict(kernels._KERNELS))
    monkeypatch.setattr(_registry, "_INDEXES", dict(_registry._INDEXES))
    namespace = {"__name__": "__main__"}
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report = []
    for line, source in blocks(document, "python"):
        if ">>>" in source:
            test = parser.get_doctest(source, namespace, f"{document.name}:{line}", str(document), line)
            runner.run(test, out=report.append, clear_globs=False)
            namespace = test.globs
        else:
            exec(compile("\n" * line + source, str(document), "exec"), namespace)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_the_document_lead_somewhere(document):
    targets = [t for t in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in t]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing


def test_extras_named_in_the_readme_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for _, source in blocks(ROOT / "README.md", "sh")
        for group in re.findall(r"\[([\w,]+)\]", source)
        for extra in group.split(",")
    }
    assert {"plot", "test"} <= named <= set(extras)


def test_adding_an_index_and_adding_a_kernel_each_take_under_thirty_lines():
    sources = [source for _, source in blocks(ROOT / "CONTRIBUTING.md", "python")]
    for call in ("register_index(", "register_kernel("):
        (recipe,) = [source for source in sources if call in source]
        assert len(recipe.splitlines()) < 30


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE))
    missing = sorted(set(sklearn_cka.__all__) - {"__version__"} - listed)
    assert not missing, f"enter in docs/reference.md: {missing}"


def test_the_page_of_indexes_says_what_they_declare():
    code = runpy.run_path(str(ROOT / "docs" / "list_indexes.py"))
    written = (ROOT / "docs" / "indexes.md").read_text(encoding="utf-8")
    assert written == code["page"](), "run `python docs/list_indexes.py`"
    assert set(re.findall(r"^\| `(\w+)`", written, re.MULTILINE)) == BUILT_IN
