"""Operators beside values: print, raise, compare identity, switch gradients, ask for the
environment."""

from __future__ import annotations

import enum
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.autograd.grad_mode import set_grad_enabled
from tritorch.compat.torch_private import _awaits
from tritorch.core.device import device as Device
from tritorch.core.generator import Generator, manual_seed
from tritorch.core.published import public
from tritorch.core.tensor import Tensor
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run.errors import Raised
from tritorch.jit.run.text import text_of

Function = Callable[..., Any]


def _same(value: Any) -> Any:
    return value


def print_values(*values: Any) -> None:
    """Writes values to standard output, with spaces between them."""
    sys.stdout.write(" ".join(map(text_of, values)) + "\n")


def _print_text(text: str) -> None:
    sys.stdout.write(text)


def _raise(message: str, class_name: str | None = None) -> None:
    raise Raised(message, class_name)


def _warn(message: str, stacklevel: int = 2) -> None:
    warnings.warn(message, stacklevel=2)


def _uninitialized() -> None:
    return None


def _is(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, Device) and a == b)


def _is_not(a: Any, b: Any) -> bool:
    return not _is(a, b)


def _unwrapped(value: Any) -> Any:
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def _enum_name(member: enum.Enum) -> str:
    return member.name


def _enum_value(member: enum.Enum) -> Any:
    return member.value


def _device(kind: str, index: int | None = None) -> Device:
    return Device(kind) if index is None else Device(kind, index)


def _device_type(device: Device) -> str:
    return device.type


def _device_index(device: Device) -> int | None:
    return device.index


def _hash(value: Any) -> int:
    return hash(value)


def _identity(value: Any) -> int:
    return 0 if value is None else id(value)


def _true(*values: Any) -> bool:
    return True


def _false(*values: Any) -> bool:
    return False


def _wait(future: Any) -> Any:
    return future.wait()


def _chosen(condition: bool, x: Any, y: Any) -> Any:
    return x if condition else y


def _element(values: Any, index: int) -> Any:
    if not -len(values) <= index < len(values):
        raise RuntimeError("Tuple index out of range")
    return values[index]


def submodule(module: ScriptObjectData, key: Any) -> Any:
    """A module of a ModuleList or ModuleDict, by its place or key."""
    if isinstance(key, str):
        if key not in module.slots:
            raise RuntimeError(f"Key Error, {key}")
        return module.slots[key]
    names = [name for name in module.type.attributes if name.isdigit()]
    place = key + len(names) if key < 0 else key
    if not 0 <= place < len(names):
        raise RuntimeError(f"Index {key} is out of bounds of the {len(names)} modules")
    return module.slots[names[place]]


def _backward(
    tensors: Any,
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    from tritorch import autograd

    autograd.backward(tensors, gradients, retain_graph, create_graph)


def _grad(
    outputs: list[Tensor],
    inputs: list[Tensor],
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> list[Any]:
    from tritorch import autograd

    found = autograd.grad(
        outputs, inputs, gradients, retain_graph, create_graph, allow_unused=allow_unused
    )
    return list(found)


def _switch_gradients(enabled: bool) -> None:
    set_grad_enabled(enabled)


def _generator(device: Any = None, seed: int | None = None) -> Generator:
    made = Generator(device="cpu" if device is None else device)
    if seed is not None:
        made.manual_seed(seed)
    return made


def _assert_scalar(value: Any, message: str) -> None:
    if not value:
        raise RuntimeError(message)


def _nothing(*values: Any) -> None:
    return None


def _seed(*values: Any) -> Any:
    if len(values) == 1:
        manual_seed(values[0])
        return None
    return values[0].manual_seed(values[1])


def _now() -> int:
    return time.perf_counter_ns()


def _concatenated(*values: Any) -> Tensor:
    made: Tensor = public.cat(list(values[:-1]), values[-1])
    return made


def _stacked(*values: Any) -> Tensor:
    made: Tensor = public.stack(list(values[:-1]), values[-1])
    return made


def _added(a: Any, b: Any) -> Any:
    """The sum of two gradients, of which None is zero."""
    return b if a is None else a if b is None else a + b


def _saved(value: Any, file: str) -> None:
    from tritorch.serialization import save

    save(value, file)


ALL: dict[str, Function] = {
    "aten::Generator": _generator,
    "aten::__is__": _is,
    "aten::__isnot__": _is_not,
    "aten::_assert_scalar": _assert_scalar,
    "aten::_get_tracing_state": _false,
    "aten::_print": _print_text,
    "aten::_unwrap_optional": _unwrapped,
    "aten::backward": _backward,
    "aten::device": _device,
    "aten::grad": _grad,
    "aten::has_torch_function": _false,
    "aten::hash": _hash,
    "aten::is_grad_enabled": _C.is_grad_enabled,
    "aten::is_scripting": _true,
    "aten::manual_seed": _seed,
    "aten::save": _saved,
    "aten::set_grad_enabled": _switch_gradients,
    "aten::sym_constrain_range": _nothing,
    "aten::sym_constrain_range_for_size": _nothing,
    "aten::wait": _wait,
    "aten::warn": _warn,
    "prim::AddStatValue": _nothing,
    "prim::AutogradAdd": _added,
    "prim::AutogradZero": _uninitialized,
    "prim::EnumName": _enum_name,
    "prim::EnumValue": _enum_value,
    "prim::Guard": _same,
    "prim::IfThenElse": _chosen,
    "prim::ModuleContainerIndex": submodule,
    "prim::Print": print_values,
    "prim::RaiseException": _raise,
    "prim::TimePoint": _now,
    "prim::TupleIndex": _element,
    "prim::Uninitialized": _uninitialized,
    "prim::VarConcat": _concatenated,
    "prim::VarStack": _stacked,
    "prim::awaitable_nowait": _awaits._awaitable_nowait,
    "prim::awaitable_wait": _awaits._awaitable_wait,
    "prim::id": _identity,
    "prim::index": _device_index,
    "prim::type": _device_type,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
}
PLAIN: dict[str, Function] = {"aten::_unwrap_optional": _unwrapped}
