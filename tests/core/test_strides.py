"""The rules of where results lie: those in Python and those in C++ are the same."""

import random

from tritorch import _C
from tritorch.arrays import strides


def _lie(rng, shape):
    """Strides of a permuted, perhaps sliced or expanded, array of a shape."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    steps, step = [0] * len(shape), 1
    for dim in order:
        steps[dim] = step
        step *= max(shape[dim], 1) * rng.choice((1, 1, 1, 2))
    if rng.random() < 0.2 and shape:
        steps[rng.randrange(len(shape))] = 0
    return tuple(steps)


def test_results_lie_where_the_native_rules_put_them():
    rng = random.Random(5)
    for _ in range(4000):
        shape = tuple(rng.choice((0, 1, 1, 2, 3, 4)) for _ in range(rng.randrange(6)))
        operands = []
        for _ in range(rng.randrange(1, 4)):
            own = tuple(n if rng.random() < 0.8 else 1 for n in shape)[rng.choice((0, 0, 0, 1)) :]
            operands.append((own, _lie(rng, own)))
        numbers = rng.random() < 0.3
        assert strides.result_strides(shape, operands, numbers) == _C.result_strides(
            shape, operands, numbers
        ), (shape, operands, numbers)
        steps = _lie(rng, shape)
        assert strides.copy_strides(shape, steps) == _C.copy_strides(shape, steps), (shape, steps)
