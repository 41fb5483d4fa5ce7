"""Agreement of the decisions of two classifiers on the same examples.

    PredictionAgreement   share of examples on which both decide for the same class
    ErrorConsistency      kappa = (o - e) / (1 - e) of being right: o the share of examples on which both are right or
                          both are wrong, e = a b + (1 - a)(1 - b) what two classifiers of accuracies a and b would
                          have if their errors were independent

References: Geirhos, Meding & Wichmann (2020), "Beyond accuracy: quantifying trial-by-trial behaviour of CNNs and humans
by measuring error consistency", NeurIPS; Cohen (1960), Educational and Psychological Measurement 20 (kappa); Klabunde,
Schumacher, Strohmaier & Lemmerich (2023), arXiv:2305.06329 (functional similarity).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn_cka import _arrays, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._outputs import OutputIndex, decisions, shares, weighted_mean
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._row_data import RowData, check_rows_of, without_zero_weights

__all__ = ["ErrorConsistency", "PredictionAgreement"]

# An expected agreement this close to 1 is 1: both decide alike on every example.
_CERTAIN = 1e-12


@dataclass(frozen=True)
class DecisionEmbedding:
    """The decisions of one classifier, or whether they are right, as float64 numbers with the share of each."""

    values: Array
    weights: Array | None
    shares: dict[float, float]
    accuracy: float = math.nan


def _observed(a: DecisionEmbedding, b: DecisionEmbedding) -> float:
    """Return the share of rows with equal values."""
    xp = _arrays.namespace(a.values)
    return weighted_mean(xp.astype(a.values == b.values, xp.float64), a.weights)


def _expected(a: DecisionEmbedding, b: DecisionEmbedding) -> float:
    """Return the mean share of rows with equal values over all orders of the rows of one side."""
    return math.fsum(share * b.shares.get(value, 0.0) for value, share in a.shares.items())


class PredictionAgreement(OutputIndex):
    """Share of examples on which two classifiers decide for the same class.

    Each side holds one score a class, two columns or more, and decides for the highest, the first of equal ones; or
    one column of predicted classes, numbered as the columns of the other side are.

    Attributes
    ----------
    similarity_ : float
        Agreement of the `X` and `y` given to fit, in [0, 1].
    chance_ : float
        Expected agreement over all row permutations of y, in closed form: the sum over classes of the product of the
        shares of decisions. NaN for weighted rows.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Notes
    -----
    Decisions are taken where the data are; the counts of classes are made by the host.

    References
    ----------
    Klabunde, Schumacher, Strohmaier & Lemmerich (2023), "Similarity of neural network models: a survey of functional
    and representational measures", arXiv:2305.06329.

    Examples
    --------
    >>> from sklearn_cka import PredictionAgreement
    >>> X = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]]
    >>> y = [0, 1, 1, 1]
    >>> index = PredictionAgreement().fit(X, y)
    >>> index.similarity_, index.chance_
    (0.75, 0.5)
    """

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(0.0, 1.0),
            symmetric=True,
            invariances=frozenset({"isotropic_scaling"}),
            self_similarity=1.0,
            metric="1 - s",
            min_samples=1,
            equal_widths=True,
            cost="n p",
            reference="Klabunde et al. 2023, arXiv:2305.06329",
        )

    def embed(self, X: Array, sample_weight: Array | None = None) -> DecisionEmbedding:
        """Return the decisions of one side.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes) or (n_samples, 1)
            Scores of the classes, or predicted classes.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : DecisionEmbedding
            Class of every row.
        """
        values = decisions(X)
        return DecisionEmbedding(values, sample_weight, shares(values, sample_weight))

    def compare(self, a: DecisionEmbedding, b: DecisionEmbedding) -> float:
        """Return the share of rows with equal decisions.

        Parameters
        ----------
        a, b : DecisionEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [0, 1].
        """
        return _observed(a, b)

    def chance(self, a: DecisionEmbedding, b: DecisionEmbedding) -> float:
        """Return the expected agreement under a random permutation of the rows of one side, in closed form."""
        return math.nan if a.weights is not None else _expected(a, b)


class ErrorConsistency(OutputIndex):
    """Error consistency: agreement on which examples are hard, beyond what two accuracies bring about.

    True labels are data about the same rows, and are given to :meth:`fit` and :meth:`score` as metadata: under
    ``sklearn.set_config(enable_metadata_routing=True)`` and ``set_fit_request(labels=True)``,
    ``set_score_request(labels=True)``, cross-validation hands every fold its own. The parameter `labels` is for all
    that knows of no metadata and looks at whole data sets, tables above all.

    Each side holds one score a class, two columns or more, and decides for the highest, the first of equal ones; or
    one column of predicted classes. Without labels the statistic is taken of the decisions themselves, which is Cohen's
    kappa of the two classifiers; of two columns that say 1 where a classifier was right and 0 elsewhere, it is the
    error consistency again.

    Parameters
    ----------
    labels : array-like of shape (n_samples,), default=None
        True class of every row of whole data sets, numbered as the columns are; the one given to a method comes first.

    Attributes
    ----------
    similarity_ : float
        Error consistency of the `X` and `y` given to fit, in [-1, 1]: 1 for errors on the same examples, 0 for
        independent errors.
    chance_ : float
        0: the expected value over all row permutations of y. NaN for weighted rows.
    accuracy_, accuracy_y_ : float
        Share of examples on which X and y are right; NaN without labels.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If both are right on all examples or wrong on all, so that no agreement is left to explain: the value is NaN.

    References
    ----------
    Geirhos, Meding & Wichmann (2020), "Beyond accuracy: quantifying trial-by-trial behaviour of CNNs and humans by
    measuring error consistency", NeurIPS.

    Examples
    --------
    >>> from sklearn_cka import ErrorConsistency
    >>> labels = [0, 1, 2, 0, 1, 2]
    >>> X, y = [[0], [1], [2], [0], [2], [1]], [0, 1, 2, 1, 2, 0]
    >>> index = ErrorConsistency().fit(X, y, labels=labels)
    >>> round(index.similarity_, 6), round(index.accuracy_, 6)
    (0.666667, 0.666667)
    """

    def __init__(self, labels: Array | None = None) -> None:
        self.labels = labels

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        return IndexProperties(
            range=(-1.0, 1.0),
            symmetric=True,
            invariances=frozenset({"isotropic_scaling"}),
            self_similarity=1.0,
            metric=None,
            min_samples=1,
            equal_widths=True,
            cost="n p",
            reference="Geirhos, Meding & Wichmann 2020, NeurIPS",
        )

    def fit(
        self, X: Array, y: Array, sample_weight: Array | None = None, labels: Array | None = None
    ) -> ErrorConsistency:
        """Compute the error consistency.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Scores of the classes by one classifier, or the classes that it predicts.
        y : array-like of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
            Those of another on the same examples in the same order.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts: integer weights are the same as repeated rows.
        labels : array-like of shape (n_samples,), default=None
            True class of every row. None is the parameter of the same name.

        Returns
        -------
        self : object
            The fitted index.

        Raises
        ------
        ValueError
            If the data break the input contract.
        """
        return self._fit(X, y, RowData(sample_weight, labels))

    def score(self, X: Array, y: Array, sample_weight: Array | None = None, labels: Array | None = None) -> float:
        """Return the error consistency on the rows given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Scores of the classes by one classifier, or the classes that it predicts.
        y : array-like of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
            Those of another on the same examples.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.
        labels : array-like of shape (n_samples,), default=None
            True class of every row.

        Returns
        -------
        similarity : float
            Higher is more similar.

        Raises
        ------
        ValueError
            If the data break the input contract.
        sklearn.exceptions.NotFittedError
            If the index is not fitted.
        """
        return self._score(X, y, RowData(sample_weight, labels))

    def similarity(self, X: Array, y: Array, sample_weight: Array | None = None, labels: Array | None = None) -> float:
        """Return the error consistency without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Scores of the classes by one classifier, or the classes that it predicts.
        y : array-like of shape (n_samples, n_classes), (n_samples, 1) or (n_samples,)
            Those of another on the same examples.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.
        labels : array-like of shape (n_samples,), default=None
            True class of every row.

        Returns
        -------
        similarity : float
            The value that ``fit(X, y).similarity_`` would have.

        Raises
        ------
        ValueError
            As :meth:`fit`.
        """
        return self._similarity(X, y, RowData(sample_weight, labels))

    def embed(self, X: Array, sample_weight: Array | None = None) -> DecisionEmbedding:
        """Return whether each decision is right by the parameter `labels`, or the decisions if there is none.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes) or (n_samples, 1)
            Scores of the classes, or predicted classes.
        sample_weight : array of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        embedding : DecisionEmbedding
            1 for right, 0 for wrong; or the class of every row.
        """
        labels = None if self.labels is None else self._check_labels(self.labels, X, None)
        return self._embed_given(X, RowData(sample_weight, labels))

    @staticmethod
    def _embed_given(X: Array, rows: RowData) -> DecisionEmbedding:
        values, weights = decisions(X), rows.sample_weight
        if rows.extra is None:
            return DecisionEmbedding(values, weights, shares(values, weights))
        xp = _arrays.namespace(values)
        right = xp.astype(values == rows.extra, xp.float64)
        found = shares(right, weights)
        return DecisionEmbedding(right, weights, found, found.get(1.0, 0.0))

    def compare(self, a: DecisionEmbedding, b: DecisionEmbedding) -> float:
        """Return kappa of two embeddings, NaN where both sides decide alike on every row.

        Parameters
        ----------
        a, b : DecisionEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        expected = _expected(a, b)
        return (_observed(a, b) - expected) / (1.0 - expected) if expected < 1.0 - _CERTAIN else math.nan

    def chance(self, a: DecisionEmbedding, b: DecisionEmbedding) -> float:
        """Return 0, the expected value under a random permutation of the rows of one side; NaN for weighted rows."""
        return math.nan if a.weights is not None or _expected(a, b) >= 1.0 - _CERTAIN else 0.0

    def _check_data(self, X: Array, y: Array, rows: Any) -> tuple[Array, Array, Any]:
        rows = RowData() if rows is None else rows
        X_checked, y_checked, weights = super()._check_data(X, y, rows.sample_weight)
        labels = self.labels if rows.extra is None else rows.extra
        if labels is None:
            return X_checked, y_checked, RowData(weights)
        _validation.check_row_labels(_validation.row_labels(X), _validation.row_labels(labels), "X", "labels")
        return X_checked, y_checked, RowData(weights, self._check_labels(labels, X_checked, rows.sample_weight))

    @staticmethod
    def _check_labels(labels: Any, X: Array, sample_weight: Any) -> Array:
        """Return the true classes of the rows of `X` in float64."""
        checked = _arrays.like(_validation.check_matrix(labels, "labels", column=True), X)
        if checked.shape[1] != 1:
            raise ValueError(f"labels must have one column, the true class of every row; got {checked.shape[1]}.")
        xp = _arrays.namespace(checked)
        kept = without_zero_weights(xp.astype(checked[:, 0], xp.float64), sample_weight)
        check_rows_of(kept, X, "labels")
        return kept

    def _embed_pair(self, X: Array, y: Array, rows: Any) -> tuple[DecisionEmbedding, DecisionEmbedding]:
        return self._embed_given(X, rows), self._embed_given(y, rows)

    def _learn(self, a: DecisionEmbedding, b: DecisionEmbedding) -> None:
        self.accuracy_, self.accuracy_y_ = a.accuracy, b.accuracy

    def _undefined(self, a: DecisionEmbedding, b: DecisionEmbedding) -> str:
        return "both sides are right on all examples or wrong on all, or decide for one and the same class throughout"
