"""Whether this thread exports a program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._subclasses.fake_tensor import as_it_is, maybe_get_fake_mode
from tritorch.core.scopes import Scope, scoped
from tritorch.utils._pytree import tree_map


class _State(threading.local):
    depth = 0


_state = _State()


def is_exporting() -> bool:
    """Whether this thread exports a program."""
    return _state.depth > 0


def computed(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function gives for the values that the export was given."""

    def real(x: Any) -> Any:
        mode = maybe_get_fake_mode(x)
        return x if mode is None else mode.real_of(x)

    args, kwargs = tree_map(real, (args, kwargs))
    with as_it_is():
        return function(*args, **kwargs)


@scoped
def exporting() -> Scope:
    """Inside, a program is exported."""
    return Scope((_state, "depth", _state.depth + 1))
