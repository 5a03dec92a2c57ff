"""Chains, and the other passes over a program's calls: eager's bits, and what becomes of calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.passes import concat, cse, functionalize, fused_loops
from tritorch.compilation.plan.lowering import Lowered, arguments
from tritorch.compilation.tools import showing
from tritorch.host.chains.steps import Untraceable
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise

nn, F = torch.nn, torch.nn.functional
SIZE = 5001  # two pieces, and a part of one
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38, 0.5, 2.0]
KINDS = {"f": np.float32, "d": np.float64, "i": np.int32, "l": np.int64, "?": np.bool_}


def bits(x: Any) -> bytes:
    """NaN has no sign: of two, processors give the first one's, and compilers may exchange them."""
    x = np.ascontiguousarray(x)
    return (np.where(np.isnan(x), np.abs(x), x) if x.dtype.kind == "f" else x).tobytes()


def form_of(x: Any) -> Form:
    return Form(np.ndarray, x.shape, x.dtype, tuple(s // x.itemsize for s in x.strides))


def numbers(rng: np.random.Generator, kind: str, n: int = SIZE) -> Any:
    if kind == "?":
        return rng.random(n) < 0.5
    if kind in "il":
        return rng.integers(-5, 6, n).astype(KINDS[kind])
    x = (rng.standard_normal(n) * 3).astype(KINDS[kind])
    places = rng.choice(n, n // 8, replace=False)
    x[places] = rng.choice(np.array(SPECIAL, KINDS[kind]), len(places))
    return x


def alone(note: Note, forms: list[Form]) -> Any:
    """A call as a chain of its own."""
    group = fused_loops.Group((SIZE,), 0)
    call: Any = Lowered(None, arguments(note), note.results, note, False)  # type: ignore[arg-type]
    if not group.add(call, forms):
        raise Untraceable
    values = [group.values[n] for n in note.results]
    return fused_loops.Chain(group.steps, values)


# ---- one record ----------------------------------------------------------------------------------


def _traced(kind: str) -> Iterator[tuple[Pointwise, list[Any], Any]]:
    rng = np.random.default_rng(0)
    for op in list(OPERATORS.values()):
        if not isinstance(op, Pointwise):
            continue
        arrays = [
            numbers(rng, "?" if i < op.masks else kind) for i in range(len(op.inputs) - op.beside)
        ]
        inputs = (*map(Value, range(len(arrays))), *([2.0] * op.beside))
        result = op.result_dtype(torch.from_numpy(np.zeros(0, KINDS[kind])).dtype)
        floats = op.rule == 1 and kind not in "fd"
        made = np.zeros(SIZE, np.float32 if floats else result.numpy)
        forms = [*map(form_of, arrays), form_of(made)]
        note = Note(NoteForm.POINTWISE, op, inputs, (None,), (len(arrays),), False)
        try:
            chain = alone(note, forms)
        except (Untraceable, NotImplementedError, RuntimeError):
            continue
        yield op, arrays, chain


@pytest.mark.parametrize(("kind", "least"), [("f", 90), ("d", 80), ("i", 40), ("l", 40), ("?", 15)])
def test_steps_have_the_bits_of_the_record(kind: str, least: int) -> None:
    count = 0
    for op, arrays, chain in _traced(kind):
        tensors = [torch.from_numpy(x) for x in arrays]
        from tritorch.ops.record.apply import apply

        expected = apply(op, [*tensors, *([2.0] * op.beside)])
        with np.errstate(all="raise"):  # chains ask for no warnings, and leave none behind
            found = chain(*arrays)
            assert np.float32(1) + np.float32(1) == 2
        assert bits(found) == bits(expected.numpy()), op.name
        count += 1
    assert count >= least


@pytest.mark.parametrize("n", [2048, 4097, 1 << 18, (1 << 20) + 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_size_and_thread(n: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, y = torch.randn(n), torch.randn(n)
        compare(lambda x, y: torch.where(x > y, x.exp() * y, torch.erf(x) - 1).sigmoid(), x, y)
    finally:
        torch.set_num_threads(before)


def test_log1p_of_a_large_array() -> None:
    compare(lambda x: x.log1p() + 1, torch.rand(200_000))


# ---- programs ------------------------------------------------------------------------------------


def compare(function: Callable[..., Any], *args: Any, grads: bool = False) -> Any:
    """Runs a function compiled until it is planned; its results, and gradients, are eager's."""
    fast = torch.compile(function)

    def run(f: Callable[..., Any]) -> list[Any]:
        given = [x.detach().clone() for x in args]
        for x in given:
            x.requires_grad_(grads and x.is_floating_point())
        made = f(*given)
        made = list(made) if isinstance(made, tuple) else [made]
        if grads:
            sum(x.sum() for x in made if x.requires_grad).backward()
        return [x.detach() for x in made] + [x.grad for x in given if x.grad is not None]

    expected = run(function)
    for _ in range(5):
        found = run(fast)
        for a, b in zip(expected, found, strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
            assert bits(a.numpy()) == bits(b.numpy())
    return fast


def _made(which: int, x: Any, y: Any, z: Any, own: list[Any]) -> Any:
    """A call on some tensors, or in place on the last one that was made."""
    float_x = x if x.is_floating_point() else x * 0.5
    last = own[-1] if own else None
    calls = (
        lambda: x + y,
        lambda: x * y,
        lambda: torch.where(x > y, y, z),
        lambda: float_x.sigmoid() * 2,
        lambda: F.silu(float_x) + 1,
        lambda: F.gelu(float_x),
        lambda: float_x.clamp(-1, 1) - y * 1,
        lambda: (x != y).logical_or(z == 1),
        lambda: x.to(torch.float64) / 3,
        lambda: F.relu(float_x).sqrt(),
        lambda: last.mul_(2) if last is not None and last.is_floating_point() else x + 1,
        lambda: (
            last.add_(1).clamp_(0, 3)
            if last is not None and last.dtype is torch.float32
            else torch.maximum(x, y)
        ),
    )
    return calls[which]()


def _program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A function of random pointwise calls on tensors of several dtypes, some in place."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list("ffffdil?"), 4)
    shape = tuple(rng.permutation([int(rng.integers(3, 9)), int(rng.integers(300, 900))]))
    given = []
    for i, kind in enumerate(kinds):
        whole = numbers(rng, kind, 2 * shape[0] * shape[1]).reshape(2, *shape)
        x = torch.from_numpy(whole)[0]
        if i == 1 and rng.random() < 0.5:
            x = torch.from_numpy(whole.transpose(0, 2, 1).copy())[0].t()  # columns first
        if i == 2 and rng.random() < 0.5:
            x = x[0, 0]  # a number
        given.append(x)
    choices = rng.integers(0, 1 << 30, (12, 4))

    def function(*tensors: Any) -> Any:
        found, own = list(tensors), list[Any]()
        for which, *places in choices:
            made = _made(which % 12, *(found[int(i) % len(found)] for i in places), own)
            found.append(made)
            own.append(made)
        return tuple(found[-3:])

    return function, given


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    function, given = _program(seed)
    with torch.no_grad():
        compare(function, *given)


ACTIVATIONS = {
    "silu": F.silu, "gelu": F.gelu, "tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu, "mish": F.mish, "sigmoid": torch.sigmoid, "softplus": F.softplus,
    "logsigmoid": F.logsigmoid, "elu": F.elu, "hardswish": F.hardswish,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["f", "d"])
def test_gradients_of_activations(name: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    x, w = (torch.from_numpy(numbers(rng, kind)) for _ in range(2))
    compare(lambda x, w: ACTIVATIONS[name](x * 1.5) * w, x, w, grads=True)


# ---- what becomes of calls -----------------------------------------------------------------------


@contextmanager
def plans(caplog: Any) -> Iterator[list[str]]:
    """The functions of the programs that are made inside, as text."""
    torch._logging.set_logs(plan=True)
    showing.log.addHandler(caplog.handler)  # torch's loggers don't propagate to the root
    found: list[str] = []
    try:
        with caplog.at_level(logging.DEBUG):
            yield found
    finally:
        showing.log.removeHandler(caplog.handler)
        torch._logging.set_logs()
        lines = [
            line.strip() for record in caplog.records for line in record.getMessage().split("\n")
        ]
        found += dict.fromkeys(line.split("  #")[0] for line in lines if line.startswith("v"))


def program_of(caplog: Any, function: Callable[..., Any], *args: Any, grads: bool = False) -> str:
    with plans(caplog) as found:
        compare(function, *args, grads=grads)
    return "; ".join(found)


def test_calls_in_place_are_part_of_a_chain(caplog: Any) -> None:
    x, y = torch.rand(64, 64), torch.rand(64, 64)
    with torch.no_grad():
        text = program_of(caplog, lambda x, y: (x + y).mul_(y).add_(1).clamp_(0, 2).sqrt_(), x, y)
    assert text.startswith("v") and text.endswith(" = add+mul+add+clamp+sqrt(v0, v1)")
    assert ";" not in text


def test_what_a_view_shows_is_written_in_place(caplog: Any) -> None:
    def function(x: Any) -> Any:
        y = x + 1
        z = y[1:]
        y.mul_(2)
        return z, y

    with torch.no_grad():
        text = program_of(caplog, function, torch.rand(64, 64))
    assert "+" not in text and "writes" not in text.split(";")[0]


def test_what_is_given_is_written(caplog: Any) -> None:
    fast = torch.compile(lambda x: x.add_(1).mul_(2))
    x, y = torch.ones(64, 64), torch.ones(64, 64)
    with torch.no_grad():
        for _ in range(5):
            fast(x)
            y.add_(1).mul_(2)
    assert x.equal(y)


def test_parts_are_joined_where_they_do_not_meet(caplog: Any) -> None:
    x = torch.randn(8, 4, 96)

    def split(x: Any) -> Any:
        a, b, c = (x * 2).split(32, 2)
        return a * b, c.relu()

    assert "slice_backward+slice_backward+slice_backward" in program_of(
        caplog, split, x, grads=True
    )
    caplog.clear()

    def meeting(x: Any) -> Any:
        y = x * 2
        return y[..., :50].exp(), y[..., 40:].relu()

    text = program_of(caplog, meeting, x, grads=True)
    assert "basic_index_backward" in text and "backward+basic" not in text


def test_joined_gaps_and_negative_zeros() -> None:
    def parts(x: Any) -> Any:
        y = x * 2
        return y[:, :3] * -0.0, y[:, 4:9] * -0.0, y[:, 20].exp()

    compare(parts, torch.rand(70, 33), grads=True)


def test_derivatives_are_computed_beside_the_activation(caplog: Any) -> None:
    x = torch.randn(64, 64)
    text = program_of(caplog, lambda x: F.silu(x * 2) * x, x, grads=True)
    assert "silu_backward'" in text.split(";")[0]


def test_equal_calls_are_made_once(caplog: Any) -> None:
    def function(x: Any) -> Any:
        return x.t().contiguous().sum(0), x.t().contiguous().amax(1)

    with torch.no_grad():
        text = program_of(caplog, function, torch.rand(7, 9))
    assert text.count("clone") == 1 and text.count("(v0, 0, 1)") == 1


def test_equal_results_have_memory_of_their_own() -> None:
    fast = torch.compile(
        lambda x: (x.t().contiguous(), x.t().contiguous(), x.exp() + 1, x.exp() + 1)
    )
    x = torch.rand(70, 90)
    with torch.no_grad():
        for _ in range(5):
            found = fast(x)
            assert len({y.data_ptr() for y in found}) == 4
            found = fast(x)
            found[0].zero_(), found[2].zero_()
            assert found[1].equal(x.t()) and found[3].equal(x.exp() + 1)


def test_passes_on_calls_as_text() -> None:
    """The passes themselves, on calls that no program makes."""
    x = np.zeros((64, 64), np.float32)
    forms = [form_of(x) for _ in range(8)]
    mul, add = OPERATORS["mul"], OPERATORS["add"]
    notes = [
        Note(NoteForm.POINTWISE, mul, (Value(0), 2.0), (None,), (1,), False),
        Note(NoteForm.IN_PLACE, add, (Value(1), Value(0)), (), (1,), False),
        Note(NoteForm.POINTWISE, mul, (Value(1), Value(1)), (None,), (2,), False),
    ]
    found, old = functionalize.functionalized(notes, forms, [0], {0: 0, 1: 1, 2: 2})
    assert [(n.form, n.inputs, n.results) for n in found] == [
        ("pointwise", (Value(0), 2.0), (8,)),
        ("pointwise", (Value(8), Value(0)), (1,)),
        ("pointwise", (Value(1), Value(1)), (2,)),
    ]
    assert old == {8: 1} and len(forms) == 9
    # A view that was there before shows what is written; one that is made later shows the result.
    view = Note(NoteForm.CALL, OPERATORS["transpose"], (Value(1),), (0, 1), (3,), False)
    memory = {0: 0, 1: 1, 2: 2, 3: 1}
    assert functionalize.functionalized([notes[0], view, notes[1]], forms, [0], memory)[1] == {}
    assert functionalize.functionalized([notes[0], notes[1], view], forms, [0], memory)[1] != {}

    def call(
        op: Any, args: tuple[Any, ...], result: int, form: NoteForm = NoteForm.CALL
    ) -> Lowered:
        return Lowered(None, args, (result,), Note(form, op, args, (), (result,), False), False)  # type: ignore[arg-type]

    clone = OPERATORS["clone"]
    calls = [
        call(clone, (Value(0),), 1),
        call(clone, (Value(0),), 2),
        call(mul, (Value(2), 2.0), 3),
    ]
    assert [c.args for c in cse.eliminate_common_calls(calls, [0], {3})] == [
        (Value(0),),
        (Value(1), 2.0),
    ]
    assert (
        len(cse.eliminate_common_calls(calls, [0], {2, 3})) == 3
    )  # a result that is held has its own memory
    other = [call(mul, (Value(0), 0.0), 1), call(mul, (Value(0), -0.0), 2)]
    assert len(cse.eliminate_common_calls(other, [0], set())) == 2
    assert concat.concat_gradients(calls, forms, {3}) == calls


# ---- side by side --------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_both_directions_run_side_by_side(caplog: Any, kind: Any, threads: int) -> None:
    model = kind(8, 128, num_layers=2, bidirectional=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        text = program_of(
            caplog, lambda x: model(x)[0] * x.sum(), torch.randn(3, 16, 8), grads=True
        )
    finally:
        torch.set_num_threads(before)
    joined = [line.partition(" = ")[2].partition("(")[0] for line in text.split("; ")]
    assert joined.count("recurrent+recurrent") == 2  # the second layer reads the first one's
    assert joined.count("recurrent_backward+recurrent_backward") == 2


def test_what_reads_the_other_does_not_run_beside_it(caplog: Any) -> None:
    first, second = nn.LSTM(128, 128), nn.LSTM(128, 128)
    x = torch.randn(3, 16, 128)
    assert "recurrent+" not in program_of(caplog, lambda x: second(first(x)[0])[0], x, grads=True)
    caplog.clear()

    def written_between(x: Any) -> Any:
        y = first(x)[0]
        x.mul_(2)
        return y, second(x)[0]

    with torch.no_grad():
        assert "recurrent+" not in program_of(caplog, written_between, x)


def test_small_steps_do_not_run_side_by_side(caplog: Any) -> None:
    model = nn.LSTM(8, 16, bidirectional=True)
    assert "recurrent+" not in program_of(caplog, lambda x: model(x)[0], torch.randn(5, 3, 8))
