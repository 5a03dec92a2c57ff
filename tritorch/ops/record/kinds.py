"""The pointwise kinds: unary, binary and ternary operators from one line each.

A kind owns validation, promotion, broadcasting and allocation.  Its function asks the record's
plans for dtypes that came before (Note [Plans of elements] in src/plans/elements.cpp), and then the
general path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.symbolic import SymFloat, SymInt
from tritorch.core.promotion import number_dtype
from tritorch.core.published import AUTOCAST, PUBLIC, SPECIAL
from tritorch.core.tensor import Tensor
from tritorch.ops.record.apply import apply, apply_in_place
from tritorch.ops.record.groups import Gradient, Without
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import EXACT
from tritorch.ops.record.pointwise import SAME, Pointwise


def _export(name: str, function: Any, *, method: bool = True, public: bool = True) -> None:
    function.__name__ = function.__qualname__ = name
    if public:
        PUBLIC[name] = function
    if method:
        setattr(Tensor, name, function)


# ---- unary ---------------------------------------------------------------------------------------


def unary(
    name: str,
    cpu: Callable[..., Any],
    *,
    rule: int = SAME,
    without: str | Without = "",
    gpu: str | None = None,
    aliases: Sequence[str] = (),
    inplace: bool | str = True,
    method: bool = True,
    public: bool = True,
    out: bool = True,
    doc: str = "",
    autocast: str = "",
    exact: str = "",
    special: bool = False,
    zero: str = "",
    **options: Any,
) -> Callable[..., Tensor]:
    """Declares y = f(x): the function, the method, in place and `out=`.

    inplace: "method" where the form in place is no function too; "constant" where PyTorch cannot
    differentiate it.  autocast, exact: `published.autocast`, `outputs.exact_out`.  special:
    whether tritorch.special has it too.  options: the record's, as `Pointwise` has them."""
    op = Pointwise(name, "x", cpu, rule=rule, without=without, gpu=gpu, zero=zero, **options)
    may_write, run, write = out, op.elements, op.elements.write

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if out is None:
            found = run(input)
            if found is not None:
                return found
        elif not may_write:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
        elif write(out, input):
            return out
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}(): argument 'input' (position 1) must be Tensor, not "
                f"{type(input).__name__}"
            )
        return apply(op, (input,), out)

    function.__doc__ = doc or f"{name} of each element."
    _publish(op, function, aliases, method, public, autocast, exact, special)
    if inplace:
        written = op
        if inplace == "constant":
            written = Pointwise(
                f"{name}_", "x", cpu, rule=rule, gpu=gpu or name, zero=zero, without=without,
                grad=Gradient(without_derivative_in_place(name), node=f"{name.title()}1"),
            )  # fmt: skip

        def method_in_place(self: Tensor) -> Tensor:
            return apply_in_place(written, (self,))

        method_in_place.__doc__ = f"In-place version of {name}."
        for alias in (*aliases, name):
            _export(f"{alias}_", method_in_place, public=inplace != "method")
    return function


def without_derivative_in_place(name: str) -> Callable[..., Any]:
    """The gradient of a form in place of which PyTorch has none."""

    def refuse(g: Tensor) -> Tensor:
        raise NotImplementedError(
            f"the derivative for 'inplace version of {name}' is not implemented."
        )

    return refuse


def _publish(
    op: Operator, function: Any, aliases: Sequence[str], method: bool, public: bool,
    autocast: str, exact: str, special: bool,
) -> None:  # fmt: skip
    function.op = op
    if autocast:
        AUTOCAST.update(dict.fromkeys((op.name, *aliases), autocast))
    if exact:
        EXACT[op.name] = exact
    if special:
        SPECIAL[op.name] = function
    for alias in (*aliases, op.name):  # the last one names the function
        _export(alias, function, method=method, public=public)


# ---- binary --------------------------------------------------------------------------------------


def binary(
    name: str,
    cpu: Callable[..., Any],
    *,
    rule: int = SAME,
    aliases: Sequence[str] = (),
    inplace: bool | str = True,
    method: bool = True,
    public: bool = True,
    operator: str | None = None,
    shown: str = "",
    export: bool = True,
    doc: str = "",
    autocast: str = "",
    exact: str = "",
    special: bool = False,
    **options: Any,
) -> Callable[..., Tensor]:
    """Declares z = f(a, b): the function, the method, in place, `out=`, and Python's operator.

    inplace: "public" if the form in place is a function too.  shown: as in `attach_operator`.  The
    others as in `unary`."""
    op = Pointwise(name, "a b", cpu, rule=rule, **options)
    function = binary_function(op, _general_binary(op))
    function.__doc__ = doc or f"{name} of each pair of elements, broadcasting."
    if export:
        _publish(op, function, aliases, method, public, autocast, exact, special)
    else:
        function.__name__ = name
    if operator:
        attach_operator(
            operator,
            binary_function(op, _general_operator(op)),
            lambda self, other: apply_in_place(op, (self, other)),
            shown=shown,
        )
    if inplace and export:
        method_in_place = binary_in_place(op)
        method_in_place.__doc__ = f"In-place version of {name}."
        for alias in (*aliases, name):
            _export(f"{alias}_", method_in_place, public=inplace == "public")
    return function


def binary_in_place(op: Pointwise) -> Callable[..., Tensor]:
    """a.f_(b)."""
    write = op.elements.write

    def method(self: Tensor, other: Any) -> Tensor:
        if write(self, self, other):
            return self
        _require_operands(op, self, other)
        return apply_in_place(op, (self, other))

    return method


def binary_function(op: Pointwise, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """f(a, b): by a plan (Note [Plans of elements]), `otherwise` where there is none."""
    run, write = op.elements, op.elements.write

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        if out is None:
            found = run(input, other)
            if found is not None:
                return found
        elif write(out, input, other):
            return out
        return otherwise(input, other, out)

    function.op = op  # type: ignore[attr-defined]
    return function


def _general_binary(op: Pointwise) -> Callable[..., Any]:
    def general(input: Any, other: Any, out: Any = None) -> Any:
        if op.numbers == "all" and type(input) in NUMBERS and type(other) in NUMBERS:
            input = _C.wrap(np.asarray(input, number_dtype(input).numpy))
        _require_operands(op, input, other)
        return apply(op, (input, other), out)

    return general


def _general_operator(op: Pointwise) -> Callable[..., Any]:
    def general(input: Any, other: Any, out: Any = None) -> Any:
        if isinstance(other, OPERANDS):
            return apply(op, (input, other), out)
        if op.name == "eq" and isinstance(other, ndarray):
            return apply(op, (input, _C.wrap(other)), out)  # as in PyTorch; not <, >, !=
        return NotImplemented

    return general


def _require_operands(op: Pointwise, input: Any, other: Any) -> None:
    allowed = {"other": (False, True), "none": (False, False)}.get(op.numbers, (True, True))
    for value, argument, position in ((input, "input", 1), (other, "other", 2)):
        if not isinstance(value, OPERANDS if allowed[position - 1] else Tensor):
            raise TypeError(
                f"{op.name}(): argument '{argument}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise TypeError(
            f"{op.name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )


NUMBERS = (bool, int, float, complex)
OPERANDS = (Tensor, int, float, complex, np.generic, SymInt, SymFloat)


def attach_operator(
    name: str,
    forward: Callable[..., Any],
    in_place_function: Callable[..., Any] | None,
    backward: Callable[..., Any] | None = None,
    *,
    shown: str = "",
) -> None:
    """Makes a function of two operands Python's operator `name` ("add") of Tensor.

    Foreign types get their say: NotImplemented.  backward(self, other): other `name` self, where
    PyTorch computes that in another way.  shown: the methods that overrides see, as in PyTorch, in
    place of the operator, its reflected form and its form in place ("add add add_"; "-": itself).
    """

    def reflected(self: Any, other: Any) -> Any:
        if isinstance(other, OPERANDS):
            return backward(self, other) if backward else forward(other, self)
        if isinstance(other, np.ndarray):
            return forward(_C.wrap(other), self)
        return NotImplemented

    def in_place_operator(self: Any, other: Any) -> Any:
        assert in_place_function is not None
        return in_place_function(self, other) if isinstance(other, OPERANDS) else NotImplemented

    reflected.op = getattr(forward, "op", None)  # type: ignore[attr-defined]
    for form, method in zip((forward, reflected, in_place_operator), shown.split()):
        if method != "-":
            form.shown = method  # type: ignore[attr-defined]
    _export(f"__{name}__", forward, public=False)
    if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
        _export(f"__r{name}__", reflected, public=False)
        if name == "truediv":
            _export("__rdiv__", reflected, public=False)
        if in_place_function is not None:
            _export(f"__i{name}__", in_place_operator, public=False)


def ternary(
    name: str, inputs: str, cpu: Callable[..., Any], *, rule: int = SAME, **options: Any
) -> Pointwise:
    """Declares the record of a pointwise function of three or more operands."""
    return Pointwise(name, inputs, cpu, rule=rule, **options)
