"""Call plans: what a call gives by its plan is what its function gives, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from table import CASES
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch import _C
from tritorch.bench.cases import everyday

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
ROUNDS = 6  # a plan is there from the fourth call on


def seen(tensor):
    """All that a program sees of a tensor, in the form of plain data."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    node = tensor.grad_fn
    behind = [] if node is None else [f and (f.name(), i) for f, i in node.next_functions]
    plain = tensor.detach()
    if tensor.layout is torch.strided and tensor.numel():
        plain = plain.clone(memory_format=torch.contiguous_format).view(-1)
        plain = plain.view(torch.uint8) if tensor.dtype is not torch.bool else plain
    return (
        plain.tolist() if tensor.layout is torch.strided else None,
        tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad,
        tensor._version, tensor._is_view(), None if node is None else node.name(), tensor.output_nr,
        behind,
    )  # fmt: skip


def rounds(run):
    """What each of several calls gives."""
    return [run(i) for i in range(ROUNDS)]


def both(run):
    """What calls give with plans, and without."""
    with_plans = rounds(run)
    parts = _C.plan_parts()
    _C.set_plans()
    try:
        without = rounds(run)
    finally:
        _C.set_plans(*parts)
    return with_plans, without


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", [c for c in CASES if "rrelu" not in c.name], ids=str)
def test_plans_change_nothing(case, device):
    kind = np.float64 if case.name == "view dtype" else np.float32

    def run(i):
        torch.manual_seed(i)
        xs = leaves(case, kind, device, seed=i)
        found = outputs(call(case, xs, device))
        wanted = [y for y in found if y.requires_grad]
        grads = (
            torch.autograd.grad([(y * y).sum() for y in wanted], xs, allow_unused=True)
            if wanted
            else ()
        )
        return [seen(y) for y in (*found, *grads)]

    with_plans, without = both(run)
    for mine, plain in zip(with_plans, without, strict=True):
        assert mine == plain


STATEMENTS = {
    name: statement
    for cases in (*everyday.CASES.values(), everyday.PASSES)
    for name, statement in cases.items()
    if "empty" not in name
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", STATEMENTS)
def test_everyday_calls(name, device):
    is_expression = " = " not in STATEMENTS[name].replace("dim = ", "")
    code = compile(STATEMENTS[name], name, "eval" if is_expression else "exec")

    def run(i):
        world = {"m": torch, "d": device}
        exec(everyday.SETUP.replace("manual_seed(0)", f"manual_seed({i})"), world)
        found = eval(code, world)
        changed = [world[each] for each in ("acc", "out", "mean", "var")]
        grads = [world[each].grad for each in ("pa", "pw", "pb", "pbias")]
        return [seen(y) for y in (*outputs(found), *changed, *grads)]

    with_plans, without = both(run)
    for mine, plain in zip(with_plans, without, strict=True):
        assert mine == plain
