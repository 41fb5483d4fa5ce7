"""Common checks that any similarity index must pass, the package's and a user's own.

scikit-learn's estimator checks look at interfaces, not at values; these look at values. Everything that an index
declares in :attr:`~sklearn_cka.BaseIndex.properties` is verified with random input, non-invariance included: an index
that does not declare an invariance must be seen to break it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sklearn_cka._index_checks import CHECKS, Context, MakePair, Reference
from sklearn_cka.indexes._base import BaseIndex

__all__ = ["check_index", "index_checks"]


def check_index(
    index: BaseIndex,
    *,
    reference: Reference | None = None,
    make_pair: MakePair | None = None,
    random_state: int = 0,
) -> None:
    """Check that an index keeps the protocol and everything that it declares.

    Parameters
    ----------
    index : BaseIndex
        An index with the parameters to be checked; it is not changed.
    reference : callable, default=None
        ``reference(X, Y) -> float`` on NumPy arrays: the definition, written independently, with which the index must
        agree to 1e-9 (relative to 1 or to the value).
    make_pair : callable, default=None
        ``make_pair(rng, n) -> (X, y)``: random input of n rows for an index that does not take any two real matrices,
        such as one of class labels or of Gram matrices. Invariances are not checked then.
    random_state : int, default=0
        Seed of the random input.

    Raises
    ------
    AssertionError
        If a check fails; the message names the check, what was seen and what was expected.

    See Also
    --------
    sklearn.utils.estimator_checks.check_estimator : The interface checks of scikit-learn, to be run as well.

    Examples
    --------
    >>> from sklearn_cka import CKA
    >>> from sklearn_cka.testing import check_index
    >>> check_index(CKA(debiased=True))
    """
    for name, check in index_checks(index, reference=reference, make_pair=make_pair, random_state=random_state):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{index!r} fails {name}: {error}") from error


def index_checks(
    index: BaseIndex,
    *,
    reference: Reference | None = None,
    make_pair: MakePair | None = None,
    random_state: int = 0,
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and the body of every check that :func:`check_index` runs, for parametrised tests.

    Parameters
    ----------
    index : BaseIndex
        An index with the parameters to be checked.
    reference, make_pair, random_state
        As in :func:`check_index`.

    Yields
    ------
    name : str
        What is checked.
    check : callable
        Raises AssertionError if the check fails.
    """
    for check in CHECKS:
        context = Context(index, reference, make_pair, random_state)

        def run(check: Callable[[Context], None] = check, context: Context = context) -> None:
            check(context)

        yield check.__name__.strip("_"), run
