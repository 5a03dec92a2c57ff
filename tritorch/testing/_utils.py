"""What tests say about random numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.core import generator
from tritorch.cuda import is_initialized, random as cuda_random


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """What is drawn inside is drawn again after it."""
    before = generator.get_rng_state()
    devices = cuda_random.get_rng_state_all() if is_initialized() else None
    try:
        yield
    finally:
        generator.set_rng_state(before)
        if devices is not None:
            cuda_random.set_rng_state_all(devices)


def wrapper_set_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a function as after manual_seed(42)."""
    with freeze_rng_state():
        generator.manual_seed(42)
        return op(*args, **kwargs)
