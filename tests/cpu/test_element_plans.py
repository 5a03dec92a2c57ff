"""Plans of elements: what Python decides once is what the general path computes each time."""

import itertools
import sys

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.ops.record.apply import general
from tritorch.ops.record.operator import OPERATORS

KINDS = (
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64,
)  # fmt: skip
NUMBERS = (3, -2, 0.5)


def tensor(kind, *shape):
    values = torch.arange(1, 1 + max(int(np.prod(shape)), 1)) % 5
    return values.reshape(shape).to(kind)


def frames(call):
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    for _ in range(3):
        call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count - 1  # the lambda's own


@pytest.mark.parametrize("name", ("add", "mul", "div", "lt", "maximum", "where", "lerp"))
def test_plans_give_what_the_general_path_gives(name):
    op, ran = OPERATORS[name], 0
    others = [tensor(kind, *shape) for kind in KINDS for shape in ((2, 3), (3,), ())]
    for a, b in itertools.product([tensor(kind, 2, 3) for kind in KINDS], (*others, *NUMBERS)):
        inputs = (a, b)
        if name == "where":
            inputs = (tensor(torch.bool, 2, 3), a, b)
        elif name == "lerp":
            inputs = (a, b, 0.25)
        found = op.elements(*inputs)
        if found is None:
            continue
        wanted = general(op, inputs)
        assert found.dtype is wanted.dtype and found.stride() == wanted.stride()
        assert found._array.tobytes() == wanted._array.tobytes()
        ran += 1
    assert ran > 20


def test_plans_know_the_default_dtype():
    halves = torch.arange(3)
    assert (halves * 0.5).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (halves * 0.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (halves * 0.5).dtype is torch.float32


def test_numbers_that_a_type_does_not_hold_have_no_plan():
    small = torch.ones(3, dtype=torch.uint8)
    assert (small + 1).tolist() == [2, 2, 2]
    assert OPERATORS["add"].elements(small, 300) is None
    assert OPERATORS["add"].elements(small, -1) is None
    assert (small > 300).tolist() == [False] * 3


def test_what_is_written_lies_apart_or_is_the_tensor():
    x = torch.zeros(4, 4)
    write = OPERATORS["add"].elements.write
    assert write(x, x, x) and x._version == 1
    assert write(x, x, torch.ones(4)) and x.sum() == 16
    assert not write(x, x, x[0])
    assert not write(x[0].expand(4, 4), x[0].expand(4, 4), torch.ones(4))
    assert not write(x.requires_grad_(), x, torch.ones(4))
    with torch.inference_mode():
        frozen = torch.zeros(4)
    assert not write(frozen, frozen, torch.ones(4))


def test_an_output_has_the_broadcast_shape():
    a, out = torch.ones(3), torch.empty(2, 3)
    assert not OPERATORS["add"].elements.write(out, a, a)
    assert OPERATORS["add"].elements.write(out, a, torch.ones(2, 1)) and out.sum() == 12
    assert not OPERATORS["add"].elements.write(torch.empty(3, dtype=torch.int64), a, a)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.floor(a, out=torch.empty(3, dtype=torch.float64))


def test_usual_calls_take_one_frame():
    a, b, row = torch.ones(8, 8), torch.ones(8, 8, dtype=torch.int64), torch.ones(8)
    acc, turned, half = torch.zeros(8, 8), a.t(), a.half()
    for call in (
        lambda: a + b, lambda: a + row, lambda: a + turned, lambda: half + half,
        lambda: acc.mul_(0.5), lambda: a > b, lambda: acc.copy_(b), lambda: acc.fill_(2),
        lambda: torch.add(a, b, out=acc),
    ):  # fmt: skip
        assert frames(call) <= 2


@pytest.mark.parametrize("low", (0, 1))
def test_halves_are_cast_as_numpy_casts_them(low):
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves, singles = bits.view(np.float16), np.empty(1 << 16, np.float32)
    assert _C.cast_halves(halves, singles)
    assert (singles.view(np.uint32) == halves.astype(np.float32).view(np.uint32)).all()
    # All singles with these upper halves, and ties between halves.
    for lower in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x8000, 0xF000, 0xFFFF):
        given = ((bits.astype(np.uint32) << 16) | (lower ^ low)).view(np.float32)
        made = np.empty(1 << 16, np.float16)
        assert _C.cast_halves(given, made)
        with np.errstate(all="ignore"):
            wanted = given.astype(np.float16)
        assert (made.view(np.uint16) == wanted.view(np.uint16)).all()
    assert not _C.cast_halves(singles, np.empty(1 << 16, np.float64))
