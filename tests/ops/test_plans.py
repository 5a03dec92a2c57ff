"""Call plans: what a call gives by its plan is what its function gives, to the bit."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from table import CASES
from test_table import call, leaves, outputs

import tritorch as torch
from tritorch import _C
from tritorch.arrays import arrays
from tritorch.bench.cases import everyday
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import OPERATORS, Operator

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
    """The results of several calls."""
    return [run(i) for i in range(ROUNDS)]


def both(run):
    """The results of calls with plans, and without."""
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


@pytest.mark.parametrize(("device", "most"), [("stub", 4), ("cpu", 60)])
def test_frames_of_everyday_calls(device, most, tmp_path):
    """No call falls off its plan unseen; on the CPU functions of arrays are Python's own."""
    bench = Path(__file__).parents[2] / "bench" / "everyday.py"
    written = tmp_path / "frames.json"
    command = [sys.executable, bench, "--device", device, "--frames", "--json", written]
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRITORCH_")}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    frames = json.loads(written.read_text())
    kinds = [rows for kind, rows in frames.items() if kind != "passes"]
    singles = [row["tritorch"] for rows in kinds for row in rows.values()]
    assert len(singles) > 120 and max(singles) <= most
    assert statistics.median(singles) == 0
    if device == "stub":
        assert max(row["tritorch"] for row in frames["passes"].values()) <= 30


def test_settings_are_part_of_the_key():
    """A plan is not used where a setting has changed that decides how it computes."""
    x = torch.ones(3)
    for _ in range(ROUNDS):
        assert torch.full((2,), 1.5).dtype is torch.float32
        assert (x + 1).requires_grad is False
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.full((2,), 1.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.full((2,), 1.5).dtype is torch.float32


FACTORIES = """
import tritorch as torch
given = [None, "cpu", torch.device("cpu"), torch.device("cpu", 0), "meta", torch.device("meta")]
for device in given:
    like = torch.empty(2, device=device)
    for _ in range(6):
        made = [
            torch.tensor([1, 2], device=device), torch.as_tensor((1.0, 2.0), device=device),
            torch.zeros(2, device=device), torch.ones((2,), device=device),
            torch.full((2,), 3, device=device), torch.arange(4, device=device),
            torch.linspace(0, 1, 3, device=device), torch.eye(2, device=device),
            torch.rand(2, device=device), torch.randn(2, device=device),
            torch.empty(2, device=device), torch.zeros_like(like, device=device),
            torch.ones_like(torch.ones(2), device=device), torch.randperm(3, device=device),
            torch.scalar_tensor(1.0, device=device), like.new_zeros(2, device=device),
        ]
        expected = torch.device("cpu" if device is None else device)
        assert {each.device.type for each in made} == {expected.type}, device
print("made")
"""


def test_factories_on_a_machine_without_a_gpu():
    env = {key: value for key, value in os.environ.items() if key != "TRITORCH_SIMULATE_CUDA"}
    env["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run(
        [sys.executable, "-c", FACTORIES], env=env, capture_output=True, text=True
    )
    assert done.stdout == "made\n", done.stderr


def test_a_call_that_warns_warns_again():
    x = torch.randn(2, 3).log_softmax(1)
    for _ in range(ROUNDS):
        with pytest.warns(UserWarning, match="batchmean"):
            torch.nn.functional.kl_div(x, x.exp(), reduction="mean")


@pytest.mark.parametrize("device", DEVICES)
def test_values_that_raise_raise_with_a_plan(device):
    table = torch.randn(4, 3, device=device)
    good, bad = torch.tensor([1, 2], device=device), torch.tensor([1, 9], device=device)
    for _ in range(ROUNDS):
        torch.nn.functional.embedding(good, table)
    with pytest.raises(IndexError):
        torch.nn.functional.embedding(bad, table)
        if device == "cuda":
            torch.cuda.synchronize()


@pytest.mark.parametrize("device", DEVICES)
def test_draws_go_on(device):
    """Calls with plans draw what calls without them draw, and leave the generator as they do."""
    x = torch.ones(64, device=device)

    def draws():
        torch.manual_seed(3)
        drawn = [torch.nn.functional.dropout(x, 0.5) for _ in range(ROUNDS)]
        drawn += [torch.rand(4, device=device) for _ in range(ROUNDS)]
        return [each.tolist() for each in drawn]

    parts = _C.plan_parts()
    with_plans = [draws() for _ in range(2)]
    _C.set_plans()
    try:
        assert with_plans == [draws(), draws()]
    finally:
        _C.set_plans(*parts)
    assert len({tuple(each) for each in with_plans[0][:ROUNDS]}) == ROUNDS


def test_a_view_or_leaf_is_asked_before_a_write():
    """A forbidden write is refused as ever, though there is a plan for the write."""
    for _ in range(ROUNDS):
        torch.zeros(3).add_(1.0)
    leaf = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1.0)
    with torch.inference_mode():
        frozen = torch.zeros(3)
    with pytest.raises(RuntimeError, match="inference tensor"):
        frozen.add_(1.0)
    lent = torch.zeros(3, requires_grad=True)
    y = lent.exp()
    y.detach().add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_replaced_kernel_is_called():
    """A kernel of a program's takes the place of plans, and plans take its place again."""
    x = torch.tensor([1.0, 2.0])
    for _ in range(ROUNDS):
        x.exp()
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("exp", lambda x: x * 0 + 7, "CPU")
        for _ in range(ROUNDS):
            assert x.exp().tolist() == [7.0, 7.0]
    assert x.exp().tolist() != [7.0, 7.0]


def test_plans_are_bounded_and_outlive_calls_that_come_once():
    x, multiply = torch.ones(5), _C.Planned(torch.mul.__wrapped__)
    for _ in range(ROUNDS):
        multiply(x, 0.25)
    for i in range(1200):
        multiply(x, i / 7)
    assert multiply.plans["calls"] <= 512
    before = multiply.plans["runs"]
    multiply(x, 0.25)
    assert multiply.plans["runs"] == before + 1


# Calls that had no plan: a value, a quick way that it chose, or parts of one function decided.
PLANNED = {
    "one_hot": (torch.nn.functional, "F.one_hot(target, 10)"),
    "cross_entropy": (torch.nn.functional, "F.cross_entropy(logits, target)"),
    "kl_div": (torch.nn.functional, "F.kl_div(logits, soft, reduction='batchmean')"),
    "sum": (torch.Tensor, "a.sum()"),
    "__matmul__": (torch.Tensor, "a @ b"),
}


@pytest.mark.parametrize("name", PLANNED)
def test_values_and_quick_ways_leave_a_plan(name):
    owner, statement = PLANNED[name]
    names = {"m": torch, "d": "cpu"}
    exec(everyday.SETUP, names)
    gate = getattr(owner, name)
    before = gate.plans["runs"]
    for _ in range(ROUNDS):
        exec(statement, names)
    assert gate.plans["runs"] > before


def test_a_plan_checks_values():
    one_hot, target = torch.nn.functional.one_hot, torch.arange(5)
    for _ in range(ROUNDS):
        one_hot(target, 5)
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        one_hot(target + 1, 5)
    with pytest.raises(RuntimeError, match="non-negative"):
        one_hot(target - 1, 5)


def test_a_function_of_smaller_operators_is_replayed_in_parts():
    a, b = torch.randn(7, 5), torch.randn(7, 5)
    loss = torch.nn.functional.mse_loss
    for _ in range(ROUNDS):
        loss(a, b)
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name))
    try:
        loss(a, b)
    finally:
        sys.setprofile(None)
    assert "reduce_loss" not in entered


def entered_by(function):
    """Names of the Python functions that a call enters."""
    entered = []
    sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_name))
    try:
        function()
    finally:
        sys.setprofile(None)
    return entered[1:]


@pytest.mark.native("twins are Python functions")
def test_steps_of_a_function_of_arrays_are_replayed():
    """Memory, loops and NumPy's functions, without the Python that chose them."""
    x, image = torch.randn(8, 8), torch.randn(1, 2, 4, 4)
    functional = torch.nn.functional
    for run in (
        lambda: x.max(), lambda: x.max(1), lambda: x.softmax(-1), lambda: x.half(),
        lambda: functional.layer_norm(x, (8,)), lambda: functional.max_pool2d(image, 2),
        lambda: functional.linear(x, x, x[0]),
    ):  # fmt: skip
        for _ in range(ROUNDS):
            run()
        assert entered_by(run) == []


def made_of(function):
    """A function of a tensor, called by plans, that a record computes on the CPU by `function`."""
    record = Operator(
        f"made_of_{function.__name__}", "x", "", cpu=arrays.by_steps(function), kind="internal",
        rules=Rules(infer=lambda x: x.new(x.shape)), schema="(Tensor x) -> Tensor",
    )  # fmt: skip
    del OPERATORS[record.name]  # it is no operator of the package
    return _C.Planned(lambda x: record.call((x,), ()))


def unseen_write(x):
    out = arrays.scratch(x.shape, x.dtype)
    out[...] = x
    return out


def unseen_array(x):
    return arrays.add(x, np.zeros(x.shape, x.dtype))


@pytest.mark.parametrize("function", [unseen_write, unseen_array])
def test_what_is_no_step_makes_the_function_one_call(function):
    made = made_of(function)
    for value in range(ROUNDS):
        x = torch.full((3,), float(value))
        assert made(x).tolist() == x.tolist()
    assert made.plans["runs"] > 0
    assert function.__name__ in entered_by(lambda: made(x))


def test_a_step_that_answers_otherwise_gives_the_run_up():
    """As often as values decide otherwise; then the function is one call of the plan."""
    positive = arrays.seen(lambda x: bool((x > 0).all()))

    def doubled_or_negative(x):
        return arrays.add(x, x) if positive(x) else arrays.negative(x)

    made = made_of(doubled_or_negative)
    one = torch.ones(3)
    for _ in range(ROUNDS):
        made(one)
    runs = made.plans["runs"]
    assert runs and made(-one).tolist() == [1, 1, 1] and made(one).tolist() == [2, 2, 2]
    assert made.plans["runs"] == runs + 1
    for _ in range(12):
        assert made(-one).tolist() == [1, 1, 1]
    assert made.plans["runs"] > runs + 1 and made(one).tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_targets_that_are_ignored_or_wrong_with_a_plan(name):
    loss = getattr(torch.nn.functional, name)
    scores, target = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    some = torch.tensor([0, -100, 1, -100])
    expected = loss(scores, target), loss(scores[::2], some[::2])
    for _ in range(ROUNDS):
        assert torch.equal(loss(scores, target), expected[0])
    for _ in range(12):
        assert torch.equal(loss(scores, some), expected[1])
    assert loss(scores, torch.full((4,), -100)).isnan()
    with pytest.raises(IndexError, match="out of bounds"):
        loss(scores, target + 1)
    assert torch.equal(loss(scores, target), expected[0])


def test_views_of_results_that_are_laid_out_share_their_memory():
    given = torch.randn(3, 3, dtype=torch.float64)
    for _ in range(6):
        x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
        torch.linalg.qr(x)[0].backward(given)
        assert x.grad.storage_offset() == 0
        assert x.grad.untyped_storage().nbytes() == 72
