"""Makes a program that differs as small as it gets while it differs in the same way."""

from __future__ import annotations

import re
from typing import Any

from tests.expressions import programs
from tools.differential import lockstep


def shrunk(
    torch: Any, ours: Any, statements: list[str], found: lockstep.Difference
) -> tuple[list[str], lockstep.Difference]:
    """The smallest program found, and its difference."""
    what = found.kind

    def differs(candidate: list[str]) -> lockstep.Difference | None:
        try:
            again = lockstep.first_difference(torch, ours, candidate)
        except Exception:
            return None
        return again if again is not None and again.kind == what else None

    changed = True
    while changed:
        changed = False
        for candidate in _candidates(torch, statements):
            again = differs(candidate)
            if again is not None:
                statements, found, changed = candidate, again, True
                break
    return statements, found


def _uses(statement: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", statement) is not None


def _candidates(torch: Any, statements: list[str]) -> Any:
    """Smaller programs: without a statement, with a literal in its place, with less in it."""
    for i in reversed(range(len(statements))):
        rest = statements[:i] + statements[i + 1 :]
        name = programs.target(statements[i])
        if name is None or not any(_uses(line, name) for line in rest[i:]):
            if rest:
                yield rest
            continue
        for other in dict.fromkeys(re.findall(r"\bv\d+\b", statements[i].partition(" = ")[2])):
            yield rest[:i] + [re.sub(rf"\b{name}\b", other, line) for line in rest[i:]]
    for i in reversed(range(len(statements))):
        name = programs.target(statements[i])
        if name and not statements[i].partition(" = ")[2].startswith("torch.tensor("):
            literal = _literal(torch, statements[: i + 1], name)
            if literal and len(literal) < 300:
                yield [*statements[:i], f"{name} = {literal}", *statements[i + 1 :]]
    for i, statement in enumerate(statements):
        for simpler in _simpler(statement):
            yield [*statements[:i], simpler, *statements[i + 1 :]]


def _literal(torch: Any, statements: list[str], name: str) -> str | None:
    """The value that a variable has after some statements, as source; contiguous."""
    names = programs.namespace(torch)
    for statement in statements:
        programs.step(statement, names)
    value = names.get(name)
    if not isinstance(value, torch.Tensor) or value.requires_grad or not value.is_contiguous():
        return None
    return f"torch.tensor({value.tolist()}, dtype={value.dtype})"


_LITERAL = re.compile(r"torch\.tensor\(\[(.*?)\], dtype=(torch\.\w+)\)(\.reshape\(([\d, ]+)\))?")


def _simpler(statement: str) -> Any:
    """A statement whose new tensor has simpler values."""
    match = _LITERAL.search(statement)
    if match and "[" not in match[1]:
        values = match[1].split(", ")
        ones = ", ".join(["1"] * len(values))
        if match[1] not in (ones, ""):
            yield statement.replace(match[1], ones, 1)
