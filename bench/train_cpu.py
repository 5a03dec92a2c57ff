"""Whole training steps on the CPU, beside PyTorch with as many threads.

    python bench/train_cpu.py [--threads 2] [--rounds 9] [--json [PATH]] [--only NAME ...]

Each library runs in a process of its own, one of which is stopped while the other is timed, so that
neither's waiting threads take the other's cores.  Rounds are interleaved; a figure is the median of
the rounds, a ratio the median of the rounds' ratios.  Models get the same weights and data
(NumPy's, from one seed), and the losses of the first steps are compared.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "train_cpu.json"
PRESCRIBED = ("OPENBLAS_CORETYPE", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
SECONDS = 0.4  # a round of one case takes at least so long
Step = Callable[[], Any]


# ---- the programs: the same source for both libraries --------------------------------------------


def mlp(torch: Any, random: Any) -> tuple[Any, Any, Step]:
    """784-512-256-10, batch 128."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    x, y = floats(torch, random, 128, 784), labels(torch, random, 10, 128)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def cnn(torch: Any, random: Any) -> tuple[Any, Any, Step]:
    """Three convolutions with batch norm on 3x32x32 images, batch 64."""
    nn = torch.nn

    def block(inputs: int, outputs: int) -> list[Any]:
        return [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(), nn.MaxPool2d(2),
        ]  # fmt: skip

    model = nn.Sequential(
        *block(3, 32), *block(32, 64), *block(64, 64), nn.Flatten(), nn.Linear(64 * 16, 10)
    )
    x, y = floats(torch, random, 64, 3, 32, 32), labels(torch, random, 10, 64)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def transformer(torch: Any, random: Any) -> tuple[Any, Any, Step]:
    """A classifier on nn.TransformerEncoder: 2 layers, width 128, 64 tokens, batch 16."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.ModuleDict({"encoder": nn.TransformerEncoder(layer, 2), "head": nn.Linear(128, 10)})
    x, y = floats(torch, random, 16, 64, 128), labels(torch, random, 10, 16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def loss() -> Any:
        return nn.functional.cross_entropy(model["head"](model["encoder"](x).mean(1)), y)

    return model, optimizer, loss


def lstm(torch: Any, random: Any) -> tuple[Any, Any, Step]:
    """A tagger: embedding, a bidirectional LSTM of width 128, 32 words, batch 32."""
    nn = torch.nn
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(1000, 64),
            "lstm": nn.LSTM(64, 128, bidirectional=True),
            "head": nn.Linear(256, 20),
        }
    )
    x, y = labels(torch, random, 1000, 32, 32), labels(torch, random, 20, 32 * 32)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def loss() -> Any:
        hidden, _ = model["lstm"](model["embedding"](x))
        return nn.functional.cross_entropy(model["head"](hidden).view(-1, 20), y)

    return model, optimizer, loss


def gpt(torch: Any, random: Any) -> tuple[Any, Any, Step]:
    """A character GPT: 4 layers, width 128, 64 characters, batch 16, gradients clipped."""
    nn = torch.nn
    F = nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(128), nn.LayerNorm(128)
            self.qkv, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            q, k, v = (
                part.view(batch, time, 4, 32).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(65, 128), nn.Embedding(64, 128)
            self.blocks = nn.ModuleList([Block() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 65, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = GPT()
    x, y = labels(torch, random, 65, 16, 64), labels(torch, random, 65, 16, 64)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def loss() -> Any:
        return F.cross_entropy(model(x).view(-1, 65), y.view(-1))

    return model, optimizer, loss


PROGRAMS = {each.__name__: each for each in (mlp, cnn, transformer, lstm, gpt)}
CLIPPED = {"gpt"}


def floats(torch: Any, random: Any, *shape: int) -> Any:
    """Normal numbers."""
    return torch.from_numpy(random.standard_normal(shape, "float32"))


def labels(torch: Any, random: Any, high: int, *shape: int) -> Any:
    """Whole numbers below `high`."""
    return torch.from_numpy(random.integers(0, high, shape))


# ---- one library's process -----------------------------------------------------------------------


def trainer(torch: Any, name: str) -> Callable[[], float]:
    """A function that makes one training step and returns its loss."""
    import numpy as np

    random = np.random.default_rng(0)
    model, optimizer, loss_of = PROGRAMS[name](torch, random)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() > 1:
                bound = math.sqrt(1 / math.prod(p.shape[1:]))
                p.copy_(torch.from_numpy(random.uniform(-bound, bound, p.shape).astype("float32")))
            elif "bias" in key:
                p.zero_()

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if name in CLIPPED:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def serve(library: str, threads: int) -> None:
    """Answers requests, one JSON a line: {"case", "seconds"} or {"case", "steps"}."""
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    steps: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["case"]
        if name not in steps:
            steps[name] = trainer(torch, name)
        step, count = steps[name], 0
        start = time.perf_counter()
        while count < request["steps"]:
            loss = step()
            count += 1
        taken = time.perf_counter() - start
        print(json.dumps({"ms": taken / count * 1e3, "loss": loss}), flush=True)


class Library:
    """A process that trains with one library; stopped between requests."""

    def __init__(self, name: str, python: str, threads: int, script: str = __file__) -> None:
        number = str(threads)
        limits = {"OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number,
                  "MKL_NUM_THREADS": number}  # fmt: skip
        # What a machine may prescribe to keep results reproducible holds a library back.
        inherited = {k: v for k, v in os.environ.items() if k not in PRESCRIBED}
        self.name = name
        self.process = subprocess.Popen(
            [python, script, "--serve", name, "--threads", number],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=inherited | limits,
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: see above")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


# ---- the report ----------------------------------------------------------------------------------


def measure(libraries: list[Library], name: str, rounds: int) -> dict[str, Any]:
    """Milliseconds a step by library, and ours over torch's."""
    first = [each.ask(case=name, steps=3)["loss"] for each in libraries]  # what is made once
    needed = [each.ask(case=name, steps=2)["ms"] for each in libraries]
    steps = max(int(SECONDS * 1e3 / max(needed)), 2)
    taken: list[list[float]] = [
        [each.ask(case=name, steps=steps)["ms"] for each in libraries] for _ in range(rounds)
    ]
    row: dict[str, Any] = {
        each.name: statistics.median(column) for each, column in zip(libraries, zip(*taken))
    }
    if len(libraries) == 2:
        row["ratio"] = statistics.median(ours / theirs for ours, theirs in taken)
        row["loss"] = first
        if not math.isclose(*first, rel_tol=1e-3):
            raise AssertionError(f"{name}: the libraries' losses differ: {first}")
    return row


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", nargs="?", const=RESULTS, type=Path)
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    names = ["tritorch"] + (["torch"] if importlib.util.find_spec("torch") else [])
    libraries = [Library(name, sys.executable, options.threads) for name in names]
    try:
        report = {name: measure(libraries, name, options.rounds) for name in options.only}
    finally:
        for each in libraries:
            each.close()
    for name, row in report.items():
        texts = [f"{each} {row[each]:7.2f} ms" for each in names]
        texts += [f"ratio {row['ratio']:.2f}"] if "ratio" in row else []
        print(f"{name:12} {'  '.join(texts)}")
    whole: dict[str, Any] = {"cases": report, "threads": options.threads}
    if len(names) == 2:
        whole["geometric mean of ratios"] = statistics.geometric_mean(
            row["ratio"] for row in report.values()
        )
        print(f"geometric mean of ratios: {whole['geometric mean of ratios']:.2f}")
    if options.json:
        whole["machine"] = {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
        }
        options.json.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
