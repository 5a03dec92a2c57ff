"""`torch.jit.trace`: a run of a function or module, recorded as a graph.

A function mode sees each public function that is called with what it is called with, and has the
front end emit the same call; sizes are ints that know the value of the graph that computes them.
What stands for no operator is recorded by the operators that it calls.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.autograd.grad_mode import no_grad
from tritorch.core import locks
from tritorch.core.deprecation import deprecated
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.jit._errors import TracerWarning
from tritorch.jit.calls import ScriptFunction, _active
from tritorch.jit.frontend import matching
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.python import UNIT, torch_name
from tritorch.jit.frontend.source import ScriptError, Source
from tritorch.jit.frontend.sugared import BuiltinFunction
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.passes import eliminate_dead_code
from tritorch.jit.ir.types import ScriptClassType
from tritorch.jit.modules import RecursiveScriptModule, ScriptModule, wrap
from tritorch.jit.run.module_data import ScriptModuleData
from tritorch.nn.modules.module import Module
from tritorch.ops.quantized.packed import ScriptObject as PackedObject
from tritorch.ops.shape.factory import as_tensor
from tritorch.overrides import TorchFunctionMode
from tritorch.random import get_rng_state, set_rng_state
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type
from tritorch.testing._comparison import assert_close


class TracingCheckError(Exception):
    """A trace that does not compute what was traced."""

    def __init__(
        self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: Any = None
    ) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        if graph_diff_error is not None:
            self.message += f"ERROR: Graphs differed across invocations!\n{graph_diff_error}\n"
        if tensor_compare_error is not None:
            self.message += (
                "ERROR: Tensor-valued Constant nodes differed in value across invocations. This "
                f"often indicates that the tracer has encountered untraceable code.\n"
                f"{tensor_compare_error}\n"
            )
        super().__init__(self.message)


def is_tracing() -> bool:
    """Tells if a trace is being recorded in this thread."""
    return _active.tracer is not None


def active() -> Tracer | None:
    """The recorder of this thread."""
    return _active.tracer


# ---- numbers that a trace follows ----------------------------------------------------------------


class TracedInt(int):
    """A size, or what was computed from sizes: an int with its value of the graph."""

    _value: Value

    @classmethod
    def of(cls, number: int, value: Value) -> TracedInt:
        """The number with its value."""
        made = int.__new__(cls, number)
        made._value = value
        return made

    def __reduce__(self) -> Any:
        return int, (int(self),)


class TracedSize(tuple):
    """The sizes of a tensor of the run, whose parts know their values of the graph."""

    _parts: list[Any]

    @classmethod
    def of(cls, parts: list[Any]) -> TracedSize:
        """The sizes of these parts."""
        made = tuple.__new__(cls, [int(part) for part in parts])
        made._parts = parts
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __getitem__(self, index: Any) -> Any:
        found = self._parts[index]
        return TracedSize.of(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (tuple, list)):
            return TracedSize.of([*self, *other])
        return NotImplemented

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, (tuple, list)):
            return TracedSize.of([*other, *self])
        return NotImplemented

    def numel(self) -> Any:
        """The product of the sizes."""
        total: Any = 1
        for part in self:
            total = part * total
        return total

    def __reduce__(self) -> Any:
        return Size, (tuple(map(int, self._parts)),)


def _arithmetic(name: str, operator: str, is_reflected: bool = False) -> None:
    plain = getattr(int, name)

    def method(self: TracedInt, other: Any) -> Any:
        result = plain(self, other)
        tracer = _active.tracer
        if tracer is None or result is NotImplemented or type(result) is not int:
            return result
        pair = [tracer.value(self), tracer.value(other)]
        found = tracer.em.operator(operator, pair[::-1] if is_reflected else pair)
        return TracedInt.of(result, found)

    method.__name__ = name
    setattr(TracedInt, name, method)


for _name, _operator in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("floordiv", "floordiv"),
                         ("mod", "remainder")):  # fmt: skip
    _arithmetic(f"__{_name}__", f"aten::{_operator}")
    _arithmetic(f"__r{_name}__", f"aten::{_operator}", True)


# ---- recording -----------------------------------------------------------------------------------


class _NoNames:
    """A resolver without names: a trace has values only."""

    def resolve(self, em: Any, name: str, place: Any) -> None:
        """None."""

    resolve_dotted = resolve

    def resolve_type(self, name: str) -> None:
        """None."""

    resolve_types = generic = resolve_type


class Tracer(TorchFunctionMode):
    """Records the calls of one run."""

    def __init__(self, function: GraphFunction, strict: bool = True) -> None:
        super().__init__()
        self.em = Emitter(UNIT, function, Source("", None), _NoNames())
        self.strict = strict
        self.is_paused = False
        self.owner: Any = None  # the data of the traced module
        self.values: dict[int, Value] = {}
        self.attributes: dict[int, tuple[Value, tuple[str, ...], Type]] = {}
        self._keep: list[Any] = []
        self._read: dict[tuple[str, ...], Value] = {}

    # ---- values ----------------------------------------------------------------------------------

    def bind(self, thing: Any, value: Value) -> None:
        """Map a tensor, or the parts of a container, to a value of the graph."""
        if isinstance(thing, Tensor):
            self.values[id(thing)] = value
            self._keep.append(thing)
        elif isinstance(thing, (tuple, list)) and thing:
            kind = value._type
            if isinstance(kind, types.TupleType):
                parts = self.em.unpack_tuple(value)
            elif isinstance(kind, types.ListType):
                parts = self.em.unpack_list(value, len(thing))
            else:
                return
            for part, each in zip(thing, parts):
                self.bind(part, each)

    def value(self, thing: Any) -> Value:
        """The value of the graph that something of the run stands for; a constant if nothing."""
        em = self.em
        if isinstance(thing, Tensor):
            found = self.values.get(id(thing))
            if found is not None:
                return found
            if id(thing) in self.attributes:
                return self._attribute(thing)
            self._keep.append(thing)
            constant = em.const(thing.detach(), TensorType.get())
            self.values[id(thing)] = constant
            return constant
        if isinstance(thing, TracedInt):
            return thing._value
        if isinstance(thing, PackedObject):
            return self._part(thing)
        if isinstance(thing, (list, tuple)):
            return self._container(thing)
        if isinstance(thing, dict):
            pairs = [self.value(part) for item in thing.items() for part in item]
            made = em.graph.insert("prim::DictConstruct", pairs)._outputs[0]
            if pairs:
                made._type = types.DictType(pairs[0]._type, pairs[1]._type)
            return made
        from tritorch.jit.frontend.python_values import constant_or_none

        constant_sugar = constant_or_none(em, thing)
        if constant_sugar is None:
            raise ScriptError(f"a trace cannot keep a value of type {type(thing).__name__}")
        return constant_sugar.as_value(em, None)

    def _container(self, thing: Any) -> Value:
        parts = [self.value(part) for part in thing]
        if isinstance(thing, (list, Size, TracedSize)):
            kinds = [part._type for part in parts]
            if not parts:
                return self.em.make_list([], types.IntType.get())
            if all(isinstance(k, (TensorType, types.NoneType)) for k in kinds):
                has_none = any(isinstance(k, types.NoneType) for k in kinds)
                element: Type = TensorType.get()
                return self.em.make_list(
                    parts, types.OptionalType(element) if has_none else element
                )
            if all(kind == kinds[0] for kind in kinds):
                return self.em.make_list(parts, kinds[0])
        return self.em.pack_tuple(parts)

    def _attribute(self, tensor: Tensor) -> Value:
        """A parameter or buffer of the traced module, read at the beginning of the graph."""
        owner, path, _ = self.attributes[id(tensor)]
        graph = self.em.graph
        point = graph._insert
        if path not in self._read:
            first = graph._param._next
            assert first is not None
            while first._kind == "prim::GetAttr":
                first = first._next
                assert first is not None
            graph._insert = first
            value = owner
            for at, name in enumerate(path):
                if path[: at + 1] not in self._read:
                    kind = value._type.find_attribute(name)  # type: ignore[attr-defined]
                    self._read[path[: at + 1]] = self.em.get_attr(value, name, kind)
                value = self._read[path[: at + 1]]
            graph._insert = point
        return self._read[path]

    # ---- calls -----------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        before, self.is_paused = self.is_paused, True
        try:
            return self._seen(func, name, args, kwargs)
        finally:
            self.is_paused = before

    def _seen(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "__get__":
            return self._property(func, args)
        if name in ("size", "__len__", "numel", "nelement"):
            return self._size(func, name, args, kwargs)
        if name in _PYTHON_NUMBERS:
            return self._number(func, name, args, kwargs)
        if name in _SILENT:
            return func(*args, **kwargs)
        return self._operator(func, name, args, kwargs)

    def _operator(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        mark = self.em.mark()
        if name in ("__getitem__", "__setitem__"):
            emitted = self._indexed(name, args)
            result = func(*args, **kwargs)
        else:
            emitted = self._emit(func, name, args, kwargs)
            if emitted is None:
                self.em.rewind(mark)
                return self._below(func, args, kwargs)
            result = func(*args, **kwargs)
        if emitted is not None:
            self.bind(result, emitted)
        return result

    def call(self, function: GraphFunction, args: Any, kwargs: Any) -> Any:
        """A call of a compiled function: a node, and what it computes."""
        from tritorch.jit.run.binding import bind
        from tritorch.jit.run.executor import runner
        from tritorch.jit.run.values import to_python

        schema = function.schema
        with tracer_paused():
            values = bind(schema, args, kwargs)
            result = to_python(runner(function)(*values), schema._returns[0].type)
            inputs = [self._script_value(each) for each in (*args, *kwargs.values())]
            if len(inputs) != len(schema._arguments):
                found = matching.match(
                    self.em, schema, [self._script_value(a) for a in args],
                    {k: self._script_value(v) for k, v in kwargs.items()},
                )  # fmt: skip
                inputs = found.inputs
            constant = self.em.function_constant(function)
            node = self.em.graph.insert("prim::CallFunction", [constant, *inputs])
            node.function = function
            self.bind(result, node._outputs[0].setType(schema._returns[0].type))
        return result

    def _script_value(self, thing: Any) -> Value:
        from tritorch.jit.ir.objects import ScriptObjectData

        if isinstance(thing, ScriptObjectData):
            return self._part(thing)
        return self.value(thing)

    def _part(self, data: Any) -> Value:
        """A scripted module inside the traced one."""
        owner = self.em.graph._param._outputs[0]
        path = _path_to(self.owner, data) if self.owner is not None else None
        if path is None:
            raise RuntimeError(
                "a scripted module or packed parameters that are no part of the traced module"
            )
        value = owner
        for name in path:
            value = self.em.get_attr(value, name, value._type.find_attribute(name))  # type: ignore[attr-defined]
        return value

    def _emit(self, func: Any, name: str, args: Any, kwargs: Any) -> Value | None:
        """The node of a call; None if no operator takes its arguments."""
        target = self._target(func, name)
        if target is None:
            return None
        try:
            values = [self.value(each) for each in args]
            named = {
                key: self.value(each)
                for key, each in kwargs.items()
                if not (each is None and key in ("out",))
            }
            if isinstance(target, BuiltinFunction):
                return matching.call_operator(
                    self.em, target.name, values, named, None, attempt=True
                )
            return target.call(self.em, values, named, None).as_value(self.em, None)
        except (ScriptError, matching.Mismatch):
            return None

    def _target(self, func: Any, name: str) -> Any:
        from tritorch.jit.frontend import definitions, globals

        definition = definitions.function_of(func)
        if definition is not None:
            return definition
        operator = globals.operators_by_function().get(id(func))
        if operator is not None:
            return BuiltinFunction(operator)
        schema = getattr(func, "_schema", None)
        if schema is not None and not schema.name.startswith("aten::"):
            return BuiltinFunction(schema.name)
        plain = _OPERATORS.get(name, name)
        if globals.has_operator(plain):
            return BuiltinFunction(f"aten::{plain}")
        return None

    def _below(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Records a call by the operators that it calls."""
        from tritorch.utils._python_dispatch import TorchDispatchMode

        tracer = self

        class Below(TorchDispatchMode):
            """Records operators."""

            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = func(*args, **(kwargs or {}))
                tracer._record(func, args, kwargs or {}, result)
                return result

        with Below():
            return func(*args, **kwargs)

    def _record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        values = [self.value(each) for each in args]
        named = {key: self.value(each) for key, each in kwargs.items()}
        name = func._schema.name
        emitted = matching.call_operator(self.em, name, values, named, None, attempt=True)
        if emitted is not None:
            self.bind(result, emitted)

    def _indexed(self, name: str, args: Any) -> Value | None:
        """`x[index]` and `x[index] = value` with the index that the run had."""
        em, owner = self.em, self.value(args[0])
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        view, tensors, dim = owner, [], 0
        taken = sum(1 for each in index if each is not None and each is not Ellipsis)
        for each in index:
            if each is Ellipsis:
                rest = args[0].dim() - taken
                tensors += [None] * rest
                dim += rest
            elif each is None:
                view = em.operator("aten::unsqueeze", [view, em.const(dim)])
                tensors.append(None)
                dim += 1
            elif isinstance(each, slice):
                bounds = [self.value(each.start), self.value(each.stop)]
                step = self.value(1 if each.step is None else each.step)
                view = em.operator("aten::slice", [view, em.const(dim), *bounds, step])
                tensors.append(None)
                dim += 1
            elif isinstance(each, int) and not isinstance(each, bool):
                view = em.operator("aten::select", [view, em.const(dim), self.value(each)])
            else:
                tensor = each if isinstance(each, Tensor) else as_tensor(each)
                tensors.append(self.value(tensor))  # type: ignore[arg-type]
                dim += 1
        while tensors and tensors[-1] is None:
            tensors.pop()
        if not tensors:
            if name == "__getitem__":
                return view
            new = args[2] if isinstance(args[2], Tensor) else as_tensor(args[2])
            em.operator("aten::copy_", [view, self.value(new), em.const(False)])
            return None
        values = [em.const(None) if t is None else t for t in tensors]
        indices = em.make_list(values, types.OptionalType(TensorType.get()))
        if name == "__getitem__":
            return em.operator("aten::index", [view, indices])
        new = args[2] if isinstance(args[2], Tensor) else as_tensor(args[2])
        em.operator("aten::index_put_", [view, indices, self.value(new), em.const(False)])
        return None

    # ---- sizes and numbers -----------------------------------------------------------------------

    def _size(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if name in ("numel", "nelement"):
            found = self.em.operator("aten::numel", [self.value(args[0])])
            return TracedInt.of(result, found)
        if name == "__len__":
            return result
        return self._sizes(args[0], result, args[1:], kwargs)

    def _sizes(self, tensor: Tensor, result: Any, args: Any = (), kwargs: Any = None) -> Any:
        owner = self.value(tensor)
        if isinstance(result, int):
            dim = args[0] if args else (kwargs or {}).get("dim")
            found = self.em.operator("aten::size", [owner, self.value(dim)])
            return TracedInt.of(result, found)
        return TracedSize.of(
            [
                TracedInt.of(number, self.em.operator("aten::size", [owner, self.em.const(at)]))
                for at, number in enumerate(result)
            ]
        )

    def _property(self, func: Any, args: Any) -> Any:
        result = func(*args)
        name = getattr(getattr(func, "__self__", None), "__name__", "")
        if isinstance(result, Size):
            return self._sizes(args[0], result)
        if isinstance(result, Tensor) and id(result) not in self.values:
            operator = {"T": "numpy_T", "data": "detach", "grad": "", "H": "matrix_H"}.get(
                name, name
            )
            emitted = None
            if operator and matching.schemas(f"aten::{operator}"):
                emitted = matching.call_operator(
                    self.em, f"aten::{operator}", [self.value(args[0])], {}, None, attempt=True
                )
            if emitted is not None:
                self.bind(result, emitted)
        return result

    def _number(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        kind = _PYTHON_NUMBERS[name]
        warnings.warn(
            f"Converting a tensor to a Python {kind} might cause the trace to be incorrect. We "
            "can't "
            "record the data flow of Python values, so this value will be treated as a constant in "
            "the future. This means that the trace might not generalize to other inputs!",
            category=TracerWarning,
            stacklevel=3,
        )
        return func(*args, **kwargs)


_PYTHON_NUMBERS = {
    "__bool__": "boolean", "__int__": "integer", "__index__": "index", "__float__": "float",
    "item": "number", "tolist": "list", "numpy": "NumPy array", "__complex__": "complex number",
    "__iter_list__": "list",
}  # fmt: skip
_SILENT = {"dim", "ndimension", "stride", "is_floating_point", "is_complex", "data_ptr", "backward",
           "is_contiguous", "storage_offset", "element_size", "get_device", "is_signed",
           "requires_grad_", "retain_grad", "register_hook", "is_same_size", "__repr__", "__hash__",
           "is_tensor", "has_torch_function", "untyped_storage", "__format__", "result_type",
           "manual_seed", "is_inference", "__len__", "is_conj", "is_neg", "__set__", "no_grad",
           "set_grad_enabled"}  # fmt: skip
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "rsub", "__mul__": "mul",
    "__rmul__": "mul", "__truediv__": "div", "__matmul__": "matmul", "__pow__": "pow",
    "__neg__": "neg", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
    "__eq__": "eq", "__ne__": "ne", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_",
    "__itruediv__": "div_", "__invert__": "bitwise_not", "__floordiv__": "floor_divide",
    "__mod__": "remainder", "__abs__": "abs", "divide": "div", "multiply": "mul",
    "subtract": "sub", "__rpow__": "pow", "__contains__": "",
}  # fmt: skip


# ---- traces --------------------------------------------------------------------------------------


def _input_type(value: Any) -> Type:
    found = infer_type(value)
    if not found.success():
        raise RuntimeError(
            f"Type '{type(value).__name__}' cannot be traced. Only Tensors and (possibly nested) "
            "Lists, Dicts, and Tuples of Tensors can be traced"
        )
    return _without_shapes(found.type())


def _without_shapes(kind: Type) -> Type:
    return TensorType.get() if isinstance(kind, TensorType) else kind


_shape = Tensor.shape  # which is native, so that modes do not see it read
_open_traces = 0
_lock = locks.lock()


def _traced_shape(self: Tensor) -> Any:
    """The sizes of a tensor; in a thread that records, with their values of the graph."""
    sizes = _shape.__get__(self)
    tracer = _active.tracer
    return sizes if tracer is None or tracer.is_paused else tracer._sizes(self, sizes)


@contextlib.contextmanager
def _tracing(tracer: Tracer) -> Iterator[None]:
    global _open_traces
    before = _active.tracer
    _active.tracer = tracer
    with _lock:
        _open_traces += 1
        Tensor.shape = property(_traced_shape)  # type: ignore[assignment,method-assign]
    try:
        with tracer:
            yield
    finally:
        _active.tracer = before
        with _lock:
            _open_traces -= 1
            if not _open_traces:
                del Tensor.shape


def _names(function: Callable[..., Any], count: int) -> list[str]:
    from tritorch.jit.internals import get_callable_argument_names

    found = get_callable_argument_names(function)
    found = [name for name in found if name != "self"]
    names = found[:count] if len(found) >= count else [f"argument_{at + 1}" for at in range(count)]
    return [f"{name}" for name in names]


def _record(
    function: GraphFunction,
    run: Callable[..., Any],
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    strict: bool,
    data: ScriptModuleData | None = None,
    module: Module | None = None,
) -> None:
    """Fills in a function by a run."""
    tracer = Tracer(function, strict)
    graph = tracer.em.graph
    arguments = []
    if data is not None and module is not None:
        tracer.owner, kind = data, data.type
        owner = graph.addInput("self").setType(kind)
        arguments.append(Argument._make("self", kind, kind, None, Argument.NO_DEFAULT, False, None))
        for path, tensor in _tensors(module):
            tracer.attributes.setdefault(id(tensor), (owner, path, kind))
            tracer._keep.append(tensor)
    names = [*_names(run, len(inputs)), *kwargs]
    given = [_fresh(value) for value in (*inputs, *kwargs.values())]
    with _tracing(tracer):
        for name, value in zip(names, given):
            wanted = _input_type(value)
            entry = graph.addInput(name).setType(wanted)
            arguments.append(
                Argument._make(name, wanted, wanted, None, Argument.NO_DEFAULT, False, None)
            )
            with tracer_paused():
                _bind_input(tracer, value, entry)
        count = len(inputs)
        result = run(*given[:count], **dict(zip(kwargs, given[count:])))
        with tracer_paused():
            output = _output(tracer, result, strict)
    graph.registerOutput(output)
    eliminate_dead_code(graph)
    returns = [
        Argument._make("", output._type, output._type, None, Argument.NO_DEFAULT, False, None)
    ]
    function.graph = graph
    function.schema = FunctionSchema(function.name, "", arguments, returns, False, False)


@contextlib.contextmanager
def tracer_paused() -> Iterator[None]:
    """Calls inside are not recorded."""
    from tritorch._C import DisableTorchFunction

    tracer = _active.tracer
    if tracer is None:
        yield
        return
    before, tracer.is_paused = tracer.is_paused, True
    try:
        with DisableTorchFunction():
            yield
    finally:
        tracer.is_paused = before


def _bind_input(tracer: Tracer, value: Any, entry: Value) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            index = tracer.em.const(key)
            found = tracer.em.operator("aten::__getitem__", [entry, index])
            _bind_input(tracer, item, found)
    else:
        tracer.bind(value, entry)


def _fresh(value: Any) -> Any:
    """Tensors of their own, so that one that is given twice is two inputs."""
    if isinstance(value, Tensor):
        made = value.detach()
        return made.requires_grad_(value.requires_grad) if value.requires_grad else made
    if isinstance(value, (tuple, list)):
        parts = [_fresh(part) for part in value]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    return value


def _output(tracer: Tracer, result: Any, strict: bool) -> Value:
    if isinstance(result, (dict, list)) and strict:
        name = type(result).__name__
        raise RuntimeError(
            f"Encountering a {name} at the output of the tracer might cause the trace to be "
            f"incorrect, this is only valid if the container structure does not change based on "
            f"the module's inputs. Consider using a constant container instead (e.g. for `list`, "
            f"use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely "
            f"need this and know the side effects, pass strict=False to trace() to allow this "
            f"behavior."
        )
    if isinstance(result, tuple):
        return tracer.em.pack_tuple([_output(tracer, part, strict) for part in result])
    if not isinstance(result, (Tensor, list, dict, TracedInt)):
        raise RuntimeError(
            "Tracer cannot infer type of "
            f"{result}\n:Only tensors and (possibly nested) tuples of tensors, lists, or dicts are "
            "supported as inputs or outputs of traced functions, but instead got value of type "
            f"{type(result).__name__}."
        )
    return tracer.value(result)


def _tensors(
    module: Module, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            if tensor is not None:
                yield (*prefix, name), tensor
    for name, part in module._modules.items():
        if part is not None:
            yield from _tensors(part, (*prefix, name))


def _traced_data(module: Module, memo: dict[int, ScriptModuleData]) -> ScriptModuleData:
    """The data of a module of which only tensors, parts and the mode are kept."""
    if id(module) in memo:
        return memo[id(module)]
    if isinstance(module, ScriptModule) and hasattr(module, "_c"):
        return module._c
    from tritorch.jit.internals import _qualified_name

    name = UNIT.mangle(torch_name(_qualified_name(type(module))))
    kind = ScriptClassType(name, True)
    UNIT.types[name] = kind
    data = ScriptModuleData(kind, UNIT)
    memo[id(module)] = data
    for title, value in module._parameters.items():
        kind.add_attribute(title, _tensor_type(value), True, False)
        data.slots[title] = value
    for title, value in module._buffers.items():
        kind.add_attribute(title, _tensor_type(value), False, True)
        data.slots[title] = value
    for title, value in vars(module).items():
        if isinstance(value, PackedObject):
            kind.add_attribute(title, value._type())
            data.slots[title] = value
    kind.add_attribute("training", types.BoolType.get())
    data.slots["training"] = module.training
    for title, part in module._modules.items():
        if part is None:
            kind.add_attribute(title, types.NoneType.get())
            data.slots[title] = None
            continue
        inner = _traced_data(part, memo)
        kind.add_attribute(title, inner.type)
        data.slots[title] = inner
    return data


def _tensor_type(value: Any) -> Type:
    return types.NoneType.get() if value is None else TensorType.get()


def _as_inputs(example: Any) -> tuple[Any, ...]:
    if isinstance(example, (Tensor, dict)):
        return (example,)
    if not isinstance(example, tuple):
        return tuple(example)
    return example


@deprecated(
    "`torch.jit.trace` is deprecated. Please switch to `torch.compile` or `torch.export`.",
    DeprecationWarning,
)
def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """Records a run of a function or module with example inputs."""
    from tritorch.jit._script import is_enabled

    if not is_enabled():
        return func
    if isinstance(func, ScriptModule):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=3,
        )
        return func
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    kwargs = example_kwarg_inputs or {}
    if not isinstance(kwargs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    inputs = () if example_inputs is None else _as_inputs(example_inputs)
    if isinstance(func, Module):
        made: Any = _trace_module(func, {"forward": inputs}, {"forward": kwargs}, strict)
    else:
        owner = getattr(func, "__self__", None)
        if isinstance(owner, Module) and getattr(func, "__name__", None) == "forward":
            made = _trace_module(owner, {"forward": inputs}, {"forward": kwargs}, strict)
            func = owner
        else:
            made = _trace_function(func, inputs, kwargs, strict)
    if check_trace:
        for each in [inputs] if check_inputs is None else [inputs, *map(_as_inputs, check_inputs)]:
            _check(func, made, each, kwargs, check_tolerance, "forward")
    return made


def _trace_function(func: Any, inputs: Any, kwargs: Any, strict: bool) -> ScriptFunction:
    name = getattr(func, "__name__", "forward")
    name = "forward" if name == "<lambda>" else name
    from tritorch.jit.internals import _qualified_name

    try:
        qualified = torch_name(_qualified_name(func))
    except (RuntimeError, AttributeError):
        qualified = f"__torch__.{name}"
    function = GraphFunction(UNIT.mangle(qualified))
    _record(function, func, inputs, kwargs, strict)
    UNIT.functions[function.qualified_name] = function
    made = ScriptFunction(function)
    made.__doc__ = getattr(func, "__doc__", None)
    return made


def _trace_module(
    module: Module, inputs: dict[str, Any], kwargs: dict[str, Any], strict: bool
) -> TopLevelTracedModule:
    data = _traced_data(module, {})
    kind = data.type
    for name, values in inputs.items():
        run = module if name == "forward" else getattr(module, name)
        function = GraphFunction(f"{kind.qualified_name()}.{name}")
        target = module.forward if name == "forward" else run
        _record(function, _Named(run, target), values, kwargs.get(name, {}), strict, data, module)
        kind.methods[name] = function
    made = wrap(data)
    made.__class__ = TopLevelTracedModule
    return made  # type: ignore[return-value]


class _Named:
    """A module's call under the names of the arguments of its method."""

    def __init__(self, run: Any, method: Any) -> None:
        self._run, self.__wrapped__ = run, method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Records runs of several methods of a module, by example inputs of each."""
    from tritorch.jit._script import is_enabled

    if not is_enabled():
        return mod
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    if example_inputs_is_kwarg:
        made = _trace_module(mod, dict.fromkeys(inputs, ()), inputs, strict)
    else:
        positional = {name: _as_inputs(value) for name, value in inputs.items()}
        made = _trace_module(mod, positional, {}, strict)
        if check_trace:
            for name, values in positional.items():
                _check(mod, made, values, {}, check_tolerance, name)
    return made


def _check(func: Any, made: Any, inputs: Any, kwargs: Any, tolerance: float, method: str) -> None:
    """Warns if the trace computes something else than the function."""
    original = (
        func if method == "forward" or not isinstance(func, Module) else getattr(func, method)
    )
    traced = made if method == "forward" or not isinstance(func, Module) else getattr(made, method)
    with no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        state = get_rng_state()
        wanted = original(*copy.deepcopy(_plain(inputs)), **copy.deepcopy(kwargs))
        set_rng_state(state)
        found = traced(*copy.deepcopy(_plain(inputs)), **copy.deepcopy(kwargs))
    for at, (a, b) in enumerate(zip(_flat(wanted), _flat(found))):
        try:
            assert_close(_exact(a), _exact(b), rtol=tolerance, atol=1e-5, equal_nan=True)
        except AssertionError as error:
            warnings.warn(
                f"Output nr {at + 1}. of the traced function does not match the corresponding "
                f"output of the Python function. Detailed error:\n{error}",
                category=TracerWarning,
                stacklevel=4,
            )
            return


def _exact(x: Tensor) -> Tensor:
    """A tensor in the dtype that results are compared in."""
    x = x.dequantize() if x.is_quantized else x
    return x if x.is_complex() else x.double()


def _plain(inputs: Any) -> Any:
    return tuple(
        _fresh(value) if not isinstance(value, Tensor) else value.detach() for value in inputs
    )


def _flat(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _flat(part)


def _path_to(data: Any, wanted: Any) -> tuple[str, ...] | None:
    """The names of attributes that lead from one object to another."""
    if data is wanted:
        return ()
    for name, value in data.slots.items():
        if value is wanted:
            return (name,)
        if isinstance(value, ScriptModuleData):
            rest = _path_to(value, wanted)
            if rest is not None:
                return (name, *rest)
    return None


class TracedModule(ScriptModule):
    """A module that a trace made."""


class TopLevelTracedModule(RecursiveScriptModule):
    """The module that was given to `trace`."""


def _get_trace_graph(
    f: Any, args: Any = (), kwargs: Any = None, strict: bool = True, _force_outplace: bool = False,
    return_inputs: bool = False, _return_inputs_states: bool = False,
) -> Any:  # fmt: skip
    """The graph of a call, and its results; with return_inputs the inputs too."""
    inputs = args if isinstance(args, tuple) else (args,)
    if isinstance(f, Module):
        module = _trace_module(f, {"forward": inputs}, {"forward": kwargs or {}}, strict)
        graph = module._c.type.methods["forward"].graph
    else:
        graph = _trace_function(f, inputs, kwargs or {}, strict).graph
    with no_grad():
        result = f(*inputs, **(kwargs or {}))
    return (graph, result, inputs) if return_inputs or _return_inputs_states else (graph, result)


def _unique_state_dict(module: Module, keep_vars: bool = False) -> dict[str, Any]:
    """A module's state without second names of one tensor; detached unless `keep_vars`."""
    seen: set[int] = set()
    unique = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            unique[name] = value if keep_vars else value.detach()
    return unique


class ONNXTracedModule(Module):
    """A module whose call records its graph, as ONNX's old exporter has it."""

    def __init__(self, inner: Module, strict: bool = True, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.inner, self.strict = inner, strict

    def forward(self, *args: Any) -> Any:
        """The graph of the module's call, and its results."""
        made = _trace_module(self.inner, {"forward": args}, {}, self.strict)
        return made.graph, self.inner(*args)


TracedModule.__module__ = TopLevelTracedModule.__module__ = "torch.jit"
