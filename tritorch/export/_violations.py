"""Errors of programs that do not hold for all values of their dynamic sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

from tritorch.arrays.symbolic import SymInt, symbol_of
from tritorch.compat.torch_private._dynamo.exc import UserError, UserErrorType
from tritorch.export._environment import Decision, Plan, Root, bounds, linear_terms
from tritorch.export.dynamic_shapes import Dim


class _Found:
    """Violations of one export, as sentences and as fixes."""

    def __init__(self, plan: Plan, keys: dict[Any, str]) -> None:
        self.plan, self.keys = plan, keys
        self.sentences: list[str] = []
        self.names: dict[str, None] = {}
        self.fixes: dict[str, str] = {}
        self.ranges: dict[str, tuple[float, float]] = {}

    def name(self, root: Root) -> str:
        """What a program calls a size, and where it is."""
        return f"{root.name} = {root.source}" if root.named else root.source

    def constant(self, key: str, value: int) -> None:
        """A size that may only be one number."""
        root = self.plan.roots[key]
        self.names[root.name] = None
        self.sentences.append(
            f"You marked {root.name} as dynamic but your code specialized it to be a constant "
            f"({value}). If you're using mark_dynamic, either remove it or use "
            "maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or "
            "Dim.AUTO."
        )
        if root.named:
            self.fixes[root.name] = str(value)

    def equal(self, terms: dict[str, int], constant: int, text: str) -> None:
        """Sizes that must be equal, or follow one another."""
        roots = [root for key, root in self.plan.roots.items() if key in terms]
        self.names |= dict.fromkeys(root.name for root in roots)
        if len(roots) == 2 and sorted(terms.values()) == [-1, 1] and not constant:
            first, second = roots
            self.sentences.append(
                f"The values of {self.name(second)} and {self.name(first)} must always be equal."
            )
            if second.named:
                self.fixes[second.name] = first.name
            return
        self.guard(terms, text)

    def guard(self, keys: Iterable[str], text: str) -> None:
        """A condition of any other form."""
        roots = [self.plan.roots[key] for key in keys]
        self.names |= dict.fromkeys(root.name for root in roots)
        values = ", ".join(map(self.name, roots))
        self.sentences.append(
            f"Not all values of {values} in the specified range satisfy the generated guard {text}"
        )

    def bound(self, key: str, low: float, high: float) -> None:
        """A size that lies between other numbers than was said."""
        least, most = self.ranges.get(key, (-math.inf, math.inf))
        self.ranges[key] = max(low, least), min(high, most)

    def close(self) -> None:
        """Makes sentences of ranges."""
        for key, (low, high) in self.ranges.items():
            root = self.plan.roots[key]
            if low <= max(root.low, 2) and high >= root.high:
                continue
            low, high = max(low, root.low), min(high, root.high)
            parts = [f"{low:.0f} <= {root.source}"] if low > max(root.low, 2) else []
            parts += [f"{root.source} <= {high:.0f}"] if high < root.high else []
            self.guard([key], " and ".join(parts))
            if root.named:
                self.fixes.setdefault(
                    root.name,
                    Dim._readable(root.name, int(low), high if high == math.inf else int(high)),
                )


def require_none(
    plan: Plan, decisions: list[Decision], symbols: dict[str, SymInt]
) -> list[Decision]:
    """Refuses what does not hold for all sizes; gives the conditions that runs have to look at."""
    keys: dict[Any, str] = {symbol_of(number): key for key, number in symbols.items()}
    found, kept = _Found(plan, keys), []
    for each in decisions:
        of = [keys[s] for s in sorted(each.symbols(), key=lambda s: s.order) if s in keys]
        if not of or _is_of_floats(each):
            continue
        named = [key for key in of if plan.roots[key].named]
        terms = linear_terms(each.number) if each.compare is not None else None
        if each.compare is operator.eq and terms is not None:
            by_key = {keys[s]: n for s, n in terms[0].items() if s in keys}
            if len(by_key) == 1:
                ((key, factor),) = by_key.items()
                found.constant(key, -terms[1] // factor)
            else:
                found.equal(by_key, terms[1], each.text)
        elif terms is not None and len(terms[0]) == 1 and each.compare is not operator.ne:
            ((symbol, factor),) = terms[0].items()
            if named:
                found.bound(keys[symbol], *bounds(each.compare, factor, terms[1]))
        elif _is_weak(each):
            kept.append(each)
        elif named:
            found.guard(of, each.text)
        else:
            kept.append(each)
    found.close()
    if found.sentences:
        raise _error(found)
    return kept


def _is_weak(decision: Decision) -> bool:
    """Whether a condition says of no size more than that it is another than some number."""
    return decision.compare is operator.ne


def _is_of_floats(decision: Decision) -> bool:
    """Whether a condition says that a float is another than some number, which spares work."""
    made = decision.condition.made if decision.condition is not None else None
    return (
        made is not None
        and made[0] in (operator.ne, operator.eq)
        and (decision.text.startswith("not (") == (made[0] is operator.eq))
    )


def _error(found: _Found) -> UserError:
    said = "\n".join(f"  - {sentence}" for sentence in dict.fromkeys(found.sentences))
    text = (
        f"Constraints violated ({', '.join(found.names)})! For more information, run with "
        f'TORCH_LOGS="+dynamic".\n{said}'
    )
    if found.fixes:
        fixes = "\n".join(f"  {name} = {fix}" for name, fix in found.fixes.items())
        text += f"\nSuggested fixes:\n{fixes}"
    return UserError(UserErrorType.CONSTRAINT_VIOLATION, text)
