"""A convolutional classifier of generated images: which of eight shapes is it?

python cnn.py --steps 300
"""

from __future__ import annotations

from collections.abc import Sequence

import shapes
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


class CNN(nn.Module):
    """Three rounds of convolution, norm, relu and pooling; then the average, and a linear layer."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width]
        rounds = []
        for before, after in zip(sizes, sizes[1:]):
            rounds += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
        self.features = nn.Sequential(*rounds)
        self.classify = nn.Linear(sizes[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(x).mean((2, 3)))


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=300,
        batch=(32, "images a step"),
        size=(24, "pixels of an image's side"),
        width=(16, "channels of the first round"),
        lr=(1e-2, "Adam's highest rate"),
        unseen=(512, "images to test on at the end"),
        workers=(0, "processes that draw images"),
    )
    torch.manual_seed(options.seed)
    model = CNN(len(shapes.NAMES), options.width).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, options.steps + 1)
    run = Run(options, "images", model=model, optimizer=optimizer, schedule=schedule)
    batches = shapes.training_batches(
        run, len(run.losses), options.size, options.batch, options.workers
    )

    for _, (images, labels) in zip(run.steps(), batches):
        images, labels = images.to(options.device), labels.to(options.device)
        with run.autocast():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.step(optimizer)
        run.scaler.update()
        schedule.step()
        run.log(loss, len(images))

    shapes.accuracy(run, model, options.size, options.unseen)
    return run.losses


if __name__ == "__main__":
    main()
