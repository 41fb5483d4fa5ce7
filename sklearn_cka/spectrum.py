"""What makes up a CKA: its parts by pairs of eigenvectors, effective dimensions, and CKA within classes.

With eigenvalues l_i, l'_j and eigenvectors u_i, v_j of the two centred Gram matrices (Kornblith et al. 2019, eq. 14)

    CKA = sum_ij l_i l'_j <u_i, v_j>^2 / (sqrt(sum_i l_i^2) sqrt(sum_j l'_j^2))

so that CKA is dominated by the leading components of both: by how many is what the parts tell.

Reference: Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML,
section 3, figure 8 and appendix F.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_cka import _arrays, _linalg, _validation
from sklearn_cka._arrays import Array
from sklearn_cka.display import _import_pyplot
from sklearn_cka.indexes._base import BaseIndex
from sklearn_cka.indexes._gram import GramEmbedding
from sklearn_cka.indexes._registry import get_index
from sklearn_cka.indexes.cka import CKA

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CKASpectrum", "SpectrumDisplay", "WithinClassResult", "cka_spectrum", "effective_dimension", "within_class"]


@dataclass(frozen=True, eq=False)
class CKASpectrum:
    """CKA taken apart by pairs of eigenvectors.

    Attributes
    ----------
    similarity : float
        The (biased) CKA, the sum of all `contributions`.
    eigenvalues_x : ndarray of shape (rank_x,)
        Eigenvalues of the centred Gram matrix of X, descending.
    eigenvalues_y : ndarray of shape (rank_y,)
        Those of Y.
    overlaps : ndarray of shape (rank_x, rank_y)
        Squared inner products of the eigenvectors of X and Y.
    """

    similarity: float
    eigenvalues_x: np.ndarray = field(repr=False)
    eigenvalues_y: np.ndarray = field(repr=False)
    overlaps: np.ndarray = field(repr=False)

    @cached_property
    def contributions(self) -> np.ndarray:
        """What every pair of eigenvectors adds to CKA, shape (rank_x, rank_y)."""
        left, right = (values / np.linalg.norm(values) for values in (self.eigenvalues_x, self.eigenvalues_y))
        return left[:, None] * self.overlaps * right[None, :]

    @property
    def cumulative_x(self) -> np.ndarray:
        """Share of CKA that the leading k components of X hold with all of Y, k = 1, ..., rank_x."""
        return np.cumsum(self.contributions.sum(axis=1)) / self.similarity

    @property
    def cumulative_y(self) -> np.ndarray:
        """Share of CKA that the leading k components of Y hold with all of X."""
        return np.cumsum(self.contributions.sum(axis=0)) / self.similarity

    @property
    def cumulative(self) -> np.ndarray:
        """Share of CKA that the leading k components of both hold, k = 1, ..., the smaller rank."""
        return np.diagonal(self.contributions.cumsum(axis=0).cumsum(axis=1)) / self.similarity

    @property
    def effective_dimension_x(self) -> float:
        """Participation ratio of the eigenvalues of X."""
        return float(self.eigenvalues_x.sum() ** 2 / np.sum(self.eigenvalues_x**2))

    @property
    def effective_dimension_y(self) -> float:
        """Participation ratio of the eigenvalues of Y."""
        return float(self.eigenvalues_y.sum() ** 2 / np.sum(self.eigenvalues_y**2))

    @property
    def norms_y(self) -> np.ndarray:
        """``||L u_i||`` for the eigenvectors u_i of K, whose own ``||K u_i||`` is the eigenvalue, shape (rank_x,)."""
        return np.sqrt(self.overlaps @ self.eigenvalues_y**2)

    @property
    def cosines(self) -> np.ndarray:
        """Cosine of the angle between u_i and ``L u_i``: 1 where an eigenvector of K is one of L, shape (rank_x,)."""
        norms = self.norms_y
        return np.divide(self.overlaps @ self.eigenvalues_y, norms, out=np.zeros_like(norms), where=norms > 0)

    def to_frame(self) -> pd.DataFrame:
        """Return one line a component of X.

        Returns
        -------
        DataFrame
            Columns ``component`` (from 1), ``eigenvalue`` (``||K u||``), ``norm_y`` (``||L u||``), ``cosine`` (of u and
            ``L u``), ``contribution`` (to CKA) and ``cumulative_share``.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "component": np.arange(1, len(self.eigenvalues_x) + 1),
                "eigenvalue": self.eigenvalues_x,
                "norm_y": self.norms_y,
                "cosine": self.cosines,
                "contribution": self.contributions.sum(axis=1),
                "cumulative_share": self.cumulative_x,
            }
        )

    def plot(self, axes: Any = None, *, n_components: int = 100) -> SpectrumDisplay:
        """Draw the spectrum in two panels, see :class:`SpectrumDisplay`.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        n_components : int, default=100
            Number of leading components shown.

        Returns
        -------
        SpectrumDisplay
            The display, with the figure as ``figure_``.
        """
        return SpectrumDisplay(self).plot(axes, n_components=n_components)


class SpectrumDisplay:
    """Two panels: what X's components are to Y, and how many components hold the CKA.

    The left panel is figure 8 of Kornblith et al. (2019): one dot for every eigenvector u of K, at ``||K u||`` and
    ``||L u||``, shaded by the cosine of u and ``L u``. The right one shows the share of CKA that the leading components
    hold.

    Parameters
    ----------
    spectrum : CKASpectrum
        What to draw.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : tuple of two matplotlib Axes
        Its panels.
    """

    def __init__(self, spectrum: CKASpectrum) -> None:
        self.spectrum = spectrum

    def plot(self, axes: Any = None, *, n_components: int = 100) -> SpectrumDisplay:
        """Draw.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            Where to draw; a new figure if None.
        n_components : int, default=100
            Number of leading components shown.

        Returns
        -------
        SpectrumDisplay
            The display itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are not two axes.
        """
        plt = _import_pyplot()
        if axes is None:
            self.figure_, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
        if len(axes) != 2:
            raise ValueError(f"axes must be two panels, got {len(axes)}.")
        left, right = axes
        self.figure_, self.axes_ = left.figure, (left, right)
        s = self.spectrum
        shown = slice(0, n_components)
        total_x, total_y = s.eigenvalues_x.sum(), s.eigenvalues_y.sum()
        dots = left.scatter(
            s.eigenvalues_x[shown] / total_x,
            s.norms_y[shown] / total_y,
            c=s.cosines[shown],
            vmin=0.0,
            vmax=1.0,
            cmap="viridis",
            edgecolors="black",
            linewidths=0.4,
        )
        left.set(xscale="log", yscale="log", xlabel="‖K u‖ / tr K", ylabel="‖L u‖ / tr L")
        self.figure_.colorbar(dots, ax=left, label="cosine of u and L u")
        for values, style, label in [
            (s.cumulative_x, "-", "of X"),
            (s.cumulative_y, "--", "of Y"),
            (s.cumulative, ":", "of both"),
        ]:
            values = values[shown]
            right.plot(np.arange(1, len(values) + 1), values, style, color="black", label=label)
        right.set(xlabel="leading components", ylabel="share of CKA", ylim=(0.0, 1.05))
        if min(len(s.eigenvalues_x), n_components) > 20:
            right.set_xscale("log")
        right.set_title(f"CKA {s.similarity:.3f}")
        right.legend(loc="lower right")
        return self


def cka_spectrum(X: Array, Y: Array, **params: Any) -> CKASpectrum:
    """Take the CKA of two representations apart by pairs of eigenvectors of their Gram matrices.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows.
    **params
        Parameters of :class:`~sklearn_cka.CKA`, such as `kernel` and `bandwidth`; `debiased` has no such parts.

    Returns
    -------
    spectrum : CKASpectrum
        With `contributions`, `cumulative` shares, effective dimensions, the quantities of the paper's figure 8, and
        `plot`.

    Raises
    ------
    ValueError
        If the data break the input contract, a representation is constant over the rows, or ``debiased=True``.

    References
    ----------
    Kornblith, Norouzi, Lee & Hinton (2019), "Similarity of neural network representations revisited", ICML, eq. 14.

    Examples
    --------
    >>> from sklearn_cka import cka_spectrum
    >>> from sklearn_cka.datasets import make_known_pair
    >>> pair = make_known_pair(50, spectrum_x=[3, 1], spectrum_y=[2, 1], correlations=[1, 0.5], random_state=0)
    >>> spectrum = cka_spectrum(pair.X, pair.Y)
    >>> spectrum.contributions.round(4)
    array([[0.9641, 0.    ],
           [0.    , 0.0067]])
    >>> round(spectrum.similarity, 4), round(float(spectrum.cumulative[0]), 4)
    (0.9708, 0.9931)
    """
    index = CKA(**params)
    if index.debiased:
        raise ValueError("debiased=True has no parts by eigenvectors: the spectrum is that of the biased CKA.")
    index._check_params()
    X, Y, _ = index._check_data(X, Y, None)
    a, b = index._embed_pair(X, Y, None)
    (l_x, U), (l_y, V) = (_eigenpairs(side, name) for side, name in ((a, "X"), (b, "Y")))
    U, V = _arrays.same_precision(U, V)
    M = _arrays.to_numpy(_arrays.namespace(U).matrix_transpose(U) @ V).astype(np.float64)
    overlaps = M**2
    similarity = float(l_x @ overlaps @ l_y / np.linalg.norm(l_x) / np.linalg.norm(l_y))
    size_x, size_y = (
        _linalg.scale_by_power_of_two(values * side.scale, side.exponent) for values, side in ((l_x, a), (l_y, b))
    )
    return CKASpectrum(similarity, size_x, size_y, overlaps)


def _eigenpairs(side: GramEmbedding, name: str) -> tuple[np.ndarray, Array]:
    """Return the eigenvalues of a centred Gram matrix that are not rounding, descending, and the eigenvectors."""
    if side.features is not None:
        U, s, _ = _linalg.thin_svd(side.features, right=False)
        values = _arrays.to_numpy(s).astype(np.float64) ** 2
    else:
        xp = _arrays.namespace(side.gram)
        ascending, vectors = xp.linalg.eigh(side.gram)
        found = _arrays.to_numpy(ascending).astype(np.float64)
        order = np.argsort(-np.abs(found), kind="stable")
        kept = order[np.abs(found[order]) > np.abs(found).max() * side.n_samples * side.eps]
        values, U = found[kept], xp.take(vectors, _arrays.like(kept, vectors), axis=1)
    if values.shape[0] == 0:
        raise ValueError(f"{name} is constant over the rows, so that CKA and its parts are undefined.")
    return values, U


def effective_dimension(X: Array) -> float:
    """Return the participation ratio of the principal components of a representation.

    ``(sum l_i)^2 / sum l_i^2`` over the eigenvalues l_i of the covariance: p for p directions of equal variance, 1 if
    one holds all of it.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The representation.

    Returns
    -------
    dimension : float
        Between 1 and the smaller of n_samples - 1 and n_features; NaN for a constant representation.

    Raises
    ------
    ValueError
        If the data break the input contract.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import effective_dimension
    >>> round(effective_dimension(np.eye(5)), 6)
    4.0
    """
    X = _validation.check_matrix(X, "X", min_samples=2, required_by="effective_dimension")
    centered = _linalg.center(X)
    if centered.is_constant:
        return math.nan
    Z = centered.values
    xp = _arrays.namespace(Z)
    Zt = xp.matrix_transpose(Z)
    product = Z @ Zt if Z.shape[0] < Z.shape[1] else Zt @ Z
    return _linalg.sum_of_squares(Z) ** 2 / _linalg.sum_of_squares(product)


@dataclass(frozen=True, eq=False)
class WithinClassResult:
    """Similarity within every class.

    Attributes
    ----------
    statistic : float
        Mean over classes, those left out whose similarity is undefined.
    classes : ndarray of shape (n_classes,)
        The classes.
    similarities : ndarray of shape (n_classes,)
        The similarity on the rows of each.
    n_samples : ndarray of shape (n_classes,)
        Number of rows of each.
    """

    statistic: float
    classes: np.ndarray
    similarities: np.ndarray
    n_samples: np.ndarray


def within_class(X: Array, Y: Array, labels: Any, index: str | BaseIndex = "cka", **params: Any) -> WithinClassResult:
    """Compute a similarity on the rows of every class alone, and average.

    Two representations that separate the classes are similar for that alone; what they share beyond it is what is left
    within classes (Kornblith et al. 2019, appendix F.4).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features_x)
        First representation.
    Y : array-like of shape (n_samples, n_features_y) or (n_samples,)
        Second representation of the same rows.
    labels : array-like of shape (n_samples,)
        Class of every row.
    index : str or BaseIndex, default="cka"
        A name of :func:`~sklearn_cka.index_names` or an index. Classes have few rows: a debiased index is advised.
    **params
        Parameters of the index.

    Returns
    -------
    result : WithinClassResult
        With `statistic`, `classes`, `similarities` and `n_samples`.

    Raises
    ------
    ValueError
        If the data break the input contract or a class has too few rows for the index.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_cka import cka, within_class
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1, 2], 50)
    >>> X, Y = (5 * np.eye(3)[labels] + rng.standard_normal((150, 3)) for _ in range(2))
    >>> round(cka(X, Y, debiased=True), 2), round(within_class(X, Y, labels, debiased=True).statistic, 2)
    (0.81, -0.01)
    """
    made = get_index(index, **params)
    made._check_params()
    X, Y, _ = made._check_data(X, Y, None)
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.shape != (X.shape[0],):
        raise ValueError(f"labels has shape {codes.shape}, expected ({X.shape[0]},): one class for every row.")
    counts = np.bincount(codes)
    minimum, required_by = made._required_samples()
    if counts.min() < minimum:
        few = names[counts.argmin()]
        raise ValueError(f"Class {few!r} has {counts.min()} row(s), while {required_by} needs at least {minimum}.")
    values = np.empty(len(names))
    for k in range(len(names)):
        rows = np.flatnonzero(codes == k)
        x, y = (_arrays.namespace(Z).take(Z, _arrays.like(rows, Z), axis=0) for Z in (X, Y))
        values[k] = made.compare(*made._embed_pair(x, y, None))
    statistic = float(np.nanmean(values)) if not np.isnan(values).all() else math.nan
    return WithinClassResult(statistic, names, values, counts)
