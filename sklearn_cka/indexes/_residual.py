"""A Gram matrix less what that of a confounder explains of it: embedding and data of deconfounded indexes."""

from __future__ import annotations

import math
from typing import Any

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._gram_index import KernelIndex, KernelSpec
from sklearn_cka.indexes._row_data import RowData, check_rows_of, without_zero_weights

# A residual of no more than this many units in the last place of the matrix is rounding: nothing is left of it.
_ROUNDING_ULPS = 128.0


class ResidualEmbedding(GramEmbedding):
    """A centred Gram matrix less its projection on that of a confounder.

    Attributes
    ----------
    explained : float
        Share of the squared norm of the matrix that the confounder's explains; NaN for a matrix of zeros.
    confounder_bandwidth : float or None
        sigma of the confounder's kernel.
    """

    def __init__(self, gram: GramEmbedding, confounder: GramEmbedding, *, nearest_psd: bool) -> None:
        super().__init__(gram.n_samples, weights=gram.weights, debiased=gram.debiased, bandwidth=gram.bandwidth)
        K, C = gram.gram, confounder.gram
        xp = _arrays.namespace(K)
        square, square_c = _linalg.sum_of_squares(K), _linalg.sum_of_squares(C)
        alpha = _linalg.inner(K, C) / square_c if square_c > 0.0 else 0.0
        residual = K - xp.astype(C * alpha, K.dtype) if alpha else K
        if _linalg.sum_of_squares(residual) <= (_ROUNDING_ULPS * _arrays.eps(K)) ** 2 * square:
            residual = xp.zeros_like(residual)
        elif nearest_psd:
            residual = _nearest_psd(residual)
        self.__dict__["gram"] = residual
        self.explained = alpha**2 * square_c / square if square > 0.0 else math.nan
        self.confounder_bandwidth = confounder.bandwidth


def _nearest_psd(K: Array) -> Array:
    """Return the nearest positive semi-definite matrix in Frobenius norm: negative eigenvalues set to zero."""
    xp = _arrays.namespace(K)
    values, vectors = xp.linalg.eigh(K)
    return (vectors * xp.where(values > 0.0, values, xp.zeros_like(values))[None, :]) @ xp.matrix_transpose(vectors)


class ConfounderMixin(KernelIndex):
    """The confounder of an index on Gram matrices: a parameter, or an array that comes with the rows."""

    confound: Array | None
    confound_kernel: Any
    nearest_psd: bool
    debiased: bool
    bandwidth_confound_: float | None

    def _without_own_confounder(self, gram: GramEmbedding, X: Array) -> GramEmbedding:
        if self.confound is None:
            return gram
        return ResidualEmbedding(gram, self._own_confounder(X, gram.weights), nearest_psd=self.nearest_psd)

    def _own_confounder(self, X: Array, weights: Array | None) -> GramEmbedding:
        """Return the Gram matrix of the parameter `confound`, made once for all layers of a table."""
        made_for = (self._confound_spec, self.debiased, _arrays.namespace(X), _arrays.device(X))
        kept = self.__dict__.get("_confounder")
        if weights is None and kept is not None and kept[0] is self.confound and kept[1] == made_for:
            return kept[2]
        made = self._embed_side(self._check_confound(self.confound, X), self._confound_spec, weights)
        if weights is None:
            self._confounder = (self.confound, made_for, made)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_confounder", None)
        return state

    @property
    def _confound_spec(self) -> KernelSpec:
        if isinstance(self.confound_kernel, str) and self.confound_kernel == "same":
            return self._specs()[0]
        return self._spec(self.confound_kernel, None)

    def _check_data(self, X: Array, y: Array, rows: Any) -> tuple[Array, Array, Any]:
        rows = RowData() if rows is None else rows
        X_checked, y_checked, weights = super()._check_data(X, y, rows.sample_weight)
        confound = self.confound if rows.extra is None else rows.extra
        if confound is None:
            return X_checked, y_checked, RowData(weights)
        _validation.check_row_labels(_validation.row_labels(X), _validation.row_labels(confound), "X", "confound")
        return X_checked, y_checked, RowData(weights, self._check_confound(confound, X_checked, rows.sample_weight))

    def _check_confound(self, confound: Any, X: Array, sample_weight: Array | None = None) -> Array:
        """Return the confounder of the rows of `X`, those of weight zero left out if there are weights."""
        Z = _arrays.like(self._check_side(confound, "confound", self._confound_spec, column=True), X)
        kept = without_zero_weights(Z, sample_weight)
        if kept is not Z and self._confound_spec.kernel == "precomputed":
            raise ValueError('sample_weight must be positive for every row with kernel="precomputed".')
        check_rows_of(kept, X, "confound")
        return kept

    def _embed_pair(self, X: Array, y: Array, rows: Any) -> tuple[GramEmbedding, GramEmbedding]:
        return self._residuals(X, y, rows, (None, None, None))

    def _embed_fitted(self, X: Array, y: Array, rows: Any) -> tuple[GramEmbedding, GramEmbedding]:
        learned = (self.bandwidth_, self.bandwidth_y_, self.bandwidth_confound_)
        return self._residuals(X, y, rows, tuple(None if s is None or math.isnan(s) else s for s in learned))

    def _residuals(
        self, X: Array, y: Array, rows: RowData, sigmas: tuple[float | None, ...]
    ) -> tuple[GramEmbedding, GramEmbedding]:
        spec_x, spec_y = self._specs()
        a = self._embed_side(X, spec_x, rows.sample_weight, sigmas[0])
        b = self._embed_side(y, spec_y, rows.sample_weight, sigmas[1])
        if rows.extra is None:
            return a, b
        c = self._embed_side(rows.extra, self._confound_spec, rows.sample_weight, sigmas[2])
        return (
            ResidualEmbedding(a, c, nearest_psd=self.nearest_psd),
            ResidualEmbedding(b, c, nearest_psd=self.nearest_psd),
        )
