"""`out=` on another device than the inputs is refused, by every pointwise record and the others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tritorch as torch
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise

pytestmark = pytest.mark.device
DEVICES = ("cpu", "cuda", "meta")
OTHERS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, out: torch.sum(x, 0, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
    "mm": lambda x, out: torch.mm(x[:, None], x[None], out=out),
    "cat": lambda x, out: torch.cat([x, x], out=out),
    "softmax": lambda x, out: torch.softmax(x, 0, out=out),
}


def pointwise() -> Iterator[tuple[str, Any, int]]:
    """The public functions of pointwise records that take `out=`, with their numbers of tensors."""
    for name, op in OPERATORS.items():
        function = getattr(torch, name, None) or getattr(torch.special, name, None)
        if isinstance(op, Pointwise) and callable(function):
            names = inspect.signature(function).parameters
            if "out" in names:
                yield name, function, len(op.inputs)


@pytest.mark.parametrize("given", DEVICES)
@pytest.mark.parametrize("wanted", DEVICES)
def test_outputs_on_another_device(given: str, wanted: str) -> None:
    if given == wanted:
        return
    accepted, asked = [], 0
    for kind in (torch.float32, torch.int64, torch.bool):
        x = torch.ones(3, device=given).to(kind)
        calls = {
            **{name: functools.partial(f, *[x] * n) for name, f, n in pointwise()},
            **{name: functools.partial(f, x) for name, f in OTHERS.items()},
        }
        for name, call in calls.items():
            for out_kind in (kind, torch.bool, torch.float32):
                try:
                    call(out=torch.empty(3, device=wanted, dtype=out_kind))
                except (RuntimeError, TypeError, NotImplementedError, ValueError) as error:
                    asked += "device" in str(error)
                else:
                    accepted.append(name)
    torch.cuda.synchronize()
    assert not accepted and asked > 200
