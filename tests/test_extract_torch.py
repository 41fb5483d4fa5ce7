"""Layers out of torch models: equal to calling the modules by hand, in order, and nothing left behind on the model."""

import copy
import random
import re
import subprocess
import sys
from collections import namedtuple
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sklearn_cka import ChanceLevelWarning, Layers, _memory, cka, compare_layers, extract_layers
from sklearn_cka.extract import _sinks, iter_layers

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.utils.data import (  # noqa: E402
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

N_ROWS = 33


def seeded(shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.act = nn.ReLU(inplace=True)
        self.body = nn.Conv2d(4, 6, 3, stride=2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 5)
        self.spare = nn.Linear(6, 5)

    def forward(self, x):
        x = self.act(self.stem(x))
        x = self.act(self.body(x))
        return self.head(self.drop(x.mean(dim=(2, 3))))


@pytest.fixture
def net():
    return ConvNet().train()


def by_hand(net, x):
    """The layers of ConvNet, each module called by hand in evaluation mode, in the order of the calls."""
    net = copy.deepcopy(net).eval()
    with torch.no_grad():
        conv = net.stem[0](x)
        norm = net.stem[1](conv)
        act = norm.clamp(min=0)
        body = net.body(act)
        act2 = body.clamp(min=0)
        pooled = act2.mean(dim=(2, 3))
        return {
            "stem.0": conv,
            "stem.1": norm,
            "stem": norm,
            "act": act,
            "body": body,
            "act#2": act2,
            "drop": pooled,
            "head": net.head(pooled),
            "output": net.head(pooled),
        }


def n_hooks(model):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


def assert_layers(layers, expected, **tolerance):
    assert layers.names == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(layers[name]), values.flatten(1).numpy(), **tolerance)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 32, N_ROWS, N_ROWS + 1, None])
@pytest.mark.parametrize("out", [None, "acts", "acts.npz"])
def test_layers_equal_calling_the_modules_by_hand(net, batch_size, out, tmp_path):
    x = seeded((N_ROWS, 3, 6, 6))
    out = None if out is None else tmp_path / out
    with pytest.warns(UserWarning, match="did not run are left out: 'spare'"):
        layers = extract_layers(net, x, "*", batch_size=batch_size, out=out)
    assert_layers(layers, by_hand(net, x), rtol=1e-5, atol=1e-6)
    assert isinstance(layers["head"], torch.Tensor if out is None else np.memmap)
    assert out is None or [p.name for p in tmp_path.iterdir()] == [out.name]


def test_leaf_modules_that_ran_are_the_default(net):
    assert extract_layers(net, seeded((5, 3, 6, 6))).names == [
        "stem.0",
        "stem.1",
        "act",
        "body",
        "act#2",
        "drop",
        "head",
    ]


def test_in_place_activation_does_not_rewrite_the_layer_before():
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(64, 4)
    torch.manual_seed(0)
    x = (mlp(), torch.randn(64, 4))[1]
    for batch_size in (10, 64):
        layers = extract_layers(net, x, batch_size=batch_size)
        torch.testing.assert_close(layers["0"], net[0](x).detach())
        assert (layers["0"] < 0).any()
        assert cka(layers["0"], layers["1"]) == pytest.approx(0.890181, abs=1e-6)


@pytest.mark.parametrize("batch_size", [1, 7, 32, 70, 100])
def test_no_row_is_lost_when_the_last_batch_is_short(batch_size):
    net, x = nn.Linear(4, 8), seeded((70, 4))
    layers = extract_layers(net, x, batch_size=batch_size)
    assert layers.n_rows == 70
    torch.testing.assert_close(layers["output"], net(x).detach())


def test_layers_carry_no_graph():
    layers = extract_layers(nn.Linear(4, 8), seeded((16, 4)).requires_grad_())
    assert not layers["output"].requires_grad
    assert layers["output"].grad_fn is None


def test_inputs_of_modules_are_layers_on_request(net):
    x = seeded((5, 3, 6, 6))
    layers = extract_layers(net, x, ["stem.0:input", "act:input", "head:input", "stem.0:output"])
    hand = by_hand(net, x)
    expected = {"stem.0:input": x, "stem.0": hand["stem.0"], "act:input": hand["stem"], "act#2:input": hand["body"]}
    assert_layers(layers, {**expected, "head:input": hand["drop"]}, rtol=1e-5, atol=1e-6)


def test_dtype_and_bfloat16(net, tmp_path):
    x = seeded((5, 3, 6, 6))
    assert extract_layers(net, x, "head", dtype="float16")["head"].dtype == torch.float16
    assert extract_layers(net, x, "head", dtype=torch.float64, out=tmp_path / "a")["head"].dtype == np.float64
    half = copy.deepcopy(net).bfloat16()
    assert extract_layers(half, x.numpy(), "head")["head"].dtype == torch.bfloat16
    stored = extract_layers(half, x.numpy(), "head", out=tmp_path / "b")["head"]
    np.testing.assert_array_equal(stored, extract_layers(half, x.numpy(), "head")["head"].float())
    with pytest.raises(ValueError, match="dtype must be a real type, such as 'float32', got 'complex64'"):
        extract_layers(net, x, dtype="complex64")


# -- which layers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ("head", ["head"]),
        (["head", "stem.0"], ["stem.0", "head"]),
        ("stem.*", ["stem.0", "stem.1"]),
        (nn.Conv2d, ["stem.0", "body"]),
        ((nn.Conv2d, nn.BatchNorm2d), ["stem.0", "stem.1", "body"]),
        ([nn.BatchNorm2d, "h*", "head"], ["stem.1", "head"]),
        (lambda name, module: name.startswith("b") or isinstance(module, nn.Dropout), ["body", "drop"]),
        ("module.head", ["head"]),
        ("output", ["output"]),
        ("", ["output"]),
    ],
    ids=lambda value: None if callable(value) else repr(value),
)
def test_layers_are_chosen_by_name_pattern_type_or_function_in_call_order(net, layers, names):
    assert extract_layers(net, seeded((4, 3, 6, 6)), layers).names == names


def test_unknown_names_fail_before_the_forward_pass():
    net = mlp()
    net.register_forward_pre_hook(lambda *args: pytest.fail("the model was run"))
    with pytest.raises(ValueError, match=r"Unknown layers '0\.weight', 'fc9'\..*The layers of the model are '0', '1'"):
        extract_layers(net, seeded((4, 4)), ["0.weight", "0", "fc9"])


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ("steam.0", ValueError, "Unknown layer 'steam.0'. Did you mean 'stem.0'"),
        ("spare", ValueError, "Layer 'spare' did not run when the model was called"),
        (["head", "spare"], ValueError, "Layer 'spare' did not run"),
        ("sp*", ValueError, "No layer that was asked for ran"),
        (nn.LSTM, ValueError, "no module of type LSTM; it has BatchNorm2d, Conv2d"),
        (lambda name, module: False, ValueError, "function given as layers is true of no module"),
        ([], ValueError, "layers is empty"),
        (3, TypeError, "layers must be names, patterns, module types or a function, got 3"),
        ([3], TypeError, "layers must hold names, patterns .*, got builtins.int 3"),
    ],
)
def test_wrong_layers_are_refused(net, layers, error, message):
    with pytest.raises(error, match=message):
        extract_layers(net, seeded((4, 3, 6, 6)), layers)
    assert n_hooks(net) == 0


def test_containers_that_are_not_run_are_named():
    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    with pytest.raises(ValueError, match=r"'blocks' is a ModuleList, .* such as 'blocks\.0', 'blocks\.1'"):
        extract_layers(Blocks(), seeded((4, 4)), "blocks")
    assert extract_layers(Blocks(), seeded((4, 4)), "block*").names == ["blocks.0", "blocks.1"]


def test_module_used_twice_and_under_two_names():
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.Tanh(), shared)
    x = seeded((6, 4))
    layers = extract_layers(net, x)
    assert layers.names == ["0", "1", "0#2"]
    torch.testing.assert_close(layers["0#2"], net(x).detach())
    assert extract_layers(net, x, "2").names == ["2", "2#2"]
    assert extract_layers(net, x, "2:input").names == ["2:input", "2#2:input"]


def test_parametrized_layer_is_a_leaf():
    net = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.ReLU())
    assert extract_layers(net, seeded((5, 4))).names == ["0", "1"]


def test_layer_whose_calls_depend_on_the_data_is_refused():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.a(x) if x.sum() > 0 else self.b(x)

    x = torch.cat([torch.ones(4, 2), -torch.ones(4, 2)])
    with pytest.raises(ValueError, match=r"Layers 'a', 'b' ran in some batches and not, .* starts at row 4"):
        extract_layers(Gated(), x, batch_size=4)


# -- what modules return ----------------------------------------------------------------------------------------------


@dataclass
class Result:
    loss: Any
    hidden: Any


class Structured(nn.Module):
    """A module that returns its input in a structure."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


Pair = namedtuple("Pair", ["first", "second"])


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x, x + 1),
        lambda x: [None, (x, x + 1)],
        lambda x: {"loss": None, "hidden": x},
        lambda x: Result(None, x),
        lambda x: Pair(x, x + 1),
    ],
)
def test_first_tensor_of_a_structured_output_is_taken(make):
    x = seeded((5, 3))
    torch.testing.assert_close(extract_layers(Structured(make), x)["output"], x)


@pytest.mark.parametrize(
    ("make", "output"),
    [
        (lambda x: (x + 1, x), 1),
        (lambda x: {"a": x + 1, "b": x}, "b"),
        (lambda x: Result(x + 1, x), "hidden"),
        (lambda x: Pair(x + 1, x), "second"),
        (lambda x: (x + 1, [x]), lambda value: value[1][0]),
        (lambda x: (x + 1, x), {"output": 1, "other": 0}),
    ],
)
def test_part_of_a_structured_output_is_picked(make, output):
    x = seeded((5, 3))
    torch.testing.assert_close(extract_layers(Structured(make), x, output=output)["output"], x)


def test_recurrent_and_attention_modules():
    x = seeded((5, 7, 4))
    lstm = nn.LSTM(4, 3, batch_first=True)
    layers = extract_layers(lstm, x)
    assert layers["output"].shape == (5, 21)
    torch.testing.assert_close(layers["output"], lstm(x)[0].detach().flatten(1))
    final = extract_layers(lstm, x, output=lambda value: value[1][0][-1])
    torch.testing.assert_close(final["output"], lstm(x)[1][0][-1].detach())

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            return self.mha(x, x, x)

    net = Attention()
    torch.testing.assert_close(extract_layers(net, x, "mha")["mha"], net(x)[0].detach().flatten(1))


def test_modules_with_time_first_inside_a_model_with_rows_first():
    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(4, 3)

        def forward(self, x):
            return self.rnn(x.transpose(0, 1))[0].transpose(0, 1)

    net, x = TimeFirst(), seeded((5, 7, 4))
    layers = extract_layers(net, x, ["rnn", "output"])
    torch.testing.assert_close(layers["rnn"], net(x).detach().flatten(1))
    with pytest.raises(ValueError, match=r"Layer 'output' has the shape \(7, 5, 3\), whose first axis is not the 5"):
        extract_layers(nn.LSTM(4, 3), x, "output")
    final = extract_layers(net, x, "rnn", output=lambda value: value[1])["rnn"]
    torch.testing.assert_close(final, net.rnn(x.transpose(0, 1))[1][0].detach())


def test_fused_encoder_runs_its_modules_and_masks_change_no_shape():
    torch.manual_seed(0)
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    x = seeded((6, 5, 8))
    mask = torch.zeros(6, 5, dtype=torch.bool)
    mask[:, 3:] = True
    layers = extract_layers(net, {"src": x, "src_key_padding_mask": mask}, ["layers.0", "layers.1.linear1", "output"])
    assert [tuple(v.shape) for v in layers.values()] == [(6, 40), (6, 80), (6, 40)]
    expected = net.train()
    for module in expected.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    for layer in expected.layers:
        layer.self_attn.dropout = 0.0
    by_hand = expected(x, src_key_padding_mask=mask).detach().flatten(1)
    torch.testing.assert_close(layers["output"], by_hand, rtol=1e-4, atol=1e-5)


def test_outputs_without_rows_are_refused_or_left_out_in_words():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions, self.fc = nn.Embedding(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x + self.positions(torch.arange(4))[0])

    x = seeded((6, 4))
    with pytest.raises(ValueError, match=r"Layer 'positions' has the shape \(4, 4\), .* not the 6 rows of the batch"):
        extract_layers(Positions(), x, "positions")
    with pytest.warns(UserWarning, match="Layers left out: 'positions'"):
        assert extract_layers(Positions(), x).names == ["fc"]
    for make, message in [
        (lambda x: "text", "Layer 'output' returns builtins.str, in which there is no tensor"),
        (lambda x: nn.utils.rnn.pack_sequence([x]), "PackedSequence"),
        (lambda x: x.to_sparse(), "nested or sparse"),
        (lambda x: x.to(torch.complex64), "complex"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            extract_layers(Structured(make), x, "output")
    with pytest.raises((TypeError, ValueError), match=r"output=2 is no part of .* it has 0, 1"):
        extract_layers(Structured(lambda x: (x, x)), x, "output", output=2)


# -- the model is left as it was --------------------------------------------------------------------------------------


def state_of(model):
    tensors = {name: (id(t), t.detach().clone(), t.requires_grad) for name, t in model.named_parameters()}
    buffers = {name: (id(t), t.clone()) for name, t in model.named_buffers()}
    return {name: module.training for name, module in model.named_modules()}, tensors, buffers, n_hooks(model)


def assert_as_before(model, before):
    now = state_of(model)
    assert now[0] == before[0]
    assert now[3] == before[3]
    for old, new in zip(before[1:3], now[1:3], strict=True):
        assert old.keys() == new.keys()
        for name in old:
            assert old[name][0] == new[name][0]
            assert torch.equal(old[name][1], new[name][1])
            assert old[name][2:] == new[name][2:]


def test_dropout_is_off_and_batch_norm_is_frozen():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8)).train()
    x, before = seeded((16, 4)), state_of(net)
    first, second = extract_layers(net, x, batch_size=5), extract_layers(net, x, batch_size=16)
    assert torch.equal(extract_layers(net, x, batch_size=5)["2"], first["2"])
    assert torch.equal(first["1"], first["0"])
    torch.testing.assert_close(first["2"], second["2"])
    np.testing.assert_allclose(np.diag(compare_layers(first).values), 1, rtol=1e-6)
    assert_as_before(net, before)


def test_flags_of_single_modules_come_back(net):
    net.stem[1].eval()
    net.head.weight.requires_grad_(False)
    before = state_of(net)
    extract_layers(net, seeded((5, 3, 6, 6)))
    assert_as_before(net, before)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_nothing_is_left_behind_after_an_error_or_interrupt(net, error, tmp_path):
    def fail(module, args):
        if len(args[0]) == 3:  # the last batch
            raise error("stop")

    own = net.head.register_forward_pre_hook(fail)
    before = state_of(net)
    for out in (None, tmp_path / "acts", tmp_path / "acts.npz"):
        with pytest.raises(error, match="stop"):
            extract_layers(net, seeded((11, 3, 6, 6)), batch_size=4, out=out)
        assert_as_before(net, before)
    assert list(tmp_path.iterdir()) == []
    own.remove()
    assert n_hooks(net) == 0


def test_wrong_input_shape_leaves_no_hooks():
    net, bad = mlp(), seeded((8, 5))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            extract_layers(net, bad)
        assert n_hooks(net) == 0


def test_abandoned_generator_leaves_nothing_behind(net):
    before = state_of(net)
    batches = iter_layers(net, seeded((11, 3, 6, 6)), batch_size=4)
    assert next(batches).n_rows == 4
    assert_as_before(net, before)  # even while it is alive
    del batches
    assert_as_before(net, before)


def test_buffers_that_a_model_changes_are_restored():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n_calls", torch.zeros(1))
            self.register_buffer("last", torch.zeros(1))

        def forward(self, x):
            self.n_calls += 1
            self.last = x.sum()
            return x

    net = Counting()
    before = state_of(net)
    extract_layers(net, seeded((6, 2)), batch_size=2)
    assert_as_before(net, before)


def test_global_random_state_is_not_touched(net):
    loader = DataLoader(TensorDataset(seeded((9, 3, 6, 6))), batch_size=4)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    extract_layers(net, loader)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]


# -- wrappers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["0", "module.0", ["0"], ["module.0"]])
def test_data_parallel_is_unwrapped(layers):
    net = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
    x = seeded((8, 4))
    found = extract_layers(net, x, layers)
    assert found.names == ["0"]
    torch.testing.assert_close(found["0"], net.module[0](x).detach())


def test_compiled_models_run_module_by_module():
    inner = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    x = seeded((8, 4))
    expected = extract_layers(inner, x)
    compiled = torch.compile(inner, backend="eager")
    compiled(x)
    part = nn.Sequential(inner[0], torch.compile(inner[1], backend="eager"))
    in_place = copy.deepcopy(inner)
    in_place.compile(backend="eager")
    for net in (compiled, part, in_place):
        found = extract_layers(net, x)
        assert found.names == expected.names == ["0", "1.0", "1.1"]
        torch.testing.assert_close(found["1.1"], expected["1.1"])
        assert n_hooks(net) == 0
    assert extract_layers(compiled, x, "_orig_mod.1.0").names == ["1.0"]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_models_that_run_outside_python_are_refused_in_words():
    net, x = mlp(), seeded((8, 4))
    scripted = torch.jit.trace(net, x)
    with pytest.raises(TypeError, match=r"compiled by TorchScript.*Pass the model that was scripted or traced"):
        extract_layers(scripted, x)
    program = torch.export.export(net, (x,))
    with pytest.raises(TypeError, match=r"torch\.export\.unflatten\(program\)"):
        extract_layers(program, x)
    with pytest.raises(ValueError, match=r"device 'meta'.*load its weights first"):
        extract_layers(nn.Linear(4, 2, device="meta"), x)


# -- data -------------------------------------------------------------------------------------------------------------


class Numbered(Dataset):
    """Examples with labels."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], i


class Stream(IterableDataset):
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return iter(self.x)


def test_every_kind_of_data_gives_the_same_rows(tmp_path):
    net, x = nn.Linear(4, 3), seeded((11, 4))
    np.save(tmp_path / "x.npy", x.numpy())
    kinds = [
        x,
        x.numpy(),
        x.numpy().astype(np.float64),
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        pd.DataFrame(x.numpy()),
        x.tolist(),
        (x,),
        {"input": x},
        {"input": x.numpy()},
        Numbered(x),
        TensorDataset(x),
        TensorDataset(x, torch.arange(11)),
        DataLoader(Numbered(x), batch_size=4),
        DataLoader(x.tolist(), batch_size=4, collate_fn=torch.tensor),
        DataLoader([{"input": row} for row in x], batch_size=4),
        DataLoader([({"input": row}, 0) for row in x], batch_size=4),
        DataLoader(Stream(x), batch_size=4),
    ]
    for data in kinds:
        layers = extract_layers(net, data)
        torch.testing.assert_close(layers["output"], net(x).detach())


def test_inputs_says_what_of_a_batch_the_model_gets():
    class Two(nn.Module):
        def forward(self, a, b=0):
            return a - b

    a, b = seeded((9, 4)), seeded((9, 4), 1)
    for data, inputs in [
        ((a, b), None),
        ({"a": a, "b": b}, None),
        (TensorDataset(a, b), tuple),
        (TensorDataset(a, b), lambda batch: {"a": batch[0], "b": batch[1]}),
        ([row.tolist() for row in a - b], torch.tensor),
    ]:
        layers = extract_layers(Two(), data, batch_size=4, inputs=inputs)
        torch.testing.assert_close(layers["output"], a - b)


def test_shuffling_loaders_are_refused_unless_a_generator_fixes_the_order():
    net, data = nn.Linear(4, 3), TensorDataset(seeded((50, 4)))
    x = data.tensors[0]
    with pytest.raises(ValueError, match=r"The DataLoader shuffles \(RandomSampler\).*shuffle=False, or fix the order"):
        extract_layers(net, DataLoader(data, shuffle=True, batch_size=8))
    with pytest.raises(ValueError, match=r"shuffles \(RandomSampler\)"):
        extract_layers(net, DataLoader(TensorDataset(x[:1]), shuffle=True))

    class Odd(SequentialSampler):
        def __iter__(self):
            return iter(np.random.permutation(50).tolist())  # noqa: NPY002

    with pytest.raises(ValueError, match=r"shuffles \(Odd\)"):
        extract_layers(net, DataLoader(data, sampler=Odd(data), batch_size=8))

    generator = torch.Generator().manual_seed(3)
    for loader in (
        DataLoader(data, shuffle=True, batch_size=8, generator=generator),
        DataLoader(data, sampler=RandomSampler(data, generator=generator), batch_size=8),
    ):
        state = generator.get_state()
        first, second = extract_layers(net, loader), extract_layers(net, loader)
        assert torch.equal(generator.get_state(), state)
        assert torch.equal(first["output"], second["output"])
        assert sorted(first.index) == list(range(50)) != list(first.index)
        torch.testing.assert_close(first["output"], net(x[first.index.tolist()]).detach())
        with pytest.raises(ValueError, match="same but in another order"):
            compare_layers(first, extract_layers(net, data))


def test_loaders_that_lose_or_repeat_rows_are_refused():
    net, data = nn.Linear(4, 3), TensorDataset(seeded((50, 4)))
    with pytest.raises(ValueError, match="drops the last 2 of 50 rows"):
        extract_layers(net, DataLoader(data, batch_size=8, drop_last=True))
    assert extract_layers(net, DataLoader(data, batch_size=10, drop_last=True)).n_rows == 50
    with pytest.raises(ValueError, match="drops the last batch"):
        extract_layers(net, DataLoader(Stream(data.tensors[0]), batch_size=8, drop_last=True))
    with pytest.raises(ValueError, match="some rows more than once"):
        extract_layers(net, DataLoader(data, sampler=[0, 1, 1, 2]))
    assert list(extract_layers(net, DataLoader(data, sampler=[5, 3, 8])).index) == [5, 3, 8]
    with pytest.raises(ValueError, match="A batch of the DataLoader has 7 rows where 8 were asked for"):
        extract_layers(
            net, DataLoader(data, batch_size=8, collate_fn=lambda rows: torch.stack([r[0] for r in rows[1:]]))
        )
    with pytest.raises(ValueError, match="batch_size=4 was given with a DataLoader"):
        extract_layers(net, DataLoader(data, batch_size=8), batch_size=4)
    with pytest.raises(ValueError, match="batch_size=None"):
        extract_layers(net, DataLoader(data, batch_size=None))


def test_inputs_that_do_not_pair_up_are_refused():
    net = nn.Bilinear(4, 4, 2)
    with pytest.raises(ValueError, match="Input 'input2' has 32 rows and 'input1' has 64"):
        extract_layers(net, {"input1": seeded((64, 4)), "input2": seeded((32, 4))})
    a = extract_layers(nn.Linear(4, 2), seeded((64, 4)))
    b = extract_layers(nn.Linear(4, 2), seeded((32, 4)))
    with pytest.raises(ValueError, match=r"64.*32"):
        compare_layers(a, b)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (torch.ones(0, 4), ValueError, "The data have no rows"),
        (torch.tensor(1.0), ValueError, "data is a single number"),
        ({}, ValueError, "dict of inputs is empty"),
        ((), ValueError, "tuple of inputs is empty"),
        (["a", "b"], TypeError, "list of strings.*give inputs=.*tokenizer"),
        (np.array(["a"]), TypeError, "array of <U1; a torch model takes numbers"),
        (3, TypeError, "data must be a tensor, an array, a dict .*; got builtins.int"),
        (DataLoader([]), ValueError, "The dataset has no rows"),
    ],
)
def test_data_that_cannot_be_run_are_refused(data, error, message):
    with pytest.raises(error, match=message):
        extract_layers(nn.Linear(4, 2), data)


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True])
def test_batch_size_must_be_a_whole_number(batch_size):
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1"):
        extract_layers(nn.Linear(4, 2), torch.ones(3, 4), batch_size=batch_size)


# -- policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [3, 11])
def test_policies_are_those_of_layers(net, batch_size):
    x = seeded((11, 3, 6, 6))
    maps = {name: by_hand(net, x)[name] for name in ("stem.0", "act")}
    for policy in ("flatten", "mean", "positions"):
        expected = Layers(maps, flatten=policy)
        found = extract_layers(net, x, ["stem.0", "stem.1"], flatten=policy, batch_size=batch_size)
        np.testing.assert_allclose(found["stem.0"], expected["stem.0"], rtol=1e-5, atol=1e-6)
    last = extract_layers(Structured(lambda x: x.movedim(1, -1)), x, flatten="mean", channels="last")
    torch.testing.assert_close(last["output"], x.mean(dim=(2, 3)))


def test_positions_as_samples_give_the_published_value():
    A = np.random.default_rng(0).standard_normal((10, 3, 4, 4))
    B = np.random.default_rng(1).standard_normal((10, 3, 4, 4)) + A
    for policy, value in [("flatten", 0.917331), ("mean", 0.766260), ("positions", 0.568694)]:
        a, b = (extract_layers(nn.Identity(), x, flatten=policy, batch_size=3)["output"] for x in (A, B))
        with pytest.warns(ChanceLevelWarning) if policy == "flatten" else nullcontext():
            assert cka(a, b) == pytest.approx(value, abs=1e-6)


def test_drawn_positions_are_the_same_for_every_batch_size_and_layer():
    x = seeded((9, 3, 4, 5))
    net = nn.Sequential(nn.Identity(), Structured(lambda x: x[:, :2] * 2))
    a = extract_layers(net, x, flatten="positions", max_positions=6, random_state=1, batch_size=4)
    b = extract_layers(net, x, flatten="positions", max_positions=6, random_state=1, batch_size=9)
    c = extract_layers(net, x, flatten="positions", max_positions=6, random_state=2, batch_size=9)
    assert a["0"].shape == (54, 3)
    assert torch.equal(a["0"], b["0"])
    assert not torch.equal(a["0"], c["0"])
    torch.testing.assert_close(a["1"], a["0"][:, :2] * 2)
    row, y, z = (a.index.get_level_values(i).to_numpy() for i in range(3))
    expected = x[
        torch.tensor(row), :, torch.tensor((y * 4 - 0.5).round()).long(), torch.tensor((z * 5 - 0.5).round()).long()
    ]
    torch.testing.assert_close(a["0"], expected)
    assert len({tuple(label) for label in a.index}) == 54


def test_positions_of_unequal_maps_are_refused_with_what_to_choose(net):
    x = seeded((5, 3, 6, 6))
    with pytest.raises(ValueError, match=r"'stem\.0' has 6 x 6 positions and 'body' has 2 x 2.*grid=.*flatten='mean'"):
        extract_layers(net, x, ["stem.0", "body"], flatten="positions")
    with pytest.raises(ValueError, match=r"'stem\.0' has 6 x 6 positions"):
        extract_layers(net, x, ["stem.0", "body"], flatten="positions", max_positions=3)
    layers = extract_layers(net, x, ["stem.0", "body"], flatten="positions", grid=2)
    pooled = by_hand(net, x)["stem.0"].reshape(5, 4, 2, 3, 2, 3).mean(dim=(3, 5))
    torch.testing.assert_close(layers["stem.0"], pooled.movedim(1, -1).reshape(20, 4), rtol=1e-5, atol=1e-6)
    # Two extractions with as many rows of different maps do not pair up either.
    a = extract_layers(net, x, "stem.0", flatten="positions", max_positions=3)
    b = extract_layers(net, x, "body", flatten="positions", max_positions=3)
    with pytest.raises(ValueError, match="row labels of a and b differ"):
        compare_layers(a, b)
    with pytest.raises(ValueError, match=r"'head' .* has no positions"):
        extract_layers(net, x, "head", flatten="positions")


def test_grid_of_flattened_maps_keeps_channels_in_place():
    x = seeded((4, 2, 6, 4))
    found = extract_layers(nn.Identity(), x, grid=(3, 2))["output"]
    torch.testing.assert_close(found, x.reshape(4, 2, 3, 2, 2, 2).mean(dim=(3, 5)).flatten(1))
    last = extract_layers(nn.Identity(), x.movedim(1, -1), grid=(3, 2), channels="last")["output"]
    torch.testing.assert_close(last, x.reshape(4, 2, 3, 2, 2, 2).mean(dim=(3, 5)).movedim(1, -1).flatten(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flatten": "pool"}, "flatten must be one of"),
        ({"max_positions": 3}, "max_positions is for flatten='positions'"),
        ({"grid": 0}, "grid must be made of whole numbers"),
        ({"tokens": "cls"}, "tokens must be one of"),
        ({"out": "a/b/c"}, "there is no folder 'a/b'"),
        ({"out": "a.pt"}, r"Layers are read from and written to \.npz"),
        ({"out": "acts", "out_device": "cpu"}, "out_device is for layers kept in memory"),
    ],
)
def test_wrong_options_are_refused(net, options, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        extract_layers(net, seeded((4, 3, 6, 6)), "stem.0", **options)


# -- memory -----------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_in_memory_is_refused_in_words(net, monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 100)
    with pytest.raises(
        MemoryError, match=r"Keeping 1 layer of 40 rows .*'stem\.0' of 144 units\) takes 22 KiB, and 100 bytes .*out="
    ):
        extract_layers(net, seeded((40, 3, 6, 6)), "stem.0", batch_size=2)


def test_what_does_not_fit_on_the_disk_is_refused_in_words(net, monkeypatch, tmp_path):
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr(_sinks.shutil, "disk_usage", lambda path: usage(0, 0, 30_000))
    x = seeded((40, 3, 6, 6))
    extract_layers(net, x, "stem.0", out=tmp_path / "acts")
    with pytest.raises(OSError, match=r"takes 45 KiB \(twice its size while the file is put together\), and 29 KiB"):
        extract_layers(net, x, "stem.0", out=tmp_path / "acts.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["acts"]


def test_batches_are_streamed(net):
    x = seeded((11, 3, 6, 6))
    whole = extract_layers(net, x, ["stem.0", "head"])
    parts = list(iter_layers(net, x, ["stem.0", "head"], batch_size=4))
    assert [part.n_rows for part in parts] == [4, 4, 3]
    for name in whole:
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), whole[name], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="out is for extract_layers"):
        next(iter_layers(net, x, out="acts"))


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_tokens_are_reduced_by_the_mask():
    class Encoder(nn.Module):
        def forward(self, hidden, attention_mask):
            return torch.where(attention_mask[:, :, None] > 0, hidden, torch.nan)

    hidden = seeded((5, 4, 3))
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], [1, 0, 1, 0]])
    data = {"hidden": hidden, "attention_mask": mask}
    real = [hidden[i][mask[i] > 0] for i in range(5)]
    for rule, expected in [
        ("mean", torch.stack([rows.mean(dim=0) for rows in real])),
        ("first", torch.stack([rows[0] for rows in real])),
        ("last", torch.stack([rows[-1] for rows in real])),
        ("all", torch.cat(real)),
        (lambda h, m: torch.where(m[:, :, None], h, -torch.inf).amax(dim=1), torch.stack([r.amax(0) for r in real])),
    ]:
        for batch_size in (2, 5):
            layers = extract_layers(Encoder(), data, tokens=rule, batch_size=batch_size)
            torch.testing.assert_close(layers["output"], expected)
    layers = extract_layers(Encoder(), data, tokens="all", batch_size=2)
    assert layers.index.tolist() == [(i, j) for i in range(5) for j in range(4) if mask[i, j]]
    with pytest.raises(ValueError, match="Row 3 has no token"):
        extract_layers(Encoder(), {**data, "attention_mask": mask * (torch.arange(5) != 3)[:, None]}, tokens="mean")


def test_torch_is_not_imported_by_the_package():
    code = "import sys, sklearn_cka, sklearn_cka.extract; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_torch_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = Path(__file__).resolve().parents[1] / "docs" / "extract.md"
    namespace = {}
    for source in re.findall(r"^```py\n(.*?)^```$", pages.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if "+SKIP" not in source:
            exec(source, namespace)
    torch.testing.assert_close(namespace["total"], namespace["net"].eval()(namespace["images"]).detach().sum(dim=0))
