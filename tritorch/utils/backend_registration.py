"""A name for the device type that is nobody's, and methods of tensors and modules for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core import device as devices
from tritorch.core.naming import package
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage
from tritorch.nn.modules.module import Module
from tritorch.nn.utils.rnn import PackedSequence

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

# Types that PyTorch has code for: no backend can take their name.
_IN_TREE = (
    "cpu", "cuda", "hip", "fpga", "maia", "xpu", "mkldnn", "ideep", "opengl", "opencl", "vulkan",
    "xla", "mps", "meta", "hpu", "ipu", "mtia", "lazy", "ve",
)  # fmt: skip
_privateuse1_backend_name = "privateuseone"


def rename_privateuse1_backend(backend_name: str) -> None:
    """What a program calls the type of device that is nobody's; said once in a process."""
    global _privateuse1_backend_name
    if not isinstance(backend_name, str):
        raise TypeError(
            f"_rename_privateuse1_backend expects a str, but got {type(backend_name).__name__}"
        )
    if backend_name in _IN_TREE:
        raise RuntimeError(
            f"Cannot register privateuse1 backend with in-tree device name: {backend_name}"
        )
    now = devices.renamed.name
    if now not in ("privateuseone", backend_name):
        raise RuntimeError(
            "torch.register_privateuse1_backend() has already been set! Current backend: " + now
        )
    devices.renamed.name = _privateuse1_backend_name = backend_name


def _module() -> Any:
    torch = package()
    return vars(torch).get(devices.renamed.name)


def _register_once(owner: Any, name: str, what: Any) -> None:
    if hasattr(owner, name):
        raise RuntimeError(
            f"The custom device module of {owner} has already been registered with {name}"
        )
    setattr(owner, name, what)


def _index(name: str, device: Any = None) -> int:
    """The index behind a device of the backend; its current one for None."""
    if isinstance(device, str):
        device = devices.device(device)
    if isinstance(device, devices.device):
        if device.type != name:
            raise RuntimeError(f"Invalid device, must be {name} device")
        device = device.index
    if device is None:
        current: Callable[[], int] | None = getattr(_module(), "current_device", None)
        return current() if current else 0
    return device


_normalization_device = _index


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: list[Any] | None = None,
) -> None:
    """Gives tensors, modules, packed sequences and storages `is_<name>` and `<name>()`."""
    name = devices.renamed.name
    asked = f"is_{name}"

    def moved(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        where = devices.device(f"{name}:{_index(name, device)}")
        return self.to(device=where, non_blocking=non_blocking, **kwargs)

    moved.__name__ = name
    here = property(lambda self: self.device.type == name)
    if for_tensor:
        _register_once(Tensor, asked, here)
        _register_once(Tensor, name, moved)
    lacks = "Because torch.Tensor doesn't has the method "
    advice = "For this error, you can try setting for_tensor=True."
    if for_module:
        if not hasattr(Tensor, name):
            raise RuntimeError(
                f"Can not automatically generate {name}() method for torch.nn.Module."
                f"{lacks}{name}().{advice}"
            )
        _register_once(
            Module, name, lambda self, device=None: self._apply(lambda t: getattr(t, name)(device))
        )
    if for_storage:
        _storages(name, asked, here, unsupported_dtype or [])
    if for_packed_sequence:
        if not hasattr(Tensor, asked) or not hasattr(Tensor, name):
            raise RuntimeError(
                f"Can not automatically generate {asked}() or {name}() method for "
                f"torch.nn.utils.rnn.PackedSequence.{lacks}{asked}()or {name}().{advice}"
            )
        _register_once(PackedSequence, asked, property(lambda self: self.data.device.type == name))
        _register_once(
            PackedSequence, name,
            lambda self, *args, **kwargs: self.to(*args, **{"device": name, **kwargs}),
        )  # fmt: skip


def _storages(name: str, asked: str, here: Any, unsupported: list[Any]) -> None:
    def moved(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        index = _index(name, device)
        if getattr(self, asked) and self.get_device() == index:
            return self
        made = UntypedStorage(self.size(), device=devices.device(f"{name}:{index}"))
        made.copy_(self, non_blocking)
        return made

    def typed(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if self.dtype in unsupported:
            raise RuntimeError(
                f"Cannot create {name} storage as {self.dtype} dtype is not supported by this "
                "backend"
            )
        return self._new_wrapped_storage(
            getattr(self._untyped_storage, name)(device, non_blocking, **kwargs)
        )

    for owner, to in ((UntypedStorage, moved), (TypedStorage, typed)):
        _register_once(owner, asked, here)
        _register_once(owner, name, to)


def _get_custom_mod_func(func_name: str) -> Any:
    """A function of the module that the backend registered."""
    if not isinstance(func_name, str):
        raise AssertionError(f"func_name must be `str`, but got `{type(func_name)}`.")
    name = devices.renamed.name
    function = getattr(_module(), func_name, None)
    if function is None:
        raise RuntimeError(
            f"Try to call torch.{name}.{func_name}. The backend must register a custom backend "
            f"module with `torch._register_device_module('{name}', BackendModule)`. And "
            f"BackendModule needs to have the following API's:\n `{func_name}(*args, **kwargs)`. \n"
        )
    return function
