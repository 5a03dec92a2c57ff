"""Compiles the kernels of the fused patterns, and of a GPT block, for real GPUs, at sizes of real
models: a program of its own, on a simulated device that discards launches.  Prints JSON: by target
and kernel, the bytes that are spilled and of stack."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import tritorch as torch
from tritorch._triton import resources, trace

from .fused_patterns import PATTERNS, Arrays

SIZES = 4, 512, 1024
TARGETS = 80, 86, 89, 90, 100, 120


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


def main() -> None:
    said = os.environ.get("TRITORCH_COMPILE_TARGETS", "").replace(",", " ").split()
    targets = [int(x) for x in sys.argv[1:] or said] or TARGETS
    trace.pretend(targets[0])
    with trace.traced() as needs:
        run_all((torch.bfloat16, torch.float32))
    work = [each for each in needs.work if trace.is_written(each)]
    tasks = [(each, target) for each in work for target in targets]

    def compiled(i: int) -> tuple[str, int, int, int]:
        each, target = tasks[i]
        made = each.compile(target)
        spilled = resources.spilled_bytes(made.asm["ptx"])
        return each.name, target, spilled, resources.resources(made.asm["cubin"]).stack

    found = list(trace.on_all_processors(compiled, len(tasks)))
    json.dump({"kernels": len(work), "targets": len(targets), "compiled": found}, sys.stdout)


if __name__ == "__main__":
    main()
