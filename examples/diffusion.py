"""A diffusion model of points in the plane: noise walks back to a pair of spirals.

python diffusion.py --steps 2000        # then look at runs/diffusion/sample.png
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import picture
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


def spirals(rng: np.random.Generator, count: int) -> Any:
    """Points (count, 2) on two arms of a spiral, of about unit variance."""
    along = np.sqrt(rng.uniform(0.02, 1, count)) * 2 * np.pi
    arm = rng.integers(2, size=count) * np.pi
    points = np.stack([along * np.cos(along + arm), along * np.sin(along + arm)], axis=1)
    return (points / 3.1 + rng.normal(0, 0.03, points.shape)).astype(np.float32)


class Denoiser(nn.Module):
    """What noise there is in points (n, 2) at times (n,) from 0 to 1."""

    def __init__(self, width: int, layers: int, frequencies: int = 8) -> None:
        super().__init__()
        self.register_buffer("frequencies", 2 ** torch.linspace(0, 3, frequencies))
        self.enter = nn.Linear(2 + 6 * frequencies, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU())
            for _ in range(layers)
        )
        self.leave = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        # Waves of each number: a network of numbers alone is slow to learn fine detail.
        angle = (torch.cat([x, time[:, None]], dim=1)[:, :, None] * self.frequencies).flatten(1)
        y = self.enter(torch.cat([x, angle.sin(), angle.cos()], dim=1))
        for layer in self.layers:
            y = y + layer(y)
        return self.leave(y)


class Noise:
    """How much of the data and of the noise there is at each of some times (a cosine schedule)."""

    def __init__(self, times: int, device: torch.device) -> None:
        place = torch.arange(1, times + 1, device=device) / times
        self.times = times
        self.kept = (0.5 * math.pi * place).cos().square().clamp(1e-4, 0.9999)  # share of variance

    def add(self, x: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        kept = self.kept[time][:, None]
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    @torch.no_grad()
    def remove(self, model: nn.Module, x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """From pure noise back to data, one time after another."""
        for time in reversed(range(self.times)):
            kept = float(self.kept[time])
            before = float(self.kept[time - 1]) if time else 1.0
            ratio = kept / before
            noise = model(x, torch.full((len(x),), (time + 1) / self.times, device=x.device))
            data = ((x - math.sqrt(1 - kept) * noise) / math.sqrt(kept)).clamp(-3, 3)
            x = (
                math.sqrt(before) * (1 - ratio) / (1 - kept) * data
                + math.sqrt(ratio) * (1 - before) / (1 - kept) * x
            )
            spread = math.sqrt((1 - ratio) * (1 - before) / (1 - kept))
            fresh = torch.from_numpy(rng.standard_normal(tuple(x.shape), np.float32))
            x = x + spread * fresh.to(x.device)
        return x


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=2000,
        batch=(256, "points a step"),
        width=(128, "of the hidden layers"),
        layers=(3, "hidden layers"),
        times=(100, "noise levels"),
        lr=(3e-3, "AdamW's rate at the start"),
        points=(4000, "points to sample at the end"),
    )
    torch.manual_seed(options.seed)
    model = Denoiser(options.width, options.layers).to(options.device)
    noise = Noise(options.times, options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    # Samples come from an average of the weights over the last steps: they are cleaner.
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    run = Run(options, "points", model=model, optimizer=optimizer, schedule=schedule,
              average=average)  # fmt: skip

    for step in run.steps():
        rng = run.rng(step)
        draws = spirals(rng, options.batch), rng.standard_normal((options.batch, 2), np.float32)
        points, target = (torch.from_numpy(a).to(options.device) for a in draws)
        time = torch.from_numpy(rng.integers(options.times, size=options.batch)).to(options.device)
        with run.autocast():
            guess = model(noise.add(points, target, time), (time + 1) / options.times)
            loss = F.mse_loss(guess, target)
        optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.step(optimizer)
        run.scaler.update()
        schedule.step()
        average.update_parameters(model)
        run.log(loss, len(points))

    rng = np.random.default_rng(options.seed)
    start = rng.standard_normal((options.points, 2), np.float32)
    sample = noise.remove(average, torch.from_numpy(start).to(options.device), rng).cpu().numpy()
    axes = picture.Axes((-2.5, 2.5), (-2.5, 2.5), size=(640, 640), title="data pale, sample blue")
    x, y = spirals(rng, options.points).T
    axes.points(x, y, picture.PALE, radius=1.2)
    x, y = sample.T
    axes.points(x, y, picture.STRONG, radius=1.2)
    picture.write_png(options.out / "sample.png", axes.image)
    print(f"{options.points} points: {options.out / 'sample.png'}")
    return run.losses


if __name__ == "__main__":
    main()
