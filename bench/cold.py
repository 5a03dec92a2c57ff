"""What a compiled training step of GPT-2 costs where no kernel is cached, and where all are.

    python bench/cold.py [--layers 12] [--target 90] [--eager] [--processes N] [--json]
    python bench/cold.py --count    # only which kernels there are to compile

Kernels are compiled for the target and launches discarded (Note [Tracing launches]), so all is the
host's time; loading machine code comes on top.  Steps are counted from the first call to a
synchronisation.  Seconds of processors are those of the process and of what compiles for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from tritorch.bench import models
from tritorch.bench.cases.start import caches
from tritorch.triton.trace import DISCARDING

STEPS = 5


def trained(options: argparse.Namespace) -> Any:
    """A step of GPT-2 124M's sizes in bfloat16."""
    import tritorch as t

    sizes = models.GPT2 | {"layers": options.layers, "batch": 4}
    return models.trainer(t, "gpt", "cuda", half=True, compiled=not options.eager, **sizes)


def counted(options: argparse.Namespace) -> dict[str, Any]:
    """How many kernels each step brings that were not there before, and all by name."""
    from tritorch.triton import trace

    trace.pretend(options.target)
    with trace.traced() as needs:
        step = trained(options)
        found = [len(needs.work)]
        for _ in range(STEPS):
            step()
            found.append(len(needs.work))
    names = Counter("written" if "tritorch_written" in w.name else w.name for w in needs.work)
    return {"steps": [b - a for a, b in zip(found, found[1:])], "kernels": dict(names)}


def _seconds() -> float:
    """Of processors, that this process and those that compile for it have taken."""
    from tritorch.triton import compilers

    ticks = os.sysconf("SC_CLK_TCK")
    total = sum(os.times()[:4])
    for process in compilers.pool.processes:
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            total += sum(map(int, file.read().rpartition(") ")[2].split()[11:15])) / ticks
    return total


def timed(options: argparse.Namespace) -> dict[str, Any]:
    """Steps in this process, with the caches that there are."""
    import tritorch as t
    from tritorch.triton import cache, trace

    trace.pretend(options.target)
    trace.take_stored()
    step = trained(options)
    t.cuda.synchronize()
    rows = []
    for _ in range(STEPS):
        wall, processors, before = time.perf_counter(), _seconds(), len(cache.used)
        step()
        t.cuda.synchronize()
        rows.append({
            "kernels": len(cache.used) - before,
            "s": round(time.perf_counter() - wall, 3),
            "processor s": round(_seconds() - processors, 2),
        })  # fmt: skip
    return {"steps": rows, "imports Triton": "triton" in sys.modules}


def fresh(arguments: list[str], **environment: str) -> dict[str, Any]:
    """What a process of its own reports."""
    environment = {**os.environ, "TRITORCH_SIMULATE_CUDA": DISCARDING, **environment}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--target", type=int, default=90)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--processes", default="2", help="that compile (%(default)s)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--inner", choices=("count", "time"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inner:
        print(json.dumps((counted if options.inner == "count" else timed)(options)))
        return
    given = [*sys.argv[1:], "--inner"]
    if options.count:
        print(json.dumps(fresh([*given, "count"])))
        return
    with tempfile.TemporaryDirectory() as folder:
        places = caches(folder) | {"TRITORCH_COMPILERS": options.processes}
        report = {kind: fresh([*given, "time"], **places) for kind in ("cold", "warm")}
    if not any(row["kernels"] for row in report["cold"]["steps"]):
        sys.exit("nothing was compiled: a simulated device leaves that to processes")
    if options.json:
        print(json.dumps(report))
        return
    for kind, found in report.items():
        for i, row in enumerate(found["steps"]):
            print(kind, "step", i, ", ".join(f"{value} {name}" for name, value in row.items()))


if __name__ == "__main__":
    main()
