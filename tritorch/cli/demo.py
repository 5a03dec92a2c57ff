"""`python -m tritorch demo`: what works here, a Triton kernel, and a GPT that learns to write.

The kernel runs on the GPU if there is one, else on the simulated device; the GPT trains on the GPU
or on the CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path

import numpy as np

from tritorch.cli import commands

MOST_STEPS = 6000


def main(argv: list[str] | None = None) -> int:
    """Runs the demo; the exit status: 0 if the kernel's result is right."""
    parser = commands.Parser(
        prog="python -m tritorch demo",
        description="Report what works here, check a Triton kernel against NumPy, and train a "
        "character GPT (tritorch/examples/char_gpt.py) for about a minute.",
    )
    parser.add_argument("-n", type=int, help="elements to add (100,000; on a GPU 100 million)")
    parser.add_argument(
        "--steps", type=int, help="training steps, however long they take; 0: no training"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0,
        help="how long to train where --steps is not given (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--device", help="where to train: cpu or cuda (the GPU if there is one)")
    parser.add_argument(
        "--out", type=Path, default=Path("tritorch-demo"), help="folder for results (%(default)s)"
    )
    options = parser.parse_args(argv)
    if options.steps is None and not options.seconds > 0:
        parser.error("--seconds must be more than 0")
    try:
        commands.folder(options.out)
    except commands.Refused as error:
        parser.error(f"--out {error}")

    from tritorch.cli import doctor

    sections = doctor.examine()
    print(doctor.render(sections))
    if not doctor.can_run(sections):
        return 1
    # The choice is made before anything touches CUDA: the driver is loaded once a process.
    if not any(f.name.startswith("GPU ") for f in sections["GPU"]):
        os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")
    right = _check_kernel(options.n)
    if options.steps is None or options.steps > 0:
        _train(options)
    return 0 if right else 1


def _check_kernel(n: int | None) -> bool:
    """Adds two vectors by a Triton kernel; whether the sum is NumPy's."""
    import tritorch
    import tritorch.cli.demo_kernels as kernels

    n = n or (100_000 if tritorch.cuda.is_simulated() else 100_000_000)
    print(f"\nAdding {n:,} float32 numbers on {tritorch.cuda.get_device_name()}")
    rng = np.random.default_rng(0)
    x_host, y_host = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    x, y = tritorch.cuda.from_numpy(x_host), tritorch.cuda.from_numpy(y_host)
    out = tritorch.cuda.empty(n, dtype=tritorch.float32)

    def launch() -> float:
        """Seconds until the sum is there."""
        start = time.perf_counter()
        kernels.add[((n + 1023) // 1024,)](x, y, out, n, BLOCK=1024)
        tritorch.cuda.synchronize()
        return time.perf_counter() - start

    first, second = launch(), launch()
    right = bool((out.numpy() == x_host + y_host).all())
    print(
        f"  first launch, compilation included: {first * 1e3:.1f} ms; second: {second * 1e3:.3f} ms"
    )
    print(f"  the result {'equals' if right else 'DIFFERS FROM'} NumPy's; memory on the device:\n")
    print(tritorch.cuda.memory_summary(abbreviated=True))
    return right


def _train(options: argparse.Namespace) -> None:
    """Runs examples/char_gpt.py as a script would run: its folder is where its imports are."""
    found = importlib.util.find_spec("tritorch.examples")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent
    print(f"\nTraining a character GPT: {folder / 'char_gpt.py'}")
    sys.path.insert(0, str(folder))
    arguments = [f"--out={options.out}", "--save-every=1000"]
    if options.steps is None:  # as many as there is time for, but no more than the text teaches
        arguments += [f"--seconds={options.seconds}", f"--steps={MOST_STEPS}"]
    else:
        arguments.append(f"--steps={options.steps}")
    if options.device:
        arguments.append(f"--device={options.device}")
    importlib.import_module("char_gpt").main(arguments)
