"""DataParallel: a batch cut over the GPUs of one process; without a GPU, the module itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C, cuda
from tritorch.core.device import cuda_index, device as Device
from tritorch.nn.modules.module import Module
from tritorch.nn.parallel import scatter_gather
from tritorch.nn.parallel.parallel_apply import parallel_apply
from tritorch.nn.parallel.replicate import replicate

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module whose batches are computed on several GPUs, a piece on each.

    The module lives on the first; every call copies its parameters to the others, and their
    gradients come back.
    """

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
        given = range(cuda.device_count()) if device_ids is None else device_ids
        self.device_ids = [cuda_index(each) for each in given]
        first = self.device_ids[0] if output_device is None else output_device
        self.output_device = cuda_index(first)
        self.src_device_obj = Device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's results, on the output device."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for tensor in (*self.module.parameters(), *self.module.buffers()):
            if tensor.device != self.src_device_obj:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{self.src_device_obj} (device_ids[0]) but found one of them on device: "
                    f"{tensor.device}"
                )
        placed, named = self.scatter(inputs, kwargs, self.device_ids)
        if not placed and not named:
            placed, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*placed[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(placed)])
        return self.gather(self.parallel_apply(replicas, placed, named), self.output_device)

    def replicate(self, module: Any, device_ids: Sequence[Any]) -> list[Any]:
        """A copy of the module on each GPU."""
        return replicate(module, device_ids, not _C.is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[Any]) -> Any:
        """The arguments in pieces."""
        return scatter_gather.scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Any, kwargs: Any) -> list[Any]:
        """The results of the copies."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Their results put together."""
        return scatter_gather.gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
    output_device: Any = None, dim: int = 0, module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """module(*inputs) on several GPUs, a piece of the batch on each."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    if not cuda.is_available():
        raise RuntimeError("device type could not be determined")
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
