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


@pytest.mark.native("units in the last place")
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


class Longer:
    """What exact values of float64 take from mpmath, with long doubles."""

    mpf, exp, log1p, tanh = np.longdouble, np.exp, np.log1p, np.tanh


CPU, CUDA = "cpu", pytest.param("cuda", marks=pytest.mark.device)
CASES = {case.name: case for case in accuracy.CASES}


def within(case: accuracy.Case, kind: str, device: str, long: int, groups: set[str]) -> None:
    """What the sweep asks: twice PyTorch's error, or one unit in the last place."""
    recorded = TORCHS[case.name][kind]
    for group, values in accuracy.groups(case, kind, accuracy.COUNT, long):
        if group not in groups:
            continue
        got = accuracy.run(case, torch, values, kind, device)
        if case.along:
            exact = case.exact(*(x.astype(accuracy.Wide) for x in values))
        elif kind == "float64":
            numbers = zip(*(x.astype(accuracy.Wide) for x in values))
            exact = np.array([case.exact(Longer, *each) for each in numbers])
        else:
            exact = accuracy.run(case, torch, values, "float64", "cpu")
        error = accuracy.off(got, exact, kind, case.terms and case.terms(*values), case.floor)
        assert error <= max(1.0, 2 * recorded[group]), group


@pytest.mark.native("units in the last place")
@pytest.mark.parametrize(
    ("name", "kind", "groups"),
    [
        ("sum", "float64", {"wide"}), ("mean", "float64", {"wide"}),
        ("sum of columns", "float32", {"rising"}), ("sum of all", "float32", {"normal", "uniform"}),
        ("sum of all", "float64", {"normal"}), ("softmax", "float32", {"ones"}),
        ("F.layer_norm", "float64", {"uniform", "far from zero", "long"}),
        ("F.rms_norm", "float64", {"long"}), ("F.mse_loss", "float32", {"far from zero"}),
        ("erf", "float32", {"tiny", "small", "middle", "zeros"}),
        ("special.xlog1py", "float32", {"small"}), ("F.tanhshrink", "float32", {"middle"}),
        ("F.gelu", "float16", {"middle"}), ("F.silu", "float64", {"small"}),
        ("F.mish", "float64", {"tiny"}), ("special.chebyshev_polynomial_u", "float64", {"middle"}),
        ("special.laguerre_polynomial_l", "float64", {"small"}),
        ("special.shifted_chebyshev_polynomial_w", "float64", {"tiny"}),
    ],
)  # fmt: skip
def test_errors_on_the_cpu_are_near_pytorchs(name: str, kind: str, groups: set[str]) -> None:
    within(CASES[name], kind, "cpu", 200_000, groups)


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "kind", "groups"),
    [
        ("sum", "float64", {"rising"}), ("mean", "float64", {"rising"}),
        ("log", "float32", {"zeros"}), ("xlogy", "float32", {"middle"}),
        ("i0", "float32", {"large"}), ("special.modified_bessel_k1", "float32", {"middle"}),
        ("special.modified_bessel_k0", "float32", {"huge"}), ("F.silu", "float64", {"small"}),
        ("F.mish", "float64", {"tiny"}), ("special.laguerre_polynomial_l", "float64", {"small"}),
        ("special.shifted_chebyshev_polynomial_w", "float64", {"tiny"}),
    ],
)  # fmt: skip
def test_errors_of_kernels_are_near_pytorchs(name: str, kind: str, groups: set[str]) -> None:
    within(CASES[name], kind, "cuda", 5000, groups)


@pytest.mark.native("units in the last place")
@pytest.mark.parametrize("device", [CPU, CUDA])
@pytest.mark.parametrize(
    ("name", "x", "exact", "units"),
    [  # by mpmath
        ("erfinv", 0.49999999999999994, "0.4769362762044698116206", 1),
        ("log_ndtr", 37.05521825795202, "-7.39969095671083764953e-301", 4),
        ("log_ndtr", 11.716016785468494, "-5.275882138427469719084e-32", 4),
        ("airy_ai", 0.9523024031968923, "0.1430376572130560949284", 4),
        ("lgamma", 0.9771844806001009, "0.01360244210585437695205", 1),
        ("lgamma", 2.0720156403217103, "0.03209486420671579451646", 1),
    ],
)
def test_values_of_float64(name: str, x: float, exact: str, units: float, device: str) -> None:
    got = getattr(torch.special, name, None) or getattr(torch, name)
    result = got(torch.tensor([x], dtype=torch.float64, device=device)).cpu().numpy()
    assert accuracy.off(result, np.array([np.longdouble(exact)]), "float64") <= units


def test_small_sums_of_columns_are_those_of_large_ones() -> None:
    x = np.tile(np.float32([0.1, 3e7]), 500).reshape(1000, 1).repeat(3, 1)
    exact = x[:, 0].astype(np.float64).sum()
    assert torch.tensor(x).sum(0).tolist() == [float(np.float32(exact))] * 3
    assert torch.tensor(x[:, 0]).sum().item() == float(np.float32(exact))
    assert torch.tensor(x[:0]).sum(0).tolist() == [0.0] * 3
    assert torch.tensor(np.float32([np.inf, 1] * 50)).sum().item() == np.inf
    assert torch.tensor([1e300, np.inf, 2.0] * 50, dtype=torch.float64).sum().item() == np.inf
