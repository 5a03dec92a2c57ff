"""Operators that a dispatch mode sees, or the class of a tensor: `__torch_dispatch__`.

A mode is asked first, the innermost one, which is off while it answers; then the classes of the
arguments, subclasses before their bases.  What they get is the operator as an object
(`torch.ops.aten.add.Tensor`) with the arguments of its schema.  Autograd stands above: the answer
is computed without recording, and becomes the result of the record's call afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.core import defaults
from tritorch.core.dispatching import dispatches, entered, off, recording, without_modes
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.overloads import OpOverload, namespace, overload_of
from tritorch.schema import table
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.tensor_type import TensorType


def _classes(values: Sequence[Any]) -> list[Any]:
    """One tensor of each class that is asked, subclasses before their bases."""
    found: list[Any] = []
    if off.classes:
        return found
    for value in values:
        if type(value) in (list, tuple):
            found += [x for x in _classes(value) if all(type(x) is not type(y) for y in found)]
            continue
        kind = type(value)
        if kind is Tensor or not isinstance(value, Tensor) or not dispatches(kind):
            continue
        if any(type(other) is kind for other in found):
            continue
        place = next((i for i, o in enumerate(found) if issubclass(kind, type(o))), len(found))
        found.insert(place, value)
    return found


def answered(
    overload: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], name: str = ""
) -> Any:
    """What the innermost mode or the classes of the arguments answer for an operator.

    name: what it is called where nobody answers."""
    args = tuple(args)
    asked = _classes((*args, *kwargs.values()))
    types = tuple(map(type, asked))
    mode = None
    if entered.modes:
        mode = entered.modes[-1]
        with without_modes(1):
            if getattr(mode.__torch_dispatch__, "__self__", mode) is type(mode):
                raise RuntimeError(
                    "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, "
                    "please make it a plain method"
                )
            result = mode.__torch_dispatch__(overload, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in asked:
        result = type(value).__torch_dispatch__(overload, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = [f"tensor subclass {kind!r}" for kind in types]
    names += [f"mode object {mode!r}"] if mode is not None else []
    asked_for = name or f"torch._ops.{overload}"
    raise TypeError(
        f"Multiple dispatch failed for '{asked_for}'; all __torch_dispatch__ handlers returned "
        "NotImplemented:\n\n"
        + "\n".join(f"  - {each}" for each in names)
        + "\n\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def answered_question(question: str, tensor: Tensor, args: Sequence[Any]) -> Any:
    """What modes or a tensor's class say of its sizes, strides, layout or device."""
    full, _, overload = question.partition(".")
    space, _, stem = full.partition("::")
    asked = getattr(getattr(namespace(space), stem), overload or "default")
    return answered(asked, (tensor, *args), {}, f"torch.ops.{space}.{stem}")


def _unrecorded(function: Callable[[], Any]) -> Any:
    with Scope((recording, "above", _C.is_grad_enabled()), (_C.set_grad_enabled, False)):
        return function()


# Numbers are tensors to these in PyTorch.
_AS_TENSORS = frozenset(["add", "sub", "mul", "div", "floor_divide"])


def _of_number(overload: OpOverload, args: Sequence[Any]) -> OpOverload:
    """Of an operator on two operands, the overload for a number, if the second one is that."""
    schema = overload._schema
    stem = schema.name.removeprefix("aten::")
    if len(args) < 2 or isinstance(args[1], Tensor) or stem.removesuffix("_") in _AS_TENSORS:
        return overload
    name = {"Tensor": "Scalar", "Tensor_Tensor": "Tensor_Scalar"}.get(schema.overload_name)
    return overload if name not in table.overloads(stem) else overload_of(table.find(stem, name))


def call(op: Operator, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """A record's call as one of its schema, answered."""
    if op.is_view and op.composed is not None:  # several views of ATen's
        return op.composed(*tensors, *params)
    schema, args, kwargs = op.as_call(tensors, params)
    overload = _of_number(overload_of(schema), args)
    result = _unrecorded(lambda: answered(overload, args, kwargs))
    _require_results(schema, result)
    return _placed(op, result, tensors, params)


def _require_results(schema: FunctionSchema, result: Any) -> None:
    """Refuses an answer that is no tensor where an operator gives one; None is an undefined one."""
    returns = schema.returns
    if len(returns) == 1 and isinstance(returns[0].type, TensorType):
        if result is not None and not isinstance(result, Tensor):
            raise RuntimeError(
                f"Unable to cast Python instance of type {type(result)} to C++ type 'at::Tensor'"
            )


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A pointwise record's call, answered, in the form with `out` where ATen has that."""
    stem = op.schema.name.partition("::")[2]
    if out is not None and "out" in table.overloads(stem):
        _, args, kwargs = op.as_call(inputs, ())
        form = overload_of(table.find(stem, "out"))
        _unrecorded(lambda: answered(form, args, {**kwargs, "out": out}))
        return out
    result = call(op, inputs, ())
    if out is None:
        return result
    from tritorch.ops.record.publishing import write_out

    return write_out(result, out, op.name)


def _in_place_overload(op: Any, args: Sequence[Any]) -> OpOverload:
    """The form in place of a record: of another operand that is a number, the overload for it."""
    schema = op.schema
    stem = schema.name.partition("::")[2].removesuffix("_")
    names = table.overloads(f"{stem}_")
    wanted = schema.overload_name if schema.overload_name in names else names[0]
    return _of_number(overload_of(table.find(f"{stem}_", wanted)), args)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """A pointwise record in place, answered."""
    from tritorch.ops.record.writing import in_place as written

    return written(op, inputs[0], (), inputs, lambda: None)


def answer_in_place(op: Any, params: tuple[Any, ...], inputs: Sequence[Any]) -> None:
    """What of a form in place is answered: the writing."""
    _, args, kwargs = op.as_call(inputs, params)
    overload = _in_place_overload(op, args)
    names = {a.name for a in overload._schema.arguments}
    kwargs = {name: value for name, value in kwargs.items() if name in names}
    _unrecorded(lambda: answered(overload, args, kwargs))


def plainly(name: str, *args: Any, **kwargs: Any) -> Any:
    """The answer for an operator of ATen without a record, as it is."""
    schema = table.find(*name.split("."))
    result = _unrecorded(lambda: answered(overload_of(schema), args, kwargs))
    _require_results(schema, result)
    return result


def factory(op: Operator, params: tuple[Any, ...]) -> Any:
    """A factory's call, answered."""
    schema, args, kwargs = op.as_call((), params)
    given = [list(x) if isinstance(x, tuple) else x for x in args]
    if kwargs.get("dtype") is defaults.dtype():  # as if nobody had named it
        del kwargs["dtype"]
    if any(a.name == "pin_memory" for a in schema.arguments):
        kwargs.setdefault("pin_memory", False)
    return _unrecorded(lambda: answered(overload_of(schema), given, kwargs))


# ---- results -------------------------------------------------------------------------------------


def _placed(op: Operator, result: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """The answer as the result of the call: with its history, the very objects."""
    if isinstance(result, (list, tuple)):
        result = tuple(result)
        if any(isinstance(x, Tensor) for x in result) and op.wants(*inputs):
            arrays = tuple(x._array if isinstance(x, Tensor) else None for x in result)
            twins = op.finish_many(arrays, op.outputs, params, *inputs)
            node = None
            for tensor, twin in zip(result, twins):
                if isinstance(tensor, Tensor) and twin._raw_node is not None:
                    node = tensor._raw_node = twin._raw_node
                    tensor.output_nr = twin.output_nr
            if node is not None and isinstance(node._node_out, tuple):
                kept = [
                    x is not None and type(t) is not Tensor for x, t in zip(node._node_out, result)
                ]
                node._node_out = tuple(
                    _unrecorded(t.detach) if keep else x
                    for x, t, keep in zip(node._node_out, result, kept)
                )
        return result
    if not isinstance(result, Tensor):
        return result
    if op.is_view and result._base is not None:
        result._created = None  # the view is made in the caller's grad mode
    if any(result is x for x in inputs):
        result = _C.alias(result)  # the record's result is no input of it
    node = op.record(result, params, *inputs)
    if node is not None:
        result._raw_node, result.output_nr, result._leaf = node, 0, False
        if node._node_out is not None and type(result) is not Tensor:
            node._node_out = _unrecorded(result.detach)
    return result
