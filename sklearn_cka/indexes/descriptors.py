"""Differences of numbers that describe one representation each.

    magnitude      length of the mean row
    concentricity  mean over rows of the cosine between the row and the mean row
    uniformity     log of the mean over pairs of rows of exp(-t ||x - x'||^2), rows scaled to length 1

The similarity of two representations is minus the absolute difference of their numbers. It says nothing about which
rows correspond: whatever the order of the rows of one side, the value is the same, and so its chance level is the value
itself. References: Wang & Isola (2020), "Understanding contrastive representation learning through alignment and
uniformity on the hypersphere", ICML; Klabunde, Schumacher, Strohmaier & Lemmerich (2023), arXiv:2305.06329 (the three
as measures of similarity).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes import _rdm
from sklearn_cka.indexes._distance_index import NEGATED, DistanceIndex, negated
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["ConcentricityDifference", "MagnitudeDifference", "UniformityDifference"]

# A mean row of no more than this many units in the last place of the largest number is rounding of zero.
_ROUNDING_ULPS = 8.0


@dataclass(frozen=True)
class Descriptor:
    """The number that describes a representation, NaN with the reason where it is undefined."""

    value: float
    undefined: str = ""


class DescriptorDifference(DistanceIndex):
    """Base class of the differences of descriptors: subclasses define the descriptor of one representation."""

    @abstractmethod
    def describe(self, X: Array) -> Descriptor:
        """Return the number that describes a validated representation."""

    def embed(self, X: Array) -> Descriptor:
        """Return the descriptor of one representation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        embedding : Descriptor
            A number.
        """
        return self.describe(X)

    def compare(self, a: Descriptor, b: Descriptor) -> float:
        """Return minus the absolute difference of two descriptors, NaN where one is undefined.

        Parameters
        ----------
        a, b : Descriptor
            Embeddings of two representations.

        Returns
        -------
        similarity : float
            At most 0.
        """
        return negated(abs(a.value - b.value))

    def chance(self, a: Descriptor, b: Descriptor) -> float:
        """Return the value itself, which no permutation of rows changes."""
        return self.compare(a, b)

    def _learn(self, a: Descriptor, b: Descriptor) -> None:
        self.descriptor_, self.descriptor_y_ = a.value, b.value

    def _undefined(self, a: Descriptor, b: Descriptor) -> str:
        return "; ".join(f"{name}: {side.undefined}" for name, side in (("X", a), ("y", b)) if side.undefined)


class MagnitudeDifference(DescriptorDifference):
    """Minus the difference of the magnitudes of two representations, the lengths of their mean rows.

    Attributes
    ----------
    similarity_ : float
        Minus the absolute difference for the `X` and `y` given to fit, at most 0.
    chance_ : float
        The same: the order of rows does not count.
    descriptor_, descriptor_y_ : float
        Magnitude of `X` and of `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329.

    Examples
    --------
    >>> from sklearn_cka import MagnitudeDifference
    >>> MagnitudeDifference().fit([[3.0, 5.0], [3.0, 3.0]], [[0.0], [2.0]]).similarity_
    -4.0
    """

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-math.inf, 0.0),
            symmetric=True,
            invariances=frozenset({"permutation", "orthogonal"}),
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=1,
            cost="n (p + q)",
            reference="Klabunde et al. 2023, arXiv:2305.06329",
        )

    def describe(self, X: Array) -> Descriptor:
        """Return the length of the mean row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        descriptor : Descriptor
            At least 0.
        """
        return Descriptor(_length(_mean_row(X)))


class ConcentricityDifference(DescriptorDifference):
    """Minus the difference of the concentricities of two representations: how far their rows point one way.

    Attributes
    ----------
    similarity_ : float
        Minus the absolute difference for the `X` and `y` given to fit, in [-2, 0].
    chance_ : float
        The same: the order of rows does not count.
    descriptor_, descriptor_y_ : float
        Concentricity of `X` and of `y`: the mean cosine between a row and the mean row, in [-1, 1].
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a row or the mean row is zero, and has no direction: the value is NaN.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329.

    Examples
    --------
    >>> from sklearn_cka import ConcentricityDifference
    >>> index = ConcentricityDifference().fit([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
    >>> round(index.descriptor_, 6), index.descriptor_y_
    (0.707107, 1.0)
    """

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-2.0, 0.0),
            symmetric=True,
            invariances=frozenset({"isotropic_scaling", "permutation", "orthogonal"}),
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=1,
            cost="n (p + q)",
            reference="Klabunde et al. 2023, arXiv:2305.06329",
        )

    def describe(self, X: Array) -> Descriptor:
        """Return the mean cosine between the rows and the mean row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        descriptor : Descriptor
            In [-1, 1].
        """
        xp = _arrays.namespace(X)
        Z, zero = _rdm.unit_rows(X, _arrays.eps(X), centered=False)
        zeros = _arrays.count(zero)
        if zeros:
            return Descriptor(math.nan, f"{zeros} of {X.shape[0]} rows are zero, and have no direction")
        X, _ = _linalg.scale(X)
        mean = _mean_row(X)
        length = _length(mean)
        if length <= _ROUNDING_ULPS * _arrays.eps(X) * float(xp.max(xp.abs(X))):
            return Descriptor(math.nan, "the mean row is zero, and has no direction")
        cosines = xp.astype(Z, xp.float64) @ (mean / length)
        return Descriptor(float(xp.sum(cosines)) / int(X.shape[0]))


class UniformityDifference(DescriptorDifference):
    """Minus the difference of the uniformities of two representations: how evenly rows spread over the sphere.

    Parameters
    ----------
    t : float, default=2.0
        Sharpness of the Gaussian potential.
    normalize : bool, default=True
        Whether to scale rows to length 1 first: uniformity is defined on the sphere.
    include_self : bool, default=False
        Whether the mean runs over all n^2 pairs, those of a row with itself among them, as in the survey of Klabunde
        et al., rather than over pairs of different rows, as in the programs of Wang and Isola.

    Attributes
    ----------
    similarity_ : float
        Minus the absolute difference for the `X` and `y` given to fit, at most 0; at least -4 t if normalised.
    chance_ : float
        The same: the order of rows does not count.
    descriptor_, descriptor_y_ : float
        Uniformity of `X` and of `y`, at most 0; the smaller, the more even.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If a row is zero and is to be scaled to length 1: the value is NaN.

    References
    ----------
    Wang & Isola (2020), "Understanding contrastive representation learning through alignment and uniformity on the
    hypersphere", ICML.

    Examples
    --------
    >>> from sklearn_cka import UniformityDifference
    >>> index = UniformityDifference().fit([[1.0, 0.0], [0.0, 1.0]], [[1.0], [-1.0]])
    >>> round(index.descriptor_, 6), round(index.descriptor_y_, 6), round(index.similarity_, 6)
    (-4.0, -8.0, -4.0)
    """

    def __init__(self, t: float = 2.0, *, normalize: bool = True, include_self: bool = False) -> None:
        self.t = t
        self.normalize = normalize
        self.include_self = include_self

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        own = "isotropic_scaling" if self.normalize else "translation"
        return IndexProperties(
            range=(-4.0 * self.t if self.normalize else -math.inf, 0.0),
            symmetric=True,
            invariances=frozenset({own, "permutation", "orthogonal"}),
            self_similarity=0.0,
            metric=NEGATED,
            min_samples=2,
            cost="n^2 (p + q)",
            reference="Wang & Isola 2020, ICML",
        )

    def describe(self, X: Array) -> Descriptor:
        """Return the log of the mean Gaussian potential of pairs of rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite, float32 or float64.

        Returns
        -------
        descriptor : Descriptor
            At most 0.
        """
        xp = _arrays.namespace(X)
        sharpness = float(self.t)
        if self.normalize:
            Z, zero = _rdm.unit_rows(X, _arrays.eps(X), centered=False)
            zeros = _arrays.count(zero)
            if zeros:
                return Descriptor(math.nan, f"{zeros} of {X.shape[0]} rows are zero, and cannot be scaled to length 1")
        else:
            centered = _linalg.center(X)
            Z = centered.values
            sharpness *= _linalg.power_of_two(2 * centered.exponent)
        potential = _rdm.upper_triangle(_linalg.squared_distances(Z)) * -sharpness
        highest = 0.0 if self.include_self else float(xp.max(potential))
        total = 2.0 * float(xp.sum(xp.exp(potential - highest), dtype=xp.float64))
        n = int(X.shape[0])
        if self.include_self:
            return Descriptor(math.log((total + n) / n**2))
        return Descriptor(highest + math.log(total / (n * (n - 1))))

    def _check_params(self) -> None:
        _validation.check_positive("t", self.t)
        _validation.check_flag("normalize", self.normalize)
        _validation.check_flag("include_self", self.include_self)


def _mean_row(X: Array) -> Array:
    """Return the mean over rows in float64, whatever the offset of the data."""
    centered = _linalg.center(X)
    return centered.mean


def _length(x: Array) -> float:
    """Return the Euclidean norm of a float64 vector at any size of its numbers."""
    xp = _arrays.namespace(x)
    largest = float(xp.max(xp.abs(x)))
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(_linalg.sum_of_squares(x / largest))
