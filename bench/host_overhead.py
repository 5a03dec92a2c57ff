"""What the host pays: import, launches, arrays, operators.  Needs no GPU.

    python bench/host_overhead.py [--torch-python PATH] [--json [PATH]] [--device cuda]

The driver's launch is stubbed (the simulated device accepts each launch and discards it), so that
a launch costs what tritorch and Python cost.  With `--device cuda` everything is the GPU's own, and
the bandwidth of copies is measured too.  PyTorch's figures, on the CPU, stand beside ours when
`--torch-python` names an interpreter that has torch, or this one has it; it always runs in
processes of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tritorch.bench import machine

RESULTS = Path(__file__).parent / "results"
IMPORT_BUDGET = 0.15  # of torch's time
LAUNCH_AIM_US = 2.0  # from Python, three arrays

_TIME_IMPORT = """
import time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""

_TORCH_ARRAYS = """
import json, torch
from torch.utils.benchmark import Timer
x = torch.empty(64, 64)
cases = {cases!r}
print(json.dumps({{
    name: Timer(code, globals={{"x": x}}).blocked_autorange(min_run_time=0.5).median * 1e6
    for name, code in cases.items()
}}))
"""

# What is done with arrays; the same Python on both sides, but for the module's name.
ARRAY_CASES = {
    "allocate and free 4 KiB": "{m}.empty(1024)",
    "allocate and free 64 MiB": "{m}.empty(16777216)",
    "slice x[1:-1]": "x[1:-1]",
    "transpose x.transpose(0, 1)": "x.transpose(0, 1)",
    "reshape to a view": "x.reshape(4096)",
}


def run(python: str, code: str, **environment: str) -> str:
    """The last line that code prints in a fresh interpreter."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        env={**inherited, **environment},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{python} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip().splitlines()[-1]


def find_torch(asked: str | None) -> str | None:
    """An interpreter that has torch, or None."""
    python = asked or sys.executable
    code = "import importlib.util as u; print(u.find_spec('torch') is not None)"
    if run(python, code) == "True":
        return python
    if asked:
        raise SystemExit(f"{asked} has no torch")
    return None


def measure_imports(torch: str | None, rounds: int) -> dict[str, Any]:
    """Seconds to import, medians over fresh interpreters, the modules in turn."""
    subjects = {"numpy": sys.executable, "tritorch": sys.executable}
    if torch:
        subjects["torch"] = torch
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for i in range(rounds + 1):
        for name, python in subjects.items():
            taken = float(run(python, _TIME_IMPORT.format(module=name)))
            if i:  # the first round fills the page cache and writes .pyc files
                times[name].append(taken)
    result: dict[str, Any] = {
        f"{name}_ms": statistics.median(taken) * 1e3 for name, taken in times.items()
    }
    if torch:
        result["ratio_to_torch"] = result["tritorch_ms"] / result["torch_ms"]
        result["budget"] = IMPORT_BUDGET
    return result


def check_what_import_loads() -> dict[str, bool]:
    """Whether `import tritorch` loads Triton or the CUDA driver."""
    code = (
        "import json, sys, tritorch; maps = open('/proc/self/maps').read(); "
        "print(json.dumps({'loads_triton': 'triton' in sys.modules, "
        "'loads_libcuda': 'libcuda' in maps}))"
    )
    return json.loads(run(sys.executable, code))


def measure_launches() -> dict[str, float]:
    """Microseconds a launch of a three-array kernel, through tritorch and through Triton."""
    import numpy as np

    import tritorch
    from tritorch.cli import demo_kernels
    from tritorch.triton.kernel import wrap
    from tritorch.utils.benchmark import Timer

    n = 4096
    x = tritorch.cuda.from_numpy(np.zeros(n, np.float32))
    names = {
        "own": wrap(demo_kernels.add),
        "add": demo_kernels.add,
        "grid": (n // 1024,),
        "x": x,
        "y": tritorch.cuda.empty(n),
        "out": tritorch.cuda.empty(n),
        "n": n,
    }
    statements = {
        "tritorch's own path": "own(grid, x, y, out, n, BLOCK=1024)",
        "kernel[grid](...) through Triton": "add[grid](x, y, out, n, BLOCK=1024)",
    }
    for (
        code
    ) in statements.values():  # a first launch compiles, which would fool the timer's estimate
        exec(code, names)
    return {
        name: Timer(code, globals=names).blocked_autorange(min_run_time=1).median * 1e6
        for name, code in statements.items()
    }


def measure_arrays() -> dict[str, float]:
    """Microseconds of what is done with arrays besides computing."""
    import tritorch
    from tritorch.utils.benchmark import Timer

    x = tritorch.cuda.empty(64, 64)
    return {
        name: Timer(code.format(m="tritorch.cuda"), globals={"x": x})
        .blocked_autorange(min_run_time=0.5)
        .median
        * 1e6
        for name, code in ARRAY_CASES.items()
    }


def measure_torch_arrays(python: str) -> dict[str, float]:
    """The same in PyTorch, on the CPU."""
    cases = {name: code.format(m="torch") for name, code in ARRAY_CASES.items()}
    return json.loads(run(python, _TORCH_ARRAYS.format(cases=cases)))


def measure_bandwidth() -> dict[str, float]:
    """GB/s, bytes read and bytes written, of copies and fills of 512 MiB on the GPU."""
    import numpy as np

    import tritorch
    from tritorch.utils.benchmark import do_bench

    rows, cols = 8192, 16384
    random = np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32)
    x, y = tritorch.cuda.from_numpy(random), tritorch.cuda.empty(rows, cols)
    narrow = tritorch.cuda.empty(rows, cols, dtype=tritorch.float16)
    cases = {
        "dense copy (the driver's)": (lambda: y.copy_(x), 8),
        "strided copy, every other row": (lambda: y[::2].copy_(x[1::2]), 4),
        "transposed copy": (lambda: y.view(cols, rows).copy_(x.transpose(0, 1)), 8),
        "float32 to float16": (lambda: narrow.copy_(x), 6),
        "fill": (lambda: y.fill_(1.5), 4),
    }
    return {
        name: rows * cols * bytes_each / do_bench(fn, return_mode="median") / 1e6
        for name, (fn, bytes_each) in cases.items()
    }


def measure_operators(torch: str | None, device: str) -> dict[str, Any]:
    """bench/operator_overhead.py in a process of its own, beside torch where it has both."""
    both = "import importlib.util as u; print(all(map(u.find_spec, ('torch', 'tritorch'))))"
    python = torch if torch and run(torch, both) == "True" else sys.executable
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [python, Path(__file__).with_name("operator_overhead.py"), "--device", device]
        subprocess.run([*command, "--json", file.name], check=True)
        return json.load(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch-python", metavar="PATH", help="an interpreter that has torch")
    parser.add_argument("--rounds", type=int, default=11, help="fresh interpreters a module")
    parser.add_argument(
        "--json", nargs="?", const=str(RESULTS / "host_overhead.json"), metavar="PATH",
        help="write the results too (default: bench/results/host_overhead.json)",
    )  # fmt: skip
    parser.add_argument("--device", choices=("stub", "cuda"), default="stub")
    options = parser.parse_args()

    torch = find_torch(options.torch_python)
    imports = measure_imports(torch, options.rounds)
    loads = check_what_import_loads()
    torch_arrays = measure_torch_arrays(torch) if torch else {}
    torch_version = run(torch, "import torch; print(torch.__version__)") if torch else None

    operators = {
        "cpu": measure_operators(torch, "cpu"),
        options.device: measure_operators(None, options.device),
    }

    # From here on in this process; read once, when the driver is first used.  Poisoned memory would
    # be filled at each allocation and free.
    stubbed = options.device == "stub"
    os.environ["TRITORCH_SIMULATE_CUDA"] = "discard_launches=1,poison=0" if stubbed else "0"
    launches, arrays = measure_launches(), measure_arrays()
    bandwidth = {} if stubbed else measure_bandwidth()
    where = {**machine.describe("cpu" if stubbed else "cuda"), "torch": torch_version}

    print(f"{where['cpu']}, {where['cores']} cores, Python {where['python']}, ", end="")
    print(f"NumPy {where['numpy']}, Triton {where['triton']}, torch {torch_version or 'not found'}")
    print("\nImport, ms, medians of fresh interpreters")
    for name in ("numpy", "tritorch", "torch"):
        if f"{name}_ms" in imports:
            print(f"  {name:34}{imports[f'{name}_ms']:10.1f}")
    if torch:
        ratio = imports["ratio_to_torch"]
        verdict = "within" if ratio <= IMPORT_BUDGET else "OVER"
        print(f"  {'tritorch / torch':34}{ratio:10.3f}  {verdict} the budget of {IMPORT_BUDGET}")
    for name in ("triton", "libcuda"):
        print(f"  import tritorch loads {name:12}{'YES' if loads[f'loads_{name}'] else 'no':>10}")
    how = "the driver's launch stubbed" if stubbed else f"on {where['gpu']}"
    print(f"\nOne launch, three arrays, {how}, us")
    for name, taken in launches.items():
        print(f"  {name:34}{taken:10.2f}")
    aim = "met" if launches["tritorch's own path"] <= LAUNCH_AIM_US else "MISSED"
    print(f"  the aim of {LAUNCH_AIM_US} us on our own path is {aim}")
    print(f"\nArrays, us{'tritorch':>34}{'torch (CPU)':>14}")
    for name, taken in arrays.items():
        peer = f"{torch_arrays[name]:14.2f}" if name in torch_arrays else f"{'-':>14}"
        print(f"  {name:34}{taken:8.2f}{peer}")
    if bandwidth:
        print("\nBandwidth, GB/s")
        for name, rate in bandwidth.items():
            print(f"  {name:34}{rate:10.0f}")

    if options.json:
        report = {
            "machine": where,
            "import": {**imports, **loads},
            "launch_us": launches,
            "arrays_us": arrays,
            "torch_cpu_arrays_us": torch_arrays,
            "bandwidth_gb_s": bandwidth,
            "operators_us": operators,
        }
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
        print(f"\nWritten to {options.json}")


if __name__ == "__main__":
    main()
