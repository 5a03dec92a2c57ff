"""Public functions as users call them: `_C.Gate`s, which modes, subclasses and autocast may act on.

# Note [Gates]
Inside the package, modules call each other's plain functions.  What is published (`tritorch.add`,
`Tensor.add`, `nn.functional.relu`) is a gate around one of them, made here, once for each name.
A gate is native: for plain tensors it compares the type of each argument and calls.  Otherwise it
comes to `dispatch` (function modes, `__torch_function__`) or to `amp`'s casts.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, GetSetDescriptorType
from typing import Any

from tritorch import _C
from tritorch.core import arguments, dispatching, scopes
from tritorch.core.dtype import BUILTIN
from tritorch.core.tensor import Tensor, in_place_of
from tritorch.core.thread_state import carried

Gate = _C.Gate
GATES: dict[str, dict[str, Any]] = {}  # by module (or "tritorch.Tensor"), then by name
POLICIES: dict[str, Any] = {}  # autocast's, by name: filled when amp is first used
# Told of gates that are published: a module's name, and its gates by name.
LISTENERS: list[Callable[[str, Mapping[str, Any]], None]] = []


def publish(functions: Mapping[str, Any], module: str) -> dict[str, Any]:
    """The functions, each behind its gate; what is not a function stays as it is."""
    made = {
        name: Gate(function, name, name, module) if isinstance(function, FunctionType) else function
        for name, function in functions.items()
    }
    gates = {name: gate for name, gate in made.items() if type(gate) is Gate}
    GATES.setdefault(module, {}).update(gates)
    for name, gate in gates.items():
        gate.policy = POLICIES.get(name)
    for listener in LISTENERS:
        listener(module, gates)
    return made


# ---- Tensor's methods ----------------------------------------------------------------------------

# These make or identify a tensor, whatever its class.
UNGATED = frozenset(
    (
        "__new__", "__init__", "__init_subclass__", "__hash__", "__setstate__",
        "__torch_function__", "as_subclass",
    )
)  # fmt: skip


class Computed(property):
    """A property of Tensor that operators compute: its calls come to a gate, as a method's do."""


def _publish_computed(name: str, given: Computed) -> None:
    gate = Gate(given.fget, "__get__", f"Tensor.{name}.__get__", "tritorch")
    published = property(gate, given.fset, given.fdel, given.__doc__)
    gate.shown = published.__get__
    setattr(Tensor, name, published)


def publish_methods() -> None:
    """Puts every method of Tensor behind a gate; called when all are attached.

    Overrides see Python's operators as the methods that their declarations name (`shown`), and an
    operator that is a method's function as that method."""
    gates = {
        name: Gate(function, name, f"Tensor.{name}", "tritorch")
        for name, function in vars(Tensor).items()
        if isinstance(function, FunctionType)
        and name not in UNGATED
        and (name.startswith("__") or not name.startswith("_"))
    }
    for name, gate in gates.items():
        function = vars(Tensor)[name]
        plain = function.__name__ if name.startswith("__") else name
        gate.shown = gates.get(getattr(function, "shown", plain), gate)
        gate.policy = POLICIES.get(gate.shown.__name__) or POLICIES.get(name)
        gate.answer(function.__name__)
        setattr(Tensor, name, gate)
    GATES["tritorch.Tensor"] = gates
    for name, value in list(vars(Tensor).items()):
        if type(value) is Computed:
            _publish_computed(name, value)
        if type(value) is property and _C.Property.answers(name):
            setattr(Tensor, name, _C.Property(name, value))


def _properties() -> dict[str, Any]:
    return {
        name: value
        for base in (_C.TensorBase, Tensor)
        for name, value in vars(base).items()
        if not name.startswith("_") and isinstance(value, (property, GetSetDescriptorType))
    }


def gate_properties(cls: type) -> None:
    """A subclass that overrides sees its properties read and written, too."""
    if not _C.type_has_override(cls) or any(
        base is not Tensor and issubclass(base, Tensor) and _C.type_has_override(base)
        for base in cls.__bases__
    ):
        return
    for name, plain in _properties().items():
        if getattr(cls, name, None) is not plain:
            continue  # the subclass has its own
        ways = ("__get__", "__set__", "__delete__")
        gates = [_access_gate(getattr(plain, way), f"{name}.{way}") for way in ways]
        setattr(cls, name, property(gates[0], gates[1], gates[2], plain.__doc__))


def _access_gate(access: Any, name: str) -> Any:
    gate = Gate(access, access.__name__, f"Tensor.{name}", "tritorch")
    gate.shown = access
    return gate


# ---- overriding ----------------------------------------------------------------------------------


class _Modes(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []  # innermost last
        self.skip_one = False  # overrides.redispatch_function
        self.disabled = False  # DisableTorchFunction


modes = carried(_Modes())


def stack_changes(stack: list[Any]) -> tuple[Any, ...]:
    """The changes of a scope in which these function modes are entered, Note [Scopes]."""
    return (modes, "stack", stack), (_C.set_function_modes, bool(stack))


def push_mode(mode: Any) -> None:
    """Enters a function mode."""
    _C.set_function_modes(True)
    modes.stack = [*modes.stack, mode]


def pop_mode() -> Any:
    """Leaves the innermost function mode."""
    _C.flush()
    *rest, mode = modes.stack
    modes.stack = rest
    _C.set_function_modes(bool(rest))
    return mode


def overloaded_arguments(relevant: Iterable[Any]) -> list[Any]:
    """One argument of each type that overrides, subclasses before their bases."""
    found: list[Any] = []
    for argument in relevant:
        kind = type(argument)
        if not _C.type_has_override(kind) or any(type(other) is kind for other in found):
            continue
        place = next(
            (i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found)
        )
        found.insert(place, argument)
    return found


def _flat(arguments: Iterable[Any]) -> Iterable[Any]:
    for argument in arguments:
        if type(argument) in (list, tuple):
            yield from argument
        else:
            yield argument


def dispatch(gate: Any, *args: Any, **kwargs: Any) -> Any:
    """A call that a mode or the class of an argument may override."""
    as_told = getattr(gate.__wrapped__, "as_told", None)  # the form that overrides are told
    if as_told is not None:
        args = as_told(*args)
    relevant = _flat((*args, *kwargs.values())) if _C.overrides_enabled() else ()
    return override(gate.shown or gate, overloaded_arguments(relevant), args, kwargs)


def override(function: Any, overloaded: list[Any], args: Any, kwargs: Any) -> Any:
    """Asks the innermost mode, then the arguments' classes, until one answers."""
    types = tuple(map(type, overloaded))
    mode = None
    if modes.stack:
        mode = modes.stack[-1]
        with scopes.Scope(*stack_changes(modes.stack[:-1])):
            result = mode.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for argument in overloaded:
        result = argument.__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    asked = [*map(repr, types)] + ([f"mode {type(mode)!r}"] if mode is not None else [])
    name = f"{function.__module__}.{getattr(function, '__qualname__', function.__name__)}"
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n" + "\n".join(f"  - {each}" for each in asked)
    )


class DisableTorchFunctionSubclass(scopes.Scope):
    """Inside, subclasses of Tensor do not override."""

    changes: Any = ((_C.set_overrides, False),)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Inside, neither subclasses nor function modes override."""

    changes = (
        (_C.set_overrides, False), (_C.set_function_modes, False), (modes, "disabled", True)
    )  # fmt: skip


# ---- what Tensor itself answers ------------------------------------------------------------------


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls the function; tensors among the results become tensors of this class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with scopes.as_plain:
        result = func(*args, **(kwargs or {}))
    return result if func in _AS_THEY_ARE else convert(result, cls)


def _init_subclass(cls: Any, **options: Any) -> None:
    super(Tensor, cls).__init_subclass__(**options)
    dispatching.watch_class(cls)
    plain = getattr(cls.__torch_function__, "__func__", None) is _torch_function
    if plain and dispatching.dispatches(cls):
        # Who sees operators sees no functions, unless it says that it wants them.
        cls.__torch_function__ = _C._disabled_torch_function_impl
    gate_properties(cls)


def convert(result: Any, cls: Any) -> Any:
    """Tensors, also in lists and tuples, as tensors of a class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        # A leaf stays one: what is made of it is recorded.
        return result.as_subclass(cls) if result._leaf else in_place_of(result, cls)
    if isinstance(result, (tuple, list)):
        items = [convert(item, cls) for item in result]
        kind: Any = type(result)
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    return result


_AS_THEY_ARE: set[Any] = set()  # what is no result of this call: gradients, bases


def install() -> None:
    """Called once, when every operator is declared."""
    tensor: Any = Tensor
    _torch_function.__name__ = "__torch_function__"
    _torch_function.__qualname__ = "Tensor.__torch_function__"
    tensor.__torch_function__ = classmethod(_torch_function)
    tensor.__init_subclass__ = classmethod(_init_subclass)
    publish_methods()
    _C.set_gate_handlers(
        dispatch,
        cast,
        translated,
        arguments.mistaken,
        arguments.wants,
        arguments.with_numbers,
        arguments.documented,
        BUILTIN,
    )
    _AS_THEY_ARE.update(p.__get__ for n, p in vars(Tensor).items() if n in ("grad", "_base"))
    native: Any = _C
    native.DisableTorchFunction = DisableTorchFunction  # where PyTorch's users look for them
    native.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass


_TOO_BIG = ("array is too big", "Maximum allowed dimension", "Maximum allowed size exceeded")
_TOO_MANY = ("iterator is too large", "broadcast dimensions too large")


def translated(error: Exception) -> Exception | None:
    """What PyTorch says where NumPy refuses a size, or finds no memory."""
    text = str(error)
    if isinstance(error, MemoryError):
        shape, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
        if shape is None or kind is None:
            return None
        return RuntimeError(
            f"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            f"memory: you tried to allocate {math.prod(shape) * kind.itemsize} bytes. Error code "
            f"12 (Cannot allocate memory)"
        )
    if text.startswith(_TOO_BIG):
        return RuntimeError("Storage size calculation overflowed")
    if text.startswith(_TOO_MANY):
        return RuntimeError("numel: integer multiplication overflow")
    return None


def cast(gate: Any, *args: Any, **kwargs: Any) -> Any:
    """A call inside autocast of a function that has a policy."""
    if _C.follows():
        return gate.policy(functools.partial(_C.follow, gate), args, kwargs)
    return gate.policy(gate.compute, args, kwargs)
