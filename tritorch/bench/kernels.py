"""What the kernels behind the benchmarks take of a GPU, compiled where there is none.

For each target a process of its own calls every benchmark once, at its size for a GPU; see
Note [Tracing launches] in triton/trace.py.
"""

from __future__ import annotations

import json
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
from tritorch.triton.trace import DISCARDING, Work, on_all_processors, pretend, traced

SECONDS = 180.0  # for compiling, unless said


class Launch(NamedTuple):
    """A kernel as it was to be compiled, and the benchmark that launched it first."""

    benchmark: str
    work: Work


def launches(benchmarks: Sequence[Benchmark]) -> tuple[list[Launch], dict[str, str]]:
    """What the benchmarks launch that was not launched before, and which of them failed."""
    import tritorch

    found: list[Launch] = []
    failed: dict[str, str] = {}
    with traced() as needs:
        for benchmark in benchmarks:
            if benchmark.clock == "self":  # runs in processes of its own
                continue
            try:
                inputs = supply.empty(tritorch, benchmark, "cuda")
                benchmark.prepared(Kit(tritorch, "cuda", inputs))()
                tritorch.cuda.synchronize()
            except Exception as error:
                failed[benchmark.key] = f"{type(error).__name__}: {error}"[:300]
            inputs = {}
            found += [Launch(benchmark.key, work) for work in needs.work[len(found) :]]
    return found, failed


def compile_for(work: Work, target: int) -> dict[str, Any]:
    """Registers, stack, spilled bytes, shared memory and instructions on one target."""
    from tritorch.triton.resources import instructions, resources, spilled_bytes

    compiled = work.compile(target)
    taken = resources(compiled.asm["cubin"])
    return {
        "registers": taken.registers,
        "stack": taken.stack,
        "spilled": spilled_bytes(compiled.asm["ptx"]) if taken.stack else 0,
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "instructions": instructions(compiled.asm["ptx"]),
    }


def _types(work: Work) -> str:
    """Of what pointers and descriptors point to."""
    kinds = [re.match(r"(?:\*k?|tensordesc<)(\w+)", str(k)) for k in work.signature.values()]
    return ", ".join(dict.fromkeys(found[1] for found in kinds if found))


def _constants(work: Work) -> dict[str, Any]:
    names = work.function.arg_names
    found = {}
    for path, value in work.constants.items():
        if len(path) == 1 and names[path[0]].isupper():
            found[names[path[0]]] = getattr(value, "__name__", value)
    return {key: value for key, value in found.items() if isinstance(value, (int, str, bool))}


def _row(launch: Launch, target: int, ends: float) -> dict[str, Any]:
    """One traced kernel, compiled; in a forked process."""
    work = launch.work
    row: dict[str, Any] = {
        "kernel": work.name, "benchmark": launch.benchmark, "types": _types(work),
        "constants": _constants(work), "compiled": {},
    }  # fmt: skip
    if time.monotonic() < ends:
        try:
            row["compiled"][str(target)] = compile_for(work, target)
        except Exception as error:
            row["compiled"][str(target)] = {"error": f"{type(error).__name__}: {error}"[:300]}
    return row


def trace(
    benchmarks: Sequence[Benchmark], path: Path, target: int, seconds: float,
    processors: int | None = None,
) -> None:  # fmt: skip
    """Traces, compiles for so many seconds on all processors, and writes the report."""
    pretend(target, processors)
    found, failed = launches(benchmarks)
    ends = time.monotonic() + seconds
    rows = list(on_all_processors(lambda i: _row(found[i], target, ends), len(found)))
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
