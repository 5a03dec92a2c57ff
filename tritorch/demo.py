"""`python -m tritorch demo`: the doctor's report, then a Triton kernel on tritorch's arrays.

It runs on the GPU if there is one, else on the simulated device.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np


def main(argv: list[str] | None = None) -> int:
    """Runs the demo; the exit status: 0 if the kernel's result is right."""
    parser = argparse.ArgumentParser(
        prog="python -m tritorch demo",
        description="Add two vectors with a Triton kernel and check the result against NumPy.",
    )
    parser.add_argument("-n", type=int, help="elements (100,000; on a GPU 100 million)")
    options = parser.parse_args(argv)

    from tritorch import _doctor

    sections = _doctor.examine()
    print(_doctor.render(sections))
    if not _doctor.can_run(sections):
        return 1
    # The choice is made before anything touches CUDA: the driver is loaded once a process.
    if not any(f.name.startswith("GPU ") for f in sections["GPU"]):
        os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "1")

    import tritorch
    import tritorch._demo_kernels as kernels

    n = options.n or (100_000 if tritorch.cuda.is_simulated() else 100_000_000)
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
    print(f"  the result {'equals' if right else 'DIFFERS FROM'} NumPy's\n")
    print(tritorch.cuda.memory_summary())
    return 0 if right else 1
