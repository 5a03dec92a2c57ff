#!/usr/bin/env python3
"""Compile for real GPUs the kernels that torch.compile writes around PyTorch's operators.

    python tools/compile_written.py --scripts ../shared/conformance             # every operator
    python tools/compile_written.py --ops '^nn.functional' --limit 1 --targets 90

torch==2.13.0 (CPU) is needed beside tritorch, whose samples it gives.  Each operator stands between
pointwise calls and sums, forward and backward, on a simulated device that discards launches
(Note [Tracing launches]); what was written is compiled for sm_90 and for one of the other targets
in turn (`--all`: for all), and what spills registers is named.
"""

from __future__ import annotations

import collections
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # behind the package that is installed
os.environ.setdefault("TRITORCH_SIMULATE_CUDA", "discard_launches=1,poison=0,memory=64G")
CALLS = 5  # programs are made at the third and fourth
MAIN, OTHERS = 90, (80, 86, 89, 100, 120)


def written(options: Any, opinfo: Any) -> tuple[list[Any], collections.Counter[str]]:
    """The kernels that are written for the operators; of how many operators, and calls."""
    import tritorch
    from tools.compare.compiled import between, operators, outcome
    from tritorch.compilation.follow.regions import Follower, Options
    from tritorch.compilation.plan.plans import Making
    from tritorch.triton import trace

    bridge = opinfo.Bridge("tritorch", "cuda")
    making, done = Making(fusing=options.mode), collections.Counter[str]()
    with trace.traced() as needs:
        for _, function, samples in operators(opinfo, bridge, options):
            done["operators"] += 1
            call = between(tritorch, function)
            for sample in samples:
                follow = Follower(lambda *a, c=call, **k: c(*a, **k), Options(making=making))
                for _ in range(CALLS):
                    outcome(tritorch, follow, sample, bridge)
                    done["calls"] += 1
    return [each for each in needs.work if trace.is_written(each)], done


def main() -> int:
    """Compiles; the exit status says whether a kernel does not compile, or spills on sm_90."""
    from tools.compare.compiled import arguments

    parser = arguments(__doc__)
    parser.add_argument("--mode", default="default", choices=["default", "exact"])
    parser.add_argument("--all", action="store_true", help="each kernel for each target")
    parser.add_argument("--targets", type=int, nargs="*", help="these only")
    options = parser.parse_args()
    sys.path.insert(0, options.scripts)
    warnings.simplefilter("ignore")
    import opinfo

    from tritorch.triton import resources, trace

    trace.pretend(MAIN)
    began = time.perf_counter()
    work, done = written(options, opinfo)
    print(f"{done['operators']} operators, {done['calls']} calls, {len(work)} kernels written "
          f"in {time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
    tasks = []
    for i, each in enumerate(work):
        some = (MAIN, *OTHERS) if options.all else (MAIN, OTHERS[i % len(OTHERS)])
        tasks += [(each, target) for target in options.targets or some]

    def compiled(i: int) -> tuple[str, int, int, str]:
        each, target = tasks[i]
        try:
            made = each.compile(target)
        except Exception as error:
            return each.name, target, 0, f"{type(error).__name__}: {error}"[:300]
        stack = resources.resources(made.asm["cubin"]).stack
        spilled = resources.spilled_bytes(made.asm["ptx"]) if stack else 0
        return each.name, target, spilled, ""

    found = list(trace.on_all_processors(compiled, len(tasks)))
    count = collections.Counter(target for _, target, _, _ in found)
    failed = [row for row in found if row[3]]
    spilling = [row for row in found if row[2]]
    print("compiled: " + ", ".join(f"sm_{t} {n}" for t, n in sorted(count.items())))
    print(f"{len(failed)} do not compile, {len(spilling)} spill")
    for name, target, spilled, why in failed + spilling:
        print(f"  sm_{target} {name}: {why or f'{spilled} bytes'}")
    return int(bool(failed) or any(target == MAIN for _, target, _, _ in spilling))


if __name__ == "__main__":
    sys.exit(main())
