"""Operators of functions as objects: `torch.ops.higher_order.cond`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.record.overloads import namespace
from tritorch.ops.shape.joining import stack


class HigherOrderOperator:
    """An operator of functions; calling it runs them."""

    namespace = "higher_order"

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self.__name__, self._run = name, name, function
        self.__module__ = "torch.ops.higher_order"
        self.__qualname__ = name

    def name(self) -> str:
        """Its name."""
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __str__(self) -> str:
        return f"higher_order.{self._name}"

    __repr__ = __str__

    def __deepcopy__(self, memo: Any) -> HigherOrderOperator:
        return self

    def __reduce__(self) -> Any:
        return _found, (self._name,)


def _found(name: str) -> HigherOrderOperator:
    return OPERATORS[name]


def _cond(pred: Any, true_graph: Any, false_graph: Any, operands: Any = ()) -> Any:
    return true_graph(*operands) if pred else false_graph(*operands)


def _while_loop(cond_graph: Any, body_graph: Any, carried: Any, additional: Any = ()) -> Any:
    carried = tuple(carried)
    while _value(cond_graph(*carried, *additional)):
        carried = tuple(body_graph(*carried, *additional))
    return carried


def _value(found: Any) -> Any:
    return found[0] if isinstance(found, (tuple, list)) else found


def _map(body_graph: Any, xs: Any, pos_args: Any = ()) -> Any:
    rows = [body_graph(*row, *pos_args) for row in zip(*(x.unbind(0) for x in xs), strict=True)]
    return tuple(
        stack(list(each)) if isinstance(each[0], Tensor) else each[0]
        for each in zip(*rows, strict=True)
    )


def _scan(combine_graph: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
    carry, rows = tuple(init), []
    for row in zip(*(x.unbind(0) for x in xs), strict=True):
        found = tuple(combine_graph(*carry, *row, *additional_inputs))
        carry = found[: len(carry)]
        rows.append(found[len(carry) :])
    return (*carry, *(stack(list(each)) for each in zip(*rows)))


OPERATORS = {
    "cond": HigherOrderOperator("cond", _cond),
    "while_loop": HigherOrderOperator("while_loop", _while_loop),
    "map_impl": HigherOrderOperator("map_impl", _map),
    "scan": HigherOrderOperator("scan", _scan),
}
for _name, _operator in OPERATORS.items():
    setattr(namespace("higher_order"), _name, _operator)
