"""Pointwise functions, reductions and scans on hard inputs: near exact, on both devices.

Of narrow types and float32 the reference is the same call in float64 on the CPU, of reductions long
doubles.  tools/accuracy_sweep.py holds all against more digits, and says how far PyTorch is off:
its figures are read here, too, so that what nobody computes better is not asked for.
"""

from __future__ import annotations

import json
from pathlib import Path

import accuracy
import numpy as np
import pytest

import tritorch as torch
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import ALWAYS_BOOL, Pointwise

TORCHS = json.loads((Path(__file__).parents[2] / "tools" / "accuracy_torch.json").read_text())
# Records whose results are inputs, whole numbers or constants, or which are half of another.
EXACT = {
    "floor_divide", "floor_quotient", "trunc_divide", "maximum", "minimum", "fmax", "fmin", "relu",
    "copysign", "nextafter", "heaviside", "gcd", "lcm", "clamp", "clamp_min", "clamp_max", "where",
    "masked_fill", "neg", "abs", "sign", "sgn", "floor", "ceil", "trunc", "round", "bitwise_not",
    "conj_physical", "angle", "fake_quantize", "fake_quantize_channels", "times", "gelu_on_host",
    "any", "all", "amax", "amin", "max_with_index", "min_with_index", "argmax", "argmin",
    "max_all", "min_all",
}  # fmt: skip


def reached() -> set[str]:
    """The records that cases are for."""
    return {name for case in accuracy.CASES for name in (case.records or case.name).split()}


def test_every_record_has_a_case() -> None:
    computed = {
        name for name, op in OPERATORS.items()
        if (op.kind == "reduction" or (isinstance(op, Pointwise) and op.rule != ALWAYS_BOOL))
        and "backward" not in name and not name.startswith("bitwise") and name[-1] != "_"
    }  # fmt: skip
    assert computed - reached() - EXACT == set()
    assert reached() - set(OPERATORS) - {"frac"} == set()
    assert set(OPERATORS) >= EXACT and not EXACT & reached()


def allowed(case: accuracy.Case, kind: str, group: str) -> float:
    """Units in the last place: somewhat more than the sweep allows.  Long rows are shorter here."""
    torchs = TORCHS[case.name].get(kind) or {}
    theirs = max(torchs.values(), default=0) if group in ("ones", "long") else torchs.get(group, 0)
    return max(3.0, 4 * theirs)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("case", accuracy.CASES, ids=str)
def test_errors(case: accuracy.Case, device: str) -> None:
    wrong = {}
    for kind in accuracy.KINDS[: 4 if case.along else 3]:
        for group, values in accuracy.groups(case, kind, accuracy.COUNT, 5000):
            try:
                with np.errstate(all="ignore"):
                    got = accuracy.run(case, torch, values, kind, device)
                    if case.along:
                        exact = case.exact(*(x.astype(accuracy.Wide) for x in values))
                    else:
                        exact = accuracy.run(case, torch, values, "float64", "cpu")
            except NotImplementedError:
                break
            terms = case.terms and case.terms(*values)
            error = accuracy.off(got, exact, kind, terms, case.floor)
            if error > allowed(case, kind, group):
                wrong[kind, group] = error, allowed(case, kind, group)
    assert not wrong
