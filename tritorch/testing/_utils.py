"""What tests say about random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core import generator
from tritorch.core.scopes import Scope, scoped, set_back
from tritorch.cuda import is_initialized, random as cuda_random


@scoped
def freeze_rng_state() -> Scope:
    """What is drawn inside is drawn again after it."""
    before = generator.get_rng_state()
    changes = [set_back(generator.set_rng_state, before)]
    if is_initialized():
        changes += [set_back(cuda_random.set_rng_state_all, cuda_random.get_rng_state_all())]
    return Scope(*changes)


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function as after manual_seed(42)."""
    with freeze_rng_state():
        generator.manual_seed(42)
        return op(*args, **kwargs)
