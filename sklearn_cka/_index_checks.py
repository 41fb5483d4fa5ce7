"""The bodies of the common checks of :mod:`sklearn_cka.testing`, and the random input they work with."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from sklearn_cka.exceptions import SimilarityWarning, UndefinedSimilarityWarning
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._properties import TRANSFORMATIONS
from sklearn_cka.pairwise.compare import compare_layers

__all__ = ["CHECKS", "Context", "MakePair", "Reference"]

_ROWS, _WIDTH_X, _WIDTH_Y = 40, 5, 3
# Differences beyond rounding, and those that rounding cannot make.
_EXACT, _ROUGH, _CHANGED = 1e-9, 1e-4, 1e-6
# Random data tried before a value is said not to change, and the grid of numbers that lose nothing to an offset of 1e8.
_ATTEMPTS, _GRID = 5, 2.0**-24
_PERMUTATIONS, _STANDARD_ERRORS = 400, 6.0

Reference = Callable[[np.ndarray, np.ndarray], float]
MakePair = Callable[[np.random.Generator, int], tuple[Any, Any]]


class Context:
    """What a check works with: the index, random data that it accepts, and a brute-force definition if there is one."""

    def __init__(self, index: BaseIndex, reference: Reference | None, make_pair: MakePair | None, seed: int) -> None:
        self.index = index
        self.reference = reference
        self.make_pair = make_pair
        self.rng = np.random.default_rng(seed)
        self.properties = index.properties
        tags = get_tags(index)
        self.positive_only = tags.input_tags.positive_only or tags.target_tags.positive_only
        self.has_features = make_pair is None and not tags.input_tags.pairwise
        self.has_weights = "sample_weight" in inspect.signature(index.fit).parameters

    def pair(self, n: int = _ROWS, p: int = _WIDTH_X, q: int = _WIDTH_Y) -> tuple[Any, Any]:
        """Return two related representations of `n` rows."""
        if self.make_pair is not None:
            return self.make_pair(self.rng, n)
        q = p if self.properties.equal_widths else q
        X = self.rng.standard_normal((n, p)) * np.geomspace(1.0, 3.0, p)
        Y = X[:, np.arange(q) % p] + self.rng.standard_normal((n, q))
        return (np.abs(X), np.abs(Y)) if self.positive_only else (X, Y)

    def value(self, X: Any, y: Any, **fit_params: Any) -> float:
        """Return the similarity of two representations, whatever it warns of."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimilarityWarning)
            return clone(self.index).fit(X, y, **fit_params).similarity_

    def alone(self, X: Any) -> float:
        """Return the similarity of a representation with itself."""
        return self.value(X, X)


def _close(seen: float, expected: float, tolerance: float, what: str) -> None:
    both_undefined = math.isnan(seen) and math.isnan(expected)
    if not both_undefined and not abs(seen - expected) <= tolerance * max(1.0, abs(expected)):
        raise AssertionError(f"{what}: got {seen!r}, expected {expected!r} to within {tolerance:g}")


def _differs(seen: float, value: float) -> bool:
    """Whether two values differ by more than rounding, small ones by a share of their size."""
    return abs(seen - value) > _CHANGED * min(1.0, abs(value))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _check_results_are_floats(c: Context) -> None:
    X, y = c.pair()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        fitted = clone(c.index).fit(X, y)
        results = {
            "similarity_": fitted.similarity_,
            "chance_": fitted.chance_,
            "score(X, y)": fitted.score(X, y),
            "similarity(X, y)": fitted.similarity(X, y),
        }
    for name, value in results.items():
        _require(type(value) is float, f"{name} is {value!r} of type {type(value).__name__}, expected a Python float")


def _check_inputs_unchanged(c: Context) -> None:
    X, y = c.pair()
    before = copy.deepcopy((X, y))
    c.value(X, y)
    for name, now, then in (("X", X, before[0]), ("y", y, before[1])):
        _require(np.array_equal(np.asarray(now), np.asarray(then)), f"fit changed the caller's {name}")


def _check_score_on_training_rows(c: Context) -> None:
    X, y = c.pair()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        fitted = clone(c.index).fit(X, y)
        _close(fitted.score(X, y), fitted.similarity_, _EXACT, "score on the training rows is not similarity_")
        _close(fitted.similarity(X, y), fitted.similarity_, _EXACT, "similarity(X, y) is not that of fit")


def _check_self_similarity(c: Context) -> None:
    if c.properties.self_similarity is None or not c.has_features:
        return
    for p in (1, 4):
        X, _ = c.pair(p=p)
        value = c.alone(X)
        if p > 1 or not math.isnan(value):  # one column may leave nothing to compare, as correlations over columns do
            _close(value, c.properties.self_similarity, _EXACT, f"similarity of X with itself, {p} columns")


def _check_symmetry(c: Context) -> None:
    if not c.has_features:
        return
    pairs = [c.pair() for _ in range(1 if c.properties.symmetric else _ATTEMPTS)]
    values = [(c.value(X, y), c.value(y, X)) for X, y in pairs]
    if c.properties.symmetric:
        _close(*values[0], _EXACT, "declared symmetric, but exchanging X and y changes the value")
    else:
        is_seen = any(_differs(*both) for both in values)
        _require(is_seen, f"declared asymmetric, but both orders give {values[0][0]!r}")


def _check_invariances(c: Context) -> None:
    if c.properties.invariances is None or not c.has_features:
        return
    X, y = c.pair()
    value = c.value(X, y)
    for name in TRANSFORMATIONS:
        if c.positive_only and name in ("orthogonal", "invertible_linear"):
            continue
        if name in c.properties.invariances:
            seen = [c.value(_transformed(c.rng, X, name), y), c.value(X, _transformed(c.rng, y, name))]
            for side, changed in zip(("X", "y"), seen, strict=True):
                _close(changed, value, 1e-8, f"declared invariant to {name}, but that of {side} changes the value")
        else:
            is_seen = any(_is_changed_by(c, name) for _ in range(_ATTEMPTS))
            _require(
                is_seen, f"not declared invariant to {name}, but neither that of X nor that of y changes the value"
            )


def _is_changed_by(c: Context, name: str) -> bool:
    """Whether a transformation of a side of new random data changes the value; counts may stay the same by chance."""
    X, y = c.pair()
    value = c.value(X, y)
    seen = [c.value(_transformed(c.rng, X, name), y), c.value(X, _transformed(c.rng, y, name))]
    return any(math.isnan(changed) or _differs(changed, value) for changed in seen)


def _transformed(rng: np.random.Generator, X: np.ndarray, name: str) -> np.ndarray:
    """Return `X` under a random transformation of the kind named."""
    p = X.shape[1]
    if name == "translation":
        return X + rng.uniform(20.0, 40.0, size=p)
    if name == "isotropic_scaling":
        return X * 7.3
    if name == "permutation":
        return X[:, np.roll(np.arange(p), 1)]
    orthogonal = np.linalg.qr(rng.standard_normal((p, p)))[0]
    if name == "orthogonal":
        return X @ orthogonal
    return X @ orthogonal @ np.diag(np.geomspace(1.0, 30.0, p)) @ np.linalg.qr(rng.standard_normal((p, p)))[0]


def _check_row_order(c: Context) -> None:
    if get_tags(c.index).input_tags.pairwise:
        return
    X, y = c.pair()
    order = c.rng.permutation(len(X))
    _close(
        c.value(X[order], y[order]), c.value(X, y), _EXACT, "the same new order of rows on both sides changes the value"
    )


def _check_range(c: Context) -> None:
    low, high = c.properties.range
    n = max(c.properties.min_samples + 2, 12)
    for _ in range(20):
        X, y = c.pair(n=n)
        value = c.value(X, y)
        _require(
            math.isnan(value) or low - _EXACT <= value <= high + _EXACT,
            f"value {value!r} outside of the declared range [{low}, {high}]",
        )


def _check_integer_weights(c: Context) -> None:
    if not c.has_weights or get_tags(c.index).input_tags.pairwise:
        return
    X, y = c.pair()
    weights = c.rng.integers(0, 4, size=len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    _close(
        c.value(X, y, sample_weight=weights), c.value(X[rows], y[rows]), _EXACT, "integer weights are not repeated rows"
    )


def _check_forms(c: Context) -> None:
    if getattr(c.index, "form", None) is None or not getattr(c.index, "is_linear", False):
        return
    for p, q in ((3, 2), (30, 20)):
        X, y = c.pair(p=p, q=q)
        values = [
            Context(clone(c.index).set_params(form=form), None, None, 0).value(X, y) for form in ("gram", "feature")
        ]
        _close(values[0], values[1], _EXACT, "the Gram form and the feature form differ")


def _check_brute_force(c: Context) -> None:
    if c.reference is None:
        return
    for n, p, q in ((40, 5, 3), (12, 4, 6), (30, 1, 1), (15, 1, 4), (25, 24, 3)):
        X, y = c.pair(n=n, p=p, q=q)
        _close(c.value(X, y), float(c.reference(X, y)), _EXACT, f"differs from the definition at n={n}, p={p}, q={q}")


def _check_precisions(c: Context) -> None:
    if not c.has_features:
        return
    X, y = c.pair()
    _close(
        c.value(X.astype(np.float32), y.astype(np.float32)),
        c.value(X.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)),
        _ROUGH,
        "float32 differs from float64",
    )
    counts = [np.rint(np.abs(Z) * (255.0 / np.abs(Z).max())).astype(np.uint8) for Z in (X, y)]  # sums wrap
    _close(c.value(*counts), c.value(*(Z.astype(np.float64) for Z in counts)), _EXACT, "uint8 differs from float64")


def _check_offsets(c: Context) -> None:
    if c.properties.invariances is None or "translation" not in c.properties.invariances or not c.has_features:
        return
    X, y = (np.rint(Z / _GRID) * _GRID for Z in c.pair())
    value = c.value(X, y)
    for offset, tolerance in ((1e6, 1e-6), (1e8, 1e-4)):  # ranks may take what is close for a tie
        _close(c.value(X + offset, y - offset), value, tolerance, f"an offset of {offset:g} changes the value")
    small = (X + 1e4).astype(np.float32), (y - 1e4).astype(np.float32)
    stored = c.value(*(Z.astype(np.float64) for Z in small))
    _close(c.value(*small), stored, _ROUGH, "an offset of 1e4 in float32 changes the value of the numbers stored")


def _check_scales(c: Context) -> None:
    if c.properties.invariances is None or "isotropic_scaling" not in c.properties.invariances or not c.has_features:
        return
    X, y = c.pair()
    value = c.value(X, y)
    for scale in (1e-30, 1e30):
        _close(c.value(X * scale, y), value, 1e-8, f"scale {scale:g} changes the value")
        small = (X * scale).astype(np.float32), y.astype(np.float32)
        _close(c.value(*small), value, _ROUGH, f"scale {scale:g} in float32 changes the value")


def _check_array_libraries(c: Context) -> None:
    if not get_tags(c.index).array_api_support or not c.has_features:
        return
    X, y = c.pair()
    value = c.value(X, y)
    for name in ("torch", "array_api_strict"):
        with contextlib.suppress(ImportError):
            library = importlib.import_module(name)
            _close(c.value(library.asarray(X), library.asarray(y)), value, _EXACT, f"{name} differs from NumPy")


def _check_constant(c: Context) -> None:
    if not c.has_features:
        return
    X, y = c.pair()
    values = []
    for constant in (0.0, 3.7, 0.1, 1e5 / 3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = clone(c.index).fit(np.full_like(X, constant), y).similarity_
        warned = any(issubclass(warning.category, UndefinedSimilarityWarning) for warning in caught)
        _require(
            not math.isnan(value) or warned, "NaN for a constant representation without an UndefinedSimilarityWarning"
        )
        _require(not math.isinf(value), "infinite for a constant representation")
        values.append(value)
    if c.properties.invariances is not None and "translation" in c.properties.invariances:
        for value in values[1:]:
            _close(value, values[0], _EXACT, "constants of different sizes have different similarities: rounding noise")


def _check_not_finite(c: Context) -> None:
    if not c.has_features:
        return
    for side, wrong in (("X", np.nan), ("y", np.nan), ("X", np.inf), ("y", -np.inf)):
        X, y = c.pair()
        (X if side == "X" else y)[3, 1] = wrong
        word = "NaN" if np.isnan(wrong) else "infinity"
        try:
            c.value(X, y)
        except ValueError as error:
            _require(
                side in str(error) and word in str(error), f"the error on {word} in {side} does not say so: {error}"
            )
        else:
            raise AssertionError(f"{word} in {side} raises no ValueError")


def _check_few_rows(c: Context) -> None:
    smallest = c.properties.min_samples
    X, y = c.pair(n=max(smallest, 2))
    c.value(X, y)  # must not raise
    if smallest > 1 and c.has_features:
        try:
            c.value(X[: smallest - 1], y[: smallest - 1])
        except ValueError as error:
            _require(str(smallest - 1) in str(error), f"the error does not say how many rows there were: {error}")
        else:
            raise AssertionError(f"declared to need {smallest} rows, but takes {smallest - 1}")


def _check_row_counts(c: Context) -> None:
    if get_tags(c.index).input_tags.pairwise:
        return
    X, y = c.pair()
    try:
        clone(c.index).fit(X, y[:-3])
    except ValueError as error:
        counts = str(len(X)), str(len(X) - 3)
        _require(all(count in str(error) for count in counts), f"the error does not name both row counts: {error}")
    else:
        raise AssertionError("different numbers of rows raise no ValueError")


def _check_widths(c: Context) -> None:
    if not c.has_features:
        return
    X, y = c.pair()
    if not c.properties.equal_widths:
        c.value(X[:, :1], y)
        c.value(X, y[:, 0])
        return
    try:
        clone(c.index).fit(X, y[:, :-1])
    except ValueError:
        return
    raise AssertionError("declared to need equal widths, but takes unequal ones")


def _check_chance(c: Context) -> None:
    X, y = c.pair(n=16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        chance = clone(c.index).fit(X, y).chance_
        if math.isnan(chance) or get_tags(c.index).input_tags.pairwise:
            return
        seen = np.array([c.index.similarity(X, y[c.rng.permutation(len(X))]) for _ in range(_PERMUTATIONS)])
    error = seen.std(ddof=1) / math.sqrt(len(seen))
    _require(
        abs(seen.mean() - chance) <= _STANDARD_ERRORS * error + _EXACT * max(1.0, abs(chance)),
        f"chance_ is {chance!r}, but random row permutations give {seen.mean()!r} with standard error {error:.2g}",
    )


def _check_clone_and_pickle(c: Context) -> None:
    X, y = c.pair()
    params = c.index.get_params(deep=False)
    for name, value in clone(c.index).get_params(deep=False).items():
        _require(type(value) is type(params[name]), f"clone changes the parameter {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        fitted = clone(c.index).fit(X, y)
        with contextlib.suppress(AttributeError, pickle.PicklingError):  # lambdas as parameters cannot be pickled
            restored = pickle.loads(pickle.dumps(fitted))
            _close(restored.score(X, y), fitted.score(X, y), 0.0, "a pickled copy scores differently")
    kept = [name for name, value in vars(fitted).items() if value is X or value is y]
    _require(not kept, f"the fitted index keeps the data as {', '.join(kept)}")


def _check_table(c: Context) -> None:
    if not c.has_features or not c.index.has_equal_sides:
        return
    layers = [c.pair(p=p, q=p)[0] for p in ((4, 4, 4) if c.properties.equal_widths else (2, 4, 6))]
    others = [c.pair(p=p, q=p)[1] for p in ((4, 4) if c.properties.equal_widths else (3, 5))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        for columns in (None, others):
            table = compare_layers(layers, columns, index=c.index, verbose=0)
            expected = [[c.value(a, b) for b in (layers if columns is None else columns)] for a in layers]
            for seen, right in zip(table.values.ravel(), np.ravel(expected), strict=True):
                _close(float(seen), float(right), _EXACT, "a table differs from its pairs one by one")


def _check_metric(c: Context) -> None:
    if c.properties.metric is None or not c.has_features:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimilarityWarning)
        for _ in range(10):
            A, near_A = c.pair(p=4, q=4)
            C = c.pair(p=4, q=4)[0]
            for B in (near_A, (A + C) / 2):  # half way, where a distance that is none shows best
                ab, bc, ac = (clone(c.index).distance(*pair) for pair in ((A, B), (B, C), (A, C)))
                _require(
                    ac <= ab + bc + 1e-7, f"{c.properties.metric} breaks the triangle inequality: {ac} > {ab} + {bc}"
                )
                _require(min(ab, bc, ac) >= 0.0, f"{c.properties.metric} is negative")
            _close(clone(c.index).distance(A, A), 0.0, 1e-6, f"{c.properties.metric} of X with itself")
        if c.has_weights:
            weights = c.rng.integers(1, 4, A.shape[0])
            expected = clone(c.index).distance(*(np.repeat(Z, weights, axis=0) for Z in (A, C)))
            weighted = clone(c.index).distance(A, C, sample_weight=weights)
            _close(weighted, expected, 1e-6, f"{c.properties.metric} of weighted rows, by repeated rows")


CHECKS: tuple[Callable[[Context], None], ...] = (
    _check_results_are_floats,
    _check_inputs_unchanged,
    _check_score_on_training_rows,
    _check_self_similarity,
    _check_symmetry,
    _check_invariances,
    _check_row_order,
    _check_range,
    _check_integer_weights,
    _check_forms,
    _check_brute_force,
    _check_precisions,
    _check_offsets,
    _check_scales,
    _check_array_libraries,
    _check_constant,
    _check_not_finite,
    _check_few_rows,
    _check_row_counts,
    _check_widths,
    _check_chance,
    _check_clone_and_pickle,
    _check_table,
    _check_metric,
)
