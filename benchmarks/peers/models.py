"""Print what a table of two CIFAR residual networks costs end to end, and where the values of the packages differ.

    python -m benchmarks.peers.models --images ZIP --nets A.th B.th [--n-images 1024] [--batch-size 256]

Every package gets the same images in the same batches and the blocks of both networks, flattened; each runs in a
fresh process. Ours is exact over all images; the others average an estimate over batches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.adapters import PEERS, peer
from benchmarks.peers.measure import peak_memory, reset_peak
from benchmarks.peers.report import duration


def _blocks(network: Any) -> list[str]:
    """Return the names of the residual blocks, in order."""
    return [name for name, _ in network.named_modules() if name.startswith("layer") and name.count(".") == 1]


def _loader(images: Any, batch_size: int, *, labels: bool = True) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    parts = [images, torch.zeros(len(images))] if labels else [images]
    return DataLoader(TensorDataset(*parts), batch_size=batch_size, shuffle=False)


def _ours(a: Any, b: Any, images: Any, batch_size: int, *, debiased: bool) -> Any:
    from sklearn_cka import compare_models

    options = {"batch_size": batch_size, "flatten": "flatten"}
    return compare_models(
        a, b, images, layers=_blocks(a), layers_b=_blocks(b), extract=options, verbose=0, debiased=debiased
    ).values


def _torch_cka(a: Any, b: Any, images: Any, batch_size: int) -> Any:
    from torch_cka import CKA

    loader = _loader(images, batch_size)
    cka = CKA(a, b, "A", "B", model1_layers=_blocks(a), model2_layers=_blocks(b))
    cka.compare(loader, loader)
    return cka.export()["CKA"].detach().numpy()


def _ckatorch(a: Any, b: Any, images: Any, batch_size: int) -> Any:
    from ckatorch import CKA

    cka = CKA(a, b, layers=_blocks(a), second_layers=_blocks(b), first_name="A", second_name="B")
    return cka(_loader(images, batch_size, labels=False), epochs=1).numpy()


def _pytorch_cka(a: Any, b: Any, images: Any, batch_size: int) -> Any:
    from cka import compute_cka

    loader = _loader(images, batch_size)
    return compute_cka(a, b, loader, layers=_blocks(a), model2_layers=_blocks(b), progress=False)[0].numpy()


def _cka_pytorch(a: Any, b: Any, images: Any, batch_size: int) -> Any:
    from cka_pytorch.cka import CKACalculator

    calculator = CKACalculator(a, b, _blocks(a), _blocks(b), verbose=False)
    return calculator.calculate_cka_matrix(_loader(images, batch_size), num_epochs=1).numpy()


JOBS: dict[str, tuple[str, Callable[..., Any]]] = {
    "sklearn_cka, debiased": ("sklearn_cka", lambda *args: _ours(*args, debiased=True)),
    "sklearn_cka": ("sklearn_cka", lambda *args: _ours(*args, debiased=False)),
    "torch-cka": ("torch-cka", _torch_cka),
    "ckatorch": ("ckatorch", _ckatorch),
    "pytorch-cka": ("pytorch-cka", _pytorch_cka),
    "cka-pytorch": ("cka-pytorch", _cka_pytorch),
}


def alone(name: str, images_path: Path, nets: list[Path], n_images: int, batch_size: int) -> dict[str, Any]:
    """Run one package in this process: seconds, peak memory above networks and images, values."""
    from examples.compare_resnets import load_images, load_resnet

    warnings.simplefilter("ignore")
    job = JOBS[name][1]
    a, b = (load_resnet(path).eval() for path in nets)
    images, _ = load_images(images_path, n_images)
    reset_peak()
    before, start = peak_memory(), time.perf_counter()
    values = job(a, b, images, batch_size)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": peak_memory() - before, "values": np.asarray(values, dtype=float).tolist()}


def _in_fresh_process(name: str, args: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.peers.models", "--only", name, "--images", str(args.images)]
    command += ["--nets", *map(str, args.nets), "--n-images", str(args.n_images)]
    command += ["--batch-size", str(args.batch_size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {args.limit:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return {"failed": "out of memory" if done.returncode == -9 else last[:150]}
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the comparison and return what was printed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.models", description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help="zip file of pictures, test/CLASS/NNNN.jpg")
    parser.add_argument("--nets", type=Path, nargs=2, required=True, metavar=("A", "B"), help="two checkpoints")
    parser.add_argument("--n-images", type=int, default=1024, help="number of images (default: 1024)")
    parser.add_argument("--batch-size", type=int, default=256, help="images a batch (default: 256)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a package is stopped")
    parser.add_argument("--repeats", type=int, default=3, help="turns of every package (default: 3)")
    parser.add_argument("--out", type=Path, help="folder for models.json")
    parser.add_argument("--only", choices=JOBS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.only:
        print(json.dumps(alone(args.only, args.images, args.nets, args.n_images, args.batch_size)))
        return {}
    results: dict[str, dict[str, Any]] = {}
    for number in range(args.repeats):
        for name, (package, _) in JOBS.items():
            if not peer(package).is_installed or "failed" in results.get(name, {}):
                continue
            result = _in_fresh_process(name, args)
            if number and "seconds" in result:
                results[name]["times"].append(result["seconds"])
                results[name]["memory"] = max(results[name]["memory"], result["memory"])
            else:
                results[name] = result | {"times": [result.get("seconds", np.nan)]}
    exact = np.array(results["sklearn_cka, debiased"]["values"])
    print(f"{'package':<24} {'time':>9} {'memory':>9} {'last-last':>10} {'difference':>20}  (from exact debiased)")
    for name, result in results.items():
        if "failed" in result:
            print(f"{name:<24} {result['failed']}")
            continue
        values = np.array(result["values"])
        result["seconds"] = float(np.median(result["times"]))
        difference = np.abs(values - exact).max() if values.shape == exact.shape else np.nan
        print(
            f"{name:<24} {duration(result['seconds']):>9} {result['memory'] / 2**20:6.0f} MB {values[-1, -1]:10.4f} "
            f"{difference:20.4f}"
        )
    for found in PEERS:
        if found.compares_models and not found.is_installed:
            print(f"{found.name:<24} {found.version}")
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "models.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
