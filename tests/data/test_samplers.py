"""Samplers draw as they are read: no number of samples is made whole beforehand."""

import tracemalloc

import pytest

import tritorch
from tritorch.utils.data import BatchSampler, RandomSampler, SequentialSampler

MANY = 10**7

SAMPLERS = {
    "with replacement": lambda: RandomSampler(range(7), replacement=True, num_samples=MANY),
    "permutations": lambda: RandomSampler(range(7), num_samples=MANY),
    "sequential": lambda: SequentialSampler(range(MANY)),
    "batches": lambda: BatchSampler(RandomSampler(range(7), num_samples=MANY), 4, False),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_first_item_takes_little_memory(name):
    make = SAMPLERS[name]
    next(iter(make()))
    tracemalloc.start()
    try:
        next(iter(make()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_the_sequence_is_pytorchs():
    generator = tritorch.Generator().manual_seed(3)
    sampler = RandomSampler(range(7), replacement=True, num_samples=70, generator=generator)
    assert list(sampler)[30:40] == [4, 1, 2, 5, 3, 5, 6, 2, 4, 4]
    assert tritorch.randint(100, (1,), generator=generator).item() == 48
