"""A variational autoencoder of small generated pictures: blobs, rings and strokes.

    python vae.py --steps 2000         # then look at runs/vae/sample.png

The picture has three bands of rows: pictures, what the model makes of them, and new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import picture
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


def draw(rng: np.random.Generator, count: int, size: int) -> Any:
    """Pictures (count, 1, size, size) of numbers from 0 to 1."""
    x, y = np.meshgrid(*2 * [np.linspace(-1, 1, size)])
    column = lambda low, high: rng.uniform(low, high, (count, 1, 1))
    dx, dy = x - column(-0.4, 0.4), y - column(-0.4, 0.4)
    turn, wide, radius = column(0, np.pi), column(0.15, 0.3), column(0.3, 0.6)
    blob = dx**2 + dy**2 - (radius * 0.7) ** 2
    ring = (np.hypot(dx, dy) - radius) ** 2 - 0.12**2
    along, across = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
    stroke = np.maximum(np.abs(along) - 0.7, np.abs(across) - wide / 2)
    kind = rng.integers(3, size=(count, 1, 1))
    inside = np.choose(kind, [blob / 0.4, ring / 0.15, stroke])
    return (1 / (1 + np.exp(np.clip(inside * 30, -30, 30))))[:, None].astype(np.float32)


class VAE(nn.Module):
    """Pictures to the mean and log variance of a code, and codes to logits of pixels."""

    def __init__(self, size: int, width: int, code: int) -> None:
        super().__init__()
        small = size // 4
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.SiLU(),
            nn.Flatten(), nn.Linear(2 * width * small**2, 2 * code),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(code, 2 * width * small**2), nn.SiLU(),
            nn.Unflatten(1, (2 * width, small, small)),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.SiLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        )  # fmt: skip

    def forward(
        self, x: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + noise * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses: nats a picture."""
    options = parse(
        __doc__,
        argv,
        steps=2000,
        batch=(64, "pictures a step"),
        size=(16, "pixels of a picture's side, a multiple of 4"),
        width=(32, "channels"),
        code=(8, "numbers of a code"),
        lr=(3e-3, "Adam's rate at the start"),
    )
    torch.manual_seed(options.seed)
    model = VAE(options.size, options.width, options.code).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    run = Run(options, "images", model=model, optimizer=optimizer, schedule=schedule)

    def to_device(array: Any) -> torch.Tensor:
        return torch.from_numpy(array).to(options.device)

    for step in run.steps():
        rng = run.rng(step)
        x = to_device(draw(rng, options.batch, options.size))
        noise = to_device(rng.standard_normal((options.batch, options.code), np.float32))
        with run.autocast():
            logits, mean, log_variance = model(x, noise)
            misfit = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
            # How far the codes are from a standard normal distribution.
            divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
            loss = (misfit + divergence) / len(x)
        optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.step(optimizer)
        run.scaler.update()
        schedule.step()
        run.log(loss, len(x))

    with torch.no_grad():
        rng, columns = np.random.default_rng(options.seed), 16
        x = to_device(draw(rng, 2 * columns, options.size))
        still = to_device(np.zeros((2 * columns, options.code), np.float32))
        drawn = to_device(rng.standard_normal((2 * columns, options.code), np.float32))
        copies, inventions = model(x, still)[0].sigmoid(), model.decoder(drawn).sigmoid()
        rows = torch.cat([x, copies, inventions]).float().cpu().numpy()
    picture.grid(options.out / "sample.png", rows, columns)
    print(f"pictures, copies, new ones: {options.out / 'sample.png'}")
    return run.losses


if __name__ == "__main__":
    main()
