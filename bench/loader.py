"""What a DataLoader costs: samples a second, beside PyTorch's.

    python bench/loader.py [--torch-python PATH] [--rounds N] [--json [PATH]] [--tasks NAME ...]

The same program runs with either library in a process of its own, in turn, and the medians over the
rounds are compared.  Tasks: a dataset of small tensors (`small`: 16 floats and a label), of images
(`image`: 3x64x64 floats, computed), a TensorDataset (`rows`), and starting workers (`start`).
PyTorch has no thread mode: its worker processes stand beside ours.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from host_overhead import RESULTS, find_torch

from tritorch.bench import machine

TASKS = ("small", "image", "rows", "start")
WORKERS = ("0", "2", "2 threads")
SMALL, IMAGES = 20_000, 2_000
BATCH = 64


def _dataset(torch: Any, task: str) -> Any:
    base = torch.utils.data.Dataset

    class Small(base):
        def __init__(self) -> None:
            self.x, self.y = torch.randn(SMALL, 16), torch.arange(SMALL)

        def __len__(self) -> int:
            return SMALL

        def __getitem__(self, i: int) -> Any:
            return self.x[i], self.y[i]

    class Image(base):
        def __init__(self) -> None:
            self.raw = torch.randint(0, 256, (100, 3, 64, 64), dtype=torch.uint8)

        def __len__(self) -> int:
            return IMAGES

        def __getitem__(self, i: int) -> Any:
            return self.raw[i % 100].float() / 255, i

    if task == "rows":
        small = Small()
        return torch.utils.data.TensorDataset(small.x, small.y)
    return {"small": Small, "image": Image, "start": Small}[task]()


def measure(library: str, task: str, workers: str) -> float:
    """Samples a second of the second epoch, when workers exist; or seconds to start."""
    torch: Any = importlib.import_module(library)
    importlib.import_module(f"{library}.utils.data")
    dataset = _dataset(torch, task)
    count, threads = int(workers.split()[0]), "threads" in workers and library == "tritorch"
    options: dict[str, Any] = {"num_workers": count, "batch_size": BATCH, "shuffle": True}
    if threads:
        options["multiprocessing_context"] = "thread"
    if task == "start":
        loader = torch.utils.data.DataLoader(dataset, **options)
        start = time.perf_counter()
        next(iter(loader))
        return time.perf_counter() - start
    loader = torch.utils.data.DataLoader(dataset, persistent_workers=count > 0, **options)
    seen = sum(len(y) for _, y in loader)
    start = time.perf_counter()
    seen = sum(len(y) for _, y in loader)
    return seen / (time.perf_counter() - start)


def _run(python: str, *arguments: str) -> float:
    done = subprocess.run(
        [python, __file__, "--measure", *arguments],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{python} failed: {done.stderr.strip()[-1000:]}")
    return float(done.stdout.split()[-1])


def compare(torch: str | None, tasks: list[str], rounds: int) -> dict[str, Any]:
    """Medians of both, and the ratio (above 1: ours is faster)."""
    found: dict[str, Any] = {}
    for task in tasks:
        for workers in WORKERS[task == "start" :]:
            times: dict[str, list[float]] = {"tritorch": [], "torch": []}
            for _ in range(rounds):
                times["tritorch"].append(_run(sys.executable, "tritorch", task, workers))
                if torch:
                    times["torch"].append(_run(torch, "torch", task, workers))
            medians = {name: statistics.median(taken) for name, taken in times.items() if taken}
            unit = "seconds" if task == "start" else "samples/s"
            line = f"{task:6} {workers:10}" + "".join(
                f"  {name} {value:10.4g} {unit}" for name, value in medians.items()
            )
            if torch:
                ratio = medians["tritorch"] / medians["torch"]
                medians["ratio"] = 1 / ratio if task == "start" else ratio
                line += f"  ratio {medians['ratio']:.2f}"
            print(line, flush=True)
            found[f"{task}, {workers} workers"] = medians
    return found


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["--measure"]:
        print(measure(*sys.argv[2:5]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", help="an interpreter that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--json", nargs="?", const=str(RESULTS / "loader.json"))
    options = parser.parse_args()
    found = compare(find_torch(options.torch_python), options.tasks, options.rounds)
    if options.json:
        where = {"machine": machine.cpu_name(), "cores": len(os.sched_getaffinity(0))}
        Path(options.json).write_text(json.dumps({**where, "results": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
