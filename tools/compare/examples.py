#!/usr/bin/env python3
"""Runs every example with tritorch and with PyTorch in its place, from one seed, on the CPU.

PYTHON_WITH_TORCH tools/compare/examples.py [--steps 50] [--seed 0] [--small] [--double] [NAME ...]

Nothing is shared but the seed: weights, data and dropout come from each library's own random
numbers. Prints by how much the losses of the first steps differ, relative to the loss or to 1 if
that is larger, and fails where that is more than 1e-4.

In float32 a difference of 1e-7, from sums in another order, grows a thousandfold and more within 50
steps of some of them; `--double` computes in float64, where only a difference of meaning is seen.
`--small` takes the sizes of the tests.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "record"))
from recording import parser

from tests.programs.curves import CASES, EXAMPLES

LIMIT = 1e-4


def compute_in_float64(torch: Any) -> None:
    """Makes weights of float64, and what comes from NumPy."""
    torch.set_default_dtype(torch.float64)
    take = torch.from_numpy
    torch.from_numpy = lambda a: take(a.astype(np.float64) if a.dtype == np.float32 else a)


def losses(library: str, double: str, name: str, out: str, options: list[str]) -> None:
    """Runs an example in this process and writes its losses to out/losses.json."""
    if library == "torch":
        importlib.import_module("torch.utils.data")
        for module in [m for m in sys.modules if m.split(".")[0] == "torch"]:
            sys.modules["tri" + module] = sys.modules[module]
    sys.path.insert(0, str(EXAMPLES))
    torch = importlib.import_module("tritorch")
    torch.set_num_threads(2)
    if double == "double":
        compute_in_float64(torch)
    found = importlib.import_module(name).main([*options, f"--out={out}"])
    (Path(out) / "losses.json").write_text(json.dumps(found))


def main() -> int:
    """Runs the examples and compares."""
    if sys.argv[1:2] == ["--run"]:
        losses(*sys.argv[2:6], sys.argv[6:])
        return 0
    known = parser(__doc__)
    known.add_argument("names", nargs="*", metavar="NAME", help="examples (all)")
    known.add_argument("--steps", type=int, default=50)
    known.add_argument("--seed", type=int, default=0)
    known.add_argument("--small", action="store_true")
    known.add_argument("--double", action="store_true")
    options = known.parse_args()
    given = [f"--steps={options.steps}", f"--seed={options.seed}", "--device=cpu"]
    kind = "double" if options.double else "float"
    worst = 0.0
    for name in options.names or CASES:
        curves, seconds = [], []
        for library in ("tritorch", "torch"):
            with tempfile.TemporaryDirectory() as out:
                start = time.monotonic()
                more = CASES[name][1].split() if options.small else []
                command = [sys.executable, __file__, "--run", library, kind, name, out]
                threads = os.environ | {"OMP_NUM_THREADS": "2"}
                subprocess.run(
                    [*command, *given, *more], check=True, stdout=subprocess.DEVNULL, env=threads
                )
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
