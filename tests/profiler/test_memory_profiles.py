"""What memory is for, as PyTorch's rules find it: data flow, categories, the time line."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.profiler import _memory_profiler as memory, profile as _profile
from tritorch.profiler._memory_profiler import Action, Category, MemoryProfile, SchemaMatcher

profile = functools.partial(_profile, record_shapes=True, profile_memory=True, with_stack=True)


def _profiled(run: Callable[[], Any]) -> MemoryProfile:
    with profile() as prof:
        kept = run()
        gc.collect()
    del kept
    return prof._memory_profile()


def _category(tensor: torch.Tensor, found: MemoryProfile) -> set[Category | None]:
    """Of the memory that has a tensor's address at the end."""
    address = tensor.storage().data_ptr()
    keys = [key for key, _ in found._category_snapshot() if key.storage.ptr == address]
    last = max(key.storage.allocation_id for key in keys)
    return {
        category for (key, _), category in found._category_snapshot().items()
        if key.storage.allocation_id == last
    }  # fmt: skip


def _flow(found: MemoryProfile) -> list[str]:
    lines = []
    for node in found._data_flow_graph.flow_nodes:
        read = ", ".join(f"{key.id}v{version}" for key, (_, version) in node.inputs.items())
        made = ", ".join(f"{key.id}v{version}" for key, version in node.outputs.items())
        lines.append(f"{node._event.name}: {read} -> {made}")
    return lines


def test_a_step_of_training() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 8), torch.randn(4, 1)
    kept: list[torch.Tensor] = []

    def run() -> None:
        hidden = model[0](x)
        kept.append(hidden)
        nn.functional.mse_loss(model[2](model[1](hidden)), y).backward()
        optimizer.step()

    found = _profiled(run)
    for parameter in model.parameters():
        assert _category(parameter, found) == {Category.PARAMETER}
        assert parameter.grad is not None
        assert _category(parameter.grad, found) == {Category.GRADIENT}
        moment = optimizer.state[parameter]["exp_avg"]
        assert _category(moment, found) == {Category.OPTIMIZER_STATE}
    assert _category(x, found) == {Category.INPUT}
    assert _category(kept[0], found) == {Category.ACTIVATION}
    found._data_flow_graph.validate()


def test_parameters_that_nobody_tells_of() -> None:
    w = torch.ones(4, requires_grad=True)
    x = torch.ones(4)

    def run() -> None:
        for _ in range(2):
            w.grad = None
            (x * w).sum().backward()
            with torch.no_grad():
                w.sub_(w.grad * 0.1)  # type: ignore[operator]

    found = _profiled(run)
    assert _category(w, found) == {Category.PARAMETER}
    assert _category(x, found) == {Category.INPUT}
    assert w.grad is not None and _category(w.grad, found) == {Category.GRADIENT}


def test_versions_and_frees() -> None:
    x = torch.ones(300)

    def run() -> torch.Tensor:
        y = x * x
        y.add_(x)
        z = y.exp()
        del y
        return z

    assert _flow(_profiled(run)) == [
        "aten::mul: 0v0 -> 1v0", "aten::add_: 0v0, 1v0 -> 1v1", "aten::exp: 1v1 -> 2v0",
        "[memory]: 1v1 -> ",
    ]  # fmt: skip


def test_gradients_are_not_written_by_nodes() -> None:
    w = torch.ones(50, requires_grad=True)
    flow = _flow(_profiled(lambda: w.exp().sum().backward()))
    nodes = [line for line in flow if "Backward0" in line]
    assert len(nodes) == 2
    assert not [line for line in nodes if "v1" in line]


def test_the_time_line() -> None:
    w, x = torch.ones(1000, requires_grad=True), torch.ones(1000)

    def run() -> None:
        (w * x).sum().backward()
        with torch.no_grad():
            w.sub_(w.grad)  # type: ignore[arg-type]

    found = _profiled(run)
    line = found.timeline
    assert [time for time, *_ in line] == sorted(time for time, *_ in line)
    kinds = {action for _, action, _, _ in line}
    assert {Action.PREEXISTING, Action.CREATE, Action.INCREMENT_VERSION, Action.DESTROY} == kinds
    of_w = [each for each in line if found._categories.get(*each[2]) == Category.PARAMETER]
    assert [(action, size) for _, action, _, size in of_w] == [
        (Action.PREEXISTING, 4000), (Action.INCREMENT_VERSION, 4000)
    ]  # fmt: skip
    times, sizes = memory.MemoryProfileTimeline(found)._coalesce_timeline("cpu")
    assert len(times) == len(sizes) and min(n for row in sizes for n in row) >= 0
    assert sizes[-1][memory._CATEGORY_TO_INDEX[Category.PARAMETER] + 1] == 4000


def test_overloads_by_arguments() -> None:
    x = torch.ones(3)
    with profile() as prof:
        torch.sin(x, out=torch.empty_like(x))
        x.add_(2)
    assert prof.profiler is not None
    tree = prof.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    found = {}
    for event in memory.OpTree(prof.profiler.kineto_results).dfs():
        if event.name in ("aten::sin", "aten::add_"):
            schemas = SchemaMatcher.match_schemas(event.extra_fields)
            written = SchemaMatcher.inputs_are_mutable(event.extra_fields)
            found[event.name] = [schema.overload_name for schema in schemas], written
    assert found == {
        "aten::sin": (["out"], (False, True)), "aten::add_": (["Scalar"], (True, False, False)),
    }  # fmt: skip
    assert tree and SchemaMatcher.lookup_schemas("My annotation") is None
    assert SchemaMatcher.lookup_schemas("Mine::annotation") == ()


def test_what_a_profile_must_have() -> None:
    with _profile() as without:
        pass
    needed = "record_shapes=True, profile_memory=True, with_stack=True required"
    with pytest.raises(ValueError, match=needed):
        without._memory_profile()
    with profile() as prof:
        pass
    assert prof._memory_profile().timeline == ()
