"""Jensen-Shannon similarity of the class probabilities that two classifiers predict.

    1 - mean over rows of JSD(p, q),    JSD(p, q) = KL(p || m) / 2 + KL(q || m) / 2,    m = (p + q) / 2

with logarithms to base 2, so that the divergence of two distributions without a common class is 1. The root of the
divergence is a metric (Endres & Schindelin 2003), and so is the root of its mean. References: Lin (1991), IEEE
Transactions on Information Theory 37; Endres & Schindelin (2003), IEEE Transactions on Information Theory 49; Klabunde,
Schumacher, Strohmaier & Lemmerich (2023), arXiv:2305.06329 (functional similarity).
"""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_cka import _arrays, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._outputs import OutputIndex, weighted_mean
from sklearn_cka.indexes._properties import IndexProperties

__all__ = ["JensenShannonSimilarity"]

# How far from 1 a row of probabilities may sum: what half precision leaves of a softmax.
_SUM_TOLERANCE = 2e-2
# Rows that are not negative and sum to 1 as closely as this hold probabilities, not logits.
_PROBABILITY_TOLERANCE = 1e-5


@dataclass(frozen=True)
class DistributionEmbedding:
    """Class probabilities in float64, or the predicted classes if `is_certain`."""

    values: Array
    is_certain: bool
    weights: Array | None


class JensenShannonSimilarity(OutputIndex):
    """One minus the mean Jensen-Shannon divergence, in bits, of the class probabilities of two classifiers.

    Parameters
    ----------
    outputs : {"logits", "probabilities"}, default="logits"
        What columns hold: scores that a softmax turns into probabilities, or the probabilities themselves, whose rows
        are checked.

    Attributes
    ----------
    similarity_ : float
        Similarity of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        NaN: the mean over row permutations takes the divergences of all pairs of rows.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Notes
    -----
    A side of one column holds predicted classes, numbered as the columns of the other side are: certain predictions. A
    classifier of two classes with one probability a row is given as two columns, ``np.c_[1 - p, p]``.

    References
    ----------
    Lin (1991), "Divergence measures based on the Shannon entropy", IEEE Transactions on Information Theory 37.

    Examples
    --------
    >>> from sklearn_cka import JensenShannonSimilarity
    >>> X, y = [[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]
    >>> JensenShannonSimilarity(outputs="probabilities").fit(X, y).similarity_
    0.5
    >>> round(JensenShannonSimilarity().fit([[2.0, 0.0], [0.0, 1.0]], [0, 1]).similarity_, 6)
    0.894035
    """

    def __init__(self, outputs: str = "logits") -> None:
        self.outputs = outputs

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            # A softmax is changed by all, and other sets of probabilities are none after most.
            invariances=frozenset() if self.outputs == "logits" else None,
            self_similarity=1.0,
            metric="sqrt(1 - s)",
            min_samples=1,
            equal_widths=True,
            cost="n p",
            reference="Lin 1991, IEEE Transactions on Information Theory 37",
        )

    def embed(self, X: Array, sample_weight: Array | None = None) -> DistributionEmbedding:
        """Return the class probabilities of one side.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes) or (n_samples, 1)
            Logits or probabilities, as `outputs` says; or predicted classes.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : DistributionEmbedding
            Probabilities that sum to 1 in every row.
        """
        xp = _arrays.namespace(X)
        values = xp.astype(X, xp.float64)
        if values.shape[1] == 1:
            return DistributionEmbedding(values[:, 0], True, sample_weight)
        if self.outputs == "logits":
            values = xp.exp(values - xp.max(values, axis=1, keepdims=True))
        return DistributionEmbedding(values / xp.sum(values, axis=1, keepdims=True), False, sample_weight)

    def compare(self, a: DistributionEmbedding, b: DistributionEmbedding) -> float:
        """Return one minus the mean divergence of two embeddings.

        Parameters
        ----------
        a, b : DistributionEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [0, 1].
        """
        xp = _arrays.namespace(a.values)
        if a.is_certain and b.is_certain:
            divergence = xp.astype(a.values != b.values, xp.float64)
        elif a.is_certain or b.is_certain:
            divergence = (
                _divergence_from_class(b.values, a.values)
                if a.is_certain
                else _divergence_from_class(a.values, b.values)
            )
        else:
            middle = (a.values + b.values) / 2.0
            divergence = (_relative_entropy(a.values, middle) + _relative_entropy(b.values, middle)) / 2.0
        return min(1.0, max(0.0, 1.0 - weighted_mean(divergence, a.weights)))

    def _check_params(self) -> None:
        _validation.check_option("outputs", self.outputs, ("logits", "probabilities"))

    def _check_X(self, X: Array, name: str) -> Array:
        return self._check_outputs(super()._check_X(X, name), name)

    def _check_y(self, y: Array, name: str) -> Array:
        return self._check_outputs(super()._check_y(y, name), name)

    def _check_outputs(self, X: Array, name: str) -> Array:
        """Return `X`, whose rows are what `outputs` says.

        Raises
        ------
        ValueError
            If a row that should be one of probabilities is none, or every row of logits is.
        """
        if X.shape[1] == 1:
            return X
        xp = _arrays.namespace(X)
        lowest = float(xp.min(X))
        excess = xp.abs(xp.sum(X, axis=1, dtype=xp.float64) - 1.0)
        worst = int(xp.argmax(excess))
        if self.outputs == "probabilities":
            hint = 'pass outputs="logits" for scores before the softmax'
            if lowest < 0.0:
                raise ValueError(f"{name} holds {lowest:.3g}, which is no probability; {hint}.")
            if float(excess[worst]) > _SUM_TOLERANCE:
                total = float(xp.sum(X[worst, :], dtype=xp.float64))
                raise ValueError(
                    f"Row {worst} of {name} sums to {total:.6g}, not 1: these are no probabilities; {hint}."
                )
        elif lowest >= 0.0 and float(excess[worst]) <= _PROBABILITY_TOLERANCE:
            raise ValueError(
                f"Every row of {name} sums to 1: these are probabilities, which a softmax would flatten; pass"
                ' outputs="probabilities".'
            )
        return X


def _relative_entropy(p: Array, m: Array) -> Array:
    """Return the sum over classes of ``p log2(p / m)`` in every row, 0 log 0 being 0."""
    xp = _arrays.namespace(p)
    ratio = xp.where(p > 0.0, p / xp.where(m > 0.0, m, xp.ones_like(m)), xp.ones_like(p))
    return xp.sum(p * xp.log2(ratio), axis=1)


def _divergence_from_class(q: Array, classes: Array) -> Array:
    """Return the divergence of every row of probabilities from certainty of a class, 1 if it is none of the columns."""
    xp = _arrays.namespace(q)
    columns = xp.astype(xp.arange(q.shape[1], device=_arrays.device(q)), xp.float64)
    own = xp.sum(xp.where(columns[None, :] == classes[:, None], q, xp.zeros_like(q)), axis=1)
    middle = (1.0 + own) / 2.0
    ratio = xp.where(own > 0.0, own / middle, xp.ones_like(own))
    return (1.0 - own + own * xp.log2(ratio) - xp.log2(middle)) / 2.0
