"""What the examples share: options, a progress line, checkpoints that resume exactly, curves."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import picture

import tritorch as torch

# What may differ between a run and the one that resumes it.
_FREE = {"resume", "out", "device", "steps", "seconds", "save_every"}


def parse(
    doc: str | None,
    argv: Sequence[str] | None,
    *,
    steps: int,
    **more: tuple[Any, str],
) -> argparse.Namespace:
    """The options of every example, and more of its own: name=(default, help)."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    name = Path(sys.modules["__main__"].__file__ or "run").stem if argv is None else "run"
    add = parser.add_argument
    add("--device", default=default_device(), help="cpu, cuda or cuda:N (%(default)s)")
    add("--dtype", default="float32", choices=["float32", "bfloat16", "float16"],
        help="what autocast computes in (%(default)s)")  # fmt: skip
    add("--steps", type=int, default=steps, help="optimizer steps (%(default)s)")
    add(
        "--seconds",
        type=float,
        default=0.0,
        help="end after so long, if that comes before the last step (0: never)",
    )
    add("--seed", type=int, default=0, help="of data and weights (%(default)s)")
    add("--out", type=Path, default=Path("runs") / name,
        help="folder of checkpoint, curve and sample (%(default)s)")  # fmt: skip
    add("--resume", action="store_true", help="go on from the checkpoint in --out, if there is one")
    add("--save-every", type=int, default=100, help="steps between checkpoints (%(default)s)")
    for option, (default, text) in more.items():
        add(f"--{option.replace('_', '-')}", type=type(default), default=default,
            help=f"{text} (%(default)s)")  # fmt: skip
    options = parser.parse_args(argv)
    if options.steps < 1 or options.save_every < 1:
        parser.error("--steps and --save-every must be at least 1")
    if options.seconds < 0:
        parser.error("--seconds must be at least 0")
    options.device = torch.device(options.device)
    if options.device.type == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU here: try --device cpu, or TRITORCH_SIMULATE_CUDA=1")
    return options


def default_device() -> str:
    """The GPU if there is a real one."""
    simulated = getattr(torch.cuda, "is_simulated", lambda: False)
    return "cuda" if torch.cuda.is_available() and not simulated() else "cpu"


class Run:
    """The steps of a training run: reports them, saves them, and resumes where they stopped.

    `parts` are what has a state_dict: model, optimizer, schedule.  Data must depend on the seed and
    the step alone (`rng`); the random state of torch is part of the checkpoint.
    """

    def __init__(self, options: argparse.Namespace, unit: str, **parts: Any) -> None:
        self.options, self.unit = options, unit
        self.device: torch.device = options.device
        self.dtype = getattr(torch, options.dtype)
        # float16's small gradients would be zero: they are scaled up, and back before the update.
        self.scaler = torch.amp.GradScaler(
            self.device.type, init_scale=2.0**10, enabled=self.dtype is torch.float16
        )
        self.parts = parts | {"scaler": self.scaler}
        self.history: dict[str, list[float]] = {"loss": []}
        self._pending: list[Any] = []  # losses still on the device: reading one waits for it
        options.out.mkdir(parents=True, exist_ok=True)
        if options.resume and self.checkpoint.exists():
            self._load()
        done = len(self.history["loss"])
        self._progress = _Progress(done, options.steps, options.seconds, unit, self.device)

    @property
    def checkpoint(self) -> Path:
        """The file with everything that the next step depends on."""
        return self.options.out / "checkpoint.pt"

    def share(self, step: int) -> float:
        """The part of the run that is over before a step: by its number, or by the clock under
        --seconds."""
        return max(step / self.options.steps, self._progress.spent())

    @property
    def losses(self) -> list[float]:
        """The loss of every step so far."""
        self._settle()
        return self.history["loss"]

    def rng(self, step: int) -> np.random.Generator:
        """The generator for a step's data: the same whether the run was resumed or not."""
        return np.random.default_rng((self.options.seed, step))

    def autocast(self) -> Any:
        """A block whose matrix products compute in --dtype."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not torch.float32)

    def steps(self) -> Iterator[int]:
        """The numbers of the steps to do; saves as it goes, and draws the curves at the end.

        Ctrl-C lets the step end, so that what is saved is whole; a second one does not.
        """
        first, last = len(self.losses), self.options.steps
        self._progress.start()
        with _interrupts() as asked:
            for step in range(first, last):
                yield step
                stop = bool(asked)
                if not stop and self._progress.spent() >= 1:
                    break
                if stop or ((step + 1) % self.options.save_every == 0 and step + 1 < last):
                    self.save()
                if stop:
                    self._progress.close()
                    print(f"stopped after step {step + 1}; --resume goes on from {self.checkpoint}")
                    raise SystemExit(130)
        if first < last:
            self.save()
        self._progress.close()
        for name, values in self.history.items():
            path = self.options.out / f"{name}.png"
            picture.curve(path, values, f"{self.options.out.name}: {name}")
            print(f"{name} curve: {path}")

    def log(self, loss: Any, count: int, **values: float) -> None:
        """Ends a step that worked on `count` units; the values are reported and drawn too."""
        self._pending.append(loss.detach())
        for name, value in values.items():
            self.history.setdefault(name, []).append(float(value))
        if self._progress.advance(count):
            self._progress.show(self.losses[-1], values)

    def _settle(self) -> None:
        if self._pending:
            self.history["loss"] += torch.stack(self._pending).float().tolist()
            self._pending.clear()

    def save(self) -> None:
        """Writes the checkpoint; torch.save leaves the old file until the new one is whole."""
        self._settle()
        state = {
            "options": {name: str(value) for name, value in vars(self.options).items()},
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "history": self.history,
            "random": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            state["cuda random"] = torch.cuda.get_rng_state_all()
        torch.save(state, self.checkpoint)

    def _load(self) -> None:
        state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        for name, value in vars(self.options).items():
            saved = state["options"].get(name)
            if name not in _FREE and saved != str(value):
                _refuse(f"{self.checkpoint} is of a run with --{name} {saved}, not {value}")
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        self.history = state["history"]
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda" and "cuda random" in state:
            torch.cuda.set_rng_state_all(state["cuda random"])
        print(f"resumed after step {len(self.history['loss'])} from {self.checkpoint}")


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Within it, the first Ctrl-C is only noted in the list."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _refuse(why: str) -> NoReturn:
    sys.exit(f"error: {why}")


class _Progress:
    """One line: rewritten in a terminal; elsewhere a new one now and then."""

    BAR = 20

    def __init__(
        self, done: int, total: int, seconds: float, unit: str, device: torch.device
    ) -> None:
        self.done, self.total, self.unit, self.device = done, total, unit, device
        self.seconds = seconds
        self.warm: float | None = None  # when the first step ended: it may have compiled
        self.terminal = sys.stdout.isatty()
        self.every = 0.2 if self.terminal else 5.0
        self.width = 0

    def start(self) -> None:
        now = time.perf_counter()
        self.began = self.shown = now
        self.first = self.done
        self.counted = self.since = 0  # units in all but the first step; steps since the last line
        self.warm = None

    def spent(self) -> float:
        """The share of the seconds that is spent; the first step does not count."""
        if not self.seconds or self.warm is None:
            return 0.0
        return (time.perf_counter() - self.warm) / self.seconds

    def advance(self, count: int) -> bool:
        """Notes a step; whether it is to be shown."""
        now = time.perf_counter()
        self.done += 1
        self.since += 1
        if self.warm is None:
            self.warm = now
        else:
            self.counted += count
        due = now - self.shown >= self.every
        return due or self.done in (self.first + 1, self.total)

    def show(self, loss: float, values: dict[str, float]) -> None:
        """Writes the line."""
        now = time.perf_counter()
        step_time = (now - self.shown) / self.since
        self.shown, self.since = now, 0
        assert self.warm is not None
        steps = self.done - self.first - 1
        rate = self.counted / (now - self.warm) if steps else 0.0
        left = (self.total - self.done) * ((now - self.warm) / steps if steps else step_time)
        over = max(self.done / self.total, self.spent())
        if self.seconds:
            left = min(left, max(0.0, 1 - self.spent()) * self.seconds)
        full = min(self.BAR, int(self.BAR * over))
        of = f"/{self.total}" if not self.seconds else ""
        parts = [
            f"{self.done:>{len(str(self.total))}}{of}",
            f"loss {loss:.4f}",
            *(f"{name} {value:.4g}" for name, value in values.items()),
            f"{step_time * 1e3:.3g} ms/step" if step_time < 1 else f"{step_time:.3g} s/step",
            f"{_short(rate)} {self.unit}/s" if rate else f"- {self.unit}/s",
            f"{memory(self.device) / 1e6:.0f} MB",
            f"{int(left) // 60}:{int(left) % 60:02} left",
        ]
        line = f"[{'=' * full}{' ' * (self.BAR - full)}] " + "  ".join(parts)
        if self.terminal:
            columns = os.get_terminal_size().columns - 1
            line = line[:columns]
            sys.stdout.write("\r" + line.ljust(min(self.width, columns)))
            self.width = len(line)
        else:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        if self.terminal and self.width:
            sys.stdout.write("\n")
        done, now = self.done - self.first, time.perf_counter()
        if done > 1 and self.warm is not None:
            spent = now - self.warm
            each = spent / (done - 1) * 1e3
            print(
                f"{done} steps in {now - self.began:.1f} s: {each:.1f} ms/step, "
                f"{_short(self.counted / spent)} {self.unit}/s, {memory(self.device) / 1e6:.0f} MB"
            )


def memory(device: torch.device) -> float:
    """Bytes: the most that tensors took on a GPU, what the process holds otherwise."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    with open("/proc/self/statm") as file:
        return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _short(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"
