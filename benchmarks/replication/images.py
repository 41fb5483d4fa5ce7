"""CIFAR-10 as tensors: from pictures in a folder or a zip file, or from OpenML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = torch.tensor([0.491, 0.482, 0.447])
STANDARD_DEVIATION = torch.tensor([0.247, 0.243, 0.262])
TRAIN_IMAGES = 50_000


def load_images(path: Path | None, split: str, n_images: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images, float32 of shape (n_images, 3, 32, 32), normalised, and their classes.

    `path` is a folder or a zip file of ``SPLIT/CLASS/*.jpg`` (or png); None fetches the data set from OpenML. As many
    images of each class as possible are drawn, at random by `seed`; those of fewer images are among those of more.
    """
    if path is None:
        pixels, classes = _from_openml(split, n_images, seed)
    else:
        pixels, classes = _from_pictures(Path(path), split, n_images, seed)
    images = torch.from_numpy(pixels).movedim(-1, 1).float() / 255
    images = (images - MEAN[:, None, None]) / STANDARD_DEVIATION[:, None, None]
    return images.contiguous(), torch.from_numpy(classes)


def _from_pictures(path: Path, split: str, n_images: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from PIL import Image

    names, read = _members(path)
    of_split = [name for name in names if f"/{split}/" in f"/{name}" and name.endswith((".jpg", ".png"))]
    if not of_split:
        raise ValueError(f"{path} holds no picture of the form {split}/CLASS/NAME.jpg.")
    classes = np.array([CLASSES.index(name.split("/")[-2]) for name in of_split])
    chosen = _balanced(classes, n_images, seed)
    pictures = [np.asarray(Image.open(io.BytesIO(read(of_split[i]))).convert("RGB")) for i in chosen]
    return np.stack(pictures), classes[chosen]


def _members(path: Path) -> tuple[list[str], Callable[[str], bytes]]:
    """Return the names of all files in a folder or zip file, sorted, and a function that reads one."""
    if path.is_dir():
        return sorted(str(file.relative_to(path)) for file in path.rglob("*.*")), lambda name: (
            path / name
        ).read_bytes()
    archive = zipfile.ZipFile(path)
    return sorted(archive.namelist()), archive.read


def _from_openml(split: str, n_images: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import fetch_openml

    data = fetch_openml("CIFAR_10", version=1, as_frame=False)
    rows = slice(0, TRAIN_IMAGES) if split == "train" else slice(TRAIN_IMAGES, None)
    classes = data.target[rows].astype(np.int64)
    chosen = _balanced(classes, n_images, seed)
    pixels = data.data[rows][chosen].astype(np.uint8).reshape(-1, 3, 32, 32)
    return np.moveaxis(pixels, 1, -1), classes[chosen]


def _balanced(classes: np.ndarray, n_images: int, seed: int) -> np.ndarray:
    """Return `n_images` rows in an order that goes round the classes, each class shuffled by `seed`."""
    if n_images > len(classes):
        raise ValueError(f"{n_images} images were asked for, but there are {len(classes)}.")
    shuffled = np.random.default_rng(seed).permutation(len(classes))
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.unique(classes, return_counts=True)[1]
    turn = np.concatenate([np.arange(count) for count in counts])
    return by_class[np.argsort(turn, kind="stable")][:n_images]
