"""The plain convolutional networks of the paper, and their deeper, wider and residual relatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

# Channels, kernel, stride and padding of the convolutions of Tiny-10, which average pooling and the logits follow.
_CONVOLUTIONS = (
    (16, 3, 1, 1),
    (16, 3, 1, 1),
    (32, 3, 2, 1),
    (32, 3, 1, 1),
    (32, 3, 1, 1),
    (64, 3, 2, 1),
    (64, 3, 1, 0),
    (64, 1, 1, 0),
)


@dataclass(frozen=True)
class Architecture:
    """A plain network: every convolution of Tiny-10 repeated, widened, with or without its trimmings."""

    repeats: int = 1
    width: float = 1.0
    residual: bool = False
    batch_norm: bool = True

    @property
    def name(self) -> str:
        """A name for files and figures."""
        parts = [f"depth{8 * self.repeats + 2}", f"width{self.width:g}"]
        parts += ["residual"] * self.residual + ["plain"] * (not self.batch_norm)
        return "-".join(parts)


class Convolution(nn.Module):
    """A convolution, batch normalisation and a rectifier, with a shortcut around them if asked for."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, padding: int, like: Architecture) -> None:
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, kernel, stride=stride, padding=padding, bias=not like.batch_norm)
        self.norm = nn.BatchNorm2d(n_out) if like.batch_norm else nn.Identity()
        keeps_shape = n_in == n_out and stride == 1 and 2 * padding == kernel - 1
        self.has_shortcut = like.residual and keeps_shape
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations."""
        out = torch.relu(self.norm(self.conv(x)))
        return out + x if self.has_shortcut else out


class Network(nn.Module):
    """The convolutions, as ``layers``, the average over positions, and the logits."""

    def __init__(self, architecture: Architecture | None = None, n_classes: int = 10) -> None:
        super().__init__()
        self.architecture = architecture or Architecture()
        layers, n_in = [], 3
        for channels, kernel, stride, padding in _CONVOLUTIONS:
            n_out = max(1, round(channels * self.architecture.width))
            layers.append(Convolution(n_in, n_out, kernel, stride, padding, self.architecture))
            layers += [
                Convolution(n_out, n_out, kernel, 1, kernel // 2, self.architecture)
                for _ in range(self.architecture.repeats - 1)
            ]
            n_in = n_out
        self.layers = nn.Sequential(*layers)
        self.logits = nn.Linear(n_in, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.logits(self.layers(x).mean(dim=(2, 3)))
