"""The warnings of the package; errors are the built-in ``ValueError`` and ``TypeError``."""

import sys
import warnings

__all__ = [
    "ChanceLevelWarning",
    "DegenerateSimilarityWarning",
    "SimilarityWarning",
    "ToleranceWarning",
    "UndefinedSimilarityWarning",
]


# A function chosen by the type of its argument is called out of functools.
_INSIDE = ("sklearn_cka", "functools")


class SimilarityWarning(UserWarning):
    """Base class of every warning about the meaning of a similarity value."""


class UndefinedSimilarityWarning(SimilarityWarning):
    """The similarity is 0/0, as for a constant representation, and NaN is returned."""


class DegenerateSimilarityWarning(SimilarityWarning):
    """The value is right but says nothing, as CCA does with as many columns as rows."""


class ChanceLevelWarning(SimilarityWarning):
    """Most of the value would be there without any correspondence between the rows."""


class ToleranceWarning(SimilarityWarning):
    """The standard error asked for was not reached with all rows."""


def warn(warning: Warning) -> None:
    """Issue a warning at the line of the first caller outside this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame = frame.f_back
        depth += 1
    warnings.warn(warning, stacklevel=depth)
