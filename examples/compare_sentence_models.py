"""Compare the layers of two transformers on the same sentences.

A model is a folder or a name that the transformers library loads, or an ``.onnx`` file with its ``tokenizer.json``
beside it, whose layers are values of the graph::

    python examples/compare_sentence_models.py sentence-transformers/all-MiniLM-L6-v2 tagger.onnx sentences.txt \
        --layers-b "*embeddings/LayerNorm/LayerNormalization_output_0" \
                   "*output_layer_norm/LayerNormalization_output_0"

Every sentence becomes the mean over its real tokens. Needs torch and transformers; onnx, onnxruntime and tokenizers
for ``.onnx``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_cka import SimilarityTable, compare_models

MAX_TOKENS = 128


def load_model(name: str) -> tuple[Any, Callable[[list[str]], Any]]:
    """Return a model and the function that makes its inputs of sentences."""
    if name.endswith(".onnx"):
        import onnx

        return onnx.load(name), _onnx_tokenizer(Path(name).with_name("tokenizer.json"))
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    return AutoModel.from_pretrained(name), lambda sentences: tokenizer(
        sentences, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
    )


def _onnx_tokenizer(path: Path) -> Callable[[list[str]], dict[str, np.ndarray]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(MAX_TOKENS)

    def tokenize(sentences: list[str]) -> dict[str, np.ndarray]:
        encoded = tokenizer.encode_batch(sentences)
        return {
            "input_ids": np.array([one.ids for one in encoded]),
            "attention_mask": np.array([one.attention_mask for one in encoded]),
        }

    return tokenize


def main(argv: list[str] | None = None) -> SimilarityTable:
    """Run the script and return its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", help="first model, the rows of the table")
    parser.add_argument("b", help="second model, the columns")
    parser.add_argument("sentences", type=Path, help="text file, one sentence a line")
    parser.add_argument("--layers-a", nargs="*", help="names or patterns (default: the hidden states)")
    parser.add_argument("--layers-b", nargs="*", help="names or patterns (default: the hidden states)")
    parser.add_argument("--n-sentences", type=int, default=512, help="number of sentences (default: 512)")
    parser.add_argument("--batch-size", type=int, default=32, help="sentences per forward pass (default: 32)")
    parser.add_argument("--debiased", action="store_true", help="the estimate that is 0 on average by chance")
    args = parser.parse_args(argv)

    sentences = [line for line in args.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    (model_a, inputs_a), (model_b, inputs_b) = load_model(args.a), load_model(args.b)
    options = {"tokens": "mean", "batch_size": args.batch_size}
    table = compare_models(
        model_a,
        model_b,
        sentences[: args.n_sentences],
        layers=args.layers_a,
        layers_b=args.layers_b,
        extract={**options, "inputs": inputs_a},
        extract_b={**options, "inputs": inputs_b},
        debiased=args.debiased,
    )
    values = table.to_frame()
    values.index = [f"a{i}" for i in range(len(values))]
    values.columns = [f"b{i}" for i in range(values.shape[1])]
    print(values.round(3).to_string())
    print(f"First layers: {table.values[0, 0]:.3f}; last layers: {table.values[-1, -1]:.3f}")
    return table


if __name__ == "__main__":
    main()
