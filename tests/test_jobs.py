"""Jobs run where joblib says, in order, with a share of the threads each, and their results do not depend on it."""

import os
import threading

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sklearn_cka import _jobs, _threads, compare_layers, permutation_test

rng = np.random.default_rng


def threads_of_libraries():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def where(number):
    return number, os.getpid(), threading.get_ident(), _threads.available(), threads_of_libraries()


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_results_are_in_order_and_each_is_told(n_jobs):
    told = []
    assert _jobs.run(divmod, ((i, 3) for i in range(7)), n_jobs, lambda: told.append(1)) == [
        divmod(i, 3) for i in range(7)
    ]
    assert len(told) == 7
    assert _jobs.run(divmod, [], n_jobs) == []


def test_workers_share_the_threads_of_this_process(monkeypatch):
    monkeypatch.setattr(_threads._sklearn, "n_threads", lambda: 6)
    results = _jobs.run(where, ((i,) for i in range(6)), 3)
    assert [result[0] for result in results] == list(range(6))
    assert {result[1] for result in results} == {os.getpid()}
    assert {result[3] for result in results} == {2}
    assert all(libraries <= {1, 2} for *_, libraries in results)


def test_libraries_have_their_threads_back_after():
    before = threads_of_libraries()
    _jobs.run(where, ((i,) for i in range(4)), 2)
    with pytest.raises(ZeroDivisionError):
        _jobs.run(divmod, [(1, 0), (1, 0)], 2)
    assert threads_of_libraries() == before


def test_backends_that_cannot_give_results_as_they_come(monkeypatch):
    def no_generator(**options):
        if "return_as" in options:
            raise ValueError("this backend does not support return_as='generator'")
        return made(**options)

    made = _jobs.Parallel
    monkeypatch.setattr(_jobs, "Parallel", no_generator)
    assert _jobs.run(divmod, ((i, 3) for i in range(5)), 2) == [divmod(i, 3) for i in range(5)]


def test_processes_where_they_are_asked_for():
    with joblib.parallel_config(backend="loky", n_jobs=2):
        results = _jobs.run(where, ((i,) for i in range(4)), None)
    assert os.getpid() not in {result[1] for result in results}


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
@pytest.mark.parametrize("index", ["cka", "rsa", "soft_matching", "mutual_knn", "svcca", "linear_predictivity"])
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_tables_do_not_depend_on_where_they_are_computed(index, backend):
    layers = [rng(i).standard_normal((30, 4 + i)) for i in range(3)]
    alone = compare_layers(layers, layers[:2], index=index, verbose=0).values
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_allclose(compare_layers(layers, layers[:2], index=index, verbose=0).values, alone, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn_cka.SimilarityWarning")
def test_permutations_in_processes():
    X, y = rng(0).standard_normal((2, 25, 3))
    alone = permutation_test("mutual_knn", X, y, n_resamples=20, random_state=0)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert permutation_test("mutual_knn", X, y, n_resamples=20, random_state=0).pvalue == alone.pvalue
