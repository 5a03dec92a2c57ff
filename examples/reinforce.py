"""REINFORCE on cart-pole: a network learns to balance a pole by trial and error.

    python reinforce.py --steps 150

Each step plays some episodes side by side; what an action led to, above the average of all
episodes at that moment, says whether to make it likelier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F


class CartPoles:
    """Carts on a track, each with a pole that falls over unless it is pushed left or right.

    The equations of Barto, Sutton and Anderson (1983), in steps of 20 ms.  An episode ends when the
    pole leans by more than 12 degrees or the cart is more than 2.4 m away.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    LEAN, AWAY = np.deg2rad(12), 2.4

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self.state = rng.uniform(-0.05, 0.05, (count, 4))  # place, speed, angle, turning
        self.alive = np.ones(count, bool)

    def push(self, right: Any) -> None:
        """One step of time; right (count,) says which way each cart is pushed."""
        place, speed, angle, turning = self.state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        total = self.CART + self.POLE
        force = np.where(right, self.FORCE, -self.FORCE)
        drive = (force + self.POLE * self.HALF_LENGTH * turning**2 * sine) / total
        twist = (self.GRAVITY * sine - cosine * drive) / (
            self.HALF_LENGTH * (4 / 3 - self.POLE * cosine**2 / total)
        )
        pull = drive - self.POLE * self.HALF_LENGTH * twist * cosine / total
        change = np.stack([speed, pull, turning, twist], axis=1)
        self.state = np.where(self.alive[:, None], self.state + self.DT * change, self.state)
        place, _, angle, _ = self.state.T
        self.alive &= (np.abs(place) < self.AWAY) & (np.abs(angle) < self.LEAN)


class Policy(nn.Module):
    """States (n, 4) to the logit of pushing right (n,)."""

    SCALE = (1.0, 0.5, 5.0, 0.5)  # brings the four numbers of a state to about one size

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(self.SCALE))
        self.layers = nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.layers(states * self.scale).squeeze(-1)


@torch.no_grad()
def play(
    model: Policy, rng: np.random.Generator, count: int, longest: int, device: torch.device
) -> tuple[Any, Any, Any]:
    """States, actions and whether each episode was still going: (time, count, ...)."""
    world = CartPoles(rng, count)
    states: list[np.ndarray] = []
    actions: list[np.ndarray] = []
    going: list[np.ndarray] = []
    while world.alive.any() and len(states) < longest:
        seen = world.state.astype(np.float32)
        logits = model(torch.from_numpy(seen).to(device)).float().cpu().numpy()
        right = rng.random(count) < 1 / (1 + np.exp(-logits))
        states.append(seen)
        actions.append(right)
        going.append(world.alive.copy())
        world.push(right)
    return np.stack(states), np.stack(actions), np.stack(going)


def advantages(going: Any, discount: float) -> Any:
    """How much more came after each moment than after it on average, of unit variance."""
    after = np.zeros(going.shape, np.float32)
    later = np.zeros(going.shape[1], np.float32)
    for time in reversed(range(len(going))):
        later = going[time] * (1 + discount * later)  # a reward of 1 for each step of time
        after[time] = later
    average = after.sum(1) / going.sum(1)
    above = (after - average[:, None]) * going
    return above / max(float(np.sqrt((above**2).sum() / going.sum())), 1e-6)


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=150,
        batch=(16, "episodes a step"),
        longest=(300, "moments at which an episode is stopped"),
        width=(32, "of the hidden layers"),
        lr=(1e-2, "Adam's rate"),
        discount=(0.98, "of what comes one moment later"),
    )
    torch.manual_seed(options.seed)
    model = Policy(options.width).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / options.steps))
    run = Run(options, "moments", model=model, optimizer=optimizer, schedule=schedule)

    for step in run.steps():
        played = play(model, run.rng(step), options.batch, options.longest, options.device)
        states, actions, going = played
        weights = advantages(going, options.discount)
        states, actions, weights = (
            torch.from_numpy(a.astype(np.float32)[going]).to(options.device)
            for a in (states, actions, weights)
        )
        with run.autocast():
            # The negative log likelihood of each action, weighed by what it led to.
            losses = F.binary_cross_entropy_with_logits(model(states), actions, reduction="none")
            loss = (losses * weights).mean()
        optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.step(optimizer)
        run.scaler.update()
        schedule.step()
        run.log(loss, int(going.sum()), balanced=going.sum(0).mean())

    rng = np.random.default_rng(options.seed)
    _, _, going = play(model, rng, 32, options.longest, options.device)
    lengths = going.sum(0)
    told = (
        f"32 new episodes: balanced for {lengths.mean():.0f} of {options.longest} moments on "
        f"average, the worst for {lengths.min()}"
    )
    (options.out / "sample.txt").write_text(told + "\n", encoding="utf-8")
    print(told)
    return run.losses


if __name__ == "__main__":
    main()
