"""How a record's gradients run: straight-line Python made of what they name, at first use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd import grad
from tritorch.autograd.saved import packed_output
from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.scopes import recorded
from tritorch.core.tensor import Tensor

if TYPE_CHECKING:
    from tritorch.ops.record.operator import Operator


class Spec(NamedTuple):
    """What a gradient knows of an input `x` whose values it does not need, by the name `x_spec`."""

    shape: tuple[int, ...]
    steps: Any  # its array's strides, in bytes or elements; None: it is sparse
    unit: int  # the bytes of an element, if they are in bytes
    dtype: dtype
    device: device

    @property
    def stride(self) -> tuple[int, ...]:
        """Its strides in elements."""
        return tuple(step // self.unit for step in self.steps)


def _describe(x: Tensor) -> Spec:
    array = x._array
    if type(array) is np.ndarray:
        return tuple.__new__(
            Spec, (array.shape, array.strides, array.itemsize, x.dtype, arrays.CPU)
        )
    steps = getattr(array, "strides", None)
    return Spec(tuple(array.shape), steps, 1, x.dtype, arrays.device_of(array))


_C.register_part("describe", _describe)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    if code is None:
        return tuple(inspect.signature(function).parameters)
    return code.co_varnames[: code.co_argcount]


def output_of(name: str) -> int | None:
    """k of "outk"."""
    number = name.removeprefix("out")
    return int(number) if number != name and number.isdigit() else None


def _shape(saved: Any) -> tuple[int, ...]:
    """The shape of an input that was saved, or of which only that was."""
    if type(saved) is tuple:
        return saved
    return saved.shape if type(saved) is Spec else tuple(saved._array.shape)


def _spec(saved: Any) -> Spec:
    """The same for all that a Spec has."""
    return saved if type(saved) is Spec else _describe(saved)


def _planned(op: Operator, function: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient's function, whose calls have plans if it is the package's own and no collective:
    docs/plans.md."""
    own = getattr(function, "__module__", "").startswith("tritorch.ops.") and not op.meets
    return _C.Planned(function) if own else function


def compile_backward(op: Operator) -> Callable[[Any, Any], Any]:
    """`backward(node, g)` as straight-line Python: fetch what is named, call what is wanted.

    A fused operator's gradients are `joint`'s, or those of its composed definition."""
    functions = [op.joint] if op.joint else [f for f in op.gradients if f]
    names = {name for function in functions for name in argument_names(function)}
    lines = ["def backward(node, g):"]
    if op.fused or op.keeps or set(op.inputs) & (names | {op._shape_of(name) for name in names}):
        lines.append("    saved = node._node_unpack()")
    if op.fused or "params" in names or set(op.params) & names:
        lines.append("    params = node._node_params")
    if "out" in names or any(output_of(name) is not None for name in names):
        lines.append("    out = fetch_output(node)")
    lines.append("    edges = node._node_edges")
    world: dict[str, Any] = {
        "fetch_output": _fetch_output, "shape": _shape, "spec": _spec,
        "grad_enabled": _C.is_grad_enabled,
    }  # fmt: skip

    def saved(name: str) -> str:
        i = op.inputs.index(name)
        return f"saved[{i}:]" if op.variadic and i == len(op.inputs) - 1 else f"saved[{i}]"

    def argument(name: str) -> str:
        if name in ("g", "out", "params"):
            return name
        if name == "needs":
            return "[edge is not None for edge in edges]"
        if name in op.inputs:
            return saved(name)
        if name in op.params:
            return f"params[{op.params.index(name)}]"
        if output_of(name) is not None:
            return f"out[{output_of(name)}]"
        whole, what = op._shape_of(name), name.rpartition("_")[2]
        assert whole is not None
        if op.variadic and whole == op.inputs[-1]:
            return f"[{what}(each) for each in {saved(whole)}]"
        return f"{what}({saved(whole)})"

    def call(i: int, function: Callable[..., Any]) -> str:
        world[f"f{i}"] = _planned(op, function)
        return f"f{i}({', '.join(map(argument, argument_names(function)))})"

    if op.fused:
        world["composed"] = _through_composed(op)
        if op.joint:
            lines.append("    if not grad_enabled():")
            lines.append(f"        found = {call(0, op.joint)}")
            lines.append("        if found is not NotImplemented:")
            lines.append("            return found")
        lines.append("    whole = g[0] if node._node_n_outputs else g")
        lines.append("    return composed(whole, saved, params or ())")
    elif op.joint:
        lines.append(f"    return {call(0, op.joint)}")
    else:
        parts = [
            f"{call(i, f)} if edges[{i}] is not None else None" if f else "None"
            for i, f in enumerate(op.gradients)
        ]
        lines.append(f"    return ({', '.join(parts)},)")
    exec("\n".join(lines), world)
    return world["backward"]


def _fetch_output(node: Any) -> Any:
    return packed_output(node) if node._node_packed else node._node_output()


def _through_composed(op: Operator) -> Callable[..., tuple[Any, ...]]:
    """The gradients of a fused operator by its definition: of g, the inputs and the params."""
    definition = op.composed
    assert definition is not None

    def gradients(g: Tensor, inputs: Sequence[Any], params: Sequence[Any]) -> tuple[Any, ...]:
        again = _C.is_grad_enabled()  # whether these are differentiated again
        with recorded:
            # What no gradient depends on was not saved: zeros of its shape do as well.
            inputs = [
                g.new_zeros(x).requires_grad_() if name in op.unread and type(x) is tuple else x
                for name, x in zip(op.inputs, inputs)
            ]
            if not again:
                inputs = [
                    x.detach().requires_grad_() if isinstance(x, Tensor) and x._requires_grad else x
                    for x in inputs
                ]
            wanted = [x for x in inputs if isinstance(x, Tensor) and x._requires_grad]
            out = definition(*inputs, *params)
            found = iter(grad(out, wanted, g, create_graph=again, allow_unused=True))
        return tuple(
            next(found) if isinstance(x, Tensor) and x._requires_grad else None for x in inputs
        )

    return _C.Planned(gradients) if definition.__module__.startswith("tritorch.ops.") else gradients
