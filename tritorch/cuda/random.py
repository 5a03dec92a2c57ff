"""The GPUs' default generators, as in torch.cuda.random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import generator as generators
from tritorch.core.device import cuda_index
from tritorch.core.generator import Generator, cuda_generator


class _DefaultGenerators(Sequence[Generator]):
    """One generator for each GPU."""

    def __len__(self) -> int:
        return _C.device_count()

    def __getitem__(self, index: Any) -> Any:
        return cuda_generator(range(len(self))[index])


default_generators = _DefaultGenerators()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator, a tensor of bytes on the CPU."""
    _C.load_driver()
    return cuda_generator(cuda_index(device)).get_state()


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators."""
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restores the state of a GPU's generator."""
    cuda_generator(cuda_index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restores the states of all GPUs' generators."""
    for generator, state in zip(default_generators, new_states):
        generator.set_state(state)


def manual_seed(seed: int) -> None:
    """Seeds the current GPU's generator; works without a GPU too."""
    if _C.device_count():
        cuda_generator(_C.current_device()).manual_seed(int(seed))
    else:
        manual_seed_all(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all GPUs."""
    generators.seed_all_gpus(int(seed))


def seed() -> None:
    """Seeds the current GPU's generator randomly."""
    cuda_generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seeds the generators of all GPUs with one random number."""
    manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """The seed of the current GPU's generator."""
    _C.load_driver()
    return cuda_generator(_C.current_device()).initial_seed()
