"""What extraction costs beside bare forward passes, in time and in the memory of a fresh process.

``python -m benchmarks.extraction`` prints the ratio of times, the peak resident size of a process that writes 20 layers
of 10,000 images to memory maps, and that of one that only runs the forward passes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

N_LAYERS, WIDTH, SIZE, BATCH = 20, 32, 16, 250
TARGET_TIME, TARGET_MEMORY = 1.1, 1.2


def network() -> Any:
    """Return 20 convolutions."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(*(nn.Conv2d(3 if i == 0 else WIDTH, WIDTH, 3, padding=1) for i in range(N_LAYERS)))


def images(n: int) -> Any:
    """Return n images."""
    import torch

    return torch.randn(n, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def bare(n: int) -> None:
    """Run the forward passes alone."""
    import torch

    model, x = network().eval(), images(n)
    with torch.no_grad():
        for batch in x.split(BATCH):
            model(batch)


def extraction(n: int, out: Path | None) -> None:
    """Extract all layers to a folder, or to memory."""
    from sklearn_cka import extract_layers

    extract_layers(network(), images(n), batch_size=BATCH, out=out, verbose=0)


def peak_memory(what: str, n: int) -> float:
    """Return the peak resident MiB of a fresh process."""
    program = [sys.executable, "-m", "benchmarks.extraction", what, str(n)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def times(n: int, repeats: int) -> tuple[float, float, float]:
    """Return the best seconds of forward passes, of extraction to memory averaged over positions, and flattened."""
    import torch

    from sklearn_cka import extract_layers

    model, x = network().eval(), images(n)

    def forward() -> None:
        with torch.no_grad():
            for batch in x.split(BATCH):
                model(batch)

    def seconds(function: Any) -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    ways = [
        forward,
        lambda: extract_layers(model, x, batch_size=BATCH, flatten="mean", verbose=0),
        lambda: extract_layers(model, x, batch_size=BATCH, verbose=0),
    ]
    best = [min(column) for column in zip(*([seconds(way) for way in ways] for _ in range(repeats)), strict=True)]
    return best[0], best[1], best[2]


def main(n: int = 10_000) -> None:
    """Print the figures beside their targets."""
    forward, mean, flat = times(1_000, 5)
    print(f"time of extraction over forward passes: averaged {mean / forward:.2f}, flattened {flat / forward:.2f}")
    batch = N_LAYERS * BATCH * WIDTH * SIZE**2 * 4 / 2**20
    written = N_LAYERS * n * WIDTH * SIZE**2 * 4 / 2**20
    base, peak = peak_memory("images", n), peak_memory("extract", n)
    print(
        f"{written:.0f} MiB written; process with model and images {base:.0f} MiB, peak of extraction {peak:.0f} MiB: "
        f"{(peak - base) / batch:.2f} times the activations of a batch ({batch:.0f} MiB)"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        if sys.argv[1] == "images":
            bare(1)
            kept = images(int(sys.argv[2])), network()
            import sklearn_cka.extract._torch  # noqa: F401
        else:
            with tempfile.TemporaryDirectory(dir=".") as folder:
                extraction(int(sys.argv[2]), Path(folder) / "acts")
        # Not getrusage: its peak is that of the parent where that was larger.
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024)
    else:
        main()
