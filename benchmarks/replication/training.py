"""Train networks from scratch: seeded, resumable after every epoch, and kept in files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from joblib import Parallel, delayed
from torch import nn
from torch.nn import functional
from tqdm import tqdm

from benchmarks.replication.images import load_images
from benchmarks.replication.networks import Architecture, Network


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: what decides its weights, besides its architecture and the images."""

    seed: int = 0
    n_images: int = 10_000
    first_image: int = 0
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-3


def train_all(
    jobs: Iterable[tuple[Architecture, Recipe]], images: Path | None, folder: Path, *, n_jobs: int = 1
) -> None:
    """Train every network that is not in the folder yet, one process each, one thread a process."""
    todo = [(made, recipe) for made, recipe in jobs if not network_file(folder, made, recipe).exists()]
    if todo:
        folder.mkdir(parents=True, exist_ok=True)
        Parallel(n_jobs=n_jobs)(delayed(_train_one)(made, recipe, images, folder) for made, recipe in todo)


def network_file(folder: Path, architecture: Architecture, recipe: Recipe) -> Path:
    """Return where a trained network lies."""
    part = f"-from{recipe.first_image}" if recipe.first_image else ""
    return folder / f"{architecture.name}-{recipe.n_images}{part}x{recipe.epochs}-seed{recipe.seed}.pt"


def load_network(folder: Path, architecture: Architecture, recipe: Recipe) -> Network:
    """Return a trained network, ready to run."""
    file = network_file(folder, architecture, recipe)
    state = torch.load(file, weights_only=True)
    if state["recipe"] != asdict(recipe):
        raise ValueError(f"{file} was trained by another recipe, {state['recipe']}, not {asdict(recipe)}: remove it.")
    network = Network(architecture)
    network.load_state_dict(state["network"])
    return network.eval()


def untrained(architecture: Architecture, seed: int) -> Network:
    """Return a network with the weights that training starts from."""
    torch.manual_seed(seed)
    return Network(architecture).eval()


def _train_one(architecture: Architecture, recipe: Recipe, path: Path | None, folder: Path) -> None:
    torch.set_num_threads(1)
    pixels, classes = load_images(path, "train", recipe.first_image + recipe.n_images)
    pixels, classes = pixels[recipe.first_image :], classes[recipe.first_image :]
    train(architecture, recipe, pixels, classes, network_file(folder, architecture, recipe))


def train(
    architecture: Architecture, recipe: Recipe, pixels: torch.Tensor, classes: torch.Tensor, file: Path
) -> Network:
    """Train a network, going on from the last finished epoch if there is one, and keep it in a file."""
    network = untrained(architecture, recipe.seed).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(),
        recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=True,
    )
    n_batches = -(-len(pixels) // recipe.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=n_batches * recipe.epochs, pct_start=0.3
    )
    generator = torch.Generator().manual_seed(recipe.seed)
    partial = file.with_suffix(".partial")
    first = 0
    state = torch.load(partial, weights_only=True) if partial.exists() else {}
    if state.get("recipe") == asdict(recipe):  # epochs by another recipe are no beginning
        first = state["epoch"]
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        generator.set_state(state["generator"])
    network.train()
    for epoch in tqdm(range(first, recipe.epochs), desc=file.stem, unit="epoch", initial=first, total=recipe.epochs):
        order = torch.randperm(len(pixels), generator=generator)
        for rows in order.split(recipe.batch_size):
            batch = augment(pixels[rows], generator).to(memory_format=torch.channels_last)
            loss = functional.cross_entropy(network(batch), classes[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            schedule.step()
        state = {
            "epoch": epoch + 1,
            "recipe": asdict(recipe),
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "generator": generator.get_state(),
        }
        _save(state, partial)
    _save({"network": network.state_dict(), "recipe": asdict(recipe), "architecture": asdict(architecture)}, file)
    partial.unlink(missing_ok=True)
    return network.eval()


def _save(state: dict, file: Path) -> None:
    """Write a file whole or not at all."""
    torch.save(state, temporary := file.with_suffix(".tmp"))
    os.replace(temporary, file)


def augment(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror about half of the images."""
    mirrored = torch.rand(len(batch), generator=generator) < 0.5
    return torch.where(mirrored[:, None, None, None], batch.flip(3), batch)


@torch.no_grad()
def accuracy(network: nn.Module, pixels: torch.Tensor, classes: torch.Tensor) -> float:
    """Return the share of images that a network classifies rightly."""
    found = [network(batch).argmax(dim=1) for batch in pixels.split(500)]
    return float((torch.cat(found) == classes).float().mean())
