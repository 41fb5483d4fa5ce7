"""Correlation match: how well every unit is correlated with the unit matched with it.

With r_ij the Pearson correlation of unit i of X and unit j of y:

    hard   mean of r_ij over the pairs of the one-to-one matching of the largest sum (bipartite matching)
    soft   mean over the units i of X of max_j r_ij (semi-matching)

Reference: Li, Yosinski, Clune, Lipson & Hopcroft (2016), "Convergent learning: do different neural networks learn the
same representations?", ICLR (arXiv:1511.07543, 2015).
"""

from __future__ import annotations

import math

import numpy as np

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._properties import IndexProperties
from sklearn_cka.indexes._transport import assign
from sklearn_cka.indexes._unit_index import INVARIANCES, UnitIndex
from sklearn_cka.indexes._units import UnitEmbedding, embed_units, gains

__all__ = ["CorrelationMatch", "correlation_match"]

_KINDS = ("hard", "soft")


class CorrelationMatch(UnitIndex):
    """Mean correlation of the units of one representation with the matched units of another.

    Parameters
    ----------
    kind : {"hard", "soft"}, default="hard"
        ``"hard"``: each unit of the narrower side has a partner of its own, chosen for the largest sum of correlations.
        ``"soft"``: each unit of X has the unit of y that is most correlated with it, which several may share.
    absolute : bool, default=False
        Whether a negative correlation is as good as a positive one.
    symmetrize : bool, default=False
        Whether to average the soft match of X to y and that of y to X. The hard match is symmetric by itself.

    Attributes
    ----------
    similarity_ : float
        Index of the `X` and `y` given to fit, in [-1, 1]; in [0, 1] for absolute correlations.
    chance_ : float
        NaN: the mean over row permutations of a largest value has no closed form.
    match_ : array of shape (n_features_in_,)
        For every unit of X the unit of y matched with it, -1 where there is none.
    match_y_ : array of shape (n_features_y_in_,)
        For every unit of y the unit of X matched with it, -1 where there is none.
    correlations_, correlations_y_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        For every unit of X and of y its correlation with the matched unit, with its sign; NaN where there is none.
    x_mean_, y_mean_ : array of shape (n_features_in_,) and (n_features_y_in_,)
        Column means of `X` and `y`.
    n_features_in_, n_features_y_in_ : int
        Number of columns of `X` and `y`; they may differ.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of `X`, if it was a frame with string names.

    Warns
    -----
    UndefinedSimilarityWarning
        If all units of a side are constant over the rows: the value is NaN.

    Notes
    -----
    A unit that is constant over the rows, such as a dead one of a network, has no correlation with any: it is left out
    of the matching and of the mean. :meth:`score` is the mean over the matching learned by fit of the correlations over
    the rows given (times their learned sign if `absolute`); pairs with a unit that is constant over these rows are left
    out. The matrix of correlations is moved to the host for :func:`scipy.optimize.linear_sum_assignment`.

    References
    ----------
    Li, Yosinski, Clune, Lipson & Hopcroft (2016), "Convergent learning: do different neural networks learn the same
    representations?", ICLR, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import CorrelationMatch
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> y = X[:, [1, 0]] + np.random.default_rng(1).standard_normal((50, 2))
    >>> index = CorrelationMatch().fit(X, y)
    >>> round(index.similarity_, 6), index.match_.tolist()
    (0.825687, [1, 0, -1])
    >>> round(CorrelationMatch("soft").fit(X, y).similarity_, 6)
    0.573089
    """

    _is_scaled = True

    def __init__(self, kind: str = "hard", *, absolute: bool = False, symmetrize: bool = False) -> None:
        self.kind = kind
        self.absolute = absolute
        self.symmetrize = symmetrize

    @property
    def properties(self) -> IndexProperties:
        """What the index declares of itself with its present parameters."""
        is_hard = self.kind == "hard"
        return IndexProperties(
            range=(0.0, 1.0) if self.absolute else (-1.0, 1.0),
            symmetric=is_hard or bool(self.symmetrize),
            invariances=INVARIANCES,
            self_similarity=1.0,
            cost="n p q" + (", and an assignment of order max(p, q)^3 at worst" if is_hard else ""),
            reference="Li et al. 2016, ICLR",
        )

    def _check_params(self) -> None:
        _validation.check_option("kind", self.kind, _KINDS)
        _validation.check_flag("absolute", self.absolute)
        _validation.check_flag("symmetrize", self.symmetrize)

    def _solve(self, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the matches of both sides among units that vary."""
        if self.absolute:
            gain = np.abs(gain)
        if self.kind == "soft":
            return gain.argmax(axis=1), gain.argmax(axis=0)
        rows, columns = assign(gain)
        match_x, match_y = np.full(gain.shape[0], -1), np.full(gain.shape[1], -1)
        match_x[rows], match_y[columns] = columns, rows
        return match_x, match_y

    def _matching(self, a: UnitEmbedding, b: UnitEmbedding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the correlations of all units, and the match of every unit of both sides, -1 for none."""
        solved = a.solved
        if solved is None or solved[0] is not b:
            correlations = gains(a, b)
            rows, columns = np.flatnonzero(a.varies), np.flatnonzero(b.varies)
            match_x, match_y = np.full(a.n_units, -1), np.full(b.n_units, -1)
            if len(rows) and len(columns):
                of_rows, of_columns = self._solve(correlations[np.ix_(rows, columns)])
                match_x[rows] = np.where(of_rows >= 0, columns[of_rows], -1)
                match_y[columns] = np.where(of_columns >= 0, rows[of_columns], -1)
            solved = a.solved = b, (correlations, match_x, match_y)
        return solved[1]

    def compare(self, a: UnitEmbedding, b: UnitEmbedding) -> float:
        """Return the mean correlation of matched units, NaN where all units of a side are constant.

        Parameters
        ----------
        a, b : UnitEmbedding
            Embeddings of the same rows.

        Returns
        -------
        similarity : float
            In [-1, 1].
        """
        correlations, match_x, match_y = self._matching(a, b)
        if self.absolute:
            correlations = np.abs(correlations)
        value = _mean_at(correlations, match_x)
        if self.symmetrize:
            value = 0.5 * (value + _mean_at(correlations.T, match_y))
        return _linalg.clip_rounding(value, -1.0, 1.0, 64 * max(a.eps, b.eps))

    def _learn(self, a: UnitEmbedding, b: UnitEmbedding) -> None:
        super()._learn(a, b)
        correlations, match_x, match_y = self._matching(a, b)
        of_x = np.where(match_x >= 0, correlations[np.arange(a.n_units), match_x], math.nan)
        of_y = np.where(match_y >= 0, correlations[match_y, np.arange(b.n_units)], math.nan)
        self.match_, self.match_y_ = (_arrays.like(match, a.units) for match in (match_x, match_y))
        self.correlations_, self.correlations_y_ = (_arrays.like(found, a.units) for found in (of_x, of_y))

    def _held_out(self, X: Array, y: Array, weights: Array | None) -> float:
        a, b = embed_units(X, weights, scaled=True), embed_units(y, weights, scaled=True)
        value = self._kept_mean(a, b, self.match_, self.correlations_)
        if self.symmetrize:
            value = 0.5 * (value + self._kept_mean(b, a, self.match_y_, self.correlations_y_))
        return _linalg.clip_rounding(value, -1.0, 1.0, 64 * max(a.eps, b.eps))

    def _kept_mean(self, a: UnitEmbedding, b: UnitEmbedding, match: Array, learned: Array) -> float:
        """Return the mean correlation of units of `a` with their learned matches, where both vary."""
        match, learned = _arrays.to_numpy(match), _arrays.to_numpy(learned)
        units = np.flatnonzero((match >= 0) & a.varies & b.varies[match])
        if not len(units):
            return math.nan
        xp = _arrays.namespace(a.units)
        left = xp.take(a.units, _arrays.like(units, a.units), axis=1)
        right = xp.take(b.units, _arrays.like(match[units], a.units), axis=1)
        left, right = _arrays.same_precision(left, right)
        correlations = _arrays.to_numpy(xp.sum(left * right, axis=0)).astype(np.float64, copy=False)
        return float((correlations * np.sign(learned[units]) if self.absolute else correlations).mean())


def _mean_at(correlations: np.ndarray, match: np.ndarray) -> float:
    """Return the mean of the entries (i, match[i]) over all i that have a match, NaN if none has."""
    units = np.flatnonzero(match >= 0)
    return float(correlations[units, match[units]].mean()) if len(units) else math.nan


def correlation_match(
    X: Array,
    Y: Array,
    *,
    kind: str = "hard",
    absolute: bool = False,
    symmetrize: bool = False,
    sample_weight: Array | None = None,
) -> float:
    """Compute the mean correlation of the units of one representation with the matched units of another.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows in the same order; its width may differ.
    kind, absolute, symmetrize
        As in :class:`CorrelationMatch`.
    sample_weight : array-like of shape (n_samples,), default=None
        How many times each row counts.

    Returns
    -------
    similarity : float
        In [-1, 1], for absolute correlations in [0, 1]; 1 for X with itself.

    Raises
    ------
    ValueError
        If the data break the input contract, there are fewer than 2 rows, or a parameter is not valid.

    Warns
    -----
    UndefinedSimilarityWarning
        If all units of a side are constant over the rows: the value is NaN.

    References
    ----------
    Li, Yosinski, Clune, Lipson & Hopcroft (2016), "Convergent learning: do different neural networks learn the same
    representations?", ICLR, section 3.

    Examples
    --------
    >>> from sklearn_cka import correlation_match
    >>> X, Y = [[0.0, 1.0], [1.0, 1.0], [2.0, 4.0]], [[1.0], [1.0], [4.0]]
    >>> round(correlation_match(X, Y), 6), round(correlation_match(X, Y, kind="soft"), 6)
    (1.0, 0.933013)
    """
    index = CorrelationMatch(kind, absolute=absolute, symmetrize=symmetrize)
    return index.similarity(X, Y, sample_weight)
