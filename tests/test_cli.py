"""The command line: what it prints and writes, and how it fails."""

import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sklearn_cka
from sklearn_cka import cli
from sklearn_cka.cli import main

SHAPES = {"conv": (40, 3, 2, 2), "hidden": (40, 6), "logits": (40, 4)}


def gram_cka(X, Y, gram=lambda Z: Z @ Z.T):
    n = len(X)
    H = np.eye(n) - 1 / n
    K, L = (H @ gram(Z.reshape(n, -1)) @ H for Z in (X, Y))
    return (K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum())


def debiased_cka(X, Y):
    def hsic(K, L):
        n = len(K)
        one = np.ones(n)
        middle = (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
        return np.trace(K @ L) + middle - 2 / (n - 2) * one @ K @ L @ one

    K, L = (Z.reshape(len(Z), -1) @ Z.reshape(len(Z), -1).T for Z in (X, Y))
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    return hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))


def rbf_gram(Z, bandwidth):
    squared = ((Z[:, None] - Z[None]) ** 2).sum(-1)
    median = np.median(np.sqrt(squared[np.triu_indices(len(Z), 1)]))
    return np.exp(-squared / (2 * (bandwidth * median) ** 2))


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(0)
    # One strong direction that all layers share, so that chance is far below every value.
    shared = rng.normal(size=40)
    return [
        {
            name: rng.normal(size=shape) + np.multiply.outer(3 * shared, rng.normal(size=shape[1:]))
            for name, shape in SHAPES.items()
        }
        for _ in range(2)
    ]


@pytest.fixture
def files(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, model in zip("ab", models, strict=True):
        np.savez(f"{name}.npz", **model)
    return tmp_path


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        (_, *columns), *rows = csv.reader(file)
    return columns, [row[0] for row in rows], np.array([[float(cell) for cell in row[1:]] for row in rows])


def failure(capsys, *argv):
    """Run a command that must fail in one line on standard error, and return its status and that line."""
    status = main(argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert err.startswith("sklearn-cka: error: ")
    return status, err.removeprefix("sklearn-cka: error: ").rstrip()


def test_compare_prints_the_table_of_two_files_with_three_digits(files, models, capsys):
    assert main(["compare", "a.npz", "b.npz", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    header, *lines = out.splitlines()
    assert header.split() == list(SHAPES)
    for line, (name, layer) in zip(lines, models[0].items(), strict=True):
        assert line.split() == [name, *(f"{gram_cka(layer, other):.3f}" for other in models[1].values())]


def test_compare_writes_the_values_in_full(files, models):
    assert main(["compare", "a.npz", "b.npz", "--out", "table.csv", "--quiet"]) == 0
    expected = [[gram_cka(x, y) for y in models[1].values()] for x in models[0].values()]
    columns, rows, values = read_csv("table.csv")
    assert columns == rows == list(SHAPES)
    np.testing.assert_allclose(values, expected, rtol=1e-10)

    assert main(["compare", "a.npz", "b.npz", "--out", "table.npz", "--quiet"]) == 0
    with np.load("table.npz") as table:
        np.testing.assert_array_equal(table["values"], values)
        assert table["row_names"].tolist() == rows
        assert table["index"] == "cka"
        assert (table["chance"] < values).all()


def test_compare_of_one_file_with_itself_is_symmetric_with_a_diagonal_of_one(files, models):
    assert main(["compare", "a.npz", "--out", "table.csv", "--quiet"]) == 0
    values = read_csv("table.csv")[2]
    np.testing.assert_allclose(np.diag(values), 1, rtol=1e-12)
    np.testing.assert_allclose(values, values.T, rtol=1e-14)
    np.testing.assert_allclose(values[0, 2], gram_cka(models[0]["conv"], models[0]["logits"]), rtol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
def test_kernel_bandwidth_and_debiased_reach_the_index(files, models):
    layer, other = models[0]["hidden"], models[1]["logits"]
    assert (
        main(["compare", "a.npz", "b.npz", "--kernel", "rbf", "--bandwidth", "0.4", "--out", "t.csv", "--quiet"]) == 0
    )
    np.testing.assert_allclose(
        read_csv("t.csv")[2][1, 2], gram_cka(layer, other, lambda Z: rbf_gram(Z, 0.4)), rtol=1e-9
    )
    assert main(["compare", "a.npz", "b.npz", "--debiased", "--out", "t.csv", "--quiet"]) == 0
    np.testing.assert_allclose(read_csv("t.csv")[2][1, 2], debiased_cka(layer, other), rtol=1e-9)


def test_param_sets_any_other_option(files, models):
    options = ["--param", "kernel=polynomial", "--param", "kernel_params={'degree': 2, 'gamma': 1.0, 'coef0': 0.5}"]
    assert main(["compare", "a.npz", "b.npz", *options, "--out", "t.csv", "--quiet"]) == 0
    expected = gram_cka(models[0]["hidden"], models[1]["logits"], lambda Z: (Z @ Z.T + 0.5) ** 2)
    np.testing.assert_allclose(read_csv("t.csv")[2][1, 2], expected, rtol=1e-9)


def test_another_index_by_name(files, models):
    assert main(["compare", "a.npz", "b.npz", "--index", "hsic", "--out", "t.csv", "--quiet"]) == 0
    X, Y = models[0]["hidden"], models[1]["logits"]
    H = np.eye(40) - 1 / 40
    np.testing.assert_allclose(read_csv("t.csv")[2][1, 2], np.trace(X @ X.T @ H @ Y @ Y.T @ H) / 39**2, rtol=1e-10)


def test_layers_are_picked_by_name_and_pattern_in_both_files(files):
    assert main(["compare", "a.npz", "b.npz", "--layers", "logits", "--layers", "h*", "--out", "t.csv", "--quiet"]) == 0
    assert read_csv("t.csv")[:2] == (["logits", "hidden"], ["logits", "hidden"])


def test_a_pattern_may_match_in_one_file_only(files, models):
    np.savez("c.npz", block=models[0]["hidden"], logits=models[1]["logits"])
    args = ["compare", "a.npz", "c.npz", "--layers", "hidden", "--layers", "block", "--out", "t.csv", "--quiet"]
    assert main(args) == 0
    assert read_csv("t.csv")[:2] == (["block"], ["hidden"])


def test_maps_are_averaged_over_positions_on_request(files, models):
    assert main(["compare", "a.npz", "b.npz", "--flatten", "mean", "--out", "t.csv", "--quiet"]) == 0
    expected = gram_cka(models[0]["conv"].mean((2, 3)), models[1]["conv"].mean((2, 3)))
    np.testing.assert_allclose(read_csv("t.csv")[2][0, 0], expected, rtol=1e-10)


def test_plot_writes_a_picture_in_the_format_of_its_suffix(files):
    pytest.importorskip("matplotlib")
    for suffix, start in [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]:
        assert main(["compare", "a.npz", "b.npz", "--plot", f"heat.{suffix}", "--quiet"]) == 0
        assert (files / f"heat.{suffix}").read_bytes().startswith(start)


def test_warnings_are_one_line_on_standard_error(files, models):
    np.savez("c.npz", **models[0], dead=np.ones((40, 3)))
    done = run("compare", "c.npz", "--quiet")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split() == ["dead", "-", "-", "-", "-"]
    assert re.fullmatch(r"sklearn-cka: warning: .*dead.*\n", done.stderr)


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["absent.npz"], 1, "absent.npz: no such file"),
        (["a.npz", "absent.npz"], 1, "absent.npz: no such file"),
        (["text.npz"], 1, "text.npz.*not an .npz file"),
        (["array.npy"], 1, r"array\.npy"),
        (["objects.npz"], 1, "objects.npz"),
        (["words.npz"], 1, r"words\.npz: .*'word'.*real numbers"),
        (["empty.npz"], 1, r"empty\.npz"),
        (["folder.csv"], 1, r"folder 'folder\.csv' holds no layers"),
        (["a.npz", "short.npz"], 1, r"a\.npz has 40 rows and short\.npz has 39"),
        (["holes.npz"], 1, "hole.*NaN"),
        (["a.npz", "--layers", "hiden"], 1, "Unknown layer 'hiden'.*Did you mean 'hidden'"),
        (["a.npz", "short.npz", "--layers", "conv"], 1, "short.npz"),
        (["a.npz", "--index", "ckaa"], 2, "unknown index 'ckaa'.*Did you mean 'cka'.*hsic"),
        (["a.npz", "--kernel", "rbff"], 2, "unknown kernel 'rbff'.*Did you mean 'rbf'.*laplacian"),
        (["a.npz", "--index", "distance_correlation", "--kernel", "rbf"], 2, "no option 'kernel'; its options are"),
        (["a.npz", "--param", "threshold=0.9"], 2, "no option 'threshold'"),
        (["a.npz", "--bandwidth", "0.4"], 2, "--bandwidth needs a kernel"),
        (["a.npz", "--param", "form=round"], 1, "form"),
        (["a.npz", "--out", "table.txt"], 2, "--out must end in .csv or .npz"),
        (["a.npz", "--out", "absent/table.csv"], 1, "no directory absent"),
        (["a.npz", "--out", "folder.csv"], 1, "folder.csv is a directory"),
        (["a.npz", "--out", "a.npz"], 2, "overwrite"),
        (["a.npz", "--plot", "heat.xyz"], 2, r"\.png"),
        (["a.npz", "--plot", "absent/heat.png"], 1, "no directory absent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_failures_are_one_clear_line(files, models, capsys, argv, status, message):
    (files / "text.npz").write_text("layer,1,2\n")
    np.save("array.npy", np.eye(3))
    np.savez("objects.npz", x=np.array([{}, []], dtype=object))
    np.savez("words.npz", word=np.array(["a", "b"]))
    np.savez("empty.npz")
    np.savez("short.npz", **{"hidden": models[0]["hidden"][:39]})
    np.savez("holes.npz", hole=np.array([[1.0], [np.nan], [2.0]]))
    (files / "folder.csv").mkdir()
    found, line = failure(capsys, "compare", *argv, "--quiet")
    assert found == status
    assert re.search(message, line), line


def test_a_picture_without_matplotlib_fails_before_the_work_and_says_how_to_get_it(files, capsys, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"] or ["matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    status, line = failure(capsys, "compare", "a.npz", "--plot", "heat.png")
    assert status == 1
    assert 'pip install "sklearn_cka[plot]"' in line


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions bind ordinary users of POSIX only")
def test_a_directory_without_write_permission_fails_before_the_work(files, capsys):
    (files / "locked").mkdir(mode=0o500)
    assert failure(capsys, "compare", "a.npz", "--out", "locked/t.csv")[0] == 1


def test_an_error_of_the_operating_system_is_one_line(files, capsys, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "t.csv")

    monkeypatch.setattr(cli, "_write_table", full)
    assert failure(capsys, "compare", "a.npz", "--out", "t.csv", "--quiet") == (1, "t.csv: No space left on device")


def test_ctrl_c_ends_with_status_130(files, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_load", interrupted)
    assert main(["compare", "a.npz"]) == 130
    assert capsys.readouterr() == ("", "sklearn-cka: interrupted\n")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["compar"],
        ["compare"],
        ["compare", "a", "--bandwidth", "-1"],
        ["compare", "a", "--param", "x"],
        ["demo", "x"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_status_2_with_the_usage(capsys, argv):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage: sklearn-cka" in capsys.readouterr().err


def test_indexes_lists_every_index_with_its_range_and_options(capsys):
    assert main(["indexes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines[1:]) == sklearn_cka.index_names()
    [line] = [line for line in lines if line.startswith("cka ")]
    for told in ("gram", "[0, 1]", "arccos(s)", ">= 2", "debiased", "Kornblith et al. 2019"):
        assert told in line
    [line] = [line for line in lines if line.startswith("pwcca ")]
    assert line.split()[1:6] == ["spectral", "[0,", "1]", "no", "-"]


def test_compare_computes_distances_and_on_other_backends(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.npz"
    np.savez(path, x=rng.standard_normal((200, 3)), y=rng.standard_normal((200, 4)))
    assert main(["compare", str(path), "--distance", "--quiet"]) == 0
    plain = capsys.readouterr().out
    assert plain.splitlines()[1].split()[1] == "0.000"
    assert main(["compare", str(path), "--distance", "--quiet", "--backend", "array_api_strict"]) == 0
    assert capsys.readouterr().out == plain
    for argv, message in (
        (["--distance", "--index", "cca"], "no distance form"),
        (["--backend", "numppy"], "Unknown backend 'numppy'"),
        (["--device", "cuda"], "needs a backend"),
        (["--precision", "tf32"], "torch and JAX"),
    ):
        assert main(["compare", str(path), *argv]) == 1
        assert message in capsys.readouterr().err


def test_kernels_lists_and_describes_every_kernel_and_the_bandwidth_rules(capsys):
    assert main(["kernels"]) == 0
    out = capsys.readouterr().out
    built_in = [name for name in sklearn_cka.kernel_names() if name in cli.KERNEL_NOTES]
    assert len(built_in) == len(cli.KERNEL_NOTES)
    for name in built_in:
        assert f"\n{name} " in out
    assert all(rule in out for rule in sklearn_cka.bandwidth_rule_names())


# The package may be imported from the source tree without being installed; the programs find it in the same place.
ROOT = str(Path(sklearn_cka.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])}


def run(*argv, **options):
    return subprocess.run(
        [sys.executable, "-m", "sklearn_cka", *argv],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=ENVIRONMENT,
        **options,
    )


def test_the_module_runs_as_a_program_and_knows_its_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"sklearn-cka {sklearn_cka.__version__}\n")


def test_the_module_compares_files_and_shows_progress_apart_from_the_table(files, models):
    done = run("compare", "a.npz", "b.npz", "--index", "cka")
    assert done.returncode == 0
    assert done.stdout.split()[:3] == list(SHAPES)
    assert f"{gram_cka(models[0]['conv'], models[1]['conv']):.3f}" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_demo_while_it_trains(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "sklearn_cka", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=ENVIRONMENT,
    ) as program:
        seen = b""
        while b" 2/40" not in seen and (more := program.stderr.read(1)):
            seen += more
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 130
    assert out == b""
    assert err.splitlines()[-1] == b"sklearn-cka: interrupted"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_reader_that_leaves_ends_the_program_quietly(files):
    program = subprocess.Popen(
        [sys.executable, "-m", "sklearn_cka", "indexes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    program.stdout.close()
    with program.stderr:
        assert program.stderr.read() == ""
    assert program.wait(timeout=60) == 128 + signal.SIGPIPE


def parse_table(out):
    """Return the numbers of the table in the demo's text."""
    rows = [line.split() for line in out.splitlines() if re.match(r"(hidden_\d|output)\s", line)]
    return [row[0] for row in rows], np.array([[float(cell) for cell in row[1:]] for row in rows])


def test_demo_shows_that_the_same_layers_of_two_networks_are_alike(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names, values = parse_table(done.stdout)
    assert names == ["hidden_1", "hidden_2", "hidden_3", "output"]
    assert np.diag(values).min() > 0.9
    assert values.argmax(axis=1).tolist() == values.argmax(axis=0).tolist() == list(range(4))
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "training network 2 of 2: 100%" in done.stderr
    *_, picture, closing = done.stdout.splitlines()
    assert picture == "Heat map written to demo.png"
    assert closing.startswith("What to look at: the diagonal. 4 of 4 layers")


@pytest.fixture
def short_training(monkeypatch):
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.repeat([0, 1, 2], 10)
    networks = [MLPClassifier((6,), random_state=i).partial_fit(X, y, classes=[0, 1, 2]) for i in range(2)]
    monkeypatch.setattr(cli, "_two_digit_networks", lambda seed, quiet: (networks, X, [0.5, 0.5]))


@pytest.mark.filterwarnings("ignore::sklearn_cka.ChanceLevelWarning")
def test_demo_without_matplotlib_prints_the_table_and_says_how_to_get_the_picture(
    tmp_path, monkeypatch, capsys, short_training
):
    monkeypatch.chdir(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"] or ["matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["demo"]) == 0
    out, _ = capsys.readouterr()
    assert parse_table(out)[0] == ["hidden_1", "output"]
    assert 'pip install "sklearn_cka[plot]"' in out
    assert not (tmp_path / "demo.png").exists()


def test_demo_checks_where_its_picture_goes_before_it_trains(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert failure(capsys, "demo", "--out", "absent/demo.png") == (
        1,
        "cannot write absent/demo.png: there is no directory absent.",
    )
    assert failure(capsys, "demo", "--out", "demo.xyz")[0] == 2
