"""torch._dynamo.explain: the graphs of one run, and why they end."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tritorch.compilation.follow.calls import Segment
from tritorch.compilation.follow.compiled import follower_of
from tritorch.compilation.follow.counters import timed, times
from tritorch.compilation.follow.regions import Options
from tritorch.compilation.tools import logs
from tritorch.compilation.tools.backends import input_names
from tritorch.compilation.tools.graphs import graph_module, operators
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module


@dataclasses.dataclass
class GraphCompileReason:
    """Why a graph ends, and the user's line."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True


@dataclasses.dataclass
class TensorGuard:
    """The properties that a graph takes for granted of an input."""

    name: str
    code_list: list[str]

    def __str__(self) -> str:
        return (
            f"Name: {self.name!r}\n    Source: local\n    Create Function: TENSOR_MATCH\n"
            f"    Guard Types: ['TENSOR_MATCH']\n    Code List: {self.code_list}\n"
        )


@dataclasses.dataclass
class ExplainOutput:
    """The result of `explain`; it prints as text."""

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[GraphCompileReason]
    op_count: int
    ops_per_graph: list[list[Any]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, found in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {found.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in found.user_stack]
        if self.ops_per_graph is not None:
            lines.append("Ops per Graph:")
            for number, ops in enumerate(self.ops_per_graph, 1):
                lines += [f"  Ops {number}:", *(f"    {op}" for op in ops)]
        if self.out_guards is not None:
            lines.append("Out Guards:")
            for number, guard in enumerate(self.out_guards, 1):
                lines += [f"  Guard {number}:", f"    {str(guard).rstrip()}"]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`explain(f)(*args)` runs the function once and says which graphs there are, and why they end.

    A graph break is where the program wants a value, or asks for one: all are counted, also one
    after which no call follows, where PyTorch counts graphs but one.  Python runs as it always
    does, so that nothing else ends a graph: no `print`, no global, no call of other code."""

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        names: dict[int, dict[int, str]] = {}  # of inputs, by segment and slot

        def keep(segment: Segment, examples: list[Tensor]) -> Any:
            names[segment.number] = _names(f, args, kwargs, segment, examples)
            logs.traced(f"__compiled_fn_{segment.number}", graph_module(segment))
            return None  # the function runs once

        follower = follower_of(f, Options(backend=keep))
        with timed("explain"):
            follower(*args, **kwargs)
        return explained(list(follower.segments), names)

    if not extra_args and not extra_kwargs:
        return inner
    warnings.warn(
        "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead.  If "
        "you don't migrate, we may break your explain call in the future if your user defined "
        "kwargs conflict with future kwargs added to explain(f).",
        FutureWarning,
        stacklevel=2,
    )
    return inner(*extra_args, **extra_kwargs)


def _names(
    f: Any, args: Any, kwargs: Any, segment: Segment, examples: list[Tensor]
) -> dict[int, str]:
    """The program's names of the inputs of a graph: a module's parameters, a function's
    arguments."""
    owner = f if isinstance(f, Module) else getattr(f, "__self__", None)
    names = input_names(segment, examples, owner if isinstance(owner, Module) else None)
    try:
        bound = inspect.signature(getattr(f, "forward", f)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, or none that fits
        return names
    known = {id(x): f"l_{name}_" for name, x in bound.items() if isinstance(x, Tensor)}
    for index, x in zip(segment.inputs, examples, strict=True):
        if id(x) in known:
            names.setdefault(index, known[id(x)])
    return names


def explained(
    segments: list[Segment], names: Mapping[int, Mapping[int, str]] | None = None
) -> ExplainOutput:
    """The explanation of segments; names: of their inputs, by number and slot."""
    graphs, guards = [], []
    for segment in segments:
        if not segment.calls:
            continue
        made = graph_module(segment, (names or {}).get(segment.number))
        graphs.append(made)
        given = [node.target for node in made.graph.nodes if node.op == "placeholder"]
        for name, index in zip(given, segment.inputs, strict=True):
            fields = segment.specs[index]._asdict().items()
            guards.append(TensorGuard(name, [f"{name}.{key} == {value}" for key, value in fields]))
    reasons = [
        GraphCompileReason(logs.reason_text(each.reason), list(logs.user_stack(each.source_line)))
        for each in segments
        if each.reason != "end"
    ]
    ops = [operators(made) for made in graphs]
    return ExplainOutput(
        graphs, len(graphs), len(reasons), reasons, sum(map(len, ops)), ops, guards, times()
    )
