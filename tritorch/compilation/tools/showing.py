"""Plans as text, for TORCH_LOGS=plan: what computes a graph, step by step."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.compat.torch_private._logging import getArtifactLogger
from tritorch.compilation.follow.counters import counters
from tritorch.compilation.follow.tape import Value
from tritorch.compilation.plan import costing
from tritorch.triton.written import origins

log = getArtifactLogger("torch._inductor.graph", "plan")


output = getArtifactLogger("torch._inductor.graph", "output_code")


def is_shown() -> bool:
    """True if somebody looks at the source of kernels, each time that one is written."""
    return output.isEnabledFor(logging.DEBUG)


def wrote(kernel: Any, source: str, origin: Sequence[tuple[str, Any]]) -> None:
    """Takes down for what a kernel is written, and shows its source for TORCH_LOGS=output_code.

    origin: records' names, and the lines of the user's program that call them."""
    lines: dict[str, list[str]] = {}
    for name, line in origin:
        lines.setdefault("the backward pass" if line is None else str(line), []).append(name)
    text = "".join(
        f"\n# For {', '.join(dict.fromkeys(names))}: {line}" for line, names in lines.items()
    )
    origins.setdefault(source, text + "\n")
    if is_shown():
        size = f"{kernel.bytes() / 1e6:.3f} MB read and written"
        output.debug("KERNEL %s: %s\n%s%s", kernel.name, size, source, text)


def costed(calls: Sequence[Any], forms: Sequence[Any]) -> list[str]:
    """The columns of the functions of a program, which `planned` shows, and its total; nothing if
    nobody looks."""
    if not log.isEnabledFor(logging.DEBUG):
        return []
    found = costing.costs(calls, forms)
    rows = [costing.shown(row, call, forms) for row, call in zip(found, calls)]
    return [*rows, costing.total(found)]


def planned(
    calls: Sequence[Any], dropped: Mapping[int, Sequence[int]], costs: Sequence[str]
) -> None:
    """Shows the functions of a program, their values, the values that are dropped after each, and
    its cost."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    lines = [f"PLAN of {len(calls)} functions" + (f": {costs[-1]}" if costs else "")]
    for index, call in enumerate(calls):
        given = ", ".join(f"v{x.number}" if type(x) is Value else _short(x) for x in call.args)
        results = ", ".join(f"v{number}" for number in call.results if number >= 0)
        name = getattr(call.note.op, "name", None) or getattr(call.function, "__name__", "?")
        line = f"{results} = {name}({given})" if results else f"{name}({given})"
        marks = [f"writes {given.partition(',')[0]}"] if call.writes and given else []
        if dropped.get(index):
            marks.append("drops " + ", ".join(f"v{number}" for number in dropped[index]))
        if costs:
            marks.append(costs[index])
        lines.append(f"  {line}" + (f"  # {'; '.join(marks)}" if marks else ""))
    log.debug("%s", "\n".join(lines))


def unplanned(why: str) -> None:
    """Says that a graph has no program: its calls are made, each time."""
    log.debug("NO PLAN, the calls of a graph are made each time: %s", why)


def graphed(what: str, text: str) -> None:
    """Says that a program has a CUDA graph now ("graph"), or why it has none ("none")."""
    if what == "graph":
        log.debug("CUDA GRAPH of %s", text)
        return
    counters["inductor"]["cudagraph_skips"] += 1
    log.debug("NO CUDA GRAPH, a program's functions are called each time: %s", text)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"<{type(value).__name__}>"
