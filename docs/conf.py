"""Sphinx configuration: python -m sphinx -W --keep-going -b html docs docs/_build/html."""

import re

import sklearn_cka

project = "sklearn_cka"
author = "The sklearn_cka developers"
copyright = f"2026, {author}"
version = release = sklearn_cka.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
root_doc = "index"
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Compare representations, scikit-learn style",
    "fixed_sidebar": True,
    "page_width": "1100px",
    "sidebar_width": "240px",
}
html_title = f"sklearn_cka {release}"


def skip_generated_methods(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator: it is documented there."""
    generated = name.startswith("set_") and name.endswith("_request")
    return skip or generated or name in {"get_params", "set_params", "set_output", "get_metadata_routing"} or None


def escape_underscores(app, what, name, obj, options, lines):
    """Keep names such as n_features_in_ from being read as links."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "..")):
            parts = re.split(r"(`[^`]+`)", line)
            parts[::2] = [re.sub(r"(?<=[a-z])_(?!\w)", r"\_", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def setup(app):
    """Register both, the second to run after numpydoc."""
    app.connect("autodoc-skip-member", skip_generated_methods)
    app.connect("autodoc-process-docstring", escape_underscores, priority=600)
