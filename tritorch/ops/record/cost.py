"""What a call costs: floating point operations and bytes moved, from descriptions alone.

A record says its operations by `cost=`, a function of its results, inputs and params.  Else they
follow from its axes where any is contracted by a product (`Note [Axes]`), from its definition by
smaller records, or from its kind.  Products, convolutions and attention are counted as PyTorch's
`torch.utils.flop_counter` counts them: a multiplication and an addition for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch.arrays.meta import MetaArray
from tritorch.arrays.sym_functions import sym_min
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.infer import calls_inferred


class Cost(NamedTuple):
    """Operations and bytes of a call: numbers, or symbols where sizes are."""

    flops: Any
    bytes: Any


def cost_of(op: Any, specs: Sequence[Any], params: tuple[Any, ...]) -> Cost:
    """The cost of a call for inputs as described."""
    if op.is_view:
        return Cost(0, 0)
    found = op.infer(specs, params)
    outs = list(found) if isinstance(found, tuple) else [found]
    written = sum(_bytes(out) for out in outs if type(out) is MetaArray)
    read = sum(_bytes(x) for x in specs if type(x) is MetaArray)
    if op.rules.picks:  # of its first input no more than goes into the result
        read = read - _bytes(specs[0]) + sym_min(_bytes(specs[0]), written)
    return Cost(_flops(op, specs, params, outs), read + written)


def _bytes(x: MetaArray) -> Any:
    """The bytes of an array, whose repeated elements count once."""
    return math.prod(n for n, step in zip(x.shape, x.strides) if step != 0) * x.dtype.itemsize


def _flops(op: Any, specs: Sequence[Any], params: tuple[Any, ...], outs: Sequence[Any]) -> Any:
    if op.rules.cost is not None:
        return op.rules.cost(outs, *specs, *params)
    if isinstance(op.rules.axes, str):
        flops = product(op.axes(specs, params), specs)
        if not (isinstance(flops, int) and flops == 0):
            return flops
    if op.composed is not None:
        return of_definition(op.composed, specs, params)
    first = next((x for x in specs if type(x) is MetaArray), outs[0])
    if op.kind == "pointwise":
        return outs[0].numel()
    if op.kind in ("reduction", "scan"):
        return first.numel()
    return 0  # it moves elements


def product(axes: Any, specs: Sequence[Any]) -> Any:
    """Twice the product of all axes, if a product contracts any; of the rest nothing."""
    sizes: dict[str, Any] = {}
    contracted = False
    for letters, x in zip(axes.inputs, specs):
        for letter, n in zip(letters or (), x.shape if letters else ()):
            if letter:
                sizes[letter] = n
                contracted |= axes.roles[letter] == "contracted"
    return 2 * math.prod(sizes.values()) if contracted else 0


def of_definition(definition: Any, specs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """The operations of the records that a definition calls."""
    with calls_inferred() as calls:
        composed_backend(definition)(*specs, *params)
    total: Any = 0
    for op, given, others, found in calls:
        if not op.is_view:
            outs = list(found) if isinstance(found, tuple) else [found]
            total = total + _flops(op, given, others, outs)
    return total
