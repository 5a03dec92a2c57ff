"""Subscripts: parts of tensors, lists, tuples, dicts and texts, read and assigned."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tritorch.jit.frontend import late, matching
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.source import fail
from tritorch.jit.frontend.sugared import SimpleValue, Sugared, TupleOf
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.types import InterfaceType, ScriptClassType
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType


def emit_subscript(em: Emitter, node: ast.Subscript, place: Any) -> Sugared:
    """The part that a subscript names."""
    owner = late.emit_sugared(em, node.value)
    node = _with_slices(em, node, place)
    if not isinstance(owner, SimpleValue):
        return _of_sugared(em, owner, node, place)
    value = owner.value
    kind = value._type
    if isinstance(kind, TensorType):
        return SimpleValue(_of_tensor(em, value, node.slice, place))
    if isinstance(node.slice, ast.Slice):
        return _slice(em, value, node.slice, place)
    if isinstance(node.slice, ast.Tuple) and not isinstance(kind, types.DictType):
        if not isinstance(kind, (ScriptClassType, InterfaceType)):
            is_list = isinstance(kind, types.ListType)
            multiple = "Only tensors can be indexed with multiple indices"
            fail(place, "list indices must be integers" if is_list else multiple)
    return owner.item(em, late.emit(em, node.slice), place)


def _with_slices(em: Emitter, node: ast.Subscript, place: Any) -> ast.Subscript:
    """The subscript with `a:b:c` in place of `slice(a, b, c)`."""
    parts = [_as_slice(em, each, place) for each in _indices(node.slice)]
    if isinstance(node.slice, ast.Tuple):
        index: ast.expr = ast.copy_location(ast.Tuple(parts, ast.Load()), node.slice)
    else:
        (index,) = parts
    return ast.copy_location(ast.Subscript(node.value, index, node.ctx), node)


def _as_slice(em: Emitter, node: ast.expr, place: Any) -> ast.expr:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if not is_call or node.func.id != "slice" or em.env.find("slice") is not None:  # type: ignore[attr-defined]
        return node
    assert isinstance(node, ast.Call)
    if node.keywords:
        fail(place, "Slice does not accept any keyword arguments")
    if not 1 <= len(node.args) <= 3:
        fail(place, f"slice expected 1 to 3 arguments, got {len(node.args)}")
    bounds: list[ast.expr | None] = [
        None if isinstance(each, ast.Constant) and each.value is None else each
        for each in node.args
    ]
    if len(bounds) == 1:
        bounds = [None, *bounds]
    lower, upper, step = [*bounds, None][:3]
    return ast.copy_location(ast.Slice(lower, upper, step), node)


def _of_sugared(em: Emitter, owner: Sugared, node: ast.Subscript, place: Any) -> Sugared:
    if isinstance(node.slice, ast.Slice):
        parts = owner.items(em, place)
        return TupleOf(parts[_static_slice(em, node.slice, place)])
    return owner.item(em, late.emit(em, node.slice), place)


def _static_slice(em: Emitter, node: ast.Slice, place: Any) -> slice:
    """A slice whose bounds the compiler knows."""
    bounds = []
    for each in (node.lower, node.upper, node.step):
        value = None if each is None else late.emit(em, each).toIValue()
        if each is not None and not isinstance(value, int):
            fail(place, "slice bounds of a tuple must be constants")
        bounds.append(value)
    return slice(*bounds)


def _slice(em: Emitter, value: Value, node: ast.Slice, place: Any) -> Sugared:
    kind = value._type
    if isinstance(kind, types.TupleType):
        bounds = _static_slice(em, node, place)
        start, stop, step = bounds.indices(len(kind.elements()))
        if step == 1:
            made = em.graph.insert("prim::TupleSlice", [value])
            made.set("beg", start).set("end", max(start, stop))
            inside = kind.elements()[bounds]
            return SimpleValue(made._outputs[0].setType(types.TupleType(inside)))
        return SimpleValue(em.pack_tuple(em.unpack_tuple(value)[bounds]))
    if isinstance(kind, (ScriptClassType, InterfaceType)):
        parts = SimpleValue(value)._parts(em)
        if parts is None:
            fail(place, "slices of objects of a class are not supported")
        return TupleOf(parts[_static_slice(em, node, place)])
    return SimpleValue(em.call_builtin("aten::slice", [value, *_bounds(em, node)], place))


def _bounds(em: Emitter, node: ast.Slice) -> list[Value]:
    lower = em.const(None) if node.lower is None else late.emit(em, node.lower)
    upper = em.const(None) if node.upper is None else late.emit(em, node.upper)
    step = em.const(1) if node.step is None else late.emit(em, node.step)
    return [lower, upper, step]


# ---- tensors -------------------------------------------------------------------------------------


def _indices(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _of_tensor(em: Emitter, value: Value, node: ast.expr, place: Any) -> Value:
    """The elements of a tensor that indices name: views as far as they go, then `aten::index`."""
    value, tensors = _view(em, value, _indices(node), place)
    if not any(each is not None for each in tensors):
        return value
    return em.call_builtin("aten::index", [value, _index_list(em, tensors)], place)


def _index_list(em: Emitter, tensors: list[Value | None]) -> Value:
    values = [em.const(None) if each is None else each for each in tensors]
    return em.make_list(values, types.OptionalType(TensorType.get()))


def _is_new_dim(part: Any) -> bool:
    return part is None or (isinstance(part, Value) and isinstance(part._type, types.NoneType))


def _is_number(part: Any) -> bool:
    return isinstance(part, Value) and isinstance(
        part._type, (types.IntType, types.NumberType, types.FloatType)
    )


def _dims(parts: list[Any], place: Any) -> list[int]:
    """The dim that each index applies to; behind an ellipsis they are counted from the end."""
    dims = [0] * len(parts)
    at = dim = 0
    while at < len(parts) and parts[at] is not Ellipsis:
        dims[at] = dim
        dim += not _is_number(parts[at])  # an integer takes its dim away
        at += 1
    dim = -1
    for back in range(len(parts) - 1, at, -1):
        if parts[back] is Ellipsis:
            fail(place, "An index can only have a single ellipsis ('...')")
        dims[back] = dim
        dim -= not _is_new_dim(parts[back])
    return dims


def _view(
    em: Emitter, value: Value, nodes: list[ast.expr], place: Any
) -> tuple[Value, list[Value | None]]:
    """Applies integers, slices, None and Ellipsis; gives the view and the tensors that are left."""
    parts: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Slice):
            parts.append(node)
        elif isinstance(node, ast.Constant) and (node.value is Ellipsis or node.value is None):
            parts.append(node.value)
        else:
            parts.append(late.emit(em, node))
    tensors: list[Value | None] = []
    for part, dim in zip(parts, _dims(parts, place)):
        if part is Ellipsis:
            continue
        where = em.const(dim)
        if _is_new_dim(part):
            value = em.call_builtin("aten::unsqueeze", [value, where], place)
        elif isinstance(part, ast.Slice):
            value = em.call_builtin("aten::slice", [value, where, *_bounds(em, part)], place)
        elif _is_number(part):
            value = em.call_builtin("aten::select", [value, where, part], place)
        else:
            if dim < 0:
                fail(place, "Ellipses are not currently supported with tensor indexing")
            tensors += [None] * (dim + 1 - len(tensors))
            tensors[dim] = _as_tensor(em, part, place)
    return value, tensors


def _as_tensor(em: Emitter, value: Value, place: Any) -> Value:
    kind = value._type
    if isinstance(kind, (TensorType, types.NoneType)) or (
        isinstance(kind, types.OptionalType) and isinstance(kind.getElementType(), TensorType)
    ):
        return value
    if isinstance(kind, types.BoolType):
        return em.call_builtin("aten::tensor", [value], place)
    if isinstance(kind, types.ListType):
        return em.call_builtin("aten::tensor", [value], place)
    fail(
        place,
        "Unsupported operation: indexing tensor with unsupported index type "
        f"'{kind.annotation_str}'. Only ints, slices, lists and tensors are supported",
    )


# ---- assignments ---------------------------------------------------------------------------------


def assign_subscript(em: Emitter, target: ast.Subscript, value: Value, place: Any) -> None:
    """`owner[index] = value`."""
    owner = late.emit(em, target.value)
    kind = owner._type
    if isinstance(kind, TensorType):
        _put(em, owner, target.slice, value, place)
        return
    if isinstance(kind, (ScriptClassType, InterfaceType)):
        method = SimpleValue(owner).attr(em, "__setitem__", place)
        method.call(em, [late.emit(em, target.slice), value], {}, place)
        return
    if isinstance(target.slice, ast.Slice):
        fail(
            place,
            "Sliced expression not yet supported for subscripted list augmented assignment. File a "
            "bug if you want this",
        )
    if not isinstance(kind, (types.ListType, types.DictType)):
        fail(place, f"'{kind.annotation_str}' object does not support subscripted assignment")
    element = kind._contained[-1] if kind._contained else None
    if element is not None:
        value = matching.convert(em, value, element, True)
    em.call_builtin("aten::_set_item", [owner, late.emit(em, target.slice), value], place)


def _number_tensor(em: Emitter, owner: Value, value: Value, place: Any) -> Value:
    """A number as a tensor like the owner."""
    if isinstance(value._type, TensorType):
        return value
    dtype = em.operator("prim::dtype", [owner])
    device = em.operator("prim::device", [owner])
    found = matching.call_operator(
        em, "aten::tensor", [value], {"dtype": dtype, "device": device}, place
    )
    assert found is not None
    return found


def _put(em: Emitter, owner: Value, node: ast.expr, value: Value, place: Any) -> None:
    view, tensors = _view(em, owner, _indices(node), place)
    value = _number_tensor(em, owner, value, place)
    if any(each is not None for each in tensors):
        indices = _index_list(em, tensors)
        em.call_builtin("aten::index_put_", [view, indices, value, em.const(False)], place)
    else:
        em.call_builtin("aten::copy_", [view, value, em.const(False)], place)


def augment_subscript(
    em: Emitter,
    target: ast.Subscript,
    right: ast.expr,
    place: Any,
    combine: Callable[[Value, Value], Value],
) -> None:
    """`owner[index] op= value`."""
    owner = late.emit(em, target.value)
    kind = owner._type
    if isinstance(kind, TensorType):
        view, tensors = _view(em, owner, _indices(target.slice), place)
        if not any(each is not None for each in tensors):
            combine(view, late.emit(em, right))
            return
        indices = _index_list(em, tensors)
        old = em.call_builtin("aten::index", [view, indices], place)
        new = combine(old, late.emit(em, right))
        em.call_builtin("aten::index_put_", [view, indices, new, em.const(False)], place)
        return
    if isinstance(target.slice, ast.Slice):
        fail(
            place,
            "Sliced expression not yet supported for subscripted list augmented assignment. File a "
            "bug if you want this",
        )
    if not isinstance(kind, (types.ListType, types.DictType, ScriptClassType, InterfaceType)):
        fail(place, f"'{kind.annotation_str}' object does not support augmented assignment")
    index = late.emit(em, target.slice)
    old = SimpleValue(owner).item(em, index, place).as_value(em, place)
    new = combine(old, late.emit(em, right))
    if isinstance(kind, (ScriptClassType, InterfaceType)):
        SimpleValue(owner).attr(em, "__setitem__", place).call(em, [index, new], {}, place)
        return
    em.call_builtin("aten::_set_item", [owner, index, new], place)
