"""Optimal assignment and optimal transport between two sets of units, on the host, by SciPy.

A transport plan between p and q units is a non-negative p x q matrix whose rows sum to 1/p and whose columns sum to
1/q. For p = q an optimal one is a permutation over p (Birkhoff), found by linear assignment. Otherwise one comes from
an assignment of copies, lcm(p, q) on each side, or where that is more work from the linear program, whose vertices are
whole numbers over lcm(p, q).

References: Crouse (2016), "On implementing 2D rectangular assignment algorithms", IEEE Transactions on Aerospace and
Electronic Systems 52; Peyré & Cuturi (2019), "Computational optimal transport", sections 2.3 and 3.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog

# Assignment of L copies takes about as long as the linear program of p q variables when L**3 is this times p q.
_BREAK_EVEN = 2e5
# More copies than this on a side take too much memory.
_MOST_COPIES = 4_096
# Programs of more variables than this are solved by an interior point method, which is faster then.
_INTERIOR_POINT = 20_000
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# How far a vertex may be from whole numbers.
_WHOLE = 1e-6


def assign(gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match each unit of the smaller side with another unit of the other, for the largest total gain.

    Parameters
    ----------
    gain : ndarray of shape (p, q)
        What matching two units adds.

    Returns
    -------
    rows, columns : ndarray of shape (min(p, q),)
        The matched units; `rows` ascend.
    """
    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns


def transport_plan(gain: np.ndarray) -> np.ndarray:
    """Return a transport plan of the largest total gain between units of equal weight.

    Parameters
    ----------
    gain : ndarray of shape (p, q)
        Gain per weight moved.

    Returns
    -------
    plan : ndarray of shape (p, q)
        Non-negative; rows sum to 1/p and columns to 1/q.

    Raises
    ------
    RuntimeError
        If the linear program is not solved.
    """
    p, q = gain.shape
    copies = math.lcm(p, q)
    if copies == max(p, q) or (copies <= _MOST_COPIES and copies**3 <= _BREAK_EVEN * p * q):
        return _assign_copies(gain, copies) / copies
    return _solve_program(gain, copies) / copies


def _assign_copies(gain: np.ndarray, copies: int) -> np.ndarray:
    """Return how many of the copies of every two units are matched."""
    p, q = gain.shape
    of_row, of_column = copies // p, copies // q
    rows, columns = assign(np.repeat(np.repeat(gain, of_row, axis=0), of_column, axis=1))
    return np.bincount((rows // of_row) * q + columns // of_column, minlength=p * q).reshape(p, q).astype(np.float64)


def _solve_program(gain: np.ndarray, copies: int) -> np.ndarray:
    """Return the solution of the linear program in which each side holds the number of copies."""
    p, q = gain.shape
    largest = float(np.abs(gain).max()) or 1.0
    sums = sparse.vstack(
        [
            sparse.kron(sparse.eye_array(p), np.ones((1, q))),
            sparse.kron(np.ones((1, p)), sparse.eye_array(q)),
        ]
    ).tocsc()
    result = linprog(  # type: ignore[call-overload]
        -gain.ravel() / largest,
        A_eq=sums,
        b_eq=np.r_[np.full(p, copies / p), np.full(q, copies / q)],
        method="highs-ipm" if p * q > _INTERIOR_POINT else "highs-ds",
        options=_TIGHT,
    )
    if not result.success:
        raise RuntimeError(f"Optimal transport between {p} and {q} units was not solved: {result.message}")
    found = np.maximum(result.x.reshape(p, q), 0.0)
    whole = np.rint(found)
    return whole if float(np.abs(found - whole).max()) <= _WHOLE else found
