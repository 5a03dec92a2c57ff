"""Operators as objects: `torch.ops.<namespace>.<operator>.<overload>`.

An overload is a schema and what computes it.  ATen's are found here when they are asked for: the
public function of the name, or the record that computes the schema; others are defined in
`tritorch.library` and stand in `DEFINED`.

# Note [What computes an overload]
A public function takes the arguments that ATen's schema has, in most cases by the same names, and
checks them; so it goes first.  Where none is (`_softmax`, `native_layer_norm`) or where it takes
words for ATen's numbers (`reduction="mean"`), the record's own function computes: its declaration
is a call in the names of its inputs and params, which is read backwards (`_reader`).
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.nested import NestedArray
from tritorch.core import gates, late_bound
from tritorch.core.naming import qualified
from tritorch.core.profiling import events
from tritorch.core.published import FUNCTIONAL, INTERNAL, PUBLIC, SPECIAL
from tritorch.core.tensor import Tensor
from tritorch.ops.record.apply import apply
from tritorch.ops.record.interpreters import interpreter
from tritorch.ops.record.operator import OPERATORS, Operator
from tritorch.ops.record.pointwise import Pointwise
from tritorch.ops.record.schema import members_of, parts_of
from tritorch.schema import table
from tritorch.schema.parser import parse_schema
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tags import Tag

_REDUCTIONS = ("none", "mean", "sum")


class OpOverload:
    """One overload of an operator: calling it computes what its schema says."""

    def __init__(
        self,
        packet: OpOverloadPacket,
        schema: FunctionSchema,
        function: Callable[..., Any] | None = None,
        tags: Sequence[Tag] = (),
    ) -> None:
        """function: what computes it; None: what Note [What computes an overload] finds."""
        self._overloadpacket, self._schema = packet, schema
        self._overloadname = schema.overload_name or "default"
        self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self._qualified_op_name = schema.name
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__module__ = packet.__module__
        self.__qualname__ = self._name
        self.__doc__ = str(schema)
        self.__annotations__: dict[str, Any] = {}
        self._function, self._tags = function, tuple(tags)
        self.is_view = schema._is_view_op()

    @functools.cached_property
    def _op(self) -> Callable[..., Any]:
        """What computes it."""
        return self._function or _function_of(self._schema)

    @property
    def record(self) -> Operator | None:
        """The record that computes it, if one alone does."""
        return records().get((self._schema.name, self._schema.overload_name))

    @functools.cached_property
    def meets(self) -> bool:
        """Whether other processes wait for a call: Note [Collectives as records]."""
        record = self.record or INTERNAL.get(self._schema.name)
        return getattr(record, "meets", False) or getattr(record, "kind", "") == "collective"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        relevant = [*args, *kwargs.values()]
        relevant += [x for each in relevant if type(each) in (list, tuple) for x in each]
        if gates.modes.stack or _C.has_override(*relevant):
            overloaded = gates.overloaded_arguments(relevant) if _C.overrides_enabled() else []
            if overloaded or gates.modes.stack:
                return gates.override(self, overloaded, args, kwargs)
        if self._function is None and (_C.current_region() is not None or events.enabled()):
            return self._gate(*args, **kwargs)
        return self._computed(args, kwargs, relevant)

    def _computed(self, args: Any, kwargs: Any, relevant: Sequence[Any]) -> Any:
        function = self._op
        if _C.holds_nested(*relevant):
            function = interpreter(NestedArray).of_operator(
                self._overloadpacket.__name__, function, relevant
            )
        try:
            result = function(*args, **kwargs)
        except TypeError:
            bind(self._schema, args, kwargs)  # says what is missing, and shows the schema
            raise
        if isinstance(result, tuple) and type(result) is not tuple:
            return tuple(result)  # names are the public function's
        return result

    @functools.cached_property
    def _gate(self) -> Any:
        """What profiles name, and compiled functions follow; their graphs show this object."""
        name = self._overloadpacket.__name__
        gate = gates.Gate(self._behind, name, self._name, self.__module__)
        gate.shown = self
        return gate

    def _behind(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._computed(args, kwargs, [*args, *kwargs.values()])

    def redispatch(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Computes; keyset, of dispatch keys still to come, has no meaning here."""
        return self._op(*args, **kwargs)

    @property
    def _defined_in_python(self) -> bool:
        """Whether a program defined it."""
        return (self._schema.name, self._schema.overload_name) in DEFINED

    @property
    def namespace(self) -> str:
        """What stands before the operator's name."""
        return self._schema.name.partition("::")[0]

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the operator."""
        return self._overloadpacket

    @property
    def op(self) -> OpOverloadPacket:
        """All overloads of the operator."""
        return self._overloadpacket

    @functools.cached_property
    def tags(self) -> list[Tag]:
        """What the operator promises."""
        return sorted({*self._tags, *_promises(self)}, key=int)

    def name(self) -> str:
        """ "aten::add.Tensor"."""
        return self._name

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the record's definition in smaller operators; NotImplemented without."""
        record = self.record
        if record is None or record.composed is None:
            return NotImplemented
        bound = _reader(record, self._schema)
        if bound is None:
            return NotImplemented
        tensors, params = bound(*args, **kwargs)
        return record.composed(*tensors, *params)

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether something computes it, on whatever device."""
        return True

    def has_kernel_for_any_dispatch_key(self, keys: Any) -> bool:
        """Whether something computes it, on whatever device."""
        return True

    def _can_decompose(self) -> bool:
        return self.record is not None and self.record.composed is not None

    def __deepcopy__(self, memo: Any = None) -> OpOverload:
        return self

    def __copy__(self) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _find, (self.namespace, self._overloadpacket.__name__, self._overloadname)

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return ".".join((*self._schema.name.split("::"), self._overloadname))

    def __repr__(self) -> str:
        name = self._schema.name.replace("::", ".")
        return f"<OpOverload(op='{name}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """The overloads of an operator; calling it computes the one that the arguments fit."""

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__module__ = qualified(f"_ops.{namespace}")
        self._namespace = namespace
        self._dir: list[str] = []

    def __getattr__(self, key: str) -> OpOverload:
        if key.startswith("__") and key.endswith("__"):
            raise AttributeError(
                f"'{self}' can't have an overload name beginning with '__' and the underlying op "
                f"{self._namespace}.{self.__name__} has no attribute {key} either."
            )
        schema = _schema(self._namespace, self.__name__, "" if key == "default" else key)
        if schema is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{key}'")
        defined = DEFINED.get((self._qualified_op_name, schema.overload_name))
        made = defined.overload(self) if defined else OpOverload(self, schema)
        setattr(self, key, made)
        self._dir.append(key)
        return made

    def overloads(self) -> list[str]:
        """The names of the overloads, the one without a name being "default"."""
        return [name or "default" for name in _overloads(self._namespace, self.__name__)]

    @property
    def op(self) -> OpOverloadPacket:
        """Itself."""
        return self

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {name: getattr(self, name or "default")._schema
                for name in _overloads(self._namespace, self.__name__)}  # fmt: skip

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        relevant = [*args, *kwargs.values()]
        relevant += [x for each in relevant if type(each) in (list, tuple) for x in each]
        if _C.overrides_enabled() and _C.has_override(*relevant):
            # Objects that are no tensors (proxies of fx) fit no schema.
            overloaded = gates.overloaded_arguments(relevant)
            if not all(isinstance(each, Tensor) for each in overloaded):
                return gates.override(self, overloaded, args, kwargs)
        return self._chosen(args, kwargs)(*args, **kwargs)

    def _chosen(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpOverload:
        """The first overload that the arguments fit."""
        found = [getattr(self, name) for name in self.overloads()]
        if len(found) == 1:
            return found[0]
        for overload in found:
            if fits(overload._schema, args, kwargs):
                return overload
        shown = "\n".join(f"  {overload._schema}" for overload in found)
        kinds = ", ".join(type(each).__name__ for each in (*args, *kwargs.values()))
        raise RuntimeError(
            f"No overload of {self._qualified_op_name} takes ({kinds}). They are:\n{shown}"
        )

    @property
    def is_computed(self) -> bool:
        """Whether there is a function for one of the overloads at least."""
        for name in self.overloads():
            try:
                if getattr(self, name)._op is not None:
                    return True
            except NotImplementedError:
                continue
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __dir__(self) -> list[str]:
        return [*self.overloads(), "overloads", "op"]

    def __deepcopy__(self, memo: Any = None) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return _find, (self._namespace, self.__name__, None)

    def __hash__(self) -> int:
        return hash(self._qualified_op_name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"


class OpNamespace(types.ModuleType):
    """The operators of a namespace."""

    __file__ = "torch.ops"

    def __init__(self, name: str) -> None:
        super().__init__(qualified(f"ops.{name}"))
        self.name = name
        self._dir: list[str] = []

    def __getattr__(self, key: str) -> OpOverloadPacket:
        if key.startswith("__"):
            raise AttributeError(key)
        if not _overloads(self.name, key):
            late_bound.declare_operators(self.name)
        if not _overloads(self.name, key):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{key}'")
        packet = OpOverloadPacket(self.name, key)
        setattr(self, key, packet)
        self._dir.append(key)
        return packet

    def forget(self, name: str) -> None:
        """Drops what was defined of an operator and is no more."""
        vars(self).pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __dir__(self) -> list[str]:
        if table.names(self.name):
            return table.names(self.name)
        ours = [key for key in OPERATORS if _overloads(self.name, key)] * (self.name == "tritorch")
        prefix = f"{self.name}::"
        return [*ours, *(n.removeprefix(prefix) for n, _ in DEFINED if n.startswith(prefix))]

    def __repr__(self) -> str:
        return f"<module '{self.__name__}' from '{self.__file__}'>"


# Operators that programs define (`tritorch.library`), by qualified name and overload: objects with
# a `schema` and an `overload(packet)`.
DEFINED: dict[tuple[str, str], Any] = {}
_NAMESPACES: dict[str, OpNamespace] = {}


def namespace(name: str) -> OpNamespace:
    """The operators of a namespace, which may be empty."""
    if name not in _NAMESPACES:
        _NAMESPACES[name] = OpNamespace(name)
    return _NAMESPACES[name]


def overload_of(schema: FunctionSchema) -> OpOverload:
    """The object of a schema."""
    space, _, name = schema.name.partition("::")
    return getattr(getattr(namespace(space), name), schema.overload_name or "default")


def _find(space: str, name: str, overload: str | None) -> Any:
    packet = getattr(namespace(space), name)
    return packet if overload is None else getattr(packet, overload)


def _overloads(space: str, name: str) -> list[str]:
    """The names of an operator's overloads."""
    found = [overload for full, overload in DEFINED if full == f"{space}::{name}"]
    if space != "tritorch":
        return list(dict.fromkeys([*table.overloads(name, space), *found]))
    if name in OPERATORS and "->" in OPERATORS[name].declared_schema:
        found.append("")
    return found


def _schema(space: str, name: str, overload: str) -> FunctionSchema | None:
    defined = DEFINED.get((f"{space}::{name}", overload))
    if defined is not None:
        return defined.schema
    if overload not in _overloads(space, name):
        return None
    return OPERATORS[name].schema if space == "tritorch" else table.find(name, overload, space)


# ---- what computes -------------------------------------------------------------------------------


def computed_by(op: Operator) -> list[tuple[str, str]]:
    """The schemas that a record computes, by name and overload."""
    text = op.declared_schema
    if "->" in text or not text:
        return [(op.schema.name, op.schema.overload_name)]
    parts = (member.partition(".") for member in members_of(parts_of(text)[0]))
    return [(f if "::" in f else f"aten::{f}", overload) for f, _, overload in parts]


@functools.cache
def records() -> dict[tuple[str, str], Operator]:
    """The record of each schema: of several, the one of its name; none where none has that."""
    found: dict[tuple[str, str], list[Operator]] = {}
    for op in list(OPERATORS.values()):
        for key in computed_by(op):
            found.setdefault(key, []).append(op)
    chosen = {}
    for key, ops in found.items():
        named = [op for op in ops if op.name == key[0].partition("::")[2]]
        if len(ops) == 1 or named:
            chosen[key] = (named or ops)[0]
    return chosen


def _function_of(schema: FunctionSchema) -> Callable[..., Any]:
    """What computes a schema of ATen's, or of a record."""
    name = schema.name.partition("::")[2]
    record = records().get((schema.name, schema.overload_name))
    read = _reader(record, schema)
    if schema.name.startswith("prim::") and hasattr(Tensor, name):
        return lambda a: getattr(a, name)
    if not schema.name.startswith("aten::"):
        late_bound.declare_operators(schema.name.partition("::")[0])
        full = f"{schema.name}.{schema.overload_name}"
        if full in INTERNAL or schema.name in INTERNAL:
            return INTERNAL.get(full) or INTERNAL[schema.name]
        if record is None or read is None:
            raise NotImplementedError(f"tritorch has no {schema.name} yet: {schema}")
        return functools.partial(_run_record, record, read)
    late_bound.declare_internal()
    full = f"{name}.{schema.overload_name}"
    function = INTERNAL.get(full) or INTERNAL.get(name) or public_function(schema)
    if function is not None:
        return _with_numbers(function, schema)
    if read is not None:
        assert record is not None
        return functools.partial(_run_record, record, read)
    raise NotImplementedError(f"tritorch has no function for {schema.name} yet: {schema}")


def _run_record(record: Operator, read: Any, /, *args: Any, **kwargs: Any) -> Any:
    tensors, params = read(*args, **kwargs)
    return apply(record, tensors) if isinstance(record, Pointwise) else record.call(tensors, params)


def public_function(schema: FunctionSchema) -> Callable[..., Any] | None:
    """The plain function of ours that takes a schema's arguments."""
    name = schema.name.removeprefix("aten::")
    for prefix in ("linalg_", "special_", "fft_"):
        if name.startswith(prefix):
            found = _in_module(prefix[:-1], name.removeprefix(prefix))
            if found is not None:
                return found
    found = PUBLIC.get(name)
    if found is not None:
        return found
    method = getattr(Tensor, name, None)
    if isinstance(method, _C.Gate):
        return method.__wrapped__
    found = FUNCTIONAL.get(name) or PUBLIC.get(f"nn.{name}")
    if found is not None:
        theirs = {a.name for a in schema.arguments[1:] if not a.is_out}
        if theirs <= set(inspect.signature(found).parameters):
            return found
    return None


def _in_module(module: str, name: str) -> Callable[..., Any] | None:
    if module == "special":
        found = SPECIAL.get(name)
        if found is not None:
            return found
    found = getattr(importlib.import_module(f"tritorch.{module}"), name, None)
    return getattr(found, "__wrapped__", found)


def _with_numbers(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Any]:
    """A public function that is called with ATen's arguments.

    `self` is its first argument; where it has others, or in another order, they go by their names,
    and a reduction by its word."""
    theirs = [a.name for a in schema.arguments if not a.is_out]
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    ours = list(parameters)
    first = ours[0] if ours and theirs and theirs[0] == "self" else ""
    worded = "reduction" in theirs and isinstance(
        getattr(parameters.get("reduction"), "default", None), str
    )
    wanted = [first if name == "self" and first else name for name in theirs]
    loose = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}
    named = set(wanted) <= set(ours) and loose.isdisjoint(p.kind for p in parameters.values())
    needed = {p.name for p in parameters.values() if p.default is p.empty}
    if named and needed <= set(wanted) and (worded or wanted != ours[: len(wanted)]):
        return functools.partial(_by_name, function, schema, first, worded)
    if not first and theirs[:1] != ["self"]:
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        return function(*args, **kwargs)

    return call


def _by_name(
    function: Callable[..., Any],
    schema: FunctionSchema,
    first: str,
    worded: bool,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    outputs = {a.name for a in schema.arguments if a.is_out}
    given = bind(schema, args, kwargs)
    out = [given.pop(name) for name in outputs]
    if first and "self" in given:
        given[first] = given.pop("self")
    if worded:
        given["reduction"] = _REDUCTIONS[given["reduction"]]
    if out:
        given["out"] = out[0] if len(out) == 1 else tuple(out)
    return function(**given)


def _reader(op: Operator | None, schema: FunctionSchema | None = None) -> Any:
    """The function that makes a record's inputs and params of its schema's arguments; schema: of a
    family, the member; None where its declaration cannot be read backwards."""
    return None if op is None else _reader_of(op, schema or op.schema)


@functools.cache
def _reader_of(op: Operator, schema: FunctionSchema) -> Callable[..., Any] | None:
    text = op.declared_schema
    names = (*op.inputs, *op.params)
    places: dict[str, Callable[[dict[str, Any]], Any]] = {}
    if "->" in text or not text:
        for name, argument in zip(names, schema.arguments):
            places[name] = _taken(argument)
    else:
        name, inside = parts_of(text)
        call = ast.parse(f"f({inside})", mode="eval").body
        assert isinstance(call, ast.Call)
        for word in names:
            if f"if {word} else" in name:  # what the member's name says
                places[word] = _said(name, word, schema)
        by_name = {a.name: a for a in schema.arguments}
        given = [*zip(schema.arguments, call.args)]
        given += [(by_name[k.arg], k.value) for k in call.keywords if k.arg in by_name]
        for argument, node in given:
            if isinstance(node, ast.IfExp):  # what stands for None
                node = node.orelse
            if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name):
                rest = schema.arguments[schema.arguments.index(argument) :]
                places[node.value.id] = _all_of(rest)
            elif isinstance(node, ast.Name):
                places[node.id] = _taken(argument)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "reduction":
                (inner,) = node.args
                if isinstance(inner, ast.Name):
                    places[inner.id] = _word(argument)
    if set(places) != set(names):
        return None
    inputs = [places[name] for name in op.inputs]
    params = [places[name] for name in op.params]

    def read(*args: Any, **kwargs: Any) -> Any:
        values = bind(schema, args, kwargs)
        tensors = [take(values) for take in inputs]
        if op.variadic:
            tensors = [*tensors[:-1], *tensors[-1]]
        return tensors, tuple(map(_frozen, (take(values) for take in params)))

    return read


def _all_of(arguments: Sequence[Argument]) -> Callable[[dict[str, Any]], Any]:
    return lambda values: tuple(values[a.name] for a in arguments)


def _said(name: str, word: str, schema: FunctionSchema) -> Callable[[dict[str, Any]], Any]:
    """Whether a param is true, by the name of the family's member."""
    start = name[: name.index("{")]
    yes, no = (
        ast.unparse(node)[1:-1]
        for part in ast.parse(f"f{name!r}", mode="eval").body.values  # type: ignore[attr-defined]
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.IfExp)
        for node in (part.value.body, part.value.orelse)
        if ast.unparse(part.value.test) == word
    )
    full = f"{schema.name.removeprefix('aten::')}.{schema.overload_name}"
    truth = full.startswith(start + yes) and not (
        len(no) > len(yes) and full.startswith(start + no)
    )
    return lambda values: truth


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _taken(argument: Argument) -> Callable[[dict[str, Any]], Any]:
    return lambda values: values[argument.name]


def _word(argument: Argument) -> Callable[[dict[str, Any]], Any]:
    return lambda values: _REDUCTIONS[values[argument.name]]


# ---- arguments -----------------------------------------------------------------------------------


def bind(schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each argument of a schema."""
    values = dict(kwargs)
    arguments = schema.arguments
    positional = [a for a in arguments if not a.kwarg_only]
    if len(args) > len(positional):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(positional)} argument(s) but received "
            f"{len(args)} argument(s). Declaration: {schema}"
        )
    for argument, value in zip(positional, args):
        if argument.name in values:
            raise RuntimeError(
                f"{schema.name}() got multiple values for argument '{argument.name}'. "
                f"Declaration: {schema}"
            )
        values[argument.name] = value
    unknown = values.keys() - {a.name for a in arguments}
    if unknown:
        raise RuntimeError(
            f"Unknown keyword argument '{min(unknown)}' for operator '{schema.name}'. Schema: "
            f"{schema}"
        )
    for argument in arguments:
        if argument.name not in values:
            if not argument.has_default_value():
                raise RuntimeError(
                    f"{schema.name}() is missing value for argument '{argument.name}'. "
                    f"Declaration: {schema}"
                )
            values[argument.name] = argument.default_value
    return values


def fits(schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether arguments are of a schema's types."""
    from tritorch.ops.record.fitting import is_of

    try:
        values = bind(schema, args, kwargs)
    except RuntimeError:
        return False
    return all(is_of(values[a.name], a.real_type, a.N) for a in schema.arguments)


def _promises(overload: OpOverload) -> set[Tag]:
    schema, record = overload._schema, overload.record
    found = {Tag.pt2_compliant_tag} if overload.namespace == "aten" else set()
    if (schema.name.removeprefix("aten::"), schema.overload_name) in table.core():
        found.add(Tag.core)
    arguments = schema.arguments
    if any(a.is_out for a in arguments):
        found.add(Tag.out)
    elif schema.is_mutable:
        found.add(Tag.inplace)
    if any(a.name == "generator" for a in arguments):
        found.add(Tag.nondeterministic_seeded)
    if record is not None:
        if record.kind == "pointwise":
            found.add(Tag.pointwise)
        if record.kind == "reduction":
            found.add(Tag.reduction)
    return found


def parsed(text: str) -> FunctionSchema:
    """A schema that a program writes."""
    return parse_schema(text)
