"""The CPU's default generator, as in torch.random."""

from __future__ import annotations

from tritorch.core import late_bound
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
    info = late_bound.worker_info()
    if info is None or info.worker_method != "thread" or info.rng is None:
        return None
    return info.rng.torch_generator
