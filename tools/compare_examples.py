#!/usr/bin/env python3
"""Runs every example with tritorch and with PyTorch in its place, from one seed, on the CPU.

PYTHON_WITH_TORCH tools/compare_examples.py [--steps 50] [--seed 0] [NAME ...] [-- OPTION ...]

Nothing is shared but the seed: weights, data and dropout come from each library's own random
numbers. Prints by how much the losses of the first steps differ, relative to the loss or to 1 if
that is larger, and fails where that is more than 1e-4. Options after -- go to the examples.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NAMES = ("char_gpt", "cnn", "resnet", "vae", "lstm_tagger", "diffusion", "reinforce")
LIMIT = 1e-4


def losses(library: str, name: str, out: str, options: list[str]) -> None:
    """Runs an example in this process and writes its losses to out/losses.json."""
    if library == "torch":
        importlib.import_module("torch.utils.data")
        for module in [m for m in sys.modules if m.split(".")[0] == "torch"]:
            sys.modules["tri" + module] = sys.modules[module]
    sys.path.insert(0, str(EXAMPLES))
    importlib.import_module("tritorch").set_num_threads(2)
    found = importlib.import_module(name).main([*options, f"--out={out}"])
    (Path(out) / "losses.json").write_text(json.dumps(found))


def main() -> int:
    """Runs the examples and compares."""
    if sys.argv[1:2] == ["--run"]:
        losses(*sys.argv[2:5], sys.argv[5:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples (all)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    own = sys.argv[1:]
    more = own[own.index("--") + 1 :] if "--" in own else []
    options = parser.parse_args(own[: own.index("--")] if "--" in own else own)
    given = [f"--steps={options.steps}", f"--seed={options.seed}", "--device=cpu", *more]
    worst = 0.0
    for name in options.names or NAMES:
        curves, seconds = [], []
        for library in ("tritorch", "torch"):
            with tempfile.TemporaryDirectory() as out:
                start = time.monotonic()
                command = [sys.executable, __file__, "--run", library, name, out, *given]
                threads = os.environ | {"OMP_NUM_THREADS": "2"}
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=threads)
                seconds.append(time.monotonic() - start)
                curves.append(np.array(json.loads((Path(out) / "losses.json").read_text())))
        ours, theirs = curves
        apart = np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))
        worst = max(worst, float(apart.max()))
        print(
            f"{name:12} {len(ours)} steps: first loss {theirs[0]:.6f} apart {apart[0]:.1e}, last "
            f"{theirs[-1]:.6f}, at most {apart.max():.1e} at step {int(apart.argmax())} "
            f"({seconds[0]:.0f} s and {seconds[1]:.0f} s)",
            flush=True,
        )
    print(f"at most {worst:.1e}: {'fine' if worst <= LIMIT else 'too much'}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
