"""What the indexes of the spectral family learn: an affine map of one side into the aligned space.

Maps are kept as two thin factors and a multiple of the identity: between wide representations the whole matrix would
be far larger than the data.
"""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_cka import _arrays, _linalg
from sklearn_cka._arrays import Array


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A map learned by fit, ``x -> (x - mean) (left right' + identity I)``, with units kept apart as powers of two.

    Attributes
    ----------
    mean : array of shape (n_features,)
        Column means of the training rows in float64.
    exponent : int
        Binary exponent of the units in which the factors take the rows.
    left : array of shape (n_features, n_components) or None
        First factor.
    right : array of shape (n_features_out, n_components) or None
        Second factor; None, with `left` given, for the identity.
    identity : float
        Multiple of the identity that is added.
    exponent_out : int
        Binary exponent of the units in which the factors give the result.
    """

    mean: Array
    exponent: int
    left: Array = None
    right: Array = None
    identity: float = 0.0
    exponent_out: int = 0

    @property
    def n_features_out(self) -> int:
        """Number of columns of the result."""
        if self.right is not None:
            return int(self.right.shape[0])
        return int(self.mean.shape[0] if self.left is None else self.left.shape[1])

    def shift(self, X: Array) -> Array:
        """Return the rows less the mean, in units of ``2**exponent`` and in the precision of the map."""
        xp = _arrays.namespace(X)
        dtype = X.dtype if self.left is None else self.left.dtype
        rows = xp.astype(X, xp.float64) - self.mean[None, :]
        return xp.astype(_linalg.scale_by_power_of_two(rows, -self.exponent), dtype, copy=False)

    def image(self, X: Array) -> Array:
        """Return the image of the rows of `X` in units of ``2**exponent_out``."""
        rows = self.shift(X)
        if self.left is None:
            return rows if self.identity == 1.0 else rows * self.identity
        image = rows @ self.left
        if self.right is not None:
            image = image @ _arrays.namespace(X).matrix_transpose(self.right)
        return image + rows * self.identity if self.identity else image

    def apply(self, X: Array) -> Array:
        """Return the image of the rows of `X`, in the precision of `X`."""
        xp = _arrays.namespace(X)
        return xp.astype(_linalg.scale_by_power_of_two(self.image(X), self.exponent_out), X.dtype, copy=False)

    def matrix(self) -> Array:
        """Return the whole map as a matrix of shape (n_features, n_features_out), in the units of the data."""
        xp = _arrays.namespace(self.mean)
        if self.left is None:
            product = self.identity * xp.eye(self.mean.shape[0], dtype=xp.float64, device=_arrays.device(self.mean))
        else:
            product = self.left if self.right is None else self.left @ xp.matrix_transpose(self.right)
            if self.identity:
                product = product + self.identity * xp.eye(
                    product.shape[0], dtype=product.dtype, device=_arrays.device(product)
                )
        return _linalg.scale_by_power_of_two(product, self.exponent_out - self.exponent)
