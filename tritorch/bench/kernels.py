"""What the kernels behind the benchmarks take of a GPU, compiled where there is none.

# Note [Tracing launches]
For each target a process of its own calls every benchmark once, at its size for a GPU, on the
simulated device with launches discarded; memory is never touched.  The simulated device says that
it is one of that target: tiles and kernels are chosen by it.  What would be compiled is noted, with
the very types, constants, tiles and options of the launch, and then compiled for the target.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
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
PROCESSORS = {80: 108, 90: 132, 100: 148}  # of an A100, an H100, a B200
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
    """Of what pointers and descriptors point to."""
    kinds = [re.match(r"(?:\*k?|tensordesc<)(\w+)", str(k)) for k in launch.signature.values()]
    return ", ".join(dict.fromkeys(found[1] for found in kinds if found))


def _constants(launch: Launch) -> dict[str, Any]:
    names = launch.function.arg_names
    found = {}
    for path, value in launch.constants.items():
        if len(path) == 1 and names[path[0]].isupper():
            found[names[path[0]]] = getattr(value, "__name__", value)
    return {key: value for key, value in found.items() if isinstance(value, (int, str, bool))}


def _row(index: int) -> dict[str, Any]:
    """One traced kernel, compiled; in a forked process."""
    launch, (target, ends) = _work[index], _terms
    row: dict[str, Any] = {
        "kernel": launch.name, "benchmark": launch.benchmark, "types": _types(launch),
        "constants": _constants(launch), "compiled": {},
    }  # fmt: skip
    if time.monotonic() < ends:
        try:
            row["compiled"][str(target)] = compile_for(launch, target)
        except Exception as error:
            row["compiled"][str(target)] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return row


# What forked processes find; a jit function cannot be sent.
_work: list[Launch] = []
_terms: tuple[int, float] = (0, 0.0)


def pretend(target: int, processors: int | None = None) -> None:
    """The simulated device says that it is one of this compute capability."""
    from tritorch import _C

    real = _C.device_properties

    def properties(device: int) -> dict[str, Any]:
        found = dict(real(device))
        found["major"], found["minor"] = divmod(target, 10)
        found["multi_processor_count"] = processors or PROCESSORS.get(target, 132)
        return found

    vars(_C)["device_properties"] = properties


def trace(
    benchmarks: Sequence[Benchmark], path: Path, target: int, seconds: float,
    processors: int | None = None,
) -> None:  # fmt: skip
    """Traces, compiles for so many seconds on all processors, and writes the report."""
    global _terms
    pretend(target, processors)
    found, failed = launches(benchmarks)
    _work[:], _terms = found, (target, time.monotonic() + seconds)
    jobs = min(len(os.sched_getaffinity(0)), len(found))
    if jobs > 1:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            rows = pool.map(_row, range(len(found)), chunksize=1)
    else:
        rows = [_row(i) for i in range(len(found))]
    path.write_text(json.dumps({"kernels": rows, "failed": failed}))


def describe(
    names: Sequence[str], families: Sequence[str], targets: Sequence[int], seconds: float | None,
    processors: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What processes that trace the chosen benchmarks report, one for each target.

    What they compile goes to Triton's cache, where a GPU of that target finds it.
    """
    whole: dict[str, Any] = {"kernels": [], "failed": {}, "targets": list(targets)}
    same: dict[str, dict[str, Any]] = {}
    share = (seconds or SECONDS) / max(len(targets), 1)
    for target in targets:
        found = _traced(names, families, target, share, processors)
        if "error" in found:
            return whole | found
        whole["failed"] |= found["failed"]
        for row in found["kernels"]:
            key = json.dumps({**row, "compiled": None}, sort_keys=True)
            same.setdefault(key, row)["compiled"] |= row["compiled"]
    whole["kernels"] = list(same.values())
    return whole


def _traced(
    names: Sequence[str], families: Sequence[str], target: int, seconds: float,
    processors: int | None,
) -> dict[str, Any]:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.json"
        command = [sys.executable, "-m", "tritorch", "bench", *names, "--device", "cuda",
                   "--scale", "gpu", "--trace", str(path), "--seconds", str(seconds),
                   "--targets", str(target)]  # fmt: skip
        for each in families:
            command += ["--family", each]
        if processors:
            command += ["--processors", str(processors)]
        environment = os.environ | {"TRITORCH_SIMULATE_CUDA": DISCARDING}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if not path.exists():
            return {"error": done.stderr.strip()[-800:]}
        return json.loads(path.read_text())


def table(report: dict[str, Any]) -> str:
    """One line for each kernel and target: registers, stack, shared memory, instructions."""
    if "error" in report:
        return f"\nkernels were not compiled: {report['error']}"
    lines = ["\nkernels, compiled as a GPU would launch them"]
    missing = 0
    for row in report["kernels"]:
        done = row["compiled"]
        missing += not done
        failed = {target: taken["error"] for target, taken in done.items() if "error" in taken}
        good = {target: taken for target, taken in done.items() if "error" not in taken}
        each = lambda key, good=good: "/".join(str(taken[key]) for taken in good.values())
        tile = "x".join(str(v) for k, v in row["constants"].items() if k.startswith("BLOCK"))
        text = f"  {row['kernel']:30} {row['types'][:18]:18} {tile:15}"
        if good:
            has = sorted({name for taken in good.values() for name in taken["instructions"]})
            text += f" sm_{'/'.join(good):9} {each('registers'):>11} registers"
            text += f" {each('shared'):>18} B shared {each('warps'):>5} warps  {', '.join(has)}"
            spilled = any(taken["spilled"] for taken in good.values())
            text += f"  SPILLS {each('spilled')} B" if spilled else ""
        text += "".join(f"  sm_{t} FAILED: {e.splitlines()[0][:80]}" for t, e in failed.items())
        if done:
            lines.append(text.rstrip())
    lines += [f"  {key}: {error}" for key, error in report["failed"].items()]
    if missing:
        lines.append(f"  {missing} kernels were not compiled: time was up")
    return "\n".join(lines)
