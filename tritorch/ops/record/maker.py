"""Records without inputs: tensors made of sizes and numbers alone, or drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import META, MetaArray
from tritorch.core.dispatching import entered, noted, watching
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.interpreters import Dispatched, interpreter
from tritorch.ops.record.operator import Operator


class Maker(Operator):
    """A factory's record: `maker(*params)` is the tensor, on the device among its params.

    Dispatch modes see its call, which costs others the look at an empty list."""

    def __init__(
        self,
        name: str,
        params: str,
        make: Callable[..., Any],
        *,
        schema: str = "",
        kind: str = "factory",
        fuses: str = "",
        filled_by: str = "",
    ) -> None:
        """make: gives the array.  kind: "random" if it is drawn, by the params' generator or the
        default one; "internal" if PyTorch has no such operator.  filled_by: the in-place operator
        that gives the same to memory without contents, with its argument, a number or, as `$1`, the
        param of that place: `empty(size).fill_(1)`."""
        super().__init__(
            name, "", params, schema=schema, kind=kind, cpu=make, fuses=fuses,
            rules=Rules(infer=self._describe),
        )  # fmt: skip
        self.make = make if isinstance(make, _C.Seen) else arrays.seen(make)
        self.filled_by = filled_by

    def __call__(self, *params: Any) -> Any:
        if watching and entered.note is not None:
            return noted("make", self, (), params, lambda: self(*params))
        if watching and entered.modes:
            return interpreter(Dispatched).factory(self, params)
        return _C.wrap(self.make(*params))

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """As of other records."""
        return self(*params)

    def _describe(self, *params: Any) -> MetaArray:
        """The array on the meta device."""
        return self.make(*(META if n == "device" else p for n, p in zip(self.params, params)))


class Constant(Maker):
    """A tensor of numbers that params say, which is no operator's: modes see none of it.

    Whoever notes what a program computes is told, as of a factory."""

    def __init__(self, name: str, params: str, of: Callable[..., Any], schema: str) -> None:
        """of: gives the ndarray for params, of which it does not get the last: the device."""
        self.of = of
        super().__init__(name, f"{params} device", self._made, schema=schema, kind="internal")

    def __call__(self, *params: Any) -> Any:
        if watching and entered.note is not None:
            return noted("make", self, (), params, lambda: _C.wrap(self.make(*params)))
        return _C.wrap(self.make(*params))

    def _made(self, *params: Any) -> Any:
        *given, device = params
        array = self.of(*given)
        if device.backend == "meta":
            return MetaArray(array.shape, arrays.dtype_of(array), None, device)
        return array if device.backend == "cpu" else arrays.move(array, device)
