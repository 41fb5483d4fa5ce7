"""The command that extracts layers: from a factory, a checkpoint and a file of rows to a file that compare reads."""

import argparse
import sys

import numpy as np
import pytest

from sklearn_cka import Layers, _cli_extract
from sklearn_cka.cli import main

torch = pytest.importorskip("torch", reason="torch is not installed")

FACTORY = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

class Two(nn.Module):
    def forward(self, a, b):
        return a - b

def text():
    return "not a model"

def broken():
    raise RuntimeError("no weights")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "factory_of_tests.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "factory_of_tests", raising=False)
    np.save("x.npy", np.random.default_rng(0).standard_normal((11, 4)))
    return tmp_path


def run(*argv):
    parser = argparse.ArgumentParser()
    _cli_extract.add_parser(parser.add_subparsers())
    args = parser.parse_args(["extract", *argv, "--quiet"])
    args.run(args)


def test_the_program_extracts_and_compares(folder, capsys):
    assert main(["extract", "factory_of_tests:build", "x.npy", "--out", "acts", "--quiet"]) == 0
    assert main(["compare", "acts", "--debiased", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "1.000"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["factory_of_tests:build", "wide.npy"], "fails on the rows of 'wide.npy'"),
        (["factory_of_tests:broken", "x.npy"], "factory_of_tests:broken raised RuntimeError: no weights"),
        (["factory_of_tests:nothing", "x.npy"], "has no function 'nothing'"),
        (["no_module:build", "x.npy"], "No module named 'no_module'"),
        (["factory_of_tests:text", "x.npy"], "returned str, not a torch module"),
        (["factory_of_tests:build", "none.npy"], "No such file: 'none.npy'"),
        (["factory_of_tests:build", "junk.pt"], "'junk.pt' is no file of torch"),
        (["factory_of_tests:build", "x.npy", "--checkpoint", "junk.pt"], "'junk.pt' is no file of torch"),
        (["factory_of_tests:build", "x.npy", "--layers", "7"], "Unknown layer '7'"),
        (["factory_of_tests:build", "x.npy", "--device", "nowhere"], "has no device 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_ends_in_one_line(folder, capsys, argv, message):
    np.save("wide.npy", np.zeros((3, 5)))
    (folder / "junk.pt").write_bytes(b"junk of no kind")
    assert main(["extract", *argv, "--out", "acts.npz", "--quiet"]) == 1
    assert not (folder / "acts.npz").exists()
    captured = capsys.readouterr()
    assert captured.err.startswith("sklearn-cka: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_layers_of_a_checkpoint_are_written(folder, capsys):
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    torch.save({"state_dict": {f"module.{name}": value for name, value in net.state_dict().items()}}, "net.th")
    run("factory_of_tests:build", "x.npy", "--checkpoint", "net.th", "--out", "acts.npz", "--batch-size", "4")
    layers = Layers.load("acts.npz")
    assert layers.names == ["0", "1", "2"]
    x = torch.from_numpy(np.load("x.npy")).float()
    np.testing.assert_allclose(layers["2"], net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert "Layers(3 layers, 11 rows)" in capsys.readouterr().out


def test_files_of_rows_and_options(folder):
    x = np.load("x.npy")
    np.savez("one.npz", x=x)
    torch.save(torch.from_numpy(x).float(), "x.pt")
    for data, out in [("x.npy", "a"), ("one.npz", "b.npz"), ("x.pt", "c.safetensors")]:
        run("factory_of_tests:build", data, "--out", out, "--layers", "0", "--layers", "2", "--dtype", "float16")
        layers = Layers.load(out)
        assert layers.names == ["0", "2"]
        assert layers["0"].dtype == np.float16
    np.savez("two.npz", a=x, b=x[:, ::-1])
    run("factory_of_tests:Two", "two.npz", "--out", "two")
    np.testing.assert_allclose(Layers.load("two")["output"], x - x[:, ::-1])


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["factory_of_tests:text", "x.npy"], ValueError, "returned str, not a torch module"),
        (["factory_of_tests:nothing", "x.npy"], ValueError, "has no function 'nothing'"),
        (["no_such_module_here:build", "x.npy"], ImportError, "no_such_module_here"),
        (["factory_of_tests:build", "y.npy"], FileNotFoundError, "No such file: 'y.npy'"),
        (["factory_of_tests:build", "factory_of_tests.py"], ValueError, "Rows are read from .npy"),
        (["factory_of_tests:build", "x.npy", "--checkpoint", "y.th"], FileNotFoundError, "No such file: 'y.th'"),
        (["factory_of_tests:build", "x.npy", "--checkpoint", "x.npy"], ValueError, "cannot be read as plain tensors"),
        (["factory_of_tests:build", "x.npy", "--checkpoint", "bad.th"], ValueError, "do not fit the model"),
        (["factory_of_tests:build", "x.npy", "--layers", "9"], ValueError, "Unknown layer '9'"),
    ],
)
def test_what_cannot_be_extracted_is_refused(folder, argv, error, message):
    torch.save({"weight": torch.ones(2)}, "bad.th")
    with pytest.raises(error, match=message):
        run(*argv, "--out", "acts")


def test_a_factory_needs_a_module_and_a_function(folder, capsys):
    with pytest.raises(SystemExit):
        run("build", "x.npy", "--out", "acts")
    assert "must be MODULE:FUNCTION, got 'build'" in capsys.readouterr().err
