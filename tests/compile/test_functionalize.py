"""Whatever gives values other numbers gives them to all arguments of a call."""

from __future__ import annotations

import gc

import pytest

import tritorch as torch
from tritorch import _C
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.plan.lowering import lowered
from tritorch.ops.record.operator import Operator

F = torch.nn.functional


@pytest.mark.device
def test_dropout_twice_of_the_same_product() -> None:
    """The second product is the first one's value, which is found in the gradient's params too."""
    w = torch.randn(64, device="cuda", requires_grad=True)
    x = torch.randn(64, 64, device="cuda")

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x * w, 0.4).sum() + F.dropout(x * w, 0.4).sum()

    compiled = torch.compile(function)
    for seed in range(6):
        grads = []
        for each in (function, compiled):
            torch.manual_seed(seed)
            grads.append(torch.autograd.grad(each(x), w)[0])
        torch.testing.assert_close(*grads)


def test_calls_are_renumbered_whole() -> None:
    op = Operator(
        "renumbered", "x", "seed", cpu=lambda x, seed: x, schema="(Tensor x, int seed) -> Tensor"
    )
    note = Note(NoteForm.CALL, op, (Value(0),), (Value(1),), (2,), False)
    form = Form(type(torch.ones(2).numpy()), (2,), torch.ones(2).numpy().dtype, (4,))
    call = lowered(note, [form] * 3).renumbered({0: 5, 1: 6, 2: 7})
    assert call.args == (Value(5), Value(6)) and call.results == (7,)
    assert call.note == note._replace(inputs=(Value(5),), params=(Value(6),), results=(7,))
    replaced = call._replace(args=(Value(8), Value(9)))
    assert replaced.as_called().inputs == (Value(8),)
    assert replaced.as_called().params == (Value(9),)


def test_a_program_that_lacks_a_value_raises() -> None:
    call = (lambda x: x, (None,), (1,), (2,), ())
    program = _C.Program(3, (), (call,), (), (), None, ())
    with pytest.raises(SystemError, match="value 1, which no call has given"):
        program.run((), torch.ones(1).numpy())


def test_programs_are_collected_with_what_they_hold() -> None:
    class Held:
        pass

    def build() -> None:
        held = Held()
        call = (lambda x, y: x, (held, None), (-1, 0), (1,), ())
        held.program = _C.Program(2, (), (call,), (), (), None, ())

    gc.collect()
    build()
    gc.collect()
    assert not any(type(each) is Held for each in gc.get_objects())
