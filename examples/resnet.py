"""A residual network in the manner of ResNet-18, on generated images of eight shapes.

python resnet.py --steps 300
"""

from __future__ import annotations

from collections.abc import Sequence

import shapes
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


class Residual(nn.Module):
    """relu(x + conv(relu(conv(x)))), each convolution with its norm."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        nn.init.zeros_(self.norm2.weight)  # a block starts as the identity

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A first convolution, stages of two blocks, the average, a linear layer."""

    def __init__(self, classes: int, width: int, stages: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        layers, before = [], width
        for k in range(stages):
            after, stride = width * 2**k, 1 if k == 0 else 2
            layers += [Residual(before, after, stride), Residual(after, after, 1)]
            before = after
        self.stages = nn.Sequential(*layers)
        self.classify = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.stages(self.stem(x)).mean((2, 3)))


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=300,
        batch=(32, "images a step"),
        size=(24, "pixels of an image's side"),
        width=(16, "channels of the first stage: ResNet-18 has 64"),
        stages=(4, "each has half of the side and twice the channels of the one before"),
        lr=(0.1, "SGD's highest rate"),
        unseen=(512, "images to test on at the end"),
        workers=(0, "processes that draw images"),
    )
    torch.manual_seed(options.seed)
    model = ResNet(len(shapes.NAMES), options.width, options.stages).to(options.device)
    # Weight decay is for the weights of convolutions and of the linear layer.
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 5e-4}, {"params": others}],
        lr=options.lr,
        momentum=0.9,
        nesterov=True,
    )
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, options.steps - 10)),
        ],
        milestones=[10],
    )
    run = Run(options, "images", model=model, optimizer=optimizer, schedule=schedule)
    batches = shapes.training_batches(
        run, len(run.losses), options.size, options.batch, options.workers
    )

    for _, (images, labels) in zip(run.steps(), batches):
        images, labels = images.to(options.device), labels.to(options.device)
        with run.autocast():
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
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
