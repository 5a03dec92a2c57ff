"""Generated images for the classifiers: coloured shapes of any place, size and turn, and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from training import Run

import tritorch as torch
from tritorch.nn import functional as F
from tritorch.utils.data import DataLoader, Dataset

# Each shape as a rule on coordinates of its own, in which it reaches from -1 to 1.
SHAPES = {
    "disc": lambda u, v: u * u + v * v < 1,
    "ring": lambda u, v: abs(u * u + v * v - 0.7) < 0.3,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) < 0.8,
    "frame": lambda u, v: abs(np.maximum(abs(u), abs(v)) - 0.7) < 0.2,
    "triangle": lambda u, v: (v > -0.6) & (v < 1 - 1.8 * abs(u)),
    "cross": lambda u, v: (np.minimum(abs(u), abs(v)) < 0.28) & (np.maximum(abs(u), abs(v)) < 1),
    "bar": lambda u, v: (abs(u) < 0.28) & (abs(v) < 1),
    "half": lambda u, v: (u * u + v * v < 1) & (v < 0),
}
NAMES = list(SHAPES)


def draw(rng: np.random.Generator, size: int) -> tuple[Any, int]:
    """An image (3, size, size) with numbers about 0, and the index of its shape."""
    label = int(rng.integers(len(NAMES)))
    radius = rng.uniform(0.28, 0.45)
    x, y = rng.uniform(radius, 1 - radius, 2)
    turn = rng.uniform(0, 2 * np.pi)
    place = (np.arange(size) + 0.5) / size
    right, down = (place[None, :] - x) / radius, (place[:, None] - y) / radius
    u, v = right * np.cos(turn) + down * np.sin(turn), down * np.cos(turn) - right * np.sin(turn)
    back = rng.uniform(-1, 0, 3)
    colour = back + rng.uniform(0.7, 1.5, 3)
    image = np.where(SHAPES[NAMES[label]](u, v), colour[:, None, None], back[:, None, None])
    return (image + rng.normal(0, 0.1, image.shape)).astype(np.float32), label


class Shapes(Dataset):
    """Image i is drawn from the seed and i: as many as are asked for, no two alike."""

    def __init__(self, seed: int, size: int, length: int) -> None:
        self.seed, self.size, self.length = seed, size, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = draw(np.random.default_rng((self.seed, index)), self.size)
        return torch.from_numpy(image), label


def training_batches(run: Run, done: int, size: int, batch: int, workers: int) -> DataLoader:
    """A batch for each step of the run that is not done yet."""
    images = Shapes(run.options.seed, size, run.options.steps * batch)
    unseen = range(done * batch, len(images))  # all are random: no need to shuffle them
    return DataLoader(images, batch, sampler=unseen, num_workers=workers)


@torch.no_grad()
def accuracy(run: Run, model: torch.nn.Module, size: int, count: int) -> float:
    """The share of images of another seed that the model names rightly, with a table by shape."""
    model.eval()
    right, seen = np.zeros(len(NAMES)), np.zeros(len(NAMES))
    loss = 0.0
    for images, labels in DataLoader(Shapes(run.options.seed + 1, size, count), 64):
        with run.autocast():
            logits = model(images.to(run.device)).float().cpu()
        loss += F.cross_entropy(logits, labels, reduction="sum").item() / count
        np.add.at(seen, labels.numpy(), 1)
        np.add.at(right, labels.numpy(), (logits.argmax(1) == labels).numpy())
    model.train()
    for name, good, of in zip(NAMES, right, seen):
        print(f"  {name:8} {good:.0f} of {of:.0f}")
    share = float(right.sum() / seen.sum())
    print(f"accuracy on {count} new images: {share:.1%}, loss {loss:.3f}")
    return share
