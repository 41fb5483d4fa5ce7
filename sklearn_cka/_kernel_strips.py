"""Blocks of a Gram matrix that is too large to hold, each computed when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_cka import _arrays, _bandwidths, _linalg, _radial, _validation, kernels
from sklearn_cka._arrays import Array


class KernelStrips:
    """The Gram matrix of the rows of `X` under a kernel, up to an additive constant, block by block.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Validated rows; labels for ``kernel="delta"``, the Gram matrix for ``kernel="precomputed"``.
    kernel : str or callable
        Canonical name or function of a kernel.
    bandwidth, bandwidth_rule, gamma, params
        As of :func:`~sklearn_cka.kernels.gram_matrix`. Above 5,000 rows the rules look at a subset of rows.
    place : array, default=None
        An array on the device to which the rows of a block are moved; None leaves them where they are.

    Attributes
    ----------
    bandwidth : float or None
        The sigma used.
    scale : float
        Factor between the blocks and the kernel.
    is_constant : bool
        Whether all rows are the same.
    """

    def __init__(
        self,
        X: Array,
        kernel: Any,
        *,
        bandwidth: float = 1.0,
        bandwidth_rule: str = "median",
        gamma: float | None = None,
        params: Mapping[str, Any] | None = None,
        place: Array | None = None,
    ) -> None:
        self.n_samples = int(X.shape[0])
        self._place = place
        self.bandwidth: float | None = None
        self.scale = 1.0
        self.is_constant = False
        self._X, self._kernel, self._gamma, self._params = X, kernel, gamma, params or {}
        self._is_radial = kernels.has_bandwidth(kernel)
        self._is_centered = self._is_radial or kernel in ("linear", "distance")
        if self._is_centered:
            self._centered = _linalg.center(X)
            self._rows = self._centered.unshifted
            self.is_constant = self._centered.is_constant
            exponent = self._centered.exponent
            self.scale = _linalg.power_of_two({"linear": 2 * exponent, "distance": exponent}.get(kernel, 0))
        if self._is_radial:
            self._set_rate(bandwidth, bandwidth_rule)

    @property
    def in_pieces(self) -> bool:
        """Whether rows are moved to a device for every block."""
        return self._place is not None

    @property
    def width(self) -> int:
        """Number of columns of the rows."""
        return 1 if self._X.ndim == 1 else int(self._X.shape[1])

    @property
    def reference(self) -> Array:
        """An array of the library, the device and the precision of the blocks."""
        if self._is_centered:
            return self._moved(self._centered.values[:1, :])
        xp = _arrays.namespace(self._X)
        if xp.isdtype(self._X.dtype, "real floating"):
            return self._moved(self._X[:1, ...])
        return self._moved(xp.zeros((1,), dtype=xp.float64, device=_arrays.device(self._X)))

    def _moved(self, piece: Array) -> Array:
        return piece if self._place is None else _arrays.like(piece, self._place)

    def block(self, rows: slice, columns: slice) -> Array:
        """Return the kernel values of some rows with others, shape (n_rows, n_columns)."""
        if self._kernel == "precomputed":
            return self._moved(self._X[rows, columns])
        if self._kernel == "delta":
            return self._moved(kernels.equal_labels(self._X[rows], self._X[columns]))
        if not self._is_centered:
            return self._evaluate(rows, columns)
        if self._kernel == "linear":
            Z, W = self._both(self._centered.values, rows, columns)
            return Z @ _arrays.namespace(Z).matrix_transpose(W)
        distances = self._distances(rows, columns)
        xp = _arrays.namespace(distances)
        if self._kernel == "distance":
            return -xp.sqrt(distances)
        if self._is_linear:  # exp(-t) is 1 - t: keep the size of t apart
            return self._typical - distances
        return _radial.exponentials(distances, self._rate, -self._rate * self._typical)

    def _evaluate(self, rows: slice, columns: slice) -> Array:
        K = kernels.evaluate(self._kernel, *self._both(self._X, rows, columns), self._gamma, self._params)
        if not _validation.is_finite(K):
            raise ValueError(f"The Gram matrix of kernel {self._kernel!r} contains NaN or infinity.")
        return _validation.check_gram(K, f"The Gram matrix of kernel {self._kernel!r}") if rows == columns else K

    def _distances(self, rows: slice, columns: slice) -> Array:
        """Return squared Euclidean distances, or sums of absolute differences for the Laplacian kernel."""
        Z, W = self._both(self._centered.values, rows, columns)
        if self._kernel == "laplacian":
            return _linalg.manhattan_distances(Z, W)
        source, other = self._both(self._rows, rows, columns)
        if rows == columns:
            return _linalg.squared_distances(Z, source)
        return _linalg.cross_squared_distances(Z, W, source, other)

    def _both(self, X: Array, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Return two sets of rows, once where they are the same."""
        left = self._moved(X[rows, :])
        return left, left if rows == columns else self._moved(X[columns, :])

    def _set_rate(self, bandwidth: float, rule: str) -> None:
        """Find sigma, and the constant near which the values lie."""
        squared = self._kernel == "rbf"
        exponent = self._centered.exponent
        sigma = None
        if self._gamma is not None:
            sigma = _radial.sigma_of(self._gamma, squared)
        elif rule == "none":
            sigma = float(bandwidth)
        if self.is_constant:
            self.bandwidth = math.nan if sigma is None else sigma
            self._rate, self._typical, self._is_linear = 0.0, 0.0, True
            return
        if sigma is None:
            typical = self._typical_distance(rule, squared)
            log2_sigma = math.log2(bandwidth) + math.log2(typical)
            self.bandwidth = float(bandwidth) * typical * _linalg.power_of_two(exponent)
            self._typical = typical**2 if squared else typical
        else:
            self.bandwidth = sigma
            log2_sigma = math.log2(sigma) - exponent
            squares = _linalg.row_squares(self._centered.values)
            self._typical = 2.0 * _arrays.total(squares) / self.n_samples if squared else 0.0
        self._rate = _radial.rate_of(log2_sigma, squared, self._centered.values)
        self._is_linear = self._rate < _radial.LINEAR_RATE[_arrays.dtype_name(self._centered.values)]
        if self._is_linear:
            self.scale = self._rate

    def _typical_distance(self, rule: str, squared: bool) -> float:
        Z, rows = self._centered.values, self._rows
        sample = _bandwidths.subset_rows(self.n_samples)
        if sample is not None:
            xp = _arrays.namespace(Z)
            chosen = xp.asarray(sample, device=_arrays.device(Z))
            Z, rows = xp.take(Z, chosen, axis=0), xp.take(rows, chosen, axis=0)
        own = _linalg.squared_distances(Z, rows) if squared else _linalg.manhattan_distances(Z, Z)
        typical = _bandwidths.typical_distance(own, rule, squared=squared)
        if typical == 0.0:
            raise ValueError(
                "Hardly any rows of a layer differ, so that a subset of them has no typical distance to take the"
                ' bandwidth from; give gamma, or sigma as bandwidth with bandwidth_rule="none".'
            )
        return typical
