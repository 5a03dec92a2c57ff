"""The CPU's default generator, as in torch.random."""

from __future__ import annotations

from tritorch.core import above
from tritorch.core.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def thread_safe_generator() -> Generator | None:
    """A loader's worker thread's own generator; None elsewhere: the default one."""
    info = above.worker_info()
    if info is None or info.worker_method != "thread" or info.rng is None:
        return None
    return info.rng.torch_generator
