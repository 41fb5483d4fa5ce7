"""The comparison with other packages: it runs without them, names them, and measures the right numbers."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.peers import measure
from benchmarks.peers.__main__ import compare
from benchmarks.peers.adapters import OURS, PEERS, Peer, absent
from benchmarks.peers.report import row_lines, version_lines
from benchmarks.peers.workloads import REFERENCES, Workload, workloads

# What each documents to compute by the same formula as the reference of the task.
SAME_NUMBER = [
    ("numpy", "linear table"),
    ("numpy", "linear pair"),
    ("ckatorch", "linear table"),
    ("ckatorch", "debiased table"),
    ("rsatoolbox", "linear table"),
    ("repsim", "linear table"),
    ("dcor", "distance correlation"),
    ("cca-zoo", "cca table"),
]


def tiny(task, n_layers=3):
    params = {"bandwidth": 0.4} if task == "rbf table" else {}
    n_layers = n_layers if task.endswith("table") else 2
    return Workload("tiny", "tiny", task, 60, (6,) * n_layers, 1.0, params, "float64")


def test_adapters_are_read_without_importing_any_peer():
    names = [found.module for found in PEERS if found.module not in ("numpy", "sklearn")]
    code = f"import sys, benchmarks.peers.adapters; print([n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_peer_of_the_field_has_an_adapter():
    expected = "torch-cka ckatorch pytorch-cka cka-pytorch netrep rsatoolbox repsim hyppo dcor cca-zoo scikit-learn"
    assert set(expected.split()) <= {found.name for found in PEERS}


def test_absent_peers_are_reported_by_name(monkeypatch):
    missing = Peer("no-such-peer", "no_such_peer_module", "nothing", {"linear pair": lambda layers: 0.0})
    monkeypatch.setattr("benchmarks.peers.adapters.PEERS", [missing])
    assert [found.name for found in absent()] == ["no-such-peer"]
    assert version_lines({"versions": {missing.name: missing.version}}) == ["no-such-peer not installed here"]


@pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
@pytest.mark.parametrize("task", sorted(set(REFERENCES) - {"stream"}))
def test_ours_agrees_with_the_reference(task):
    work = tiny(task)
    layers = work.layers()
    value, factor = measure.run(OURS, work, layers)
    assert factor == 1
    np.testing.assert_allclose(value, work.reference(layers), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "task"), SAME_NUMBER)
@pytest.mark.filterwarnings("default")
def test_a_peer_that_computes_the_same_number_agrees(name, task):
    found = next(found for found in PEERS if found.name == name)
    if not found.is_installed:
        pytest.skip(f"{name} is not installed")
    work = tiny(task)
    layers = work.layers()
    value, _ = measure.run(found, work, layers)
    value, reference = np.asarray(value), work.reference(layers)
    known = ~np.isnan(value)
    np.testing.assert_allclose(value[known], reference[known], rtol=0, atol=1e-6)


def test_a_loop_on_some_of_the_pairs_says_by_what_factor_all_take_longer():
    numpy = next(found for found in PEERS if found.name == "numpy")
    job = measure.PairLoop(lambda X, Y: numpy.jobs["linear pair"]([X, Y]))
    loop = Peer("loop", "numpy", "linear CKA", {"linear table": job})
    work = tiny("linear table", n_layers=4)
    value, factor = measure.run(loop, work, work.layers(), n_pairs=2)
    assert factor == 3
    assert np.count_nonzero(~np.isnan(value)) == 2


def test_one_row_is_measured_from_end_to_end():
    report = compare(["small pair"], quick=True, rounds=1)
    row = report["rows"][0]
    ours = row["results"]["sklearn_cka"]
    assert ours["error"] < 1e-10
    assert ours["seconds"] > 0
    assert any(line.strip().startswith("sklearn_cka") for line in row_lines(row))
    assert set(report["absent"]) == {found.name for found in absent()}


def test_an_unknown_row_is_refused_by_name():
    with pytest.raises(ValueError, match="no such row"):
        compare(["no such row"])


def test_quick_rows_are_smaller():
    for name, row in workloads().items():
        assert workloads(quick=True)[name].n_samples <= row.n_samples
