"""Unification: values of variables for which two structures are the same.

x = var("x")
unify((1, x), (1, 2))     {x: 2}
reify((x, x), {x: 2})     (2, 2)
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any

__all__ = ["Var", "isvar", "reify", "unifiable", "unify", "var", "vars"]

_numbers = itertools.count(1)


class Var:
    """A variable, which is another one of the same token."""

    token: Hashable

    def __new__(cls, *token: Hashable) -> Var:
        made = object.__new__(cls)
        made.token = f"_{next(_numbers)}" if not token else token[0] if len(token) == 1 else token
        return made

    def __repr__(self) -> str:
        return f"~{self.token}"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.token == other.token

    def __hash__(self) -> int:
        return hash((type(self), self.token))


def var(*token: Hashable) -> Var:
    """A variable; without a token, a new one."""
    return Var(*token)


def vars(n: int) -> list[Var]:
    """New variables."""
    return [var() for _ in range(n)]


def isvar(v: Any) -> bool:
    """Whether something is a variable."""
    return isinstance(v, Var)


def _walked(value: Any, known: dict[Any, Any]) -> Any:
    while isinstance(value, Var) and value in known:
        value = known[value]
    return value


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """A structure with the values of variables in their place."""
    e = _walked(e, s)
    if isinstance(e, (tuple, list)):
        return type(e)(reify(each, s) for each in e)
    if isinstance(e, dict):
        return {key: reify(value, s) for key, value in e.items()}
    if type(e) in _unifiable:
        made = object.__new__(type(e))
        made.__dict__ = reify(e.__dict__, s)
        return made
    return e


def unify(u: Any, v: Any, s: dict[Any, Any] | None = None) -> Any:
    """The values for which two structures are the same, with those that are known; False where
    there are none."""
    known = {} if s is None else s
    u, v = _walked(u, known), _walked(v, known)
    if u == v:
        return known
    if isinstance(u, Var):
        return {**known, u: v}
    if isinstance(v, Var):
        return {**known, v: u}
    if isinstance(u, (tuple, list)) and isinstance(v, (tuple, list)):
        if len(u) != len(v):
            return False
        for one, other in zip(u, v):
            known = unify(one, other, known)
            if known is False:
                return False
        return known
    if isinstance(u, dict) and isinstance(v, dict):
        if u.keys() != v.keys():
            return False
        return unify(list(u.values()), [v[key] for key in u], known)
    if type(u) is type(v) and type(u) in _unifiable:
        return unify(u.__dict__, v.__dict__, known)
    return False


_unifiable: set[type] = set()


def unifiable(cls: type) -> type:
    """A decorator: instances of a class are unified attribute by attribute."""
    _unifiable.add(cls)
    return cls
