"""What the kernels behind the benchmarks take of a GPU, compiled where there is none.

# Note [Tracing launches]
A process of its own calls every benchmark once, at its size for a GPU, on the simulated device with
launches discarded; memory is never touched.  What would be compiled is noted, with the very types,
constants, tiles and options of the launch, and then compiled for real targets.  Tiles that depend
on the device are those for the simulated one, an H100.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tritorch.bench import supply
from tritorch.bench.declare import Benchmark, Kit

DISCARDING = "discard_launches=1,poison=0,memory=512G"
SECONDS = 180.0  # for compiling, unless said
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class Launch(NamedTuple):
    """A kernel as it was to be compiled, and the benchmark that launched it first."""

    benchmark: str
    function: Any
    signature: dict[str, Any]
    constants: dict[Any, Any]
    options: Any
    attributes: Any

    @property
    def name(self) -> str:
        """The kernel's file and name."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"


def launches(benchmarks: Sequence[Benchmark]) -> tuple[list[Launch], dict[str, str]]:
    """What the benchmarks launch that was not launched before, and which of them failed."""
    import triton.runtime.driver  # noqa: F401  (makes our driver the active one)

    import tritorch
    from tritorch._triton import interpret

    found: list[Launch] = []
    failed: dict[str, str] = {}
    current = ""
    interpret.on_compile = lambda *what: found.append(Launch(current, *what))
    try:
        for benchmark in benchmarks:
            if benchmark.clock == "self":  # runs in processes of its own
                continue
            current = benchmark.key
            try:
                inputs = supply.empty(tritorch, benchmark, "cuda")
                benchmark.prepared(Kit(tritorch, "cuda", inputs))()
                tritorch.cuda.synchronize()
            except Exception as error:
                failed[current] = f"{type(error).__name__}: {error}"[:300]
            inputs = {}
    finally:
        interpret.on_compile = None
    return found, failed


def compile_for(launch: Launch, target: int) -> dict[str, Any]:
    """Registers, stack, spilled bytes, shared memory and instructions on one target."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tritorch._triton.resources import instructions, resources, spilled_bytes

    source = ASTSource(launch.function, launch.signature, launch.constants, launch.attributes)
    options = {name: getattr(launch.options, name) for name in OPTIONS}
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    taken = resources(compiled.asm["cubin"])
    return {
        "registers": taken.registers,
        "stack": taken.stack,
        "spilled": spilled_bytes(compiled.asm["ptx"]) if taken.stack else 0,
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "instructions": instructions(compiled.asm["ptx"]),
    }


def _types(launch: Launch) -> str:
    pointers = [kind for kind in launch.signature.values() if str(kind).startswith("*")]
    return ", ".join(dict.fromkeys(kind[1:] for kind in pointers))


def _constants(launch: Launch) -> dict[str, Any]:
    names = launch.function.arg_names
    found = {}
    for path, value in launch.constants.items():
        if len(path) == 1 and names[path[0]].isupper():
            found[names[path[0]]] = getattr(value, "__name__", value)
    return {key: value for key, value in found.items() if isinstance(value, (int, str, bool))}


def _row(index: int) -> dict[str, Any]:
    """One traced kernel, compiled for all targets; in a forked process."""
    launch, (targets, ends) = _work[index], _terms
    row: dict[str, Any] = {
        "kernel": launch.name, "benchmark": launch.benchmark, "types": _types(launch),
        "constants": _constants(launch), "compiled": {},
    }  # fmt: skip
    for target in targets:
        if time.monotonic() > ends:
            break
        try:
            row["compiled"][str(target)] = compile_for(launch, target)
        except Exception as error:
            row["compiled"][str(target)] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return row


# What forked processes find; a jit function cannot be sent.
_work: list[Launch] = []
_terms: tuple[Sequence[int], float] = ((), 0.0)


def trace(
    benchmarks: Sequence[Benchmark], path: Path, targets: Sequence[int], seconds: float
) -> None:
    """Traces, compiles for so many seconds on all processors, and writes the report."""
    global _terms
    ends = time.monotonic() + seconds
    found, failed = launches(benchmarks)
    _work[:], _terms = found, (targets, ends)
    jobs = min(len(os.sched_getaffinity(0)), len(found))
    if jobs > 1:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            rows = pool.map(_row, range(len(found)), chunksize=1)
    else:
        rows = [_row(i) for i in range(len(found))]
    path.write_text(json.dumps({"kernels": rows, "failed": failed, "targets": list(targets)}))


def describe(
    names: Sequence[str], families: Sequence[str], targets: Sequence[int], seconds: float | None
) -> dict[str, Any]:
    """The report of a process that traces the chosen benchmarks.

    What it compiles goes to Triton's cache, where a GPU of that target finds it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.json"
        command = [sys.executable, "-m", "tritorch", "bench", *names, "--device", "cuda",
                   "--scale", "gpu", "--trace", str(path), "--seconds", str(seconds or SECONDS),
                   "--targets", ",".join(map(str, targets))]  # fmt: skip
        for each in families:
            command += ["--family", each]
        environment = os.environ | {"TRITORCH_SIMULATE_CUDA": DISCARDING}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if not path.exists():
            return {"error": done.stderr.strip()[-800:], "kernels": [], "targets": list(targets)}
        return json.loads(path.read_text())


def table(report: dict[str, Any]) -> str:
    """One line for each kernel and target: registers, stack, shared memory, instructions."""
    if "error" in report:
        return f"\nkernels were not compiled: {report['error']}"
    names = "/".join(f"sm_{target}" for target in report["targets"])
    lines = [f"\nkernels, compiled as a GPU would launch them, for {names}"]
    missing = 0
    for row in report["kernels"]:
        done = row["compiled"]
        missing += len(done) < len(report["targets"])
        failed = {target: taken["error"] for target, taken in done.items() if "error" in taken}
        good = [taken for taken in done.values() if "error" not in taken]
        each = lambda key, good=good: "/".join(str(taken[key]) for taken in good)
        tile = "x".join(str(v) for k, v in row["constants"].items() if k.startswith("BLOCK"))
        text = f"  {row['kernel']:34} {row['types'][:18]:18} {tile:14}"
        if good:
            has = sorted({name for taken in good for name in taken["instructions"]})
            text += f" {each('registers'):>12} registers {each('shared'):>20} B shared"
            text += f" {good[0]['warps']:3} warps  {', '.join(has)}"
            text += f"  SPILLS {each('spilled')} B" if any(t["spilled"] for t in good) else ""
        text += "".join(f"  sm_{t} FAILED: {e.splitlines()[0][:80]}" for t, e in failed.items())
        lines.append(text.rstrip())
    lines += [f"  {key}: {error}" for key, error in report["failed"].items()]
    if missing:
        lines.append(f"  {missing} kernels were not compiled for all targets: time was up")
    return "\n".join(lines)
