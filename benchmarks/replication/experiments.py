"""What every experiment needs: its conditions, its networks and their layers, and files for its results."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.replication.images import load_images
from benchmarks.replication.networks import Architecture, Convolution, Network
from benchmarks.replication.training import Recipe, accuracy, load_network, train_all, untrained
from sklearn_cka import Layers, extract_layers


@dataclass(frozen=True)
class Setting:
    """Where the images are, where results go, and how much work is to be done."""

    images: Path | None
    out: Path
    epochs: int = 10
    n_images: int = 10_000
    seeds: int = 10
    n_test: int = 2_000
    n_test_averaged: int = 10_000
    n_jobs: int = 1
    is_long: bool = False
    checkpoints: Path | None = None

    def recipe(self, seed: int, **changes: Any) -> Recipe:
        """Return how a network of this setting is trained."""
        return Recipe(**{"seed": seed, "n_images": self.n_images, "epochs": self.epochs, **changes})

    def train(self, jobs: list[tuple[Architecture, Recipe]]) -> None:
        """Train what is not there yet."""
        train_all(jobs, self.images, self.out / "networks", n_jobs=self.n_jobs)

    def network(self, architecture: Architecture, recipe: Recipe) -> Network:
        """Return a trained network."""
        return load_network(self.out / "networks", architecture, recipe)

    def test_images(self, n_images: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return test images and their classes."""
        return load_images(self.images, "test", self.n_test if n_images is None else n_images)

    def part(self, name: str) -> Path:
        """Return the file of a part of a result, under the conditions of this setting."""
        folder = self.out / "parts"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}-{self.n_images}x{self.epochs}-{self.seeds}seeds.csv"

    def conditions(self, **more: Any) -> dict[str, Any]:
        """Return what is to be known of a result, for the file beside it."""
        kept = asdict(self)
        source = "OpenML" if self.images is None else "pictures; JPEG copies are lossy"
        del kept["out"], kept["checkpoints"]
        return {**kept, "images": source, "torch": torch.__version__, **more}

    def write(self, name: str, frame: Any = None, figure: Any = None, **conditions: Any) -> None:
        """Write the table, the figure and the conditions of an experiment."""
        self.out.mkdir(parents=True, exist_ok=True)
        if frame is not None:
            frame.to_csv(self.out / f"{name}.csv", index=False)
        if figure is not None:
            figure.savefig(self.out / f"{name}.png", dpi=150)
        told = self.conditions(**conditions, written=time.strftime("%Y-%m-%d"))
        (self.out / f"{name}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")


def layers_of(network: Network, pixels: torch.Tensor, flatten: str = "mean") -> Layers:
    """Return the activations of every convolution, after the rectifier, as ``1``, ``2``, ..."""
    found = extract_layers(network, pixels, Convolution, batch_size=500, flatten=flatten, verbose=0)
    return Layers({str(i): array for i, array in enumerate(found.values(), start=1)})


def accuracies(networks: list[Network], pixels: torch.Tensor, classes: torch.Tensor) -> list[float]:
    """Return the test accuracy of every network."""
    return [accuracy(network, pixels, classes) for network in networks]


__all__ = ["Architecture", "Setting", "accuracies", "layers_of", "untrained"]
