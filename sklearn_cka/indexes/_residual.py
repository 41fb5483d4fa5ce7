"""A Gram matrix less what that of a confounder explains of it: the embedding of deconfounded indexes."""

from __future__ import annotations

import math

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array
from sklearn_cka.indexes._gram import GramEmbedding

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
