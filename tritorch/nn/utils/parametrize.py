"""Parameters computed from others by modules (torch.nn.utils.parametrize)."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import sys
from collections.abc import Sequence
from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.scopes import Scope, scoped
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.container import ModuleDict, ModuleList
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_depth = 0  # how many `cached` are entered
_cache: dict[tuple[int, str], Any] = {}


@scoped
def cached() -> Scope:
    """Within it, each parametrized tensor is computed once."""
    here = sys.modules[__name__]
    return Scope((here, "_depth", _depth + 1), (here, "_cache", _cache if _depth else {}))


def _register(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _require_like(found: Any, like: Tensor, text: str, names: tuple[str, str]) -> None:
    """found has the dtype and the shape of like; text says who must keep them."""
    for what in ("dtype", "shape"):
        old, new = getattr(like, what), getattr(found, what)
        if old != new:
            raise ValueError(
                f"{text.format(what)}\n{names[0].format(what)}: {old}\n{names[1].format(what)}: "
                f"{new}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they compute it from: `original`, or
    `original0`, `original1`, ..."""

    original: Any

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach()
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._set_one(original, new)
        else:
            self._set_many(original, new)
        if not unsafe:
            self._check(before)

    def _set_one(self, original: Any, new: Tensor) -> None:
        for what in ("dtype", "device"):
            if getattr(original, what) != getattr(new, what):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {getattr(original, what)}\n"
                    f"right_inverse(original).{what}: {getattr(new, what)}"
                )
        if new is not original:
            original.data = new.detach()
        _register(self, "original", original)

    def _set_many(self, original: Tensor, new: Sequence[Any]) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", part)

    def _check(self, before: Tensor) -> None:
        found = self()
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        _require_like(
            found, before, "Registering a parametrization may not change the {} of the tensor, "
            "unless `unsafe` flag is enabled.", ("unparametrized {}", "parametrized {}"),
        )  # fmt: skip

    def right_inverse(self, value: Any) -> None:
        """Sets the originals such that the parametrized tensor becomes (close to) a value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                        f"`original` has dtype {self.original.dtype}"
                    )
                self.original.data = value.detach()
                return
            if not isinstance(value, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got "
                    f"{type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for i, part in enumerate(value):
                original = getattr(self, f"original{i}")
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors. Got element {i} of "
                        f"type {type(part).__name__}"
                    )
                if part.dtype != original.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while "
                        f"`original{i}` has dtype {original.dtype}"
                    )
                original.data = part.detach()

    def forward(self) -> Any:
        """The parametrized tensor."""
        first, *rest = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            value = module(value)
        return value


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
    return replica


def _getstate(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _give_class(module: Module) -> None:
    """A class of its own for the module, which properties can be added to."""
    kind = type(module)
    fields: dict[str, Any] = {"__getstate__": _getstate, "__module__": kind.__module__}
    if not hasattr(kind, "__deepcopy__"):
        fields["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), fields)


def _give_property(module: Module, name: str) -> None:
    def get(self: Any) -> Any:
        found = self.parametrizations[name]
        if not _depth:
            return found()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = found()
        return _cache[key]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def _check_another(module: Module, name: str, parametrization: Module) -> None:
    """What is added after other parametrizations keeps dtype and shape, both ways."""
    before = getattr(module, name)
    found = parametrization(before)
    if not isinstance(found, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    place = f"module.{name}"
    _require_like(
        found, before, "Registering a parametrization may not change the {} of the tensor, unless "
        "the `unsafe` flag is enabled.", (f"{place}.{{}}", f"parametrization({place}).{{}}"),
    )  # fmt: skip
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(found)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    _require_like(
        back, before, "The tensor returned by parametrization.right_inverse must have the same {} "
        f"as {place}, unless the `unsafe` flag is enabled.", (f"{place}.{{}}", "returned {}"),
    )  # fmt: skip


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """From now on `module.<tensor_name>` is `parametrization(original)`."""
    parametrization.train(module.training)
    table: Any = getattr(module, "parametrizations", None)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        table[tensor_name].append(parametrization)
        table[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor (or any) of the module is parametrized."""
    table = getattr(module, "parametrizations", None)
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """A plain tensor again: with its present value, or the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    table: Any = module.parametrizations
    found = table[tensor_name]
    if found.is_tensor:
        value = found.original
        if leave_parametrized:
            with no_grad():
                value.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        current = getattr(module, tensor_name)
        value = Parameter(current.detach()) if current.requires_grad else current
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del table[tensor_name]
    _register(module, tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class as it was written."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrizes one module as another is, with the same modules and originals."""
    if not is_parametrized(from_module):
        return to_module
    table: Any = from_module.parametrizations
    for name in list(table) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in table[name]:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        originals = ["original"] if table[name].is_tensor else [
            f"original{i}" for i in range(table[name].ntensors)
        ]  # fmt: skip
        for original in originals:
            setattr(target, original, getattr(table[name], original))
    return to_module
