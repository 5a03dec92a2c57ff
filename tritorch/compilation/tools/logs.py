"""Logs of regions for TORCH_LOGS, their counters, and errors where a graph may not end."""

from __future__ import annotations

import functools
import logging
import traceback
from typing import Any

from tritorch.compat.torch_private import _logging
from tritorch.compilation.follow import stances
from tritorch.compilation.follow.calls import Segment, SourceLine
from tritorch.compilation.follow.counters import counters
from tritorch.compilation.follow.regions import Follower, Listener, listeners

# Where PyTorch has the loggers of these artifacts.
graph_breaks = _logging.getArtifactLogger("torch._dynamo.symbolic_convert", "graph_breaks")
recompiles = _logging.getArtifactLogger("torch._dynamo.guards", "recompiles")
graph = _logging.getArtifactLogger("torch._dynamo.output_graph", "graph")
graph_code = _logging.getArtifactLogger("torch._dynamo.output_graph", "graph_code")
graph_sizes = _logging.getArtifactLogger("torch._dynamo.output_graph", "graph_sizes")

# How the first word of a reason reads; others are gates.
_REASONS = {
    "item": "Tensor.item()",
    "bool": "Data-dependent branching: a tensor's truth",
    "graph_break": "Call to `torch._dynamo.graph_break()`",
    "look": "The history or memory of a deferred tensor is looked at",
    "disabled": "Call of a `torch.compiler.disable()`d function",
}


def reason_text(reason: str) -> str:
    """A reason as a sentence."""
    word, _, rest = reason.removeprefix("call of ").partition(": ")
    known = _REASONS.get(word.strip("_"))
    if known is not None:
        return f"{known}: {rest}" if rest and word == "graph_break" else known
    return f"Call of {word}: {rest}" if rest else f"Call of {word}"


def user_stack(line: SourceLine | None) -> traceback.StackSummary:
    """A source line as a stack of one frame."""
    frames = []
    if line is not None:
        file, number, function = line
        frames = [traceback.FrameSummary(file, number, function.rpartition(".")[2])]
    return traceback.StackSummary.from_list(frames)


def broken(reason: str, line: SourceLine | None) -> str:
    """The reason why a region is not one graph, and the line, as PyTorch's error begins and
    ends."""
    lines = "".join(user_stack(line).format())
    return f"{reason_text(reason)}\n\nfrom user code:\n {lines}"


class _Watch(Listener):
    """Counts, logs, and raises where a graph may not end."""

    def recorded(self, follower: Follower, segment: Segment) -> None:
        """A segment is a graph if it has calls."""
        if segment.calls:
            counters["stats"]["calls_captured"] += len(segment.calls)
            counters["stats"]["unique_graphs"] += 1
            if isinstance(follower.options.backend, _Silent) and _wanted():
                traced_segment(segment)
        if segment.reason == "end":
            counters["frames"]["total"] += 1
            counters["frames"]["ok"] += 1
        else:
            counters["graph_break"][reason_text(segment.reason)] += 1
            _show_break(segment.reason, segment.source_line)

    def flushed(self, follower: Follower, reason: str, line: SourceLine | None) -> None:
        """Where error_on_graph_break is set, only the end of a region may end a graph."""
        if reason != "end" and stances.strict.errors:
            from tritorch.compat.torch_private._dynamo.exc import Unsupported

            raise Unsupported(broken(reason, line), real_stack=user_stack(line))

    def recompiled(self, follower: Follower, why: str, line: SourceLine | None) -> None:
        """A trace through a region that was not known."""
        if recompiles.isEnabledFor(logging.DEBUG):
            recompiles.debug(stances.recompilation(follower, why))


_Silent = type(None)  # the package's own compiler shows no graph of its own accord


def _show_break(reason: str, line: SourceLine | None) -> None:
    if not graph_breaks.isEnabledFor(logging.DEBUG):
        return
    where = "unknown code" if line is None else f"user code at {line[0]}:{line[1]}"
    stack = "".join(user_stack(line).format())
    graph_breaks.debug(
        "Graph break in %s\nGraph Break Reason: %s\n\nUser code traceback:\n%s",
        where, reason_text(reason), stack,
    )  # fmt: skip


def _wanted() -> bool:
    return any(each.isEnabledFor(logging.DEBUG) for each in (graph, graph_code, graph_sizes))


def traced_segment(segment: Segment) -> None:
    """Shows the graph of a segment that no backend was given."""
    from tritorch.compilation.tools.graphs import graph_module

    traced(f"__compiled_fn_{segment.number}", graph_module(segment))


def traced(name: str, module: Any) -> None:
    """Shows a graph, where TORCH_LOGS asks for it."""
    if graph_code.isEnabledFor(logging.DEBUG):
        code = module.print_readable(print_output=False, include_stride=True, include_device=True)
        graph_code.debug("TRACED GRAPH\n ===== %s =====\n %s\n", name, code)
    if graph.isEnabledFor(logging.DEBUG):
        graph.debug("TRACED GRAPH\n ===== %s =====\n %s\n", name, tabular(module))
    if graph_sizes.isEnabledFor(logging.DEBUG):
        sizes = [
            f"{node.name}: {tuple(node.meta['val'].shape)}"
            for node in module.graph.nodes
            if hasattr(node.meta.get("val"), "shape")
        ]
        graph_sizes.debug("TRACED GRAPH TENSOR SIZES\n===== %s =====\n%s\n", name, "\n".join(sizes))


def tabular(module: Any) -> str:
    """A graph as a table."""
    head = ["opcode", "name", "target", "args", "kwargs"]
    rows = [
        [str(x) for x in (n.op, n.name, n.target, n.args, n.kwargs)] for n in module.graph.nodes
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )


@functools.cache
def watch() -> None:
    """Begins to watch; called when something is compiled for the first time."""
    listeners.append(_Watch())
