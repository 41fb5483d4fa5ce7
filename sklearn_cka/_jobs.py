"""Many calls of one function, in threads or wherever joblib is told to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from sklearn_cka import _threads


def run(
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    done: Callable[[], Any] = lambda: None,
) -> list[Any]:
    """Return ``function(*arguments)`` of every call, in order; `done` is told when one more has ended.

    Threads unless a :func:`joblib.parallel_config` context names another backend. While there are several, each of
    them gets its share of the threads of the linear algebra library, so that no more run than there are cores.
    """
    calls = list(calls)
    n_workers = min(effective_n_jobs(n_jobs), len(calls))
    if n_workers < 2:
        return list(_told((function(*arguments) for arguments in calls), done))
    share = max(1, _threads.cores() // n_workers)
    jobs = (delayed(_work)(function, arguments, share) for arguments in calls)
    with threadpool_limits(share):
        return list(_told(_parallel(n_jobs)(jobs), done))


def _parallel(n_jobs: int | None) -> Parallel:
    try:
        return Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    except ValueError:  # backends that cannot give results as they come
        return Parallel(n_jobs=n_jobs, prefer="threads")


def _told(results: Iterable[Any], done: Callable[[], Any]) -> Iterator[Any]:
    for result in results:
        done()
        yield result


def _work(function: Callable[..., Any], arguments: tuple[Any, ...], share: int) -> Any:
    with _threads.limit(share):
        return function(*arguments)
