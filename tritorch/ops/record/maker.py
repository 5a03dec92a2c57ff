"""Records without inputs: tensors made of sizes and numbers alone, or drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core.dispatching import entered, noted, watching
from tritorch.core.meta import META, MetaArray
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
        random: bool = False,
    ) -> None:
        """make: gives the array.  random: it is drawn, by the params' generator or the default
        one."""
        kind = "random" if random else "factory"
        super().__init__(name, "", params, cpu=make, kind=kind, schema=schema, infer=self._describe)
        self.make = make

    def __call__(self, *params: Any) -> Any:
        if watching and entered.note is not None:
            return noted("make", self, (), params, lambda: self(*params))
        if watching and entered.modes:
            from tritorch.ops.interpret import dispatch

            return dispatch.factory(self, params)
        return _C.wrap(self.make(*params))

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """As of other records."""
        return self(*params)

    def _describe(self, *params: Any) -> MetaArray:
        """The array on the meta device."""
        return self.make(*(META if n == "device" else p for n, p in zip(self.params, params)))
