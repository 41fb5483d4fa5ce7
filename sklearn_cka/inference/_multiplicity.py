"""Many tests at once: p-values adjusted over a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_cka._validation import check_option

__all__ = ["adjust_pvalues"]

_METHODS = ("holm", "bonferroni", "fdr_bh", "fdr_by")


def adjust_pvalues(pvalues: Any, method: str = "holm", *, symmetric: bool = False) -> np.ndarray:
    """Adjust p-values for the number of tests.

    Parameters
    ----------
    pvalues : array-like of any shape
        p-values; those that are NaN are no tests and stay NaN.
    method : {"holm", "bonferroni", "fdr_bh", "fdr_by"}, default="holm"
        Holm and Bonferroni bound the probability of any false discovery, Benjamini-Hochberg (for independent or
        positively dependent tests) and Benjamini-Yekutieli (for any) the expected share of false ones.
    symmetric : bool, default=False
        Whether this is a square table that equals its transpose, every pair of which is one test. The diagonal is none
        and becomes NaN.

    Returns
    -------
    adjusted : ndarray of the same shape
        Compare them with the level itself.

    Raises
    ------
    ValueError
        If a p-value is not in [0, 1], the method is unknown, or a symmetric table is not square.

    References
    ----------
    Holm (1979), "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6.
    Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57.

    Examples
    --------
    >>> from sklearn_cka.inference import adjust_pvalues
    >>> adjust_pvalues([0.01, 0.04, 0.03]).round(6)
    array([0.03, 0.06, 0.06])
    >>> adjust_pvalues([0.01, 0.04, 0.03], "fdr_bh").round(6)
    array([0.03, 0.04, 0.04])
    """
    check_option("method", method, _METHODS)
    pvalues = np.asarray(pvalues, dtype=np.float64)
    known = ~np.isnan(pvalues)
    if ((pvalues[known] < 0) | (pvalues[known] > 1)).any():
        raise ValueError("pvalues must lie in [0, 1].")
    if symmetric:
        if pvalues.ndim != 2 or pvalues.shape[0] != pvalues.shape[1]:
            raise ValueError(f"A symmetric table of p-values is square, got shape {pvalues.shape}.")
        known &= np.triu(np.ones(pvalues.shape, dtype=bool), k=1)
    adjusted = np.full(pvalues.shape, np.nan)
    if known.any():
        adjusted[known] = _adjust(pvalues[known], method)
    return np.where(np.isnan(adjusted), adjusted.T, adjusted) if symmetric else adjusted


def _adjust(p: np.ndarray, method: str) -> np.ndarray:
    m = p.shape[0]
    if method == "bonferroni":
        return np.minimum(1.0, m * p)
    if method == "holm":
        order = np.argsort(p, kind="stable")
        steps = np.maximum.accumulate((m - np.arange(m)) * p[order])
        adjusted = np.empty(m)
        adjusted[order] = np.minimum(1.0, steps)
        return adjusted
    from scipy.stats import false_discovery_control

    return false_discovery_control(p, method="bh" if method == "fdr_bh" else "by")
