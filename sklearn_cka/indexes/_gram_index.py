"""What the Gram family shares as estimators: kernels of both sides, forms, chance levels.

A member names its kernels (:class:`KernelParamsMixin` where they are parameters) and turns the inner products
<K, L>, <K, K> and <L, L> of :class:`~sklearn_cka.indexes._gram.GramEmbedding` into its value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sklearn_cka import _arrays, _bandwidths, _linalg, _validation, kernels
from sklearn_cka._arrays import Array
from sklearn_cka._radial import Gram
from sklearn_cka.exceptions import ChanceLevelWarning, SimilarityWarning, UndefinedSimilarityWarning, warn
from sklearn_cka.indexes._gram import GramEmbedding, outlies, permutation_moments, permutation_z
from sklearn_cka.indexes._properties import is_mostly_chance
from sklearn_cka.indexes._weighted import WeightedIndex

FORMS = ("auto", "gram", "feature")


@dataclass(frozen=True)
class KernelSpec:
    """The kernel of one side, with its parameters."""

    kernel: Any = "linear"
    bandwidth: float = 1.0
    bandwidth_rule: str = "median"
    gamma: float | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


_PLAIN = KernelSpec()
# Up to so many rows a Gram matrix costs little enough to be made for its digits alone.
_SMALL = 4_096


class KernelIndex(WeightedIndex):
    """Base class of indexes of the Gram matrices of two kernels: subclasses name the kernel of each side."""

    family = "gram"

    @abstractmethod
    def _specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Return the kernels of X and of y."""

    @property
    def _is_debiased(self) -> bool:
        return bool(getattr(self, "debiased", False))

    _is_centered = True

    @property
    def can_tile(self) -> bool:
        """Whether the embedding is the centred Gram matrix of a kernel, with nothing else done to it."""
        return self._is_centered

    @property
    def has_equal_sides(self) -> bool:
        """Whether both sides are embedded alike, so that one embedding serves as either."""
        x, y = self._specs()
        return x == y

    @property
    def is_linear(self) -> bool:
        """Whether both kernels are linear, so that features can stand for Gram matrices."""
        return all(isinstance(spec.kernel, str) and spec.kernel == "linear" for spec in self._specs())

    def embed(self, X: Array, sample_weight: Array | None = None) -> GramEmbedding:
        """Return the centred Gram matrix of one representation, as features where the kernel is linear.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64; for ``kernel="precomputed"`` the Gram matrix.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : GramEmbedding
            Centred Gram matrix.
        """
        return self._embed_side(X, self._specs()[0], sample_weight)

    def embed_y(self, y: Array, sample_weight: Array | None = None) -> GramEmbedding:
        """Embed the second representation, under its own kernel if it has one."""
        return self._embed_side(y, self._specs()[1], sample_weight)

    def _embed_side(
        self, X: Array, spec: KernelSpec, weights: Array | None, sigma: float | None = None
    ) -> GramEmbedding:
        common: dict[str, Any] = {"weights": weights, "debiased": self._is_debiased, "centered": self._is_centered}
        n = X.shape[0]
        if spec.kernel == "linear":
            if not self._is_centered:
                Z, exponent = _linalg.scale(X)
                return GramEmbedding(n, features=Z, exponent=2 * exponent, **common)
            centered = _linalg.center(X, weights)
            is_single = _arrays.dtype_name(X) == "float32"
            if self._is_debiased and is_single and outlies(_linalg.row_squares(centered.values)):
                centered = _linalg.center(_arrays.namespace(X).astype(X, _arrays.namespace(X).float64), weights)
            return GramEmbedding(n, features=centered.values, exponent=2 * centered.exponent, **common)
        gram = kernels.gram_matrix(
            X,
            spec.kernel,
            bandwidth=spec.bandwidth,
            bandwidth_rule=spec.bandwidth_rule,
            gamma=spec.gamma,
            sigma=sigma,
            params=spec.params,
            weights=weights,
            exact=not self._is_centered,
        )
        return self._embed_gram(gram, n, weights)

    def _embed_gram(self, gram: Gram, n: int, weights: Array | None = None) -> GramEmbedding:
        """Return the embedding of a Gram matrix of n rows, made up to an additive constant if it is to be centred."""
        K = gram.matrix
        if gram.is_constant and self._is_centered:
            K = _arrays.namespace(K).zeros_like(K)
        return GramEmbedding(
            n,
            matrix=K,
            scale=gram.scale,
            weights=weights,
            debiased=self._is_debiased,
            centered=self._is_centered,
            bandwidth=gram.bandwidth,
        )

    def _learn(self, a: GramEmbedding, b: GramEmbedding) -> None:
        self.bandwidth_, self.bandwidth_y_ = a.bandwidth, b.bandwidth

    def _embed_fitted(self, X: Array, y: Array, weights: Array | None) -> tuple[GramEmbedding, GramEmbedding]:
        """Embed new rows with the bandwidths learned by fit."""
        spec_x, spec_y = self._specs()
        return (
            self._embed_side(X, spec_x, weights, _usable(self.bandwidth_)),
            self._embed_side(y, spec_y, weights, _usable(self.bandwidth_y_)),
        )

    def _evaluate(self, X: Array, y: Array, weights: Array | None) -> float:
        return self._judge(*self._embed_fitted(X, y, weights))[0]

    def _required_samples(self) -> tuple[int, str]:
        if self._is_debiased:
            return 4, f"the debiased estimator of {type(self).__name__}"
        return 2, type(self).__name__

    def _check_widths(self, X: Array, y: Array, X_name: str, y_name: str) -> None:
        """Gram matrices of any two widths can be compared."""

    def _check_X(self, X: Array, name: str) -> Array:
        return self._check_side(X, name, self._specs()[0], column=False)

    def _check_y(self, y: Array, name: str) -> Array:
        return self._check_side(y, name, self._specs()[1], column=True)

    def _check_side(self, X: Array, name: str, spec: KernelSpec, *, column: bool) -> Array:
        minimum, required_by = self._required_samples()
        if spec.kernel == "delta":
            labels = _validation.check_labels(X, name)
            if labels.shape[0] < minimum:
                shape = tuple(labels.shape)
                raise ValueError(_validation.too_few_samples(name, shape[0], shape, minimum, required_by))
            return labels
        X = _validation.check_matrix(X, name, min_samples=minimum, required_by=required_by, column=column)
        return _validation.check_gram(X) if spec.kernel == "precomputed" else X

    def _check_weighted(self, X: Array, y: Array, weights: Array) -> tuple[Array, Array, Array | None]:
        if "precomputed" in (spec.kernel for spec in self._specs()):
            xp = _arrays.namespace(X)
            if not bool(xp.all(weights > 0)):
                raise ValueError('sample_weight must be positive for every row with kernel="precomputed".')
            kept: tuple[Array, Array, Array | None] = X, y, weights
        else:
            kept = super()._check_weighted(X, y, weights)
        if self._is_debiased and kept[2] is not None:
            xp = _arrays.namespace(kept[2])
            lowest, total = float(xp.min(kept[2])), float(xp.sum(kept[2]))
            if lowest < 1.0 or total <= 3.0:
                raise ValueError(
                    "sample_weight counts repetitions of rows for a debiased estimate: every weight must be 0 or at"
                    f" least 1 and their sum greater than 3; got a smallest of {lowest:g}, a sum of {total:g}."
                )
        return kept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernel, kernel_y = (spec.kernel for spec in self._specs())
        tags.input_tags.pairwise = kernel == "precomputed"
        if isinstance(kernel, str) and kernel in kernels.kernel_names():
            tags.input_tags.positive_only = kernels.is_positive_only(kernel)
        if isinstance(kernel_y, str) and kernel_y in kernels.kernel_names():
            tags.target_tags.positive_only = kernels.is_positive_only(kernel_y)
        return tags


class GramIndex(KernelIndex):
    """Base class of the Gram family: subclasses turn the inner products of two Gram matrices into a value."""

    @abstractmethod
    def normalize(self, inner: float, self_a: float, self_b: float, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the index from the inner products <a, b>, <a, a> and <b, b>, NaN where undefined."""

    def compare(self, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the index of two embeddings, NaN where it is undefined.

        Parameters
        ----------
        a, b : GramEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            The index.
        """
        form = self._form(a, b)
        return self.normalize(a.inner(b, form), a.self_inner(form), b.self_inner(form), a, b)

    def _form(self, a: GramEmbedding, b: GramEmbedding) -> str:
        """Return the form of the inner product: as asked for, else the one of fewer operations."""
        asked = getattr(self, "form", "auto")
        if a.features is None or b.features is None:
            return "gram"
        if asked != "auto":
            return str(asked)
        if a.n_samples < a.features.shape[1] + b.features.shape[1]:
            return "gram"
        # Features tell the diagonal from the rest by a difference, of which an outlying row leaves few digits.
        is_small = self._is_debiased and a.n_samples <= _SMALL
        return "gram" if is_small and (a.has_outlying_row or b.has_outlying_row) else "feature"

    def _undefined(self, a: GramEmbedding, b: GramEmbedding) -> str:
        form = self._form(a, b)
        sides = [name for name, side in (("X", a), ("y", b)) if side.self_inner(form) == 0.0]
        if not sides or (self._is_debiased and not self.is_linear):
            where = " and ".join(sides) if sides else "one side"
            return (
                f"all rows of {where} are equally alike, as those of a constant representation or, to rounding, those"
                " of any under a bandwidth far below the distances between them"
            )
        where = " and ".join(sides)
        return f"the centred Gram matrix of {where} is zero, as for a representation that is constant over the rows"


class CenteredGramIndex(GramIndex):
    """Base class of the indexes on centred Gram matrices, whose chance level has a closed form."""

    _warns_of_chance = False

    def chance(self, a: GramEmbedding, b: GramEmbedding) -> float:
        """Return the expected value under a random permutation of the rows of one side, in closed form.

        Debiased estimates are 0 by chance; NaN for weighted rows, whose weights a permutation would part from them.
        """
        if a.weights is not None:
            return math.nan
        if self._is_debiased:
            return 0.0
        form = self._form(a, b)
        return self.normalize(a.trace * b.trace / (a.n_samples - 1), a.self_inner(form), b.self_inner(form), a, b)

    def z_score(self, X: Array, y: Array) -> float:
        """Return the number of standard deviations by which the similarity passes its chance level.

        Mean and variance are those over all n! permutations of the rows of `y`, in closed form. They do not depend
        on how the index is normalised, so that HSIC and CKA have the same z-score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            First representation, n_samples >= 4.
        y : array-like of shape (n_samples, n_targets) or (n_samples,)
            Second representation of the same rows.

        Returns
        -------
        z : float
            Permutation z-score with what was learned by :meth:`fit`; about standard normal without correspondence.
            NaN with a warning where a side is constant, or its kernel so narrow that all rows are equally alike.

        Raises
        ------
        ValueError
            If the data break the input contract or there are fewer than 4 rows.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.

        References
        ----------
        Kazi-Aoual, Hitier, Sabatier & Lebreton (1995), "Refined approximations to permutation tests for
        multivariate inference", Computational Statistics & Data Analysis 20.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_cka import CKA
        >>> x = np.arange(10.0)[:, None]
        >>> round(CKA().fit(x, x).z_score(x, x), 3)
        6.455
        """
        return self._z_score(X, y, None)

    def _z_score(self, X: Array, y: Array, sample_weight: Array | None) -> float:
        check_is_fitted(self)
        X_checked, y_checked, weights = self._check_data(X, y, sample_weight)
        if X_checked.shape[0] < 4:
            shape = tuple(X_checked.shape)
            raise ValueError(_validation.too_few_samples("X", X_checked.shape[0], shape, 4, "z_score"))
        a, b = self._embed_fitted(X_checked, y_checked, weights)
        z = self._z_of(a, b)
        if math.isnan(z):
            warn(UndefinedSimilarityWarning(f"z_score is undefined (0/0): {self._undefined(a, b)}."))
        return z

    def _z_of(self, a: GramEmbedding, b: GramEmbedding, inner: float | None = None) -> float:
        """Return the z-score of two embeddings of unweighted rows, NaN where no order of the rows matters.

        Their inner product may be given where it is known already.
        """
        form = self._form(a, b)
        moments_a, moments_b = a.moments(form), b.moments(form)
        if moments_a[1] == 0.0 or moments_b[1] == 0.0:
            return math.nan
        mean, variance = permutation_moments(a.n_samples, moments_a, moments_b)
        return permutation_z(a.inner(b, form) if inner is None else inner, mean, variance, a, b)

    def diagnose(self, a: GramEmbedding, b: GramEmbedding, similarity: float, chance: float) -> list[SimilarityWarning]:
        """Warn of an undefined value, and of a biased one that is mostly chance."""
        found = super().diagnose(a, b, similarity, chance)
        if self._warns_of_chance and is_mostly_chance(similarity, chance):
            found.append(
                ChanceLevelWarning(
                    f"{type(self).__name__} is {similarity:.3f}, of which {chance:.3f} is expected without any"
                    f" correspondence between the {a.n_samples} rows; use debiased=True or more rows."
                )
            )
        return found


def _usable(sigma: float | None) -> float | None:
    """Return a learned bandwidth, None where fit saw a constant representation and learned none."""
    return None if sigma is None or math.isnan(sigma) else sigma


class KernelParamsMixin:
    """The kernels of a Gram index as its parameters: HSIC, CKA and kernel alignment."""

    kernel: Any
    kernel_y: Any
    bandwidth: float
    bandwidth_rule: str
    gamma: float | None
    kernel_params: Mapping[str, Any] | None
    kernel_params_y: Mapping[str, Any] | None
    form: str
    _is_centered: bool

    def _specs(self) -> tuple[KernelSpec, KernelSpec]:
        if self._is_plain:
            return _PLAIN, _PLAIN
        x = self._spec(self.kernel, self.kernel_params)
        same = isinstance(self.kernel_y, str) and self.kernel_y == "same"
        if same and not self.kernel_params_y:
            return x, x
        return x, self._spec(self.kernel if same else self.kernel_y, self.kernel_params_y)

    def _spec(self, kernel: Any, params: Mapping[str, Any] | None) -> KernelSpec:
        options = dict(params or {})
        known: dict[str, Any] = {"bandwidth": self.bandwidth, "bandwidth_rule": self.bandwidth_rule, "gamma": None}
        if isinstance(kernel, str):
            kernel = kernels.canonical(kernel)
            # What a kernel does not take may be meant for that of the other side; its own parameters stay its own.
            known["gamma"] = self.gamma if kernels.takes(kernel, "gamma") else None
            known.update((name, options.pop(name)) for name in kernels.common_params(kernel) if name in options)
        return KernelSpec(kernel, params=options, **known)

    def _check_params(self) -> None:
        if hasattr(self, "form"):
            _validation.check_option("form", self.form, FORMS)
        if hasattr(self, "debiased"):
            _validation.check_flag("debiased", self.debiased)  # type: ignore[attr-defined]
        if self._is_plain:
            return
        kernels.check_kernel(self.kernel, "kernel")
        if not (isinstance(self.kernel_y, str) and self.kernel_y == "same"):
            kernels.check_kernel(self.kernel_y, "kernel_y")
        for name in ("kernel_params", "kernel_params_y"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise ValueError(f"{name} must be a dict of parameters or None, got {value!r}.")
        if self.gamma is not None:
            _validation.check_positive("gamma", self.gamma)
            if all(spec.gamma is None for spec in self._specs()):
                raise ValueError(f"gamma was given, but the kernel {self.kernel!r} has no parameter gamma.")
        for spec in self._specs():
            _bandwidths.check_bandwidth(spec.bandwidth, spec.bandwidth_rule)
            kernels.check_kernel_params(
                spec.kernel, spec.params if spec.gamma is None else {**spec.params, "gamma": spec.gamma}
            )
        if getattr(self, "form", None) == "feature" and any(spec.kernel != "linear" for spec in self._specs()):
            raise ValueError('form="feature" is for the linear kernel, which alone has an exact feature form.')

    @property
    def _is_plain(self) -> bool:
        """Whether the kernels are linear without a word on parameters; saves small pairs most of the checks."""
        return (
            isinstance(self.kernel, str)
            and self.kernel == "linear"
            and isinstance(self.kernel_y, str)
            and self.kernel_y == "same"
            and self.gamma is None
            and self.kernel_params is None
            and self.kernel_params_y is None
            and type(self.bandwidth) is float
            and self.bandwidth == 1.0
            and type(self.bandwidth_rule) is str
            and self.bandwidth_rule == "median"
        )

    def _is_positive_definite(self) -> bool:
        """Whether (centred) Gram matrices of both kernels are known to have no negative eigenvalue."""
        return all(
            isinstance(spec.kernel, str) and kernels.is_positive_definite(spec.kernel, spec.params, self._is_centered)
            for spec in self._specs()
        )

    def _kernel_invariances(self) -> frozenset[str] | None:
        """Return what centred Gram matrices of both kernels are unchanged by, None if that is not known."""
        centered = self._is_centered
        x, y = (
            kernels.kernel_invariances(spec.kernel, spec.bandwidth_rule, spec.gamma, spec.params, centered=centered)
            for spec in self._specs()
        )
        return None if x is None or y is None else x & y
