"""The experiments of the paper in miniature: on synthetic pictures, and on a slice of real ones where they are."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import SHARED

torch = pytest.importorskip("torch")
image = pytest.importorskip("PIL.Image")

from benchmarks.replication import bandwidth, depth, matching, residual  # noqa: E402
from benchmarks.replication.__main__ import EXPERIMENTS, main  # noqa: E402
from benchmarks.replication.experiments import Setting, layers_of  # noqa: E402
from benchmarks.replication.images import CLASSES, MEAN, STANDARD_DEVIATION, load_images  # noqa: E402
from benchmarks.replication.networks import Architecture, Network  # noqa: E402
from benchmarks.replication.training import (  # noqa: E402
    Recipe,
    accuracy,
    augment,
    load_network,
    network_file,
    train,
    train_all,
)

SIDE, PER_CLASS = 32, 6


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A zip file of noise in ten colours, one a class."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("pictures") / "pictures.zip"
    folder = path.parent
    colours = rng.integers(40, 215, (10, 3))
    with zipfile.ZipFile(path, "w") as archive:
        for split in ("train", "test"):
            for colour, name in zip(colours, CLASSES, strict=True):
                for i in range(PER_CLASS):
                    pixels = np.clip(colour + rng.normal(0, 30, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
                    file = folder / split / name / f"{i:04}.png"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    image.fromarray(pixels).save(file)
                    archive.write(file, f"{split}/{name}/{i:04}.png")
    return path


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_images_are_normalised_pixels_of_their_class(pictures):
    images, classes = load_images(pictures, "test", 20)
    assert images.shape == (20, 3, SIDE, SIDE)
    assert images.dtype == torch.float32
    np.testing.assert_array_equal(np.bincount(classes), [2] * 10)
    raw = (images * STANDARD_DEVIATION[:, None, None] + MEAN[:, None, None]) * 255
    name = CLASSES[classes[0]]
    of_class = [
        np.asarray(image.open(pictures.parent / "test" / name / f"{i:04}.png")).transpose(2, 0, 1)
        for i in range(PER_CLASS)
    ]
    assert min(np.abs(raw[0].numpy() - pixels).max() for pixels in of_class) < 1e-3


def test_a_folder_gives_the_images_of_the_zip_file_and_fewer_are_among_more(pictures):
    from_zip, classes = load_images(pictures, "train", 30)
    from_folder, _ = load_images(pictures.parent, "train", 30)
    assert torch.equal(from_zip, from_folder)
    fewer, fewer_classes = load_images(pictures, "train", 10)
    assert torch.equal(from_zip[:10], fewer)
    assert torch.equal(classes[:10], fewer_classes)
    assert sorted(fewer_classes.tolist()) == list(range(10))


def test_images_that_are_not_there_are_refused(pictures, tmp_path):
    with pytest.raises(ValueError, match="70 images were asked for, but there are 60"):
        load_images(pictures, "train", 70)
    with pytest.raises(ValueError, match="no picture of the form train/CLASS"):
        load_images(tmp_path, "train", 1)


def test_the_network_has_the_shapes_of_tiny_10():
    network = Network().eval()
    layers = layers_of(network, torch.zeros(2, 3, 32, 32), "flatten")
    sizes = [16 * 32**2] * 2 + [32 * 16**2] * 3 + [64 * 8**2] + [64 * 6**2] * 2
    assert [array.shape for array in layers.values()] == [(2, size) for size in sizes]
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_depth_width_and_trimmings_change_the_network():
    deep = Network(Architecture(repeats=3, width=0.5, batch_norm=False, residual=True))
    assert len(deep.layers) == 24
    assert deep.logits.in_features == 32
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in deep.modules())
    assert [layer.has_shortcut for layer in deep.layers[:6]] == [False, True, True, True, True, True]
    names = [Architecture(), Architecture(repeats=2), Architecture(residual=True), Architecture(batch_norm=False)]
    assert len({made.name for made in names}) == 4


def test_a_shortcut_adds_the_input():
    block = Network(Architecture(residual=True)).eval().layers[1]
    x = torch.rand(2, 16, 8, 8)
    expected = torch.relu(block.norm(block.conv(x))) + x
    torch.testing.assert_close(block(x), expected)


def test_about_half_of_the_images_are_mirrored_and_none_else_is_changed():
    batch = torch.rand(40, 3, 8, 8)
    found = augment(batch, torch.Generator().manual_seed(3))
    plain = [np.array_equal(a, b) for a, b in zip(batch.numpy(), found.numpy(), strict=True)]
    mirrored = [np.array_equal(a[:, :, ::-1], b) for a, b in zip(batch.numpy(), found.numpy(), strict=True)]
    assert all(p != m for p, m in zip(plain, mirrored, strict=True))
    assert 8 < sum(mirrored) < 32


def test_a_network_of_another_recipe_is_not_taken_for_this_one(pictures, tmp_path):
    images, classes = load_images(pictures, "train", 20)
    made, recipe = Architecture(width=0.25), Recipe(n_images=20, epochs=1, batch_size=10)
    train(made, recipe, images, classes, network_file(tmp_path, made, recipe))
    load_network(tmp_path, made, recipe)
    with pytest.raises(ValueError, match="trained by another recipe"):
        load_network(tmp_path, made, Recipe(n_images=20, epochs=1, batch_size=5))


def test_training_is_seeded_and_goes_on_where_it_was_stopped(pictures, tmp_path, monkeypatch):
    images, classes = load_images(pictures, "train", 40)
    made, recipe = Architecture(width=0.25), Recipe(seed=3, n_images=40, epochs=3, batch_size=20)
    once = train(made, recipe, images, classes, tmp_path / "once.pt")

    from benchmarks.replication import training

    calls, save = [], training._save

    def stop_after_the_second(state, file):
        save(state, file)
        calls.append(file)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "_save", stop_after_the_second)
    with pytest.raises(KeyboardInterrupt):
        train(made, recipe, images, classes, tmp_path / "twice.pt")
    assert not (tmp_path / "twice.pt").exists()
    monkeypatch.setattr(training, "_save", save)
    shorter = Recipe(seed=3, n_images=40, epochs=1, batch_size=20)
    (tmp_path / "short.partial").write_bytes((tmp_path / "twice.partial").read_bytes())
    short, alone = (train(made, shorter, images, classes, tmp_path / f"{name}.pt") for name in ("short", "alone"))
    assert torch.equal(short.logits.weight, alone.logits.weight)  # epochs of another recipe are no beginning
    twice = train(made, recipe, images, classes, tmp_path / "twice.pt")
    other = train(made, Recipe(seed=4, n_images=40, epochs=3, batch_size=20), images, classes, tmp_path / "other.pt")
    for a, b in zip(once.state_dict().values(), twice.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(once.logits.weight, other.logits.weight)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.pt" for name in ("alone", "once", "other", "short", "twice")
    ]


def test_a_trained_network_is_kept_and_not_trained_again(pictures, tmp_path):
    made, recipe = Architecture(width=0.25), Recipe(n_images=60, epochs=8, batch_size=20)
    train_all([(made, recipe)], pictures, tmp_path)
    written = network_file(tmp_path, made, recipe).stat().st_mtime_ns
    train_all([(made, recipe)], pictures, tmp_path)
    assert network_file(tmp_path, made, recipe).stat().st_mtime_ns == written
    images, classes = load_images(pictures, "test", 60)
    assert accuracy(load_network(tmp_path, made, recipe), images, classes) > 0.3


def arguments(pictures, out):
    conditions = ["--epochs", "1", "--train-images", "30", "--seeds", "3", "--n-jobs", "1"]
    return ["--images", str(pictures), "--out", str(out), *conditions]


@pytest.fixture(scope="module")
def small(pictures):
    """Fewer test images than the command line has."""
    options = {"epochs": 1, "n_images": 30, "seeds": 3, "n_test": 60, "n_test_averaged": 60}
    return lambda out, **more: Setting(images=pictures, out=out, **options, **more)


def test_matching_gives_table_2_with_the_figures_of_the_paper(small, tmp_path):
    frame = matching.main(small(tmp_path))
    flattened, averaged = (frame[frame["activations"] == how] for how in ("flattened", "averaged"))
    assert set(flattened["index"]) == {"linear HSIC", "linear CKA", "RBF CKA 0.2", "RBF CKA 0.4", "RBF CKA 0.8"}
    assert set(averaged["index"]) == set(matching.PAPER)
    assert averaged.set_index("index")["paper"].to_dict() == pytest.approx(
        {name: value / 100 for name, value in matching.PAPER.items()}
    )
    # Three networks, eight layers: ordered pairs times layers is 48.
    hits = frame["accuracy"] * 48
    np.testing.assert_allclose(hits, hits.round(), atol=1e-9)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "matching.csv"), frame)
    told = json.loads((tmp_path / "matching.json").read_text())
    assert (told["epochs"], told["n_images"], len(told["accuracy"])) == (1, 30, 3)
    assert "JPEG copies are lossy" in told["images"]
    assert str(tmp_path) not in (tmp_path / "matching.json").read_text()


def test_bandwidth_names_the_most_accurate(small, tmp_path):
    frame = bandwidth.main(small(tmp_path))
    assert list(frame["bandwidth"]) == ["0.1", "0.2", "0.4", "0.8", "1.6", "linear"]
    searched = frame.iloc[:5]
    best = float(searched["bandwidth"].iloc[int(np.argmax(searched["accuracy"].to_numpy()))])
    assert json.loads((tmp_path / "bandwidth.json").read_text())["best"] == best


@pytest.mark.parametrize("name", ["origins", "subspace", "depth", "width"])
def test_experiment_writes_table_figure_and_conditions(small, tmp_path, monkeypatch, name):
    monkeypatch.setattr(depth, "DEPTHS", (1,))
    frame = EXPERIMENTS[name].main(small(tmp_path))
    assert len(frame) >= 8
    for suffix in ("csv", "png", "json"):
        assert (tmp_path / f"{name}.{suffix}").stat().st_size > 0


def test_the_command_refuses_experiments_that_are_not_there(pictures, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["matching", "luck", *arguments(pictures, tmp_path)])
    assert "no experiment is called 'luck'; there are matching, bandwidth" in capsys.readouterr().err


def test_residual_needs_checkpoints(small, tmp_path, pictures, capsys):
    main(["residual", *arguments(pictures, tmp_path)])
    assert "--checkpoints FOLDER" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"must hold one resnet20-\*\.th, found 0"):
        residual.main(small(tmp_path, checkpoints=tmp_path))


@pytest.mark.skipif(not (SHARED / "data" / "cifar10_jpeg.zip").exists(), reason="needs CIFAR-10")
def test_sums_of_a_residual_network_are_more_alike_than_its_branches(tmp_path):
    setting = Setting(SHARED / "data" / "cifar10_jpeg.zip", tmp_path, n_test=200, checkpoints=SHARED / "data")
    found = residual.main(setting).set_index("pair")["mean_cka"]
    assert found["two sums"] > 0.7 > 0.5 > found["two branches"]
    told = json.loads((tmp_path / "residual.json").read_text())
    assert told["accuracy"]["resnet20"] > 0.7
