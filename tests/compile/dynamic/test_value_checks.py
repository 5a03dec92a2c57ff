"""Compiled code refuses the values that eager code refuses, in its words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch

from .value_checks import CASES, Case

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
OPS = Path(torch.__file__).parent / "ops"


def outcome(function: Any, data: tuple[Any, ...], device: str, grads: bool) -> Any:
    """The error of a call with its backward pass, its type and first line; None for no error."""
    tensors = [torch.tensor(values, device=device) for values in data]
    if grads:
        tensors = [x.requires_grad_() if x.is_floating_point() else x for x in tensors]
    try:
        result = function(*tensors)
        if result.requires_grad:
            result.sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        return type(error), str(error).partition("\n")[0]  # a kernel's error names a line, too
    return None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grads", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CASES)
def test_compiled_code_refuses_what_eager_code_refuses(name: str, grads: bool, device: str) -> None:
    case: Case = CASES[name]
    refused = outcome(case.function, case.invalid, device, grads)
    if device == "cpu":
        assert refused is not None
    compiled = torch.compile(case.function)
    for _ in range(4):
        assert outcome(compiled, case.valid, device, grads) is None
    assert outcome(compiled, case.invalid, device, grads) == refused
    assert outcome(compiled, case.valid, device, grads) is None


@pytest.mark.parametrize("name", CASES)
def test_compiled_code_refuses_values_of_results_that_nobody_reads(name: str) -> None:
    case: Case = CASES[name]

    def unread(*tensors: Any) -> Any:
        case.function(*tensors)
        return tensors[0] * 2

    refused = outcome(unread, case.invalid, "cpu", False)
    compiled = torch.compile(unread)
    for _ in range(4):
        assert outcome(compiled, case.valid, "cpu", False) is None
    assert outcome(compiled, case.invalid, "cpu", False) == refused


def test_values_that_decide_about_a_gradient_are_read_again() -> None:
    """The determinant's gradient takes another way at singular matrices."""

    def gradient(function: Any, rows: Any) -> torch.Tensor:
        x = torch.tensor(rows, requires_grad=True)
        function(x).backward()
        return x.grad

    compiled = torch.compile(torch.linalg.det)
    for rows in ([[2.0, 0.0], [0.0, 3.0]],) * 4 + ([[1.0, 2.0], [2.0, 4.0]],):
        assert gradient(compiled, rows).equal(gradient(torch.linalg.det, rows))


# ---- where errors are raised ---------------------------------------------------------------------


def guarded(x: torch.Tensor, seen: list) -> torch.Tensor:
    """Falls back to zeros where a matrix is singular."""
    try:
        y = torch.linalg.inv(x * 1)
    except torch.linalg.LinAlgError:
        seen.append("except")
        y = torch.zeros_like(x)
    finally:
        seen.append("finally")
    return y + 1


@pytest.mark.parametrize("device", DEVICES)
def test_settled_checks_raise_where_they_are_made(device: str) -> None:
    compiled = torch.compile(guarded, options={"settle_checks": True}, fullgraph=True)
    for rows in ([[2.0, 0.0], [0.0, 1.0]],) * 4 + ([[0.0, 0.0], [0.0, 0.0]],) * 2:
        x, plain, seen = torch.tensor(rows, device=device), [], []
        assert compiled(x, seen).equal(guarded(x, plain)) and seen == plain


def test_errors_come_where_what_waits_is_computed() -> None:
    compiled, seen = torch.compile(guarded), []
    for _ in range(4):
        compiled(torch.eye(2), seen)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(torch.zeros(2, 2), seen)
    assert seen == ["finally"] * 5


# ---- no other way to look at values --------------------------------------------------------------

ASKS = {"min", "max", "any", "all", "sum", "outside", "item", "tolist", "nonzero"}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def is_registered(function: ast.FunctionDef) -> bool:
    return any("looks_at_values" in ast.unparse(one) for one in function.decorator_list)


def reads_memory(node: ast.AST, names: set[str]) -> bool:
    """True if an expression has a tensor's array in it, by an attribute or a name that holds it."""
    return any(
        (isinstance(part, ast.Attribute) and part.attr in ("_array", "_a"))
        or (isinstance(part, ast.Name) and part.id in names)
        for part in ast.walk(node)
    )


def looks(function: ast.FunctionDef) -> list[str]:
    """The conditions in a function that raises which ask a tensor's array for values."""
    if is_registered(function) or not any(isinstance(n, ast.Raise) for n in ast.walk(function)):
        return []
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and reads_memory(node.value, names):
            names |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return [
        ast.unparse(call)
        for node in ast.walk(function)
        if isinstance(node, ast.If | ast.IfExp)
        for call in ast.walk(node.test)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ASKS
        and (reads_memory(call, names))
    ]


def test_operators_look_at_values_by_checks_alone() -> None:
    found = [
        f"{path.relative_to(OPS)}:{function.lineno} {function.name}: {text}"
        for path in sorted(OPS.rglob("*.py"))
        if "interpret" not in path.parts
        for function in functions(ast.parse(path.read_text()))
        for text in looks(function)
    ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n array = x._array\n if array.min() < 0:\n  raise ValueError",
        "def f(x):\n if x._array.any():\n  raise ValueError",
        "def f(x):\n a = x._a\n if indexing.outside(a, 3):\n  raise IndexError",
    ],
)
def test_a_look_of_another_kind_is_found(source: str) -> None:
    (function,) = functions(ast.parse(source))
    assert looks(function)
