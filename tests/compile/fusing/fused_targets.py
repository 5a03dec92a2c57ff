"""Compiles the kernels of the fused patterns, and of a GPT block, at sizes of real models.

A program of its own, on a simulated device that discards launches:

    python -m tests.compile.fusing.fused_targets with_engine|without

Which kernels there are depends on whether a GPU has a copy engine.  Those of GPUs with one are
compiled for sm_90, others for one target each in turn; all for all in CI, and where targets are
named.  Prints JSON: by kernel and target, the bytes that are spilled and of stack.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import tritorch as torch
from tritorch.triton import resources, trace

from .fused_patterns import PATTERNS, Arrays

SIZES = 4, 512, 1024
GROUPS = {"with_engine": (90, 100), "without": (80, 86, 89, 120)}


def run_all(kinds: tuple[Any, ...]) -> None:
    """Runs all patterns until their programs are made, forward and backward."""
    for kind in kinds:
        for pattern in PATTERNS.values():
            inputs = pattern.inputs(Arrays(kind), *SIZES)
            if pattern.grads is not None:
                inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
            fast = torch.compile(pattern.run)
            for _ in range(4):
                outs = fast(*inputs)
                outs = [outs] if isinstance(outs, torch.Tensor) else list(outs)
                leaves = [x for x in inputs if x.requires_grad]
                if leaves:
                    torch.autograd.grad(outs, leaves, [torch.ones_like(x) for x in outs])


_SAID = os.environ.get("TRITORCH_COMPILE_TARGETS", "").replace(",", " ").split()


def targets_of(group: str) -> list[int]:
    """The GPUs of a group that kernels are compiled for."""
    return [target for target in GROUPS[group] if not _SAID or str(target) in _SAID]


def main() -> None:
    targets = targets_of(sys.argv[1])
    every = bool(_SAID or os.environ.get("TRITORCH_COMPILE_FOR_ALL"))
    trace.pretend(GROUPS[sys.argv[1]][0])
    with trace.traced() as needs:
        run_all((torch.bfloat16, torch.float32))
    work = [each for each in needs.work if trace.is_written(each)]
    turns = targets[:1] if sys.argv[1] == "with_engine" else targets
    tasks = [
        (each, target)
        for i, each in enumerate(work)
        for target in (targets if every else [turns[i % len(turns)]])
    ]

    def compiled(i: int) -> tuple[str, int, int, int]:
        each, target = tasks[i]
        made = each.compile(target)
        spilled = resources.spilled_bytes(made.asm["ptx"])
        return each.name, target, spilled, resources.resources(made.asm["cubin"]).stack

    found = list(trace.on_all_processors(compiled, len(tasks)))
    json.dump({"kernels": len(work), "compiled": found}, sys.stdout)


if __name__ == "__main__":
    main()
