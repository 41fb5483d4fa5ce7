"""The device benchmark runs where there is no device, and interpolates the crossing of the two forms."""

import json
import math

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from benchmarks.gpu import __main__ as gpu


def test_it_runs_on_the_cpu_and_writes_its_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        gpu, "measure_crossover", lambda *a: [{"n": 8, "gram / feature": 0.5}, {"n": 32, "gram / feature": 2.0}]
    )
    file = tmp_path / "figures.json"
    gpu.main(["--device", "cpu", "--quick", "--repeats", "1", "--json", str(file)])
    printed = capsys.readouterr().out
    found = json.loads(file.read_text())
    assert [entry["table"].split(", ")[-1] for entry in found["tables"]] == ["linear CKA", "debiased", "RBF CKA 0.4"]
    assert all(entry["error"] < 1e-5 and entry["share"] > 0 for entry in found["tables"])
    assert "The forms cross at 16 rows" in printed


def test_both_forms_are_timed_and_nothing_crosses_outside():
    found = gpu.measure_crossover(gpu.Device("torch", "cpu"), 2, 4, [8, 16], 1)
    assert [entry["n"] for entry in found] == [8, 16]
    assert all(entry["gram"] > 0 and entry["feature"] > 0 for entry in found)
    assert math.isnan(gpu.crossing([{"n": 8, "gram / feature": 2.0}, {"n": 16, "gram / feature": 3.0}]))
    with pytest.raises(ValueError, match="library must be 'torch' or 'cupy', got 'numpy'"):
        gpu.Device("numpy", "cpu")
