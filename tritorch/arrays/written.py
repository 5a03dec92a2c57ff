"""Numbers that a kernel is going to compute: what tensors hold while a program is written.

A function of 0-d tensors, called on tensors with such arrays, leaves its steps in a `Program`:
which record computed what of what.  A program is emitted as a kernel's function
(`ops/pointwise/scalar_programs.py`), or run again on tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch.core.device import device as Device
from tritorch.core.dtype import dtype as Dtype

CPU = Device("cpu")


class NotWritable(NotImplementedError):
    """A function uses what no program of scalars can say."""


class Step(NamedTuple):
    """One number: what makes it (a record, "load", "convert", "input" or "constant"), of which
    operands (numbers of steps, and Python's numbers), and its dtype.

    compute: what a record computes in.  place: the tensor that is loaded from, by its number; the
    input's name."""

    made_by: Any
    operands: tuple[Any, ...]
    dtype: Dtype
    compute: Dtype | None = None
    place: Any = None


class Value(NamedTuple):
    """The number of a step, where operands have Python's numbers too."""

    step: int


class Program:
    """Steps in the order of their computation, and the tensors that they load from."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.tensors: list[Any] = []
        self._known: dict[Any, Value] = {}

    def add(self, step: Step) -> Value:
        """The value of a step, which is there once."""
        made_by = step.made_by if isinstance(step.made_by, str) else id(step.made_by)
        words = tuple((type(each), each) for each in step.operands)
        key = (made_by, words, step.dtype, step.compute, step.place)
        try:
            known = self._known.get(key)
        except TypeError:
            raise NotWritable("an operand that is no number") from None
        if known is None:
            known = self._known[key] = Value(len(self.steps))
            self.steps.append(step)
        return known

    def tensor(self, x: Any) -> int:
        """The number of a tensor that is loaded from."""
        for i, known in enumerate(self.tensors):
            if known is x or (known._array is x._array and not x._requires_grad):
                return i
        self.tensors.append(x)
        return len(self.tensors) - 1

    def on(self, tensors: Sequence[Any]) -> Program:
        """The same steps, loading from other tensors."""
        same = Program()
        same.steps, same.tensors = self.steps, list(tensors)
        return same

    def needed(self, outputs: Sequence[Value]) -> list[int]:
        """The steps that outputs are made of, in order."""
        wanted = {each.step for each in outputs}
        for i in range(len(self.steps) - 1, -1, -1):
            if i in wanted:
                wanted.update(x.step for x in self.steps[i].operands if type(x) is Value)
        return sorted(wanted)


class WrittenArray:
    """A number of a program, in as many dims of one as it is seen with.

    chosen: not a number yet, but what is left of a loaded tensor: its number, and for each of its
    dims the place (a Value or an int), or None."""

    __slots__ = ("chosen", "dtype", "program", "shape", "value")

    def __init__(
        self, program: Program, value: Value | None, kind: Dtype, shape: Sequence[int] = (),
        chosen: tuple[int, tuple[Any, ...]] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.value, self.dtype = program, value, kind
        self.shape, self.chosen = tuple(shape), chosen

    @property
    def ndim(self) -> int:
        """How many dims it is seen with."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it is seen with."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """As if its elements were dense."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def device(self) -> Device:
        """The CPU, so that constants that a program makes beside it are plain numbers."""
        return CPU

    def numel(self) -> int:
        """How many elements it is seen with."""
        return self.size

    def storage_offset(self) -> int:
        """0: there is no memory."""
        return 0

    def is_contiguous(self) -> bool:
        """Always: there is no memory."""
        return True

    def numpy(self) -> Any:
        """Refused: there is no number yet."""
        raise NotWritable("a number is read while the function that computes it is written")

    def data_ptr(self) -> int:
        """Refused: there is no memory."""
        raise NotWritable("an address is read while a function is written")
