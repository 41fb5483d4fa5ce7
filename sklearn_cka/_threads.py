"""Threads for what is done entry by entry to large NumPy matrices, where the linear algebra library has none.

NumPy lets other threads run while it computes, so that blocks of rows can go to several. Whoever runs threads of
its own limits those of each to its share, by :func:`limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sklearn_cka import _arrays, _sklearn

# Blocks of fewer numbers in all are done sooner than threads are started.
WORTH_THREADS = 500_000

_limit: ContextVar[int | None] = ContextVar("sklearn_cka_threads", default=None)


@contextmanager
def limit(n: int) -> Iterator[None]:
    """Use at most `n` threads within a ``with`` block of the present thread."""
    token = _limit.set(n)
    try:
        yield
    finally:
        _limit.reset(token)


def cores() -> int:
    """Return how many threads may run at a time for the present thread, those of libraries among them."""
    chosen = _limit.get()
    return _sklearn.n_threads() if chosen is None else chosen


def available() -> int:
    """Return how many threads the present thread may use.

    Half of what scikit-learn's code would: those of the linear algebra library keep cores busy for a while after every
    product, so that on two cores one thread is faster than two.
    """
    chosen = _limit.get()
    return max(1, _sklearn.n_threads() // 2) if chosen is None else chosen


def map_blocks(work: Callable[[slice], Any], blocks: list[slice], matrix: _arrays.Array) -> list[Any]:
    """Return ``work(block)`` for blocks of the rows of a matrix, in order; in threads if it is large and of NumPy."""
    if len(blocks) == 1:
        return [work(blocks[0])]
    is_worth_it = _arrays.is_numpy(matrix) and matrix.size >= WORTH_THREADS
    threads = min(available(), len(blocks)) if is_worth_it else 1
    if threads < 2:
        return [work(block) for block in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, blocks))
