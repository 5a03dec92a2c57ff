"""Pointwise functions as chains, at once: one pass over memory, which threads share.

A function of arrays becomes a `_C.Chain` (Note [Chains]) for the dtypes that it meets, where it is
one (`steps.traced`).  It has the bits that NumPy gives, so who calls it need not know.

    run = Chained(lambda x, y: np.exp(x) * y)
    run(x, y)  # None if it is no chain, or the arrays lie otherwise
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import is_bfloat16
from tritorch.host import loops
from tritorch.host.chains.chains import Steps, native
from tritorch.host.chains.steps import Kind, Untraceable, traced
from tritorch.host.pointwise.narrow import WIDE

ndarray = np.ndarray
LEAST = _C.LARGE_FOR_CHAINS  # elements from which NumPy's own functions are, too, for threads
_MOST = 256  # sets of operands with numbers that were met once


class Chained(_C.ChainTable):
    """A function of dense arrays of one shape, or of large ones that broadcast, and of numbers:
    called with them, it gives its result, or None if it is not computed so (Note [Tables]).

    widens: whether bfloat16 computes in float32, and the result is rounded.  result: the dtype
    that it has to give, by that of its last array; where a chain has another, it is not taken."""

    def __init__(
        self, function: Callable[..., Any], widens: bool = False,
        result: Callable[[Kind], Kind] | None = None,
    ) -> None:  # fmt: skip
        self.function, self.widens, self.result = function, widens, result
        self._met: set[Any] = set()  # numbers that were given once: they may never be again

    def _missing(self, values: tuple[Any, ...], walked: tuple[bool, ...]) -> Any:
        """The chain for operands, and its result's dtype; None if there is none, NotImplemented as
        long as nobody knows that their numbers come again."""
        operands = [x.dtype if type(x) is ndarray else x for x in values]
        if len(walked) < len(values):
            key = (walked, *[x if isinstance(x, np.dtype) else _number(x) for x in operands])
            if key not in self._met:
                if len(self._met) >= _MOST:
                    self._met.clear()
                self._met.add(key)
                return NotImplemented
        try:
            chain, kind = self._chain(operands, walked)
        except Untraceable:
            return None
        last = [x for x in operands if isinstance(x, np.dtype)][-1]
        return None if self.result and kind != self.result(last) else (chain, kind)

    # The twin: the function itself is called, as where there is no chain.
    missing = loops.pair("ChainTable", _missing, lambda self, values, walked: None)

    def _chain(self, operands: Sequence[Any], walked: Sequence[bool]) -> Any:
        steps = Steps()
        kinds = [x for x in operands if isinstance(x, np.dtype)]
        inputs = [steps.input(kind, each) for kind, each in zip(kinds, walked)]
        narrow = [kind for kind in kinds if is_bfloat16(kind)]
        if narrow and not self.widens:
            raise Untraceable("bfloat16")
        inputs = [steps.cast(x, WIDE) if kind in narrow else x for x, kind in zip(inputs, kinds)]
        opened = [WIDE if isinstance(x, np.dtype) and x in narrow else x for x in operands]
        value = steps.append(*traced(self.function, opened), inputs)
        if narrow and steps.kinds[value] == WIDE:
            value = steps.cast(value, narrow[0])
        return native(steps, [value]), steps.kinds[value]


def _number(x: Any) -> Any:
    """What tells a number from all others: zeros have signs, and no NaN is another."""
    return x if type(x) is float and x and x == x else (type(x), repr(x))


def with_chains(run: Chained) -> Callable[..., Any]:
    """Its function, by chains where it can be."""
    function = run.function

    def compute(*values: Any) -> Any:
        found = run(*values)
        return function(*values) if found is None else found

    functools.update_wrapper(compute, function)
    vars(compute).pop("__wrapped__")  # which of a `Quiet` function is what it calls
    return compute
