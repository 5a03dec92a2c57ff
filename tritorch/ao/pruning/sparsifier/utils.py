"""Names of modules and tensors in models, and the parametrization that applies a mask."""

from __future__ import annotations

from itertools import chain
from typing import Any

from tritorch import Tensor
from tritorch.nn import Module
from tritorch.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_contains_param",
    "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: Module, parametrization: type[Module]) -> bool:
    """True if a tensor of the module has a parametrization of this type."""
    return is_parametrized(module) and any(
        isinstance(entry, parametrization)
        for entry in chain.from_iterable(module.parametrizations.values())
    )


def swap_module(mod: Module, mapping: dict[type[Module], type[Module]]) -> Module:
    """The module that `mapping` has for this one's type, made by `from_dense`; else `mod` itself.

    Hooks and the device are those of `mod`.
    """
    target = mapping.get(type_before_parametrizations(mod))
    if target is None:
        return mod
    swapped: Module = target.from_dense(mod)  # type: ignore[attr-defined]
    for before in mod._forward_pre_hooks.values():
        swapped.register_forward_pre_hook(before)
    for after in mod._forward_hooks.values():
        swapped.register_forward_hook(after)
    devices = {tensor.device for tensor in chain(mod.parameters(), mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(
            "swap_module only works with cpu or single-device CUDA modules, "
            f"but got devices {devices}"
        )
    for device in devices:
        swapped.to(device)
    return swapped


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """The path of `module` in `model`, None when it is not there."""
    if module is model:
        return ""
    for name, child in model.named_children():
        path = module_to_fqn(child, module, ".")
        if path is not None:
            return f"{prefix}{name}{path}"
    return None


def fqn_to_module(model: Any, path: str) -> Any:
    """The module or tensor at a path, None when there is none."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """A tensor's path as the entries that a sparsifier's group has for it."""
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }


class FakeSparsity(Module):
    """Parametrization that multiplies a tensor by a mask.

    The mask's contents may change, the object stays the same. It is not part of the state dict:
    the sparsifier saves it.
    """

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: masks belong to the sparsifier."""
        return {}
