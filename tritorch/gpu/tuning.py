"""Plans that somebody measured, before those that a model chooses.

# Note [Measured plans]
How work is cut into tiles is a pure function of its sizes and the device, a `measured` function:
its arguments are the key under which `tuned.json` may hold what was faster than the model's choice
where somebody timed both (`tools/tune_kernels.py`).  The device's capability and its number of
multiprocessors are among the arguments, so what one GPU measured decides for its like alone.
A plan is looked for once for each key, and kept with the others; without a table nothing is.
Nothing is timed while a program runs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import pathlib
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from tritorch.core import defaults

PATH = pathlib.Path(__file__).with_name("tuned.json")

Key = tuple[Any, ...]
Table = dict[tuple[str, Key], Any]  # family and key to plan
Args = ParamSpec("Args")
Plan = TypeVar("Plan")


class Family(NamedTuple):
    """A measured function."""

    model: Callable[..., Any]  # what is chosen of what was not measured
    plan: type[Any]
    near: Callable[..., Sequence[Any]]  # what is worth timing beside it, the likeliest first
    forget: Callable[[], None]

    def names(self) -> list[str]:
        """The arguments of a key."""
        return list(inspect.signature(self.model).parameters)


FAMILIES: dict[str, Family] = {}
_trial: Table | None = None
_asked: list[tuple[str, Key]] | None = None


def measured(
    family: str, plan: type[Any], near: Callable[..., Sequence[Any]]
) -> Callable[[Callable[Args, Plan]], Callable[Args, Plan]]:
    """Makes a model's function one that looks into the table first: see Note [Measured plans]."""

    def wrap(model: Callable[Args, Plan]) -> Callable[Args, Plan]:
        @functools.lru_cache(4096)
        @functools.wraps(model)
        def choose(*args: Args.args, **kwargs: Args.kwargs) -> Plan:
            if _asked is not None:
                _asked.append((family, args))
            known = stored() if _trial is None else _trial
            found = known.get((family, args)) if known and not kwargs else None
            return model(*args, **kwargs) if found is None else found

        FAMILIES[family] = Family(model, plan, near, choose.cache_clear)
        return cast(Callable[Args, Plan], choose)

    return wrap


@functools.cache
def stored() -> Table:
    """What was measured; nothing, with a warning, if that cannot be read."""
    if not PATH.exists():
        return {}
    try:
        return read(PATH.read_text())
    except (OSError, ValueError) as error:
        warnings.warn(f"measured plans are not used: {error}", stacklevel=2)
        return {}


def read(text: str) -> Table:
    """The table that a text holds, of families that are known (a plan's module makes it so)."""
    found: Table = {}
    for family, entries in _families(text).items():
        for i, entry in enumerate(entries):
            if family not in FAMILIES:
                continue
            try:
                key, plan = _frozen(entry["key"]), _frozen(entry["plan"])
            except (KeyError, TypeError):
                raise ValueError(f"tuned.json: {family} {i} lacks a key or a plan") from None
            names, fields = FAMILIES[family].names(), FAMILIES[family].plan._fields
            if not isinstance(key, tuple) or len(key) != len(names):
                raise ValueError(f"tuned.json: {family} {i}: the key is not {tuple(names)}: {key}")
            if not isinstance(plan, tuple) or len(plan) != len(fields):
                raise ValueError(f"tuned.json: {family} {i}: the plan is not {fields}: {plan}")
            found[family, key] = FAMILIES[family].plan(*plan)
    return found


def _families(text: str) -> dict[str, list[dict[str, Any]]]:
    try:
        families = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"tuned.json is no JSON: {error}") from None
    if not isinstance(families, dict) or not all(isinstance(x, list) for x in families.values()):
        raise ValueError("tuned.json is no object of lists")
    return families


def _frozen(x: Any) -> Any:
    """Lists as tuples."""
    return tuple(map(_frozen, x)) if isinstance(x, list) else x


def merged(text: str, entries: dict[str, list[dict[str, Any]]], timed: Container[Any]) -> str:
    """A table's text with new entries by families, without the old ones of what was timed again."""
    families = _families(text)
    for family in {*families, *entries}:
        old = families.get(family, [])
        kept = [entry for entry in old if (family, _frozen(entry.get("key"))) not in timed]
        families[family] = kept + entries.get(family, [])
    lines = [
        f" {json.dumps(family)}: [\n  " + ",\n  ".join(map(json.dumps, those)) + "\n ]"
        for family, those in sorted(families.items())
        if those
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


@contextlib.contextmanager
def trying(table: Table) -> Iterator[list[tuple[str, Key]]]:
    """Plans are those of this table, or else models'; gives the list of what is asked for."""
    global _trial, _asked
    before = _trial, _asked
    _trial, _asked = table, []
    _forget()
    try:
        yield _asked
    finally:
        _trial, _asked = before
        _forget()


def _forget() -> None:
    defaults.kernels_change()
    for family in FAMILIES.values():
        family.forget()
