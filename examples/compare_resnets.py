"""Compare the blocks of two residual networks trained on CIFAR-10.

The networks are those of He et al. (2016) for 32 x 32 images, in the form of
https://github.com/akamaster/pytorch_resnet_cifar10, whose checkpoints this script reads::

    python examples/compare_resnets.py resnet20.th resnet56.th --images cifar10.zip --plot table.png

``--images`` is a zip file of pictures, ``test/CLASS/NNNN.jpg``; without it the test images come from OpenML. Needs
torch, and Pillow for pictures.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import pad

from sklearn_cka import SimilarityTable, compare_models

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STANDARD_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class Block(nn.Module):
    """Two convolutions and a shortcut without parameters: every second pixel, and zeros for the new channels."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.stride, self.n_new = stride, n_out - n_in

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of both paths, rectified."""
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        x = x[:, :, :: self.stride, :: self.stride]
        return self.relu(out + pad(x, (0, 0, 0, 0, self.n_new // 2, self.n_new // 2)))


class ResNet(nn.Module):
    """A residual network of 6 n + 2 layers: a convolution, three stages of n blocks, a linear layer."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(n)))
        self.layer2 = nn.Sequential(*(Block(16 if i == 0 else 32, 32, 2 if i == 0 else 1) for i in range(n)))
        self.layer3 = nn.Sequential(*(Block(32 if i == 0 else 64, 64, 2 if i == 0 else 1) for i in range(n)))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = self.layer3(self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean(dim=(2, 3)))


def load_resnet(path: Path) -> ResNet:
    """Return the network of a checkpoint, as deep as its weights say."""
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    weights = {name.removeprefix("module."): values for name, values in state.items()}
    n = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layer1."))
    network = ResNet(n)
    network.load_state_dict(weights)
    return network


def load_images(path: Path | None, n_images: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return normalised test images, as many of each class as possible, and their classes."""
    pixels, classes = _openml() if path is None else _pictures(path, n_images)
    order = np.argsort(np.concatenate([np.arange(n) for n in np.unique(classes, return_counts=True)[1]]), kind="stable")
    chosen = np.argsort(classes, kind="stable")[order][:n_images]
    images = (pixels[chosen].astype(np.float32) / 255 - MEAN) / STANDARD_DEVIATION
    return torch.from_numpy(images).movedim(-1, 1).contiguous(), classes[chosen]


def _pictures(path: Path, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    from PIL import Image

    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    pixels, classes = [], []
    with zipfile.ZipFile(path) as archive:
        members = sorted(name for name in archive.namelist() if "test/" in name and name.endswith((".jpg", ".png")))
        for label, class_name in enumerate(names):
            of_class = [name for name in members if name.split("/")[-2] == class_name]
            for name in of_class[: -(-n_images // len(names))]:
                pixels.append(np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")))
                classes.append(label)
    return np.stack(pixels), np.array(classes)


def _openml() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import fetch_openml

    data = fetch_openml("CIFAR_10", version=1, as_frame=False)
    rows = data.data[-10_000:].astype(np.uint8).reshape(-1, 3, 32, 32)
    return np.moveaxis(rows, 1, -1), data.target[-10_000:].astype(int)


def compare_blocks(a: nn.Module, b: nn.Module, images: torch.Tensor, *, debiased: bool = False) -> SimilarityTable:
    """Return the linear CKA of the blocks, averaged over positions, of two networks."""
    return compare_models(
        a, b, images, layers=["relu", Block], extract={"flatten": "mean", "batch_size": 100}, debiased=debiased
    )


def main(argv: list[str] | None = None) -> SimilarityTable:
    """Run the script and return its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path, help="checkpoint of the first network, the rows of the table")
    parser.add_argument("b", type=Path, help="checkpoint of the second network, the columns")
    parser.add_argument("--images", type=Path, help="zip file of pictures (default: CIFAR-10 from OpenML)")
    parser.add_argument("--n-images", type=int, default=2000, help="number of test images (default: 2000)")
    parser.add_argument("--debiased", action="store_true", help="the estimate that is 0 on average by chance")
    parser.add_argument("--plot", type=Path, help="draw the table to this file")
    args = parser.parse_args(argv)

    networks = load_resnet(args.a), load_resnet(args.b)
    images, classes = load_images(args.images, args.n_images)
    for path, network in zip((args.a, args.b), networks, strict=True):
        with torch.no_grad():
            logits = torch.cat([network.eval()(batch) for batch in images.split(100)])
        accuracy = (logits.argmax(dim=1).numpy() == classes).mean()
        print(f"{path.name}: {accuracy:.1%} of {len(images)} images right")
    table = compare_blocks(*networks, images, debiased=args.debiased)
    print(table.best_match().to_string(index=False, float_format="%.3f"))
    best = table.values.argmax(axis=1)
    print("Ever deeper blocks match ever deeper blocks:", bool((np.diff(best) >= 0).all()))
    print(f"Similarity of the last blocks: {table.values[-1, -1]:.3f}")
    if args.plot is not None:
        table.plot().figure_.savefig(args.plot, bbox_inches="tight")
    return table


if __name__ == "__main__":
    main()
