#!/usr/bin/env python3
"""Compares what tritorch and an installed PyTorch draw from one seed on the CPU: a million numbers
of every kind and dtype.

PYTHON_WITH_TORCH tools/compare/generators.py [--count N] [--only WORD] [--seed S]

Prints a table: how many numbers differ, by how many units in the last place at most, and whether
the generators' states are the same afterwards, byte for byte.  Fails if a state differs, or a
number does: those of float64 by more than one unit, others at all.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.utils.prune
import torch.utils.data

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "record"))
from recording import parser

import tritorch
import tritorch.nn.utils.prune
import tritorch.utils.data
from tests.core.draws import DRAWS, SEQUENCES

_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def bits(module: Any, numbers: Any) -> Any:
    """A tensor's elements as integers in which neighbours differ by one."""
    numbers = numbers.detach()
    if numbers.is_complex():
        numbers = module.view_as_real(numbers.resolve_conj())
    size = numbers.element_size()
    raw = numbers.contiguous().reshape(-1).view(module.uint8).numpy().view(_BITS[size])
    if not numbers.is_floating_point():
        return raw.astype(np.int64)
    wide = raw.astype(np.int64)
    return np.where(wide < 0, np.int64(-(2 ** (8 * size - 1))) - wide, wide)


def compare(draw: Any, seed: int) -> tuple[int, int, int, bool]:
    """(how many, how many of them differ, by how much, whether the states are the same)"""
    drawn, states = [], []
    for module in (torch, tritorch):
        module.manual_seed(seed)
        drawn.append(bits(module, draw(module)))
        states.append(module.get_rng_state().numpy())
    ours, theirs = drawn
    if ours.shape != theirs.shape:
        return ours.size, ours.size, -1, False
    apart = np.abs(ours - theirs)
    return ours.size, int((apart != 0).sum()), int(apart.max(initial=0)), bool(
        (states[0] == states[1]).all()
    )  # fmt: skip


def main() -> int:
    """Prints the table."""
    known = parser(__doc__)
    known.add_argument("--count", type=int, default=1_000_000)
    known.add_argument("--only", default="", help="kinds whose name has this")
    known.add_argument("--seed", type=int, default=7)
    options = known.parse_args()
    warnings.simplefilter("ignore")
    rows: list[tuple[str, str, Any, int]] = []
    for each in DRAWS:
        for dtype in each.dtypes:
            call = lambda module, each=each, dtype=dtype: each(module, options.count, dtype)
            rows.append((each.name, dtype, call, 1 if dtype in ("float64", "complex128") else 0))
    rows += [(name, "", call, 0) for name, call in SEQUENCES.items()]
    wrong = 0
    print(f"{'':30}{'':12}{'numbers':>9}{'differ':>9}{'by ulp':>8}  state")
    for name, dtype, call, allowed in rows:
        if options.only not in name:
            continue
        count, differ, most, state = compare(call, options.seed)
        bad = not state or not 0 <= most <= allowed
        wrong += bad
        print(
            f"{name:30}{dtype:12}{count:9}{differ:9}{most:8}  {'same' if state else 'DIFFERS'}"
            + ("   <--" if bad else ""),
            flush=True,
        )
    print(f"torch {torch.__version__}: {wrong} of {len(rows)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
