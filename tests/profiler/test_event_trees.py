"""Trees of events: what is in them, and which tensors and which memory are the same."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch._C import _autograd, _profiler  # type: ignore[attr-defined]
from tritorch.autograd import profiler as autograd_profiler, profiler_legacy
from tritorch.ops.record.maker import Maker
from tritorch.ops.record.operator import OPERATORS
from tritorch.profiler import RecordScope, profile, record_function
from tritorch.profiler._utils import traverse_dfs

Events = list[Any]


def _tree(run: Callable[[], Any], **options: bool) -> Events:
    with profile(**options) as prof:  # type: ignore[arg-type]
        run()
    assert prof.profiler is not None
    return prof.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]


def _all(roots: Events) -> Iterator[Any]:
    return traverse_dfs(roots)


def _shown(roots: Events, depth: int = 0) -> list[str]:
    found = []
    for event in roots:
        found += [f"{'  ' * depth}{event.name}", *_shown(event.children, depth + 1)]
    return found


def _named(roots: Events, name: str) -> Any:
    return next(event for event in _all(roots) if event.name == name)


def test_calls_with_their_arguments() -> None:
    x, y = torch.ones(4, 3), torch.ones(3, requires_grad=True)
    roots = _tree(lambda: (x * y, torch.cat([x, x], axis=1)), record_shapes=True)
    mul, cat = roots
    assert (mul.name, mul.overload_name, mul.parent) == ("aten::mul", "Tensor", None)
    assert mul.typed == (_profiler._EventType.TorchOp, mul.extra_fields)
    fields = mul.extra_fields
    assert fields.scope is RecordScope.FUNCTION and fields.sequence_number >= 0
    assert [each.sizes for each in fields.inputs] == [[4, 3], [3]]
    assert [each.strides for each in fields.inputs] == [[3, 1], [1]]
    assert [each.dtype for each in fields.inputs] == [torch.float32] * 2
    assert fields.inputs[0].impl_ptr is None  # memory was not asked for
    tensors, dim = cat.extra_fields.inputs
    assert [each.sizes for each in tensors] == [[4, 3], [4, 3]] and dim == 1
    assert mul.end_time_ns - mul.start_time_ns == mul.duration_time_ns > 0
    assert mul.end_time_ns <= cat.start_time_ns and 0 < mul.correlation_id < cat.correlation_id


def test_sizes_defaults_and_layouts() -> None:
    s = torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), check_invariants=False)
    roots = _tree(lambda: (torch.ones(2, 3), s + s, torch.add(s, s, alpha=2)), record_shapes=True)
    ones, plain, scaled = (event.extra_fields.inputs for event in roots)
    assert ones == [[2, 3], None, None, None, None]
    assert plain[2] == 1 and scaled[2] == 2  # what was not given is the default
    assert plain[0].layout is torch.sparse_coo and plain[0].sizes == [2, 2]


def test_parts_of_calls() -> None:
    x = torch.ones(4, 4)
    roots = _tree(lambda: (x @ x, x.reshape(2, 8), x.neg()))
    assert _shown(roots) == [
        "aten::matmul", "  aten::mm", "aten::reshape", "  aten::view", "aten::neg",
    ]  # fmt: skip
    whole, part = roots[0], roots[0].children[0]
    assert whole.start_time_ns <= part.start_time_ns < part.end_time_ns <= whole.end_time_ns
    # With memory it is known when a factory's memory is there.
    roots = _tree(lambda: torch.rand(5), record_shapes=True, profile_memory=True)
    assert _shown(roots)[:4] == [
        "aten::rand", "  aten::empty", "    [memory]", "  aten::uniform_",
    ]  # fmt: skip
    empty, uniform = roots[0].children
    memory = empty.children[0].extra_fields
    assert memory.alloc_size == 20 and memory.device == torch.device("cpu")
    assert uniform.extra_fields.inputs[0].storage_data_ptr == memory.ptr
    assert empty.end_time_ns == uniform.start_time_ns
    assert uniform.end_time_ns == roots[0].end_time_ns


@pytest.mark.parametrize("name", [k for k, x in OPERATORS.items() if getattr(x, "filled_by", "")])
def test_factories_are_what_their_records_say(name: str) -> None:
    record = OPERATORS[name]
    assert isinstance(record, Maker)
    how, _, value = record.filled_by.partition(" ")
    given = {"value": 7.0}
    extra = [given[param] for param in record.params if param in given]
    torch.manual_seed(3)
    made = getattr(torch, name)((2, 50), *extra)
    torch.manual_seed(3)
    number = extra[int(value[1:]) - 1] if value.startswith("$") else value and float(value)
    filled = getattr(torch.empty(2, 50), how)(*([number] if value else []))
    assert torch.equal(made, filled)


def test_tensors_and_memory_keep_their_numbers() -> None:
    def run() -> None:
        x = torch.ones(3)
        x.view(3, 1).sin()
        x.resize_(200)
        x.cos()
        del x
        for _ in range(3):
            torch.ones(7).exp()

    roots = _tree(run, record_shapes=True, profile_memory=True)
    fields = {event.name: event.extra_fields for event in _all(roots)}
    sin, cos = fields["aten::sin"].inputs[0], fields["aten::cos"].inputs[0]
    assert sin.id == cos.id and sin.allocation_id != cos.allocation_id
    assert sin.storage_data_ptr != cos.storage_data_ptr and sin.impl_ptr != cos.impl_ptr
    # The same address has other numbers after each free.
    others = [event.extra_fields.inputs[0] for event in _all(roots) if event.name == "aten::exp"]
    assert len({each.allocation_id for each in others}) == 3
    assert len({each.id for each in others}) == 3
    memory = [event.extra_fields for event in _all(roots) if event.name == "[memory]"]
    taken = [each for each in memory if each.allocation_id == others[0].allocation_id]
    assert [each.alloc_size for each in taken] == [28, -28]
    resized = [each for each in memory if each.id == cos.id]
    assert [each.alloc_size for each in resized] == [12, 800, -12, -800]


def test_a_tensors_number_is_its_own() -> None:
    numbers = {torch.ones(1)._cdata for _ in range(100)}
    assert len(numbers) == 100
    x = torch.ones(1)
    assert x._cdata == x._cdata != x.view(1)._cdata


class _Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _scaled(x, self.scale)


def _scaled(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, by)


def test_functions_of_python() -> None:
    model = _Scale()
    model(torch.ones(2)).sum().backward()
    roots = _tree(lambda: model(torch.ones(2)), with_stack=True)
    module = _named(roots, "nn.Module: _Scale_0")
    forward = next(e for e in _all(roots) if e.name.endswith(": forward"))
    scaled = next(e for e in _all(roots) if e.name.endswith(": _scaled"))
    mul = _named(roots, "aten::mul")
    called = mul.parent
    assert [forward.parent, scaled.parent, called.parent] == [module, forward, scaled]
    assert called.tag == _profiler._EventType.PyCCall and called.name == "<built-in function mul>"
    assert forward.name.startswith(os.path.join("tests", "profiler", "test_event_trees.py("))
    lines = {event.extra_fields.caller.function_name for event in (scaled, called)}
    assert lines == {"forward", "_scaled"}
    with open(__file__) as file:
        source = file.read().splitlines()
    assert "_scaled(x, self.scale)" in source[scaled.extra_fields.caller.line_number - 1]
    assert "torch.mul" in source[called.extra_fields.caller.line_number - 1]
    info = module.extra_fields.module
    assert (info.self_ptr, info.cls_name) == (id(model), "_Scale")
    ((name, parameter, gradient),) = info.parameters
    assert name == "scale" and parameter.storage_data_ptr == model.scale.storage().data_ptr()
    assert gradient.storage_data_ptr == model.scale.grad.storage().data_ptr()  # type: ignore[union-attr]


def test_our_own_functions_are_no_events() -> None:
    x = torch.ones(3, requires_grad=True)
    roots = _tree(lambda: x.sum().backward(), with_stack=True)
    files = {event.name.partition("(")[0] for event in _all(roots) if ".py(" in event.name}
    assert not {file for file in files if "ops" in file or "numpy" in file or "kernels" in file}


def test_threads_of_before_and_later() -> None:
    ready, go = threading.Event(), threading.Event()

    def waits() -> None:
        ready.set()
        go.wait(10)
        torch.ones(1).neg()

    before = threading.Thread(target=waits)
    before.start()
    ready.wait(10)
    with profile(with_stack=True) as prof:
        later = threading.Thread(target=waits)
        later.start()
        go.set()
        before.join()
        later.join()
    assert prof.profiler is not None
    roots = prof.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    threads = {e.start_tid for e in _all(roots) if e.tag == _profiler._EventType.PyCall}
    assert len(threads) == 2  # the main one, and the one that was there
    waiting = [e for e in _all(roots) if e.name.endswith(": waits")]
    assert len(waiting) == 1
    assert len([e for e in _all(roots) if e.name == "aten::neg"]) == 2


def test_a_profiler_of_the_programs_own_goes_on() -> None:
    import sys

    seen = []

    def own(frame: Any, what: str, argument: Any) -> None:
        seen.append(what)

    sys.setprofile(own)
    try:
        roots = _tree(lambda: torch.ones(1), with_stack=True)
        assert sys.getprofile() is own and "call" in seen
    finally:
        sys.setprofile(None)
    assert not [e for e in _all(roots) if e.tag == _profiler._EventType.PyCall]


def test_optimizers_say_what_they_have() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def run() -> None:
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    roots = _tree(run, with_stack=True, profile_memory=True)
    told = [
        e.extra_fields.optimizer for e in _all(roots)
        if getattr(e.extra_fields, "optimizer", None) is not None
    ]  # fmt: skip
    assert [each.self_ptr for each in told] == [id(optimizer)]
    for (parameter, gradient, state), own in zip(told[0].parameters, model.parameters()):
        assert parameter.storage_data_ptr == own.storage().data_ptr()
        assert gradient.storage_data_ptr == own.grad.storage().data_ptr()  # type: ignore[union-attr]
        momentum = optimizer.state[own]["momentum_buffer"]
        assert [(name, x.storage_data_ptr) for name, x in state] == [
            ("momentum_buffer", momentum.storage().data_ptr())
        ]


def test_gradients_that_arrive() -> None:
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(2, 3)

    def run() -> None:
        (x * w).sum().backward()
        (x * w).sum().backward()

    roots = _tree(run, record_shapes=True, profile_memory=True)
    arrived = [e for e in _all(roots) if e.name == "torch::autograd::AccumulateGrad"]
    assert [e.extra_fields.scope for e in arrived] == [RecordScope.BACKWARD_FUNCTION] * 2
    taken, added = (e.children[-1] for e in arrived)
    assert taken.name in ("aten::detach", "aten::clone") and added.name == "aten::add_"
    address = w.grad.storage().data_ptr()  # type: ignore[union-attr]
    assert taken.extra_fields.result.storage_data_ptr == address
    assert added.extra_fields.inputs[0].storage_data_ptr == address


def test_annotations_have_arguments() -> None:
    from tritorch.autograd import (  # type: ignore[attr-defined]
        _record_function_with_args_enter,
        _record_function_with_args_exit,
    )

    x = torch.ones(3, 4)
    with autograd_profiler.profile(record_shapes=True) as prof, record_function("outer", "1, 2"):
        handle = _record_function_with_args_enter("inner", 1, [x, x], "text", x)
        _record_function_with_args_exit(handle)
    found = {event.name: event.input_shapes for event in prof.function_events}
    assert found == {"outer": [[]], "inner": [[], [], [], [3, 4]]}


def test_results_of_a_profile() -> None:
    with profile(record_shapes=True) as prof:
        torch.ones(2, 2).neg()
    assert prof.profiler is not None
    results = prof.profiler.kineto_results
    assert results is not None and results is prof.profiler.kineto_results
    events = {event.name(): event for event in results.events()}
    neg = events["aten::neg"]
    assert neg.shapes() == [[2, 2]] and neg.duration_ns() == neg.end_ns() - neg.start_ns() >= 0
    assert results.trace_start_ns() <= neg.start_ns()
    numbers = [event.correlation_id() for event in results.events()]
    with profile() as again:
        torch.ones(2)
    assert again.profiler is not None
    more = [e.correlation_id() for e in again.profiler.kineto_results.events()]  # type: ignore[union-attr]
    assert len({*numbers, *more}) == len(numbers) + len(more)


def test_which_profiler_runs() -> None:
    kinds = _profiler.ActiveProfilerType
    assert _autograd._profiler_type() is kinds.NONE
    with profile():
        assert _autograd._profiler_type() is kinds.KINETO
    with profiler_legacy.profile():
        assert _autograd._profiler_type() is kinds.LEGACY
    assert _autograd._profiler_type() is kinds.NONE


class _Told(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def test_overrides_are_functions_of_the_program() -> None:
    x = torch.ones(2).as_subclass(_Told)
    roots = _tree(lambda: torch.add(x, x), with_stack=True)
    told = next(e for e in _all(roots) if e.name.endswith(": __torch_function__"))
    inner = [e for e in _all([told]) if e.name == "aten::add"]
    assert told.parent.name == "aten::add" and len(inner) == 1


def test_functions_after_a_pause() -> None:
    def first() -> None:
        prof.toggle_collection_dynamic(False, [])

    def second() -> None:
        torch.ones(1).neg()

    with profile(with_stack=True) as prof:
        first()
        second()
        prof.toggle_collection_dynamic(True, [])
        second()
    assert prof.profiler is not None
    roots = prof.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    seconds = [e for e in _all(roots) if e.name.endswith(": second")]
    assert len(seconds) == 1
    (neg,) = (e for e in _all(roots) if e.name == "aten::neg")
    assert neg.parent.parent is seconds[0]
    assert seconds[0].parent.name.endswith(": test_functions_after_a_pause")
