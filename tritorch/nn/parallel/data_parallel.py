"""DataParallel on one device: the module itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import cuda
from tritorch.core.device import device as Device
from tritorch.nn.modules.module import Module


def _index(device: Any) -> int:
    if isinstance(device, int):
        return device
    return Device(device).index or 0


def _one(device_ids: Sequence[Any]) -> list[int]:
    """The one device; several are refused."""
    indices = [_index(device) for device in device_ids]
    if len(indices) > 1:
        raise NotImplementedError(
            f"tritorch: DataParallel over several GPUs (device_ids={indices}) is not implemented; "
            f"pass device_ids=[{indices[0]}], or use one process for each GPU"
        )
    return indices


class DataParallel(Module):
    """A module on one GPU; without a GPU, as it is."""

    module: Any

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module = module
        if not cuda.is_available():
            self.device_ids: list[int] = []
            return
        self.dim = dim
        self.device_ids = _one([cuda.current_device()] if device_ids is None else device_ids)
        self.output_device = self.device_ids[0] if output_device is None else _index(output_device)
        self.src_device_obj = Device("cuda", self.device_ids[0])
        self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result; inputs are moved to its device."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        where = self.src_device_obj
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            if tensor.device != where:
                raise RuntimeError(
                    f"module must have its parameters and buffers on device {where} "
                    f"(device_ids[0]) but found one of them on device: {tensor.device}"
                )
        out = self.module(*_moved(inputs, where), **_moved(kwargs, where))
        return _moved(out, Device("cuda", self.output_device))


def _moved(value: Any, device: Any) -> Any:
    from tritorch.core.tensor import Tensor

    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)(*(_moved(item, device) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    if isinstance(value, dict):
        return type(value)((key, _moved(item, device)) for key, item in value.items())
    return value


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
    output_device: Any = None, dim: int = 0, module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """module(*inputs) on one GPU."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
