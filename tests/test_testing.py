"""`check_index` passes what keeps its word, and catches every way of breaking it that we could think of."""

import math
import warnings

import numpy as np
import pytest

from sklearn_cka import CKA, HSIC, BaseIndex, DistanceCorrelation, IndexProperties, KernelAlignment, WeightedIndex
from sklearn_cka.testing import check_index, index_checks

ALL = frozenset({"translation", "isotropic_scaling", "permutation", "orthogonal"})


class Mine(BaseIndex):
    """Linear CKA by hand, as a user would write it: NumPy only."""

    declared: dict = {}

    @property
    def properties(self):
        defaults = {"range": (0.0, 1.0), "invariances": ALL, "self_similarity": 1.0}
        return IndexProperties(**{**defaults, **self.declared})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags

    def embed(self, X):
        centered = (X - X.mean(axis=0)).astype(np.float64)
        largest = np.abs(X - X[0]).max()
        if largest == 0.0:
            return None
        centered = centered / np.abs(centered).max()
        K = centered @ centered.T
        return K / np.linalg.norm(K)

    def compare(self, a, b):
        return math.nan if a is None or b is None else float((a * b).sum())


def caught(index, **kwargs):
    """Return the names of the checks that an index fails."""
    failed = []
    for name, check in index_checks(index, **kwargs):
        try:
            check()
        except AssertionError:
            failed.append(name)
    return failed


def test_an_index_that_keeps_its_word_passes():
    check_index(Mine())
    check_index(Mine(), random_state=7)


@pytest.mark.parametrize(
    "index",
    [CKA(), CKA("rbf", debiased=True), HSIC(), KernelAlignment(), DistanceCorrelation(debiased=True)],
    ids=repr,
)
@pytest.mark.parametrize("seed", [1, 2])
def test_our_indexes_pass_with_other_seeds(index, seed):
    check_index(index, random_state=seed)


def test_the_error_names_index_check_and_values():
    class Half(Mine):
        def compare(self, a, b):
            return 0.5 * super().compare(a, b)

    with pytest.raises(AssertionError, match=r"Half\(\) fails check_self_similarity: .*got 0\.\d+, expected 1\.0"):
        check_index(Half())


def test_checks_have_names_and_run_one_by_one():
    names = [name for name, _ in index_checks(Mine())]
    assert len(set(names)) == len(names) > 20
    assert all(name.startswith("check_") for name in names)


def test_a_false_symmetric_flag_is_caught():
    class Lopsided(Mine):
        def embed_y(self, y):
            return self.embed(y**2)

        def compare(self, a, b):
            return super().compare(a, b)

    assert "check_symmetry" in caught(Lopsided())

    class Symmetric(Mine):
        declared = {"symmetric": False}

    assert "check_symmetry" in caught(Symmetric())


def test_an_invariance_that_is_declared_and_broken_is_caught():
    class Uncentred(Mine):
        def embed(self, X):
            X = X.astype(np.float64)
            return X @ X.T / np.linalg.norm(X @ X.T)

    assert "check_invariances" in caught(Uncentred())

    class Scaled(Mine):
        def compare(self, a, b):
            return super().compare(a, b)

        def embed(self, X):
            K = super().embed(X)
            return None if K is None else K * min(1.0, 1.0 / np.abs(X).max())

    assert {"check_invariances", "check_self_similarity"} <= set(caught(Scaled()))

    class ByUnit(Mine):
        """The first unit counts double: not invariant to a permutation of units."""

        def embed(self, X):
            return super().embed(X * np.r_[2.0, np.ones(X.shape[1] - 1)])

    assert "check_invariances" in caught(ByUnit())


@pytest.mark.parametrize("kept", sorted(ALL))
def test_an_invariance_that_is_kept_and_not_declared_is_caught(kept):
    class Modest(Mine):
        declared = {"invariances": ALL - {kept}}

    with pytest.raises(AssertionError, match=f"not declared invariant to {kept}"):
        check_index(Modest())


def test_an_index_that_declares_nothing_of_its_invariances_passes():
    class Silent(Mine):
        declared = {"invariances": None}

    check_index(Silent())


def test_a_false_range_is_caught():
    class Signed(Mine):
        def compare(self, a, b):
            return 2.0 * super().compare(a, b) - 1.0

    assert "check_range" in caught(Signed())

    class TooLarge(Mine):
        declared = {"self_similarity": None}

        def compare(self, a, b):
            return 1.0 + super().compare(a, b)

    assert "check_range" in caught(TooLarge())


def test_changed_inputs_are_caught():
    class InPlace(Mine):
        def embed(self, X):
            X -= X.mean(axis=0)
            return super().embed(X)

    assert "check_inputs_unchanged" in caught(InPlace())

    class InPlaceOfY(Mine):
        def embed_y(self, y):
            y *= 2.0
            return self.embed(y)

    assert "check_inputs_unchanged" in caught(InPlaceOfY())


def test_nan_without_a_warning_and_infinity_are_caught():
    class Silent(Mine):
        def diagnose(self, a, b, similarity, chance):
            return []

    assert "check_constant" in caught(Silent())

    class Infinite(Mine):
        def compare(self, a, b):
            value = super().compare(a, b)
            return math.inf if math.isnan(value) else value

    assert "check_constant" in caught(Infinite())

    class Noisy(Mine):
        """Divides rounding noise by rounding noise: a constant of 3.7 gets a value."""

        def embed(self, X):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                centered = X - X.mean(axis=0)
                K = centered @ centered.T
                return K / np.linalg.norm(K)

    assert "check_constant" in caught(Noisy())


def test_a_wrong_definition_is_caught_by_its_reference():
    def reference(X, Y):
        X, Y = X - X.mean(0), Y - Y.mean(0)
        return np.linalg.norm(X.T @ Y) ** 2 / np.linalg.norm(X.T @ X) / np.linalg.norm(Y.T @ Y)

    check_index(Mine(), reference=reference)

    class Root(Mine):
        def compare(self, a, b):
            return math.sqrt(super().compare(a, b))

    assert caught(Root()) == []
    assert caught(Root(), reference=reference) == ["check_brute_force"]


def test_results_that_are_no_floats_are_caught():
    class ReturnsArrays(Mine):
        def _judge(self, a, b):
            value, chance = super()._judge(a, b)
            return np.float64(value), chance

    assert "check_results_are_floats" in caught(ReturnsArrays())


def test_float32_and_offsets_that_lose_digits_are_caught():
    class Sloppy(Mine):
        """Gram matrix first, centring afterwards, in the data's precision."""

        def embed(self, X):
            if (X[0] == X).all():
                return None
            X = X / np.abs(X).max()
            K = X @ X.T
            K = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
            return K / np.linalg.norm(K)

    assert "check_offsets" in caught(Sloppy())

    class Epsilon(Mine):
        def embed(self, X):
            if (X[0] == X).all():
                return None
            X = (X - X.mean(0)).astype(np.float64)
            K = X @ X.T
            return K / (np.linalg.norm(K) + 1e-12)

    assert "check_scales" in caught(Epsilon())

    class Wraps(Mine):
        def _check_X(self, X, name):
            return np.asarray(X)

        def _check_y(self, y, name):
            y = np.asarray(y)
            return y[:, None] if y.ndim == 1 else y

        def embed(self, X):
            return super().embed(X + X if X.dtype == np.uint8 else X)

    assert "check_precisions" in caught(Wraps())


def test_missing_validation_is_caught():
    class TakesAnything(Mine):
        def _check_X(self, X, name):
            return np.asarray(X, dtype=float)

        _check_y = _check_X

    failed = caught(TakesAnything())
    assert {"check_not_finite", "check_few_rows"} <= set(failed)


def test_a_false_least_number_of_rows_is_caught():
    class Modest(Mine):
        declared = {"min_samples": 9}

        def _required_samples(self):
            return 2, "Modest"

    assert "check_few_rows" in caught(Modest())


def test_equal_widths_that_are_not_demanded_are_caught():
    class Equal(Mine):
        declared = {"equal_widths": True}

        def _check_widths(self, X, y, X_name, y_name):
            pass

    assert "check_widths" in caught(Equal())


def test_a_wrong_chance_level_is_caught():
    class Hopeful(Mine):
        def chance(self, a, b):
            return 0.0 if a is not None and b is not None else math.nan

    assert "check_chance" in caught(Hopeful())

    class Right(Mine):
        def chance(self, a, b):
            return math.nan if a is None or b is None else float(np.trace(a) * np.trace(b) / (len(a) - 1))

    check_index(Right())


def test_a_score_that_is_not_that_of_fit_is_caught():
    class Forgetful(Mine):
        def _evaluate(self, X, y, weights):
            return 0.9 * super()._evaluate(X, y, weights)

    assert "check_score_on_training_rows" in caught(Forgetful())


def test_an_index_that_depends_on_the_order_of_rows_is_caught():
    class FirstRows(Mine):
        def embed(self, X):
            return super().embed(X[: len(X) // 2])

    assert "check_row_order" in caught(FirstRows())


def test_weights_that_are_no_repetitions_are_caught():
    class Weighted(WeightedIndex):
        """Weights enter the means, and are forgotten afterwards."""

        @property
        def properties(self):
            return IndexProperties(range=(0.0, 1.0), invariances=ALL, self_similarity=1.0)

        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.array_api_support = False
            return tags

        def embed(self, X, sample_weight=None):
            if (X[0] == X).all():
                return None
            centered = (X - np.average(X, axis=0, weights=sample_weight)).astype(np.float64)
            K = centered @ centered.T
            return K / np.linalg.norm(K)

        def compare(self, a, b):
            return math.nan if a is None or b is None else float((a * b).sum())

    assert "check_integer_weights" in caught(Weighted())


def test_an_index_that_keeps_the_data_is_caught():
    class Hoarder(Mine):
        def _fit(self, X, y, sample_weight):
            super()._fit(X, y, sample_weight)
            self.X_ = X
            return self

    assert "check_clone_and_pickle" in caught(Hoarder())


def test_forms_that_differ_are_caught():
    class Crooked(CKA):
        def normalize(self, inner, self_a, self_b, a, b):
            value = super().normalize(inner, self_a, self_b, a, b)
            return value * 0.99 if self.form == "feature" else value

    assert "check_forms" in caught(Crooked())


def test_a_table_that_differs_from_its_pairs_is_caught():
    class Shortcut(Mine):
        def compare_all(self, a, b):
            return [[0.5 for _ in b] for _ in a]

    assert "check_table" in caught(Shortcut())


def test_a_distance_that_is_no_metric_is_caught():
    class Claims(Mine):
        declared = {"metric": "one minus CKA"}

        def distance(self, X, y):
            return 1.0 - self.similarity(X, y)

    assert "check_metric" in caught(Claims())


def test_libraries_that_disagree_are_caught():
    class Biased(CKA):
        def compare(self, a, b):
            value = super().compare(a, b)
            return value if isinstance(a.gram, np.ndarray) else value + 1e-6

    pytest.importorskip("array_api_strict")
    assert "check_array_libraries" in caught(Biased())


def test_the_index_given_is_neither_fitted_nor_changed():
    index = CKA("rbf", bandwidth=0.5)
    check_index(index)
    assert not hasattr(index, "similarity_")
    assert index.get_params()["bandwidth"] == 0.5


def test_indexes_of_special_input_bring_their_own():
    def make_pair(rng, n):
        X = rng.standard_normal((n, 3))
        return X @ X.T, (X + 0.5 * rng.standard_normal((n, 3))) @ X.T @ X @ X.T

    def good_pair(rng, n):
        X, Y = rng.standard_normal((2, n, 3))
        return X @ X.T, Y @ Y.T

    check_index(CKA("precomputed"), make_pair=good_pair)
    with pytest.raises(ValueError, match="symmetric"):
        check_index(CKA("precomputed"), make_pair=make_pair)
