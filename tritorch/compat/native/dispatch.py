"""What programs ask PyTorch's dispatcher through torch._C: keys, kernels, operators, guards.

Nothing is chosen by keys here (`compat/native/dispatch_keys.py`): a tensor's keys are told from
what it is,
kernels from records and from what a program registered.  A guard that takes Python's keys away
turns modes and classes off; one that takes autograd's away records nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.compat.native.dispatch_keys import DispatchKey, DispatchKeySet
from tritorch.compat.torch_private._library.operators import fallback
from tritorch.core import dispatching, gates
from tritorch.core.scopes import Scope, ScopeWhenMade
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried
from tritorch.ops.record.overloads import DEFINED, OpOverload, namespace
from tritorch.schema import table
from tritorch.schema.signature import FunctionSchema

_KEYS = DispatchKey.__members__


def _key(key: Any) -> DispatchKey:
    return key if isinstance(key, DispatchKey) else _dispatch_key_parse(key)


def _set_of(*names: str) -> DispatchKeySet:
    found = DispatchKeySet(_KEYS["Undefined"])
    for name in names:
        found = found.add(_KEYS[name])
    return found


# ---- keys ----------------------------------------------------------------------------------------


def _dispatch_key_name(key: DispatchKey, /) -> str:
    """The name of a key."""
    return key.name


def _dispatch_key_parse(name: str, /) -> DispatchKey:
    """The key of a name."""
    if name not in _KEYS:
        raise RuntimeError(f"could not parse dispatch key: {name}")
    return _KEYS[name]


def _parse_dispatch_key(name: str, /) -> DispatchKey | None:
    """The key of a name; None for what is none."""
    return _KEYS.get(name)


def _dispatch_key_for_device(device_type: str, /) -> str:
    """The name of the key of a kind of device."""
    return next((name for name in _KEYS if name.lower() == device_type), "Undefined")


_ALIASES = {
    "Autograd": lambda name: name.startswith("Autograd"),
    "CompositeExplicitAutograd": lambda name: not name.startswith(("Autograd", "Autocast")),
    "CompositeExplicitAutogradNonFunctional": lambda name: not name.startswith("Auto"),
    "CompositeImplicitAutograd": lambda name: not name.startswith("Autocast"),
}


def _dispatch_is_alias_key(key: DispatchKey, /) -> bool:
    """Whether a key stands for several."""
    return key.name in _ALIASES


def _dispatch_is_included_in_alias(key: DispatchKey, alias: DispatchKey, /) -> bool:
    """Whether a key is one of those that another stands for."""
    return alias.name in _ALIASES and _ALIASES[alias.name](key.name)


def _dispatch_keyset_to_string(keys: DispatchKeySet, /) -> str:
    """The names of a set."""
    return repr(keys)


def _dispatch_keyset_full() -> DispatchKeySet:
    """The set of all keys."""
    return DispatchKeySet.from_raw_repr((1 << 64) - 1)


def _dispatch_get_backend_keyset_from_autograd(key: DispatchKey, /) -> DispatchKeySet:
    """The backend of a key of autograd."""
    return _set_of(key.name.removeprefix("Autograd"))


_FUNCTIONALITIES = {
    "strided": "",
    "sparse_coo": "Sparse",
    "sparse_csr": "SparseCsr",
    "sparse_csc": "SparseCsr",
    "sparse_bsr": "SparseCsr",
    "sparse_bsc": "SparseCsr",
}


def _dispatch_keys(tensor: Tensor, /) -> DispatchKeySet:
    """The keys that a tensor has in PyTorch."""
    backend = next(name for name in _KEYS if name.lower() == tensor.device.type)
    layout = _FUNCTIONALITIES.get(str(tensor.layout).rpartition(".")[2], "")
    names = [f"{'Quantized' if tensor.is_quantized else layout}{backend}"]
    if tensor.is_conj():
        names.append("Conjugate")
    if tensor.is_neg():
        names.append("Negative")
    if not tensor.is_inference():
        names += ["ADInplaceOrView", f"Autograd{backend}"]
    if f"Autocast{backend}" in _KEYS:
        names.append(f"Autocast{backend}")
    if type(tensor) is not Tensor and dispatching.dispatches(type(tensor)):
        names += ["Python", "PythonTLSSnapshot"]
    return _set_of(*names) | getattr(tensor, "_extra_dispatch_keys", _set_of())


def _dispatch_key_set(tensor: Tensor, /) -> str:
    """The names of these keys."""
    return repr(_dispatch_keys(tensor))


def _dispatch_isTensorSubclassLike(tensor: Tensor, /) -> bool:
    """Whether operators on a tensor are another's business than its device's."""
    return bool(dispatching.entered.modes) or dispatching.asked(tensor)


# ---- guards --------------------------------------------------------------------------------------


class _Local(threading.local):
    """What a thread adds to every tensor's keys, and takes from them."""

    def __init__(self) -> None:
        self.included = _set_of("BackendSelect", "ADInplaceOrView")
        self.excluded = _set_of(*(name for name in _KEYS if name.startswith("Autocast")))


_local = carried(_Local())


def _dispatch_tls_local_include_set() -> DispatchKeySet:
    """The keys that this thread adds."""
    if dispatching.entered.modes:
        return _local.included | _set_of("Python", "PythonTLSSnapshot")
    return _local.included


def _dispatch_tls_local_exclude_set() -> DispatchKeySet:
    """The keys that this thread takes away."""
    return _local.excluded


def _dispatch_tls_is_dispatch_key_excluded(key: Any, /) -> bool:
    """Whether this thread takes a key away."""
    return _local.excluded.has(_key(key))


def _dispatch_tls_is_dispatch_key_included(key: Any, /) -> bool:
    """Whether this thread adds a key."""
    return _dispatch_tls_local_include_set().has(_key(key))


def _dispatch_tls_set_dispatch_key_excluded(key: Any, excluded: bool, /) -> None:
    """Says whether this thread takes a key away."""
    change = DispatchKeySet.add if excluded else DispatchKeySet.remove
    _local.excluded = change(_local.excluded, _key(key))


def _dispatch_tls_set_dispatch_key_included(key: Any, included: bool, /) -> None:
    """Says whether this thread adds a key."""
    change = DispatchKeySet.add if included else DispatchKeySet.remove
    _local.included = change(_local.included, _key(key))


def _effects(keys: DispatchKeySet) -> Iterator[Any]:
    """What it means that keys are taken away."""
    if keys.has(_KEYS["Python"]):
        yield DisableTorchDispatch()
    if any(keys.has(_KEYS[name]) for name in ("AutogradCPU", "AutogradCUDA")):
        yield BelowAutograd()


class _ExcludeDispatchKeyGuard(ScopeWhenMade):
    """Takes keys away, as a context or until it is deleted."""

    def changes(self, keys: DispatchKeySet) -> Any:
        return (_local, "excluded", _local.excluded | keys), *_effects(keys)

    def __del__(self) -> None:
        if self.fresh:
            self.__exit__()


ExcludeDispatchKeyGuard = _ExcludeDispatchKeyGuard


class _IncludeDispatchKeyGuard(Scope):
    """Adds keys, as a context."""

    def __init__(self, keys: DispatchKey | DispatchKeySet) -> None:
        self._keys = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)

    def changes(self) -> Any:
        return ((_local, "included", _local.included | self._keys),)


class _ForceDispatchKeyGuard(Scope):
    """Sets what is added and taken away, as a context."""

    def __init__(self, include: DispatchKeySet, exclude: DispatchKeySet) -> None:
        self._sets = include, exclude

    def changes(self) -> Any:
        include, exclude = self._sets
        return (_local, "included", include), (_local, "excluded", exclude), *_effects(exclude)


class _PreserveDispatchKeyGuard(Scope):
    """What is added and taken away inside ends with it."""

    def changes(self) -> Any:
        return (_local, "included", _local.included), (_local, "excluded", _local.excluded)


class _EnablePythonDispatcher:
    """A context without effect: operators are Python's already."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


_DisablePythonDispatcher = _EnablePreDispatch = _EnablePythonDispatcher


class DisableTorchDispatch(Scope):
    """Inside, neither classes nor modes dispatch."""

    def changes(self) -> Any:
        return dispatching.without_modes(), (dispatching.off, "classes", True)


class BelowAutograd(Scope):
    """Inside, nothing is recorded."""

    changes = ((_C.set_grad_enabled, False),)


_DisableTorchDispatch = DisableTorchDispatch
_AutoDispatchBelowAutograd = _AutoDispatchBelowADInplaceOrView = BelowAutograd


# ---- stacks --------------------------------------------------------------------------------------


def _len_torch_dispatch_stack() -> int:
    """How many dispatch modes are entered."""
    return len(dispatching.entered.modes)


def _get_dispatch_stack_at(place: int, /) -> Any:
    """The dispatch mode at a place of the stack, the outermost one being first."""
    return dispatching.entered.modes[place]


def _push_on_torch_dispatch_stack(mode: Any, /) -> None:
    """Enters a dispatch mode."""
    dispatching.enter(mode)


def _pop_torch_dispatch_stack(key: Any = None, /) -> Any:
    """Leaves the innermost dispatch mode."""
    return dispatching.leave()


def _len_torch_function_stack() -> int:
    """How many function modes are entered."""
    return len(gates.modes.stack)


def _get_function_stack_at(place: int, /) -> Any:
    """The function mode at a place of the stack, the outermost one being first."""
    return gates.modes.stack[place]


def _push_on_torch_function_stack(mode: Any, /) -> None:
    """Enters a function mode."""
    gates.push_mode(mode)


def _pop_torch_function_stack() -> Any:
    """Leaves the innermost function mode."""
    return gates.pop_mode()


# ---- operators -----------------------------------------------------------------------------------


def _found(name: str) -> OpOverload | None:
    """The overload of "namespace::name.overload"."""
    full, _, overload = name.partition(".")
    space, _, stem = full.partition("::")
    try:
        return getattr(getattr(namespace(space), stem), overload or "default")
    except AttributeError:
        return None


def _dispatch_find_schema_or_throw(name: str, overload: str, /) -> OpOverload:
    """The operator of a name and an overload's."""
    found = _found(f"{name}.{overload}".rstrip("."))
    if found is None:
        raise RuntimeError(f"Could not find schema for {name}.{overload}")
    return found


def _dispatch_call_boxed(operator: OpOverload, /, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator."""
    return operator(*args, **kwargs)


def _registered(operator: OpOverload) -> set[str]:
    """The keys that an operator has kernels for."""
    definition = DEFINED.get((operator._schema.name, operator._schema.overload_name))
    if definition is not None:
        return definition.keys()
    if operator.record is None or operator.record.runs_composed:
        return {"CompositeImplicitAutograd"}
    return {"CPU", "CUDA", "Meta", "AutogradCPU", "AutogradCUDA", "AutogradMeta"}


def _dispatch_has_kernel(name: str, /) -> bool:
    """Whether something computes an operator."""
    found = _found(name)
    return found is not None and bool(_registered(found))


def _dispatch_has_kernel_for_dispatch_key(name: str, key: Any, /) -> bool:
    """Whether an operator has a kernel of its own for a key."""
    found = _found(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return _key(key).name in _registered(found)


def _dispatch_has_kernel_for_any_dispatch_key(name: str, keys: DispatchKeySet, /) -> bool:
    """Whether an operator has a kernel of its own for one of a set of keys."""
    found = _found(name)
    return found is not None and any(keys.has(_KEYS[key]) for key in _registered(found))


def _dispatch_has_computed_kernel_for_dispatch_key(name: str, key: Any, /) -> bool:
    """Whether an operator runs for a key, by a kernel of that or of one that stands for it."""
    key = _key(key)
    if _dispatch_is_alias_key(key):
        raise RuntimeError("Alias keys do not have runtime kernel registrations.")
    found = _found(name)
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    keys = _registered(found)
    return key.name in keys or any(
        _dispatch_is_included_in_alias(key, _KEYS[alias]) for alias in keys & set(_ALIASES)
    )


def _dispatch_kernel_for_dispatch_key_is_fallthrough(name: str, key: Any, /) -> bool:
    """Whether what is registered for a key is to be passed over."""
    found = _found(name)
    if found is None:
        return False
    definition = DEFINED.get((found._schema.name, found._schema.overload_name))
    return definition is not None and _key(key).name in definition.passed_over


def _dispatch_get_all_op_names() -> list[str]:
    """The names of all operators."""
    names = [
        f"aten::{stem}" + (f".{overload}" if overload else "")
        for stem in table.names()
        for overload in table.overloads(stem)
    ]
    return names + [f"{name}.{overload}" if overload else name for name, overload in DEFINED]


def _dispatch_get_registrations_for_dispatch_key(key: str = "", /) -> list[str]:
    """The names of all operators that have a kernel of their own for a key."""
    names = _dispatch_get_all_op_names()
    return [n for n in names if not key or _dispatch_has_kernel_for_dispatch_key(n, key)]


def _dispatch_dump(name: str, /) -> str:
    """An operator's schema and keys, as text."""
    found = _found(name)
    if found is None:
        return f"name: {name}\n(none)\n"
    schema = found._schema
    lines = [f"name: {name}", f"schema: {schema}", "alias analysis kind: FROM_SCHEMA"]
    return "\n".join([*lines, *(f"{key}: [ kernel ]" for key in sorted(_registered(found)))]) + "\n"


def _dispatch_dump_table(name: str, /) -> str:
    """What runs an operator for each key, as text."""
    found = _found(name)
    keys = [] if found is None else sorted(_registered(found))
    return "\n".join(f"{key}: [ kernel ]" for key in keys) + "\n"


def _jit_get_schemas_for_operator(name: str, /) -> list[FunctionSchema]:
    """The schemas of an operator's overloads."""
    space, _, stem = name.partition("::")
    packet = getattr(namespace(space), stem, None)
    return [] if packet is None else list(packet._schemas.values())


def _jit_get_all_schemas() -> list[FunctionSchema]:
    """The schemas of all operators."""
    ours = [table.find(stem, o) for stem in table.names() for o in table.overloads(stem)]
    return ours + [definition.schema for definition in DEFINED.values()]


def _jit_resolve_packet(name: str, /, *args: Any, **kwargs: Any) -> str:
    """The name of the overload that arguments fit."""
    space, _, stem = name.partition("::")
    try:
        return getattr(namespace(space), stem)._chosen(args, kwargs)._overloadname
    except RuntimeError as error:
        raise RuntimeError(
            f"Overloaded torch operator invoked from Python failed to match any schema:\n{error}"
        ) from None


def _get_schema(name: str, overload: str, /) -> FunctionSchema:
    """The schema of an operator's overload."""
    return _dispatch_find_schema_or_throw(name, overload)._schema


def _get_operation_overload(name: str, overload: str, /) -> Any:
    """What calls an overload, what calls it for keys, and its tags; None: there is none."""
    found = _found(f"{name}.{overload}".rstrip("."))
    return None if found is None else (found, found.redispatch, found.tags)


def _jit_get_operation(name: str, /) -> Any:
    """What calls an operator, and the names of its overloads."""
    space, _, stem = name.partition("::")
    packet = getattr(namespace(space), stem, None)
    if packet is None:
        return None, []
    return packet, ["" if each == "default" else each for each in packet.overloads()]


def _get_autograd_fallback_mode() -> str:
    """What a backward pass does at an operator without a formula: "nothing", "warn" or "error"."""
    return fallback.mode


def _set_autograd_fallback_mode(mode: str, /) -> None:
    """Says what it does."""
    fallback.mode = mode


def _storage_id(tensor: Tensor, /) -> int:
    """A number of the memory of a tensor, which tensors that share it share."""
    array = tensor._array
    return id(array.memory if type(array) is MetaArray else tensor._shared)


def _non_sym_sizes(tensor: Tensor, /) -> tuple[int, ...]:
    """The sizes."""
    return tuple(tensor.shape)
