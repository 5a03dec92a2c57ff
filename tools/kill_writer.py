"""Kills a process that keeps saving a checkpoint, and loads what is there: over and over.

    python tools/kill_writer.py --count 200 [--seed 0] [--legacy]

The writer saves generation 1, 2, 3 ... to one path and prints each number when its save() has
returned.  After a random time it gets SIGKILL.  The file must then load, be whole (every element of
every tensor is the generation), and be the last generation that was reported or the one after.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tritorch

WRITER = """
import sys
import tritorch
path, zipped = sys.argv[1], sys.argv[2] == "zip"
generation = int(sys.argv[3])
while True:
    generation += 1
    state = {str(n): tritorch.full((1 << 15,), float(generation)) for n in range(8)}
    tritorch.save(state, path, _use_new_zipfile_serialization=zipped)
    print(generation, flush=True)
"""


def _read_generation(path: Path) -> int:
    state = tritorch.load(path)
    values = {float(value) for tensor in state.values() for value in tensor.unique()}
    if len(values) != 1 or len(state) != 8:
        raise RuntimeError(f"{path} mixes generations: {sorted(values)}")
    return int(values.pop())


def kill_writers(count: int, seed: int = 0, *, legacy: bool = False) -> dict[str, int]:
    """Kills `count` writers; RuntimeError if a checkpoint was ever lost or damaged."""
    rng = random.Random(seed)
    figures = {"kills": 0, "generations": 0, "killed within save()": 0, "most leftover files": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        generation = 0
        for _ in range(count):
            writer = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    WRITER,
                    path,
                    "legacy" if legacy else "zip",
                    str(generation),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert writer.stdout is not None
            writer.stdout.readline()  # its first save is done
            time.sleep(rng.uniform(0, 0.05))
            writer.kill()
            reported = [int(line) for line in writer.stdout.read().split()]
            writer.wait()
            last = reported[-1] if reported else generation + 1
            found = _read_generation(path)
            if found not in (last, last + 1):
                raise RuntimeError(f"generation {last} was saved, {found} is there")
            leftovers = len(list(Path(folder).iterdir())) - 1
            figures["kills"] += 1
            figures["killed within save()"] += leftovers > 0
            figures["generations"] += found - generation
            figures["most leftover files"] = max(figures["most leftover files"], leftovers)
            generation = found
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--legacy", action="store_true")
    options = parser.parse_args()
    print(kill_writers(options.count, options.seed, legacy=options.legacy))


if __name__ == "__main__":
    main()
