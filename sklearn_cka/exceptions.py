"""The warnings of the package; errors are the built-in ``ValueError`` and ``TypeError``."""

import sys
import warnings

__all__ = [
    "ChanceLevelWarning",
    "DegenerateSimilarityWarning",
    "SimilarityWarning",
    "UndefinedSimilarityWarning",
]


class SimilarityWarning(UserWarning):
    """Base class of every warning about the meaning of a similarity value."""


class UndefinedSimilarityWarning(SimilarityWarning):
    """The similarity is 0/0, as for a constant representation, and NaN is returned."""


class DegenerateSimilarityWarning(SimilarityWarning):
    """The value is right but says nothing, as CCA does with as many columns as rows."""


class ChanceLevelWarning(SimilarityWarning):
    """Most of the value would be there without any correspondence between the rows."""


def warn(warning: SimilarityWarning) -> None:
    """Issue a warning at the line of the first caller outside this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sklearn_cka":
        frame = frame.f_back
        depth += 1
    warnings.warn(warning, stacklevel=depth)
